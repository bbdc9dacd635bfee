"""Honest relays over many seeds, in each dialect: nothing above info, and how often something could still have been missed.

Forty seeds per scenario with an official key (`SEEDS` sets another number) and an eighth of that without one; 500 and as
many in `make soak`. The bound of each scenario stands in the summary at the end of the test run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relay_audit.bounds import share_interval
from relay_audit.lab import DIALECTS, Dialect, scenarios_in
from tests.audits import in_process

SEEDS = int(os.environ.get("SEEDS", "40"))
SOAK = 500
HONEST = [
    (dialect, name) for dialect in DIALECTS for name, row in scenarios_in(dialect).items() if row.kind == "honest"
]
Note = Callable[[str, object], None]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is tested elsewhere; here it would be most of the time."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def silent(dialect: Dialect, name: str, n: int, home: Path, note: Note, *, official: bool) -> None:
    profile = scenarios_in(dialect)[name].profile
    only = {"profile": profile} if profile else {}
    for seed in range(1000, 1000 + n):
        audited = in_process(name, seed, home / str(seed), official=official, dialect=dialect, **only)
        assert audited.error is None, f"seed {seed}"
        assert audited.codes == set(), f"seed {seed}"
    key = "with a key" if official else "without a key"
    note("bound", f"{dialect} {name}, {key}: 0 of {n}, 95 % upper bound {share_interval(0, n)[1]:.1%}")


@pytest.mark.seeds
@pytest.mark.parametrize(("dialect", "name"), HONEST)
def test_an_honest_relay_is_accused_of_nothing(
    dialect: Dialect, name: str, tmp_path: Path, record_property: Note
) -> None:
    silent(dialect, name, SEEDS, tmp_path / "key", record_property, official=True)
    silent(dialect, name, max(SEEDS // 8, 1), tmp_path / "none", record_property, official=False)


@pytest.mark.soak
@pytest.mark.parametrize("official", [True, False], ids=["with_key", "no_key"])
@pytest.mark.parametrize(("dialect", "name"), HONEST)
def test_for_long(dialect: Dialect, name: str, official: bool, tmp_path: Path, record_property: Note) -> None:
    silent(dialect, name, SOAK, tmp_path, record_property, official=official)
