"""One budget of reads of a relay's books per site, shared by all runs and processes of this machine.

A new-api site allows 20 calls in 20 minutes per address for its log, a key's balance, its ratio list and login together.
We take at most 12 of them, and at most 8 for one run, so that the buyer's own login keeps working. The way does not
matter: a proxy may well leave by the same address.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from relay_audit.disk import write_durably

PER_SITE, PER_RUN = 12, 8
WINDOW = dt.timedelta(minutes=20)


@dataclass
class Page:
    """What one site's file says."""

    calls: list[tuple[dt.datetime, str]] = field(default_factory=list)
    closed_until: dt.datetime | None = None


class SiteBudget:
    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "sites"

    def take(self, origin: str, run_id: str, now: dt.datetime, *, leave: int = 0) -> bool:
        """Takes one call; False where the budget is used up for now, where the site has asked for a pause, or where fewer
        than `leave` calls would be left for what has to be read later or by somebody else."""
        path = self._path(origin)
        with FileLock(f"{path}.lock", timeout=10):
            page = _read(path, now)
            mine = sum(run == run_id for _, run in page.calls)
            shut = page.closed_until is not None and now < page.closed_until
            if shut or len(page.calls) + 1 + leave > PER_SITE or mine >= PER_RUN:
                return False
            page.calls.append((now, run_id))
            _write(path, page)
            return True

    def left(self, origin: str, now: dt.datetime) -> int:
        """Calls that may still be taken now, by anybody; none while the site has asked for a pause."""
        page = _read(self._path(origin), now)
        shut = page.closed_until is not None and now < page.closed_until
        return 0 if shut else max(PER_SITE - len(page.calls), 0)

    def closed_for(self, origin: str, now: dt.datetime) -> dt.timedelta:
        """How long the site has asked to be left alone from now on."""
        closed = _read(self._path(origin), now).closed_until
        return max(closed - now, dt.timedelta(0)) if closed is not None else dt.timedelta(0)

    def pause(self, origin: str, until: dt.datetime, now: dt.datetime) -> None:
        """The site answered 429: nobody asks it again before then. A pause is never shortened, nor longer than a window."""
        path = self._path(origin)
        until = min(until, now + WINDOW)
        with FileLock(f"{path}.lock", timeout=10):
            page = _read(path, now)
            page.closed_until = max(until, page.closed_until or until)
            _write(path, page)

    def _path(self, origin: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()[:24]}.json"


def _write(path: Path, page: Page) -> None:
    table = {
        "calls": [[t.isoformat(), run] for t, run in page.calls],
        "closed_until": page.closed_until.isoformat() if page.closed_until else None,
    }
    write_durably(path, json.dumps(table).encode())


def _read(path: Path, now: dt.datetime) -> Page:
    """Calls of the last window; one dated beyond the next window was written by a clock that was wrong. A file that is
    none is an empty one."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        calls = [(_moment(t), str(run)) for t, run in table["calls"]]
        closed = _moment(table["closed_until"]) if table["closed_until"] else None
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return Page()
    if closed is not None and closed > now + WINDOW:
        closed = None
    return Page([(t, run) for t, run in calls if -WINDOW < now - t < WINDOW], closed)


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)
