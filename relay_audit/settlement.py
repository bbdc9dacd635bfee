"""What the relay itself says these calls cost: balance before and after, the log until every call has its row.

Reads are few (a site allows 20 in 20 minutes to everything we and the buyer do there) and bounded in time; the log's
text may hold other people's rows and is never kept, only what was read from it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

from relay_audit.discovery import Sides
from relay_audit.evidence import BalanceReading, LogReading, LogRow
from relay_audit.exchange import Exchange
from relay_audit.fingerprint import Knowledge
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor
from relay_audit.relays import detect, new_api
from relay_audit.site_budget import SiteBudget
from relay_audit.target import origin_of
from relay_audit.transport import Answer, Outgoing
from relay_audit.usage import read_usage

SETTLING = dt.timedelta(seconds=10)
"""Rows are written after the answer is sent: the log is asked again this long after the last send, if any is missing."""
LATE_READS = 2
KEPT_FOR_THE_END = 4
"""Log reads after which none is taken between steps any more: the last ones belong to the settlement."""


class Settlement:
    """Reads a recognised relay's own books for one run; does nothing where none can be read with the key."""

    def __init__(
        self, recorder: Recorder, sides: Sides, knowledge: Knowledge, redactor: Redactor, budget: SiteBudget
    ) -> None:
        self.recorder = recorder
        self.sides = sides
        self.redactor = redactor
        self.budget = budget
        software = detect.facts(recorder.history.site.software, knowledge)
        self.reads = bool(software and software.log_adapter == "new_api")

    async def before(self) -> None:
        """The balance, and a first look at the log: other traffic on this key is known before anything is spent.
        A resumed run has had that look; it keeps its few reads for the end."""
        await self._read_balance("before")
        reading = None if self.recorder.history.log else await self._read_log("before")
        if reading is not None and reading.foreign.count:
            self.sides.notify("foreign_rows", {"n": reading.foreign.count})

    async def after(self) -> None:
        await self._settle()
        await self._read_balance("after")

    async def charge_of(self, exchange: Exchange) -> Decimal | None:
        """What the log says one exchange cost, in site dollars; None where it cannot be known now. A refusal without a
        row cost nothing; an accepted call without one is waited for, once."""
        if not self.reads or len(self.recorder.history.log) >= KEPT_FOR_THE_END:
            return None
        reading = await self._read_log("between")
        if reading is not None and exchange.status == 200 and not self._rows_of(exchange, reading):
            wait = (exchange.sent_at + SETTLING - self.sides.clock.now()).total_seconds()
            await self.sides.clock.sleep(max(wait, 0))
            reading = await self._read_log("between")
        if reading is None or reading.state not in ("read", "empty"):
            return None
        self._write_charges(reading, loose_rows=False)
        rows = self._rows_of(exchange, reading)
        if not rows:
            return Decimal(0) if exchange.status != 200 and reading.state == "read" else None
        return self._charged(rows)

    def _rows_of(self, exchange: Exchange, reading: LogReading) -> list[LogRow]:
        return [row for row in reading.rows if row.exchange == exchange.id]

    async def _read_balance(self, when: str) -> None:
        if not self.reads or not self._take():
            return
        answer = await self._ask_site(new_api.BALANCE)
        exchange = self.recorder.free(answer, f"reading.balance.{when}", "relay")
        used, available, unlimited = new_api.read_balance(exchange, self.recorder.history.site)
        self.recorder.balance_reading(
            BalanceReading(
                at=exchange.sent_at, exchange=exchange.id, used_quota=used, available=available, unlimited=unlimited
            )
        )

    async def _settle(self) -> None:
        """Reads the log until every answered call has its row, at most three times; then writes what it says was charged."""
        if not self.reads or not self.recorder.history.sent():
            return
        last = max(e.sent_at for e in self.recorder.history.sent())
        reading = await self._read_log("after")
        for late in range(1, LATE_READS + 1):
            if reading is None or reading.state not in ("read", "empty") or not self._missing(reading):
                break
            wait = (last + SETTLING * late - self.sides.clock.now()).total_seconds()
            await self.sides.clock.sleep(max(wait, 0))
            later = await self._read_log(f"late{late}")
            if later is None or later.state not in ("read", "empty"):
                break  # what an earlier reading said still holds
            reading = later
        if reading is not None:
            self._write_charges(reading, loose_rows=True)

    def _missing(self, reading: LogReading) -> bool:
        joined = {row.exchange for row in reading.rows}
        return any(e.status == 200 and e.id not in joined for e in self.recorder.history.sent())

    def _write_charges(self, reading: LogReading, *, loose_rows: bool) -> None:
        """The ledger follows the books, so that the gate sees what was really charged. A row without a request id is
        taken for an unconfirmed sending only at the end, when no other can still come."""
        ledger = self.recorder.history.ledger
        for entry in ledger.entries:
            rows = [row for row in reading.rows if row.exchange == entry.exchange and entry.side == "relay"]
            if not rows and entry.state == "unconfirmed" and loose_rows:
                rows = self._only_candidate(entry.exchange, reading)
            if not rows or entry.state not in ("settled", "unconfirmed"):
                continue
            charged = self._charged(rows)
            if (entry.state, entry.basis, entry.amount) != ("settled", "relay_log", charged):
                self.recorder.charge(entry.exchange, charged, "relay_log")

    def _charged(self, rows: list[LogRow]) -> Decimal:
        """Site dollars of some rows; a refund row holds a positive quota."""
        quota = sum(-row.quota if row.kind == "refund" else row.quota for row in rows)
        return Decimal(max(quota, 0)) / self.recorder.history.site.quota_per_unit

    def _only_candidate(self, xid: str, reading: LogReading) -> list[LogRow]:
        """For a sending without an answer: the one loose row that can be its, when there is exactly one of each."""
        open_ = [e.exchange for e in self.recorder.history.ledger.entries if e.state == "unconfirmed"]
        loose = [row for row in reading.rows if not row.exchange]
        return loose if open_ == [xid] and len(loose) == 1 else []

    async def _read_log(self, when: str) -> LogReading | None:
        if not self.reads or not self._take():
            return None
        answer = await self._ask_site(new_api.LOG)
        body = answer.response.body if answer.response else ""
        history = self.recorder.history
        exchange = self.recorder.free(_without_body(answer), f"reading.log.{when}", "relay")
        sent = tuple((e, read_usage(e, history.pack)) for e in self.recorder.history.sent())
        reading = new_api.read_log(exchange, body, sent, history.target.subject.model, self.redactor.account)
        answers = tuple(e for e in history.exchanges.values() if e.side == "relay")
        if reading.state == "empty" and new_api.old_generation(answers):
            reading = reading.model_copy(update={"state": "unsafe", "reason": "key_in_url_only"})
        self.recorder.log_reading(reading)
        return reading

    async def _ask_site(self, path: str) -> Answer:
        relay = self.sides.relay
        endpoint = replace(relay, base_url=origin_of(relay.base_url), auth="bearer")
        return await self.sides.transport.send(endpoint, Outgoing("GET", path))

    def _take(self) -> bool:
        history = self.recorder.history
        return self.budget.take(origin_of(self.sides.relay.base_url), history.store.run_id, self.sides.clock.now())


def _without_body(answer: Answer) -> Answer:
    """The log's text may hold other people's rows: only what was read from it is kept."""
    if answer.response is None:
        return answer
    return replace(answer, response=answer.response.model_copy(update={"body": ""}))
