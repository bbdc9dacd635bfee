"""What a refused output limit, a kept rule and a signature say of the model; and what is said where no road was open."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from relay_audit.assess.model_identity import assess_model_identity, readable
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.plan import Step
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, START, answered, at, only, plan_of, run_of, step_named
from tests.assess.test_channel_depth import signed, thinking

NAMES = ", which is the maximum allowed number of output tokens for "
OVERSIZE = "max_tokens_above_limit"
FORBIDS = "`temperature` is deprecated for this model."


def limit_text(cap: int = 128_000, model: str = MODEL, sent: int = 128_001) -> str:
    return f"max_tokens: {sent} > {cap}{NAMES + model if model else ''}"


def refusal(text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}


def case(name: str, case: str = OVERSIZE, **more: Any) -> Step:
    return step_named(name).model_copy(update={"case": case, **more})


def told(number: int, step: str, body: Any, *, status: int = 400, side: str = "relay") -> Exchange:
    return answered(number, step, body, moment=at(number), status=status, side=side)


def judged(
    *answers: tuple[Step, Exchange], start: dt.datetime = START, asked: str = MODEL, checks: tuple[int, ...] = (3,)
) -> list[Finding]:
    return assess_model_identity(run(*answers, start=start, asked=asked, checks=checks), KNOWLEDGE)


def run(
    *answers: tuple[Step, Exchange], start: dt.datetime = START, asked: str = MODEL, checks: tuple[int, ...] = (3,)
) -> Evidence:
    steps = [step for step, _ in answers]
    return run_of(
        [exchange for _, exchange in answers], steps, start=start, model=asked, plan=plan_of(steps, checks=checks)
    )


def oversize(text: str | dict[str, Any], *, status: int = 400, number: int = 1) -> tuple[Step, Exchange]:
    name = f"s{number}"
    return case(name), told(number, name, refusal(text) if isinstance(text, str) else text, status=status)


# A name in the text


def test_the_name_that_was_asked_for_is_a_match():
    found = only(judged(oversize(limit_text())))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "model.matches",
        "match",
        "info",
        "supporting",
    )
    assert (found.evidence_level, found.basis, found.exchanges) == ("observed_pattern", "known_list", ("X0001",))
    assert (found.expected, found.observed) == ({"model": MODEL}, {"model": MODEL, "rules_kept": []})
    siblings = found.params.pop("siblings")
    assert found.params == {"requested": MODEL, "roads": ["error_text"], "n": 1, "share_bound": "95", "longest": 0}
    assert len(siblings) == 10, "none is left out: who stands here is not excluded"
    assert "claude-opus-5-5" in siblings
    assert not {MODEL, "claude-haiku-4-5", "gpt-5"} & set(siblings)


def test_two_refusals_bound_a_smaller_share():
    found = only(judged(oversize(limit_text()), oversize(limit_text(), number=2)))
    assert (found.params["n"], found.params["share_bound"], found.exchanges) == (2, "77.6", ("X0001", "X0002"))


def test_another_models_name_is_a_substitution():
    found = only(judged(oversize(limit_text(64_000, "claude-haiku-4-5-20251001"))))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "model.substituted", "mismatch", "critical", "strong",
    )  # fmt: skip
    assert (found.accusation, found.evidence_level, found.basis) == (True, "observed_pattern", "known_list")
    assert found.params == {
        "requested": MODEL, "untrusted_leaked": "claude-haiku-4-5-20251001", "road": "error_text", "n": 1,
    }  # fmt: skip
    assert (found.expected, found.observed) == ({"model": MODEL}, {"untrusted_model": "claude-haiku-4-5-20251001"})


def test_the_commonest_of_several_other_names_is_told():
    names = ["glm-4.7", "claude-haiku-4-5", "claude-haiku-4-5", MODEL]
    found = only(judged(*(oversize(limit_text(model=name), number=n) for n, name in enumerate(names, 1))))
    assert (found.params["untrusted_leaked"], found.params["n"]) == ("claude-haiku-4-5", 3)
    assert found.exchanges == ("X0001", "X0002", "X0003")


@pytest.mark.parametrize(
    "name", ["claude-sonnet-5-5-20260928", "us.anthropic.claude-sonnet-5-5-v1:0", "***.claude-sonnet-5-5"]
)
def test_dates_regions_and_masks_are_taken_off(name):
    assert only(judged(oversize(limit_text(model=name)))).code == "model.matches"


def test_a_label_in_the_text_decides_nothing():
    found = only(judged(oversize(limit_text(model="azure-prod-3"))))
    assert (found.code, found.params["reason"]) == ("model.not_verifiable", "no_name_in_text")


@pytest.mark.parametrize("status", [400, 500, 502, 200])
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda text: refusal(text),
        lambda text: {"error": {"message": json.dumps(json.dumps(refusal(text)))}},
        lambda text: {"error": f"全部 1 个渠道都失败，最后一个错误：HTTP 400: {json.dumps(refusal(text))}"},
        lambda text: f"upstream said: {text}",
    ],
)
def test_the_name_is_read_wherever_it_stands(wrapped, status):
    found = only(judged((case("s"), told(1, "s", wrapped(limit_text(64_000, "claude-haiku-4-5")), status=status))))
    assert (found.code, found.params["untrusted_leaked"]) == ("model.substituted", "claude-haiku-4-5")


def test_the_knowledge_of_the_wording_grows_old():
    """Past twice its term a pattern reads nothing: no match, no accusation."""
    late = START + dt.timedelta(days=3 * 365)
    assert only(judged(oversize(limit_text()), start=late)).code == "model.not_verifiable"
    other = oversize(limit_text(64_000, "claude-haiku-4-5"))
    assert only(judged(other, start=late)).code == "model.not_verifiable"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"a": "x"}', '{"a": "x"}'),
        (r'"{\"a\": 1}"', '"{"a": 1}"'),
        (r'"{\\\"a\\\": 1}"', '"{"a": 1}"'),
        (r"\u9700\u8981", "需要"),
        (r"\\u9700", "需"),
        (r"\u97", r"\u97"),
    ],
)
def test_escapes_of_json_inside_json_are_taken_off(body, text):
    assert readable(body) == text


def test_no_more_than_twenty_thousand_characters_are_read():
    assert readable("x" * 20_000 + "y") == "x" * 20_000


# A name in a thinking signature


def thought(number: int, model: str) -> tuple[Step, Exchange]:
    name = f"t{number}"
    return step_named(name), told(
        number, name, thinking(signed("anthropic", model, seed=number), f"m{number}"), status=200
    )


def test_a_signature_that_names_the_model_is_a_road_of_its_own():
    found = only(judged(thought(1, MODEL), thought(2, f"{MODEL}-20260928"), thought(3, "deployment-7")))
    assert (found.code, found.exchanges, found.confidence) == ("model.matches", ("X0001", "X0002"), "supporting")
    assert (found.params["roads"], found.params["n"], found.params["share_bound"]) == (["signature"], 2, "77.6")
    both = only(judged(oversize(limit_text(), number=4), thought(1, MODEL)))
    assert (both.params["roads"], both.params["n"], both.exchanges) == (
        ["error_text", "signature"],
        2,
        ("X0004", "X0001"),
    )
    assert only(judged(thought(1, "deployment-7"))).code == "model.not_verifiable"


# A limit without a name


def test_another_models_limit_is_a_low_sign_that_names_whom_it_fits():
    found = only(judged(oversize(limit_text(64_000, ""))))
    assert (found.code, found.outcome, found.severity, found.accusation) == (
        "model.limit_mismatch",
        "mismatch",
        "low",
        False,
    )
    assert found.params == {
        "requested": MODEL, "cap": 64_000, "expected_cap": 128_000,
        "fits": ["claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5"],
    }  # fmt: skip
    assert (found.exchanges, found.evidence_level, found.basis) == (("X0001",), "official_doc", "known_list")
    assert (found.expected, found.observed) == ({"max_output": 128_000}, {"max_output": 64_000})


def test_a_limit_of_nobodys_may_be_the_relays_own():
    found = next(f for f in judged(oversize(limit_text(77_777, ""))) if f.code == "model.limit_mismatch")
    assert (found.outcome, found.severity, found.params["fits"]) == ("inconclusive", "info", [])


def test_a_limit_of_nobodys_is_a_low_sign_beside_the_vendors_own_answer():
    """Both were asked the very same body: whoever wrote it, the limit in force is not the vendor's. Never an accusation."""
    official = case("mirror").model_copy(update={"side": "official"})
    live = told(2, "mirror", refusal(limit_text(128_000)), side="official")
    found = next(
        f for f in judged(oversize(limit_text(77_777, "")), (official, live)) if f.code == "model.limit_mismatch"
    )
    assert (found.outcome, found.severity, found.accusation) == ("mismatch", "low", False)
    assert (found.params["cap"], found.params["expected_cap"], found.params["fits"]) == (77_777, 128_000, [])
    assert found.evidence_level == "official_doc"


