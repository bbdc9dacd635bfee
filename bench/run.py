"""Three ratios in one run, so that the machine cancels out: start-up, CPU per exchange, wall time.

`make bench`, or `python bench/run.py [--json]`. Loopback only; no key, no account.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from decimal import Decimal
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

from append import append

from relay_audit.cli.course import run_one
from relay_audit.cli.flow import Invocation
from relay_audit.clock import SystemClock
from relay_audit.lab import Arrival, HttpAnswer, HttpRequest, Served, serve
from relay_audit.lab.server import Handler
from relay_audit.lab.wire import Side
from relay_audit.target import target_from
from relay_audit.workspace import Workspace

SCENARIO = "honest"
LATENCY_S = 0.2
REPEATS = 5
PROGRAM = (
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'relay-audit'\nfrom relay_audit.cli.main import main\nmain()",
)
BARE = """
import json, sys, httpx
work = json.load(open(sys.argv[1]))
with httpx.Client(trust_env=False) as client:
    for _ in range(int(sys.argv[2])):
        for method, url, headers, body in work:
            client.request(method, url, headers=headers, content=body.encode())
"""
"""The same requests over one connection, and nothing else: no plan, no record, no redaction, no disk."""


def cpu(*command: str, cwd: str | None = None, env: dict[str, str] | None = None) -> float:
    """CPU seconds, user and system, of one child: with its modules compiled, as an installed program has them."""
    env = {name: value for name, value in (env or os.environ).items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{command} ended with {done.returncode}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_up() -> dict[str, float]:
    """`relay-audit --help` against the import of the library that prints it."""
    cpu(*PROGRAM, "--help")  # whatever is not compiled yet
    ours = statistics.median(cpu(*PROGRAM, "--help") for _ in range(REPEATS))
    typer = statistics.median(cpu(sys.executable, "-c", "import typer") for _ in range(REPEATS))
    return {"help_cpu_s": ours, "import_typer_cpu_s": typer, "ratio": ours / typer}


def per_exchange(home: str) -> dict[str, float]:
    """A whole audit (plan, quote, records, redaction, judgement, two reports) against its requests alone."""
    with serve(SCENARIO, pace=0) as served:
        target = Path(home) / "target.toml"
        target.write_text(target_text(served), encoding="utf-8")
        keys = {"RELAY_KEY": served.relay_key, "OFFICIAL_KEY": served.official_key, "RELAY_AUDIT_HOME": home}
        whole = cpu(*PROGRAM, "run", str(target), "--max-usd", "1", cwd=home, env={**os.environ, **keys})
        number = len(served.arrivals)
        work = Path(home) / "work.json"
        work.write_text(json.dumps([sendable(served, arrival) for arrival in served.arrivals]), encoding="utf-8")
        bare = cpu(sys.executable, "-c", BARE, str(work), str(REPEATS))
    idle, loaded = cpu(*PROGRAM, "--help"), cpu(sys.executable, "-c", "import httpx")
    ours, theirs = (whole - idle) / number, (bare - loaded) / number / REPEATS
    return {"exchanges": number, "ours_ms": ours * 1000, "bare_httpx_ms": theirs * 1000, "ratio": ours / theirs}


def target_text(served: Served) -> str:
    return (
        '[target]\nmodel = "claude-sonnet-5-5"\nclaim = { channel = "anthropic" }\n'
        f'[relay]\nbase_url = "{served.relay_url}"\n[official]\nbase_url = "{served.official_url}"\n'
    )


def sendable(served: Served, arrival: Arrival) -> tuple[str, str, dict[str, str], str]:
    origin = served.relay_url if arrival.side == "relay" else served.official_url
    kept = {
        name: value for name, value in arrival.headers if name.lower() not in ("host", "content-length", "connection")
    }
    return arrival.method, origin + arrival.path, kept, arrival.body.decode()


def report(home: str) -> dict[str, float]:
    """A stored run as the vendor's page, past the leak guard, against the import of the three libraries it needs."""
    env = {**os.environ, "RELAY_AUDIT_HOME": home}
    out = Path(home) / "vendor.html"
    asked = (*PROGRAM, "report", "latest", "--for", "vendor", "--lang", "zh-CN", "-o", str(out))
    cpu(*asked, cwd=home, env=env)  # whatever is not compiled yet
    ours = statistics.median(cpu(*asked, cwd=home, env=env) for _ in range(3))
    bare = statistics.median(cpu(sys.executable, "-c", "import typer, pydantic, jinja2") for _ in range(3))
    return {"report_cpu_s": ours, "imports_cpu_s": bare, "kilobytes": out.stat().st_size / 1024, "ratio": ours / bare}


