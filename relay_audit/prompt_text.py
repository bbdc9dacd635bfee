"""What of a body a model is given to read, and an upper estimate of its tokens."""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic import JsonValue

from relay_audit.pack import Pack
from relay_audit.words import digest

_WIDE, _BEYOND = re.compile("[\u2e80-\U0010ffff]"), re.compile("[\U00010000-\U0010ffff]")


def estimated(text: str, pack: Pack) -> int:
    """An upper estimate of a text's tokens by its characters alone."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    beyond = 0 if text.isascii() else len(_BEYOND.findall(text))  # an emoji counts twice
    rates = pack.input_estimate_per_unit
    return math.ceil((wide + beyond) * rates["cjk_char"] + (len(text) - wide) * rates["ascii_char"])


def estimate_of(body: dict[str, Any], pack: Pack) -> int:
    """An upper estimate of a body's input tokens without a counter: its texts, the frame, the vendor's tool prompt."""
    rates = pack.input_estimate_per_unit
    besides = rates["frame"] + (rates.get("tools", 0) if body.get("tools") else 0)
    return estimated("".join(texts_of(body)), pack) + int(besides)


def texts_of(value: JsonValue, key: str = "") -> list[str]:
    """The texts a model is given to read, wherever the dialect puts them."""
    if isinstance(value, str):
        return [value] if key in ("content", "system", "text", "input", "instructions") else []
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item, key)]
    if isinstance(value, dict):
        return [text for name, item in value.items() for text in texts_of(item, name)]
    return []


def question_of(body: dict[str, Any] | None) -> str:
    """Which question a body asks, whatever limit or temperature stands beside it: some stores of answers look at no more."""
    return digest(texts_of(body) or body)


def has_system(body: dict[str, Any]) -> bool:
    """Whether a body brings a system prompt of its own, wherever the dialect puts it."""
    turns = body.get("messages")
    first = turns[0] if isinstance(turns, list) and turns and isinstance(turns[0], dict) else {}
    named = any(body.get(key) for key in ("system", "instructions", "systemInstruction"))
    return named or first.get("role") in ("system", "developer")
