"""Answered calls without a row: did the balance lose more for them than rows that are only late could say?

What a late row would say follows from the answer's own usage and the ratios of the rows that are there. Only what the
balance lost beyond that is named, and it weighs only where neither a queue nor somebody else's traffic would hide so:
the log shows later calls, time has passed, the balance stands still, and no other row was ever seen on the key.
"""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import ROUND_HALF_UP, Decimal

from relay_audit.assess.billing_arithmetic import Judged
from relay_audit.assess.billing_calls import Bill, Call, dollars, ids
from relay_audit.assess.billing_tariff import readings_of
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.quote import charge_of
from relay_audit.reconcile import Reconciliation

SETTLED = dt.timedelta(seconds=10)
"""A balance is written by a queue, seconds after the rows."""
WAITED = dt.timedelta(seconds=60)
"""So long after the last call no reserve of ours is still held, and a log that shows later calls has no earlier one to
come."""
ROUGHLY = 2
"""Rows in dollars state no ratios: what a call would cost is known by its neighbours only, and taken twice."""
HELD_INPUT = 500
"""new-api never reserves for fewer input tokens."""
ABOVE = Decimal("1.05")
"""Up to this the balance agrees with what late rows would say: an estimate, since no row of these calls is there."""


def beyond_late_rows(
    evidence: Evidence,
    bill: Bill,
    balance: Reconciliation,
    done: tuple[Judged, ...],
    rowless: list[Call],
) -> Finding | None:
    """None where late rows may explain the gap, where what a call comes to is not known (no usage, no outcome), or where the
    balance falls while nothing of ours is sent: then others spend on this key. What rows of theirs say is taken off; on a
    key that others were ever seen on the rest is a question: rows of theirs may be late as well."""
    if bill.reading.source != "log":
        return None
    exact = bill.quota_units
    costs = [_as_a_row(call, bill, done, evidence) if exact else _in_dollars(call, bill, evidence) for call in rowless]
    late = sum((cost or Decimal(0) for cost in costs), Decimal(0)) * (1 if exact else ROUGHLY)
    rounding = Decimal(len(bill.calls)) / bill.per_unit + balance.rounded
    if None in costs or balance.gap <= late * ABOVE + rounding or _falls_by_itself(evidence, bill):
        return None
    still = _still_until(evidence, bill, balance)
    rate = max((item.tariff.model * item.tariff.group for item in done), default=Decimal(0))
    held = Decimal(sum(reserve(call, rate) for call in rowless)) / bill.per_unit
    if max(still or balance.until, balance.until) - bill.last_sent < WAITED and balance.gap <= late + held:
        return None  # what is settled late is still reserved
    sure = exact and still is not None and _nothing_can_come(bill, still, rowless)
    params = {
        "n": len(rowless), "of": len(rowless) + len(bill.joined), "charged": dollars(balance.gap),
        "recomputed": dollars(late), "difference": dollars(balance.gap - late), "cause": "no_row", "road": "rowless",
        "each": dollars(balance.gap / len(rowless)), "row_each": dollars(late / len(rowless)),
        "waited_s": max(0, round((bill.reading.at - bill.last_sent).total_seconds())),
        "since": f"{balance.since:%H:%M:%S}", "until": f"{balance.until:%H:%M:%S}",
    }  # fmt: skip
    if _others_seen(evidence):
        return finding("billing.overcharged", params, exchanges=ids(rowless), outcome="inconclusive", severity="info",
                       basis="relay_word")  # fmt: skip
    return finding("billing.overcharged", params, exchanges=ids(rowless), severity="medium" if sure else "low",
                   confidence="strong" if sure else "supporting", basis="relay_word")  # fmt: skip


def _as_a_row(call: Call, bill: Bill, done: tuple[Judged, ...], evidence: Evidence) -> Decimal | None:
    """The most that a row of this call would charge, by the ratios of any row that is there and by what that row charged
    above them (which is said of that row); site dollars."""
    if call.usage is None or not _is_whole(call):
        return None
    worst: Decimal | None = None
    for item in done:
        factor = max(Decimal(item.charged) / item.again, Decimal(1)) if item.again else Decimal(1)
        for seen in readings_of(call.usage, item.row, includes_cache=evidence.pack.usage.input_includes_cache):
            quota = item.tariff.quota(seen, bill.per_unit, call.exchange.sent_at, call.body)
            if quota is not None:
                worst = max(worst or Decimal(0), quota * factor / bill.per_unit)
    return worst


