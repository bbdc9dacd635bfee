"""After a film that was not made: the relay's books are looked at until the charge has come back, or is overdue.

Relay software gives it back by a job of its own, minutes later. The wait is bounded, and a process that comes back to the
run goes on with what is left of it: it is counted from the end of the task, not from when somebody looked.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from relay_audit.exchange import Exchange
from relay_audit.recorder import Recorder
from relay_audit.settlement import Settlement
from relay_audit.tiers import REFUND_WITHIN
from relay_audit.video import read_task, shows_refunds

LOOKS = (dt.timedelta(seconds=60), dt.timedelta(seconds=600))
"""Into the books, after the end of the task; the last look is the settlement's, at the end of the run."""
AT_LAST = REFUND_WITHIN + dt.timedelta(seconds=30)
PAUSE_S = 30.0
"""How long a pause or a cancellation may go unheard."""


class RefundWait:
    """Nothing here is charged and nothing is ordered."""

    def __init__(self, recorder: Recorder, settlement: Settlement) -> None:
        self.recorder = recorder
        self.settlement = settlement

    async def until_back(self, order: Exchange, task: Exchange | None, step: str) -> str:
        """Returns what somebody asked for meanwhile (`paused`, `cancelled`, …), or an empty text. `task`: the answer that
        ended it; without one the order itself was turned down. Where the key's log would not show a refund, the first
        look is the last: waiting on would tell nothing."""
        ended = (task or order).sent_at
        for after in LOOKS:
            if wish := await self._until(ended + after):
                return wish
            await self.settlement.charges_of([order])
            if not self._open(order, step):
                return ""
            self.settlement.sides.notify("task", {"step": self._named(step), "reason": "refund_awaited"})
        return await self._until(ended + AT_LAST)

    async def _until(self, moment: dt.datetime) -> str:
        clock = self.recorder.clock
        while (left := (moment - clock.now()).total_seconds()) > 0:
            if wish := self.recorder.catch_up().wish:
                return wish
            await clock.sleep(min(left, PAUSE_S))
        return self.recorder.catch_up().wish

    def _open(self, order: Exchange, step: str) -> bool:
        """By the last reading of the log."""
        history = self.recorder.history
        reading = next((one for one in reversed(history.log) if one.state == "read"), None)
        rows = [row for row in reading.rows if row.exchange == order.id] if reading else []
        planned = next((one.order for one in history.plan.steps if one.id == step), None) if history.plan else None
        number = read_task(planned.task, order.answer()).task_id if planned else ""
        charged = sum((row.charged(history.site.quota_per_unit) for row in rows), Decimal(0))
        return charged > 0 and shows_refunds(order, number, rows)

    def _named(self, step: str) -> str:
        plan = self.recorder.history.plan
        return next((one.request for one in plan.steps if one.id == step), step) if plan else step
