"""Answers in OpenAI's two formats: ids, usage, key order, pretty printing, streams; and how Azure's look."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from relay_audit.lab.gpt_count import count_openai
from relay_audit.lab.gpt_ids import DIGITS, ResponseIds, chat_id
from relay_audit.lab.message import Stamps, Treatment
from relay_audit.lab.models import Model
from relay_audit.lab.reciting import recited
from relay_audit.lab.tokenizer import GenerationName
from relay_audit.lab.variation import Variation
from relay_audit.lab.writing import up_to

TEXTS = ("OK", "OK.", "Ok.")
FILTERED = {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": False, "severity": "safe"}}


def billed(body: dict[str, Any], model: Model, how: Treatment, seen: Variation) -> int:
    """Input tokens: the count, the run's offset and whatever was added on the way; cached ones are part of them."""
    counted = count_openai(body, "gpt-cl100k" if how.generation else model.generation)
    whole = counted + seen.template_offset + how.hidden + how.cached
    return int((whole * how.factor).quantize(Decimal(1), ROUND_HALF_UP))


def chat(
    body: dict[str, Any], model: Model, stamp: Stamps, how: Treatment, seen: Variation, rng: random.Random
) -> dict[str, Any]:
    created = int(stamp.message)
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or 4096
    text, length = ("", 0) if how.empty else _spoken(body, limit, model, how, rng)
    prompt = billed(body, model, how, seen)
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop" if length else "length"}
    if not model.strict:
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": choice["finish_reason"]}
    spent = (length or (limit if how.empty else 16)) * how.output_factor
    answer: dict[str, Any] = {
        "id": _forged("chatcmpl-", 29, rng, DIGITS) if how.ids == "random" else chat_id(created, rng),
        "object": "chat.completion",
        "created": created,
        "model": model.display_name,
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": spent,
            "total_tokens": prompt + spent,
            "prompt_tokens_details": _cached(how) | {"audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0 if length else 16, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": None if model.strict else f"fp_{rng.getrandbits(40):010x}",
    }  # fmt: skip
    if how.extras:
        answer["usage"] |= {"energy_uwh": {"prefill": 11, "decode": 4}, "cost_class": None}
    if how.channel == "azure":
        choice["content_filter_results"] = FILTERED
        answer["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": FILTERED}]
    return answer


def response(
    body: dict[str, Any], model: Model, stamp: Stamps, how: Treatment, seen: Variation, rng: random.Random
) -> dict[str, Any]:
    created = int(stamp.message)
    stored = body.get("store") is not False
    ids = ResponseIds(created, stored=stored, rng=rng)
    limit = body.get("max_output_tokens") or 4096
    text, length = ("", 0) if how.empty else _spoken(body, limit, model, how, rng)
    prompt, spent = billed(body, model, how, seen), (length or (limit if how.empty else 16)) * how.output_factor
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    item = {"id": ids.of("msg"), "type": "message", "status": "completed", "content": [part], "role": "assistant"}
    answer: dict[str, Any] = {
        "id": _forged("resp_", 50, rng, "0123456789abcdef") if how.ids == "random" else ids.response,
        "object": "response",
        "created_at": created,
        "status": "completed" if length else "incomplete",
        "background": False,
        "billing": {"payer": "developer"},
        "completed_at": created + 1,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": None if length else {"reason": "max_output_tokens"},
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": model.display_name,
        "output": [item] if length else [{"id": ids.of("rs"), "type": "reasoning", "summary": []}],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "service_tier": "default",
        "store": stored,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 0.98,
        "truncation": "disabled",
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": _cached(how),
            "output_tokens": spent,
            "output_tokens_details": {"reasoning_tokens": 0 if length else 16},
            "total_tokens": prompt + spent,
        },
        "user": None,
        "metadata": {},
    }
    if how.extras:
        answer["usage"] |= {"energy_uwh": {"prefill": 11, "decode": 4}}
        answer["carbon"] = None
    if how.channel == "azure":
        del answer["billing"]
        answer["content_filters"] = [{"blocked": False, "source_type": "prompt", "content_filter_results": FILTERED}]
    return answer


def _spoken(body: dict[str, Any], limit: int, model: Model, how: Treatment, rng: random.Random) -> tuple[str, int]:
    """The text and its tokens; now and then a model that reasons spends its whole limit and says nothing (0)."""
    generation: GenerationName = "gpt-cl100k" if how.generation else model.generation
    told = recited(body, how.hidden, how.recites, generation, rng)
    told = told or (how.taste.pick(body, model.name) if how.taste else None)
    if told is not None:
        said = up_to(told, limit, generation)
        return said.text, said.tokens
    if limit <= 16 and rng.random() < 0.15:
        return "", 0
    return rng.choice(TEXTS), min(rng.randint(4, 9), limit)


def _cached(how: Treatment) -> dict[str, int]:
    written, read = (how.cached, 0) if how.cache_is_new else (0, how.cached)
    return {"cached_tokens": read, "cache_write_tokens": written}


def _forged(prefix: str, length: int, rng: random.Random, alphabet: str) -> str:
    return prefix + "".join(rng.choices(alphabet, k=length))


def printed(answer: dict[str, Any], *, from_azure: bool) -> bytes:
    """As the servers print it: indented by two; Azure compact, with its keys in alphabetical order."""
    if from_azure:
        return json.dumps(answer, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()
    return (json.dumps(answer, indent=2, ensure_ascii=False) + "\n").encode()


def chat_events(answer: dict[str, Any], rng: random.Random) -> Iterator[bytes]:
    """Chunks with a padding field of 0 to 15 characters, the usage in a chunk of its own, then [DONE]."""
    shared = {key: answer[key] for key in ("id", "created", "model", "service_tier", "system_fingerprint")}
    first = answer["choices"][0]
    deltas: tuple[dict[str, Any], ...] = (
        {"role": "assistant", "content": "", "refusal": None},
        {"content": first["message"]["content"]},
        {},
    )
    for place, delta in enumerate(deltas):
        done = first["finish_reason"] if place == len(deltas) - 1 else None
        yield _chunk(shared | {"choices": [{"index": 0, "delta": delta, "finish_reason": done}], "usage": None}, rng)
    yield _chunk(shared | {"choices": [], "usage": answer["usage"]}, rng)
    yield b"data: [DONE]\n\n"


def _chunk(data: dict[str, Any], rng: random.Random) -> bytes:
    padding = "".join(rng.choices(DIGITS, k=rng.randrange(16)))
    chunk = {**data, "object": "chat.completion.chunk", "obfuscation": padding}
    return f"data: {json.dumps(chunk, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()


def response_events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Numbered events; the answer whole in the last one, and no [DONE]."""
    started = {**answer, "status": "in_progress", "output": [], "usage": None, "completed_at": None}
    rows: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": started})]
    for index, item in enumerate(answer["output"]):
        rows.append(("response.output_item.added", {"output_index": index, "item": item}))
        rows.append(("response.output_item.done", {"output_index": index, "item": item}))
    rows.append((f"response.{answer['status']}", {"response": answer}))
    for number, (kind, data) in enumerate(rows):
        event = {"type": kind, "sequence_number": number, **data}
        yield f"event: {kind}\ndata: {json.dumps(event, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()
