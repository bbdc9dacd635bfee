"""Calls without a row: what late rows may explain, what others on the key may, and what is left to be named."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.books import BalanceReading, ForeignRows, LogReading, UsageReading
from relay_audit.finding import Finding
from tests.assess.evidence_builders import KNOWLEDGE, at, lost
from tests.assess.test_billing_parts import PAID, RATIOS, books, found, judged, row, run, sent

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
    ],
)  # fmt: skip
def test_what_it_weighs(told, more, said_so):
    assert weight(found(said(*told, **more), "billing.overcharged")) == said_so


@pytest.mark.parametrize(
    ("told", "more"),
    [
        (((0, 0), (20, OURS + 1000), (75, OURS + 1001)), {}),  # it falls while nothing of ours is sent
        (((-20, -5), (0, 0), (20, OURS + 1000), (75, OURS + 1000)), {}),
        (((0, 0), (20, OURS + 2 * 516)), {}),  # what is reserved for two calls may still be held
        (STILL, {"exchanges": [*FOUR[:2], lost(3, "s3"), FOUR[3]]}),  # no outcome: nobody knows what it came to
        (STILL, {"exchanges": [*FOUR[:2], sent(3, {"content": []}), FOUR[3]]}),  # answered without a usage
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
