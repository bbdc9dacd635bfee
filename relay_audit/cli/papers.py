"""`report`: a stored run as a page, a picture, a text or a table, for one of three readers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from relay_audit.cli import options
from relay_audit.cli.console import emit, language, readable, say
from relay_audit.cli.opening import opened
from relay_audit.clock import SystemClock
from relay_audit.errors import UsageError
from relay_audit.filing import Order, report_bytes
from relay_audit.issues import issue
from relay_audit.judgement import judged_by
from relay_audit.library import archived_library
from relay_audit.policy import read_policy
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.leakguard import write_asked
from relay_audit.report.render import AUDIENCES, FORMATS, Audience, Format
from relay_audit.store import Store, run_lock
from relay_audit.words import Lang

FORWARDED = ("png", "text")
"""Formats that are passed on in a chat: without a word from the buyer they are anonymous."""
BINARY = ("pdf", "png")
REASON_AT_MOST = 300
"""Characters."""


def report(
    run: options.RunId,
    audience: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="|".join(AUDIENCES),
            show_default=False,
            help="Whom it is for; internal, but public for png and text.",
        ),
    ] = "",
    format: Annotated[str, typer.Option("--format", metavar="|".join(FORMATS))] = "html",  # noqa: A002
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="A rule table of your own decides.", show_default=False),
    ] = None,
    supersedes: Annotated[
        int | None,
        typer.Option(
            "--supersedes", metavar="N", help="Issue the next version, in place of version N.", show_default=False
        ),
    ] = None,
    because: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="Why it replaces the version before.", show_default=False)
    ] = "",
    withdraw: Annotated[
        str,
        typer.Option(
            "--withdraw", metavar="TEXT", help="With --supersedes: it no longer holds, and why.", show_default=False
        ),
    ] = "",
    lang: options.LangOption = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """Render a report from a stored run, past the leak guard."""
    whom, form = _wanted(audience, format, output)
    _check_reason(because, withdraw, supersedes)
    rules = read_policy(policy) if policy else None
    chosen = language(lang, os.environ)
    with opened(run) as store:
        if supersedes is not None:
            with run_lock(store.path):
                issue(Recorder(store, SystemClock()), supersedes, because, withdraw)
        history = replay(store)
        judgement = judged_by(history, archived_library(history), rules.rules if rules else ())
        order = Order(policy=rules, file_name=output.name if output else "", masked=output is None)
        raw = report_bytes(history, judgement, whom, form, chosen, os.environ, order)
        if output is not None:
            write_asked(output, raw)
            _note(store, raw, whom, form, chosen)
    if not audience and whom == "public" and not json:
        # Who reads on is the buyer, and his own edition says more.
        say(Catalogue.load(readable(chosen, sys.stderr)).text("notice.public_edition"))
    if output is None:
        say(raw.decode("utf-8-sig").rstrip("\n"), sys.stdout)
        return
    facts = {"file": str(output), "for": whom, "format": form, "lang": chosen, "bytes": len(raw)}
    emit(facts) if json else say(str(output))


def _wanted(audience: str, form: str, output: Path | None) -> tuple[Audience, Format]:
    whom = audience or ("public" if form in FORWARDED else "internal")
    if whom not in AUDIENCES or form not in FORMATS:
        raise UsageError("no such report here", next_step=f"--for {'|'.join(AUDIENCES)}, --format {'|'.join(FORMATS)}")
    if form in BINARY and output is None:
        raise UsageError(f"{form} goes into a file", next_step=f"-o report.{form}")
    return whom, form


def _check_reason(because: str, withdraw: str, supersedes: int | None) -> None:
    if (because or withdraw) and supersedes is None:
        raise UsageError(
            "--because and --withdraw belong to a new version", next_step="say which one it replaces: --supersedes 1"
        )
    if max(len(because), len(withdraw)) > REASON_AT_MOST:
        raise UsageError(f"a reason has at most {REASON_AT_MOST} characters", next_step="shorten it")


def _note(store: Store, raw: bytes, whom: Audience, form: Format, lang: Lang) -> None:
    """The digest of what was written, so that `verify` knows it again; left out while another process has the run."""
    payload = {
        "kind": "report", "audience": whom, "lang": lang, "format": form, "sha256": hashlib.sha256(raw).hexdigest(),
    }  # fmt: skip
    with contextlib.suppress(UsageError), run_lock(store.path):
        if all(event.payload.get("sha256") != payload["sha256"] for event in store.events_of("artifact.created")):
            Recorder(store, SystemClock()).note("artifact.created", payload)
