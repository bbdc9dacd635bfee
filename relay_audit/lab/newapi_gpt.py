"""The same relay with an OpenAI channel: Chat Completions and Responses passed on, billed with cached tokens inside the
prompt. Upstream refusals keep their form and carry no request id of the relay (source-derived).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from relay_audit.lab import hostile, ids, shells
from relay_audit.lab.billing import Tokens, hold, site_dollars
from relay_audit.lab.gpt_answer import printed
from relay_audit.lab.gpt_count import brings_system
from relay_audit.lab.gpt_models import GPT_MODELS
from relay_audit.lab.gpt_official import ROUTES, OpenAi
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.message import rebuilt
from relay_audit.lab.newapi import EMPTY_AFTER, FILL, TRUSTED, NewApi
from relay_audit.lab.official import STREAM_TYPE, Reply
from relay_audit.lab.panel import Panel
from relay_audit.lab.relay_log import RelayLog
from relay_audit.lab.tampering import tampered
from relay_audit.lab.turns import Turn
from relay_audit.lab.variation import Variation
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, compact, cut, json_answer

MARKS = ("openai-", "x-request-id", "cf-ray", "x-ratelimit-", "apim-", "azureai-", "x-ms-", "x-openai-")
LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


class GptLog(RelayLog):
    """Rows of an OpenAI channel: the prompt holds the cached tokens."""

    semantics = "openai"

    def _marks(self) -> dict[str, Any]:
        return {"request_conversion": ["OpenAI Compatible"]}


class NewApiGpt(NewApi):
    def __init__(
        self,
        *,
        key: str,
        knobs: Knobs,
        seen: Variation,
        upstream: OpenAi,
        rng: random.Random,
        now: Callable[[], float],
    ) -> None:
        super().__init__(key=key, knobs=knobs, seen=seen, upstream=upstream, rng=rng, now=now)  # type: ignore[arg-type]
        self._gpt = upstream
        self.log = GptLog(knobs, rng, now, GPT_MODELS)
        self._panel = Panel(key, knobs, seen, self.log, rng, now, GPT_MODELS)

    def handle(self, request: HttpRequest) -> HttpAnswer:
        if request.method != "POST" or request.route != ROUTES[self._gpt.dialect]:
            return super().handle(request)
        build = "" if self._knobs.log == "query_only" else ids.NEW_API_BUILD
        request_id = ids.relay_request_id(self._now(), self._rng, build)
        own = self._own_headers(request_id)
        body = request.json()
        refusal = self._refuse_key(request, request_id, own) or self._refuse(request, body, request_id, own)
        if refusal is not None:
            return refusal
        seen_as = {**body, "system": "own"} if brings_system(body) else body
        if self._knobs.stores and (stored := self._stored.find(body)) is not None:
            return self._again(body, stored, request_id, own)
        turn = self._turns.next(seen_as, request.header("user-agent"))
        if turn.fails:
            return self._as_said(self._flaky(request_id, own))
        return self._relay(request, body, turn, request_id, own)

    def _relay(
        self, request: HttpRequest, body: dict[str, Any], turn: Turn, request_id: str, own: Headers
    ) -> HttpAnswer:
        switched = self._knobs.stores_nothing and isinstance(body.get("store", True), bool)
        sent = {**body, "store": False} if switched else dict(body)
        sent = tampered(sent, self._knobs) if turn.strikes else sent
        if self._knobs.serves and turn.strikes:
            sent["model"] = self._knobs.serves
        reply = self._gpt.generate(sent, how=turn.how)
        if reply.status != 200:
            self._bill_refusal(request_id, body)
            return self._as_said(self._upstream_error(reply, request_id, own))
        dressed = self._dressed(reply, turn, body["model"], request)
        self._stored.keep(body, dressed)
        answer = self._answer(body, dressed, request_id, own)
        return hostile.spoil(self._knobs.hostile, answer)

    def _models(self, request: HttpRequest, own: Headers) -> HttpAnswer:  # noqa: ARG002  as in the class above it
        rows = [{"id": name, "object": "model", "created": 1626777600, "owned_by": "openai"} for name in GPT_MODELS]
        return json_answer(200, {"success": True, "object": "list", "data": rows}, own)

    def _refuse(self, request: HttpRequest, body: Any, request_id: str, own: Headers) -> HttpAnswer | None:  # noqa: ANN401
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            text = shells.words(request, "bad_request", reason="unexpected end of JSON input")
            return shells.openai_shape(400, text, request_id, own)
        if body["model"] not in GPT_MODELS:
            text = shells.words(request, "no_channel", group=self._knobs.group, model=body["model"])
            return shells.openai_shape(503, text, request_id, own, "model_not_found")
        return self._refuse_reserve(request, body, request_id, own)

    def _refuse_reserve(
        self, request: HttpRequest, body: dict[str, Any], request_id: str, own: Headers
    ) -> HttpAnswer | None:
        self._served += 1
        left = self._panel.left
        if self._knobs.hostile == "balance_empty":
            left = 0 if self._served > EMPTY_AFTER else TRUSTED + 1
        limit = self._limit_of(body)
        need = hold(0, limit, GPT_MODELS[body["model"]].list_price, self._knobs.group_ratio)
        if left > TRUSTED or need <= left:
            return None
        text = shells.words(request, "short", left=site_dollars(left), need=site_dollars(need))
        return shells.openai_shape(403, text, request_id, own, "insufficient_user_quota")

    def _limit_of(self, body: dict[str, Any]) -> int:
        return next((body[name] for name in LIMITS if isinstance(body.get(name), int)), FILL)

    def _flaky(self, request_id: str, own: Headers) -> HttpAnswer:
        error = {"message": "The server is overloaded.", "type": "server_error", "param": None, "code": None}
        if self._knobs.rewrites_errors:
            return shells.wrapped_in_chinese(503, compact({"error": error}), own)
        if self._rng.random() < 0.5:
            return json_answer(503, {"error": error}, own)
        return shells.openai_shape(500, "Service Unavailable", request_id, own)

    def _upstream_error(self, reply: Reply, request_id: str, own: Headers) -> HttpAnswer:  # noqa: ARG002
        if self._knobs.rewrites_errors:
            return shells.wrapped_in_chinese(reply.status, compact(reply.body), own)
        return json_answer(reply.status, reply.body, own)

    def _dressed(self, reply: Reply, turn: Turn, model: str, request: HttpRequest) -> Reply:
        patched = self._knobs.returned_name or (GPT_MODELS[model].display_name if self._knobs.serves else "")
        answer = reply.body | ({"model": patched} if patched else {})
        if turn.replays and self._last is not None and _has_text(self._last.body):
            reply = Reply(200, self._last.headers, reply.body)
            answer |= _said_before(self._last.body, answer)
        if self._empty.hit():
            answer = _emptied(answer)
        self._last = Reply(200, reply.headers, answer)
        if self._knobs.echoes_key == "answers":
            answer = answer | {"debug": {"authorization": f"Bearer {request.key}"}}
        return Reply(200, reply.headers, answer)

    def _answer(
        self, body: dict[str, Any], reply: Reply, request_id: str, own: Headers, *, billed: bool = True
    ) -> HttpAnswer:
        delay = self._gpt.latency()
        stream = body.get("stream") is True
        tokens = tokens_of(reply.body["usage"])
        limit = self._limit_of(body)
        if billed:
            self.log.write(request_id, body["model"], tokens, stream=stream, use_time=delay, limit=limit)
        if stream:
            pieces = self._gpt.stream_of(reply.body)
            headers: Headers = (("Content-Type", STREAM_TYPE.partition(";")[0]), ("Cache-Control", "no-cache"), *own)
            return HttpAnswer(200, headers, b"".join(pieces), tuple(map(len, pieces)), delay, gap=delay / 10)
        anew = self._seen.rebuilds_json
        from_azure = any(name == "apim-request-id" for name, _ in reply.headers)
        raw = compact(rebuilt(reply.body, anew)) if anew else printed(reply.body, from_azure=from_azure)
        headers = (("Content-Type", "application/json"), *self._copied(reply.headers, own))
        return HttpAnswer(200, headers, raw, cut(raw, self._seen.longest_piece, self._rng), delay)

    def _is_stripped(self, name: str) -> bool:
        return self._knobs.strips_vendor_headers and name.startswith(MARKS)


def _has_text(answer: dict[str, Any]) -> bool:
    if "choices" in answer:
        return bool(answer["choices"][0]["message"]["content"])
    return any(item["type"] == "message" for item in answer["output"])


def _emptied(answer: dict[str, Any]) -> dict[str, Any]:
    """The same answer with nothing in it and no output counted."""
    details = {"reasoning_tokens": 0}
    if "choices" in answer:
        choice = answer["choices"][0]
        bare = {**choice, "message": {**choice["message"], "content": ""}, "finish_reason": "stop"}
        usage = {**answer["usage"], "completion_tokens": 0, "completion_tokens_details": details}
        return {**answer, "choices": [bare], "usage": usage}
    usage = {**answer["usage"], "output_tokens": 0, "output_tokens_details": details}
    return {**answer, "output": [], "status": "completed", "incomplete_details": None, "usage": usage}


def _said_before(last: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Id, moment and text of the answer before."""
    again: dict[str, Any] = {key: last[key] for key in ("id", "created", "created_at", "output") if key in last}
    if "choices" in answer:
        own, old = answer["choices"][0], last["choices"][0]
        again["choices"] = [{**own, "message": old["message"]}]
    return again


class PlainGpt:
    """A reverse proxy without a panel: swaps the key and passes everything on. Without a key of its own it lets
    everybody in."""

    def __init__(self, key: str | None, upstream: OpenAi) -> None:
        self._key = key
        self._upstream = upstream

    def handle(self, request: HttpRequest) -> HttpAnswer:
        key = self._upstream.key if self._key in (None, request.key) else ""
        rest = tuple(row for row in request.headers if row[0].lower() not in ("x-api-key", "authorization"))
        own = (*rest, ("authorization", f"Bearer {key}"))
        return self._upstream.handle(HttpRequest(request.method, request.path, own, request.body))


def tokens_of(usage: dict[str, Any]) -> Tokens:
    """From the usage block of either format."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return Tokens(
        prompt=usage.get("prompt_tokens", usage.get("input_tokens", 0)),
        completion=usage.get("completion_tokens", usage.get("output_tokens", 0)),
        cache_read=details.get("cached_tokens", 0),
        cache_write_5m=details.get("cache_write_tokens", 0),
    )
