"""What a tool adds to the bill, beside the vendor's count and beside published figures: which model it speaks of, and when
nothing may be said."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from relay_audit.assess.model_identity import assess_model_identity
from relay_audit.assess.parameter_parity import assess_parameter_parity
from relay_audit.assess.tool_prompt import excluded_by_tool_prompt, read_tool_prompt, tool_prompt_findings
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.plan import Step
from relay_audit.target import Claim
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    MODEL,
    START,
    Text,
    answered,
    at,
    codes,
    only,
    parity_run,
    plan_of,
    run_of,
    step_named,
    twelve,
)

PLAIN, OFFERED, FORCED = "metadata_user_id", "offered_tool", "forced_tool"
TOOLS = [{"name": "note", "input_schema": {"type": "object"}}]
TEXT = 29
"""Tokens of the tool itself; any figure between 10 and 38 will do."""
LINE = 40
"""Tokens of the text without a tool."""
OPUS, SONNET, OLDER, NEWEST = "claude-opus-5", "claude-sonnet-5", "claude-opus-4-7", "claude-opus-5-5"
FIGURES = {OPUS: (286, 406), "claude-opus-4-8": (290, 410), OLDER: (675, 804), SONNET: (354, 474), NEWEST: (400, 520)}
"""As published; the last one is nobody's and stands for what the vendor counts on the day."""
Three = tuple[int, int, int | None]


def counts_of(model: str, *, text: int = TEXT) -> Three:
    """The three bodies as the vendor counts them for a model."""
    offered, forced = FIGURES[model]
    return LINE, LINE + offered + text, LINE + forced + text


def times(factor: float, three: Three) -> Three:
    return (
        round(three[0] * factor),
        round(three[1] * factor),
        None if three[2] is None else round(three[2] * factor),
    )


def plus(offset: int, three: Three) -> Three:
    return three[0] + offset, three[1] + offset, None if three[2] is None else three[2] + offset


def bodies() -> list[Step]:
    line = [{"role": "user", "content": "One line.\nReply with one word."}]
    tools: dict[str, dict[str, Any]] = {
        PLAIN: {"max_tokens": 18},
        OFFERED: {"max_tokens": 16, "tools": TOOLS, "tool_choice": {"type": "auto"}},
        FORCED: {"max_tokens": 17, "tools": TOOLS, "tool_choice": {"type": "any"}},
    }
    steps = []
    for case, more in tools.items():
        plain = step_named(case)
        body = {**plain.body, "messages": line, **more}
        steps.append(
            plain.model_copy(update={"case": case, "body": body, "tier": "users", "probe": "anthropic/model_rules"})
        )
    return steps


def message(tokens: int, content: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"id": "msg_1", "content": content or [{"type": "text", "text": "OK"}],
            "usage": {"input_tokens": tokens, "output_tokens": 4}}  # fmt: skip


def run(
    billed: Three,
    counted: Three | None = None,
    *,
    asked: str = OPUS,
    texts: list[Text] | None = None,
    mirrored: Three | None = None,
    start: dt.datetime = START,
    late: float = 0.0,
    content: list[dict[str, Any]] | None = None,
    steps: list[Step] | None = None,
) -> Evidence:
    """The three answers, beside a parity run where there is a key (`counted`: None where the vendor refuses the body)."""
    own = steps or bodies()
    base = parity_run(twelve() if texts is None else texts, start=start) if counted else run_of([], [], start=start)
    planned = [*(base.plan.steps if base.plan else ()), *own]
    seen: list[Exchange] = [_naming(asked, e) for e in base.exchanges]
    for place, (step, tokens) in enumerate(zip(own, billed, strict=True)):
        moment = at(600 + place, start)
        body = message(tokens, content) if tokens is not None else {"type": "error", "error": {"message": "no"}}
        seen.append(answered(900 + place, step.id, body, moment=moment, status=200 if tokens is not None else 400))
        if counted and (count := counted[place]) is not None:
            told = {"input_tokens": count}
            seen.append(
                answered(
                    910 + place, f"count.quote.{step.id}", told, moment=at(599 + place - late, start), side="official"
                )
            )
        if mirrored and (due := mirrored[place]) is not None:
            mirror = step.model_copy(update={"id": f"mirror.with.{step.id}", "side": "official", "mirrors": step.id})
            planned.append(mirror)
            seen.append(answered(920 + place, mirror.id, message(due), moment=at(601 + place, start), side="official"))
    plan = plan_of(planned, counter=counted is not None, checks=(2, 3, 4))
    return run_of(seen, [], model=asked, counter=counted is not None, start=start, plan=plan)


