"""claude-relay-service: `GET /api/v1/usage` shows a key its totals and `recentRecords`, one per call, in dollars.

Only the newest 20 records are shown (200 are kept), so an audit reads them in pieces. `cost` is what was charged,
`realCost` the price list: their quotient is the multiplier. `requestId` has another shape than the `X-Request-ID` of the
answer, so records join by time, model and tokens. `model` is the one that really answered. Sources: v1.1.314 run by
hand; its `recordLimit`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from relay_audit.books import Admissions, BalanceReading, LogReading, LogRow, SiteFacts, Totals, When
from relay_audit.exchange import whole_number
from relay_audit.relays.adapter import Adapter
from relay_audit.relays.asked import Asked, Found, Own, Page, opened
from relay_audit.relays.joining import join, summed
from relay_audit.relays.numbers import moment, number, short, table, to_picodollars

USAGE = "/api/v1/usage"
SHOWN = 20


class ClaudeRelayService(Adapter):
    name = "claude_relay_service"
    log = Page(USAGE, limited=False)
    balance = Page(USAGE, limited=False)
    window = SHOWN

    def read_log(self, asked: Asked, own: Own) -> Found:
        state, reason, answer = opened(asked)
        reading = LogReading(
            at=asked.exchange.sent_at, exchange=asked.exchange.id, state=state, reason=reason, adapter=self.name
        )
        if state != "read":
            return Found(reading)
        usage = table(table(answer).get("usage")) or table(table(table(answer).get("data")).get("usage"))
        records = usage.get("recentRecords")
        if not isinstance(records, list):
            return Found(reading.model_copy(update={"state": "unavailable", "reason": "unknown_form"}))
        if not records:
            return Found(reading.model_copy(update={"state": "empty", "reason": "empty"}))
        read = [row for raw in records if isinstance(raw, dict) and (row := _row(raw, own)) is not None]
        joined = join(read, own, ())
        said = {
            "rows": tuple(joined.ours),
            "foreign": summed(joined.foreign, own.since),
            "unreadable": len(records) - len(read),
            "ahead": joined.ahead,
        }
        return Found(reading.model_copy(update=said))

    def read_balance(self, asked: Asked, site: SiteFacts, when: When, model: str) -> BalanceReading:
        state, _, answer = opened(asked)
        usage = table(table(answer).get("usage")) if state == "read" else {}
        return BalanceReading(
            at=asked.exchange.sent_at,
            exchange=asked.exchange.id,
            when=when,
            adapter=self.name,
            totals=_totals(table(usage.get("total"))),
        )


def _row(raw: dict[str, Any], own: Own) -> LogRow | None:
    cost, at = number(raw.get("cost")), moment(raw.get("timestamp"))
    if cost is None or at is None:
        return None
    model = short(raw.get("model"))
    five, hour = whole_number(raw.get("ephemeral5mTokens")), whole_number(raw.get("ephemeral1hTokens"))
    written = whole_number(raw.get("cacheCreateTokens"))
    if not five and not hour:
        five = written
    stream = raw.get("stream")
    return LogRow(
        request_id=short(raw.get("requestId")),
        created_at=at,
        kind="consume",
        model=model,
        amount=to_picodollars(cost),
        list_amount=number(raw.get("realCost")),
        prompt_tokens=whole_number(raw.get("inputTokens")) or 0,
        completion_tokens=whole_number(raw.get("outputTokens")) or 0,
        cache_read=whole_number(raw.get("cacheReadTokens")),
        cache_write_5m=five,
        cache_write_1h=hour,
        is_stream=stream if isinstance(stream, bool) else None,
        channel=_account(raw, own.account),
        admissions=Admissions(upstream_model=model if model and model != own.model else ""),
    )


def _account(raw: dict[str, Any], account: Callable[[str], str]) -> str:
    named = short(raw.get("accountId"))
    return account(named) if named else ""


def _totals(total: dict[str, Any]) -> Totals | None:
    """None where the key's cost so far is not told: counts alone are no balance."""
    cost = number(total.get("cost"))
    if cost is None:
        return None
    names = {
        "requests": "requests",
        "input_tokens": "inputTokens",
        "output_tokens": "outputTokens",
        "cache_creation_tokens": "cacheCreateTokens",
        "cache_read_tokens": "cacheReadTokens",
    }
    counts = {ours: whole_number(total.get(theirs)) or 0 for ours, theirs in names.items()}
    return Totals(list_cost=number(total.get("realCost")) or Decimal(0), cost=cost, **counts)
