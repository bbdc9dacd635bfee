"""When a relay does what it does: always, or only where it is hard to see. And answers given twice from a store."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")
Strikes = Literal["always", "unknown_prompts", "one_in_4", "one_in_10", "one_in_20", "long_bodies"]
"""`unknown_prompts`: not for the sentences that everybody tries. `long_bodies`: only for what is long, as agents send it."""
SHARES: dict[str, int] = {"one_in_4": 4, "one_in_10": 10, "one_in_20": 20}
WELL_KNOWN = ("reply with the single word ok", "who are you", "what model are you", "hello", "hi", "ping", "test")
LONG_BODY = 4_000
"""Characters from which a body is long: about a thousand tokens."""
KEPT_S = 300.0
STORED_BY = (
    "model",
    "messages",
    "input",
    "tools",
    "tool_choice",
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
    "stream",
)
"""hubrelay's key of a stored answer, as read in its source and run: nothing else of a body counts."""


BY_PROMPT = ("model", "system", "messages", "input")
"""The texts alone, as stores of answers to like questions have it: nothing of tools, sampling or limits."""


def well_known(body: dict[str, Any]) -> bool:
    """Whether the last turn is one of the sentences that tests use."""
    turns = body.get("messages") or body.get("input") or [{}]
    last = turns[-1] if isinstance(turns, list) and turns else {"content": turns}
    content = last.get("content") if isinstance(last, dict) else ""
    return isinstance(content, str) and content.strip().rstrip(".!?").lower() in WELL_KNOWN


class Blocks:
    """One hit in each block of a given length, at a drawn place; length 0 never hits."""

    def __init__(self, length: int, rng: random.Random) -> None:
        self._length = length
        self._rng = rng
        self._asked = 0
        self._place = 0

    def hit(self) -> bool:
        if not self._length:
            return False
        if self._asked % self._length == 0:
            self._place = self._rng.randrange(self._length)
        here = self._asked % self._length == self._place
        self._asked += 1
        return here


class Mood:
    """Whether the n-th request is treated as the knobs say, or honestly."""

    def __init__(self, strikes: Strikes, rng: random.Random) -> None:
        self._strikes = strikes
        self._share = Blocks(SHARES.get(strikes, 0), rng)

    def strikes(self, body: dict[str, Any]) -> bool:
        if self._strikes == "unknown_prompts":
            return not well_known(body)
        if self._strikes == "long_bodies":
            return len(json.dumps(body, ensure_ascii=False)) >= LONG_BODY
        return self._strikes == "always" or self._share.hit()


class Stored(Generic[T]):
    """Answers of the last five minutes, by what of a request counts."""

    def __init__(self, now: Callable[[], float], by: Literal["body", "prompt"] = "body") -> None:
        self._now = now
        self._names = STORED_BY if by == "body" else BY_PROMPT
        self._kept: dict[str, tuple[float, T]] = {}

    def find(self, body: dict[str, Any]) -> T | None:
        at, answer = self._kept.get(self._key(body), (float("-inf"), None))
        return answer if self._now() - at < KEPT_S else None

    def keep(self, body: dict[str, Any], answer: T) -> None:
        self._kept[self._key(body)] = (self._now(), answer)

    def _key(self, body: dict[str, Any]) -> str:
        return json.dumps({name: body.get(name) for name in self._names}, sort_keys=True, ensure_ascii=False)
