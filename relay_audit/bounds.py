"""The few exact statistics the assessors share: bounds on shares, and straight lines. Pure, no library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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


def astray(answers: Sequence[str]) -> int:
    """How many of these answers are not the commonest of them."""
    return len(answers) - max(Counter(answers).values(), default=0)


def stray_chance(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> float:
    """The chance that the first sides would stray so much more than the second ones, were both the same: exact, over all
    ways to deal each pair's answers out anew. Whatever the share of each answer is, it is valid."""
    chances, seen = {0: 1.0}, 0
    for one, other in pairs:
        seen += astray(one) - astray(other)
        ways = _dealt(list(Counter([*one, *other]).values()), len(one))
        total, summed = sum(ways.values()), Counter[int]()
        for so_far, chance in chances.items():
            for more, times in ways.items():
                summed[so_far + more] += chance * times / total  # type: ignore[assignment]
        chances = dict(summed)
    return sum(chance for by, chance in chances.items() if by >= seen)


def _dealt(counts: list[int], n: int) -> dict[int, int]:
    """By how much `n` of these answers stray more than the rest → in how many ways they can be chosen so."""
    hands = {(0, 0, 0): 1}
    for count in counts:
        dealt: Counter[tuple[int, int, int]] = Counter()
        for (taken, most, most_left), ways in hands.items():
            for k in range(count + 1):
                dealt[taken + k, max(most, k), max(most_left, count - k)] += ways * comb(count, k)
        hands = dict(dealt)
    rest, found = sum(counts) - n, Counter[int]()
    for (taken, most, most_left), ways in hands.items():
        if taken == n:
            found[(n - most) - (rest - most_left)] += ways
    return dict(found)


def percent(share: float) -> str:
    """A share as a percentage with at most one decimal."""
    return f"{Decimal(str(round(share * 100, 1))).normalize():f}"
