"""new-api's own log of calls and what a key may read of it, in both generations; other people's rows on request."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from relay_audit.lab import ids
from relay_audit.lab.billing import Tokens, charge
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.models import MODELS

NEWEST = 1000
"""Rows that the newer generation shows, newest first; there is no paging."""
LATE_S = 6.0
CONSUME = 2
"""Row type of a call; 1 top-up, 5 error (off by default), 6 refund."""


@dataclass(frozen=True)
class Row:
    visible_at: float
    data: dict[str, Any]
    foreign: bool


class RelayLog:
    def __init__(self, knobs: Knobs, rng: random.Random, now: Callable[[], float]) -> None:
        self._knobs = knobs
        self._rng = rng
        self._now = now
        self._user = rng.randint(100, 9999)
        self._token = rng.randint(1000, 9999)
        self._first_id = rng.randint(20_000, 900_000)
        self.used = 0
        """Quota that the key has spent; it moves also where no row is written."""
        self.rows: list[Row] = []
        for _ in range(rng.randint(3, 9) if knobs.foreign_rows else 0):
            self._foreign(now() - rng.uniform(60, 86_400))

    def write(self, request_id: str, model: str, tokens: Tokens, *, stream: bool, use_time: float) -> int:
        """Charges a call and writes its row. The charge."""
        knobs = self._knobs
        price = MODELS[model].list_price
        quota = charge(tokens, price, knobs.group_ratio) * knobs.charge_factor
        other = {
            "model_ratio": float(price.model),
            "group_ratio": float(knobs.group_ratio),
            "completion_ratio": float(price.completion),
            "cache_tokens": tokens.cache_read,
            "cache_ratio": float(price.cache),
            "model_price": -1,
            "user_group_ratio": -1,
            "frt": int(use_time * 1000),
            "request_path": "/v1/messages",
            "request_conversion": ["Claude Messages"],
            "claude": True,
            "usage_semantic": "anthropic",
            "cache_creation_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
            "cache_creation_ratio": float(price.cache_write),
            "billing_source": "wallet",
        }
        if knobs.mapped_to:
            other |= {"is_model_mapped": True, "upstream_model_name": knobs.mapped_to}
        delay = LATE_S if knobs.log == "late" else 0.0
        self._append(self._now(), delay, request_id, model, tokens, quota, other, stream, use_time)
        if knobs.foreign_rows and self._rng.random() < 0.6:
            self._foreign(self._now())
        return quota

    def read(self, *, old: bool) -> list[dict[str, Any]]:
        """The rows as the log route prints them: the older generation all of them in order, the newer one the newest
        thousand with their position as `id`."""
        if self._knobs.log == "off":
            return []
        seen = [row.data for row in self.rows if row.visible_at <= self._now()]
        if old:
            return [{k: v for k, v in row.items() if "request_id" not in k} | {"id": row["id"] % 1024} for row in seen]
        return [row | {"id": place} for place, row in enumerate(reversed(seen[-NEWEST:]), start=1)]

    def own_rows(self) -> list[dict[str, Any]]:
        return [row.data for row in self.rows if not row.foreign]

    def _foreign(self, at: float) -> None:
        rng = self._rng
        model = rng.choice(list(MODELS))
        tokens = Tokens(rng.randint(8, 40_000), rng.randint(1, 2_000))
        quota = charge(tokens, MODELS[model].list_price, self._knobs.group_ratio)
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
    ) -> None:
        data = {
            "id": self._first_id + len(self.rows),
            "user_id": self._user,
            "created_at": int(at),
            "type": CONSUME,
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
            "group": self._knobs.group,
            "ip": "",
            "request_id": request_id,
            "upstream_request_id": "",
            "other": json.dumps(other, separators=(",", ":"), ensure_ascii=False),
        }
        self.used += quota
        self.rows.append(Row(at + delay, data, foreign))
