"""What one call costs by a relay's ratios: the arithmetic of new-api and its kin, exact until the last rounding.

Sources: new-api `service/text_quota.go` (2026-08) and nine public rows that come out exactly. A tariff is whoever's
word it was read from: a row of the log, or the site's price list.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pydantic import Field

from relay_audit.tariff_expression import Circumstances, dollars_of
from relay_audit.usage import Usage
from relay_audit.words import Frozen

HOUR_WRITE = Decimal("1.6")
"""A one-hour cache write against a five-minute one: 6 / 3.75, 2 / 1.25."""
WRITE, READ = Decimal("1.25"), Decimal(1)
"""What the software takes where a price list has no cache ratios."""


class Tariff(Frozen):
    """The price of one model in one group. Ratios are multiples of `model`; `model` × `group` is quota per input token."""

    model: Decimal = Field(default=Decimal(0), ge=0)
    completion: Decimal = Field(default=Decimal(1), ge=0)
    cache_read: Decimal = Field(default=READ, ge=0)
    cache_write_5m: Decimal = Field(default=WRITE, ge=0)
    cache_write_1h: Decimal = Field(default=WRITE * HOUR_WRITE, ge=0)
    group: Decimal = Field(default=Decimal(1), ge=0)
    fixed: Decimal | None = Field(default=None, ge=0)
    """Site dollars per call, which replaces the token ratios."""
    expression: str = ""
    """A price expression, which replaces both."""
    factor: Decimal = Field(default=Decimal(1), ge=0)
    """Further multipliers that stand in a row (`n`, seconds, size, a multiplier of the hour)."""
    surcharge: Decimal = Field(default=Decimal(0), ge=0)
    """Site dollars for tool calls, before the group's ratio."""

    def exact(
        self, usage: Usage, per_unit: int, at: dt.datetime, body: Mapping[str, Any] | None = None
    ) -> Decimal | None:
        """Quota units before rounding; None where an expression is not understood."""
        extra = self.surcharge * self.group * per_unit
        if self.expression:
            dollars = dollars_of(self.expression, usage, Circumstances(at, body or {}))
            return None if dollars is None else dollars * per_unit * self.group * self.factor + extra
        if self.fixed is not None:
            return self.fixed * per_unit * self.group * self.factor + extra
        return self._units(usage) * self.model * self.group * self.factor + extra

    def quota(self, usage: Usage, per_unit: int, at: dt.datetime, body: Mapping[str, Any] | None = None) -> int | None:
        """What is charged: half away from zero, at least 1 where anything was used and the price is not 0; 0 where
        nothing was used by tokens."""
        exact = self.exact(usage, per_unit, at, body)
        if exact is None:
            return None
        quota = int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP))
        free = not (usage.billed_input or usage.output) and self.fixed is None and not self.surcharge
        return 0 if free else max(quota, 1) if self._costs else quota

    @property
    def by_tokens(self) -> bool:
        return self.fixed is None and not self.expression

    def rates(self, per_unit: int) -> dict[str, Decimal]:
        """Site dollars per million tokens by kind; empty unless priced by plain ratios."""
        if not self.by_tokens:
            return {}
        unit = self.model * self.group * self.factor * 1_000_000 / per_unit
        parts = {
            "input": Decimal(1), "output": self.completion, "cache_read": self.cache_read,
            "cache_write_5m": self.cache_write_5m, "cache_write_1h": self.cache_write_1h,
        }  # fmt: skip
        return {kind: unit * part for kind, part in parts.items()}

    @property
    def _costs(self) -> bool:
        ratio = self.group * self.factor * (self.model if self.by_tokens else 1)
        return bool(ratio) and (self.fixed is None or self.fixed > 0)

    def _units(self, usage: Usage) -> Decimal:
        return (
            usage.input
            + usage.cache_read * self.cache_read
            + usage.cache_write_5m * self.cache_write_5m
            + usage.cache_write_1h * self.cache_write_1h
            + usage.output * self.completion
        )
