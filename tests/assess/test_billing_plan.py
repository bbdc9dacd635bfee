"""Calls that a plan pays for: what each row took of it, and by how much it and its windows moved."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_calls import bill_of
from relay_audit.assess.billing_plan import plans, windows
from relay_audit.books import Allowance, BalanceReading, ForeignRows, LogReading, LogRow
from relay_audit.finding import Finding
from tests.assess.evidence_builders import at, codes, only
from tests.assess.test_billing_parts import PAID, RATIOS, books, row, run, sent

CALLS = [sent(n) for n in range(1, 4)]


def planned(n: int, consumed: Any = PAID, used: int | None = None, wallet: int | None = None, **more: Any) -> LogRow:
    told = {"subscription_consumed": consumed, "subscription_used": used, "wallet_quota_deducted": wallet}
    other = {**RATIOS, **{name: value for name, value in told.items() if value is not None}}
    return row(n, **{"plan_billed": True, "other": other, **more})


def judged(*rows: LogRow, reading: LogReading | None = None) -> list[Finding]:
    bill = bill_of(run(CALLS, reading or books(*rows)))
    assert bill is not None
    return plans(bill)


def weight(made: Finding) -> tuple[Any, ...]:
    return (made.code, made.outcome, made.severity, made.confidence, made.basis, made.exchanges)


def test_a_plan_that_lost_more_than_the_rows_charge():
    made = only(judged(planned(1, PAID + 2), planned(2, PAID + 20), planned(3)))
    assert weight(made) == ("billing.overcharged", "mismatch", "low", "supporting", "relay_word", ("X0001", "X0002"))
    assert made.params == {
        "n": 2, "charged": "0.000196", "recomputed": "0.000152", "difference": "0.000044", "cause": "plan", "road": "plan",
    }  # fmt: skip
    assert (made.expected, made.observed) == ({"quota": 2 * PAID}, {"quota": 2 * PAID + 22})


def test_a_plan_that_lost_less_is_a_fact():
    made = only(judged(planned(1, PAID - 2), planned(2, PAID - 10), planned(3)))
    assert weight(made)[:3] == ("billing.undercharged", "match", "info")
    assert (made.params, made.exchanges, made.basis) == (
        {"n": 2, "difference": "0.000024"},
        ("X0001", "X0002"),
        "relay_word",
    )


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (planned(1, PAID + 1), []),
        (planned(1, PAID - 1), []),
        (planned(1, PAID + 2), ["billing.overcharged"]),
        (planned(1, PAID - 2), ["billing.undercharged"]),
        (planned(1, PAID - 10, wallet=10), []),
        (planned(1, PAID - 10, wallet=12), ["billing.overcharged"]),
        (planned(1, PAID - 10, wallet=8), ["billing.undercharged"]),
        (planned(1, 999, plan_billed=False), []),
        (planned(1, 999, kind="refund"), []),
        (planned(1, "many"), []),
        (row(1, plan_billed=True), []),
        (planned(1, 999, quota=None), []),  # a row that is not written in units
        (planned(1, 2, quota=0), ["billing.overcharged"]),
        (planned(1, 1, quota=0), []),
    ],
)
def test_a_unit_either_way_is_rounding_and_only_a_plans_own_rows_are_read(one, said):
    assert codes(judged(one)) == said


@pytest.mark.parametrize(
    ("rows", "differs"),
    [
        ((planned(1, used=900), planned(2, used=900 + PAID)), None),
        ((planned(1, used=900), planned(2, used=900 + PAID + 1)), None),
        ((planned(1, used=900), planned(2, used=900 + PAID - 1)), None),
        ((planned(1, used=900), planned(2, used=900 + PAID + 2)), ("0.00008", "0.000076", "1.053", ("X0002",))),
        ((planned(1, used=900), planned(2, used=900 + PAID - 2)), ("0.000072", "0.000076", "0.947", ("X0002",))),
        ((planned(1, used=900), planned(2, used=900)), ("0", "0.000076", "0", ("X0002",))),
        ((planned(1, used=0), planned(2, used=PAID + 2)), ("0.00008", "0.000076", "1.053", ("X0002",))),
        # Two steps may each be a unit off
        ((planned(1, used=900), planned(2, used=939), planned(3, used=978)), None),
        ((planned(1, used=900), planned(2, used=939), planned(3, used=979)), ("0.000158", "0.000152", "1.039", ("X0002", "X0003"))),
        # What the wallet gave is not the plan's
        ((planned(1, used=900), planned(2, PAID - 10, used=900 + PAID - 10, wallet=10)), None),
        # The order in which they were written counts, not that of sending
        ((planned(1, used=900 + PAID, after=5), planned(2, used=900)), None),
        ((planned(1, used=900 + PAID, after=1.5), planned(2, used=900, after=0.5)), None),
        # A window that began anew
        ((planned(1, used=900), planned(2, used=899)), None),
        ((planned(1, used=900), planned(2, used=5), planned(3, used=905)), None),
        ((planned(1, used=900),), None),
        ((planned(1), planned(2)), None),
        ((planned(1, 0, used=900, quota=0), planned(2, 0, used=902, quota=0)), ("0.000004", "0", None, ("X0002",))),
    ],
)  # fmt: skip
def test_from_row_to_row_a_plan_falls_by_what_the_rows_took_of_it(rows, differs):
    made = judged(*rows)
    if differs is None:
        assert made == []
        return
    told, log, factor, exchanges = differs
    hit = only(made)
    assert weight(hit) == (
        "billing.usage_endpoint_unreliable",
        "mismatch",
        "low",
        "supporting",
        "relay_word",
        exchanges,
    )
    assert hit.params == {"endpoint": "allowance", "told": told, "log": log, "factor": factor, "road": "plan"}


def test_beside_other_traffic_the_steps_are_not_ours():
    rows = (planned(1, used=900), planned(2, used=2000))
    other = ForeignRows(count=1, within=1, within_quota=5)
    assert judged(reading=books(*rows, foreign=other)) == []
    assert codes(judged(reading=books(*rows, foreign=ForeignRows(count=1)))) == ["billing.usage_endpoint_unreliable"]


def stood(second: float, used: str | None, spent: str | None, *, exchange: str = "X0091", adapter: str = "sub2api",
          window: str = "5h") -> BalanceReading:  # fmt: skip
    return BalanceReading(
        at=at(second), exchange=exchange, adapter=adapter, used=Decimal(spent) if spent else None,
        allowances=(Allowance(window=window, used=Decimal(used) if used else None),),
    )  # fmt: skip


LAST = {"exchange": "X0092"}


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        (("1.0000", "3.0"), ("1.5000", "3.5"), None),
        (("1.0000", "3.0"), ("1.5052", "3.5"), None),  # a hundredth of the larger, and two of the last digit
        (("1.0000", "3.0"), ("1.5053", "3.5"), "0.5053"),
        (("1.0000", "3.0"), ("1.4948", "3.5"), None),
        (("1.0000", "3.0"), ("1.4947", "3.5"), "0.4947"),
        (("1", "3.0"), ("3", "3.1"), None),  # whole dollars
        (("1", "3.0"), ("4", "3.1"), "3"),
        (("1.0000", "3.0"), ("1.5000", "3.0"), "0.5"),  # the totals stand still
        (("1.0000", "3.0"), ("1.0000", "3.5"), None),  # a limit that is not counted
        (("1.0000", "3.0"), ("0.5000", "3.5"), None),  # it began anew
        ((None, "3.0"), ("1.5000", "3.1"), None),
        (("1.0000", "3.0"), (None, "3.1"), None),
        (("1.0000", None), ("1.5000", "3.1"), None),
        (("1.0000", "3.0"), ("1.5000", None), None),
        (("1.0000", "3.0"), ("1.5000", "2.9"), None),
    ],
)
def test_a_window_moves_as_the_totals_do(first, last, told):
    made = windows(run(CALLS, books(), balance=(stood(0, *first), stood(60, *last, exchange="X0092"))))
    if told is None:
        assert made == []
        return
    hit = only(made)
    gone = str(Decimal(last[1]) - Decimal(first[1])).rstrip("0").rstrip(".") or "0"
    assert (hit.params["told"], hit.params["log"], hit.params["road"]) == (told, gone, "plan")
    assert weight(hit)[1:] == ("mismatch", "low", "supporting", "relay_word", ("X0091", "X0092"))


def test_windows_are_compared_over_the_whole_span_of_one_book_and_by_their_names():
    ends = (stood(0, "1.0000", "3.0"), stood(60, "2.0000", "3.5", exchange=""))
    assert only(windows(run(CALLS, books(), balance=ends))).exchanges == ("X0091",)
    between = stood(30, "1.9000", "3.4")
    assert len(windows(run(CALLS, books(), balance=(ends[0], between, ends[1])))) == 1
    assert windows(run(CALLS, books(), balance=ends[:1])) == []
    assert windows(run(CALLS, books(), balance=(ends[0], stood(60, "2.0000", "3.5", adapter="other")))) == []
    assert windows(run(CALLS, books(), balance=(ends[0], stood(60, "2.0000", "3.5", window="7d")))) == []
    bare = ends[1].model_copy(update={"allowances": ()})
    assert windows(run(CALLS, books(), balance=(ends[0], bare))) == []


def test_of_several_windows_the_one_that_moved_most_is_told():
    def both(second: float, short: str, long: str, spent: str) -> BalanceReading:
        rows = (Allowance(window="5h", used=Decimal(short)), Allowance(window="7d", used=Decimal(long)))
        return BalanceReading(at=at(second), exchange="", adapter="sub2api", used=Decimal(spent), allowances=rows)

    made = only(
        windows(run(CALLS, books(), balance=(both(0, "1.0000", "5.0000", "3.0"), both(60, "1.5000", "7.0000", "3.1"))))
    )
    assert (made.params["told"], made.params["factor"]) == ("2", "20")


def test_units_are_turned_into_dollars_by_the_sites_own_rate():
    def units(second: float, used: str, spent: int) -> BalanceReading:
        return BalanceReading(
            at=at(second), exchange="", used_quota=spent, allowances=(Allowance(window="5h", used=Decimal(used)),)
        )

    made = run(CALLS, books(), balance=(units(0, "1.0000", 1_000_000), units(60, "1.5000", 1_250_000)))
    assert windows(made) == []
