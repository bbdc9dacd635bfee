"""Two signs of different kinds that only together accuse: each alone stays what it is."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from relay_audit.assess import combined
from relay_audit.assess.combined import in_combination
from relay_audit.assess.model_identity import OVERSIZE
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, answered, at, only, run_of, step_named

LIMIT = finding(
    "model.limit_mismatch", {"requested": MODEL, "cap": 16384, "expected_cap": 128000, "fits": ["gpt-4o", "gpt-4o-mini"]},
    exchanges=("X0001",), outcome="mismatch", severity="low", basis="known_list", expected={"max_output": 128000},
    observed={"max_output": 16384},
)  # fmt: skip
COUNT = finding(
    "tokens.tokenizer_differs", {"n": 24, "slopes": {"ascii": "0.71"}}, exchanges=("X0002",), confidence="strong",
    observed={"ascii": "0.71"}, expected={"slope": "1.00"},
)  # fmt: skip
PAIRS = ["message_id: anthropic", "signature: aws"]


def doubt(*exchanges: str, severity: Any = "low") -> Finding:
    return finding("channel.signals_contradict", {"n": len(exchanges), "of": 3, "pairs": PAIRS}, exchanges=exchanges,
                   severity=severity, confidence="supporting")  # fmt: skip


def run(usage: dict[str, Any], *, model: str = MODEL) -> Evidence:
    steps = [step_named(f"s{place}") for place in range(3)]
    answers = [
        answered(p + 1, f"s{p}", {"id": f"msg_{p}", "model": model, "usage": usage}, moment=at(p)) for p in range(3)
    ]
    return run_of(answers, steps, model=model)


BARE = {"input_tokens": 20, "output_tokens": 4}


def test_another_limit_and_another_tokenizer_are_another_model() -> None:
    found = in_combination([LIMIT, COUNT], run(BARE), KNOWLEDGE)
    made = found[-1]
    assert (made.code, made.severity, made.accusation) == ("model.substituted", "critical", True)
    assert (made.params["road"], made.params["untrusted_leaked"]) == ("limit_and_tokenizer", "gpt-4o, gpt-4o-mini")
    assert made.exchanges == ("X0001", "X0002")
    assert made.observed == {"max_output": 16384, "ascii": "0.71"}
    assert made.expected == {"max_output": 128000, "slope": "1.00"}
    assert (made.params["requested"], made.params["n"]) == (MODEL, 1)
    assert (made.confidence, made.evidence_level, made.basis) == ("strong", "observed_pattern", "known_list")
    nobody = LIMIT.model_copy(update={"params": {**LIMIT.params, "fits": []}})
    assert in_combination([nobody, COUNT], run(BARE), KNOWLEDGE)[-1].params["untrusted_leaked"] == "16384"


@pytest.mark.parametrize(
    "alone",
    [[LIMIT], [COUNT], [LIMIT.model_copy(update={"outcome": "inconclusive", "severity": "info"}), COUNT]],
)
def test_each_alone_stays_what_it_is(alone: list[Finding]) -> None:
    assert in_combination(alone, run(BARE), KNOWLEDGE) == alone


def test_a_name_that_stands_already_is_not_said_twice() -> None:
    named = finding(
        "model.substituted", {"requested": MODEL, "untrusted_leaked": "gpt-4o", "road": "error_text", "n": 1}
    )
    assert in_combination([LIMIT, COUNT, named], run(BARE), KNOWLEDGE) == [LIMIT, COUNT, named]
    assert in_combination([SIGNED, COUNT, named], run(BARE), KNOWLEDGE) == [SIGNED, COUNT, named]
    told = named_by_answers("gpt-4o")
    assert in_combination([LIMIT, told, named], run(BARE), KNOWLEDGE) == [LIMIT, told, named]


SIGNED = finding(
    "model.name_mismatch",
    {"requested": MODEL, "untrusted_returned": "claude-sonnet-5", "n": 2, "of": 2, "road": "signature"},
    exchanges=("X0003",), expected={"model": MODEL}, observed={"untrusted_model": "claude-sonnet-5"},
)  # fmt: skip


def taken(*cases: str) -> Finding:
    params = {"n": len(cases), "of": 28, "cases": list(cases), "fields": ["thinking"]}
    return finding("params.illegal_accepted", params, exchanges=("X0004",), confidence="strong", basis="live_official")


@pytest.mark.parametrize(
    ("second", "road"),
    [(COUNT, "signature_and_tokenizer"), (taken("thinking_disabled", "forced_tool"), "signature_and_rules")],
)
def test_a_signature_and_what_it_cannot_bring_about_are_another_model(second: Finding, road: str) -> None:
    found = in_combination([second, SIGNED], run(BARE), KNOWLEDGE)
    assert [f.code for f in found] == [second.code, "model.substituted"]
    made = found[-1]
    assert (made.severity, made.accusation, made.params["road"]) == ("critical", True, road)
    assert (made.params["untrusted_leaked"], made.params["n"], made.basis) == ("claude-sonnet-5", 2, second.basis)
    assert made.exchanges == ("X0003", *second.exchanges)
    assert (made.confidence, made.evidence_level) == ("strong", "observed_pattern")
    assert made.expected == {**second.expected, "model": MODEL}
    assert made.observed == {**second.observed, "untrusted_model": "claude-sonnet-5"}


def test_a_signature_in_streams_and_streams_of_another_tokenizer_are_another_model(monkeypatch) -> None:
    """The sign in the tokens is no finding of its own: software that converts streams estimates them too."""
    told = run(BARE)
    monkeypatch.setattr(combined, "streams_below", lambda seen: ("X0002",) if seen.plan else ())
    assert in_combination([SIGNED], told, KNOWLEDGE) == [SIGNED], "the signature came in an answer that was no stream"
    text = 'event: message_start\ndata: {"type": "message_start", "message": {"id": "msg_2"}}\n\n'
    body = told.exchanges[2].response.model_copy(
        update={"headers": (("content-type", "text/event-stream"),), "body": text}
    )
    last = told.exchanges[2].model_copy(update={"response": body})
    streams = told.model_copy(update={"exchanges": (*told.exchanges[:2], last)})
    made = only(in_combination([SIGNED], streams, KNOWLEDGE))
    assert (made.code, made.params["road"]) == ("model.substituted", "signature_and_tokenizer")
    assert (made.exchanges, made.basis) == (("X0003", "X0002"), "live_official")


@pytest.mark.parametrize(
    "beside",
    [
        taken("thinking_disabled"),  # one field may have been dropped
        taken("thinking_disabled", "temperature_range"),  # no trait of a model
        taken("thinking_disabled", "sampling_half"),  # the signed model refuses the second
    ],
    ids=str,
)
def test_a_signature_beside_what_a_program_in_between_explains_stays_low(beside: Finding) -> None:
    assert in_combination([beside, SIGNED], run(BARE), KNOWLEDGE) == [beside, SIGNED]
    returned = SIGNED.model_copy(update={"params": {k: v for k, v in SIGNED.params.items() if k != "road"}})
    assert in_combination([COUNT, returned], run(BARE), KNOWLEDGE) == [COUNT, returned]


def elsewhere(channel: str) -> Finding:
    params = {"claimed": "anthropic", "channel": channel, "n": 3, "of": 3, "signals": [f"{channel}.message_id"]}
    return finding("channel.mismatch", params, exchanges=("X0001",), severity="low", observed={"kinds": ["message_id"]})


@pytest.mark.parametrize(
    ("channel", "severity"), [("zai", "high"), ("openai", "high"), ("aws", "low"), ("converter", "low")]
)
def test_ids_of_who_does_not_serve_the_model_and_a_count_that_is_not_its_own(channel: str, severity: str) -> None:
    """Claude on Bedrock counts like Claude: a tokenizer that differs says nothing for that channel."""
    made, count = in_combination([elsewhere(channel), COUNT], run(BARE), KNOWLEDGE)
    assert count == COUNT
    assert made.severity == severity
    assert made.observed["kinds"] == ["message_id", *(["tokenizer"] if severity == "high" else [])]
    heavier = severity == "high"
    assert made.exchanges == (("X0001", "X0002") if heavier else ("X0001",))
    assert made.confidence == ("strong" if heavier else "supporting")
    assert in_combination([elsewhere(channel)], run(BARE), KNOWLEDGE)[0].severity == "low"


def test_a_foreign_signature_over_usage_without_its_region_is_a_contradiction() -> None:
    made = in_combination([doubt("X0001", "X0002")], run(BARE), KNOWLEDGE)
    assert [(f.code, f.severity, f.confidence) for f in made] == [("channel.signals_contradict", "medium", "strong")]
    assert made[0].params["pairs"] == [*PAIRS, "usage: no inference_geo"]


def test_what_stands_beside_a_heavier_doubt_stays_what_it_is() -> None:
    two = [COUNT, doubt("X0001", "X0002"), elsewhere("aws")]
    made = in_combination(two, run(BARE), KNOWLEDGE)
    assert [f.severity for f in made] == [COUNT.severity, "medium", "low"]
    assert (made[0], made[2]) == (COUNT, two[2])


def test_what_is_no_longer_known_of_the_region_makes_nothing_heavier() -> None:
    """Nor does a model of which no region was ever known."""
    own = KNOWLEDGE.model(MODEL)
    assert own is not None
    item, evidence = doubt("X0001", "X0002"), run(BARE)
    old = own.model_copy(update={"observed": own.observed - dt.timedelta(days=own.term_days + 400)})
    never = own.model_copy(update={"inference_geo": ""})
    for model in (old, never):
        known = KNOWLEDGE.model_copy(update={"models": (model,)})
        assert in_combination([item], evidence, known) == [item]


@pytest.mark.parametrize(
    ("item", "evidence"),
    [
        (doubt("X0001", "X0002"), run({**BARE, "inference_geo": "global"})),
        (doubt("X0001"), run(BARE)),
        (doubt("X0001", "X0002", severity="info"), run(BARE)),
        (doubt("X0001", "X0002"), run(BARE, model="claude-sonnet-9")),
    ],
)
def test_with_the_region_or_a_single_signature_it_accuses_nobody(item: Finding, evidence: Evidence) -> None:
    assert in_combination([item], evidence, KNOWLEDGE) == [item]


def test_another_limit_and_the_name_in_every_answer_are_another_model() -> None:
    """A router writes the name of what it asked into its answers, and hands the vendor's refusal on: no key is needed."""
    told = named_by_answers("gpt-4o-2024-08-06")
    found = in_combination([LIMIT, told], run(BARE), KNOWLEDGE)
    made = found[-1]
    assert found[:2] == [LIMIT, told]
    assert (made.code, made.severity, made.params["road"]) == ("model.substituted", "critical", "limit_and_name")
    assert (made.params["untrusted_leaked"], made.params["n"]) == ("gpt-4o-2024-08-06", 3)
    assert made.params["requested"] == MODEL
    assert made.exchanges == ("X0003", "X0001")
    assert made.observed == {"max_output": 16384, "untrusted_model": "gpt-4o-2024-08-06"}
    for other in (named_by_answers("gpt-6-luna"), named_by_answers("gpt-4o", n=2), named_by_answers("nobodys-model-7")):
        assert in_combination([LIMIT, other], run(BARE), KNOWLEDGE) == [LIMIT, other]


