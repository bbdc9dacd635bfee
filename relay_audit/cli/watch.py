"""Commands that watch a run: where it stands, and what happened, from a cursor, also while it goes on."""

from __future__ import annotations

import asyncio
import json as json_text
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit.cli import detached, options, screens
from relay_audit.cli.console import emit, language, readable, say
from relay_audit.cli.opening import opened
from relay_audit.clock import Clock, SystemClock
from relay_audit.errors import StoreError, Unfinished
from relay_audit.events import Event
from relay_audit.replay import FINAL, History, replay
from relay_audit.store import Store, runs_in, when_free
from relay_audit.words import LANGS, Lang, money
from relay_audit.workspace import workspace

LATEST = 10
POLL_S = 0.2
TIMEOUT_S = 3600


def status(
    run: Annotated[str, typer.Argument(metavar="[RUN]", show_default=False)] = "",
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Where a run stands; without a run, the latest ones."""
    spoken = language(lang, os.environ)
    if not run:
        space = workspace(os.environ, Path.cwd())
        rows = [row for path in runs_in(space.audits)[:LATEST] if (row := _row(path))]
        emit({"runs": rows}) if json else say("\n".join(map(_line, rows)) or "no runs here", sys.stdout)
        return
    with opened(run) as store:
        history = replay(store)
        row = standing(history) | more(history)
        said = screens.checkpoint(history.checkpoint, readable(spoken))
    emit(row) if json else say(_line(row) + (f"\n  {said}" if said else ""), sys.stdout)


def events(
    run: options.RunId,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Only events after this one.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more, until the run has ended.")] = False,
    timeout: Annotated[
        int, typer.Option("--timeout", metavar="S", min=1, help="Seconds that --follow waits in all.")
    ] = TIMEOUT_S,
    text: Annotated[bool, typer.Option("--text", help="One line each for people, instead of JSON.")] = False,
    lang: options.LangOption = None,
    json: options.Json = False,  # noqa: ARG001  it is JSON unless --text is given
) -> None:
    """What happened, one JSON object a line, in order. Reading never changes anything."""
    spoken = language(lang, os.environ)
    with opened(run) as store:
        found = followed(store, after, SystemClock(), timeout) if follow else store.events(after)
        try:
            for event in found:
                say(_text(event, readable(spoken)) if text else _json(event), sys.stdout)
        except BrokenPipeError:  # whoever read has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def followed(store: Store, after: int, clock: Clock, patience: float) -> Iterator[Event]:
    """Events as they come, ending with the terminal one. Raises `Unfinished` when that has not come in time."""
    until = clock.monotonic() + patience
    end = store.terminal()
    if end is not None and end.seq <= after:
        yield from store.events(after)
        return
    while True:
        for event in store.events(after):
            yield event
            after = event.seq
            if event.terminal:
                return
        if clock.monotonic() >= until:
            raise Unfinished(
                f"the run has not ended in {patience:.0f} seconds",
                next_step=f"go on from there: relay-audit events {store.run_id} --after {after} --follow",
                details={"run_id": store.run_id, "after": after},
            )
        asyncio.run(clock.sleep(POLL_S))


def standing(history: History) -> dict[str, Any]:
    """Where a run stands, in short."""
    quote, run = history.quote, history.store.run_id
    row: dict[str, Any] = {
        "run_id": run,
        "status": history.status,
        "model": history.facts.model,
        "started_at": history.started_at.isoformat(timespec="seconds"),
        "stopped": history.stopped,
        "evidence_head": history.store.head(),
        "exchanges": len(history.exchanges),
        "unconfirmed": sum(e.delivery == "unconfirmed" for e in history.exchanges.values()),
        "spent": money(history.ledger.total("settled")),
    }
    if quote is not None:
        row |= {"quote_digest": quote.digest, "quoted_at_most": money(quote.at_most)}
    if history.status == "awaiting_approval" and quote is not None and not history.covered:
        row["approve_cmd"] = f"relay-audit approve {run} --quote {quote.digest} --max-usd {money(quote.at_most)}"
    elif history.status == "blocked":
        row["then"] = f"relay-audit revise {run}"
    elif history.status not in FINAL.values():
        row["then"] = f"relay-audit resume {run}"
    else:
        row["then"] = f"relay-audit report {run} --for internal -o internal.html"
    return row


def more(history: History) -> dict[str, Any]:
    """The rest that one run's status says: whose it is, how far it came, what was permitted, what was asked of it."""
    store, plan = history.store, history.plan
    with when_free(store.path) as free:
        working = not free
    last, end = store.last(), store.terminal()
    row: dict[str, Any] = {
        "owner": history.owner,
        "scope": history.scope,
        "working": working and history.status not in FINAL.values(),
        "asked": history.wish,
        "plan": {"sent": len(history.intents), "planned": len(plan.chargeable()) + len(plan.chargeable("official"))}
        if plan
        else None,
        "checkpoint": {lang: screens.checkpoint(history.checkpoint, lang) for lang in LANGS},
        "last_seq": last.seq if last else 0,
        "terminal": {"type": end.type, "seq": end.seq} if end else None,
        "events_cmd": f"relay-audit events {store.run_id} --after {last.seq if last else 0} --follow",
    }
    if history.approval is not None:
        facts = history.approval.model_dump(mode="json")
        row["approval"] = {**facts, "ceiling": money(history.approval.ceiling), "holds": history.covered}
    if (done := detached.done_record(store.path)) is not None:
        row["done"] = done
    return row


def _row(path: Path) -> dict[str, Any]:
    """Empty for a run that broke off before its first event; one that cannot be read says so and hides no other."""
    try:
        with Store.open(path) as store:
            return standing(replay(store))
    except Unfinished:
        return {}
    except StoreError as error:
        return {
            "run_id": path.name,
            "status": "unreadable",
            "model": "",
            "message": error.message,
            "then": error.next_step,
        }


def _line(row: dict[str, Any]) -> str:
    return f"{row['run_id']}  {row['status']:<18} {row['model']}\n  -> {row.get('approve_cmd') or row['then']}"


def _json(event: Event) -> str:
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json_text.dumps(event.model_dump(mode="json"), ensure_ascii=not utf8)


def _text(event: Event, lang: Lang) -> str:
    said = screens.checkpoint(event.payload, lang) if event.type == "checkpoint.written" else ""
    rest = said or " ".join(f"{key}={value}" for key, value in event.payload.items() if isinstance(value, str | int))
    return f"{event.seq:>5}  {event.ts:%Y-%m-%d %H:%M:%S}  {event.actor:<8} {event.type:<20} {screens.shown(rest)}"
