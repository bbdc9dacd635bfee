"""The budget above a run's own: what all runs of this machine may spend in a month, or those of a fleet together.

Each run keeps one small file here that says at least the most it can have spent by now: raised before a request leaves, set
to what it came to afterwards. A process that dies leaves it too high, never too low; a run that is deleted still counts.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

from filelock import FileLock
from pydantic import ValidationError

from relay_audit.disk import file_errors, write_durably
from relay_audit.errors import StoreError
from relay_audit.parent_ledger import Commitment, ParentLedger

MONTH = dt.timedelta(days=30)
KEPT = 2 * MONTH
"""After so long a record is of no use to any window and is removed."""


class Allowance:
    """One parent ledger on disk, shared by processes."""

    def __init__(self, folder: Path, ceiling: Decimal | None = None, window: dt.timedelta | None = MONTH) -> None:
        self._folder = folder
        self._ceiling = ceiling
        self._window = window

    def admit(self, run_id: str, amount: Decimal, now: dt.datetime) -> bool:
        """Commits a run to `amount` in all, if there is room beside the other runs; False changes nothing."""
        return self._commit(run_id, amount, now, settles=False)

    def settle(self, run_id: str, amount: Decimal, now: dt.datetime) -> None:
        """What a run came to in the end, also where that is more than there was room for."""
        self._commit(run_id, amount, now, settles=True)

    def room(self, run_id: str, now: dt.datetime) -> Decimal | None:
        """What a run may still come to in all; None where nothing bounds it."""
        if self._ceiling is None:
            return None
        with self._locked():
            return self._read(now).room(run_id, now)

    def _commit(self, run_id: str, amount: Decimal, now: dt.datetime, *, settles: bool) -> bool:
        with self._locked():
            parent = self._read(now)
            if not settles and not parent.admits(run_id, amount, now):
                return False
            row = (parent.settle if settles else parent.commit)(run_id, amount, now).of(run_id)
            if row is None:
                raise ValueError(f"{run_id} was not committed")
            with file_errors("what was spent cannot be written down"):
                write_durably(self._folder / f"{run_id}.json", row.model_dump_json().encode())
            return True

    def _locked(self) -> FileLock:
        with file_errors("the folder of what was spent cannot be made"):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return FileLock(self._folder / "lock", timeout=10, mode=0o600)

    def _read(self, now: dt.datetime) -> ParentLedger:
        rows = []
        for path in sorted(self._folder.glob("*.json")):
            row = _row(path)
            if now - row.at > KEPT:
                path.unlink(missing_ok=True)
            else:
                rows.append(row)
        return ParentLedger(ceiling=self._ceiling, window=self._window, commitments=tuple(rows))


def _row(path: Path) -> Commitment:
    """An unreadable record is not nothing: what cannot be added up bounds nobody."""
    try:
        return Commitment.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise StoreError(
            f"the record of what a run spent cannot be read: {path.name}",
            next_step="restore it, or remove it if you know what that run cost",
        ) from None
