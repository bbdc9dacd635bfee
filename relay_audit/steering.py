"""What is said to a run from outside: each signal is taken or refused by what the run is at that moment, and recorded.

Any process may send one while another works on the run. What was decided by reading the run up to an event is written
only if that is still the last event; otherwise it is decided again. The same signal again is the same answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from relay_audit.approval import refuse_imported
from relay_audit.checkpoints import standing
from relay_audit.context import official_facts, with_context
from relay_audit.errors import Overtaken, SignalRefused, UsageError
from relay_audit.events import Actor, Draft
from relay_audit.plan import Plan
from relay_audit.planning import Knowing
from relay_audit.prices import PriceFile
from relay_audit.recorder import Recorder
from relay_audit.replay import FINAL, History, blob_json
from relay_audit.revision import Revision, planned, priced, replaced, with_target, without_lines, without_probes
from relay_audit.signals import SIGNALS, AddContext, Decline, Revise, Signal, SignalName
from relay_audit.words import Frozen


@dataclass(frozen=True)
class Sender:
    """Who gives a signal, and what is needed to honour it."""

    actor: Actor
    alone: bool = False
    """No process works on the run: what was asked is done here and now."""
    knowing: Callable[[], Knowing] | None = None
    """Packs and knowledge of the run, read when a plan is to be made anew."""


class Reply(Frozen):
    """What became of a signal. The same signal again gets the same one, as long as the run is where it was."""

    run_id: str
    signal: SignalName
    status: str
    heard: bool
    """False while a process works that has not come to its next step yet."""
    quote_digest: str = ""
    """The current quote."""
    approved: bool = False
    """Whether an approval holds for the current quote."""


def give(recorder: Recorder, signal: Signal, sender: Sender) -> Reply:
    """Takes a signal or refuses it. Raises `SignalRefused` with what to do instead; a refusal is recorded too."""
    name = name_of(signal)
    while True:
        history = recorder.catch_up()
        try:
            drafts = [] if _given_before(history, signal, name) else _DECIDE[name](recorder, signal, sender)
        except UsageError as refusal:
            recorder.note("signal.refused", _named(signal, name) | {"reason": refusal.code}, actor=sender.actor)
            raise
        if not drafts:
            return reply(history, name)
        with contextlib.suppress(Overtaken):
            recorder.note_all(drafts, after=history.seq)
            return reply(recorder.history, name)


def name_of(signal: Signal) -> SignalName:
    return next(name for name, kind in SIGNALS.items() if kind is type(signal))


def reply(history: History, name: SignalName) -> Reply:
    return Reply(
        run_id=history.store.run_id,
        signal=name,
        status=history.status,
        heard=not (history.wish in ("cancelled", "paused") and history.status == "running"),
        quote_digest=history.quote.digest if history.quote else "",
        approved=history.covered,
    )


def _given_before(history: History, signal: Signal, name: SignalName) -> bool:
    """Whether a signal of this id was taken before. Raises `SignalRefused` where the id belongs to another signal."""
    before = history.signals.get(signal.id) if signal.id else None
    if before is None:
        return False
    if before.payload["signal"] != name or before.payload.get("asked") != _asked(signal):
        raise SignalRefused(
            "this id belongs to another signal of this run", next_step="give the signal an id of its own"
        )
    return True


def _cancel(recorder: Recorder, signal: Signal, sender: Sender) -> list[Draft]:
    history = recorder.history
    refuse_imported(history)
    if history.status in FINAL.values() or (history.cancelling and not sender.alone):
        return []
    drafts = [] if history.cancelling else [_draft(signal, sender)]
    if sender.alone:
        drafts += [Draft("request.unconfirmed", {"exchange": xid}) for xid in history.unanswered()]
        drafts += [_checkpoint(history, "cancelled"), Draft("run.cancelled", {"stopped": "cancelled"})]
    return drafts


def _pause(recorder: Recorder, signal: Signal, sender: Sender) -> list[Draft]:
    history = _living(recorder.history)
    quiet = sender.alone and history.status != "paused"
    if history.pausing and not quiet:
        return []
    drafts = [] if history.pausing else [_draft(signal, sender)]
    if quiet:
        drafts += [_checkpoint(history, "paused"), _state("paused", "asked")]
    return drafts


def _resume(recorder: Recorder, signal: Signal, sender: Sender) -> list[Draft]:
    """Only the pause is taken back; going on is the work of whoever has the run."""
    history = _living(recorder.history)
    if not history.pausing:
        return []
    drafts = [_draft(signal, sender)]
    if history.status == "paused" and not history.covered:
        drafts.append(_state("awaiting_approval" if history.quote else "planned", "resumed"))
    return drafts


def _decline(recorder: Recorder, signal: Signal, sender: Sender) -> list[Draft]:
    history = _living(recorder.history)
    lines = signal.lines if isinstance(signal, Decline) else ()
    if lines:
        if set(lines) <= history.dropped:
            return []
        knowing = _knowing(sender)
        return _revised(recorder, signal, sender, without_lines(history, knowing, lines), knowing, lines)
    quote = history.quote
    if quote is None:
        raise SignalRefused("there is no quote to decline yet", next_step=_look(history))
    if quote.digest in history.declined:
        return []
    if history.covered:
        raise SignalRefused(
            "this quote was approved already",
            next_step=f"stop it: relay-audit pause {history.store.run_id}, or cancel it",
        )
    return [_draft(signal, sender), _checkpoint(history, "declined"), _state("blocked", "declined")]


def _revise(recorder: Recorder, signal: Signal, sender: Sender) -> list[Draft]:
    history = _living(recorder.history)
    plan = planned(history)
    asked = signal if isinstance(signal, Revise) else Revise()
    gone = (*asked.drop, *asked.replace)
    present = {step.probe for step in plan.steps}
    if gone and set(gone) <= history.dropped and set(asked.replace.values()) <= present:
        return []
    if not gone and history.covered:
        return []
    knowing = _knowing(sender)
    if asked.drop:
        plan = without_probes(history, knowing, asked.drop)
    if asked.replace:
        plan = replaced(history, knowing, asked.replace, plan)
    return _revised(recorder, signal, sender, plan, knowing, gone)


def _add_context(recorder: Recorder, signal: Signal, sender: Sender) -> list[Draft]:
    """A key's name or prices make a new quote; names of lines only change the decision card."""
    history = _living(recorder.history)
    asked = signal if isinstance(signal, AddContext) else AddContext()
    target = with_context(history, asked)
    if target == history.target and not asked.prices_ref:
        return []
    facts = history.facts.model_copy(update=official_facts(history, target))
    session = {
        "target": target.model_dump(mode="json", by_alias=True),
        "facts": facts.model_dump(mode="json", by_alias=True),
    }
    draft = _draft(signal, sender, recorder.blob(session))
    if target.official == history.target.official and not asked.prices_ref:
        return [draft]
    known = history.target, history.facts
    try:
        history.target, history.facts = target, facts  # the new plan is made with what it will be made from
        knowing = _knowing(sender)
        if asked.prices_ref:
            prices = PriceFile.model_validate(blob_json(history.store, asked.prices_ref))
            knowing = replace(knowing, prices=prices)
        plan = planned(history) if target.official == known[0].official else with_target(history, knowing)
        return [draft, *_replanned(recorder, Revision(plan, priced(history, knowing, plan, recorder.clock.now())))]
    finally:
        history.target, history.facts = known


