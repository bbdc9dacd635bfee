"""Films one after the other, cheapest first: each ordered once, followed to its end, its charge held against its quote.

The next tier is not ordered by the approval of the one before: it gets a quote of its own and waits for its own approval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal

from relay_audit.acquisition import Films, poll_name
from relay_audit.gate import Decision
from relay_audit.plan import Step
from relay_audit.recorder import Recorder
from relay_audit.refund_wait import RefundWait
from relay_audit.settlement import Settlement
from relay_audit.video import other_ratios
from relay_audit.video_plan import next_tier

SAME = Decimal("1.002")
"""Charges are whole quota units, and ratios are printed with few figures."""


class FilmLane:
    """`decide` says whether a step may leave now, `send` sends it once."""

    def __init__(
        self,
        recorder: Recorder,
        settlement: Settlement,
        films: Films,
        decide: Callable[[Step], Decision],
        send: Callable[[Step], Awaitable[None]],
    ) -> None:
        self.recorder = recorder
        self.settlement = settlement
        self.films = films
        self.decide = decide
        self.send = send
        self.refunds = RefundWait(recorder, settlement)

    async def go(self) -> str:
        """Returns why no further film is ordered, or an empty text. A tier without a quote of its own is passed over."""
        history = self.recorder.history
        for step in history.plan.chargeable() if history.plan else ():
            if wish := self.recorder.catch_up().wish:
                return wish
            if step.order is not None and (reason := await self._film(step)):
                return reason
        return "requoted" if self.asks_for_the_next() else ""

    async def _film(self, step: Step) -> str:
        history = self.recorder.history
        if history.quote is None or (price := history.quote.price_of(step.id)) is None:
            return ""
        if step.id not in history.sent_steps():
            decision = self.decide(step)
            if not decision.go:
                return decision.reason or "asked"
            await asyncio.sleep(0)  # an interruption is heard here, before an intent that it would leave unconfirmed
            await self.send(step)
        if reason := await self.films.follow(step):
            return await self._refund(step) or reason if reason in ("tier_failed", "tier_refused") else reason
        order = history.last_of(step.id)
        charged = (await self.settlement.charges_of([order])).get(order.id) if order else None
        dearer = order is not None and charged is not None and charged > price.expected * other_ratios(order) * SAME
        return "charge_differs" if dearer else ""

    async def _refund(self, step: Step) -> str:
        """Waits for what a film that was not made has cost; one that was made and did not arrive is owed nothing."""
        history = self.recorder.history
        order, task = history.last_of(step.id), history.last_of(poll_name(step))
        made = any(reading.step == step.id for reading in history.media)
        return "" if order is None or made else await self.refunds.until_back(order, task, step.id)

    def asks_for_the_next(self) -> bool:
        """Quotes the next tier, if there is one; the run then waits for an approval."""
        quote = self.recorder.history.quote
        further = next_tier(quote, self.recorder.clock.now()) if quote else None
        if further is None:
            return False
        payload = {"quote_digest": further.digest, "plan_digest": further.plan_digest}
        self.recorder.note("quote.issued", payload, self.recorder.blob(further))
        self.recorder.state("awaiting_approval", "next_tier")
        return True