@dataclass
class LoggedClock(SystemClock):
    """The system's time, and the waits that were asked of it."""

    waited: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        await asyncio.sleep(seconds)


def slow_lab(pipe: Connection, slow: tuple[Side, ...]) -> None:
    """A process of its own, as a relay is one: every answer of the slow sides takes `LATENCY_S` on top of its making. Sends
    the lab, then the spans of its answers as it logged them: from the request's first line to the answer's last byte."""
    spans: dict[Side, list[tuple[float, float]]] = {"relay": [], "official": [], "elsewhere": []}
    with serve(SCENARIO) as served:
        answer, handle = served.world.handle, Handler.handle_one_request

        def slowly(side: Side, request: HttpRequest) -> HttpAnswer:
            return replace(answer(side, request), delay=LATENCY_S if side in slow else 0.0)

        def logged(handler: Handler) -> None:
            begin = time.monotonic()
            handle(handler)
            if not handler.close_connection or handler.raw_requestline:
                spans[handler.server.side].append((begin, time.monotonic()))

        served.world.handle = slowly  # type: ignore[method-assign]
        Handler.handle_one_request = logged  # type: ignore[method-assign]
        pipe.send((served.relay_url, served.official_url, served.relay_key, served.official_key))
        pipe.recv()
        pipe.send(spans)


def wall_time(home: str, *, slow_vendor: bool = False) -> dict[str, float]:
    """Against the sum of the relay's response times as it logged them, and the waits that its books ask for. Paid answers
    come one after the other, as they have to; `relay_busy_s` is less than the sum by what free pages overlap. With a vendor
    as slow as the relay, its answers that no relay answer overlaps are part of what cannot be hurried."""
    clock, (here, there) = LoggedClock(), Pipe()
    slow: tuple[Side, ...] = ("relay", "official") if slow_vendor else ("relay",)
    lab = get_context("spawn").Process(target=slow_lab, args=(there, slow), daemon=True)
    lab.start()
    relay_url, official_url, relay_key, official_key = here.recv()
    with chdir(home):
        call = Invocation(lang="en", as_json=True, no_input=True, max_usd=Decimal(1), clock=clock)
        call.environ = {**os.environ, "LAB_RELAY_KEY": relay_key, "LAB_OFFICIAL_KEY": official_key}
        call.space = Workspace(Path(home) / "audits", Path(home) / "state", Path(home) / "config")
        target = target_from(
            {
                "target": {"model": "claude-sonnet-5-5", "claim": {"channel": "anthropic"}},
                "relay": {"base_url": relay_url, "key_env": "LAB_RELAY_KEY"},
                "official": {"base_url": official_url, "key_env": "LAB_OFFICIAL_KEY"},
            }
        )
        began = time.monotonic()
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            run_one(target, call)
        wall = time.monotonic() - began
    here.send("done")
    spans: dict[Side, list[tuple[float, float]]] = here.recv()
    lab.join(10)
    relay, busy, waits = sum(end - begin for begin, end in spans["relay"]), covered(spans["relay"]), sum(clock.waited)
    alone = covered(spans["relay"] + spans["official"]) - busy if slow_vendor else 0.0
    figures = {"wall_s": wall, "relay_s": relay, "relay_busy_s": busy, "waits_s": waits}
    figures["ratio"] = wall / (relay + waits + alone)
    return figures | ({"official_alone_s": alone} if slow_vendor else {})


def covered(spans: list[tuple[float, float]]) -> float:
    """Seconds in which at least one answer was on its way."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def main(arguments: list[str]) -> int:
    with ExitStack() as homes:
        one, two, three = (homes.enter_context(tempfile.TemporaryDirectory()) for _ in range(3))
        figures = {"start-up": start_up(), "CPU per exchange": per_exchange(one)}
        figures["wall time"] = wall_time(two)
        figures["wall, slow vendor"] = wall_time(three, slow_vendor=True)
        figures["report (HTML)"] = report(one)
        figures["durable append"] = append()
    if "--json" in arguments:
        print(json.dumps(figures))
        return 0
    for name, values in figures.items():
        rest = "  ".join(f"{key} {value:.3g}" for key, value in values.items() if key != "ratio")
        print(f"{name:<18} x {values['ratio']:<6.2f} {rest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
