"""How far a run is, as one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ProgressLine:
    """A bar on stderr for people; silent when stderr is not a terminal."""

    def __init__(self, total: int, title: str) -> None:
        live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True, disable=not live,
        )  # fmt: skip
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> ProgressLine:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, _: str, __: Mapping[str, object]) -> None:
        self._progress.advance(self._task)
