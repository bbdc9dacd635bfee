"""One scenario come alive: the official API, the relay before its upstream, and a third host that only listens."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from relay_audit.lab import ids
from relay_audit.lab.newapi import NewApi
from relay_audit.lab.official import Official
from relay_audit.lab.proxies import Litellm, PlainProxy
from relay_audit.lab.relay_log import RelayLog
from relay_audit.lab.scenarios import SCENARIOS, Scenario
from relay_audit.lab.variation import vary
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, Side


class Host(Protocol):
    def handle(self, request: HttpRequest) -> HttpAnswer: ...


class Arrival(NamedTuple):
    """One request as it came in, before anything was made of it."""

    side: Side
    method: str
    path: str
    body_sha: str
    body: bytes
    headers: Headers
    at: float


class World:
    """In-process use: `handle(side, request)`. Scenario, seed and clock decide every byte of every answer."""

    def __init__(self, scenario: Scenario | str, seed: int = 0, now: Callable[[], float] = time.time) -> None:
        self.scenario = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
        self.knobs = self.scenario.knobs
        self.now = now
        self.arrivals: list[Arrival] = []
        self.seen = vary(self._rng(seed, "variation"), self.knobs)
        keys = self._rng(seed, "keys")
        self.relay_key = ids.lookalike("sk-lab", 40, keys)
        self.official_key = ids.lookalike("sk-ant-api03-lab", 80, keys)
        self.official = self._vendor(seed, "official", self.official_key, behind=False)
        self._upstream = self._vendor(seed, "upstream", ids.lookalike("sk-ant-api03-up", 80, keys), behind=True)
        self._lock = threading.Lock()
        relay = self._relay(seed)
        elsewhere = PlainProxy(key=None, upstream=self._vendor(seed, "elsewhere", "none", behind=True))
        self._hosts: dict[Side, Host] = {"relay": relay, "official": self.official, "elsewhere": elsewhere}
        self.relay = relay

    @property
    def claim(self) -> dict[str, str]:
        """What the vendor of this scenario says, for a target file: channel, group and ratio."""
        return {"channel": "anthropic", "group": self.knobs.group, "ratio": str(self.knobs.group_ratio)}

    @property
    def log(self) -> RelayLog | None:
        """The relay's books, whatever it shows of them; None where it keeps none."""
        return self.relay.log if isinstance(self.relay, NewApi) else None

    def handle(self, side: Side, request: HttpRequest) -> HttpAnswer:
        """Records the arrival, then answers."""
        with self._lock:
            sha = hashlib.sha256(request.body).hexdigest()
            arrival = Arrival(side, request.method, request.path, sha, request.body, request.headers, self.now())
            self.arrivals.append(arrival)
            return self._hosts[side].handle(request)

    def points_elsewhere(self, url: str) -> None:
        """The address that a redirect names."""
        if isinstance(self.relay, NewApi):
            self.relay.elsewhere = url

    def _rng(self, seed: int, purpose: str) -> random.Random:
        return random.Random(f"{seed}/{self.scenario.name}/{purpose}")

    def _vendor(self, seed: int, purpose: str, key: str, *, behind: bool) -> Official:
        state = "up" if behind else self.knobs.official
        return Official(key=key, seen=self.seen, rng=self._rng(seed, purpose), now=self.now, state=state)

    def _relay(self, seed: int) -> NewApi | Litellm | PlainProxy:
        if self.knobs.software == "plain":
            return PlainProxy(key=self.relay_key, upstream=self._upstream)
        kind = Litellm if self.knobs.software == "litellm" else NewApi
        rng = self._rng(seed, "relay")
        return kind(
            key=self.relay_key, knobs=self.knobs, seen=self.seen, upstream=self._upstream, rng=rng, now=self.now
        )
