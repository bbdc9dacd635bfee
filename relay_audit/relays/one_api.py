"""one-api, and what its whole family has in common: the public pages and the OpenAI-style usage pages. It has no log
that a key may read (`/api/log/self` needs a session), so its balance is what those pages say. Source: one-api 8df4a267."""

from __future__ import annotations

from decimal import Decimal

from relay_audit.books import USAGE_PAGES, BalanceReading, LogState, SiteFacts, UsageReading, When
from relay_audit.relays import dashboard
from relay_audit.relays.adapter import Adapter
from relay_audit.relays.asked import Asked

CENT = Decimal("0.01")


class OneApi(Adapter):
    name = "one_api"
    no_log: tuple[LogState, str] | None = ("unavailable", "no_log_for_keys")
    usage = dashboard.PAGES

    def read_usage(self, asked: tuple[Asked, ...], site: SiteFacts, when: When) -> UsageReading | None:
        return dashboard.read_usage(asked, site, when)

    def balance_of(self, usage: UsageReading) -> BalanceReading | None:
        if usage.state != "read" or usage.dollars is None:
            return None
        limited = usage.limit_dollars is not None and not usage.unlimited
        return BalanceReading(
            at=usage.at,
            exchange=usage.exchange,
            when=usage.when,
            adapter=self.name if self.balance is None else USAGE_PAGES,
            used=usage.dollars,
            available=usage.limit_dollars - usage.dollars if limited and usage.limit_dollars is not None else None,
            unlimited=usage.unlimited,
            step=_step(usage),
        )


def _step(usage: UsageReading) -> Decimal:
    """A page that prints whole cents may be rounded to them: a call that cost less moves it by one, or not at all."""
    printed, dollars = usage.printed, usage.dollars
    if not printed or dollars is None:
        return CENT
    whole = int(printed.normalize().as_tuple().exponent) >= -2
    return CENT * dollars / printed if whole else Decimal(0)
