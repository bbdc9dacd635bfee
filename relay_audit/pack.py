"""A dialect as data: one vendor's wire format, where its answers say what, and what it counts for nothing."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal

from pydantic import Field, field_validator

from relay_audit.video import VideoFormat
from relay_audit.words import AuthStyle, Bilingual, Frozen

POINTER = re.compile(r"^(/([^~/]|~[01])*)*$")
ESTIMATES = ("ascii_char", "cjk_char", "frame")


class Counter(Frozen):
    """The vendor's own counting endpoint; the relay's is never asked."""

    path: str
    keep: tuple[str, ...]
    """Body keys that are counted; the counted body equals the sent body in these."""
    inside: str = ""
    """The key under which the counter wants the counted body; empty where it wants it bare."""
    model_as: str = "$model"
    """How the counter wants the model's name, where `keep` holds `model`; `$model` stands for the official name."""
    read: str
    source: str
    observed: str

    @field_validator("path")
    @classmethod
    def _relative(cls, value: str) -> str:
        return relative_path(value)

    @field_validator("read")
    @classmethod
    def _pointer(cls, value: str) -> str:
        return checked_pointer(value)


class UsagePointers(Frozen):
    """Where an answer says what was used. Billed input is the sum of `input`."""

    input: tuple[str, ...] = Field(min_length=1)
    input_includes_cache: bool = False
    """The vendor's input count holds what came from its cache; else cached tokens come on top of it."""
    automatic_cache: bool = False
    """The vendor caches by itself, without marks in the request: cached tokens are nobody's doing on the way."""
    cache_creation: str = ""
    cache_creation_5m: str = ""
    cache_creation_1h: str = ""
    cache_read: str = ""
    output: str
    output_also: tuple[str, ...] = ()
    """Counts that are billed as output beside `output`; then each of them may be absent."""

    @field_validator("input", "output_also")
    @classmethod
    def _pointers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(checked_pointer(item) for item in value)

    @field_validator("cache_creation", "cache_creation_5m", "cache_creation_1h", "cache_read", "output")
    @classmethod
    def _one(cls, value: str) -> str:
        return checked_pointer(value)


class AnswerPointers(Frozen):
    id: str
    model: str
    content: str

    @field_validator("id", "model", "content")
    @classmethod
    def _one(cls, value: str) -> str:
        return checked_pointer(value)


class Pack(Frozen):
    """A dialect: one vendor's wire format, as data."""

    dialect: str = Field(pattern=r"^[a-z0-9_]+$")
    vendor: str
    title: Bilingual
    official_hosts: tuple[str, ...]
    """Hosts that are the vendor's own; another official address has basis `declared_official`."""
    official_path: str = Field(default="", pattern=r"^(?:/[a-z0-9-]+)*$")
    """Where on those hosts this format has its root; empty where it begins at once with `/v1`."""
    key_shapes: tuple[str, ...] = ()
    """Patterns of the vendor's own keys; such a key is not sent to another host."""
    auth_styles: tuple[AuthStyle, ...] = Field(min_length=1)
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with every request of this dialect."""
    models_path: str
    models_rows: str = "/data"
    """Where the model list has its rows …"""
    models_name: str = "/id"
    """… and a row the model's name; a path in front of the name (`models/`) is taken off."""
    output_limit: str = "/max_tokens"
    """Where a body bounds its own output."""
    oversize: Literal["allowed", "blocked"] = "blocked"
    """Whether an output limit above the model's own is refused by this vendor. Where it is not refused it is generated
    and billed: then no probe may send it, not even with approval."""
    claude_like: bool = False
    usual_model: str = ""
    """What `calibrate` asks for where no model is named: a cheap one of the newest generation."""
    counter: Counter | None = None
    video: VideoFormat | None = None
    """Present where the dialect orders films instead of texts."""
    usage: UsagePointers
    answer: AnswerPointers
    error_kind: str
    """Where a refusal says its type."""
    input_estimate_per_unit: dict[str, Decimal]
    """Tokens per character by script and per request (`ascii_char`, `cjk_char`, `frame`): upper estimates for a quote
    without a counter. A symbol beyond the basic plane counts as two `cjk_char`. `tools`, where the vendor adds a prompt
    of its own to a request that offers tools: that prompt and one small tool."""

    @property
    def official_roots(self) -> tuple[str, ...]:
        """What a client of the vendor's own is given as its base address."""
        return tuple(f"https://{host}{self.official_path}" for host in self.official_hosts)

    @field_validator("models_path")
    @classmethod
    def _relative(cls, value: str) -> str:
        return relative_path(value)

    @field_validator("error_kind", "models_rows", "models_name", "output_limit")
    @classmethod
    def _pointer(cls, value: str) -> str:
        return checked_pointer(value)

    @field_validator("input_estimate_per_unit")
    @classmethod
    def _complete(cls, value: dict[str, Decimal]) -> dict[str, Decimal]:
        if set(value) - {"tools"} != set(ESTIMATES):
            raise ValueError(f"gives exactly {', '.join(ESTIMATES)}")
        return value


def relative_path(value: str) -> str:
    if not re.match(r"^/[A-Za-z0-9._~/:-]*$", value.replace("/$model", "/model")) or "//" in value or ".." in value:
        raise ValueError("a path below the base address, such as /v1/messages; absolute addresses are refused")
    return value


def checked_pointer(value: str) -> str:
    if value and not POINTER.match(value):
        raise ValueError(f"{value!r} is not a JSON Pointer (RFC 6901): it starts with / or is empty")
    return value
