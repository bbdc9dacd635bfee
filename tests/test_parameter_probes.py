"""What check 4 sends: when, in which order, bounded how, and for how much."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.parameter_effects import EFFECTS
from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.plan import Plan, Step, make_plan
from relay_audit.question import Question
from relay_audit.quote import Prices, UnitPrice, make_quote
from relay_audit.wording import Wording

PACKS, KNOWLEDGE = load_packs(), load_knowledge()
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
MODELS = {"anthropic": "claude-sonnet-5-5", "openai_chat": "gpt-6-sol", "openai_responses": "gpt-6-sol"}
LIMITS = {"anthropic": "max_tokens", "openai_chat": "max_completion_tokens", "openai_responses": "max_output_tokens"}


def plan_of(dialect: str = "anthropic", profile: str = "standard", seed: int = 1, **more: Any) -> Plan:
    facts = KNOWLEDGE.model(more.get("model", MODELS[dialect]))
    assert facts is not None
    asked = {
        "model": facts.name, "official_model": facts.name, "dialect": dialect, "profile": profile, "checks": (4,),
        "software": "new-api", "counter": PACKS.pack(dialect).counter is not None, "official": True,
        "family": facts.family, "max_output": facts.max_output, "refuses": facts.refuses, **more,
    }  # fmt: skip
    question = Question(**asked)
    return make_plan(question, PACKS.pack(dialect), PACKS.probes, Wording(PACKS.wordlists, seed), seed)


def cases(plan: Plan, probe: str = "") -> list[Step]:
    return [step for step in plan.chargeable() if step.case and probe in step.probe]


@pytest.mark.parametrize("dialect", MODELS)
def test_quick_has_none_of_these(dialect: str) -> None:
    assert [step for step in cases(plan_of(dialect, "quick")) if "model_" not in step.probe] == []
    assert len(cases(plan_of(dialect))) >= 12
    assert len(cases(plan_of(dialect, "thorough"))) >= len(cases(plan_of(dialect)))


TAKEN = {"unknown_field", "service_tier_bogus", "inference_geo_bogus", "version_header_missing"}
"""What the commonest relay software answers by itself."""


@pytest.mark.parametrize("dialect", MODELS)
def test_legal_first_then_one_alone_then_the_rest_and_unknown_fields_last(dialect: str) -> None:
    steps = cases(plan_of(dialect))
    order = [step.stage for step in steps]
    assert order == sorted(order, key=("probe", "canary", "batch").index)
    assert all(not step.refusal for step in steps if step.stage == "probe")
    canaries = [step for step in cases(plan_of(dialect), "parameters_canary") if step.stage == "canary"]
    assert [step.case for step in canaries] in (["temperature_range"], ["n_range"], ["max_output_tokens_minimum"])
    batch = [step for step in steps if step.probe.endswith("/parameters")]
    lanes = {step.lane: [other.case for other in batch if other.lane == step.lane] for step in batch}
    assert len(lanes.keys() - {step.lane for step in steps if step.again}) == 4, (
        "those asked again are a kind of their own"
    )
    taken = TAKEN & {step.case for step in batch}
    assert len(taken) >= 2
    assert all(case in (cases_[-1] for cases_ in lanes.values()) for case in taken), "what software takes comes last"


@pytest.mark.parametrize("dialect", MODELS)
@pytest.mark.parametrize("profile", ["standard", "thorough"])
def test_every_body_is_fresh_bounded_and_asks_for_little(dialect: str, profile: str) -> None:
    steps = cases(plan_of(dialect, profile))
    texts = [json.dumps(step.body, sort_keys=True) for step in steps if "messages" in step.body or "input" in step.body]
    prompts = {json.dumps(step.body.get("messages", step.body.get("input"))) for step in steps}
    assert len(prompts) >= len(texts) - 2, "a fixed prompt may be answered from a cache"
    for step in steps:
        limit = step.body.get(LIMITS[dialect])
        assert step.unbounded or not isinstance(limit, int) or limit <= 1040
        assert "$" not in json.dumps(step.body)
        assert step.tier in ("users", "integration", "none")
    assert {step.case for step in steps if step.unbounded} <= {"max_tokens_above_limit", "max_tokens_missing"}
    again = {json.dumps(step.body, sort_keys=True) for step in cases(plan_of(dialect, profile, seed=2))}
    assert len(again & set(texts)) <= 1


def test_the_missing_limit_is_for_the_thorough_profile_only() -> None:
    assert "max_tokens_missing" not in {step.case for step in cases(plan_of())}
    assert "max_tokens_missing" in {step.case for step in cases(plan_of(profile="thorough"))}


def test_the_vendor_is_asked_the_very_same_and_twice_where_it_refuses() -> None:
    plan = plan_of(model="claude-sonnet-5-5")
    for step in cases(plan):
        asked = [mirror for mirror in plan.steps if mirror.mirrors == step.id]
        twice = [("before", "free"), ("after", "free")] if step.refusal else [("with", "may_charge")]
        assert [(m.when, m.cost) for m in asked] == ([] if step.again else twice)
        for mirror in asked:
            assert (mirror.body, mirror.headers, mirror.key) == (step.body, step.headers, step.key)


def test_a_region_is_asked_for_only_where_the_model_has_one() -> None:
    for model, sent in (("claude-sonnet-5-5", True), ("claude-opus-4-7", True), ("claude-sonnet-4-5", False)):
        assert ("inference_geo_us" in {step.case for step in cases(plan_of(model=model))}) is sent


def test_a_made_up_key_and_a_missing_header_are_what_they_say() -> None:
    by_case = {step.case: step for step in cases(plan_of())}
    assert by_case["made_up_key"].key == "made_up"
    assert by_case["version_header_missing"].headers == {"anthropic-version": ""}
    assert {step.key for case, step in by_case.items() if case != "made_up_key"} == {"own"}
    assert "messages" not in by_case["messages_missing"].body


def test_the_stop_word_stands_in_the_list_and_the_list_is_longer_than_the_limit() -> None:
    by_case = {step.case: step for step in cases(plan_of())}
    word = by_case["stop_word"].body["stop_sequences"][0]
    lines = by_case["stop_word"].body["messages"][0]["content"].split("\n")
    assert lines.index(word) == 5
    assert len(lines) == 10
    assert (
        len(by_case["output_bound"].body["messages"][0]["content"].split("\n")) - 1
        > by_case["output_bound"].body["max_tokens"]
    )


@pytest.mark.parametrize(("model", "sent"), [("gpt-4.1", True), ("gpt-4o-mini", True), ("gpt-5.5", False)])
def test_a_stop_word_goes_to_chat_models_that_take_one(model: str, sent: bool) -> None:
    by_case = {step.case: step for step in cases(plan_of("openai_chat", model=model))}
    assert ("stop_word" in by_case) is sent
    assert ("max_tokens_above_limit" in by_case) is sent, "their limits are known, and they refuse above them"
    if sent:
        body = by_case["stop_word"].body
        assert body["stop"][0] in body["messages"][0]["content"].split("\n")[5]
        assert (
            EFFECTS["stop_word"](by_case["stop_word"], answer_of(body), PACKS.pack("openai_chat"), {}) == "not_honoured"
        )


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "gpt-4.1", "gpt-4o-mini", "gpt-5.6-terra"])
def test_without_a_vendors_key_every_legal_value_has_a_record_to_be_held_against(model: str) -> None:
    """What is sent and paid for is judged: else a stop word that was thrown away passed for want of a row."""
    for dialect in [name for name in MODELS if (name == "anthropic") == model.startswith("claude")]:
        sent = [step for step in cases(plan_of(dialect, model=model), "values_in_force") if not step.refusal]
        rows = {
            step.case: KNOWLEDGE.refusal_of(dialect, step.case, model, dt.date(2026, 11, 30), refused=False)
            for step in sent
            if step.case != "copied_whole"  # held against the vendor's own copy
        }
        assert len(rows) >= 3
        assert [case for case, row in rows.items() if row is None or row.status != 200] == []


def answer_of(body: dict[str, Any]) -> Exchange:
    """An answer by whoever copies the whole list."""
    written = body["messages"][0]["content"].partition("\n")[2]
    text = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": written}}]})
    moment = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    return Exchange(id="X0001", step="s", side="relay", sent_at=moment, elapsed_ms=1, delivery="answered",
                    request=Request(method="POST", path="/"), response=Response(status=200, body=text))  # fmt: skip


@pytest.mark.parametrize("profile", ["standard", "thorough"])
def test_all_of_it_costs_less_than_five_cents(profile: str) -> None:
    price = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=NOW.date())
    quote = make_quote(plan_of(profile=profile), Prices(relay=price, official=price, fill=8192), {}, NOW)
    assert quote.expected <= Decimal("0.05")
    assert quote.at_most <= Decimal("0.40" if profile == "standard" else "0.50")


def test_two_answers_are_priced_as_two() -> None:
    price = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=NOW.date())
    quote = make_quote(plan_of("openai_chat"), Prices(relay=price, official=price, fill=8192), {}, NOW)
    by_case = {step.case: quote.price_of(step.id) for step in cases(plan_of("openai_chat"))}
    two, one = by_case["n_two"], by_case["store_false"]
    assert two is not None
    assert one is not None
    assert two.at_most - one.at_most > Decimal("0.00015")


def test_what_the_model_takes_is_paid_for_and_asked_once() -> None:
    """A trait says whether the claimed model refuses a case: where it takes it, there is no refusal to be asked for again."""
    for refuses, sent in ((True, 11), (False, 1)):
        asked = cases(plan_of("openai_responses", refuses={"effort_minimal": refuses}, checks=(3,)), "model_name")
        assert [step.refusal for step in asked] == [refuses] * sent
