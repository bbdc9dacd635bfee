"""The tariff that a row or a price list states, and a row's charge computed again from the usage that the client saw."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from relay_audit.books import LogRow, Published
from relay_audit.tariff import HOUR_WRITE, READ, WRITE, Tariff
from relay_audit.tariff_expression import decoded
from relay_audit.usage import Usage

BEYOND = ("violation_fee", "is_task", "image_ratio", "image_output", "audio_ratio", "audio_input", "audio_output", "ws")
"""Keys of a row that mean other arithmetic than tokens and tool calls; such a row is not judged."""
LARGEST_RATIO = 10**6
"""A ratio beyond it is no ratio of any price; a stranger's number must not break the arithmetic."""
KNOWN_RATIOS = frozenset({
    "model_ratio", "group_ratio", "user_group_ratio", "completion_ratio", "cache_ratio", "cache_creation_ratio",
    "cache_creation_ratio_5m", "cache_creation_ratio_1h", "image_ratio", "audio_ratio", "audio_completion_ratio",
    "image_completion_ratio",
})  # fmt: skip
MULTIPLIERS = ("_ratio", "_multiplier", "_factor")
"""How the name of a further multiplier ends, whatever a fork calls it."""
PER_UNIT = 500_000


def tariff_of_row(row: LogRow) -> Tariff | None:
    """By the row's own ratios; None where it states none, or other arithmetic than ours."""
    other = row.other
    if any(other.get(key) for key in BEYOND) or row.task:
        return None
    group, surcharge = ratio(other.get("group_ratio")), _surcharge(other.get("tool_surcharges"))
    if group is None or surcharge is None or group < 0:
        return None
    common = {"group": group, "surcharge": surcharge, "factor": further(row)}
    if other.get("billing_mode") or other.get("expr_b64"):
        text = decoded(other.get("expr_b64"))
        return Tariff(expression=text, **common) if text else None
    model, completion = ratio(other.get("model_ratio")), ratio(other.get("completion_ratio"))
    fixed = ratio(other.get("model_price", -1))
    if fixed is None or (fixed >= 0 and (fixed or not model)):
        return None if fixed is None else Tariff(fixed=fixed, **common)
    if model is None or completion is None or min(model, completion) < 0:
        return None
    return Tariff(model=model, completion=completion, **_cache(other), **common)


def further(row: LogRow) -> Decimal:
    """The product of multipliers in a row that are none of the usual ratios."""
    product = Decimal(1)
    for key, value in row.other.items():
        if (
            key.endswith(MULTIPLIERS)
            and key not in KNOWN_RATIOS
            and (number := ratio(value)) is not None
            and number > 0
        ):
            product *= number
    return product


def tariff_published(published: Published, group: Decimal) -> Tariff | None:
    """A price list's row in a group of this ratio; None where it does not say enough."""
    if published.billing_mode or published.billing_expr:
        return Tariff(expression=published.billing_expr, group=group) if published.billing_expr else None
    if published.quota_type == 1:
        return None if published.model_price is None else Tariff(fixed=published.model_price, group=group)
    if published.model_ratio is None or published.completion_ratio is None:
        return None
    write = WRITE if published.create_cache_ratio is None else published.create_cache_ratio
    return Tariff(
        model=published.model_ratio,
        completion=published.completion_ratio,
        cache_read=READ if published.cache_ratio is None else published.cache_ratio,
        cache_write_5m=write,
        cache_write_1h=write * HOUR_WRITE,
        group=group,
    )


def readings_of(usage: Usage, row: LogRow, *, includes_cache: bool) -> tuple[Usage, ...]:
    """The usage as the client's dialect says it, and, where the row says that the vendor behind counts otherwise, also
    so: `prompt_tokens` that hold no cached tokens although the dialect's would."""
    other = row.other.get("usage_semantic") == "anthropic" or row.other.get("claude") is True
    if not (includes_cache and other and usage.cached):
        return (usage,)
    return (usage, usage.model_copy(update={"input": usage.input + usage.cached}))


def recompute(
    row: LogRow,
    usage: Usage,
    per_unit: int = PER_UNIT,
    at: dt.datetime | None = None,
    body: Mapping[str, Any] | None = None,
) -> int | None:
    """The row's quota from a usage and the row's own ratios; None where it is no row of that kind."""
    tariff = tariff_of_row(row)
    return None if tariff is None else tariff.quota(usage, per_unit, at or row.created_at, body)


def ratio(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < LARGEST_RATIO else None


def _cache(other: Mapping[str, Any]) -> dict[str, Decimal]:
    write = _or(other.get("cache_creation_ratio"), WRITE)
    five = _or(other.get("cache_creation_ratio_5m"), write)
    return {
        "cache_read": _or(other.get("cache_ratio"), READ),
        "cache_write_5m": five,
        "cache_write_1h": _or(other.get("cache_creation_ratio_1h"), five * HOUR_WRITE),
    }


def _or(value: object, default: Decimal) -> Decimal:
    number = ratio(value)
    return default if number is None or number < 0 else number


def _surcharge(items: object) -> Decimal | None:
    """Site dollars of tool calls: price per thousand times count; None where they cannot be read."""
    if not items:
        return Decimal(0)
    total = Decimal(0)
    for item in items if isinstance(items, list) else [None]:
        count = ratio(item.get("count")) if isinstance(item, dict) else None
        price = ratio(item.get("price")) if isinstance(item, dict) else None
        if count is None or price is None or count < 0 or price < 0:
            return None
        total += count * price / 1000
    return total
