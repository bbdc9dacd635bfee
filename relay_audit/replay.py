"""A run folder becomes evidence again: the events in order, and nothing but the events. Writes nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from relay_audit.books import BalanceReading, LogReading, PriceReading, RateReading, SiteFacts, UsageReading
from relay_audit.errors import StoreError, Unfinished
from relay_audit.events import Event
from relay_audit.evidence import ApprovalFacts, Evidence, RunStatus, TargetFacts, VendorAnswer, Withdrawal
from relay_audit.exchange import Exchange, Request
from relay_audit.ledger import Ledger
from relay_audit.pack import Pack
from relay_audit.plan import Plan
from relay_audit.quote import Approval, Quote
from relay_audit.store import Store
from relay_audit.target import Target
from relay_audit.words import Side

FINAL: dict[str, RunStatus] = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}


@dataclass
class History:
    """Everything a run's events say, collected once."""

    store: Store
    target: Target
    facts: TargetFacts
    pack: Pack
    files: dict[str, str]
    """Path → text of every pack and knowledge file as it was when the run began."""
    knowledge_digest: str
    tool_version: str
    started_at: dt.datetime
    status: RunStatus = "planned"
    stopped: str = ""
    plan: Plan | None = None
    quote: Quote | None = None
    approval: ApprovalFacts | None = None
    site: SiteFacts = field(default_factory=SiteFacts)
    ledger: Ledger = field(default_factory=Ledger)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    intents: dict[str, Event] = field(default_factory=dict)
    """Chargeable exchange id → the event that announced it."""
    log: list[LogReading] = field(default_factory=list)
    balance: list[BalanceReading] = field(default_factory=list)
    usage: list[UsageReading] = field(default_factory=list)
    rates: list[RateReading] = field(default_factory=list)
    prices: list[PriceReading] = field(default_factory=list)
    refusals_ended: str = ""
    """Why some refusals were not sent; empty while all may go on."""
    ended_lanes: set[str] = field(default_factory=set)
    """Lanes of refusals that ended with it; an empty name means all of them."""
    books_asked: set[str] = field(default_factory=set)
    """Refusals that were looked for in the relay's books, found there or not."""
    highest: int = 0
    """The highest exchange number used so far."""
    libraries: dict[str, str] = field(default_factory=dict)
    """Versions on which facts of this run depend, as they were on its day."""
    withheld: frozenset[str] = frozenset()
    """Digests of bytes that were taken away later; what is known of them is in the events."""
    replies: list[VendorAnswer] = field(default_factory=list)
    withdrawn: list[Withdrawal] = field(default_factory=list)
    imported: bool = False
    """It came in as somebody's archive: it is read and judged, and nothing of it is ever sent from here."""

    def unanswered(self) -> list[str]:
        """Intents whose process died before an outcome: they may have been delivered, and are never sent again."""
        return [entry.exchange for entry in self.ledger.entries if entry.state == "reserved"]

    def sent(self, side: Side = "relay") -> tuple[Exchange, ...]:
        """Chargeable exchanges of a side so far, in order; a refusal of a guessed header style is none."""
        return tuple(
            exchange
            for xid, exchange in sorted(self.exchanges.items())
            if xid in self.intents
            and exchange.side == side
            and not (self.intents[xid].payload.get("auth_trial") and exchange.status == 401)
        )

    def sent_steps(self) -> set[str]:
        """Steps that must not be sent again. A refusal of the key's form (401) is provably not a delivery."""
        return {
            event.payload["step"]
            for xid, event in self.intents.items()
            if not (xid in self.exchanges and self.exchanges[xid].delivery == "not_sent")
            and not (xid in self.exchanges and event.payload.get("auth_trial") and self.exchanges[xid].status == 401)
        }

    def last_of(self, step: str) -> Exchange | None:
        """The last exchange of a step."""
        found = [exchange for _, exchange in sorted(self.exchanges.items()) if exchange.step == step]
        return found[-1] if found else None

    def apply(self, event: Event) -> None:
        """What one more event says."""
        if (handler := _HANDLERS.get(event.type)) is not None:
            handler(self, event)

    def approved(self) -> Approval | None:
        """The approval as a value again; it must still fit the quote it was given for."""
        if self.approval is None or self.quote is None or self.approval.quote_digest != self.quote.digest:
            return None
        facts = self.approval
        return self.quote.approve(
            facts.quote_digest, facts.ceiling, approver=facts.approver, channel=facts.channel, at=facts.at
        )

    def evidence(self) -> Evidence:
        return Evidence(
            run_id=self.store.run_id,
            tool_version=self.tool_version,
            started_at=self.started_at,
            status=self.status,
            stopped=self.stopped,
            refusals_ended=self.refusals_ended,
            evidence_head=self.store.head(),
            target=self.facts,
            site=self.site,
            pack=self.pack,
            plan=self.plan,
            quote=self.quote,
            approval=self.approval,
            ledger=self.ledger,
            exchanges=tuple(self.exchanges[key] for key in sorted(self.exchanges)),
            log=tuple(self.log),
            balance=tuple(self.balance),
            usage=tuple(self.usage),
            rates=tuple(self.rates),
            replies=tuple(self.replies),
            withdrawn=tuple(self.withdrawn),
            prices=tuple(self.prices),
        )


