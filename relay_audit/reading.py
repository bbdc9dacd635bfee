"""One look into a relay's books: asked within the site's budget, taken apart by the software's adapter, recorded.

A log's text may hold other people's rows and is never kept, only what was read from it. What is asked when, and what is
made of it, is the settlement's business.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace

from relay_audit.books import (
    USAGE_PAGES,
    BalanceReading,
    LogReading,
    LogRow,
    LogState,
    PriceReading,
    RateReading,
    UsageReading,
    When,
)
from relay_audit.fingerprint import Knowledge
from relay_audit.free_questions import Sides
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor
from relay_audit.relays.asked import Asked, Own, Page
from relay_audit.relays.registry import adapter_of
from relay_audit.replay import History
from relay_audit.shared_books import Look, SharedBooks
from relay_audit.site_budget import WINDOW, SiteBudget
from relay_audit.target import origin_of
from relay_audit.transport import Answer, Outgoing
from relay_audit.usage import read_usage
from relay_audit.video import read_task

SHORT_PAUSE = dt.timedelta(seconds=60)
"""After a 429 that says something else than the site's own limiter (whose body is empty) and names no time."""


@dataclass(frozen=True)
class Shelf:
    """What this machine's runs share: the budget of a site, and what was seen of a key's books."""

    budget: SiteBudget
    shared: SharedBooks


class BooksReader:
    """The books of one run's relay."""

    def __init__(
        self, recorder: Recorder, sides: Sides, knowledge: Knowledge, redactor: Redactor, shelf: Shelf
    ) -> None:
        self.recorder = recorder
        self.sides = sides
        self.redactor = redactor
        self.budget, self.shared = shelf.budget, shelf.shared
        self.adapter = adapter_of(recorder.history.site.software, knowledge)

    @property
    def origin(self) -> str:
        return origin_of(self.sides.relay.base_url)

    @property
    def run_id(self) -> str:
        return self.recorder.store.run_id

    def left(self) -> int:
        return self.budget.left(self.origin, self.sides.clock.now())

    def pause(self) -> dt.timedelta:
        """How long the site has asked to be left alone."""
        return self.budget.closed_for(self.origin, self.sides.clock.now())

    async def log(self, step: str, *, leave: int = 0) -> LogReading | None:
        """The log, joined to our sendings; None where none can be read, or not now."""
        if (page := self.adapter.log) is None or not self._take(page, leave):
            return None
        asked = await self._ask(page, f"reading.log.{step}", keep=False)
        own = self.own()
        found = self.adapter.read_log(asked, own)
        reading = found.reading
        if self.adapter.window and reading.state == "read":
            reading = with_earlier_rows(reading, self.recorder.history.log)
        self.recorder.reading(reading)
        now = self.sides.clock.now()
        self.shared.announce(self.run_id, self._ids(own), now)
        if reading.state in ("read", "empty"):
            look = Look(at=reading.at, foreign=reading.foreign, state=reading.state)
            self.shared.looked(self.run_id, now, log=look, rows=found.earlier)
        return reading

    def headers(self) -> LogReading | None:
        """What the answers' own headers say of their cost: no request, and nothing recorded yet."""
        return self.adapter.read_headers(self.own(), self.sides.clock.now())

    def note_no_log(self, state: LogState, reason: str) -> None:
        """A log that is known not to be readable is not asked; that it was not is recorded."""
        now = self.sides.clock.now()
        self.recorder.reading(LogReading(at=now, exchange="", state=state, reason=reason, adapter=self.adapter.name))

    def merge(self, said: LogReading | None, log: LogReading | None) -> LogReading | None:
        """Headers, and a log's rows for the calls whose headers say nothing; recorded as one reading."""
        if said is None or log is None or log.state != "read":
            reading = said
        else:
            named = {row.exchange for row in said.rows}
            rest = tuple(row for row in log.rows if row.exchange not in named)
            reading = log.model_copy(update={"rows": (*said.rows, *rest)})
        if reading is not None:
            self.recorder.reading(reading)
        return reading

    def kept_for_us(self) -> LogReading | None:
        """Rows of this run that other runs' readings found: no request. None where there is none."""
        rows = self.shared.rows_of(self.run_id, self.sides.clock.now())
        return self.adapter.rejoined(rows, self.own(), self.sides.clock.now()) if rows else None

    async def balance(self, when: When, *, leave: int = 0) -> BalanceReading | None:
        """The key's balance; before anything is sent, another run's last one serves as well."""
        if (page := self.adapter.balance) is None:
            return None
        now = self.sides.clock.now()
        if when == "before" and (last := self.shared.take_balance(now)) is not None:
            reading = last.model_copy(update={"exchange": "", "when": when})
        elif self._take(page, leave):
            asked = await self._ask(page, f"reading.balance.{when}", keep=True)
            history = self.recorder.history
            reading = self.adapter.read_balance(asked, history.site, when, history.target.subject.model)
        else:
            return None
        self.recorder.reading(reading)
        if when == "after" and reading.spent(self.recorder.history.site.quota_per_unit) is not None:
            self.shared.looked(self.run_id, now, balance=reading)
        return reading

    async def usage(self, when: When) -> UsageReading | None:
        """The OpenAI-style usage pages: recorded and compared, never the charge. The limit is asked once."""
        return self.read_usage(await self.ask_usage(when), when)

    async def ask_usage(self, when: When) -> tuple[Asked, ...]:
        """The pages alone, so that they can be asked beside others; none where there is nothing to compare with."""
        pages = self.adapter.usage if when == "before" else self.adapter.usage[:1]
        known = self.recorder.history.usage
        if when != "before" and (not known or known[-1].state != "read"):
            return ()
        return tuple(await asyncio.gather(*(self._ask(page, f"reading.usage.{when}", keep=True) for page in pages)))

    def read_usage(self, asked: tuple[Asked, ...], when: When) -> UsageReading | None:
        """What they say; after the balance, which decides what they are taken for."""
        reading = self.adapter.read_usage(asked, self.recorder.history.site, when) if asked else None
        if reading is not None:
            self.recorder.reading(reading)
            if self.only_usage_pages() and (balance := self.adapter.balance_of(reading)) is not None:
                self.recorder.reading(balance)
        return reading

    def only_usage_pages(self) -> bool:
        """Whether no page of its own tells what a key has spent: new-api's came after 2025-06, and Veloera has none."""
        if self.adapter.balance is None:
            return True
        history = self.recorder.history
        own = [reading for reading in history.balance if reading.adapter != USAGE_PAGES]
        return bool(own) and all(reading.spent(history.site.quota_per_unit) is None for reading in own)

    async def rate(self, when: When) -> RateReading | None:
        if (page := self.adapter.rate) is None:
            return None
        reading = self.adapter.read_rate(await self._ask(page, f"reading.rate.{when}", keep=True), when)
        if reading is not None:
            self.recorder.reading(reading)
        return reading

    async def ratios(self, *, leave: int = 0) -> PriceReading | None:
        """The list of ratios; its text names every model of the site and is not kept."""
        if (page := self.adapter.ratios) is None or not self._take(page, leave):
            return None
        asked = await self._ask(page, "reading.ratios.after", keep=False)
        published = self.adapter.read_ratios(asked, self.recorder.history.target.subject.model)
        reading = PriceReading(at=asked.exchange.sent_at, exchange=asked.exchange.id, published=published)
        self.recorder.reading(reading)
        return reading

    def own(self) -> Own:
        history = self.recorder.history
        return Own(
            sent=tuple((e, read_usage(e, history.pack)) for e in history.sent()),
            model=history.target.subject.model,
            site=history.site,
            account=self.redactor.account,
            answers=tuple(e for e in history.exchanges.values() if e.side == "relay"),
            since=history.balance[0].at if history.balance else None,
            earlier=self.shared.others(self.run_id, self.sides.clock.now()),
            tasks=tasks_of(history),
            known=self._joined() if self.adapter.window else {},
        )

    def _joined(self) -> dict[str, str]:
        rows = [row for reading in self.recorder.history.log for row in reading.rows]
        return {row.request_id: row.exchange for row in rows if row.request_id and row.exchange}

    def _ids(self, own: Own) -> Iterable[str]:
        for exchange, _ in own.sent:
            for name in self.adapter.request_ids:
                yield (exchange.response.header(name) or "") if exchange.response else ""

    async def _ask(self, page: Page, step: str, *, keep: bool) -> Asked:
        """One page. `keep`: its text may be recorded; a log's may hold other people's rows and may not."""
        relay = self.sides.relay
        base = self.origin if page.at_origin else relay.base_url
        endpoint = replace(relay, base_url=base, auth="bearer")
        answer = await self.sides.transport.send(endpoint, Outgoing("GET", self._path(page)))
        self._heed(answer, page)
        body = answer.response.body if answer.response else ""
        return Asked(self.recorder.free(answer if keep else _without_body(answer), step, "relay"), body)

    def _path(self, page: Page) -> str:
        sent = [e.sent_at for e in self.recorder.history.sent()] or [self.sides.clock.now()]
        end = max(*sent, self.sides.clock.now()) + dt.timedelta(days=1)
        return page.path.format(start=min(sent).date().isoformat(), end=end.date().isoformat())

    def _take(self, page: Page, leave: int) -> bool:
        if not page.limited:
            return True
        return self.budget.take(self.origin, self.run_id, self.sides.clock.now(), leave=leave)

    def _heed(self, answer: Answer, page: Page) -> None:
        """A 429 shuts the site's books for the time it names; an empty body is the site's own limiter, which forgets
        only after its window."""
        response = answer.response
        if response is None or response.status != 429 or not page.limited:
            return
        now = self.sides.clock.now()
        wait = _seconds(response.header("retry-after"))
        pause = dt.timedelta(seconds=wait) if wait is not None else WINDOW if not response.body.strip() else SHORT_PAUSE
        self.budget.pause(self.origin, now + pause, now)


