"""An audit one act at a time, against the lab behind the seam: every request is seen, any answer can be replaced."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from relay_audit import audit
from relay_audit.audit import Judgement
from relay_audit.connect import Connections, Permissions, connect
from relay_audit.lab import World
from relay_audit.quote import Approval, Quote
from relay_audit.recorder import Recorder
from relay_audit.relays import new_api
from relay_audit.target import target_from
from relay_audit.workspace import Workspace
from tests.audits import LIBRARY, OFFICIAL, RELAY, Door, TestClock

ENVIRON_RELAY, ENVIRON_OFFICIAL = "LAB_RELAY_KEY", "LAB_OFFICIAL_KEY"


@dataclass(frozen=True)
class Seen:
    side: str
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any] | None
    beside: int
    """Requests to the same side that were still open when this one arrived."""


Replace = Callable[[Seen, int], httpx.Response | Exception | None]
"""Given a request and how many came to this path before it: what is answered instead, or None."""


@dataclass
class Staged:
    world: World
    clock: TestClock
    space: Workspace
    connections: Connections
    recorder: Recorder
    environ: dict[str, str]
    seen: list[Seen] = field(default_factory=list)
    notes: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    @property
    def history(self) -> Any:
        return self.recorder.history

    def plan(self, **ways: bool) -> Quote:
        asked = {"offline": False, "free_only": False, **ways}
        return asyncio.run(audit.plan_and_quote(self.recorder, self.connections, LIBRARY, None, **asked))

    def approve(self, ceiling: Decimal | None = None) -> Approval:
        quote = self.history.quote
        return audit.approve(self.recorder, quote.digest, quote.at_most if ceiling is None else ceiling, "test", "flag")

    def execute(self) -> None:
        asyncio.run(audit.execute(self.recorder, self.connections, LIBRARY, self.space))

    def whole(self, ceiling: Decimal | None = None) -> Judgement:
        self.plan()
        self.approve(ceiling)
        self.execute()
        return self.judged()

    def judged(self) -> Judgement:
        return audit.judge(self.recorder.store)

    def paths(self, side: str = "relay", method: str | None = None) -> list[str]:
        return [s.path for s in self.seen if s.side == side and method in (None, s.method)]


class Watched(Door):
    def __init__(self, staged: Staged, side: str, open_: dict[str, int], replace: Replace | None) -> None:
        super().__init__(staged.world, side, staged.clock)
        self._staged, self._name, self._open, self._replace = staged, side, open_, replace

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raw = await request.aread()
        path = request.url.raw_path.decode()
        seen = Seen(
            self._name,
            request.method,
            path,
            dict(request.headers),
            json.loads(raw) if raw else None,
            self._open[self._name],
        )
        before = sum(s.side == seen.side and s.path == path for s in self._staged.seen)
        self._staged.seen.append(seen)
        self._open[self._name] += 1
        try:
            await asyncio.sleep(0)
            instead = self._replace(seen, before) if self._replace else None
            if isinstance(instead, Exception):
                raise instead
            answer = instead if instead is not None else await super().handle_async_request(request)
            await asyncio.sleep(0)
            return answer
        finally:
            self._open[self._name] -= 1


def staged(
    scenario: str,
    home: Path,
    *,
    official: bool = True,
    replace: Replace | None = None,
    seed: int = 3,
    permissions: Permissions | None = None,
    **tables: dict[str, Any],
) -> Staged:
    """A run that has begun and sent nothing. `tables` are merged into the target file."""
    clock = TestClock()
    world = World(scenario, seed, clock.unix)
    table: dict[str, Any] = {
        "target": {"name": "line-under-test", "model": "claude-sonnet-5-5", "claim": dict(world.claim)},
        "relay": {"base_url": RELAY, "key_env": ENVIRON_RELAY},
    }
    if official:
        table["official"] = {"base_url": OFFICIAL, "key_env": ENVIRON_OFFICIAL}
    for name, more in tables.items():
        table[name] = {**table.get(name, {}), **more}
    target = target_from(table)
    space = Workspace(home / "audits", home / "state", home / "config")
    environ = {ENVIRON_RELAY: world.relay_key, ENVIRON_OFFICIAL: world.official_key}
    made: list[Staged] = []
    notes: list[tuple[str, dict[str, object]]] = []
    open_ = {"relay": 0, "official": 0}
    connections = connect(
        target,
        LIBRARY.packs.pack(target.subject.dialect),
        LIBRARY.key_shapes,
        space,
        clock,
        environ,
        permissions or Permissions(),
        lambda name, params: notes.append((name, dict(params))),
        inner=lambda endpoint: Watched(made[0], endpoint.side, open_, replace),
    )
    recorder = audit.begin(target, LIBRARY, connections, space, clock, environ)
    made.append(Staged(world, clock, space, connections, recorder, environ, notes=notes))
    return made[0]


def json_answer(body: object, status: int = 200, **headers: str) -> httpx.Response:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return httpx.Response(status, headers={"content-type": "application/json", **headers}, content=content)


def somebody_spends() -> Callable[[Seen, int], httpx.Response | None]:
    """For `replace`: each time the balance is asked, others have spent twenty dollars on the key."""
    used = itertools.count(10_000_000, 10_000_000)

    def answer(seen: Seen, _before: int) -> httpx.Response | None:
        if seen.path != new_api.BALANCE:
            return None
        return json_answer({"code": True, "data": {"total_used": next(used), "total_available": 10**9}})

    return answer
