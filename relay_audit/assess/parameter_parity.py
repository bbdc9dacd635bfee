"""Check 4: is wrong input refused as the vendor refuses it, and are legal values in force?

What an honest hop of the software does by itself is subtracted (`params.relay_default`): a fact, held against nobody,
and named to a buyer who depends on it. One dated record alone accuses nobody. An answer that came from somewhere else
than ordinary answers (a fallback on 400) is named for what it is and read as nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from relay_audit.assess.parameter_cases import LIMIT_CASES, Outcome, Result, Scene, compare
from relay_audit.assess.sampler import CASE as SAMPLED
from relay_audit.assess.sampler import low_temperature
from relay_audit.codes import CODES, finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer
from relay_audit.finding import SEVERITIES, Basis, Confidence, EvidenceLevel, Finding, Severity
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Step
from relay_audit.verdict import LEVELS

CODE_OF: dict[Outcome, str] = {
    "accepted": "params.illegal_accepted",
    "unchecked": "params.key_unchecked",
    "clamped": "params.clamped",
    "dropped": "params.legal_dropped",
    "not_honoured": "params.not_honoured",
    "refused": "params.not_honoured",
    "rerouted": "params.rerouted_on_error",
}
LOST_FROM = 3
"""Refusals without meaning from which a relay's errors count as unusable, where none kept it."""
LOST: tuple[Outcome, ...] = ("accepted", "dropped", "not_honoured")
"""What a field that was taken out on the way comes to."""
HARD_SIGNS = frozenset({"fallback_header", "model", "model_header"})
SHOWN_TEXT = 160
"""Characters of a refusal that stand in a finding."""


TAKEN: tuple[Outcome, ...] = ("accepted", "clamped", "rerouted")
REFUSED: tuple[Outcome, ...] = ("same", "own", "rewritten")
"""What a refusal comes to that is as it should be."""


