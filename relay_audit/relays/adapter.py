"""What every relay software's adapter answers: which of its pages a key may read, and what is read out of them.

An adapter parses; when something is fetched, and how often, is the settlement's business. The defaults are those of a
software whose books cannot be read: no page, and nothing known.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from relay_audit.books import BalanceReading, LogReading, LogState, RateReading, SiteFacts, UsageReading, When
from relay_audit.exchange import Exchange
from relay_audit.quote import UnitPrice
from relay_audit.relays import panel
from relay_audit.relays.numbers import parsed
from relay_audit.usage import Usage


@dataclass(frozen=True)
class Page:
    """One page of a relay's books, below the site's origin (or below the base address as it was given)."""

    path: str
    limited: bool = True
    """Counts against the site's limiter, which it shares with the buyer's own login."""
    at_origin: bool = True


@dataclass(frozen=True)
class Asked:
    """One page as it was answered. The text is in memory only: it may hold other people's rows."""

    exchange: Exchange
    body: str


@dataclass(frozen=True)
class Own:
    """What a run knows of its own sendings when it reads a log."""

    sent: tuple[tuple[Exchange, Usage | None], ...]
    """Relay exchanges that may have cost something, with the usage their answers reported."""
    model: str
    site: SiteFacts
    account: Callable[[str], str]
    """Hashes a name or number before it is recorded."""
    answers: tuple[Exchange, ...] = ()
    """Every exchange with the relay, free ones included: generations tell themselves by their headers."""
    since: dt.datetime | None = None
    """The first balance of this run."""
    earlier: frozenset[str] = frozenset()
    """Request ids of our other runs on this key."""


def opened(asked: Asked) -> tuple[LogState, str, Any]:  # any JSON value
    """State, our word for the reason, and the parsed answer of a page of the books."""
    exchange = asked.exchange
    if exchange.delivery != "answered" or exchange.response is None:
        return "unavailable", "no_answer", None
    if exchange.status == 429:
        return "limited", "rate_limited", None
    if exchange.response.cut:
        return "unavailable", "too_large", None
    answer = parsed(asked.body)
    if answer is None:
        return "unavailable", "not_json" if exchange.status == 200 else "refused", None
    return ("read", "", answer) if exchange.status == 200 else ("unavailable", "refused", answer)


class Adapter:
    """The books of a software that shows none."""

    name = "none"
    log: Page | None = None
    balance: Page | None = None
    usage: tuple[Page, ...] = ()
    """The OpenAI-style usage pages; recorded and compared, never the charge."""
    rate: Page | None = None
    request_ids: tuple[str, ...] = ()
    """Headers of an answer that name its row."""
    per_call = False
    """Whether the books have a row for each call: then a missing one is waited for."""

    def read_site(self, status: Exchange | None, pricing: Exchange | None, base: SiteFacts, model: str) -> SiteFacts:
        """Public facts: units, currency, version, group ratios, the model's row. A site of unknown software may still publish
        them in the commonest form."""
        return panel.read_site(status, pricing, base, model)

    def read_price(
        self, pricing: Exchange | None, model: str, group: str, site: SiteFacts, today: dt.date
    ) -> UnitPrice | None:
        """The published price of a model in a group, in site dollars; None where it cannot be computed."""
        return panel.read_price(pricing, model, group, site, today)

    def read_log(self, asked: Asked, own: Own) -> LogReading:
        """What the log says of our own sendings. Raises nothing."""
        return LogReading(at=asked.exchange.sent_at, exchange=asked.exchange.id, state="not_asked", adapter=self.name)

    def read_headers(self, own: Own, now: dt.datetime) -> LogReading | None:
        """What the answers' own headers say of their cost; None where this software writes none."""
        return None

    def read_balance(self, asked: Asked, site: SiteFacts, when: When, model: str) -> BalanceReading:
        return BalanceReading(at=asked.exchange.sent_at, exchange=asked.exchange.id, when=when, adapter=self.name)

    def read_usage(self, asked: tuple[Asked, ...], site: SiteFacts, when: When) -> UsageReading | None:
        return None

    def read_rate(self, asked: Asked, when: When) -> RateReading | None:
        return None

    def difference(self, before: BalanceReading, after: BalanceReading, site: SiteFacts) -> Decimal | None:
        """What was spent between two balances, in site dollars; None where they do not say or went back."""
        first, last = before.spent(site.quota_per_unit), after.spent(site.quota_per_unit)
        return last - first if first is not None and last is not None and last >= first else None
