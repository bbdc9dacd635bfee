"""An approved plan is sent: relay steps one at a time, the official lane beside them, the relay's own log afterwards.

Every chargeable step passes the gate, has its intent and reservation on disk before its first byte, and is sent once.
What has no outcome stays unconfirmed at its worst case until the relay's log says what happened.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

from relay_audit.discovery import Sides, ask_official
from relay_audit.gate import Decision, breaker, next_send
from relay_audit.plan import Step
from relay_audit.quote import Approval, Line, StepPrice, charge_of
from relay_audit.recorder import Recorder, as_exchange
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

    async def run(self, approval: Approval) -> None:
        """Sends what is left of the plan within the approval and completes the run."""
        for xid in self.recorder.history.unanswered():
            self.recorder.give_up(xid)
        self.recorder.state("running")
        await self.settlement.before()
        _, stopped = await asyncio.gather(self._official("before"), self._relay(approval))
        await self._official("after")
        await self.settlement.after()
        self.recorder.note("run.completed", {"stopped": stopped})

    async def _official(self, when: str) -> None:
        history = self.recorder.history
        plan = history.plan
        done = {e.step for e in history.exchanges.values()}
        for step in plan.steps if plan else ():
            if step.side == "official" and step.when == when and step.id not in done:
                await ask_official(self.recorder, self.sides, step, step.id)
                self.sides.notify("step", {"step": step.id, "side": "official"})

    async def _relay(self, approval: Approval) -> str:
        """The relay lane; returns why it ended early, or an empty string."""
        sent = self.recorder.history.sent_steps()
        for step in self.recorder.history.plan.chargeable() if self.recorder.history.plan else ():
            if step.id in sent:
                continue
            decision = self._decide(step, approval)
            if not decision.go:
                return decision.reason or "asked"
            await self._send(step)
        final = breaker(self.recorder.history.sent())
        return (final.reason or "") if final else ""

    def _decide(self, step: Step, approval: Approval) -> Decision:
        history = self.recorder.history
        quote = history.quote
        if quote is None or quote.digest != approval.quote_digest or self.sides.clock.now() >= approval.expires_at:
            return Decision(go=False, reason="approval_expired")
        line, price = self._priced(step)
        return next_send(history.ledger, price, line, history.sent(), self._balance())

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
        since = [e.amount for e in history.ledger.entries if e.side == "relay" and history.intents[e.exchange].ts > last.at]
        return history.balance[-1].available - sum(since, Decimal(0))

    async def _send(self, step: Step) -> None:
        """One step, sent once. A 401 to the first header style is provably a refusal; then the other style is tried."""
        trial = self._auth_open()
        status = await self._send_as(step, auth_trial=trial)
        if trial and status == 401 and self._other_style():
            await self._send_as(step, auth_trial=False)

    async def _send_as(self, step: Step, *, auth_trial: bool) -> int | None:
        line, price = self._priced(step)
        xid = self.recorder.intent(step, line, price, auth_trial=auth_trial)
        answer = await self.sides.transport.send(self.sides.relay, Outgoing("POST", step.path, step.body))
        self._record(xid, step, line, price, answer)
        status = answer.response.status if answer.response else None
        self.sides.notify("step", {"step": step.id, "side": "relay", "status": status})
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
        exchange = as_exchange(xid, step.id, "relay", answer)
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
        else:
            self.recorder.outcome(exchange, "settled", price.at_most, "worst_case")
