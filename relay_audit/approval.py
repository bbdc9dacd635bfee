"""Leave to spend, recorded: who gave it, through which channel, for exactly which quote; given once, and the same again is
the same answer.
"""

from __future__ import annotations

import contextlib
import getpass
from decimal import Decimal

from relay_audit.errors import ApprovalRefused, Overtaken, UsageError
from relay_audit.events import Actor, Draft
from relay_audit.evidence import ApprovalFacts
from relay_audit.quote import Approval, ApprovalChannel, Quote
from relay_audit.recorder import Recorder
from relay_audit.replay import History
from relay_audit.words import money


def account() -> str:
    """Who works here, as the system says it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def approve(
    recorder: Recorder, quote_digest: str, ceiling: Decimal, approver: str, channel: ApprovalChannel
) -> Approval:
    """Records an approval of exactly this quote. The same again is the same answer; raises `ApprovalRefused` otherwise."""
    while True:
        history = recorder.catch_up()
        refuse_imported(history)
        quote = history.quote
        if quote is None or history.status in ("failed", "cancelled") or history.cancelling:
            raise ApprovalRefused("this run has no quote to approve", next_step="begin a new run")
        digest = full_digest(quote_digest, quote)
        if _given(history, digest, ceiling) and (before := history.approved()):
            return before
        _refuse_spent(history, quote, digest)
        approval = quote.approve(digest, ceiling, approver=approver, channel=channel, at=recorder.clock.now())
        facts = ApprovalFacts(quote_digest=digest, ceiling=ceiling, approver=approver, channel=channel, at=approval.at,
                              expires_at=approval.expires_at)  # fmt: skip
        payload = {"signal": "approve", "approval": facts.model_dump(mode="json")}
        with contextlib.suppress(Overtaken):
            recorder.note_all([Draft("signal.received", payload, actor_of(channel))], after=history.seq)
            return approval


def actor_of(channel: ApprovalChannel) -> Actor:
    """Who speaks through a channel: only a terminal has a person at it."""
    return "human" if channel == "terminal" else "ci" if channel == "ci" else "agent"


def _given(history: History, digest: str, ceiling: Decimal) -> bool:
    """Whether the last approval was just this one."""
    last = history.approval
    return last is not None and (last.quote_digest, last.ceiling) == (digest, ceiling)


def _refuse_spent(history: History, quote: Quote, digest: str) -> None:
    """An approval is given once per quote; a quote that somebody said no to is revised, not approved."""
    used = digest in {given.quote_digest for given in history.approvals}
    if history.approval is not None and (used or (history.covered and digest != quote.digest)):
        raise ApprovalRefused(
            f"this run was approved already, with {money(history.approval.ceiling)}; an approval is given once",
            next_step=f"the current quote is {quote.digest}; go on with: relay-audit resume {history.store.run_id}",
            details={"current_digest": quote.digest},
        )
    if digest in history.declined:
        raise ApprovalRefused(
            "this quote was declined",
            next_step=f"ask for a fresh one: relay-audit revise {history.store.run_id}",
            details={"current_digest": quote.digest},
        )


def full_digest(given: str, quote: Quote) -> str:
    """A digest may be given by its first 12 characters or more."""
    return quote.digest if len(given) >= 12 and quote.digest.startswith(given.lower()) else given


def refuse_imported(history: History) -> None:
    """Raises `UsageError`: an approval that came in with an archive is nobody's leave to spend here."""
    if history.imported:
        raise UsageError(
            "this run came in as an archive: it can be read and judged, not approved or resumed",
            next_step="begin a run of your own: relay-audit run",
        )
