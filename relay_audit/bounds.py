"""The few exact statistics the assessors share: bounds on shares, and straight lines. Pure, no library."""

from __future__ import annotations

from decimal import Decimal
from math import comb
from typing import NamedTuple


class Line(NamedTuple):
    intercept: float
    slope: float
    residual: float
    """The largest distance of a point from the line."""


def fit(points: list[tuple[int, int]]) -> Line | None:
    """Least squares of y over x; None with fewer than two different x."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n if n else 0.0
    mean_y = sum(y for _, y in points) / n if n else 0.0
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if n < 2 or spread == 0:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    return Line(intercept, slope, max(abs(y - intercept - slope * x) for x, y in points))


def unseen_share(n: int, confidence: float = 0.95) -> float:
    """The smallest share that `n` clean samples would have shown with this confidence: 3 → 0.63, 12 → 0.22."""
    return 1.0 if n == 0 else 1 - (1 - confidence) ** (1 / n)


def share_interval(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share, by bisection on the binomial tail."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else _solve(lambda p: 1 - _cdf(hits - 1, n, p), tail, rising=True)
    high = 1.0 if hits == n else _solve(lambda p: _cdf(hits, n, p), tail, rising=False)
    return low, high


def _cdf(k: int, n: int, p: float) -> float:
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def _solve(tail_of, target: float, *, rising: bool) -> float:  # type: ignore[no-untyped-def]  # noqa: ANN001
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if (tail_of(middle) < target) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def percent(share: float) -> str:
    """A share as a percentage with at most one decimal."""
    return f"{Decimal(str(round(share * 100, 1))).normalize():f}"
