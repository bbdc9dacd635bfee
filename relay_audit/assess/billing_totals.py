"""Books without rows of ratios: amounts in dollars, and running totals of which only the difference speaks.

Totals belong to the key: they are this run's only where they moved by exactly as many requests as were answered. An own
price list (`cost` before the buyer's rate) is the software's, not the vendor's: the vendor's is computed from the usage
that the client saw.
"""

from __future__ import annotations

from decimal import Decimal

from relay_audit.assess.billing_calls import Bill, Call, calls_of, dollars, hours, ids
from relay_audit.assess.billing_price import TOLERANCE, Ratios, list_price, told
from relay_audit.books import BalanceReading, Totals
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.quote import UnitPrice, charge_of
from relay_audit.words import money

SPREAD = Decimal("0.02")
"""Amounts per call are printed with few digits; multipliers that lie closer together than this are one."""
RATE = Decimal("0.000001")


def dollar_rows(evidence: Evidence, knowledge: Knowledge, bill: Bill) -> list[Finding]:
    """A match where every priced call was charged at one and the same multiple of the vendor's list, and that multiple is
    the claimed one, the told one, or no more than the list itself."""
    listed = list_price(evidence, knowledge)
    calls = [call for call in bill.joined if call.usage is not None and not call.usage.cached and call.net > 0]
    if listed is None or bill.quota_units or not calls:
        return []
    multiples = [call.net / cost for call in calls if (cost := _cost(call, listed))]
    if not multiples or max(multiples) > min(multiples) * (1 + SPREAD):
        return []
    highest = max(multiples)
    rate = max((r.multiplier for r in evidence.rates if r.multiplier is not None), default=Decimal(1))
    if highest > max(evidence.target.claim.ratio or Decimal(0), rate, Decimal(1)) * (1 + SPREAD):
        return []
    params = {
        "n": len(calls), "charged": dollars(sum((call.net for call in calls), Decimal(0))),
        "not_judged": len(bill.joined) - len(calls), "facts": [_fact(highest)],
        **told(evidence, knowledge, bill, ()).params(),
    }  # fmt: skip
    return [finding("billing.matches", params, exchanges=ids(calls), confidence="supporting", basis="relay_word")]