def _naming(model: str, exchange: Exchange) -> Exchange:
    """The same answer under the name of what was bought."""
    assert exchange.response is not None
    told = exchange.response.model_copy(update={"body": exchange.response.body.replace(MODEL, model)})
    return exchange.model_copy(update={"response": told})


def judged(*args: Any, **more: Any) -> list[Finding]:
    return tool_prompt_findings(run(*args, **more), KNOWLEDGE)


def outcome(*args: Any, **more: Any) -> str | None:
    seen = read_tool_prompt(run(*args, **more), KNOWLEDGE)
    return seen.outcome if seen else None


# With the vendor's counter


def test_another_figure_on_the_bill_names_the_models_it_fits():
    found = only(judged(counts_of(SONNET), counts_of(OPUS)))
    assert (found.code, found.outcome) == ("model.tool_prompt_differs", "mismatch")
    assert found.params == {
        "requested": OPUS,
        "billed": 354 + TEXT,
        "low": 286 + TEXT,
        "high": 286 + TEXT,
        "fits": [SONNET],
    }
    assert (found.basis, found.evidence_level) == ("live_official", "official_doc")
    assert set(found.exchanges) == {"X0900", "X0901", "X0902", "X0910", "X0911", "X0912"}
    back = only(judged(counts_of(OPUS), counts_of(SONNET), asked=SONNET))
    assert back.params["fits"] == [OPUS, "claude-opus-4-8"], "two that lie four tokens apart are not told apart"
    older = only(judged(counts_of(OLDER), counts_of(OPUS)))
    assert older.params["fits"] == [OLDER]
    for found in (older, only(judged(counts_of(OPUS), (*counts_of(NEWEST)[:2], None), asked=NEWEST))):
        assert (found.severity, found.confidence, found.accusation) == ("medium", "strong", True)


@pytest.mark.parametrize(
    ("asked", "added", "fits"), [(OPUS, 68, SONNET), (OPUS, 64, SONNET), ("claude-opus-4-8", 385, None)]
)
def test_a_prompt_that_goes_with_tools_accuses_nobody_by_its_length(asked: str, added: int, fits: str | None):
    """An honest hop adds its own words, or a tool of its own, where tools are: forcing one costs what it costs with the
    vendor, and with the sibling of the same second difference."""
    plain, offered, forced = counts_of(asked)
    assert forced is not None
    found = only(judged((plain, offered + added, forced + added), counts_of(asked), asked=asked))
    assert (found.severity, found.accusation) == ("low" if fits else "info", False)
    assert found.params["fits"] == [fits] * bool(fits)


def test_one_difference_alone_is_a_sign():
    """A prompt of 68 tokens that goes with tools only would look alike; that forcing one costs as much more would not."""
    plain, offered, _ = counts_of(SONNET)
    for forced in (None, offered, offered + 8):
        found = only(judged((plain, offered, forced), counts_of(OPUS)))
        assert (found.severity, found.confidence, found.params["fits"]) == ("low", "supporting", [SONNET])
    otherwise = only(judged((plain, offered, offered + 100), counts_of(OPUS)))
    assert (otherwise.outcome, otherwise.params["fits"]) == ("inconclusive", [])


@pytest.mark.parametrize("claim", ["aws", "vertex", "azure"])
def test_a_cloud_may_have_a_prompt_of_its_own(claim: str):
    for counted in (None, counts_of(OPUS)):
        sold = run(counts_of(SONNET), counted)
        target = sold.target.model_copy(update={"claim": Claim(channel=claim)})
        found = tool_prompt_findings(sold.model_copy(update={"target": target}), KNOWLEDGE)
        assert [(f.outcome, f.severity, f.params["fits"]) for f in found] == [("inconclusive", "info", [])] * bool(
            counted
        )


