"""Toy tokenizers of two model generations: whole tokens per piece of text, with other rates in each script.

The real vocabularies are not public. What matters for an audit is kept: counts are whole and repeatable, the newer
generation takes about a third more on English words, and the ratio between the generations differs between scripts.
The published sentence ("Reply with the single word OK.") counts 18 on the newer one, as measured 2026-10-14.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

GenerationName = Literal["claude-5", "claude-4-5", "gpt-o200k", "gpt-cl100k", "gpt-oss"]

_PIECES = re.compile(
    r"(?P<word>[A-Za-z\u00c0-\u024f]+)|(?P<cjk>[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+)"
    r"|(?P<digits>\d+)|(?P<line>\s*\n\s*)|(?P<space>\s+)|(?P<wide>[\u3000-\u303f\uff00-\uffef])|(?P<mark>.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Generation:
    template: int
    """The frame of a request with one user turn."""
    word_step: int
    """A word takes one token per this many letters begun."""
    cjk_quarters: int
    """Quarter tokens per ideograph, rounded up per run."""
    digit_step: int
    """Digits per token."""
    wide_mark: int
    """Tokens of a full-width punctuation mark; an ASCII one takes one."""


GENERATIONS: dict[GenerationName, Generation] = {
    "claude-5": Generation(template=10, word_step=5, cjk_quarters=4, digit_step=1, wide_mark=1),
    "claude-4-5": Generation(template=7, word_step=12, cjk_quarters=5, digit_step=3, wide_mark=2),
    "gpt-o200k": Generation(template=6, word_step=6, cjk_quarters=3, digit_step=3, wide_mark=1),
    "gpt-cl100k": Generation(template=7, word_step=9, cjk_quarters=5, digit_step=3, wide_mark=2),
    "gpt-oss": Generation(template=70, word_step=6, cjk_quarters=3, digit_step=3, wide_mark=1),
}
TURN = 3
"""Tokens of every further turn, and of a system prompt's frame."""
ToolPrompt = tuple[int, int]
TOOLS: ToolPrompt = (400, 520)
"""The vendor's own tool prompt, with tool_choice auto or none and with any or tool: for models whose figure nobody has published
a figure of the lab's own, between those of the others."""
OTHER_BLOCK = 120
"""An image or document: any constant serves here."""


@lru_cache(maxsize=4096)
def count_text(text: str, name: GenerationName) -> int:
    """Tokens of a text without any frame."""
    rates = GENERATIONS[name]
    return sum(
        _count_piece(match.lastgroup or "mark", match.end() - match.start(), rates) for match in _PIECES.finditer(text)
    )


def _count_piece(kind: str, length: int, rates: Generation) -> int:
    match kind:
        case "word":
            return -(-length // rates.word_step)
        case "cjk":
            return -(-length * rates.cjk_quarters // 4)
        case "digits":
            return -(-length // rates.digit_step)
        case "space":
            return 0
        case "wide":
            return rates.wide_mark
        case _:
            return 1


def count_body(body: dict[str, Any], name: GenerationName, tool_prompt: ToolPrompt = TOOLS) -> int:
    """What the count endpoint says of a request: frame, turns, system prompt and tools."""
    turns = body.get("messages") or []
    total = GENERATIONS[name].template + TURN * max(len(turns) - 1, 0)
    total += sum(_count_content(turn.get("content"), name) for turn in turns if isinstance(turn, dict))
    if body.get("system"):
        total += TURN + _count_content(body["system"], name)
    if body.get("tools"):
        forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
        total += tool_prompt[forced] + count_text(json.dumps(body["tools"], ensure_ascii=False), name)
    return total


def _count_content(content: object, name: GenerationName) -> int:
    if isinstance(content, str):
        return count_text(content, name)
    if not isinstance(content, list):
        return 0
    texts = [block.get("text") if isinstance(block, dict) else None for block in content]
    return sum(count_text(text, name) if isinstance(text, str) else OTHER_BLOCK for text in texts)
