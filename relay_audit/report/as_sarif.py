"""SARIF 2.1.0 for code scanning: each result stands at the line of the target file that names what is under test.

Code scanning rejects a whole file when one result has no place in the repository; so there is none without a target file.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from relay_audit.codes import CODES
from relay_audit.errors import UsageError
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.report.phrases import Phrases, capital
from relay_audit.target import Place
from relay_audit.words import digest

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note", "info": "none"}
SCORES = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0", "info": "0.0"}
"""How code scanning sorts; it has no words for our five."""


def sarif(evidence: Evidence, findings: tuple[Finding, ...], anchor: Place | None, phrases: Phrases) -> bytes:
    """Findings that differ, or are above info. Raises `UsageError` where the run had no target file."""
    if anchor is None:
        raise UsageError(
            "SARIF points at a line of a target file, and this run had none",
            next_step="run with a target file in the repository, or take --format junit",
        )
    shown = [f for f in findings if f.outcome == "mismatch" or f.above_info or f.outcome == "error"]
    rules = sorted({f.code for f in shown})
    run = {
        "tool": {"driver": {
            "name": "relay-audit",
            "semanticVersion": evidence.tool_version,
            "rules": [_rule(code, shown, phrases) for code in rules],
        }},
        "automationDetails": {"id": f"relay-audit/{anchor.path}/{_target_digest(evidence)[:12]}/"},
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, rules.index(f.code), evidence, anchor, phrases) for f in shown],
        "properties": {"evidence_head": evidence.evidence_head},
    }  # fmt: skip
    whole = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return (json.dumps(whole, ensure_ascii=False, indent=1) + "\n").encode()


def _rule(code: str, findings: list[Finding], phrases: Phrases) -> dict[str, Any]:
    example = next(f for f in findings if f.code == code)
    texts = phrases.finding(example)
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in code.replace(".", "_").split("_")),
        "shortDescription": {"text": CODES[code].trigger},
        "fullDescription": {"text": texts.means},
        "help": {"text": f"{texts.not_proven} {texts.other}"},
        "properties": {"security-severity": SCORES[CODES[code].severity], "tags": [f"check{CODES[code].check}"]},
    }


def _result(finding: Finding, place: int, evidence: Evidence, anchor: Place, phrases: Phrases) -> dict[str, Any]:
    texts = phrases.finding(finding)
    at = {
        "artifactLocation": {"uri": quote(anchor.path), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": anchor.line},
    }
    level = LEVELS[finding.severity] if finding.outcome == "mismatch" else "note"
    return {
        "ruleId": finding.code,
        "ruleIndex": place,
        "level": level,
        "kind": "fail" if finding.outcome == "mismatch" else "open",
        "message": {"text": f"{capital(texts.title)}. {texts.claim}"},
        "locations": [{"physicalLocation": at, "logicalLocations": [{"name": f"check{finding.check}", "kind": "module"}]}],
        "partialFingerprints": {"finding/v1": digest([finding.code, _target_digest(evidence)])[:32]},
        "properties": {
            "id": finding.id, "severity": finding.severity, "confidence": finding.confidence,
            "exchanges": list(finding.exchanges),
        },
    }  # fmt: skip


def _target_digest(evidence: Evidence) -> str:
    """What stays the same from night to night, without saying whose line it is."""
    target = evidence.target
    return digest([target.relay_origin, target.model, target.dialect, target.claim.group])
