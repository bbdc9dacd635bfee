"""Hundreds of deaths: before and after every kind of durable write and of send, in every phase of a dozen stories.

Each is simulated in this process (`stories.py` says what that leaves out; `test_crash_matrix.py` kills for real at a
sample). Afterwards a buyer comes back: nothing paid went out twice, nothing acknowledged is lost, and the run ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from stories import STORIES, Buyer, ceiling, played

from relay_audit import audit
from relay_audit.events import EVENTS
from relay_audit.replay import FINAL
from relay_audit.store import Store

ONE_WORKER = pytest.mark.xdist_group("deaths")
"""The addresses are found once, in the worker that uses them."""
DEATHS = 300
PARTS = 20


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Every address that each story passes when nobody dies."""
    found = {}
    for name in STORIES:
        buyer, passed = played(name, tmp_path_factory.mktemp("dry"))
        sound(buyer, name)
        found[name] = passed
    return found


def kinds(points: dict[str, list[str]]) -> dict[tuple[str, str], list[str]]:
    """(story, kind) → its addresses; a kind is what happens, before or after, in which phase of which act."""
    sorted_: dict[tuple[str, str], list[str]] = defaultdict(list)
    for story, addresses in points.items():
        for address in addresses:
            sorted_[story, address.partition("#")[0]].append(address)
    return sorted_


def chosen(points: dict[str, list[str]]) -> list[tuple[str, str]]:
    """One of each kind that no story before it had, then the rest spread evenly, up to the number of deaths."""
    once: dict[str, tuple[str, str]] = {}
    more: list[tuple[str, str]] = []
    for (story, kind), addresses in kinds(points).items():
        middle = (story, addresses[len(addresses) // 2])
        if once.setdefault(kind, middle) is not middle:
            more.append(middle)
    room = DEATHS - len(once)
    return [*once.values(), *(more[at * len(more) // room] for at in range(max(room, 0)))]


@ONE_WORKER
def test_the_deaths_are_of_every_kind_in_every_phase(points: dict[str, list[str]]) -> None:
    tried = chosen(points)
    assert len(set(tried)) == len(tried) >= DEATHS
    names = {address.split("|")[1] for _, address in tried}
    assert names == {address.split("|")[1] for addresses in points.values() for address in addresses}
    written = {name.split(":")[1] for name in names if name.startswith("append:")}
    assert written >= {
        "run.created", "plan.created", "quote.issued", "signal.received", "run.state_changed", "discovery.recorded",
        "request.sending", "exchange.recorded", "charge.observed", "reading.recorded", "checkpoint.written",
        "artifact.created", "assessment.recorded", "run.completed", "run.cancelled",
    }  # fmt: skip
    assert written <= set(EVENTS)
    for name in written:
        assert {a.split("|")[2].partition("#")[0] for _, a in tried if f"|append:{name}" in a} == {"before", "after"}


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_a_death_costs_nothing_but_time(part: int, points: dict[str, list[str]], tmp_path: Path) -> None:
    for number, (story, address) in enumerate(chosen(points)[part::PARTS]):
        die_and_come_back(story, address, tmp_path / str(number))


@pytest.mark.soak
@pytest.mark.parametrize("story", STORIES)
def test_every_single_point(story: str, points: dict[str, list[str]], tmp_path: Path) -> None:
    for number, address in enumerate(points[story]):
        die_and_come_back(story, address, tmp_path / str(number))


@ONE_WORKER
@pytest.mark.parametrize("story", STORIES)
def test_a_sample_of_each_story(story: str, points: dict[str, list[str]], tmp_path: Path) -> None:
    """A few in the quick suite: in the middle of the sending, and at the very end."""
    sending = [a for a in points[story] if "send:relay:paid|after" in a] or points[story]
    for number, address in enumerate((sending[len(sending) // 2], points[story][-1])):
        die_and_come_back(story, address, tmp_path / str(number))


def die_and_come_back(story: str, address: str, home: Path) -> None:
    home.mkdir(parents=True)
    buyer, _ = played(story, home, address)
    buyer.comes_back()
    sound(buyer, f"{story}: {address}")


def sound(buyer: Buyer, where: str) -> None:
    """What holds for every run, however often its process died."""
    assert max(Counter(buyer.paid()).values(), default=0) <= 1, f"{where}: a paid body arrived twice"
    with Store.open(buyer.path) as store:
        store.verify_chain()
        events = list(store.events())
        for event in events:
            if event.payload_ref:
                store.blob(event.payload_ref)
            assert set(event.payload) <= set(EVENTS[event.type].payload), (event.type, set(event.payload))
    history = buyer.history()
    cancelled = any(event.payload.get("signal") == "cancel" for event in events)
    if history.status not in FINAL.values():
        assert where == "no room", f"{where}: {history.status}, and nothing ended"
        return
    assert (history.status == "cancelled") == cancelled, where
    assert sum(EVENTS[event.type].terminal for event in events) == 1, where
    stored = {(store.run_id, event.seq): event.hash for event in events}
    known = {(row["run"], row["event"]): row["hash"] for row in buyer.known if row["run"] == store.run_id}
    assert known.items() <= stored.items(), f"{where}: an acknowledged event is lost"
    assert all(entry.state != "reserved" for entry in history.ledger.entries), where
    assert history.ledger.committed <= ceiling(history), where
    assert len(buyer.paid()) <= len(history.intents), f"{where}: something left that the run does not know"
    sent = {history.intents[xid].payload["step"] for xid in history.intents}
    assert len(sent) == len(history.intents), f"{where}: a step was announced twice"
    gone = {name for name in history.dropped if "@" not in name}
    late = [e for e in events if e.type == "plan.created" and e.payload.get("dropped")]
    for event in events:
        if event.type == "request.sending" and late and event.seq > late[-1].seq:
            assert event.payload["line"].partition("@")[0] not in gone, where
    lost = {xid for xid in history.intents if history.exchanges[xid].failure == "no_outcome"}
    if lost or not where.startswith("plain"):
        with Store.open(buyer.path) as store:
            found = [f for f in audit.judge(store).findings if f.code == "run.unconfirmed_send"]
        assert bool(found) == any(history.exchanges[x].delivery == "unconfirmed" for x in history.intents), where


@ONE_WORKER
@pytest.mark.parametrize("where", ["lost answer", "plain"])
def test_what_was_lost_is_settled_by_the_relays_own_log(
    where: str, points: dict[str, list[str]], tmp_path: Path
) -> None:
    """The relay has delivered and written its row; only the answer never came, or nobody was left to record it."""
    arriving = [address for address in points["plain"] if "answer:paid|arriving" in address]
    buyer, _ = played(where, tmp_path, "" if where == "lost answer" else arriving[1])
    buyer.comes_back()
    history = buyer.history()
    [lost] = [xid for xid in history.intents if history.exchanges[xid].delivery == "unconfirmed"]
    entry = history.ledger.entry(lost)
    assert entry is not None
    assert (entry.state, entry.basis, entry.amount > 0) == ("settled", "relay_log", True)
    with Store.open(buyer.path) as store:
        [found] = [f for f in audit.judge(store).findings if f.code == "run.unconfirmed_send"]
    assert (found.params["n"], found.params["settled"]) == (1, 1)
    assert len(buyer.paid()) == len(set(buyer.paid())) == len(history.intents)
