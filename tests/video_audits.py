"""Whole audits of film lines against the lab in process: orders, polls, a download, approvals per tier."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from relay_audit import audit
from relay_audit.audit import Judgement, Library
from relay_audit.connect import Connections, Permissions, connect
from relay_audit.endpoint import Endpoint
from relay_audit.errors import RelayAuditError
from relay_audit.lab import HttpRequest
from relay_audit.lab.film import resized
from relay_audit.lab.video_relay import SIZES
from relay_audit.lab.video_world import VideoWorld
from relay_audit.media.examine import examine
from relay_audit.media.pins import pin_of, write_pins
from relay_audit.media_facts import Pin
from relay_audit.recorder import Recorder
from relay_audit.target import target_from
from relay_audit.workspace import Workspace
from tests.audits import LIBRARY, RELAY, TestClock
from tests.media import material as m

FILES = {
    "encoded_again": "reencoded",
    "labelled": "labelled",
    "workflow": "workflow",
    "plain": "plain",
    "wan": "labelled",
}


class Films:
    """Films of every kind, signed once per size by chains that are thrown away."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        official, anybody = m.authority("Demo Official CA"), m.authority("Anybody CA")
        self.chains = {"official": m.chain(official), "rotated": m.chain(official), "self_signed": m.chain(anybody)}
        self.make = functools.lru_cache(None)(self._make)
        self.pins = functools.lru_cache(None)(self._pins)

    def __call__(self, kind: str, width: int, height: int, seconds: int) -> bytes:
        return self.make(kind, width, height, seconds)

    def _make(self, kind: str, width: int, height: int, seconds: int) -> bytes:
        source = resized((m.DATA / f"{FILES.get(kind, 'plain')}.mp4").read_bytes(), width, height, seconds)
        if kind in FILES:
            return source
        official = functools.partial(self.make, "official", width, height, seconds)
        if kind == "stripped":
            return m.without_credentials(official())
        if kind == "transplanted":
            start, end = m.credentials(official())
            other = m.flipped(source, source.index(b"mdat") + 40)
            first = m.top_boxes(other)[0][2]
            return other[:first] + official()[start:end] + other[first:]
        place = self.folder / f"{kind}-{width}.mp4"
        place.write_bytes(official() if kind == "signed_again" else source)
        by = self.chains["self_signed" if kind == "signed_again" else kind]
        parent = place if kind == "signed_again" else None
        return m.sign(place, self.folder / f"{kind}-{width}-signed.mp4", by, parent=parent).read_bytes()

    def _pins(self, day: dt.date) -> tuple[Pin, ...]:
        """Originals of the buyer's own, of both vendors."""
        made = []
        for profile, kind in (("seedance", "official"), ("wan", "wan")):
            place = self.folder / f"pinned-{kind}.mp4"
            place.write_bytes(self(kind, *SIZES["480p"], 5))
            made.append(pin_of(examine(place), profile, day, integrity_checked=True))
        return tuple(made)


class VideoDoor(httpx.AsyncBaseTransport):
    """The transport's inner end: the relay's address leads to the relay, any other one to the store."""

    def __init__(self, lane: VideoRun, endpoint: Endpoint) -> None:
        self.lane, self.endpoint = lane, endpoint

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        side = "relay" if self.endpoint.base_url == RELAY else "elsewhere"
        headers = tuple((name.decode(), value.decode()) for name, value in request.headers.raw)
        path = request.url.raw_path.decode()
        if (instead := self.lane.replace and self.lane.replace(request.method, path)) is not None:
            if isinstance(instead, BaseException):
                raise instead
            return instead
        answer = self.lane.world.handle(side, HttpRequest(request.method, path, headers, await request.aread()))
        self.lane.clock.pass_(0.05)
        length = ("content-length", str(len(answer.body)))
        return httpx.Response(answer.status, headers=[*answer.headers, length], content=answer.body, request=request)


@dataclass
class VideoRun:
    """One run; `replace` may answer (or fail) instead of the lab."""

    world: VideoWorld
    clock: TestClock
    space: Workspace
    library: Library
    replace: Callable[[str, str], httpx.Response | BaseException | None] | None = None
    recorder: Recorder = field(init=False)
    connections: Connections = field(init=False)

    def begin(self, **tables: Any) -> None:
        table: dict[str, Any] = {
            "target": {"model": self.world.model, "dialect": self.world.dialect, "claim": dict(self.world.claim)},
            "relay": {"base_url": RELAY, "key_env": "LAB_RELAY_KEY"},
            "video": {"tiers": [{"resolution": name, "seconds": 5} for name in self.world.scenario.tiers]},
            **tables,
        }
        target, environ = target_from(table), {"LAB_RELAY_KEY": self.world.relay_key}
        pack = self.library.packs.pack(self.world.dialect)
        self.connections = connect(target, pack, self.library.key_shapes, self.space, self.clock, environ, Permissions(),
                                   lambda *_: None, inner=lambda endpoint: VideoDoor(self, endpoint))  # fmt: skip
        self.recorder = audit.begin(target, self.library, self.connections, self.space, self.clock, environ)

    def plan(self) -> Any:
        asked = {"offline": False, "free_only": False}
        return asyncio.run(audit.plan_and_quote(self.recorder, self.connections, self.library, None, **asked))

    def approve(self) -> None:
        quote = self.recorder.history.quote
        audit.approve(self.recorder, quote.digest, quote.at_most, "test", "flag")

    def execute(self) -> None:
        asyncio.run(audit.execute(self.recorder, self.connections, self.library, self.space))

    def whole(self) -> Judgement:
        """Every tier approved in its turn."""
        self.plan()
        for _ in range(5):
            self.approve()
            self.execute()
            if self.recorder.history.status != "awaiting_approval":
                break
        return audit.judge(self.recorder.store)

    def again(self) -> None:
        """Another process takes the folder over."""
        self.recorder = Recorder(self.recorder.store, self.clock)


def video_run(
    scenario: str, home: Path, films: Films, *, seed: int = 1, pinned: bool = True, begin: bool = True, **tables: Any
) -> VideoRun:
    clock = TestClock()
    world = VideoWorld(scenario, seed, clock.unix, films)
    space = Workspace(home / "audits", home / "state", home / "config")
    library = LIBRARY
    if pinned:
        write_pins(space.pins, films.pins(clock.now().date()))
        library = audit.with_pins(LIBRARY, space.pins)
    run = VideoRun(world, clock, space, library)
    if begin:
        run.begin(**tables)
    return run


def above_info(judgement: Judgement) -> set[str]:
    return {f.code for f in judgement.findings if f.above_info}


def codes(judgement: Judgement) -> set[str]:
    return {f.code for f in judgement.findings}


__all__ = ["Films", "RelayAuditError", "VideoRun", "above_info", "codes", "video_run"]
