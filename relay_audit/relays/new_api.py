"""new-api (and its generation-mates): status, pricing, balance and the key-readable log.

Sources: known_fingerprints/relay_software.toml. The log answers to a Bearer header since 2026-02; before that only to a
key in the URL, which is refused. Row ids mean nothing; rows join by `X-Oneapi-Request-Id` = `request_id`.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from relay_audit.evidence import ForeignRows, LogReading, LogRow, LogState, SiteFacts
from relay_audit.exchange import Exchange, whole_number
from relay_audit.fingerprint import Knowledge, ListPrice
from relay_audit.quote import UnitPrice
from relay_audit.usage import Usage

STATUS, PRICING, BALANCE, LOG = "/api/status", "/api/pricing", "/api/usage/token/", "/api/log/token"
REQUEST_ID = "x-oneapi-request-id"
VERSION = "x-new-api-version"
MAX_ROWS = 1000
KINDS = {2: "consume", 5: "error", 6: "refund"}
KEPT = (
    "model_ratio", "group_ratio", "completion_ratio", "cache_ratio", "cache_tokens", "model_price", "user_group_ratio",
    "cache_creation_tokens", "cache_creation_tokens_5m", "cache_creation_tokens_1h", "cache_creation_ratio",
    "cache_creation_ratio_5m", "cache_creation_ratio_1h", "cache_write_tokens", "input_tokens_total", "is_model_mapped",
    "upstream_model_name", "response_model", "is_system_prompt_overwritten", "request_conversion", "po", "claude",
    "usage_semantic", "billing_source", "wallet_quota_deducted", "billing_mode", "expr_b64", "matched_tier",
    "tool_surcharges", "violation_fee", "is_task", "image_ratio", "audio_ratio", "request_path", "error_type",
    "error_code", "status_code", "channel_type",
)  # fmt: skip
"""The keys of `other` that an assessor reads; nothing else of a row's free part is written."""


def read_site(status: Exchange | None, pricing: Exchange | None, base: SiteFacts) -> SiteFacts:
    """Public facts: units, currency, version, group ratios. All of it is the relay's word."""
    data = _data(status)
    groups = _object(pricing).get("group_ratio")
    per_unit = whole_number(data.get("quota_per_unit")) or base.quota_per_unit
    return base.model_copy(
        update={
            "version": _short(data.get("version")),
            "quota_per_unit": per_unit,
            "price_cny": _number(data.get("price")),
            "display_type": _short(data.get("quota_display_type")),
            "group_ratio": {_short(k): n for k, v in groups.items() if (n := _number(v)) is not None} if isinstance(groups, dict) else {},
        }
    )  # fmt: skip


def read_price(pricing: Exchange | None, model: str, group: str, site: SiteFacts, today: dt.date) -> UnitPrice | None:
    """The published price of a model in a group, in site dollars per million tokens; None where it is not published so
    that it can be computed (tiered expressions, a missing group ratio)."""
    rows = _object(pricing).get("data")
    row = (
        next((r for r in rows if isinstance(r, dict) and r.get("model_name") == model), None)
        if isinstance(rows, list)
        else None
    )
    if row is None or row.get("billing_mode"):
        return None
    ratio = site.group_ratio.get(group) if group else site.group_ratio.get("default")
    if ratio is None:
        named = row.get("enable_groups")
        enabled = [g for g in named if isinstance(g, str) and g in site.group_ratio] if isinstance(named, list) else []
        ratio = max((site.group_ratio[g] for g in enabled), default=None) if not group else None
    if ratio is None:
        return None
    source = f"GET {PRICING}, group {group or 'default'}"
    if row.get("quota_type") == 1:
        fixed = _number(row.get("model_price"))
        zero = Decimal(0)
        return (
            UnitPrice(input=zero, output=zero, per_call=fixed * ratio, source=source, observed=today)
            if fixed is not None
            else None
        )
    model_ratio, completion = _number(row.get("model_ratio")), _number(row.get("completion_ratio"))
    if model_ratio is None or completion is None:
        return None
    unit = model_ratio * ratio * 1_000_000 / site.quota_per_unit
    write = _number(row.get("create_cache_ratio"))
    read = _number(row.get("cache_ratio"))
    return UnitPrice(
        input=unit,
        output=unit * completion,
        cache_write_5m=None if write is None else unit * write,
        cache_write_1h=None if write is None else unit * write * Decimal("1.6"),
        cache_read=None if read is None else unit * read,
        source=source,
        observed=today,
    )


