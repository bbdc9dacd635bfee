"""new-api's public pages, balance and log for films: charged in full at the order, given back by a row of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from relay_audit.lab import ids
from relay_audit.lab.billing import QUOTA_PER_UNIT
from relay_audit.lab.video_scenarios import VideoKnobs
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, json_answer

PRICE = {
    "480p": Decimal("0.3"),
    "720p": Decimal("0.7"),
    "1080p": Decimal("1.7"),
    "2k": Decimal("2.5"),
    "4k": Decimal("3.5"),
}
"""Site dollars of a film of five seconds."""
BASE = "480p"
SECONDS = 5
GRANTED = 50_000_000
CHARGE, REFUND = 2, 6


@dataclass(frozen=True)
class Row:
    visible_at: float
    data: dict[str, Any]


class VideoTill:
    def __init__(self, key: str, model: str, knobs: VideoKnobs, rng: random.Random, now: Callable[[], float]) -> None:
        self._key, self._model, self._knobs, self._rng, self._now = key, model, knobs, rng, now
        self.rows: list[Row] = []
        self._used: list[tuple[float, int]] = []

    def price(self, resolution: str) -> Decimal:
        """A film's price: the list's, times what the resolution costs more."""
        return PRICE.get(resolution, PRICE["4k"])

    def ratios(self, resolution: str) -> dict[str, float]:
        """What the answer to an order says the list price is multiplied by."""
        seconds = {"seconds": float(SECONDS)} if self._knobs.per_second else {}
        return {**seconds, "size": float(self.price(resolution) / PRICE[BASE])}

    @property
    def _listed(self) -> float:
        return float(PRICE[BASE] / SECONDS if self._knobs.per_second else PRICE[BASE])

    def charge(self, resolution: str, request_id: str) -> int:
        quota = int(self.price(resolution) * QUOTA_PER_UNIT) * self._knobs.charge_factor
        other = {"is_task": True, "model_price": self._listed, "group_ratio": 1}
        if self._knobs.names_ratios:
            other |= self.ratios(resolution)
        if self._knobs.old_books:
            del other["is_task"]
        if self._knobs.others_films:
            self._write(self._now() - 300, CHARGE, quota, ids.relay_request_id(self._now() - 300, self._rng), other)
        self._write(self._now(), CHARGE, quota, request_id, other)
        if self._knobs.copies or self._knobs.others_films:
            self._write(self._now(), CHARGE, quota, ids.relay_request_id(self._now(), self._rng), other)
        return quota

    def give_back(self, quota: int, task_id: str, reason: str) -> None:
        """A positive row with a request id of nobody, some seconds later."""
        if self._knobs.refund_after_s < 0 or self._knobs.old_books:
            return  # older software pays the account back, in a row that no key reads; the key's counter stays
        other = {"is_task": True, "task_id": task_id, "reason": reason}
        self._write(
            self._now() + self._knobs.refund_after_s, REFUND, quota, ids.relay_request_id(self._now(), self._rng), other
        )

    def _write(self, at: float, kind: int, quota: int, request_id: str, other: dict[str, Any]) -> None:
        self._used.append((at, quota if kind == CHARGE else -quota))
        self.rows.append(Row(at, {
            "id": 4000 + len(self.rows), "user_id": 7, "created_at": int(at), "type": kind, "content": "", "username": "user7",
            "token_name": "lab", "model_name": self._model, "quota": quota, "prompt_tokens": 0, "completion_tokens": 0,
            "use_time": 1, "is_stream": False, "channel": 54, "channel_name": "", "token_id": 9, "group": "default", "ip": "",
            "request_id": request_id, "upstream_request_id": "", "other": json.dumps(other, separators=(",", ":")),
        }))  # fmt: skip

    def handle(self, request: HttpRequest, own: Headers) -> HttpAnswer | None:
        """A page of the panel; None for any other path."""
        match request.route.rstrip("/"):
            case "/api/status":
                data = {"version": "v0.12.3", "start_time": int(self._now()) - 90_000, "system_name": "Lab Relay",
                        "quota_per_unit": QUOTA_PER_UNIT, "quota_display_type": "USD", "price": 7.3,
                        "server_address": "https://relay.example", "usd_exchange_rate": 7.3}  # fmt: skip
                return json_answer(200, {"success": True, "message": "", "data": data}, own)
            case "/api/pricing":
                row = {"model_name": self._model, "quota_type": 1, "model_ratio": 0, "model_price": self._listed,
                       "completion_ratio": 0, "enable_groups": ["default"], "resolutions": list(self._knobs.advertises),
                       "supported_endpoint_types": ["openai-video"]}  # fmt: skip
                return json_answer(200, {"success": True, "data": [row], "vendors": [], "group_ratio": {"default": 1},
                                         "usable_group": {"default": ""}, "auto_groups": []}, own)  # fmt: skip
            case "/api/usage/token" | "/api/log/token" if request.bearer != self._key:
                return json_answer(401, {"success": False, "message": "Invalid token"}, own)
            case "/api/usage/token":
                used = sum(quota for at, quota in self._used if at <= self._now())
                data = {"object": "token_usage", "name": "lab", "total_granted": GRANTED, "total_used": used,
                        "total_available": GRANTED - used, "unlimited_quota": False, "model_limits": {},
                        "model_limits_enabled": False, "expires_at": 0}  # fmt: skip
                return json_answer(200, {"code": True, "message": "ok", "data": data}, own)
            case "/api/log/token":
                seen = [row.data for row in self.rows if row.visible_at <= self._now()] if self._knobs.log else []
                return json_answer(200, {"success": True, "message": "", "data": seen[::-1]}, own)
        return None
