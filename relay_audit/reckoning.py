"""The money of a run for its buyer: quote against bill, line by line, and what it comes to in other currencies.

A site's dollars are not dollars. What the buyer really paid for one outranks the site's own price; an exchange rate is
the buyer's, with its date and source, and without one nothing is converted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.multiple import from_books
from relay_audit.words import Frozen, Side

PLACES = Decimal("0.000001")
PaidBasis = Literal["", "paid", "site_price"]


class BillLine(Frozen):
    """One line of the quote beside what it came to."""

    line: str
    side: Side
    planned: int
    sent: int
    expected: Decimal
    at_most: Decimal
    settled: Decimal
    unconfirmed: Decimal
    """Worst case of sendings without an outcome."""
    from_log: bool
    """Everything settled stands in the relay's own books."""

    @property
    def exceeded(self) -> bool:
        return self.settled + self.unconfirmed > self.at_most


class Reckoning(Frozen):
    lines: tuple[BillLine, ...]
    charged: Decimal
    """Site dollars, by the ledger."""
    price_per_site_dollar: Decimal | None = None
    """What one site dollar cost the buyer, in `paid_currency`."""
    paid_currency: str = ""
    paid_basis: PaidBasis = ""
    charged_paid: Decimal | None = None
    """The charge in the currency that was paid."""
    rate: Decimal | None = None
    """CNY per US dollar."""
    rate_date: dt.date | None = None
    rate_source: str = ""
    charged_usd: Decimal | None = None
    """The charge in real dollars; None where it cannot be converted."""
    claimed: Decimal | None = None
    published: Decimal | None = None
    charged_ratio: Decimal | None = None
    """Multiples of the official list price, in site dollars."""
    discount: Decimal | None = None
    """What was really paid for a dollar of the official list: `charged_ratio × price / rate`."""

    @property
    def totals(self) -> dict[str, Decimal]:
        """Running total by side: settled and unconfirmed."""
        sides: tuple[Side, ...] = ("relay", "official")
        return {
            side: sum((x.settled + x.unconfirmed for x in self.lines if x.side == side), Decimal(0)) for side in sides
        }


def reckon(evidence: Evidence, findings: Iterable[Finding]) -> Reckoning:
    price, currency, basis = _site_dollar(evidence)
    rate = evidence.target.cny_per_usd
    charged = evidence.ledger.total("settled", "relay")
    in_usd = _per_dollar(price, currency, rate.value if rate else None)
    ratios = next((f.params for f in findings if f.code.startswith("billing.") and f.params.get("charged_ratio")), {})
    multiple = _decimal(ratios.get("charged_ratio"))
    return Reckoning(
        lines=tuple(_lines(evidence)),
        charged=charged,
        price_per_site_dollar=price,
        paid_currency=currency,
        paid_basis=basis,
        charged_paid=None if price is None else _rounded(charged * price),
        rate=rate.value if rate else None,
        rate_date=rate.date if rate else None,
        rate_source=rate.source if rate else "",
        charged_usd=None if in_usd is None else _rounded(charged * in_usd),
        claimed=evidence.target.claim.ratio,
        published=_decimal(ratios.get("published")),
        charged_ratio=multiple,
        discount=None if multiple is None or in_usd is None else _rounded(multiple * in_usd),
    )


def _site_dollar(evidence: Evidence) -> tuple[Decimal | None, str, PaidBasis]:
    paid = evidence.target.paid
    if paid is not None:
        return _rounded(paid.amount / paid.credited), paid.currency.upper(), "paid"
    if evidence.site.price_cny:
        return evidence.site.price_cny, "CNY", "site_price"
    return None, "", ""


def _per_dollar(price: Decimal | None, currency: str, rate: Decimal | None) -> Decimal | None:
    """Real dollars for one site dollar; None where no rate is known for that currency."""
    if price is None:
        return None
    if currency == "USD":
        return price
    return price / rate if currency == "CNY" and rate else None


def _lines(evidence: Evidence) -> Iterable[BillLine]:
    for line in evidence.quote.lines if evidence.quote else ():
        own = [entry for entry in evidence.ledger.entries if entry.line == line.id]
        settled = [entry for entry in own if entry.state == "settled"]
        yield BillLine(
            line=line.id,
            side=line.side,
            planned=line.count,
            sent=sum(entry.state != "released" for entry in own),
            expected=line.expected,
            at_most=line.at_most,
            settled=sum((entry.amount for entry in settled), Decimal(0)),
            unconfirmed=sum((e.amount for e in own if e.state in ("unconfirmed", "reserved")), Decimal(0)),
            from_log=from_books(settled),
        )


def as_json(found: Reckoning) -> dict[str, Any]:
    """For the buyer's complete JSON: never for the vendor. The line's id names its side; said again in every row, the one
    word joined over the rows would be long enough to stand in a key."""
    lines = [{**line.model_dump(mode="json", exclude={"side"}), "exceeded": line.exceeded} for line in found.lines]
    rest = found.model_dump(mode="json", exclude={"lines"})
    return {**rest, "totals": {side: str(total) for side, total in found.totals.items()}, "lines": lines}


def _decimal(value: object) -> Decimal | None:
    return Decimal(str(value)) if value is not None else None


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(PLACES).normalize()
