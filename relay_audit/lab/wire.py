"""HTTP as values: what arrived and what is answered, so that a scenario runs with and without a socket."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Literal

Headers = tuple[tuple[str, str], ...]
Side = Literal["relay", "official", "elsewhere"]
Part = tuple[float, bytes]
"""Seconds to wait, then the bytes."""
Behaviour = Literal["answer", "hang", "reset"]


@dataclass(frozen=True)
class HttpRequest:
    method: str
    path: str
    """Path and query, as in the request line."""
    headers: Headers = ()
    body: bytes = b""

    @property
    def route(self) -> str:
        return self.path.partition("?")[0]

    @property
    def query(self) -> str:
        return self.path.partition("?")[2]

    def header(self, name: str) -> str:
        """The first value of a header, or an empty text."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def bearer(self) -> str:
        return self.header("authorization").removeprefix("Bearer ").strip()

    @property
    def key(self) -> str:
        """The caller's key in either style."""
        return self.header("x-api-key") or self.bearer

    def json(self) -> Any:  # noqa: ANN401  whatever a caller sent
        """The parsed body, or None where it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class HttpAnswer:
    """An answer and how it behaves on the wire."""

    status: int
    headers: Headers = ()
    body: bytes = b""
    pieces: tuple[int, ...] = ()
    """Sizes of the chunks it is sent in; empty means one piece with a content-length."""
    delay: float = 0.0
    """Seconds before the status line."""
    gap: float = 0.0
    """Seconds between pieces."""
    flow: Callable[[], Iterator[Part]] | None = None
    """Replaces `body` where it is too large, too slow or endless to be held; made as it is sent."""
    length: int | None = None
    """The declared content-length of a flow; None means chunked."""
    behaviour: Behaviour = "answer"
    """`hang`: nothing is ever sent. `reset`: the connection breaks after the headers and what is in `body`."""

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)

    def parts(self) -> Iterator[Part]:
        """The body as it leaves: each piece with the wait before it."""
        if self.flow is not None:
            yield from self.flow()
            return
        start = 0
        for size in self.pieces or (len(self.body),):
            yield (self.gap if start else 0.0), self.body[start : start + size]
            start += size


def compact(value: object) -> bytes:
    """JSON as these vendors print it: no spaces, UTF-8, keys in their order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def json_answer(status: int, value: object, headers: Headers = ()) -> HttpAnswer:
    return HttpAnswer(status, (("content-type", "application/json"), *headers), compact(value))


def date_header(seconds: float) -> tuple[str, str]:
    return "date", formatdate(int(seconds), usegmt=True)


def cut(body: bytes, longest: int, rng: random.Random) -> tuple[int, ...]:
    """Sizes that add up to the body, each at most `longest` (0: uncut)."""
    if longest <= 0 or not body:
        return ()
    sizes: list[int] = []
    left = len(body)
    while left:
        size = min(left, rng.randint(1, longest))
        sizes.append(size)
        left -= size
    return tuple(sizes)
