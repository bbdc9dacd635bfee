"""Commands that say something to a run while it lives: decline, pause, cancel, revise, add-context; and going on."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from relay_audit.cli import options, screens
from relay_audit.cli.console import language, say
from relay_audit.cli.flow import approval_needed
from relay_audit.cli.onward import sender_here, show_reply
from relay_audit.cli.opening import opened
from relay_audit.clock import SystemClock
from relay_audit.errors import UsageError
from relay_audit.prices import read_price_file
from relay_audit.recorder import Recorder
from relay_audit.signals import AddContext, Cancel, Decline, Pause, Revise, Signal
from relay_audit.steering import give
from relay_audit.store import when_free

SignalId = Annotated[
    str,
    typer.Option(
        "--id", metavar="ID", help="Your own id of this signal: given again, it changes nothing.", show_default=False
    ),
]


def decline(
    run: options.RunId,
    line: Annotated[
        list[str] | None,
        typer.Option("--line", metavar="LINE", help="Only this line of the quote (probe@side).", show_default=False),
    ] = None,
    id_: SignalId = "",
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Say no to the quote, or to some of its lines: what they would have sent is never sent."""
    _send(run, Decline(id=id_, lines=tuple(line or ())), lang, json)


def pause(run: options.RunId, id_: SignalId = "", lang: options.LangOption = None, json: options.Json = False) -> None:
    """Finish the request in flight, then send nothing until `resume`."""
    _send(run, Pause(id=id_), lang, json)


def cancel(run: options.RunId, id_: SignalId = "", lang: options.LangOption = None, json: options.Json = False) -> None:
    """End the run. What is in flight is recorded when it comes back; nothing else leaves."""
    _send(run, Cancel(id=id_), lang, json)


def revise(
    run: options.RunId,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="PROBE", help="Leave this probe out.", show_default=False)
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="PROBE=OTHER", help="Put another probe in its place.", show_default=False),
    ] = None,
    id_: SignalId = "",
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Change what is left to send; the plan gets a new quote. Without options: a fresh quote of the same plan."""
    pairs = dict(_pair(text) for text in replace or ())
    _send(run, Revise(id=id_, drop=tuple(drop or ()), replace=pairs), lang, json)


def add_context(
    run: options.RunId,
    official_key_env: options.OfficialKeyEnv = None,
    official_base_url: options.OfficialBaseUrl = None,
    prices: options.PricesFile = None,
    line_name: Annotated[
        list[str] | None,
        typer.Option("--line-name", metavar="NAME", help="A line you have already; internal.", show_default=False),
    ] = None,
    lines_file: Annotated[
        str,
        typer.Option(
            "--lines-file", metavar="FILE", help="Your lines with their figures; internal.", show_default=False
        ),
    ] = "",
    id_: SignalId = "",
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Add what you know: the NAME of the vendor's key variable, your prices, the lines you have."""
    with opened(run) as store:
        ref = store.put_blob(read_price_file(prices).model_dump_json().encode()) if prices else ""
    said = AddContext(id=id_, official_key_env=official_key_env or "", official_base_url=official_base_url or "",
                      prices_ref=ref, line_names=tuple(line_name or ()), lines_file=lines_file)  # fmt: skip
    _send(run, said, lang, json)


def _send(run: str, signal: Signal, lang: str | None, as_json: bool) -> None:
    details: dict[str, Any] = {}
    with opened(run) as store, when_free(store.path) as free:
        recorder = Recorder(store, SystemClock())
        before = recorder.history.quote
        reply = give(recorder, signal, sender_here(recorder, alone=free))
        quote = recorder.history.quote
        if quote is not None and quote is not before and not recorder.history.covered:
            details = approval_needed(recorder, quote).details
            if not as_json:
                say(screens.quote_screen(recorder.history.evidence(), language(lang, os.environ)))
    show_reply(reply, details, as_json)


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise UsageError("--replace takes PROBE=OTHER", next_step="relay-audit probes list names the probes")
    return old, new
