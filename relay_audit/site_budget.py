"""One budget of log reads per relay site, shared by all runs and processes of this machine.

A new-api site allows 20 calls in 20 minutes per address for its log, balance and login together. We take at most 12 of
them, and at most 8 for one run, so that the buyer's own login keeps working.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path

from filelock import FileLock

PER_SITE, PER_RUN = 12, 8
WINDOW = dt.timedelta(minutes=20)


class SiteBudget:
    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "sites"

    def take(self, origin: str, run_id: str, now: dt.datetime) -> bool:
        """Takes one call; False where the budget is used up for now."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()[:24]}.json"
        with FileLock(f"{path}.lock", timeout=10):
            taken = [(t, r) for t, r in _read(path) if now - t < WINDOW]
            if len(taken) >= PER_SITE or sum(r == run_id for _, r in taken) >= PER_RUN:
                return False
            rows = [[t.isoformat(), r] for t, r in [*taken, (now, run_id)]]
            part = path.with_suffix(".part")
            part.write_text(json.dumps(rows), encoding="utf-8")
            part.replace(path)
            return True


def _read(path: Path) -> list[tuple[dt.datetime, str]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [(dt.datetime.fromisoformat(t).astimezone(dt.UTC), str(r)) for t, r in rows]
    except (OSError, ValueError, TypeError):
        return []
