"""The books are read after the first call, before the rest is sent, and again before what stands unread in them could
pass the ceiling.

A relay may answer with a usage like anybody's and write a hundred times that into its log, or take it from the balance
alone: at the end of a run that would be found, and paid. A row that is late says nothing; then the balance is asked. All
of it follows from the run's events, so a resumed run stands where the first one stood.
"""

from __future__ import annotations

from decimal import Decimal

from relay_audit.exchange import Exchange
from relay_audit.gate import was_answered
from relay_audit.multiple import BOOKS, multiple_of, unread
from relay_audit.plan import Step
from relay_audit.recorder import Recorder
from relay_audit.settlement import Settlement

SUSPECT = 10
"""What stands unread may not pass the ceiling alone if it cost so many times its forecast."""


class EarlyLook:
    def __init__(self, recorder: Recorder, settlement: Settlement) -> None:
        self.recorder = recorder
        self.settlement = settlement

    def multiple(self) -> Decimal:
        """The worst multiple of an answer's own usage that the books have shown so far. A balance is no witness where
        other traffic was seen on the key."""
        history = self.recorder.history
        shared = any(reading.foreign.count or reading.own_earlier for reading in history.log)
        balance = () if shared else history.balance
        return multiple_of(history.ledger, history.exchanges, balance, history.site.quota_per_unit)

    def unread(self) -> Decimal:
        history = self.recorder.history
        return unread(history.ledger, history.books_asked)

    def standing(self) -> Decimal:
        """What stands by forecast alone, asked after or not: rows that are late are no rows that say less. Where the books
        have shown a multiple, all of it is reckoned at that."""
        return unread(self.recorder.history.ledger)

    async def before(self, step: Step) -> bool:
        """Reads the books before a step where that is due; whether it did. Refusals that were answered have a rule of their
        own. Where each answer names its own cost, that is no reading, and is always due."""
        if self.settlement.adapter.has_headers:
            self.settlement.heed_headers()
        answered = self._answered()
        calls = [e for e in answered if not self._was_looked_for(e)]
        if not calls or not self._due(step, nothing_yet=len(calls) == len(answered)):
            return False
        known = self.multiple()
        await self.settlement.look_early(calls[-1])
        if self.multiple() > known:
            again = (
                self.settlement.rows_again(calls[-1]) if self._in_books(calls[-1]) else self.settlement.balance_again()
            )
            await again
        self.recorder.note("checkpoint.written", {"books_asked": [call.id for call in calls]})
        return True

    def _due(self, step: Step, *, nothing_yet: bool) -> bool:
        """`nothing_yet`: no call of this run was looked for."""
        if nothing_yet:
            return True
        history = self.recorder.history
        price = history.quote.price_of(step.id) if history.quote else None
        multiple, open_ = self.multiple(), self.unread()
        more = self.standing() * (multiple - 1)
        worst = history.ledger.committed + more + (price.at_most if price else Decimal(0)) * multiple
        return open_ * SUSPECT > history.ledger.ceiling or (multiple > 1 and worst > history.ledger.ceiling)

    def _in_books(self, call: Exchange) -> bool:
        entry = self.recorder.history.ledger.entry(call.id)
        return entry is not None and entry.basis == BOOKS

    def _was_looked_for(self, call: Exchange) -> bool:
        """A call that does not stand in the ledger by forecast alone, or was asked for in the books."""
        return call.id in self.recorder.history.books_asked or self._in_books(call)

    def _answered(self) -> list[Exchange]:
        """Answered calls with a usage that can be read: an answer without one stands at its worst case anyhow."""
        history = self.recorder.history
        legal = history.steps.legal
        return [e for e in history.sent() if e.charge is not None and e.step in legal and was_answered(e)]
