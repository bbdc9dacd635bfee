"""Target and probes become an ordered list of steps: one step is at most one sending. Pure: no network, no clock."""

from __future__ import annotations

import itertools
from typing import Any, Literal
from urllib.parse import quote as percent_encoded

from pydantic import Field, JsonValue

from relay_audit.exchange import pointer, whole_number
from relay_audit.finding import Coverage
from relay_audit.pack import Pack
from relay_audit.probe import USER_AGENTS, Bound, Case, Probe, ProfileName, RequestSpec, Stage
from relay_audit.prompt_text import estimate_of
from relay_audit.question import Question, values_of
from relay_audit.video import VideoOrder
from relay_audit.wording import Wording
from relay_audit.words import Frozen, Side, canonical, digest

Cost = Literal["free", "may_charge"]
When = Literal["before", "with", "after"]
WHEN: tuple[When, ...] = ("before", "with", "after")
STAGES: tuple[Stage, ...] = ("probe", "canary", "batch")
"""Legal requests first, then one refusal at a time with the relay's books read after it, then the rest."""
TOKENS = 2
"""The check whose requests go first: a run that ends early still has something to compare."""
CHECKS_HERE = (1, 2, 3, 4, 6)
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
    when: When = "with"
    """An official count is taken before and again after the relay's sendings: a control that must agree with itself."""
    estimate: int = 0
    """Input tokens by our own upper estimate; the official count replaces it where there is one."""
    case: str = ""
    """The deviation that was sent, for a request with cases."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Fixed headers replaced; an empty value takes the header out."""
    key: Literal["own", "made_up"] = "own"
    refusal: bool = False
    """The vendor refuses it: an honest hop charges nothing, and an answer 200 ends its lane until the books were read."""
    unbounded: bool = False
    """No legal output limit in the body: at most is the software's largest fill or clamp."""
    tier: Literal["", "users", "integration", "none"] = ""
    """For a case: whom a difference touches."""
    again: bool = False
    """Not a case's first sending: the batch has it, whatever the stage of the first, and the vendor is not asked."""
    after: str = ""
    """For a case: the one that has to have been answered before it is sent."""
    trip_wire: str = ""
    """For the oversized limit: the case whose fault stands behind it."""
    mirrors: str = ""
    """For an official step: the relay step whose very body it is."""
    user_agent: str = ""
    """Sent where the buyer named none; empty means the plain default of the HTTP library."""
    output_limit: int | None = None
    """The body's own bound of its output; None where it has none that is a count."""
    order: VideoOrder | None = None
    """The film it orders: one task, asked after and fetched by its probe's route."""

    @property
    def lane(self) -> str:
        """Refusals of one request of a probe wait for each other."""
        return f"{self.probe}/{self.request}"

    @property
    def line(self) -> str:
        """Id of its line in the quote: one per probe and side; each film has one of its own."""
        return f"{self.probe}{f'.{self.order.name}' if self.order else ''}@{self.side}"


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
        bounds = {bound: digest(bound.model_dump() if bound else None) for bound in {s.bound for s in self.steps}}
        rows = sorted((s.probe, s.request, s.case, s.side, s.path, s.when, bounds[s.bound]) for s in self.steps)
        return digest([self.dialect, self.model, self.official_model, self.profile, sorted(self.checks), rows])

    def step(self, step_id: str) -> Step | None:
        return next((step for step in self.steps if step.id == step_id), None)

    def chargeable(self, side: Side = "relay") -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.cost == "may_charge" and step.side == side)


def make_plan(question: Question, pack: Pack, probes: tuple[Probe, ...], wording: Wording, seed: int) -> Plan:
    """Steps in the order they will be sent, cheapest first within a stage; reasons for what will not run."""
    wanted = question.checks or CHECKS_HERE
    chosen = [p for p in probes if not question.free_only and _applies(p, question) and set(p.checks) & set(wanted)]
    chosen.sort(key=lambda probe: probe.checks[0] != TOKENS)
    steps = sorted((step for probe in chosen for step in _steps(probe, question, pack, wording)), key=turn)
    mirrors = [mirror for step in steps if question.official for mirror in _mirrors(step, question, chosen)]
    counted = [step for step in steps if _is_counted(step, chosen)]
    counts = [_count(step, question.official_model, pack, when) for when in ("before", "after") for step in counted]
    covered = {check for probe in chosen for check in probe.checks if check in wanted}
    return Plan(
        dialect=question.dialect,
        model=question.model,
        official_model=question.official_model,
        profile=question.profile,
        checks=tuple(sorted(covered | ({6} & set(wanted)))),
        seed=seed,
        counter=question.counter,
        steps=tuple(sorted([*counts, *steps, *mirrors], key=lambda s: WHEN.index(s.when))),
        coverage=tuple(_not_running(question, wanted, covered)),
    )


