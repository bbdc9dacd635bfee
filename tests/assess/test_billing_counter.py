"""A counter and nothing else: above the claimed ratio of the vendor's list it is said, within it the sum agrees."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_counter import counter_alone
from relay_audit.books import BalanceReading, LogReading, SiteFacts
from relay_audit.finding import Finding
from relay_audit.quote import Prices, UnitPrice, make_quote
from relay_audit.target import Claim
from tests.assess.evidence_builders import KNOWLEDGE, START, at, lost, only
from tests.assess.test_billing_parts import REFUSED, run, sent

CALLS = [sent(n) for n in range(1, 5)]
LISTED = 152
"""Quota units of four answers of 18 in at $2 and 4 out at $10 a million."""
CLOSED = LogReading(at=at(0), exchange="", state="unsafe", reason="needs_session")
SITE = SiteFacts(software="veloera")


def judged(*told: tuple[float, int], ratio: str | None = "0.5", step: int = 0, **more: Any) -> list[Finding]:
    claim = Claim(channel="anthropic", ratio=None if ratio is None else Decimal(ratio))
    reading, exchanges, price = more.pop("reading", CLOSED), more.pop("exchanges", CALLS), more.pop("price", None)
    adapters = more.pop("adapters", ["veloera"] * len(told))
    balance = tuple(BalanceReading(at=at(s), exchange=f"X01{n:02}", used_quota=1001 + q, adapter=adapters[n],
                                   step=Decimal(step) / 500_000)
                    for n, (s, q) in enumerate(told))  # fmt: skip
    before = more.pop("before", ())
    made = run(exchanges, reading, claim=claim, balance=balance, **{"site": SITE, **more})
    quote = make_quote(made.plan, Prices(relay=price), {}, START) if price and made.plan else None
    return counter_alone(made.model_copy(update={"quote": quote, "log": (*before, *made.log)}), KNOWLEDGE)


def test_what_is_above_the_claim_is_low():
    made = only(judged((0, 0), (30, LISTED)))
    assert (made.code, made.severity, made.confidence, made.basis, made.exchanges) == (
        "billing.ratio_differs_from_claim", "low", "supporting", "relay_word", ("X0001", "X0002", "X0003", "X0004"),
    )  # fmt: skip
    assert made.params == {
        "n": 4, "claimed": "0.5", "published": None, "charged_ratio": "1", "hours": "12:00-13:00 UTC (20:00-21:00 UTC+8)",
        "untrusted_group": "", "road": "counter", "charged": "0.000304",
    }  # fmt: skip


def test_what_agrees_with_the_claim_is_weak():
    made = only(judged((0, 0), (30, LISTED // 2)))
    assert (made.code, made.outcome, made.confidence, made.basis, made.exchanges) == (
        "billing.matches", "match", "weak", "relay_word", ("X0001", "X0002", "X0003", "X0004"),
    )  # fmt: skip
    assert made.params == {
        "n": 4, "charged": "0.000152", "not_judged": 4, "facts": ["balance_agrees"], "claimed": "0.5", "published": None,
        "charged_ratio": "0.5", "road": "counter", "share_bound": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fell", "code"),
    [
        (68, None),  # 76 would be the claim; below nine tenths of it the counter may be late
        (69, "billing.matches"),
        (83, "billing.matches"),  # five per cent, and a unit for each call
        (84, "billing.ratio_differs_from_claim"),
    ],
)
def test_where_it_agrees(fell, code):
    assert [f.code for f in judged((0, 0), (30, fell))] == ([code] if code else [])


@pytest.mark.parametrize(("fell", "code"), [(85, "billing.matches"), (86, "billing.ratio_differs_from_claim")])
def test_a_counter_that_is_printed_coarsely_may_be_above_by_a_step(fell, code):
    assert only(judged((0, 0), (30, fell), step=2)).code == code


def test_a_counter_agrees_from_the_moment_on_at_which_it_is_settled():
    for told in (((0, 0), (14, 76)), ((0, 0), (13, 38), (30, 76))):
        assert only(judged(*told)).code == "billing.matches"
    assert only(judged((0, 0), (30, 40), ratio="0.25")).code == "billing.matches"  # no coarser than a tenth


def test_a_counter_that_was_read_too_soon_agrees_with_nothing_but_may_be_above():
    assert judged((0, 0), (13, LISTED // 2)) == []
    assert only(judged((0, 0), (13, LISTED))).code == "billing.ratio_differs_from_claim"


PRICE = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=START.date())


@pytest.mark.parametrize(
    ("told", "more"),
    [
        (((0, 0),), {}),
        (((0, 0), (30, LISTED)), {"ratio": None}),
        (((0, 0), (30, LISTED)), {"reading": CLOSED.model_copy(update={"reason": "empty"})}),
        (((0, 0), (30, LISTED)), {"price": PRICE}),  # a published price speaks instead
        (((0, 0), (30, LISTED)), {"adapters": ["veloera", "generic"]}),
        (((0, 0), (30, LISTED), (60, LISTED + 5)), {}),  # it falls while nothing of ours is sent
        (((0, 0), (30, LISTED), (60, LISTED - 5)), {}),
        (((0, 0), (1, 5), (30, LISTED)), {}),  # the first call was not sent yet
        (((2, 0), (30, LISTED)), {}),  # a call before the first reading
        (((0, 0), (30, 0)), {}),
        (((0, 0), (30, LISTED)), {"exchanges": [*CALLS[:3], lost(4, "s4")]}),
        (((0, 0), (30, LISTED)), {"exchanges": [*CALLS[:3], sent(4, {"content": []})]}),
        (((0, 0), (30, LISTED)), {"exchanges": []}),
        (((0, 0), (30, 100)), {"exchanges": [sent(n, REFUSED, status=400) for n in range(1, 5)]}),
        (((0, 0), (30, 30)), {"site": SITE.model_copy(update={"quota_per_unit": 500})}),
    ],
)
def test_where_it_says_nothing(told, more):
    assert judged(*told, **more) == []


def test_refusals_cost_nothing_at_the_vendor():
    made = only(judged((0, 0), (30, 114), exchanges=[*CALLS[:3], sent(4, REFUSED, status=400)]))
    assert (made.params["n"], made.params["charged_ratio"]) == (3, "1")


NOT_ASKED = CLOSED.model_copy(update={"state": "not_asked", "reason": ""})


@pytest.mark.parametrize(
    ("told", "more"),
    [
        (((1, 0), (30, LISTED)), {}),  # read before the first call, to the second
        (((0, 0), (14, LISTED // 2), (60, LISTED)), {}),  # the last call is booked a little later
        (((0, 0), (30, LISTED), (60, LISTED)), {}),  # it stands still
        (((0, 0), (30, LISTED)), {"before": (NOT_ASKED,)}),
        (((0, 0), (30, LISTED)), {"price": PRICE.model_copy(update={"assumed": True})}),  # no price was published
        (((0, 0), (30, LISTED * 3 // 4)), {"exchanges": [*CALLS[:3], lost(4, "s4", delivery="not_sent")]}),
    ],
)
def test_where_it_says_as_much(told, more):
    made = only(judged(*told, **more))
    assert (made.code, made.params["charged_ratio"]) == ("billing.ratio_differs_from_claim", "1")
