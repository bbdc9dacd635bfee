"""A charge computed again: how a row counts its tokens, which mistake explains a difference, and what is said of it."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.assess.billing_amounts import told_multiplier
from relay_audit.assess.billing_arithmetic import Judged, arithmetic, judge, row_usage
from relay_audit.assess.billing_calls import Bill, bill_of, dollars, hours
from relay_audit.books import LogRow, RateReading, SiteFacts, UsageReading
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.usage import Usage
from tests.assess.evidence_builders import KNOWLEDGE, at, codes, only
from tests.assess.test_billing_parts import PAID, RATIOS, SITE, balances, books, row, run, said, sent

SEEN = Usage(input=100, cache_read=30, cache_write_5m=5, cache_write_1h=2, output=7)
ANTHROPIC = {"usage_semantic": "anthropic"}


def weight(made: Finding) -> tuple[Any, ...]:
    return (made.code, made.outcome, made.severity, made.confidence, made.basis, made.exchanges)


@pytest.mark.parametrize(
    ("columns", "other", "counted"),
    [
        # The columns that a row lacks are as the client saw them; they stand inside the prompt …
        ({}, {}, (163, 30, 5, 2)),
        ({"cache_read": 10}, {}, (183, 10, 5, 2)),
        ({"cache_write_5m": 1}, {}, (167, 30, 1, 2)),
        ({"cache_write_1h": 9}, {}, (156, 30, 5, 9)),
        ({"cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0}, {}, (200, 0, 0, 0)),
        # … unless the row says that its vendor counts them beside it
        ({}, ANTHROPIC, (200, 30, 5, 2)),
        ({}, {"claude": True}, (200, 30, 5, 2)),
        ({}, {**ANTHROPIC, "claude": False}, (200, 30, 5, 2)),
        ({}, {"claude": False}, (163, 30, 5, 2)),
        ({}, {"usage_semantic": "openai", "claude": "yes"}, (163, 30, 5, 2)),
        ({"prompt_tokens": 12}, {}, (0, 30, 5, 2)),
        ({"prompt_tokens": 37}, {}, (0, 30, 5, 2)),
    ],
)
def test_how_a_row_counts_its_tokens(columns, other, counted):
    one = row(1, **{"prompt_tokens": 200, "completion_tokens": 9, "other": other, **columns})
    own, read, five, hour = counted
    assert row_usage(one, SEEN) == Usage(input=own, cache_read=read, cache_write_5m=five, cache_write_1h=hour, output=9)


def billed(exchanges: list[Exchange], *rows: LogRow) -> Bill:
    bill = bill_of(run(exchanges, books(*rows)))
    assert bill is not None
    return bill


def done(exchanges: list[Exchange], *rows: LogRow, includes_cache: bool = False) -> tuple[Judged, ...]:
    return judge(billed(exchanges, *rows), includes_cache=includes_cache)


@pytest.mark.parametrize(
    ("quota", "more", "cause"),
    [
        (58, {"prompt_tokens": 38}, "tokens"),
        (59, {"prompt_tokens": 38}, "tokens"),
        (60, {"prompt_tokens": 38}, "both"),
        (58, {"completion_tokens": 8}, "tokens"),
        (78, {"prompt_tokens": 38, "completion_tokens": 8}, "tokens"),
        (76, {}, "arithmetic"),
        (99, {"completion_tokens": 8}, "both"),
    ],
)
def test_what_a_difference_comes_from(quota, more, cause):
    [item] = done([sent(1)], row(1, quota, **more))
    assert (item.cause, item.agrees) == (cause, False)


def test_a_prompt_that_holds_the_cached_tokens_is_the_same_count():
    read = said(cache_read_input_tokens=1000)
    [item] = done([sent(1, read)], row(1, 500, prompt_tokens=1018))
    assert item.cause == "arithmetic"


def test_causes_that_differ_are_both():
    bill = billed([sent(1), sent(2)], row(1, 58, prompt_tokens=38), row(2, 76))
    made = only(arithmetic(judge(bill, includes_cache=False), bill))
    assert weight(made) == ("billing.overcharged", "mismatch", "high", "strong", "relay_word", ("X0001", "X0002"))
    assert made.params == {
        "n": 2,
        "charged": "0.000268",
        "recomputed": "0.000152",
        "difference": "0.000116",
        "cause": "both",
    }
    assert (made.expected, made.observed) == ({"quota": 76}, {"quota": 134})


def asked(*outputs: int) -> list[Exchange]:
    """Calls that come to 18 units and five for each token of output."""
    return [sent(n, said(output_tokens=tokens)) for n, tokens in enumerate(outputs, 1)]


def taken(n: int, quota: int, tokens: int, **more: Any) -> LogRow:
    return row(n, quota, completion_tokens=tokens, **more)


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        ((taken(1, 100, 4), taken(2, 100, 5), taken(3, 100, 6)), "minimum"),
        ((taken(1, 100, 4), taken(2, 100, 4), taken(3, 100, 5)), "minimum"),
        ((taken(1, 100, 4), taken(2, 100, 5), taken(3, 100, 6), taken(4, 118, 20)), "minimum"),  # one above it by itself
        ((taken(1, 100, 4), taken(2, 100, 5)), "arithmetic"),  # two may be chance
        ((taken(1, 100, 4), taken(2, 100, 4), taken(3, 100, 4)), "arithmetic"),  # one sum, and one charge for it
        ((taken(1, 100, 4), taken(2, 101, 5), taken(3, 100, 6)), "arithmetic"),
        ((taken(1, 100, 4), taken(2, 100, 5), taken(3, 100, 6), taken(4, 38, 4)), "arithmetic"),  # less is charged too
        (tuple(taken(n, 100, n + 3, prompt_tokens=85 - 5 * n) for n in (1, 2, 3)), "tokens"),
    ],
)  # fmt: skip
def test_a_least_charge_per_call_is_told_by_its_shape(rows, cause):
    bill = billed(asked(*(one.completion_tokens for one in rows)), *rows)
    made = only(arithmetic(judge(bill, includes_cache=False), bill))
    assert (made.code, made.params["cause"]) == ("billing.overcharged", cause)


def test_two_units_are_a_difference_either_way_and_one_is_rounding():
    bill = billed([sent(n) for n in range(1, 6)], row(1, 40), row(2, 36), row(3, 39), row(4, 37), row(5, 38))
    above, below = arithmetic(judge(bill, includes_cache=False), bill)
    assert (above.code, above.params["difference"], above.exchanges) == ("billing.overcharged", "0.000004", ("X0001",))
    assert weight(below) == ("billing.undercharged", "match", "info", below.confidence, "relay_word", ("X0002",))
    assert below.params == {"n": 1, "difference": "0.000004"}


READ = said(cache_read_input_tokens=1000)
HOURS = said(cache_creation_input_tokens=1000, cache_creation={"ephemeral_1h_input_tokens": 1000})
FIVES = said(cache_creation_input_tokens=1000)
MIXED = said(cache_creation_input_tokens=2000, cache_creation={"ephemeral_1h_input_tokens": 1000})


AGAIN = {id(READ): 138, id(HOURS): 2038, id(FIVES): 1288, id(MIXED): 3288}
"""What each of them comes to."""


@pytest.mark.parametrize(
    ("body", "quota", "kind", "severity"),
    [
        (READ, 1038, "read_as_input", "medium"),
        (READ, 1039, "read_as_input", "medium"),
        (READ, 1037, "read_as_input", "medium"),
        (READ, 1040, None, None),
        (HOURS, 1288, "hour_as_five_minutes", "low"),
        (FIVES, 2038, "five_minutes_as_hour", "medium"),
        (FIVES, 2037, "five_minutes_as_hour", "medium"),
        (FIVES, 2040, None, None),
        (MIXED, 38 + 1250 + 1250, "hour_as_five_minutes", "low"),
        (MIXED, 38 + 2000 + 2000, "five_minutes_as_hour", "medium"),
        (MIXED, 9999, None, None),
    ],
)
def test_cached_tokens_that_were_taken_for_others(body, quota, kind, severity):
    bill = billed([sent(1, body)], row(1, quota, other={**RATIOS, "cache_ratio": 0.1}))
    made = only(arithmetic(judge(bill, includes_cache=False), bill))
    assert (made.code, made.params.get("kind")) == (
        "billing.cache_misbilled" if kind else "billing.overcharged", kind,
    )  # fmt: skip
    if kind:
        assert weight(made)[1:] == ("mismatch", severity, "strong", "relay_word", ("X0001",))
        assert (made.expected, made.observed) == ({"quota": AGAIN[id(body)]}, {"quota": quota})
        assert made.params["charged"] == dollars(Decimal(quota) / 500_000)
        assert made.params["recomputed"] == dollars(Decimal(made.expected["quota"]) / 500_000)
        assert made.params["difference"] == dollars(Decimal(quota - made.expected["quota"]) / 500_000)


def test_two_mistakes_that_both_explain_a_charge_explain_nothing():
    """As many tokens written for five minutes as read at a ratio of 1.25: either would give the charge."""
    both = said(cache_read_input_tokens=1000, cache_creation_input_tokens=1000)
    other = {**RATIOS, "cache_ratio": 0.25, "cache_creation_ratio_5m": 1.25, "cache_creation_ratio_1h": 2}
    bill = billed([sent(1, both)], row(1, 38 + 250 + 1250 + 750, other=other))
    assert codes(arithmetic(judge(bill, includes_cache=False), bill)) == ["billing.overcharged"]


def test_a_multiplier_that_was_not_charged_is_information_only():
    [taken] = done([sent(1)], row(1, 76, other={**RATIOS, "surge_ratio": 2}))
    assert (taken.tariff.factor, taken.again) == (2, 76)
    [shown] = done([sent(1)], row(1, 38, other={**RATIOS, "surge_ratio": 2}))
    assert (shown.tariff.factor, shown.again) == (1, 38)
    [between] = done([sent(1)], row(1, 70, other={**RATIOS, "surge_ratio": 2}))
    assert (between.tariff.factor, between.difference) == (2, -6)


def test_cached_tokens_are_counted_as_comes_nearest_where_the_row_says_another_vendor():
    body = said(cache_read_input_tokens=1000)
    other = {**RATIOS, **ANTHROPIC, "cache_ratio": 0.1}
    [apart] = done([sent(1, body)], row(1, 138, other=other), includes_cache=True)
    assert (apart.usage.input, apart.agrees) == (18, True)
    [inside] = done([sent(1, body)], row(1, 1138, other=other), includes_cache=True)
    assert (inside.usage.input, inside.agrees) == (1018, True)
    [plain] = done([sent(1, body)], row(1, 1138, other=other))
    assert plain.agrees is False


def written(text: str) -> dict[str, Any]:
    return {"group_ratio": 1, "billing_mode": "tiered_expr", "expr_b64": base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("text", "quota"),
    [('p * (hour("UTC") == 12 ? 3 : 1) + c * 0', 27), ('p * (param("service_tier") == "fast" ? 3 : 1) + c * 0', 27)],
)
def test_an_expression_is_computed_for_its_hour_and_its_request(text, quota):
    [item] = done([sent(1, sent={"service_tier": "fast"})], row(1, quota, other=written(text)))
    assert (item.again, item.agrees) == (quota, True)


def test_what_cannot_be_computed_is_not_judged():
    assert done([sent(1)], row(1, other=written("u(1)"))) == ()
    assert done([sent(1)], row(1), row(1, 39)) == ()  # two rows that took different amounts
    assert len(done([sent(1)], row(1), row(1))) == 1
    assert len(done([sent(1)], row(1), row(1, 20, kind="refund"))) == 1
    assert done([sent(1)], row(1, estimated=True)) == ()
    assert done([sent(1)], row(1, quota=None, amount=Decimal(1))) == ()
    assert done([sent(1, {"content": []})], row(1)) == ()
    [free] = done([sent(1)], row(1, 0))
    assert (free.charged, free.difference) == (0, -38)


def test_one_call_that_cannot_be_computed_leaves_the_others():
    made = done([sent(1), sent(2, {"content": []}), sent(3)], row(1, estimated=True), row(2), row(3))
    assert [item.call.id for item in made] == ["X0003"]


def test_an_assessment_counts_cached_tokens_as_its_dialect_does():
    """Where a prompt holds the cached tokens, a row of another vendor's may leave them out."""
    held = said(input_tokens=1918, cache_read_input_tokens=1000)
    charged = 1918 + 100 + 20
    other = {**RATIOS, **ANTHROPIC, "cache_ratio": 0.1}
    apart = run([sent(1, held)], books(row(1, charged, prompt_tokens=1918, other=other)), site=SiteFacts())
    assert "billing.matches" in codes(assess_billing(apart, KNOWLEDGE))
    inside = apart.pack.usage.model_copy(update={"input_includes_cache": True})
    pack = apart.pack.model_copy(update={"usage": inside})
    assert "billing.matches" in codes(assess_billing(apart.model_copy(update={"pack": pack}), KNOWLEDGE))


