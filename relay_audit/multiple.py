"""By how much a relay's own books charge more than its answers say, as far as they were read. Pure.

An answer's usage at the quoted price is a forecast; the row of a log, or the fall of a balance, is the charge. Where the
two differ, everything that is still to be sent is reckoned at the worst multiple seen so far.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from relay_audit.books import BalanceReading, coarse
from relay_audit.exchange import Exchange
from relay_audit.ledger import Entry, Ledger

EVEN = Decimal("1.05")
"""Up to this a multiple is one: prices are printed rounded, and a charge is a whole number of units."""
ONE = Decimal(1)
BOOKS = "relay_log"
FORECAST = "usage_at_quoted_price"


def from_books(settled: Sequence[Entry]) -> bool:
    """Whether the relay's own rows say what these cost. A refusal has no row and cost nothing; refusals alone say
    nothing of rows."""
    told = [entry.basis == BOOKS for entry in settled if entry.amount]
    return bool(told) and all(told)


def multiple_of(
    ledger: Ledger, exchanges: Mapping[str, Exchange], balance: Sequence[BalanceReading], per_unit: int
) -> Decimal:
    """The worst multiple of the forecast that any call was charged, at least 1. One quota unit per call is rounding.

    The rows of a log say it call by call. A balance says it only of calls that no row was found for: by all that it fell
    since its first reading (site dollars), other traffic included, since that cannot be told apart there."""
    unit = ONE / per_unit
    by_rows = [
        (entry.amount - unit) / forecast
        for entry in ledger.entries
        if entry.side == "relay" and entry.basis == BOOKS and (forecast := _forecast(exchanges, entry.exchange))
    ]
    return _even(max([*by_rows, *_by_balance(ledger, exchanges, balance, per_unit)], default=ONE))


def unread(ledger: Ledger, asked: Iterable[str] = ()) -> Decimal:
    """What stands in the ledger by forecast alone, of calls that the books were not asked about yet; quote currency."""
    known = frozenset(asked)
    return sum((e.amount for e in ledger.entries if _is_forecast(e) and e.exchange not in known), Decimal(0))


def _by_balance(
    ledger: Ledger, exchanges: Mapping[str, Exchange], balance: Sequence[BalanceReading], per_unit: int
) -> Iterable[Decimal]:
    told = [(reading, spent) for reading in balance if (spent := reading.spent(per_unit)) is not None]
    ours = [exchanges[e.exchange].sent_at for e in ledger.entries if e.side == "relay" and e.exchange in exchanges]
    pairs = itertools.pairwise(told)
    if any(later > before and not any(a.at <= t < b.at for t in ours) for (a, before), (b, later) in pairs):
        return  # it falls while we send nothing: others spend on this key
    for reading, spent in told[1:]:
        if reading.adapter != told[0][0].adapter:
            continue
        since = [e for e in ledger.entries if e.side == "relay" and _between(exchanges, e, told[0][0], reading)]
        forecast = sum((e.amount for e in since), Decimal(0))
        if forecast and any(_is_forecast(entry) for entry in since):
            rounded = len(since) * ONE / per_unit + coarse((one for one, _ in told), per_unit)
            yield (spent - told[0][1] - rounded) / forecast


def _between(exchanges: Mapping[str, Exchange], entry: Entry, first: BalanceReading, last: BalanceReading) -> bool:
    exchange = exchanges.get(entry.exchange)
    return exchange is not None and first.at <= exchange.sent_at < last.at


def _is_forecast(entry: Entry) -> bool:
    return entry.side == "relay" and entry.state == "settled" and entry.basis == FORECAST


def _forecast(exchanges: Mapping[str, Exchange], xid: str) -> Decimal:
    exchange = exchanges.get(xid)
    return (exchange.charge if exchange is not None else None) or Decimal(0)


def _even(multiple: Decimal) -> Decimal:
    return multiple if multiple > EVEN else ONE
