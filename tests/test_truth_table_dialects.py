"""The truth table in OpenAI's two formats: with the vendor's counter (Responses) and without any (Chat)."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_audit.lab import Dialect, gpt_scenarios, scenarios_in, serve
from tests.audits import in_process, over_http, sample

ROADS: tuple[tuple[Dialect, bool], ...] = (("openai_responses", True), ("openai_chat", False))
"""Format, and whether an official key is at hand; the other two of the four run with the seeds."""
ROWS = [(dialect, official, name) for dialect, official in ROADS for name in scenarios_in(dialect)]
MONEY = (*gpt_scenarios.MONEY, "honest_own_cache", "log_admits_conversion", "honest_converted_within")
"""How money is taken is the relay's doing, whatever the dialect: in the light suite the first dialect says it."""
LIGHT = sample(scenarios_in("openai_responses"))
HONEST = [(d, o, n) for d, o, n in ROWS if scenarios_in(d)[n].kind == "honest"]
CHECKS = [1, 2, 6]
"""What this table is about; the runs with many seeds go through all checks."""


def only(dialect: Dialect, name: str) -> dict[str, object]:
    """What of the target file lets an audit meet the scenario."""
    profile = scenarios_in(dialect)[name].profile
    return {"profile": profile} if profile else {}


def heavy(name: str, official: bool) -> tuple[pytest.MarkDecorator, ...]:
    return () if official and name not in MONEY and name in LIGHT else (pytest.mark.deep,)


@pytest.mark.parametrize(
    ("dialect", "official", "name"), [pytest.param(d, o, name, marks=heavy(name, o)) for d, o, name in ROWS]
)
def test_each_scenario_gives_exactly_its_findings(dialect: Dialect, official: bool, name: str, tmp_path: Path) -> None:
    row = scenarios_in(dialect)[name]
    wanted = row.expect if official else row.expect_no_key
    audited = in_process(name, 0, tmp_path, official=official, dialect=dialect, **only(dialect, name))
    assert audited.error is None
    assert wanted is None or wanted <= audited.codes <= wanted | row.may
    assert audited.all_codes & {"channel.matches", "channel.unknown", "channel.mismatch", "channel.id_reminted"}


@pytest.mark.parametrize(
    "name", ["hidden_508", *(pytest.param(n, marks=pytest.mark.deep) for n in ("honest", "azure_backend"))]
)
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_over_real_http(dialect: Dialect, name: str, tmp_path: Path) -> None:
    with serve(name, seed=1, pace=0, dialect=dialect) as served:
        audited = over_http(served, tmp_path, checks=CHECKS)
    assert audited.error is None
    assert audited.codes == scenarios_in(dialect)[name].expect


def test_with_a_counter_the_surplus_is_exact(tmp_path: Path) -> None:
    hit = in_process("hidden_508", 3, tmp_path, dialect="openai_responses", checks=CHECKS).finding(
        "tokens.constant_surplus"
    )
    assert (hit.params["surplus"], hit.params["low"], hit.params["high"]) == (508, 508, 508)
    assert hit.params["per_1000_calls"] == "1.016", "508 tokens at two dollars per million"
    assert hit.basis == "declared_official"


def test_a_low_temperature_that_is_lost_is_found_where_nothing_else_shows(tmp_path: Path) -> None:
    audited = in_process("sampler_dropped", 2, tmp_path, dialect="openai_chat", profile="thorough", checks=[4])
    assert audited.codes == {"params.not_honoured"}
    hit = audited.finding("params.not_honoured")
    assert hit.accusation
    assert (hit.params["cases"], hit.params["sampled"], hit.params["vendors"]) == (["temperature_low"], 14, 0)


def test_without_one_it_is_a_lower_bound(tmp_path: Path) -> None:
    for seed in range(3):
        audited = in_process("hidden_508", seed, tmp_path, dialect="openai_chat", checks=CHECKS, official=False)
        hit = audited.finding("tokens.constant_surplus")
        assert 490 <= hit.params["low"] <= 508 <= hit.params["billed"]
        assert hit.basis == "known_list"
        assert {"intercept=ascii", "slope=cjk"} <= set(hit.observed)


def test_a_vendor_without_a_counter_answers_the_same_lines_itself(tmp_path: Path) -> None:
    audited = in_process("usage_x13", 2, tmp_path, dialect="openai_chat", checks=CHECKS)
    hit = audited.finding("tokens.proportional_surplus")
    assert (hit.basis, hit.params["slope"]) == ("declared_official", "1.30")
    assert audited.judgement is not None
    row = next(row for row in audited.judgement.coverage if row.check == 2)
    assert (row.state, row.reason) == ("run", "")


def test_chat_says_why_nothing_was_counted(tmp_path: Path) -> None:
    audited = in_process("honest", 2, tmp_path, dialect="openai_chat", checks=CHECKS, official=False)
    assert audited.judgement is not None
    row = next(row for row in audited.judgement.coverage if row.check == 2)
    assert (row.state, row.reason) == ("run", "no_counting_endpoint")
    quiet = audited.finding("tokens.match")
    assert (quiet.confidence, quiet.params["road"]) == ("supporting", "intercept")


def test_storing_switched_off_is_a_hint_and_no_more(tmp_path: Path) -> None:
    hint = in_process("store_switched_off", 0, tmp_path, dialect="openai_responses", checks=CHECKS).finding(
        "channel.subscription_pool_hint"
    )
    assert hint.params["signs"] == ["store_switched_off"]
    assert (hint.severity, hint.outcome) == ("info", "inconclusive")
    assert hint.params["n"] == 12, "half of the requests asked for storing"
    assert (
        "channel.subscription_pool_hint"
        not in in_process("honest", 0, tmp_path / "h", dialect="openai_responses", checks=CHECKS).all_codes
    )


def test_two_user_agents_go_out_and_are_recorded(tmp_path: Path) -> None:
    audited = in_process("hidden_by_user_agent", 0, tmp_path, checks=CHECKS)
    hit = audited.finding("tokens.variable_surplus")
    assert hit.params["depends_on"] == "user_agent"
    assert {key.partition("=")[2].partition("/")[0]: value for key, value in hit.observed.items()} == {
        "curl": 0,
        "python-httpx": 508,
    }


@pytest.mark.seeds
@pytest.mark.parametrize("official", [True, False])
@pytest.mark.parametrize(("dialect", "name"), sorted({(d, n) for d, _, n in ROWS} - {(d, n) for d, _, n in HONEST}))
def test_each_fault_with_more_seeds(dialect: Dialect, name: str, official: bool, tmp_path: Path) -> None:
    row = scenarios_in(dialect)[name]
    for seed in range(10, 12):
        audited = in_process(
            name, seed, tmp_path / str(seed), official=official, dialect=dialect, **only(dialect, name)
        )
        wanted = row.expect if official else row.expect_no_key
        assert wanted is None or wanted <= audited.codes <= wanted | row.may, f"seed {seed}"


@pytest.mark.deep
def test_what_was_read_from_the_vendors_own_cache_is_named_in_the_match(tmp_path: Path) -> None:
    audited = in_process("honest_own_cache", 1, tmp_path, official=False, dialect="openai_chat", profile="thorough")
    assert "cache_discount" in audited.finding("billing.matches").params["facts"]
    assert audited.judgement is not None
    evidence = audited.judgement.evidence
    pair = [e for e in evidence.generations() if e.step.startswith("openai_chat.cache_billing.")]
    assert [e.answer()["usage"]["prompt_tokens_details"]["cached_tokens"] >= 1024 for e in pair] == [False, True]
