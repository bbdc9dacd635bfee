"""The only writer of a run's events: intents before bytes, outcomes after, every answer redacted before it gets here."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from relay_audit.books import BalanceReading, LogReading, PriceReading, RateReading, UsageReading
from relay_audit.checkpoints import standing
from relay_audit.clock import Clock
from relay_audit.endpoint import Answer
from relay_audit.errors import RunCancelled
from relay_audit.events import Actor, Draft, Event, EventType
from relay_audit.evidence import RunStatus
from relay_audit.exchange import Exchange, Request
from relay_audit.media_facts import MediaReading
from relay_audit.plan import Step
from relay_audit.quote import Line, StepPrice
from relay_audit.replay import History, apply, replay
from relay_audit.store import Store
from relay_audit.words import Frozen, Side, compact, money

READING_KINDS: dict[type[Frozen], str] = {
    LogReading: "log", BalanceReading: "balance", UsageReading: "usage", RateReading: "rate",
    PriceReading: "prices",
}  # fmt: skip
MoneyMove = Literal["settled", "released", "unconfirmed"]


class Recorder:
    """One run being written. `history` is always what a fresh replay of the folder would say: it reads what was written,
    by this process and by those that send it signals."""

    def __init__(self, store: Store, clock: Clock, history: History | None = None) -> None:
        self.store = store
        self.clock = clock
        self.history = history or replay(store)

    def blob(self, value: Frozen | dict[str, Any] | list[Any]) -> str:
        plain = value.model_dump(mode="json", by_alias=True) if isinstance(value, Frozen) else value
        return self.store.put_blob(compact(plain))

    def note(self, type_: EventType, payload: dict[str, Any], ref: str = "", actor: Actor = "runner") -> Event:
        return self.note_all([Draft(type_, payload, actor, ref)])[0]

    def note_all(self, drafts: Sequence[Draft], *, after: int | None = None) -> list[Event]:
        """Several events as one; with `after`, only while that is the last one. Raises `Overtaken`."""
        events = self.store.append_all(drafts, ts=self.clock.now(), after=after)
        if events[0].seq == self.history.seq + 1:
            for event in events:
                apply(self.history, event)
        else:
            self.catch_up()
        return events

    def catch_up(self) -> History:
        """The history with what others have written meanwhile."""
        for event in self.store.events(after=self.history.seq):
            apply(self.history, event)
        return self.history

    def state(self, status: RunStatus, reason: str = "") -> None:
        self.note("run.state_changed", {"status": status, "reason": reason})

    def checkpoint(self, code: str, *, probe: str = "", reason: str = "", **more: str) -> None:
        """A short word on where the run stands, for whoever comes back to it."""
        self.note("checkpoint.written", standing(self.history, code, probe=probe, reason=reason) | more)

    def heed_cancel(self) -> None:
        """Ends the run where somebody asked for that. Raises `RunCancelled`."""
        if self.catch_up().wish == "cancelled":
            self.end_cancelled()
            raise RunCancelled("this run was cancelled", next_step="begin a new run: relay-audit run")

    def end_cancelled(self) -> None:
        """The one terminal event of a cancelled run; what had no outcome stays unconfirmed."""
        for xid in self.history.unanswered():
            self.give_up(xid)
        self.checkpoint("cancelled")
        self.note("run.cancelled", {"stopped": "cancelled"})

    def next_id(self) -> str:
        self.history.highest += 1
        return f"X{self.history.highest:04}"

    def free(self, answer: Answer, step: str, side: Side) -> Exchange:
        """An exchange that costs nothing: recorded after the fact."""
        exchange = as_exchange(self.next_id(), step, side, answer)
        self._record(exchange, {})
        return exchange

    def intent(self, step: Step, line: Line, price: StepPrice, *, auth_trial: bool) -> str:
        """The intent and its reservation, durable in one transaction before the first byte leaves."""
        xid = self.next_id()
        payload = {
            "exchange": xid,
            "step": step.id,
            "line": line.id,
            "side": step.side,
            "at_most": money(price.at_most),
            "auth_trial": auth_trial,
        }
        self.note("request.sending", payload)
        return xid

    def outcome(self, exchange: Exchange, move: MoneyMove, amount: Decimal, basis: str) -> None:
        """What came of an intent, and where its reservation went."""
        self._record(exchange, {"money": move, "amount": money(amount), "basis": basis})

    def withdraw(self, exchange_id: str, step: Step) -> None:
        """An intent that we refused to carry out ourselves (an address or key), before any socket was opened."""
        request = Request(method="POST", path=step.path, body=step.body)
        exchange = Exchange(id=exchange_id, step=step.id, side=step.side, sent_at=self.clock.now(), elapsed_ms=0,
                            delivery="not_sent", request=request, failure="refused_here")  # fmt: skip
        self.outcome(exchange, "released", Decimal(0), "not_sent")

    def give_up(self, exchange_id: str) -> None:
        """An intent of a process that died becomes unconfirmed for good."""
        self.note("request.unconfirmed", {"exchange": exchange_id})

    def charge(self, exchange_id: str, amount: Decimal, basis: str) -> None:
        """What the relay's own books say an exchange cost."""
        self.note("charge.observed", {"exchange": exchange_id, "amount": money(amount), "basis": basis}, actor="relay")

    def reading(self, value: LogReading | BalanceReading | UsageReading | RateReading | PriceReading) -> None:
        """What one look into the relay's own books said."""
        kind = READING_KINDS[type(value)]
        self.note("reading.recorded", {"kind": kind}, self.blob(value), "relay")

    def film(self, exchange: Exchange, file_sha256: str, size: int) -> None:
        """A delivered film lies in the run's folder."""
        self.note("media.kept", {"exchange": exchange.id, "step": exchange.step, "size": size}, file_sha256, "relay")

    def media_reading(self, reading: MediaReading) -> None:
        self.note("reading.recorded", {"kind": "media"}, self.blob(reading))

    def _record(self, exchange: Exchange, moved: dict[str, Any]) -> None:
        payload = {"exchange": exchange.id, "step": exchange.step, "side": exchange.side, **moved}
        self.note(
            "exchange.recorded", payload, self.blob(exchange), "relay" if exchange.side == "relay" else "official"
        )


def as_exchange(xid: str, step: str, side: Side, answer: Answer, body: str | None = None) -> Exchange:
    """A transport's answer as the record; `body` replaces a text that must not be kept (other people's log rows)."""
    response = answer.response
    if response is not None and body is not None:
        response = response.model_copy(update={"body": body})
    return Exchange(
        id=xid,
        step=step,
        side=side,
        sent_at=answer.sent_at,
        elapsed_ms=answer.elapsed_ms,
        delivery=answer.delivery,
        request=answer.request,
        response=response,
        failure=answer.failure,
        hostility=answer.hostility,
        foreign_secrets=answer.foreign_secrets,
        connection=answer.connection,
    )
