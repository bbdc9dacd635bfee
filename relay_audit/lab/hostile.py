"""What a bad relay puts on the wire in place of a finished answer. Large and endless bodies are made while sent."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from relay_audit.lab import shells
from relay_audit.lab.knobs import Hostile
from relay_audit.lab.wire import HttpAnswer, Part

HUGE_BYTES = 300 * 1024 * 1024
BOMB_BYTES = 200 * 1024 * 1024
BLOCK = 256 * 1024
JSON_TYPE = (("content-type", "application/json"),)


def spoil(kind: Hostile, answer: HttpAnswer) -> HttpAnswer:
    """The answer as that kind of relay sends it; kinds that are decided elsewhere leave it alone."""
    change = CHANGES.get(kind)
    return change(answer) if change else answer


def _empty(answer: HttpAnswer) -> HttpAnswer:
    return replace(answer, body=b"", pieces=())


def _half(answer: HttpAnswer) -> HttpAnswer:
    return replace(answer, body=answer.body[: len(answer.body) // 2], pieces=())


def _with_count(text: bytes) -> Callable[[HttpAnswer], HttpAnswer]:
    def change(answer: HttpAnswer) -> HttpAnswer:
        before, mark, after = answer.body.partition(b'"input_tokens":')
        rest = after.lstrip(b"0123456789")
        return replace(answer, body=before + mark + text + rest, pieces=())

    return change


def _huge(answer: HttpAnswer) -> HttpAnswer:
    def flow() -> Iterator[Part]:
        yield 0.0, b'{"id":"'
        for _ in range(HUGE_BYTES // BLOCK):
            yield 0.0, b"a" * BLOCK
        yield 0.0, b'"}'

    return HttpAnswer(200, JSON_TYPE, delay=answer.delay, flow=flow, length=HUGE_BYTES + 9)


def _bomb(answer: HttpAnswer) -> HttpAnswer:
    def flow() -> Iterator[Part]:
        squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
        for _ in range(BOMB_BYTES // BLOCK):
            if part := squeeze.compress(b" " * BLOCK):
                yield 0.0, part
        yield 0.0, squeeze.flush()

    return HttpAnswer(200, (*JSON_TYPE, ("content-encoding", "gzip")), delay=answer.delay, flow=flow)


def _endless(answer: HttpAnswer) -> HttpAnswer:
    def flow() -> Iterator[Part]:
        yield 0.0, b'event: message_start\ndata: {"type":"message_start"}\n\n'
        while True:
            yield 0.02, b'event: ping\ndata: {"type": "ping"}\n\n'

    return HttpAnswer(200, (("content-type", "text/event-stream"),), delay=answer.delay, flow=flow)


def _drip(answer: HttpAnswer) -> HttpAnswer:
    def flow() -> Iterator[Part]:
        for place in range(len(answer.body)):
            yield 0.5, answer.body[place : place + 1]

    return replace(answer, flow=flow, body=b"", pieces=(), length=len(answer.body))


def _reset(answer: HttpAnswer) -> HttpAnswer:
    return replace(answer, behaviour="reset", body=answer.body[:20], length=len(answer.body), pieces=())


CHANGES: dict[Hostile, Callable[[HttpAnswer], HttpAnswer]] = {
    "html_200": lambda answer: replace(shells.web_app(), delay=answer.delay),
    "empty_body": _empty,
    "huge_body": _huge,
    "gzip_bomb": _bomb,
    "endless_stream": _endless,
    "slow_drip": _drip,
    "invalid_json": _half,
    "nan_usage": _with_count(b"NaN"),
    "negative_usage": _with_count(b"-7"),
    "hang": lambda answer: replace(answer, behaviour="hang"),
    "reset_after_headers": _reset,
}
