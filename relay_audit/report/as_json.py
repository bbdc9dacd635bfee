"""The contract's JSON object: short enough to be the last thing a run prints, or complete.

A relay's text stands only under keys named `untrusted_*`, cut and escaped, and only in the complete form: whoever reads
this may be a program that follows instructions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from relay_audit.evidence import SCHEMA_VERSION, Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.reckoning import as_json, reckon
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import money_of, requests_sent
from relay_audit.report.phrases import Phrases
from relay_audit.report.quote_text import ask_user
from relay_audit.report.terms import Terms
from relay_audit.report.untrusted import show
from relay_audit.verdict import Verdict, all_checks
from relay_audit.words import LANGS, canonical

SHORT_BYTES = 8 * 1024
"""The last object of `run --json` stays within this, as it is printed."""
CALLERS_ROOM = 600
"""Kept free for what the caller adds, such as the paths of the reports."""
CUT_WIDTHS = (160, 80, 40)
"""Characters of a text, round by round, where the short form would grow too long."""
SHORT_FIELDS = ("id", "code", "check", "outcome", "severity", "impact", "confidence")
SPARED_FIELDS = ("impact", "confidence", "check")
"""What the lightest findings go without where dozens of them would not fit otherwise; the code says it too."""
COMMANDS = {
    "approve": "relay-audit status {run_id}",
    "send_report": "relay-audit report {run_id} --for vendor -o vendor.html",
    "run_again": "relay-audit resume {run_id}",
}
"""What to type for a next step that is a command of ours about this run."""
INTERNAL_KEYS = ("verdict", "answer", "needs", "ask_user", "report_cmd", "conflict")
"""Policy and conversation of the buyer; no business of the vendor's."""


