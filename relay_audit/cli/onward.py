"""Going on with a run: after an approval, a pause or a crash; and who speaks to a run from this command line."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import typer

from relay_audit.approval import actor_of
from relay_audit.audit import archived_library
from relay_audit.cli import arguments, options, permit
from relay_audit.cli.console import emit, interactive, language, say
from relay_audit.cli.course import resume
from relay_audit.cli.flow import Invocation
from relay_audit.cli.opening import opened
from relay_audit.clock import SystemClock
from relay_audit.planning import Knowing
from relay_audit.prices import PriceFile
from relay_audit.quote import ApprovalChannel
from relay_audit.recorder import Recorder
from relay_audit.signals import Resume
from relay_audit.steering import Reply, Sender, give
from relay_audit.store import Store, run_lock, when_free

PATIENCE_S = 2.0
"""How long `resume` waits for a process that has just heard a pause to let go of the run."""


def resume_run(
    run: options.RunId,
    fail_on: options.FailOnOption = "medium",
    allow_inconclusive: options.AllowInconclusive = False,
    allow_origin: options.AllowOrigin = None,
    allow_official_key_to: options.AllowOfficialKeyTo = "",
    allow_private: options.AllowPrivate = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Go on within the approval, also after a crash or a pause. What was sent is never sent again."""
    call = Invocation(
        lang=language(lang, os.environ), as_json=json, fail_on=arguments.severity(fail_on),
        allow_inconclusive=allow_inconclusive,
    )  # fmt: skip
    call.permissions = arguments.permissions(
        allow_origin, allow_official_key_to, private=allow_private, key="", may_ask=call.may_ask
    )
    with opened(run) as store:
        if (reply := _taken_back(store)) is not None:
            show_reply(reply, {}, json)
            return
        with run_lock(store.path):
            raise typer.Exit(resume(store, call))


def _taken_back(store: Store) -> Reply | None:
    """Where a process works that was asked to pause: the pause is taken back and it goes on, unless it has just let go."""
    recorder = Recorder(store, SystemClock())
    with when_free(store.path) as free:
        if free or not recorder.history.pausing:
            return None
    reply = give(recorder, Resume(), sender_here(recorder, alone=False))
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with when_free(store.path) as free:
            if free:
                return None
        time.sleep(0.05)
    return reply


def sender_here(recorder: Recorder, *, alone: bool) -> Sender:
    """Who speaks here, and the packs that the run carries."""
    terminal = interactive(as_json=False, no_input=False, environ=os.environ)
    channel: ApprovalChannel = permit.channel_of(os.environ, terminal=terminal)

    def knowing() -> Knowing:
        library = archived_library(recorder.history)
        return Knowing(library.packs, library.knowledge, PriceFile())

    return Sender(actor_of(channel), alone, knowing)


def show_reply(reply: Reply, details: dict[str, Any], as_json: bool) -> None:
    run = reply.run_id
    then = {"cancelled": f"relay-audit report {run} --for internal -o internal.html", "paused": f"relay-audit resume {run}",
            "blocked": f"relay-audit revise {run}"}.get(reply.status, f"relay-audit status {run}")  # fmt: skip
    then = details.get("approve_cmd", then)
    if as_json:
        emit({**details, **reply.model_dump(mode="json"), "then": then})
    else:
        heard = "" if reply.heard else "  (heard before the next request)"
        say(f"{run}  {reply.signal}: {reply.status}{heard}\n  -> {then}", sys.stdout)
