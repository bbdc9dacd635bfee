"""Before anything costs: how the key is sent, what software answers, what the vendor counts, what a plan will cost."""

from __future__ import annotations

import dataclasses
from decimal import Decimal

import httpx
import pytest

from relay_audit.errors import ApprovalRefused, KeyRefused, Unfinished
from relay_audit.fingerprint import Knowledge
from tests.audits import LIBRARY, in_process
from tests.staged import Staged, json_answer, staged

QUICK = {"profile": "quick", "checks": [2, 6]}
MODELS, STATUS, PRICING, COUNT = "/v1/models", "/api/status", "/api/pricing", "/v1/messages/count_tokens"


def planned(tmp_path, scenario: str = "honest", replace=None, *, ways=None, **more) -> Staged:
    stage = staged(scenario, tmp_path, audit=QUICK, replace=replace, **more)
    stage.plan(**(ways or {}))
    return stage


def at(path: str, *answers):
    """The answers to a path in order; the last one stays."""

    def replace(seen, before):
        return answers[min(before, len(answers) - 1)] if seen.path == path else None

    return replace


def test_planning_costs_nothing_and_ends_in_a_quote(tmp_path):
    stage = planned(tmp_path)
    assert stage.paths(method="POST") == []
    assert stage.paths() == [MODELS, STATUS, PRICING]
    assert set(stage.paths("official")) == {COUNT}
    history = stage.history
    assert (history.status, history.site.software, history.facts.no_counter_reason) == (
        "awaiting_approval",
        "new-api",
        "",
    )
    assert history.quote.counted
    assert len(stage.paths("official")) == 4
    counts = {step.counts: step.body for step in history.plan.steps if step.when == "before" and step.counts}
    assert [s.body for s in stage.seen if s.side == "official"] == list(counts.values())


def test_public_pages_are_asked_for_without_the_key(tmp_path):
    stage = planned(tmp_path)
    for seen in stage.seen:
        if seen.path in (STATUS, PRICING):
            assert not {"authorization", "x-api-key"} & set(seen.headers)


# The header of the key


@pytest.mark.parametrize(
    ("scenario", "style", "asked"), [("honest", "x-api-key", 1), ("honest_bearer_only", "bearer", 2)]
)
def test_the_header_style_is_learnt_where_nothing_is_billed(tmp_path, scenario, style, asked):
    stage = planned(tmp_path, scenario)
    assert (stage.history.facts.auth_style, stage.paths().count(MODELS)) == (style, asked)
    assert stage.connections.sides.relay.auth == style


def test_a_style_from_the_target_file_is_the_only_one_tried(tmp_path):
    with pytest.raises(KeyRefused):
        planned(tmp_path, "honest_bearer_only", relay={"auth": "x-api-key"})


def test_a_key_that_every_style_refuses_ends_it(tmp_path):
    stage = staged("honest", tmp_path, audit=QUICK, replace=at(MODELS, json_answer({"error": 1}, 401)))
    with pytest.raises(KeyRefused, match="nothing was spent") as refused:
        stage.plan()
    assert stage.paths() == [MODELS, MODELS]
    assert refused.value.details["needs"][0]["field"] == "relay.key_env"
    assert set(refused.value.details["needs"][0]["ask"]) == {"zh-CN", "en"}
    assert (stage.history.status, stage.history.stopped) == ("failed", "key_refused")


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_model_list_that_is_closed_is_no_refused_key(tmp_path, status):
    stage = planned(tmp_path, replace=at(MODELS, json_answer({"error": 1}, status)))
    assert stage.history.status == "awaiting_approval"
    assert stage.history.site.model_listed is None


@pytest.mark.parametrize(
    ("data", "listed"),
    [
        ([{"id": "claude-sonnet-5-5"}], True),
        ([{"id": "other"}, "junk"], False),
        ([], None),
        ("text", None),
        (None, None),
    ],
)
def test_whether_the_model_is_listed(tmp_path, data, listed):
    stage = planned(tmp_path, replace=at(MODELS, json_answer({"data": data})))
    assert stage.history.site.model_listed is listed