def test_the_own_limit_without_a_name_verifies_nothing():
    found = only(judged(oversize(limit_text(128_000, ""))))
    assert (found.code, found.outcome, found.confidence) == ("model.not_verifiable", "inconclusive", "weak")
    assert (found.params["reason"], found.exchanges) == ("no_name_in_text", ("X0001",))


def test_what_the_vendor_names_today_outweighs_what_it_published():
    """The official side answered the very same body: a limit that has moved is no sign of another model."""
    official = case("mirror").model_copy(update={"side": "official"})
    live = told(2, "mirror", refusal(limit_text(64_000)), side="official")
    assert only(judged(oversize(limit_text(64_000, "")), (official, live))).code == "model.not_verifiable"
    found = only(judged(oversize(limit_text(128_000, "")), (official, live)))
    assert (found.code, found.params["expected_cap"]) == ("model.limit_mismatch", 64_000)


def test_a_vendor_that_contradicts_itself_is_held_to_what_it_published():
    sides = [
        (
            case(f"m{n}").model_copy(update={"side": "official"}),
            told(n, f"m{n}", refusal(limit_text(cap)), side="official"),
        )
        for n, cap in ((2, 64_000), (3, 32_000))
    ]
    assert only(judged(oversize(limit_text(128_000, "")), *sides)).code == "model.not_verifiable"


