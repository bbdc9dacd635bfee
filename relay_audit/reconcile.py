"""Do the rows of a relay's books add up to what the balance says? Both are the relay's word: neither is privileged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal

from relay_audit.books import BalanceReading, LogReading, LogRow, coarse
from relay_audit.words import Frozen


class Reconciliation(Frozen):
    """One span of the balance against the rows in it, in site dollars."""

    since: dt.datetime
    until: dt.datetime
    fell: Decimal
    """By how much the balance fell."""
    rows: Decimal
    """What our own rows took, refunds taken off."""
    foreign: Decimal
    """What rows of other traffic took in the same span."""
    foreign_rows: int
    rounded: Decimal = Decimal(0)
    """How much of the gap may be the rounding of the balance alone."""

    @property
    def gap(self) -> Decimal:
        """What the balance lost and no row says; negative where the rows say more."""
        return self.fell - self.rows - self.foreign


def reconcile(balance: tuple[BalanceReading, ...], log: tuple[LogReading, ...], per_unit: int) -> Reconciliation | None:
    """The first balance against the last reading of the log and the lowest balance since: what comes later may be a reserve
    given back, or somebody else's call that no log shows yet. None where either does not say. A plan
    that pays instead of the wallet still moves the key's counter, so nothing is left out for it."""
    told = [(reading, spent) for reading in balance if (spent := reading.spent(per_unit)) is not None]
    read = [reading for reading in log if reading.state == "read"]
    if len(told) < 2 or not read or told[0][0].adapter != told[-1][0].adapter:
        return None
    (first, before), books = told[0], read[-1]
    since = [pair for pair in reversed(told[1:]) if pair[0].at >= books.at] or [told[-1]]
    last, after = min(since, key=lambda pair: pair[1])
    if after < before or last.at <= first.at or books.truncated_before(first.at):
        return None
    unit = any(row.quota is not None for row in books.rows) or books.foreign.quota != 0
    foreign = Decimal(books.foreign.within_quota) / per_unit if unit else books.foreign.within_amount
    return Reconciliation(
        since=first.at,
        until=last.at,
        fell=after - before,
        rows=sum((row.charged(per_unit) for row in rows_of(read)), Decimal(0)),
        foreign=foreign,
        foreign_rows=books.foreign.within,
        rounded=coarse((first, last), per_unit),
    )


def rows_of(read: list[LogReading]) -> list[LogRow]:
    """The last reading's rows, and of our calls those that only an earlier one shows: they were charged all the same."""
    last = {row.exchange for row in read[-1].rows}
    dropped = [row for exchange, rows in rows_by_exchange(read).items() if exchange not in last for row in rows]
    return [*read[-1].rows, *dropped]


def rows_by_exchange(readings: Iterable[LogReading]) -> dict[str, tuple[LogRow, ...]]:
    """Each sending's rows by the latest reading that shows any: a log of the newest few has dropped them since."""
    found: dict[str, tuple[LogRow, ...]] = {}
    for reading in readings:
        joined = {row.exchange for row in reading.rows if row.exchange}
        found |= {xid: tuple(row for row in reading.rows if row.exchange == xid) for xid in joined}
    return found
