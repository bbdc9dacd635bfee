"""Commands that read: assess, doctor; and the approval, which writes one event."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit.checkup import capabilities, leaks, stale
from relay_audit.cli import options
from relay_audit.cli.console import emit, say
from relay_audit.cli.flow import Invocation
from relay_audit.cli.opening import opened
from relay_audit.clock import SystemClock
from relay_audit.library import load_library
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.workspace import workspace


def show_quote(recorder: Recorder, call: Invocation, details: dict[str, Any], *, show_requests: bool) -> None:
    """The quote as an object or for people, with every body if wanted."""
    plan = recorder.history.plan
    bodies = (
        [{"step": s.id, "side": s.side, "path": s.path, "body": s.body} for s in plan.steps]
        if plan and show_requests
        else []
    )
    if call.as_json:
        emit({**details, "requests": bodies} if show_requests else details)
        return
    for body in bodies:
        emit(body)
    say(f"-> {details['approve_cmd']}\n   {details['then']}", sys.stdout)


def doctor(
    stale_only: Annotated[bool, typer.Option("--stale", help="Facts past their date, and what renews them.")] = False,
    leaks_in: Annotated[
        str | None,
        typer.Option("--leaks", metavar="RUN", help="Look for this environment's keys in a run.", show_default=False),
    ] = None,
    json: options.Json = False,
) -> None:
    """Each capability: ready, degraded or absent, and what to do."""
    space = workspace(os.environ, Path.cwd())
    if leaks_in is not None:
        with opened(leaks_in) as store:
            rows = leaks(store.path, replay(store).target, os.environ)
    elif stale_only:
        rows = stale(load_library().knowledge, SystemClock().now().date())
    else:
        rows = capabilities(space, os.environ)
    if json:
        emit({"rows": rows})
    else:
        say("\n".join(f"{r['state']:<9} {r['name']:<24} {r['what']}" for r in rows) or "nothing", sys.stdout)
    raise typer.Exit(6 if leaks_in is not None and any(r["state"] == "leak" for r in rows) else 0)
