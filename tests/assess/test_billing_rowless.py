"""Calls without a row: what late rows may explain, what others on the key may, and what is left to be named."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.assess.billing_arithmetic import judge
from relay_audit.assess.billing_balance import against_balance
from relay_audit.assess.billing_calls import bill_of, calls_of
from relay_audit.assess.billing_rowless import reserve
from relay_audit.books import BalanceReading, ForeignRows, LogReading, LogRow, UsageReading
from relay_audit.catalog import load_packs
from relay_audit.finding import Finding
from relay_audit.quote import Prices, UnitPrice, make_quote
from relay_audit.reconcile import reconcile
from tests.assess.evidence_builders import KNOWLEDGE, START, at, lost
from tests.assess.test_billing_arithmetic import written
from tests.assess.test_billing_parts import PAID, RATIOS, books, found, judged, row, run, sent
from tests.assess.test_billing_parts import said as answer

FOUR = [sent(n) for n in range(1, 5)]
SHOWN = (row(1), row(4))
"""Rows of the first and the last call; those between have none."""
LATE = 2 * PAID
"""What their rows would say."""
OURS = LATE + 2 * PAID
SURE, SOFT = ("medium", "strong"), ("low", "supporting")


def counter(*told: tuple[float, int]) -> tuple[BalanceReading, ...]:
    return tuple(BalanceReading(at=at(s), exchange=f"X009{n}", used_quota=1000 + q) for n, (s, q) in enumerate(told))


def said(*told: tuple[float, int], reading: LogReading | None = None, **more: Any) -> list[Finding]:
    log = reading or books(*SHOWN, at=at(70))
    return judged(more.pop("exchanges", FOUR), reading=log, balance=counter(*told), **more)


def weight(made: Finding) -> tuple[str, str]:
    return made.severity, made.confidence


STILL = ((0, 0), (20, OURS + 1000), (75, OURS + 1000))
"""A balance that fell by a thousand units more than late rows would say, and stood still ever since."""


def test_what_it_says_and_rests_on():
    hit = found(said(*STILL), "billing.overcharged")
    assert (hit.outcome, hit.basis, hit.exchanges, weight(hit)) == (
        "mismatch", "relay_word", ("X0002", "X0003"), SURE,
    )  # fmt: skip
    assert hit.params == {
        "n": 2, "of": 4, "charged": "0.002152", "recomputed": "0.000152", "difference": "0.002", "cause": "no_row",
        "road": "rowless", "each": "0.001076", "row_each": "0.000076", "waited_s": 66, "since": "12:00:00", "until": "12:01:15",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fell", "names"),
    [
        (OURS, False),
        (OURS - LATE, False),  # they were not charged at all: no row will come
        (OURS + 3, False),  # five per cent of what late rows would say
        (OURS + 7, False),  # … and a unit for each call
        (OURS + 8, True),
    ],
)
def test_what_late_rows_would_say_is_no_difference(fell, names):
    made = said((0, 0), (20, fell), (75, fell))
    assert ("billing.overcharged" in [f.code for f in made]) is names
    assert ("billing.settlement_pending" in [f.code for f in made]) is (fell >= OURS)


@pytest.mark.parametrize(
    ("told", "more", "said_so"),
    [
        (STILL, {}, SURE),
        (((0, 0), (75, OURS + 1100)), {}, SOFT),  # read once: it may still have moved
        (((0, 0), (13, OURS + 1100), (75, OURS + 1100)), {}, SOFT),  # before it was settled
        (((0, 0), (20, OURS + 1100), (60, OURS + 1100)), {}, SOFT),  # not long enough
        (STILL, {"reading": books(*SHOWN, at=at(60))}, SOFT),
        (STILL, {"reading": books(row(1), row(2), at=at(70))}, SOFT),  # the log ends before the calls without a row
        (STILL, {"reading": books(row(1), row(3), at=at(70))}, SOFT),  # no more than half of them were overtaken
        (((0, 0), (14, OURS + 1100), (64, OURS + 1100)), {}, SURE),  # settled, and waited for, to the second
        (((0, 0), (20, OURS + 1000), (30, OURS + 1000), (75, OURS + 1000)), {}, SURE),
    ],
)  # fmt: skip
def test_what_it_weighs(told, more, said_so):
    assert weight(found(said(*told, **more), "billing.overcharged")) == said_so


@pytest.mark.parametrize(
    ("told", "more"),
    [
        (((0, 0), (20, OURS + 1000), (75, OURS + 1001)), {}),  # it falls while nothing of ours is sent
        (((-20, -5), (0, 0), (20, OURS + 1000), (75, OURS + 1000)), {}),
        (((-20, -5), (1, 0), (20, OURS + 1000), (75, OURS + 1000)), {}),
        (((0, 0), (20, OURS + 2 * 516)), {}),  # what is reserved for two calls may still be held
        (STILL, {"exchanges": [*FOUR[:2], lost(3, "s3"), FOUR[3]]}),  # no outcome: nobody knows what it came to
        (STILL, {"exchanges": [*FOUR[:2], sent(3, {"content": []}), FOUR[3]]}),  # answered without a usage
        (STILL, {"exchanges": [*FOUR[:2], sent(3, failure="timeout_read"), FOUR[3]]}),  # it did not come whole
        (STILL, {"reading": books(*(row(n, other={**RATIOS, "group_ratio": "much"}) for n in (1, 4)), at=at(70))}),
    ],
)
def test_nothing_is_said_where_it_may_be_late_or_somebody_elses_or_is_not_known(told, more):
    assert "billing.overcharged" not in [f.code for f in said(*told, **more)]


@pytest.mark.parametrize(
    "shared",
    [
        {"foreign": ForeignRows(count=1, within=1, within_quota=300, quota=300, first=at(2), last=at(2))},
        {"own_earlier": 1},
        {
            "foreign": ForeignRows(count=1, quota=300, first=at(-9999), last=at(-9999))
        },  # long ago, and the key is theirs too
    ],
)
def test_beside_other_traffic_it_is_a_question_and_no_agreement(shared):
    """What the others' rows say is taken off; what is left may be theirs too, as a row of theirs may be missing like ours."""
    made = said(*STILL, reading=books(*SHOWN, at=at(70), **shared))
    hit = found(made, "billing.overcharged")
    others = "foreign" in shared and shared["foreign"].within
    assert (hit.outcome, hit.severity, hit.above_info) == ("inconclusive", "info", False)
    assert (hit.params["road"], hit.params["charged"]) == ("rowless", "0.001552" if others else "0.002152")
    assert (hit.exchanges, hit.basis) == (("X0002", "X0003"), "relay_word")
    assert "billing.matches" not in [f.code for f in made]
    late = said(
        (0, 0),
        (20, OURS + 300 * bool(others)),
        (75, OURS + 300 * bool(others)),
        reading=books(*SHOWN, at=at(70), **shared),
    )
    assert "billing.overcharged" not in [f.code for f in late]


