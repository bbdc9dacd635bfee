"""Where no row can be read and no price is published: the counter of the key against the claimed ratio of the vendor's list.

That is all that one-api and Veloera show to a key. A claim may mean the site's own list, which nobody has seen: above it
the finding is low. Within it, the counter agrees with the claim, which says nothing of single calls.
"""

from __future__ import annotations

import itertools
from decimal import Decimal

from relay_audit.assess.billing_amounts import multiple
from relay_audit.assess.billing_calls import Call, calls_of, dollars, hours, ids
from relay_audit.assess.billing_price import list_price
from relay_audit.assess.billing_rowless import SETTLED
from relay_audit.books import BalanceReading, coarse
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.quote import UnitPrice, charge_of

ABOVE, BELOW = Decimal("1.05"), Decimal("0.9")
"""Between these a counter agrees with the claim: prices are printed rounded. Below, it may only be late."""
FINE = Decimal("0.1")
"""A counter that is rounded more coarsely than this share of what it fell by says nothing."""
CLOSED = ("no_log_for_keys", "needs_session")
"""Software of which no key can read a log."""


def counter_alone(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    claimed, listed, calls = evidence.target.claim.ratio, list_price(evidence, knowledge), calls_of(evidence)
    told = [(r, s) for r in evidence.balance if (s := r.spent(evidence.site.quota_per_unit)) is not None]
    if not claimed or listed is None or not _closed(evidence) or len(told) < 2 or not _alone(calls, told):
        return []
    costs = [cost for call in calls if (cost := _official(call, listed)) is not None]
    official, fell = sum(costs, Decimal(0)), told[-1][1] - told[0][1]
    rounded = len(calls) * Decimal(1) / evidence.site.quota_per_unit
    rounded += coarse((reading for reading, _ in told), evidence.site.quota_per_unit)
    settled = told[-1][0].at - max(call.exchange.sent_at for call in calls) >= SETTLED
    if len(costs) < len(calls) or not official or fell <= 0 or rounded > fell * FINE:
        return []
    ratio, n = fell / official, sum(call.usage is not None for call in calls)
    sides = {"claimed": multiple(claimed), "published": None, "charged_ratio": multiple(ratio)}
    if fell > official * claimed * ABOVE + rounded:
        above = {"n": n, **sides, "hours": hours(calls), "untrusted_group": "", "road": "counter",
                  "charged": dollars(fell)}  # fmt: skip
        return [finding("billing.ratio_differs_from_claim", above, exchanges=ids(calls), severity="low",
                        basis="relay_word")]  # fmt: skip
    if not settled or ratio < claimed * BELOW:
        return []
    params = {"n": n, "charged": dollars(fell), "not_judged": n, "facts": ["balance_agrees"], **sides,
              "road": "counter", "share_bound": ""}  # fmt: skip  # a sum bounds no share of calls
    return [finding("billing.matches", params, exchanges=ids(calls), confidence="weak", basis="relay_word")]


def _closed(evidence: Evidence) -> bool:
    """No log that a key may read, by what is known of the software, and no price that the quote could be made with."""
    priced = evidence.quote is not None and any(
        line.unit_price is not None and not line.unit_price.assumed
        for line in evidence.quote.lines
        if line.side == "relay"
    )
    asked = [reading for reading in evidence.log if reading.state != "not_asked"]
    return not priced and bool(asked) and all(reading.reason in CLOSED for reading in asked)


def _alone(calls: tuple[Call, ...], told: list[tuple[BalanceReading, Decimal]]) -> bool:
    """All readings are of one counter, and it never rose while nothing of ours was sent, nor went back."""
    if not calls or len({reading.adapter for reading, _ in told}) > 1:
        return False
    for (before, first), (after, last) in itertools.pairwise(told):
        start = before.at - SETTLED  # a call that was just sent is booked a little later
        own = any(start <= call.exchange.sent_at < after.at for call in calls)
        if last < first or (last > first and not own):
            return False
    return told[0][0].at <= min(call.exchange.sent_at for call in calls)


def _official(call: Call, listed: UnitPrice) -> Decimal | None:
    """What a call comes to at the vendor; nothing for a refusal, None where that is not known."""
    if call.usage is not None and call.exchange.delivery == "answered":
        return charge_of(call.usage.by_kind(), listed)
    return Decimal(0) if call.refused or call.exchange.delivery == "not_sent" else None
