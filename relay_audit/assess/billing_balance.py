"""Rows against balance: explained to the unit, or the difference is named. Neither is privileged: both are the relay's."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from relay_audit.assess.billing_arithmetic import Judged
from relay_audit.assess.billing_calls import Bill, Call, dollars, ids
from relay_audit.assess.billing_rowless import SETTLED, beyond_late_rows, came_after, reserve
from relay_audit.books import UsageReading
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.reconcile import Reconciliation
from relay_audit.words import money

QUIET = dt.timedelta(minutes=10)
"""Other traffic so shortly before the first balance may still have been on its way."""
LARGEST_SEARCH = 5_000_000
State = Literal["agrees", "pending", "other_traffic", "settling", "differs", "unknown"]


@dataclass(frozen=True)
class Verdict:
    state: State
    findings: tuple[Finding, ...] = ()


def against_balance(
    evidence: Evidence, bill: Bill, balance: Reconciliation | None, done: tuple[Judged, ...]
) -> Verdict:
    if balance is None or not bill.joined:
        return Verdict("unknown")
    gap, unit = balance.gap, Decimal(1) / bill.per_unit
    if abs(gap) < (unit if bill.quota_units else unit * len(bill.joined)):
        return Verdict("agrees")
    if abs(gap) <= balance.rounded:
        return Verdict("unknown")
    if _others(evidence, balance):
        open_ = _open_calls(evidence, bill)
        beyond = beyond_late_rows(evidence, bill, balance, done, open_) if open_ and gap > 0 else None
        return Verdict("other_traffic", (beyond,) if beyond is not None else ())
    quiet = balance.until - bill.last_sent >= SETTLED
    if gap < 0:
        return Verdict("differs", (_less(evidence, balance),)) if quiet and not _planned(bill) else Verdict("settling")
    if open_ := _open_calls(evidence, bill):
        beyond = beyond_late_rows(evidence, bill, balance, done, open_)
        return Verdict("differs", (beyond,)) if beyond is not None else Verdict("pending")
    if came_after(evidence, bill, balance):
        return Verdict("settling")
    return Verdict("differs", (_more(bill, balance, done, sure=quiet),))


def _others(evidence: Evidence, balance: Reconciliation) -> bool:
    """Other traffic in the span, our own other runs among it, or so shortly before that its charges came in later."""
    if any(reading.own_earlier for reading in evidence.log):
        return True
    seen = [r.foreign.last for r in evidence.log if r.foreign.last is not None]
    return balance.foreign_rows > 0 or any(moment >= balance.since - QUIET for moment in seen)


def _open_calls(evidence: Evidence, bill: Bill) -> list[Call]:
    """Sendings whose charge is not known: answered without a row, or without an outcome."""
    unsettled = {entry.exchange for entry in evidence.ledger.entries if entry.state == "unconfirmed"}
    return [
        call
        for call in bill.calls
        if not call.rows
        and (call.exchange.status == 200 or call.exchange.delivery == "unconfirmed" or call.id in unsettled)
    ]


def _planned(bill: Bill) -> bool:
    return any(row.plan_billed for call in bill.joined for row in call.rows)


def _less(evidence: Evidence, balance: Reconciliation) -> Finding:
    """The rows say more than the balance lost, without other traffic: one of the two is not right. A counter that stands
    still altogether is known of keys without a limit (one-api issue 506) and says nothing."""
    frozen = balance.fell == 0
    params = {
        "endpoint": "balance", "told": dollars(balance.fell), "log": dollars(balance.rows),
        "factor": factor_of(balance.fell, balance.rows),
    }  # fmt: skip
    return finding(
        "billing.usage_endpoint_unreliable",
        params,
        exchanges=tuple(reading.exchange for reading in evidence.balance if reading.exchange),
        outcome="match" if frozen else None,
        severity="info" if frozen else None,
        basis="relay_word",
    )


def factor_of(told: Decimal, log: Decimal) -> str | None:
    """By how many times one amount is the other, to a thousandth; None against nothing."""
    return money((told / log).quantize(Decimal("0.001"))) if log else None


def _more(bill: Bill, balance: Reconciliation, done: tuple[Judged, ...], *, sure: bool) -> Finding:
    """More left the balance than the rows say: reserves that were kept, or a charge without a row."""
    held = _kept_reserves(bill, balance, done)
    common = {"since": f"{balance.since:%H:%M:%S}", "until": f"{balance.until:%H:%M:%S}"}
    weight = {"severity": None if sure else "low", "confidence": "strong" if sure else "supporting"}
    exchanges = ids(bill.calls)
    if held:
        params = {"n": held, "held": dollars(balance.gap), "waited_s": _waited(bill, balance), **common}
        return finding("billing.hold_not_released", params, exchanges=exchanges, basis="relay_word", **weight)  # type: ignore[arg-type]
    params = {
        "n": len(bill.joined), "charged": dollars(balance.fell), "recomputed": dollars(balance.rows),
        "difference": dollars(balance.gap), "cause": "no_row", "road": "balance", **common,
    }  # fmt: skip
    return finding("billing.overcharged", params, exchanges=exchanges, basis="relay_word", **weight)  # type: ignore[arg-type]


def _waited(bill: Bill, balance: Reconciliation) -> int:
    return max(0, round((balance.until - bill.last_sent).total_seconds()))


def _kept_reserves(bill: Bill, balance: Reconciliation, done: tuple[Judged, ...]) -> int:
    """How many reserves make up the gap to the unit; 0 where none do. new-api reserves
    `(max(prompt, 500) + output limit) × model ratio × group ratio`."""
    if not done:
        return 0
    rate = done[0].tariff.model * done[0].tariff.group
    gap = int((balance.gap * bill.per_unit).to_integral_value())
    sizes = [size for call in bill.calls if (size := reserve(call, rate)) > 0]
    if not sizes or gap > LARGEST_SEARCH or gap < min(sizes):
        return 0
    return _fewest(gap, sizes)


def _fewest(gap: int, sizes: list[int]) -> int:
    """The fewest of these, each at most once, that add up to the gap; 0 where none do."""
    best: dict[int, int] = {0: 0}
    for size in sizes:
        for total, count in list(best.items()):
            if (more := total + size) <= gap and best.get(more, count + 2) > count + 1:
                best[more] = count + 1
        if len(best) > 50_000:
            return 0
    return best.get(gap, 0)


def usage_pages(evidence: Evidence, bill: Bill, balance: Reconciliation | None) -> list[Finding]:
    """The usage endpoint, converted to site dollars, against the rows: in both directions, and never as the charge.
    Where it moves as the balance does, it is the same counter, and the balance has said it."""
    read = [(page, page.dollars) for page in evidence.usage if page.state == "read" and page.dollars is not None]
    if len(read) < 2 or not bill.joined or bill.reading.foreign.within or _open_calls(evidence, bill):
        return []
    (first, before), (last, after) = read[0], read[-1]
    told, log = after - before, sum((call.net for call in bill.joined), Decimal(0))
    near = max(_step(last, bill), log / 100)
    if abs(told - log) <= near or (balance is not None and abs(told - balance.fell) <= near):
        return []
    if told < log and last.at - bill.last_sent < SETTLED:
        return []
    params = {"endpoint": "usage", "told": dollars(told), "log": dollars(log), "factor": factor_of(told, log)}
    return [finding("billing.usage_endpoint_unreliable", params, exchanges=(first.exchange, last.exchange),
                    confidence="strong", basis="relay_word")]  # fmt: skip


def _step(reading: UsageReading, bill: Bill) -> Decimal:
    """The smallest difference that the page can show: one-api's family prints unrounded, others perhaps whole cents."""
    cents = Decimal("0.01") if not bill.quota_units else Decimal(0)
    printed, told = reading.printed or Decimal(0), reading.dollars or Decimal(0)
    shown = Decimal(1).scaleb(int(printed.as_tuple().exponent)) if printed else Decimal(0)
    rate = told / printed if printed else Decimal(1)
    return max(cents, 2 * Decimal(1) / bill.per_unit, 2 * shown * rate if shown < Decimal("0.01") else cents)
