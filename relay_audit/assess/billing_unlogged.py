"""Where no row of ours can be read: did the balance fall by what the answers come to at the published price?

The balance is of the whole key: what else spends on it cannot be told apart, unless the same multiple shows in two spans
of time. It says nothing where the price was only assumed, or where a call has no outcome.
"""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import NamedTuple

from relay_audit.assess.billing_calls import Call, calls_of, dollars, ids
from relay_audit.assess.billing_rowless import SETTLED
from relay_audit.books import USAGE_PAGES, BalanceReading, coarse
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.quote import charge_of

ABOVE = Decimal("1.05")
"""Up to this a balance agrees with the forecast: prices are printed rounded."""
OWN_RATIO = Decimal("1.6")
"""Up to this a ratio of the user's own, or one of the hour, may be what no public list shows; only a row would say so."""
ALIKE = Decimal("1.1")
"""Two spans whose multiples lie closer together than this show one tariff, not somebody else's traffic."""


class Span(NamedTuple):
    """Between two readings of the balance, in site dollars."""

    fell: Decimal
    forecast: Decimal
    calls: int


def fell_without_rows(evidence: Evidence) -> list[Finding]:
    told = [(r, s) for r in evidence.balance if (s := r.spent(evidence.site.quota_per_unit)) is not None]
    calls = calls_of(evidence)
    if len(told) < 2 or len({reading.adapter for reading, _ in told}) > 1 or not calls or _shows_rows(evidence):
        return []
    spans = [_span(evidence, calls, *pair) for pair in itertools.pairwise(told)]
    ours = [span for span in spans if span is not None and span.calls]
    if None in spans or any(span and span.fell and not span.calls for span in spans):
        return []  # unknown amounts, or a balance that falls while nothing of ours is sent
    fell, forecast = sum((s.fell for s in ours), Decimal(0)), sum((s.forecast for s in ours), Decimal(0))
    per_unit = evidence.site.quota_per_unit
    rounded = len(calls) * Decimal(1) / per_unit + coarse((reading for reading, _ in told), per_unit)
    if not forecast or fell <= forecast * ABOVE + rounded:
        return []
    multiples = [span.fell / span.forecast for span in ours if span.forecast]
    settled = told[-1][0].at - max(call.exchange.sent_at for call in calls) >= SETTLED
    steady = len(multiples) > 1 and max(multiples) <= min(multiples) * ALIKE
    page = any(reading.adapter == USAGE_PAGES for reading, _ in told)
    sure = steady and settled and not page and _no_other_tariff(evidence, fell / forecast)
    params = {
        "n": len(calls), "charged": dollars(fell), "recomputed": dollars(forecast), "difference": dollars(fell - forecast),
        "cause": "no_row", "road": "unlogged", "since": f"{told[0][0].at:%H:%M:%S}", "until": f"{told[-1][0].at:%H:%M:%S}",
    }  # fmt: skip
    return [finding("billing.overcharged", params, exchanges=ids(calls), severity=None if sure else "low",
                    confidence="strong" if sure else "supporting", basis="relay_word")]  # fmt: skip


def _shows_rows(evidence: Evidence) -> bool:
    """A log that shows rows since the run began: others spend on the key, or rows that may be ours could not be joined."""
    return any(reading.rows or reading.foreign.within or reading.own_earlier for reading in evidence.log)


def _no_other_tariff(evidence: Evidence, multiple: Decimal) -> bool:
    """Whether the claimed group is known, no other one that the site lists comes to this multiple (the key may sit there),
    and no later look at the list showed another price (the tariff may have changed since the quote)."""
    site, group = evidence.site, evidence.target.claim.group
    mine = site.group_ratio.get(group)
    if not mine or multiple <= OWN_RATIO:
        return False
    others = [ratio / mine for name, ratio in site.group_ratio.items() if name != group]
    changed = any(
        (look.published is not None and look.published != site.published)
        or (look.group_ratio and look.group_ratio.get(group) != mine)
        for look in evidence.prices
    )
    return not changed and not any(multiple / ALIKE <= other <= multiple * ALIKE for other in others)


def _span(
    evidence: Evidence,
    calls: tuple[Call, ...],
    before: tuple[BalanceReading, Decimal],
    after: tuple[BalanceReading, Decimal],
) -> Span | None:
    """None where the balance rose, or where what a call comes to is not known."""
    own = [call for call in calls if before[0].at <= call.exchange.sent_at < after[0].at]
    costs = [_forecast(evidence, call) for call in own]
    if after[1] < before[1] or any(cost is None for cost in costs):
        return None
    return Span(after[1] - before[1], sum((cost or Decimal(0) for cost in costs), Decimal(0)), len(own))


def _forecast(evidence: Evidence, call: Call) -> Decimal | None:
    """What a call comes to at the published price: nothing for a refusal; None where that is not known."""
    line = evidence.quote.line_of(call.step) if evidence.quote and call.step else None
    price = line.unit_price if line is not None else None
    if price is None or price.assumed or call.exchange.delivery == "unconfirmed":
        return None
    if call.usage is not None:
        return charge_of(call.usage.by_kind(), price)
    return Decimal(0) if call.refused or call.exchange.delivery == "not_sent" else None
