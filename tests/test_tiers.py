"""Video tiers: net cost of what was ordered, and nothing at all for what was not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from relay_audit.target import VideoTier
from relay_audit.tiers import Movement, TierRecord, TierTable, climb

START = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
LOW, HIGH = VideoTier(resolution="480p", seconds=5), VideoTier(resolution="1080p", seconds=5)


def moved(kind: str, amount: str, after: int = 0) -> Movement:
    return Movement(at=START + dt.timedelta(seconds=after), amount=Decimal(amount), kind=kind)


def record(tier: VideoTier = LOW, state: str = "delivered", *moves: Movement, **more) -> TierRecord:
    fields = {"quoted": Decimal("0.10"), "official": Decimal("0.20"), **more}
    return TierRecord(tier=tier, state=state, movements=moves, **fields)


def test_net_is_charge_less_refund_and_ratio_is_against_this_tiers_own_price():
    row = record(LOW, "delivered", moved("charge", "0.10"), moved("refund", "0.04", 90))
    assert (row.charged, row.refunded, row.net) == (Decimal("0.10"), Decimal("0.04"), Decimal("0.06"))
    assert row.ratio == Decimal("0.3")
    assert row.refund_delay == dt.timedelta(seconds=90)


def test_a_tier_that_was_not_ordered_has_no_ratio_whatever_its_neighbour_cost():
    table = climb(
        (record(HIGH, "not_ordered", quoted=Decimal("0.5")), record(LOW, "delivered", moved("charge", "0.10")))
    )
    assert [r.tier for r in table.records] == [LOW, HIGH]
    assert (table.ratio_of(LOW), table.ratio_of(HIGH)) == (Decimal("0.5"), None)
    assert table.ratio_of(VideoTier(resolution="720p", seconds=5)) is None
    assert [r.tier for r in table.measured] == [LOW]
    assert table.next is not None
    assert table.next.tier == HIGH


@pytest.mark.parametrize(
    ("state", "moves", "ends"),
    [
        ("delivered", (moved("charge", "0.10"),), None),
        ("delivered", (moved("charge", "0.08"),), None),
        ("delivered", (moved("charge", "0.11"),), "charge_differs"),
        ("failed", (moved("charge", "0.10"), moved("refund", "0.10")), "tier_failed"),
        ("refused", (moved("charge", "0.10"), moved("refund", "0.10")), "tier_refused"),
        ("refused", (), "tier_refused"),
        ("refused", (moved("charge", "0.10"),), "refund_open"),
        ("unconfirmed", (), "unconfirmed"),
        ("pending", (), "pending"),
    ],
)
def test_the_climb_ends_where_a_tier_fails_or_costs_more_than_quoted(state, moves, ends):
    table = climb((record(LOW, state, *moves), record(HIGH, "not_ordered", quoted=Decimal("0.5"))))
    assert table.climb_ends == ends
    assert (table.next is None) == (ends is not None)


def test_no_ratio_without_delivery_charge_or_list_price():
    assert record(LOW, "refused", moved("charge", "0.10")).ratio is None
    assert record(LOW, "delivered").ratio is None
    assert record(LOW, "delivered", moved("charge", "0.10"), official=None).ratio is None
    assert record(LOW, "failed", moved("refund", "0.1")).refund_delay is None


def test_an_end_of_the_task_is_what_a_refund_is_late_against():
    row = record(
        LOW, "failed", moved("charge", "0.1"), moved("refund", "0.1", 100), ended_at=START + dt.timedelta(seconds=40)
    )
    assert row.refund_delay == dt.timedelta(seconds=60)
    assert TierTable().next is None
