"""Several audits of one site share one budget of reads, and what was read: every call joined, within twelve tokens."""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from relay_audit.books import BalanceReading, ForeignRows, LogRow
from relay_audit.lab import Served, serve
from relay_audit.shared_books import FRESH, Look, SharedBooks
from relay_audit.site_budget import PER_RUN, PER_SITE, WINDOW, SiteBudget
from tests.audits import Audited, over_http
from tests.staged import json_answer, staged

pytestmark = pytest.mark.deep

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
SITE = "https://relay.example"
LIMITED = ("/api/log/token", "/api/usage/token", "/api/ratio_config")


def row(request_id: str, quota: int = 5) -> LogRow:
    return LogRow(request_id=request_id, created_at=NOW, kind="consume", model="m", quota=quota)


# Three audits, one site


def tokens(served: Served) -> int:
    """Calls that the relay's limiter counted."""
    return sum(a.side == "relay" and a.path.split("?")[0].rstrip("/") in LIMITED for a in served.arrivals)


def unjoined(audited: Audited) -> list[str]:
    """Answered calls without a row in the last reading that has rows."""
    assert audited.error is None
    assert audited.judgement is not None
    evidence = audited.judgement.evidence
    joined = {r.exchange for r in evidence.own_rows()}
    return [e.id for e in evidence.generations() if e.status == 200 and e.id not in joined]


@pytest.mark.parametrize("scenario", ["honest", "honest_foreign_rows"])
def test_three_audits_of_one_site_within_twenty_minutes(scenario: str, tmp_path: Path) -> None:
    with serve(scenario, seed=5, pace=0) as served:
        for n in range(1, 4):
            audited = over_http(served, tmp_path, checks=[1, 2, 4, 6])
            assert unjoined(audited) == [], f"audit {n}"
            assert audited.codes == set(), f"audit {n}"
            if scenario == "honest":
                assert "billing.foreign_rows" not in audited.all_codes, (
                    "rows of our own earlier audits are nobody's traffic"
                )
        assert tokens(served) <= PER_SITE


def test_the_limiter_never_refuses_what_three_audits_ask(tmp_path: Path) -> None:
    with serve("honest", seed=6, pace=0) as served:
        for _ in range(3):
            audited = over_http(served, tmp_path, checks=[2, 6], profile="quick")
            assert audited.judgement is not None
            assert all(reading.state in ("read", "empty") for reading in audited.judgement.evidence.log)
        assert 0 < tokens(served) <= PER_SITE


# The site's budget


def test_a_read_leaves_calls_to_what_matters_more(tmp_path):
    budget = SiteBudget(tmp_path)
    assert [budget.take(SITE, f"r{n}", NOW, leave=4) for n in range(10)] == [True] * 8 + [False] * 2
    assert budget.left(SITE, NOW) == 4
    assert [budget.take(SITE, f"s{n}", NOW) for n in range(5)] == [True] * 4 + [False]
    assert budget.left(SITE, NOW) == 0


def test_a_pause_is_obeyed_and_never_longer_than_a_window(tmp_path):
    budget = SiteBudget(tmp_path)
    budget.pause(SITE, NOW + dt.timedelta(seconds=90), NOW)
    budget.pause(SITE, NOW + dt.timedelta(seconds=30), NOW)
    assert not budget.take(SITE, "one", NOW + dt.timedelta(seconds=89))
    assert budget.left(SITE, NOW) == 0
    assert budget.take(SITE, "one", NOW + dt.timedelta(seconds=90))
    budget.pause(SITE, NOW + dt.timedelta(days=9), NOW)
    assert not budget.take(SITE, "one", NOW + WINDOW - dt.timedelta(seconds=1))
    assert budget.take(SITE, "one", NOW + WINDOW)
    assert budget.take("https://other.example", "one", NOW)


def test_a_call_of_a_clock_that_was_wrong_does_not_shut_the_site_for_ever(tmp_path):
    budget = SiteBudget(tmp_path)
    for n in range(PER_SITE):
        assert budget.take(SITE, f"r{n}", NOW + dt.timedelta(days=400))
    assert budget.take(SITE, "now", NOW)


@pytest.mark.parametrize(
    ("headers", "body", "shut_for"),
    [
        ({"retry-after": "120"}, "", dt.timedelta(seconds=120)),
        ({}, "", WINDOW),
        ({}, '{"error": "slow down"}', dt.timedelta(seconds=60)),
        ({"retry-after": "soon"}, "", WINDOW),
        ({"retry-after": "99999999999"}, "", WINDOW),
    ],
)
def test_a_429_shuts_the_books_for_the_time_it_names(tmp_path, headers, body, shut_for):
    def limited(seen, before):
        return json_answer(body, 429, **headers) if seen.path == "/api/usage/token/" else None

    stage = staged("honest", tmp_path, audit={"profile": "quick", "checks": [2, 6]}, replace=limited)
    start = stage.clock.now()
    stage.whole()
    asked = [path for path in stage.paths() if path.rstrip("/") in LIMITED]
    assert asked == ["/api/usage/token/"], "one refusal, and nothing more in that time"
    budget = SiteBudget(stage.space.state)
    origin = "http://127.0.0.1:7001"
    assert budget.left(origin, start + shut_for - dt.timedelta(seconds=1)) == 0
    assert budget.left(origin, start + shut_for + dt.timedelta(seconds=30)) > 0


