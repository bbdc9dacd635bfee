"""A refusal that speaks of the fault behind the oversized limit: what follows from it, and from whom nothing does."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.model_identity import assess_model_identity
from relay_audit.assess.parameter_parity import assess_parameter_parity
from relay_audit.assess.tripped import lowered, tripped
from relay_audit.evidence import Evidence
from relay_audit.target import Claim
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, START, answered, at, plan_of, run_of, step_named

LIMIT = f"max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for {MODEL}"
WIRE = KNOWLEDGE.refusal_of("anthropic", "sampling_half", MODEL, START.date(), refused=True)


def refusal(text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}


def run(
    text: str,
    *,
    claim: str = "anthropic",
    live: bool = True,
    status: int = 400,
    wire: str = "sampling_half",
    **more: Any,
) -> Evidence:
    """The relay's answer to an oversized limit with a fault behind it, between two of the vendor's own."""
    step = step_named("s").model_copy(
        update={"case": "max_tokens_above_limit", "refusal": True, "trip_wire": wire, "tier": "integration"}
    )
    mirrors = [
        step.model_copy(update={"id": f"m.{when}", "side": "official", "mirrors": "s", "when": when, "cost": "free"})
        for when in ("before", "after")
    ]
    own = [answered(n, f"m.{when}", refusal(LIMIT), moment=at(n), status=400, side="official")
           for n, when in ((1, "before"), (3, "after"))] if live else []  # fmt: skip
    told = answered(
        2, "s", refusal(text) if status != 200 else {"content": [], "usage": {}}, moment=at(2), status=status, **more
    )
    steps = [step, *(mirrors if live else [])]
    whole = run_of([*own, told], steps, plan=plan_of(steps, checks=(3, 4)))
    return whole.model_copy(update={"target": whole.target.model_copy(update={"claim": Claim(channel=claim)})})


def read(evidence: Evidence, *, live: bool = True) -> tuple[bool, bool]:
    step = next(s for s in evidence.plan.steps if s.id == "s")  # type: ignore[union-attr]
    exchange = evidence.of_step("s")
    return tripped(step, exchange, evidence, KNOWLEDGE), lowered(step, exchange, evidence, KNOWLEDGE, live=live)


def said() -> str:
    assert WIRE is not None, "the vendor's refusal of the sampler is on record"
    return WIRE.message


def test_the_fault_behind_shows_that_the_limit_was_lowered():
    assert read(run(said())) == (True, True)
    assert read(run(said()), live=False) == (True, False), "no vendor named the limit for this body today"


@pytest.mark.parametrize("text", [LIMIT, "upstream error", ""])
def test_any_other_refusal_trips_nothing(text):
    assert read(run(text)) == (False, False)


def test_without_a_wire_or_a_refusal_nothing_is_tripped():
    assert read(run(said(), wire="")) == (False, False)
    assert read(run(said(), wire="no_such_case")) == (False, False)
    assert read(run(said(), status=200)) == (False, False)
    whole = run(said())
    refused = whole.of_step("s")
    shown = refused.response.model_copy(update={"status": 200})  # type: ignore[union-attr]
    for response in (None, shown):
        silent = refused.model_copy(update={"response": response})  # type: ignore[union-attr]
        step = next(s for s in whole.plan.steps if s.id == "s")  # type: ignore[union-attr]
        assert not tripped(step, silent, whole, KNOWLEDGE)


def test_the_record_of_the_fault_is_read_with_its_field_and_its_stars():
    """By the day's record of this fault: other words, or the same about another field, trip nothing."""
    assert WIRE is not None
    starred = WIRE.model_copy(update={"message": "alpha*bravo charlie delta", "names": "delta"})
    known = KNOWLEDGE.model_copy(update={"refusals": (starred,)})
    step = next(s for s in run("x").plan.steps if s.id == "s")  # type: ignore[union-attr]
    for text, hit in (("alpha bravo charlie delta", True), ("alpha bravo charlie", False), ("bravo echo delta", False),
                      ("alpha charlie delta", True)):  # fmt: skip
        evidence = run(text)
        exchange = evidence.of_step("s")
        assert exchange is not None
        assert tripped(step, exchange, evidence, known) is hit, text


@pytest.mark.parametrize("claim", ["aws", "azure", "vertex"])
def test_a_cloud_may_look_at_its_faults_in_another_order(claim):
    assert read(run(said(), claim=claim)) == (True, False)
    assert read(run(said(), headers=(("x-amzn-requestid", "0b7a"), ("x-amzn-bedrock-trace", "x")))) == (True, False)


@pytest.mark.parametrize(
    ("how", "clamped"),
    [({}, True), ({"claim": "aws"}, False), ({"live": False}, False)],
    ids=["vendor", "cloud", "no_key"],
)
def test_it_is_a_low_sign_and_nothing_where_it_proves_nothing(how, clamped):
    found = [f for f in assess_parameter_parity(run(said(), **how), KNOWLEDGE) if f.above_info]
    assert [(f.code, f.severity, f.accusation) for f in found] == (
        [("params.clamped", "low", False)] if clamped else []
    )


def test_a_limit_that_was_lowered_was_not_refused():
    found = next(f for f in assess_model_identity(run(said()), KNOWLEDGE) if f.code == "model.not_verifiable")
    assert found.params["reason"] == "limit_not_refused"
