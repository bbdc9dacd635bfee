"""A balance without rows: spans, boundaries, and what a call without an answer comes to."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_unlogged import fell_without_rows
from relay_audit.books import USAGE_PAGES, BalanceReading, ForeignRows, LogReading, PriceReading
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.quote import Prices, UnitPrice, make_quote
from relay_audit.target import Claim
from tests.assess.evidence_builders import START, at, lost, only
from tests.assess.test_billing_parts import LISTED, PAID, REFUSED, SITE, books, run, sent

CALLS = [sent(n) for n in range(1, 5)]
TWICE = ((0, 0), (1.5, 2 * PAID), (30, 8 * PAID))
"""One call in the first span, three in the second; twice the price in both."""
EMPTY = LogReading(at=at(60), exchange="X0090", state="empty", reason="empty")
PRICE = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=START.date())


def evidence(*spans: tuple[float, int], exchanges: list[Exchange] | None = None, log: tuple[LogReading, ...] = (EMPTY,),
             price: UnitPrice | None = PRICE, group: str = "default", adapters: tuple[str, ...] = (), **more: Any) -> Evidence:  # fmt: skip
    told = [*adapters, *["new_api"] * (len(spans) - len(adapters))]
    readings = tuple(
        BalanceReading(at=at(s), exchange=f"X01{n:02}", used_quota=1001 + q, adapter=told[n])
        for n, (s, q) in enumerate(spans)
    )
    claim = Claim(channel="anthropic", group=group)
    made = run(
        CALLS if exchanges is None else exchanges, EMPTY, claim=claim, balance=readings, **{"site": SITE, **more}
    )
    quote = make_quote(made.plan, Prices(relay=price), {}, START) if price and made.plan else None
    return made.model_copy(update={"quote": quote, "log": log})


def judged(*spans: tuple[float, int], **more: Any) -> list[Finding]:
    return fell_without_rows(evidence(*spans, **more))


def weight(made: Finding) -> tuple[str, str]:
    return (made.severity, made.confidence)


SURE, WEAK = ("high", "strong"), ("low", "supporting")


@pytest.mark.parametrize(
    ("spans", "since", "said"),
    [(TWICE, "12:00:00", SURE), (((0.5, 0), (1.5, 2 * PAID), (5, 8 * PAID)), "12:00:00", WEAK)],
)
def test_what_it_says_and_rests_on(spans, since, said):
    made = only(judged(*spans))
    assert (made.code, made.outcome, made.basis, made.exchanges) == (
        "billing.overcharged", "mismatch", "relay_word", ("X0001", "X0002", "X0003", "X0004"),
    )  # fmt: skip
    assert weight(made) == said
    assert made.params == {
        "n": 4, "charged": "0.000608", "recomputed": "0.000304", "difference": "0.000304", "cause": "no_row", "road": "unlogged",
        "since": since, "until": f"12:00:{spans[-1][0]:02}",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fell", "said"),
    [
        (159, False),  # 4 × 38 is 152; five per cent and a unit a call: 163.6
        (163, False),
        (164, True),
    ],
)
def test_five_per_cent_and_a_unit_for_each_call_are_rounding(fell, said):
    assert bool(judged((0, 0), (30, fell))) is said


def test_exactly_five_per_cent_and_rounding_are_not_above():
    calls = [sent(n, {"usage": {"input_tokens": 20, "output_tokens": 0}, "content": []}) for n in (1, 2)]
    assert judged((0, 0), (30, 44), exchanges=calls) == []  # 40 × 1.05 + 2
    assert len(judged((0, 0), (30, 45), exchanges=calls)) == 1


@pytest.mark.parametrize(
    ("spans", "more", "said"),
    [
        (TWICE, {}, SURE),
        (((0, 0), (1.5, 2 * PAID), (14, 8 * PAID)), {}, SURE),  # ten seconds after the last call
        (((0, 0), (1.5, 2 * PAID), (13.9, 8 * PAID)), {}, WEAK),
        (((0, 0), (1.5, 80), (30, 80 + 264)), {}, SURE),  # multiples of 80/38 and 264/114 = 1.1 times as much
        (((0, 0), (1.5, 80), (30, 80 + 265)), {}, WEAK),
        (((0, 0), (30, 8 * PAID)), {}, WEAK),
        (((0, 0), (1.5, 61), (30, 243)), {}, WEAK),  # below 1.6 times: a ratio of the user's own
        (((0, 0), (1.5, 61), (30, 244)), {}, SURE),
        (TWICE, {"adapters": (USAGE_PAGES,) * 3}, WEAK),  # a page that alone accuses nobody
        (TWICE, {"group": ""}, WEAK),
        (TWICE, {"group": "unheard_of"}, WEAK),
    ],
)
def test_what_it_weighs(spans, more, said):
    assert weight(only(judged(*spans, **more))) == said


def priced(**ratios: str) -> Any:
    return SITE.model_copy(update={"group_ratio": {name: Decimal(value) for name, value in ratios.items()}})


def look(**more: Any) -> dict[str, Any]:
    return {"prices": (PriceReading(at=at(70), exchange="X0099", **more),)}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"site": priced(default="1", vip="2")}, WEAK),  # the key may sit there
        ({"site": priced(default="0.5", vip="1")}, WEAK),
        ({"site": priced(default="0.5", vip="2")}, SURE),
        ({"site": priced(default="1", vip="1.81")}, SURE),
        ({"site": priced(default="1", vip="1.82")}, WEAK),
        ({"site": priced(default="1", vip="2.2")}, WEAK),
        ({"site": priced(default="1", vip="2.21")}, SURE),
        ({"site": priced(default="0")}, WEAK),
        (look(published=LISTED), SURE),
        (look(published=LISTED.model_copy(update={"model_ratio": Decimal(2)})), WEAK),
        (look(), SURE),
        (look(group_ratio={"default": Decimal(1)}), SURE),
        (look(group_ratio={"default": Decimal(2)}), WEAK),
        (look(group_ratio={"other": Decimal(1)}), WEAK),
    ],
)
def test_another_tariff_that_would_explain_it_takes_its_weight(more, said):
    assert weight(only(judged(*TWICE, **more))) == said


@pytest.mark.parametrize(
    ("spans", "more"),
    [
        (((0, 0),), {}),
        (TWICE, {"exchanges": []}),
        (TWICE, {"adapters": ("page", "new_api")}),
        (TWICE, {"log": (books(foreign=ForeignRows(count=1, within=1)),)}),
        (TWICE, {"log": (books(own_earlier=1),)}),
        (((0, 0), (1.5, 2 * PAID), (2.5, PAID), (30, 9 * PAID)), {}),  # it rose
        (((0, 0), (1.5, 2 * PAID), (30, 8 * PAID), (40, 8 * PAID + 1)), {}),  # it falls while nothing is sent
        (TWICE, {"price": None}),
        (TWICE, {"price": PRICE.model_copy(update={"assumed": True})}),
        (TWICE, {"price": PRICE.model_copy(update={"input": Decimal(0), "output": Decimal(0)})}),
        (TWICE, {"exchanges": [*CALLS[:3], lost(4, "s4")]}),
        (TWICE, {"exchanges": [*CALLS[:3], sent(4, {"content": []})]}),  # answered without a usage
        (TWICE, {"exchanges": [sent(n, REFUSED, status=400) for n in range(1, 5)]}),  # nothing that costs anything
    ],
)
def test_nothing_is_said_where_amounts_may_be_somebody_elses_or_are_not_known(spans, more):
    assert judged(*spans, **more) == []


@pytest.mark.parametrize("free", [sent(4, REFUSED, status=400), lost(4, "s4", delivery="not_sent")])
def test_a_refusal_and_what_was_never_sent_come_to_nothing(free):
    made = only(judged(*TWICE, exchanges=[*CALLS[:3], free]))
    assert (made.params["recomputed"], made.params["difference"]) == ("0.000228", "0.00038")


def test_a_call_at_the_moment_of_a_reading_belongs_to_the_span_that_begins_there():
    made = only(judged((1, 0), (2, 2 * PAID), (30, 8 * PAID)))
    assert weight(made) == SURE


def test_a_reading_that_stands_still_between_two_calls_is_no_other_traffic():
    made = only(judged((0, 0), (0.5, 0), (1.5, 2 * PAID), (30, 8 * PAID), (40, 8 * PAID)))
    assert (weight(made), made.params["until"]) == (SURE, "12:00:40")


def test_a_log_that_shows_nothing_since_the_run_began_hides_nothing():
    assert len(judged(*TWICE, log=(books(foreign=ForeignRows(count=3)),))) == 1
    assert len(judged(*TWICE, log=())) == 1