@pytest.mark.parametrize("beside", [0, 4, 5, 8])
def test_an_estimate_may_be_some_tokens_off(beside: int):
    assert judged(counts_of(OPUS, text=TEXT + beside), counts_of(OPUS)) == []
    assert judged(counts_of(OPUS, text=TEXT - beside), counts_of(OPUS)) == []


@pytest.mark.parametrize(("apart", "fits"), [(64, True), (68, True), (72, True), (63, False), (73, False)])
def test_what_is_published_fits_within_the_jitter_of_a_count(apart: int, fits: bool):
    counted = counts_of(OPUS)
    billed = (LINE, LINE + 286 + TEXT + apart, LINE + 406 + TEXT + apart)
    assert judged(billed, counted)[0].params["fits"] == ([SONNET] if fits else [])


def test_a_figure_that_is_nobodys_is_said_and_held_against_nobody():
    found = only(judged((LINE, LINE + 500, LINE + 620), counts_of(OPUS)))
    assert (found.outcome, found.severity, found.params["fits"], found.params["road"]) == (
        "inconclusive",
        "info",
        [],
        "unlike",
    )


@pytest.mark.parametrize("hidden", [0, 4, 508, 4380])
def test_a_hidden_prompt_falls_out_of_the_difference(hidden: int):
    texts = twelve(hidden)
    assert outcome(plus(hidden, counts_of(OPUS)), counts_of(OPUS), texts=texts) == "kept"
    assert outcome(plus(hidden, counts_of(SONNET)), counts_of(OPUS), texts=texts) == "another"


def test_a_multiplied_count_is_no_other_model():
    """1.22 times Opus 5's is what Sonnet 5 counts: other texts show the multiplier, and then nothing is said."""
    factor = 1.216
    texts = [
        Text(size, round(size * (factor - 1)), script=script) for script in ("ascii", "cjk") for size in (20, 45, 90)
    ]
    billed = times(factor, counts_of(OPUS))
    assert billed[1] - billed[0] == 354 + TEXT
    assert outcome(billed, counts_of(OPUS), texts=texts) == "unclear"
    assert judged(billed, counts_of(OPUS), texts=texts) == []
    assert judged(billed) == [], "without a key the second difference shows it"


def test_other_texts_must_be_there_and_keep_to_one_constant():
    apart = counts_of(SONNET), counts_of(OPUS)
    assert outcome(*apart, texts=[Text(20), Text(45)]) == "unclear", "two sizes"
    assert outcome(*apart, texts=[Text(20), Text(45), Text(90, 3)]) == "unclear"
    assert outcome(*apart, texts=[Text(20), Text(45), Text(90, 2)]) == "another"
    with_system = [Text(20, system=True), Text(45, system=True), Text(90, system=True)]
    assert outcome(*apart, texts=with_system) == "unclear"


def test_the_vendors_two_ways_of_counting_must_agree():
    apart = counts_of(SONNET), counts_of(OPUS)
    assert outcome(*apart, mirrored=plus(4, counts_of(OPUS))) == "another"
    assert outcome(*apart, mirrored=counts_of(OPUS, text=TEXT + 4)) == "another"
    seen = read_tool_prompt(run(*apart, mirrored=counts_of(OPUS, text=TEXT + 5)), KNOWLEDGE)
    assert seen is not None
    assert seen.vendor is None, "a control that does not agree with itself"
    assert seen.outcome == "another", "published figures speak without it"
    old = read_tool_prompt(run(*apart, late=3600), KNOWLEDGE)
    assert old is not None
    assert old.vendor is None


def test_a_model_without_a_published_figure_is_held_against_the_days_count():
    assert outcome(counts_of(NEWEST), counts_of(NEWEST), asked=NEWEST) == "kept"
    counted = (*counts_of(NEWEST)[:2], None)
    found = only(judged(counts_of(OPUS), counted, asked=NEWEST))
    assert found.params["fits"] == [OPUS, "claude-opus-4-8"]
    unforced = only(judged((*counts_of(OPUS)[:2], None), counted, asked=NEWEST))
    assert (unforced.outcome, unforced.params["fits"]) == ("inconclusive", []), "one difference alone could be anything"
    no_choice = (*counts_of(OPUS)[:2], counts_of(OPUS)[1])
    assert only(judged(no_choice, counted, asked=NEWEST)).outcome == "inconclusive", "the force did not arrive"
    assert judged(counts_of(OPUS), asked=NEWEST) == [], "without a key there is nothing to hold it against"


