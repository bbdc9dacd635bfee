"""For a buyer who has already paid: what is used, what is left, and a message to the seller, ready to paste.

The message names day, model, request ids and charges, and asks one question per finding. It says nothing about intent.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.report.pages import Page
from relay_audit.report.phrases import capital
from relay_audit.report.side_by_side import Trace, cited, trace
from relay_audit.target import Paid

QUESTIONS_AT_MOST = 5
IDS_AT_MOST = 3
CHAT_ID = 40
"""Characters of an id in the short message."""


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


def questions(page: Page) -> list[Finding]:
    """The differences that are asked about, the gravest first."""
    return [f for f in page.findings if f.outcome == "mismatch" and f.above_info][:QUESTIONS_AT_MOST]


def message(page: Page, used: Used | None) -> str:
    """Plain text in the page's language."""
    text = page.text
    lines = [text("seller.opening", date=_day(page), model=page.evidence.target.model), ""]
    for place, finding in enumerate(questions(page), start=1):
        lines.append(text("seller.question", n=str(place), title=capital(page.phrases.title(finding))))
        lines += [
            text("seller.request", time=row.time, id=_id(row), charge=row.charge or text("joint.unknown"))
            for row in _asked_of_the_relay(page, finding)[:IDS_AT_MOST]
        ]
        lines.append(text("seller.ask"))
    if used is not None and used.left is not None:
        lines += ["", text("seller.left", left=f"{used.left:f}")]
    lines += ["", text("seller.closing")]
    return "\n".join(lines)


def short_message(page: Page, used: Used | None, most: int) -> list[str]:
    """The same for a chat: one line a question, with the first request to be looked up; what is beyond `most` is counted."""
    text, asked = page.text, questions(page)
    lines = [text("seller.short_opening", date=_day(page), model=page.evidence.target.model)]
    for place, finding in enumerate(asked[:most], start=1):
        title, rows = capital(page.phrases.title(finding)), _asked_of_the_relay(page, finding)
        if rows:
            charge = rows[0].charge or text("joint.unknown")
            title = text("seller.short_request", title=title, id=_id(rows[0])[:CHAT_ID], charge=charge)
        lines.append(text("seller.short_question", n=str(place), title=title))
    if len(asked) > most:
        lines.append(text("seller.short_more", n=str(len(asked) - most)))
    if used is not None and used.left is not None:
        lines.append(text("seller.left", left=f"{used.left:f}"))
    return [*lines, text("seller.short_closing")]


def _day(page: Page) -> str:
    return page.evidence.started_at.strftime("%Y-%m-%d")


def _asked_of_the_relay(page: Page, finding: Finding) -> list[Trace]:
    return [trace(e, page.evidence, page.phrases) for e in cited(finding, page.evidence) if e.side == "relay"]


def _id(row: Trace) -> str:
    return row.request_id or row.response_id or row.id
