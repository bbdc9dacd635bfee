"""JUnit XML for CI: a check is a suite, a finding a test case. An accusation fails, what is open is skipped and says why."""

from __future__ import annotations

from collections.abc import Iterable

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import money_of
from relay_audit.report.phrases import Phrases
from relay_audit.verdict import Verdict, is_missing
from relay_audit.words import money

UNREACHED = frozenset({"unreachable", "official_unreachable", "assessor_failed"})
"""Reasons by which a check could not run at all: an error for CI, not a skip."""


def junit(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    verdict: Verdict,
    catalogue: Catalogue,
    phrases: Phrases,
    properties: dict[str, str],
) -> bytes:
    """The same inputs give the same bytes: the only time in it is the run's own."""
    root = JUnitXml("relay-audit")
    for row in coverage:
        own = [f for f in findings if f.check == row.check]
        root.add_testsuite(_suite(evidence, catalogue.text(f"check.{row.check}"), _cases(own, row, phrases)))
    about_run = [_case(f, phrases) for f in findings if f.check == 0]
    last = _suite(evidence, catalogue.text("report.run"), about_run)
    facts = {
        **properties,
        "evidence_head": evidence.evidence_head,
        "headline": phrases.headline(verdict, findings, coverage),
        "charged_relay": money(money_of(evidence).charged_relay),
    }
    for name, value in facts.items():
        last.add_property(name, value)
    root.add_testsuite(last)
    root.update_statistics()  # type: ignore[no-untyped-call]
    raw = root.tostring()  # type: ignore[no-untyped-call]
    return (raw if isinstance(raw, bytes) else raw.encode()) + b"\n"


def _suite(evidence: Evidence, name: str, cases: Iterable[TestCase]) -> TestSuite:
    suite = TestSuite(name)
    suite.timestamp = evidence.started_at.isoformat(timespec="seconds")
    for case in cases:
        suite.add_testcase(case)
    return suite


def _cases(own: list[Finding], row: Coverage, phrases: Phrases) -> list[TestCase]:
    cases = [_case(finding, phrases) for finding in own]
    if is_missing(row) or row.state == "not_applicable" or not cases:
        case = TestCase(f"coverage: {row.state}", f"relay-audit.check{row.check}")
        reason = phrases.reason(row)
        if row.reason in UNREACHED:
            case.result = [Error(reason, row.reason)]
        elif row.state != "run":
            case.result = [Skipped(reason, row.reason or row.state)]
        cases.append(case)
    return cases


def _case(finding: Finding, phrases: Phrases) -> TestCase:
    texts = phrases.finding(finding)
    case = TestCase(f"{finding.id} {finding.code}", f"relay-audit.check{finding.check}")
    if finding.accusation:
        failure = Failure(texts.title, finding.severity)
        failure.text = f"{texts.claim}\n{texts.not_proven}"
        case.result = [failure]
    elif finding.outcome == "error" or finding.code == "run.unreachable":
        case.result = [Error(texts.title, finding.code)]
    elif finding.outcome in ("inconclusive", "not_run"):
        case.result = [Skipped(texts.title, finding.outcome)]
    said = f"{texts.claim} {texts.means}" if finding.outcome == "match" else texts.claim
    case.system_out = f"{said} {' '.join(finding.exchanges)}".strip()
    return case