# Without a key


@pytest.mark.parametrize("text", [10, 20, 38])
@pytest.mark.parametrize(("served", "fits"), [(SONNET, [SONNET]), (OLDER, [OLDER])])
def test_published_figures_tell_siblings_apart_whatever_the_tool_takes(served: str, fits: list[str], text: int):
    found = only(judged(counts_of(served, text=text)))
    assert (found.outcome, found.severity, found.confidence, found.basis) == (
        "mismatch",
        "low",
        "supporting",
        "known_list",
    )
    assert found.params["fits"] == fits
    assert (found.params["low"], found.params["high"]) == (286 + 10, 286 + 38)
    assert set(found.exchanges) == {"X0900", "X0901", "X0902"}
    assert judged(counts_of(OPUS, text=text)) == []


@pytest.mark.parametrize("factor", [1.05, 1.1, 1.216, 1.3, 1.4, 2.0, 2.36, 0.3])
@pytest.mark.parametrize("asked", [OPUS, "claude-opus-4-8", SONNET, OLDER])
def test_no_multiplier_makes_one_model_another(asked: str, factor: float):
    for text in (10, 20, 38):
        assert judged(times(factor, counts_of(asked, text=text)), asked=asked) == []


@pytest.mark.parametrize("asked", [OPUS, "claude-opus-4-8", SONNET, OLDER])
def test_no_jitter_of_a_count_makes_one_model_another(asked: str):
    for a in (-4, 0, 4):
        for b in (-4, 0, 4):
            for c in (-4, 0, 4):
                plain, offered, forced = counts_of(asked)
                assert judged((plain + a, offered + b, (forced or 0) + c), asked=asked) == []


def test_without_the_second_difference_nothing_is_said():
    plain, offered, _ = counts_of(SONNET)
    assert judged((plain, offered, None)) == []
    assert judged((plain, offered, offered)) == [], "tool_choice was taken out"


def test_figures_past_their_term_accuse_nobody():
    later = START + dt.timedelta(days=400)
    assert judged(counts_of(SONNET), start=later) == []
    assert excluded_by_tool_prompt(run(counts_of(OPUS), start=later), KNOWLEDGE) == frozenset()


# What the other findings take from it


def test_siblings_are_excluded_and_nobody_is_confirmed():
    for counted in (None, counts_of(OPUS)):
        seen = run(counts_of(OPUS), counted)
        assert excluded_by_tool_prompt(seen, KNOWLEDGE) == {SONNET, OLDER}
        found = only(assess_model_identity(seen, KNOWLEDGE))
        assert found.code == "model.not_verifiable"
        assert not {SONNET, OLDER} & set(found.params["siblings"])
        assert found.observed["tool_prompt_excludes"] == [OLDER, SONNET]
    assert codes(assess_model_identity(run(counts_of(SONNET)), KNOWLEDGE)) == ["model.tool_prompt_differs"]
    unclear = run((LINE, LINE + 700, None))
    assert excluded_by_tool_prompt(unclear, KNOWLEDGE) == frozenset()
    assert "tool_prompt_excludes" not in only(assess_model_identity(unclear, KNOWLEDGE)).observed


