"""One whole audit in a test: against a lab scenario in process (at the transport's seam, on a clock of its own) or served
on loopback. What runs is the program's own path; only the network and the clock are replaced."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from relay_audit import audit
from relay_audit.audit import Judgement, Library
from relay_audit.clock import Clock, SystemClock
from relay_audit.connect import Permissions, connect
from relay_audit.errors import RelayAuditError
from relay_audit.intake import Limits
from relay_audit.lab import Dialect, HttpRequest, Scenario, Served, World
from relay_audit.lab.wire import Side
from relay_audit.recorder import Recorder
from relay_audit.target import Target, target_from
from relay_audit.workspace import Workspace

RELAY, OFFICIAL = "http://127.0.0.1:7001", "http://127.0.0.1:7002"
LIBRARY: Library = audit.load_library()


class TestClock:
    """Time that moves only when something waits; the lab shares it."""

    __test__ = False

    def __init__(self, start: dt.datetime = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)) -> None:
        self._start = start
        self._passed = 0.0

    def now(self) -> dt.datetime:
        return self._start + dt.timedelta(seconds=self._passed)

    def unix(self) -> float:
        return self.now().timestamp()

    def monotonic(self) -> float:
        return self._passed

    def pass_(self, seconds: float) -> None:
        self._passed += seconds

    async def sleep(self, seconds: float) -> None:
        self.pass_(seconds)
        await asyncio.sleep(0)


class Door(httpx.AsyncBaseTransport):
    """The transport's inner end, opening into a lab world instead of a socket."""

    def __init__(self, world: World, side: Side, clock: TestClock) -> None:
        self._world, self._side, self._clock = world, side, clock

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = tuple((name.decode(), value.decode()) for name, value in request.headers.raw)
        path = request.url.raw_path.decode()
        answer = self._world.handle(self._side, HttpRequest(request.method, path, headers, await request.aread()))
        self._clock.pass_(max(answer.delay, 0.01))
        if answer.behaviour == "hang":
            raise httpx.ReadTimeout("hang", request=request)
        if answer.behaviour == "reset":
            raise httpx.ReadError("reset", request=request)
        if answer.flow is not None:
            body = b"".join(part for _, part in zip(range(64), answer.flow(), strict=False) for part in [part[1]])
        else:
            body = answer.body
        names = {name.lower() for name, _ in answer.headers}
        extra = [] if "content-length" in names else [("content-length", str(len(body)))]
        return httpx.Response(answer.status, headers=[*answer.headers, *extra], content=body, request=request)


@dataclass
class Audited:
    judgement: Judgement | None
    recorder: Recorder | None
    error: RelayAuditError | None = None

    @property
    def codes(self) -> set[str]:
        """Codes of findings above info."""
        return {f.code for f in self.judgement.findings if f.above_info} if self.judgement else set()

    @property
    def all_codes(self) -> set[str]:
        return {f.code for f in self.judgement.findings} if self.judgement else set()

    def finding(self, code: str) -> Any:
        assert self.judgement is not None
        return next(f for f in self.judgement.findings if f.code == code)


def target_for(world: World, relay: str, official: str | None, **audit_table: Any) -> Target:
    table: dict[str, Any] = {
        "target": {
            "name": "line-under-test",
            "model": world.model,
            "dialect": world.dialect,
            "claim": dict(world.claim),
        },
        "relay": {"base_url": relay, "key_env": "LAB_RELAY_KEY"},
    }
    if official:
        table["official"] = {"base_url": official, "key_env": "LAB_OFFICIAL_KEY"}
    if audit_table:
        table["audit"] = audit_table
    return target_from(table)


def in_process(
    scenario: str | Scenario,
    seed: int,
    home: Path,
    *,
    official: bool = True,
    clock: TestClock | None = None,
    dialect: Dialect = "anthropic",
    library: Library = LIBRARY,
    **table: Any,
) -> Audited:
    """The audit of a scenario without a socket, on a clock of its own."""
    time = clock or TestClock()
    world = World(scenario, seed, time.unix, dialect)
    target = target_for(world, RELAY, OFFICIAL if official else None, **table)
    name = scenario if isinstance(scenario, str) else scenario.name
    return _audit(target, world, home / f"{name}-{seed}-{official}", time, library,
                  inner=lambda endpoint: Door(world, endpoint.side, time))  # fmt: skip


def against_itself(
    scenario: str, seed: int, home: Path, *, clock: TestClock | None = None, dialect: Dialect = "anthropic", model: str = "",
    library: Library = LIBRARY,
) -> Audited:  # fmt: skip
    """The lab's official side held against itself, one key for both."""
    time = clock or TestClock()
    world = World(scenario, seed, time.unix, dialect)
    channel = "anthropic" if dialect == "anthropic" else "openai"
    side = {"base_url": OFFICIAL, "key_env": "LAB_OFFICIAL_KEY"}
    subject = {"model": model or world.model, "dialect": dialect, "claim": {"channel": channel}}
    target = target_from({"target": subject, "relay": side, "official": side, "audit": {"profile": "thorough"}})
    return _audit(target, world, home / f"itself-{scenario}-{seed}", time, library,
                  inner=lambda _: Door(world, "official", time))  # fmt: skip


def over_http(
    served: Served, home: Path, *, official: bool = True, limits: Limits | None = None, **table: Any
) -> Audited:
    """The audit of a served scenario over real loopback HTTP."""
    target = target_for(served.world, served.relay_url, served.official_url if official else None, **table)
    return _audit(target, served.world, home, SystemClock(), limits=limits)


def _audit(target: Target, world: World, home: Path, clock: Clock, library: Library = LIBRARY, **ways: Any) -> Audited:
    space = Workspace(home / "audits", home / "state", home / "config")
    environ = {"LAB_RELAY_KEY": world.relay_key, "LAB_OFFICIAL_KEY": world.official_key}
    connections = connect(
        target,
        library.packs.pack(target.subject.dialect),
        library.key_shapes,
        space,
        clock,
        environ,
        Permissions(),
        lambda *_: None,
        **ways,
    )
    recorder = audit.begin(target, library, connections, space, clock, environ)

    async def whole() -> None:
        quote = await audit.plan_and_quote(recorder, connections, library, None, offline=False, free_only=False)
        audit.approve(recorder, quote.digest, quote.at_most, "test", "flag")
        await audit.execute(recorder, connections, library, space)

    try:
        asyncio.run(whole())
    except RelayAuditError as error:
        recorder.store.close()
        return Audited(None, recorder, error)
    judgement = audit.judge(recorder.store)
    recorder.store.close()
    return Audited(judgement, recorder)


def sample(scenarios: Mapping[str, Scenario]) -> frozenset[str]:
    """What the light suite plays of a table: for each code the first scenario that shows it, and of the rest every twelfth.
    The whole table is in the deep suite, and its honest half in the seeds too."""
    seen: set[str] = set()
    chosen: list[str] = []
    for name, row in scenarios.items():
        if row.expect - seen:
            seen |= row.expect
            chosen.append(name)
    rest = [name for name in scenarios if name not in chosen]
    return frozenset([*chosen, *rest[::12]])
