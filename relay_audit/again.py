"""A line is tested again: all of it (`run --since`), or only what is disputed (`retest`), and held against the run before.

What was found then and is not seen now, though the same questions were answered, is withdrawn in the run that said it: it
stays there, marked, and is never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from relay_audit.attribution import answered, questions_of
from relay_audit.change import Change, identity
from relay_audit.clock import Clock
from relay_audit.difference import Difference, difference
from relay_audit.errors import UsageError
from relay_audit.finding import Finding
from relay_audit.judgement import Judgement, judge
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.store import Store
from relay_audit.target import Target

Fate = Literal["withdrawn", "stands", "open"]
"""Not seen again · seen again · not answered this time."""


@dataclass(frozen=True)
class Earlier:
    """The run that is repeated, and what of it."""

    run: str
    findings: tuple[str, ...] = ()
    """Ids; empty for all of it."""
    probes: frozenset[str] = frozenset()
    """The probes that these findings need; empty for all."""


@dataclass
class Compared:
    """The earlier run beside this one."""

    difference: Difference
    fates: list[tuple[Finding, Fate]] = field(default_factory=list)
    excused: frozenset[str] = frozenset()
    """Findings of this run that came or grew without the relay: they fail no night."""


def to_repeat(store: Store, wanted: Iterable[str]) -> tuple[Earlier, Target]:
    """What has to be asked again for these findings, with the target of that run. Raises `UsageError` for an id that is
    none, or a finding that rests on no request."""
    history, judgement = replay(store), judge(store)
    named = tuple(dict.fromkeys(item.strip().upper() for item in wanted if item.strip()))
    known = {finding.id: finding for finding in judgement.findings}
    if missing := [item for item in named if item not in known]:
        raise UsageError(
            f"no finding {missing[0][:20]!r} in this run", next_step=f"one of: {', '.join(known) or 'none'}"
        )
    probes: set[str] = set()
    for item in named:
        change = Change(kind="gone", code=known[item].code, check=known[item].check, before=known[item])
        needed = {probe for probe, _, _ in questions_of(change, judgement.evidence, judgement.evidence)}
        if not needed:
            raise UsageError(f"{item} rests on no request that could be sent again", next_step="leave it out")
        probes |= needed
    checks = tuple(sorted({known[item].check for item in named} - {0}))
    target = history.target
    if checks:
        target = target.model_copy(update={"audit": target.audit.model_copy(update={"checks": checks})})
    return Earlier(store.run_id, named, frozenset(probes)), target


def compare(recorder: Recorder, judgement: Judgement, older: Store, clock: Clock) -> Compared:
    """This finished run against the earlier one; findings that fell are marked there."""
    wanted = recorder.history.facts.since_findings
    then = judge(older)
    chosen = tuple(finding for finding in then.findings if finding.id in wanted)
    found = difference(older, recorder.store, chosen)
    fates = [(finding, _fate(finding, then, judgement)) for finding in chosen]
    gone = {(w.finding, w.code) for w in replay(older).withdrawn}
    for finding, fate in fates:
        if fate == "withdrawn" and (finding.id, finding.code) not in gone:
            payload = {
                "finding": finding.id,
                "code": finding.code,
                "reason": "not_seen_again",
                "run": recorder.store.run_id,
            }
            Recorder(older, clock).note("finding.withdrawn", payload)
    return Compared(found, fates, _excused(found))


def _fate(finding: Finding, then: Judgement, now: Judgement) -> Fate:
    if any(identity(other)[0] == finding.code and other.outcome == finding.outcome for other in now.findings):
        return "stands"
    change = Change(kind="gone", code=finding.code, check=finding.check, before=finding)
    asked = questions_of(change, then.evidence, now.evidence)
    return "withdrawn" if now.evidence.status == "completed" and answered(now.evidence, asked) else "open"


def _excused(found: Difference) -> frozenset[str]:
    others = [change for change in found.changes if change.cause != "relay" and change.after is not None]
    return frozenset(change.after.id for change in others if change.after is not None and change.kind != "gone")
