"""The chain of an archive, line by line: both ways of reading a line agree, and what was touched is told where it stands."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3

import pytest

from relay_audit.archive.chain import walk
from relay_audit.errors import StoreError
from relay_audit.events import GENESIS, Draft, Event
from relay_audit.manifest import event_line, left_out_line
from relay_audit.store import Store

NOW = dt.datetime(2026, 11, 30, 3, 0, 0, 5, tzinfo=dt.UTC)
PAYLOADS = (
    {"code": "quoted"}, {"code": "中转 ☃ \U0001f600"}, {"code": 'a "quoted" \\ \n'}, {"code": "\ud800"},
    {"spent": 1.5, "sent": 2**70},
)  # fmt: skip


def events() -> list[Event]:
    made: list[Event] = []
    for payload in PAYLOADS:
        prev = made[-1].hash if made else GENESIS
        made.append(Event.seal(Draft("checkpoint.written", payload), seq=len(made) + 1, ts=NOW, prev=prev))
    end = Draft("run.completed", {"stopped": ""})
    return [*made, Event.seal(end, seq=len(made) + 1, ts=NOW, prev=made[-1].hash)]


def test_lines_as_they_are_exported_or_written_otherwise_are_one_chain():
    own = [event_line(event).rstrip(b"\n") for event in events()]
    loose = [json.dumps(json.loads(line), indent=None).encode() for line in own]
    turned = [json.dumps(dict(reversed(json.loads(line).items()))).encode() for line in own]
    for lines in (own, loose, turned):
        chain = walk(lines)
        assert (chain.problems, chain.events, chain.head) == ([], events(), events()[-1].hash)


def test_left_out_events_keep_the_chain_whole():
    made = events()
    chain = walk([left_out_line(e) if e.seq in (2, 4) else event_line(e) for e in made])
    assert (chain.problems, chain.left_out, chain.head) == ([], 2, made[-1].hash)


def test_no_byte_of_a_line_can_be_changed():
    """Each byte of a line but its own hash's, changed in turn: never the same events again without a word."""
    made = events()
    lines = [event_line(event).rstrip(b"\n") for event in made]
    for place in (1, 3):
        for at in range(len(lines[place])):
            touched = lines[place][:at] + bytes([lines[place][at] ^ 1]) + lines[place][at + 1 :]
            chain = walk([*lines[:place], touched, *lines[place + 1 :]])
            assert [p.params["seq"] for p in chain.problems] in ([str(place + 1)], [str(place + 2)]), touched


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"{}", b"5", b"nonsense", b"[" * 100_000, b'{"left_out":"public"}', b"\xff"]
)
def test_a_line_that_is_no_event_ends_the_walk(line):
    chain = walk([event_line(events()[0]), line])
    assert [(p.code, p.params["seq"]) for p in chain.problems] == [("event_unreadable", "2")]


def test_a_row_that_says_more_than_its_event_is_told(tmp_path):
    """A column that would close the text and go on, so that the row's own text reads as another event."""
    with Store.create(tmp_path, "20261130-0300-chain1") as store:
        store.append_all([Draft("checkpoint.written", p) for p in PAYLOADS[:3]], ts=NOW)
        assert [e.payload for e in store.verify_chain()] == list(PAYLOADS[:3])
    said = '{"code":"quoted"},"x":{}'
    for column, text in (
        ("payload", said),
        ("payload", '{"code": "quoted"} '),
        ("ts", "2026-11-30T03:00:00.000006+00:00"),
    ):
        with sqlite3.connect(store.path / "run.sqlite3") as base:
            triggers = dict(base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall())
            for name in triggers:
                base.execute(f"DROP TRIGGER {name}")
            was = base.execute(f"SELECT {column} FROM events WHERE seq = 1").fetchone()[0]  # noqa: S608
            base.execute(f"UPDATE events SET {column} = ? WHERE seq = 1", (text,))  # noqa: S608
            for sql in triggers.values():
                base.execute(sql)
        base.close()
        with Store.open(store.path) as touched:
            if text.endswith(" "):  # blanks change nothing that it says
                assert touched.verify_chain()[0].payload == PAYLOADS[0]
            else:
                with pytest.raises(StoreError, match="event 1 "):
                    touched.verify_chain()
        with sqlite3.connect(store.path / "run.sqlite3") as base:
            base.execute("DROP TRIGGER no_update")
            base.execute(f"UPDATE events SET {column} = ? WHERE seq = 1", (was,))  # noqa: S608
            base.execute(triggers["no_update"])
        base.close()
