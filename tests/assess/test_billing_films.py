"""A film's charge against the list and what is named beside it, and an order that stands in the log twice."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_films import above_the_list, booked_twice
from relay_audit.books import BalanceReading, ForeignRows, LogReading, LogRow, PriceReading, Published, SiteFacts
from relay_audit.evidence import Evidence
from relay_audit.video import VideoOrder
from tests.assess.evidence_builders import answered, at, only, run_of, step_named
from tests.assess.test_film_tiers import FILM, ORDERED, ROUTE
from tests.audits import LIBRARY

PER_FILM = Published(quota_type=1, model_price=Decimal("0.3"), groups=("default",))
SITE = SiteFacts(software="new-api", published=PER_FILM, group_ratio={"default": Decimal(1), "half": Decimal("0.5")})
FILM_UNITS = 150_000
"""Quota units of a film at $0.3."""
PACK = LIBRARY.packs.pack("ark_video")


def row(n: int = 1, units: int = FILM_UNITS, **more: Any) -> LogRow:
    other = {"is_task": True, "model_price": 0.3, "group_ratio": 1, **more.pop("other", {})}
    return LogRow(exchange=f"X{n:04}", created_at=at(n + 1), kind="consume", model=FILM, quota=units, other=other, group="default",
                  **more)  # fmt: skip


def run(*rows: LogRow, told: str = "", films: int = 1, resolution: str = "", seconds: int = 5, fell: int | None = None,
        reading: dict[str, Any] | None = None, **more: Any) -> Evidence:  # fmt: skip
    assert PACK.video is not None
    order = VideoOrder(resolution=resolution or PACK.video.default_resolution, seconds=seconds, task=ROUTE)
    steps = [step_named(f"film{n}").model_copy(update={"order": order}) for n in range(1, films + 1)]
    headers = (("x-new-api-other-ratios", told),) if told else ()
    sent = [answered(n, f"film{n}", ORDERED, moment=at(n), headers=headers) for n in range(1, films + 1)]
    log = LogReading(**{"at": at(60), "exchange": "X0090", "state": "read", "rows": rows, **(reading or {})})
    balance = tuple(BalanceReading(at=at(s), exchange=f"X009{s % 7}", used_quota=1001 + q)
                    for s, q in ((0, 0), (61, fell))) if fell is not None else ()  # fmt: skip
    made = run_of(sent, steps, model=FILM, log=(log,), balance=balance, **{"site": SITE, **more})
    return made.model_copy(update={"pack": PACK})


FIVE = '{"seconds": 5, "size": 1}'


@pytest.mark.parametrize(
    ("units", "told", "other", "factor"),
    [
        (FILM_UNITS * 5, FIVE, {}, None),
        (FILM_UNITS * 5, "", {"seconds": 5, "size": 1}, None),  # the row says it
        (FILM_UNITS * 5, FIVE, {"seconds": 5}, None),
        (FILM_UNITS * 25, FIVE, {"surge_ratio": 5}, None),  # a multiplier of the site's own in the row
        (FILM_UNITS * 5 + 3750, FIVE, {}, None),  # half a hundredth
        (FILM_UNITS * 5 + 3751, FIVE, {}, None),  # … and a unit
        (FILM_UNITS * 5 + 3752, FIVE, {}, "1.005"),
        (FILM_UNITS * 25, FIVE, {}, "5"),
        (
            FILM_UNITS * 5,
            '{"size": 1}',
            {},
            None,
        ),  # what is named does not name the length, and the length is what is left
        (FILM_UNITS * 3, '{"size": 1}', {}, "3"),
        (FILM_UNITS * 5 + 3750, '{"size": 1}', {}, None),
        (FILM_UNITS * 5 + 3752, '{"size": 1}', {}, "5.025"),
        (FILM_UNITS * 3, "", {"size": 1}, "3"),  # the row names it, the answer nothing
        (FILM_UNITS * 25, "", {"seconds": 5}, "5"),
        (FILM_UNITS * 5, "", {"surge_ratio": 5}, None),
        (FILM_UNITS * 15, "", {"surge_ratio": 5}, "3"),
        (FILM_UNITS * 3, FIVE, {}, None),  # less is a fact
        (FILM_UNITS, FIVE, {"group_ratio": 0.5}, None),
        (FILM_UNITS * 10, FIVE, {"group_ratio": 2}, None),  # a ratio of the buyer's own
    ],
)
def test_what_is_named_gives_the_charge(units, told, other, factor):
    made = above_the_list(run(row(units=units, other=other), told=told))
    assert [f.params["factor"] for f in made] == ([factor] if factor else [])
    assert [(f.code, f.outcome, f.severity, f.confidence, f.params["road"]) for f in made] == (
        [("billing.overcharged", "mismatch", "medium", "strong", "film")] if factor else []
    )


def test_what_it_says_and_rests_on():
    made = only(above_the_list(run(row(1, 2 * FILM_UNITS), row(2, 3 * FILM_UNITS), told='{"size": 1}', films=2)))
    assert (made.exchanges, made.basis) == (("X0001", "X0002"), "relay_word")
    assert made.params == {
        "n": 2, "charged": "1.5", "recomputed": "0.6", "difference": "0.9", "cause": "arithmetic", "factor": "2, 3",
        "road": "film",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("times", "how", "asked"),
    [
        ("1", {}, False),
        ("5", {}, False),  # by the second
        ("1.25", {}, False),  # against a price of four seconds
        ("2", {"seconds": 10}, False),
        ("10", {"seconds": 10}, False),
        ("8.333335", {}, False),  # five seconds, and a larger size
        ("0.7", {}, False),
        ("3", {}, True),
        ("3", {"other": {"seconds": 0, "size": "large"}}, True),  # no multipliers
        ("25", {}, True),
        ("1.8", {}, True),
        ("25", {"resolution": "1080p"}, False),  # what another picture costs is the site's own
    ],
)
def test_a_multiple_that_nothing_names_is_a_question(times, how, asked):
    other = how.get("other", {})
    made = above_the_list(
        run(row(units=int(Decimal(times) * FILM_UNITS), other=other), **{k: v for k, v in how.items() if k != "other"})
    )
    assert [(f.code, f.outcome, f.above_info, f.params["road"], f.exchanges, f.basis) for f in made] == (
        [("billing.overcharged", "inconclusive", False, "film_unnamed", ("X0001",), "relay_word")] if asked else []
    )


@pytest.mark.parametrize(
    ("row_group", "claimed", "ratio"),
    [("half", "", "0.5"), ("", "half", "0.5"), ("default", "half", "1"), ("", "", "1")],
)
def test_a_row_without_a_ratio_is_held_against_its_groups(row_group, claimed, ratio):
    """By the row's group, or the one that was bought, or the software's own."""
    for units, factor in ((15, "3"), (5, None)):
        one = row(units=int(units * FILM_UNITS * Decimal(ratio)), other={"group_ratio": None})
        made = run(one.model_copy(update={"group": row_group}), told=FIVE)
        bought = made.target.model_copy(update={"claim": made.target.claim.model_copy(update={"group": claimed})})
        said = above_the_list(made.model_copy(update={"target": bought}))
        assert [f.params["factor"] for f in said] == ([factor] if factor else [])


def test_a_film_beside_others_that_are_honest_or_have_no_row_yet():
    for rows in ((row(2, 25 * FILM_UNITS),), (row(1, 5 * FILM_UNITS), row(2, 25 * FILM_UNITS))):
        made = only(above_the_list(run(*rows, told=FIVE, films=2)))
        assert (made.exchanges, made.params["factor"]) == (("X0002",), "5")


@pytest.mark.parametrize("again", [None, PER_FILM])
def test_a_list_that_stayed_or_that_was_closed_afterwards_did_not_change(again):
    look = PriceReading(at=at(70), exchange="X0099", published=again)
    assert only(above_the_list(run(row(1, 25 * FILM_UNITS), told=FIVE, prices=(look,)))).params["factor"] == "5"


def test_of_several_rows_of_an_order_the_first_is_its_charge():
    later = row(units=25 * FILM_UNITS).model_copy(update={"created_at": at(30)})
    assert above_the_list(run(later, row(units=5 * FILM_UNITS), told=FIVE)) == []


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ((), {}),
        ((row(units=10 * FILM_UNITS),), {"site": SITE.model_copy(update={"published": None})}),
        ((row(units=10 * FILM_UNITS),), {"site": SITE.model_copy(update={"published": PER_FILM.model_copy(
            update={"quota_type": 0})})}),
        ((row(units=10 * FILM_UNITS),), {"prices": (PriceReading(at=at(70), exchange="X0099", published=PER_FILM.model_copy(
            update={"model_price": Decimal(3)})),)}),
        ((row(units=10 * FILM_UNITS, task="task_1"),), {}),  # a later row settles the first
        ((row(units=10 * FILM_UNITS).model_copy(update={"group": "unheard", "other": {"is_task": True}}),), {}),
    ],
)  # fmt: skip
def test_without_a_price_a_charge_or_a_group_nothing_is_said(rows, more):
    assert above_the_list(run(*rows, told='{"size": 1}', **more)) == []


# Twice in the log


def twice(*alike: int, count: int = 0, **more: Any) -> dict[str, Any]:
    n = len(alike)
    foreign = ForeignRows(count=count or n, within=n, quota=n * FILM_UNITS, within_quota=n * FILM_UNITS, first=at(2), last=at(3),
                          alike=tuple(f"X{x:04}" for x in alike), alike_quota=n * FILM_UNITS, alike_rows=n)  # fmt: skip
    return {"reading": {"foreign": foreign, **more}}


def weights(made: Evidence) -> list[tuple[str, str, str]]:
    found = booked_twice(made)
    assert {(f.code, f.basis) for f in found} <= {("billing.duplicate_charge", "relay_word")}
    assert all(f.exchanges == ("X0001", "X0002") for f in found)
    return [(f.outcome, f.severity, f.confidence) for f in found]


def test_one_copy_is_low_and_what_it_says():
    made = only(booked_twice(run(row(), fell=2 * FILM_UNITS, **twice(1))))
    assert (made.outcome, made.severity, made.confidence, made.exchanges) == (
        "mismatch",
        "low",
        "supporting",
        ("X0001",),
    )
    assert made.params == {
        "n": 1, "rows": 2, "charged": "0.6", "difference": "0.3", "taken": True, "road": "film",
    }  # fmt: skip


SURE, LOW, OPEN = (
    ("mismatch", "medium", "strong"),
    ("mismatch", "low", "supporting"),
    ("inconclusive", "info", "supporting"),
)


@pytest.mark.parametrize(
    ("fell", "how", "said"),
    [
        (4 * FILM_UNITS, twice(1, 2), SURE),
        (3 * FILM_UNITS, twice(1, 2), LOW),  # the balance did not pay for both
        (4 * FILM_UNITS + 1, twice(1, 2), LOW),
        (None, twice(1, 2), LOW),
        (4 * FILM_UNITS, twice(1, 2, count=3), OPEN),  # other traffic on the key, even before
        (4 * FILM_UNITS, twice(1, 2, own_earlier=1), OPEN),
    ],
)
def test_what_copies_weigh(fell, how, said):
    assert weights(run(row(1), row(2), films=2, fell=fell, **how)) == [said]


def test_a_copy_in_a_book_of_dollars():
    how = twice(1)
    dollars = how["reading"]["foreign"].model_copy(update={"alike_quota": 0, "alike_amount": Decimal("0.25")})
    made = only(booked_twice(run(row(), reading={"foreign": dollars})))
    assert (made.params["charged"], made.params["difference"]) == ("0.55", "0.25")


def test_rows_like_another_call_and_no_copy_say_nothing():
    assert weights(run(row(), fell=2 * FILM_UNITS, **twice(7))) == []
    assert weights(run(row(), fell=FILM_UNITS)) == []
