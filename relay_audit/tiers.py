"""Video, tier by tier: what was quoted, charged, given back and delivered, and what that is against the official price.

Every figure belongs to one tier that was really ordered. A tier that was not ordered has none: low tiers at a fraction
of the official price say nothing about a high one, so nothing here interpolates (R119, R120).
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Literal

from pydantic import Field

from relay_audit.target import VideoTier
from relay_audit.words import Frozen

TierState = Literal["not_ordered", "pending", "delivered", "refused", "failed", "not_fetched", "unconfirmed"]
"""`refused`: turned down at once or later although the price list names it. `failed`: accepted and then not made.
`not_fetched`: made, by the task's own word, and no whole file came here: no refund is due for that alone.
`unconfirmed`: the order may have arrived and has no outcome; it is never sent again."""
StopReason = Literal["tier_failed", "tier_refused", "charge_differs", "refund_open", "unconfirmed", "pending"]


REFUND_WITHIN = dt.timedelta(minutes=30)
"""Refunds of failed tasks are written by a job of the relay minutes later; before this none is late, and none missing."""


class Movement(Frozen):
    """One movement of money in the relay's books: a row of a task, or a difference of two balances."""

    at: dt.datetime
    amount: Decimal = Field(ge=0)
    """Site dollars."""
    kind: Literal["charge", "refund"]
    exchange: str = ""
    """The exchange that ordered, where the books name it."""


class TierRecord(Frozen):
    """One tier as it was ordered, or the fact that it was not."""

    tier: VideoTier
    state: TierState = "not_ordered"
    quoted: Decimal | None = None
    """Expected price of this tier, site dollars."""
    official: Decimal | None = None
    """The vendor's list price of exactly this tier in US dollars; None where none is known."""
    advertised: bool | None = None
    """Whether the relay's own price list names this tier; None where it could not be read."""
    movements: tuple[Movement, ...] = ()
    exchanges: tuple[str, ...] = ()
    """The order first, then what ended its task."""
    task_id: str = ""
    ended_at: dt.datetime | None = None
    """When the task ended, by its own status, or the order that was turned down at once was sent."""

    @property
    def charged(self) -> Decimal:
        return self._sum("charge")

    @property
    def refunded(self) -> Decimal:
        return self._sum("refund")

    @property
    def net(self) -> Decimal:
        """What the tier really cost: charges less refunds."""
        return self.charged - self.refunded

    @property
    def ratio(self) -> Decimal | None:
        """Net cost as a multiple of this tier's own official price; None without a delivery, a charge or a list price."""
        if self.state != "delivered" or not self.official or not self.charged:
            return None
        return self.net / self.official

    @property
    def refund_delay(self) -> dt.timedelta | None:
        """From the end of the task (or the first charge, where the end is not known) to the last refund."""
        back = [m.at for m in self.movements if m.kind == "refund"]
        start = self.ended_at or min((m.at for m in self.movements if m.kind == "charge"), default=None)
        return max(back) - start if back and start is not None else None

    @property
    def differs_from_quote(self) -> bool:
        """Charged more than quoted. Less is a fact in the buyer's favour."""
        return self.quoted is not None and self.charged > self.quoted

    def _sum(self, kind: str) -> Decimal:
        return sum((m.amount for m in self.movements if m.kind == kind), Decimal(0))


class TierTable(Frozen):
    """All tiers of a target, cheapest first."""

    records: tuple[TierRecord, ...] = ()

    def of(self, tier: VideoTier) -> TierRecord | None:
        return next((record for record in self.records if record.tier == tier), None)

    def ratio_of(self, tier: VideoTier) -> Decimal | None:
        """The measured ratio of exactly this tier; None for one that was not measured, whatever its neighbours cost."""
        record = self.of(tier)
        return record.ratio if record else None

    @property
    def measured(self) -> tuple[TierRecord, ...]:
        return tuple(record for record in self.records if record.ratio is not None)

    @property
    def climb_ends(self) -> StopReason | None:
        """Why no further tier may be ordered; None while the next one may be (each with its own approval)."""
        for record in self.records:
            if (reason := _ends(record)) is not None:
                return reason
        return None

    @property
    def next(self) -> TierRecord | None:
        """The cheapest tier that was not ordered yet, if the climb may go on."""
        if self.climb_ends is not None:
            return None
        return next((record for record in self.records if record.state == "not_ordered"), None)


def climb(records: tuple[TierRecord, ...]) -> TierTable:
    """A table in the order in which tiers are bought: by quoted price, those without a price last."""
    ordered = sorted(
        records, key=lambda r: (r.quoted is None, r.quoted or Decimal(0), r.tier.seconds, r.tier.resolution)
    )
    return TierTable(records=tuple(ordered))


def _ends(record: TierRecord) -> StopReason | None:
    match record.state:
        case "failed" | "not_fetched":
            return "tier_failed"
        case "refused":
            return "refund_open" if record.net > 0 else "tier_refused"
        case "unconfirmed":
            return "unconfirmed"
        case "pending":
            return "pending"
        case "delivered" if record.differs_from_quote:
            return "charge_differs"
        case _:
            return None
