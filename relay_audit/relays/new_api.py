"""new-api's books for a key: `GET /api/log/token`, `GET /api/usage/token/`.

The log answers to a Bearer header since 2026-02; before that only to a key in the URL, which is refused. Builds of 2025-04
have no balance page either (routes at 02d5a5f1): there it is made of the usage pages. Row ids mean nothing;
rows join by `X-Oneapi-Request-Id` = `request_id`. Source: new-api 823e2630 and its history.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from relay_audit.books import (
    Admissions,
    BalanceReading,
    LogReading,
    LogRow,
    LogState,
    Published,
    RowKind,
    SiteFacts,
    When,
)
from relay_audit.exchange import Exchange, whole_number
from relay_audit.relays import panel
from relay_audit.relays.asked import Asked, Found, Own, Page, opened
from relay_audit.relays.joining import join, summed
from relay_audit.relays.numbers import moment, page, parsed, short, table, whole
from relay_audit.relays.one_api import OneApi

BALANCE, LOG = "/api/usage/token/", "/api/log/token"
REQUEST_ID = "x-oneapi-request-id"
VERSION = "x-new-api-version"
MAX_ROWS = 1000
"""What the newer generation shows at most; there is no paging."""
KINDS: dict[int, RowKind] = {1: "topup", 2: "consume", 5: "error", 6: "refund"}
SILENT = ("empty", "refused")
"""How an old generation answers a header: success without rows, or `record not found` (a log database of its own)."""
NO_USAGE = ("上游无计费信息", "上游没有返回计费信息")
"""In a row's `content`: the upstream gave no usage, so tokens were counted locally or nothing could be charged."""
KEPT = (
    "model_ratio", "group_ratio", "completion_ratio", "cache_ratio", "cache_tokens", "model_price", "user_group_ratio",
    "cache_creation_tokens", "cache_creation_tokens_5m", "cache_creation_tokens_1h", "cache_creation_ratio",
    "cache_creation_ratio_5m", "cache_creation_ratio_1h", "cache_write_tokens", "input_tokens_total", "is_model_mapped",
    "upstream_model_name", "response_model", "is_system_prompt_overwritten", "request_conversion", "po", "claude",
    "usage_semantic", "billing_source", "wallet_quota_deducted", "billing_mode", "expr_b64", "matched_tier",
    "tool_surcharges", "violation_fee", "is_task", "image_ratio", "audio_ratio", "request_path", "error_type",
    "error_code", "status_code", "channel_type", "pre_consumed_quota", "actual_quota", "billing_preference",
    "audio_completion_ratio", "image_completion_ratio", "audio_input", "audio_output", "image_output", "web_search",
    "file_search", "image_generation_call", "seconds", "size", "reasoning_effort", "frt", "subscription_consumed",
    "subscription_used", "subscription_remain", "subscription_total",
)  # fmt: skip
"""The keys of `other` that an assessor reads; besides them only numbers that multiply a price are written."""
MOST_KEYS = 120
LONGEST_EXPRESSION = 6000
"""Characters of a price expression in base64."""


class NewApi(OneApi):
    name = "new_api"
    no_log: tuple[LogState, str] | None = None
    log: Page | None = Page(LOG)
    balance: Page | None = Page(BALANCE)
    ratios: Page | None = Page(panel.RATIOS)
    request_ids = (REQUEST_ID,)

    def read_ratios(self, asked: Asked, model: str) -> Published | None:
        return panel.read_ratios(asked, model)

    def read_log(self, asked: Asked, own: Own) -> Found:
        found = read_rows(asked, own, self.name)
        reading = found.reading
        if reading.state in ("empty", "unavailable") and reading.reason in SILENT and old_generation(own.answers):
            unsafe = {"state": "unsafe", "reason": "key_in_url_only", "generation": "query"}
            return Found(reading.model_copy(update=unsafe))
        return found

    def read_balance(self, asked: Asked, site: SiteFacts, when: When, model: str) -> BalanceReading:
        used, available, unlimited = read_balance(asked.exchange, site)
        return BalanceReading(
            at=asked.exchange.sent_at,
            exchange=asked.exchange.id,
            when=when,
            adapter=self.name,
            used_quota=used,
            available=available,
            unlimited=unlimited,
        )


def read_balance(exchange: Exchange, site: SiteFacts) -> tuple[int | None, Decimal | None, bool]:
    """Used quota, what is left in site dollars, and whether the key is unlimited."""
    data = table(page(exchange).get("data"))
    used, left = whole_number(data.get("total_used")), data.get("total_available")
    unlimited = data.get("unlimited_quota") is True
    known = isinstance(left, int) and not isinstance(left, bool)
    available = Decimal(left) / site.quota_per_unit if known and isinstance(left, int) and not unlimited else None
    return used, available, unlimited


