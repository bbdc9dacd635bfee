"""Reads of a relay's own log are few: per site, per run, per twenty minutes, over all processes."""

from __future__ import annotations

import datetime as dt
import threading

import pytest

from relay_audit.site_budget import PER_RUN, PER_SITE, WINDOW, SiteBudget

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
SITE = "https://relay.example"


def test_the_limits_leave_the_buyer_room():
    assert (PER_SITE, PER_RUN, dt.timedelta(minutes=20)) == (12, 8, WINDOW)


def test_a_run_gets_eight_and_a_site_twelve(tmp_path):
    budget = SiteBudget(tmp_path)
    assert [budget.take(SITE, "one", NOW) for _ in range(9)] == [True] * 8 + [False]
    assert [budget.take(SITE, "two", NOW) for _ in range(5)] == [True] * 4 + [False]
    assert budget.take("https://other.example", "two", NOW)


def test_after_twenty_minutes_a_call_is_forgotten(tmp_path):
    budget = SiteBudget(tmp_path)
    assert all(budget.take(SITE, "one", NOW + dt.timedelta(seconds=n)) for n in range(8))
    last = NOW + WINDOW
    assert not budget.take(SITE, "one", last - dt.timedelta(seconds=1))
    assert budget.take(SITE, "one", last)
    assert not budget.take(SITE, "one", last)


def test_another_process_sees_what_was_taken(tmp_path):
    assert all(SiteBudget(tmp_path).take(SITE, f"run{n}", NOW) for n in range(12))
    assert not SiteBudget(tmp_path).take(SITE, "late", NOW)


def test_many_at_once_share_one_budget(tmp_path):
    taken: list[bool] = []

    def one(name: str) -> None:
        taken.extend(SiteBudget(tmp_path).take(SITE, name, NOW) for _ in range(4))

    threads = [threading.Thread(target=one, args=(f"run{n}",)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(taken), len(taken)) == (12, 20)


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '[["yesterday", "x"]]', "null", '[["2026-11-30T11:59:00", "x"]]', "[[5, 6]]"]
)
def test_a_file_that_is_none_is_an_empty_budget(tmp_path, text):
    budget = SiteBudget(tmp_path)
    assert budget.take(SITE, "one", NOW)
    [path] = (tmp_path / "sites").glob("*.json")
    path.write_text(text, encoding="utf-8")
    assert [budget.take(SITE, "one", NOW) for _ in range(9)] == [True] * 8 + [False]


def test_the_site_is_not_named_on_disk(tmp_path):
    SiteBudget(tmp_path).take(SITE, "one", NOW)
    files = list((tmp_path / "sites").iterdir())
    assert files
    assert not any("relay" in path.name for path in files)
    assert not any("relay.example" in path.read_text(encoding="utf-8") for path in files)
    assert (tmp_path / "sites").stat().st_mode & 0o077 == 0
