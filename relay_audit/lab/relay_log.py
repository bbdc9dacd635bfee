"""new-api's own log of calls and what a key may read of it, in both generations; other people's rows on request."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from relay_audit.lab import ids
from relay_audit.lab.billing import HOUR_FACTOR, QUOTA_PER_UNIT, Semantics, Tokens, charge, hold
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.models import MODELS, Model, Ratios
from relay_audit.lab.money import Every, charged, group_ratio, marks

NEWEST = 1000
"""Rows that the newer generation shows, newest first; there is no paging."""
LATE_S = 6.0
CONSUME, REFUND = 2, 6
"""Row types: a call, what was given back; 1 top-up, 5 error (off by default)."""
REFUND_S = 12.0
"""Seconds after which a late refund is booked."""


@dataclass(frozen=True)
class Row:
    visible_at: float
    data: dict[str, Any]
    foreign: bool


class RelayLog:
    semantics: Semantics = "anthropic"

    def __init__(
        self, knobs: Knobs, rng: random.Random, now: Callable[[], float], models: dict[str, Model] = MODELS
    ) -> None:
        self._knobs = knobs
        self._models = models
        self._doubled = Every(knobs.money.doubles_every)
        self._copied = Every(knobs.money.copies_every)
        self._plan_used = 0
        self._unlogged = Every(knobs.money.unlogged_every)
        self._rowless = Every(knobs.money.rowless_every)
        self._uncharged = Every(knobs.money.uncharged_every)
        self._held = Every(knobs.money.holds_kept_every)
        self._rng = rng
        self._now = now
        self._user = rng.randint(100, 9999)
        self._token = rng.randint(1000, 9999)
        self._first_id = rng.randint(20_000, 900_000)
        self._spend: list[tuple[float, int]] = []
        self.unlogged = 0
        """Quota that was spent and has no row."""
        self.rows: list[Row] = []
        earlier = NEWEST + 20 if knobs.money.full_log else rng.randint(3, 9) if knobs.foreign_rows else 0
        for _ in range(earlier):
            self._foreign(now() - rng.uniform(60, 86_400))

    def write(
        self, request_id: str, model: str, tokens: Tokens, *, stream: bool, use_time: float, limit: int = 0
    ) -> int:
        """Charges a call and writes its row. The charge. `limit` is the call's own output limit, for its reserve."""
        knobs, money = self._knobs, self._knobs.money
        if self._uncharged.hit():
            return 0
        price = charged(self._models[model].list_price, money)
        ratio = group_ratio(knobs.group_ratio, money, self._now())
        quota = self._quota(tokens, price, ratio) * knobs.charge_factor
        if self._rowless.hit():
            self.unlogged += quota * money.rowless_factor
            return quota
        other = self._other(tokens, price, ratio, use_time)
        if money.plan:
            self._plan_used += quota * money.plan_factor
            other |= {"subscription_consumed": quota * money.plan_factor, "subscription_used": self._plan_used,
                      "subscription_total": 10**9, "subscription_remain": 10**9 - self._plan_used}  # fmt: skip
        if money.converted_to:
            other["request_conversion"] = [*other["request_conversion"], money.converted_to]
        if knobs.mapped_to:
            other |= {"is_model_mapped": True, "upstream_model_name": knobs.mapped_to}
        delay = LATE_S if knobs.log == "late" else 0.0
        for _ in range(1 + (self._doubled.hit() or (stream and money.cuts_streams))):
            self._append(self._now(), delay, request_id, model, tokens, quota, other, stream, use_time)
        if self._copied.hit():
            fresh = ids.relay_request_id(self._now(), self._rng)
            self._append(self._now(), delay, fresh, model, tokens, quota, other, stream, use_time)
        self._take_more(quota, hold(tokens.prompt, limit, price, ratio))
        if knobs.foreign_rows and self._rng.random() < 0.6:
            self._foreign(self._now())
        return quota

    def _take_more(self, quota: int, held: int) -> None:
        """What leaves the balance beside a row."""
        if self._unlogged.hit():
            self.unlogged += quota
        if self._held.hit():
            self.unlogged += held

    def refused(self, request_id: str, model: str, prompt: int, limit: int) -> None:
        """What becomes of the reserve of a call that the upstream refused."""
        way = self._knobs.money.errors
        if way == "free":
            return
        price = charged(self._models[model].list_price, self._knobs.money)
        ratio = group_ratio(self._knobs.group_ratio, self._knobs.money, self._now())
        tokens = Tokens(prompt, 0)
        quota = self._quota(tokens, price, ratio)
        if way == "unlogged":
            self.unlogged += quota
            return
        other, now = self._other(tokens, price, ratio, 0.0), self._now()
        if way == "charged":
            self._append(now, 0.0, request_id, model, tokens, quota, other, False, 0.0)
            return
        quota = hold(prompt, limit, price, ratio)
        self._append(now, 0.0, request_id, model, Tokens(0, 0), quota, other, False, 0.0)
        if way == "refunded_late":
            self._append(now + REFUND_S, 0.0, request_id, model, Tokens(0, 0), quota, other, False, 0.0, kind=REFUND)

    def _quota(self, tokens: Tokens, price: Ratios, ratio: Decimal) -> int:
        money = self._knobs.money
        if money.cache_read_as_input:
            price = replace(price, cache=Decimal(1))
        hour = Decimal(1) if money.hour_at_five_minutes else HOUR_FACTOR
        if money.per_call is not None:
            quota = whole(money.per_call * QUOTA_PER_UNIT * ratio)
        elif money.expression:
            own = Ratios(Decimal(money.expression[0]) / 2, Decimal(0), Decimal(0), Decimal(0))
            parts = [Decimal(part) / Decimal(money.expression[0]) for part in money.expression]
            own = Ratios(own.model, parts[1], parts[2], parts[3])
            quota = charge(tokens, own, ratio, self.semantics, parts[4] / parts[3])
        else:
            quota = charge(tokens, price, ratio, self.semantics, hour)
        surge = whole(quota * money.surge) if money.surge is not None else quota
        return surge + (whole(Decimal(10) / 1000 * ratio * QUOTA_PER_UNIT) if money.surcharge else 0)

    def _other(self, tokens: Tokens, price: Ratios, ratio: Decimal, use_time: float) -> dict[str, Any]:
        money = self._knobs.money
        other: dict[str, Any] = {
            "model_ratio": float(price.model),
            "group_ratio": float(ratio),
            "completion_ratio": float(price.completion),
            "cache_tokens": tokens.cache_read,
            "cache_ratio": float(price.cache),
            "model_price": -1 if money.per_call is None else float(money.per_call),
            "user_group_ratio": float(ratio) if money.special_ratio else -1,
            "frt": int(use_time * 1000),
            **self._marks(),
            "cache_creation_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
            "cache_creation_ratio": float(price.cache_write),
            "billing_source": "wallet",
        }
        if tokens.cache_write_5m and self.semantics == "anthropic":
            other |= {
                "cache_creation_tokens_5m": tokens.cache_write_5m,
                "cache_creation_ratio_5m": float(price.cache_write),
            }
        if tokens.cache_write_1h:
            rate = float(price.cache_write * HOUR_FACTOR)
            other |= {"cache_creation_tokens_1h": tokens.cache_write_1h, "cache_creation_ratio_1h": rate}
        return other | dict(marks(money))

    def _marks(self) -> dict[str, Any]:
        """What rows of this kind of channel carry besides."""
        return {
            "request_path": "/v1/messages",
            "request_conversion": ["Claude Messages"],
            "claude": True,
            "usage_semantic": "anthropic",
        }

    def read(self, *, old: bool) -> list[dict[str, Any]]:
        """The rows as the log route prints them: the older generation all of them in order, the newer one the newest
        thousand with their position as `id`."""
        if self._knobs.log == "off":
            return []
        seen = [row.data for row in self.rows if row.visible_at <= self._now()]
        if old:
            return [{k: v for k, v in row.items() if "request_id" not in k} | {"id": row["id"] % 1024} for row in seen]
        return [row | {"id": place} for place, row in enumerate(reversed(seen[-NEWEST:]), start=1)]

    @property
    def used(self) -> int:
        """Quota that the key has spent; it moves also where no row is written, and back with a refund."""
        return self.unlogged + sum(quota for at, quota in self._spend if at <= self._now())

    def own_rows(self) -> list[dict[str, Any]]:
        return [row.data for row in self.rows if not row.foreign]

    def _foreign(self, at: float) -> None:
        rng = self._rng
        model = rng.choice(list(self._models))
        small = 100 if self._knobs.money.full_log else 1  # a thousand rows have to fit into what the key was granted
        tokens = Tokens(rng.randint(8, 40_000 // small), rng.randint(1, 2_000 // small))
        quota = charge(tokens, self._models[model].list_price, self._knobs.group_ratio)
        request_id = ids.relay_request_id(at, rng)
        self._append(
            at, 0.0, request_id, model, tokens, quota, {}, rng.random() < 0.7, rng.uniform(1, 30), foreign=True
        )

    def _append(
        self,
        at: float,
        delay: float,
        request_id: str,
        model: str,
        tokens: Tokens,
        quota: int,
        other: dict[str, Any],
        stream: bool,
        use_time: float,
        *,
        foreign: bool = False,
        kind: int = CONSUME,
    ) -> None:
        data = {
            "id": self._first_id + len(self.rows),
            "user_id": self._user,
            "created_at": int(at),
            "type": kind,
            "content": "",
            "username": f"user{self._user}",
            "token_name": "lab",
            "model_name": model,
            "quota": quota,
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "use_time": round(use_time),
            "is_stream": stream,
            "channel": 17,
            "channel_name": "",
            "token_id": self._token,
            "group": self._knobs.money.charged_group or self._knobs.group,
            "ip": "",
            "request_id": request_id,
            "upstream_request_id": "",
            "other": json.dumps(other, separators=(",", ":"), ensure_ascii=False),
        }
        if kind == CONSUME:
            self._spend.append((0.0, quota))
        else:
            self._spend.append((at, -quota))
        self.rows.append(Row(at + delay, data, foreign))


def whole(exact: Decimal) -> int:
    """Half away from zero."""
    return int(exact.quantize(Decimal(1), ROUND_HALF_UP))