def test_a_page_and_a_balance_that_are_one_counter_are_named_once():
    pages = tuple(
        UsageReading(
            at=at(s), exchange="X0093", when="after", state="read", printed=Decimal(told), dollars=Decimal(told)
        )
        for s, told in ((0, "1.000000"), (61, "1.000076"))
    )
    made = assess_billing(
        run([sent(1), sent(2)], books(row(1), row(2)), balance=balances(PAID), usage=pages, site=SITE), KNOWLEDGE
    )
    assert [f.params["endpoint"] for f in made if f.code == "billing.usage_endpoint_unreliable"] == ["balance"]


# Books in dollars against the multiplier that the site tells


def paid(n: int, amount: str | None, listed: str | None = None, **more: Any) -> LogRow:
    told = {"amount": Decimal(amount) if amount else None, "list_amount": Decimal(listed) if listed else None}
    return row(n, other={}, group="").model_copy(update={"quota": None, **told, **more})


def rates(*told: str | None) -> tuple[RateReading, ...]:
    return tuple(
        RateReading(at=at(n), exchange="X0095", when="after", multiplier=Decimal(value) if value else None)
        for n, value in enumerate(told)
    )


def multiplied(
    *rows: LogRow, told: tuple[RateReading, ...] = (), exchanges: list[Exchange] | None = None
) -> list[Finding]:
    made = run(
        exchanges or [sent(1), sent(2), sent(3)],
        books(*rows),
        site=SiteFacts(software="sub2api"),
        rates=told or rates("0.5"),
    )
    bill = bill_of(made)
    assert bill is not None
    return told_multiplier(made, KNOWLEDGE, bill)


