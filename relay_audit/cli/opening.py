"""A stored run, found by what was typed and open as long as it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relay_audit.store import Store, locate
from relay_audit.workspace import workspace


@contextmanager
def opened(run: str) -> Iterator[Store]:
    space = workspace(os.environ, Path.cwd())
    with Store.open(locate(run, [space.audits], space.state)) as store:
        yield store
