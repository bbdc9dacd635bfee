"""Relays without a panel: a plain reverse proxy, and LiteLLM with its telling headers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from relay_audit.lab import ids
from relay_audit.lab.billing import Tokens, dollars
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.message import PLAIN, events
from relay_audit.lab.models import MODELS
from relay_audit.lab.official import STREAM_TYPE, Official, Reply
from relay_audit.lab.refusals import FIELDS
from relay_audit.lab.tampering import blanked, fallback, tampered
from relay_audit.lab.turns import Turns
from relay_audit.lab.variation import Variation
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, compact, date_header, json_answer

LITELLM = "1.108.7"


class PlainProxy:
    """Swaps the key and passes everything on, headers and all, but for what the knobs change. Without a key of its own
    it lets everybody in."""

    def __init__(self, *, key: str | None, upstream: Official, knobs: Knobs | None = None) -> None:
        self._key = key
        self._upstream = upstream
        self._knobs = knobs or Knobs()

    def handle(self, request: HttpRequest) -> HttpAnswer:
        key = self._upstream.key if self._key in (None, request.key) else ""
        rest = tuple(row for row in request.headers if row[0].lower() not in ("x-api-key", "authorization"))
        body = request.json()
        raw = compact(tampered(body, self._knobs)) if isinstance(body, dict) and self._changes else request.body
        answer = self._upstream.handle(HttpRequest(request.method, request.path, (*rest, ("x-api-key", key)), raw))
        if answer.status == 400 and self._knobs.reroutes:
            return self._upstream.as_json(fallback(self._upstream, PLAIN))
        return blanked(answer.status, ()) if answer.status == 400 and self._knobs.blanks_errors else answer

    @property
    def _changes(self) -> bool:
        return bool(self._knobs.swallows or self._knobs.limit_to)


class Litellm:
    """LiteLLM 1.108.7 without a database, as recorded: own headers on every 200, upstream headers only on streams (with
    a prefix), the requested name as `model`, unknown fields dropped, refusals wrapped."""

    def __init__(
        self,
        *,
        key: str,
        knobs: Knobs,
        seen: Variation,
        upstream: Official,
        rng: random.Random,
        now: Callable[[], float],
    ) -> None:
        self._key = key
        self._knobs = knobs
        self._upstream = upstream
        self._rng = rng
        self._now = now
        self._turns = Turns(knobs, rng, seen.flaky_phase)
        self._deployment = f"{rng.getrandbits(256):064x}"

    def handle(self, request: HttpRequest) -> HttpAnswer:
        own: Headers = (date_header(self._now()), ("server", "uvicorn"))
        match (request.method, request.route):
            case ("GET", "/health/liveliness"):
                return json_answer(200, "I'm alive!", own)
            case ("GET", "/v1/models") if request.key == self._key:
                rows = [{"id": name, "object": "model", "created": 1677610602, "owned_by": "openai"} for name in MODELS]
                return json_answer(200, {"data": rows, "object": "list"}, own)
            case ("POST", "/v1/messages"):
                return self._messages(request, own)
            case ("GET", "/v1/models"):
                return _no_database(own)
        return json_answer(404, {"detail": "Not Found"}, own)

    def _messages(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        if request.key != self._key:
            return _no_database(own)
        body = request.json()
        if not isinstance(body, dict) or body.get("model") not in MODELS:
            return _bad_request("anthropic_messages: Invalid model name passed in", own)
        if "max_tokens" not in body:
            return _bad_request("anthropic_messages: Missing required parameter: 'max_tokens'.", own)
        how = self._turns.next(body).how
        reply = self._upstream.generate(tampered(_known(body), self._knobs), how=how)
        if reply.status == 400 and self._knobs.reroutes:
            elsewhere = fallback(self._upstream, how)
            return self._answer(body, elsewhere, own, fell_back=True)
        if reply.status != 200:
            inner = f"litellm.BadRequestError: AnthropicException - {compact(reply.body).decode()}"
            note = f"LiteLLM: model group '{body['model']}' failed with the error above. No fallback was attempted."
            return _bad_request(f"{inner}\n\n{note}", own, reply.status)
        return self._answer(body, reply, own)

    def _answer(self, body: dict[str, Any], reply: Reply, own: Headers, *, fell_back: bool = False) -> HttpAnswer:
        delay = self._upstream.latency()
        headers = (*own, *self._headers(body["model"], fell_back=fell_back))
        if body.get("stream") is True:
            passed = tuple((f"llm_provider-{name}", value) for name, value in reply.headers if name != "date")
            pieces = list(events(reply.body, self._rng))
            kind = (("content-type", STREAM_TYPE), *headers, *passed)
            return HttpAnswer(200, kind, b"".join(pieces), tuple(map(len, pieces)), delay)
        kind = (("content-type", "application/json"), *headers, *self._cost(body["model"], reply.body["usage"]))
        return HttpAnswer(200, kind, compact(reply.body), delay=delay)

    def _cost(self, model: str, usage: dict[str, Any]) -> Headers:
        """The price map's cost and the buyer's, in dollars; a stream's headers leave before either is known."""
        listed = dollars(Tokens.of(usage), MODELS[model].list_price)
        charged = listed * self._knobs.group_ratio * self._knobs.charge_factor
        return (
            ("x-litellm-response-cost", repr(float(charged))), ("x-litellm-response-cost-original", repr(float(listed))),
        )  # fmt: skip

    def _headers(self, model: str, *, fell_back: bool) -> Headers:
        named = self._knobs.litellm_model or f"anthropic/{model}"
        return (
            ("x-litellm-call-id", ids.uuid4(self._rng)),
            ("x-litellm-model-id", self._deployment),
            ("x-litellm-model-name", named),
            ("x-litellm-version", LITELLM),
            ("x-litellm-key-spend", "0.0"),
            ("x-litellm-model-group", model),
            ("x-litellm-attempted-retries", "0"),
            ("x-litellm-attempted-fallbacks", str(int(fell_back))),
            ("vary", "Origin"),
        )


def _known(body: dict[str, Any]) -> dict[str, Any]:
    """Fields of the Messages API pass, the region and the tier among them; unknown ones are dropped (recorded)."""
    return {name: value for name, value in body.items() if name in {"model", *FIELDS}}


def _no_database(own: Headers) -> HttpAnswer:
    error = {"message": "No connected db.", "type": "no_db_connection", "param": None, "code": "400"}
    return json_answer(400, {"error": error}, own)


def _bad_request(message: str, own: Headers, status: int = 400) -> HttpAnswer:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return json_answer(status, error, own)