def test_a_multiplier_above_the_told_one_says_its_figures():
    made = only(multiplied(paid(1, "0.00008", "0.0001"), paid(2, "0.00004", "0.00004"), paid(3, "0.00005", "0.0001")))
    assert weight(made) == (
        "billing.price_differs_from_published", "mismatch", "high", "strong", "relay_word", ("X0001", "X0002"),
    )  # fmt: skip
    assert made.params == {
        "n": 2, "of": 3, "published_rate": "0.5", "charged_rate": "0.857142857", "factor": "1.7143", "difference": "0.00005",
        "hours": "12:00-13:00 UTC (20:00-21:00 UTC+8)", "claimed": None, "published": "0.5", "charged_ratio": "0.8571",
        "road": "multiplier",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "told", "fires"),
    [
        (paid(1, "0.0005125", "0.001"), rates("0.5"), False),  # two and a half per cent
        (paid(1, "0.0005126", "0.001"), rates("0.5"), True),
        (paid(1, "0.0006", "0.001"), rates("0.5", "0.6"), False),  # the highest that was told
        (paid(1, "0.0006", "0.001"), rates(None), False),
        (paid(1, "0.0006", "0.001"), rates("0.5", None), True),
        (paid(1, "0.0006", "0.001"), rates("0"), False),
        (paid(1, "0.000076"), rates("0.5"), True),  # against the vendor's list: 18 in and 4 out
        (paid(1, "0.000076"), rates("1"), False),
        (paid(1, "0.00003", "0.00001"), rates("0.5"), True),
        (paid(1, "0.00003", "0.0000099"), rates("0.5"), False),  # too small a figure
        (paid(1, "0.00001", "0.00001"), rates("0.5"), True),
        (paid(1, "0.0000099", "0.00001"), rates("0.5"), False),
        (paid(1, "0.0006", "0.001", kind="error"), rates("0.5"), False),
        (paid(1, None), rates("0.5"), False),
        (paid(1, "0.0006", "0"), rates("0.5"), False),
    ],
)  # fmt: skip
def test_what_is_held_against_the_told_multiplier(one, told, fires):
    assert bool(multiplied(one, told=told)) is fires


def test_calls_with_two_rows_or_without_a_usage_are_passed_over():
    rows = (
        paid(1, "0.0006", "0.001"),
        paid(1, "0.0006", "0.001"),
        paid(2, "0.0006", "0.001"),
        paid(3, "0.0006", "0.001"),
    )
    made = only(multiplied(*rows, exchanges=[sent(1), sent(2, {"content": []}), sent(3)]))
    assert (made.params["n"], made.params["of"], made.exchanges) == (1, 1, ("X0003",))


def test_books_in_units_are_not_held_against_a_multiplier():
    made = run([sent(1)], books(row(1, 76)), site=SITE, rates=rates("0.5"))
    bill = bill_of(made)
    assert bill is not None
    assert told_multiplier(made, KNOWLEDGE, bill) == []


def test_hours_are_whole_and_written_in_both_zones():
    calls = billed([sent(1), sent(2)], row(1)).calls
    late = billed([sent(1).model_copy(update={"sent_at": at(4 * 3600 + 59)})], row(1)).calls
    assert hours(calls) == "12:00-13:00 UTC (20:00-21:00 UTC+8)"
    assert hours([*calls, *late]) == "12:00-17:00 UTC (20:00-01:00 UTC+8)"
    assert hours([]) == ""
