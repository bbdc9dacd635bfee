"""Policy over findings: four cards, one verdict by the first row of a rule table that fits, and what may be said aloud.

Pure, and free of prose: everything is a code with parameters, so that a report in another language judges nothing anew.
A check that did not run never counts as good: its card is `unknown` and the headline names it.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from typing import Any, Literal

from pydantic import Field

from relay_audit.codes import CODES
from relay_audit.evidence import Evidence
from relay_audit.finding import SEVERITIES, Coverage, EvidenceLevel, Finding
from relay_audit.fingerprint import VerdictRule
from relay_audit.words import Frozen

CardName = Literal["backend", "model", "interface", "cost"]
CardState = Literal["ok", "warn", "bad", "unknown"]
Word = Literal["do_not_use", "fix_first", "backup", "usable", "inconclusive"]

CARD_CHECKS: dict[CardName, tuple[int, ...]] = {"backend": (1, 5), "model": (3,), "interface": (4,), "cost": (2, 6)}
"""Which checks answer a card's question; on a text line check 5 does not apply, on a line of films check 1."""
CORE = (1, 2)
"""The checks without which this version says nothing about a line …"""
FILM_CORE = (5,)
"""… and that without which it says nothing about one that sells films."""
LEVELS: tuple[EvidenceLevel, ...] = ("measured", "official_doc", "observed_pattern", "inference")
"""Strongest first; a conclusion is as strong as its weakest necessary support."""
NAMED_AT_MOST = 3
"""Findings a headline names; the rest are counted."""
NO_RULE = "no_rule_fits"


class Card(Frozen):
    id: CardName
    state: CardState
    code: str
    """`differs`, `small_difference`, `agrees`, `agrees_in_part`, `unclear` or `not_tested`."""
    params: dict[str, Any] = Field(default_factory=dict)
    """`findings`: ids it rests on. `missing`: checks of this card that did not run."""
    evidence_level: EvidenceLevel | None = None
    """The weakest of its findings; None where there is none."""
    date: dt.date
    """Of the run's start (UTC)."""


class Verdict(Frozen):
    verdict: Word
    rule: str
    """Id of the row that decided."""
    headline_code: str
    headline_params: dict[str, Any]
    cards: tuple[Card, ...]
    incomplete: bool
    """Some check that applies has no result, or the run ended before its plan did."""
    answer_code: str
    answer_params: dict[str, Any]
    cannot_say: tuple[str, ...]
    next_code: str
    next_params: dict[str, Any]


