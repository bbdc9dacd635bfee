"""Ids decoded: base58, the clock of a UUIDv7, and the windows in which a moment is believed."""

from __future__ import annotations

import datetime as dt

import pytest

from relay_audit.ids import BASE58, base58_integer, read_id, relay_time, uuid7_time
from tests.assess.evidence_builders import KNOWLEDGE, START, answered, at, base58, http_date, minted


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("req_011CdeibixvGNTgsPHPgWbhY", "2026-08-02T22:33:59.865+00:00"),
        ("req_011CeEEqMCEaC96zkTusCekt", "2026-08-20T15:30:05.758+00:00"),
        ("msg_011CdeibjRhM3puXwZqmS63d", "2026-08-02T22:33:59.973+00:00"),
        ("msg_011CeCGmaW3f6CQb3Vmp5hcu", "2026-08-19T14:34:16.952+00:00"),
        ("file_011CcaGoMcMyMnhMwste6i8r", "2026-06-30T22:58:50.064+00:00"),
        ("req_01A7u6aDNi2C6mvDawgML8jB", None),
        ("msg_01BazrWNc653EyoEg5Jx2ASv", None),
        ("toolu_011fGRBzQJ5yT5Erd9kqXQXZ", None),
    ],
)
def test_recorded_ids_carry_their_moment(text, moment):
    number = base58_integer(text[-22:])
    assert number is not None
    assert number < 2**128
    decoded = uuid7_time(number)
    assert decoded == (dt.datetime.fromisoformat(moment) if moment else None)


def test_base58_is_read_as_it_is_written():
    assert len(BASE58) == 58
    assert not set("0OIl") & set(BASE58)
    assert base58_integer(base58(2**128 - 1)) == 2**128 - 1
    assert base58_integer("1" * 22) == 0
    assert base58_integer("12") == 1
    assert base58_integer("21") == 58
    assert base58_integer("1l") is None


@pytest.mark.parametrize(
    "number", [7 << 76 | 1 << 62, 7 << 76 | 3 << 62, 4 << 76 | 2 << 62, 1 << 128 | 7 << 76 | 2 << 62]
)
def test_another_version_variant_or_size_is_no_clock(number):
    assert uuid7_time(number) is None
    assert uuid7_time(7 << 76 | 2 << 62) == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def test_a_time_beyond_the_calendar_is_none():
    assert uuid7_time((2**48 - 1) << 80 | 7 << 76 | 2 << 62) is None
    assert relay_time("20261301000000123456789") is None
    assert relay_time("2026") is None
    assert relay_time("2026113012000012345678x") == START


def test_relay_time_needs_its_nanoseconds():
    assert relay_time("20261130120000") is None


@pytest.mark.parametrize(
    ("kind", "behind_s", "elapsed_ms", "fault"),
    [
        ("message_id", -5, 0, ""),
        ("message_id", -6, 0, "outside_window"),
        ("message_id", 30, 0, ""),
        ("message_id", 31, 0, "outside_window"),
        ("message_id", 40, 10_000, ""),
        ("message_id", 41, 10_000, "outside_window"),
        ("request_id", -5, 0, ""),
        ("request_id", -6, 0, "outside_window"),
        ("request_id", 180, 0, ""),
        ("request_id", 181, 0, "outside_window"),
        ("request_id", 190, 10_000, ""),
        ("request_id", 191, 10_000, "outside_window"),
    ],
)
def test_the_windows_at_their_edges(kind, behind_s, elapsed_ms, fault):
    """`behind_s`: how long the id's moment lies before the answer's Date."""
    dated = (("date", http_date(START)),)
    exchange = answered(1, "s0", {}, moment=START, headers=dated, elapsed_ms=elapsed_ms)
    text = ("msg_01" if kind == "message_id" else "req_01") + minted(at(-behind_s))
    reading = read_id(kind, text, exchange, KNOWLEDGE, START.date())
    assert (reading.fault, reading.minted_at, reading.age) == (fault, at(-behind_s), "fresh")


def test_a_stored_answer_may_be_as_old_as_its_software_keeps_it():
    cached = (("date", http_date(START)), ("server", "relayhub/0.9.0"))
    text = "msg_01" + minted(at(-300))
    for headers, fault in ((cached, ""), (cached[:1], "outside_window")):
        exchange = answered(1, "s0", {}, moment=START, headers=headers, elapsed_ms=0)
        assert read_id("message_id", text, exchange, KNOWLEDGE, START.date()).fault == fault


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_without_a_date_our_own_clock_serves_and_may_be_off(date):
    headers = (("date", date),) if date else ()
    exchange = answered(1, "s0", {}, moment=START, headers=headers, elapsed_ms=1000)
    for behind, fault in ((-306, ""), (-307, "outside_window"), (330, ""), (331, "outside_window")):
        text = "msg_01" + minted(at(-behind))
        assert read_id("message_id", text, exchange, KNOWLEDGE, START.date()).fault == fault


def test_a_relay_whose_clock_is_wrong_is_not_taken_for_one_that_mints_ids():
    """Its Date is ten minutes slow; by our clock the id is fresh."""
    headers = (("date", http_date(at(-600))),)
    exchange = answered(1, "s0", {}, moment=START, headers=headers, elapsed_ms=0)
    assert read_id("message_id", "msg_01" + minted(START), exchange, KNOWLEDGE, START.date()).fault == ""
