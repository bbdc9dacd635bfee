"""One scenario of films come alive: the relay, and the store that delivers. There is no official side: pins stand in."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

from relay_audit.lab import ids
from relay_audit.lab.film import FilmMaker, plain_film
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.video_relay import VideoRelay
from relay_audit.lab.video_scenarios import VIDEO_SCENARIOS, VideoScenario
from relay_audit.lab.wire import HttpAnswer, HttpRequest, Side
from relay_audit.lab.world import Arrival

MODELS = {"seedance": "doubao-seedance-2-0-260128", "wan": "wan2.7-t2v"}
DIALECTS = {"seedance": "ark_video", "wan": "dashscope_video"}


class VideoWorld:
    """As `World`, for films: `handle(side, request)`; the store is the side `elsewhere`."""

    def __init__(
        self,
        scenario: VideoScenario | str,
        seed: int = 0,
        now: Callable[[], float] = time.time,
        films: FilmMaker = plain_film,
    ) -> None:
        self.scenario = VIDEO_SCENARIOS[scenario] if isinstance(scenario, str) else scenario
        self.now = now
        self.arrivals: list[Arrival] = []
        self.knobs = Knobs()
        self.seen = SimpleNamespace(gzip=False)
        rng = random.Random(f"{seed}/{self.scenario.name}")
        self.relay_key = ids.lookalike("sk-lab", 40, rng)
        self.official_key = ids.lookalike("ark-lab", 40, rng)
        self.model = self.scenario.model or MODELS[self.scenario.knobs.vendor]
        self.dialect = DIALECTS[self.scenario.knobs.vendor]
        self.claim = {"channel": "unknown", "group": "default", "ratio": "1"}
        self._lock = threading.Lock()
        self.relay = VideoRelay(
            key=self.relay_key, model=self.model, knobs=self.scenario.knobs, films=films, rng=rng, now=now
        )
        self.log = None

    def handle(self, side: Side, request: HttpRequest) -> HttpAnswer:
        """Records the arrival, then answers."""
        with self._lock:
            sha = hashlib.sha256(request.body).hexdigest()
            arrival = Arrival(side, request.method, request.path, sha, request.body, request.headers, self.now())
            self.arrivals.append(arrival)
            if side == "elsewhere":
                return self.relay.store(request)
            return self.relay.handle(request) if side == "relay" else HttpAnswer(404)

    def points_elsewhere(self, url: str) -> None:
        """Where the store listens, when it is served on loopback."""
        self.relay.store_url = url

    @property
    def orders(self) -> list[Arrival]:
        """What was ordered, in order of arrival."""
        return [arrival for arrival in self.arrivals if arrival.method == "POST" and arrival.side == "relay"]
