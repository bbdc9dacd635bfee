"""What every relay software's adapter answers: which of its pages a key may read, and what is read out of them.

An adapter parses; when something is fetched, and how often, is the settlement's business. The defaults are those of a
software whose books cannot be read: no page, and nothing known.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from relay_audit.books import (
    BalanceReading,
    LogReading,
    LogRow,
    LogState,
    Published,
    RateReading,
    SiteFacts,
    UsageReading,
    When,
)
from relay_audit.exchange import Exchange
from relay_audit.quote import UnitPrice
from relay_audit.relays import panel
from relay_audit.relays.asked import Asked, Found, Own, Page
from relay_audit.relays.joining import join


class Adapter:
    """The books of a software that shows none."""

    name = "none"
    log: Page | None = None
    no_log: tuple[LogState, str] | None = None
    """What is known beforehand of a log that no key may read: the state and our word for the reason."""
    balance: Page | None = None
    usage: tuple[Page, ...] = ()
    """The OpenAI-style usage pages; recorded and compared, never the charge."""
    rate: Page | None = None
    ratios: Page | None = None
    """A list of ratios beside the price list; it counts against the limiter too."""
    request_ids: tuple[str, ...] = ()
    """Headers of an answer that name its row."""
    has_headers = False
    """Whether its answers name their own cost."""
    window = 0
    """So many of its newest rows the log shows, where that is fewer than an audit sends; 0 where it shows all."""

    def read_site(self, status: Exchange | None, pricing: Exchange | None, base: SiteFacts, model: str) -> SiteFacts:
        """Public facts: units, currency, version, group ratios, the model's row. A site of unknown software may still publish
        them in the commonest form."""
        return panel.read_site(status, pricing, base, model)

    def read_price(
        self, pricing: Exchange | None, model: str, group: str, site: SiteFacts, today: dt.date
    ) -> UnitPrice | None:
        """The published price of a model in a group, in site dollars; None where it cannot be computed."""
        return panel.read_price(pricing, model, group, site, today)

    def read_ratios(self, asked: Asked, model: str) -> Published | None:
        return None

    def read_log(self, asked: Asked, own: Own) -> Found:
        """What the log says of our own sendings. Raises nothing."""
        exchange = asked.exchange
        return Found(LogReading(at=exchange.sent_at, exchange=exchange.id, state="not_asked", adapter=self.name))

    def rejoined(self, rows: tuple[LogRow, ...], own: Own, now: dt.datetime) -> LogReading:
        """A reading of rows of this run that were read by another one."""
        joined = join(list(rows), own, self.request_ids)
        return LogReading(at=now, exchange="", state="read", rows=tuple(joined.ours), adapter=self.name)

    def read_headers(self, own: Own, now: dt.datetime) -> LogReading | None:
        """What the answers' own headers say of their cost; None where this software writes none."""
        return None

    def read_balance(self, asked: Asked, site: SiteFacts, when: When, model: str) -> BalanceReading:
        return BalanceReading(at=asked.exchange.sent_at, exchange=asked.exchange.id, when=when, adapter=self.name)

    def read_usage(self, asked: tuple[Asked, ...], site: SiteFacts, when: When) -> UsageReading | None:
        return None

    def balance_of(self, usage: UsageReading) -> BalanceReading | None:
        """A balance made of the usage pages, for a software that has no better one."""
        return None

    def read_rate(self, asked: Asked, when: When) -> RateReading | None:
        return None

    def difference(self, before: BalanceReading, after: BalanceReading, site: SiteFacts) -> Decimal | None:
        """What was spent between two balances, in site dollars; None where they do not say or went back."""
        first, last = before.spent(site.quota_per_unit), after.spent(site.quota_per_unit)
        return last - first if first is not None and last is not None and last >= first else None