def number(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """F001, F002, … by severity, differences first, then check and code: the same findings get the same numbers."""
    order = sorted(
        findings, key=lambda f: (-SEVERITIES.index(f.severity), f.outcome != "mismatch", f.check, f.code, f.exchanges)
    )
    return tuple(f.model_copy(update={"id": f"F{place:03d}"}) for place, f in enumerate(order, start=1))


def decide(
    evidence: Evidence, findings: tuple[Finding, ...], coverage: tuple[Coverage, ...], rules: tuple[VerdictRule, ...]
) -> Verdict:
    """The verdict on a run. Findings without a number are numbered first."""
    known = findings if all(f.id for f in findings) else number(findings)
    rows = all_checks(coverage)
    missing = [row.check for row in rows if is_missing(row)]
    core_missing = any(check in missing for check in core_of(rows))
    unmet = unmet_needs(evidence, known)
    rule = next((r for r in rules if _fits(r, known, core_missing, unmet)), None)
    code = "need_not_met" if rule is not None and rule.unmet_need else _headline(known, rows)
    named = list(unmet) if code == "need_not_met" else _named(known, code)
    shared: dict[str, Any] = {
        "findings": [f.id for f in named[:NAMED_AT_MOST]],
        "more": max(0, len(named) - NAMED_AT_MOST),
        "missing": missing,
        "stopped": evidence.stopped,
    }
    follow = _next(evidence, known, rows)
    return Verdict(
        verdict=rule.verdict if rule else "inconclusive",
        rule=rule.id if rule else NO_RULE,
        headline_code=code,
        headline_params=shared,
        cards=tuple(_card(name, known, rows, evidence.started_at.date()) for name in CARD_CHECKS),
        incomplete=bool(missing) or bool(evidence.stopped),
        answer_code=code,
        answer_params={**shared, "date": evidence.started_at.date().isoformat(), "level": weakest(named)},
        cannot_say=_cannot_say(known, missing),
        next_code=follow,
        next_params={"run_id": evidence.run_id},
    )


def all_checks(coverage: tuple[Coverage, ...]) -> tuple[Coverage, ...]:
    """All six, always: a check that nobody spoke about did not run."""
    said = {row.check: row for row in coverage}
    return tuple(said.get(c) or Coverage(check=c, state="not_run", reason="not_recorded") for c in range(1, 7))


def core_of(rows: tuple[Coverage, ...]) -> tuple[int, ...]:
    """The checks that a line is nothing without: those of texts do not apply to films."""
    films = any(row.check == 1 and row.state == "not_applicable" for row in rows)
    return FILM_CORE if films else CORE


CUT_SHORT = ("books_unreadable", "cut_short", "ceiling", "turned_away")
"""Reasons for which a check ran in part only."""


def is_missing(row: Coverage) -> bool:
    """A check that applies and gave no result, or only part of one; one that does not apply is not missing."""
    return row.state in ("not_run", "gated", "no_information") or row.reason in CUT_SHORT


def weakest(findings: tuple[Finding, ...] | list[Finding]) -> EvidenceLevel | None:
    return max((f.evidence_level for f in findings), key=LEVELS.index, default=None)


NOT_IN_FORCE = (
    "params.relay_default", "params.legal_dropped", "params.not_honoured", "params.clamped", "params.illegal_accepted",
)  # fmt: skip
"""Findings by which a field of a request does not arrive as it was sent."""


NOT_CONFIRMED = (
    "media.no_credentials", "media.repackaged", "media.label_mismatch", "media.signer_unknown", "media.unreadable",
    "media.not_checked",
)  # fmt: skip
FILM_NEEDS: dict[str, tuple[str, ...]] = {
    "original": (*NOT_CONFIRMED, "media.restored_by_relay", "media.task_inconsistent"),
    "restored_ok": NOT_CONFIRMED,
}
"""How strict a buyer is about films: `original` as the vendor delivers it, or an original that was stored elsewhere."""


def unmet_needs(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that touch a field this buyer depends on, a relay's default among them; and those by which a film is
    not what `[needs] film` asks for."""
    wanted = set(evidence.target.needs)
    strict = FILM_NEEDS.get(str(evidence.target.needs.get("film", "")), ())
    return tuple(
        f
        for f in findings
        if (f.code in NOT_IN_FORCE and wanted & set(f.params.get("fields", ())))
        or (f.code in strict and (f.outcome != "mismatch" or f.above_info))
    )


def deciding(rule: VerdictRule, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings by which a rule fits; none where it rests on completeness alone."""
    if not rule.any_code and rule.min_severity is None:
        return ()
    floor = SEVERITIES.index(rule.min_severity or "medium")
    return tuple(
        f
        for f in findings
        if f.outcome == "mismatch"
        and SEVERITIES.index(f.severity) >= floor
        and (not rule.any_code or any(fnmatch.fnmatchcase(f.code, pattern) for pattern in rule.any_code))
    )


def _fits(rule: VerdictRule, findings: tuple[Finding, ...], core_missing: bool, unmet: tuple[Finding, ...]) -> bool:
    if rule.incomplete is not None and rule.incomplete != core_missing:
        return False
    if rule.unmet_need:
        return bool(unmet)
    asks_for_a_finding = bool(rule.any_code) or rule.min_severity is not None
    return not asks_for_a_finding or bool(deciding(rule, findings))


def _headline(findings: tuple[Finding, ...], rows: tuple[Coverage, ...]) -> str:
    if any(f.accusation for f in findings):
        return "differs"
    if any(f.outcome == "mismatch" and f.above_info for f in findings):
        return "small_difference"
    ran = [row.check for row in rows if row.state == "run"]
    if not ran:
        return "unclear" if any(f.outcome == "inconclusive" and f.check for f in findings) else "nothing_measured"
    return "agrees" if all(_agrees(check, findings) for check in ran) else "unclear"


def _named(findings: tuple[Finding, ...], code: str) -> list[Finding]:
    if code == "differs":
        return [f for f in findings if f.accusation]
    if code == "small_difference":
        return [f for f in findings if f.outcome == "mismatch" and f.above_info]
    if code == "unclear":
        return [f for f in findings if f.outcome in ("inconclusive", "error")]
    return []


def _agrees(check: int, findings: tuple[Finding, ...]) -> bool:
    """A check agrees when something says so and nothing above info leaves it open."""
    own = [f for f in findings if f.check == check]
    open_question = any(f.outcome == "error" or (f.outcome == "inconclusive" and f.above_info) for f in own)
    return not open_question and any(f.outcome == "match" and f.code in AGREEING for f in own)


AGREEING = frozenset({
    "channel.matches", "tokens.match", "tokens.template_noise", "tokens.deficit", "model.matches", "params.matches",
    "billing.matches", "billing.undercharged", "billing.tiers_measured", "media.original", "media.signer_matches",
})  # fmt: skip
"""Matches that answer a check's question; the others (rows of other traffic, a second hop) only add a fact."""


def does_not_apply(card: Card) -> bool:
    """Whether nothing of a card is asked of such a line, so that nothing is missing either."""
    return card.code == "not_tested" and not card.params["missing"]


def _card(name: CardName, findings: tuple[Finding, ...], rows: tuple[Coverage, ...], day: dt.date) -> Card:
    checks = CARD_CHECKS[name]
    own = [f for f in findings if CODES[f.code].card == name]
    missing = [row.check for row in rows if row.check in checks and is_missing(row)]
    differing = [f for f in own if f.outcome == "mismatch" and f.above_info]
    if differing:
        worst = differing[0].severity
        state: CardState = "bad" if SEVERITIES.index(worst) >= SEVERITIES.index("high") else "warn"
        code = "differs" if any(f.accusation for f in differing) else "small_difference"
        return _made(name, state, code, differing, missing, day)
    agreeing = [f for f in own if f.outcome == "match" and f.code in AGREEING]
    ran = [row.check for row in rows if row.check in checks and row.state == "run"]
    if ran and all(_agrees(check, findings) for check in ran):
        return _made(
            name, "unknown" if missing else "ok", "agrees_in_part" if missing else "agrees", agreeing, missing, day
        )
    open_ones = [f for f in own if f.outcome in ("inconclusive", "error")]
    return _made(name, "unknown", "unclear" if ran else "not_tested", open_ones if ran else [], missing, day)


def _made(name: CardName, state: CardState, code: str, on: list[Finding], missing: list[int], day: dt.date) -> Card:
    params = {"findings": [f.id for f in on], "missing": missing}
    return Card(id=name, state=state, code=code, params=params, evidence_level=weakest(on), date=day)


def _cannot_say(findings: tuple[Finding, ...], missing: list[int]) -> tuple[str, ...]:
    keys = ["always", "intent", "self_description", "capacity"]
    if missing:
        keys.append("untested")
    bases = {finding.basis for finding in findings}
    if "live_official" not in bases:
        keys.append("declared_official" if "declared_official" in bases else "no_live_official")
    return tuple(keys)


def _next(evidence: Evidence, findings: tuple[Finding, ...], rows: tuple[Coverage, ...]) -> str:
    """The cheapest step that would settle more."""
    if evidence.status in ("planned", "awaiting_approval"):
        return "approve"
    codes = {f.code for f in findings}
    if "run.unreachable" in codes:
        return "try_again"
    if "run.gated_client" in codes or any(row.state == "gated" for row in rows):
        return "ask_for_access"
    if any(f.accusation for f in findings) or unmet_needs(evidence, findings):
        return "send_report"
    core = core_of(rows)
    without_key = not evidence.target.official_origin and core == CORE  # what a film is, no counter can say
    if without_key or any(row.reason in ("no_official_key", "no_baseline_for_model") for row in rows):
        return "add_official_key"
    if any(is_missing(row) and row.check in core for row in rows) or evidence.stopped:
        return "run_again"
    if any(row.check == 6 and is_missing(row) for row in rows):
        return "ask_for_log"
    return "test_again_later"
