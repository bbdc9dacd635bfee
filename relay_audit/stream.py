"""A streamed answer: server-sent events, the message they spell, and the texture they came in. Pure and bounded.

The message is what a client pieces together; events that nobody has seen yet are stepped over. The texture (padding,
ping literal, event lines, order) tells whether the vendor's own bytes were passed on or written anew. That is a fact
about the way, never a fault. A stream without its last event is incomplete: no answer, whatever it holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

Handling = Literal["as_sent", "rebuilt", "unclear"]

MOST_EVENTS = 20_000
MOST_BLOCKS = 1_000
PADDINGS = 16
"""The vendor puts 0 to 15 spaces before the last brace of a data line, each as often as the others."""
DISTINCT_PADDINGS = 3
"""So many different paddings are nobody's accident."""
UNPADDED = 4
"""So many lines without any padding leave 1 in 65,536 for the vendor's own."""
DONE = "[DONE]"
_LINE = re.compile(r"\r\n|\n|\r")
_PAD = re.compile(r"( *)\}$")
_CLAUDE = frozenset(
    {
        "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta",
        "content_block_stop", "ping", "error",
    }
)  # fmt: skip
_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""What a delta of each type lengthens in its block."""


@dataclass(frozen=True)
class Event:
    name: str
    """Of the `event:` line; empty where there was none."""
    data: str


@dataclass(frozen=True)
class Texture:
    padding: tuple[int, ...]
    """How many data lines had 0, 1, … 15 spaces before their last brace; pings left out."""
    ping: Literal["", "spaced", "compact"]
    """The vendor writes `{"type": "ping"}`, software that prints JSON anew `{"type":"ping"}`."""
    event_lines: bool
    """Whether every piece of data had its `event:` line."""
    in_order: bool
    """First event first, last event last."""
    done: bool
    """Whether it ends in `[DONE]`."""
    unknown: int
    """Events of a type that nobody has seen yet."""

    @property
    def handling(self) -> Handling:
        """Claude streams only: others have no padding to lose."""
        if sum(count > 0 for count in self.padding) >= DISTINCT_PADDINGS:
            return "as_sent"
        unpadded = self.padding[0] == sum(self.padding) >= UNPADDED
        return "rebuilt" if unpadded or self.ping == "compact" else "unclear"


@dataclass(frozen=True)
class Streamed:
    message: dict[str, Any] | None
    """As the same request would be answered without a stream; None where its dialect is not known."""
    complete: bool
    """Whether the last event came."""
    texture: Texture | None
    """None for other dialects than Claude's."""
    error: dict[str, Any] | None = None
    """What an error event in the middle said: a stranger's text."""


def looks_streamed(content_type: str | None, body: str) -> bool:
    """By its first line, or by its type where that is not JSON: a refusal may come under the type asked for."""
    start = body[:64].lstrip("\ufeff\r\n ")
    named = (content_type or "").partition(";")[0].strip().lower() == "text/event-stream"
    return start.startswith(("event:", "data:")) or (named and not start.startswith(("{", "[")))


def parse_events(text: str) -> list[Event]:
    """The events of a stream, as the standard for event streams reads them; at most `MOST_EVENTS`."""
    events: list[Event] = []
    name, data = "", list[str]()
    for line in _LINE.split(text.removeprefix("\ufeff")):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line and data:
            events.append(Event(name, "\n".join(data)))
            name, data = "", []
            if len(events) >= MOST_EVENTS:
                break
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
    return events


@lru_cache(maxsize=32)
def read_stream(text: str) -> Streamed:
    """What a stream says. The same text is read once: the message is shared and not to be changed."""
    events = parse_events(text)
    read = [(event, _json(event.data)) for event in events]
    bodies = [body for _, body in read if isinstance(body, dict)]
    done = any(event.data.strip() == DONE for event in events)
    first = bodies[0] if bodies else {}
    if any(body.get("type") == "message_start" for body in bodies[:MOST_BLOCKS]) or first.get("type") in (
        "ping",
        "error",
    ):
        return _claude(bodies, _texture(read, done))
    if first.get("object") == "chat.completion.chunk":
        return _chat(bodies, done)
    if isinstance(first.get("type"), str) and first["type"].startswith("response."):
        return _responses(bodies)
    return Streamed(None, complete=done, texture=None)


def _claude(bodies: list[dict[str, Any]], texture: Texture) -> Streamed:
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    complete, error = False, None
    final: dict[str, Any] = {}
    for body in bodies:
        kind = body.get("type")
        if kind == "message_start":
            message = dict(_table(body.get("message")))
        elif kind == "content_block_start":
            _open_block(blocks, body)
        elif kind == "content_block_delta":
            _grow_block(blocks, body)
        elif kind == "message_delta":
            message |= _table(body.get("delta"))
            final |= {key: value for key, value in _table(body.get("usage")).items() if value is not None}
        elif kind == "error":
            error = _table(body.get("error"))
        complete = complete or kind == "message_stop"
    if not message:
        return Streamed(None, complete=False, texture=texture, error=error)
    message["content"] = [_closed(blocks[index]) for index in sorted(blocks)]
    message["usage"] = _told(_table(message.get("usage")), final)
    return Streamed(message, complete and error is None, texture, error)


