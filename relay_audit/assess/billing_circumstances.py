"""What explains a bill without being a difference: the named facts beside a match, and what the books did not show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from relay_audit.assess.billing_arithmetic import Judged
from relay_audit.assess.billing_balance import State
from relay_audit.assess.billing_calls import Bill, Call, dollars, ids
from relay_audit.assess.billing_price import TOLERANCE, compare, list_price, special
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge

NOTHING_SPECIAL = "nothing_special"


def matches(bill: Bill, done: tuple[Judged, ...], named: tuple[str, ...], ratios: dict[str, str | None]) -> Finding:
    charged = sum((item.call.net for item in done), Decimal(0))
    params = {
        "n": len(done), "charged": dollars(charged), "not_judged": len(bill.joined) - len(done),
        "facts": list(named) or [NOTHING_SPECIAL], **ratios,
    }  # fmt: skip
    return finding("billing.matches", params, exchanges=ids(item.call for item in done), confidence="supporting",
                   basis="relay_word")  # fmt: skip


def facts(
    evidence: Evidence, knowledge: Knowledge, bill: Bill, done: tuple[Judged, ...], balance: State
) -> tuple[str, ...]:
    """Why these charges are what they are, each by its name."""
    rows = [name for name, holds in KINDS if any(holds(item) for item in done)]
    return tuple(dict.fromkeys([*_of_price(evidence, knowledge, done), *rows, *_of_books(evidence, bill, balance)]))


def _of_price(evidence: Evidence, knowledge: Knowledge, done: tuple[Judged, ...]) -> Iterator[str]:
    listed = list_price(evidence, knowledge)
    group = max((item.tariff.group for item in done), default=Decimal(1))
    if group != 1:
        yield "group_ratio"
    if any(special(item) for item in done):
        yield "user_group_ratio"
    compared = [c for item in done if (c := compare(item, evidence)) is not None]
    model = next((item.tariff for item in done if item.tariff.by_tokens), None)
    if listed is not None and model is not None and compared and not any(c.higher for c in compared):
        base = model.model_copy(update={"group": Decimal(1)}).rates(done[0].call.per_unit)["input"]
        if base > listed.input * (1 + TOLERANCE):
            yield "published_markup"
    if any(c.lower for c in compared):
        yield "below_published"


KINDS: tuple[tuple[str, Callable[[Judged], bool]], ...] = (
    ("cache_discount", lambda item: bool(item.usage.cache_read) and item.tariff.cache_read < 1),
    ("fixed_price", lambda item: item.tariff.fixed is not None),
    ("price_expression", lambda item: bool(item.tariff.expression)),
    ("tool_surcharge", lambda item: bool(item.tariff.surcharge)),
    ("further_multiplier", lambda item: item.tariff.factor != 1),
    ("rounding", lambda item: bool(item.difference)),
    ("minimum_charge", lambda item: _at_minimum(item)),
)
"""Facts of a single row."""


def _at_minimum(item: Judged) -> bool:
    exact = item.tariff.exact(item.usage, item.call.per_unit, item.row.created_at, item.call.body)
    return item.charged == 1 and exact is not None and exact < Decimal("0.5")


def _of_books(evidence: Evidence, bill: Bill, balance: State) -> Iterator[str]:
    if evidence.site.display_type == "CNY":
        yield "cny_display"
    if any(row.plan_billed for call in bill.joined for row in call.rows):
        yield "plan_billed"
    if any(call.refunds for call in bill.joined):
        yield "refunded"
    if bill.reading.truncated:
        yield "log_truncated"
    if bill.reading.foreign.count:
        yield "foreign_rows"
    if _came_late(evidence, bill):
        yield "log_late"
    if balance == "agrees":
        yield "balance_agrees"
        if any(_without_row(call) for call in bill.calls):
            yield "uncharged_calls"
    if any(call.exchange.status == 200 and call.rows and not call.net for call in bill.joined):
        yield "uncharged_calls"


def _came_late(evidence: Evidence, bill: Bill) -> bool:
    """A first look after the last sending did not show every row that a later one did."""
    looks = [r for r in evidence.log if r.at >= bill.last_sent and r.state in ("read", "empty")]
    shown = [{row.exchange for row in reading.rows if row.exchange} for reading in looks]
    return len(shown) > 1 and bool(shown[-1] - shown[0])


def _without_row(call: Call) -> bool:
    return call.exchange.status == 200 and not call.rows


def no_information(evidence: Evidence, bill: Bill) -> list[Finding]:
    reading = bill.reading
    exchanges = (reading.exchange,) if reading.exchange else ()
    if reading.state == "unsafe":
        return [finding("billing.log_unsafe_to_read", {"software": evidence.site.software}, exchanges=exchanges,
                        basis="relay_word")]  # fmt: skip
    reason = {"read": "no_row_of_ours", "empty": "empty", "limited": "limited"}.get(
        reading.state, reading.reason or "unavailable"
    )
    return [finding("billing.log_unavailable", {"reason": reason}, exchanges=exchanges, basis="relay_word")]


def mostly_elsewhere(bill: Bill) -> bool:
    """Most answered calls have no row, and as many rows of the same time fit no call: the few that fit may do so by chance,
    and the others may be ours with other tokens. That is no bill that follows from usage."""
    answered = [call for call in bill.calls if call.exchange.status == 200]
    without = [call for call in answered if not call.rows]
    return 2 * len(without) > len(answered) and len(bill.loose) + bill.reading.foreign.within >= len(without)


def few_rows(bill: Bill) -> Finding:
    exchanges = (bill.reading.exchange,) if bill.reading.exchange else ()
    return finding("billing.log_unavailable", {"reason": "few_rows_of_ours"}, exchanges=exchanges, basis="relay_word")


def books_of(bill: Bill, balance: State = "unknown") -> list[Finding]:
    """Rows that are missing, loose, of other people, or cut off: facts, and nobody's fault. A call without a row that
    the balance did not pay for either was simply not charged."""
    reading, found = bill.reading, []
    where = (reading.exchange,) if reading.exchange else ()
    if bill.joined and balance != "agrees" and reading.source == "log":  # a header that is not there will not come
        found += _missing(bill)
    if bill.joined and bill.loose:
        found.append(finding("billing.unmatched_rows", {"n": len(bill.loose)}, exchanges=where, basis="relay_word"))
    if reading.foreign.count:
        found.append(
            finding("billing.foreign_rows", {"count": reading.foreign.count}, exchanges=where, basis="relay_word")
        )
    if reading.truncated:
        rows = len(reading.rows) + reading.foreign.count + reading.own_earlier
        found.append(finding("billing.log_truncated", {"rows": rows}, exchanges=where, basis="relay_word"))
    return found


def _missing(bill: Bill) -> list[Finding]:
    answered = [call for call in bill.calls if call.exchange.status == 200]
    without = [call for call in answered if not call.rows]
    if not without:
        return []
    last = max(call.exchange.sent_at for call in answered)
    waited = max(0, round((bill.reading.at - last).total_seconds()))
    params = {"n": len(without), "of": len(answered), "waited_s": waited}
    return [finding("billing.settlement_pending", params, exchanges=ids(without), basis="relay_word")]
