"""A stranger's JSON taken apart without trusting a single type in it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal, InvalidOperation
from typing import Any

from relay_audit.exchange import Exchange

LARGEST = Decimal(10**9)
"""Beyond it nothing is a ratio, a price or an amount of dollars."""
SHORT = 200
PICO = Decimal("1e-12")
_JSON = json.JSONDecoder(parse_constant=lambda _: None)


def parsed(body: str) -> Any:  # noqa: ANN401  whatever a stranger sent
    """The JSON of a body held in memory, or None. NaN and infinities become None, so that only their own row is lost."""
    try:
        return _JSON.decode(body)
    except (ValueError, RecursionError):
        return None


def number(value: Any) -> Decimal | None:  # noqa: ANN401
    """A finite number from 0 up to a thousand million, or None; texts, truths and negatives are no numbers."""
    found = signed(value)
    return found if found is not None and found >= 0 else None


def to_picodollars(amount: Decimal) -> Decimal:
    """An amount without the noise of a program that counts money in binary fractions (`0.00024000000000000003`)."""
    return amount.quantize(PICO).normalize()


def signed(value: Any) -> Decimal | None:  # noqa: ANN401
    """The same with a sign."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return None
    return found if found.is_finite() and abs(found) < LARGEST else None


def whole(value: Any) -> int | None:  # noqa: ANN401
    """A whole number of either sign below 2^53: `1200.0` is one, `"12"`, `true` and `1e30` are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if abs(value) < 2**53 else None


def short(value: Any) -> str:  # noqa: ANN401
    return value[:SHORT] if isinstance(value, str) else ""


def moment(value: Any) -> dt.datetime | None:  # noqa: ANN401
    """Unix seconds, Unix milliseconds, or ISO 8601 with or without a zone (then UTC)."""
    try:
        if isinstance(value, str):
            read = dt.datetime.fromisoformat(value[:40])
            return read.replace(tzinfo=dt.UTC) if read.tzinfo is None else read.astimezone(dt.UTC)
        seconds = number(value) if not isinstance(value, int) else whole(value)
        if seconds is None or seconds < 0:
            return None
        return dt.datetime.fromtimestamp(float(seconds) / (1000 if seconds >= 10**11 else 1), dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def table(value: Any) -> dict[str, Any]:  # noqa: ANN401
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Any]:  # noqa: ANN401
    return value if isinstance(value, list) else []


def page(exchange: Exchange | None) -> dict[str, Any]:
    """The JSON object of a recorded public page that was answered 200."""
    return table(exchange.answer()) if exchange is not None and exchange.status == 200 else {}
