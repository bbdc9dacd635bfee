"""The models the lab sells, with what of them an audit can see: limits, refusals, region word and list price."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from relay_audit.lab.tokenizer import TOOLS, GenerationName, ToolPrompt


@dataclass(frozen=True)
class Ratios:
    """A relay's price of one model: multiples of each other, as new-api keeps them."""

    model: Decimal
    """Quota per input token; at 500,000 quota per site dollar, 1 is $2 per million tokens."""
    completion: Decimal
    cache: Decimal
    cache_write: Decimal


@dataclass(frozen=True)
class Model:
    name: str
    display_name: str
    created_at: str
    generation: GenerationName
    max_output: int
    context: int
    geo: str
    """`usage.inference_geo` on API-key traffic: `global` for models of 4.6 and later, `not_available` before."""
    list_price: Ratios
    """The official list in a relay's units."""
    strict: bool
    """The 5.5 rules: thinking on and off, sampling, prefill and forced tools are refused …"""
    takes: frozenset[str] = frozenset()
    """… but for these."""
    tool_prompt: ToolPrompt = TOOLS
    """Tokens of the vendor's own prompt where tools are offered, and where one is forced."""


def _ratios(dollars_in: str, completion: str, cache: str, cache_write: str = "1.25") -> Ratios:
    return Ratios(Decimal(dollars_in) / 2, Decimal(completion), Decimal(cache), Decimal(cache_write))


_ROWS = (
    Model("claude-sonnet-5-5", "Claude Sonnet 5.5", "2026-09-28T00:00:00Z", "claude-5", 128_000, 1_000_000, "global",
          _ratios("2", "5", "0.05"), strict=True),
    Model("claude-opus-5-5", "Claude Opus 5.5", "2026-09-22T00:00:00Z", "claude-5", 128_000, 1_000_000, "global",
          _ratios("4", "5", "0.05"), strict=True),
    Model("claude-opus-5", "Claude Opus 5", "2026-05-21T00:00:00Z", "claude-5", 128_000, 1_000_000, "global",
          _ratios("5", "5", "0.1"), strict=True, takes=frozenset({"disabled", "forced_tool"}), tool_prompt=(286, 406)),
    Model("claude-sonnet-5", "Claude Sonnet 5", "2026-06-30T00:00:00Z", "claude-5", 128_000, 1_000_000, "global",
          _ratios("2", "5", "0.1"), strict=True, takes=frozenset({"disabled", "forced_tool"}), tool_prompt=(354, 474)),
    Model("claude-haiku-5-5", "Claude Haiku 5.5", "2026-10-07T00:00:00Z", "claude-5", 128_000, 1_000_000, "global",
          _ratios("0.1", "5", "0.1"), strict=True),
    Model("claude-sonnet-4-6", "Claude Sonnet 4.6", "2026-02-17T00:00:00Z", "claude-4-5", 128_000, 1_000_000, "global",
          _ratios("3", "5", "0.1"), strict=True, takes=frozenset({"disabled", "forced_tool", "enabled", "sampling"})),
    Model("claude-opus-4-5-20251101", "Claude Opus 4.5", "2025-11-24T00:00:00Z", "claude-4-5", 64_000, 200_000,
          "not_available", _ratios("5", "5", "0.1"), strict=False),
    Model("claude-sonnet-4-5-20250929", "Claude Sonnet 4.5", "2025-09-29T00:00:00Z", "claude-4-5", 64_000, 200_000,
          "not_available", _ratios("3", "5", "0.1"), strict=False, tool_prompt=(496, 588)),
    Model("claude-3-haiku-20240307", "Claude Haiku 3", "2024-03-07T00:00:00Z", "claude-4-5", 4_096, 200_000,
          "not_available", _ratios("0.25", "5", "0.12", "1.2"), strict=False),
)  # fmt: skip
MODELS: dict[str, Model] = {row.name: row for row in _ROWS}
