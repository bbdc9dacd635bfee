"""A vendor held against itself: what it is asked besides the probes, all of it for nothing.

Its counter is asked about every published sentence, before and after, so that a baseline agrees with itself. And where
an oversized output limit is refused, each other refused case is sent once more together with that limit: which of two
faults the vendor reports first decides what may later stand behind the oversize probe as a trip-wire.
"""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from relay_audit.assess.model_identity import OVERSIZE
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.pack import Pack
from relay_audit.plan import WHEN, Plan, Step, When, count_body, path_for
from relay_audit.probe import Probe, RequestSpec
from relay_audit.question import Question, values_of
from relay_audit.wording import Wording, Wordlists

TOGETHER = f"{OVERSIZE}_with_"
"""How the case of two faults is called: this, then the other case."""
PAIRS_AT_MOST = 12
"""Free requests spent on the order of faults."""


def with_calibration(
    plan: Plan,
    question: Question,
    pack: Pack,
    probes: tuple[Probe, ...],
    lists: Wordlists,
    knowledge: Knowledge,
    day: dt.date,
) -> Plan:
    """The plan, and what a vendor shows of itself for nothing."""
    more = [*_sentences(question, pack, probes, lists, knowledge, day), *_pairs(plan, pack)]
    steps = sorted([*plan.steps, *more], key=lambda step: WHEN.index(step.when))
    return plan.model_copy(update={"steps": tuple(steps)})


def free_part(plan: Plan) -> Plan:
    """Only what the vendor answers for nothing, and counts of published sentences alone."""
    steps = tuple(step for step in plan.steps if step.side == "official" and step.cost == "free" and not step.counts)
    return plan.model_copy(update={"steps": steps})


def _sentences(
    question: Question,
    pack: Pack,
    probes: tuple[Probe, ...],
    lists: Wordlists,
    knowledge: Knowledge,
    day: dt.date,
) -> list[Step]:
    """A count of each published sentence, for the model under test and for its kin that has a baseline."""
    found = _published(question.dialect, probes)
    if pack.counter is None or found is None or not question.counter:
        return []
    probe, request = found
    kin = [m.name for m in knowledge.models if m.family == question.family and knowledge.baseline_for(m.name, day)]
    models = dict.fromkeys(
        [question.official_model, *(m for m in kin if not knowledge.same_model(m, question.official_model))]
    )
    texts = dict.fromkeys(row.text for row in knowledge.baselines if row.valid_on(day))
    factors = {name: levels[0] for name, levels in request.matrix.items()}
    steps = []
    for model in models:
        for index, text in enumerate(texts):
            body = Wording(lists, 0, text).fill(request.body, values_of(question, factors), request.id)
            counted = count_body(body, pack, model)
            steps += [_count(probe, request, pack, model, text, index, counted, when) for when in ("before", "after")]
    return steps


def _published(dialect: str, probes: tuple[Probe, ...]) -> tuple[Probe, RequestSpec] | None:
    """The request that this dialect sends a published sentence with."""
    return next(
        (
            (probe, request)
            for probe in probes
            if dialect in probe.applies.dialects
            for request in probe.requests
            if "'published_sentence'" in str(request.body)
        ),
        None,
    )


def _count(
    probe: Probe,
    request: RequestSpec,
    pack: Pack,
    model: str,
    text: str,
    index: int,
    body: dict[str, object],
    when: When,
) -> Step:
    return Step(
        id=f"published.{when}.{model}.{index + 1}",
        probe=probe.id,
        request=request.id,
        side="official",
        stage=probe.stage,
        cost="free",
        path=path_for(pack.counter.path, model) if pack.counter else "",
        body=body,
        factors={"published": text, "model": model},
        when=when,
    )


def _pairs(plan: Plan, pack: Pack) -> list[Step]:
    """Each refused case with the oversized limit on top."""
    limit = pack.output_limit.removeprefix("/")
    mirrors = [step for step in plan.steps if step.side == "official" and step.refusal and step.when == "before"]
    oversize = next((step for step in mirrors if step.case == OVERSIZE), None)
    if oversize is None or limit not in oversize.body:
        return []
    others = [step for step in mirrors if _joins(step, oversize, limit)]
    return [
        step.model_copy(
            update={
                "id": f"order.{step.mirrors}",
                "case": f"{TOGETHER}{step.case}",
                "body": {**step.body, limit: oversize.body[limit]},
                "mirrors": "",
                "unbounded": True,
            }
        )
        for step in others[:PAIRS_AT_MOST]
    ]


def _joins(step: Step, oversize: Step, limit: str) -> bool:
    """A fault of its own beside the limit: not in the key, a header or the model's name, which come before any body."""
    same_place = step.path == oversize.path and step.body.get("model") == oversize.body.get("model")
    return step.case != OVERSIZE and same_place and limit in step.body and not step.headers and step.key == "own"


class Failure(NamedTuple):
    """A finding that a vendor against itself must not give, and the probes it came from."""

    code: str
    severity: str
    outcome: str
    probes: tuple[str, ...]
    exchanges: tuple[str, ...]


def failures(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Failure, ...]:
    """Everything above info, and every assessor that broke."""
    of_step = {step.id: step.probe for step in evidence.plan.steps} if evidence.plan else {}
    of_exchange = {exchange.id: of_step.get(exchange.step, "") for exchange in evidence.exchanges}
    return tuple(
        Failure(
            found.code,
            found.severity,
            found.outcome,
            tuple(sorted({of_exchange.get(x, "") for x in found.exchanges} - {""})),
            found.exchanges,
        )
        for found in findings
        if found.above_info or found.outcome == "error"
    )
