"""For a buyer who has already paid: what is used, what is left, and a message to the seller, ready to paste.

The message names day, model, request ids and charges, and asks one question per finding. It says nothing about intent.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from relay_audit.evidence import Evidence
from relay_audit.report.pages import Page
from relay_audit.report.side_by_side import cited, trace
from relay_audit.target import Paid

QUESTIONS_AT_MOST = 5
IDS_AT_MOST = 3


@dataclass(frozen=True)
class Used:
    """In site dollars, as the relay counts; None where the relay tells nothing."""

    used: Decimal | None
    left: Decimal | None
    left_money: Decimal | None
    """What is left, in what the buyer paid with."""


def used_of(evidence: Evidence, paid: Paid) -> Used:
    """From the last balance the relay showed; without one, only what the buyer paid is known."""
    per_unit = evidence.site.quota_per_unit
    known = [one for one in evidence.balance if one.available is not None or one.spent(per_unit) is not None]
    if not known:
        return Used(None, None, None)
    last = known[-1]
    used, left = last.spent(per_unit), None if last.unlimited else last.available
    if left is None and used is not None:
        left = max(paid.credited - used, Decimal(0))
    if used is None and left is not None:
        used = max(paid.credited - left, Decimal(0))
    worth = (left * paid.amount / paid.credited).quantize(Decimal("0.01")) if left is not None else None
    return Used(used, left, worth)


def message(page: Page, used: Used | None) -> str:
    """Plain text in the page's language."""
    text = page.text
    differing = [f for f in page.findings if f.outcome == "mismatch" and f.above_info][:QUESTIONS_AT_MOST]
    lines = [
        text("seller.opening", date=page.evidence.started_at.strftime("%Y-%m-%d"), model=page.evidence.target.model),
        "",
    ]
    for place, finding in enumerate(differing, start=1):
        lines.append(text("seller.question", n=str(place), title=page.phrases.title(finding)))
        traces = [trace(e, page.evidence, page.phrases) for e in cited(finding, page.evidence) if e.side == "relay"]
        for row in traces[:IDS_AT_MOST]:
            ids = row.request_id or row.response_id or row.id
            lines.append(text("seller.request", time=row.time, id=ids, charge=row.charge or text("joint.unknown")))
        lines.append(text("seller.ask"))
    if used is not None and used.left is not None:
        lines += ["", text("seller.left", left=f"{used.left:f}")]
    lines += ["", text("seller.closing")]
    return "\n".join(lines)