def read_balance(exchange: Exchange, site: SiteFacts) -> tuple[int | None, Decimal | None, bool]:
    """Used quota, what is left in site dollars, and whether the key is unlimited."""
    data = _data(exchange)
    used, left = whole_number(data.get("total_used")), data.get("total_available")
    unlimited = data.get("unlimited_quota") is True
    known = isinstance(left, int) and not isinstance(left, bool)
    available = Decimal(left) / site.quota_per_unit if known and isinstance(left, int) and not unlimited else None
    return used, available, unlimited


def read_log(
    asked: Exchange,
    body: str,
    sent: tuple[tuple[Exchange, Usage | None], ...],
    model: str,
    account: Callable[[str], str],
) -> LogReading:
    """What the log says of our own sendings. Rows of other traffic leave a count, a sum and a time span.

    `body` is the answer's text in memory: it is never stored, since it may hold other people's rows.
    `sent` are our relay exchanges with the usage their answers reported. Raises nothing.
    """
    state, reason, rows = _rows(asked, body)
    if state != "read":
        return LogReading(at=asked.sent_at, exchange=asked.id, state=state, reason=reason)
    ours, foreign, taken = [], [], set[str]()
    by_id = {rid: e.id for e, _ in sent if e.response and (rid := e.response.header(REQUEST_ID))}
    for raw in rows:
        row = _row(raw, account)
        if row is None:
            continue
        exchange = by_id.get(row.request_id) if row.request_id else _by_usage(row, sent, model, taken)
        if exchange:
            taken.add(exchange)
            ours.append(row.model_copy(update={"exchange": exchange}))
        elif _could_be_ours(row, sent, model):
            ours.append(row)
        else:
            foreign.append(row)
    span = [row.created_at for row in foreign]
    return LogReading(
        at=asked.sent_at,
        exchange=asked.id,
        state="read",
        rows=tuple(ours),
        foreign=ForeignRows(
            count=len(foreign),
            quota=sum(row.quota for row in foreign if row.kind == "consume"),
            first=min(span, default=None),
            last=max(span, default=None),
        ),
        truncated=len(rows) >= MAX_ROWS,
    )


def old_generation(exchanges: tuple[Exchange, ...]) -> bool:
    """No `X-New-Api-Version` on any answer: older than 2026-01-30, so its log reads only a key in the URL."""
    answers = [e.response for e in exchanges if e.response]
    return bool(answers) and not any(response.header(VERSION) for response in answers)


def list_price(knowledge: Knowledge, model: str, today: dt.date) -> UnitPrice | None:
    """The vendor's own list price on that day."""
    listed = knowledge.price_of(model, today)
    return (
        None
        if listed is None
        else UnitPrice(**_rates(listed, Decimal(1)), source=listed.source, observed=listed.observed)
    )


def known_price(knowledge: Knowledge, model: str, ratio: Decimal | None, today: dt.date) -> UnitPrice | None:
    """The official list times max(1, claimed ratio): what is assumed of a relay that publishes no price."""
    listed = knowledge.price_of(model, today)
    if listed is None:
        return None
    factor = max(Decimal(1), ratio or Decimal(1))
    source = f"official list × {factor}: {listed.source}"
    return UnitPrice(**_rates(listed, factor), source=source, observed=listed.observed, assumed=True)


def _rates(listed: ListPrice, factor: Decimal) -> dict[str, Any]:
    names = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
    return {name: None if (value := getattr(listed, name)) is None else value * factor for name in names}


