"""The official OpenAI API: Chat, Responses, counting, models, refusals; as an upstream also an Azure deployment.

It follows what was recorded (bodies, headers and refusals of 2026); its 401 and overload texts are documented.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, Literal

from relay_audit.lab.caching import OwnCache
from relay_audit.lab.choosing import Taste, Undecided
from relay_audit.lab.gpt_answer import chat, chat_events, printed, response, response_events
from relay_audit.lab.gpt_count import count_openai
from relay_audit.lab.gpt_headers import OpenAiHeaders, azure
from relay_audit.lab.gpt_models import GPT_MODELS
from relay_audit.lab.gpt_refusals import Complaint, Format, refuse
from relay_audit.lab.message import PLAIN, Treatment, stamps
from relay_audit.lab.models import Model
from relay_audit.lab.official import INCIDENT, INCIDENT_TOKENS, STREAM_TYPE, Reply
from relay_audit.lab.variation import Variation
from relay_audit.lab.wire import HttpAnswer, HttpRequest, cut

ROUTES: dict[Format, str] = {"openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses"}
BAD_KEY = Complaint(
    401,
    "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
    None,
    "invalid_api_key",
)


class OpenAi:
    def __init__(
        self,
        *,
        key: str,
        dialect: Format,
        seen: Variation,
        rng: random.Random,
        now: Callable[[], float],
        state: Literal["up", "incident", "down", "lacks_model"] = "up",
        undecided: Undecided = "seldom",
    ) -> None:
        self.key = key
        self.dialect: Format = dialect
        self._seen = seen
        self._rng = rng
        self._now = now
        self._state = state
        self._taste = Taste(undecided, copy(rng))
        self._headers = OpenAiHeaders(seen, rng)
        self._counts = 0
        self._cache = OwnCache(now)

    def handle(self, request: HttpRequest) -> HttpAnswer:
        if self._state == "down":
            return self.as_json(self._refused(Complaint(503, "The server is overloaded.", None, "server_error")))
        if request.bearer != self.key:
            return self.as_json(self._refused(BAD_KEY))
        routes: dict[tuple[str, str], Callable[[HttpRequest], HttpAnswer]] = {
            ("POST", ROUTES["openai_chat"]): lambda r: self._generated(r, "openai_chat"),
            ("POST", ROUTES["openai_responses"]): lambda r: self._generated(r, "openai_responses"),
            ("POST", "/v1/responses/input_tokens"): self._count,
            ("GET", "/v1/models"): lambda _: self.as_json(self._free(openai_models())),
        }
        route = routes.get((request.method, request.route))
        return route(request) if route else HttpAnswer(404, self._headers(self._answered_at(), limited=False))

    def generate(self, body: Any, *, how: Treatment = PLAIN, dialect: Format | None = None) -> Reply:  # noqa: ANN401
        """One generation, or its refusal, for a body that is already parsed."""
        spoken = dialect or self.dialect
        if not isinstance(body, dict):
            return self._refused(Complaint(400, "We could not parse the JSON body of your request.", None, None))
        if complaint := refuse(body, spoken):
            return self._refused(complaint)
        how = replace(how, taste=self._taste)
        stamp = stamps(self._answered_at(), self._rng, how.ids)
        write = chat if spoken == "openai_chat" else response
        answer = write(body, find_model(body["model"]), stamp, how, self._seen, self._rng)
        usage = answer["usage"]
        details = usage.get("prompt_tokens_details") or usage["input_tokens_details"]
        details["cached_tokens"] += self._cache.read_of(body, find_model(body["model"]).generation)
        if how.channel == "azure":
            return Reply(200, azure(stamp.date, body["model"], self._rng), answer)
        return Reply(200, self._headers(stamp.date), answer)

    def as_json(self, reply: Reply) -> HttpAnswer:
        raw = printed(reply.body, from_azure=any(name == "apim-request-id" for name, _ in reply.headers))
        headers = (("content-type", "application/json"), *reply.headers)
        return HttpAnswer(reply.status, headers, raw, cut(raw, self._seen.longest_piece, self._rng), self.latency())

    def stream_of(self, answer: dict[str, Any]) -> list[bytes]:
        chatting = answer["object"] == "chat.completion"
        return list(chat_events(answer, self._rng) if chatting else response_events(answer))

    def latency(self) -> float:
        return self._rng.uniform(*self._seen.latency)

    def _generated(self, request: HttpRequest, dialect: Format) -> HttpAnswer:
        body = request.json()
        reply = self.generate(body, dialect=dialect)
        if self._state == "lacks_model" and reply.status == 200:
            reply = self._refused(_lacking(body["model"]))
        if reply.status != 200 or body.get("stream") is not True:
            return self.as_json(reply)
        pieces = self.stream_of(reply.body)
        headers = (("content-type", STREAM_TYPE), *reply.headers)
        sizes = tuple(map(len, pieces))
        return HttpAnswer(200, headers, b"".join(pieces), sizes, self.latency(), gap=self.latency() / 10)

    def _count(self, request: HttpRequest) -> HttpAnswer:
        body = request.json()
        if not isinstance(body, dict):
            return self.as_json(self._refused(Complaint(400, "We could not parse the JSON body.", None, None)))
        if complaint := refuse(body, "openai_responses", counting=True):
            return self.as_json(self._refused(complaint))
        if self._state == "lacks_model":
            return self.as_json(self._refused(_lacking(body["model"])))
        self._counts += 1
        tokens = count_openai(body, find_model(body["model"]).generation)
        if self._state == "incident" and self._counts in INCIDENT:
            tokens += INCIDENT_TOKENS
        return self.as_json(self._free({"object": "response.input_tokens", "input_tokens": tokens}))

    def _refused(self, why: Complaint) -> Reply:
        return Reply(why.status, self._headers(self._answered_at(), limited=False), why.body)

    def _free(self, body: dict[str, Any]) -> Reply:
        return Reply(200, self._headers(self._answered_at(), limited=False), body)

    def _answered_at(self) -> float:
        return self._now() + self._seen.latency[0]


def _lacking(model: str) -> Complaint:
    text = f"The model `{model}` does not exist or you do not have access to it."
    return Complaint(404, text, None, "model_not_found")


def find_model(name: str) -> Model:
    return next(row for row in GPT_MODELS.values() if name in (row.name, row.display_name))


def openai_models() -> dict[str, Any]:
    """`GET /v1/models` in the vendor's shape."""
    rows = [{"id": name, "object": "model", "created": 1784073600, "owned_by": "openai"} for name in GPT_MODELS]
    return {"object": "list", "data": rows}
