"""A Claude answer as the official API, Bedrock or Vertex writes it: ids, usage, key order, events."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from relay_audit.lab import ids
from relay_audit.lab.caching import NOTHING, Cached, CacheWay
from relay_audit.lab.choosing import Taste
from relay_audit.lab.knobs import Channel, IdStyle, Signed
from relay_audit.lab.models import Model
from relay_audit.lab.reciting import Recites, recited
from relay_audit.lab.signature import opaque, signature
from relay_audit.lab.tokenizer import GenerationName, count_body
from relay_audit.lab.variation import Variation
from relay_audit.lab.writing import Written, up_to, write

KINDS: dict[Channel, str] = {"anthropic": "msg", "azure": "msg", "aws": "msg_bdrk", "vertex": "msg_vrtx"}
CONSTANT_ID = "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY"
"""CLIProxyAPI's, where what stands behind it gives no id."""
THOUGHT = "Comparing the words one after the other. "
STALE_S = 3 * 3600
CUT = Written("", 0, "max_tokens")


@dataclass(frozen=True)
class Treatment:
    """What happens to one request behind a relay; the default is nothing."""

    channel: Channel = "anthropic"
    ids: IdStyle = "minted"
    generation: GenerationName | None = None
    hidden: int = 0
    recites: Recites = "hidden"
    cached: int = 0
    cache_is_new: bool = False
    factor: Decimal = Decimal(1)
    output_factor: int = 1
    taste: Taste | None = None
    """What is picked where one of several words is asked for."""
    empty: bool = False
    """The model thinks up to its limit and says nothing."""
    geo: str = ""
    extras: bool = False
    signature: Signed = "own"
    signature_model: str = ""
    account: int = 0
    """Which of the upstream's accounts is used."""
    cache: CacheWay = "own"
    prefix: Cached = NOTHING
    """What of the request's own marked prefix the upstream's cache wrote or read."""

    @property
    def future(self) -> bool:
        return self.ids == "future"


PLAIN = Treatment()


@dataclass(frozen=True)
class Stamps:
    """The moments inside one answer's ids, within the recorded windows."""

    date: float
    message: float
    request: float


def stamps(date: float, rng: random.Random, style: IdStyle = "minted") -> Stamps:
    """`Date` − message id −0.6…+8.8 s (median 0.57), message id − request id 0.048…2.96 s, now and then a long wait."""
    whole = float(int(date))
    age = rng.triangular(-0.6, 1.8, 0.57) if rng.random() < 0.9 else rng.uniform(1.8, 8.8)
    before = rng.triangular(0.048, 0.4, 0.136) if rng.random() < 0.95 else rng.uniform(0.4, 2.96)
    waited = rng.uniform(5, 60) if rng.random() < 0.02 else 0.0
    back = STALE_S if style == "stale" else 0
    return Stamps(whole, whole - age - back, whole - age - before - waited - back)


def message_id(channel: Channel, style: IdStyle, at: float, rng: random.Random) -> str:
    if style == "forged_bedrock":
        return ids.lookalike("msg_bdrk_", 24, rng)
    if style == "random":
        return ids.lookalike("msg_01", 22, rng, ids.BASE58)
    if style == "converted":
        return ids.lookalike("chatcmpl-", 29, rng)
    if style == "constant":
        return CONSTANT_ID
    if style == "future":
        return ids.lookalike("msg_02", 26, rng)
    return ids.minted("msg" if style == "first_party" else KINDS[channel], at, rng)


