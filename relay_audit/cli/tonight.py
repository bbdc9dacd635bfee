"""A watched line is accused of something new: the same probes once more, before the night ends.

Only where an amount in advance covers it: what is left of that amount after the night's own run, and never more. An
approval that a person gave is for one quote, and for nothing else; there the next night decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from relay_audit import audit
from relay_audit.again import Earlier, to_repeat
from relay_audit.attribution import answers_of
from relay_audit.cli.flow import Invocation, begun, free_of_charge, send
from relay_audit.cli.nightly import Night, Repeat
from relay_audit.cli.permit import advance_of, month_refusal
from relay_audit.errors import RelayAuditError, UsageError
from relay_audit.exits import counts
from relay_audit.finding import Finding
from relay_audit.judgement import Judgement
from relay_audit.quote import ApprovalChannel, Quote
from relay_audit.recorder import Recorder
from relay_audit.store import Store
from relay_audit.target import Target


def tested_again(recorder: Recorder, waiting: tuple[Finding, ...], call: Invocation) -> Repeat | None:
    """A run of its own with the probes of these findings, in new words; None where it may not be paid for, or where
    nothing of it can be sent again. What breaks it off is no result: nothing is raised."""
    history = recorder.history
    advance, channel = advance_of(history.target, call.max_usd, call.environ)
    if history.facts.conflict or (again := _probes(recorder.store, waiting)) is None:
        return None
    earlier, target = again
    left = (advance or Decimal(0)) - history.ledger.committed
    night = replace(call, earlier=earlier, night=Night(), expect_plan="", as_json=True, hand_over=None)
    call.notice("tested_again", {"codes": ", ".join(sorted({finding.code for finding in waiting}))})
    try:
        with begun(target, night) as (repeat, connections, library, quote):
            if not (free_of_charge(repeat, quote) or _covered(repeat, quote, left, channel, night)):
                repeat.end_cancelled()
                return None
            send(repeat, connections, library, night)
            judgement = audit.judge(repeat.store)
            audit.record_judgement(repeat, judgement)
    except RelayAuditError as error:
        call.notice("not_tested_again", {"why": error.message})
        return None
    return _told(judgement, waiting, call)


def _probes(store: Store, waiting: Iterable[Finding]) -> tuple[Earlier, Target] | None:
    """Those that rest on requests; what was read in books is read again tomorrow."""
    repeatable = []
    for finding in waiting:
        try:
            to_repeat(store, [finding.id])
        except UsageError:
            continue
        repeatable.append(finding.id)
    return to_repeat(store, repeatable) if repeatable else None


def _covered(recorder: Recorder, quote: Quote, left: Decimal, channel: ApprovalChannel, call: Invocation) -> bool:
    """The amount in advance approves what is left of it."""
    if quote.at_most > left or month_refusal(recorder, call.space):
        return False
    audit.approve(recorder, quote.digest, left, audit.account(), channel)
    return True


def _told(judgement: Judgement, waiting: tuple[Finding, ...], call: Invocation) -> Repeat:
    """What broke off or got no answers has tested nothing; what it saw all the same was seen."""
    evidence = judgement.evidence
    wanted = {finding.code for finding in waiting}
    again = {
        f.code for f in judgement.findings if f.code in wanted and call.fail_on != "none" and counts(f, call.fail_on)
    }
    whole = evidence.status == "completed" and not evidence.stopped and bool(answers_of(evidence))
    return Repeat(evidence.run_id, frozenset(wanted if whole else again), frozenset(again))
