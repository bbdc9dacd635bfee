"""What the lab's model writes: one word, or the list it was asked to copy, up to a stop word or to its limit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from relay_audit.lab.tokenizer import GenerationName, count_text

TEXTS = ("OK", "OK.", "Ok.")
TASK = "Copy these words"


@dataclass(frozen=True)
class Written:
    text: str
    tokens: int
    reason: str
    stop: str | None = None


def write(body: dict[str, Any], generation: GenerationName, rng: random.Random) -> Written:
    """Up to `max_tokens`, whatever else is in the answer."""
    limit = body["max_tokens"]
    lines = _asked_for(body)
    if not lines:
        whole = limit >= 4
        length = min(rng.randint(4, 6), limit)
        return Written(rng.choice(TEXTS) if whole else "O", length, "end_turn" if whole else "max_tokens")
    text, stop = "\n".join(lines), None
    for word in body.get("stop_sequences", ()):
        if word in text:
            text, stop = text[: text.index(word)], word
    kept = text.splitlines()
    while kept and count_text("\n".join(kept), generation) > limit:
        kept.pop()
    if len(kept) < len(text.splitlines()):
        return Written("\n".join(kept), limit, "max_tokens")
    reason = "stop_sequence" if stop else "end_turn"
    return Written(text, min(count_text(text, generation) + 1, limit), reason, stop)


def up_to(text: str, limit: int, generation: GenerationName) -> Written:
    """A text as long as the limit allows, word by word."""
    words = text.split(" ")
    tokens = count_text(text, generation)
    whole = len(words)
    while tokens > limit:
        words = words[: len(words) * limit // tokens]
        tokens = count_text(" ".join(words), generation)
    return Written(" ".join(words), tokens, "end_turn" if len(words) == whole else "max_tokens")


def _asked_for(body: dict[str, Any]) -> list[str]:
    """The lines of a copying task; none where something else is asked."""
    content = body["messages"][-1]["content"]
    if isinstance(content, list):
        content = "\n".join(block.get("text", "") for block in content if isinstance(block, dict))
    if not isinstance(content, str) or not content.startswith(TASK):
        return []
    return [line for line in content.splitlines()[1:] if line]