# A relay that does not answer


def test_a_relay_that_does_not_answer_ends_the_run_while_planning(tmp_path):
    stage = staged(
        "honest",
        tmp_path,
        audit=QUICK,
        replace=lambda seen, _: httpx.ConnectError("no") if seen.side == "relay" else None,
    )
    with pytest.raises(Unfinished, match="nothing was spent") as refused:
        stage.plan()
    assert set(stage.paths()) == {MODELS}
    assert stage.paths("official") == []
    assert refused.value.details["finding"] == "run.unreachable"
    assert (stage.history.status, stage.history.stopped, stage.history.quote) == ("failed", "unreachable", None)


def test_a_passing_fault_of_a_free_page_is_asked_again_three_times_at_most(tmp_path):
    stage = planned(tmp_path, replace=at(MODELS, json_answer({}, 503), json_answer({}, 502), json_answer({"data": []})))
    assert stage.paths().count(MODELS) == 3
    steps = [e.step for e in stage.history.exchanges.values()]
    assert steps.count("discovery.models.x-api-key") == 3
    stage = planned(tmp_path / "again", replace=at(STATUS, json_answer({}, 503)))
    assert stage.paths().count(STATUS) == 3


@pytest.mark.parametrize(
    "fault", [json_answer({}, 404), json_answer({}, 400), json_answer({}, 501), httpx.ReadTimeout("slow")]
)
def test_other_faults_are_not_asked_again(tmp_path, fault):
    assert planned(tmp_path, replace=at(PRICING, fault)).paths().count(PRICING) == 1


# The official side


@pytest.mark.parametrize(
    ("answer", "reason", "asked"),
    [
        (json_answer({}, 401), "official_key_refused", 1),
        (json_answer({}, 403), "official_lacks_model", 1),
        (json_answer({}, 404), "official_lacks_model", 1),
        (json_answer({}, 400), "official_unreachable", 1),
        (json_answer({}, 529), "official_unreachable", 3),
        (json_answer({"input_tokens": -1}), "official_unreachable", 1),
        (json_answer("<html>"), "official_unreachable", 1),
        (httpx.ConnectError("no"), "official_unreachable", 3),
    ],
)
def test_an_official_side_that_does_not_count_lowers_the_basis_and_nothing_else(tmp_path, answer, reason, asked):
    stage = planned(tmp_path, replace=at(COUNT, answer))
    history = stage.history
    assert (history.facts.no_counter_reason, history.plan.counter, history.status) == (
        reason,
        False,
        "awaiting_approval",
    )
    assert ("official_side", {"reason": reason}) in stage.notes
    assert len(stage.paths("official")) == asked
    assert not history.quote.counted
    assert history.quote.at_most > 0
    assert {step.request for step in history.plan.chargeable()} >= {"published"}


@pytest.mark.parametrize(("every", "counts"), [(8, True), (2, False)])
def test_a_few_counts_that_fail_for_the_moment_cost_their_texts_and_not_the_counter(tmp_path, every, counts):
    """A vendor's limit per minute, and an incident."""
    texts: list[object] = []

    def replace(seen, before):
        if seen.path != COUNT:
            return None
        texts.extend([seen.body] if seen.body not in texts else [])
        return json_answer({}, 503) if texts.index(seen.body) % every == every - 1 else None

    history = planned(tmp_path, replace=replace).history
    assert (history.facts.no_counter_reason, history.plan.counter) == ("" if counts else "official_unreachable", counts)
    assert history.status == "awaiting_approval"


@pytest.mark.parametrize(("told", "waited"), [("3", 3.0), ("1200", 0.5), ("soon", 0.5), (None, 0.5)])
def test_a_vendor_that_asks_for_seconds_gets_them(tmp_path, told, waited):
    headers = {} if told is None else {"retry-after": told}
    refusal = httpx.Response(429, json={}, headers=headers)
    stage = staged("honest", tmp_path, audit=QUICK, replace=at(COUNT, refusal, refusal, refusal))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    stage.connections.sides.clock.sleep = sleep
    stage.plan()
    assert slept[0] == waited