def test_rows_that_charge_above_their_own_ratios_say_so_themselves():
    twice = (row(1, 2 * PAID), row(4, 2 * PAID))
    made = said((0, 0), (20, 8 * PAID), (75, 8 * PAID), reading=books(*twice, at=at(70)))
    assert [f.params.get("road") for f in made if f.code == "billing.overcharged"] == [None]


def page(second: float, units: int) -> UsageReading:
    dollars = Decimal(1000 + units) / 500_000
    return UsageReading(at=at(second), exchange=f"X0{80 + round(second) // 10}", when="after", state="read", printed=dollars,
                        dollars=dollars)  # fmt: skip


@pytest.mark.parametrize(
    ("last", "said_so"),
    [
        (OURS + 1100, SURE),
        (OURS + 1112, None),  # it still moves
        (0, SOFT),  # a page that does not move as the balance does is another counter
    ],
)
def test_a_usage_page_that_moves_as_the_balance_does_may_stand_still_in_its_place(last, said_so):
    pages = (page(0, 0), page(20, OURS + 1100 if last else 0), page(75, last))
    made = said((0, 0), (20, OURS + 1100), usage=pages)
    hits = [weight(f) for f in made if f.code == "billing.overcharged"]
    assert hits == ([said_so] if said_so else [SOFT])


def test_rows_that_came_after_the_last_balance_hold_nothing_against_it():
    """The balance may have held what was reserved until the rows were written."""
    early = books(*SHOWN, at=at(14))
    late = books(*(row(n) for n in range(1, 5)), at=at(75))

    def read(until: float, *log: LogReading) -> list[str]:
        evidence = run(FOUR, late, balance=counter((0, 0), (until, OURS + 516)))
        return [f.code for f in assess_billing(evidence.model_copy(update={"log": log}), KNOWLEDGE) if f.above_info]

    assert read(15, early, late) == []
    assert read(15, late) == ["billing.hold_not_released"]
    assert read(76, early, late) == ["billing.hold_not_released"]
    assert read(15, early, early.model_copy(update={"rows": late.rows}), late) == ["billing.hold_not_released"]


