"""One request and what came of it: a fact, already redacted, never a judgement."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from relay_audit.stream import Streamed, looks_streamed, read_stream
from relay_audit.words import Frozen, Side

Delivery = Literal["not_sent", "unconfirmed", "answered"]
"""`not_sent`: provably no byte left. `unconfirmed`: it may have been delivered; nobody sends it again."""

Hostility = Literal[
    "too_large", "too_slow", "endless", "decompression", "redirect", "not_http", "bad_json", "bad_numbers", "key_echoed"
]


class Connection(Frozen):
    """What is known of the wire below HTTP; part of the evidence."""

    address: str = ""
    """Resolved IP and port."""
    tls_version: str = ""
    leaf_sha256: str = ""
    issuer: str = ""
    http_version: str = ""
    proxy: str = ""
    """host:port of an explicitly named proxy, without credentials."""
    custom_ca: bool = False


class Request(Frozen):
    method: Literal["GET", "POST"]
    path: str
    """Path and query below the side's base address. Never holds a secret."""
    headers: tuple[tuple[str, str], ...] = ()
    """As sent, authentication redacted."""
    body: dict[str, Any] | None = None
    body_sha256: str = ""
    """Of the exact bytes that left."""


class Response(Frozen):
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    """Redacted text, cut at the size limit."""
    body_bytes: int = 0
    """Decoded size as received, before any cut."""
    body_sha256: str = ""
    """Of the redacted text."""
    cut: bool = False

    def header(self, name: str) -> str | None:
        """The first value of a header, by case-insensitive name."""
        return _by_name(self.headers).get(name.lower())

    def readable(self) -> str:
        """The body as a person reads it: a JSON text with `\\uXXXX` also without its escapes. Words are looked for here."""
        parsed = self.parsed() if "\\u" in self.body else None
        return self.body if parsed is None else f"{self.body}\n{json.dumps(parsed, ensure_ascii=False)}"

    def parsed(self) -> Any:  # noqa: ANN401  whatever a stranger sent
        """The parsed body, or None where it is not JSON. NaN and infinities are not JSON. A short text is read once: the
        value is shared and not to be changed."""
        return _read_once(self.body) if len(self.body) <= SHORT else _read(self.body)


SHORT = 16_384
"""Characters of a body whose parsed value is kept: an answer of a few words is asked for by every assessor."""


@lru_cache(maxsize=512)
def _by_name(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Lower-case name → first value: one answer is asked for a dozen of its headers."""
    return {name.lower(): value for name, value in reversed(headers)}


def _read(body: str) -> Any:  # noqa: ANN401
    try:
        return _JSON.decode(body)
    except (ValueError, RecursionError):
        return None


_read_once = lru_cache(maxsize=1024)(_read)


class Exchange(Frozen):
    """A planned step after it was sent (or was not)."""

    id: str
    """X0001, X0002, … in order of intent."""
    step: str
    """The plan's step id, or `discovery.*` for the free requests of the planning."""
    side: Side
    sent_at: dt.datetime
    """UTC; the moment before the first byte."""
    elapsed_ms: int = Field(ge=0)
    """To the last byte, on a monotonic clock."""
    delivery: Delivery
    request: Request
    response: Response | None = None
    failure: str = ""
    """Our word for what went wrong below HTTP (`connect`, `timeout`, `tls`, `reset`, …); never a stranger's text."""
    hostility: tuple[Hostility, ...] = ()
    foreign_secrets: tuple[str, ...] = ()
    """Kinds and hashes of secrets that are not ours, found in the answer and removed."""
    connection: Connection = Connection()
    charge: Decimal | None = None
    """What this exchange cost by the usage it reports, in quote currency; the log may know better."""

    @property
    def status(self) -> int | None:
        return self.response.status if self.response else None

    def streamed(self) -> Streamed | None:
        """The answer as a stream; None where it did not come as one."""
        response = self.response
        if response is None or response.body[:1] in ("{", "["):
            return None  # whatever its type; most answers are such, and are asked most often
        if not looks_streamed(response.header("content-type"), response.body):
            return None
        return read_stream(response.body)

    def answer(self) -> Any:  # noqa: ANN401
        """The parsed answer, however it was delivered. Half a stream is as little an answer as half a JSON text."""
        if (stream := self.streamed()) is not None:
            return stream.message if stream.complete else None
        return self.response.parsed() if self.response else None


def pointer(document: Any, path: str) -> Any:  # noqa: ANN401  JSON in, JSON out
    """RFC 6901 look-up; None where the path leads nowhere."""
    if path == "":
        return document
    for raw in path.removeprefix("/").split("/"):
        part = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


def whole_number(value: Any) -> int | None:  # noqa: ANN401
    """A non-negative count below 2^53, or None: a relay's `-1`, `1e99`, `"12"` and `true` are not counts."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value < 2**53 else None


def _not_json(_: str) -> Any:  # noqa: ANN401
    raise ValueError("not JSON")


_JSON = json.JSONDecoder(parse_constant=_not_json)
"""Made once, where `json.loads` makes one for every body."""


def says_error(answer: Any) -> bool:  # noqa: ANN401  whatever a stranger sent
    """Whether an answer refuses, whatever its status: an error, and nothing that a model wrote. Panels write the status they
    mean into the body: a `code` of 4xx or 5xx beside a message."""
    if not isinstance(answer, dict) or any(answer.get(key) for key in ("content", "choices", "output", "candidates")):
        return False
    code = whole_number(answer.get("code"))
    meant = code is not None and code // 100 in (4, 5) and bool(answer.get("msg") or answer.get("message"))
    return meant or answer.get("type") == "error" or bool(answer.get("error")) or answer.get("success") is False
