"""What a probe file may say: what is sent, what it may cost, how it is judged, why, and what it does not prove.

A probe holds no conditions, loops or expressions. Three closed dicts carry the rest: assessors, generators, values.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from relay_audit.words import Bilingual, Frozen

Stage = Literal["probe", "canary", "batch"]
AssessorName = Literal["channel", "token_parity", "model_identity", "billing"]
ProfileName = Literal["quick", "standard", "thorough"]

POINTER = re.compile(r"^(/([^~/]|~[01])*)*$")
REFERENCE = re.compile(r"^\$[a-z_]+$")

VALUES: dict[str, str] = {
    "$model": "the model under audit, as the side being asked calls it",
    "$nonce": "a fresh word of this run",
}
"""Things a body may refer to, besides the factors of the request's own matrix."""

GENERATORS: dict[str, str] = {
    "text": "a fresh text: {generate = 'text', script = 'ascii'|'cjk', units = N, closing = 'one_word'|''}; "
    "N words (ascii) or characters (cjk), all of it from the run's seed",
    "published_sentence": "the sentence of a token baseline, byte for byte: {generate = 'published_sentence'}",
    "nonce_line": "a short line that holds a fresh word: {generate = 'nonce_line', script = 'ascii'|'cjk'}",
}
GENERATOR_PARAMETERS: dict[str, tuple[str, ...]] = {
    "text": ("script", "units", "closing"),
    "published_sentence": (),
    "nonce_line": ("script",),
}
SCRIPTS = ("ascii", "cjk")
ESTIMATES = ("ascii_char", "cjk_char", "frame")


class Bound(Frozen):
    """The most one sending of this request can honestly cost."""

    input_tokens: int = Field(gt=0)
    """Above the official count (or our estimate): room for what a relay may add."""
    output_tokens: int = Field(gt=0)
    """The body's own legal limit, or the largest fill or clamp known where it has none."""
    expected_output_tokens: int = Field(gt=0)
    """What the answer really takes, for the expected cost."""
    surplus_each: int = Field(default=0, ge=0)
    """Input tokens a known hidden prompt adds to *every* request; the stage's at-most makes room for it."""


class RequestSpec(Frozen):
    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    method: Literal["POST"] = "POST"
    path: str
    """Relative to the side's base address."""
    bound: Bound
    matrix: dict[str, tuple[JsonValue, ...]] = Field(default_factory=dict)
    """Factor → levels; one sending per combination, factors in the order written."""
    repeat: int = Field(default=1, ge=1, le=8)
    counted: bool = False
    """The official count endpoint is asked for this very body (system, tools and thinking included)."""
    body: dict[str, JsonValue]

    @field_validator("path")
    @classmethod
    def _relative(cls, value: str) -> str:
        return _relative_path(value)

    @model_validator(mode="after")
    def _names_are_known(self) -> RequestSpec:
        known = {*VALUES, *(f"${factor}" for factor in self.matrix)}
        for text in _references(self.body):
            if text not in known:
                raise ValueError(f"{text} is neither a value nor a factor of this request (known: {', '.join(sorted(known))})")
        for call in _generator_calls(self.body):
            name = str(call["generate"])
            if name not in GENERATORS:
                raise ValueError(f"generator {name!r} is not registered (known: {', '.join(GENERATORS)})")
            if strange := set(call) - {"generate", *GENERATOR_PARAMETERS[name]}:
                takes = ", ".join(GENERATOR_PARAMETERS[name]) or "nothing"
                raise ValueError(f"generator {name!r} has no {', '.join(sorted(strange))} (it takes: {takes})")
        return self


class Applies(Frozen):
    dialects: tuple[str, ...] = Field(min_length=1)
    software: tuple[str, ...] = ()
    """Empty means any relay software."""
    families: tuple[str, ...] = ()
    """Empty means any model of the dialect."""
    counter: Literal["any", "present", "absent"] = "any"
    """Whether an official count endpoint can be asked (a key and an address for it are there)."""
    baseline: Literal["any", "present", "absent"] = "any"
    """Whether a published token count is known for this model (`token_baselines.toml`)."""
    profiles: tuple[ProfileName, ...] = ("quick", "standard", "thorough")


