"""Check 6 against the lab's own till: each fault with its amount to the last quota unit, each circumstance by its name."""

from __future__ import annotations

import json
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest

from relay_audit.assess.billing_calls import dollars
from relay_audit.lab import SCENARIOS
from relay_audit.relays import new_api
from tests.staged import Staged, staged

pytestmark = pytest.mark.deep
PER_UNIT = 500_000
QUICK = {"profile": "quick", "checks": [2, 6]}


class Till:
    """What the lab itself knows of a run: its rows, and what left the balance without one."""

    def __init__(self, stage: Staged) -> None:
        assert stage.world.log is not None
        self.log = stage.world.log
        self.rows = self.log.own_rows()
        self.sent = {e.response.header(new_api.REQUEST_ID): e for e in stage.history.sent() if e.response}

    def sum(self, *rows: dict[str, Any]) -> int:
        return sum(row["quota"] for row in rows)

    def unlogged(self) -> int:
        return self.log.unlogged

    def halves(self) -> int:
        return self.sum(*self.rows) // 2

    def repeats(self) -> int:
        """Rows beyond the first of an id."""
        seen: Counter[str] = Counter()
        again = []
        for row in self.rows:
            again += [row] * (seen[row["request_id"]] > 0)
            seen[row["request_id"]] += 1
        return self.sum(*again)

    def under_other_ids(self) -> int:
        return self.sum(*(row for row in self.rows if row["request_id"] not in self.sent))

    def of_refusals(self, kind: int = 2) -> int:
        return self.sum(
            *(row for row in self.rows if row["type"] == kind and self.sent[row["request_id"]].status != 200)
        )

    def refunded(self) -> int:
        return self.of_refusals(6)

    def of_empty_answers(self) -> int:
        return self.sum(*(row for row in self.rows if not self.sent[row["request_id"]].answer()["content"]))

    def above_its_own_ratios(self) -> int:
        return sum(row["quota"] - _again(row) for row in self.rows if row["type"] == 2)

    def everything(self) -> int:
        return self.sum(*self.rows)


def _again(row: dict[str, Any]) -> int:
    """new-api's formula over a row's own figures: rounded half away from zero, at least 1."""
    other = json.loads(row["other"], parse_float=Decimal)
    five, hour = other.get("cache_creation_tokens_5m", 0), other.get("cache_creation_tokens_1h", 0)
    parts = row["prompt_tokens"] + other["cache_tokens"] * other["cache_ratio"]
    parts += five * other.get("cache_creation_ratio_5m", 0) + hour * other.get("cache_creation_ratio_1h", 0)
    parts += row["completion_tokens"] * other["completion_ratio"]
    return max(1, int((parts * other["model_ratio"] * other["group_ratio"]).quantize(Decimal(1), ROUND_HALF_UP)))


AMOUNTS: tuple[tuple[str, str, str, Any], ...] = (
    ("overcharge_x2", "billing.overcharged", "difference", Till.halves),
    ("double_rows", "billing.duplicate_charge", "difference", Till.repeats),
    ("copies_under_fresh_ids", "billing.duplicate_charge", "difference", Till.under_other_ids),
    ("streams_cut_charged", "billing.duplicate_charge", "difference", Till.repeats),
    ("errors_charged", "billing.error_charged", "charged", Till.of_refusals),
    ("errors_unlogged", "billing.overcharged", "difference", Till.unlogged),
    ("charge_without_row", "billing.overcharged", "difference", Till.unlogged),
    ("rows_kept_out", "billing.overcharged", "charged", Till.unlogged),
    ("holds_kept", "billing.hold_not_released", "held", Till.unlogged),
    ("empty_charged", "billing.empty_reply_charged", "charged", Till.of_empty_answers),
    ("refund_late", "billing.refund_late", "refunded", Till.refunded),
    ("refund_missing", "billing.refund_missing", "difference", Till.of_refusals),
    ("cache_read_as_input", "billing.cache_misbilled", "difference", Till.above_its_own_ratios),
    ("hour_at_five_minutes", "billing.cache_misbilled", "difference", Till.above_its_own_ratios),
    ("plan_loses_double", "billing.overcharged", "difference", Till.everything),
)