def _told(begun: dict[str, Any], final: dict[str, Any]) -> dict[str, Any]:
    """The usage that a stream reported. Its first event counts what was written so far (1, mostly), and converters that
    know nothing yet print zeros there: where the last one does not say it, the figure was never reported."""
    counts = {key: value for key, value in begun.items() if key.endswith("_tokens")}
    known = any(value for key, value in counts.items() if key != "output_tokens")
    return {k: v for k, v in begun.items() if k not in counts or (known and k != "output_tokens")} | final


def _open_block(blocks: dict[int, dict[str, Any]], body: dict[str, Any]) -> None:
    index = body.get("index")
    if isinstance(index, int) and len(blocks) < MOST_BLOCKS:
        blocks[index] = dict(_table(body.get("content_block")))


def _grow_block(blocks: dict[int, dict[str, Any]], body: dict[str, Any]) -> None:
    index, delta = body.get("index"), _table(body.get("delta"))
    block = blocks.get(index) if isinstance(index, int) else None
    if block is None:
        return
    kind = delta.get("type")
    name = _GROWING.get(kind) if isinstance(kind, str) else None
    if name is not None and isinstance(delta.get(name), str):
        block[name] = str(block.get(name) or "") + delta[name]
    elif kind == "input_json_delta" and isinstance(delta.get("partial_json"), str):
        block["partial_json"] = block.get("partial_json", "") + delta["partial_json"]


def _closed(block: dict[str, Any]) -> dict[str, Any]:
    """A tool's arguments come as pieces of JSON and are read when the block is whole."""
    if "partial_json" not in block:
        return block
    rest = {key: value for key, value in block.items() if key != "partial_json"}
    given = _json(block["partial_json"])
    return rest | {"input": given if isinstance(given, dict) else {}}


def _chat(bodies: list[dict[str, Any]], done: bool) -> Streamed:
    """OpenAI Chat: the first choice, its text in pieces; usage in the last chunk, where it was asked for."""
    message = {key: bodies[0].get(key) for key in ("id", "created", "model", "system_fingerprint", "service_tier")}
    text, finish = "", None
    for body in bodies:
        choices = body.get("choices")
        choice = _table(choices[0]) if isinstance(choices, list) and choices else {}
        piece = _table(choice.get("delta")).get("content")
        text += piece if isinstance(piece, str) else ""
        finish = choice.get("finish_reason") or finish
        if isinstance(usage := body.get("usage") or choice.get("usage"), dict):
            message["usage"] = usage
    said = {"role": "assistant", "content": text}
    message |= {"object": "chat.completion", "choices": [{"index": 0, "message": said, "finish_reason": finish}]}
    return Streamed(message, complete=done or finish is not None, texture=None)


def _responses(bodies: list[dict[str, Any]]) -> Streamed:
    """OpenAI Responses: the last event carries the whole answer."""
    ends = ("response.completed", "response.incomplete", "response.failed")
    last = next((body for body in reversed(bodies) if body.get("type") in ends), None)
    if last is None or not isinstance(last.get("response"), dict):
        return Streamed(None, complete=False, texture=None)
    return Streamed(last["response"], complete=True, texture=None)


def _texture(read: list[tuple[Event, Any]], done: bool) -> Texture:
    padding, pings, unknown = [0] * PADDINGS, list[str](), 0
    kinds: list[object] = []
    for event, body in read:
        if not isinstance(body, dict):
            continue
        kinds.append(body.get("type"))
        if body.get("type") == "ping":
            pings.append(event.data.strip())
        elif match := _PAD.search(event.data):
            padding[min(len(match[1]), PADDINGS - 1)] += 1
        unknown += str(body.get("type")) not in _CLAUDE
    return Texture(
        padding=tuple(padding),
        ping=_ping(pings),
        event_lines=all(event.name for event, body in read if isinstance(body, dict)),
        in_order=bool(kinds) and kinds[0] == "message_start" and kinds[-1] == "message_stop",
        done=done,
        unknown=unknown,
    )


def _ping(pings: Iterable[str]) -> Literal["", "spaced", "compact"]:
    seen = set(pings)
    if not seen:
        return ""
    return "spaced" if '{"type": "ping"}' in seen else "compact"


def _json(text: str) -> Any:  # noqa: ANN401  whatever a stranger sent
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError):
        return None


def _refused(_: str) -> Any:  # noqa: ANN401
    raise ValueError("not JSON")


_JSON = json.JSONDecoder(parse_constant=_refused)


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
