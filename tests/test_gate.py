"""Each reason to stop, at its edge; the gate reads the ledger and what was answered, nothing else."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relay_audit.exchange import Exchange
from relay_audit.gate import EXHAUSTED, GATED, GO, after_refusal, breaker, failed, next_send, was_answered
from relay_audit.ledger import Ledger
from relay_audit.quote import Line, StepPrice
from tests.assess.evidence_builders import answered, at, lost

CENT = Decimal("0.01")
STEP = StepPrice(step="s", input_tokens=20, expected=CENT, at_most=2 * CENT, hold=3 * CENT)
LINE = Line(
    id="a@relay", probe="a", side="relay", count=3, unit_price=None, expected=3 * CENT, at_most=5 * CENT, hold=3 * CENT
)


def good(number: int = 1) -> Exchange:
    return answered(number, f"s{number}", {"id": "m"}, moment=at(number))


def refused(number: int = 1, status: int = 500, text: str = "no") -> Exchange:
    return answered(number, f"s{number}", {"error": text}, moment=at(number), status=status)


def spent(*amounts: str, line: str = "a@relay", ceiling: str = "1", state: str = "settled") -> Ledger:
    ledger = Ledger(ceiling=Decimal(ceiling))
    for place, amount in enumerate(amounts):
        ledger = ledger.reserve(f"X{place}", line, "relay", Decimal(amount))
        if state == "settled":
            ledger = ledger.settle(f"X{place}", Decimal(amount), "usage_at_quoted_price")
        if state == "unconfirmed":
            ledger = ledger.leave_unconfirmed(f"X{place}")
    return ledger


def reason(ledger: Ledger, *sent: Exchange, balance: str | None = None, price: StepPrice = STEP) -> str | None:
    decision = next_send(ledger, price, LINE, sent, None if balance is None else Decimal(balance))
    assert decision.go is (decision.reason is None)
    return decision.reason


def test_an_open_gate():
    assert next_send(spent(), STEP, LINE, (), None) == GO
    assert reason(spent("0.01"), good(), balance="5") is None


@pytest.mark.parametrize("state", ["settled", "unconfirmed", "reserved"])
@pytest.mark.parametrize(("amount", "says"), [("0.03", None), ("0.030001", "ceiling")])
def test_the_ceiling_counts_what_is_settled_unconfirmed_and_reserved(state, amount, says):
    assert reason(spent(amount, line="b@relay", ceiling="0.05", state=state)) == says


@pytest.mark.parametrize(
    ("multiple", "unread", "ceiling", "says"),
    [
        ("1", "0.02", "0.05", None),
        ("1", "0.02", "0.049999", "ceiling"),
        ("1.5", "0", "0.06", None),  # 0.03 read from the books, and the next at half as much again
        ("1.5", "0", "0.059999", "ceiling"),
        ("1.5", "0.02", "0.07", None),  # and two cents more that no book has told yet
        ("1.5", "0.02", "0.069999", "ceiling"),
    ],
)
def test_the_ceiling_holds_at_the_price_that_the_books_have_shown(multiple, unread, ceiling, says):
    ledger = spent("0.03", line="b@relay", ceiling=ceiling)
    made = next_send(ledger, STEP, LINE, (), None, multiple=Decimal(multiple), unread=Decimal(unread))
    assert made.reason == says


@pytest.mark.parametrize("state", ["settled", "unconfirmed"])
@pytest.mark.parametrize(("amount", "says"), [("0.05", None), ("0.050001", "line_exceeded")])
def test_a_line_that_cost_more_than_its_at_most(state, amount, says):
    assert reason(spent(amount, state=state)) == says
    assert reason(spent(amount, line="b@relay", state=state)) is None


@pytest.mark.parametrize(
    ("balance", "says"),
    [("0.03", None), ("0.029999", "hold_above_balance"), ("0", "hold_above_balance"), ("-1", "hold_above_balance")],
)
def test_a_hold_above_the_balance_is_not_sent(balance, says):
    assert reason(spent(), balance=balance) == says


def test_an_unknown_balance_and_no_hold_stop_nothing():
    assert reason(spent(), balance=None) is None
    assert reason(spent(), balance="0", price=STEP.model_copy(update={"hold": Decimal(0)})) is None


@pytest.mark.parametrize("word", EXHAUSTED)
def test_an_exhausted_balance_ends_it(word):
    assert reason(spent(), good(1), refused(2, 403, f"xx {word.upper()} yy"), good(3)) == "balance_exhausted"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 429])
def test_an_exhausted_balance_comes_with_many_statuses(status):
    assert reason(spent(), good(1), refused(2, status, "insufficient_user_quota")) == "balance_exhausted"


def test_the_same_words_in_an_answer_or_a_breakdown_mean_nothing():
    assert reason(spent(), refused(1, 500, "insufficient_user_quota")) is None
    assert reason(spent(), answered(1, "s", {"text": "insufficient balance"}, moment=at(1))) is None


@pytest.mark.parametrize("word", GATED)
def test_a_gate_for_other_clients_ends_it(word):
    assert reason(spent(), refused(1, 403, f"Sorry: {word.upper()}.")) == "gated"


@pytest.mark.parametrize(("status", "says"), [(400, "gated"), (401, "gated"), (403, "gated"), (429, None), (500, None)])
def test_a_gate_is_a_refusal(status, says):
    assert reason(spent(), good(1), refused(2, status, "client_not_allowed")) == says


def test_an_exhausted_balance_is_named_before_a_gate():
    assert (
        reason(spent(), refused(1, 403, "client_not_allowed"), refused(2, 403, "quota_exhausted"))
        == "balance_exhausted"
    )


def test_a_refused_key():
    assert reason(spent(), refused(1, 401)) == "key_refused"
    assert reason(spent(), good(1), refused(2, 401)) is None
    assert reason(spent(), refused(1, 401), refused(2, 500)) is None


def test_two_sends_without_an_outcome():
    assert reason(spent(), good(1), lost(2, "s2")) is None
    assert reason(spent(), lost(1, "s1"), good(2), lost(3, "s3")) == "two_unconfirmed"


def test_three_failures_in_a_row():
    assert reason(spent(), refused(1), refused(2)) is None
    assert reason(spent(), refused(1), good(2), refused(3), refused(4)) is None
    assert reason(spent(), good(1), refused(2), refused(3), refused(4)) == "three_failures"
    assert reason(spent(), refused(1), lost(2, "s2"), lost(3, "s3", delivery="not_sent")) == "three_failures"


def test_the_breaker_speaks_before_the_money():
    assert reason(spent("9"), lost(1, "a"), lost(2, "b")) == "two_unconfirmed"
    assert breaker(()) is None


@pytest.mark.parametrize(
    ("exchange", "is_failure"),
    [
        (good(), False),
        (refused(), True),
        (refused(status=204), True),
        (lost(1, "s"), True),
        (lost(1, "s", delivery="not_sent"), True),
        (answered(1, "s", "<html>", moment=at(1)), True),
        (answered(1, "s", "", moment=at(1)), True),
        (answered(1, "s", "[1]", moment=at(1)), True),
        (answered(1, "s", {"id": "m"}, moment=at(1), cut=True), True),
        (answered(1, "s", {"error": {"message": "no channel"}}, moment=at(1)), True),
    ],
)
def test_what_counts_as_a_failure(exchange, is_failure):
    assert failed(exchange) is is_failure


@pytest.mark.parametrize(
    ("accepted", "charged", "says"),
    [
        (False, None, None),
        (False, "0", None),
        (True, None, "books_unreadable"),
        (True, "0.02", None),
        (True, "0.020001", "line_exceeded"),
        (False, "0.020001", "line_exceeded"),
    ],
)
def test_a_stage_of_refusals_goes_on_while_the_books_can_be_read(accepted, charged, says):
    decision = after_refusal(accepted, None if charged is None else Decimal(charged), STEP)
    assert (decision.go, decision.reason) == (says is None, says)


@pytest.mark.parametrize(
    ("exchange", "taken"),
    [
        (good(), True),
        (answered(1, "s", {"error": {"message": "no channel"}}, moment=at(1)), False),
        (refused(status=400), False),
        (refused(status=201), False),
        (lost(1, "s"), False),
    ],
)
def test_an_answer_with_an_error_in_it_was_not_taken(exchange, taken):
    assert was_answered(exchange) is taken


def test_what_never_came_back_mentions_nothing():
    """A status without a body can only be one that was never read: no word of an empty balance stands in it."""
    silent = refused(1, 403, "quota_exhausted").model_copy(update={"response": None})
    assert reason(spent(), silent) is None


def test_another_status_is_a_failure_whatever_its_body_says():
    assert failed(answered(1, "s1", {"id": "m"}, moment=at(1), status=500))
