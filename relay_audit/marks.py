"""Marks by which a vendor's own servers can be told: shapes of ids, header families, forms of refusals and of bodies.

Every one of them is data with a date, a source and a term; none of them decides alone.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, field_validator

from relay_audit.exchange import pointer
from relay_audit.finding import Confidence, EvidenceLevel
from relay_audit.words import Bilingual, Frozen

IdKind = Literal["message_id", "request_id", "tool_id", "relay_request_id"]
Decoder = Literal[
    "none", "base58_uuid7", "base58_128", "relay_time_utc", "chat_base62", "response_hex", "response_hex_48",
    "google_time", "local_utc8", "ark_ms", "unix_seconds", "object_id",
]  # fmt: skip


Headers = tuple[tuple[str, str], ...]


@lru_cache(maxsize=512)
def _names(headers: Headers) -> frozenset[str]:
    """In small letters: each mark that is known is looked for in each answer."""
    return frozenset(name.lower() for name, _ in headers)


def carries(headers: Headers, wanted: str) -> bool:
    """Whether a header is named so; `wanted` is a name or a name pattern in small letters."""
    names = _names(headers)
    return wanted in names or (
        any(sign in wanted for sign in "*?[") and any(fnmatch.fnmatchcase(name, wanted) for name in names)
    )


class Known(Frozen):
    """Anything observed: when, from where, for how long it holds."""

    id: str = Field(pattern=r"^[a-z0-9_.-]+$")
    meaning: Bilingual
    observed: dt.date
    source: str = Field(min_length=3)
    term_days: int = Field(gt=0)
    level: EvidenceLevel
    valid_from: dt.date | None = None
    valid_to: dt.date | None = None
    superseded_by: str = ""

    def age(self, on: dt.date) -> Literal["fresh", "stale", "expired"]:
        """`stale` past its term (weakens one step), `expired` past twice its term (accuses nobody)."""
        days = (on - self.observed).days
        if days <= self.term_days:
            return "fresh"
        return "stale" if days <= 2 * self.term_days else "expired"

    def valid_on(self, day: dt.date) -> bool:
        return (self.valid_from is None or day >= self.valid_from) and (self.valid_to is None or day <= self.valid_to)


class IdShape(Known):
    """A shape of id and the channels that mint it. A shape alone is never decisive."""

    kind: IdKind
    pattern: str
    channels: tuple[str, ...]
    """`anthropic`, `aws`, `vertex`, `azure`, `openai`, …; `converter` for ids made by relay software."""
    dialects: tuple[str, ...] = ()
    """The dialects in whose answers it means that; empty for all."""
    decode: Decoder = "none"
    fresh_before_s: int = 0
    """The decoded time may lie this long before the request left …"""
    fresh_after_s: int = 0
    """… or this long after the answer's Date."""
    clock: str = ""
    """Where the answer itself says, in unix seconds, when it was made: the decoded time agrees with it."""
    clock_before_s: int = 0
    """The decoded time may lie so long before that …"""
    clock_after_s: int = 0
    """… or so long after it."""
    strength: Confidence
    constant: bool = False
    """The same id in every answer of some software: seeing it twice means nothing."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        re.compile(value)
        return value

    def matches(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None

    def spoken_in(self, dialect: str) -> bool:
        return not self.dialects or dialect in self.dialects


class HeaderFamily(Known):
    """Response headers that one channel's own servers send. Their absence is neutral: many relays strip them."""

    channels: tuple[str, ...]
    all_of: tuple[str, ...]
    """Header name patterns (`anthropic-ratelimit-*`), each present at least once."""
    values: dict[str, str] = Field(default_factory=dict)
    """Header name → pattern its value matches."""
    strength: Confidence

    def matches(self, headers: Headers) -> bool:
        return all(carries(headers, wanted) for wanted in self.all_of) and all(
            any(name.lower() == wanted and re.search(pattern, value) for name, value in headers)
            for wanted, pattern in self.values.items()
        )


class ErrorShell(Known):
    """The outer form of a refusal."""

    channels: tuple[str, ...]
    pattern: str
    """Searched in the body text."""
    strength: Confidence

    def seen_in(self, body: str) -> bool:
        return re.search(self.pattern, body[:20_000]) is not None


class SignedPlatform(Known):
    """What the clear header of a thinking signature says of the platform that made it. A value that no row names is
    unknown and says nothing."""

    platform: str = Field(pattern=r"^(absent|\d{1,4})$")
    """The header's field 2: `absent`, or its number."""
    channels: tuple[str, ...]
    strength: Confidence

    def fits(self, platform: int | None) -> bool:
        return self.platform == ("absent" if platform is None else str(platform))


class BodyForm(Known):
    """How a channel's own servers print an answer: who reads and prints it anew rarely keeps both order and layout."""

    dialects: tuple[str, ...]
    keys: tuple[str, ...] = Field(min_length=1)
    """The first keys, in order."""
    layout: Literal["compact", "indented"]

    def fits(self, keys: list[str], body: str) -> bool:
        name = f'"{self.keys[0]}":'
        printed = body.startswith("{" + name) and not body.startswith("{" + name + " ")
        if self.layout == "indented":
            printed = body.startswith("{\n  " + name + " ")
        return printed and keys[: len(self.keys)] == list(self.keys)


class BodyMark(Known):
    """What one channel's own servers write into an answer's body. Its absence is neutral: relays rebuild bodies."""

    channels: tuple[str, ...]
    dialects: tuple[str, ...] = ()
    """The dialects in whose answers it means that; empty for all."""
    all_of: tuple[str, ...] = ()
    """JSON Pointers that all lead somewhere."""
    values: dict[str, str] = Field(default_factory=dict)
    """JSON Pointer → pattern of the text that stands there."""
    pattern: str = ""
    """Searched in the raw text, for a texture that parsing loses."""
    strength: Confidence

    def spoken_in(self, dialect: str) -> bool:
        return not self.dialects or dialect in self.dialects

    def stands_in(self, answer: Any, raw: str) -> bool:  # noqa: ANN401  a stranger's JSON
        if any(pointer(answer, path) is None for path in self.all_of):
            return False
        texts = {path: pointer(answer, path) for path in self.values}
        if any(not isinstance(text, str) or not re.search(self.values[path], text) for path, text in texts.items()):
            return False
        return not self.pattern or re.search(self.pattern, raw[:20_000]) is not None


class NameLabel(Known):
    """How names are written that are no model's: a seller's channel, a cloud customer's deployment, a resource's number."""

    pattern: str
    """Searched in the whole name, small letters."""

    def fits(self, name: str) -> bool:
        return re.search(self.pattern, name.strip().lower()) is not None
