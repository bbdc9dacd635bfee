"""A run's sendings beside the rows of the relay's books: who was charged for what, before anything is judged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from relay_audit.books import LogReading, LogRow
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.plan import Step
from relay_audit.reconcile import rows_by_exchange
from relay_audit.usage import Usage, read_usage
from relay_audit.words import money


@dataclass(frozen=True)
class Call:
    """One sending to the relay, the usage that its answer reported, and its rows (none, one, or more)."""

    exchange: Exchange
    step: Step | None
    usage: Usage | None
    rows: tuple[LogRow, ...]
    per_unit: int

    @property
    def id(self) -> str:
        return self.exchange.id

    @property
    def charges(self) -> tuple[LogRow, ...]:
        """Rows that took something."""
        return tuple(row for row in self.rows if row.charged(self.per_unit) > 0)

    @property
    def refunds(self) -> tuple[LogRow, ...]:
        return tuple(row for row in self.rows if row.kind == "refund")

    @property
    def net(self) -> Decimal:
        """Site dollars, refunds taken off."""
        return sum((row.charged(self.per_unit) for row in self.rows), Decimal(0))

    @property
    def refused(self) -> bool:
        """An answer that is a refusal: another status than 200, or a 200 that holds an error and no usage."""
        if self.exchange.delivery != "answered" or self.exchange.status is None:
            return False
        if self.exchange.status != 200:
            return True
        answer = self.exchange.answer()
        return isinstance(answer, dict) and bool(answer.get("error")) and self.usage is None

    @property
    def body(self) -> dict[str, Any]:
        return self.exchange.request.body or {}


@dataclass(frozen=True)
class Bill:
    """What the books say of a run."""

    reading: LogReading
    """The last one that has rows of ours, or the last that was asked for."""
    calls: tuple[Call, ...]
    """At least one."""
    loose: tuple[LogRow, ...]
    """Rows that may be ours and were joined to nothing."""
    per_unit: int
    quota_units: bool
    """Rows are written in quota units; else in dollars."""

    @property
    def joined(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.rows)

    @property
    def last_sent(self) -> dt.datetime:
        return max(call.exchange.sent_at for call in self.calls)

    def dollars(self, quota: int | Decimal) -> Decimal:
        return Decimal(quota) / self.per_unit


def calls_of(evidence: Evidence) -> tuple[Call, ...]:
    """Every sending to the relay with the rows that any reading joined to it."""
    rows = rows_by_exchange([reading for reading in evidence.log if reading.state != "not_asked"])
    per_unit = evidence.site.quota_per_unit
    return tuple(
        Call(
            exchange=exchange,
            step=evidence.plan.step(exchange.step) if evidence.plan else None,
            usage=read_usage(exchange, evidence.pack),
            rows=rows.get(exchange.id, ()),
            per_unit=per_unit,
        )
        for exchange in evidence.generations()
    )


def bill_of(evidence: Evidence) -> Bill | None:
    """None where no book was asked for or nothing was sent."""
    asked = [reading for reading in evidence.log if reading.state != "not_asked"]
    calls = calls_of(evidence)
    if not asked or not calls:
        return None
    own = {call.id for call in calls}
    last = next((r for r in reversed(asked) if any(row.exchange in own for row in r.rows)), asked[-1])
    return Bill(
        reading=last,
        calls=calls,
        loose=tuple(row for row in last.rows if not row.exchange),
        per_unit=evidence.site.quota_per_unit,
        quota_units=any(row.quota is not None for call in calls for row in call.rows),
    )


def ids(calls: Iterable[Call]) -> tuple[str, ...]:
    return tuple(call.id for call in calls)


def dollars(amount: Decimal) -> str:
    return money(amount.quantize(Decimal("0.000000001")).normalize())


def hours(calls: Iterable[Call]) -> str:
    """The hours for which a price was seen to hold, in UTC and in China's time: `03:00-05:00 UTC (11:00-13:00 UTC+8)`."""
    times = [call.exchange.sent_at for call in calls]
    if not times:
        return ""
    start, end, ahead = min(times), max(times) + dt.timedelta(hours=1), dt.timedelta(hours=8)
    return f"{start:%H}:00-{end:%H}:00 UTC ({start + ahead:%H}:00-{end + ahead:%H}:00 UTC+8)"