@pytest.mark.parametrize(("looked", "silent"), [(27, False), (28, True)])
def test_a_counter_that_stood_still_until_the_rows_were_there_held_nothing_more(looked, silent):
    """Whether a reserve was given back after the last balance is open only as long as nobody looked."""
    early, late = books(*SHOWN, at=at(14)), books(*(row(n) for n in range(1, 5)), at=at(looked))
    evidence = run(FOUR, late, balance=counter((0, 0), (15, OURS + 516), (17, OURS + 516)))
    made = assess_billing(evidence.model_copy(update={"log": (early, late)}), KNOWLEDGE)
    assert [f.code for f in made if f.above_info] == ([] if silent else ["billing.hold_not_released"])
    both = evidence.model_copy(update={"log": (early, late)})
    bill = bill_of(both)
    assert bill is not None
    balance, done = reconcile(both.balance, both.log, bill.per_unit), judge(bill, includes_cache=False)
    assert against_balance(both, bill, balance, done).state == ("settling" if silent else "differs")


X = OURS + 1148
"""A fall of thirteen hundred units, of which a hundredth is thirteen."""


@pytest.mark.parametrize(
    ("pages", "said_so"),
    [
        (((0, 0), (14, X), (75, X)), SURE),
        (((0, 0), (2, 500), (20, X), (75, X)), SURE),
        (((0, 0), (20, X + 13), (75, X + 13)), SURE),  # a hundredth apart, as pages are rounded
        (((0, 0), (20, X + 14), (75, X + 14)), SOFT),
        (((0, 0), (20, X), (40, None), (75, X)), SURE),  # one that did not say how much
    ],
)
def test_a_page_is_heard_where_it_moves_by_the_same(pages, said_so):
    shown = tuple(
        page(s, q or 0).model_copy(update={} if q is not None else {"printed": None, "dollars": None}) for s, q in pages
    )
    assert weight(found(said((0, 0), (20, X), usage=shown), "billing.overcharged")) == said_so


def test_a_page_that_still_moves_leaves_a_balance_that_stands_still_in_doubt():
    moving = (page(0, 0), page(20, X - 14), page(75, X))
    assert weight(found(said((0, 0), (20, X), (75, X)), "billing.overcharged")) == SURE
    assert weight(found(said((0, 0), (20, X), (75, X), usage=moving), "billing.overcharged")) == SOFT


