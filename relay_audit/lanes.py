"""Refusals go in lanes, one lane per kind of fault (one request of a probe): a refusal that the relay answered (200) ends
its lane until the relay's own books were read, and for good where they cannot be. The other lanes go on meanwhile, so
that one reading settles one answer of each; what the lanes may cost together is in the approved at-most.

The canaries come before: after them the books are read once before anything else is refused, and at once where one was
answered. All of it follows from the run's events, so a resumed run stands where the first one stood.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from relay_audit.error_text import turned_away
from relay_audit.exchange import Exchange
from relay_audit.gate import GO, Decision, after_refusal, was_answered
from relay_audit.history import Moment
from relay_audit.plan import Step
from relay_audit.recorder import Recorder
from relay_audit.settlement import Settlement

SHUT = 3
"""So many repetitions in a row that were turned away at the door are the last."""
ALL = ""
"""Instead of a lane's name: no refusal of any lane is sent any more."""


class Lanes:
    def __init__(self, recorder: Recorder, settlement: Settlement) -> None:
        self.recorder = recorder
        self.settlement = settlement
        self._known: tuple[Moment, frozenset[str], frozenset[str], bool] | None = None

    def next(self, pending: Iterable[Step]) -> Step | None:
        """The next step that may be sent now; None where each one left waits for the books."""
        open_ = self._open()
        waiting = {step.lane for step, _ in open_}
        if any(step.stage == "canary" for step, _ in open_):
            return next((step for step in pending if not step.refusal), None)
        return next((step for step in pending if not step.refusal or step.lane not in waiting), None)

    def ended(self, step: Step) -> bool:
        """Whether a refusal will not be sent any more."""
        if not step.refusal:
            return False
        ended = self.recorder.history.ended_lanes
        answered, taken, shut = self._told()
        closed = ALL in ended or step.lane in ended or step.case in taken or (step.again and shut)
        return closed or bool(step.after and step.after not in answered)

    def _told(self) -> tuple[frozenset[str], frozenset[str], bool]:
        """Cases that were answered before, and those that were answered or charged: these are not for nothing any more, and
        asked no more. And whether the last repetitions met a limiter or a firewall: more of them would say nothing, and may
        bar a buyer's key."""
        history = self.recorder.history
        if self._known is None or self._known[0] != history.moment:
            charged = {e.exchange for e in history.ledger.entries if e.state == "settled" and e.amount > 0}
            cases = history.steps.cases
            sent = [e for e in history.sent() if e.step in cases]
            answered = frozenset(cases[e.step] for e in sent if was_answered(e))
            again = [e for e in sent if e.step in history.steps.refused and history.steps.refused[e.step].again]
            shut = len(again) >= SHUT and all(map(turned_away, again[-SHUT:]))
            self._known = history.moment, answered, answered | {cases[e.step] for e in sent if e.id in charged}, shut
        return self._known[1:]

    def too_dear(self, step: Step, multiple: Decimal) -> bool:
        """Whether a refusal is left unsent only because this relay takes more than its answers say; then that is said."""
        if not step.refusal or multiple <= 1:
            return False
        self.recorder.note("checkpoint.written", {"refusals_ended": "ceiling", "lane": f"{step.lane}/{step.case}"})
        return True

    def books_first(self, step: Step) -> bool:
        """Whether the books are read before this refusal: after the canaries, and where the worst that may stand
        unread in them leaves no room for one more."""
        if not step.refusal:
            return False
        unread = self._unread_canaries()
        if unread and step.stage != "canary":
            return True
        history = self.recorder.history
        quote = history.quote
        exposed = Decimal(0)
        for own, exchange in (*unread, *self._open()):
            entry, price = history.ledger.entry(exchange.id), quote.price_of(own.id) if quote else None
            exposed += price.at_most - min(entry.amount, price.at_most) if entry and price else Decimal(0)
        mine = quote.price_of(step.id) if quote else None
        worst = exposed + (mine.at_most if mine else Decimal(0))
        return bool(exposed) and history.ledger.committed + worst > history.ledger.ceiling

    async def read(self, pending: list[Step]) -> Decision:
        """Reads the books for all that stands unread; a lane whose answer cannot be found in them ends."""
        asked = [*self._unread_canaries(), *self._open()]
        charged = await self.settlement.charges_of([exchange for _, exchange in asked])
        self.recorder.note("checkpoint.written", {"books_asked": [exchange.id for _, exchange in asked]})
        for step, exchange in asked:
            decision = self._judged(step, exchange, charged.get(exchange.id))
            if decision.reason == "line_exceeded":
                return decision
            if not decision.go:
                self._end(step, decision.reason or "books_unreadable", pending)
        return GO

    def _judged(self, step: Step, exchange: Exchange, charged: Decimal | None) -> Decision:
        quote = self.recorder.history.quote
        price = quote.price_of(step.id) if quote else None
        if price is None:
            raise ValueError(f"{step.id} has no price: it was never quoted")
        accepted = was_answered(exchange) and step.key == "own"  # what came with nobody's key is on nobody's books
        return after_refusal(accepted, charged, price)

    def _end(self, step: Step, reason: str, pending: list[Step]) -> None:
        """Said only where something is left unsent by it."""
        lane = ALL if step.stage == "canary" else step.lane
        if any(left.refusal and lane in (ALL, left.lane) for left in pending):
            self.recorder.note("checkpoint.written", {"refusals_ended": reason, "lane": lane})

    def _open(self) -> list[tuple[Step, Exchange]]:
        """Refusals that were answered and not looked for in the books yet."""
        return [(step, exchange) for step, exchange in self._unread() if was_answered(exchange)]

    def _unread_canaries(self) -> list[tuple[Step, Exchange]]:
        return [(s, e) for s, e in self._unread() if s.stage == "canary" and not was_answered(e)]

    def _unread(self) -> list[tuple[Step, Exchange]]:
        history = self.recorder.history
        steps = history.steps.refused
        return [(steps[e.step], e) for e in history.sent() if e.step in steps and e.id not in history.books_asked]