def assess_parameter_parity(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    if evidence.plan is None:
        return []
    scene = Scene.of(evidence, knowledge)
    # What is sent for a name alone is held against nobody: software that asks in the vendor's newer format is answered.
    asked = [s for s in evidence.plan.steps if s.side == "relay" and s.case and not s.after]
    steps = [s for s in asked if s.case not in knowledge.naming_cases]
    sendings: dict[str, list[Step]] = {}
    for step in steps:
        sendings.setdefault(step.case, []).append(step)
    told = [*(_over_all(of_case, scene) for of_case in sendings.values()), low_temperature(scene)]
    results = [result for result in told if result is not None]
    compared = [result for result in results if result.outcome != "unclear"]
    differing = [*_differences(compared, scene), *_unusable(compared)]
    return [
        *differing,
        *_rewritten(compared),
        *_defaults(compared, scene),
        *_matches(compared, differing),
    ]


def _over_all(steps: list[Step], scene: Scene) -> Result | None:
    """The result of a case over all its sendings, in order: that of the first that says anything, unless it was refused as it
    should be and a later one was not."""
    results = [result for step in steps if (result := compare(step, scene, steps[0])) is not None]
    clear = [result for result in results if result.outcome != "unclear"]
    taken = [result for result in clear if result.outcome in TAKEN]
    if not clear or clear[0].outcome not in REFUSED or not taken:
        return next(iter([*clear, *results]), None)
    return replace(taken[0], seldom=f"{len(taken)}/{len(clear)}")


def _differences(compared: list[Result], scene: Scene) -> list[Finding]:
    """One finding per code, tier and weight; several cases of one kind support each other, and so do fields that were lost,
    whether by a wrong value that was answered or by a right one without effect."""
    groups: dict[tuple[str, str, Severity], list[Result]] = {}
    differing = [result for result in compared if result.outcome in CODE_OF]
    alone = {
        code: len({r.step.case for r in differing if CODE_OF[r.outcome] == code and not _unheld(r)}) < 2
        for code in set(CODE_OF.values())
    }
    fields = [r for r in differing if r.step.case not in LIMIT_CASES]
    lost = [r for r in fields if r.outcome in LOST and _severity(r, scene, alone=False) == "medium"]
    together = len({r.step.case for r in lost}) > 1
    for result in differing:
        code = CODE_OF[result.outcome]
        weight = _severity(result, scene, alone=alone[code] and not (together and result in lost))
        groups.setdefault((code, result.step.tier, weight), []).append(result)
    return [_difference(code, tier, weight, group, compared) for (code, tier, weight), group in groups.items()]


UNSAID = "not_available"
"""What an account of a subscription, a partner's host or an older model writes in place of a region: whatever was asked
for, it is told so, and no program in between need have taken anything out."""


def _unheld(result: Result) -> bool:
    """Answers that were drawn, without the vendor's own beside them: that no vendor is undecided there is not known, so they
    weigh little and support nothing else."""
    return result.step.case == SAMPLED and not result.official.live


def _severity(result: Result, scene: Scene, *, alone: bool) -> Severity:
    """Medium, unless something speaks for less: no effect on use, an honest hop of unknown software, a refusal that can
    be heard, a single dated record."""
    if result.step.tier == "none" or result.official.stale:
        return "info"
    if _unheld(result):
        return "low"
    if result.outcome == "unchecked":
        return "low"  # whom a relay lets in is no fault in what its own customers get
    wanted = {"accepted": "accepted", "clamped": "accepted", "dropped": "rewritten", "not_honoured": "rewritten"}.get(
        result.outcome
    )
    if wanted and any(row.outcome == wanted and scene.excuses(row) for row in result.defaults):
        return "low"
    read = [pointer(result.exchange.answer(), path) for path in result.official.reads]
    if result.outcome == "dropped" and UNSAID in read:
        return "low"
    if result.outcome == "clamped" and result.exchange.status != 200:  # refused by the fault behind it: a sign
        return "low"
    if result.outcome == "refused" or (result.outcome == "rerouted" and not HARD_SIGNS & set(result.signs)):
        return "low"
    return "low" if alone and not result.official.live else "medium"


def _difference(code: str, tier: str, weight: Severity, group: list[Result], compared: list[Result]) -> Finding:
    params: dict[str, Any] = {"cases": _cases(group), "n": len(group), "of": len(compared), "fields": _fields(group)}
    if len(group) == 1:
        params |= group[0].told
    if code == "params.rerouted_on_error":
        params["signs"] = sorted({sign for result in group for sign in result.signs})
    stale = all(result.official.stale for result in group)
    return _made(code, params, group, severity=weight, outcome="inconclusive" if stale else "mismatch", impact=tier)


def _unusable(compared: list[Result]) -> list[Finding]:
    """Refusals that do not say what was wrong, by status or words; one that kept its meaning shows that others can."""
    lost = [result for result in compared if result.outcome == "lost"]
    refused = [result for result in compared if result.outcome in ("lost", "rewritten")]
    as_answers = [result for result in refused if result.exchange.status == 200]  # a client takes them for answers
    if len(as_answers) >= LOST_FROM:
        return [
            _made(
                "params.error_unusable",
                {"cases": _cases(as_answers), "n": len(as_answers), "of": len(refused)},
                as_answers,
            )
        ]
    kept = any(result.outcome in ("same", "rewritten") and result.official.status != 200 for result in compared)
    if len(lost) < LOST_FROM or kept:
        return []
    params = {"cases": _cases(lost), "n": len(lost), "of": len(lost)}
    return [_made("params.error_unusable", params, lost)]


def _rewritten(compared: list[Result]) -> list[Finding]:
    changed = [result for result in compared if result.outcome == "rewritten"]
    refused = [result for result in compared if result.said is not None]
    if not changed:
        return []
    params = {"cases": _cases(changed), "n": len(changed), "of": len(refused)}
    return [_made("params.error_rewritten", params, changed)]


def _defaults(compared: list[Result], scene: Scene) -> list[Finding]:
    own = [result for result in compared if result.outcome == "default"]
    if not own:
        return []
    names = {name for result in own for row in result.defaults for name in row.software} & scene.software
    heirs = {row.family for row in scene.knowledge.software if row.name in names}
    params = {"cases": _cases(own), "fields": _fields(own), "software": sorted(names - heirs)}
    made = _made("params.relay_default", params, own)
    return [made.model_copy(update={"basis": "known_list"})]


def _matches(compared: list[Result], differing: list[Finding]) -> list[Finding]:
    """Said only where nothing above info differs."""
    agreeing = [result for result in compared if result.outcome in ("same", "own", "rewritten")]
    if not agreeing or any(f.above_info for f in differing):
        return []
    bound = {name: value for result in agreeing for name, value in result.told.items()}
    return [_made("params.matches", {"n": len(agreeing), "of": len(compared), **bound}, agreeing, sides=False)]


def _made(
    code: str, params: dict[str, Any], group: list[Result], *, severity: Severity | None = None, outcome: Any = None,  # noqa: ANN401
    impact: str = "", sides: bool = True,
) -> Finding:  # fmt: skip
    basis, level, confidence = _support(group)
    if severity is not None and SEVERITIES.index(severity) >= SEVERITIES.index("medium"):
        confidence = "strong"
    exchanges = [x for result in group for x in (result.exchange.id, *result.others, *result.official.exchanges)]
    made = finding(
        code,
        params,
        exchanges=tuple(dict.fromkeys(exchanges)),
        severity=severity,
        outcome=outcome,
        confidence=confidence,
        evidence_level=level,
        basis=basis,
        expected={f"case={r.step.case}": _official(r) for r in group} if sides else {},
        observed=dict(_relay(r) for r in group) if sides else {},
    )
    return made.model_copy(update={"impact": impact or CODES[code].impact})


def _support(group: Iterable[Result]) -> tuple[Basis, EvidenceLevel, Confidence]:
    """As strong as the weakest side it rests on."""
    officials = [result.official for result in group]
    dated = [official for official in officials if not official.live]
    level = max((official.level for official in officials), key=LEVELS.index)
    if any(official.stale for official in officials):
        return "dated_baseline", level, "weak"
    if dated:
        return "dated_baseline", level, "supporting"
    return officials[0].basis, level, "strong"


def _cases(group: list[Result]) -> list[str]:
    return list(dict.fromkeys(result.step.case for result in group))


def _fields(group: list[Result]) -> list[str]:
    return sorted({name for result in group for name in result.fields})


def _official(result: Result) -> str:
    official = result.official
    if result.shown[0]:
        return result.shown[0]
    text = official.text if official.basis in ("live_official", "dated_baseline") else ""
    if official.status == 200:
        text = ", ".join(f"{path}: {value}" for path, value in official.reads.items())
    return " · ".join(filter(None, [str(official.status), text[:SHOWN_TEXT]]))


def _relay(result: Result) -> tuple[str, str]:
    """Key and text; a stranger's words stand under an `untrusted_` key. Words that were picked are our own."""
    if result.shown[1]:
        return f"case={result.step.case}", result.shown[1]
    if result.said is None or not result.said.text:
        told = filter(None, [str(result.exchange.status), result.seldom])
        return f"case={result.step.case}", " · ".join(told)
    return f"untrusted_case={result.step.case}", f"{result.exchange.status} · {result.said.text[:SHOWN_TEXT]}"