def running_totals(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """The bill of a software whose books are totals; nothing where it has others or where they do not speak."""
    readings = [reading for reading in evidence.balance if reading.totals is not None]
    calls = calls_of(evidence)
    answered = [call for call in calls if call.exchange.status == 200 and call.usage is not None]
    if len(readings) < 2 or not answered:
        return []
    first, last = readings[0].totals, readings[-1].totals
    gone = last.since(first) if first is not None and last is not None else None
    if any(reading.state == "read" for reading in evidence.log) and not _rows_fit_nothing(evidence, gone, answered):
        return []
    where = (readings[-1].exchange,) if readings[-1].exchange else ()
    if gone is None or any(call.exchange.delivery == "unconfirmed" for call in calls):
        return [
            finding("billing.log_unavailable", {"reason": "totals_do_not_fit"}, exchanges=where, basis="relay_word")
        ]
    if gone.requests < len(answered):
        waited = max(0, round((readings[-1].at - max(c.exchange.sent_at for c in answered)).total_seconds()))
        params = {"n": len(answered) - gone.requests, "of": len(answered), "waited_s": waited}
        return [finding("billing.settlement_pending", params, exchanges=where, basis="relay_word")]
    if gone.requests > len(answered):
        others = {"count": gone.requests - len(answered)}
        return [
            finding("billing.foreign_rows", others, exchanges=where, basis="relay_word"),
            finding("billing.log_unavailable", {"reason": "totals_do_not_fit"}, exchanges=where, basis="relay_word"),
        ]
    return _judged(evidence, knowledge, gone, answered, readings)


def _rows_fit_nothing(evidence: Evidence, gone: Totals | None, answered: list[Call]) -> bool:
    """A log whose rows of our time fit no call, beside totals that moved by exactly as many requests as were answered:
    those rows are ours, and count otherwise than the answers."""
    log = [reading for reading in evidence.log if reading.state == "read"]
    joined = any(row.exchange for reading in log for row in reading.rows)
    unjoined = log[-1].foreign.within + len(log[-1].rows)
    return not joined and unjoined > 0 and gone is not None and gone.requests == len(answered)


def _judged(
    evidence: Evidence, knowledge: Knowledge, gone: Totals, calls: list[Call], readings: list[BalanceReading]
) -> list[Finding]:
    where = tuple(dict.fromkeys((*(r.exchange for r in (readings[0], readings[-1]) if r.exchange), *ids(calls))))
    found = [*_tokens(gone, calls, where), *_rate(evidence, gone, calls, where)]
    found += _claim(evidence, knowledge, gone, calls, where)
    if not found:
        found += _own_list(evidence, knowledge, gone, calls, where)
    if found:
        return found
    if not gone.list_cost and not _within_the_vendors_list(evidence, knowledge, gone, calls):
        return [
            finding("billing.log_unavailable", {"reason": "no_price_to_compare"}, exchanges=where, basis="relay_word")
        ]
    mine = gone.cost / gone.list_cost if gone.list_cost else None
    rate = max((r.multiplier for r in evidence.rates if r.multiplier is not None), default=None)
    params = {"n": len(calls), "charged": dollars(gone.cost), "not_judged": 0,
              "facts": ["nothing_special" if mine is None else _fact(mine)],
              **Ratios(evidence.target.claim.ratio, rate, mine).params()}  # fmt: skip
    return [finding("billing.matches", params, exchanges=where, confidence="supporting", basis="relay_word")]


def _tokens(gone: Totals, calls: list[Call], where: tuple[str, ...]) -> list[Finding]:
    """More tokens in the totals than in the answers, over exactly as many requests."""
    seen = sum(c.usage.billed_input + c.usage.output for c in calls if c.usage)
    booked = gone.input_tokens + gone.output_tokens + gone.cache_creation_tokens + gone.cache_read_tokens
    if not seen or booked <= seen:
        return []
    again = gone.cost * seen / booked
    params = {"n": len(calls), "charged": dollars(gone.cost), "recomputed": dollars(again),
              "difference": dollars(gone.cost - again), "cause": "tokens"}  # fmt: skip
    return [finding("billing.overcharged", params, exchanges=where, confidence="strong", basis="relay_word",
                    expected={"tokens": seen}, observed={"tokens": booked})]  # fmt: skip


def _rate(evidence: Evidence, gone: Totals, calls: list[Call], where: tuple[str, ...]) -> list[Finding]:
    """`actual_cost / cost` above the multiplier that the site told before and after."""
    rates = [rate.multiplier for rate in evidence.rates if rate.multiplier is not None]
    peaks = [r.base * r.peak_multiplier for r in evidence.rates if r.peak and r.base is not None and r.peak_multiplier]
    if len(rates) < 2 or not gone.list_cost:
        return []
    mine, highest = gone.cost / gone.list_cost, max([*rates, *peaks])
    if mine <= highest * (1 + SPREAD):
        return []
    params = {
        "n": len(calls), "of": len(calls), "published_rate": _text(highest), "charged_rate": _text(mine),
        "factor": _text(mine / highest) if highest else None, "difference": dollars(gone.cost - gone.list_cost * highest),
        "hours": hours(calls), "claimed": _text(evidence.target.claim.ratio), "published": _text(highest),
        "charged_ratio": _text(mine), "untrusted_group": "", "changed": False,
    }  # fmt: skip
    return [
        finding(
            "billing.price_differs_from_published", params, exchanges=where, confidence="strong", basis="relay_word"
        )
    ]


def _own_list(
    evidence: Evidence, knowledge: Knowledge, gone: Totals, calls: list[Call], where: tuple[str, ...]
) -> list[Finding]:
    """The software's list itself is above the vendor's: the told multiplier is kept, and yet the bill is no match. A list of
    its own is a tariff and no fault, but the buyer who compares multipliers does not see it."""
    listed = list_price(evidence, knowledge)
    rates = [rate.multiplier for rate in evidence.rates if rate.multiplier]
    if listed is None or len(rates) < 2 or any(call.usage.cached for call in calls if call.usage):
        return []
    official = sum((cost for call in calls if (cost := _cost(call, listed))), Decimal(0))
    if not official or gone.list_cost <= official * (1 + max(TOLERANCE, SPREAD)):
        return []
    told_rate = max(rates)
    mine = gone.cost / official
    params = {
        "n": len(calls), "of": len(calls), "published_rate": _text(told_rate), "charged_rate": _text(mine),
        "factor": _text(mine / told_rate), "difference": dollars(gone.cost - official * told_rate), "hours": hours(calls),
        "claimed": _text(evidence.target.claim.ratio), "published": _text(told_rate), "charged_ratio": _text(mine),
        "untrusted_group": "", "changed": False, "road": "own_list",
    }  # fmt: skip
    return [finding("billing.price_differs_from_published", params, exchanges=where, severity="info",
                    confidence="supporting", basis="relay_word")]  # fmt: skip


def _claim(
    evidence: Evidence, knowledge: Knowledge, gone: Totals, calls: list[Call], where: tuple[str, ...]
) -> list[Finding]:
    """Above the claim by the software's own list and by the vendor's: a claim may mean either. Where its own is not told,
    it is low: the claim may mean a list that nobody has seen."""
    claimed, listed = evidence.target.claim.ratio, list_price(evidence, knowledge)
    if claimed is None or listed is None:
        return []
    official = sum((cost for call in calls if (cost := _cost(call, listed))), Decimal(0))
    limit = claimed * (1 + max(TOLERANCE, SPREAD))
    mine = gone.cost / gone.list_cost if gone.list_cost else None
    if not official or gone.cost / official <= limit or (mine is not None and mine <= limit):
        return []
    rate = max((r.multiplier for r in evidence.rates if r.multiplier is not None), default=None)
    ratio = gone.cost / official if mine is None else mine
    params = {"n": len(calls), "claimed": _text(claimed), "published": _text(rate), "charged_ratio": _text(ratio),
              "hours": hours(calls), "untrusted_group": ""}  # fmt: skip
    return [finding("billing.ratio_differs_from_claim", params, exchanges=where, severity="low" if mine is None else None,
                    confidence="supporting" if mine is None else "strong", basis="relay_word")]  # fmt: skip


def _within_the_vendors_list(evidence: Evidence, knowledge: Knowledge, gone: Totals, calls: list[Call]) -> bool:
    """Totals without a list of their own are held against the vendor's, times what was claimed or told where that is
    more."""
    listed = list_price(evidence, knowledge)
    official = sum((cost for call in calls if listed and (cost := _cost(call, listed))), Decimal(0))
    told_rates = [r.multiplier for r in evidence.rates if r.multiplier is not None]
    highest = max([evidence.target.claim.ratio or Decimal(0), *told_rates, Decimal(1)])
    return bool(official) and gone.cost / official <= highest * (1 + SPREAD)


def _cost(call: Call, listed: UnitPrice) -> Decimal | None:
    return charge_of(call.usage.by_kind(), listed) if call.usage is not None else None


def _fact(multiple: Decimal) -> str:
    return "nothing_special" if abs(multiple - 1) <= SPREAD else "group_ratio"


def _text(value: Decimal | None) -> str | None:
    return None if value is None else money(value.quantize(RATE).normalize())