def run(name: str, home: Path, **audit: Any) -> Staged:
    profile = SCENARIOS[name].profile
    stage = staged(name, home, audit={**({"profile": profile} if profile else {}), **audit})
    stage.whole()
    return stage


def finding(stage: Staged, code: str) -> Any:
    return next(f for f in stage.judged().findings if f.code == code)


@pytest.mark.parametrize(("name", "code", "param", "truth"), AMOUNTS, ids=[row[0] for row in AMOUNTS])
def test_each_fault_is_named_with_its_amount_to_the_unit(
    name: str, code: str, param: str, truth: Any, tmp_path: Path
) -> None:
    stage = run(name, tmp_path)
    amount = truth(Till(stage))
    assert amount
    assert finding(stage, code).params[param] == dollars(Decimal(amount) / PER_UNIT)


@pytest.mark.parametrize(
    ("name", "code", "params"),
    [
        ("price_above_list", "billing.price_differs_from_published", {"factor": "1.5"}),
        ("above_ratio_list", "billing.price_differs_from_published", {"factor": "1.5"}),
        ("claimed_30_charged_36", "billing.ratio_differs_from_claim", {"claimed": "0.3", "charged_ratio": "0.36"}),
        ("another_group", "billing.group_differs_from_claim", {"claimed": "official", "untrusted_groups": ["pool"]}),
        ("usage_page_x69", "billing.usage_endpoint_unreliable", {"factor": "6.9"}),
        ("usage_page_x0", "billing.usage_endpoint_unreliable", {"factor": "0"}),
    ],
)
def test_each_ratio_is_named(name: str, code: str, params: dict[str, Any], tmp_path: Path) -> None:
    said = finding(run(name, tmp_path, **QUICK), code).params
    assert {key: said[key] for key in params} == params


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("honest_markup", "published_markup"),
        ("honest_group_ratio", "group_ratio"),
        ("honest_user_ratio", "user_group_ratio"),
        ("honest_per_call", "fixed_price"),
        ("honest_expression", "price_expression"),
        ("honest_tool_surcharge", "tool_surcharge"),
        ("honest_tiny_price", "minimum_charge"),
        ("honest_cny", "cny_display"),
        ("honest_full_log", "log_truncated"),
        ("honest_log_late", "log_late"),
        ("honest_foreign_rows", "foreign_rows"),
        ("honest_plan", "plan_billed"),
        ("honest", "balance_agrees"),
    ],
)
def test_each_circumstance_is_a_match_with_its_name(name: str, fact: str, tmp_path: Path) -> None:
    stage = run(name, tmp_path, **QUICK)
    assert fact in finding(stage, "billing.matches").params["facts"]
    assert not [f.code for f in stage.judged().findings if f.check == 6 and f.above_info]


def test_calls_that_were_not_charged_are_a_circumstance_too(tmp_path: Path) -> None:
    said = finding(run("honest_uncharged", tmp_path, checks=[2, 6]), "billing.matches")
    assert "uncharged_calls" in said.params["facts"]


def test_what_was_read_from_a_marked_cache_is_priced_as_read(tmp_path: Path) -> None:
    said = finding(run("honest", tmp_path, profile="thorough", checks=[6]), "billing.matches")
    assert "cache_discount" in said.params["facts"]


@pytest.mark.parametrize("seed", range(4))
def test_rows_and_balance_add_up_to_the_unit(seed: int, tmp_path: Path) -> None:
    """Of an honest relay by the lab's till; and the finding says the same figure."""
    stage = staged("honest", tmp_path, seed=seed, audit=QUICK)
    judged = stage.whole()
    spent = [reading.used_quota for reading in judged.evidence.balance if reading.used_quota is not None]
    assert spent[-1] - spent[0] == Till(stage).everything()
    said = next(f for f in judged.findings if f.code == "billing.matches")
    assert said.params["charged"] == dollars(Decimal(Till(stage).everything()) / PER_UNIT)
