"""Rows of the money table that go beyond the quote: the three ratios, what was really paid, lines that were passed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from relay_audit.reckoning import Reckoning
from relay_audit.report.phrases import Phrases
from relay_audit.report.untrusted import show
from relay_audit.report.views import Fact
from relay_audit.words import money


def in_real_money(found: Reckoning, phrases: Phrases, *, films: bool) -> Iterator[Fact]:
    """Only for the buyer: what he paid is nobody else's business. Where a ratio is claimed, one that could not be measured
    stands beside it as not known; films have one for each tier."""
    text = phrases.text
    if found.charged_ratio is not None or (found.claimed is not None and not films):
        shown = [_number(value, phrases) for value in (found.claimed, found.published, found.charged_ratio)]
        yield Fact(text("money.ratios"), " / ".join(shown))
    if found.charged_paid is not None and found.price_per_site_dollar is not None:
        paid = text(
            "money.paid_value",
            amount=f"{money(found.charged_paid)} {show(found.paid_currency, 8)}",
            price=f"{money(found.price_per_site_dollar)} {show(found.paid_currency, 8)}",
            basis=text(f"money.basis_{found.paid_basis}"),
        )
        yield Fact(text("money.paid"), paid)
    if found.discount is not None:
        yield Fact(text("money.discount"), f"${money(found.discount)} ({_rate(found, phrases)})")
    elif found.paid_currency == "CNY":
        yield Fact(text("money.discount"), text("money.no_rate"))
    if exceeded := [line.line for line in found.lines if line.exceeded]:
        yield Fact(text("money.exceeded"), ", ".join(show(line, 40) for line in exceeded))


def _rate(found: Reckoning, phrases: Phrases) -> str:
    if found.rate is None or found.paid_currency == "USD":
        return phrases.text(f"money.basis_{found.paid_basis}")
    named = {"date": str(found.rate_date), "source": show(found.rate_source, 40)}
    return phrases.text("money.rate", rate=money(found.rate), **named)


def _number(value: Decimal | None, phrases: Phrases) -> str:
    return money(value) if value is not None else phrases.text("joint.unknown")