# What runs on one key share


def test_rows_of_our_other_runs_are_known_and_kept_for_them(tmp_path):
    shared = SharedBooks(tmp_path, "key")
    shared.announce("a", ["r-1", "r-2", ""], NOW)
    shared.announce("b", ["r-9"], NOW)
    assert shared.others("b", NOW) == {"r-1", "r-2"}
    assert shared.others("a", NOW) == {"r-9"}
    shared.looked("b", NOW, rows=[row("r-1"), row("r-1", 3), row("r-9"), row("theirs")])
    assert [(r.request_id, r.quota) for r in shared.rows_of("a", NOW)] == [("r-1", 5), ("r-1", 3)]
    assert shared.rows_of("b", NOW) == ()
    shared.looked("b", NOW, rows=[row("r-1", 7)])
    assert [r.quota for r in shared.rows_of("a", NOW)] == [7]
    assert SharedBooks(tmp_path, "other-key").others("b", NOW) == frozenset()


def test_rows_of_other_people_are_never_on_this_disk(tmp_path):
    shared = SharedBooks(tmp_path, "key")
    shared.announce("a", ["r-1"], NOW)
    shared.looked(
        "b", NOW, log=Look(at=NOW, foreign=ForeignRows(count=3, quota=9)), rows=[row("a-strangers-id", 987654)]
    )
    text = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "sites").iterdir())
    assert "a-strangers-id" not in text
    assert "987654" not in text
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "sites").glob("*.json"))


def test_a_look_is_fresh_for_ten_minutes_and_a_balance_serves_once(tmp_path):
    shared = SharedBooks(tmp_path, "key")
    balance = BalanceReading(at=NOW, exchange="X0099", when="after", used_quota=5)
    shared.looked("a", NOW, log=Look(at=NOW, foreign=ForeignRows(count=3)), balance=balance)
    look = shared.last_look(NOW + FRESH)
    assert look is not None
    assert look.foreign.count == 3
    assert shared.last_look(NOW + FRESH + dt.timedelta(seconds=1)) is None
    assert shared.last_look(NOW - dt.timedelta(seconds=1)) is None, "a look from the future is none"
    assert shared.take_balance(NOW) == balance
    assert shared.take_balance(NOW) is None
    shared.looked("a", NOW, balance=balance)
    assert shared.take_balance(NOW + FRESH + dt.timedelta(seconds=1)) is None


def test_yesterdays_runs_and_broken_files_are_forgotten(tmp_path):
    shared = SharedBooks(tmp_path, "key")
    shared.announce("a", ["r-1"], NOW)
    assert shared.others("b", NOW + dt.timedelta(hours=25)) == frozenset()
    [path] = (tmp_path / "sites").glob("*.books.json")
    for text in ("", "{", "[]", '{"runs": {"a": 5}}', '{"else": 1}'):
        path.write_text(text, encoding="utf-8")
        assert shared.others("b", NOW) == frozenset()
    shared.announce("c", ["r-3"], NOW)
    assert shared.others("b", NOW) == {"r-3"}


def test_a_resumed_run_is_settled_by_what_another_one_read(tmp_path):
    """The first run dies after its sendings; the second reads the log; the first one then needs no read of its own."""
    audit = {"profile": "quick", "checks": [2, 6]}
    first = staged("honest", tmp_path, audit=audit)
    first.plan()
    first.approve()
    settle = first_settlement(first)
    asyncio.run(settle.before())
    asyncio.run(send_all(first, settle))
    settle.books.shared.announce(
        first.recorder.store.run_id, list(settle.books._ids(settle.books.own())), first.clock.now()
    )
    log = first.world.log
    assert log is not None
    read = [row(r["request_id"], r["quota"]).model_copy(update={"model": r["model_name"]}) for r in log.own_rows()]
    settle.books.shared.looked("another", first.clock.now(), rows=read)
    before = first.paths().count("/api/log/token")
    asyncio.run(settle._settle())
    assert first.paths().count("/api/log/token") == before
    entries = [e for e in first.history.ledger.entries if e.side == "relay"]
    assert {e.basis for e in entries} == {"relay_log"}
    assert sum((e.amount for e in entries), Decimal(0)) == Decimal(sum(r["quota"] for r in log.own_rows())) / 500_000


def first_settlement(stage):
    from relay_audit.reading import Shelf
    from relay_audit.settlement import Settlement
    from tests.audits import LIBRARY

    shelf = Shelf(SiteBudget(stage.space.state), SharedBooks(stage.space.state, stage.connections.key_name()))
    return Settlement(stage.recorder, stage.connections.sides, LIBRARY.knowledge, stage.connections.redactor, shelf)


async def send_all(stage, settlement):
    from relay_audit.runner import Runner

    runner = Runner(stage.recorder, stage.connections.sides, settlement)
    stage.recorder.state("running")
    stage.connections.use_auth(stage.history.facts.auth_style)
    for step in stage.history.plan.chargeable():
        await runner._send(step)


def test_one_run_takes_no_more_than_its_own_share(tmp_path):
    stage = staged("honest_log_late", tmp_path)
    stage.whole()
    assert sum(path.rstrip("/") in LIMITED for path in stage.paths()) <= PER_RUN