def with_earlier_rows(reading: LogReading, before: list[LogReading]) -> LogReading:
    """A log that shows only its newest few rows is read in pieces: rows that were joined once stay joined."""
    shown = {(row.exchange, row.request_id, row.created_at) for row in reading.rows}
    kept: dict[tuple[str, str, dt.datetime], LogRow] = {}
    for earlier in before:
        for row in earlier.rows:
            if row.exchange and (key := (row.exchange, row.request_id, row.created_at)) not in shown:
                kept[key] = row
    return reading.model_copy(update={"rows": (*kept.values(), *reading.rows)})


def _seconds(text: str | None) -> int | None:
    """`Retry-After` in seconds; a date is not read, and neither is anything that is no plain number."""
    return int(text) if text is not None and text.strip().isascii() and text.strip().isdigit() else None


def tasks_of(history: History) -> dict[str, str]:
    """Task id → the exchange that ordered the film."""
    found: dict[str, str] = {}
    for step in history.plan.steps if history.plan else ():
        order = history.last_of(step.id) if step.order else None
        task = read_task(step.order.task, order.answer()) if step.order and order else None
        if order and task and task.task_id:
            found |= {task.task_id: order.id} | ({task.upstream_id: order.id} if task.upstream_id else {})
    return found


def _without_body(answer: Answer) -> Answer:
    """The log's text may hold other people's rows: only what was read from it is kept."""
    if answer.response is None:
        return answer
    return replace(answer, response=answer.response.model_copy(update={"body": ""}))
