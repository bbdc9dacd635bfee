"""The exit code, row by row: which of several reasons wins, and what was left out by choice."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest

from relay_audit.codes import CODES, finding
from relay_audit.errors import EXIT_CODES, EXIT_PRECEDENCE, RelayAuditError
from relay_audit.exits import exit_code, worst
from relay_audit.finding import Coverage
from relay_audit.ledger import Ledger
from relay_audit.verdict import decide
from tests.assess.evidence_builders import KNOWLEDGE, answered, at, run_of, step_named

RAN = tuple(Coverage(check=c, state="run") for c in (1, 2, 6))


def missing(check: int, reason: str, state: str = "not_run") -> tuple[Coverage, ...]:
    return tuple(
        Coverage(check=c, state=state, reason=reason) if c == check else Coverage(check=c, state="run")
        for c in (1, 2, 6)
    )


def made(code: str, *, severity=None, outcome=None, **params):
    return finding(code, {name: params.get(name, 1) for name in CODES[code].params}, severity=severity, outcome=outcome)


def code_of(*found, coverage=RAN, fail_on="medium", allow=False, **run) -> int:
    evidence = run_of([answered(1, "s0", {}, moment=at(0))], [step_named("s0")]).model_copy(update=run)
    verdict = decide(evidence, found, coverage, KNOWLEDGE.rules)
    return exit_code(evidence, found, coverage, verdict, fail_on, allow_inconclusive=allow)


def test_precedence_is_that_of_the_contract():
    assert EXIT_PRECEDENCE == (130, 70, 6, 2, 5, 3, 1, 4, 0)
    assert set(EXIT_PRECEDENCE) == set(EXIT_CODES)
    for first, second in itertools.combinations(EXIT_PRECEDENCE, 2):
        assert worst([second, first, second]) == first
    assert worst([]) == 0


def test_every_error_has_a_code_of_the_table_and_none_is_a_finding():
    def tree(kind):
        return {kind} | {below for child in kind.__subclasses__() for below in tree(child)}

    used = {error.exit_code for error in tree(RelayAuditError)}
    assert used <= set(EXIT_CODES)
    assert 1 not in used
    assert {2, 3, 4, 5, 6, 70} <= used


def test_a_clean_run():
    assert code_of() == 0
    assert code_of(made("channel.matches"), made("tokens.match")) == 0


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [
        ("medium", "medium", 1),
        ("high", "medium", 1),
        ("low", "medium", 0),
        ("low", "low", 1),
        ("info", "low", 0),
        ("high", "critical", 0),
        ("critical", "critical", 1),
        ("high", "high", 1),
        ("medium", "high", 0),
        ("critical", "none", 0),
    ],
)
def test_a_mismatch_at_or_above_the_line(severity, fail_on, code):
    assert code_of(made("tokens.constant_surplus", severity=severity), fail_on=fail_on) == code


@pytest.mark.parametrize("outcome", ["match", "inconclusive", "error", "not_run"])
def test_only_a_mismatch_counts(outcome):
    assert code_of(made("tokens.constant_surplus", severity="critical", outcome=outcome)) == 0


@pytest.mark.parametrize(
    ("run", "code"),
    [
        ({"stopped": "ceiling"}, 4),
        ({"stopped": "two_unconfirmed"}, 4),
        ({"status": "failed"}, 4),
        ({"status": "cancelled"}, 5),
        ({"status": "cancelled", "stopped": "ceiling"}, 5),
        ({"stopped": "key_refused"}, 2),
        ({"stopped": "key_refused", "status": "cancelled"}, 2),
    ],
)
def test_how_a_run_ended(run, code):
    assert code_of(**run) == code


def test_a_mismatch_wins_over_unfinished_and_loses_to_cancelled():
    surplus = made("tokens.constant_surplus")
    assert code_of(surplus, stopped="ceiling") == 1
    assert code_of(surplus, status="cancelled") == 5
    assert code_of(surplus, stopped="key_refused") == 2


def test_an_unconfirmed_charge_is_unfinished_until_the_log_settled_all():
    reserved = (
        Ledger(ceiling=Decimal(1))
        .reserve("X0001", "a", "relay", Decimal("0.1"))
        .reserve("X0002", "a", "relay", Decimal("0.1"))
    )
    one = reserved.leave_unconfirmed("X0001").settle("X0002", Decimal(0), "relay_log")
    assert code_of(ledger=reserved) == 4
    assert code_of(ledger=one) == 4
    assert code_of(ledger=one.settle("X0001", Decimal("0.01"), "relay_log")) == 0
    assert code_of(ledger=one.release("X0001")) == 0


@pytest.mark.parametrize(
    ("check", "reason", "code"),
    [
        (2, "free_only", 0),
        (1, "not_chosen", 0),
        (2, "no_usable_answer", 4),
        (1, "ceiling", 4),
        (2, "no_baseline_for_model", 4),
        (6, "not_sent", 0),
    ],
)
def test_what_was_not_bought_by_choice_is_no_failure(check, reason, code):
    assert code_of(coverage=missing(check, reason)) == code


@pytest.mark.parametrize("state", ["gated", "no_information"])
def test_a_check_that_was_bought_and_said_nothing_is_no_choice(state):
    assert code_of(coverage=missing(1, "not_chosen", state)) == 4


def test_one_choice_does_not_excuse_another_failure():
    rows = (
        Coverage(check=1, state="not_run", reason="not_chosen"),
        Coverage(check=2, state="not_run", reason="no_usable_answer"),
    )
    assert code_of(coverage=rows) == 4


def test_an_inconclusive_verdict_may_be_allowed():
    assert code_of(coverage=missing(2, "no_usable_answer"), allow=True) == 0
    assert code_of(coverage=missing(2, "no_usable_answer"), allow=True, stopped="ceiling") == 4


def test_single_inconclusive_findings_do_not_change_the_code():
    assert code_of(made("tokens.inconclusive_offset"), made("channel.unknown")) == 0
