"""Rows against the balance and against the usage page: every state at its boundary, and what each finding rests on."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_arithmetic import judge
from relay_audit.assess.billing_balance import Verdict, against_balance, usage_pages
from relay_audit.assess.billing_calls import Bill, bill_of
from relay_audit.books import BalanceReading, ForeignRows, LogReading, UsageReading
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.ledger import Ledger
from relay_audit.reconcile import reconcile
from tests.assess.evidence_builders import at, lost, only
from tests.assess.test_billing_parts import PAID, RATIOS, REFUSED, balances, books, row, run, sent

TWO = [sent(1), sent(2)]
ROWS = (row(1), row(2))


def billed(evidence: Evidence) -> Bill:
    bill = bill_of(evidence)
    assert bill is not None
    return bill


def counter(before: int, after: int) -> tuple[BalanceReading, ...]:
    """A balance that stands at these quota units."""
    return (BalanceReading(at=at(0), exchange="X0091", used_quota=before),
            BalanceReading(at=at(61), exchange="X0092", used_quota=after))  # fmt: skip


def verdict(
    exchanges: list[Exchange], reading: LogReading, balance: tuple[BalanceReading, ...], **more: Any
) -> Verdict:
    evidence = run(exchanges, reading, balance=balance, **more)
    bill = billed(evidence)
    done = judge(bill, includes_cache=False)
    return against_balance(evidence, bill, reconcile(evidence.balance, evidence.log, bill.per_unit), done)


def seen_at(seconds: float, **more: Any) -> LogReading:
    """Books with other traffic that ended then, before the first balance."""
    return books(*ROWS, foreign=ForeignRows(count=1, first=at(seconds), last=at(seconds)), **more)


def reserved(exchange: str) -> Ledger:
    return Ledger(ceiling=Decimal(1)).reserve(exchange, "line", "relay", Decimal("0.01"))


def unsettled(exchange: str) -> Ledger:
    return reserved(exchange).leave_unconfirmed(exchange)


@pytest.mark.parametrize(
    ("exchanges", "reading", "balance", "more", "state"),
    [
        (TWO, books(*ROWS), (), {}, "unknown"),
        (TWO, books(), balances(0), {}, "unknown"),
        (TWO, books(*ROWS), balances(2 * PAID), {}, "agrees"),
        (TWO, books(*ROWS), balances(2 * PAID + 1), {}, "differs"),
        (TWO, books(*ROWS), balances(2 * PAID - 1), {}, "differs"),
        (TWO, books(row(1, 0), row(2, 0)), counter(0, 5000), {}, "unknown"),  # a cent, in a balance of whole cents
        (TWO, books(row(1, 0), row(2, 0)), counter(0, 10_000), {}, "differs"),
        (TWO, books(*ROWS, foreign=ForeignRows(count=1, within=1, within_quota=5)), balances(999), {}, "other_traffic"),
        (TWO, books(*ROWS, own_earlier=1), balances(999), {}, "other_traffic"),
        (TWO, seen_at(-600), balances(999), {}, "other_traffic"),
        (TWO, seen_at(-601), balances(999), {}, "differs"),
        (TWO, books(*ROWS), balances(999, until=12), {}, "differs"),
        (TWO, books(*ROWS), balances(9, until=12), {}, "differs"),
        (TWO, books(*ROWS), balances(9, until=11.9), {}, "settling"),
        (TWO, books(*(row(n, plan_billed=True) for n in (1, 2))), balances(9), {}, "settling"),
        (TWO, books(row(1)), balances(2 * PAID), {}, "pending"),
        (TWO, books(row(1)), balances(999), {}, "differs"),  # no late row would say that much
        ([sent(1), lost(2, "s2")], books(row(1)), balances(999), {}, "pending"),
        ([sent(1), lost(2, "s2", delivery="not_sent")], books(row(1)), balances(999), {}, "differs"),
        ([sent(1), sent(2, REFUSED, status=400)], books(row(1)), balances(999), {}, "differs"),
        ([sent(1), sent(2, REFUSED, status=400)], books(row(1)), balances(999), {"ledger": unsettled("X0002")}, "pending"),
        ([sent(1), sent(2, REFUSED, status=400)], books(row(1)), balances(999), {"ledger": unsettled("X0001")}, "differs"),
        ([sent(1), sent(2, REFUSED, status=400)], books(row(1)), balances(999),
         {"ledger": reserved("X0002").settle("X0002", Decimal(0), "usage")}, "differs"),
    ],
)  # fmt: skip
def test_what_balance_and_rows_come_to_together(exchanges, reading, balance, more, state):
    made = verdict(exchanges, reading, balance, **more)
    assert made.state == state
    assert bool(made.findings) is (state == "differs")


@pytest.mark.parametrize(
    ("fell", "state"), [("0.0000035", "agrees"), ("0.000004", "differs"), ("0.0000041", "differs")]
)
def test_amounts_in_dollars_may_be_rounded_once_a_call(fell, state):
    rows = [row(n, other={}).model_copy(update={"quota": None, "amount": Decimal("0.001")}) for n in (1, 2)]
    balance = (
        BalanceReading(at=at(0), exchange="X0091", used=Decimal("3.1234567")),
        BalanceReading(at=at(61), exchange="X0092", used=Decimal("3.1254567") + Decimal(fell)),
    )
    assert verdict(TWO, books(*rows), balance).state == state


def weight(made: Finding) -> tuple[Any, ...]:
    return (made.code, made.outcome, made.severity, made.confidence, made.basis, made.exchanges)


SPAN = {"since": "12:00:00", "until": "12:01:01"}
SOON = {"since": "12:00:00", "until": "12:00:05"}
NO_ROW = {
    "n": 2,
    "charged": "0.000172",
    "recomputed": "0.000152",
    "difference": "0.00002",
    "cause": "no_row",
    "road": "balance",
}
OURS = ("X0001", "X0002")
PAGES = ("X0091", "X0092")


@pytest.mark.parametrize(
    ("balance", "params", "said"),
    [
        (balances(2 * PAID + 10), {**NO_ROW, **SPAN}, ("billing.overcharged", "mismatch", "high", "strong", "relay_word", OURS)),
        (balances(2 * PAID + 10, until=5), {**NO_ROW, **SOON},
         ("billing.overcharged", "mismatch", "low", "supporting", "relay_word", OURS)),
        (balances(2 * PAID + 516), {"n": 1, "held": "0.001032", "waited_s": 59, **SPAN},
         ("billing.hold_not_released", "mismatch", "medium", "strong", "relay_word", OURS)),
        (balances(2 * PAID + 516, until=5), {"n": 1, "held": "0.001032", "waited_s": 3, **SOON},
         ("billing.hold_not_released", "mismatch", "low", "supporting", "relay_word", OURS)),
        (balances(2 * PAID + 516, until=1), {"n": 1, "held": "0.001032", "waited_s": 0, "since": "12:00:00", "until": "12:00:01"},
         ("billing.hold_not_released", "mismatch", "low", "supporting", "relay_word", OURS)),
        (balances(PAID), {"endpoint": "balance", "told": "0.000076", "log": "0.000152", "factor": "0.5"},
         ("billing.usage_endpoint_unreliable", "mismatch", "low", "supporting", "relay_word", PAGES)),
        (counter(1001, 1001), {"endpoint": "balance", "told": "0", "log": "0.000152", "factor": "0"},
         ("billing.usage_endpoint_unreliable", "match", "info", "supporting", "relay_word", PAGES)),
    ],
)  # fmt: skip
def test_what_a_difference_says_and_rests_on(balance, params, said):
    made = only(list(verdict(TWO, books(*ROWS), balance).findings))
    assert weight(made) == said
    assert made.params == params


def test_another_runs_reading_of_the_balance_names_no_exchange():
    first, last = balances(PAID)
    made = only(list(verdict(TWO, books(*ROWS), (first.model_copy(update={"exchange": ""}), last)).findings))
    assert made.exchanges == ("X0092",)


def test_rows_that_a_log_of_the_newest_few_has_dropped_since_count_with_the_others():
    early, late = books(row(1), at=at(5)), books(row(2), at=at(60))
    made = reconcile(counter(0, 2 * PAID), (early, late), 500_000)
    assert made is not None
    assert (made.rows * 500_000, made.gap) == (2 * PAID, 0)
    again = reconcile(counter(0, 2 * PAID), (early, books(row(1), row(2), at=at(60))), 500_000)
    assert again is not None
    assert again.gap == 0  # a row that is still shown counts once


def held(calls: list[tuple[int, dict[str, Any]]], gap: int, *, limit: int | None = 16, refused: bool = False) -> int:
    """How many reserves make up a gap; each call is a charge and what its row says besides."""
    exchanges = [sent(n) for n in range(1, len(calls) + 1)]
    rows = [row(n, quota, **more) for n, (quota, more) in enumerate(calls, 1)]
    if refused:
        exchanges.append(sent(len(exchanges) + 1, REFUSED, status=400))
    evidence = run(exchanges, books(*rows), balance=balances(sum(quota for quota, _ in calls) + gap))
    steps = tuple(step.model_copy(update={"output_limit": limit}) for step in evidence.plan.steps)
    evidence = evidence.model_copy(update={"plan": evidence.plan.model_copy(update={"steps": steps})})
    bill = billed(evidence)
    balance = reconcile(evidence.balance, evidence.log, bill.per_unit)
    made = against_balance(evidence, bill, balance, judge(bill, includes_cache=False)).findings
    return next((f.params["n"] for f in made if f.code == "billing.hold_not_released"), 0)


PLAIN = (PAID, {})
LONG = (1020, {"prompt_tokens": 1000})
LONGER = (1536, {"prompt_tokens": 1016})


def ratios(**other: Any) -> dict[str, Any]:
    return {"other": {**RATIOS, **other}}


@pytest.mark.parametrize(
    ("calls", "gap", "more", "n"),
    [
        ([PLAIN], 516, {}, 1),  # (500 + 16) × 1 × 1
        ([PLAIN], 517, {}, 0),
        ([PLAIN], 515, {}, 0),
        ([PLAIN, PLAIN], 1032, {}, 2),
        ([PLAIN], 1032, {}, 0),  # each at most once
        ([PLAIN], 1032, {"refused": True}, 2),  # a refusal was reserved for too
        ([LONG], 1016, {}, 1),  # a prompt longer than the least that is reserved
        ([PLAIN, PLAIN, LONGER], 1032, {}, 1),  # the fewest
        ([LONGER, PLAIN, PLAIN], 1032, {}, 1),
        ([PLAIN, PLAIN, PLAIN], 1032, {}, 2),
        ([(19, ratios(group_ratio=0.5))], 258, {}, 1),
        ([(76, ratios(model_ratio=2))], 1032, {}, 1),
        ([(5, ratios(model_ratio=0.125))], 65, {}, 1),  # 64.5: half goes up
        ([PLAIN], 516, {"limit": None}, 0),
        ([PLAIN], 500, {"limit": None}, 0),
        ([(0, ratios(model_ratio=0))], 516, {}, 0),
        ([(PAID, ratios(group_ratio="much"))], 516, {}, 0),  # a row that states no ratios
        ([(5_000_484, {"prompt_tokens": 4_999_984, **ratios()})], 5_000_000, {}, 1),
        ([(5_000_484, {"prompt_tokens": 4_999_985, **ratios()})], 5_000_001, {}, 0),  # beyond what is searched
    ],
)  # fmt: skip
def test_reserves_that_were_kept_are_the_fewest_that_make_up_the_gap(calls, gap, more, n):
    assert held(calls, gap, **more) == n


# The usage page


def page(printed: str | None, second: float = 61, *, dollars: str | None = "", **more: Any) -> UsageReading:
    worth = printed if dollars == "" else dollars
    return UsageReading(
        **{"at": at(second), "exchange": f"X0{round(second):03}", "when": "before", "state": "read",
           "printed": Decimal(printed) if printed else None, "dollars": Decimal(worth) if worth else None, **more}
    )  # fmt: skip


def paged(*pages: UsageReading, rows: tuple[Any, ...] = ROWS, fell: int | None = None, **more: Any) -> list[Finding]:
    reading = more.pop("reading", None) or books(*rows)
    evidence = run(more.pop("exchanges", TWO), reading, usage=pages, balance=balances(fell) if fell is not None else ())
    bill = billed(evidence)
    return usage_pages(evidence, bill, reconcile(evidence.balance, evidence.log, bill.per_unit))


START_AT = page("1.000000", 0)


def test_a_page_that_disagrees_says_both_figures():
    made = only(paged(START_AT, page("1.5", 30), page("1.000304")))
    assert weight(made) == (
        "billing.usage_endpoint_unreliable", "mismatch", "low", "strong", "relay_word", ("X0000", "X0061"),
    )  # fmt: skip
    assert made.params == {"endpoint": "usage", "told": "0.000304", "log": "0.000152", "factor": "2"}


@pytest.mark.parametrize(
    ("last", "disagrees"),
    [
        (page("1.000156"), False),  # two quota units more than the rows
        (page("1.000157"), True),
        (page("1.000148"), False),
        (page("1.000147"), True),
        (page("1.00017"), False),  # twice the last digit that is printed
        (page("1.00018"), True),
        (page("7.00119", dollars="1.00017"), True),  # a seventh of a digit of the display
        (page("1.00"), True),  # whole cents are no precision where units are printed unrounded
        (page("0.00000", dollars="1.000156"), False),
        (page(None, dollars="1.000156"), False),
        (page(None, dollars="1.000157"), True),
        (page("1.000102", 11.9), False),  # a page may lag …
        (page("1.000102", 12), True),
        (page("1.000302", 5), True),  # … but does not run ahead
        (page("1.000304", state="unavailable"), False),
        (page("1.000304", dollars=None), False),
    ],
)  # fmt: skip
def test_how_far_a_page_may_be_off(last, disagrees):
    assert bool(paged(START_AT, last)) is disagrees


def test_one_hundredth_of_a_large_bill_is_the_pages_rounding():
    rows = (row(1, 500_000), row(2, 500_000))
    assert paged(START_AT, page("3.020000"), rows=rows) == []
    assert len(paged(START_AT, page("3.020001"), rows=rows)) == 1


def test_a_page_without_a_first_amount_counts_from_the_first_that_has_one():
    assert len(paged(page("9", -5, dollars=None), START_AT, page("1.000304"))) == 1
    assert paged(page("1.000304")) == []


def test_rows_that_took_nothing_have_no_factor():
    made = only(paged(START_AT, page("1.000304"), rows=(row(1, 0), row(2, 0))))
    assert (made.params["log"], made.params["factor"]) == ("0", None)


def test_a_round_multiple_is_written_out():
    assert only(paged(START_AT, page("1.003040"))).params["factor"] == "20"


def test_books_in_dollars_are_held_to_whole_cents():
    rows = tuple(row(n).model_copy(update={"quota": None, "amount": Decimal("0.05")}) for n in (1, 2))
    assert paged(START_AT, page("1.110000"), rows=rows) == []
    assert len(paged(START_AT, page("1.110001"), rows=rows)) == 1


@pytest.mark.parametrize(
    ("last", "rows", "fell", "disagrees"),
    [
        ("1.000076", ROWS, PAID, False),  # the balance has said it
        ("1.000080", ROWS, PAID, False),
        ("1.000081", ROWS, PAID, True),
        ("1.000081", ROWS, 3 * PAID, True),
        ("1.505000", (row(1, 250_000), row(2, 0)), 255_000, False),
        ("1.515000", (row(1, 250_000), row(2, 0)), 255_000, False),  # a hundredth of the rows
        ("1.515001", (row(1, 250_000), row(2, 0)), 255_000, True),
        ("1.00002", (row(1, 0), row(2, 0)), 20, False),
    ],
)  # fmt: skip
def test_a_page_that_moves_as_the_balance_does_is_the_same_counter(last, rows, fell, disagrees):
    assert bool(paged(START_AT, page(last), rows=rows, fell=fell)) is disagrees


def test_a_page_says_nothing_beside_other_traffic_or_without_every_row():
    other = ForeignRows(count=1, within=1, within_quota=10, first=at(3), last=at(3))
    assert paged(START_AT, page("2"), reading=books(*ROWS, foreign=other)) == []
    assert paged(START_AT, page("2"), rows=ROWS[:1]) == []
    assert paged(START_AT, page("2"), rows=()) == []
    assert (
        paged(
            START_AT, page("2"), exchanges=[sent(1, REFUSED, status=400), lost(2, "s2", delivery="not_sent")], rows=()
        )
        == []
    )