def reserve(call: Call, rate: Decimal) -> int:
    """What is reserved for a call at so much per token, in quota units: `(max(prompt, 500) + output limit) × rate`."""
    limit = call.step.output_limit if call.step else None
    seen = call.usage.billed_input if call.usage is not None and not call.rows else 0
    prompt = max((row.prompt_tokens for row in call.rows), default=seen)
    return int(((max(prompt, HELD_INPUT) + limit) * rate).quantize(Decimal(1), ROUND_HALF_UP)) if limit else 0


def came_after(evidence: Evidence, bill: Bill, balance: Reconciliation) -> bool:
    """Rows came once the balance had been read for the last time: what that one held may have been given back since, unless
    a counter was seen to stand still until then."""
    looks = [r for r in evidence.log if r.state == "read" and bill.last_sent <= r.at <= balance.until < bill.reading.at]
    whole = {call.id for call in bill.joined}
    late = any(whole - {row.exchange for row in look.rows} for look in looks[-1:])
    still = _still_until(evidence, bill, balance)
    return late and (still is None or still + SETTLED < bill.reading.at)


def _in_dollars(call: Call, bill: Bill, evidence: Evidence) -> Decimal | None:
    """The same for rows that state no ratios: the highest multiple of the quoted price that any of them charges."""
    line = evidence.quote.line_of(call.step) if evidence.quote and call.step else None
    price = line.unit_price if line is not None else None
    if price is None or not _is_whole(call) or call.usage is None:
        return None
    shown = [c for c in bill.joined if c.usage is not None and c.net > 0]
    multiples = [c.net / cost for c in shown if c.usage is not None and (cost := charge_of(c.usage.by_kind(), price))]
    return max(multiples) * charge_of(call.usage.by_kind(), price) if multiples else None


def _is_whole(call: Call) -> bool:
    stream = call.exchange.streamed()
    return call.exchange.delivery == "answered" and not call.exchange.failure and (stream is None or stream.complete)


def _nothing_can_come(bill: Bill, still: dt.datetime, rowless: list[Call]) -> bool:
    """Most of the rowless calls were followed by calls whose rows are there, and that was long ago."""
    last = max(call.exchange.sent_at for call in bill.joined)
    overtaken = [call for call in rowless if call.exchange.sent_at < last]
    return min(still, bill.reading.at) - bill.last_sent >= WAITED and 2 * len(overtaken) > len(rowless)


def _balance_after(evidence: Evidence, bill: Bill) -> list[tuple[dt.datetime, Decimal]]:
    """What the key had spent by each reading that was taken once our last call was settled; site dollars."""
    settled = bill.last_sent + SETTLED
    return [(r.at, s) for r in evidence.balance if r.at >= settled and (s := r.spent(bill.per_unit)) is not None]


def _page_after(evidence: Evidence, bill: Bill, balance: Reconciliation) -> list[tuple[dt.datetime, Decimal]]:
    """The same by the usage page, which may be read more often; nothing unless it moved as the balance did."""
    told = [(page.at, page.dollars) for page in evidence.usage if page.state == "read" and page.dollars is not None]
    near = max(Decimal(2) / bill.per_unit, balance.fell / 100)
    if len(told) < 2 or abs(told[-1][1] - told[0][1] - balance.fell) > near:
        return []
    return [(at, spent) for at, spent in told if at >= bill.last_sent + SETTLED]


def _still_until(evidence: Evidence, bill: Bill, balance: Reconciliation) -> dt.datetime | None:
    """The last moment at which the key's counter stood where it stood once our calls were settled; None where it was
    read once, or moved."""
    counters = (_balance_after(evidence, bill), _page_after(evidence, bill, balance))
    if any(len({spent for _, spent in told}) > 1 for told in counters):
        return None
    return max((told[-1][0] for told in counters if len(told) > 1), default=None)


def _falls_by_itself(evidence: Evidence, bill: Bill) -> bool:
    """Before our first call, or once the last one was settled."""
    first = min(call.exchange.sent_at for call in bill.calls)
    before = [s for r in evidence.balance if r.at <= first and (s := r.spent(bill.per_unit)) is not None]
    after = [spent for _, spent in _balance_after(evidence, bill)]
    pairs = (*itertools.pairwise(before), *itertools.pairwise(after))
    return any(later > earlier for earlier, later in pairs)


def _others_seen(evidence: Evidence) -> bool:
    return any(reading.foreign.count or reading.own_earlier for reading in evidence.log)
