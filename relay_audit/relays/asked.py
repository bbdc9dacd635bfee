"""What passes between whoever reads a relay's books and the adapter that understands them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from relay_audit.books import LogReading, LogRow, LogState, SiteFacts
from relay_audit.exchange import Exchange
from relay_audit.relays.numbers import parsed
from relay_audit.usage import Usage


@dataclass(frozen=True)
class Page:
    """One page of a relay's books, below the site's origin (or below the base address as it was given)."""

    path: str
    """May hold `{start}` and `{end}`: the first day of the run's sendings and the day after the last, UTC."""
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
    tasks: Mapping[str, str] = field(default_factory=dict)
    """Task id → the exchange that ordered it: what is charged or given back later names only the task."""
    known: dict[str, str] = field(default_factory=dict)
    """Request id → exchange of rows that an earlier reading of a short log has joined."""


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


class Found(NamedTuple):
    """What a log says: of this run, and rows of our other runs on the same key."""

    reading: LogReading
    earlier: tuple[LogRow, ...] = ()
