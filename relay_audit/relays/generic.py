"""A site of unknown software that imitates OpenAI's old usage pages: what it says was used before and after.

Such a counter is recorded and compared, and never becomes a charge: see `dashboard`."""

from __future__ import annotations

from decimal import Decimal

from relay_audit.books import BalanceReading, LogState, UsageReading
from relay_audit.relays.one_api import OneApi

CENT = Decimal("0.01")


class Generic(OneApi):
    name = "generic"
    no_log: tuple[LogState, str] | None = None

    def balance_of(self, usage: UsageReading) -> BalanceReading | None:
        if usage.state != "read" or usage.dollars is None:
            return None
        limited = usage.limit_dollars is not None and not usage.unlimited
        return BalanceReading(
            at=usage.at,
            exchange=usage.exchange,
            when=usage.when,
            adapter=self.name,
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