def read_rows(asked: Asked, own: Own, adapter: str) -> Found:
    """The log's answer, taken apart row by row and joined to our sendings."""
    state, reason, answer = opened(asked)
    found = LogReading(
        at=asked.exchange.sent_at, exchange=asked.exchange.id, state=state, reason=reason, adapter=adapter
    )
    if state != "read":
        return Found(found)
    envelope = table(answer)
    data = envelope.get("data")
    if envelope.get("success") is not True:
        return Found(found.model_copy(update={"state": "unavailable", "reason": "refused"}))
    if data is None or data == []:
        return Found(found.model_copy(update={"state": "empty", "reason": "empty"}))
    if not isinstance(data, list) or not any(isinstance(raw, dict) for raw in data):
        return Found(found.model_copy(update={"state": "unavailable", "reason": "unknown_form"}))
    read = [row for raw in data if isinstance(raw, dict) and (row := _row(raw, own.account)) is not None]
    joined = join(read, own, (REQUEST_ID,))
    said = {
        "rows": tuple(joined.ours),
        "foreign": summed(joined.foreign, own.since, joined.twins),
        "own_earlier": len(joined.earlier),
        "truncated": len(data) >= MAX_ROWS,
        "unreadable": len(data) - len(read),
        "ahead": joined.ahead,
        "generation": "header",
    }
    return Found(found.model_copy(update=said), tuple(joined.earlier))


def old_generation(exchanges: tuple[Exchange, ...]) -> bool:
    """No `X-New-Api-Version` on any answer: older than 2026-01-30, so its log reads only a key in the URL."""
    answers = [e.response for e in exchanges if e.response]
    return bool(answers) and not any(response.header(VERSION) for response in answers)


def _row(raw: dict[str, Any], account: Callable[[str], str]) -> LogRow | None:
    """None for a row without a quota or a time that can be believed."""
    quota, created = whole(raw.get("quota")), moment(raw.get("created_at"))
    if quota is None or created is None:
        return None
    kind, other = whole(raw.get("type")), _other(raw.get("other"))
    stream = raw.get("is_stream")
    return LogRow(
        request_id=short(raw.get("request_id")),
        upstream_request_id=short(raw.get("upstream_request_id")),
        created_at=created,
        kind=KINDS.get(kind, "other") if kind is not None else "other",
        model=short(raw.get("model_name")),
        quota=quota,
        prompt_tokens=whole_number(raw.get("prompt_tokens")) or 0,
        completion_tokens=whole_number(raw.get("completion_tokens")) or 0,
        is_stream=stream if isinstance(stream, bool) else None,
        group=short(raw.get("group")),
        channel=account(str(raw["channel"])[:SHORT_ID]) if raw.get("channel") else "",
        task=short(table(_free(raw.get("other"))).get("task_id")),
        plan_billed=other.get("billing_source") == "subscription",
        estimated=any(text in short(raw.get("content")) for text in NO_USAGE),
        admissions=_admissions(other),
        **_cached(other),
        other=other,
    )


SHORT_ID = 40


def _cached(other: dict[str, Any]) -> dict[str, int | None]:
    """Cache tokens by kind; a write without a split counts as the five-minute one."""
    read, written = whole_number(other.get("cache_tokens")), whole_number(other.get("cache_creation_tokens"))
    hour = whole_number(other.get("cache_creation_tokens_1h"))
    five = whole_number(other.get("cache_creation_tokens_5m"))
    if five is None and written is not None:
        five = max(written - (hour or 0), 0)
    return {"cache_read": read, "cache_write_5m": five, "cache_write_1h": hour}


def _admissions(other: dict[str, Any]) -> Admissions:
    channel = other.get("channel_type")
    return Admissions(
        model_mapped=other.get("is_model_mapped") is True,
        upstream_model=short(other.get("upstream_model_name")),
        response_model=short(other.get("response_model")),
        system_overwritten=other.get("is_system_prompt_overwritten") is True,
        overrides=_texts(other.get("po")),
        conversion=_texts(other.get("request_conversion")),
        channel_type=whole_number(channel),
    )


def _texts(value: Any) -> tuple[str, ...]:  # noqa: ANN401
    items = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    return tuple(short(item) for item in items if isinstance(item, str) and item)


def _free(raw: Any) -> Any:  # noqa: ANN401
    """`other` is a JSON string, parsed a second time."""
    return parsed(raw) if isinstance(raw, str) else raw


def _other(raw: Any) -> dict[str, Any]:  # noqa: ANN401
    """`other` cut down to the keys an assessor reads."""
    free = table(_free(raw))
    kept = [key for key in free if key in KEPT or _multiplies(key, free[key])]
    return {
        short(key): str(free[key])[:LONGEST_EXPRESSION] if key == "expr_b64" else _cut(free[key])
        for key in kept[:MOST_KEYS]
        if _plain(free[key])
    }


def _multiplies(key: str, value: Any) -> bool:  # noqa: ANN401
    """A number under a name of a fork's own that may have gone into the charge."""
    return key.endswith(("_ratio", "_multiplier", "_factor")) and isinstance(value, int | float)


def _cut(value: Any) -> Any:  # noqa: ANN401
    return short(value) if isinstance(value, str) else value


def _plain(value: Any) -> bool:  # noqa: ANN401
    """A scalar, or a list of scalars and of flat tables (tool surcharges): nothing deeper is written."""
    if isinstance(value, list):
        return len(value) <= 20 and all(_scalar(item) or _flat(item) for item in value)
    return _scalar(value)


def _flat(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, dict) and len(value) <= 8 and all(_scalar(v) for v in value.values())


def _scalar(value: Any) -> bool:  # noqa: ANN401
    return value is None or isinstance(value, str | int | float | bool)
