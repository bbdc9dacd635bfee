"""LiteLLM's books: a cost in the header of each answer, and `/spend/logs` where the proxy has a database.

`x-litellm-response-cost` is the amount in dollars after margin and discount, `…-cost-original` the price map's; neither
is there for a model outside the map, nor on a stream, whose cost is not known when its headers leave. Source: LiteLLM
proxy 1.108.7, run by hand and read.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation
from typing import Any

from relay_audit.books import Admissions, BalanceReading, LogReading, LogRow, SiteFacts, When
from relay_audit.exchange import Exchange, whole_number
from relay_audit.relays.adapter import Adapter
from relay_audit.relays.asked import Asked, Found, Own, Page, opened
from relay_audit.relays.joining import join, summed
from relay_audit.relays.numbers import LARGEST, moment, number, short, table, to_picodollars
from relay_audit.usage import Usage

COST, ORIGINAL = "x-litellm-response-cost", "x-litellm-response-cost-original"
CALL_ID, MODEL = "x-litellm-call-id", "x-litellm-model-name"
LOGS = "/spend/logs?start_date={start}&end_date={end}&summarize=false"
KEY = "/key/info"
CAP = 1000
"""From so many rows on a list may be cut."""


class LiteLlm(Adapter):
    name = "litellm"
    log = Page(LOGS)
    balance = Page(KEY, limited=False)
    request_ids = (CALL_ID,)
    has_headers = True

    def read_headers(self, own: Own, now: dt.datetime) -> LogReading | None:
        rows = [row for exchange, usage in own.sent if (row := _from_header(exchange, usage, own)) is not None]
        if not rows:
            return None
        return LogReading(at=now, exchange="", state="read", rows=tuple(rows), adapter=self.name, source="header")

    def read_log(self, asked: Asked, own: Own) -> Found:
        state, reason, answer = opened(asked)
        reading = LogReading(
            at=asked.exchange.sent_at, exchange=asked.exchange.id, state=state, reason=reason, adapter=self.name
        )
        if state != "read":
            return Found(reading)
        if not isinstance(answer, list):
            return Found(reading.model_copy(update={"state": "unavailable", "reason": "unknown_form"}))
        if not answer:
            return Found(reading.model_copy(update={"state": "empty", "reason": "empty"}))
        read = [row for raw in answer if isinstance(raw, dict) and (row := _row(raw, own)) is not None]
        joined = join(read, own, self.request_ids, also=_answer_ids(own))
        said = {
            "rows": tuple(joined.ours),
            "foreign": summed(joined.foreign, own.since),
            "own_earlier": len(joined.earlier),
            "truncated": len(answer) >= CAP,
            "unreadable": len(answer) - len(read),
            "ahead": joined.ahead,
        }
        return Found(reading.model_copy(update=said), tuple(joined.earlier))

    def read_balance(self, asked: Asked, site: SiteFacts, when: When, model: str) -> BalanceReading:
        state, _, answer = opened(asked)
        info = table(table(answer).get("info")) if state == "read" else {}
        spent, budget = number(info.get("spend")), number(info.get("max_budget"))
        return BalanceReading(
            at=asked.exchange.sent_at,
            exchange=asked.exchange.id,
            when=when,
            adapter=self.name,
            used=spent,
            available=budget - spent if budget is not None and spent is not None else None,
            unlimited="max_budget" in info and info["max_budget"] is None,
        )


def _from_header(exchange: Exchange, usage: Usage | None, own: Own) -> LogRow | None:
    response = exchange.response
    cost = _amount(response.header(COST)) if response else None
    if response is None or cost is None:
        return None
    used = usage or Usage(input=0, output=0)
    return LogRow(
        exchange=exchange.id,
        request_id=short(response.header(CALL_ID)),
        created_at=exchange.sent_at + dt.timedelta(milliseconds=exchange.elapsed_ms),
        kind="consume",
        model=short((exchange.request.body or {}).get("model", own.model)),
        amount=cost,
        list_amount=_amount(response.header(ORIGINAL)),
        prompt_tokens=used.billed_input,
        completion_tokens=used.output,
        cache_read=used.cache_read,
        cache_write_5m=used.cache_write_5m,
        cache_write_1h=used.cache_write_1h,
        is_stream=(exchange.request.body or {}).get("stream") is True,
    )


def _amount(text: str | None) -> Decimal | None:
    """A header's number; `None` and an empty value are what LiteLLM writes where it has no price."""
    try:
        amount = Decimal(text.strip()) if text and len(text) < 64 else None
    except InvalidOperation:
        return None
    sound = amount is not None and amount.is_finite() and 0 <= amount < LARGEST
    return to_picodollars(amount) if amount is not None and sound else None


def _row(raw: dict[str, Any], own: Own) -> LogRow | None:
    spend, at = number(raw.get("spend")), moment(raw.get("endTime")) or moment(raw.get("startTime"))
    if spend is None or at is None:
        return None
    asked, model = short(raw.get("model_group")), short(raw.get("model"))
    return LogRow(
        request_id=short(raw.get("request_id")),
        created_at=at,
        kind="consume",
        model=asked or model,
        amount=to_picodollars(spend),
        prompt_tokens=whole_number(raw.get("prompt_tokens")) or 0,
        completion_tokens=whole_number(raw.get("completion_tokens")) or 0,
        channel=own.account(short(raw["model_id"])) if short(raw.get("model_id")) else "",
        admissions=Admissions(upstream_model=model if asked and model and model != asked else ""),
    )


def _answer_ids(own: Own) -> dict[str, str]:
    """A row's request id may be the answer's own id instead of the call's."""
    found: dict[str, set[str]] = {}
    for exchange, _ in own.sent:
        answer = exchange.answer()
        if isinstance(answer, dict) and isinstance(answer.get("id"), str) and answer["id"]:
            found.setdefault(answer["id"], set()).add(exchange.id)
    return {name: next(iter(ids)) for name, ids in found.items() if len(ids) == 1}
