"""An approved plan is sent: relay steps one at a time, the official lane beside them, the relay's own log afterwards.

Every chargeable step passes the gate, has its intent and reservation on disk before its first byte, and is sent once.
What has no outcome stays unconfirmed at its worst case until the relay's log says what happened.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

from relay_audit.discovery import Sides, ask_officials, way
from relay_audit.errors import RelayAuditError
from relay_audit.exchange import Exchange
from relay_audit.gate import Decision, breaker, next_send
from relay_audit.lanes import Lanes
from relay_audit.plan import Step
from relay_audit.quote import Approval, Line, StepPrice, charge_of
from relay_audit.recorder import Recorder, as_exchange
from relay_audit.second_look import look_again
from relay_audit.settlement import Settlement
from relay_audit.transport import Answer, Outgoing
from relay_audit.usage import read_usage


class Runner:
    """One approved run at work. `run` ends it with exactly one terminal event; a process that dies can be followed by
    another `Runner` on the same folder."""

    def __init__(self, recorder: Recorder, sides: Sides, settlement: Settlement) -> None:
        self.recorder = recorder
        self.sides = sides
        self.settlement = settlement
        self.lanes = Lanes(recorder, settlement)

    async def run(self, approval: Approval) -> None:
        """Sends what is left of the plan within the approval and completes the run."""
        for xid in self.recorder.history.unanswered():
            self.recorder.give_up(xid)
        self.recorder.state("running")
        await self.settlement.before()
        stopped = await self._both_lanes(approval)
        await asyncio.gather(self._official("after"), self.settlement.after())
        await look_again(self.settlement)
        self.recorder.note("run.completed", {"stopped": stopped})

    async def _both_lanes(self, approval: Approval) -> str:
        """What breaks in one lane is raised when the other has ended: a paid request in flight is not abandoned."""
        lanes = (self._official_lane(approval), self._relay(approval))
        control, relay = await asyncio.gather(*lanes, return_exceptions=True)
        for ended in (relay, control):
            if isinstance(ended, BaseException):
                raise ended
        return relay if isinstance(relay, str) else ""

    async def _official_lane(self, approval: Approval) -> None:
        """Free controls first, then the legal bodies that may charge on the official side, within the same approval."""
        await self._official("before")
        plan, sent = self.recorder.history.plan, self.recorder.history.sent_steps()
        for step in plan.chargeable("official") if plan and self.sides.official else ():
            if step.id not in sent and self._decide(step, approval).go:
                await self._send_as(step, auth_trial=False)

    async def _official(self, when: str) -> None:
        history = self.recorder.history
        done = {e.step for e in history.exchanges.values()}
        free = [s for s in history.plan.steps if s.side == "official" and s.cost == "free"] if history.plan else []
        answered = {e.step for e in history.exchanges.values() if e.side == "official" and e.status == 200}
        asked = [
            (step, step.id)
            for step in free
            if step.when == when and step.id not in done and f"mirror.before.{step.mirrors}" not in answered
        ]
        await ask_officials(self.recorder, self.sides, asked)

    async def _relay(self, approval: Approval) -> str:
        """The relay lane; returns why it ended early, or an empty string. Where refusals can no longer be followed in the
        relay's books only they end; a charge above its line ends all."""
        history = self.recorder.history
        sent = history.sent_steps()
        pending = [step for step in (history.plan.chargeable() if history.plan else ()) if step.id not in sent]
        while pending := [step for step in pending if not self.lanes.ended(step)]:
            step = self.lanes.next(pending)
            if step is None or self.lanes.books_first(step):
                if stop := (await self.lanes.read(pending)).reason:
                    return stop
                continue
            decision = self._decide(step, approval)
            pending.remove(step)
            if decision.reason == "hold_above_balance" and step.refusal:
                continue  # its reserve alone is too large; the cheap steps after it are not
            if not decision.go:
                return decision.reason or "asked"
            await asyncio.sleep(0)  # an interruption is heard here, before an intent that it would leave unconfirmed
            await self._send(step)
        final = breaker(self._ordinary())
        return (final.reason or "") if final else ""

    def _ordinary(self) -> tuple[Exchange, ...]:
        """What the circuit breaker looks at: a refusal that was refused is no failure."""
        history = self.recorder.history
        refusals = {s.id for s in history.plan.steps if s.refusal} if history.plan else set()
        return tuple(e for e in history.sent() if e.step not in refusals or e.delivery != "answered")

    def _decide(self, step: Step, approval: Approval) -> Decision:
        history = self.recorder.history
        quote = history.quote
        if quote is None or quote.digest != approval.quote_digest or self.sides.clock.now() >= approval.expires_at:
            return Decision(go=False, reason="approval_expired")
        line, price = self._priced(step)
        if step.side == "official":
            return next_send(history.ledger, price, line, (), None)
        return next_send(history.ledger, price, line, self._ordinary(), self._balance())

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
        """Whether the key's header style is still a guess: the model list did not say, and nothing was answered yet."""
        history = self.recorder.history
        told = any(e.step.startswith("discovery.models.") and e.status == 200 for e in history.exchanges.values())
        answered = any(exchange.status == 200 for exchange in history.sent())
        return history.target.relay.auth == "auto" and not told and not answered

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
        elif answer.response.status != 200:
            self.recorder.outcome(exchange, "settled", Decimal(0), "refused")
        elif line.unit_price and (usage := read_usage(exchange, self.recorder.history.pack)):
            amount = charge_of(usage.by_kind(), line.unit_price)
            exchange = exchange.model_copy(update={"charge": amount})
            self.recorder.outcome(exchange, "settled", amount, "usage_at_quoted_price")
        else:  # a web page, NaN: what it cost is not known, and an unknown charge is not reported as one
            self.recorder.outcome(exchange, "unconfirmed", price.at_most, "worst_case")
