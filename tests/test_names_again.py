"""Refusals that name the model are asked for several times where they are for nothing, and not where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_audit.lab import DIALECTS, Dialect
from tests.audits import Audited, in_process

AGAIN = 10


def named(audited: Audited) -> int:
    """How many requests of this run went to the relay for a name in their refusal."""
    assert audited.judgement is not None
    evidence = audited.judgement.evidence
    assert evidence.plan is not None
    cases = {"max_tokens_above_limit", *audited.judgement.knowledge.naming_cases}
    asked = [s for s in evidence.plan.steps if s.side == "relay" and s.case in cases]
    return sum(evidence.of_step(step.id) is not None for step in asked)


@pytest.mark.parametrize(
    ("scenario", "sent"),
    [
        ("honest", 1 + AGAIN),
        pytest.param("limit_ignored", 1, id="the_first_was_answered", marks=pytest.mark.deep),
        pytest.param("errors_charged", 1, id="the_first_was_charged", marks=pytest.mark.deep),
    ],
)
def test_a_claude_is_asked_for_its_name_as_often_as_it_is_free(scenario: str, sent: int, tmp_path: Path) -> None:
    audited = in_process(scenario, 5, tmp_path, official=False, checks=[3])
    assert named(audited) == sent
    if scenario == "honest":
        assert audited.finding("model.matches").params["share_bound"] == "20.6", "thirteen answers, two of them signed"


@pytest.mark.parametrize("dialect", ["anthropic", *(pytest.param(d, marks=pytest.mark.deep) for d in DIALECTS[1:])])
def test_a_quarter_of_another_model_is_met(dialect: Dialect, tmp_path: Path) -> None:
    audited = in_process("swapped_one_in_4", 5, tmp_path, official=False, dialect=dialect, checks=[3])
    assert named(audited) == 1 + AGAIN
    assert 2 <= audited.finding("model.substituted").params["n"] <= 4


@pytest.mark.deep
def test_the_vendor_is_asked_the_first_alone_and_the_room_is_that_of_one(tmp_path: Path) -> None:
    """Of all the sendings of a case one at most is answered: after it none is sent."""
    quick, standard = (in_process("honest", 5, tmp_path / p, profile=p, checks=[3]) for p in ("quick", "standard"))
    lines = []
    for run in (quick, standard):
        assert run.judgement is not None
        quote = run.judgement.evidence.quote
        assert quote is not None
        lines.append({line.side: line for line in quote.lines if line.probe == "anthropic/model_oversize"})
    assert [line["relay"].count for line in lines] == [1, 1 + AGAIN]
    assert [line["official"].count for line in lines] == [2, 2], "before and after"
    assert lines[1]["relay"].dearest < lines[0]["relay"].dearest * 2


def test_the_quick_profile_asks_once(tmp_path: Path) -> None:
    assert named(in_process("honest", 5, tmp_path, official=False, profile="quick", checks=[3])) == 1


def test_a_field_that_one_upstream_of_a_pool_loses_is_met_and_asked_for_no_more(tmp_path: Path) -> None:
    audited = in_process("temperature_dropped_one_in_4", 0, tmp_path, checks=[4])
    assert audited.judgement is not None
    evidence = audited.judgement.evidence
    assert evidence.plan is not None
    asked = [s for s in evidence.plan.steps if s.side == "relay" and s.case == "temperature_range"]
    statuses = [e.status for s in asked if (e := evidence.of_step(s.id)) is not None]
    assert 1 < len(statuses) <= 4
    assert statuses == [400] * (len(statuses) - 1) + [200]
    found = audited.finding("params.illegal_accepted")
    assert found.observed == {"case=temperature_range": f"200 · 1/{len(statuses)}"}
    assert found.params["cases"] == ["temperature_range"]