def test_without_an_official_key_that_is_the_reason(tmp_path):
    history = planned(tmp_path, official=False).history
    assert (history.facts.no_counter_reason, history.plan.counter) == ("no_official_key", False)
    assert all(step.side == "relay" for step in history.plan.steps)


# Prices


def test_the_relays_own_list_is_the_price(tmp_path):
    quote = planned(tmp_path, "honest_group_ratio").history.quote
    price = next(line.unit_price for line in quote.lines if line.side == "relay")
    assert (price.input, price.output, price.assumed) == (Decimal("0.6"), Decimal(3), False)
    assert not quote.needs_explicit_ceiling


def test_a_relay_without_a_list_is_quoted_at_the_official_price_and_needs_a_ceiling(tmp_path):
    quote = planned(tmp_path, "honest_no_pricing").history.quote
    price = next(line.unit_price for line in quote.lines if line.side == "relay")
    assert (price.assumed, quote.needs_explicit_ceiling) == (True, True)
    assert price.input == 2


def test_a_model_without_any_price_fails_closed(tmp_path):
    stage = staged("honest", tmp_path, audit=QUICK, target={"model": "no-such-model"})
    with pytest.raises(ApprovalRefused, match="no price is known"):
        stage.plan()
    assert stage.paths(method="POST") == []
    assert stage.history.quote is None


def test_a_hold_is_known_where_the_software_is(tmp_path):
    assert planned(tmp_path).history.quote.hold > 0
    assert planned(tmp_path / "plain", "honest_no_software").history.quote.hold == 0


@pytest.mark.parametrize(
    "junk",
    [
        "<html>",
        {"data": [{"model_name": "claude-sonnet-5-5", "enable_groups": None}]},
        {"data": 5, "group_ratio": []},
        [],
    ],
)
def test_a_price_list_that_is_none_breaks_nothing(tmp_path, junk):
    stage = planned(tmp_path, replace=at(PRICING, json_answer(junk)))
    assert stage.history.quote.needs_explicit_ceiling


# Sending nothing


def test_offline_asks_nobody(tmp_path):
    stage = planned(tmp_path, ways={"offline": True})
    assert stage.seen == []
    assert stage.history.quote.at_most > 0
    assert not stage.history.quote.counted


def test_free_only_plans_no_step_that_may_charge(tmp_path):
    stage = planned(tmp_path, ways={"free_only": True})
    assert stage.history.plan.chargeable() == ()
    assert stage.history.quote.at_most == 0
    assert stage.paths("official") == []


def test_two_runs_never_send_the_same_texts(tmp_path):
    one, two = (planned(tmp_path / name).history.plan for name in ("one", "two"))
    assert one.seed != two.seed
    assert not {str(s.body) for s in one.chargeable()} & {str(s.body) for s in two.chargeable()}
    assert one.digest == two.digest


def test_nothing_is_known_of_a_model_nobody_lists():
    assert Knowledge().model("x") is None


def test_where_the_vendors_price_is_unknown_nothing_that_it_charges_for_is_sent_there(tmp_path):
    unpriced = dataclasses.replace(LIBRARY, knowledge=LIBRARY.knowledge.model_copy(update={"prices": ()}))
    done = in_process("honest", 5, tmp_path, dialect="openai_chat", library=unpriced)
    assert done.error is None
    assert done.codes == set()
    evidence = done.judgement.evidence
    asked = [exchange for exchange in evidence.exchanges if exchange.side == "official"]
    assert asked
    assert all(exchange.status != 200 for exchange in asked)
    assert evidence.ledger.total("settled", "official") == 0
    assert evidence.ledger.total("settled", "relay") > 0
    assert evidence.target.no_counter_reason == "no_official_price"