def test_a_tool_that_does_not_arrive_is_a_lost_field_and_no_model():
    lost: Three = (LINE, LINE, LINE)
    seen = run(lost, counts_of(OPUS), mirrored=counts_of(OPUS))
    assert outcome(lost, counts_of(OPUS)) == "lost"
    assert tool_prompt_findings(seen, KNOWLEDGE) == []
    found = next(f for f in assess_parameter_parity(seen, KNOWLEDGE) if f.code == "params.legal_dropped")
    assert found.params["cases"] == [OFFERED, FORCED]
    assert "params.legal_dropped" not in codes(assess_parameter_parity(run(lost), KNOWLEDGE)), (
        "without a key: an estimate?"
    )
    loose = run(lost, counts_of(OPUS), mirrored=counts_of(OPUS), texts=[Text(20, 9), Text(45, -8), Text(90, 0)])
    assert "params.legal_dropped" not in codes(assess_parameter_parity(loose, KNOWLEDGE)), "its counts are estimates"
    used = [{"type": "tool_use", "id": "toolu_1", "name": "note", "input": {}}]
    told = run(lost, counts_of(OPUS), mirrored=counts_of(OPUS), content=used)
    assert "params.legal_dropped" not in codes(assess_parameter_parity(told, KNOWLEDGE)), "the model used it"


def test_a_force_that_does_not_arrive_is_a_lost_field():
    plain, offered, _ = counts_of(OPUS)
    seen = run((plain, offered, offered), counts_of(OPUS), mirrored=counts_of(OPUS))
    found = next(f for f in assess_parameter_parity(seen, KNOWLEDGE) if f.code == "params.legal_dropped")
    assert found.params["cases"] == [FORCED]
    kept = run(counts_of(OPUS), counts_of(OPUS), mirrored=counts_of(OPUS))
    assert "params.legal_dropped" not in codes(assess_parameter_parity(kept, KNOWLEDGE))


def test_three_texts_that_are_not_one_are_not_compared():
    steps = bodies()
    other = {**steps[1].body, "messages": [{"role": "user", "content": "Another."}]}
    steps[1] = steps[1].model_copy(update={"body": other})
    assert read_tool_prompt(run(counts_of(SONNET), steps=steps), KNOWLEDGE) is None
    assert read_tool_prompt(run(counts_of(SONNET), asked="nobodys-model"), KNOWLEDGE) is None


def test_a_usage_of_zero_is_none_and_cached_tokens_are_input():
    plain, offered, forced = counts_of(SONNET)
    assert read_tool_prompt(run((plain, 0, forced)), KNOWLEDGE) is None
    seen = run(counts_of(SONNET))
    split = {"input_tokens": 3, "cache_read_input_tokens": offered - 3, "output_tokens": 4}
    rows = [
        answered(901, OFFERED, {"id": "msg_1", "content": [], "usage": split}, moment=at(601))
        if e.step == OFFERED
        else e
        for e in seen.exchanges
    ]
    assert only(tool_prompt_findings(seen.model_copy(update={"exchanges": tuple(rows)}), KNOWLEDGE)).params["fits"] == [
        SONNET
    ]


@pytest.mark.parametrize(("ids", "reads"), [("alike", False), ("own", True), ("constant", True)])
def test_an_answer_out_of_a_store_counts_another_body(ids: str, reads: bool) -> None:
    """A store that looks at the texts alone gives the answer without a tool to the bodies that offer one. Where software writes
    one id into every answer, nothing is stored."""
    evidence = run(counts_of(OPUS))
    assert evidence.plan is not None
    bodies_of = {step.id: step.body for step in evidence.plan.steps}
    seen = []
    for exchange in evidence.exchanges:
        told = json.loads(exchange.response.body) | ({"id": f"msg_{exchange.id}"} if ids == "own" else {})
        response = exchange.response.model_copy(update={"body": json.dumps(told)})
        request = exchange.request.model_copy(update={"body": bodies_of[exchange.step]})
        seen.append(exchange.model_copy(update={"response": response, "request": request}))
    if ids == "constant":
        other = {**bodies_of[seen[0].step], "messages": [{"role": "user", "content": "Another line."}]}
        more = seen[0].request.model_copy(update={"body": other})
        seen.append(seen[0].model_copy(update={"id": "X0999", "step": "another", "request": more}))
    another = evidence.plan.steps[0].model_copy(update={"id": "another", "case": "another", "body": {}})
    plan = evidence.plan.model_copy(update={"steps": (*evidence.plan.steps, another)})
    evidence = evidence.model_copy(update={"exchanges": tuple(seen), "plan": plan})
    assert bool(evidence.stored()) is not reads
    assert (read_tool_prompt(evidence, KNOWLEDGE) is not None) is reads