def turn(step: Step) -> tuple[int, int]:
    """Stage by stage; among legal requests, those with the shortest answers first: an early stop leaves the most behind.
    What was asked once already comes after every first question: a site that shuts after some errors costs repetitions
    only. Last what waits for an answer to one of those."""
    if step.stage == "batch":
        return STAGES.index(step.stage), 2 if step.after else int(step.again)
    shortest_first = step.stage == "probe" and step.bound is not None
    return STAGES.index(step.stage), step.bound.output_tokens if shortest_first and step.bound else 0


def _applies(probe: Probe, question: Question) -> bool:
    applies = probe.applies
    return (
        question.dialect in applies.dialects
        and question.profile in applies.profiles
        and (not applies.software or question.software in applies.software)
        and (not applies.families or question.family in applies.families)
        and (not applies.takes or question.refuses.get(applies.takes) is False)
        and (applies.also is None or applies.also in question.also)
        and applies.counter in ("any", "present" if question.counter else "absent")
        and applies.baseline in ("any", "present" if question.has_baseline else "absent")
    )


def _steps(probe: Probe, question: Question, pack: Pack, wording: Wording) -> list[Step]:
    steps = []
    for request in probe.requests:
        if request.cases:
            steps += [
                _case_step(probe, request, case, question, pack, wording, turn)
                for case in request.cases
                if _sendable(case, question, pack)
                for turn in range(max(request.repeat, 1 + _again(case, question)))
            ]
            continue
        for factors in combinations(request):
            for turn in range(request.repeat):
                tail = [*map(str, factors.values()), *([str(turn + 1)] * (request.repeat > 1))]
                name = ".".join([probe.id.replace("/", "."), request.id, *tail])
                body = wording.fill(request.body, values_of(question, factors), name)
                steps.append(_step(probe, request, name, body, pack, factors, question.model))
    return steps


def _step(
    probe: Probe,
    request: RequestSpec,
    name: str,
    body: dict[str, Any],
    pack: Pack,
    factors: dict[str, JsonValue],
    model: str,
) -> Step:
    agent = factors.get(request.user_agent[1:], "library") if request.user_agent.startswith("$") else request.user_agent
    return Step(
        id=name,
        probe=probe.id,
        request=request.id,
        side="relay",
        stage=probe.stage,
        cost="may_charge",
        path=path_for(request.path, model),
        body=body,
        bound=request.bound,
        factors=factors,
        estimate=estimate_of(body, pack),
        user_agent=USER_AGENTS[str(agent)],
        output_limit=whole_number(pointer(body, pack.output_limit)),
    )


def path_for(path: str, model: str) -> str:  # the name stays one segment
    return path.replace("$model", percent_encoded(model, safe=""))


def _case_step(
    probe: Probe, request: RequestSpec, case: Case, question: Question, pack: Pack, wording: Wording, turn: int
) -> Step:
    """The base body with one deviation; `turn` counts its sendings from 0."""
    name = ".".join([probe.id.replace("/", "."), request.id, case.id, *([str(turn + 1)] * (turn > 0))])
    plain = {key: value for key, value in request.body.items() if key not in case.drop}
    body = wording.fill(plain | case.set, values_of(question, {}), name)
    step = _step(probe, request, name, body, pack, {}, question.model)
    stage: Stage = "batch" if turn else step.stage
    return step.model_copy(
        update={"case": case.id, "again": turn > 0, "stage": stage, "headers": case.headers, "key": case.key,
                "refusal": _refused(case, question), "unbounded": case.unbounded, "tier": case.tier, "after": case.after}
    )  # fmt: skip


def _sendable(case: Case, question: Question, pack: Pack) -> bool:
    """A case that is meant for this family; an oversized limit only where the vendor refuses it and the limit is known."""
    if (case.families and question.family not in case.families) or (case.trait and case.trait not in question.refuses):
        return False
    limits = {b"$max_output_plus_1": question.max_output, b"$next_output_plus_1": question.next_output}
    asked = [limit for name, limit in limits.items() if name in canonical(case.set)]
    return not asked or (pack.oversize == "allowed" and None not in asked)


