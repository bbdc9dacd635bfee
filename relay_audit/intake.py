"""Taking in a stranger's body: decoded, counted and stopped at a limit, so that no answer costs more than its limit.

Pure: it is handed chunks and the time, and says when to stop.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from relay_audit.exchange import Hostility, Response

TRICKLE = 100.0
"""Bytes per second below which an answer that ran into the total time was slow rather than without end."""


@dataclass(frozen=True)
class Limits:
    connect_s: float = 10.0
    first_byte_s: float = 120.0
    """Request sent to status line; a model that thinks before it answers is silent for long (CDNs cut at 100 s)."""
    read_s: float = 60.0
    """Between two reads of a body."""
    total_s: float = 180.0
    """Look-up to last byte; nothing takes longer."""
    max_body: int = 8 * 1024 * 1024
    """Decoded bytes; also the bound for bytes on the wire."""
    max_headers: int = 64 * 1024
    """Names and values of an answer's headers, in bytes."""
    max_ratio: float = 100.0
    """Decoded to received bytes; JSON and event streams of real vendors stay below 30."""
    ratio_from: int = 1024 * 1024
    """Decoded bytes from which the ratio is looked at: a small body of blanks harms nobody."""
    slow_after_s: float = 30.0
    min_bytes_per_s: float = 0.1
    """Average from `slow_after_s` on. Low on purpose: a relay that sends one `: PING` a minute is waiting for an
    honest answer, and cutting that would cost the buyer the charge and the evidence."""


class Intake:
    """One body. `take` until it returns False or the stream ends, then `finish`; `body` is what was kept."""

    def __init__(self, encoding: str, limits: Limits, started: float) -> None:
        self.body = bytearray()
        self.size = 0
        """Decoded bytes seen, kept or not."""
        self.received = 0
        """Bytes on the wire, after chunking was undone."""
        self.cut = False
        self.hostility: Hostility | None = None
        self._limits = limits
        self._started = started
        self._inflate = _Inflater(encoding)

    def take(self, chunk: bytes, now: float) -> bool:
        """Adds a chunk; False means that nothing more is to be read."""
        self.received += len(chunk)
        room = self._limits.max_body - len(self.body)
        try:
            decoded = self._inflate.feed(chunk, room + 1)
        except (zlib.error, ValueError):
            return self.stop("decompression")
        self.size += len(decoded)
        self.body += decoded[:room]
        if self._is_bomb():
            return self.stop("decompression")
        if len(decoded) > room or self.received > self._limits.max_body:
            return self.stop("too_large")
        elapsed = now - self._started
        if elapsed > self._limits.slow_after_s and self.received < elapsed * self._limits.min_bytes_per_s:
            return self.stop("too_slow")
        return True

    def finish(self) -> None:
        """The stream ended by itself; a compressed one must have ended too."""
        if not self._inflate.complete:
            self.stop("decompression")

    def run_out(self, now: float) -> None:
        """The total time is up."""
        trickled = self.received < (now - self._started) * TRICKLE
        self.stop("too_slow" if trickled else "endless")

    def stop(self, why: Hostility | None) -> bool:
        self.cut = True
        self.hostility = why
        return False

    def _is_bomb(self) -> bool:
        return self.size > self._limits.ratio_from and self.size > self.received * self._limits.max_ratio


class _Inflater:
    """gzip or deflate with a bound on each step. Raises ValueError for a coding that was not asked for."""

    def __init__(self, encoding: str) -> None:
        coding = encoding.strip().lower().removeprefix("x-")
        self._coding = "" if coding == "identity" else coding
        self._engine: zlib._Decompress | None = None
        self._head = b""

    @property
    def complete(self) -> bool:
        """True for an empty body too: there is nothing to be incomplete."""
        return not self._head if self._engine is None else self._engine.eof

    def feed(self, data: bytes, room: int) -> bytes:
        """At most `room` decoded bytes. What is over that is dropped: the caller stops there."""
        if not self._coding:
            return data[:room]
        if self._engine is None:
            self._head += data
            if len(self._head) < 2:
                return b""
            data, self._head = self._head, b""
            self._engine = self._begin(data)
        out = bytearray()
        while data and len(out) < room:
            if self._engine.eof:
                if not self._next_member(data):
                    break
                self._engine = self._begin(data)
            out += self._engine.decompress(data, room - len(out))
            data = self._engine.unused_data
        return bytes(out)

    def _begin(self, head: bytes) -> zlib._Decompress:
        if self._coding == "gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 16)
        if self._coding != "deflate":
            raise ValueError("not a coding that was asked for")
        # "deflate" means zlib's wrapping (RFC 9110), but servers exist that send the bare stream
        wrapped = head[0] & 0x0F == 8 and int.from_bytes(head[:2]) % 31 == 0
        return zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)

    def _next_member(self, data: bytes) -> bool:
        """gzip may be several members in a row; anything else behind the end is padding."""
        return self._coding == "gzip" and data[:1] == b"\x1f"


def json_faults(text: str) -> tuple[Hostility, ...]:
    """What is wrong with a body that claims to be JSON: unreadable, or with numbers that no counter can hold."""
    strange: list[str] = []

    def number(digits: str) -> int:
        if len(digits) > 400:  # beyond any double, and above Python's own limit a ValueError
            strange.append(digits)
            return 0
        return int(digits)

    def fraction(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            strange.append(digits)
        return value

    try:
        json.loads(text, parse_constant=strange.append, parse_int=number, parse_float=fraction)
    except (ValueError, RecursionError):
        return ("bad_json",)
    return ("bad_numbers",) if strange else ()


def fitting(headers: Iterable[tuple[str, str]], limit: int) -> Iterator[tuple[str, str]]:
    """The first headers that together stay within `limit` bytes, separators counted."""
    for name, value in headers:
        limit -= len(name) + len(value) + 4
        if limit < 0:
            return
        yield name, value


def should_parse(response: Response, *, asked_in_json: bool) -> bool:
    """It says that it is JSON, or it is the successful answer to a question asked in JSON."""
    kind = (response.header("content-type") or "").partition(";")[0].strip().lower()
    if response.cut or kind == "text/event-stream" or response.status == 204 or 300 <= response.status < 400:
        return False
    return kind.endswith(("/json", "+json")) or (response.status == 200 and asked_in_json)
