"""What explains a bill without being a difference, each by its name; and what the books did not show."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.books import ForeignRows, LogReading, SiteFacts
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from tests.assess.evidence_builders import KNOWLEDGE, at, codes, lost, only
from tests.assess.test_billing_parts import (
    LISTED,
    PAID,
    RATIOS,
    REFUSED,
    SITE,
    balances,
    books,
    found,
    row,
    run,
    said,
    sent,
)

TWO = [sent(1), sent(2)]
ROWS = (row(1), row(2))


def judged(exchanges: list[Exchange], *looks: LogReading, **more: Any) -> list[Finding]:
    evidence = run(exchanges, looks[0], **more)
    return assess_billing(evidence.model_copy(update={"log": looks}), KNOWLEDGE)


def named(exchanges: list[Exchange], *looks: LogReading, **more: Any) -> list[str]:
    return found(judged(exchanges, *looks, **more), "billing.matches").params["facts"]


def at_ratio(quota: int, **other: Any) -> LogReading:
    return books(row(1, quota, other={**RATIOS, **other}))


def selling(**published: Any) -> SiteFacts:
    return SITE.model_copy(update={"published": LISTED.model_copy(update=published)})


HALF = SITE.model_copy(update={"group_ratio": {"default": Decimal("0.5")}})
CLOSED = SITE.model_copy(update={"published": None})


@pytest.mark.parametrize(
    ("look", "site", "facts"),
    [
        (at_ratio(19, group_ratio=0.5), HALF, ["group_ratio"]),
        (at_ratio(38, user_group_ratio=1), SITE, ["user_group_ratio"]),
        (at_ratio(38, user_group_ratio=-1), SITE, ["nothing_special"]),
        (at_ratio(0, group_ratio=0, user_group_ratio=0), SITE, ["group_ratio", "user_group_ratio", "uncharged_calls"]),
        (at_ratio(57, model_ratio=1.5), selling(model_ratio=Decimal("1.5")), ["published_markup"]),
        (at_ratio(38, model_ratio=1.005), selling(model_ratio=Decimal("1.005")), ["nothing_special"]),
        (at_ratio(38, model_ratio=1.006), selling(model_ratio=Decimal("1.006")), ["published_markup"]),
        (at_ratio(29, model_ratio=1.5, group_ratio=0.5),
         HALF.model_copy(update={"published": LISTED.model_copy(update={"model_ratio": Decimal("1.5")})}),
         ["group_ratio", "published_markup"]),
        (at_ratio(57, model_ratio=1.5), CLOSED, ["nothing_special"]),  # nothing is published
        (at_ratio(34, model_ratio=0.9), SITE, ["below_published"]),
        (at_ratio(1, model_ratio=0.01), selling(model_ratio=Decimal("0.01")), ["minimum_charge"]),
        (at_ratio(1, model_ratio=0.02), selling(model_ratio=Decimal("0.02")), ["nothing_special"]),
        (at_ratio(2, model_ratio=0.01), selling(model_ratio=Decimal("0.01")), ["rounding"]),
        (at_ratio(0, model_ratio=0.01), selling(model_ratio=Decimal("0.01")), ["rounding", "uncharged_calls"]),
        (at_ratio(76, surge_ratio=2), SITE.model_copy(update={"published": None}), ["further_multiplier"]),
        (at_ratio(250_000, model_price=0.5, model_ratio=0), CLOSED, ["fixed_price"]),
        (at_ratio(538, tool_surcharges=[{"count": 1, "price": 1}]), SITE, ["tool_surcharge"]),
    ],
)  # fmt: skip
def test_why_a_charge_is_what_it_is(look, site, facts):
    got = named([sent(1)], look, site=site)
    assert [name for name in got if name != "rounding" or "rounding" in facts] == facts


def test_half_a_unit_is_no_minimum():
    two = said(input_tokens=2, output_tokens=0)
    half = row(1, 1, prompt_tokens=2, completion_tokens=0, other={**RATIOS, "model_ratio": 0.25})
    site = selling(model_ratio=Decimal("0.25"))
    assert "minimum_charge" not in named([sent(1, two)], books(half), site=site)


def test_cached_tokens_at_a_lower_price_are_named():
    read = said(cache_read_input_tokens=1000)
    assert "cache_discount" in named([sent(1, read)], books(row(1, 88)))
    dear = row(1, 1038, other={**RATIOS, "cache_ratio": 1})
    assert "cache_discount" not in named([sent(1, read)], books(dear), site=selling(cache_ratio=Decimal(1)))


BACK = row(1, 0, kind="refund", after=2)


@pytest.mark.parametrize(
    ("exchanges", "looks", "more", "facts"),
    [
        (TWO, [books(*ROWS)], {"site": SITE.model_copy(update={"display_type": "CNY"})}, ["cny_display"]),
        (TWO, [books(*ROWS)], {"site": SITE.model_copy(update={"display_type": "USD"})}, ["nothing_special"]),
        (TWO, [books(row(1), row(2, plan_billed=True))], {}, ["plan_billed"]),
        (TWO, [books(*ROWS, BACK)], {}, ["refunded"]),
        (TWO, [books(*ROWS, truncated=True)], {}, ["log_truncated"]),
        (TWO, [books(*ROWS, foreign=ForeignRows(count=1))], {}, ["foreign_rows"]),
        (TWO, [books(*ROWS)], {"balance": balances(2 * PAID)}, ["balance_agrees"]),
        (TWO, [books(row(1))], {"balance": balances(PAID)}, ["balance_agrees", "uncharged_calls"]),
        ([sent(1), sent(2, REFUSED, status=400)], [books(row(1))], {"balance": balances(PAID)}, ["balance_agrees"]),
        ([sent(1), lost(2, "s2", delivery="not_sent")], [books(row(1))], {"balance": balances(PAID)}, ["balance_agrees"]),
        (TWO, [books(row(1))], {}, ["nothing_special"]),
        (TWO, [books(row(1), row(2, 0, kind="error"))], {}, ["uncharged_calls"]),
        ([sent(1), sent(2, REFUSED, status=400)], [books(row(1), row(2, 0, kind="error"))], {}, ["nothing_special"]),
        # Rows that a first look did not show
        (TWO, [books(row(1)), books(*ROWS, at=at(90))], {}, ["log_late"]),
        (TWO, [books(row(1), at=at(2)), books(*ROWS, at=at(90))], {}, ["log_late"]),
        (TWO, [books(row(1), at=at(1.9)), books(*ROWS, at=at(90))], {}, ["nothing_special"]),
        (TWO, [books(state="empty"), books(*ROWS, at=at(90))], {}, ["log_late"]),
        (TWO, [books(state="unavailable"), books(*ROWS, at=at(90))], {}, ["nothing_special"]),
        (TWO, [books(*ROWS), books(*ROWS, at=at(90))], {}, ["nothing_special"]),
        (TWO, [books(row(1)), books(row(1), at=at(80)), books(*ROWS, at=at(90))], {}, ["log_late"]),
        (TWO, [books(*ROWS), books(row(1), at=at(80)), books(*ROWS, at=at(90))], {}, ["nothing_special"]),
        (TWO, [books(row(1), row(7, exchange="")), books(row(1), at=at(90))], {}, ["nothing_special"]),
    ],
)  # fmt: skip
def test_what_the_books_show_beside_the_charges(exchanges, looks, more, facts):
    assert named(exchanges, *looks, **more) == facts


def weight(made: Finding) -> tuple[Any, ...]:
    return (made.code, made.params, made.exchanges, made.outcome, made.severity, made.confidence, made.basis)


@pytest.mark.parametrize("exchange", ["X0090", ""])
def test_rows_that_are_missing_loose_foreign_or_cut_off_are_facts_of_the_reading(exchange):
    where = (exchange,) if exchange else ()
    reading = books(row(1), row(9, 5, exchange=""), exchange=exchange, truncated=True, own_earlier=4,
                    foreign=ForeignRows(count=3))  # fmt: skip
    made = judged(TWO, reading)
    assert codes(made) == [
        "billing.matches", "billing.settlement_pending", "billing.unmatched_rows", "billing.foreign_rows", "billing.log_truncated",
    ]  # fmt: skip
    assert [weight(f)[1:3] for f in made[1:]] == [
        ({"n": 1, "of": 2, "waited_s": 58}, ("X0002",)),
        ({"n": 1}, where),
        ({"count": 3}, where),
        ({"rows": 9}, where),
    ]
    assert {f.basis for f in made} == {"relay_word"}
    assert {f.severity for f in made} == {"info"}
    assert (made[0].confidence, made[0].exchanges) == ("supporting", ("X0001",))


def test_a_call_without_a_row_is_not_waited_for_where_no_row_will_come():
    assert "billing.settlement_pending" not in codes(judged(TWO, books(row(1), source="header")))
    assert "billing.settlement_pending" not in codes(judged(TWO, books(row(1)), balance=balances(PAID)))
    differs = judged(TWO, books(row(1)), balance=balances(PAID + 5))
    assert found(differs, "billing.settlement_pending").params["n"] == 1


@pytest.mark.parametrize("exchange", ["X0090", ""])
@pytest.mark.parametrize(
    ("state", "reason", "code", "params"),
    [
        ("unsafe", "key_in_url_only", "billing.log_unsafe_to_read", {"software": "new-api"}),
        ("empty", "", "billing.log_unavailable", {"reason": "empty"}),
        ("limited", "slow_down", "billing.log_unavailable", {"reason": "limited"}),
        ("unavailable", "refused", "billing.log_unavailable", {"reason": "refused"}),
    ],
)
def test_books_that_say_nothing_of_ours_are_no_information(exchange, state, reason, code, params):
    made = only(judged([sent(1)], books(state=state, reason=reason, exchange=exchange)))
    assert weight(made) == (
        code,
        params,
        (exchange,) if exchange else (),
        "inconclusive",
        "info",
        made.confidence,
        "relay_word",
    )


MANY = [sent(n) for n in range(1, 5)]


@pytest.mark.parametrize(
    ("strangers", "said"),
    [(2, "billing.matches"), (3, "billing.log_unavailable"), (9, "billing.log_unavailable")],
)
def test_a_few_rows_that_fit_are_no_match_beside_as_many_that_fit_nothing(strangers, said):
    reading = books(row(1), foreign=ForeignRows(count=strangers, within=strangers))
    told = next(f for f in judged(MANY, reading) if f.code in ("billing.matches", "billing.log_unavailable"))
    assert told.code == said
    if said == "billing.log_unavailable":
        assert (told.params["reason"], told.exchanges, told.basis) == ("few_rows_of_ours", ("X0090",), "relay_word")
    half = books(row(1), row(2), foreign=ForeignRows(count=9, within=9))
    assert "billing.matches" in codes(judged(MANY, half))
