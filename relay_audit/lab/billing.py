"""What new-api charges for a call: its formula, rounding and reserve, in quota units (500,000 = one site dollar)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Literal

from relay_audit.lab.models import Ratios

QUOTA_PER_UNIT = 500_000
MIN_HELD_INPUT = 500
"""`PreConsumedQuota`: the reserve never counts fewer input tokens."""
HOUR_FACTOR = Decimal("1.6")
"""A one-hour cache write against a five-minute one."""


@dataclass(frozen=True)
class Tokens:
    """One call's usage as the relay logs it."""

    prompt: int
    completion: int
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0

    @classmethod
    def of(cls, usage: dict[str, Any]) -> Tokens:
        """From the usage block of a Claude answer."""
        split = usage.get("cache_creation") or {}
        return cls(
            prompt=usage["input_tokens"],
            completion=usage["output_tokens"],
            cache_read=usage.get("cache_read_input_tokens", 0),
            cache_write_5m=split.get("ephemeral_5m_input_tokens", 0),
            cache_write_1h=split.get("ephemeral_1h_input_tokens", 0),
        )


Semantics = Literal["anthropic", "openai"]


def charge(
    tokens: Tokens,
    price: Ratios,
    group: Decimal = Decimal(1),
    semantics: Semantics = "anthropic",
    hour: Decimal = HOUR_FACTOR,
) -> int:
    """Quota for a call: cache tokens come on top of the prompt for Claude and out of it for OpenAI; rounded half away
    from zero, at least 1 where anything is billable, 0 where the upstream gave no usage."""
    cached = tokens.cache_read * price.cache
    cached += (tokens.cache_write_5m + tokens.cache_write_1h * hour) * price.cache_write
    inside = tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h
    base = tokens.prompt if semantics == "anthropic" else max(tokens.prompt - inside, 0)
    exact = (base + cached + tokens.completion * price.completion) * price.model * group
    if not exact:
        return 0
    return max(1, int(exact.quantize(Decimal(1), ROUND_HALF_UP)))


def hold(prompt: int, max_tokens: int, price: Ratios, group: Decimal = Decimal(1)) -> int:
    """What is reserved before a call: no completion ratio in it."""
    exact = (max(prompt, MIN_HELD_INPUT) + max_tokens) * price.model * group
    return int(exact.quantize(Decimal(1), ROUND_HALF_UP))


def site_dollars(quota: int) -> str:
    """As the refusals print it, with the full-width sign."""
    return f"＄{Decimal(quota) / QUOTA_PER_UNIT:.6f}"


def dollars(tokens: Tokens, price: Ratios) -> Decimal:
    """A call by the price list, unrounded, for software that keeps its books in dollars."""
    cached = tokens.cache_read * price.cache
    cached += (tokens.cache_write_5m + tokens.cache_write_1h * HOUR_FACTOR) * price.cache_write
    return (tokens.prompt + cached + tokens.completion * price.completion) * price.model * 2 / 1_000_000
