"""Lives of a run in this process: the lab behind the transport's seam, a death that is simulated, and a buyer who comes back.

A simulated death is an exception that no `except Exception` sees; after it every durable write and every send refuses, so
that what unwinds afterwards changes nothing on disk, as after a kill. What only a real kill shows (drafts left lying,
locks let go by the system) is tried with real kills beside it (`test_crash_matrix.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from driver import Fate, install

from relay_audit import audit, filing, store, transport
from relay_audit.allowance import MONTH, Allowance
from relay_audit.connect import Connections, Permissions, connect
from relay_audit.errors import RunCancelled, Unfinished
from relay_audit.lab import World
from relay_audit.recorder import Recorder
from relay_audit.replay import FINAL, History, replay
from relay_audit.runner import Runner
from relay_audit.settlement import Settlement
from relay_audit.signals import AddContext, Cancel, Decline, Pause, Resume, Revise, Signal
from relay_audit.store import Store, run_lock, runs_in
from relay_audit.target import target_from
from relay_audit.workspace import Workspace
from tests.audits import LIBRARY, OFFICIAL, RELAY, Door, TestClock
from tests.steered import said_to

LIVES = 6
"""How often a buyer comes back to one run: more would be a run that cannot be finished."""


class Death(BaseException):
    """The process is gone."""


class Simulated(Fate):
    """Counts points; at the one that was named the process dies, and is dead from then on."""

    def __init__(self, at: str) -> None:
        self.phase = "begin"
        self._at, self.dead = at, False
        self._seen: Counter[str] = Counter()
        self.noted: list[dict[str, Any]] = []

    def point(self, name: str, when: str) -> None:
        if self.dead:
            raise Death
        super().point(name, when)

    def _meet(self) -> None:
        self.dead = True
        raise Death

    def note(self, **facts: Any) -> None:
        self.noted.append(facts)


@contextlib.contextmanager
def living(fate: Fate) -> Iterator[None]:
    """The points in place for as long as one life lasts."""
    modules = [m for name, m in sys.modules.items() if name.startswith("relay_audit") and hasattr(m, "write_durably")]
    places: list[tuple[Any, str]] = [
        (Store, "append_all"), (Store, "put_blob"), (store, "_transaction"), *((m, "write_durably") for m in modules),
        (filing, "write_report"), (Path, "replace"), (Path, "rename"), (transport.Transport, "send"),
        (transport._Flight, "read"), (Settlement, "before"), (Settlement, "after"), (Runner, "_official"),
    ]  # fmt: skip
    before = [(place, name, getattr(place, name)) for place, name in places]
    install(fate)
    try:
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


@dataclass
class Buyer:
    """A folder, a lab, and somebody who wants an audit done."""

    home: Path
    scenario: str = "honest"
    checks: tuple[int, ...] = (1, 2, 6)
    limit: str = ""
    word: Callable[[Buyer], object] | None = None
    """Said from another process while the paid request `word_at` is with the relay; once."""
    word_at: int = 2
    breaks: bool = False
    """The answer to the paid request `word_at` is lost instead."""
    clock: TestClock = field(default_factory=TestClock)
    arrivals: list[tuple[str, str, str]] = field(default_factory=list)
    """Side, method, digest of the body: what reached the two sides, in order."""
    known: list[dict[str, Any]] = field(default_factory=list)
    """Events whose append had returned."""

    def __post_init__(self) -> None:
        self.world = World(self.scenario, 3, self.clock.unix)
        self.space = Workspace(self.home / "audits", self.home / "state", self.home / "config")
        self.environ = {"LAB_RELAY_KEY": self.world.relay_key, "LAB_OFFICIAL_KEY": self.world.official_key}

    @property
    def target(self) -> Any:
        table: dict[str, Any] = {
            "target": {"name": "line-a", "model": "claude-sonnet-5-5", "claim": dict(self.world.claim)},
            "relay": {"base_url": RELAY, "key_env": "LAB_RELAY_KEY"},
            "official": {"base_url": OFFICIAL, "key_env": "LAB_OFFICIAL_KEY"},
            "audit": {"profile": "quick", "checks": list(self.checks)},
        }
        if self.limit:
            table["budget"] = {"max_usd_per_30_days": self.limit}
        return target_from(table)

    def connections(self) -> Connections:
        return connect(
            self.target, LIBRARY.packs.pack("anthropic"), LIBRARY.key_shapes, self.space, self.clock, self.environ,
            Permissions(), lambda *_: None, inner=lambda endpoint: Counted(self, endpoint.side),
        )  # fmt: skip

    def paid(self) -> list[str]:
        return [sha for side, method, sha in self.arrivals if (side, method) == ("relay", "POST")]

    @contextlib.contextmanager
    def opened(self) -> Iterator[Recorder]:
        with Store.open(runs_in(self.space.audits)[0]) as opened, run_lock(opened.path):
            yield Recorder(opened, self.clock)

    @property
    def path(self) -> Path:
        return runs_in(self.space.audits)[0]

    # What a buyer does, each by a process of its own

    def begin(self) -> None:
        connections = self.connections()
        recorder = audit.begin(self.target, LIBRARY, connections, self.space, self.clock, self.environ)
        with recorder.store, run_lock(recorder.store.path):
            asyncio.run(audit.plan_and_quote(recorder, connections, LIBRARY, None, offline=False, free_only=False))

    def approve(self) -> None:
        with Store.open(self.path) as opened:
            recorder = Recorder(opened, self.clock)
            quote = recorder.history.quote
            assert quote is not None
            audit.approve(recorder, quote.digest, quote.at_most + recorder.history.ledger.committed, "test", "agent")

    def go(self) -> None:
        with self.opened() as recorder, contextlib.suppress(RunCancelled):
            if recorder.history.cancelling and recorder.history.status not in FINAL.values():
                recorder.end_cancelled()
            asyncio.run(audit.execute(recorder, self.connections(), LIBRARY, self.space))

    def conclude(self) -> None:
        with self.opened() as recorder:
            judgement = audit.judge(recorder.store)
            audit.record_judgement(recorder, judgement)
            filing.file_reports(recorder, judgement, "en", self.environ)

    def say(self, signal: Signal) -> None:
        said_to(self.path, signal, alone=True, clock=self.clock)

    def history(self) -> History:
        with Store.open(self.path) as opened:
            return replay(opened)

    def comes_back(self) -> None:
        """Reads where the run stands and does what it asks for, until it has ended."""
        for _ in range(LIVES):
            try:
                history = self.history()
            except (IndexError, Unfinished):
                assert self.paid() == []
                self.begin()
                continue
            if history.status in FINAL.values():
                return
            if history.quote is None:
                assert self.paid() == []
                if history.cancelling:
                    self.go_nowhere()
                else:
                    self.begin()
            elif history.quote.digest in history.declined:
                self.clock.pass_(1)
                self.say(Revise())
            elif not history.covered and not history.cancelling:
                self.approve()
            else:
                if history.pausing:
                    self.say(Resume())
                if history.status == "budget_limited":
                    self.clock.pass_(2 * 3600)
                self.go()

    def go_nowhere(self) -> None:
        with self.opened() as recorder:
            recorder.end_cancelled()


class Counted(Door):
    """Every request that arrives is counted before anything else happens to it."""

    def __init__(self, buyer: Buyer, side: str) -> None:
        super().__init__(buyer.world, side, buyer.clock)  # type: ignore[arg-type]
        self._buyer, self._name = buyer, side

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        buyer, raw = self._buyer, await request.aread()
        buyer.arrivals.append((self._name, request.method, hashlib.sha256(raw).hexdigest()))
        await asyncio.sleep(0)
        mine = (self._name, request.method) == ("relay", "POST") and len(buyer.paid()) == buyer.word_at
        if mine and buyer.word is not None:
            word, buyer.word = buyer.word, None
            word(buyer)
        answer = await super().handle_async_request(request)
        if mine and buyer.breaks:
            buyer.breaks = False
            raise httpx.ReadError("reset", request=request)
        return answer


Act = Callable[[Buyer], object]


@dataclass(frozen=True)
class Story:
    """What is done to a run, act by act, when nobody dies."""

    acts: tuple[tuple[str, Act], ...]
    make: Callable[[Path], Buyer]


def _swap(buyer: Buyer) -> None:
    said_to(buyer.path, Revise(replace={"anthropic/token_parity_quick": "anthropic/token_parity"}), clock=buyer.clock)


def _drop(buyer: Buyer) -> None:
    said_to(buyer.path, Revise(drop=("anthropic/token_parity_quick",)), clock=buyer.clock)


def _prices(buyer: Buyer) -> None:
    with Store.open(buyer.path) as opened:
        row = {"side": "relay", "models": ["*"], "input": "7", "output": "9", "source": "c", "observed": "2026-11-20"}
        ref = Recorder(opened, buyer.clock).blob({"price": [row]})
    buyer.say(AddContext(prices_ref=ref, line_names=("backup",)))


def _after_a_dear_month(home: Path) -> Buyer:
    """Another run took the budget of thirty days, thirty days ago but for an hour."""
    buyer = Buyer(home, limit="1")
    Allowance(buyer.space.spending).admit("another", Decimal(1), buyer.clock.now() - MONTH + dt.timedelta(hours=1))
    return buyer


BEGIN, APPROVE, GO, CONCLUDE = (
    ("plan", Buyer.begin),
    ("approve", Buyer.approve),
    ("send", Buyer.go),
    ("end", Buyer.conclude),
)


def _said(name: str, signal: Signal) -> tuple[str, Act]:
    return name, lambda buyer: buyer.say(signal)


STORIES: dict[str, Story] = {
    "plain": Story((BEGIN, APPROVE, GO, CONCLUDE), Buyer),
    "whole": Story((BEGIN, APPROVE, GO), lambda home: Buyer(home, checks=())),
    "paused": Story(
        (BEGIN, APPROVE, GO, _said("resume", Resume()), GO),
        lambda home: Buyer(home, word=lambda b: said_to(b.path, Pause(), clock=b.clock)),
    ),
    "cancelled": Story(
        (BEGIN, APPROVE, GO), lambda home: Buyer(home, word=lambda b: said_to(b.path, Cancel(), clock=b.clock))
    ),
    "cancelled early": Story((BEGIN, _said("cancel", Cancel())), Buyer),
    "declined": Story(
        (
            BEGIN,
            _said("decline", Decline()),
            ("wait", lambda b: b.clock.pass_(1)),
            _said("revise", Revise()),
            APPROVE,
            GO,
        ),
        Buyer,
    ),
    "context": Story((BEGIN, ("add_context", _prices), APPROVE, GO), Buyer),
    "dropped": Story((BEGIN, APPROVE, GO), lambda home: Buyer(home, word=_drop)),
    "swapped": Story((BEGIN, APPROVE, GO, APPROVE, GO), lambda home: Buyer(home, word=_swap, word_at=1)),
    "lost answer": Story((BEGIN, APPROVE, GO), lambda home: Buyer(home, breaks=True)),
    "hidden prompt": Story((BEGIN, APPROVE, GO), lambda home: Buyer(home, scenario="hidden_508")),
    "no room": Story((BEGIN, APPROVE, GO), _after_a_dear_month),
}


def played(name: str, home: Path, at: str = "") -> tuple[Buyer, list[str]]:
    """A story told up to a death (or to its end): the buyer as the death leaves them, and the points that were passed.
    An address is `act.phase|name|when#k`."""
    story = STORIES[name]
    buyer = story.make(home)
    passed: list[str] = []
    for number, (act, work) in enumerate(story.acts):
        prefix = f"{number}{act}."
        fate = Simulated(at.removeprefix(prefix) if at.startswith(prefix) else "")
        with contextlib.suppress(Death), living(fate):
            work(buyer)
        passed += [prefix + row["point"] for row in fate.noted if "point" in row]
        buyer.known += [row for row in fate.noted if "hash" in row]
        if fate.dead:
            buyer.word = None
            return buyer, passed
    assert not at, f"{name}: {at} was not reached"
    return buyer, passed


def ceiling(history: History) -> Decimal:
    return max((given.ceiling for given in history.approvals), default=Decimal(0))