def _refused(case: Case, question: Question) -> bool:
    return question.refuses[case.trait] if case.trait else not case.legal


def _again(case: Case, question: Question) -> int:
    """How often a case is asked after its first sending: what the vendor takes is paid for each time, and asked once."""
    return case.again if question.profile in case.again_in and _refused(case, question) else 0


def _mirrors(step: Step, question: Question, probes: list[Probe]) -> list[Step]:
    """The same body for the official side. Where the vendor refuses it, it is free and asked before and after the
    relay's sending: a control that must agree with itself. A legal one is asked once and may charge there too."""
    own = [r for p in probes for r in p.requests if p.id == step.probe and r.id == step.request and r.mirrored]
    if not own or step.again or not (step.refusal or question.official_priced):
        return []
    body = {**step.body, "model": question.official_model} if step.body.get("model") == question.model else step.body
    path = path_for(own[0].path, question.official_model)
    common = {"side": "official", "path": path, "body": body, "mirrors": step.id}
    if not step.refusal:
        return [step.model_copy(update={**common, "id": f"mirror.with.{step.id}"})]
    return [
        step.model_copy(update={**common, "id": f"mirror.{when}.{step.id}", "when": when, "cost": "free"})
        for when in ("before", "after")
    ]


def combinations(request: RequestSpec) -> list[dict[str, JsonValue]]:
    """One table of levels per sending: the rows of the design, or all of the matrix with its first factor outermost."""
    if request.design:
        return [dict(zip(request.factors, levels, strict=True)) for levels in request.design]
    if not request.matrix:
        return [{}]
    return [dict(zip(request.matrix, levels, strict=True)) for levels in itertools.product(*request.matrix.values())]


def _is_counted(step: Step, probes: list[Probe]) -> bool:
    return any(p.id == step.probe and r.id == step.request and r.counted for p in probes for r in p.requests)


def count_body(body: dict[str, Any], pack: Pack, official_model: str) -> dict[str, Any]:
    """The body the official counter is asked about: equal to the sent one in everything that is counted."""
    if pack.counter is None:
        raise ValueError(f"dialect {pack.dialect} has no counting endpoint")
    counted = {key: value for key, value in body.items() if key in pack.counter.keep}
    if "model" in pack.counter.keep:
        counted["model"] = pack.counter.model_as.replace("$model", official_model)
    return {pack.counter.inside: counted} if pack.counter.inside else counted


def quote_counts(plan: Plan, pack: Pack) -> list[Step]:
    """Counts that only the quote needs: of every legal body that will be sent and is not counted as a control. What the
    vendor refuses it does not count either, and an honest hop charges nothing for it."""
    controls = {step.counts for step in plan.steps}
    if pack.counter is None or not plan.counter:
        return []
    uncounted = [step for step in plan.chargeable() if not step.refusal and step.id not in controls]
    return [_count(step, plan.official_model, pack, "before") for step in uncounted]


def _count(step: Step, official_model: str, pack: Pack, when: str) -> Step:
    if pack.counter is None:
        raise ValueError(f"dialect {pack.dialect} has no counting endpoint")
    return Step(
        id=f"count.{when}.{step.id}",
        probe=step.probe,
        request=step.request,
        side="official",
        stage=step.stage,
        cost="free",
        path=path_for(pack.counter.path, official_model),
        body=count_body(step.body, pack, official_model),
        factors=step.factors,
        counts=step.id,
        when="before" if when == "before" else "after",
    )


def _not_running(question: Question, wanted: tuple[int, ...], covered: set[int]) -> list[Coverage]:
    rows = []
    for check in range(1, 7):
        if check == 5:
            rows.append(Coverage(check=5, state="not_applicable", reason="text_line"))
        elif check not in wanted:
            rows.append(Coverage(check=check, state="not_run", reason="not_chosen"))
        elif question.free_only and check != 6:
            rows.append(Coverage(check=check, state="not_run", reason="free_only"))
        elif check != 6 and check not in covered:
            reason = "no_baseline_for_model" if check == 2 and not question.counter else "no_probe_applies"
            rows.append(Coverage(check=check, state="not_run", reason=reason))
    return rows
