"""Books that are written in dollars and state no ratios: is every call within the multiplier that the site tells?

sub2api, claude-relay-service and LiteLLM charge a price list times one multiplier. Where the site tells that multiplier
(and whether it has other hours), it is held against what was charged; the vendor's list stands for the price list.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from relay_audit.assess.billing_calls import Bill, Call, dollars, hours, ids
from relay_audit.assess.billing_price import TOLERANCE, list_price
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.quote import charge_of
from relay_audit.words import money

EVEN = Decimal("0.02")
"""Multiples that lie within two per cent are one multiple: amounts are printed with six digits."""
SMALLEST = Decimal("0.00001")
"""Dollars below which an amount's last digit is too coarse for a multiple."""


@dataclass(frozen=True)
class Multiple:
    call: Call
    charged: Decimal
    listed: Decimal

    @property
    def value(self) -> Decimal:
        return self.charged / self.listed


def told_multiplier(evidence: Evidence, knowledge: Knowledge, bill: Bill) -> list[Finding]:
    """Charged above every multiplier that the site told this key during the run."""
    told = [rate.multiplier for rate in evidence.rates if rate.multiplier]
    found = multiples(evidence, knowledge, bill) if told and not bill.quota_units else []
    higher = [m for m in found if m.value > max(told) * (1 + TOLERANCE + EVEN)]
    return [_above(higher, max(told), found)] if higher else []


def multiples(evidence: Evidence, knowledge: Knowledge, bill: Bill) -> list[Multiple]:
    """Calls with one dollar row and a usage, against the software's own list where the row has it, else the vendor's."""
    official = list_price(evidence, knowledge)
    found = []
    for call in bill.joined:
        row = call.rows[0] if len(call.rows) == 1 else None
        if row is None or row.amount is None or row.kind != "consume" or call.usage is None:
            continue
        listed = row.list_amount if row.list_amount is not None else None
        if listed is None and official is not None:
            listed = charge_of(call.usage.by_kind(), official)
        if listed is not None and listed >= SMALLEST and row.amount >= SMALLEST:
            found.append(Multiple(call, row.amount, listed))
    return found


def _above(items: list[Multiple], told: Decimal, all_: list[Multiple]) -> Finding:
    charged, listed = sum((m.charged for m in items), Decimal(0)), sum((m.listed for m in items), Decimal(0))
    calls = [m.call for m in items]
    params = {
        "n": len(items), "of": len(all_), "published_rate": dollars(told), "charged_rate": dollars(charged / listed),
        "factor": multiple(charged / listed / told), "difference": dollars(charged - listed * told), "hours": hours(calls),
        "claimed": None, "published": multiple(told), "charged_ratio": multiple(charged / listed), "road": "multiplier",
    }  # fmt: skip
    return finding("billing.price_differs_from_published", params, exchanges=ids(calls), confidence="strong",
                   basis="relay_word")  # fmt: skip


def multiple(value: Decimal) -> str:
    """A multiple of a list price, to four places."""
    return money(value.quantize(Decimal("0.0001")).normalize())