HAIKU = KNOWLEDGE.model("claude-haiku-5-5")
assert HAIKU is not None
HAIKU_TAKES = HAIKU.max_output or 0


@pytest.mark.parametrize(
    ("sent", "name", "other"),
    [
        (32_768, "claude-haiku-5-5", True),
        (HAIKU_TAKES, "claude-haiku-5-5", True),
        (HAIKU_TAKES + 1, "claude-haiku-5-5", False),
        (256_000, "claude-haiku-5-5", False),
        (256_000, "gpt-6-luna-2026-09-15", True),
    ],
)
def test_a_limit_that_the_named_model_has_was_not_lowered(sent: int, name: str, other: bool) -> None:
    """gpt-4o refuses 32,768 and was asked for; what every answer names takes it. More than its own limit it refuses as
    well: then somebody lowered it."""
    lowered = finding("params.clamped", {"cases": [OVERSIZE], "n": 1, "of": 4, "fields": [OVERSIZE]}, exchanges=("X0001",),
                      basis="declared_official")  # fmt: skip
    step = step_named("s0").model_copy(update={"case": OVERSIZE, "output_limit": sent})
    asked = run_of([], [step], model="gpt-4o")
    told = named_by_answers(name, asked="gpt-4o")
    found = in_combination([lowered, told], asked, KNOWLEDGE)
    if not other:
        assert found == [lowered, told]
        return
    assert [f.code for f in found] == ["model.name_mismatch", "model.substituted"]
    assert found[-1].params["road"] == "limit_and_name"
    assert in_combination([lowered], asked, KNOWLEDGE) == [lowered]
    several = lowered.model_copy(update={"params": {**lowered.params, "cases": [OVERSIZE, "stop_word"]}})
    assert in_combination([several, told], asked, KNOWLEDGE) == [several, told]


