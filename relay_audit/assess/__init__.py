"""Judgement: pure functions of a finished run. The same run and the same knowledge give the same findings, for ever."""

from __future__ import annotations

from collections.abc import Callable

from relay_audit.assess.billing import assess_billing
from relay_audit.assess.channel import assess_channel
from relay_audit.assess.combined import in_combination
from relay_audit.assess.coverage import cover
from relay_audit.assess.film_parameters import assess_film_parameters
from relay_audit.assess.media import assess_media
from relay_audit.assess.model_identity import TRAITS, assess_model_identity
from relay_audit.assess.output_echo import assess_output_echo
from relay_audit.assess.parameter_parity import assess_parameter_parity
from relay_audit.assess.recitation import assess_recitation, beside_the_count
from relay_audit.assess.repeated import assess_repeated
from relay_audit.assess.run_state import assess_run_state
from relay_audit.assess.tiers import assess_tiers
from relay_audit.assess.token_intercept import assess_token_intercept
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
    "token_intercept": assess_token_intercept,
    "model_identity": assess_model_identity,
    "output_echo": assess_output_echo,
    "recitation": assess_recitation,
    "repeated": assess_repeated,
    "parameter_parity": assess_parameter_parity,
    "billing": assess_billing,
    "media": assess_media,
    "film_parameters": assess_film_parameters,
    "tiers": assess_tiers,
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
    heard = beside_the_count(in_combination(_one_voice(found), evidence, knowledge))
    numbered = number(_vouched(_in_their_light(heard), evidence))
    return numbered, cover(evidence, numbered)


def _one_voice(found: list[Finding]) -> list[Finding]:
    """Without a counter two witnesses answer one question, a published sentence and an intercept. Where they say the
    same, or the second leaves open what the first has settled, the first speaks for both."""
    second = [f for f in found if f.params.get("road") == "intercept"]
    rest = [f for f in found if f not in second]
    for item in second:
        agreeing = (item.code, *(("tokens.constant_surplus",) if item.outcome == "inconclusive" else ()))
        twin = next((f for f in rest if f.code in agreeing and f.params.get("road") is None), None)
        if twin is None:
            rest.append(item)
            continue
        both = {"exchanges": (*twin.exchanges, *item.exchanges), "observed": {**twin.observed, **item.observed}}
        rest[rest.index(twin)] = twin.model_copy(update=both)
    return rest


ANOTHER_MODEL = (
    "tokens.tokenizer_differs", "model.relay_header_admits", "model.relay_log_admits_mapping", "model.substituted",
)  # fmt: skip
"""Differences that speak of another model than the one that was asked for."""


def _in_their_light(found: list[Finding]) -> tuple[Finding, ...]:
    """What takes the model for granted weighs nothing where the same run speaks of another model: another generation
    has its own region field, and takes what the claimed one refuses."""
    if not any(f.code in ANOTHER_MODEL and f.outcome == "mismatch" and f.params.get("road") != "long" for f in found):
        return tuple(found)
    return tuple(f.model_copy(update={"severity": "info"}) if _of_the_model(f) else f for f in found)


def _vouched(found: tuple[Finding, ...], evidence: Evidence) -> tuple[Finding, ...]:
    """Recorded traffic is as good as whoever recorded it: that is the basis of everything said about it."""
    if not evidence.target.recorded:
        return found
    return tuple(item.model_copy(update={"basis": "recorded"}) for item in found)


def _of_the_model(item: Finding) -> bool:
    if item.code in ("params.illegal_accepted", "params.not_honoured"):
        return set(item.params["cases"]) <= set(TRAITS)
    return item.code == "channel.subscription_pool_hint"


def _wanted(name: str, evidence: Evidence) -> bool:
    plan = evidence.plan
    if plan is None:
        return False
    if name == "billing" and evidence.pack.video is not None:
        return False  # films have no tokens: their charges stand in the table of tiers
    by_check = {"channel": 1, "token_parity": 2, "token_intercept": 2, "parameter_parity": 4, "film_parameters": 4, "billing": 6,
                "media": 5, "tiers": 6, "output_echo": 2, "recitation": 2, "repeated": 1}  # fmt: skip
    return name not in by_check or by_check[name] in plan.checks
