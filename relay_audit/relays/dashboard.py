"""OpenAI's old usage pages as one-api's family imitates them: `/v1/dashboard/billing/usage` and `…/subscription`.

Not to be trusted as a charge (new-api 823e2630): start and end dates are ignored, the unit follows the site's display
type, the counter may be the whole user's, it moves when a call is reserved and may not come back. Errors come as 200.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from relay_audit.books import SiteFacts, UsageReading, When
from relay_audit.relays.asked import Asked, Page, opened
from relay_audit.relays.numbers import number, table

USAGE, SUBSCRIPTION = "/v1/dashboard/billing/usage", "/v1/dashboard/billing/subscription"
PAGES = (Page(USAGE, limited=False), Page(SUBSCRIPTION, limited=False))
UNLIMITED = Decimal(100_000_000)
CENTS = 100


def read_usage(asked: tuple[Asked, ...], site: SiteFacts, when: When) -> UsageReading | None:
    """Both pages as one reading; None where nothing was asked."""
    if not asked:
        return None
    state, reason, answer = opened(asked[0])
    total = number(table(answer).get("total_usage")) if state == "read" and "error" not in table(answer) else None
    exchange = asked[0].exchange
    if total is None:
        return UsageReading(
            at=exchange.sent_at, exchange=exchange.id, when=when, state="unavailable", reason=reason or "unknown_form"
        )
    printed, limit = total / CENTS, _limit(asked[1:])
    return UsageReading(
        at=exchange.sent_at,
        exchange=exchange.id,
        when=when,
        state="read",
        printed=printed,
        dollars=site.in_dollars(printed),
        limit=limit,
        limit_dollars=None if limit is None else site.in_dollars(limit),
        unlimited=limit is not None and limit >= UNLIMITED,
        display_type=site.display_type,
    )


def _limit(asked: tuple[Asked, ...]) -> Decimal | None:
    if not asked:
        return None
    state, _, answer = opened(asked[0])
    data: dict[str, Any] = table(answer) if state == "read" else {}
    return number(data.get("hard_limit_usd"))
