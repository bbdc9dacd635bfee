"""Small shared words: two languages, money, canonical JSON. Nothing here knows anything about relays."""

from __future__ import annotations

import hashlib
import json
from decimal import ROUND_UP, Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Lang = Literal["zh-CN", "en"]
LANGS: tuple[Lang, ...] = ("zh-CN", "en")
Side = Literal["relay", "official"]
AuthStyle = Literal["x-api-key", "bearer", "x-goog-api-key"]
"""The header that carries a key."""


class Frozen(BaseModel):
    """The base of everything that crosses a file: unknown keys are refused, inputs never quoted in errors.

    A validator is built when it is first used: a command uses few of them. What stands under a field is read by whoever
    writes the documents (`schema`), not by every start.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        defer_build=True,
        populate_by_name=True,
        serialize_by_alias=True,
    )


class Bilingual(Frozen):
    """One text in both languages; neither is a translation of lesser rank."""

    en: str = Field(min_length=1)
    zh: str = Field(min_length=1, alias="zh-CN")

    def in_(self, lang: Lang) -> str:
        return self.zh if lang == "zh-CN" else self.en


def canonical(value: Any) -> bytes:  # noqa: ANN401  any JSON value
    """The one byte form of a JSON value: sorted keys, no spaces, UTF-8. Digests are taken over it.

    A lone surrogate (a stranger's `"\\ud800"`) has no UTF-8 form and is written as the JSON escape that it came as.
    """
    return _CANONICAL.encode(value).encode("utf-8", "backslashreplace")


def compact(value: Any) -> bytes:  # noqa: ANN401  any JSON value
    """The form in which things are kept: like `canonical`, but the keys stay in the order in which they were sent."""
    return _COMPACT.encode(value).encode("utf-8", "backslashreplace")


def digest(value: Any) -> str:  # noqa: ANN401  any JSON value
    """SHA-256 (hex) of the canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return money(value)
    return str(value)


_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_plain)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)


def money(amount: Decimal) -> str:
    """A decimal amount as text, without exponent and without trailing zeros beyond cents' worth of meaning."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_up(amount: Decimal, places: int = 6) -> Decimal:
    """Rounds away from the buyer's favour: a bound must never be printed smaller than it is."""
    return amount.quantize(Decimal(1).scaleb(-places), rounding=ROUND_UP)
