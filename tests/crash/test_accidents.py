"""What else may lie around after a death: a run that cannot be read, a plan that charges nothing, an address that
turned bad between two requests."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from canary import leaks_below
from scene import KILLED, Driver, scene

from relay_audit.clock import SystemClock
from relay_audit.errors import AddressRefused
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.runner import Runner
from relay_audit.store import Store
from relay_audit.transport import Endpoint


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


def test_a_run_that_cannot_be_read_hides_no_other(driver: Driver, tmp_path: Path) -> None:
    with scene(driver, tmp_path) as stage:
        assert stage.run("readings_before|send:relay:free|before#1")[0] == KILLED
        good = stage.runs()[0]
        bad = good.with_name(f"{good.name}x")
        shutil.copytree(good, bad)
        for name in ("run.sqlite3-wal", "run.sqlite3-shm"):
            (bad / name).unlink(missing_ok=True)
        (bad / "run.sqlite3").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
        code, said = stage.command("status", "--json")
        rows = {row["run_id"]: row for row in json.loads(said)["runs"]}
        assert (code, rows[bad.name]["status"], rows[good.name]["status"]) == (0, "unreadable", "running")
        assert stage.command("status")[0] == 0
        code, said = stage.command("resume", bad.name, "--json")
        assert (code, json.loads(said)["error"]) == (70, "store")


@pytest.mark.parametrize("at", ["quoted|append:run.state_changed|after#1", "quoted|append:signal.received|after#1"])
def test_a_plan_that_charges_nothing_is_gone_on_with_without_leave(at: str, driver: Driver, tmp_path: Path) -> None:
    with scene(driver, tmp_path) as stage:
        assert stage.command("run", str(stage.target), "--free-only", "--json", at=at)[0] == KILLED
        code, said = stage.command("resume", "latest", "--json")
        assert (code, stage.paid()) == (0, [])
        assert json.loads(said)["status"] == "completed"


def test_a_request_we_refused_ourselves_costs_nothing_and_may_be_sent_later(driver: Driver, tmp_path: Path) -> None:
    """A name that suddenly leads to a private address: the intent is on disk, but no socket was opened for it."""
    with scene(driver, tmp_path) as stage:
        assert stage.run("lanes|append:request.sending:relay|before#1")[0] == KILLED
        run = stage.runs()[0]
        with Store.open(run) as store:
            recorder = Recorder(store, SystemClock())
            history = recorder.history
            assert history.plan is not None
            assert history.quote is not None
            step = history.plan.chargeable()[0]
            worker = Runner(recorder, _RefusingSides(), None)  # type: ignore[arg-type]
            with pytest.raises(AddressRefused):
                asyncio.run(worker._send_as(step, auth_trial=False))
            entry = replay(store).ledger.entries[-1]
            assert (entry.state, entry.amount) == ("released", 0)
        code, said = stage.command("resume", "latest", "--json")
        assert code == 0
        assert "run.unconfirmed_send" not in {finding["code"] for finding in json.loads(said)["findings"]}
        assert len(stage.paid()) == len(set(stage.paid())) == len(history.plan.chargeable())
        assert leaks_below(stage.home, [stage.served.relay_key]) == []


class _RefusingSides:
    """A way out that finds the address private."""

    def __init__(self) -> None:
        self.relay = Endpoint("relay", "https://relay.example")
        self.official = None
        self.transport = self
        self.clock = SystemClock()

    async def send(self, *_: object) -> None:
        raise AddressRefused("the name leads to a private address", next_step="check it")

    def notify(self, *_: object) -> None:
        raise AssertionError("nothing was sent")
