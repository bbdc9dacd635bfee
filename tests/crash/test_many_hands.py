"""Ctrl-C in the middle, two processes on one run, two runs on one key: each has one right ending."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from canary import found_in, leaks_below
from scene import KILLED, Driver, Scene, scene

pytestmark = pytest.mark.deep

FIRST, SECOND = "lanes|send:relay:paid|before#1", "lanes|send:relay:paid|before#2"


@pytest.fixture(scope="module")
def drivers() -> Iterator[tuple[Driver, Driver]]:
    pair = (Driver(), Driver())
    yield pair
    for driver in pair:
        driver.close()


class Aside:
    """A command that runs while the test goes on."""

    def __init__(self, work: Callable[[], tuple[int, str]]) -> None:
        self._ended: tuple[int, str] | None = None
        self._thread = threading.Thread(target=self._do, args=(work,), daemon=True)
        self._thread.start()

    def _do(self, work: Callable[[], tuple[int, str]]) -> None:
        self._ended = work()

    def result(self) -> tuple[int, str]:
        self._thread.join(60)
        assert self._ended is not None
        return self._ended


@pytest.mark.parametrize(
    ("at", "lost"),
    [("discovery|send:relay:free|before#2", 0), ("lanes|append:request.sending:relay|after#2", 1), (SECOND, 1),
     ("lanes|answer:paid|arriving#2", 1), ("lanes|append:exchange.recorded:relay|after#2", 0),
     ("closing|send:relay:free|before#1", 0)],
)  # fmt: skip
def test_an_interrupted_run_says_so_and_can_be_gone_on_with(
    at: str, lost: int, drivers: tuple[Driver, Driver], tmp_path: Path
) -> None:
    with scene(drivers[0], tmp_path) as stage:
        code, said = stage.run(at, "interrupt")
        assert code == 130
        assert json.loads(said)["error"] == "interrupted"
        assert "resume" in json.loads(said)["next_step"]
        code, said = stage.command("resume", "latest", "--json")
        if at.startswith("discovery"):
            assert (code, stage.paid()) == (3, [])
            return
        assert code in (0, 4)
        ended = json.loads(said)
        assert ended["status"] == "completed"
        assert [f["code"] for f in ended["findings"]].count("run.unconfirmed_send") == lost
        assert max(Counter(stage.paid()).values()) == 1
        no_key(stage)


def test_two_processes_on_one_run_one_goes_on_and_the_other_is_told(
    drivers: tuple[Driver, Driver], tmp_path: Path
) -> None:
    with scene(drivers[0], tmp_path) as stage:
        assert stage.run(SECOND)[0] == KILLED
        run = stage.runs()[0].name
        back, other = replace(stage, name="back", said=[]), replace(stage, driver=drivers[1], name="two", said=[])
        working = Aside(lambda: back.command("resume", run, "--json", at="lanes|answer:paid|arriving#1", act="wait"))
        back.passed("lanes|answer:paid|arriving#1")
        code, said = other.command("resume", run, "--json")
        refused = json.loads(said)
        assert (code, refused["error"], refused["run_id"]) == (2, "usage", run)
        assert refused["message"] == "another process is working on this run"
        assert other.command("status", run, "--json")[0] == 0
        assert other.traced("hash") == []
        back.gate.touch()
        code, said = working.result()
        assert code in (0, 4)
        assert json.loads(said)["status"] == "completed"
        assert max(Counter(stage.paid()).values()) == 1
        no_key(stage, back, other)


def test_two_runs_on_one_key_never_interleave(drivers: tuple[Driver, Driver], tmp_path: Path) -> None:
    with scene(drivers[0], tmp_path) as stage:
        other = replace(stage, driver=drivers[1], name="two", said=[])
        first = Aside(lambda: stage.run(SECOND, "wait"))
        stage.passed(SECOND)
        second = Aside(other.run)
        other.passed("quoted|append:signal.received|after#1")
        assert len(stage.paid()) == 1
        stage.gate.touch()
        (code_a, a), (code_b, b) = first.result(), second.result()
        assert (code_a, code_b) == (0, 0)
        order = [whose(stage, sha, (name_of(a), name_of(b))) for sha in stage.paid()]
        assert order == sorted(order, key=[name_of(a), name_of(b)].index)
        assert set(order) == {name_of(a), name_of(b)}
        waited = [row["point"].split("|")[0] for row in other.traced("point")]
        assert waited.index("readings_before") > waited.index("approved")
        no_key(stage, other)


def name_of(said: str) -> str:
    return str(json.loads(said)["run_id"])


def whose(stage: Scene, sha: str, runs: tuple[str, str]) -> str:
    """The run whose record holds the body that arrived."""
    return next(run for run in runs if sha in {e.request.body_sha256 for e in history(stage, run).exchanges.values()})


def history(stage: Scene, run: str) -> Any:
    return stage.history(stage.home / "audits" / run)


def no_key(*stages: Scene) -> None:
    keys = (stages[0].served.relay_key, stages[0].served.official_key)
    assert leaks_below(stages[0].home, keys) == []
    assert found_in("\n".join(text for stage in stages for text in stage.said).encode(), keys) == []
