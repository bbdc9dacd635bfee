"""The few statistics, against values from tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_audit.bounds import fit, percent, share_interval, unseen_share


@pytest.mark.parametrize(("n", "share"), [(0, 1.0), (1, 0.95), (3, 0.6316), (12, 0.2209), (59, 0.0495), (100, 0.0295)])
def test_the_smallest_share_that_would_have_been_seen(n, share):
    assert unseen_share(n) == pytest.approx(share, abs=5e-5)
    assert n == 0 or (1 - unseen_share(n)) ** n == pytest.approx(0.05)


def test_the_confidence_is_a_parameter():
    assert unseen_share(3, 0.5) == pytest.approx(0.2063, abs=5e-5)
    assert share_interval(5, 10, 0.5) == pytest.approx((0.3507, 0.6493), abs=5e-5)


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        (0, 12, 0, 0.2646),
        (1, 12, 0.0021, 0.3848),
        (3, 12, 0.0549, 0.5719),
        (12, 12, 0.7354, 1),
        (5, 10, 0.1871, 0.8129),
        (0, 100, 0, 0.0362),
    ],
)
def test_clopper_and_pearson(hits, n, low, high):
    assert share_interval(hits, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_share_and_mirrors(case):
    hits, n = case
    low, high = share_interval(hits, n)
    assert 0 <= low <= hits / n <= high <= 1
    assert (low, high) == pytest.approx(tuple(1 - side for side in reversed(share_interval(n - hits, n))), abs=1e-9)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0"), (1, "100"), (0.5, "50"), (0.2209, "22.1"), (0.6316, "63.2"), (1.5, "150"), (0.0004, "0"), (0.1, "10")],
)
def test_a_share_as_a_percentage(share, text):
    assert percent(share) == text


@given(st.integers(-5, 5), st.integers(-500, 500), st.lists(st.integers(0, 300), min_size=2, max_size=8, unique=True))
def test_points_on_a_line_give_it_back(slope, intercept, xs):
    line = fit([(x, intercept + slope * x) for x in xs])
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept), abs=1e-6)
    assert line.residual == pytest.approx(0, abs=1e-6)


def test_the_residual_is_the_largest_distance():
    line = fit([(0, 0), (1, 4), (2, 0)])
    assert (line.slope, line.intercept, line.residual) == pytest.approx((0, 4 / 3, 8 / 3))


@pytest.mark.parametrize("points", [[], [(1, 1)], [(3, 1), (3, 9)]])
def test_no_line_through_fewer_than_two_places(points):
    assert fit(points) is None
