"""What happens to parameters in the lab: honest hops do what their software does, and each knob does one thing more."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from lab_calls import MODEL, Clock, body, post

from relay_audit.lab import World
from relay_audit.lab.choosing import Taste
from relay_audit.lab.evasion import Stored
from relay_audit.lab.gpt_fields import field_fault
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.tampering import masked, tampered

LIST = ["amber", "anchor", "apple", "apron", "vinodulo", "arch", "aspen", "attic", "autumn"]
COPY = "Copy these words in this order, one per line, and write nothing else:\n" + "\n".join(LIST)


def said(name: str, *, side: str = "relay", text: str = COPY, **more: Any) -> dict[str, Any]:
    answer = post(World(name, 1, Clock()), side, sent=body(text, **more))
    assert answer.status == 200
    return answer.json()


def refused(name: str, **more: Any) -> tuple[int, str, str]:
    answer = post(World(name, 1, Clock()), sent={k: v for k, v in (body() | more).items() if v is not ...})
    error = answer.json().get("error", {})
    return answer.status, str(error.get("type", "")), str(error.get("message", ""))


def test_the_model_copies_a_list_up_to_a_stop_word_or_to_its_limit() -> None:
    whole = said("honest", max_tokens=200)
    assert (whole["content"][0]["text"].split("\n"), whole["stop_reason"]) == (LIST, "end_turn")
    stopped = said("honest", max_tokens=200, stop_sequences=["vinodulo"])
    assert stopped["content"][0]["text"].split() == LIST[:4]
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "vinodulo")
    assert stopped["usage"]["output_tokens"] < whole["usage"]["output_tokens"]
    cut = said("honest", max_tokens=9)
    assert (cut["stop_reason"], cut["usage"]["output_tokens"]) == ("max_tokens", 9)
    assert LIST[-1] not in cut["content"][0]["text"]


def test_a_stop_word_or_a_limit_that_is_ignored_shows_in_the_text() -> None:
    assert "vinodulo" in said("stop_ignored", max_tokens=200, stop_sequences=["vinodulo"])["content"][0]["text"]
    assert LIST[-1] in said("limit_ignored", max_tokens=9)["content"][0]["text"]
    lowered = said("limit_lowered", max_tokens=32)
    assert (lowered["stop_reason"], lowered["usage"]["output_tokens"]) == ("max_tokens", 12)


@pytest.mark.parametrize(
    ("name", "side", "region"),
    [("honest", "official", "us"), ("honest", "relay", "global"), ("honest_no_software", "relay", "us"),
     ("honest_litellm", "relay", "us"), ("region_dropped", "relay", "global"),
     ("pool_geo_not_available", "relay", "not_available")],
)  # fmt: skip
def test_who_lets_the_region_through(name: str, side: str, region: str) -> None:
    assert said(name, side=side, text="hello", inference_geo="us")["usage"]["inference_geo"] == region


@pytest.mark.parametrize(
    ("name", "more", "status", "kind", "text"),
    [
        ("honest", {"temperature": 9}, 400, "<nil>", "temperature: range: 0..1"),
        ("honest", {"temperature": "hot"}, 500, "new_api_error", "cannot unmarshal"),
        ("honest", {"top_k": 1.5}, 500, "new_api_error", "top_k of type int"),
        ("honest", {"messages": ...}, 500, "new_api_error", "field messages is required"),
        ("honest", {"metadata": {"bogus": "x"}}, 400, "<nil>", "***.bogus: Extra inputs"),
        ("honest", {"tool_choice": {"type": "auto"}}, 400, "<nil>", "tool_choice may only be specified"),
        ("honest", {"seed": 7}, 200, "", ""),
        ("honest", {"inference_geo": "mars"}, 200, "", ""),
        ("honest_no_software", {"seed": 7}, 400, "invalid_request_error", "seed: Extra inputs"),
        ("honest_litellm", {"seed": 7}, 200, "", ""),
        ("honest_litellm", {"inference_geo": "mars"}, 400, "invalid_request_error", "must be one of"),
        ("honest_rewritten_chinese_errors", {"temperature": 9}, 502, "api_error", "HTTP 400"),
        ("temperature_dropped", {"temperature": 9}, 200, "", ""),
        ("temperature_dropped", {"top_p": 9}, 400, "<nil>", "top_p: range"),
        ("unknown_fields_dropped", {"seed": 7}, 200, "", ""),
        ("unknown_fields_dropped", {"stop": 7}, 400, "invalid_request_error", "stop: Extra inputs"),
        ("errors_blanked", {"temperature": 9}, 400, "", "Internal server error"),
        ("limit_lowered", {"max_tokens": 200_000}, 200, "", ""),
    ],
)
def test_what_each_relay_makes_of_a_wrong_request(
    name: str, more: dict[str, Any], status: int, kind: str, text: str
) -> None:
    got = refused(name, **more)
    assert (got[0], got[1]) == (status, kind)
    assert text in got[2]


@pytest.mark.parametrize(("name", "counted"), [("fallback_on_400", ""), ("fallback_on_400_litellm", "1")])
def test_a_fallback_answers_what_was_refused_and_shows_itself(name: str, counted: str) -> None:
    world = World(name, 1, Clock())
    usual, other = post(world), post(world, sent=body(temperature=9))
    assert (usual.json()["model"], other.json()["model"]) == (MODEL, "claude-haiku-5-5")
    assert (usual.json()["id"][:8], other.json()["id"][:8]) == ("msg_011C", "msg_bdrk")
    assert other.header("x-litellm-attempted-fallbacks") == counted
    assert post(world, sent=body() | {"model": "nobody"}).status in (400, 503)


def test_a_knob_changes_only_its_fields() -> None:
    sent = body(temperature=1, top_p=1)
    assert tampered(sent, Knobs()) == sent
    assert tampered(sent, Knobs(swallows=("top_p",))) == {k: v for k, v in sent.items() if k != "top_p"}
    assert tampered(sent, Knobs(limit_to=12)) == sent | {"max_tokens": 12}
    assert masked("us.anthropic.claude-x and messages.0.role") == "***.***.claude-x and ***.***.role"


@pytest.mark.parametrize(
    ("dialect", "more", "message"),
    [
        ("openai_chat", {"n": 0, "service_tier": "bogus"}, "Expected a value >= 1, but got 0"),
        ("openai_chat", {"n": "2"}, "expected an integer, but got a string"),
        ("openai_chat", {"response_format": {}}, "response_format.type"),
        ("openai_chat", {"temperature": 0.5}, "does not support 0.5"),
        ("openai_chat", {"messages": [{"role": "bogus", "content": "x"}]}, "'tool', and 'developer'"),
        ("openai_responses", {"previous_response_id": "resp_x"}, "Previous response with id 'resp_x' not found."),
        ("openai_responses", {"reasoning": {"effort": "bogus"}}, "'xhigh', and 'max'"),
        ("openai_responses", {"top_logprobs": 1}, "logprobs are not supported"),
        ("openai_responses", {"input": {"a": 1}}, "array of input items"),
    ],
)
def test_openai_fields(dialect: str, more: dict[str, Any], message: str) -> None:
    fault = field_fault(more, dialect, reasons=True)
    assert fault is not None
    assert message in fault.message
    assert field_fault({"temperature": 1, "store": False, "service_tier": "auto"}, dialect, reasons=True) is None


QUESTION = "Pick one at random, reply only with it: amber, anchor, apple, apron, arch, aspen, attic, autumn"


def picks(taste: Taste, n: int = 27, model: str = "one", question: str = QUESTION, **more: Any) -> list[str]:
    sent = {"messages": [{"role": "user", "content": question}], **more}
    return [str(taste.pick(sent, model)) for _ in range(n)]


def test_what_may_be_picked_is_drawn_and_near_0_it_is_the_likeliest() -> None:
    taste = Taste("never", random.Random(1))
    warm, cold = Counter(picks(taste)), Counter(picks(taste, temperature=0.01))
    assert cold == {warm.most_common(1)[0][0]: 27}
    assert sorted(warm.values()) == [3, 3, 3, 3, 3, 3, 3, 6]
    assert set(picks(taste, top_k=1)) == set(cold)
    others = {tuple(picks(taste, 1, model, temperature=0)) for model in ("two", "three", "four", "five")}
    assert len(others) > 1, "each model has a favourite of its own"
    assert taste.pick({"input": [{"role": "user", "content": QUESTION}], "temperature": 0}, "one") == cold.popitem()[0]
    assert taste.pick({"messages": [{"role": "user", "content": "Reply with OK."}]}, "one") is None


def test_one_question_in_ten_is_undecided() -> None:
    questions = [f"Choose one at random: {', '.join(random.Random(n).sample(LIST, 5))}" for n in range(300)]
    for how, low, high in (("never", 0, 0), ("seldom", 15, 50), ("always", 295, 300)):
        taste = Taste(how, random.Random(2))  # type: ignore[arg-type]
        wavering = sum(len(set(picks(taste, question=q, temperature=0.01))) == 2 for q in questions)
        assert low <= wavering <= high


def test_sampling_fields_that_are_legal_vanish_and_others_go_through() -> None:
    knobs = Knobs(draws=True)
    assert tampered({"temperature": 0.01, "top_p": 1, "top_k": 1, "max_tokens": 9}, knobs) == {"max_tokens": 9}
    wrong = {"temperature": 9, "top_p": 1.5, "top_k": 1.5, "max_tokens": 9}
    assert tampered(wrong, knobs) == wrong
    assert tampered({"temperature": "hot"}, knobs) == {"temperature": "hot"}


def test_a_store_by_the_prompt_alone_gives_again_what_was_asked_under_another_temperature() -> None:
    clock = Clock()
    by_body, by_prompt = Stored[int](clock), Stored[int](clock, "prompt")
    for store in (by_body, by_prompt):
        store.keep(body(QUESTION, temperature=0.01), 1)
    assert by_body.find(body(QUESTION, temperature=0.02)) is None
    assert by_prompt.find(body(QUESTION, temperature=0.02)) == 1
    assert by_prompt.find(body("another", temperature=0.01)) is None
