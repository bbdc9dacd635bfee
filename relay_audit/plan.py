"""Target and probes become an ordered list of steps: one step is at most one sending. Pure: no network, no clock."""

from __future__ import annotations

import itertools
from typing import Any, Literal

from pydantic import Field, JsonValue

from relay_audit.finding import Coverage
from relay_audit.probe import Bound, Pack, Probe, ProfileName, RequestSpec, Stage
from relay_audit.wording import Wording
from relay_audit.words import Frozen, Side, digest

Cost = Literal["free", "may_charge"]
CHECKS_HERE = (1, 2, 6)
"""The checks this version has; the others are named in coverage, never passed over."""


class Step(Frozen):
    id: str
    probe: str
    request: str
    side: Side
    stage: Stage
    cost: Cost
    """Anything sent to a relay's generation routes may charge, whatever the official side says."""
    path: str
    body: dict[str, Any]
    bound: Bound | None = None
    factors: dict[str, JsonValue] = Field(default_factory=dict)
    counts: str = ""
    """For an official count: the relay step whose body it counts."""
    when: Literal["before", "with", "after"] = "with"
    """An official count is taken before and again after the relay's sendings: a control that must agree with itself."""
    estimate: int = 0
    """Input tokens by our own upper estimate; the official count replaces it where there is one."""


class Plan(Frozen):
    dialect: str
    model: str
    official_model: str
    profile: ProfileName
    checks: tuple[int, ...]
    seed: int
    counter: bool
    """Whether an official count endpoint is asked."""
    steps: tuple[Step, ...]
    coverage: tuple[Coverage, ...] = ()
    """What is known not to run, and why, before anything is sent."""

    @property
    def digest(self) -> str:
        """`plan_digest`: packs, probe ids, counts, bounds, model, sides. Not seed, wording, prices or time."""
        rows = sorted(
            (s.probe, s.request, s.side, s.path, s.when, digest(s.bound.model_dump() if s.bound else None)) for s in self.steps
        )
        return digest([self.dialect, self.model, self.official_model, self.profile, sorted(self.checks), rows])

    def step(self, step_id: str) -> Step | None:
        return next((step for step in self.steps if step.id == step_id), None)

    def chargeable(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.cost == "may_charge")


class Question(Frozen):
    """What a plan is made from, besides packs: the parts of a target that decide what is sent."""

    model: str
    official_model: str
    dialect: str
    profile: ProfileName
    checks: tuple[int, ...]
    software: str
    counter: bool
    """An official key and a counting endpoint are at hand."""
    no_counter_reason: str = "no_official_key"
    family: str = ""
    has_baseline: bool = False
    free_only: bool = False


def make_plan(question: Question, pack: Pack, probes: tuple[Probe, ...], wording: Wording, seed: int) -> Plan:
    """Steps in the order they will be sent, cheapest first within a stage; reasons for what will not run."""
    wanted = question.checks or CHECKS_HERE
    chosen = [p for p in probes if _applies(p, question) and set(p.checks) & set(wanted)] if not question.free_only else []
    steps = [step for probe in chosen for step in _steps(probe, question, pack, wording)]
    counts = [_count(step, question, pack, when) for when in ("before", "after") for step in steps if _is_counted(step, chosen)]
    covered = {check for probe in chosen for check in probe.checks if check in wanted}
    return Plan(
        dialect=question.dialect,
        model=question.model,
        official_model=question.official_model,
        profile=question.profile,
        checks=tuple(sorted(covered | ({6} & set(wanted)))),
        seed=seed,
        counter=question.counter,
        steps=tuple([c for c in counts if c.when == "before"] + steps + [c for c in counts if c.when == "after"]),
        coverage=tuple(_not_running(question, wanted, covered)),
    )


def _applies(probe: Probe, question: Question) -> bool:
    applies = probe.applies
    return (
        question.dialect in applies.dialects
        and question.profile in applies.profiles
        and (not applies.software or question.software in applies.software)
        and (not applies.families or question.family in applies.families)
        and applies.counter in ("any", "present" if question.counter else "absent")
        and applies.baseline in ("any", "present" if question.has_baseline else "absent")
    )


