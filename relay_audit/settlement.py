"""What the relay itself says these calls cost: balance before and after, the log until every call has its row.

Reads are few (a site allows 20 in 20 minutes to everything we and the buyer do there) and bounded in time; the log's
text may hold other people's rows and is never kept, only what was read from it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

from relay_audit.books import LogReading, LogRow, When
from relay_audit.discovery import Sides
from relay_audit.exchange import Exchange
from relay_audit.fingerprint import Knowledge
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor
from relay_audit.relays.adapter import Asked, Own, Page
from relay_audit.relays.registry import adapter_of
from relay_audit.site_budget import PER_RUN, SiteBudget
from relay_audit.target import origin_of
from relay_audit.transport import Answer, Outgoing
from relay_audit.usage import read_usage

SETTLING = dt.timedelta(seconds=10)
"""Rows are written after the answer is sent: the log is asked again this long after the last send, if any is missing."""
LATE_READS = 2
KEPT_FOR_THE_END = 3
"""Calls that are not spent between steps: the settlement's reading of the log, a second one, and the balance."""


class Settlement:
    """Reads a recognised relay's own books for one run; does nothing where none can be read with the key."""

    def __init__(
        self, recorder: Recorder, sides: Sides, knowledge: Knowledge, redactor: Redactor, budget: SiteBudget
    ) -> None:
        self.recorder = recorder
        self.sides = sides
        self.redactor = redactor
        self.budget = budget
        self.adapter = adapter_of(recorder.history.site.software, knowledge)
        self._rows_are_late = False
        self._log_is_silent = False

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

    async def charges_of(self, exchanges: list[Exchange]) -> dict[str, Decimal]:
        """What the books say some refusals cost, in site dollars, by one reading; what cannot be known now is absent. A
        refusal without a row cost nothing; an accepted call without one is waited for, once."""
        accepted = [exchange for exchange in exchanges if exchange.status == 200]
        reading = self.adapter.read_headers(self._own(), self.sides.clock.now()) or await self._between(accepted)
        if reading is None or reading.state not in ("read", "empty"):
            return await self._by_balance(accepted)
        self._write_charges(reading, loose_rows=False)
        charged = {e.id: self._charged(rows) for e in exchanges if (rows := self._rows_of(e, reading))}
        if reading.state == "read":
            charged = {e.id: Decimal(0) for e in exchanges if e.status != 200} | charged
        missing = [exchange for exchange in accepted if exchange.id not in charged]
        return charged | (await self._by_balance(missing))

    async def _between(self, accepted: list[Exchange]) -> LogReading | None:
        """A reading in which the accepted calls can be expected; rows that were late once are waited for at once, and a log
        that shows nothing of calls long answered is not asked again."""
        if self._log_is_silent or not self._may_read(self.adapter.log):
            return None
        if self._rows_are_late:
            await self._wait_for_rows(accepted)
        reading = await self._read_log("between")
        missing = [e for e in accepted if reading is not None and not self._rows_of(e, reading)]
        self._log_is_silent = reading is not None and self._is_silent(reading)
        if reading is None or self._log_is_silent or reading.state not in ("read", "empty") or not missing:
            return reading
        waited = await self._wait_for_rows(missing)
        self._rows_are_late = True
        again = await self._read_log("between") if waited and self._may_read(self.adapter.log) else None
        return again or reading

    def _is_silent(self, reading: LogReading) -> bool:
        due = [e for e in self.recorder.history.sent() if e.status == 200 and reading.at - e.sent_at > SETTLING]
        return reading.state in ("unsafe", "unavailable") or (reading.state == "empty" and bool(due))

    async def _by_balance(self, accepted: list[Exchange]) -> dict[str, Decimal]:
        """Where rows are missing: by how much more the balance moved than the answers of this run say. All of that is
        held against each of the calls; nothing is known where it does not move, or where a send has no outcome."""
        history = self.recorder.history
        per_unit = history.site.quota_per_unit
        before = next((spent for b in history.balance if (spent := b.spent(per_unit)) is not None), None)
        open_ = history.ledger.total("unconfirmed", "relay")
        if not accepted or before is None or open_ or not self._may_read(self.adapter.balance):
            return {}
        await self._wait_for_rows(accepted)
        await self._read_balance("between")
        now = history.balance[-1].spent(per_unit)
        if now is None or now <= before:
            return {}
        surplus = now - before - history.ledger.total("settled", "relay")
        settled = {e.id: entry.amount for e in accepted if (entry := history.ledger.entry(e.id))}
        prices = [history.quote.price_of(e.step) for e in accepted] if history.quote else []
        if surplus > sum((price.at_most for price in prices if price), Decimal(0)):
            return {}  # more than these calls can have cost: somebody else's traffic, or what no line can explain
        return {xid: amount + max(surplus, Decimal(0)) for xid, amount in settled.items()}

    def _may_read(self, page: Page | None) -> bool:
        """Whether a page may be read between steps, so that enough of the site's calls are left for the end."""
        if page is None or not page.limited:
            return page is not None
        used = sum(e.step.startswith("reading.") for e in self.recorder.history.exchanges.values())
        return used + KEPT_FOR_THE_END < PER_RUN

    async def _wait_for_rows(self, calls: list[Exchange]) -> bool:
        """Until rows of these calls can be expected; False where they should have been there already."""
        last = max((e.sent_at for e in calls), default=None)
        wait = (last + SETTLING - self.sides.clock.now()).total_seconds() if last else 0.0
        await self.sides.clock.sleep(max(wait, 0))
        return wait > 0

    def _rows_of(self, exchange: Exchange, reading: LogReading) -> list[LogRow]:
        return [row for row in reading.rows if row.exchange == exchange.id]

    async def _read_balance(self, when: When) -> None:
        if (page := self.adapter.balance) is None or not self._take(page):
            return
        asked = await self._ask_site(page, f"reading.balance.{when}", keep=True)
        history = self.recorder.history
        self.recorder.reading(self.adapter.read_balance(asked, history.site, when, history.target.subject.model))

    async def _settle(self) -> None:
        """Reads the log until every answered call has its row, at most three times; then writes what it says was charged."""
        if self.adapter.log is None or not self.recorder.history.sent():
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
        per_unit = self.recorder.history.site.quota_per_unit
        return max(sum((row.charged(per_unit) for row in rows), Decimal(0)), Decimal(0))

    def _only_candidate(self, xid: str, reading: LogReading) -> list[LogRow]:
        """For a sending without an answer: the one loose row that can be its, when there is exactly one of each."""
        open_ = [e.exchange for e in self.recorder.history.ledger.entries if e.state == "unconfirmed"]
        loose = [row for row in reading.rows if not row.exchange]
        return loose if open_ == [xid] and len(loose) == 1 else []

    async def _read_log(self, when: str) -> LogReading | None:
        if (page := self.adapter.log) is None or not self._take(page):
            return None
        asked = await self._ask_site(page, f"reading.log.{when}", keep=False)
        reading = self.adapter.read_log(asked, self._own())
        self.recorder.reading(reading)
        return reading

    def _own(self) -> Own:
        history = self.recorder.history
        return Own(
            sent=tuple((e, read_usage(e, history.pack)) for e in history.sent()),
            model=history.target.subject.model,
            site=history.site,
            account=self.redactor.account,
            answers=tuple(e for e in history.exchanges.values() if e.side == "relay"),
            since=history.balance[0].at if history.balance else None,
        )

    async def _ask_site(self, page: Page, step: str, *, keep: bool) -> Asked:
        """One page of the books. `keep`: its text may be recorded; a log's may hold other people's rows and may not."""
        relay = self.sides.relay
        base = origin_of(relay.base_url) if page.at_origin else relay.base_url
        answer = await self.sides.transport.send(
            replace(relay, base_url=base, auth="bearer"), Outgoing("GET", page.path)
        )
        body = answer.response.body if answer.response else ""
        return Asked(self.recorder.free(answer if keep else _without_body(answer), step, "relay"), body)

    def _take(self, page: Page) -> bool:
        history = self.recorder.history
        origin = origin_of(self.sides.relay.base_url)
        return not page.limited or self.budget.take(origin, history.store.run_id, self.sides.clock.now())


def _without_body(answer: Answer) -> Answer:
    """The log's text may hold other people's rows: only what was read from it is kept."""
    if answer.response is None:
        return answer
    return replace(answer, response=answer.response.model_copy(update={"body": ""}))
