"""A run folder becomes evidence again: the events in order, and nothing but the events. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from relay_audit.books import BalanceReading, LogReading, PriceReading, RateReading, SiteFacts, UsageReading
from relay_audit.errors import StoreError, Unfinished
from relay_audit.events import Event
from relay_audit.evidence import ApprovalFacts, TargetFacts, VendorAnswer, Withdrawal
from relay_audit.exchange import Exchange, Request
from relay_audit.history import FINAL as FINAL
from relay_audit.history import History as History
from relay_audit.media_facts import MediaReading
from relay_audit.pack import Pack
from relay_audit.plan import Plan
from relay_audit.quote import Quote
from relay_audit.store import Store
from relay_audit.target import Place, Target


def apply(history: History, event: Event) -> None:
    """What one more event says."""
    history.seq = event.seq
    if (handler := _HANDLERS.get(event.type)) is not None:
        handler(history, event)


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
        apply(history, event)
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
        place=Place.model_validate(session["place"]) if session.get("place") else None,
        files=blob_json(store, event.payload["files_ref"]),
        knowledge_digest=event.payload["knowledge_digest"],
        tool_version=event.payload["tool_version"],
        libraries=event.payload.get("libraries", {}),
        started_at=event.ts,
        owner=event.payload.get("owner", ""),
        scope=event.payload.get("scope", {}),
        seq=event.seq,
    )


def _plan(history: History, event: Event) -> None:
    history.plan = Plan.model_validate(blob_json(history.store, event.payload_ref))
    history.dropped.update(event.payload.get("dropped", ()))


def _quote(history: History, event: Event) -> None:
    history.quote = Quote.model_validate(blob_json(history.store, event.payload_ref))
    history.covered = history.approved_quote is not None and history.approved_quote.covers(history.quote)


def _discovered(history: History, event: Event) -> None:
    found = blob_json(history.store, event.payload_ref)
    history.site = SiteFacts.model_validate(found["site"])
    history.facts = TargetFacts.model_validate(found["facts"])


def _signal(history: History, event: Event) -> None:
    if sender := event.payload.get("id"):
        history.signals[sender] = event
    match event.payload["signal"]:
        case "approve":
            _approved(history, ApprovalFacts.model_validate(event.payload["approval"]))
        case "decline" if history.quote is not None and not event.payload.get("asked", {}).get("lines"):
            history.declined.add(history.quote.digest)
        case "pause" | "resume" as word:
            history.pausing = word == "pause"
        case "cancel":
            history.cancelling = True
        case "add_context":
            session = blob_json(history.store, event.payload_ref)
            history.target = Target.model_validate(session["target"])
            history.facts = TargetFacts.model_validate(session["facts"])


def _approved(history: History, facts: ApprovalFacts) -> None:
    history.approval = facts
    history.approvals.append(facts)
    same = history.quote is not None and history.quote.digest == facts.quote_digest
    history.approved_quote, history.covered = (history.quote, True) if same else (None, False)
    history.ledger = history.ledger.model_copy(update={"ceiling": facts.ceiling})


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
    if "code" in event.payload:
        history.checkpoint = event.payload


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
        case "media":
            history.media.append(MediaReading.model_validate(value))


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
