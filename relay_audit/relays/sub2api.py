"""sub2api's books for a key: running totals and the multiplier of the moment, no rows.

`GET /v1/usage` answers also for an exhausted or expired key; `cost` is its own price list, `actual_cost` what was taken,
so the buyer's rate is `actual_cost / cost`. `account_cost` is the operator's own and of no concern. `GET
/v1/sub2api/billing` (since 2026-07, missing in some forks) says the multiplier that holds now. A key in the URL is
refused by it, and never tried. Sources: a sub2api fork 0.1.121 (4a714a7e); the schema of the billing page of 2026-07.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from relay_audit.books import Allowance, BalanceReading, RateReading, SiteFacts, Totals, When
from relay_audit.exchange import whole_number
from relay_audit.relays.adapter import Adapter
from relay_audit.relays.asked import Asked, Page, opened
from relay_audit.relays.numbers import number, rows, short, signed, table

USAGE, BILLING = "/v1/usage", "/v1/sub2api/billing"
COUNTS = ("requests", "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens")


class Sub2Api(Adapter):
    name = "sub2api"
    balance = Page(USAGE)
    rate = Page(BILLING, limited=False)

    def read_balance(self, asked: Asked, site: SiteFacts, when: When, model: str) -> BalanceReading:
        state, _, answer = opened(asked)
        data = table(answer) if state == "read" else {}
        quota = table(data.get("quota"))
        left = signed(quota.get("remaining")) if quota else signed(data.get("remaining", data.get("balance")))
        stats = [row for row in rows(data.get("model_stats")) if isinstance(row, dict) and row.get("model") == model]
        unlimited = left is not None and left < 0 and not quota and "balance" not in data
        return BalanceReading(
            at=asked.exchange.sent_at,
            exchange=asked.exchange.id,
            when=when,
            adapter=self.name,
            available=None if unlimited else left,
            unlimited=unlimited,
            totals=_totals(table(data.get("usage")).get("total")),
            allowances=_allowances(data, quota),
            of_model=_totals(stats[0]) if stats else None,
        )

    def read_rate(self, asked: Asked, when: When) -> RateReading | None:
        state, _, answer = opened(asked)
        data = table(answer)
        if state != "read" or data.get("object") != "sub2api.key_billing":
            return None
        return RateReading(
            at=asked.exchange.sent_at,
            exchange=asked.exchange.id,
            when=when,
            multiplier=_first(data, "effective_rate_multiplier", "resolved_rate_multiplier", "group_rate_multiplier"),
            base=_first(data, "resolved_rate_multiplier", "user_rate_multiplier", "group_rate_multiplier"),
            group=number(data.get("group_rate_multiplier")),
            peak=data["peak_rate_enabled"] if isinstance(data.get("peak_rate_enabled"), bool) else None,
            peak_multiplier=number(data.get("peak_rate_multiplier")),
            peak_start=short(data.get("peak_start")),
            peak_end=short(data.get("peak_end")),
            timezone=short(data.get("timezone")),
            scope=short(data.get("billing_scope")),
        )


def _totals(raw: Any) -> Totals | None:  # noqa: ANN401
    """None where a total is no number: half a total would make a wrong difference."""
    data = table(raw)
    cost, charged = number(data.get("cost")), number(data.get("actual_cost"))
    counts = {name: whole_number(data.get(name, 0)) for name in COUNTS}
    if charged is None or any(value is None for value in counts.values()):
        return None
    return Totals(list_cost=cost or Decimal(0), cost=charged, **{name: value or 0 for name, value in counts.items()})


def _allowances(data: dict[str, Any], quota: dict[str, Any]) -> tuple[Allowance, ...]:
    """The key's own limit, then the windows of its plan."""
    found = [("", quota)] if quota else []
    found += [(short(row.get("window")), row) for row in rows(data.get("rate_limits"))[:8] if isinstance(row, dict)]
    return tuple(
        Allowance(
            window=window,
            limit=number(row.get("limit")),
            used=number(row.get("used")),
            remaining=signed(row.get("remaining")),
        )
        for window, row in found
    )


def _first(data: dict[str, Any], *names: str) -> Decimal | None:
    return next((value for name in names if (value := number(data.get(name))) is not None), None)
