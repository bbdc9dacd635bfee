"""A staged run to which another process says something, before, between or after its requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from relay_audit.audit import archived_library
from relay_audit.clock import SystemClock
from relay_audit.planning import Knowing
from relay_audit.prices import PriceFile
from relay_audit.recorder import Recorder
from relay_audit.signals import Signal
from relay_audit.steering import Reply, Sender, give
from relay_audit.store import Store
from tests.staged import Seen, Staged, staged

GENERATION = "/v1/messages"


def said_to(path: Path, signal: Signal, *, alone: bool = False, clock: object | None = None) -> Reply:
    """As a process of its own would: it opens the folder, reads where the run stands, says its word and goes."""
    with Store.open(path) as store:
        recorder = Recorder(store, clock or SystemClock())  # type: ignore[arg-type]

        def knowing() -> Knowing:
            library = archived_library(recorder.history)
            return Knowing(library.packs, library.knowledge, PriceFile())

        return give(recorder, signal, Sender("agent", alone, knowing))


def is_paid(seen: Seen) -> bool:
    return seen.side == "relay" and seen.method == "POST" and seen.path == GENERATION


def interrupted(
    home: Path, word: Callable[[Staged], object], at: int = 2, scenario: str = "honest", **tables: dict[str, object]
) -> Staged:
    """A run, planned, in which `word` is said while its paid request number `at` is with the relay."""
    made: list[Staged] = []

    def while_it_works(seen: Seen, before: int) -> None:
        if is_paid(seen) and before == at - 1:
            word(made[0])

    tables.setdefault("audit", {"profile": "quick", "checks": [1, 2, 6]})
    stage = staged(scenario, home, replace=while_it_works, **tables)  # type: ignore[arg-type]
    made.append(stage)
    stage.plan()
    return stage


def paid(stage: Staged) -> int:
    return sum(is_paid(seen) for seen in stage.seen)


def types(stage: Staged) -> list[str]:
    return [event.type for event in stage.recorder.store.events()]