def named_by_answers(name: str, *, asked: str = MODEL, n: int = 3) -> Finding:
    return finding("model.name_mismatch", {"requested": asked, "untrusted_returned": name, "n": n, "of": 3},
                   exchanges=("X0003",), basis="relay_word", expected={"model": asked}, observed={"untrusted_model": name})  # fmt: skip


def test_another_limit_and_ids_of_the_channel_that_has_it_are_another_model() -> None:
    """Each is low; both point to one maker, and another one's model was sold. A channel of many makers points to none."""
    found = in_combination([LIMIT, elsewhere("openai")], run(BARE), KNOWLEDGE)
    made = found[-1]
    assert (made.code, made.severity, made.params["road"]) == ("model.substituted", "critical", "limit_and_ids")
    assert made.params["untrusted_leaked"] == "gpt-4o, gpt-4o-mini"
    own = LIMIT.model_copy(update={"params": {**LIMIT.params, "requested": "gpt-4.1"}})
    mixed = LIMIT.model_copy(update={"params": {**LIMIT.params, "fits": ["gpt-4o", "claude-haiku-4-5"]}})
    for pair in (
        [LIMIT, elsewhere("converter")],
        [LIMIT, elsewhere("aws")],
        [own, elsewhere("openai")],
        [mixed, elsewhere("openai")],
    ):
        assert in_combination(pair, run(BARE), KNOWLEDGE) == pair


