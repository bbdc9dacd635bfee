"""The nearest fact that would have given another verdict: a decision is only as firm as what would turn it.

Pure: the rule table is asked again with one fact changed, nearest first. Nothing here is shown as likely; it is shown as
what the verdict hangs on.
"""

from __future__ import annotations

import fnmatch
from typing import Literal

from relay_audit.codes import CODES
from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import VerdictRule
from relay_audit.verdict import Word, all_checks, decide, deciding, is_missing
from relay_audit.words import Frozen

Change = Literal[
    "finding_falls", "findings_fall", "check_runs", "need_met", "finding_appears", "open_one_settles", "nothing"
]


class TurningPoint(Frozen):
    change: Change
    """A finding falls, several do, a check gets a result, a need is met, something is found, or an open question goes
    against the line. `nothing`: no single change turns it."""
    verdict: Word
    """What it would be then."""
    rule: str = ""
    findings: tuple[str, ...] = ()
    """Ids."""
    checks: tuple[int, ...] = ()


def turning_point(
    evidence: Evidence, findings: tuple[Finding, ...], coverage: tuple[Coverage, ...], rules: tuple[VerdictRule, ...]
) -> TurningPoint:
    """The first change, in this order, that gives another word: one finding less, all of the deciding rule less, the
    missing checks run, an open question settled against the line, any accusation of the table's strictest row."""
    now = decide(evidence, findings, coverage, rules)
    rule = next((r for r in rules if r.id == now.rule), None)
    weight = list(deciding(rule, findings)) if rule is not None else []
    for falling in [[f] for f in weight] + ([weight] if len(weight) > 1 else []):
        left = tuple(f for f in findings if f not in falling)
        then = decide(evidence, left, coverage, rules)
        if then.verdict != now.verdict:
            change: Change = "finding_falls" if len(falling) == 1 else "findings_fall"
            return TurningPoint(
                change=change, verdict=then.verdict, rule=then.rule, findings=tuple(f.id for f in falling)
            )
    if rule is not None and rule.unmet_need:
        met = evidence.model_copy(update={"target": evidence.target.model_copy(update={"needs": {}})})
        then = decide(met, findings, coverage, rules)
        return TurningPoint(change="need_met", verdict=then.verdict, rule=then.rule)
    return _more(evidence, findings, coverage, rules, now.verdict)


def _more(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    rules: tuple[VerdictRule, ...],
    now: Word,
) -> TurningPoint:
    """What more evidence could turn."""
    rows = all_checks(coverage)
    missing = tuple(row.check for row in rows if is_missing(row))
    ran = tuple(Coverage(check=r.check, state="run") if r.check in missing else r for r in rows)
    then = decide(evidence, findings, ran, rules)
    if missing and then.verdict != now:
        core = tuple(check for check in missing if check in (1, 2)) or missing
        return TurningPoint(change="check_runs", verdict=then.verdict, rule=then.rule, checks=core)
    for one in (f for f in findings if f.outcome == "inconclusive" and f.check):
        against = one.model_copy(update={"outcome": "mismatch", "severity": "medium"})
        then = decide(evidence, tuple(against if f is one else f for f in findings), coverage, rules)
        if then.verdict != now:
            return TurningPoint(change="open_one_settles", verdict=then.verdict, rule=then.rule, findings=(one.id,))
    asking = (r for r in rules if (r.any_code or r.min_severity) and r.verdict != now)
    strictest = next((r for r in asking if _can_be_found(r, rows)), None)
    if strictest is None:
        return TurningPoint(change="nothing", verdict=now)
    return TurningPoint(change="finding_appears", verdict=strictest.verdict, rule=strictest.id)


def _can_be_found(rule: VerdictRule, rows: tuple[Coverage, ...]) -> bool:
    """Not where every check behind the rule is one that does not apply to such a line."""
    checks = {spec.check for code, spec in CODES.items() if any(fnmatch.fnmatchcase(code, p) for p in rule.any_code)}
    return not checks or bool(checks - {row.check for row in rows if row.state == "not_applicable"})
