"""Commands that read: status, assess, report, doctor; and the approval, which writes one event."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit import audit
from relay_audit.checkup import capabilities, leaks, stale
from relay_audit.cli import options, screens
from relay_audit.cli.console import TRUTHY, emit, language, say
from relay_audit.cli.flow import Invocation, approver
from relay_audit.clock import SystemClock
from relay_audit.errors import ApprovalRefused, StoreError, Unfinished, UsageError
from relay_audit.filing import report_bytes
from relay_audit.quote import ApprovalChannel
from relay_audit.recorder import Recorder
from relay_audit.replay import History, replay
from relay_audit.report.leakguard import write_report
from relay_audit.store import Store, locate, runs_in
from relay_audit.words import money
from relay_audit.workspace import workspace

LATEST = 10


@contextmanager
def opened(run: str) -> Iterator[Store]:
    space = workspace(os.environ, Path.cwd())
    with Store.open(locate(run, [space.audits], space.state)) as store:
        yield store


def give_approval(store: Store, digest: str, ceiling: Decimal | None, *, terminal: bool) -> dict[str, Any]:
    """Records the approval; refused from a channel that the accused may be steering."""
    recorder = Recorder(store, SystemClock())
    channel: ApprovalChannel = (
        "terminal" if terminal else "ci" if os.environ.get("CI", "").lower() in TRUTHY else "agent"
    )
    clash = recorder.history.facts.conflict or audit.conflict(recorder.history.target, os.environ)
    if clash and channel != "terminal":
        raise ApprovalRefused(
            "whoever approves here is served by the relay under audit; only a person at a terminal may approve",
            next_step="run the approve command yourself, in a terminal",
            details={"conflict": clash},
        )
    given = audit.approve(recorder, digest, ceiling or Decimal(0), approver(), channel)
    return {"run_id": store.run_id, "quote_digest": given.quote_digest, "max_usd": money(given.ceiling),
            "channel": given.channel, "then": f"relay-audit resume {store.run_id}"}  # fmt: skip


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


def status(
    run: Annotated[str, typer.Argument(metavar="[RUN]", show_default=False)] = "", json: options.Json = False
) -> None:
    """Where a run stands; without a run, the latest ones."""
    if not run:
        space = workspace(os.environ, Path.cwd())
        rows = [row for path in runs_in(space.audits)[:LATEST] if (row := _row(path))]
        emit({"runs": rows}) if json else say("\n".join(map(_line, rows)) or "no runs here", sys.stdout)
        return
    with opened(run) as store:
        row = _standing(replay(store))
    emit(row) if json else say(_line(row), sys.stdout)


def _row(path: Path) -> dict[str, Any]:
    """Empty for a run that broke off before its first event; one that cannot be read says so and hides no other."""
    try:
        with Store.open(path) as store:
            return _standing(replay(store))
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


def _standing(history: History) -> dict[str, Any]:
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
    if history.status == "awaiting_approval" and quote is not None and history.approval is None:
        row["approve_cmd"] = f"relay-audit approve {run} --quote {quote.digest} --max-usd {money(quote.at_most)}"
    elif history.status not in ("completed", "failed", "cancelled"):
        row["then"] = f"relay-audit resume {run}"
    else:
        row["then"] = f"relay-audit report {run} --for internal"
    return row


def _line(row: dict[str, Any]) -> str:
    return f"{row['run_id']}  {row['status']:<18} {row['model']}\n  -> {row.get('approve_cmd') or row['then']}"


def assess(
    run: options.RunId,
    knowledge: Annotated[
        str, typer.Option("--knowledge", metavar="archived|current", help="Whose knowledge judges.")
    ] = "archived",
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Judge a stored run again; nothing is sent."""
    if knowledge not in ("archived", "current"):
        raise UsageError("--knowledge is archived or current", next_step="archived reproduces the run's own judgement")
    chosen = language(lang, os.environ)
    with opened(run) as store:
        judgement = audit.judge(store, current=knowledge == "current")
    emit(screens.short_object(judgement, chosen, {})) if json else say(
        screens.summary(judgement, chosen, {}), sys.stdout
    )


def report(
    run: options.RunId,
    audience: Annotated[str, typer.Option("--for", metavar="vendor|internal", help="Whom it is for.")] = "internal",
    format: Annotated[str, typer.Option("--format", metavar="html|json")] = "html",  # noqa: A002
    lang: options.LangOption = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", show_default=False)] = None,
) -> None:
    """Render a report from a stored run, past the leak guard."""
    if audience not in ("vendor", "internal") or format not in ("html", "json"):
        raise UsageError("no such report here", next_step="--for vendor|internal, --format html|json")
    with opened(run) as store:
        history = replay(store)
        raw = report_bytes(history, audit.judge(store), audience, format, language(lang, os.environ), os.environ)  # type: ignore[arg-type]
    if output is None:
        say(raw.decode().rstrip("\n"), sys.stdout)
    else:
        write_report(output, raw)
        say(str(output))


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
        rows = stale(audit.load_library().knowledge, SystemClock().now().date())
    else:
        rows = capabilities(space, os.environ)
    if json:
        emit({"rows": rows})
    else:
        say("\n".join(f"{r['state']:<9} {r['name']:<24} {r['what']}" for r in rows) or "nothing", sys.stdout)
    raise typer.Exit(6 if leaks_in is not None and any(r["state"] == "leak" for r in rows) else 0)
