"""Recitation is asked for by name, has its own line in the quote, supports a surplus and never moves a verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relay_audit.errors import UsageError
from relay_audit.lab import SCENARIOS, Dialect
from relay_audit.lab.reciting import Recites
from relay_audit.target import target_from
from tests.audits import in_process

ASKED = {"profile": "quick", "checks": [2], "also": ["recitation"]}


@pytest.mark.parametrize("dialect", ["anthropic", pytest.param("openai_chat", marks=pytest.mark.deep),
                                     pytest.param("openai_responses", marks=pytest.mark.deep)])  # fmt: skip
def test_a_hidden_prompt_is_recited(dialect: Dialect, tmp_path: Path) -> None:
    audited = in_process("hidden_508", 3, tmp_path, dialect=dialect, **ASKED)
    assert "tokens.constant_surplus" in audited.codes
    recited = audited.finding("tokens.hidden_text_recited")
    assert recited.params["untrusted_excerpt"].startswith("1. Answer in the language of the question.")
    assert not recited.above_info
    assert audited.judgement is not None
    lines = [line for line in audited.judgement.evidence.quote.lines if line.probe.endswith("/recitation")]  # type: ignore[union-attr]
    assert {line.side for line in lines} == {"relay", "official"}
    assert all(line.at_most > 0 for line in lines)


@pytest.mark.parametrize("way", ["nothing", "invented", "disowned"])
def test_a_model_that_says_nothing_usable(way: Recites, tmp_path: Path) -> None:
    row = SCENARIOS["hidden_508"]
    audited = in_process(replace(row, knobs=replace(row.knobs, recites=way)), 3, tmp_path, **ASKED)
    assert "tokens.nothing_recited" in audited.all_codes
    assert "tokens.hidden_text_recited" not in audited.all_codes


def test_an_honest_relay_whose_model_makes_things_up(tmp_path: Path) -> None:
    row = SCENARIOS["honest"]
    audited = in_process(replace(row, knobs=replace(row.knobs, recites="invented")), 3, tmp_path, **ASKED)
    assert audited.codes == set()


def test_nobody_is_asked_unasked(tmp_path: Path) -> None:
    audited = in_process("hidden_508", 3, tmp_path, profile="quick", checks=[2])
    assert audited.judgement is not None
    assert audited.judgement.evidence.plan is not None
    assert not [s for s in audited.judgement.evidence.plan.steps if s.probe.endswith("/recitation")]


def test_another_word_is_refused() -> None:
    with pytest.raises(UsageError, match="also"):
        target_from(
            {"target": {"model": "m"}, "relay": {"base_url": "http://127.0.0.1:1"}, "audit": {"also": ["poem"]}}
        )
