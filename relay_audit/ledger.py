"""The money of a run as a state machine: reserve before the first byte, then settle, release, or stay unconfirmed."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from relay_audit.words import Frozen, Side

State = Literal["reserved", "settled", "released", "unconfirmed"]
_MOVES: dict[State, tuple[State, ...]] = {
    "reserved": ("settled", "released", "unconfirmed"),
    "unconfirmed": ("settled", "released"),
    "settled": ("settled",),
    "released": (),
}
"""`unconfirmed` moves only when the relay's own log or balance says what happened; `settled` may be corrected by it."""


class Entry(Frozen):
    exchange: str
    line: str
    side: Side
    state: State
    amount: Decimal = Field(ge=0)
    """Reserved or unconfirmed: the worst case. Settled: what it cost. Released: zero."""
    basis: str = ""
    """`usage_at_quoted_price`, `relay_log`, `worst_case`, `not_sent`."""


class Ledger(Frozen):
    """A value; every move gives a new one. Raises ValueError on a move that has no arrow."""

    ceiling: Decimal = Decimal(0)
    entries: tuple[Entry, ...] = ()

    def reserve(self, exchange: str, line: str, side: Side, at_most: Decimal) -> Ledger:
        if self.entry(exchange) is not None:
            raise ValueError(f"{exchange} has an entry already")
        return self._with(
            (*self.entries, Entry(exchange=exchange, line=line, side=side, state="reserved", amount=at_most))
        )

    def settle(self, exchange: str, amount: Decimal, basis: str) -> Ledger:
        return self._move(exchange, "settled", amount, basis)

    def release(self, exchange: str, basis: str = "not_sent") -> Ledger:
        return self._move(exchange, "released", Decimal(0), basis)

    def leave_unconfirmed(self, exchange: str) -> Ledger:
        entry = self._known(exchange)
        return self._move(exchange, "unconfirmed", entry.amount, "worst_case")

    def entry(self, exchange: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.exchange == exchange), None)

    def total(self, state: State, side: Side | None = None, line: str | None = None) -> Decimal:
        return sum(
            (e.amount for e in self.entries if e.state == state and side in (None, e.side) and line in (None, e.line)),
            Decimal(0),
        )

    @property
    def committed(self) -> Decimal:
        """What counts against the ceiling: settled, reserved and unconfirmed."""
        return self.total("settled") + self.total("reserved") + self.total("unconfirmed")

    @property
    def room(self) -> Decimal:
        return self.ceiling - self.committed

    def _known(self, exchange: str) -> Entry:
        entry = self.entry(exchange)
        if entry is None:
            raise ValueError(f"{exchange} has no entry")
        return entry

    def _move(self, exchange: str, state: State, amount: Decimal, basis: str) -> Ledger:
        entry = self._known(exchange)
        if state not in _MOVES[entry.state]:
            raise ValueError(f"{exchange}: {entry.state} does not become {state}")
        moved = Entry(exchange=exchange, line=entry.line, side=entry.side, state=state, amount=amount, basis=basis)
        return self._with(tuple(moved if e.exchange == exchange else e for e in self.entries))

    def _with(self, entries: tuple[Entry, ...]) -> Ledger:
        return self.model_copy(update={"entries": entries})