class Probe(Frozen):
    id: str = Field(pattern=r"^[a-z0-9_]+/[a-z0-9_]+$")
    """`pack/file`, as the file lies."""
    checks: tuple[int, ...] = Field(min_length=1)
    """Which of the six checks read its answers; the first is the one it was made for."""
    assess: tuple[AssessorName, ...] = Field(min_length=1)
    stage: Stage
    paired: bool
    """Whether an official side is asked beside the relay."""
    lifecycle: Literal["experimental", "stable", "deprecated"] = "stable"
    question: Bilingual
    motivation: Bilingual
    caveat: Bilingual
    """What it does not prove."""
    applies: Applies
    requests: tuple[RequestSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Probe:
        names = [request.id for request in self.requests]
        if len(set(names)) != len(names):
            raise ValueError("two requests of one probe share an id")
        if any(check not in range(1, 7) for check in self.checks):
            raise ValueError("checks are numbered 1 to 6")
        if any(request.counted for request in self.requests) != self.paired:
            raise ValueError("paired is true exactly when a request is counted on the official side")
        if self.paired and self.applies.counter != "present":
            raise ValueError("a paired probe applies only where a counter is: applies.counter = \"present\"")
        return self


class Counter(Frozen):
    """The vendor's own counting endpoint; the relay's is never asked."""

    path: str
    keep: tuple[str, ...]
    """Body keys that are counted; the counted body equals the sent body in these."""
    read: str
    source: str
    observed: str

    @field_validator("path")
    @classmethod
    def _relative(cls, value: str) -> str:
        return _relative_path(value)

    @field_validator("read")
    @classmethod
    def _pointer(cls, value: str) -> str:
        return _checked_pointer(value)


class UsagePointers(Frozen):
    """Where an answer says what was used. Billed input is the sum of `input`."""

    input: tuple[str, ...] = Field(min_length=1)
    cache_creation: str = ""
    cache_creation_5m: str = ""
    cache_creation_1h: str = ""
    cache_read: str = ""
    output: str

    @field_validator("input")
    @classmethod
    def _pointers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_checked_pointer(item) for item in value)

    @field_validator("cache_creation", "cache_creation_5m", "cache_creation_1h", "cache_read", "output")
    @classmethod
    def _one(cls, value: str) -> str:
        return _checked_pointer(value)


class AnswerPointers(Frozen):
    id: str
    model: str
    content: str

    @field_validator("id", "model", "content")
    @classmethod
    def _one(cls, value: str) -> str:
        return _checked_pointer(value)


class Pack(Frozen):
    """A dialect: one vendor's wire format, as data."""

    dialect: str = Field(pattern=r"^[a-z0-9_]+$")
    vendor: str
    title: Bilingual
    official_hosts: tuple[str, ...]
    """Hosts that are the vendor's own; another official address has basis `declared_official`."""
    key_shapes: tuple[str, ...] = ()
    """Patterns of the vendor's own keys; such a key is not sent to another host."""
    auth_styles: tuple[Literal["x-api-key", "bearer"], ...]
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with every request of this dialect."""
    models_path: str
    claude_like: bool = False
    counter: Counter | None = None
    usage: UsagePointers
    answer: AnswerPointers
    error_kind: str
    """Where a refusal says its type."""
    input_estimate_per_unit: dict[str, Decimal]
    """Tokens per character by script and per request (`ascii_char`, `cjk_char`, `frame`): upper estimates for a quote
    without a counter."""

    @field_validator("models_path")
    @classmethod
    def _relative(cls, value: str) -> str:
        return _relative_path(value)

    @field_validator("error_kind")
    @classmethod
    def _pointer(cls, value: str) -> str:
        return _checked_pointer(value)

    @field_validator("input_estimate_per_unit")
    @classmethod
    def _complete(cls, value: dict[str, Decimal]) -> dict[str, Decimal]:
        if set(value) != set(ESTIMATES):
            raise ValueError(f"gives exactly {', '.join(ESTIMATES)}")
        return value


def _relative_path(value: str) -> str:
    if not re.match(r"^/[A-Za-z0-9._~/-]*$", value) or "//" in value or ".." in value:
        raise ValueError("a path below the base address, such as /v1/messages; absolute addresses are refused")
    return value


def _checked_pointer(value: str) -> str:
    if value and not POINTER.match(value):
        raise ValueError(f"{value!r} is not a JSON Pointer (RFC 6901): it starts with / or is empty")
    return value


def _references(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value] if REFERENCE.match(value) else []
    if isinstance(value, dict):
        return [found for item in value.values() for found in _references(item)]
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    return []


def _generator_calls(value: JsonValue) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        own: list[dict[str, Any]] = [dict(value)] if "generate" in value else []
        return own + [found for item in value.values() for found in _generator_calls(item)]
    if isinstance(value, list):
        return [found for item in value for found in _generator_calls(item)]
    return []
