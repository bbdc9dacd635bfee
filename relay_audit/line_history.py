"""The runs of one line of supply, oldest first: each with its verdict, and with whose change it was since the one before."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from relay_audit.difference import difference
from relay_audit.errors import RelayAuditError
from relay_audit.judgement import judge
from relay_audit.replay import History, replay
from relay_audit.store import Store, runs_in
from relay_audit.words import money


@dataclass
class LineRun:
    run_id: str
    at: dt.datetime
    status: str
    verdict: str = ""
    """Empty for a run that did not come to its end."""
    findings: list[str] = field(default_factory=list)
    """Codes above info."""
    spent: str = ""
    changes: dict[str, int] = field(default_factory=dict)
    """Cause → how many changes of weight since the run before."""
    relay_changed: bool = False


def history_of(line: str, root: Path) -> list[LineRun]:
    """Runs below `root` whose target has this name, host or model. One that cannot be read is left out."""
    rows: list[LineRun] = []
    last: Path | None = None
    for path in reversed(runs_in(root)):
        try:
            with Store.open(path) as store:
                run = replay(store)
                if not _is_of(line, run):
                    continue
                row = _row(store, run)
                if row.verdict and last is not None:
                    _since(row, last, store)
            rows.append(row)
            last = path if row.verdict else last
        except (RelayAuditError, ValueError, KeyError):
            continue
    return rows


def _is_of(line: str, run: History) -> bool:
    facts = run.facts
    host = urlsplit(facts.relay_origin).hostname or ""
    return line in (facts.name, host, facts.relay_origin, facts.model, f"{facts.model}@{host}")


def _row(store: Store, run: History) -> LineRun:
    row = LineRun(store.run_id, run.started_at, run.status, spent=money(run.ledger.total("settled")))
    if run.status == "completed":
        judgement = judge(store)
        row.verdict = judgement.verdict.verdict
        row.findings = [finding.code for finding in judgement.findings if finding.above_info]
    return row


def _since(row: LineRun, last: Path, store: Store) -> None:
    with Store.open(last) as before:
        found = difference(before, store)
    row.changes = dict(Counter(change.cause for change in found.changes if change.weighs))
    row.relay_changed = found.relay_changed
