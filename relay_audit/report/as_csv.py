"""The money of a run as a table: one row per reserved amount, and nothing that a spreadsheet would run as a formula."""

from __future__ import annotations

import csv
import io

from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer
from relay_audit.ledger import Entry
from relay_audit.report.edition import Audience
from relay_audit.report.side_by_side import ID_LIMIT, stamp
from relay_audit.report.terms import request_ids
from relay_audit.report.untrusted import show
from relay_audit.words import money

FORMULA = ("=", "+", "-", "@", "|", "%", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet read a cell as something to run. Amounts here are never negative, so a minus is a stranger's."""
BASE = ("number", "time_utc", "side", "probe", "state", "amount", "currency", "basis", "status")
LOOK_UP = ("relay_request_id", "response_id")


def ledger_csv(evidence: Evidence, audience: Audience) -> bytes:
    """UTF-8 with a mark in front, which spreadsheets need to read Chinese. The public edition has dates, no times and no ids."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    public = audience == "public"
    writer.writerow(BASE if public else (*BASE, *LOOK_UP))
    for place, entry in enumerate(evidence.ledger.entries, start=1):
        row = _row(evidence, entry, place, public=public)
        writer.writerow([defused(cell) for cell in row])
    return b"\xef\xbb\xbf" + out.getvalue().encode("utf-8")


def defused(cell: str) -> str:
    """The cell as text: an apostrophe in front of whatever could start a formula."""
    return f"'{cell}" if cell.lstrip().startswith(FORMULA) or cell.startswith(FORMULA) else cell


def _row(evidence: Evidence, entry: Entry, place: int, *, public: bool) -> list[str]:
    sent = next((exchange for exchange in evidence.exchanges if exchange.id == entry.exchange), None)
    step = evidence.plan.step(sent.step) if evidence.plan and sent else None
    moment = sent.sent_at if sent else evidence.started_at
    row = [
        str(place) if public else entry.exchange,
        moment.date().isoformat() if public else stamp(moment),
        entry.side,
        step.probe if step else "",
        entry.state,
        money(entry.amount),
        show(evidence.quote.currency, 8) if evidence.quote else "USD",
        entry.basis,
        str(sent.status) if sent and sent.status is not None else "",
    ]
    if public:
        return row
    logged = next((r for r in evidence.own_rows() if r.exchange == entry.exchange), None)
    asked = (logged.request_id if logged else "") or next(iter(request_ids(sent) if sent else ()), "")
    answered = pointer(sent.answer(), evidence.pack.answer.id) if sent else None
    return [*row, show(asked, ID_LIMIT), show(answered, ID_LIMIT) if isinstance(answered, str) else ""]