def replay(store: Store) -> History:
    """Raises `StoreError` where the events are not those of a run, `Unfinished` where there is none yet."""
    events = list(store.events())
    if not events:
        raise Unfinished(
            "the run broke off before its first event; nothing was sent", next_step="begin again: relay-audit run"
        )
    if events[0].type != "run.created":
        raise StoreError("the run has no beginning", next_step="restore the run's folder from a copy")
    history = _begin(store, events[0])
    history.withheld = withheld_in(events)
    for event in events[1:]:
        history.apply(event)
    for xid in history.intents:
        if xid not in history.exchanges:
            history.exchanges[xid] = _without_outcome(history, xid)
    return history


def withheld_in(events: Iterable[Event]) -> frozenset[str]:
    """The digests whose bytes were taken away."""
    return frozenset(event.payload["sha256"] for event in events if event.type == "blob.withheld")


def blob_json(store: Store, sha: str) -> Any:  # noqa: ANN401  any JSON value
    return json.loads(store.blob(sha))


def _begin(store: Store, event: Event) -> History:
    session = blob_json(store, event.payload_ref)
    return History(
        store=store,
        target=Target.model_validate(session["target"]),
        facts=TargetFacts.model_validate(session["facts"]),
        pack=Pack.model_validate(session["pack"]),
        files=blob_json(store, event.payload["files_ref"]),
        knowledge_digest=event.payload["knowledge_digest"],
        tool_version=event.payload["tool_version"],
        libraries=event.payload.get("libraries", {}),
        started_at=event.ts,
    )


def _plan(history: History, event: Event) -> None:
    history.plan = Plan.model_validate(blob_json(history.store, event.payload_ref))


def _quote(history: History, event: Event) -> None:
    history.quote = Quote.model_validate(blob_json(history.store, event.payload_ref))


def _discovered(history: History, event: Event) -> None:
    found = blob_json(history.store, event.payload_ref)
    history.site = SiteFacts.model_validate(found["site"])
    history.facts = TargetFacts.model_validate(found["facts"])


def _signal(history: History, event: Event) -> None:
    if event.payload["signal"] == "approve":
        history.approval = ApprovalFacts.model_validate(event.payload["approval"])
        history.ledger = history.ledger.model_copy(update={"ceiling": history.approval.ceiling})


def _state(history: History, event: Event) -> None:
    history.status = event.payload["status"]


def _sending(history: History, event: Event) -> None:
    payload = event.payload
    history.intents[payload["exchange"]] = event
    history.highest = max(history.highest, _number(payload["exchange"]))
    history.ledger = history.ledger.reserve(
        payload["exchange"], payload["line"], payload["side"], Decimal(payload["at_most"])
    )