def test_an_official_answer_is_no_refusal():
    official = case("mirror").model_copy(update={"side": "official"})
    taken = told(2, "mirror", {"content": [{"type": "text", "text": limit_text(64_000)}]}, status=200, side="official")
    assert only(judged(oversize(limit_text(128_000, "")), (official, taken))).code == "model.not_verifiable"


# Where no road was open


def test_nothing_was_sent():
    plain = step_named("plain")
    found = only(judged((plain, told(1, "plain", {"model": MODEL, "usage": {}}, status=200))))
    assert (found.code, found.params["reason"], found.params["roads"], found.exchanges) == (
        "model.not_verifiable", "not_sent", [], (),
    )  # fmt: skip


def test_an_oversized_limit_that_was_answered():
    """A generation says nothing of the model, whatever stands in its text."""
    body = {
        "model": MODEL,
        "content": [{"type": "text", "text": limit_text(64_000, "glm-4.7")}],
        "usage": {"input_tokens": 1},
    }
    found = only(judged(oversize(body, status=200)))
    assert (found.code, found.params["reason"]) == ("model.not_verifiable", "limit_not_refused")


def test_a_text_that_was_rewritten():
    found = only(judged(oversize("upstream error")))
    assert (found.code, found.params["reason"], found.exchanges) == (
        "model.not_verifiable",
        "text_rewritten",
        ("X0001",),
    )


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_rate_limit_or_a_shut_door_is_no_rewritten_text(status: int):
    found = only(judged(oversize("slow down", status=status)))
    assert (found.code, found.params["reason"]) == ("model.not_verifiable", "all_turned_away")