def _rows(asked: Exchange, body: str) -> tuple[LogState, str, list[dict[str, Any]]]:
    if asked.delivery != "answered" or asked.response is None:
        return "unavailable", "no_answer", []
    if asked.status == 429:
        return "limited", "rate_limited", []
    if asked.response.cut:
        return "unavailable", "too_large", []
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return "unavailable", "not_json" if asked.status == 200 else "refused", []
    if asked.status != 200 or not isinstance(answer, dict) or answer.get("success") is not True:
        return "unavailable", "refused", []
    data = answer.get("data")
    if data is None or data == []:
        return "empty", "empty", []
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        return "unavailable", "unknown_form", []
    return "read", "", data[: 2 * MAX_ROWS]


def _row(raw: dict[str, Any], account: Callable[[str], str]) -> LogRow | None:
    quota, created = raw.get("quota"), whole_number(raw.get("created_at"))
    if not isinstance(quota, int) or isinstance(quota, bool) or abs(quota) >= 2**53 or created is None:
        return None
    try:
        moment = dt.datetime.fromtimestamp(created, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return None
    kind = raw.get("type")
    return LogRow(
        exchange="",
        request_id=_short(raw.get("request_id")),
        upstream_request_id=_short(raw.get("upstream_request_id")),
        created_at=moment,
        kind=KINDS.get(kind, "other") if isinstance(kind, int) else "other",
        model=_short(raw.get("model_name")),
        quota=quota,
        prompt_tokens=whole_number(raw.get("prompt_tokens")) or 0,
        completion_tokens=whole_number(raw.get("completion_tokens")) or 0,
        is_stream=raw.get("is_stream") is True,
        group=_short(raw.get("group")),
        channel=account(str(raw["channel"])) if raw.get("channel") else "",
        other=_other(raw.get("other")),
    )


def _other(raw: Any) -> dict[str, Any]:  # noqa: ANN401
    """`other` is a JSON string, parsed a second time and cut down to the keys an assessor reads."""
    if isinstance(raw, str):
        try:
            raw = json.loads(raw) if raw else {}
        except (ValueError, RecursionError):
            return {}
    if not isinstance(raw, dict):
        return {}
    return {
        key: _short(raw[key]) if isinstance(raw[key], str) else raw[key]
        for key in KEPT
        if key in raw and _plain(raw[key])
    }


def _plain(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, list):
        return len(value) <= 20 and all(isinstance(item, str | int | float | bool) for item in value)
    return value is None or isinstance(value, str | int | float | bool)


def _by_usage(row: LogRow, sent: tuple[tuple[Exchange, Usage | None], ...], model: str, taken: set[str]) -> str | None:
    """Generations without `request_id`: time, model and tokens must fit exactly one of our exchanges."""
    fits = [
        e.id
        for e, usage in sent
        if e.id not in taken
        and usage is not None
        and _in_window(row, e)
        and row.model == (e.request.body or {}).get("model", model)
        and row.completion_tokens == usage.output
        and row.prompt_tokens in (usage.input, usage.billed_input)
        and not (e.response and e.response.header(REQUEST_ID) and row.request_id)
    ]
    return fits[0] if len(fits) == 1 else None


def _in_window(row: LogRow, exchange: Exchange) -> bool:
    start = exchange.sent_at - dt.timedelta(seconds=3)
    end = exchange.sent_at + dt.timedelta(milliseconds=exchange.elapsed_ms, seconds=120)
    return start <= row.created_at <= end


def _could_be_ours(row: LogRow, sent: tuple[tuple[Exchange, Usage | None], ...], model: str) -> bool:
    """A row inside the window of an exchange whose answer gave us no request id to join by."""
    return row.model == model and any(
        _in_window(row, e) and not (e.response and e.response.header(REQUEST_ID)) for e, _ in sent
    )


def _object(exchange: Exchange | None) -> dict[str, Any]:
    answer = exchange.answer() if exchange is not None and exchange.status == 200 else None
    return answer if isinstance(answer, dict) else {}


def _data(exchange: Exchange | None) -> dict[str, Any]:
    data = _object(exchange).get("data")
    return data if isinstance(data, dict) else {}


def _number(value: Any) -> Decimal | None:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and 0 <= number < 10**9 else None


def _short(value: Any) -> str:  # noqa: ANN401
    return value[:200] if isinstance(value, str) else ""
