"""What the relay itself says these calls cost: balances before and after, the log until every call has its row.

Reads are few (a site allows 20 in 20 minutes to everything we and the buyer do there, other audits among it) and bounded
in time: what an audit may read depends on what is left for its end and for the next one.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal

from relay_audit.books import BalanceReading, LogReading, LogRow
from relay_audit.exchange import Exchange
from relay_audit.fingerprint import Knowledge
from relay_audit.free_questions import Sides
from relay_audit.gate import was_answered
from relay_audit.reading import BooksReader, Shelf
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor
from relay_audit.relays.asked import Page
from relay_audit.site_budget import PER_RUN

SETTLING = dt.timedelta(seconds=10)
"""Rows are written after the answer is sent: the log is asked again this long after the last send, if any is missing."""
SHORT_PAUSE = dt.timedelta(seconds=30)
"""A `Retry-After` that is waited for at the end, once; a longer one leaves the log unread."""
LATE_READS = 2
KEPT_FOR_THE_END = 2
"""Calls that are not spent between steps: the settlement's reading of the log, and the balance. Where rows are late, one
more: the log a second time."""
KEPT_FOR_THE_LOOK = 2
"""Calls that are not spent on rows that are late: the balance, and the log once more when that one has spoken."""
LEAVE_BEFORE, LEAVE_LOOK, LEAVE_EARLY, LEAVE_BETWEEN, LEAVE_LATE, LEAVE_BALANCE = 4, 9, 1, 4, 1, 2
LEAVE_RATIOS = 4
"""Calls that a read leaves to what matters more, here or in the next audit: the read that joins every call comes first."""
TIGHT = 5
"""With fewer calls left the one read of the end waits until rows are settled, instead of being taken twice."""


class Settlement:
    """Reads a recognised relay's own books for one run; does nothing where none can be read with the key."""

    def __init__(
        self, recorder: Recorder, sides: Sides, knowledge: Knowledge, redactor: Redactor, shelf: Shelf
    ) -> None:
        self.recorder = recorder
        self.sides = sides
        self.books = BooksReader(recorder, sides, knowledge, redactor, shelf)
        self.adapter = self.books.adapter
        self._rows_are_late = False
        self._log_is_silent = False
        self._balance_tells = False
        """A log without any row, and a balance that can be read beside it: between steps that one is asked."""

    async def before(self) -> None:
        """The balance, and a first look at the log: other traffic on this key is known before anything is spent.
        A resumed run has had that look; it keeps its few reads for the end."""
        if not self.recorder.history.balance:
            _, pages = await asyncio.gather(
                self.books.balance("before", leave=LEAVE_BEFORE), self.books.ask_usage("before")
            )
            self.books.read_usage(pages, "before")
            await self.books.rate("before")
        if self.recorder.history.log or self.adapter.has_headers:
            return
        if self.adapter.no_log is not None:
            self.books.note_no_log(*self.adapter.no_log)
            return
        if (look := self.books.shared.last_look(self.sides.clock.now())) is not None:
            foreign = look.foreign.count
        else:
            reading = await self.books.log("before", leave=LEAVE_LOOK)
            foreign = reading.foreign.count if reading is not None else 0
        if foreign:
            self.sides.notify("foreign_rows", {"n": foreign})

    async def after(self) -> None:
        await self._settle()
        history = self.recorder.history
        no_rows = self.adapter.log is None or (history.log and history.log[-1].state == "unsafe")
        if no_rows and history.sent() and history.balance:
            await self._wait(SETTLING)  # nothing else will say what the last calls cost
        if self.adapter.log is None:  # totals may be late, and their pages with them
            await self._last_balance()
            await self.books.usage("after")
        else:
            _, pages = await asyncio.gather(self._last_balance(), self.books.ask_usage("after"))
            self.books.read_usage(pages, "after")
        await self.books.rate("after")

    async def _last_balance(self) -> None:
        """Running totals are written after the answers, as rows are: where they are the only books and not all of our
        requests are in them yet, they are read once more when the last rows would be there."""
        reading = await self.books.balance("after", leave=LEAVE_BALANCE)
        if reading is not None and self._totals_are_late(reading):
            await self._wait(SETTLING * LATE_READS)
            await self.books.balance("after", leave=LEAVE_BALANCE)

    def _totals_are_late(self, reading: BalanceReading) -> bool:
        history = self.recorder.history
        first = next((b.totals for b in history.balance if b.totals is not None), None)
        if self.adapter.log is not None or first is None or reading.totals is None:
            return False
        gone = reading.totals.since(first)
        return gone is not None and gone.requests < sum(e.status == 200 for e in history.sent())

    async def ratios(self) -> None:
        """Where the price list is closed: the list of ratios, if reads are left for it."""
        if self._used() < PER_RUN:
            await self.books.ratios(leave=LEAVE_RATIOS)

    async def read_again(self) -> None:
        """The log and the balance once more, where something is open at the end."""
        reading = await self.books.log("again", leave=LEAVE_BALANCE)
        if reading is not None and reading.state == "read":
            self._write_charges(reading, loose_rows=True)
        await self.books.balance("after", leave=LEAVE_BALANCE)
        await self.books.usage("after")

    def rows_are_whole(self) -> bool:
        """Whether the last reading of the log holds a row of every answered call."""
        log = self.recorder.history.log
        return bool(log) and not self._missing(log[-1])

    def heed_headers(self) -> None:
        """What the answers so far say of their own cost, into the ledger."""
        if (said := self.books.headers()) is not None:
            self._write_charges(said, loose_rows=False)

    async def look_early(self, call: Exchange) -> None:
        """What a call really cost, before more is sent: its row, by one reading, else the fall of the balance, by one more.
        A log that shows no row of it says nothing, and neither does a balance that has not moved yet."""
        reading = None
        if self.adapter.log is not None and self._may_read(self.adapter.log):
            reading = await self.books.log("early", leave=LEAVE_EARLY)
        if reading is not None and reading.state == "read":
            self._write_charges(reading, loose_rows=False)
            if self._rows_of(call, reading):
                return
        if reading is not None and reading.foreign.count:  # a balance that others move is no witness
            if self._may_read(self.adapter.log):
                await self._wait_for_rows([call])
                again = await self.books.log("early", leave=LEAVE_EARLY)
                if again is not None and again.state == "read":
                    self._write_charges(again, loose_rows=False)
        elif self._may_read(self.adapter.balance):
            await self._wait_for_rows([call])
            balance = await self.books.balance("between", leave=LEAVE_EARLY)
            self._balance_tells = balance is not None and reading is not None and reading.state == "empty"
            if self.books.only_usage_pages():
                await self.books.usage("between")
        elif self.recorder.history.balance and self.adapter.balance is None:  # made of the usage pages
            await self._wait_for_rows([call])
            await self.books.usage("between")

    async def balance_again(self) -> None:
        """A balance that fell by more than was answered for is looked at once more while nothing is sent: if it goes on
        falling, others spend on this key, and it is no witness of what our calls cost."""
        if self._may_read(self.adapter.balance):
            await self.sides.clock.sleep(SETTLING.total_seconds())
            await self.books.balance("between", leave=LEAVE_EARLY)

    async def rows_again(self, call: Exchange) -> None:
        """A row that says more than was answered for is looked at once more: it may still show what was only reserved."""
        if self.adapter.log is not None and self._may_read(self.adapter.log):
            await self._wait_for_rows([call])
            reading = await self.books.log("between", leave=LEAVE_EARLY)
            if reading is not None and reading.state == "read":
                self._write_charges(reading, loose_rows=False)

    async def charges_of(self, exchanges: list[Exchange]) -> dict[str, Decimal]:
        """What the books say some refusals cost, in site dollars, by one reading; what cannot be known now is absent. A
        refusal without a row cost nothing; an accepted call without one is waited for, once."""
        accepted = [exchange for exchange in exchanges if was_answered(exchange)]
        reading = self.books.headers() or await self._between(accepted)
        if reading is None or reading.state not in ("read", "empty"):
            return await self._by_balance(accepted)
        self._write_charges(reading, loose_rows=False)
        charged = {e.id: self._charged(rows) for e in exchanges if (rows := self._rows_of(e, reading))}
        if reading.state == "read":
            charged = {e.id: Decimal(0) for e in exchanges if not was_answered(e)} | charged
        missing = [exchange for exchange in accepted if exchange.id not in charged]
        return charged | (await self._by_balance(missing))

    async def _between(self, accepted: list[Exchange]) -> LogReading | None:
        """A reading in which the accepted calls can be expected; rows that were late once are waited for at once, and a log
        that shows nothing of calls long answered is not asked again."""
        if self._log_is_silent or self._balance_tells or not self._may_read(self.adapter.log):
            return None
        if self._rows_are_late:
            await self._wait_for_rows(accepted)
        reading = await self.books.log("between", leave=LEAVE_BETWEEN)
        missing = [e for e in accepted if reading is not None and not self._rows_of(e, reading)]
        self._log_is_silent = reading is not None and self._is_silent(reading)
        if reading is None or self._log_is_silent or reading.state not in ("read", "empty") or not missing:
            return reading
        waited = await self._wait_for_rows(missing)
        self._rows_are_late = True
        again = (
            await self.books.log("between", leave=LEAVE_BETWEEN)
            if waited and self._may_read(self.adapter.log)
            else None
        )
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
        read = await self.books.balance("between", leave=LEAVE_BETWEEN)
        now = read.spent(per_unit) if read is not None else None
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
        return self._used() + KEPT_FOR_THE_END + self._rows_are_late < PER_RUN

    def _used(self) -> int:
        """Reads of this run so far that may have been limited ones."""
        read = self.recorder.history.exchanges.values()
        return sum(e.step.startswith(("reading.log.", "reading.balance.", "reading.ratios.")) for e in read)

    async def _wait_for_rows(self, calls: list[Exchange]) -> bool:
        """Until rows of these calls can be expected; False where they should have been there already."""
        last = max((e.sent_at for e in calls), default=None)
        wait = (last + SETTLING - self.sides.clock.now()).total_seconds() if last else 0.0
        await self.sides.clock.sleep(max(wait, 0))
        return wait > 0

    async def follow(self) -> None:
        """After each step: a log that shows only its newest few rows is read before they are gone."""
        window = self.adapter.window
        if not window:
            return
        readings = self.recorder.history.log
        last = readings[-1].at if readings else None
        since = [e for e in self.recorder.history.sent() if last is None or e.sent_at > last]
        if len(since) >= window * 3 // 4:
            await self.books.log("between", leave=LEAVE_BETWEEN)

    def _rows_of(self, exchange: Exchange, reading: LogReading) -> list[LogRow]:
        return [row for row in reading.rows if row.exchange == exchange.id]

    async def _settle(self) -> None:
        """Reads the log until every answered call has its row, at most three times; then writes what it says was charged."""
        if not self.recorder.history.sent():
            return
        if self.adapter.has_headers:
            said = self.books.headers()
            log = await self.books.log("after") if said is None or self._missing(said) else None
            if (reading := self.books.merge(said, log) or log) is not None:
                self._write_charges(reading, loose_rows=False)
            return
        if self.adapter.log is None:
            return
        reading = self.books.kept_for_us()
        if reading is None or self._missing(reading):
            reading = await self._read_until_whole() or reading
        if reading is not None:
            self._write_charges(reading, loose_rows=True)

    async def _read_until_whole(self) -> LogReading | None:
        if self.books.left() < TIGHT or self._used() + KEPT_FOR_THE_END >= PER_RUN:
            await self._wait(SETTLING)
        reading = await self.books.log("after")
        if reading is not None and reading.state == "limited" and (pause := self.books.pause()) <= SHORT_PAUSE:
            await self.sides.clock.sleep(pause.total_seconds())
            reading = await self.books.log("after_pause") or reading
        for late in range(1, (1 if self._balance_tells else LATE_READS) + 1):
            if reading is None or reading.state not in ("read", "empty") or not self._missing(reading):
                break
            if late > 1 and reading.state == "read" and self._used() + KEPT_FOR_THE_LOOK >= PER_RUN:
                break  # the balance says how long to wait for the rest: the last read is the second look's
            await self._wait(SETTLING * late)
            later = await self.books.log(f"late{late}", leave=LEAVE_LATE)
            if later is None or later.state not in ("read", "empty"):
                break  # what an earlier reading said still holds
            reading = later
        return reading

    async def _wait(self, since_last: dt.timedelta) -> None:
        """Until so long after the last sending."""
        last = max(e.sent_at for e in self.recorder.history.sent())
        await self.sides.clock.sleep(max((last + since_last - self.sides.clock.now()).total_seconds(), 0))

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
