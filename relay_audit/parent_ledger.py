"""Above the ledgers of runs, where somebody wants one: what several runs may come to together, in a window of time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from pydantic import Field

from relay_audit.words import Frozen


class Commitment(Frozen):
    """The most that one run can have spent."""

    run: str
    amount: Decimal = Field(ge=0)
    at: dt.datetime
    """When it was last admitted, or settled at more. What books say later of the same spending does not make it younger."""


class ParentLedger(Frozen):
    """A value; a commitment replaces the run's earlier one."""

    ceiling: Decimal | None = None
    """None: it only counts."""
    window: dt.timedelta | None = None
    """How far back commitments count; None for all of them."""
    commitments: tuple[Commitment, ...] = ()

    def committed(self, now: dt.datetime, *, beside: str = "") -> Decimal:
        """What the runs in the window can have spent; `beside` leaves one out."""
        return sum((row.amount for row in self.commitments if row.run != beside and self._counts(row, now)), Decimal(0))

    def room(self, run: str, now: dt.datetime) -> Decimal | None:
        """What a run may come to in all; None where there is no ceiling. Never negative."""
        return None if self.ceiling is None else max(self.ceiling - self.committed(now, beside=run), Decimal(0))

    def admits(self, run: str, amount: Decimal, now: dt.datetime) -> bool:
        room = self.room(run, now)
        return room is None or amount <= room

    def commit(self, run: str, amount: Decimal, now: dt.datetime) -> ParentLedger:
        rest = tuple(row for row in self.commitments if row.run != run)
        return self.model_copy(update={"commitments": (*rest, Commitment(run=run, amount=amount, at=now))})

    def settle(self, run: str, amount: Decimal, now: dt.datetime) -> ParentLedger:
        """What a run came to: dated when it was admitted, but for what is more than that."""
        before = self.of(run)
        return self.commit(run, amount, before.at if before and amount <= before.amount else now)

    def of(self, run: str) -> Commitment | None:
        return next((row for row in self.commitments if row.run == run), None)

    def _counts(self, row: Commitment, now: dt.datetime) -> bool:
        return self.window is None or now - row.at < self.window
