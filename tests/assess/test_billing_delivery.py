"""What was charged without being delivered, at its bounds: refunds to the second, reserves, shapes of empty answers, copies."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.billing_calls import bill_of, calls_of
from relay_audit.assess.billing_delivery import delivery, nothing_in
from relay_audit.books import BalanceReading, ForeignRows, LogReading, LogRow
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.reconcile import reconcile
from tests.assess.evidence_builders import at, codes, lost, only
from tests.assess.test_billing_parts import HALF, HELD, PAID, REFUSED, STREAM, balances, books, row, run, sent


def judged(exchanges: list[Exchange], reading: LogReading, balance: tuple[BalanceReading, ...] = ()) -> list[Finding]:
    evidence = run(exchanges, reading, balance=balance)
    bill = bill_of(evidence)
    assert bill is not None
    return delivery(bill, reconcile(evidence.balance, evidence.log, bill.per_unit))


def refused(*rows: LogRow, **more: Any) -> list[Finding]:
    return judged([sent(1, REFUSED, status=400)], books(*rows, **more))


def back(quota: int = 516, after: float = 2) -> LogRow:
    return row(1, quota, kind="refund", after=after, **HELD)


@pytest.mark.parametrize(
    ("rows", "said_"),
    [
        ((row(1, 20),), ["billing.error_charged"]),
        ((row(1, 20, task="task_1"),), ["billing.refund_missing"]),
        ((row(1, 20, other={"is_task": True}),), ["billing.refund_missing"]),
        ((row(1, 20, prompt_tokens=0),), ["billing.error_charged"]),
        ((row(1, 20, completion_tokens=0),), ["billing.error_charged"]),
        ((row(1, 20, **HELD),), ["billing.refund_missing"]),
        ((row(1, 20), back(5)), ["billing.refund_missing"]),
        ((row(1, 516, **HELD), row(1, 20)), ["billing.error_charged", "billing.duplicate_charge"]),
        ((row(1, 0),), []),
        ((row(1, 1),), ["billing.error_charged"]),
        # Given back: prompt to ten seconds after the charge, of weight beyond a minute
        ((row(1, 516, **HELD), back(after=10.5)), []),
        ((row(1, 516, **HELD), back(after=10.6)), ["billing.refund_late"]),
        ((row(1, 516, **HELD), back(300), back(216, after=30)), ["billing.refund_late"]),
        ((back(after=30),), []),  # without a charge there is nothing to be late for
    ],
)
def test_what_became_of_the_charge_for_a_refusal(rows, said_):
    assert codes(refused(*rows)) == said_


@pytest.mark.parametrize(("after", "severity"), [(60.5, "low"), (60.6, "medium")])
def test_a_minute_gives_a_late_refund_its_weight(after, severity):
    assert only(refused(row(1, 516, **HELD), back(after=after))).severity == severity


def test_a_refund_is_waited_for_ten_seconds():
    assert codes(refused(row(1, 20), at=at(11))) == ["billing.error_charged"]
    assert refused(row(1, 20), at=at(10.9)) == []


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        ({"output": [{"content": [{"type": "output_text", "text": ""}]}]}, True),
        ({"output": [{"content": [{"type": "output_text", "text": "a"}]}]}, False),
        ({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}, True),
        ({"candidates": [{"content": {"parts": []}, "finishReason": "SAFETY"}]}, False),
        ({"output": [], "incomplete_details": {"reason": "max_output_tokens"}}, False),
        ({"choices": [{"message": {"content": ""}, "finish_reason": "length"}]}, False),
        ({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}, True),
        ({"choices": [], "usage": {"completion_tokens_details": {"reasoning_tokens": 1}}}, False),
        ({"candidates": [], "usageMetadata": {"thoughtsTokenCount": 1}}, False),
        ({"candidates": [], "usageMetadata": {"thoughtsTokenCount": 0}}, True),
        ({"result": ""}, False),
    ],
)
def test_what_an_empty_answer_looks_like_in_every_dialect(body, empty):
    [call] = calls_of(run([sent(1, body)], books(row(1))))
    assert nothing_in(call) is empty


def test_a_call_without_an_outcome_has_nothing_to_be_empty():
    [call] = calls_of(run([lost(1, "s1")], books(row(1))))
    assert nothing_in(call) is False


def test_broken_streams_are_counted_among_those_that_were_streamed():
    whole = HALF + 'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    made = judged(
        [sent(1, HALF, headers=STREAM), sent(2, whole, headers=STREAM), sent(3)], books(row(1), row(2), row(3))
    )
    hit = next(f for f in made if f.code == "billing.incomplete_charged")
    assert hit.params == {"n": 1, "of": 2, "charged": "0.000076"}
    assert codes(judged([sent(1, HALF, headers=STREAM)], books(row(1, 0)))) == []
    assert "billing.incomplete_charged" not in codes(judged([sent(1, HALF, headers=STREAM, status=500)], books(row(1))))


@pytest.mark.parametrize(
    ("rows", "fell", "said_"),
    [
        ((row(1), row(1, after=0.6)), None, ("high", "strong", True)),
        ((row(1), row(1, after=0.6)), PAID, ("low", "supporting", False)),
        ((row(1), row(1, after=0.6)), PAID + 1, ("high", "strong", True)),
        ((row(1), row(1, after=0.6)), 2 * PAID, ("high", "strong", True)),
        ((row(1), row(1, 0, after=0.6)), None, None),
        ((row(1), row(1, after=0.6, task="task_1")), None, None),
        ((row(1), row(1, after=0.6, other={"is_task": True})), None, None),
        ((row(1), row(1, after=0.6, other={"violation_fee": 1})), None, None),
        ((row(1), row(1, after=0.6), row(1, PAID, kind="refund", after=1)), None, None),
    ],
)
def test_two_rows_for_one_sending(rows, fell, said_):
    made = judged([sent(1)], books(*rows), balances(fell) if fell is not None else ())
    hits = [f for f in made if f.code == "billing.duplicate_charge"]
    assert [(f.severity, f.confidence, f.params["taken"]) for f in hits] == ([said_] if said_ else [])


THREE = [sent(n) for n in (1, 2, 3)]
ALIKE = {"count": 3, "within": 3, "alike": ("X0001", "X0002", "X0003"), "alike_rows": 3, "first": at(1), "last": at(5)}


@pytest.mark.parametrize(
    ("fell", "taken"), [(6 * PAID, True), (6 * PAID + 1, False), (6 * PAID - 1, False), (3 * PAID, False)]
)
def test_copies_under_other_ids_weigh_only_to_the_unit_of_the_balance(fell, taken):
    foreign = ForeignRows(**ALIKE, within_quota=3 * PAID, alike_quota=3 * PAID)
    made = judged(THREE, books(row(1), row(2), row(3), foreign=foreign), balances(fell))
    hit = only(made)
    assert hit.params == {
        "n": 3, "rows": 6, "charged": "0.000456", "difference": "0.000228", "taken": taken, "road": "another_id",
    }  # fmt: skip
    assert (hit.code, hit.basis, hit.exchanges) == ("billing.duplicate_charge", "relay_word", ALIKE["alike"])
    assert (hit.severity, hit.confidence) == (("high", "strong") if taken else ("low", "supporting"))


def test_copies_in_books_of_dollars_are_counted_in_dollars():
    foreign = ForeignRows(**ALIKE, alike_amount="0.5")
    hit = only(judged(THREE, books(row(1), row(2), row(3), foreign=foreign)))
    assert (hit.params["charged"], hit.params["difference"], hit.params["taken"]) == ("0.500228", "0.5", False)
