"""A future accuses nobody: the truth table with the clock years on, and the vendor's next dialect on both sides.

What rests on a live official side is still found; what rests on a list that has grown old is not held against anybody.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from relay_audit.lab import SCENARIOS
from tests.audits import TestClock, in_process

DATES = (dt.datetime(2028, 6, 1, tzinfo=dt.UTC), dt.datetime(2031, 1, 1, tzinfo=dt.UTC))
HONEST = [name for name, row in SCENARIOS.items() if row.kind == "honest"]
JUDGED = [name for name, row in SCENARIOS.items() if row.kind != "hostile"]
LIVE = ("tokens.", "run.", "billing.", "model.relay_", "channel.id_replayed")
"""Codes that rest on the official side of the same run, on the relay's own word, or on the run itself."""
FAULTS = [name for name in JUDGED if name not in HONEST and any(c.startswith(LIVE) for c in SCENARIOS[name].expect)]
SAMPLE = ("hidden_508", "usage_x13", "replayed_ids")


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is tested elsewhere; here it would be most of the time."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def still_found(name: str) -> set[str]:
    return {code for code in SCENARIOS[name].expect if code.startswith(LIVE)}


@pytest.mark.parametrize(
    ("name", "date", "official"),
    [("honest", DATES[0], True), ("honest", DATES[1], True), ("honest_no_software", DATES[1], False),
     ("honest_litellm", DATES[1], True), ("honest_bedrock_reseller", DATES[0], False)],
)  # fmt: skip
def test_an_honest_relay_years_on_is_accused_of_nothing(
    name: str, date: dt.datetime, official: bool, tmp_path: Path
) -> None:
    audited = in_process(name, 2, tmp_path, official=official, clock=TestClock(date))
    assert audited.error is None
    assert audited.codes == set()


@pytest.mark.parametrize("name", SAMPLE)
def test_what_a_live_official_side_shows_is_found_years_on(name: str, tmp_path: Path) -> None:
    audited = in_process(name, 2, tmp_path, clock=TestClock(DATES[1]))
    assert audited.codes == still_found(name) == SCENARIOS[name].expect


@pytest.mark.parametrize("official", [True, False], ids=["with_key", "no_key"])
def test_the_vendors_next_dialect_is_unknown_and_no_fault(official: bool, tmp_path: Path) -> None:
    audited = in_process("official_future", 1, tmp_path, official=official)
    assert audited.codes == set()
    assert audited.judgement is not None
    ids = [e.answer()["id"] for e in audited.judgement.evidence.answers() if e.status == 200]
    assert len(ids) > 5
    assert all(id_.startswith("msg_02") for id_ in ids), "streams are read although they hold events nobody knows"


@pytest.mark.seeds
@pytest.mark.parametrize("official", [True, False], ids=["with_key", "no_key"])
@pytest.mark.parametrize("date", DATES, ids=["2028", "2031"])
@pytest.mark.parametrize("name", JUDGED)
def test_the_whole_table_years_on(name: str, date: dt.datetime, official: bool, tmp_path: Path) -> None:
    row = SCENARIOS[name]
    audited = in_process(name, 5, tmp_path, official=official, clock=TestClock(date))
    assert audited.error is None
    assert audited.codes <= row.expect | (row.expect_no_key or frozenset())
    if official and name in FAULTS:
        assert still_found(name) <= audited.codes
