"""Relay software other than new-api, each with its own doors and books: sub2api, claude-relay-service, one-api, Veloera.

What they do to a request is what an honest hop does: nothing. What differs is how they show themselves, what a key may
read, and how a charge is written. Forms follow their sources as read in 2025 and 2026.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from relay_audit.lab import ids, shells
from relay_audit.lab.billing import QUOTA_PER_UNIT, Tokens, charge, dollars
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.message import events
from relay_audit.lab.models import MODELS
from relay_audit.lab.money import Every
from relay_audit.lab.official import STREAM_TYPE, Official, Reply
from relay_audit.lab.tampering import tampered
from relay_audit.lab.turns import Turns
from relay_audit.lab.variation import Variation
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, compact, date_header, json_answer

RECORDS_SHOWN, RECORDS_KEPT = 20, 200
"""Of claude-relay-service's records."""
STARTING_BALANCE = Decimal(25)
Route = Callable[[HttpRequest, Headers], HttpAnswer]


@dataclass(frozen=True)
class Booked:
    """One call in the books."""

    at: float
    request_id: str
    model: str
    tokens: Tokens
    stream: bool
    listed: Decimal
    """Dollars by the price list."""
    charged: Decimal


class Station:
    """What these programs have in common: a key, a route for messages, and a book of calls."""

    def __init__(
        self, *, key: str, knobs: Knobs, seen: Variation, upstream: Official, rng: random.Random,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        self._key = key
        self._knobs = knobs
        self._upstream = upstream
        self._rng = rng
        self._now = now
        self._turns = Turns(knobs, rng, seen.flaky_phase)
        self.books: list[Booked] = []
        self._rowless = Every(knobs.money.rowless_every)
        self._unlisted = Decimal(0)
        """Dollars that were taken and stand in no record."""
        self._earlier = Decimal(rng.randint(0, 400)) / 100
        """What this key had spent before, by the list."""

    def handle(self, request: HttpRequest) -> HttpAnswer:
        own = self._own_headers()
        route = request.route.rstrip("/") or "/"
        if route in self.public():
            return self.public()[route](request, own)
        if request.key != self._key:
            return self.wrong_key(own)
        if (request.method, route) == ("POST", "/v1/messages"):
            return self._messages(request, own)
        if (request.method, route) == ("GET", "/v1/models"):
            rows = [{"type": "model", "id": name, "display_name": name} for name in MODELS]
            return json_answer(200, {"data": rows, "object": "list"}, own)
        return self.pages()[route](request, own) if route in self.pages() else self.unknown(request, own)

    def public(self) -> dict[str, Route]:
        return {}

    def pages(self) -> dict[str, Route]:
        """What the key may read."""
        return {}

    def _own_headers(self) -> Headers:
        return (date_header(self._now()), ("x-request-id", ids.uuid4(self._rng)))

    def wrong_key(self, own: Headers) -> HttpAnswer:
        return json_answer(401, {"code": "INVALID_API_KEY", "message": "Invalid API key"}, own)

    def unknown(self, request: HttpRequest, own: Headers) -> HttpAnswer:  # noqa: ARG002  the form of a 404
        return HttpAnswer(404, (("content-type", "text/plain"), *own), b"404 page not found")

    def _messages(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        body = request.json()
        if not isinstance(body, dict) or body.get("model") not in MODELS:
            return self.no_model(own)
        sent = tampered(body, self._knobs)
        turn = self._turns.next(body)
        reply = self._upstream.generate(sent, beta=bool(request.header("anthropic-beta")), how=turn.how)
        if reply.status != 200:
            return json_answer(reply.status, reply.body, own)
        return self._answer(body, reply, own)

    def no_model(self, own: Headers) -> HttpAnswer:
        error = {"type": "error", "error": {"type": "api_error", "message": "No available accounts"}}
        return json_answer(503, error, own)

    def _answer(self, body: dict[str, Any], reply: Reply, own: Headers) -> HttpAnswer:
        """Books the call, then writes it; the vendor's headers do not pass."""
        delay = self._upstream.latency()
        stream = body.get("stream") is True
        self._book(
            body["model"], Tokens.of(reply.body["usage"]), dict(own).get("x-request-id", ""), delay, stream=stream
        )
        if not stream:
            return HttpAnswer(200, (("content-type", "application/json"), *own), compact(reply.body), delay=delay)
        pieces = list(events(reply.body, self._rng))
        return HttpAnswer(
            200, (("content-type", STREAM_TYPE), *own), b"".join(pieces), tuple(map(len, pieces)), delay
        )  # fmt: skip

    def _book(self, model: str, tokens: Tokens, request_id: str, delay: float, *, stream: bool) -> None:
        money = self._knobs.money
        times = money.booked_factor
        tokens = replace(tokens, prompt=tokens.prompt * times, completion=tokens.completion * times)
        listed = dollars(tokens, MODELS[model].list_price)
        ratio = self._knobs.group_ratio if money.charged_ratio is None else money.charged_ratio
        charged = listed * ratio * self._knobs.charge_factor
        if self._rowless.hit():
            self._unlisted += charged * money.rowless_factor
            return
        self.books.append(Booked(self._now() + delay, request_id, model, tokens, stream, listed, charged))

    def totals(self, books: list[Booked] | None = None) -> dict[str, Any]:
        """As sub2api sums them; numbers as its language prints floats."""
        rows = self.books if books is None else books
        before = self._earlier if books is None else Decimal(0)
        listed = before + sum((b.listed for b in rows), Decimal(0))
        charged = before * self._knobs.group_ratio + sum((b.charged for b in rows), Decimal(0))
        charged += self._unlisted if books is None else 0
        counts = {
            "requests": len(rows),
            "input_tokens": sum(b.tokens.prompt for b in rows),
            "output_tokens": sum(b.tokens.completion for b in rows),
            "cache_creation_tokens": sum(b.tokens.cache_write_5m + b.tokens.cache_write_1h for b in rows),
            "cache_read_tokens": sum(b.tokens.cache_read for b in rows),
        }
        return {
            **counts,
            "total_tokens": sum(counts.values()) - len(rows),
            "cost": float(listed),
            "actual_cost": float(charged),
        }


class Sub2Api(Station):
    """No mark of its own on any answer. Books: totals, and the multiplier of the moment."""

    def pages(self) -> dict[str, Route]:
        return {"/v1/usage": self._usage, "/v1/sub2api/billing": self._billing}

    def _usage(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        if "key=" in request.query:
            return json_answer(400, {"code": "api_key_in_query_deprecated", "message": "use a header"}, own)
        total = self.totals()
        left = float(STARTING_BALANCE) - total["actual_cost"]
        models = {booked.model for booked in self.books}
        stats = [
            {"model": m, **self.totals([b for b in self.books if b.model == m]), "account_cost": 0.01}
            for m in sorted(models)
        ]
        answer = {"mode": "unrestricted", "isValid": True, "planName": "钱包余额", "remaining": left, "unit": "USD",
                  "balance": left, "usage": {"today": total, "total": total, "average_duration_ms": 900.5, "rpm": 1, "tpm": 9},
                  "model_stats": stats}  # fmt: skip
        return json_answer(200, answer, own)

    def _billing(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        rate = float(self._knobs.group_ratio)
        answer = {"object": "sub2api.key_billing", "schema_version": 1, "billing_scope": "token", "group_rate_multiplier": rate,
                  "resolved_rate_multiplier": rate, "peak_rate_enabled": False, "effective_rate_multiplier": rate,
                  "observed_at": "2026-11-30T03:00:00Z"}  # fmt: skip
        return json_answer(200, answer, own)


class ClaudeRelayService(Station):
    """`/health` names it. Books: the newest twenty records of the key."""

    def public(self) -> dict[str, Route]:
        return {"/health": self._health}

    def pages(self) -> dict[str, Route]:
        return {"/api/v1/usage": self._usage}

    def wrong_key(self, own: Headers) -> HttpAnswer:
        return json_answer(401, {"error": "Invalid API key", "message": "Invalid API key format"}, own)

    def unknown(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        return json_answer(404, {"error": "Not Found", "message": f"Route {request.route} not found"}, own)

    def _health(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        return json_answer(200, {"status": "healthy", "service": "claude-relay-service", "version": "1.1.314"}, own)

    def _usage(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        total = self.totals()
        key = {"requests": total["requests"], "inputTokens": total["input_tokens"], "outputTokens": total["output_tokens"],
               "cacheCreateTokens": total["cache_creation_tokens"], "cacheReadTokens": total["cache_read_tokens"],
               "cost": total["actual_cost"]}  # fmt: skip
        newest = list(reversed(self.books[-RECORDS_KEPT:]))[:RECORDS_SHOWN]
        return json_answer(200, {"usage": {"total": key, "daily": {}, "monthly": {},
                                           "recentRecords": [self._record(b) for b in newest]}}, own)  # fmt: skip

    def _record(self, booked: Booked) -> dict[str, Any]:
        tokens = booked.tokens
        written = tokens.cache_write_5m + tokens.cache_write_1h
        return {"timestamp": _iso(booked.at), "model": booked.model, "accountId": "acc-lab", "accountType": "claude-console",
                "requestId": f"req-{self.books.index(booked)}-{booked.request_id[:8]}", "endpoint": "/api/v1/messages",
                "statusCode": 200, "stream": booked.stream, "durationMs": 900, "inputTokens": tokens.prompt,
                "outputTokens": tokens.completion, "cacheCreateTokens": written, "cacheReadTokens": tokens.cache_read,
                "ephemeral5mTokens": tokens.cache_write_5m, "ephemeral1hTokens": tokens.cache_write_1h,
                "totalTokens": tokens.prompt + tokens.completion + written + tokens.cache_read, "cost": float(booked.charged),
                "realCost": float(booked.listed), "pricingSource": "lab", "usedFallbackPricing": False}  # fmt: skip


class OneApi(Station):
    """one-api's doors and its usage pages; a build with a Claude route, which the original has not. No log for a key."""

    def public(self) -> dict[str, Route]:
        return {"/api/status": self._status}

    def pages(self) -> dict[str, Route]:
        return {"/v1/dashboard/billing/usage": self._used, "/v1/dashboard/billing/subscription": self._limit}

    def _own_headers(self) -> Headers:
        return (date_header(self._now()), ("X-Oneapi-Request-Id", ids.relay_request_id(self._now(), self._rng)))

    def wrong_key(self, own: Headers) -> HttpAnswer:
        return json_answer(401, {"error": {"message": "无效的令牌", "type": "one_api_error", "code": ""}}, own)

    def unknown(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        return shells.invalid_url(request, own) if request.route.startswith(("/v1", "/api")) else shells.web_app(own)

    def _status(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        data = {"version": "v0.6.11", "start_time": int(self._now()) - 86_400, "system_name": "Lab", "quota_per_unit": QUOTA_PER_UNIT,
                "display_in_currency": True}  # fmt: skip
        return json_answer(200, {"success": True, "message": "", "data": data}, own)

    def _quota(self) -> int:
        knobs = self._knobs
        ratio = knobs.group_ratio if knobs.money.charged_ratio is None else knobs.money.charged_ratio
        rows = [charge(b.tokens, MODELS[b.model].list_price, ratio) * knobs.charge_factor for b in self.books]
        return sum(rows)

    def _used(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        cents = Decimal(self._quota()) / QUOTA_PER_UNIT * 100
        return json_answer(200, {"object": "list", "total_usage": float(cents)}, own)

    def _limit(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        answer = {"object": "billing_subscription", "has_payment_method": True, "soft_limit_usd": 100_000_000,
                  "hard_limit_usd": 100_000_000, "system_hard_limit_usd": 100_000_000, "access_until": 0}  # fmt: skip
        return json_answer(200, answer, own)


class Veloera(OneApi):
    """new-api's descendant: a balance for the key; the log wants the key in the address and a session besides."""

    def public(self) -> dict[str, Route]:
        return {"/api/status": self._status, "/api/log/token": self._log}

    def pages(self) -> dict[str, Route]:
        return {**super().pages(), "/api/usage/token": self._balance}

    def _status(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        answer = super()._status(request, own).json()
        answer["data"] |= {"price": 7.3, "check_in_enabled": True}
        return json_answer(200, answer, own)

    def _log(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        return shells.dashboard_error("无权进行此操作，未登录且未提供 access token", own, 401)

    def _balance(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        data = {"object": "token_usage", "name": "lab", "total_granted": 10**8, "total_used": self._quota(),
                "total_available": 10**8 - self._quota(), "unlimited_quota": False, "expires_at": 0}  # fmt: skip
        return json_answer(200, {"code": True, "message": "ok", "data": data}, own)


def _iso(seconds: float) -> str:
    """As JavaScript prints a moment."""
    at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
