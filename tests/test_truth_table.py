"""The truth table: an honest relay is accused of nothing, and each fault gives exactly its own findings.

In process (at the transport's seam, on a clock of its own); over real loopback HTTP too. Many seeds: test_seeds.py.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from relay_audit.lab import SCENARIOS, serve
from relay_audit.report.catalogue import Catalogue
from tests.audits import in_process, over_http, sample

JUDGED = [name for name, row in SCENARIOS.items() if row.kind != "hostile"]
LIGHT = sample({name: SCENARIOS[name] for name in JUDGED})
SEEDS_HERE, SEEDS_HTTP = 1, 2
ENGINE = [1, 2, 6]
ON_THE_WIRE = ("honest", "honest_flaky_25", "honest_log_late", "hidden_508", "bedrock_ids", "swapped_tokenizer")
"""What goes over real HTTP in the light and the deep suite; everything does with the seeds."""


def seen_by(name: str, **only: object) -> dict[str, object]:
    """What of the target file lets an audit meet the scenario."""
    return {"profile": SCENARIOS[name].profile, **only} if SCENARIOS[name].profile else only


def expected(name: str, *, official: bool) -> frozenset[str] | None:
    row = SCENARIOS[name]
    return row.expect if official else row.expect_no_key


@pytest.mark.parametrize(
    "official", [pytest.param(True, id="with_key"), pytest.param(False, id="no_key", marks=pytest.mark.deep)]
)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.deep] * (n not in LIGHT)) for n in JUDGED])
def test_each_scenario_gives_exactly_its_findings(name: str, official: bool, tmp_path: Path) -> None:
    wanted = expected(name, official=official)
    for seed in range(SEEDS_HERE):
        audited = in_process(name, seed, tmp_path, official=official, **seen_by(name))
        assert audited.error is None
        if wanted is not None:
            assert wanted <= audited.codes <= wanted | SCENARIOS[name].may, f"seed {seed}"
        accusations = {f.code for f in audited.judgement.findings if f.accusation} if audited.judgement else set()
        allowed = SCENARIOS[name].expect | SCENARIOS[name].may | (wanted or frozenset())
        assert accusations <= allowed, f"seed {seed} accuses of {accusations}"


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.deep] * (n not in ("honest", "hidden_508"))) for n in ON_THE_WIRE]
)
def test_each_scenario_over_http(name: str, tmp_path: Path) -> None:
    with serve(name, seed=1, pace=0) as served:
        audited = over_http(served, tmp_path)
    assert audited.error is None
    assert audited.codes == SCENARIOS[name].expect


def test_the_surplus_is_exact_and_constant(tmp_path: Path) -> None:
    for official in (True, False):
        hit = in_process("hidden_508", 7, tmp_path, official=official).finding("tokens.constant_surplus")
        assert (hit.params["surplus"], hit.params["low"], hit.params["high"]) == (508, 508, 508)
        assert hit.confidence == "strong"
        assert hit.severity == "high"


def test_an_honest_audit_stays_below_its_at_most(tmp_path: Path) -> None:
    audited = in_process("honest", 3, tmp_path)
    assert audited.judgement is not None
    evidence = audited.judgement.evidence
    assert evidence.quote is not None
    tokens = [step for step in evidence.plan.chargeable() if "/token_" in step.probe] if evidence.plan else []
    assert len(tokens) == 24
    settled = evidence.ledger.total("settled", "relay")
    assert 0 < settled <= evidence.quote.expected < evidence.quote.at_most
    assert float(settled) <= 0.015


@pytest.mark.seeds
@pytest.mark.parametrize("name", JUDGED)
def test_over_http_with_more_seeds(name: str, tmp_path: Path) -> None:
    for seed in range(10, 10 + SEEDS_HTTP):
        with serve(name, seed=seed, pace=0) as served:
            audited = over_http(served, tmp_path / str(seed), **seen_by(name))
        row = SCENARIOS[name]
        assert row.expect <= audited.codes <= row.expect | row.may, f"seed {seed}"


@pytest.mark.seeds
@pytest.mark.parametrize(
    ("name", "checks", "code"),
    [
        ("multiplied_one_in_4", [1, 2], "tokens.proportional_surplus"),
        ("older_tokenizer_one_in_4", [1, 2], "tokens.tokenizer_differs"),
        ("swapped_one_in_4", [1, 3], "model.substituted"),
        ("temperature_dropped_one_in_4", [4], "params.illegal_accepted"),
    ],
)
def test_what_strikes_one_answer_in_four_is_caught(name: str, checks: list[int], code: str, tmp_path: Path) -> None:
    """In at least 95 % of seeds, under its own code."""
    seen = [in_process(name, seed, tmp_path / str(seed), **seen_by(name, checks=checks)).codes for seed in range(40)]
    assert sum(code in codes for codes in seen) >= 38


@pytest.mark.seeds
def test_an_intermittent_prompt_is_caught(tmp_path: Path) -> None:
    """A quarter of the calls carries the hidden prompt: caught in at least 95 % of seeds, and never misnamed."""
    seen = [in_process("hidden_sometimes", seed, tmp_path / str(seed), checks=ENGINE).codes for seed in range(100)]
    assert all(codes <= {"tokens.intermittent_surplus"} for codes in seen)
    assert sum(bool(codes) for codes in seen) >= 95


SELDOM = ("hidden_one_in_20", "swapped_one_in_20", "older_tokenizer_one_in_10")


@pytest.mark.deep
@pytest.mark.parametrize("official", [pytest.param(True, id="with_key"), pytest.param(False, id="no_key")])
@pytest.mark.parametrize("name", SELDOM)
def test_what_strikes_seldom_is_found_or_bounded(name: str, official: bool, tmp_path: Path) -> None:
    """No match is said without the share that would not have been seen, and its sentence stands in the report's text."""
    for seed in range(3):
        audited = in_process(name, seed, tmp_path / str(seed), official=official)
        assert audited.judgement is not None
        for found in audited.judgement.findings:
            if found.code in ("tokens.match", "tokens.template_noise", "channel.matches", "model.matches"):
                share = Decimal(str(found.params["share_bound"]))
                assert share >= 5, f"{found.code} of {found.params['n']} samples cannot exclude one in twenty"
                assert "share_bound" in Catalogue.load("en").placeholders(f"finding.{found.code}.means")
