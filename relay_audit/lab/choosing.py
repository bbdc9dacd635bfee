"""What the lab's model answers when it may pick one of several words: drawn at the usual temperature, the likeliest near 0.

Which word is likely is the model's own and differs from question to question. On one question in ten two words are as good
as equal, and then no temperature decides between them. Draws come in blocks, as all shares here do: of nine answers to a
question each word has the share it should have.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, Literal

Undecided = Literal["never", "seldom", "always"]
ASKED = re.compile(r"\brandom\b[^:\n]*: ((?:[a-z]+, ){3,}[a-z]+)")
BLOCK = (0, 0, 1, 2, 3, 4, 5, 6, 7)
"""Which word is drawn, by how likely it is."""
COLD = 0.2
"""Below this temperature the likeliest word is all that is left."""
UNDECIDED_EVERY = 10
OTHER = 0.35
"""How often the second word comes where the model is undecided."""


class Taste:
    """The picks of one vendor's models."""

    def __init__(self, undecided: Undecided, rng: random.Random) -> None:
        self._undecided = undecided
        self._rng = rng
        self._blocks: dict[str, list[int]] = {}

    def pick(self, body: dict[str, Any], model: str) -> str | None:
        """The word; None where something else is asked."""
        turns = body.get("messages") or body.get("input")
        asked = ASKED.search(json.dumps(turns, ensure_ascii=False))
        if asked is None:
            return None
        question = f"{model}/{asked[1]}"
        own, words = random.Random(question), asked[1].split(", ")
        own.shuffle(words)
        seldom = own.randrange(UNDECIDED_EVERY) == 0
        if body.get("temperature", 1) < COLD or body.get("top_k") == 1:
            wavers = self._undecided == "always" or (seldom and self._undecided == "seldom")
            return words[1] if wavers and self._rng.random() < OTHER else words[0]
        block = self._blocks.get(question) or self._rng.sample(BLOCK, len(BLOCK))
        self._blocks[question] = block[1:]
        return words[block[0] % len(words)]
