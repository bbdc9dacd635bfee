"""Calls that a plan pays for: was the allowance lowered by what the rows charge, and by no more?

new-api writes beside each row what it took from the plan (`subscription_consumed`), what of the plan was used then
(`subscription_used`) and what the wallet gave besides (`wallet_quota_deducted`), all in quota units; sources: the fields
as a public mirror of 2026-08 and two forks write them. sub2api tells the windows of a plan beside its running totals. A
plan belongs to an account, not to a key: what other keys take from it is in nobody's rows, so a step between two rows
accuses nobody; and a plan may weigh models by rules of its own, so that a row that took more has little weight too.
"""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import NamedTuple

from relay_audit.assess.billing_balance import factor_of
from relay_audit.assess.billing_calls import Bill, Call, dollars, ids
from relay_audit.books import Allowance, BalanceReading, LogRow
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import whole_number
from relay_audit.finding import Finding

ROUNDING = 1
"""Quota units by which a row and what it took may differ."""
EVEN = Decimal("0.01")
"""Of the larger of two amounts in dollars: windows are printed with few digits."""


class Taken(NamedTuple):
    call: Call
    row: LogRow
    charged: int
    """What the row charges, in quota units."""
    of_plan: int
    """What the plan gave for it, in quota units …"""
    wallet: int
    """… and what the wallet gave besides."""
    used: int | None
    """What of the plan was used after it."""

    @property
    def taken(self) -> int:
        return self.of_plan + self.wallet


def plans(bill: Bill) -> list[Finding]:
    """Rows against what was taken from the plan for them, row by row and from one to the next."""
    taken = [one for call in bill.joined for row in call.rows if (one := _taken(call, row)) is not None]
    more = [one for one in taken if one.taken > one.charged + ROUNDING]
    less = [one for one in taken if one.taken < one.charged - ROUNDING]
    found = [_above(more, bill)] if more else []
    if less:
        gap = sum(one.charged - one.taken for one in less)
        params = {"n": len(less), "difference": dollars(bill.dollars(gap))}
        found.append(finding("billing.undercharged", params, exchanges=ids(o.call for o in less), basis="relay_word"))
    return [*found, *_between(taken, bill)]


def _taken(call: Call, row: LogRow) -> Taken | None:
    """None where a row is not the plan's or does not say what it took."""
    of_plan = whole_number(row.other.get("subscription_consumed"))
    if not row.plan_billed or row.kind != "consume" or row.quota is None or of_plan is None:
        return None
    wallet = whole_number(row.other.get("wallet_quota_deducted")) or 0
    return Taken(call, row, row.quota, of_plan, wallet, whole_number(row.other.get("subscription_used")))


def _above(items: list[Taken], bill: Bill) -> Finding:
    charged, rows = sum(one.taken for one in items), sum(one.charged for one in items)
    params = {
        "n": len(items), "charged": dollars(bill.dollars(charged)), "recomputed": dollars(bill.dollars(rows)),
        "difference": dollars(bill.dollars(charged - rows)), "cause": "plan", "road": "plan",
    }  # fmt: skip
    return finding("billing.overcharged", params, exchanges=ids(o.call for o in items), severity="low", basis="relay_word",
                   expected={"quota": rows}, observed={"quota": charged})  # fmt: skip


def _between(taken: list[Taken], bill: Bill) -> list[Finding]:
    """By how much the plan was used from our first row to our last, against what our rows took of it meanwhile."""
    told = [(one, one.used) for one in taken if one.used is not None]
    told.sort(key=lambda pair: (pair[0].row.created_at, pair[1]))
    steps = [(after - before, later) for (_, before), (later, after) in itertools.pairwise(told)]
    if bill.reading.foreign.within or any(step < 0 for step, _ in steps):
        return []  # rows of other traffic, or a window that began anew: the steps are not ours alone
    fell, own = sum(step for step, _ in steps), sum(one.of_plan for _, one in steps)
    if abs(fell - own) <= ROUNDING * len(steps):
        return []
    return [_differs(bill.dollars(fell), bill.dollars(own), ids(one.call for _, one in steps))]


def windows(evidence: Evidence) -> list[Finding]:
    """A plan's windows before and after, against the key's own totals of that span, in site dollars."""
    if len(evidence.balance) < 2:
        return []
    first, last = evidence.balance[0], evidence.balance[-1]
    per_unit = evidence.site.quota_per_unit
    before, after = first.spent(per_unit), last.spent(per_unit)
    if before is None or after is None or after < before or first.adapter != last.adapter:
        return []
    known = {row.window: row for row in first.allowances}
    moved = [used for row in last.allowances if (used := _moved(known.get(row.window), row)) is not None]
    where = tuple(r.exchange for r in (first, last) if r.exchange)
    off = [used for used in moved if abs(used - (after - before)) > max(used, after - before) * EVEN + _coarse(last)]
    return [_differs(max(off), after - before, where)] if off else []


def _moved(before: Allowance | None, after: Allowance) -> Decimal | None:
    """None where a window began anew in between, or does not move at all: a limit that is not counted."""
    if before is None or before.used is None or after.used is None or after.used <= before.used:
        return None
    return after.used - before.used


def _coarse(reading: BalanceReading) -> Decimal:
    """The last digit in which its windows are printed, twice."""
    digits = [int(row.used.as_tuple().exponent) for row in reading.allowances if row.used is not None]
    return 2 * Decimal(1).scaleb(min(digits, default=0))


def _differs(fell: Decimal, told: Decimal, exchanges: tuple[str, ...]) -> Finding:
    params = {
        "endpoint": "allowance", "told": dollars(fell), "log": dollars(told), "factor": factor_of(fell, told), "road": "plan",
    }  # fmt: skip
    return finding("billing.usage_endpoint_unreliable", params, exchanges=exchanges, confidence="supporting",
                   basis="relay_word")  # fmt: skip