@pytest.mark.parametrize(("cap", "road"), [(64_000, "signature_and_limit"), (16_384, None)])
def test_a_signature_and_the_limit_of_the_model_it_names_are_that_model(cap: int, road: str | None) -> None:
    named = {
        "requested": MODEL,
        "untrusted_returned": "claude-haiku-4-5-20251001",
        "n": 1,
        "of": 1,
        "road": "signature",
    }
    signed = finding("model.name_mismatch", named, exchanges=("X0002",))
    limit = finding(
        "model.limit_mismatch",
        {"requested": MODEL, "cap": cap, "expected_cap": 128_000, "fits": ["claude-haiku-4-5"]},
        exchanges=("X0003",), outcome="mismatch", severity="low",
    )  # fmt: skip
    made = [f for f in in_combination([signed, limit], run_of([], []), KNOWLEDGE) if f.code == "model.substituted"]
    assert [f.params["road"] for f in made] == [road] * bool(road)
    assert [f.exchanges for f in made] == [("X0002", "X0003")] * bool(road)


def tool_prompt(*fits: str, outcome: Any = "mismatch") -> Finding:
    return finding(
        "model.tool_prompt_differs", {"requested": MODEL, "billed": 315, "low": 429, "high": 429, "fits": list(fits)},
        exchanges=("X0007",), outcome=outcome, severity="low" if outcome == "mismatch" else "info", basis="live_official",
        expected={"tool_prompt": [429, 429]}, observed={"tool_prompt": 315},
    )  # fmt: skip


BOTH_FIT = ("claude-opus-5", "claude-opus-4-8")


def test_another_tool_prompt_and_what_that_generation_takes_are_another_model() -> None:
    rules = taken("thinking_disabled", "forced_tool")
    found = in_combination([tool_prompt(*BOTH_FIT), rules], run(BARE), KNOWLEDGE)
    assert [f.code for f in found] == ["model.substituted", "params.illegal_accepted"]
    made = found[0]
    assert (made.severity, made.accusation, made.params["road"]) == ("critical", True, "tool_prompt_and_rules")
    assert (made.params["untrusted_leaked"], made.params["n"]) == ("claude-opus-5, claude-opus-4-8", 2)
    assert made.exchanges == ("X0007", "X0004")


@pytest.mark.parametrize(
    "beside",
    [
        [tool_prompt(*BOTH_FIT), taken("forced_tool")],  # one field may have been dropped
        [tool_prompt(*BOTH_FIT), taken("thinking_enabled", "sampling_half")],  # these two refuse that as well
        [tool_prompt(outcome="inconclusive"), taken("thinking_disabled", "forced_tool")],
        [tool_prompt(*BOTH_FIT)],
    ],
)
def test_a_tool_prompt_beside_what_does_not_agree_with_it_stays_low(beside: list[Finding]) -> None:
    assert in_combination(beside, run(BARE), KNOWLEDGE) == beside


def test_a_tool_prompt_and_a_name_that_agree_are_that_model() -> None:
    signed = SIGNED.model_copy(update={"params": {**SIGNED.params, "untrusted_returned": "claude-opus-5"}})
    found = in_combination([signed, tool_prompt(*BOTH_FIT)], run(BARE), KNOWLEDGE)
    assert [(f.code, f.params["road"]) for f in found] == [("model.substituted", "signature_and_tool_prompt")]
    told = named_by_answers("claude-opus-5-20260724")
    made = only(
        [
            f
            for f in in_combination([told, tool_prompt(*BOTH_FIT)], run(BARE), KNOWLEDGE)
            if f.code == "model.substituted"
        ]
    )
    assert (made.params["road"], made.params["untrusted_leaked"]) == ("tool_prompt_and_name", "claude-opus-5-20260724")
    for other in (SIGNED, named_by_answers("claude-sonnet-5")):
        assert in_combination([other, tool_prompt(*BOTH_FIT)], run(BARE), KNOWLEDGE) == [other, tool_prompt(*BOTH_FIT)]
    both = in_combination([signed, COUNT, tool_prompt(*BOTH_FIT)], run(BARE), KNOWLEDGE)
    assert [f.code for f in both] == ["model.substituted", "tokens.tokenizer_differs", "model.tool_prompt_differs"]
