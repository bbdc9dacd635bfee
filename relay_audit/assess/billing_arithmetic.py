"""Does each charge follow from the usage that the client saw and from the row's own ratios? Tokens and arithmetic apart.

A row is judged only where it is the one row of its sending that took anything, states its ratios, and the answer
reported its usage. What is left over is counted, never passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from relay_audit.assess.billing_calls import Bill, Call, dollars, ids
from relay_audit.assess.billing_tariff import readings_of, tariff_of_row
from relay_audit.books import LogRow
from relay_audit.codes import finding
from relay_audit.finding import Finding
from relay_audit.tariff import Tariff
from relay_audit.usage import Usage

ROUNDING = 1
"""Quota units that rounding may take either way (one-api rounds up, others half away from zero)."""
Cause = Literal["tokens", "arithmetic", "both", "minimum"]
SEVERAL = 3
"""Calls that must have come to one and the same charge before it is called a minimum."""
CacheKind = Literal["read_as_input", "hour_as_five_minutes", "five_minutes_as_hour"]


@dataclass(frozen=True)
class Judged:
    """One call with its charge computed again."""

    call: Call
    row: LogRow
    tariff: Tariff
    usage: Usage
    charged: int
    again: int
    """By the usage we saw; of several ways to read the row, the one nearest to its charge."""
    cache: CacheKind | None = None
    """The mistake with cached tokens that would explain the charge to the unit."""

    @property
    def difference(self) -> int:
        return self.charged - self.again

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= ROUNDING

    @property
    def cause(self) -> Cause:
        """Whether the row counts other tokens than the answer, or its own figures do not give its charge, or both."""
        own = self.tariff.quota(
            row_usage(self.row, self.usage), self.call.per_unit, self.row.created_at, self.call.body
        )
        by_row = own is not None and abs(self.charged - own) <= ROUNDING
        same = self.row.completion_tokens == self.usage.output and self.row.prompt_tokens in (
            self.usage.input, self.usage.billed_input
        )  # fmt: skip
        return "tokens" if by_row and not same else "arithmetic" if same else "both"


def row_usage(row: LogRow, seen: Usage) -> Usage:
    """The tokens as the row counts them; cache columns that it lacks are taken as the client saw them."""
    read = seen.cache_read if row.cache_read is None else row.cache_read
    five = seen.cache_write_5m if row.cache_write_5m is None else row.cache_write_5m
    hour = seen.cache_write_1h if row.cache_write_1h is None else row.cache_write_1h
    inside = row.other.get("usage_semantic") != "anthropic" and row.other.get("claude") is not True
    own = max(row.prompt_tokens - (read + five + hour if inside else 0), 0)
    return Usage(input=own, cache_read=read, cache_write_5m=five, cache_write_1h=hour, output=row.completion_tokens)


def judge(bill: Bill, *, includes_cache: bool) -> tuple[Judged, ...]:
    """Every call that can be computed again."""
    done = []
    for call in bill.joined:
        rows = [row for row in call.rows if row.kind == "consume"]
        row = rows[0] if rows and all(r.quota == rows[0].quota for r in rows) else None
        tariff = tariff_of_row(row) if row is not None and row.quota is not None and not row.estimated else None
        if row is None or tariff is None or call.usage is None:
            continue
        if (judged := _nearest(call, row, tariff, call.usage, includes_cache)) is not None:
            done.append(judged)
    return tuple(done)


def _nearest(call: Call, row: LogRow, tariff: Tariff, usage: Usage, includes_cache: bool) -> Judged | None:
    """A multiplier that a fork writes may be information only, and cached tokens may be counted in two ways: the reading
    that comes nearest to the charge speaks for the row."""
    tariffs = (tariff, tariff.model_copy(update={"factor": Decimal(1)})) if tariff.factor != 1 else (tariff,)
    charged = row.quota or 0
    ways = []
    for one in tariffs:
        for seen in readings_of(usage, row, includes_cache=includes_cache):
            again = one.quota(seen, call.per_unit, row.created_at, call.body)
            if again is not None:
                ways.append(Judged(call, row, one, seen, charged, again))
    best = min(ways, key=lambda way: abs(way.difference), default=None)
    if best is None or best.agrees:
        return best
    return Judged(call, row, best.tariff, best.usage, charged, best.again, _cache_kind(best))


def _cache_kind(item: Judged) -> CacheKind | None:
    """The one confusion of cached tokens by which the charge comes out, if there is exactly one that does."""
    usage, tariff = item.usage, item.tariff
    if not usage.cached or not tariff.by_tokens:
        return None
    ways: dict[CacheKind, Tariff] = {}
    if usage.cache_read:
        ways["read_as_input"] = tariff.model_copy(update={"cache_read": Decimal(1)})
    if usage.cache_write_1h:
        ways["hour_as_five_minutes"] = tariff.model_copy(update={"cache_write_1h": tariff.cache_write_5m})
    if usage.cache_write_5m:
        ways["five_minutes_as_hour"] = tariff.model_copy(update={"cache_write_5m": tariff.cache_write_1h})
    fits: list[CacheKind] = [
        kind
        for kind, other in ways.items()
        if (q := other.quota(usage, item.call.per_unit, item.row.created_at)) is not None
        and abs(item.charged - q) <= ROUNDING
    ]
    return fits[0] if len(fits) == 1 else None


def arithmetic(done: Iterable[Judged], bill: Bill) -> list[Finding]:
    """Charged above or below what comes out; cached tokens that were confused are said for what they are."""
    done = tuple(done)
    wrong = [item for item in done if not item.agrees]
    plain = [item for item in wrong if item.cache is None]
    above, below = [i for i in plain if i.difference > 0], [i for i in plain if i.difference < 0]
    found = [finding("billing.overcharged", {**_sums(above, bill), "cause": _cause(above, done)}, exchanges=_of(above),
                     confidence="strong", basis="relay_word", expected={"quota": sum(i.again for i in above)},
                     observed={"quota": sum(i.charged for i in above)})] if above else []  # fmt: skip
    if below:
        gap = -sum(item.difference for item in below)
        params = {"n": len(below), "difference": dollars(bill.dollars(gap))}
        found.append(finding("billing.undercharged", params, exchanges=_of(below), basis="relay_word"))
    kinds = dict.fromkeys(item.cache for item in wrong if item.cache)
    return [*found, *(_cache_confused(kind, [i for i in wrong if i.cache == kind], bill) for kind in kinds)]


def _cache_confused(kind: CacheKind, items: list[Judged], bill: Bill) -> Finding:
    """The sign is shown: what is to the buyer's advantage is no accusation."""
    dearer = sum(item.difference for item in items) > 0
    return finding(
        "billing.cache_misbilled",
        {**_sums(items, bill), "kind": kind},
        exchanges=_of(items),
        severity=None if dearer else "low",
        confidence="strong",
        basis="relay_word",
        expected={"quota": sum(i.again for i in items)},
        observed={"quota": sum(i.charged for i in items)},
    )


def _sums(items: list[Judged], bill: Bill) -> dict[str, object]:
    charged, again = sum(i.charged for i in items), sum(i.again for i in items)
    return {
        "n": len(items),
        "charged": dollars(bill.dollars(charged)),
        "recomputed": dollars(bill.dollars(again)),
        "difference": dollars(bill.dollars(charged - again)),
    }


def _cause(items: list[Judged], done: tuple[Judged, ...]) -> Cause:
    """A least charge per call is told by its shape: all that is charged above comes to one figure, and nothing less is
    charged anywhere. It is no less above the row's own ratios, but nobody has counted wrongly."""
    causes = {item.cause for item in items}
    floors = {item.charged for item in items}
    if causes == {"arithmetic"} and len(floors) == 1 and len(items) >= SEVERAL:
        apart = {item.again for item in items}
        if len(apart) > 1 and all(item.charged >= max(floors) for item in done):
            return "minimum"
    return next(iter(causes)) if len(causes) == 1 else "both"


def _of(items: Iterable[Judged]) -> tuple[str, ...]:
    return ids(item.call for item in items)
