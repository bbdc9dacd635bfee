"""Which exit code a judgement has: what a script, an agent or a CI job is told (the table is in `errors`)."""

from __future__ import annotations

from typing import Literal

from relay_audit.errors import EXIT_PRECEDENCE
from relay_audit.evidence import Evidence
from relay_audit.finding import SEVERITIES, Coverage, Finding, Severity
from relay_audit.verdict import Verdict, core_of

FailOn = Literal["none", "low", "medium", "high", "critical"]

BY_CHOICE = (
    "free_only",
    "not_chosen",
    "declined",
    "not_in_this_version",
    "text_line",
    "recorded_only",
    "recorded_without_count",
    "recorded_without_log",
    "recorded_uncountable",
)
"""Reasons of not running that are no failure to finish."""


def worst(codes: list[int]) -> int:
    return min(codes, key=EXIT_PRECEDENCE.index) if codes else 0


def exit_code(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    verdict: Verdict,
    fail_on: FailOn = "medium",
    *,
    allow_inconclusive: bool = False,
) -> int:
    codes = [0]
    if evidence.stopped == "key_refused":
        codes.append(2)
    if evidence.status == "cancelled":
        codes.append(5)
    if fail_on != "none" and any(counts(finding, fail_on) for finding in findings):
        codes.append(1)
    if _unfinished(evidence) or (
        verdict.verdict == "inconclusive" and not allow_inconclusive and not _left_out_by_choice(coverage)
    ):
        codes.append(4)
    return worst(codes)


def media_exit_code(findings: tuple[Finding, ...], fail_on: FailOn, *, settled: bool) -> int:
    """For one local file: 1 for a difference that counts, 4 where nothing was found that says anything either way."""
    if fail_on != "none" and any(counts(finding, fail_on) for finding in findings):
        return 1
    return 0 if settled else 4


def counts(finding: Finding, fail_on: Severity) -> bool:
    """Whether a finding is a difference at or above a threshold."""
    return finding.outcome == "mismatch" and SEVERITIES.index(finding.severity) >= SEVERITIES.index(fail_on)


def _unfinished(evidence: Evidence) -> bool:
    """Broken off, or a charge that nobody has confirmed: an answer that was lost, cut, or not readable as one."""
    open_ = any(entry.state in ("reserved", "unconfirmed") for entry in evidence.ledger.entries)
    return open_ or bool(evidence.stopped) or evidence.status == "failed"


def _left_out_by_choice(coverage: tuple[Coverage, ...]) -> bool:
    missing = [row for row in coverage if row.check in core_of(coverage) and row.state != "run"]
    return bool(missing) and all(row.state == "not_run" and row.reason in BY_CHOICE for row in missing)
