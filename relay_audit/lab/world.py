"""One scenario come alive: the official API, the relay before its upstream, and a third host that only listens."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from relay_audit.lab import ids
from relay_audit.lab.gpt_official import OpenAi
from relay_audit.lab.gpt_refusals import Format
from relay_audit.lab.gpt_scenarios import Dialect, scenarios_in
from relay_audit.lab.newapi import NewApi
from relay_audit.lab.newapi_gpt import NewApiGpt, PlainGpt
from relay_audit.lab.official import Official
from relay_audit.lab.proxies import Litellm, PlainProxy
from relay_audit.lab.relay_log import RelayLog
from relay_audit.lab.scenario import Scenario
from relay_audit.lab.stations import ClaudeRelayService, OneApi, Sub2Api, Veloera
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


HOPS: dict[str, Callable[..., Host]] = {
    "new-api": NewApi,
    "litellm": Litellm,
    "sub2api": Sub2Api,
    "claude-relay-service": ClaudeRelayService,
    "one-api": OneApi,
    "veloera": Veloera,
}


class World:
    """In-process use: `handle(side, request)`. Scenario, seed and clock decide every byte of every answer."""

    def __init__(
        self,
        scenario: Scenario | str,
        seed: int = 0,
        now: Callable[[], float] = time.time,
        dialect: Dialect = "anthropic",
    ) -> None:
        self.dialect: Dialect = dialect
        self.scenario = scenarios_in(dialect)[scenario] if isinstance(scenario, str) else scenario
        self.knobs = self.scenario.knobs
        self.now = now
        self.arrivals: list[Arrival] = []
        self.seen = vary(self._rng(seed, "variation"), self.knobs)
        keys = self._rng(seed, "keys")
        self.relay_key = ids.lookalike("sk-lab", 40, keys)
        shape = "sk-ant-api03" if dialect == "anthropic" else "sk-proj"
        self.official_key = ids.lookalike(f"{shape}-lab", 80, keys)
        upstream_key = ids.lookalike(f"{shape}-up", 80, keys)
        self._lock = threading.Lock()
        self.official, self.relay, elsewhere = (
            self._sells_claude(seed, upstream_key)
            if dialect == "anthropic"
            else self._sells_gpt(seed, upstream_key, dialect)
        )
        self._hosts: dict[Side, Host] = {"relay": self.relay, "official": self.official, "elsewhere": elsewhere}

    @property
    def claim(self) -> dict[str, str]:
        """What the vendor of this scenario says, for a target file: channel, group and ratio."""
        return {"channel": self.knobs.claims, "group": self.knobs.group, "ratio": str(self.knobs.group_ratio)}

    @property
    def model(self) -> str:
        """What is bought here, as the relay calls it."""
        return self.scenario.model or ("claude-sonnet-5-5" if self.dialect == "anthropic" else "gpt-6-sol")

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
        return Official(
            key=key,
            seen=self.seen,
            rng=self._rng(seed, purpose),
            now=self.now,
            state=state,
            future=self.knobs.future,
            undecided=self.knobs.undecided,
        )

    def _sells_claude(self, seed: int, upstream_key: str) -> tuple[Host, Host, Host]:
        upstream = self._vendor(seed, "upstream", upstream_key, behind=True)
        elsewhere = PlainProxy(key=None, upstream=self._vendor(seed, "elsewhere", "none", behind=True))
        return (
            self._vendor(seed, "official", self.official_key, behind=False), self._relay(seed, upstream), elsewhere
        )  # fmt: skip

    def _sells_gpt(self, seed: int, upstream_key: str, dialect: Format) -> tuple[Host, Host, Host]:
        def vendor(purpose: str, key: str) -> OpenAi:
            state = self.knobs.official if purpose == "official" else "up"
            return OpenAi(
                key=key,
                dialect=dialect,
                seen=self.seen,
                rng=self._rng(seed, purpose),
                now=self.now,
                state=state,
                undecided=self.knobs.undecided,
            )

        upstream = vendor("upstream", upstream_key)
        plain = PlainGpt(None if self.knobs.lets_anybody_in else self.relay_key, upstream)
        relay = (
            plain
            if self.knobs.software == "plain"
            else NewApiGpt(
                key=self.relay_key,
                knobs=self.knobs,
                seen=self.seen,
                upstream=upstream,
                rng=self._rng(seed, "relay"),
                now=self.now,
            )
        )
        return vendor("official", self.official_key), relay, PlainGpt(None, vendor("elsewhere", "none"))

    def _relay(self, seed: int, upstream: Official) -> Host:
        if self.knobs.software == "plain":
            return PlainProxy(
                key=None if self.knobs.lets_anybody_in else self.relay_key, upstream=upstream, knobs=self.knobs
            )
        rng = self._rng(seed, "relay")
        return HOPS.get(self.knobs.software, NewApi)(
            key=self.relay_key, knobs=self.knobs, seen=self.seen, upstream=upstream, rng=rng, now=self.now
        )