def summary_json(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    verdict: Verdict,
    short: bool,
    catalogue: Catalogue,
    *,
    knowledge_digest: str = "",
    public: Terms | None = None,
    needs: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Short: findings above info and inconclusive ones, in short form. Complete: all, with texts in both languages."""
    phrases = Phrases(catalogue, _currency(evidence), masked=True, public=public)
    listed = (
        [f for f in findings if f.above_info or f.outcome in ("inconclusive", "error")] if short else list(findings)
    )
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": evidence.run_id,
        "status": evidence.status,
        "verdict": verdict.verdict,
        "incomplete": verdict.incomplete,
        "evidence_head": evidence.evidence_head,
        "knowledge_digest": knowledge_digest,
        "headline": {
            "code": verdict.headline_code,
            "params": verdict.headline_params,
            "text": phrases.headline(verdict, findings, coverage),
        },
        "answer": _answer(evidence, findings, coverage, verdict, catalogue),
        "cards": [{"id": c.id, "state": c.state, "text": phrases.card(c, findings, coverage)} for c in verdict.cards],
        "findings": [_short(f) if short else finding_json(f, _currency(evidence), catalogue, public) for f in listed],
        "findings_total": len(findings),
        "findings_omitted": len(findings) - len(listed),
        "coverage": [row.model_dump(mode="json", exclude={"params"}) for row in all_checks(coverage)],
        "money": _money(evidence),
        "needs": [dict(need) for need in needs],
        "ask_user": _ask_user(evidence),
        "exchanges": requests_sent(evidence),
        "report_cmd": f"relay-audit report {evidence.run_id} --for internal --format json",
    }
    if evidence.archive_digest:
        result["archive_digest"] = evidence.archive_digest
    if not short:
        result["money"]["bill"] = as_json(reckon(evidence, findings))
    if evidence.target.conflict:
        result["conflict"] = evidence.target.conflict
    return _fitted(result) if short else _plain({**result, "rule": verdict.rule})


def without_internal(full: dict[str, Any]) -> dict[str, Any]:
    """The complete form for the vendor: facts and findings, without the buyer's policy and money."""
    kept = {key: value for key, value in full.items() if key not in (*INTERNAL_KEYS, "rule")}
    charged = {
        key: value for key, value in full["money"].items() if key.startswith("charged") or key in ("currency", "basis")
    }
    return {**kept, "money": charged}


def without_names(full: dict[str, Any]) -> dict[str, Any]:
    """The complete form for anybody: besides policy and money, without what the line could be found by."""
    return {**without_internal(full), "run_id": ""}


def _answer(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    verdict: Verdict,
    catalogue: Catalogue,
) -> dict[str, Any]:
    said = {}
    for lang in LANGS:
        phrases = Phrases(Catalogue.load(lang), _currency(evidence), masked=True)
        said[lang] = phrases.say(verdict, findings, coverage, requests_sent(evidence))
    step = verdict.next_code
    return {
        "say": said,
        "cannot_say": [catalogue.text(f"answer.cannot_say.{key}") for key in verdict.cannot_say],
        "next": {
            "what": catalogue.text(f"answer.next.{step}"),
            "cost": catalogue.text(f"answer.cost.{step}"),
            "command": COMMANDS.get(step, "").format(**verdict.next_params),
        },
    }


def _short(finding: Finding) -> dict[str, Any]:
    return finding.model_dump(mode="json", include=set(SHORT_FIELDS))


def finding_json(finding: Finding, currency: str, catalogue: Catalogue, public: Terms | None = None) -> dict[str, Any]:
    """One finding, complete, with its texts in both languages; a stranger's words only under keys that say so."""
    texts = {
        lang: asdict(Phrases(Catalogue.load(lang), currency, masked=True, public=public).finding(finding))
        for lang in LANGS
    }
    own = texts[catalogue.lang]
    return {
        **finding.model_dump(
            mode="json", exclude={"expected", "observed", "params", "other_explanations", "refuted_by"}
        ),
        "expected": fenced(finding.expected, public),
        "observed": fenced(finding.observed, public),
        "params": fenced(finding.params, public),
        "other_explanations": [own["other"]],
        "refuted_by": own["refuted"],
        "texts": texts,
    }


def fenced(value: Any, public: Terms | None = None, *, untrusted: bool = False) -> Any:  # noqa: ANN401  JSON in, JSON out
    """A value with every text of a stranger cut and escaped; in public also without what would name the line."""
    if isinstance(value, Mapping):
        return {
            show(str(k)): fenced(v, public, untrusted=untrusted or str(k).startswith("untrusted_"))
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [fenced(item, public, untrusted=untrusted) for item in value]
    if isinstance(value, str):
        hidden = public is not None and (not public.may_repeat(value) if untrusted else public.holds(value))
        return "" if hidden else show(value)
    return value


def _money(evidence: Evidence) -> dict[str, Any]:
    figures = money_of(evidence)
    dumped: dict[str, Any] = json.loads(canonical(figures.model_dump()))
    return dumped


def _ask_user(evidence: Evidence) -> dict[str, str]:
    waiting = evidence.quote is not None and evidence.status == "awaiting_approval"
    return ask_user(evidence) if waiting else {}


def _currency(evidence: Evidence) -> str:
    return evidence.quote.currency if evidence.quote else "USD"


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Decimals and dates as text, the way digests see them."""
    plain: dict[str, Any] = json.loads(canonical(value))
    return {key: plain[key] for key in value}


def _fitted(result: dict[str, Any]) -> dict[str, Any]:
    """Every finding above info stays. Should the object still be too long, its texts are cut, further each round; then
    the inconclusive findings of no weight leave from the end, and are counted; the last resort is fewer fields."""
    plain = _cut_to_fit(_plain(result))
    while _too_long(plain) and (light := [f for f in plain["findings"] if f["severity"] == "info"]):
        plain["findings"] = [f for f in plain["findings"] if f is not light[-1]]
        plain["findings_omitted"] += 1
    for item in reversed(plain["findings"]):
        if not _too_long(plain):
            break
        for name in SPARED_FIELDS:
            item.pop(name, None)
    return plain


def _too_long(plain: dict[str, Any]) -> bool:
    return len(json.dumps(plain, ensure_ascii=False).encode()) > SHORT_BYTES - CALLERS_ROOM


def _cut_to_fit(plain: dict[str, Any]) -> dict[str, Any]:
    for width in CUT_WIDTHS:
        for key in ("ask_user", "answer", "cards", "headline"):
            if not _too_long(plain):
                return plain
            plain[key] = _cut(plain[key], width)
    return plain


def _cut(value: Any, width: int) -> Any:  # noqa: ANN401  JSON in, JSON out
    if isinstance(value, dict):
        return {key: _cut(item, width) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, width) for item in value]
    return value if not isinstance(value, str) or len(value) <= width else value[: width - 1] + "…"
