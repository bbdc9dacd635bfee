"""The commands that say something to a run: their exit codes and answers, each from a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scene import Driver, Scene, scene
from test_many_hands import SECOND, Aside


@pytest.fixture(scope="module")
def drivers() -> Iterator[tuple[Driver, Driver]]:
    pair = (Driver(), Driver())
    yield pair
    for driver in pair:
        driver.close()


def told(stage: Scene, *argv: str) -> tuple[int, dict[str, Any]]:
    code, said = stage.command(*argv, "--json")
    return code, json.loads(said.splitlines()[-1])


def quoted(stage: Scene) -> dict[str, Any]:
    code, said = told(stage, "run", str(stage.target), "--no-input")
    assert code == 3
    return said


def test_the_gate_answers_the_same_again_and_refuses_anything_else(
    drivers: tuple[Driver, Driver], tmp_path: Path
) -> None:
    with scene(drivers[0], tmp_path) as stage:
        asked = quoted(stage)
        run, digest = asked["run_id"], asked["quote_digest"]
        approve = ("approve", run, "--quote", digest, "--max-usd")
        code, first = told(stage, *approve, "0.9")
        assert (code, first["channel"]) == (0, "agent")
        assert told(stage, *approve, "0.90") == (0, first)
        for other in ((*approve, "0.8"), ("approve", run, "--quote", "0" * 64, "--max-usd", "0.9")):
            code, refused = told(stage, *other)
            assert (code, refused["error"], refused["current_digest"]) == (2, "approval_refused", digest)
            assert digest in refused["next_step"]
        assert stage.paid() == []
        code, row = told(stage, "status", run)
        assert (row["approval"]["ceiling"], row["approval"]["channel"], row["approval"]["holds"]) == (
            "0.9",
            "agent",
            True,
        )
        assert (row["owner"] != "", row["scope"]["model"], row["terminal"]) == (True, "claude-sonnet-5-5", None)
        assert all(row["checkpoint"].values())


def test_no_then_yes_needs_a_new_quote(drivers: tuple[Driver, Driver], tmp_path: Path) -> None:
    with scene(drivers[0], tmp_path) as stage:
        asked = quoted(stage)
        run = asked["run_id"]
        assert told(stage, "decline", run)[1]["status"] == "blocked"
        assert told(stage, "decline", run)[0] == 0
        code, refused = told(stage, "approve", run, "--quote", asked["quote_digest"], "--max-usd", "1")
        assert (code, "revise" in refused["next_step"]) == (2, True)
        assert told(stage, "resume", run)[0] == 3
        code, fresh = told(stage, "revise", run)
        assert (code, fresh["status"], fresh["approved"]) == (0, "awaiting_approval", False)
        assert fresh["quote_digest"] in fresh["approve_cmd"] != asked["approve_cmd"]
        code, refused = told(stage, "revise", run, "--drop", "anthropic/token_paritty_quick")
        assert (code, "token_parity_quick" in refused["message"]) == (2, True)
        assert told(stage, "cancel", run)[0] == 0
        assert told(stage, "pause", run)[0] == 2
        assert told(stage, "status", run)[1]["terminal"]["type"] == "run.cancelled"
        assert stage.paid() == []


def test_a_run_that_works_hears_a_pause_and_a_cancel(drivers: tuple[Driver, Driver], tmp_path: Path) -> None:
    """Both end the process that works, with the code that says why; what was out is recorded."""
    with scene(drivers[0], tmp_path) as stage:
        other = replace(stage, driver=drivers[1], name="two", said=[])
        working = Aside(lambda: stage.run(SECOND, "wait"))
        stage.passed(SECOND)
        run = stage.runs()[0].name
        code, heard = told(other, "pause", run)
        assert (code, heard["heard"], heard["status"]) == (0, False, "running")
        assert told(other, "status", run)[1]["asked"] == "paused"
        assert told(other, "status", run)[1]["working"] is True
        stage.gate.touch()
        code, said = working.result()
        assert (code, json.loads(said)["error"], len(stage.paid())) == (4, "paused", 2)
        stage.gate.unlink()
        third = "lanes|send:relay:paid|before#1"
        stage.trace.unlink()
        working = Aside(lambda: stage.command("resume", run, "--json", at=third, act="wait"))
        stage.passed(third)
        assert told(other, "cancel", run)[1]["heard"] is False
        assert told(other, "cancel", run)[0] == 0
        stage.gate.touch()
        code, said = working.result()
        assert (code, json.loads(said)["status"], len(stage.paid())) == (5, "cancelled", 3)
        assert told(other, "resume", run)[0] == 5
