"""An approved plan is sent: relay steps one at a time, the official lane beside them, the relay's own log afterwards.

Every chargeable step passes the gate, has its intent and reservation on disk before its first byte, and is sent once.
What has no outcome stays unconfirmed at its worst case until the relay's log says what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from relay_audit.acquisition import WAITING, Films
from relay_audit.allowance import Allowance
from relay_audit.early_look import EarlyLook
from relay_audit.errors import Overtaken, RelayAuditError
from relay_audit.events import Draft
from relay_audit.exchange import Exchange, says_error
from relay_audit.film_lane import FilmLane
from relay_audit.free_questions import Sides, ask_officials, way
from relay_audit.gate import Decision, breaker, next_send
from relay_audit.lanes import Lanes
from relay_audit.plan import Step
from relay_audit.quote import Approval, Line, StepPrice, charge_of
from relay_audit.recorder import Recorder, as_exchange
from relay_audit.second_look import look_again
from relay_audit.settlement import Settlement
from relay_audit.transport import Answer, Outgoing
from relay_audit.usage import read_usage
from relay_audit.video import read_task
from relay_audit.words import Side

WISHES = ("cancelled", "paused", "requoted")
"""Why a lane ended that somebody has asked for; a wish may be taken back before the lanes have met."""
MONTH = "month_ceiling"
AHEAD = Decimal("1.25")
"""How far above the next worst case the record of all runs is raised at once, so that a cheap call needs no write there."""


class Runner:
    """One approved run at work. `run` ends it with exactly one terminal event, or leaves it as somebody asked; a process
    that dies can be followed by another `Runner` on the same folder. Signals are heard before every chargeable step."""

    def __init__(
        self,
        recorder: Recorder,
        sides: Sides,
        settlement: Settlement,
        allowance: Allowance | None = None,
        films: Films | None = None,
    ) -> None:
        self.recorder = recorder
        self.sides = sides
        self.settlement = settlement
        self.lanes = Lanes(recorder, settlement)
        self.early = EarlyLook(recorder, settlement)
        self.allowance = allowance
        self.films = films
        self._admitted = Decimal(0)
        self._relay_moved = asyncio.Event()
        """Something came back from the relay, or nothing will any more."""

    async def run(self, approval: Approval) -> None:
        """Sends what is left of the plan within the approval and completes the run."""
        for xid in self.recorder.history.unanswered():
            self.recorder.give_up(xid)
        if self._left():
            return
        self.recorder.state("running")
        await self.settlement.before()
        while (stopped := await self._both_lanes(approval)) in WISHES:
            if self._left():
                return
            approval = self.recorder.history.approved() or approval
        if stopped == WAITING:
            return  # whoever comes back asks after the same task
        if stopped == MONTH:
            self.recorder.checkpoint("stopped", reason=MONTH)
            self.recorder.state("budget_limited", MONTH)
            return
        if self._left():
            return
        await asyncio.gather(self._official("after", closing=True), self.settlement.after())
        if self._wish() != "cancelled":
            await look_again(self.settlement)
        self._end(stopped)

    def _left(self) -> bool:
        """Whether somebody has asked to stop here; then the run is left as they asked."""
        wish = self.recorder.catch_up().wish
        if wish == "cancelled":
            self.recorder.end_cancelled()
        elif wish == "paused":
            self.recorder.checkpoint("paused")
            self.recorder.state("paused", "asked")
        return bool(wish)

    def _end(self, stopped: str) -> None:
        """The terminal event; a cancel that came before it is the end instead."""
        self.recorder.checkpoint("finished", reason=stopped)
        while True:
            if self.recorder.catch_up().wish == "cancelled":
                self.recorder.end_cancelled()
                return
            with contextlib.suppress(Overtaken):
                self.recorder.note_all([Draft("run.completed", {"stopped": stopped})], after=self.recorder.history.seq)
                return

    def _wish(self) -> str:
        return self.recorder.catch_up().wish

    async def _both_lanes(self, approval: Approval) -> str:
        """What breaks in one lane is raised when the other has ended: a paid request in flight is not abandoned."""
        relay_lane = asyncio.ensure_future(self._films(approval) or self._relay(approval))
        relay_lane.add_done_callback(lambda _: self._relay_moved.set())
        lanes = (self._official_lane(approval, relay_lane), relay_lane)
        control, relay = await asyncio.gather(*lanes, return_exceptions=True)
        for ended in (relay, control):
            if isinstance(ended, BaseException):
                raise ended
        return relay if isinstance(relay, str) else ""

    def _films(self, approval: Approval) -> Coroutine[Any, Any, str] | None:
        """The lane of films, where the plan orders any."""
        plan = self.recorder.history.plan
        if self.films is None or plan is None or not any(step.order for step in plan.steps):
            return None
        decide = partial(self._decide, approval=approval)
        return FilmLane(self.recorder, self.settlement, self.films, decide, self._send).go()

    async def _official_lane(self, approval: Approval, relay_lane: asyncio.Future[str]) -> None:
        """Free controls first, then the legal bodies that may charge on the official side, within the same approval; then
        each control once more after its sending: a relay may take an hour, and a control is good for minutes."""
        await self._official("before")
        tried = self.recorder.history.sent_steps()
        while self.sides.official and not self._wish() and (left := self._unsent("official", tried)):
            step = left[0]
            tried.add(step.id)
            if self._decide(step, approval).go:
                await self._send_as(step, auth_trial=False)
        while not relay_lane.done():
            await self._relay_moved.wait()
            self._relay_moved.clear()
            await self._official("after")

    def _unsent(self, side: Side, tried: set[str]) -> list[Step]:
        """What is left of the plan as it is now, in order."""
        return [step for step in self.recorder.history.steps.chargeable[side] if step.id not in tried]

    async def _official(self, when: str, *, closing: bool = False) -> None:
        """The free controls that are open: all of them before; afterwards those of what was sent by now, and when nothing
        more will be, those that stand alone."""
        history = self.recorder.history
        sent = history.sent_steps() | ({""} if closing else set())
        done = {e.step for e in history.exchanges.values()}
        free = [s for s in history.plan.steps if s.side == "official" and s.cost == "free"] if history.plan else []
        answered = {e.step for e in history.exchanges.values() if e.side == "official" and e.status == 200}
        asked = [
            (step, step.id)
            for step in free
            if step.when == when
            and step.id not in done
            and f"mirror.before.{step.mirrors}" not in answered
            and (when == "before" or (step.counts or step.mirrors) in sent)
        ]
        await ask_officials(self.recorder, self.sides, asked)

    async def _relay(self, approval: Approval) -> str:
        """The relay lane; returns why it ended early, or an empty string. Where refusals can no longer be followed in the
        relay's books only they end; a charge above its line ends all."""
        history = self.recorder.history
        tried = history.sent_steps()
        while True:
            await asyncio.sleep(0)  # an interruption is heard here, before an intent that it would leave unconfirmed
            if wish := self._wish():
                return wish
            pending = [step for step in self._unsent("relay", tried) if not self.lanes.ended(step)]
            if not pending:
                break
            step = self.lanes.next(pending)
            if step is None or self.lanes.books_first(step):
                if stop := (await self.lanes.read(pending)).reason:
                    return stop
                continue
            if await self.early.before(step):
                continue  # it took its time: what was asked meanwhile is heard before an intent
            decision = self._decide(step, approval)
            tried.add(step.id)
            if decision.reason == "hold_above_balance" and step.refusal:
                continue  # its reserve alone is too large; the cheap steps after it are not
            if decision.reason == "ceiling" and self.lanes.too_dear(step, self.early.multiple()):
                continue  # at what this relay really takes; the same
            if not decision.go:
                return decision.reason or "asked"
            await self._send(step)
            self._say_done(step)
        final = breaker(self._ordinary())
        return (final.reason or "") if final else ""

    def _say_done(self, step: Step) -> None:
        """A checkpoint when a probe has nothing left to send."""
        done = self.recorder.history.sent_steps()
        if not any(other.probe == step.probe for other in self._unsent("relay", done)):
            self.recorder.checkpoint("probe_done", probe=step.probe)

    def _ordinary(self) -> tuple[Exchange, ...]:
        """What the circuit breaker looks at: a refusal that was refused is no failure."""
        history = self.recorder.history
        refusals = history.steps.refusals
        return tuple(e for e in history.sent() if e.step not in refusals or e.delivery != "answered")

    def _decide(self, step: Step, approval: Approval) -> Decision:
        history = self.recorder.history
        if history.quote is None or not history.covered or self.sides.clock.now() >= approval.expires_at:
            return Decision(go=False, reason="approval_expired")
        line, price = self._priced(step)
        if step.side == "official":
            decision = next_send(history.ledger, price, line, (), None)
        else:
            decision = next_send(
                history.ledger,
                price,
                line,
                self._ordinary(),
                self._balance(),
                multiple=self.early.multiple(),
                unread=self.early.standing(),
            )
        if decision.go and not self._allowed(history.ledger.committed + price.at_most):
            return Decision(go=False, reason="month_ceiling")
        return decision

    def _allowed(self, amount: Decimal) -> bool:
        """Whether the budget above the run's has room for everything this one may then have spent."""
        if self.allowance is None or amount <= self._admitted:
            return True
        run, now = self.recorder.store.run_id, self.sides.clock.now()
        for raised in (max(amount, min(amount * AHEAD, self.recorder.history.ledger.ceiling)), amount):
            if self.allowance.admit(run, raised, now):
                self._admitted = raised
                return True
        return False

    def _priced(self, step: Step) -> tuple[Line, StepPrice]:
        quote = self.recorder.history.quote
        line, price = (quote.line_of(step), quote.price_of(step.id)) if quote else (None, None)
        if line is None or price is None:
            raise ValueError(f"{step.id} has no price: it was never quoted")
        return line, price

    def _balance(self) -> Decimal | None:
        """What is left on the key, by the last reading and what was spent since."""
        history = self.recorder.history
        if not history.balance or history.balance[-1].available is None:
            return None
        last = history.balance[-1]
        since = [
            e.amount for e in history.ledger.entries if e.side == "relay" and history.intents[e.exchange].ts > last.at
        ]
        return history.balance[-1].available - sum(since, Decimal(0))

    async def _send(self, step: Step) -> None:
        """One step, sent once. A 401 to the first header style is provably a refusal; then the other style is tried."""
        trial = self._auth_open()
        status = await self._send_as(step, auth_trial=trial)
        if trial and status == 401 and self._other_style():
            await self._send_as(step, auth_trial=False)
        self._relay_moved.set()
        await self.settlement.follow()

    async def _send_as(self, step: Step, *, auth_trial: bool) -> int | None:
        line, price = self._priced(step)
        endpoint = self.sides.official if step.side == "official" else self.sides.relay
        if endpoint is None:
            raise ValueError("no official side")
        xid = self.recorder.intent(step, line, price, auth_trial=auth_trial)
        try:
            answer = await self.sides.transport.send(way(endpoint, step), Outgoing("POST", step.path, step.body))
        except RelayAuditError:
            self.recorder.withdraw(xid, step)
            raise
        self._record(xid, step, line, price, answer)
        status = answer.response.status if answer.response else None
        self.sides.notify("step", {"step": step.id, "side": step.side, "status": status})
        return status

    def _auth_open(self) -> bool:
        """Whether the key's header style is still a guess: a model list may be open to everybody, so that only an answer to
        a call says that the style is right."""
        history = self.recorder.history
        answered = any(exchange.status == 200 for exchange in history.sent())
        return history.target.relay.auth == "auto" and not answered

    def _other_style(self) -> bool:
        styles = self.recorder.history.pack.auth_styles
        other = [style for style in styles if style != self.sides.relay.auth]
        if not other:
            return False
        self.sides.relay = replace(self.sides.relay, auth=other[0])
        return True

    def _record(self, xid: str, step: Step, line: Line, price: StepPrice, answer: Answer) -> None:
        """The outcome and where its reservation goes: what may have been charged and cannot be read stays at worst case."""
        exchange = as_exchange(xid, step.id, step.side, answer)
        if answer.delivery == "not_sent":
            self.recorder.outcome(exchange, "released", Decimal(0), "not_sent")
        elif answer.delivery == "unconfirmed" or answer.response is None or answer.response.cut:
            self.recorder.outcome(exchange, "unconfirmed", price.at_most, "worst_case")
        elif _is_refused(step, exchange):
            self.recorder.outcome(exchange, "settled", Decimal(0), "refused")
        elif step.order is not None and read_task(step.order.task, exchange.answer()).task_id:
            self.recorder.outcome(exchange, "settled", price.expected, "tier_price")  # until the books say otherwise
        elif line.unit_price and (usage := read_usage(exchange, self.recorder.history.pack)):
            amount = charge_of(usage.by_kind(), line.unit_price)
            exchange = exchange.model_copy(update={"charge": amount})
            self.recorder.outcome(exchange, "settled", amount, "usage_at_quoted_price")
        else:  # a web page, NaN: what it cost is not known, and an unknown charge is not reported as one
            self.recorder.outcome(exchange, "unconfirmed", price.at_most, "worst_case")


def _is_refused(step: Step, exchange: Exchange) -> bool:
    """A film's order may be answered with any status of success; 200 with an error in its body is a refusal."""
    status = exchange.status or 0
    return status // 100 != 2 or (step.order is None and status != 200) or says_error(exchange.answer())
