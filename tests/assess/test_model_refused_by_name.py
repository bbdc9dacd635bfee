"""What some models refuse by their own name tells siblings apart that share tokenizer, limits and rules."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.model_identity import assess_model_identity
from relay_audit.assess.parameter_parity import assess_parameter_parity
from relay_audit.catalog import load_packs
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Coverage, Finding
from relay_audit.plan import Step
from tests.assess.evidence_builders import KNOWLEDGE, answered, at, only, plan_of, step_named
from tests.assess.test_model_limits import case, judged, run, told

SOL, LUNA = "gpt-6-sol", "gpt-6-luna"
EFFORT, TOOLS = "effort_minimal", "tools_with_effort"
ANSWER = {"model": SOL, "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 9, "output_tokens": 1}}


def effort_text(model: str, value: str = "minimal") -> str:
    return f"Unsupported value: '{value}' is not supported with the '{model}' model. Supported values are: 'low' and 'high'."


def tools_text(model: str) -> str:
    where = "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    return f"Function tools with reasoning_effort are not supported for {model} in {where}"


def sent(text: str | dict[str, Any], *, of: str = EFFORT, number: int = 1, **more: Any) -> tuple[Step, Exchange]:
    side = more.pop("side", "relay")
    name = f"s{number}"
    step = case(name, of, refusal=True).model_copy(update={"side": side})
    body = {"error": {"message": text, "type": "invalid_request_error"}} if isinstance(text, str) else text
    return step, told(number, name, body, side=side, **more)


def asked(*answers: tuple[Step, Exchange], model: str = SOL) -> list[Finding]:
    return judged(*answers, asked=model)


@pytest.mark.parametrize(
    "answer",
    [
        sent(effort_text(SOL)),
        sent(effort_text("gpt-6-sol-2026-09-15")),
        sent(effort_text(SOL, "none"), of="effort_none"),
        sent(tools_text(SOL), of=TOOLS),
        sent(tools_text("openai/gpt-6-sol"), of=TOOLS, status=502),
        sent(f'全部 1 个渠道都失败，最后一个错误：HTTP 400: {{\\"message\\": \\"{effort_text(SOL)}\\"}}', status=502),
        sent({"error": {"message": effort_text(SOL)}}, status=200),
    ],
)
def test_the_asked_name_in_such_a_refusal_is_a_match_with_its_bound(answer):
    found = only(asked(answer))
    assert (found.code, found.params["roads"], found.params["share_bound"]) == ("model.matches", ["error_text"], "95")


@pytest.mark.parametrize("answer", [sent(effort_text(LUNA)), sent(tools_text("gpt-5.6-luna"), of=TOOLS)])
def test_a_siblings_name_is_a_substitution(answer):
    found = only(asked(answer))
    assert (found.code, found.severity, found.confidence, found.params["road"]) == (
        "model.substituted", "critical", "strong", "error_text",
    )  # fmt: skip
    assert found.params["untrusted_leaked"].endswith("luna")


def test_what_the_vendor_calls_the_model_itself_is_held_against_nobody():
    """An alias that the vendor serves with another model: its own refusal names that one too."""
    official = sent(effort_text("gpt-6-1-sol"), number=2, side="official")
    assert {f.code for f in asked(sent(effort_text("gpt-6-1-sol")), official)} == {"model.not_verifiable"}
    assert only(asked(sent(effort_text(LUNA)), official)).code == "model.substituted"


def test_where_nothing_known_ends_in_a_name_that_is_the_reason():
    """Planned and not sent is another reason than a model for which there is nothing to send."""
    plain = step_named("plain"), answered(1, "plain", {"model": "gpt-oss-120b", "usage": {}}, moment=at(1))
    evidence = run(plain, asked="gpt-oss-120b").model_copy(update={"pack": load_packs().pack("openai_responses")})
    assert only(assess_model_identity(evidence, KNOWLEDGE)).params["reason"] == "no_road"
    unsent = (case("s1", EFFORT, refusal=True), told(2, "elsewhere", ANSWER, status=200))
    planned = run(unsent, asked=SOL).model_copy(update={"pack": evidence.pack})
    assert only(assess_model_identity(planned, KNOWLEDGE)).params["reason"] == "not_sent"
    kept = Coverage(check=3, state="not_run", reason="no_probe_applies")
    bare = evidence.model_copy(update={"plan": plan_of([plain[0]], checks=(1, 2), coverage=(kept,))})
    assert only(assess_model_identity(bare, KNOWLEDGE)).params["reason"] == "no_road", (
        "said though no probe was planned"
    )


def test_a_deployments_name_decides_nothing():
    found = only(asked(sent(effort_text("prod-chat-3"))))
    assert (found.code, found.params["reason"]) == ("model.not_verifiable", "no_name_in_text")


def test_an_answer_in_its_place_says_nothing_of_the_model():
    found = only(asked(sent(ANSWER, status=200)))
    assert (found.code, found.params["reason"], found.exchanges) == (
        "model.not_verifiable",
        "taken_instead",
        ("X0001",),
    )


def test_a_rewritten_refusal_leaves_the_model_unverified():
    found = only(asked(sent("Bad request")))
    assert (found.code, found.params["reason"]) == ("model.not_verifiable", "text_rewritten")


def test_the_same_words_elsewhere_are_not_looked_for():
    """Only what was sent for the name: a refusal of something else may come from a fallback."""
    assert only(asked(sent(effort_text(LUNA), of="temperature_range"))).params["reason"] == "not_sent"


def test_who_answers_it_by_asking_in_the_newer_format_is_told_nothing_by_check_four():
    def parity(of: str) -> list[Finding]:
        pair, mirror = sent(ANSWER, of=of, status=200), sent(tools_text(SOL), of=of, number=2, side="official")
        again = sent(tools_text(SOL), of=of, number=3, side="official")
        mirrors = [(step.model_copy(update={"mirrors": "s1"}), answer) for step, answer in (mirror, again)]
        evidence: Evidence = run(pair, *mirrors, asked=SOL, checks=(3, 4))
        return assess_parameter_parity(evidence, KNOWLEDGE)

    assert [f.code for f in parity("n_range")] == ["params.illegal_accepted"]
    assert parity(TOOLS) == []