def _recorded(history: History, event: Event) -> None:
    if event.payload_ref in history.withheld:
        exchange = _without_bytes(history, event)
    else:
        exchange = Exchange.model_validate(blob_json(history.store, event.payload_ref))
    history.exchanges[exchange.id] = exchange
    history.highest = max(history.highest, _number(exchange.id))
    match event.payload.get("money"):
        case "settled":
            amount, basis = Decimal(event.payload["amount"]), event.payload["basis"]
            history.ledger = history.ledger.settle(exchange.id, amount, basis)
        case "released":
            history.ledger = history.ledger.release(exchange.id)
        case "unconfirmed":
            history.ledger = history.ledger.leave_unconfirmed(exchange.id)


def _unconfirmed(history: History, event: Event) -> None:
    history.ledger = history.ledger.leave_unconfirmed(event.payload["exchange"])


def _charge(history: History, event: Event) -> None:
    payload = event.payload
    history.ledger = history.ledger.settle(payload["exchange"], Decimal(payload["amount"]), payload["basis"])


def _checkpoint(history: History, event: Event) -> None:
    history.books_asked |= set(event.payload.get("books_asked", ()))
    if "refusals_ended" in event.payload:
        history.refusals_ended = event.payload["refusals_ended"]
        history.ended_lanes.add(event.payload.get("lane", ""))


def _reading(history: History, event: Event) -> None:
    if event.payload_ref in history.withheld:
        return
    value = blob_json(history.store, event.payload_ref)
    match event.payload["kind"]:
        case "log":
            history.log.append(LogReading.model_validate(value))
        case "balance":
            history.balance.append(BalanceReading.model_validate(value))
        case "usage":
            history.usage.append(UsageReading.model_validate(value))
        case "rate":
            history.rates.append(RateReading.model_validate(value))
        case "prices":
            history.prices.append(PriceReading.model_validate(value))


def _answer(history: History, event: Event) -> None:
    if event.payload_ref not in history.withheld:
        said = blob_json(history.store, event.payload_ref)
        history.replies.append(VendorAnswer.model_validate({**event.payload, **said, "at": event.ts}))


def _withdrawn(history: History, event: Event) -> None:
    history.withdrawn.append(Withdrawal.model_validate({"reason": "", "run": "", **event.payload, "at": event.ts}))


def _imported(history: History, _: Event) -> None:
    history.imported = True


def _ended(history: History, event: Event) -> None:
    history.status = FINAL[event.type]
    history.stopped = event.payload.get("stopped", "")


_HANDLERS = {
    "plan.created": _plan,
    "quote.issued": _quote,
    "discovery.recorded": _discovered,
    "signal.received": _signal,
    "run.state_changed": _state,
    "request.sending": _sending,
    "exchange.recorded": _recorded,
    "request.unconfirmed": _unconfirmed,
    "charge.observed": _charge,
    "reading.recorded": _reading,
    "checkpoint.written": _checkpoint,
    "answer.recorded": _answer,
    "run.imported": _imported,
    "finding.withdrawn": _withdrawn,
    "run.completed": _ended,
    "run.failed": _ended,
    "run.cancelled": _ended,
}


def _without_outcome(history: History, xid: str) -> Exchange:
    """What is known of a sending whose process died: that it was announced, and what was to be sent."""
    event = history.intents[xid]
    step = history.plan.step(event.payload["step"]) if history.plan else None
    return Exchange(
        id=xid,
        step=event.payload["step"],
        side=event.payload["side"],
        sent_at=event.ts,
        elapsed_ms=0,
        delivery="unconfirmed",
        request=Request(method="POST", path=step.path if step else "", body=step.body if step else None),
        failure="no_outcome",
    )


def _without_bytes(history: History, event: Event) -> Exchange:
    """What is known of an exchange whose bytes were taken away: that it took place, and what the plan meant to send."""
    step = history.plan.step(event.payload["step"]) if history.plan else None
    return Exchange(
        id=event.payload["exchange"],
        step=event.payload["step"],
        side=event.payload["side"],
        sent_at=event.ts,
        elapsed_ms=0,
        delivery="answered",
        request=Request(method="POST" if step else "GET", path=step.path if step else ""),
        failure="withheld",
    )


def _number(exchange_id: str) -> int:
    return int(exchange_id.removeprefix("X"))
