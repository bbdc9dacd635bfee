"""Policy: the first row that fits decides, no result is never good, and the headline says what is missing."""

from __future__ import annotations

import pytest

from relay_audit.codes import CODES, finding
from relay_audit.finding import Coverage
from relay_audit.fingerprint import VerdictRule
from relay_audit.report.catalogue import Catalogue
from relay_audit.verdict import AGREEING, NO_RULE, all_checks, decide, deciding, number, weakest
from relay_audit.words import Bilingual
from tests.report import samples


def states(verdict) -> dict[str, str]:
    return {card.id: card.state for card in verdict.cards}


def row(id_: str, verdict: str, **fields) -> VerdictRule:
    return VerdictRule(id=id_, verdict=verdict, why=Bilingual(en="w", zh="因"), **fields)


def made(code: str, **fields):
    return finding(code, {name: samples.SAMPLE_VALUES[name] for name in CODES[code].params}, **fields)


def test_numbers_follow_severity_then_difference_then_check() -> None:
    found = number(
        (
            made("tokens.match"),
            made("billing.overcharged"),
            made("model.relay_header_admits"),
            made("channel.unknown"),
            made("channel.mismatch"),
            made("channel.id_reminted"),
        )
    )
    assert [(f.id, f.code) for f in found] == [
        ("F001", "model.relay_header_admits"),
        ("F002", "channel.mismatch"),
        ("F003", "billing.overcharged"),
        ("F004", "channel.id_reminted"),
        ("F005", "channel.unknown"),
        ("F006", "tokens.match"),
    ]
    assert number(found) == found


def test_an_honest_run_is_usable_incomplete_and_says_what_is_missing() -> None:
    run = samples.evidence(0)
    verdict = samples.judged(run, samples.honest_findings(run), samples.without_log())
    assert (verdict.verdict, verdict.rule, verdict.headline_code) == ("usable", "nothing_against", "agrees")
    assert verdict.incomplete
    assert verdict.headline_params["missing"] == [3, 4, 6]
    assert states(verdict) == {"backend": "ok", "model": "unknown", "interface": "unknown", "cost": "unknown"}
    assert {card.id: card.code for card in verdict.cards}["cost"] == "agrees_in_part"
    assert "untested" in verdict.cannot_say
    assert verdict.next_code == "ask_for_log"


def test_with_a_readable_log_the_cost_card_is_good() -> None:
    run = samples.evidence(0)
    assert states(samples.judged(run, samples.honest_findings(run)))["cost"] == "ok"


def test_the_surplus_decides_and_is_named() -> None:
    run = samples.evidence()
    verdict = samples.judged(run, samples.surplus_findings(run))
    assert (verdict.verdict, verdict.rule, verdict.headline_code) == ("backup", "injected_prompt", "differs")
    assert verdict.headline_params["findings"] == ["F001"]
    assert states(verdict) == {"backend": "ok", "model": "unknown", "interface": "unknown", "cost": "bad"}
    assert verdict.next_code == "send_report"


def test_the_first_row_that_fits_decides() -> None:
    run = samples.evidence()
    both = number((*samples.surplus_findings(run), made("model.relay_header_admits")))
    assert decide(run, both, samples.COVERAGE, samples.RULES).rule == "another_model"
    assert decide(run, both, samples.COVERAGE, samples.RULES[1:]).rule == "injected_prompt"


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (row("r", "fix_first", any_code=("tokens.*",)), True),
        (row("r", "fix_first", any_code=("tokens.constant_surplus",), min_severity="high"), True),
        (row("r", "fix_first", any_code=("tokens.*",), min_severity="critical"), False),
        (row("r", "fix_first", any_code=("channel.*",)), False),
        (row("r", "fix_first", min_severity="high"), True),
        (row("r", "fix_first", any_code=("tokens.*",), incomplete=True), False),
        (row("r", "fix_first", any_code=("tokens.*",), incomplete=False), True),
        (row("r", "fix_first", incomplete=True), False),
        (row("r", "fix_first"), True),
    ],
)
def test_all_conditions_of_a_row_must_hold(rule: VerdictRule, fits: bool) -> None:
    run = samples.evidence()
    verdict = decide(run, samples.surplus_findings(run), samples.COVERAGE, (rule,))
    assert (verdict.rule == "r") is fits
    if not fits:
        assert (verdict.verdict, verdict.rule) == ("inconclusive", NO_RULE)


def test_only_differences_decide_never_open_questions_or_matches() -> None:
    rule = row("r", "do_not_use", any_code=("model.*",), min_severity="low")
    alias = made("model.relay_header_admits", outcome="match", severity="info")
    unsure = made("channel.mismatch", outcome="inconclusive", severity="high")
    assert deciding(rule, (alias, unsure)) == ()
    assert decide(samples.evidence(), (alias, unsure), samples.COVERAGE, (rule,)).verdict == "inconclusive"


