"""What a row or a price list states, as a tariff: each field at its place, and what cannot be read is not judged."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_tariff import further, ratio, readings_of, recompute, tariff_of_row, tariff_published
from relay_audit.books import LogRow, Published
from relay_audit.tariff import Tariff
from relay_audit.usage import Usage
from tests.assess.evidence_builders import MODEL, START, at

RATIOS = {"model_ratio": 2, "group_ratio": 0.5, "completion_ratio": 5}
PLAIN = {"model": Decimal(2), "group": Decimal("0.5"), "completion": Decimal(5), "cache_read": Decimal(1)}
WRITES = {"cache_write_5m": Decimal("1.25"), "cache_write_1h": Decimal(2)}


def writes(five: str, hour: str) -> dict[str, Decimal]:
    return {**PLAIN, "cache_write_5m": Decimal(five), "cache_write_1h": Decimal(hour)}


def row(**other: Any) -> LogRow:
    return LogRow(created_at=START, kind="consume", model=MODEL, quota=1, other={**RATIOS, **other})


def written(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("other", "tariff"),
    [
        ({}, {**PLAIN, **WRITES}),
        ({"cache_ratio": 0.1}, {**PLAIN, **WRITES, "cache_read": Decimal("0.1")}),
        ({"cache_ratio": -1}, {**PLAIN, **WRITES}),
        ({"cache_creation_ratio": 1}, writes("1", "1.6")),
        (
            {"cache_creation_ratio": 1, "cache_creation_ratio_5m": 3},
            writes("3", "4.8"),
        ),
        (
            {"cache_creation_ratio_5m": 3, "cache_creation_ratio_1h": 0},
            writes("3", "0"),
        ),
        ({"surge_ratio": 3, "night_multiplier": 0.5, "plan_factor": 4}, {**PLAIN, **WRITES, "factor": Decimal(6)}),
        ({"surge_ratio": 0, "night_multiplier": -2, "n": 7}, {**PLAIN, **WRITES}),
        ({"surge_ratio": 0.25}, {**PLAIN, **WRITES, "factor": Decimal("0.25")}),
        (
            {"tool_surcharges": [{"count": 2, "price": 10}, {"count": 1, "price": 5}]},
            {**PLAIN, **WRITES, "surcharge": Decimal("0.025")},
        ),
        ({"tool_surcharges": [{"count": 0, "price": 10}, {"count": 3, "price": 0}]}, {**PLAIN, **WRITES}),
        ({"tool_surcharges": [{"count": 0.5, "price": 0.5}]}, {**PLAIN, **WRITES, "surcharge": Decimal("0.00025")}),
        ({"model_price": 0.3}, {"fixed": Decimal("0.3"), "group": Decimal("0.5")}),
        (
            {"model_price": 0.3, "surge_ratio": 3, "tool_surcharges": [{"count": 1, "price": 1}]},
            {"fixed": Decimal("0.3"), "group": Decimal("0.5"), "factor": Decimal(3), "surcharge": Decimal("0.001")},
        ),
        ({"model_price": 0, "model_ratio": 0}, {"fixed": Decimal(0), "group": Decimal("0.5")}),
        ({"model_price": 0}, {**PLAIN, **WRITES}),
        ({"model_price": -1}, {**PLAIN, **WRITES}),
        (
            {"billing_mode": "tiered_expr", "expr_b64": written("p * 3")},
            {"expression": "p * 3", "group": Decimal("0.5")},
        ),
        (
            {"expr_b64": written("p * 3"), "surge_ratio": 3},
            {"expression": "p * 3", "group": Decimal("0.5"), "factor": Decimal(3)},
        ),
    ],
)
def test_a_row_states_its_tariff(other, tariff):
    assert tariff_of_row(row(**other)) == Tariff(**tariff)


@pytest.mark.parametrize(
    "surcharges",
    [
        {"count": 1, "price": 1},
        "1",
        [None],
        [[1, 1]],
        [{"price": 1}],
        [{"count": 1}],
        [{"count": -1, "price": 1}],
        [{"count": 1, "price": -1}],
        [{"count": 1, "price": 1}, {"count": 1}],
        [{"count": "x", "price": -1}],
    ],
)
def test_a_row_whose_tool_calls_cannot_be_read_is_not_judged(surcharges):
    assert tariff_of_row(row(tool_surcharges=surcharges)) is None


@pytest.mark.parametrize("tools", [None, [], {}, 0])
def test_a_row_without_tool_calls_has_no_surcharge(tools):
    assert tariff_of_row(row(tool_surcharges=tools)) == Tariff(**PLAIN, **WRITES)


def test_a_video_row_and_a_mode_without_its_expression_are_not_judged():
    assert tariff_of_row(row().model_copy(update={"task": "task_1"})) is None
    assert tariff_of_row(row(billing_mode="tiered_expr")) is None
    assert tariff_of_row(row(expr_b64="!")) is None
    assert further(row(image_ratio=3, cache_creation_ratio_1h=2)) == 1


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, "1"),
        ("0.3", "0.3"),
        (Decimal("0.3"), "0.3"),
        (-999_999, "-999999"),
        (True, None),
        (False, None),
        (None, None),
        ("", None),
        ("NaN", None),
        ("Infinity", None),
        (1_000_000, None),
        (-1_000_000, None),
        ([1], None),
        ("1e400", None),
    ],
)
def test_what_a_ratio_is(value, number):
    assert ratio(value) == (None if number is None else Decimal(number))


LISTED = {"model_ratio": Decimal(2), "completion_ratio": Decimal(5)}
HALF = Decimal("0.5")


@pytest.mark.parametrize(
    ("published", "tariff"),
    [
        (LISTED, {**PLAIN, **WRITES}),
        ({**LISTED, "cache_ratio": Decimal("0.1")}, {**PLAIN, **WRITES, "cache_read": Decimal("0.1")}),
        (
            {**LISTED, "create_cache_ratio": Decimal(2)},
            writes("2", "3.2"),
        ),
        ({"model_ratio": Decimal(2)}, None),
        ({"completion_ratio": Decimal(2)}, None),
        ({"quota_type": 1, "model_price": Decimal("0.3")}, {"fixed": Decimal("0.3"), "group": HALF}),
        ({"quota_type": 1, **LISTED}, None),
        ({"quota_type": 0, "model_price": Decimal("0.3"), **LISTED}, {**PLAIN, **WRITES}),
        ({"billing_mode": "tiered_expr", "billing_expr": "p * 3", **LISTED}, {"expression": "p * 3", "group": HALF}),
        ({"billing_expr": "p * 3"}, {"expression": "p * 3", "group": HALF}),
        ({"billing_mode": "tiered_expr", **LISTED}, None),
    ],
)
def test_a_price_list_states_its_tariff(published, tariff):
    assert tariff_published(Published(**published), HALF) == (None if tariff is None else Tariff(**tariff))


SEEN = Usage(input=100, cache_read=30, cache_write_5m=5, cache_write_1h=2, output=7)
BOTH = (SEEN, SEEN.model_copy(update={"input": 137}))


@pytest.mark.parametrize(
    ("other", "includes", "usage", "readings"),
    [
        ({"claude": True}, True, SEEN, BOTH),
        ({"usage_semantic": "anthropic"}, True, SEEN, BOTH),
        ({"usage_semantic": "anthropic", "claude": False}, True, SEEN, BOTH),
        ({"usage_semantic": "openai"}, True, SEEN, (SEEN,)),
        ({"claude": False}, True, SEEN, (SEEN,)),
        ({}, True, SEEN, (SEEN,)),
        ({"claude": True}, False, SEEN, (SEEN,)),
        ({"claude": True}, True, Usage(input=3, output=1), (Usage(input=3, output=1),)),
    ],
)
def test_cached_tokens_may_stand_beside_the_prompt_or_in_it(other, includes, usage, readings):
    assert readings_of(usage, row(**other), includes_cache=includes) == readings


def test_a_price_of_the_hour_and_of_the_request_is_computed_for_both():
    text = written('(tier("a", p * 1)) * (hour("UTC") == 12 ? 3 : 1) * (param("service_tier") == "fast" ? 2 : 1)')
    one, usage = row(expr_b64=text, group_ratio=1), Usage(input=1_000_000)
    assert recompute(one, usage) == 1_500_000
    assert recompute(one, usage, body={"service_tier": "fast"}) == 3_000_000
    assert recompute(one, usage, at=at(3600)) == 500_000
    assert recompute(one, usage, 1000) == 3000
