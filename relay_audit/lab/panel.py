"""new-api's own routes: what the site says of itself, its price list, a key's balance and the key's log."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from relay_audit.lab import shells
from relay_audit.lab.billing import QUOTA_PER_UNIT
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.models import MODELS, Model
from relay_audit.lab.money import expression, listed, published_ratio
from relay_audit.lab.relay_log import RelayLog
from relay_audit.lab.variation import Variation
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, json_answer

CRITICAL_CALLS = 20
CRITICAL_WINDOW_S = 1200.0
Route = Callable[[HttpRequest, Headers], HttpAnswer]


class CriticalLimit:
    """20 calls in 20 minutes per address, one bucket for the log, a key's usage and the ratio list; over it the answer
    is 429 with an empty body, on newer builds with `Retry-After`."""

    def __init__(self, now: Callable[[], float], *, retry_after: bool, used_up: bool = False) -> None:
        self._now = now
        self._retry_after = retry_after
        self._calls: deque[float] = deque([now()] * CRITICAL_CALLS if used_up else ())

    def refuse(self, own: Headers) -> HttpAnswer | None:
        now = self._now()
        while self._calls and self._calls[0] <= now - CRITICAL_WINDOW_S:
            self._calls.popleft()
        if len(self._calls) < CRITICAL_CALLS:
            self._calls.append(now)
            return None
        wait = (("Retry-After", str(int(self._calls[0] + CRITICAL_WINDOW_S - now) + 1)),) if self._retry_after else ()
        return HttpAnswer(429, (*own, *wait))


class Panel:
    def __init__(
        self,
        key: str,
        knobs: Knobs,
        seen: Variation,
        log: RelayLog,
        rng: random.Random,
        now: Callable[[], float],
        models: dict[str, Model] = MODELS,
    ) -> None:
        self._models = models
        self._key = key
        self._knobs = knobs
        self._seen = seen
        self._log = log
        self._now = now
        self._limit = CriticalLimit(now, retry_after=seen.retry_after, used_up=knobs.log == "used_up")
        self._start = int(now()) - rng.randint(3_600, 4_000_000)
        self._price = rng.choice((1, 7.3))
        self.routes: dict[str, Route] = {
            "/api/status": self._status,
            "/api/pricing": self._pricing,
            "/api/ratio_config": self._limited(self._ratio_config),
            "/api/usage/token": self._limited(self._usage),
            "/api/log/token": self._limited(self._log_rows),
            "/v1/dashboard/billing/usage": self._dashboard_usage,
            "/v1/dashboard/billing/subscription": self._dashboard_limit,
        }

    @property
    def left(self) -> int:
        """Quota the key may still spend."""
        if self._knobs.balance is not None:
            return self._knobs.balance - self._log.used
        return 10**9 if self._seen.unlimited else self._seen.granted - self._log.used

    def _limited(self, route: Route) -> Route:
        return lambda request, own: self._limit.refuse(own) or route(request, own)

    def _status(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        data = {
            "version": self._seen.version,
            "start_time": self._start,
            "system_name": "Lab Relay",
            "server_address": "https://relay.example",
            "quota_per_unit": QUOTA_PER_UNIT,
            "quota_display_type": self._knobs.money.display,
            "display_in_currency": True,
            "usd_exchange_rate": 7.3,
            "price": self._price,
            "enable_batch_update": False,
            "demo_site_enabled": False,
            "self_use_mode_enabled": False,
        }
        return json_answer(200, {"success": True, "message": "", "data": data}, own)

    def _pricing(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        if not self._knobs.publishes_prices:
            return shells.dashboard_error("pricing is disabled", own, 403)
        knobs, money = self._knobs, self._knobs.money
        ratio = published_ratio(knobs.group_ratio, money, self._now())
        groups = {"default": 1, knobs.group: as_number(ratio)}
        if money.charged_group:
            groups[money.charged_group] = as_number(money.charged_ratio or knobs.group_ratio)
        mode = {"billing_mode": "tiered_expr", "billing_expr": expression(money)} if money.expression else {}
        rows = [
            {
                "model_name": model.name,
                "quota_type": 0 if money.per_call is None else 1,
                "model_ratio": as_number(listed(model.list_price, money).model),
                "model_price": 0 if money.per_call is None else as_number(money.per_call),
                "owner_by": "",
                "completion_ratio": as_number(model.list_price.completion),
                "cache_ratio": as_number(model.list_price.cache),
                "create_cache_ratio": as_number(model.list_price.cache_write),
                "enable_groups": list(groups),
                "supported_endpoint_types": ["anthropic", "openai"],
                **mode,
            }
            for model in self._models.values()
        ]
        usable = dict.fromkeys(groups, "")
        answer = {
            "success": True,
            "data": rows,
            "vendors": [],
            "group_ratio": groups,
            "usable_group": usable,
            "auto_groups": [],
        }
        return json_answer(200, answer, own)

    def _ratio_config(self, _: HttpRequest, own: Headers) -> HttpAnswer:
        if not self._knobs.publishes_ratios:
            return shells.dashboard_error("倍率配置接口未启用", own, 403)
        prices = {model.name: listed(model.list_price, self._knobs.money) for model in self._models.values()}
        data = {
            "model_ratio": {name: as_number(price.model) for name, price in prices.items()},
            "completion_ratio": {name: as_number(price.completion) for name, price in prices.items()},
            "cache_ratio": {name: as_number(price.cache) for name, price in prices.items()},
            "create_cache_ratio": {name: as_number(price.cache_write) for name, price in prices.items()},
            "model_price": {},
        }
        return json_answer(200, {"success": True, "message": "", "data": data}, own)

    def _usage(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        if refusal := self._refuse(request, own):
            return refusal
        unlimited = self._seen.unlimited and self._knobs.balance is None
        granted = 0 if unlimited else self._seen.granted if self._knobs.balance is None else self._knobs.balance
        data: dict[str, Any] = {
            "object": "token_usage",
            "name": "lab",
            "total_granted": granted,
            "total_used": self._log.used,
            "total_available": granted - self._log.used,
            "unlimited_quota": unlimited,
            "model_limits": {},
            "model_limits_enabled": False,
            "expires_at": 0,
        }
        return json_answer(200, {"code": True, "message": "ok", "data": data}, own)

    def _dashboard_usage(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        """Everything that the key ever spent, a hundredfold, in the site's display currency; dates are ignored."""
        if refusal := self._refuse_dashboard(request, own):
            return refusal
        spent = Decimal(self._log.used) / QUOTA_PER_UNIT * self._display_rate * self._knobs.money.usage_factor
        return json_answer(200, {"object": "list", "total_usage": float(spent * 100)}, own)

    def _dashboard_limit(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        if refusal := self._refuse_dashboard(request, own):
            return refusal
        limit = (
            100_000_000
            if self._seen.unlimited
            else float(Decimal(self._seen.granted) / QUOTA_PER_UNIT * self._display_rate)
        )
        limits = dict.fromkeys(("soft_limit_usd", "hard_limit_usd", "system_hard_limit_usd"), limit)
        answer = {"object": "billing_subscription", "has_payment_method": True, **limits, "access_until": 0}
        return json_answer(200, answer, own)

    def _refuse_dashboard(self, request: HttpRequest, own: Headers) -> HttpAnswer | None:
        """Errors of these pages come as 200."""
        if self._refuse(request, own) is None:
            return None
        error = {"message": "无效的令牌", "type": "new_api_error", "param": "", "code": ""}
        return json_answer(200, {"error": error}, own)

    @property
    def _display_rate(self) -> Decimal:
        return Decimal("7.3") if self._knobs.money.display == "CNY" else Decimal(1)

    def _log_rows(self, request: HttpRequest, own: Headers) -> HttpAnswer:
        """The older generation reads only `?key=`: a header alone asks for the key "" and gets no rows."""
        old = self._knobs.log == "query_only"
        if not old:
            rows = [] if (refusal := self._refuse(request, own)) else self._log.read(old=False)
            return refusal or json_answer(200, {"success": True, "message": "", "data": rows}, own)
        asked = f"key={self._key}" in request.query.split("&")
        return json_answer(
            200, {"success": True, "message": "", "data": self._log.read(old=True) if asked else []}, own
        )

    def _refuse(self, request: HttpRequest, own: Headers) -> HttpAnswer | None:
        """These routes read the Authorization header only; `sk-` and what follows a further dash do not matter."""
        given = request.bearer.removeprefix("sk-").partition("-")[0]
        if not given:
            return shells.dashboard_error(shells.words(request, "no_token"), own, 401)
        if given != self._key.removeprefix("sk-") or self._knobs.hostile == "wrong_key":
            return shells.dashboard_error(shells.words(request, "invalid_token"), own, 401)
        return None


def as_number(value: Decimal) -> float | int:
    """A ratio as JSON prints it."""
    return int(value) if value == value.to_integral_value() else float(value)
