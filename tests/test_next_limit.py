"""What is asked once an output limit above the claimed model's was answered: one above the next larger published limit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from relay_audit.lab import scenarios_in
from relay_audit.lab.knobs import Knobs
from tests.audits import Audited, in_process

FIRST, NEXT = "max_tokens_above_limit", "max_tokens_above_next_limit"
OPUS = "claude-opus-4-5-20251101"
"""64,000 tokens of output; the next larger limit of the vendor's is 128,000."""


def audited(home: Path, *, model: str = OPUS, **knobs: object) -> Audited:
    row = scenarios_in("anthropic")["honest"]
    scenario = dataclasses.replace(row, name="-".join(knobs) or "plain", knobs=Knobs(**knobs), model=model)
    return in_process(scenario, 3, home, official=False, checks=[3, 4])


def sent(run: Audited) -> dict[str, tuple[int, int | None]]:
    """Case → the limit that was sent and the status of its answer, of what really went to the relay."""
    assert run.judgement is not None
    evidence = run.judgement.evidence
    assert evidence.plan is not None
    steps = [s for s in evidence.plan.steps if s.side == "relay" and s.case in (FIRST, NEXT)]
    return {s.case: (s.output_limit or 0, e.status) for s in steps if (e := evidence.of_step(s.id)) is not None}


@pytest.mark.deep
def test_a_refused_limit_is_not_followed_by_a_larger_one(tmp_path: Path) -> None:
    assert sent(audited(tmp_path)) == {FIRST: (64_001, 400)}


def test_who_lowers_limits_lowers_the_next_one_too_and_no_model_is_accused(tmp_path: Path) -> None:
    run = audited(tmp_path, limit_to=4096, signature="opaque")
    assert sent(run) == {FIRST: (64_001, 200), NEXT: (128_001, 200)}
    assert {code for code in run.codes if code.startswith("model.")} == set()
    assert run.finding("params.clamped").params["cases"] == [FIRST]
    assert run.finding("model.not_verifiable").params["reason"] == "limit_not_refused"


def test_a_model_with_the_larger_limit_refuses_it_by_name_and_nothing_was_lowered(tmp_path: Path) -> None:
    run = audited(tmp_path, serves="claude-sonnet-4-6", signature="opaque")
    assert sent(run) == {FIRST: (64_001, 200), NEXT: (128_001, 400)}
    assert run.finding("model.substituted").params["untrusted_leaked"] == "claude-sonnet-4-6"
    assert "params.clamped" not in run.all_codes
    assert run.finding("params.illegal_accepted").params["cases"] == [FIRST]


@pytest.mark.deep
def test_without_books_an_answered_limit_is_the_last_refusal(tmp_path: Path) -> None:
    assert sent(audited(tmp_path, software="plain", limit_to=4096)) == {FIRST: (64_001, 200)}


@pytest.mark.deep
def test_where_no_published_limit_is_larger_there_is_nothing_to_ask(tmp_path: Path) -> None:
    run = audited(tmp_path, model="claude-sonnet-5-5")
    assert run.judgement is not None
    assert run.judgement.evidence.plan is not None
    assert NEXT not in {step.case for step in run.judgement.evidence.plan.steps}


def test_it_is_a_line_of_its_own_in_the_quote(tmp_path: Path) -> None:
    run = audited(tmp_path)
    assert run.judgement is not None
    quote = run.judgement.evidence.quote
    assert quote is not None
    line = next(line for line in quote.lines if line.id == "anthropic/model_oversize_next@relay")
    assert (line.count, line.expected) == (1, 0)
    assert 0 < line.at_most < quote.at_most


@pytest.mark.parametrize(("dialect", "codes"), [
    ("anthropic", {"model.substituted", "params.illegal_accepted"}),
    pytest.param("openai_chat", {"model.limit_mismatch", "params.illegal_accepted"}, marks=pytest.mark.deep),
])  # fmt: skip
def test_the_vendors_refusal_of_the_first_weighs(dialect, codes, tmp_path: Path) -> None:
    run = in_process("swapped_wider_sibling", 3, tmp_path, dialect=dialect, checks=[3, 4])
    assert run.codes == codes
    assert {run.finding(code).severity for code in codes} <= {"medium", "critical"}
