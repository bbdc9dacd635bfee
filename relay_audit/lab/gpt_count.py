"""Counting for OpenAI's formats, with the toy tokenizers: what the input_tokens endpoint says, and what Chat bills."""

from __future__ import annotations

import json
from typing import Any

from relay_audit.lab.tokenizer import GENERATIONS, OTHER_BLOCK, TURN, GenerationName, count_text

TOOL_FRAME = 32
"""A first function costs about this besides its text (recorded: 11 without, 47 with one on gpt-5.4)."""


def count_openai(body: dict[str, Any], name: GenerationName) -> int:
    """Frame, turns, instructions and tools of a Chat or a Responses body."""
    turns = _turns(body)
    total = GENERATIONS[name].template + TURN * max(len(turns) - 1, 0)
    total += sum(_count_content(turn.get("content"), name) for turn in turns)
    if body.get("tools"):
        total += TOOL_FRAME + count_text(json.dumps(body["tools"], ensure_ascii=False), name)
    return total


def brings_system(body: dict[str, Any]) -> bool:
    """Whether a body has a system text of its own."""
    return bool(body.get("instructions")) or any(turn.get("role") in ("system", "developer") for turn in _turns(body))


def _turns(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body.get("messages", body.get("input"))
    turns = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())
    first = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    return [turn for turn in (*first, *turns) if isinstance(turn, dict)]


def _count_content(content: object, name: GenerationName) -> int:
    if isinstance(content, str):
        return count_text(content, name)
    if not isinstance(content, list):
        return 0
    texts = [part.get("text") if isinstance(part, dict) else None for part in content]
    return sum(count_text(text, name) if isinstance(text, str) else OTHER_BLOCK for text in texts)