@pytest.mark.parametrize(("fell", "names"), [(OURS + 2 * 258, False), (OURS + 2 * 258 + 1, True)])
def test_a_reserve_is_held_at_the_ratios_of_the_rows(fell, names):
    """Half the price, half the reserve: (500 + 16) tokens at half a unit each. A minute later nothing is held."""
    half = books(*(row(n, PAID // 2, other={**RATIOS, "group_ratio": 0.5}) for n in (1, 4)), at=at(70))
    fell -= OURS // 2
    for until, named in ((20, names), (63, names), (64, True)):
        made = said((0, 0), (until, fell), reading=half)
        assert ("billing.overcharged" in [f.code for f in made]) is named


def test_what_is_reserved_for_a_call():
    """By its own input where no row says another; nothing where no output limit is known."""
    long = sent(1, answer(input_tokens=600))
    [free] = calls_of(run([long], books()))
    [booked] = calls_of(run([long], books(row(1))))
    assert (reserve(free, Decimal(1)), reserve(booked, Decimal(1)), reserve(booked, Decimal("0.5"))) == (616, 516, 258)
    made = run([long], books())
    assert made.plan is not None
    unlimited = made.plan.model_copy(update={"steps": (made.plan.steps[0].model_copy(update={"output_limit": None}),)})
    [call] = calls_of(made.model_copy(update={"plan": unlimited}))
    assert (reserve(call, Decimal(1)), reserve(replace(free, step=None), Decimal(1))) == (0, 0)


def test_a_balance_that_is_printed_coarsely_may_differ_by_a_step():
    def coarse(fell: int) -> list[str]:
        shown = tuple(r.model_copy(update={"step": Decimal("0.001")}) for r in counter((0, 0), (20, fell), (75, fell)))
        return [f.code for f in judged(FOUR, reading=books(*SHOWN, at=at(70)), balance=shown)]

    assert "billing.overcharged" not in coarse(OURS - LATE + 583)
    assert "billing.overcharged" in coarse(OURS - LATE + 584)


def test_where_rows_are_free_a_late_one_would_be_too():
    free = books(*(row(n, 0, other={**RATIOS, "group_ratio": 0}) for n in (1, 4)), at=at(70))
    hit = found(said((0, 0), (20, 1000), (75, 1000), reading=free), "billing.overcharged")
    assert (hit.params["charged"], hit.params["recomputed"], hit.params["road"]) == ("0.002", "0", "rowless")


@pytest.mark.parametrize(
    "text", ['p * (hour("UTC") == 12 ? 9 : 1) + c * 20', 'p * (param("service_tier") == "fast" ? 9 : 1) + c * 20']
)
def test_a_late_row_is_priced_for_its_hour_and_its_request(text):
    fast = [sent(n, sent={"service_tier": "fast"}) for n in range(1, 5)]
    tiered = books(*(row(n, 121, other=written(text)) for n in (1, 4)), at=at(70))
    hit = found(said((0, 0), (20, 2000), (75, 2000), reading=tiered, exchanges=fast), "billing.overcharged")
    assert hit.params["recomputed"] == "0.000484"


@pytest.mark.parametrize(("fell", "names"), [(4 * 1088, False), (2 * 1088 + 2400, True)])
def test_cached_tokens_that_are_counted_apart_behind_a_chat_route_make_a_late_row_dearer(fell, names):
    """18 tokens, a thousand out of the cache at a twentieth and four at five: 88 units, or 1,088 where the row's prompt holds
    the cached ones too."""
    usage = {"prompt_tokens": 1018, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1000}}
    calls = [sent(n, {"choices": [{"message": {"content": "OK"}}], "usage": usage}) for n in range(1, 5)]
    rows = (row(n, 1088, prompt_tokens=1018, other={**RATIOS, "usage_semantic": "anthropic"}) for n in (1, 4))
    evidence = run(calls, books(*rows, at=at(70)), balance=counter((0, 0), (20, fell), (75, fell)))
    made = assess_billing(evidence.model_copy(update={"pack": load_packs().pack("openai_chat")}), KNOWLEDGE)
    assert ("rowless" in [f.params.get("road") for f in made]) is names
    assert "billing.overcharged" not in [f.code for f in made if f.params.get("road") != "rowless"]


# Rows in dollars

PRICE = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=START.date())
"""Eighteen tokens in and four out are 76 millionths of a dollar, or 38 of the balance's units."""


def paid(number: int, millionths: int) -> LogRow:
    return row(number, quota=None, amount=Decimal(millionths) / 1_000_000, other={})


def in_dollars(fell: int, *, price: UnitPrice | None = PRICE, rows: tuple[LogRow, ...] = (paid(1, 76), paid(4, 114)),
               until: float = 75, **more: Any) -> list[Finding]:  # fmt: skip
    made = run(more.pop("exchanges", FOUR), books(*rows, at=at(70)), balance=counter((0, 0), (20, fell), (until, fell)))
    quote = make_quote(made.plan, Prices(relay=price), {}, START) if price and made.plan else None
    judged_so = assess_billing(made.model_copy(update={"quote": quote}), KNOWLEDGE)
    return [f for f in judged_so if f.code == "billing.overcharged" and f.params["road"] == "rowless"]


def test_rows_in_dollars_are_known_by_the_dearest_of_them_and_taken_twice():
    """95 units in the rows; two late ones at half as much again as the price are 114 units, and twice that is 228; five
    per cent and a unit for each call are left to rounding."""
    assert in_dollars(95 + 243) == []
    [hit] = in_dollars(95 + 244)
    assert (hit.outcome, weight(hit), hit.exchanges) == ("mismatch", SOFT, ("X0002", "X0003"))
    assert (hit.params["charged"], hit.params["recomputed"], hit.params["row_each"]) == (
        "0.000488",
        "0.000456",
        "0.000228",
    )
    [soon] = in_dollars(95 + 244, until=21)  # no ratio, no reserve
    assert weight(soon) == SOFT


@pytest.mark.parametrize(
    "more",
    [
        {"price": None},
        {"rows": (paid(1, 0), paid(4, 0))},  # nothing to go by
        {"exchanges": [*FOUR[:2], sent(3, {"content": []}), FOUR[3]]},
        {"exchanges": [*FOUR[:2], sent(3, failure="timeout_read"), FOUR[3]]},
        {"exchanges": [sent(1, {"content": []}), *FOUR[1:3], sent(4, {"content": []})]},  # rows of unknown usage
    ],
)
def test_rows_in_dollars_that_cannot_be_placed_leave_it_open(more):
    assert in_dollars(5000, **more) == []


def test_one_row_in_dollars_whose_usage_is_known_is_enough_to_go_by():
    [hit] = in_dollars(5000, exchanges=[*FOUR[:3], sent(4, {"content": []})])
    assert hit.params["recomputed"] == "0.000304"
