"""A stored run is judged: by the knowledge it carries, by today's, or as it was judged when its bytes were still there."""

from __future__ import annotations

from pydantic import Field

from relay_audit import __version__
from relay_audit.assess import assess
from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import Knowledge, VerdictRule
from relay_audit.library import Library, archived_library, current_library
from relay_audit.recorder import Recorder
from relay_audit.relays.detect import recognised
from relay_audit.replay import History, blob_json, replay
from relay_audit.store import Store
from relay_audit.verdict import Verdict, decide
from relay_audit.words import Frozen


class Judgement(Frozen):
    evidence: Evidence
    findings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    verdict: Verdict
    knowledge_digest: str
    knowledge: Knowledge = Field(exclude=True, repr=False)
    """What judged, for the texts and dates a report prints."""


def judge(store: Store, *, current: bool = False, rules: tuple[VerdictRule, ...] = ()) -> Judgement:
    """Findings, coverage and verdict of a stored run, by the knowledge it carries or by today's, and by `rules` of the
    buyer's own where there are any. Where bytes were taken away, by the judgement that was recorded while they were there."""
    history = replay(store)
    library = current_library(history) if current else archived_library(history)
    return judged_by(history, library, rules)


def judged_by(history: History, library: Library, rules: tuple[VerdictRule, ...] = ()) -> Judgement:
    """By the recorded judgement of this very knowledge where the evidence is no longer whole or another version of this
    program judged it: what was said then is said again, byte for byte."""
    evidence = recognised(history.evidence(), library.knowledge)
    other = evidence_withheld(history) or history.tool_version != __version__
    kept = recorded_judgement(history.store, library.digest) if other else None
    return _judgement(evidence, kept or assess(evidence, library.knowledge), library, rules)


def judged_again(history: History, library: Library) -> Judgement:
    """By this version of the program, whatever was recorded."""
    evidence = recognised(history.evidence(), library.knowledge)
    return _judgement(evidence, assess(evidence, library.knowledge), library, ())


def _judgement(
    evidence: Evidence, found: tuple[tuple[Finding, ...], tuple[Coverage, ...]], library: Library,
    rules: tuple[VerdictRule, ...],
) -> Judgement:  # fmt: skip
    findings, coverage = found
    return Judgement(
        evidence=evidence,
        findings=findings,
        coverage=coverage,
        verdict=decide(evidence, findings, coverage, rules or library.knowledge.rules),
        knowledge_digest=library.digest,
        knowledge=library.knowledge,
    )


def evidence_withheld(history: History) -> bool:
    return any(exchange.failure == "withheld" for exchange in history.exchanges.values())


def recorded_judgement(store: Store, knowledge: str = "") -> tuple[tuple[Finding, ...], tuple[Coverage, ...]] | None:
    """The first judgement that was recorded, by this knowledge if one is named; None where there is none."""
    made = store.events_of("assessment.recorded")
    event = next((event for event in made if knowledge in ("", event.payload["knowledge_digest"])), None)
    if event is None:
        return None
    kept = blob_json(store, event.payload_ref)
    if isinstance(kept, list):  # before coverage was kept beside the findings
        return tuple(map(Finding.model_validate, kept)), ()
    return tuple(map(Finding.model_validate, kept["findings"])), tuple(map(Coverage.model_validate, kept["coverage"]))


def record_judgement(recorder: Recorder, judgement: Judgement) -> None:
    """Once per knowledge: what was judged stays readable when the bytes under it, or this program, are gone."""
    digest = judgement.knowledge_digest
    if any(e.payload["knowledge_digest"] == digest for e in recorder.store.events_of("assessment.recorded")):
        return
    ref = recorder.blob({"findings": [finding.model_dump(mode="json") for finding in judgement.findings],
                         "coverage": [row.model_dump(mode="json") for row in judgement.coverage]})  # fmt: skip
    payload = {"knowledge_digest": judgement.knowledge_digest, "verdict": judgement.verdict.verdict}
    recorder.note("assessment.recorded", payload, ref)
