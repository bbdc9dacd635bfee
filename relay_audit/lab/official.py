"""The official Messages API: generation, streams, counting, models, refusals, and a log of what arrived.

The same class stands behind a relay as its upstream, with a `Treatment` per request; then it may also be Bedrock or
Vertex. Its refusals of unknown routes and its overload body are documented, not recorded.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

from relay_audit.lab import ids
from relay_audit.lab.caching import PrefixCache
from relay_audit.lab.choosing import Taste, Undecided
from relay_audit.lab.message import PLAIN, Treatment, events, message, stamps
from relay_audit.lab.models import MODELS
from relay_audit.lab.refusals import Refusal, refuse
from relay_audit.lab.tokenizer import count_body
from relay_audit.lab.variation import Variation
from relay_audit.lab.vendor_headers import FirstParty, bedrock, foundry
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, compact, cut, date_header

INCIDENT = range(5, 17)
"""The counts, by order of arrival, that an incident changes …"""
INCIDENT_TOKENS = 7
"""… and by how much."""
STREAM_TYPE = "text/event-stream; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """An answer before it is bytes: a relay may still change it."""

    status: int
    headers: Headers
    body: dict[str, Any]


class Official:
    def __init__(
        self,
        *,
        key: str,
        seen: Variation,
        rng: random.Random,
        now: Callable[[], float],
        state: Literal["up", "incident", "down", "lacks_model"] = "up",
        future: bool = False,
        undecided: Undecided = "seldom",
    ) -> None:
        self.key = key
        self._seen = seen
        self._rng = rng
        self._now = now
        self._state = state
        self._future = future
        self._taste = Taste(undecided, copy(rng))
        self._headers = FirstParty(seen, rng)
        self._counts = 0
        self._cache = PrefixCache(now)

    def handle(self, request: HttpRequest) -> HttpAnswer:
        if self._state == "down":
            return self.as_json(self.refused(Refusal(529, "overloaded_error", "Overloaded")))
        if request.key != self.key:
            return self.as_json(self.refused(Refusal(401, "authentication_error", "invalid x-api-key")))
        if request.route.startswith("/v1/messages") and not request.header("anthropic-version"):
            return self.as_json(self._invalid("anthropic-version: header is required"))
        routes: dict[tuple[str, str], Callable[[HttpRequest], HttpAnswer]] = {
            ("POST", "/v1/messages"): self._messages,
            ("POST", "/v1/messages/count_tokens"): self._count,
            ("GET", "/v1/models"): self._models,
        }
        route = routes.get((request.method, request.route))
        return route(request) if route else self.as_json(self.refused(Refusal(404, "not_found_error", "Not found")))

    def generate(self, body: Any, *, beta: bool = False, how: Treatment = PLAIN) -> Reply:  # noqa: ANN401
        """One generation, or its refusal, for a body that is already parsed."""
        if not isinstance(body, dict):
            return self._invalid("The request body is not valid JSON.")
        if complaint := refuse(body, counting=False, beta=beta):
            return self.refused(complaint)
        if self._future:
            how = replace(how, ids="future", signature="opaque", extras=True)
        how = replace(how, taste=self._taste)
        stamp = stamps(self._answered_at(), self._rng, how.ids)
        generation = how.generation or MODELS[body["model"]].generation
        how = replace(how, prefix=self._cache.look(body, generation, how.cache, how.account))
        account = self._headers.account(how.account) if how.channel in ("anthropic", "azure") else ""
        answer = message(body, MODELS[body["model"]], stamp, how, self._seen, self._rng, account)
        if how.channel == "aws":
            return Reply(200, bedrock(stamp.date, answer["usage"], self._rng), answer)
        if how.channel == "vertex":
            return Reply(200, (date_header(stamp.date),), answer)
        if how.channel == "azure":
            return Reply(200, foundry(stamp.date, self._rng), answer)
        headers = self._headers(stamp.date, self._request_id(stamp.request), account=how.account)
        return Reply(200, headers, answer)

    def refused(self, why: Refusal) -> Reply:
        """The vendor's error shell: `request_id` in the body equals the `request-id` header."""
        stamp = stamps(self._answered_at(), self._rng)
        request_id = self._request_id(stamp.request)
        text = f"Your request was not accepted: {why.message}" if self._future else why.message
        body = {"type": "error", "error": {"type": why.kind, "message": text}, "request_id": request_id}
        return Reply(why.status, self._headers(stamp.date, request_id, error=True), body)

    def as_json(self, reply: Reply) -> HttpAnswer:
        raw = compact(reply.body)
        headers = (("content-type", "application/json"), *reply.headers)
        return HttpAnswer(reply.status, headers, raw, cut(raw, self._seen.longest_piece, self._rng), self.latency())

    def as_stream(self, reply: Reply) -> HttpAnswer:
        pieces = list(events(reply.body, self._rng, future=self._future))
        headers = (("content-type", STREAM_TYPE), ("cache-control", "no-cache"), *reply.headers)
        sizes = tuple(map(len, pieces))
        return HttpAnswer(reply.status, headers, b"".join(pieces), sizes, self.latency(), gap=self.latency() / 10)

    def _request_id(self, at: float) -> str:
        return ids.lookalike("req_02", 26, self._rng) if self._future else ids.minted("req", at, self._rng)

    def latency(self) -> float:
        return self._rng.uniform(*self._seen.latency)

    def _answered_at(self) -> float:
        return self._now() + self._seen.latency[0]

    def _invalid(self, text: str) -> Reply:
        return self.refused(Refusal(400, "invalid_request_error", text))

    def _messages(self, request: HttpRequest) -> HttpAnswer:
        body = request.json()
        if self._state == "lacks_model" and isinstance(body, dict) and not refuse(body, counting=False, beta=False):
            return self.as_json(self.refused(Refusal(404, "not_found_error", f"model: {body['model']}")))
        reply = self.generate(body, beta=bool(request.header("anthropic-beta")))
        return self.as_stream(reply) if reply.status == 200 and body.get("stream") else self.as_json(reply)

    def _count(self, request: HttpRequest) -> HttpAnswer:
        body = request.json()
        if not isinstance(body, dict):
            return self.as_json(self._invalid("The request body is not valid JSON."))
        if complaint := refuse(body, counting=True, beta=bool(request.header("anthropic-beta"))):
            return self.as_json(self.refused(complaint))
        if self._state == "lacks_model":
            return self.as_json(self.refused(Refusal(404, "not_found_error", f"model: {body['model']}")))
        self._counts += 1
        model = MODELS[body["model"]]
        tokens = count_body(body, model.generation, model.tool_prompt)
        if self._state == "incident" and self._counts in INCIDENT:
            tokens += INCIDENT_TOKENS
        return self.as_json(self._free({"input_tokens": tokens}))

    def _models(self, _: HttpRequest) -> HttpAnswer:
        return self.as_json(self._free(anthropic_models()))

    def _free(self, body: dict[str, Any]) -> Reply:
        stamp = stamps(self._answered_at(), self._rng)
        return Reply(200, self._headers(stamp.date, self._request_id(stamp.request), generation=False), body)


def anthropic_models() -> dict[str, Any]:
    """`GET /v1/models` in the vendor's shape."""
    rows = [
        {"type": "model", "id": model.name, "display_name": model.display_name, "created_at": model.created_at}
        for model in MODELS.values()
    ]
    return {"data": rows, "has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}
