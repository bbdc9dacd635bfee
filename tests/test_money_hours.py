"""A price that doubles at certain hours: named with its hours inside them, clean outside, and no difference if published."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from relay_audit.lab.knobs import Knobs
from relay_audit.lab.money import Money
from relay_audit.lab.scenario import Scenario, Title
from tests.audits import Audited, TestClock, in_process

INSIDE, OUTSIDE = dt.datetime(2026, 11, 30, 6, 30, tzinfo=dt.UTC), dt.datetime(2026, 11, 30, 11, 0, tzinfo=dt.UTC)
"""14:30 and 19:00 of the site's day."""


def at(start: dt.datetime, home: Path, *, published: bool = False) -> Audited:
    money = Money(peak=(14, 18, Decimal(2)), peak_published=published)
    scenario = Scenario("peak", Title("peak", "peak"), "fault", Knobs(money=money), frozenset(), frozenset())
    return in_process(scenario, 3, home, clock=TestClock(start), profile="quick", checks=[2, 6])


def test_doubled_from_14_to_18_is_named_with_its_hours(tmp_path: Path) -> None:
    done = at(INSIDE, tmp_path)
    assert done.codes == {"billing.price_differs_from_published", "billing.ratio_differs_from_claim"}
    hit = done.finding("billing.price_differs_from_published")
    assert (hit.params["factor"], hit.params["hours"]) == ("2", "06:00-07:00 UTC (14:00-15:00 UTC+8)")


def test_outside_of_those_hours_nothing_differs(tmp_path: Path) -> None:
    assert at(OUTSIDE, tmp_path).codes == set()


@pytest.mark.parametrize("start", [INSIDE, OUTSIDE])
def test_a_multiple_that_the_list_shows_while_it_holds_is_no_difference_from_the_list(
    start: dt.datetime, tmp_path: Path
) -> None:
    done = at(start, tmp_path, published=True)
    assert done.codes == set()
