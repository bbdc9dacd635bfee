"""Prompt caching as the vendor does it, and as others do: what of a request is written to a cache or read from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from relay_audit.lab.tokenizer import GenerationName, count_text

CacheWay = Literal["own", "implicit", "ignored", "as_5m"]
"""`own`: as the vendor documents it. `implicit`: nothing is ever written, what was sent before is read now and then, as
behind an OpenAI backend. `ignored`: marks in the request do nothing. `as_5m`: an hour is asked for and five minutes given."""
MINIMUM = {"claude-5": 512, "claude-4-5": 1024}
"""Tokens below which nothing is cached."""
OWN_MINIMUM = 1024
"""The same of a vendor that caches by itself."""
SECONDS = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True)
class Cached:
    """Tokens of one request's prefix."""

    written_5m: int = 0
    written_1h: int = 0
    read: int = 0

    @property
    def tokens(self) -> int:
        return self.written_5m + self.written_1h + self.read


NOTHING = Cached()


class PrefixCache:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[str, float] = {}
        self._reads = 0

    def look(self, body: dict[str, Any], generation: GenerationName, way: CacheWay, account: int = 0) -> Cached:
        """What of this request's marked prefix is cached; it is remembered for the next."""
        blocks, kept = _marked(body)
        tokens = sum(count_text(block.get("text", ""), generation) for block in blocks)
        if way == "ignored" or tokens < MINIMUM.get(generation, 1024):
            return NOTHING
        texts = json.dumps([body.get("model"), account, [block.get("text") for block in blocks]])
        name = hashlib.sha256(texts.encode()).hexdigest()
        known = self._until.get(name, 0.0) > self._now()
        ttl = "5m" if way == "as_5m" else kept
        self._until[name] = self._now() + SECONDS[ttl]
        if way == "implicit":
            self._reads += known
            return Cached(read=tokens // 128 * 128) if known and self._reads % 2 else NOTHING
        if known:
            return Cached(read=tokens)
        return Cached(written_1h=tokens) if ttl == "1h" else Cached(written_5m=tokens)


class OwnCache:
    """The cache of a vendor that needs no marks: the first text of a body, where it is long enough, read in steps of 128."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[str, float] = {}

    def read_of(self, body: dict[str, Any], generation: GenerationName) -> int:
        """Tokens of this body that are read from the cache; it is remembered for the next."""
        turns = body.get("messages") or [{}]
        first = body.get("instructions") or (turns[0].get("content") if isinstance(turns[0], dict) else None)
        if not isinstance(first, str) or (tokens := count_text(first, generation)) < OWN_MINIMUM:
            return 0
        name = hashlib.sha256(f"{body.get('model')}\n{first}".encode()).hexdigest()
        known = self._until.get(name, 0.0) > self._now()
        self._until[name] = self._now() + SECONDS["5m"]
        return tokens // 128 * 128 if known else 0


def _marked(body: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The blocks of the system prompt up to the last mark, and the time that the mark asks for."""
    system = body.get("system")
    blocks = [block for block in system if isinstance(block, dict)] if isinstance(system, list) else []
    last = max((place for place, block in enumerate(blocks) if block.get("cache_control")), default=-1)
    kept = "5m" if last < 0 else blocks[last]["cache_control"].get("ttl", "5m")
    return blocks[: last + 1], kept if kept in SECONDS else "5m"
