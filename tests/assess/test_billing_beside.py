"""Check 6 beside the rows that are ours: copies under other ids, plans, a balance without rows, a list of ratios."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.books import (
    Allowance,
    BalanceReading,
    ForeignRows,
    LogReading,
    PriceReading,
    Published,
    SiteFacts,
    Totals,
    UsageReading,
)
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.quote import Prices, UnitPrice, make_quote
from relay_audit.relays.generic import Generic
from relay_audit.target import Claim
from tests.assess.evidence_builders import KNOWLEDGE, START, at, codes, lost
from tests.assess.test_billing_parts import (
    LISTED,
    PAID,
    RATIOS,
    SITE,
    accused,
    balances,
    books,
    found,
    judged,
    row,
    run,
    sent,
)

CALLS = [sent(n) for n in range(1, 5)]
ROWS = [row(n) for n in range(1, 5)]
DEFAULT = Claim(channel="anthropic", group="default")


def copies(*ids: str, more: int = 0, **said: Any) -> ForeignRows:
    """Rows like ours under other ids, and `more` others."""
    rows = len(ids) + more
    return ForeignRows(count=rows, quota=PAID * rows, within=rows, within_quota=PAID * rows, first=at(1), last=at(5),
                       alike=ids, alike_rows=len(ids), alike_quota=PAID * len(ids), **said)  # fmt: skip


def with_copies(foreign: ForeignRows, fell: int | None, **more: Any) -> list[Finding]:
    balance = balances(fell * PAID) if fell is not None else ()
    return judged(CALLS, reading=books(*ROWS, foreign=foreign, **more), balance=balance)


THREE = ("X0001", "X0002", "X0003")


def test_copies_of_our_rows_under_other_ids_are_named_and_assigned_to_nobody():
    made = with_copies(copies(*THREE), 7)
    hit = found(made, "billing.duplicate_charge")
    assert (hit.params["n"], hit.params["rows"], hit.params["difference"]) == (3, 6, "0.000228")
    assert (hit.severity, hit.confidence, hit.exchanges) == ("high", "strong", THREE)
    assert "billing.matches" not in codes(made)
    assert found(made, "billing.foreign_rows").params["count"] == 3


@pytest.mark.parametrize(
    ("foreign", "fell", "earlier"),
    [
        (copies("X0001", "X0002"), 6, 0),  # two may be somebody else's
        (copies(*THREE, more=1), 8, 0),  # the key has other traffic
        (copies(*THREE), 4, 0),  # listed, and not taken
        (copies(*THREE), None, 0),  # no balance
        (copies(*THREE), 7, 1),  # another run of ours
    ],
)
def test_copies_weigh_only_on_a_key_that_nobody_else_uses_and_where_they_were_paid(foreign, fell, earlier):
    hit = found(with_copies(foreign, fell, own_earlier=earlier), "billing.duplicate_charge")
    assert (hit.severity, hit.confidence, hit.accusation) == ("low", "supporting", False)


def planned(n: int, consumed: int, used: int | None = None, wallet: int = 0) -> Any:
    said = {"billing_source": "subscription", "subscription_consumed": consumed, "wallet_quota_deducted": wallet}
    said |= {} if used is None else {"subscription_used": used}
    return row(n, plan_billed=True, other={**RATIOS, **said})


def test_a_plan_that_loses_what_the_rows_charge_is_a_fact_of_a_match():
    made = judged(CALLS, *[planned(n, PAID, 900 + PAID * n) for n in range(1, 5)])
    assert accused(made) == []
    assert "plan_billed" in found(made, "billing.matches").params["facts"]


def test_a_call_that_plan_and_wallet_pay_together_agrees():
    assert accused(judged(CALLS, *[planned(n, PAID - 10, wallet=10) for n in range(1, 5)])) == []


def test_a_plan_that_loses_more_than_a_row_charges_is_said_without_weight():
    made = judged(CALLS, planned(1, 2 * PAID), *ROWS[1:])
    hit = found(made, "billing.overcharged")
    assert (hit.params["difference"], hit.params["road"], hit.severity) == ("0.000076", "plan", "low")
    less = judged(CALLS, planned(1, PAID - 8), *ROWS[1:])
    assert found(less, "billing.undercharged").params["difference"] == "0.000016"


def test_a_plan_that_falls_further_than_our_rows_is_nobodys_fault():
    rows = [planned(1, PAID, 900), planned(2, PAID, 900 + PAID + 100)]
    hit = found(judged(CALLS[:2], *rows), "billing.usage_endpoint_unreliable")
    assert (hit.params["told"], hit.params["log"], hit.severity) == ("0.000276", "0.000076", "low")
    assert accused(judged(CALLS[:2], planned(1, PAID, 900), planned(2, PAID, 5))) == [], "a window that began anew"


def windowed(used: str, cost: str) -> list[Finding]:
    def reading(second: float, n: int, used: Decimal, cost: Decimal) -> BalanceReading:
        totals = Totals(requests=n, input_tokens=18 * n, output_tokens=4 * n, list_cost=cost, cost=cost)
        return BalanceReading(at=at(second), exchange=f"X009{n}", adapter="sub2api", totals=totals,
                              allowances=(Allowance(window="5h", limit=Decimal(5), used=used),))  # fmt: skip

    readings = (reading(0, 0, Decimal("1.000000"), Decimal(0)), reading(60, 4, Decimal(used), Decimal(cost)))
    evidence = run(CALLS, LogReading(at=at(60), exchange="", state="unavailable"), balance=readings)
    return assess_billing(evidence.model_copy(update={"log": ()}), KNOWLEDGE)


def test_the_windows_of_a_plan_are_held_against_its_totals():
    assert "billing.usage_endpoint_unreliable" not in codes(windowed("1.000304", "0.000304"))
    hit = found(windowed("1.000608", "0.000304"), "billing.usage_endpoint_unreliable")
    assert (hit.params["told"], hit.params["factor"], hit.severity) == ("0.000608", "2", "low")
    assert "billing.usage_endpoint_unreliable" not in codes(windowed("0.000304", "0.000304")), "it began anew"


def unlogged(*spans: tuple[float, int], claim: Claim = DEFAULT, assumed: bool = False, **more: Any) -> list[Finding]:
    """Readings of the balance at a second, with what it fell since the first; an empty log."""
    readings = tuple(
        BalanceReading(at=at(s), exchange=f"X01{n:02}", used_quota=1000 + q) for n, (s, q) in enumerate(spans)
    )
    empty = more.pop("reading", LogReading(at=at(60), exchange="X0090", state="empty", reason="empty"))
    more = {"site": SITE, **more}
    evidence: Evidence = run(more.pop("exchanges", CALLS), empty, claim=claim, balance=readings, **more)
    assert evidence.plan is not None
    price = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=START.date(), assumed=assumed)
    quote = make_quote(evidence.plan, Prices(relay=price), {}, START)
    return assess_billing(evidence.model_copy(update={"quote": quote}), KNOWLEDGE)


TWO_GROUPS = SITE.model_copy(update={"group_ratio": {"default": Decimal(1), "vip": Decimal(2)}})
DEARER = LISTED.model_copy(update={"model_ratio": Decimal(2)})
TWICE = ((0, 0), (1.5, 2 * PAID), (30, 8 * PAID))
"""After the first of four calls, and at the end: twice what the answers come to, both times."""


def test_without_rows_the_same_multiple_in_two_spans_is_a_tariff():
    hit = found(unlogged(*TWICE), "billing.overcharged")
    assert (hit.params["charged"], hit.params["recomputed"], hit.params["road"]) == ("0.000608", "0.000304", "unlogged")
    assert (hit.severity, hit.confidence) == ("high", "strong")


@pytest.mark.parametrize(
    "more",
    [
        {"claim": Claim(channel="anthropic")},  # the group is not named: it may be a dearer one
        {"spans": ((0, 0), (30, 8 * PAID))},  # one span
        {"spans": ((0, 0), (1.5, 9 * PAID), (30, 15 * PAID))},  # two, and not alike
        {"spans": ((0, 0), (1.5, 2 * PAID), (8, 8 * PAID))},  # too soon after the last call
        {"site": TWO_GROUPS},  # the key may sit in the dearer group
        {"prices": (PriceReading(at=at(70), exchange="X0099", published=DEARER),)},  # the tariff rose after the quote
    ],
)
def test_without_rows_anything_less_is_said_without_weight(more):
    how = {"spans": TWICE, **more}
    hit = found(unlogged(*how.pop("spans"), **how), "billing.overcharged")
    assert (hit.severity, hit.accusation) == ("low", False)


@pytest.mark.parametrize(
    ("spans", "more"),
    [
        (((0, 0), (1.5, PAID), (30, 4 * PAID)), {}),
        (((0, 0), (1.5, PAID), (30, 2 * PAID)), {}),  # in the buyer's favour
        (((0, 0), (1.5, 2 * PAID), (30, 8 * PAID), (40, 9 * PAID)), {}),  # it falls by itself
        (TWICE, {"assumed": True}),
        (TWICE, {"exchanges": [*CALLS[:3], lost(4, "s4")]}),
        (((0, 0),), {}),
        (TWICE, {"reading": books(foreign=ForeignRows(count=1, quota=9, within=1, within_quota=9))}),
        (TWICE, {"reading": books(row(9, 2 * PAID, exchange=""))}),  # a row that may be ours, and was not joined
    ],
)
def test_without_rows_a_balance_that_may_be_somebody_elses_says_nothing(spans, more):
    assert "billing.overcharged" not in codes(unlogged(*spans, **more))


def test_a_page_that_is_rounded_to_cents_moves_by_one_for_a_call_of_less():
    def cents(*printed: str) -> list[Finding]:
        pages = [UsageReading(at=at(s), exchange=f"X01{s:02}", when="between", state="read", printed=Decimal(text),
                              dollars=Decimal(text)) for s, text in zip((0, 30), printed, strict=True)]  # fmt: skip
        balance = tuple(one for page in pages if (one := Generic().balance_of(page)) is not None)
        evidence = run(CALLS, LogReading(at=at(60), exchange="X0090", state="empty"), claim=DEFAULT, balance=balance,
                       site=SITE)  # fmt: skip
        price = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=START.date())
        quote = make_quote(evidence.plan, Prices(relay=price), {}, START)
        return assess_billing(evidence.model_copy(update={"quote": quote}), KNOWLEDGE)

    assert accused(cents("7.41", "7.42")) == []
    assert "billing.overcharged" not in codes(cents("7.41", "7.42"))
    assert "billing.overcharged" in codes(cents("7.41", "7.44"))
    assert "billing.overcharged" in codes(cents("7.4101", "7.4201")), "printed finer than cents"


def ratio_list(published: Published | None, quota: int = 57) -> list[Finding]:
    rows = [row(n, quota, group="vip", other={**RATIOS, "model_ratio": quota / PAID}) for n in (1, 2)]
    reading = PriceReading(at=at(70), exchange="X0099", published=published)
    return judged(CALLS[:2], *rows, prices=(reading,), site=SiteFacts(software="new-api"))


def test_a_list_of_ratios_stands_in_for_a_closed_price_list():
    hit = found(ratio_list(LISTED), "billing.price_differs_from_published")
    assert (hit.params["factor"], hit.params["published_rate"], hit.params["charged_rate"]) == ("1.5", "2", "3")
    assert accused(ratio_list(LISTED, PAID)) == []
    assert "billing.price_differs_from_published" not in codes(ratio_list(None))


def test_a_list_of_ratios_that_is_not_what_is_in_force_accuses_nobody():
    """What is configured and what is built in may differ in output and cache; a tariff may fall in mid-run; an expression
    is in no list of ratios."""
    site, stale = SiteFacts(software="new-api"), LISTED.model_copy(update={"completion_ratio": Decimal(2)})
    plain = [row(n, group="vip") for n in (1, 2)]
    reading = PriceReading(at=at(70), exchange="X0099", published=stale)
    hit = found(judged(CALLS[:2], *plain, prices=(reading,), site=site), "billing.price_differs_from_published")
    assert (hit.severity, hit.confidence, hit.accusation) == ("low", "supporting", False)
    before = row(1, 57, group="vip", other={**RATIOS, "model_ratio": 57 / PAID})
    listed = PriceReading(at=at(70), exchange="X0099", published=LISTED)
    hit = found(
        judged(CALLS[:2], before, plain[1], prices=(listed,), site=site), "billing.price_differs_from_published"
    )
    assert (hit.severity, hit.outcome, hit.params["changed"]) == ("info", "match", True)
    text = base64.b64encode(b"p * 3 + c * 15").decode()
    other = {"group_ratio": 1, "billing_mode": "tiered_expr", "expr_b64": text}
    tiered = [row(n, 57, group="vip", other=other) for n in (1, 2)]
    assert "billing.price_differs_from_published" not in codes(judged(CALLS[:2], *tiered, prices=(listed,), site=site))


def test_a_balance_that_is_rounded_to_cents_is_held_against_no_rows():
    def pages(*used: int) -> tuple[BalanceReading, ...]:
        return tuple(
            BalanceReading(at=at(s), exchange="X0091", used_quota=q) for s, q in zip((0, 60), used, strict=True)
        )

    assert accused(judged(CALLS, *ROWS, balance=pages(0, 5000))) == []
    assert accused(judged(CALLS, *ROWS, balance=pages(0, 10_000))) == ["billing.overcharged"]
    assert accused(judged(CALLS, *ROWS, balance=pages(0, 5001))) == ["billing.overcharged"]
    once_more = pages(0, 4 * PAID)
    assert "billing.matches" in codes(judged(CALLS, *ROWS, balance=once_more))


def test_without_rows_a_small_multiple_may_be_the_users_own_ratio():
    spans = ((0, 0), (1.5, 50), (30, 200))
    hit = found(unlogged(*spans), "billing.overcharged")
    assert (hit.severity, hit.accusation) == ("low", False)


def test_of_two_balances_after_the_log_the_one_that_lost_less_is_held_against_it():
    """The later one may hold calls of others that the log was not read for; the earlier one what was only reserved."""

    def after(*used: int) -> list[str]:
        readings = tuple(
            BalanceReading(at=at(s), exchange="X0091", used_quota=q) for s, q in zip((0, 70, 130), used, strict=True)
        )
        return accused(judged(CALLS, *ROWS, balance=readings))

    assert after(0, 4 * PAID, 9 * PAID) == []
    assert after(0, 9 * PAID, 4 * PAID) == []
    assert after(0, 9 * PAID, 9 * PAID) == ["billing.overcharged"]