def test_check_three_was_not_asked_for():
    assert judged(oversize("upstream error"), checks=(1, 2)) == []
    assert judged(oversize(limit_text()), checks=(1, 2)) == []


def test_a_sign_of_another_model_is_no_silence_to_be_explained():
    """Beside a finding above info nothing is said of what could not be verified."""
    named = step_named("plain"), told(2, "plain", {"model": "glm-4.7", "usage": {}}, status=200)
    assert [f.code for f in judged(oversize("upstream error"), named)] == ["model.name_mismatch"]


# Rules that one model has and another has not


def test_a_rule_that_was_kept_leaves_fewer_siblings():
    rule = (
        case("s2", "thinking_disabled"),
        told(2, "s2", refusal("thinking.type: disabled is not supported for this model")),
    )
    found = only(judged(oversize("upstream error"), rule))
    assert (found.code, found.observed) == ("model.not_verifiable", {"rules_kept": ["thinking_disabled"]})
    assert found.exchanges == ("X0001", "X0002")
    assert "claude-opus-5" not in found.params["siblings"]
    assert "claude-sonnet-5" not in found.params["siblings"]
    assert "claude-opus-5-5" in found.params["siblings"]
    assert "claude-haiku-5-5" in found.params["siblings"], "not established: cannot be excluded"


@pytest.mark.parametrize(
    ("trait", "text", "status", "kept"),
    [
        ("sampling_half", FORBIDS, 400, True),
        ("sampling_half", FORBIDS, 502, True),
        ("sampling_half", FORBIDS, 200, False),
        ("sampling_half", "invalid temperature", 400, False),
        ("prefill", "This model does not support assistant message prefill.", 400, True),
        ("forced_tool", "tool_choice any is not supported on this model", 400, True),
        ("thinking_adaptive", "not supported for this model", 400, False),
        ("temperature_range", FORBIDS, 400, False),
    ],
)
def test_a_rule_is_kept_where_the_vendors_words_refuse_it(trait, text, status, kept):
    found = only(judged((case("s1", trait), told(1, "s1", refusal(text), status=status))))
    assert found.observed == {"rules_kept": [trait] if kept else []}


def test_the_vendors_own_refusals_are_no_word_of_the_relay():
    official = case("s1", "sampling_half").model_copy(update={"side": "official"})
    assert only(judged((official, told(1, "s1", refusal(FORBIDS), side="official")))).observed == {"rules_kept": []}


def test_of_an_unknown_model_no_rule_and_no_sibling_is_known():
    rule = case("s1", "sampling_half"), told(1, "s1", refusal(FORBIDS))
    found = only(judged(rule, asked="claude-sonnet-9"))
    assert (found.observed, found.params["siblings"]) == ({"rules_kept": []}, [])


def test_a_refused_case_that_was_never_answered_is_passed_over():
    assert only(judged((case("s1"), told(1, "elsewhere", refusal(limit_text()))))).params["reason"] == "not_sent"


def test_the_asked_name_beside_another_models_limit_is_a_sign():
    """Names in refusals are rewritten by some programs; the number is not."""
    found = next(f for f in judged(oversize(limit_text(64_000))) if f.code == "model.limit_mismatch")
    assert (found.outcome, found.severity, found.params["cap"]) == ("mismatch", "low", 64_000)
    assert "model.matches" not in {f.code for f in judged(oversize(limit_text(64_000)))}
    assert [f.code for f in judged(oversize(limit_text(128_000)))] == ["model.matches"]
