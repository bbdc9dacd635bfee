"""All six checks, always; and what an assessor that breaks leaves behind."""

from __future__ import annotations

import pytest

from relay_audit import assess as judging
from relay_audit.assess import ASSESSORS, assess
from relay_audit.assess.coverage import cover
from relay_audit.codes import CODES, finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage
from relay_audit.verdict import is_missing
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    START,
    answered,
    at,
    parity_run,
    plan_of,
    run_of,
    step_named,
    twelve,
)

PLANNED = (
    Coverage(check=3, state="not_run", reason="not_in_this_version"),
    Coverage(check=4, state="not_run", reason="not_in_this_version"),
    Coverage(check=5, state="not_applicable", reason="text_line"),
)


def run(*, status: int = 200, n: int = 2, body=None, checks=(1, 2, 6), planned=PLANNED, stopped: str = "") -> Evidence:
    steps = [step_named(f"s{p}") for p in range(3)]
    said = {"usage": {"input_tokens": 1, "output_tokens": 1}} if body is None else body
    exchanges = [answered(p + 1, f"s{p}", said, moment=at(p), status=status) for p in range(n)]
    return run_of(exchanges, steps, plan=plan_of(steps, checks=checks, coverage=planned), stopped=stopped)


def made(code: str, **params):
    return finding(code, {name: params.get(name, "x") for name in CODES[code].params})


def states(evidence: Evidence, *found) -> dict[int, tuple[str, str]]:
    rows = cover(evidence, tuple(found))
    assert [row.check for row in rows] == [1, 2, 3, 4, 5, 6]
    return {row.check: (row.state, row.reason) for row in rows}


def test_what_the_plan_left_out_stays_as_the_plan_said():
    rows = states(run())
    assert {c: rows[c] for c in (3, 4, 5)} == {row.check: (row.state, row.reason) for row in PLANNED}


@pytest.mark.parametrize(
    ("check", "found", "state"),
    [
        (1, ("channel.matches",), ("run", "")),
        (1, ("channel.unknown",), ("no_information", "unknown_signals")),
        (1, ("channel.unknown", "channel.id_reminted"), ("run", "")),
        (1, (), ("not_run", "no_usable_answer")),
        (2, ("tokens.match",), ("run", "")),
        (2, ("tokens.inconclusive",), ("no_information", "x")),
        (2, ("tokens.inconclusive", "tokens.cache_breakpoint_injected"), ("run", "")),
        (2, ("channel.matches",), ("not_run", "no_usable_answer")),
        (6, ("billing.matches",), ("run", "")),
        (6, ("billing.overcharged",), ("run", "")),
        (6, ("billing.undercharged",), ("run", "")),
        (6, ("billing.log_unavailable",), ("no_information", "log_unavailable")),
        (6, ("billing.log_unsafe_to_read",), ("no_information", "log_unsafe")),
        (6, ("billing.settlement_pending",), ("no_information", "settlement_pending")),
        (6, (), ("no_information", "log_unavailable")),
    ],
)
def test_what_was_found_decides(check, found, state):
    assert states(run(), *[made(code) for code in found])[check] == state


def test_the_reason_of_an_inconclusive_check_is_its_own():
    assert states(run(), made("tokens.inconclusive", reason="control_varies"))[2] == (
        "no_information",
        "control_varies",
    )


def test_without_an_answer_nothing_ran():
    assert states(run(status=500))[1] == ("not_run", "no_usable_answer")
    assert states(run(status=500))[6] == ("not_run", "no_usable_answer")
    assert states(run(n=0))[2] == ("not_run", "not_sent")
    assert states(run(n=0))[6] == ("not_run", "not_sent")
    assert states(run(n=0, stopped="ceiling"))[1] == ("not_run", "ceiling")


def test_a_shut_gate_is_a_state_of_its_own():
    rows = states(run(status=403, body={"error": "client not allowed"}))
    assert (rows[1], rows[2]) == (("gated", "gated"), ("gated", "gated"))


def test_a_bill_that_was_not_asked_for():
    assert states(run(checks=(1, 2)))[6] == ("not_run", "not_chosen")


def test_without_a_plan_nothing_was_sent():
    rows = states(run().model_copy(update={"plan": None}))
    assert {state for state, _ in rows.values()} == {"not_run"}


def test_the_whole_judgement_is_numbered_and_repeats_itself():
    evidence = parity_run(twelve(508))
    found, rows = assess(evidence, KNOWLEDGE)
    assert [f.id for f in found] == [f"F{place:03}" for place in range(1, len(found) + 1)]
    assert found[0].code == "tokens.constant_surplus"
    assert len(rows) == 6
    assert assess(evidence, KNOWLEDGE) == (found, rows)


def test_only_chosen_checks_are_judged():
    evidence = parity_run(twelve(508))
    plan = evidence.plan.model_copy(update={"checks": (1,)})
    found, _ = assess(evidence.model_copy(update={"plan": plan}), KNOWLEDGE)
    assert not any(f.check in (2, 6) for f in found)


def test_without_a_plan_only_the_run_itself_is_judged():
    echo = answered(1, "discovery.models.bearer", {}, moment=START, hostility=("key_echoed",))
    evidence = run_of([echo], []).model_copy(update={"plan": None})
    found, _ = assess(evidence, KNOWLEDGE)
    assert [f.code for f in found] == ["run.key_echoed"]


def test_an_assessor_that_breaks_is_a_finding_and_the_others_still_speak(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(judging, "ASSESSORS", {**ASSESSORS, "channel": broken})
    found, _ = assess(parity_run(twelve(508)), KNOWLEDGE)
    error = next(f for f in found if f.code == "run.probe_error")
    assert (error.outcome, error.severity, error.params) == ("error", "info", {"assessor": "channel"})
    assert any(f.code == "tokens.constant_surplus" for f in found)


def test_a_pool_hint_takes_the_model_for_granted(monkeypatch):
    hint = made("channel.subscription_pool_hint").model_copy(update={"severity": "low"})
    swapped = made("tokens.tokenizer_differs")
    for others, severity in (((), "low"), ((swapped,), "info")):
        monkeypatch.setattr(judging, "ASSESSORS", {"run_state": lambda *_, own=others: [hint, *own]})
        found, _ = assess(run(), KNOWLEDGE)
        assert next(f for f in found if f.code == hint.code).severity == severity


def test_a_run_that_ended_before_half_of_its_texts_is_no_clean_line() -> None:
    """Three answers and an empty balance: what they say stands, and the line is not called usable by them."""
    early = run(n=1, stopped="balance_exhausted")
    rows = states(early, made("channel.matches"), made("tokens.match"))
    assert rows[1] == rows[2] == ("run", "cut_short")
    assert states(run(n=2, stopped="ceiling"), made("channel.matches"))[1] == ("run", "")
    assert states(run(n=1), made("channel.matches"))[1] == ("run", "")
    assert all(is_missing(Coverage(check=c, state="run", reason="cut_short")) for c in (1, 2))


def test_rows_in_another_group_were_read_all_the_same() -> None:
    """The only thing that check 6 had to say came out of the log: "no per-call log" would be untrue."""
    assert states(run(), made("billing.group_differs_from_claim"))[6] == ("run", "")
