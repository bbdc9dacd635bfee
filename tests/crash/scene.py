"""One lab, one home, one driver: what a crash test starts, asks and looks at afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from relay_audit.lab import Served, serve
from relay_audit.replay import History, replay
from relay_audit.store import Store, runs_in

KILLED = -9
Act = Literal["kill", "interrupt", "wait"]
SECONDS = 60
"""A child that takes longer has hung."""


class Driver:
    """The forking child program, and a way to give it orders."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("driver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, order: dict[str, Any]) -> int:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        return int(json.loads(self._child.stdout.readline())["code"])

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(timeout=10)


@dataclass
class Scene:
    """A buyer's folder beside a running lab."""

    driver: Driver
    served: Served
    home: Path
    checks: str = "[1, 2, 6]"
    """The light suite's plan; "[]" is the whole one."""
    name: str = "one"
    """Tells two commands apart that run at the same time."""
    said: list[str] = field(default_factory=list)
    """Everything any command wrote to stdout or stderr."""

    def command(self, *argv: str, at: str = "", act: Act = "kill") -> tuple[int, str]:
        """One command line in a child of its own: exit code (negative: the signal) and stdout."""
        out, err = self.home / f"{self.name}.stdout", self.home / f"{self.name}.stderr"
        code = self.driver(
            {
                "argv": argv,
                "env": self.environ,
                "cwd": str(self.home),
                "at": at,
                "act": act,
                "gate": str(self.gate),
                "trace": str(self.trace),
                "out": str(out),
                "err": str(err),
                "seconds": SECONDS,
            }
        )
        said = out.read_text(encoding="utf-8")
        self.said += [said, err.read_text(encoding="utf-8")]
        return code, said

    @property
    def environ(self) -> dict[str, str]:
        closed = "http://127.0.0.1:9"
        return {
            "PATH": os.environ["PATH"],
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "RELAY_AUDIT_HOME": str(self.home / "private"),
            "RELAY_KEY": self.served.relay_key,
            "OFFICIAL_KEY": self.served.official_key,
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), closed),
        }

    @property
    def trace(self) -> Path:
        return self.home / f"{self.name}.trace"

    @property
    def gate(self) -> Path:
        """A child that waits goes on when this file is there."""
        return self.home / f"{self.name}.gate"

    def passed(self, point: str, patience: float = 20.0) -> None:
        """Returns when a child has come to a point."""
        deadline = time.monotonic() + patience
        while point not in [row["point"] for row in self.traced("point")]:
            assert time.monotonic() < deadline, f"nobody came to {point}"
            time.sleep(0.02)

    @property
    def target(self) -> Path:
        path = self.home / "target.toml"
        path.write_text(
            '[target]\nname = "line-a"\nmodel = "claude-sonnet-5-5"\nclaim = { channel = "anthropic" }\n'
            f'[relay]\nbase_url = "{self.served.relay_url}"\nkey_env = "RELAY_KEY"\n'
            f'[official]\nbase_url = "{self.served.official_url}"\nkey_env = "OFFICIAL_KEY"\n'
            f'[audit]\nprofile = "quick"\nchecks = {self.checks}\n',
            encoding="utf-8",
        )
        return path

    def run(self, at: str = "", act: Act = "kill") -> tuple[int, str]:
        return self.command("run", str(self.target), "--max-usd", "1", "--no-input", "--json", at=at, act=act)

    def traced(self, key: str) -> list[dict[str, Any]]:
        """The driver's own diary, in order, cut to the lines that hold `key`."""
        written = self.trace.read_bytes() if self.trace.exists() else b""
        lines = written.rpartition(b"\n")[0].splitlines()  # what follows the last line break is being written
        return [row for row in map(json.loads, lines) if key in row]

    def runs(self) -> list[Path]:
        return runs_in(self.home / "audits")

    def history(self, run: Path) -> History:
        with Store.open(run) as store:
            return replay(store)

    def paid(self) -> list[str]:
        """Digests of the chargeable bodies that reached the relay, in order of arrival."""
        return [a.body_sha for a in self.served.arrivals if a.side == "relay" and a.method == "POST"]


@contextmanager
def scene(driver: Driver, home: Path, scenario: str = "honest", **more: str) -> Iterator[Scene]:
    with serve(scenario, pace=0) as served:
        yield Scene(driver, served, home, **more)