def _steps(probe: Probe, question: Question, pack: Pack, wording: Wording) -> list[Step]:
    steps = []
    for request in probe.requests:
        for factors in combinations(request):
            for turn in range(request.repeat):
                tail = [str(v) for v in factors.values()] + ([str(turn + 1)] if request.repeat > 1 else [])
                name = ".".join([probe.id.replace("/", "."), request.id, *tail])
                body = wording.fill(request.body, values_of(question.model, factors), name)
                steps.append(
                    Step(
                        id=name,
                        probe=probe.id,
                        request=request.id,
                        side="relay",
                        stage=probe.stage,
                        cost="may_charge",
                        path=request.path,
                        body=body,
                        bound=request.bound,
                        factors=factors,
                        estimate=_estimate(body, pack),
                    )
                )
    return steps


def values_of(model: str, factors: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What the references of one body stand for."""
    return {"$model": model, **{f"${factor}": level for factor, level in factors.items()}}


def combinations(request: RequestSpec) -> list[dict[str, JsonValue]]:
    """One table of levels per sending, the first factor of the matrix outermost."""
    if not request.matrix:
        return [{}]
    return [dict(zip(request.matrix, levels, strict=True)) for levels in itertools.product(*request.matrix.values())]


def _is_counted(step: Step, probes: list[Probe]) -> bool:
    return any(p.id == step.probe and r.id == step.request and r.counted for p in probes for r in p.requests)


def count_body(body: dict[str, Any], pack: Pack, official_model: str) -> dict[str, Any]:
    """The body the official counter is asked about: equal to the sent one in everything that is counted."""
    if pack.counter is None:
        raise ValueError(f"dialect {pack.dialect} has no counting endpoint")
    return {key: (official_model if key == "model" else value) for key, value in body.items() if key in pack.counter.keep}


def _count(step: Step, question: Question, pack: Pack, when: str) -> Step:
    if pack.counter is None:
        raise ValueError(f"dialect {pack.dialect} has no counting endpoint")
    return Step(
        id=f"count.{when}.{step.id}",
        probe=step.probe,
        request=step.request,
        side="official",
        stage=step.stage,
        cost="free",
        path=pack.counter.path,
        body=count_body(step.body, pack, question.official_model),
        factors=step.factors,
        counts=step.id,
        when="before" if when == "before" else "after",
    )


def _estimate(body: dict[str, Any], pack: Pack) -> int:
    """An upper estimate of input tokens without a counter: characters by script plus the frame."""
    text = "".join(_texts(body))
    wide = sum(ord(char) > 0x2E7F for char in text)
    rates = pack.input_estimate_per_unit
    return int(wide * rates["cjk_char"] + (len(text) - wide) * rates["ascii_char"] + rates["frame"])


def _texts(value: JsonValue, key: str = "") -> list[str]:
    if isinstance(value, str):
        return [value] if key in ("content", "system", "text") else []
    if isinstance(value, list):
        return [text for item in value for text in _texts(item, key)]
    if isinstance(value, dict):
        return [text for name, item in value.items() for text in _texts(item, name)]
    return []


def _not_running(question: Question, wanted: tuple[int, ...], covered: set[int]) -> list[Coverage]:
    rows = []
    for check in range(1, 7):
        if check == 5:
            rows.append(Coverage(check=5, state="not_applicable", reason="text_line"))
        elif check not in CHECKS_HERE:
            rows.append(Coverage(check=check, state="not_run", reason="not_in_this_version"))
        elif check not in wanted:
            rows.append(Coverage(check=check, state="not_run", reason="not_chosen"))
        elif question.free_only and check in (1, 2):
            rows.append(Coverage(check=check, state="not_run", reason="free_only"))
        elif check in (1, 2) and check not in covered:
            reason = "no_baseline_for_model" if check == 2 and not question.counter else "no_probe_applies"
            rows.append(Coverage(check=check, state="not_run", reason=reason))
    return rows
