"""Prices at their bounds: what a row is held against, when a list counts, and what each finding says and rests on."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.books import LogRow, PriceReading, RateReading, SiteFacts
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.target import Claim
from tests.assess.evidence_builders import KNOWLEDGE, at, codes
from tests.assess.test_billing_parts import LISTED, RATIOS, SITE, accused, books, found, row, run, sent

DIFFERS, CLAIM, GROUP = (
    "billing.price_differs_from_published", "billing.ratio_differs_from_claim", "billing.group_differs_from_claim",
)  # fmt: skip
HOUR = "12:00-13:00 UTC (20:00-21:00 UTC+8)"
ONE, TWO = [sent(1)], [sent(1), sent(2)]


def judged(exchanges: list[Exchange], *rows: LogRow, model: str | None = None, **more: Any) -> list[Finding]:
    made = run(exchanges, books(*rows), **more)
    if model is not None:
        made = made.model_copy(update={"target": made.target.model_copy(update={"official_model": model})})
    return assess_billing(made, KNOWLEDGE)


def weight(made: Finding) -> tuple[Any, ...]:
    return (made.outcome, made.severity, made.confidence, made.basis, made.exchanges)


def dear(n: int, **more: Any) -> LogRow:
    return row(n, 57, other={**RATIOS, "model_ratio": 1.5, **more})


def listing(**published: Any) -> dict[str, Any]:
    return {"site": SITE.model_copy(update={"published": LISTED.model_copy(update=published)})}


CLOSED = SiteFacts(software="new-api")
SURE = ("mismatch", "high", "strong", "relay_word", ("X0001", "X0002"))
TOLD = {
    "n": 2, "of": 3, "published_rate": "2", "charged_rate": "3", "factor": "1.5", "difference": "0.000076",
    "untrusted_group": "default", "hours": HOUR, "changed": False, "claimed": None, "published": "1", "charged_ratio": "1.333333",
}  # fmt: skip


def test_what_a_dearer_price_says_and_rests_on():
    hit = found(judged([*TWO, sent(3)], dear(1), dear(2), row(3)), DIFFERS)
    assert weight(hit) == SURE
    assert hit.params == TOLD


@pytest.mark.parametrize(("quota", "ratio", "fires"), [(38, 1.005, False), (38, 1.006, True)])
def test_half_a_per_cent_is_the_lists_rounding(quota, ratio, fires):
    made = judged(ONE, row(1, quota, other={**RATIOS, "model_ratio": ratio}))
    assert accused(made) == ([DIFFERS] if fires else [])


def test_a_price_of_nothing_has_no_factor():
    hit = found(judged(ONE, row(1), **listing(model_ratio=Decimal(0))), DIFFERS)
    assert (hit.params["factor"], hit.params["published_rate"], hit.params["difference"]) == (None, "0", "0.000076")


# What a row is held against


def written(text: str) -> dict[str, Any]:
    return {"group_ratio": 1, "billing_mode": "tiered_expr", "expr_b64": base64.b64encode(text.encode()).decode()}


FAST = {"sent": {"service_tier": "fast"}}
AT_NOON = 'p * (hour("UTC") == 12 ? 3 : 1) + c * 0'
IF_FAST = 'p * (param("service_tier") == "fast" ? 3 : 1) + c * 0'


@pytest.mark.parametrize(
    ("sending", "one", "site", "rates"),
    [
        ({}, row(1, 538, other={**RATIOS, "tool_surcharges": [{"count": 1, "price": 1}]}), {}, None),
        ({}, row(1, 27, other=written(AT_NOON)), listing(billing_mode="tiered_expr", billing_expr="p * 3 + c * 0"), None),
        ({}, row(1, 27, other=written("p * 3 + c * 0")), listing(billing_mode="tiered_expr", billing_expr=AT_NOON), None),
        (FAST, row(1, 27, other=written(IF_FAST)), listing(billing_mode="tiered_expr", billing_expr="p * 3 + c * 0"), None),
        (FAST, row(1, 27, other=written("p * 3 + c * 0")), listing(billing_mode="tiered_expr", billing_expr=IF_FAST), None),
        ({}, row(1, 9, other=written(AT_NOON.replace("12", "13"))), listing(billing_mode="tiered_expr", billing_expr=AT_NOON), None),
        ({}, row(1, 27, other=written(AT_NOON)), listing(billing_mode="tiered_expr", billing_expr="p + c * 0"),
         ("0.000018", "0.000054")),
        (FAST, row(1, 27, other=written(IF_FAST)), listing(billing_mode="tiered_expr", billing_expr="p + c * 0"),
         ("0.000018", "0.000054")),
        ({}, row(1, 27, other=written(AT_NOON)), listing(billing_mode="tiered_expr", billing_expr="u(1)"), None),
        ({}, row(1, 27, other=written(AT_NOON)), listing(billing_mode="tiered_expr", billing_expr=""), None),
        ({}, row(1, 250, other={**RATIOS, "model_price": 0.0005, "model_ratio": 0}), listing(quota_type=1, model_price=Decimal("0.0004")),
         ("0.0004", "0.0005")),
        ({}, row(1, 125, other={**RATIOS, "model_price": 0.0005, "model_ratio": 0, "group_ratio": 0.5}),
         {"site": SITE.model_copy(update={"group_ratio": {"default": Decimal("0.5")}, "published":
          LISTED.model_copy(update={"quota_type": 1, "model_price": Decimal("0.0004")})})}, ("0.0002", "0.00025")),
        ({}, row(1, 750, other={**RATIOS, "model_price": 0.0005, "model_ratio": 0, "surge_ratio": 3}),
         listing(quota_type=1, model_price=Decimal("0.0004")), ("0.0004", "0.0015")),
    ],
)  # fmt: skip
def test_every_kind_of_price_is_held_against_its_own_kind(sending, one, site, rates):
    made = judged([sent(1, **sending)], one, **site)
    if rates is None:
        assert accused(made) == []
    else:
        hit = found(made, DIFFERS)
        assert (hit.params["published_rate"], hit.params["charged_rate"]) == rates


@pytest.mark.parametrize(("own", "fires"), [(1.5, False), (0, True), (-1, True)])
def test_a_users_own_ratio_is_in_no_public_list(own, fires):
    made = judged(ONE, row(1, 57, other={**RATIOS, "group_ratio": 1.5, "user_group_ratio": own}))
    assert (DIFFERS in accused(made)) is (fires and own < 0)


# A list that is read again


def look(second: float, ratio: str | None = "1.5", **groups: str) -> PriceReading:
    published = LISTED.model_copy(update={"model_ratio": Decimal(ratio)}) if ratio else None
    return PriceReading(at=at(second), exchange="X0099", published=published,
                        group_ratio={name: Decimal(value) for name, value in (groups or {"default": "1"}).items()})  # fmt: skip


@pytest.mark.parametrize(
    ("looks", "changed"),
    [
        ((look(70),), True),
        ((look(2),), True),  # at the moment of the last sending
        ((look(1.9),), False),
        ((look(70, None),), False),
        ((look(1.9), look(70)), True),
        ((look(70, None), look(80)), True),
        ((look(70, "1.4"),), False),
        ((look(70, pool="1"),), False),  # the group is gone
        ((look(70, default="0.9"),), False),
        ((), False),
    ],
)
def test_a_list_that_shows_what_was_charged_changed_meanwhile(looks, changed):
    hit = found(judged(TWO, dear(1), dear(2), prices=looks), DIFFERS)
    assert hit.params["changed"] is changed
    assert (hit.outcome, hit.severity) == (("match", "info") if changed else ("mismatch", "high"))


def test_every_dearer_row_has_to_be_in_the_later_list():
    rows = (dear(1), row(2, 57, group="pool", other={**RATIOS, "model_ratio": 1.5}))
    assert found(judged(TWO, *rows, prices=(look(70),)), DIFFERS).params["changed"] is False
    assert found(judged(TWO, *rows, prices=(look(70, default="1", pool="1"),)), DIFFERS).params["changed"] is True


@pytest.mark.parametrize(
    ("second", "looks", "said"),
    [
        (900, (), ("high", "strong")),  # fifteen minutes after the list was read
        (901, (), ("low", "supporting")),
        (901, (look(950, "1"),), ("high", "strong")),
        (901, (look(950, None),), ("low", "supporting")),
    ],
)
def test_how_long_a_list_counts(second, looks, said):
    late = sent(1).model_copy(update={"sent_at": at(second)})
    reading = books(dear(1).model_copy(update={"created_at": at(second + 1)}), at=at(second + 60))
    made = assess_billing(run([late], reading, site=SITE, prices=looks), KNOWLEDGE)
    hit = found(made, DIFFERS)
    assert (hit.severity, hit.confidence) == said


@pytest.mark.parametrize(
    ("listed", "rows", "said"),
    [
        ("1", (dear(1), dear(2)), "high"),
        ("1.5", (dear(1), dear(2)), None),
        # The base is as listed, and the output dearer: built in, whatever is listed
        ("1", (row(1, 58, other={**RATIOS, "completion_ratio": 10}), row(2, 58, other={**RATIOS, "completion_ratio": 10})), "low"),
        ("1", (row(1, 58, other={**RATIOS, "model_ratio": 1.005, "completion_ratio": 10}),), "low"),
        ("1", (row(1, 58, other={**RATIOS, "model_ratio": 1.006, "completion_ratio": 10}),), "high"),
        ("0", (row(1, 57, other={**RATIOS, "model_ratio": 1.5}),), "high"),
        ("0", (row(1, 19, other={**RATIOS, "model_ratio": 0.5}),), "high"),
        ("1", (row(1, 250_000, other={**RATIOS, "model_price": 0.5, "model_ratio": 0}),), "high"),
    ],
)  # fmt: skip
def test_a_list_of_ratios_weighs_where_the_base_differs(listed, rows, said):
    made = judged(TWO[: len(rows)], *rows, site=CLOSED, prices=(look(70, listed),))
    assert [f.severity for f in made if f.code == DIFFERS] == ([said] if said else [])


# Three ratios side by side


@pytest.mark.parametrize(
    ("rows", "more", "told"),
    [
        ((row(1), row(2)), {}, (None, "1", "1")),
        ((dear(1), row(2)), {}, (None, "1", "1.25")),
        ((row(1), row(2)), listing(model_ratio=Decimal(2)), (None, "2", "1")),
        ((row(1), row(2, group="vip")), {}, (None, None, "1")),  # a group that the list does not show
        ((row(1), row(2)), {"site": SITE.model_copy(update={"published": None})}, (None, None, "1")),
        ((row(1), row(2)), {"model": "unheard-of"}, (None, None, None)),
        ((row(1), row(2)), {"model": "unheard-of", "claim": Claim(channel="anthropic", ratio=Decimal(3))}, ("3", None, None)),
        ((row(1, 27, other=written(AT_NOON)), row(2, 27, other=written(AT_NOON))),
         listing(billing_mode="tiered_expr", billing_expr=AT_NOON), (None, "0.710526", "0.710526")),
    ],
)  # fmt: skip
def test_three_ratios_side_by_side(rows, more, told):
    made = next(f for f in judged(TWO, *rows, **more) if f.code in ("billing.matches", DIFFERS))
    assert (made.params["claimed"], made.params["published"], made.params["charged_ratio"]) == told


def test_the_request_and_its_hour_enter_the_ratio_that_was_charged():
    made = judged(
        [sent(1, **FAST)],
        row(1, 27, other=written(IF_FAST)),
        **listing(billing_mode="tiered_expr", billing_expr=IF_FAST),
    )
    assert found(made, "billing.matches").params["charged_ratio"] == "0.710526"


def paid(n: int, amount: str) -> LogRow:
    return row(n, other={}, group="").model_copy(update={"quota": None, "amount": Decimal(amount)})


def rate(second: float, multiplier: str | None) -> RateReading:
    told = Decimal(multiplier) if multiplier else None
    return RateReading(at=at(second), exchange="X0095", when="after", multiplier=told)


def test_books_in_dollars_are_told_beside_the_last_multiplier_that_the_site_named():
    rows = (paid(1, "0.000038"), paid(2, "0.000038"), paid(3, "0"))
    made = judged([*TWO, sent(3)], *rows, site=CLOSED, rates=(rate(5, "0.4"), rate(60, "0.5"), rate(70, None)))
    hit = found(made, "billing.matches")
    assert (hit.params["claimed"], hit.params["published"], hit.params["charged_ratio"]) == (None, "0.5", "0.5")


# Against the claim


def claiming(ratio: str | None, group: str = "") -> Claim:
    return Claim(channel="anthropic", ratio=Decimal(ratio) if ratio else None, group=group)


GROUPS = {"group_ratio": {"default": Decimal("0.5"), "pool": Decimal(1)}}
AT_HALF = {"site": SITE.model_copy(update=GROUPS)}
HALF = row(1, 19, other={**RATIOS, "group_ratio": 0.5})
MODEL_TWICE = row(1, 76, other={**RATIOS, "model_ratio": 2})
CLOSED_SITE = {"site": SITE.model_copy(update={"published": None})}


@pytest.mark.parametrize(
    ("one", "claimed", "more", "said"),
    [
        (HALF, "0.5", AT_HALF, None),
        (HALF, "0.498", AT_HALF, None),  # half a per cent
        (HALF, "0.497", AT_HALF, ("info", "supporting", "0.5")),  # a tariff that the list shows
        (HALF, None, AT_HALF, None),
        (row(1), "0.9", {}, ("info", "supporting", "1")),
        (row(1), "0.9", CLOSED_SITE, (None, "strong", "1")),
        (
            MODEL_TWICE,
            "1",
            CLOSED_SITE,
            ("low", "supporting", "2"),
        ),  # the group is as claimed; the model is a tariff, unseen
        (MODEL_TWICE, "1", listing(model_ratio=Decimal(2)), None),  # a markup that the list shows
        (MODEL_TWICE, "0.5", listing(model_ratio=Decimal(2)), ("info", "supporting", "2")),
        (MODEL_TWICE, "0.5", {}, (None, "strong", "2")),
        (row(1, 76, other={**RATIOS, "surge_ratio": 2}), "1", CLOSED_SITE, (None, "strong", "2")),
        (
            row(1, 76, other={**RATIOS, "group_ratio": 2}),
            "1",
            {**CLOSED_SITE, "model": "unheard-of"},
            (None, "strong", "2"),
        ),
        (row(1, 76, other={**RATIOS, "group_ratio": 2}), "2", {**CLOSED_SITE, "model": "unheard-of"}, None),
        (row(1, 19, other={**RATIOS, "model_ratio": 0.5}), "0.6", CLOSED_SITE, None),
        (paid(1, "0.000152"), "1", {"site": CLOSED}, (None, "strong", "2")),
        (paid(1, "0.000152"), "2", {"site": CLOSED}, None),
    ],
)
def test_a_claim_is_broken_where_both_readings_of_it_are(one, claimed, more, said):
    made = judged(ONE, one, claim=claiming(claimed), **more)
    hits = [f for f in made if f.code == CLAIM]
    if said is None:
        assert hits == []
        return
    severity, confidence, charged = said
    assert [(f.severity, f.confidence, f.params["charged_ratio"]) for f in hits] == [
        (severity or "medium", confidence, charged)
    ]
    assert ("billing.matches" in codes(made)) is (severity == "info"), "a tariff that is shown speaks against nothing"
    assert (hits[0].basis, hits[0].exchanges, hits[0].params["n"]) == ("relay_word", ("X0001",), 1)
    assert (hits[0].params["hours"], hits[0].params["untrusted_group"]) == (HOUR, one.group)


# Groups


@pytest.mark.parametrize(
    ("claimed", "groups", "more", "said"),
    [
        ("default", ("default", "pool"), {}, ("medium", "strong", ["pool"], ("X0002",), 2)),
        ("default", ("vip", "pool"), {}, ("medium", "strong", ["pool", "vip"], ("X0001", "X0002"), 2)),
        (" DEFAULT", ("Default ", "default"), {}, None),
        ("default", ("", "pool"), {}, ("medium", "strong", ["pool"], ("X0002",), 1)),
        ("default", ("", ""), {}, None),
        ("", ("pool", "pool"), {}, None),
        ("AUTO", ("pool", "pool"), {}, None),
        ("gold", ("pool", "pool"), {}, ("low", "supporting", ["pool"], ("X0001", "X0002"), 2)),
        ("gold", ("pool", "pool"), {"site": SITE.model_copy(update={"usable_groups": ("Gold",)})},
         ("medium", "strong", ["pool"], ("X0001", "X0002"), 2)),
    ],
)  # fmt: skip
def test_the_group_in_the_rows_beside_the_claimed_one(claimed, groups, more, said):
    made = judged(TWO, *(row(n, group=name) for n, name in enumerate(groups, 1)), claim=claiming(None, claimed), **more)
    hits = [f for f in made if f.code == GROUP]
    if said is None:
        assert hits == []
        return
    severity, confidence, named, exchanges, of = said
    assert [(f.severity, f.confidence, f.exchanges, f.basis) for f in hits] == [
        (severity, confidence, exchanges, "relay_word")
    ]
    assert hits[0].params == {"n": len(exchanges), "of": of, "claimed": claimed.strip(), "untrusted_groups": named}
