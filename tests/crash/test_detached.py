"""A run that was let go of: it works in a process of its own, can be watched and ended from others, and leaves its record."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canary import found_in, leaks_below
from scene import Driver, Scene, scene

TARGET = ("--max-usd", "1", "--no-input", "--json", "--detach")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


def launched(stage: Scene) -> dict[str, Any]:
    code, said = stage.command("run", str(stage.target), *TARGET)
    assert code == 0, stage.said
    record: dict[str, Any] = json.loads(said)
    assert record["record"] == "launch"
    return record


def done(stage: Scene, run: str, patience: float = 60.0) -> dict[str, Any]:
    """The done record, as `status` shows it, once the process has left one."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        code, said = stage.command("status", run, "--json")
        row = json.loads(said)
        if code == 0 and "done" in row:
            return row
        time.sleep(0.1)
    raise AssertionError(stage.said[-1])


def test_a_detached_run_ends_by_itself_and_says_how(driver: Driver, tmp_path: Path) -> None:
    with scene(driver, tmp_path) as stage:
        record = launched(stage)
        run = record["run_id"]
        assert record["pid"] != os.getpid()
        code, said = stage.command(*record["events_cmd"].split()[1:], "--timeout", "60")
        assert code == 0, said
        assert json.loads(said.splitlines()[-1])["type"] == "run.completed"
        row = done(stage, run)
        assert (row["status"], row["done"]["exit_code"], row["working"]) == ("completed", 0, False)
        assert max(Counter(stage.paid()).values()) == 1
        assert {path.name for path in (stage.home / "audits" / run / "reports").iterdir()} >= {"vendor.en.html"}
        keys = (stage.served.relay_key, stage.served.official_key)
        assert leaks_below(stage.home, keys) == []
        assert found_in("\n".join(stage.said).encode(), keys) == []


def test_without_an_approval_nothing_is_launched(driver: Driver, tmp_path: Path) -> None:
    with scene(driver, tmp_path) as stage:
        code, said = stage.command("run", str(stage.target), "--no-input", "--json", "--detach")
        assert (code, json.loads(said)["error"], stage.paid()) == (3, "approval_needed", [])
        run = json.loads(said)["run_id"]
        assert not (stage.home / "audits" / run / "done.json").exists()


def test_following_is_bounded_and_goes_on_from_its_cursor(driver: Driver, tmp_path: Path) -> None:
    with scene(driver, tmp_path) as stage:
        run = json.loads(stage.command("run", str(stage.target), "--no-input", "--json")[1])["run_id"]
        code, said = stage.command("events", run, "--follow", "--timeout", "1")
        rows = [json.loads(line) for line in said.splitlines()]
        assert code == 4
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert stage.command("cancel", run, "--json")[0] == 0
        code, said = stage.command("events", run, "--after", str(rows[-1]["seq"]), "--follow", "--timeout", "30")
        more = [json.loads(line) for line in said.splitlines()]
        assert code == 0
        assert more[0]["seq"] == rows[-1]["seq"] + 1
        assert more[-1]["type"] == "run.cancelled"
        assert stage.command("resume", run, "--json")[0] == 5
        assert stage.command("cancel", run, "--json")[0] == 0
        assert stage.paid() == []
