"""kill -9 at every kind of durable write and send: nothing paid goes out twice, nothing acknowledged is lost, and the
run can be gone on with or read. The points are numbered by a run that is left alone."""

from __future__ import annotations

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canary import found_in, leaks_below
from scene import KILLED, Driver, Scene, scene

from relay_audit.store import Store

SLOTS = 64
"""Points of the light suite; `soak` takes them all."""
EVERY_PAID = ("append:request.sending:relay|after", "send:relay:paid|before", "answer:paid|arriving",
              "send:relay:paid|after", "append:exchange.recorded:relay|before")  # fmt: skip
"""Where the promise about money is decided: these are tried for each paid step."""
LIGHT_PLAN, WHOLE_PLAN = "[1, 2, 6]", "[]"
"""Checks; the light suite keeps to those whose plan is short."""
LIGHT = ("rename", "write")
"""What happens inside a blob or a report: tried where it happens most, not in every phase."""
LOUD_PHASES = ("begin", "discovery", "lanes", "reports")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


@pytest.fixture(scope="module")
def points(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return undisturbed(driver, tmp_path_factory.mktemp("dry"), LIGHT_PLAN)


@pytest.fixture(scope="module")
def all_points(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return undisturbed(driver, tmp_path_factory.mktemp("whole"), WHOLE_PLAN)


def undisturbed(driver: Driver, home: Path, checks: str) -> list[str]:
    """Every address that a run passes which is left alone, in order."""
    with scene(driver, home, checks=checks) as stage:
        code, _ = stage.run()
        assert code == 0
        assert len(stage.paid()) == len(set(stage.paid())) >= 4
        return [row["point"] for row in stage.traced("point")]


def chosen(points: list[str]) -> list[str]:
    """Every paid step's decisive moments, one point of each name and of each phase, and the rest of the room spread
    evenly over the kinds; of a kind always its middle."""
    paid = [p for p in points if p.startswith("lanes|") and p.partition("|")[2].partition("#")[0] in EVERY_PAID]
    kinds = defaultdict(list)
    for point in points:
        kinds[point.partition("#")[0]].append(point)
    middles = [of_kind[len(of_kind) // 2] for kind, of_kind in kinds.items() if _is_loud(kind)]
    tried = dict.fromkeys(paid)
    for part in (0, 1):  # phase, name
        tried |= dict.fromkeys({point.split("|")[part]: point for point in middles}.values())
    rest = [point for point in middles if point not in tried]
    room = SLOTS - len(tried)
    assert 0 <= room <= len(rest), "SLOTS no longer fits the number of kinds"
    return [*tried, *(rest[at * len(rest) // room] for at in range(room))]


def _is_loud(kind: str) -> bool:
    phase, name, _ = kind.split("|")
    return name not in LIGHT or phase in LOUD_PHASES


def test_the_points_cover_every_kind_of_write_and_send(points: list[str]) -> None:
    tried = chosen(points)
    assert len(set(tried)) == len(tried) >= 60
    names = {point.split("|")[1] for point in points}
    assert {point.split("|")[1] for point in tried} == names
    assert {point.split("|")[0] for point in tried} == {point.split("|")[0] for point in points} >= {
        "begin", "discovery", "quoted", "approved", "readings_before", "lanes", "closing",
        "judgement", "reports",
    }  # fmt: skip
    assert {"blob", "commit", "send:relay:paid", "append:request.sending:relay", "append:run.completed"} <= names


@pytest.mark.deep
@pytest.mark.parametrize("slot", range(SLOTS))
def test_a_death_costs_nothing_but_time(slot: int, driver: Driver, points: list[str], tmp_path: Path) -> None:
    assert die_and_come_back(chosen(points)[slot], driver, tmp_path), "the point was not reached"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_every_single_point(part: int, driver: Driver, all_points: list[str], tmp_path: Path) -> None:
    """What is asked beside something else arrives in another order each time: a last point of its kind may not come."""
    points, absent = all_points[part::8], []
    for at, point in enumerate(points):
        home = tmp_path / str(at)
        home.mkdir()
        if not die_and_come_back(point, driver, home, WHOLE_PLAN):
            absent.append(point)
    assert len(absent) <= len(points) // 20, absent


@pytest.mark.parametrize(
    "second",
    [
        "begin|append:request.unconfirmed|before#1",
        "lanes|send:relay:paid|before#1",
        pytest.param("begin|append:request.unconfirmed|after#1", marks=pytest.mark.deep),
        pytest.param("lanes|answer:paid|arriving#1", marks=pytest.mark.deep),
        pytest.param("closing|append:run.completed|before#1", marks=pytest.mark.deep),
    ],
)
def test_a_second_death_while_coming_back(second: str, driver: Driver, tmp_path: Path) -> None:
    with scene(driver, tmp_path) as stage:
        assert stage.run(at="lanes|answer:paid|arriving#2")[0] == KILLED
        assert stage.command("resume", "latest", "--json", at=second)[0] == KILLED
        died = stage.traced("hash")
        code, said = stage.command("resume", "latest", "--json")
        assert code in (0, 4)
        look_at(stage, died, json.loads(said), second)


def die_and_come_back(point: str, driver: Driver, home: Path, checks: str = LIGHT_PLAN) -> bool:
    """False where the run came to its end without passing the point."""
    with scene(driver, home, checks=checks) as stage:
        code, _ = stage.run(at=point)
        if code == 0:
            return False
        assert code == KILLED, point
        acknowledged = stage.traced("hash")
        final = come_back(stage)
        look_at(stage, acknowledged, final, point)
    return True


def come_back(stage: Scene) -> dict[str, Any]:
    """What a buyer does: reads where it stands, goes on, approves if asked, begins again if told so."""
    code, said = stage.command("status", "--json")
    assert code == 0
    if not json.loads(said)["runs"]:
        return finished(*stage.run())
    code, said = stage.command("resume", "latest", "--json")
    if code == 3 and "approve_cmd" in (asked := json.loads(said)):
        assert stage.paid() == []
        assert stage.command(*shlex.split(asked["approve_cmd"])[1:], "--json")[0] == 0
        code, said = stage.command(*shlex.split(asked["then"])[1:], "--json")
    elif code in (3, 4) and "error" in json.loads(said):
        assert stage.paid() == []
        assert "relay-audit run" in json.loads(said)["next_step"]
        code, said = stage.run()
    return finished(code, said)


def finished(code: int, said: str) -> dict[str, Any]:
    final: dict[str, Any] = json.loads(said)
    lost = [f for f in final["findings"] if f["code"] == "run.unconfirmed_send"]
    assert code == 0 or (code == 4 and lost and final["money"]["unconfirmed"] != "0"), (code, final)
    return final


def look_at(stage: Scene, acknowledged: list[dict[str, Any]], final: dict[str, Any], point: str) -> None:
    assert max(Counter(stage.paid()).values()) == 1, f"{point}: a paid body arrived twice"
    assert final["status"] == "completed"
    for run in stage.runs():
        whole(stage, run)
    nothing_forgotten(stage, acknowledged)
    history = stage.history(next(run for run in stage.runs() if run.name == final["run_id"]))
    lost = {x for x, event in history.intents.items() if history.exchanges[x].failure == "no_outcome"}
    said = [f for f in final["findings"] if f["code"] == "run.unconfirmed_send"]
    assert bool(said) == bool(lost)
    assert (final["money"]["unconfirmed"] == "0") == all(e.state != "unconfirmed" for e in history.ledger.entries)
    assert all(entry.state != "reserved" for entry in history.ledger.entries)
    assert history.ledger.committed <= history.ledger.ceiling
    # what reached the relay is known to the run, whatever became of the answer
    assert len(stage.paid()) <= len(history.intents)
    reports = stage.home / "audits" / final["run_id"] / "reports"
    assert {"vendor", "internal"} <= {path.name.partition(".")[0] for path in reports.iterdir()}
    keys = (stage.served.relay_key, stage.served.official_key)
    assert leaks_below(stage.home, keys) == []
    assert found_in("\n".join(stage.said).encode(), keys) == []


def whole(stage: Scene, run: Path) -> None:
    """The chain holds, and no event points at bytes that are not there."""
    with Store.open(run) as store:
        store.verify_chain()
        for event in store.events():
            if event.payload_ref:
                store.blob(event.payload_ref)


def nothing_forgotten(stage: Scene, acknowledged: list[dict[str, Any]]) -> None:
    """Each event whose append had returned is there, at its place."""
    by_run: dict[str, dict[int, str]] = defaultdict(dict)
    for row in acknowledged:
        by_run[row["run"]][row["event"]] = row["hash"]
    for run, events in by_run.items():
        with Store.open(stage.home / "audits" / run) as store:
            stored = {event.seq: event.hash for event in store.events()}
        assert events.items() <= stored.items()
