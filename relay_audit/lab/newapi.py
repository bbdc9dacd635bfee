"""A new-api style relay in front of the vendor: routes, keys, reserve, forwarding, headers, bill.

Behaviour follows the program's source as read in 2026-08 and answers seen in public; what a vendor may have patched on
top is a knob. Its web app, error rows (off by default) and administrator routes are not here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from relay_audit.lab import hostile, ids, shells
from relay_audit.lab.billing import Tokens, hold, site_dollars
from relay_audit.lab.evasion import Stored
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.message import events, printed_anew, rebuilt
from relay_audit.lab.models import MODELS
from relay_audit.lab.money import Every
from relay_audit.lab.official import STREAM_TYPE, Official, Reply, anthropic_models
from relay_audit.lab.panel import Panel
from relay_audit.lab.relay_log import RelayLog
from relay_audit.lab.tampering import blanked, fallback, in_openais_words, masked, tampered
from relay_audit.lab.tokenizer import count_text
from relay_audit.lab.turns import Turn, Turns
from relay_audit.lab.variation import Variation
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, compact, cut, date_header, json_answer

FORWARDED = (
    "model", "prompt", "system", "messages", "cache_control", "max_tokens", "stop_sequences", "temperature", "top_p",
    "top_k", "stream", "tools", "context_management", "output_config", "output_format", "container", "tool_choice",
    "thinking", "mcp_servers", "metadata",
)  # fmt: skip
"""Fields that survive the relay's decoding, in the order it writes them; unknown ones vanish, and `service_tier`,
`inference_geo` and `speed` are taken out unless the channel allows them (source-derived)."""
FILL = 8192
"""Written where a body has no `max_tokens`."""
TRUSTED = 5_000_000
"""Above this much quota nothing is reserved."""
VENDOR_MARKS = ("anthropic-", "request-id", "cf-ray", "x-amzn-")
INNER_BUILD = "c955d568"
"""A private build seen behind many relays."""
EMPTY_AFTER = 4
"""Requests that `balance_empty` lets through."""


class NewApi:
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
        self.elsewhere = "http://127.0.0.1:9"
        """Where `redirect` points."""
        self._key = key
        self._knobs = knobs
        self._seen = seen
        self._upstream = upstream
        self._rng = rng
        self._now = now
        self._turns = Turns(knobs, rng, seen.flaky_phase)
        self._last: Reply | None = None
        self._stored: Stored[Reply] = Stored(now, knobs.stores_by)
        self._served = 0
        self._empty = Every(knobs.money.empties_every)
        self.log = RelayLog(knobs, rng, now)
        self._panel = Panel(key, knobs, seen, self.log, rng, now)

    def handle(self, request: HttpRequest) -> HttpAnswer:
        request_id = ids.relay_request_id(
            self._now(), self._rng, "" if self._knobs.log == "query_only" else ids.NEW_API_BUILD
        )
        own = self._own_headers(request_id)
        match (request.method, request.route.rstrip("/") or "/"):
            case ("POST", "/v1/messages"):
                return self._messages(request, request_id, own)
            case ("GET", "/v1/models"):
                refused = None if self._knobs.open_models else self._refuse_key(request, request_id, own)
                return refused or self._models(request, own)
            case ("GET", route) if route in self._panel.routes:
                return self._panel.routes[route](request, own)
        if request.route.startswith(("/v1", "/api")):
            return shells.invalid_url(request, own)
        return shells.web_app(own)

    def _own_headers(self, request_id: str) -> Headers:
        version = () if self._knobs.log == "query_only" else (("X-New-Api-Version", self._seen.version),)
        front: dict[str, Headers] = {
            "": (),
            "nginx": (("Server", "nginx"),),
            "cloudflare": (("Server", "cloudflare"), ("Cf-Cache-Status", "DYNAMIC")),
        }
        return (date_header(self._now()), ("X-Oneapi-Request-Id", request_id), *version, *front[self._seen.front])

    def _refuse_key(self, request: HttpRequest, request_id: str, own: Headers) -> HttpAnswer | None:
        given = request.bearer if self._knobs.bearer_only else request.key
        if given == self._key and self._knobs.hostile != "wrong_key":
            return None
        return shells.openai_shape(401, shells.words(request, "invalid_token"), request_id, own)

    def _models(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        """OpenAI's shape, except for a caller who shows `x-api-key` and `anthropic-version`."""
        if request.header("x-api-key") and request.header("anthropic-version"):
            return json_answer(200, anthropic_models(), own)
        rows = [{"id": name, "object": "model", "created": 1626777600, "owned_by": "claude"} for name in MODELS]
        return json_answer(200, {"success": True, "object": "list", "data": rows}, own)

    def _messages(self, request: HttpRequest, request_id: str, own: Headers) -> HttpAnswer:
        body = request.json()
        refusal = self._refuse_key(request, request_id, own) or self._refuse(request, body, request_id, own)
        if refusal is not None:
            return refusal
        if self._knobs.hostile == "redirect":
            return HttpAnswer(307, (("location", self.elsewhere + request.path), *own))
        if self._knobs.stores and (stored := self._stored.find(body)) is not None:
            return self._again(body, stored, request_id, own)
        turn = self._turns.next(body, request.header("user-agent"))
        if turn.fails:
            return self._as_said(self._flaky(request_id, own))
        served = {"model": self._knobs.serves} if self._knobs.serves and turn.strikes else {}
        sent = _forwarded(body) | served
        sent = tampered(sent, self._knobs) if turn.strikes else sent
        reply = self._upstream.generate(sent, beta=bool(request.header("anthropic-beta")), how=turn.how)
        if reply.status == 400 and self._knobs.reroutes:
            elsewhere = fallback(self._upstream, turn.how)
            return self._answer(body, elsewhere, request_id, own)
        if reply.status != 200:
            self._bill_refusal(request_id, body)
            return self._as_said(self._upstream_error(reply, request_id, own))
        dressed = self._dressed(reply, turn, body["model"], request)
        self._stored.keep(body, dressed)
        answer = self._answer(body, dressed, request_id, own)
        return hostile.spoil(self._knobs.hostile, answer)

    def _again(self, body: dict[str, Any], stored: Reply, request_id: str, own: Headers) -> HttpAnswer:
        """An earlier answer to the same prompt, without asking anybody."""
        return self._answer(body, stored, request_id, own, billed=self._knobs.stores == "charged")

    def _as_said(self, refusal: HttpAnswer) -> HttpAnswer:
        return replace(refusal, status=200) if self._knobs.errors_as_200 else refusal

    def _refuse(self, request: HttpRequest, body: Any, request_id: str, own: Headers) -> HttpAnswer | None:  # noqa: ANN401
        """Everything the relay turns down before it asks upstream."""
        if self._knobs.hostile == "gated_403":
            text = "Your client is not authorized to use this API key"
            gate = {"error": "Client not allowed", "message": text, "allowedClients": ["claude_code"]}
            return json_answer(403, gate, own)
        if self._knobs.echoes_key == "errors":
            return shells.openai_shape(
                401, f"Incorrect API key provided: {request.key}", request_id, own, "invalid_api_key"
            )
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            text = shells.words(request, "bad_request", reason="unexpected end of JSON input")
            return shells.openai_shape(400, text, request_id, own)
        if body["model"] not in MODELS:
            text = shells.words(request, "no_channel", group=self._knobs.group, model=body["model"])
            return shells.openai_shape(503, text, request_id, own, "model_not_found")
        if complaint := _undecodable(body):
            return shells.claude_shape(500, complaint, request_id, own)
        return self._refuse_reserve(request, body, request_id, own)

    def _refuse_reserve(
        self, request: HttpRequest, body: dict[str, Any], request_id: str, own: Headers
    ) -> HttpAnswer | None:
        self._served += 1
        left = self._panel.left
        if self._knobs.hostile == "balance_empty":
            left = 0 if self._served > EMPTY_AFTER else TRUSTED + 1
        # The prompt is estimated locally; any estimate below 500 tokens comes to the same.
        estimate = count_text(str(body.get("messages")), "claude-4-5")
        limit = body.get("max_tokens") or FILL
        need = hold(estimate, limit, MODELS[body["model"]].list_price, self._knobs.group_ratio)
        if left > TRUSTED or need <= left:
            return None
        text = shells.words(request, "short", left=site_dollars(left), need=site_dollars(need))
        return shells.claude_shape(403, text, request_id, own)

    def _flaky(self, request_id: str, own: Headers) -> HttpAnswer:
        """An overloaded upstream, or the relay itself. The text of the 503 is made up; nothing is charged."""
        if self._knobs.rewrites_errors:
            return shells.wrapped_in_chinese(
                529, compact({"error": {"type": "overloaded_error", "message": "Overloaded"}}), own
            )
        if self._rng.random() < 0.5:
            return shells.claude_shape(529, self._relayed("Overloaded"), request_id, own, "<nil>")
        return shells.claude_shape(503, self._relayed("Service Unavailable"), request_id, own)

    def _relayed(self, text: str) -> str:
        """An error text as it comes out of a relay behind this one: a private build, its clock eight hours ahead."""
        if not self._knobs.inner_relay:
            return text
        return f"{text} (request id: {ids.relay_request_id(self._now() + 8 * 3600, self._rng, INNER_BUILD)})"

    def _upstream_error(self, reply: Reply, request_id: str, own: Headers) -> HttpAnswer:
        if self._knobs.rewrites_errors:
            return shells.wrapped_in_chinese(reply.status, compact(reply.body), own)
        if self._knobs.blanks_errors:
            return blanked(reply.status, own)
        said = reply.body["error"]["message"]
        text = masked(in_openais_words(said) if self._knobs.refuses_in else said)
        return shells.claude_shape(reply.status, self._relayed(text), request_id, own, "<nil>")

    def _bill_refusal(self, request_id: str, body: dict[str, Any]) -> None:
        """The reserve of a call that the upstream refused: given back, unless the vendor does otherwise."""
        prompt = count_text(str(body.get("messages")), "claude-4-5")
        self.log.refused(request_id, body["model"], prompt, self._limit_of(body))

    def _limit_of(self, body: dict[str, Any]) -> int:
        limit = body.get("max_tokens")
        return limit if isinstance(limit, int) and limit else FILL

    def _dressed(self, reply: Reply, turn: Turn, model: str, request: HttpRequest) -> Reply:
        """What this vendor has patched into its answers."""
        answer = reply.body | {"model": self._knobs.returned_name or model}
        if turn.replays and self._last is not None:
            reply = Reply(200, self._last.headers, reply.body)
            answer |= {"id": self._last.body["id"], "content": self._last.body["content"]}
        if self._empty.hit():
            answer |= {"content": [], "usage": {**answer["usage"], "output_tokens": 0}}
        self._last = Reply(200, reply.headers, answer)
        if self._knobs.echoes_key == "answers":
            answer |= {"debug": {"authorization": f"Bearer {request.key}"}}
        return Reply(200, reply.headers, answer)

    def _answer(
        self, body: dict[str, Any], reply: Reply, request_id: str, own: Headers, *, billed: bool = True
    ) -> HttpAnswer:
        """Bills the call, then writes it as JSON with the upstream's headers or as a stream without them."""
        delay = self._upstream.latency()
        stream = body.get("stream") is True
        tokens = Tokens.of(reply.body["usage"])
        limit = self._limit_of(body)
        if billed:
            self.log.write(request_id, body["model"], tokens, stream=stream, use_time=delay, limit=limit)
        if stream:
            pieces = list(self._events(reply.body))
            if self._knobs.money.cuts_streams:
                del pieces[-2:]
            headers: Headers = (("Content-Type", STREAM_TYPE.partition(";")[0]), ("Cache-Control", "no-cache"), *own)
            return HttpAnswer(200, headers, b"".join(pieces), tuple(map(len, pieces)), delay, gap=delay / 10)
        raw = compact(rebuilt(reply.body, self._seen.rebuilds_json))
        headers = (("Content-Type", "application/json"), *self._copied(reply.headers, own))
        return HttpAnswer(200, headers, raw, cut(raw, self._seen.longest_piece, self._rng), delay)

    def _events(self, answer: dict[str, Any]) -> Iterator[bytes]:
        """Passed on byte for byte, unless the channel has no such stream or the vendor reads along."""
        own = events(answer, self._rng, future=self._knobs.future)
        anew = self._knobs.streams == "rebuilt" or self._knobs.channel == "aws"
        return printed_anew(own) if anew else own

    def _copied(self, upstream: Headers, own: Headers) -> Headers:
        """Non-stream answers carry all upstream headers; the program's language writes them in title case."""
        knobs = self._knobs
        kept = [(name.title(), value) for name, value in upstream if not self._is_stripped(name)]
        mine = {name.lower() for name, _ in own} - ({"date"} if not knobs.strips_vendor_headers else set())
        fresh = tuple((name, value) for name, value in kept if name.lower() not in mine)
        return (*fresh, *(row for row in own if row[0] != "date" or not any(name == "Date" for name, _ in fresh)))

    def _is_stripped(self, name: str) -> bool:
        if self._knobs.strips_vendor_headers:
            return name.startswith(VENDOR_MARKS)
        return self._knobs.strips_request_id and name == "request-id"


DECODED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "max_tokens": (int, "uint"),
    "temperature": ((int, float), "float64"),
    "top_p": ((int, float), "float64"),
    "top_k": (int, "int"),
    "stop_sequences": (list, "[]string"),
}
"""Fields that the program decodes into a type of its language before it asks anybody (source-derived)."""


def _undecodable(body: dict[str, Any]) -> str:
    """The local complaint about a body, in the program's own words; empty where it can be decoded."""
    for name, (kind, said) in DECODED.items():
        value = body.get(name)
        wrong = value is not None and (not isinstance(value, kind) or isinstance(value, bool))
        if wrong or (name == "max_tokens" and value is not None and value < 0):
            return f"json: cannot unmarshal into Go struct field ClaudeRequest.{name} of type {said}"
    return "" if body.get("messages") else "field messages is required"


def _forwarded(body: dict[str, Any]) -> dict[str, Any]:
    """The body as the relay writes it to its upstream."""
    kept = {name: body[name] for name in FORWARDED if name in body}
    return kept if kept.get("max_tokens") else kept | {"max_tokens": FILL}
