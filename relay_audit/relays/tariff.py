"""What a model costs where the relay does not say: the vendor's list, and what is assumed of a relay by it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from relay_audit.fingerprint import Knowledge, ListPrice
from relay_audit.quote import UnitPrice


def list_price(knowledge: Knowledge, model: str, today: dt.date) -> UnitPrice | None:
    """The vendor's own list price on that day."""
    listed = knowledge.price_of(model, today)
    if listed is None:
        return None
    return UnitPrice(**_rates(listed, Decimal(1)), source=listed.source, observed=listed.observed)


def known_price(knowledge: Knowledge, model: str, ratio: Decimal | None, today: dt.date) -> UnitPrice | None:
    """The official list times max(1, claimed ratio): what is assumed of a relay that publishes no price."""
    listed = knowledge.price_of(model, today)
    if listed is None:
        return None
    factor = max(Decimal(1), ratio or Decimal(1))
    source = f"official list × {factor}: {listed.source}"
    return UnitPrice(**_rates(listed, factor), source=source, observed=listed.observed, assumed=True)


def _rates(listed: ListPrice, factor: Decimal) -> dict[str, Any]:
    names = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
    return {name: None if (value := getattr(listed, name)) is None else value * factor for name in names}
