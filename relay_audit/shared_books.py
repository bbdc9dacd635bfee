"""What several runs on one key share of its books: one read serves all of them.

A file of this machine per (site, key), private, small and short-lived. It holds the request ids of our own sendings (so
that a row of an earlier audit is nobody's "other traffic"), rows of our other runs that a reading happened to find, and
the last look at balance and other traffic. Rows of other people are never in it: they have left a count before.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from filelock import FileLock
from pydantic import Field, ValidationError

from relay_audit.books import BalanceReading, ForeignRows, LogRow
from relay_audit.disk import write_durably
from relay_audit.words import Frozen, compact

KEPT_FOR = dt.timedelta(hours=24)
FRESH = dt.timedelta(minutes=10)
"""A look by another run counts as one's own for so long."""
MOST_RUNS = 30


class OurRun(Frozen):
    last_seen: dt.datetime
    ids: tuple[str, ...] = ()
    """Request ids of its sendings, as the relay gave them."""
    rows: tuple[LogRow, ...] = ()
    """Rows of it that another run's reading found."""


class Look(Frozen):
    at: dt.datetime
    foreign: ForeignRows = ForeignRows()
    state: str = "read"


class KeyPage(Frozen):
    """The whole file."""

    runs: dict[str, OurRun] = Field(default_factory=dict)
    balance: BalanceReading | None = None
    """Taken after the last sending of a run, when nobody has sent since."""
    log: Look | None = None


Change = Callable[[KeyPage], KeyPage]


class SharedBooks:
    """`name` is the fingerprint of (origin, key) under this machine's salt."""

    def __init__(self, state_dir: Path, name: str) -> None:
        self._folder = state_dir / "sites"
        self._path = self._folder / f"{name}.books.json"

    def announce(self, run_id: str, ids: Iterable[str], now: dt.datetime) -> None:
        """These request ids are those of a run of ours."""
        fresh = tuple(dict.fromkeys(i for i in ids if i))

        def add(page: KeyPage) -> KeyPage:
            known = page.runs.get(run_id, OurRun(last_seen=now))
            run = known.model_copy(update={"last_seen": now, "ids": tuple(dict.fromkeys((*known.ids, *fresh)))})
            return page.model_copy(update={"runs": {**page.runs, run_id: run}})

        self._change(add, now)

    def looked(
        self,
        run_id: str,
        now: dt.datetime,
        *,
        log: Look | None = None,
        balance: BalanceReading | None = None,
        rows: Iterable[LogRow] = (),
    ) -> None:
        """What a reading of this run says to the others: the look itself, and rows that carry their request ids."""
        found = tuple(rows)

        def add(page: KeyPage) -> KeyPage:
            runs = {
                name: run.model_copy(update={"rows": _merged(run.rows, (r for r in found if r.request_id in run.ids))})
                if name != run_id
                else run
                for name, run in page.runs.items()
            }
            return page.model_copy(update={"runs": runs, "log": log or page.log, "balance": balance or page.balance})

        self._change(add, now)

    def others(self, run_id: str, now: dt.datetime) -> frozenset[str]:
        """Request ids of our other runs on this key."""
        return frozenset(i for name, run in self._read(now).runs.items() if name != run_id for i in run.ids)

    def rows_of(self, run_id: str, now: dt.datetime) -> tuple[LogRow, ...]:
        """Rows of this run that other runs' readings found."""
        run = self._read(now).runs.get(run_id)
        return run.rows if run else ()

    def last_look(self, now: dt.datetime) -> Look | None:
        """The last look at the log, if it is fresh."""
        look = self._read(now).log
        return look if look is not None and _fresh(look.at, now) else None

    def take_balance(self, now: dt.datetime) -> BalanceReading | None:
        """The last balance after a run, if it is fresh. It serves one run only: that one is about to spend."""
        last = self._read(now).balance
        if last is None:
            return None
        self._change(lambda page: page.model_copy(update={"balance": None}), now)
        return last if _fresh(last.at, now) else None

    def _change(self, change: Change, now: dt.datetime) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(f"{self._path}.lock", timeout=10):
            page = change(self._read(now))
            newest = sorted(page.runs.items(), key=lambda item: item[1].last_seen)[-MOST_RUNS:]
            write_durably(self._path, compact(page.model_copy(update={"runs": dict(newest)}).model_dump(mode="json")))

    def _read(self, now: dt.datetime) -> KeyPage:
        """A file that is none is an empty page; runs of yesterday are forgotten."""
        try:
            page = KeyPage.model_validate(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError):
            return KeyPage()
        runs = {name: run for name, run in page.runs.items() if abs(now - run.last_seen) < KEPT_FOR}
        return page.model_copy(update={"runs": runs})


def _merged(kept: tuple[LogRow, ...], found: Iterable[LogRow]) -> tuple[LogRow, ...]:
    """A reading shows whole rows: what it has of a request id replaces what was there."""
    new = tuple(found)
    ids = {row.request_id for row in new}
    return (*(row for row in kept if row.request_id not in ids), *new)


def _fresh(at: dt.datetime, now: dt.datetime) -> bool:
    return dt.timedelta(0) <= now - at <= FRESH