@pytest.mark.parametrize("state", ["not_run", "gated", "no_information"])
@pytest.mark.parametrize("check", [1, 2, 6])
def test_a_check_without_a_result_is_never_good(check: int, state: str) -> None:
    run = samples.evidence(0)
    coverage = tuple(
        Coverage(check=c.check, state=state, reason="budget") if c.check == check else c for c in samples.COVERAGE
    )
    verdict = samples.judged(run, samples.honest_findings(run), coverage)
    assert states(verdict)["backend" if check == 1 else "cost"] == "unknown"
    assert check in verdict.headline_params["missing"]
    assert verdict.incomplete
    assert verdict.verdict == ("usable" if check == 6 else "inconclusive")


def test_checks_nobody_spoke_about_did_not_run() -> None:
    rows = all_checks(())
    assert [(r.check, r.state, r.reason) for r in rows] == [(c, "not_run", "not_recorded") for c in range(1, 7)]
    verdict = decide(samples.evidence(), (), (), samples.RULES)
    assert (verdict.verdict, verdict.headline_code) == ("inconclusive", "nothing_measured")
    assert set(states(verdict).values()) == {"unknown"}


@pytest.mark.parametrize(
    ("code", "fields", "card", "state", "headline"),
    [
        ("channel.mismatch", {"severity": "low"}, "backend", "warn", "small_difference"),
        ("channel.mismatch", {}, "backend", "bad", "differs"),
        ("channel.mixed", {}, "backend", "warn", "differs"),
        ("channel.unknown", {}, "backend", "unknown", "unclear"),
        ("tokens.inconclusive_offset", {}, "cost", "unknown", "unclear"),
        ("model.relay_log_admits_mapping", {}, "model", "bad", "differs"),
        ("model.relay_log_admits_mapping", {"outcome": "match", "severity": "info"}, "model", "unknown", "unclear"),
        ("run.key_echoed", {}, "backend", "unknown", "differs"),
    ],
)
def test_cards_by_finding(code: str, fields: dict, card: str, state: str, headline: str) -> None:
    verdict = decide(samples.evidence(), (made(code, **fields),), samples.COVERAGE, samples.RULES)
    assert states(verdict)[card] == state
    assert verdict.headline_code == headline


def test_a_broken_assessor_never_leaves_a_good_card() -> None:
    run = samples.evidence(0)
    broken = (*samples.honest_findings(run), made("run.probe_error", check=1))
    assert states(decide(run, number(broken), samples.COVERAGE, samples.RULES))["backend"] == "unknown"


def test_tested_without_a_result_is_not_the_same_as_nothing_measured() -> None:
    open_ = tuple(Coverage(check=c, state="no_information", reason="unknown_signals") for c in range(1, 7))
    run = samples.evidence()
    assert decide(run, (made("channel.unknown"),), open_, samples.RULES).headline_code == "unclear"
    assert decide(run, (), open_, samples.RULES).headline_code == "nothing_measured"


def test_many_differences_are_counted_beyond_three() -> None:
    run = samples.evidence()
    found = samples.of_every_code(run)
    params = samples.judged(run, found).headline_params
    assert params["findings"] == ["F001", "F002", "F003"]
    assert params["more"] == sum(f.accusation for f in found) - 3


def test_a_run_that_ended_early_is_incomplete() -> None:
    run = samples.evidence(stopped="ceiling")
    full = tuple(Coverage(check=c, state="run") for c in range(1, 7))
    verdict = samples.judged(run, samples.honest_findings(run), full)
    assert verdict.incomplete
    assert verdict.headline_params["stopped"] == "ceiling"


@pytest.mark.parametrize(
    ("changes", "codes", "follow"),
    [
        ({"status": "awaiting_approval"}, (), "approve"),
        ({"status": "failed"}, ("run.unreachable",), "try_again"),
        ({}, ("run.gated_client",), "ask_for_access"),
        ({}, ("channel.mismatch",), "send_report"),
        ({}, (), "test_again_later"),
        ({"stopped": "ceiling"}, (), "run_again"),
    ],
)
def test_next_step(changes: dict, codes: tuple[str, ...], follow: str) -> None:
    run = samples.evidence(0, **changes)
    found = number((*samples.honest_findings(run), *map(made, codes)))
    verdict = samples.judged(run, found)
    assert verdict.next_code == follow
    assert Catalogue.load("en").text(f"answer.next.{follow}")


def test_without_an_official_side_the_next_step_is_an_official_key() -> None:
    run = samples.evidence(0)
    bare = run.model_copy(update={"target": run.target.model_copy(update={"official_origin": ""})})
    found = number((made("tokens.match", basis="dated_baseline"), *samples.channel_agrees(bare)))
    verdict = samples.judged(bare, found)
    assert verdict.next_code == "add_official_key"
    assert "no_live_official" in verdict.cannot_say


def test_a_conclusion_is_as_strong_as_its_weakest_support() -> None:
    strong, weak = made("tokens.match"), made("channel.matches", evidence_level="observed_pattern")
    assert weakest((strong, weak)) == "observed_pattern"
    assert weakest(()) is None


def test_agreeing_codes_exist_and_are_matches() -> None:
    here = AGREEING & set(CODES)
    assert here >= {"channel.matches", "tokens.match", "billing.matches"}
    assert {CODES[code].outcome for code in here} == {"match"}