def _revised(
    recorder: Recorder,
    signal: Signal,
    sender: Sender,
    plan: Plan,
    knowing: Knowing,
    dropped: tuple[str, ...],
) -> list[Draft]:
    quote = priced(recorder.history, knowing, plan, recorder.clock.now())
    return [_draft(signal, sender), *_replanned(recorder, Revision(plan, quote, dropped))]


def _replanned(recorder: Recorder, revision: Revision) -> list[Draft]:
    """Plan and quote as events. An approval that covers the new quote goes on holding; otherwise it waits for one."""
    history, plan, quote = recorder.history, revision.plan, revision.quote
    drafts = []
    if plan != history.plan or revision.dropped:
        payload = {"plan_digest": plan.digest, "steps": len(plan.steps), "dropped": list(revision.dropped)}
        drafts.append(Draft("plan.created", payload, payload_ref=recorder.blob(plan)))
    issued = {"quote_digest": quote.digest, "plan_digest": plan.digest}
    drafts.append(Draft("quote.issued", issued, payload_ref=recorder.blob(quote)))
    drafts.append(_checkpoint(history, "revised"))
    holds = history.covered and history.approved_quote is not None and history.approved_quote.covers(quote)
    if not holds and history.status != "awaiting_approval":
        drafts.append(_state("awaiting_approval", "revised"))
    return drafts


def _draft(signal: Signal, sender: Sender, ref: str = "") -> Draft:
    return Draft("signal.received", _named(signal, name_of(signal)) | {"asked": _asked(signal)}, sender.actor, ref)


def _named(signal: Signal, name: SignalName) -> dict[str, Any]:
    return {"signal": name, "id": signal.id} if signal.id else {"signal": name}


def _asked(signal: Signal) -> dict[str, Any]:
    return signal.model_dump(mode="json", exclude={"id"}, exclude_defaults=True)


def _checkpoint(history: History, code: str) -> Draft:
    return Draft("checkpoint.written", standing(history, code))


def _state(status: str, reason: str) -> Draft:
    return Draft("run.state_changed", {"status": status, "reason": reason})


def _living(history: History) -> History:
    refuse_imported(history)
    if history.status in FINAL.values() or history.cancelling:
        raise SignalRefused(
            f"this run has ended ({'cancelled' if history.cancelling else history.status})",
            next_step=f"read it: relay-audit report {history.store.run_id} --for internal; or begin a new one",
        )
    return history


def _knowing(sender: Sender) -> Knowing:
    if sender.knowing is None:
        raise SignalRefused("a plan cannot be made here", next_step="use the command line: relay-audit revise")
    return sender.knowing()


def _look(history: History) -> str:
    return f"see where it stands: relay-audit status {history.store.run_id}"


_DECIDE: dict[SignalName, Callable[[Recorder, Signal, Sender], list[Draft]]] = {
    "decline": _decline,
    "pause": _pause,
    "resume": _resume,
    "revise": _revise,
    "add_context": _add_context,
    "cancel": _cancel,
}