def usage(
    body: dict[str, Any], model: Model, output: int, how: Treatment, seen: Variation, thought: int = 0
) -> dict[str, Any]:
    """The usage block: billed input is the count, the run's template offset and whatever was added on the way."""
    counted = (
        count_body(body, how.generation or model.generation, model.tool_prompt) + seen.template_offset + how.hidden
    )
    counted -= how.prefix.tokens
    billed = int((counted * how.factor).quantize(Decimal(1), ROUND_HALF_UP))
    written, read = (how.cached, 0) if how.cache_is_new else (0, how.cached)
    five, hour, read = written + how.prefix.written_5m, how.prefix.written_1h, read + how.prefix.read
    caches: dict[str, Any] = {"cache_creation_input_tokens": five + hour, "cache_read_input_tokens": read}
    split = {"cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour}}
    tokens: dict[str, Any] = {"output_tokens": output * how.output_factor}
    orders: tuple[dict[str, Any], ...] = (caches | split | tokens, caches | tokens | split, tokens | caches | split)
    block: dict[str, Any] = {"input_tokens": billed, **orders[seen.usage_order]}
    # Bedrock has service_tier and no inference_geo (opus-4-8, 2026-08), Vertex had neither until at least 2026-04.
    if how.channel != "vertex":
        block["service_tier"] = "standard"
    if how.channel in ("anthropic", "azure") and how.ids != "converted":
        block["inference_geo"] = how.geo or (
            body.get("inference_geo", model.geo) if how.channel == "anthropic" else "not_available"
        )
    if seen.output_details or how.extras:
        block["output_tokens_details"] = {"thinking_tokens": thought}
    if how.extras:
        block |= {
            "server_tool_use": None,
            "iterations": [],
            "speed": "standard",
            "energy_uwh": {"prefill": 11, "decode": 4},
        }
    return block


def message(
    body: dict[str, Any],
    model: Model,
    stamp: Stamps,
    how: Treatment,
    seen: Variation,
    rng: random.Random,
    account: str = "",
) -> dict[str, Any]:
    """A finished answer. Keys stand in the vendor's order (model, id, type, role, content since 2025-10)."""
    limit = body["max_tokens"]
    thought = _thinking(body, model, how, rng, account)
    generation = how.generation or model.generation
    told = recited(body, how.hidden, how.recites, generation, rng)
    told = told or (how.taste.pick(body, model.name) if how.taste else None)
    said = write(body, generation, rng) if told is None else up_to(told, limit, generation)
    thinking = rng.randint(60, 140) if thought else 0
    length = limit if how.empty else min(said.tokens + thinking, limit)
    if how.empty:
        thinking, thought, said = length, [{"type": "thinking", "thinking": THOUGHT, "signature": opaque(rng)}], CUT
    answer: dict[str, Any] = {
        "model": model.name,
        "id": message_id(how.channel, how.ids, stamp.message, rng),
        "type": "message",
        "role": "assistant",
        "content": [*thought, *([{"type": "text", "text": said.text}] if said.text else [])] if limit else [],
        "stop_reason": "end_of_answer" if how.future and said.reason == "end_turn" else said.reason,
        "stop_sequence": said.stop,
        "stop_details": None,
        "usage": usage(body, model, length, how, seen, min(thinking, length)),
    }
    if how.channel == "anthropic" and (seen.nulls or how.extras):
        answer |= {"container": None, "diagnostics": None}
    return answer


def _thinking(
    body: dict[str, Any], model: Model, how: Treatment, rng: random.Random, account: str
) -> list[dict[str, Any]]:
    """The thinking block of a request that asks for one, signed."""
    if (body.get("thinking") or {}).get("type") not in ("adaptive", "enabled"):
        return []
    platform = how.channel if how.signature == "own" else how.signature
    names = how.signature_model or ("" if platform == "aws" and rng.random() < 0.5 else model.name)
    signed = opaque(rng) if platform == "opaque" else signature(platform, names, account, rng)
    return [{"type": "thinking", "thinking": THOUGHT * rng.randint(1, 3), "signature": signed}]


def rebuilt(answer: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same answer with its keys in the order of whoever wrote it anew; 0 leaves it alone."""
    if not seed:
        return answer
    keys = list(answer)
    random.Random(seed).shuffle(keys)
    return {key: answer[key] for key in keys}


def events(answer: dict[str, Any], rng: random.Random, *, future: bool = False) -> Iterator[bytes]:
    """The answer as server-sent events, with the vendor's texture: 0 to 15 spaces before the last brace of each data
    line, a ping with a space after its colon, message_start first, message_stop last, no [DONE]."""
    start = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 1}}
    yield _event("message_start", {"message": start}, rng)
    if future:
        yield _event("message_notice", {"notice": {"kind": "capacity"}}, rng)
    for index, block in enumerate(answer["content"]):
        empty = {key: "" if key in ("text", "thinking", "signature") else value for key, value in block.items()}
        yield _event("content_block_start", {"index": index, "content_block": empty}, rng)
        if not index:
            yield b'event: ping\ndata: {"type": "ping"}\n\n'
        for delta in _deltas(block, rng):
            yield _event("content_block_delta", {"index": index, "delta": delta}, rng)
        if future:
            yield _event("content_block_delta", {"index": index, "delta": {"type": "weight_delta", "weight": 1}}, rng)
        yield _event("content_block_stop", {"index": index}, rng)
    final = {
        key: value
        for key, value in answer["usage"].items()
        if key not in ("service_tier", "inference_geo", "cache_creation")
    }
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None, "stop_details": None}
    yield _event("message_delta", {"delta": delta, "usage": final}, rng)
    yield _event("message_stop", {}, rng)


def _deltas(block: dict[str, Any], rng: random.Random) -> Iterator[dict[str, Any]]:
    """A block's pieces. The signature comes in one, after the thinking."""
    name = "thinking" if block["type"] == "thinking" else "text"
    for piece in _split(block[name], rng):
        yield {"type": f"{name}_delta", name: piece}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}


def printed_anew(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each event as software writes it that has read it: no padding, and a ping like any other event."""
    for piece in pieces:
        head, _, data = piece.decode().partition("\ndata: ")
        yield f"{head}\ndata: {json.dumps(json.loads(data), separators=(',', ':'), ensure_ascii=False)}\n\n".encode()


def _event(kind: str, data: dict[str, Any], rng: random.Random) -> bytes:
    text = json.dumps({"type": kind, **data}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {kind}\ndata: {text[:-1]}{' ' * rng.randrange(16)}}}\n\n".encode()


def _split(text: str, rng: random.Random) -> tuple[str, ...]:
    at = rng.randint(1, len(text))
    return (text[:at], text[at:]) if text[at:] else (text,)
