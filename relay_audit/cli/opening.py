"""A stored run, found by what was typed and open as long as it is read; and a report of it, where it was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relay_audit.errors import UsageError
from relay_audit.report.leakguard import write_report
from relay_audit.store import Store, locate
from relay_audit.workspace import workspace


@contextmanager
def opened(run: str) -> Iterator[Store]:
    space = workspace(os.environ, Path.cwd())
    with Store.open(locate(run, [space.audits], space.state)) as store:
        yield store


def write_paper(output: Path, raw: bytes) -> None:
    """A report where somebody asked for it. Raises `UsageError`."""
    try:
        write_report(output, raw)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written there: {error.strerror}", next_step="name another file: -o FILE"
        ) from None
