"""Judgement: pure functions of a finished run. The same run and the same knowledge give the same findings, for ever."""

from __future__ import annotations

from collections.abc import Callable

from relay_audit.assess.billing import assess_billing
from relay_audit.assess.channel import assess_channel
from relay_audit.assess.coverage import cover
from relay_audit.assess.model_identity import assess_model_identity
from relay_audit.assess.run_state import assess_run_state
from relay_audit.assess.token_parity import assess_token_parity
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.verdict import number

Assessor = Callable[[Evidence, Knowledge], list[Finding]]

ASSESSORS: dict[str, Assessor] = {
    "channel": assess_channel,
    "token_parity": assess_token_parity,
    "model_identity": assess_model_identity,
    "billing": assess_billing,
    "run_state": assess_run_state,
}
"""All that a probe file may name in `assess`, and `run_state`, which always runs."""


def assess(evidence: Evidence, knowledge: Knowledge) -> tuple[tuple[Finding, ...], tuple[Coverage, ...]]:
    """Findings in order of weight, numbered F001 on, and the coverage of all six checks."""
    found: list[Finding] = []
    for name, assessor in ASSESSORS.items():
        if name != "run_state" and not _wanted(name, evidence):
            continue
        try:
            found += assessor(evidence, knowledge)
        except Exception:  # noqa: BLE001  rule 18: a probe that breaks is a finding; the others still run
            found.append(finding("run.probe_error", {"assessor": name}))
    numbered = number(_in_their_light(found))
    return numbered, cover(evidence, numbered)


ANOTHER_MODEL = ("tokens.tokenizer_differs", "model.relay_header_admits", "model.relay_log_admits_mapping")
"""Differences that speak of another model than the one that was asked for."""


def _in_their_light(found: list[Finding]) -> tuple[Finding, ...]:
    """A hint that takes the model for granted weighs nothing where the same run speaks of another model."""
    if not any(f.code in ANOTHER_MODEL and f.outcome == "mismatch" for f in found):
        return tuple(found)
    hint = "channel.subscription_pool_hint"
    return tuple(f.model_copy(update={"severity": "info"}) if f.code == hint else f for f in found)


def _wanted(name: str, evidence: Evidence) -> bool:
    plan = evidence.plan
    if plan is None:
        return False
    by_check = {"channel": 1, "token_parity": 2, "billing": 6}
    return name not in by_check or by_check[name] in plan.checks
