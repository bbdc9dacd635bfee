"""The run on disk: nothing acknowledged is lost, nothing written is changed, and it is found again from anywhere."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay_audit.errors import RunNotFound, StoreError, UsageError
from relay_audit.events import EVENTS, GENESIS, TERMINAL, Draft, Event, EventType, events_markdown
from relay_audit.schema import said_under_fields
from relay_audit.signals import SIGNALS, SignalName
from relay_audit.store import (
    DATABASE,
    Store,
    check_filesystem,
    folder_warnings,
    locate,
    new_run_id,
    register,
    run_lock,
    runs_in,
)

NOW = dt.datetime(2026, 11, 30, 2, 15, 7, 123456, tzinfo=dt.UTC)
RUN = "20261130-0215-k7m2qx"
WRITER = """
import datetime as dt, sys
from pathlib import Path
from relay_audit.store import Store
store = Store.open(Path(sys.argv[1]))
for n in range(int(sys.argv[3])):
    event = store.append("request.sending", {"writer": sys.argv[2], "n": n}, ts=dt.datetime.now(dt.UTC))
    print(event.seq, event.hash, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "audits", RUN) as made:
        yield made


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path / DATABASE, isolation_level=None)


def filled(store: Store, count: int = 3) -> list[Event]:
    return [store.append("discovery.recorded", {"n": n}, ts=NOW) for n in range(count)]


def tamper(path: Path, *statements: str) -> None:
    """What somebody with an SQLite shell could do: take the triggers away, change, and put them back."""
    connection = raw(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in (*statements, *(sql for _, sql in triggers)):
        connection.execute(statement)
    connection.close()


# --- the chain -------------------------------------------------------------------------------------------------------


def test_events_are_numbered_and_chained(store):
    first, second, third = filled(store)
    assert [event.seq for event in (first, second, third)] == [1, 2, 3]
    assert first.prev == GENESIS
    assert (second.prev, third.prev) == (first.hash, second.hash)
    assert list(store.events()) == [first, second, third]
    assert list(store.events(after=2)) == [third]
    assert store.last() == third
    store.verify_chain()


def test_an_empty_run_has_no_events(store):
    assert store.last() is None
    assert store.terminal() is None
    assert store.head() == ""
    assert list(store.events()) == []
    store.verify_chain()


def test_hash_can_be_recomputed_from_the_exported_json_alone(store):
    filled(store, 1)
    event = store.append("charge.observed", {"amount": Decimal("0.10"), "模型": "x"}, ts=NOW, actor="relay")
    exported = json.loads(event.model_dump_json())
    sealed = exported.pop("hash")
    text = json.dumps(exported, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == sealed
    assert exported["ts"] == "2026-11-30T02:15:07.123456+00:00"
    assert exported["payload"] == {"amount": "0.1", "模型": "x"}


def test_time_is_kept_in_utc(store):
    beijing = dt.timezone(dt.timedelta(hours=8))
    event = store.append("run.created", {}, ts=NOW.astimezone(beijing))
    assert (event.ts, event.ts.utcoffset()) == (NOW, dt.timedelta(0))
    assert next(store.events()).ts.utcoffset() == dt.timedelta(0)
    with pytest.raises(StoreError):
        store.append("run.created", {}, ts=NOW.replace(tzinfo=None))


def test_several_events_are_one_transaction(store):
    drafts = [Draft("request.sending", {"exchange": "X0001"}), Draft("run.state_changed", {"to": "running"})]
    assert [event.seq for event in store.append_all(drafts, ts=NOW)] == [1, 2]
    with pytest.raises(StoreError):
        store.append_all([Draft("request.sending", {}), Draft("run.state_changed", {"bad": object()})], ts=NOW)
    assert store.last().seq == 2
    filled(store, 1)
    store.verify_chain()


def test_a_lone_surrogate_is_kept_as_the_escape_it_came_as(store):
    """A hostile `"\\ud800"` must not stop the outcome of a paid send from being recorded."""
    store.append("run.created", {"x": "\ud800"}, ts=NOW)
    store.verify_chain()
    assert next(store.events()).payload == {"x": "\ud800"}


@pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": float("inf")}, {"x": b"bytes"}])
def test_a_payload_that_is_not_json_is_refused_and_nothing_is_written(store, payload):
    with pytest.raises(StoreError) as refused:
        store.append("discovery.recorded", payload, ts=NOW)
    assert refused.value.next_step
    assert store.last() is None


def test_an_unknown_event_is_refused(store):
    with pytest.raises(StoreError):
        store.append("run.exploded", {}, ts=NOW)
    assert store.last() is None


def test_redaction_class_comes_from_the_vocabulary(store):
    assert store.append("run.created", {}, ts=NOW).redaction == "internal"
    assert store.append("exchange.recorded", {}, ts=NOW).redaction == "vendor"
    assert store.append("run.completed", {}, ts=NOW).redaction == "public"


def test_reading_pages_through_more_events_than_one_page(store, monkeypatch):
    monkeypatch.setattr("relay_audit.store.PAGE", 4)
    filled(store, 11)
    assert [event.seq for event in store.events()] == list(range(1, 12))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab\x00"\\é漢', max_size=3), inner),
                max_leaves=6,
            ),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_any_json_payload_round_trips_and_the_chain_verifies(store, payloads):
    before = store.last().seq if store.last() else 0
    written = store.append_all([Draft("reading.recorded", payload) for payload in payloads], ts=NOW)
    read = list(store.events(after=before))
    assert [event.payload for event in read] == payloads
    assert read == written
    store.verify_chain()


# --- what the database itself refuses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET payload = '{}' WHERE seq = 1",
        "UPDATE OR REPLACE events SET seq = 2 WHERE seq = 1",
        "DELETE FROM events WHERE seq = 3",
        "DELETE FROM events",
        "INSERT INTO events SELECT 5, ts, type, actor, payload, '', redaction, hash, hash FROM events WHERE seq = 3",
        "INSERT INTO events SELECT 0, ts, type, actor, payload, '', redaction, hash, hash FROM events WHERE seq = 3",
        "INSERT INTO events SELECT NULL, ts, type, actor, payload, '', redaction, hash, hash FROM events WHERE seq = 3",
        "INSERT INTO events SELECT 4, ts, type, actor, payload, '', redaction, prev, hash FROM events WHERE seq = 3",
        "INSERT OR REPLACE INTO events SELECT * FROM events WHERE seq = 2",
        "REPLACE INTO events SELECT 3, ts, type, actor, '{}', '', redaction, prev, hash FROM events WHERE seq = 3",
        "INSERT INTO events SELECT * FROM events WHERE seq = 2 ON CONFLICT (seq) DO UPDATE SET payload = '{}'",
        "INSERT INTO events (seq, prev) SELECT 4, hash FROM events WHERE seq = 3",
    ],
)
def test_the_database_refuses_what_is_not_an_append(store, statement):
    before = filled(store)
    with pytest.raises(sqlite3.IntegrityError):
        raw(store.path).execute(statement)
    assert list(store.events()) == before


def test_a_plain_insert_with_the_right_place_is_accepted_so_the_refusals_above_mean_something(store):
    filled(store)
    raw(store.path).execute(
        "INSERT INTO events SELECT 4, ts, type, actor, payload, '', redaction, hash, hash FROM events WHERE seq = 3"
    )
    assert store.last().seq == 4
    with pytest.raises(StoreError, match=r"event 4 .* changed"):
        store.verify_chain()


@pytest.mark.parametrize("second", TERMINAL)
def test_a_run_ends_once(store, second):
    filled(store)
    end = store.append("run.completed", {}, ts=NOW)
    with pytest.raises(StoreError, match="ends once"):
        store.append(second, {}, ts=NOW)
    with pytest.raises(sqlite3.IntegrityError, match="ends once"):
        raw(store.path).execute(
            "INSERT INTO events SELECT 5, ts, ?, actor, '{}', '', redaction, hash, hash FROM events WHERE seq = 4",
            (second,),
        )
    assert store.terminal() == end
    assert store.last() == end


def test_two_ends_in_one_transaction_leave_none(store):
    with pytest.raises(StoreError, match="ends once"):
        store.append_all([Draft("run.failed"), Draft("run.completed")], ts=NOW)
    assert store.last() is None


def test_later_events_follow_the_evidence_head_and_never_change_it(store):
    filled(store)
    end = store.append("run.completed", {}, ts=NOW)
    assert store.head() == end.hash
    store.append("assessment.recorded", {}, ts=NOW)
    store.append("artifact.created", {}, ts=NOW)
    assert store.head() == end.hash
    store.verify_chain()


@pytest.mark.parametrize(
    ("statements", "seq"),
    [
        (["UPDATE events SET payload = '{\"n\":7}' WHERE seq = 2"], 2),
        (["UPDATE events SET ts = '2026-11-30T02:15:08.000000+00:00' WHERE seq = 1"], 1),
        (["UPDATE events SET actor = 'human' WHERE seq = 3"], 3),
        (["UPDATE events SET redaction = 'public' WHERE seq = 3"], 3),
        (["UPDATE events SET hash = replace(hash, 'a', 'b') || '' WHERE seq = 2"], 2),
        (["DELETE FROM events WHERE seq = 2"], 2),
        (["DELETE FROM events WHERE seq = 1"], 1),
        (["UPDATE events SET seq = 9 WHERE seq = 3"], 3),
        (["UPDATE events SET type = 'run.exploded' WHERE seq = 2"], 2),
        (["UPDATE events SET payload = 'no json' WHERE seq = 2"], 2),
    ],
)
def test_verify_names_the_first_event_that_was_tampered_with(store, statements, seq):
    filled(store)
    tamper(store.path, *statements)
    with Store.open(store.path) as again, pytest.raises(StoreError) as broken:
        again.verify_chain()
    assert broken.value.details["seq"] == seq
    assert broken.value.next_step


def insert(event: Event) -> str:
    fields = event.model_dump(mode="json") | {"payload": "{}"}
    return f"INSERT INTO events VALUES ({', '.join(repr(value) for value in fields.values())})"  # noqa: S608


def test_verify_sees_a_well_sealed_second_end(store):
    event = store.append("run.completed", {}, ts=NOW)
    tamper(store.path, insert(Event.seal(Draft("run.failed"), seq=2, ts=NOW, prev=event.hash)))
    with Store.open(store.path) as again, pytest.raises(StoreError, match="second end"):
        again.verify_chain()


def test_verify_sees_a_well_sealed_event_put_in_anothers_place(store):
    first, *_ = filled(store)
    forged = Event.seal(Draft("charge.observed"), seq=2, ts=NOW, prev=first.hash)
    tamper(store.path, "DELETE FROM events WHERE seq = 2", insert(forged))
    with Store.open(store.path) as again, pytest.raises(StoreError, match="event 3 of this run does not follow"):
        again.verify_chain()


# --- crashes and company ---------------------------------------------------------------------------------------------


def writer(store: Store, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(store.path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_kill_9_loses_no_acknowledged_event(store):
    child = writer(store, "a", 100_000)
    acknowledged = [child.stdout.readline().split() for _ in range(50)]
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read()
    acknowledged += [
        line.split() for line in rest.splitlines() if len(line.split()) == 2 and len(line.split()[1]) == 64
    ]
    assert child.wait() == -signal.SIGKILL
    with Store.open(store.path) as again:
        again.verify_chain()
        found = {str(event.seq): event.hash for event in again.events()}
        assert len(acknowledged) >= 50
        assert all(found.get(seq) == sealed for seq, sealed in acknowledged)
        assert again.append("run.failed", {}, ts=NOW).seq == len(found) + 1


def test_two_processes_interleave_without_gaps(store):
    children = [writer(store, name, 40) for name in ("a", "b")]
    assert [child.wait(timeout=30) for child in children] == [0, 0]
    for child in children:
        child.stdout.close()
    store.verify_chain()
    events = list(store.events())
    assert len(events) == 80
    for name in ("a", "b"):
        assert [event.payload["n"] for event in events if event.payload["writer"] == name] == list(range(40))


def test_two_threads_share_one_store(store):
    threads = [threading.Thread(target=filled, args=(store, 25)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.events())) == 50
    store.verify_chain()


def test_a_writer_that_finds_the_database_busy_says_so(store, monkeypatch):
    monkeypatch.setattr("relay_audit.store.BUSY_SECONDS", 0.05)
    holder = raw(store.path)
    holder.execute("BEGIN IMMEDIATE")
    with Store.open(store.path) as other:
        with pytest.raises(StoreError, match="locked") as busy:
            other.append("run.created", {}, ts=NOW)
        assert busy.value.next_step
        holder.execute("ROLLBACK")
        assert other.append("run.created", {}, ts=NOW).seq == 1


def test_a_reader_sees_what_another_object_wrote(store):
    with Store.open(store.path) as other:
        event = other.append("run.created", {}, ts=NOW)
        assert store.last() == event


def test_durability_settings_are_what_the_promise_needs(store):
    ask = store._connection.execute
    assert ask("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert ask("PRAGMA synchronous").fetchone()[0] == 2


# --- the folder ------------------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_is_private_whatever_the_umask(tmp_path):
    old = os.umask(0)
    try:
        with Store.create(tmp_path / "audits", RUN) as store:
            filled(store)
            store.put_blob(b"x")
            with run_lock(store.path):
                everything = [store.path.parent, *store.path.parent.rglob("*")]
                names = {path.name for path in everything}
                assert {DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "run.lock", "blobs", "reports"} <= names
                wrong = {str(p): oct(mode(p)) for p in everything if mode(p) != (0o700 if p.is_dir() else 0o600)}
                assert wrong == {}
        register(tmp_path / "state", RUN, store.path)
        assert mode(tmp_path / "state") == mode(tmp_path / "state" / "runs") == 0o700
        assert mode(tmp_path / "state" / "runs" / RUN) == 0o600
    finally:
        os.umask(old)


def test_a_new_root_ignores_itself_in_git(store):
    assert (store.path.parent / ".gitignore").read_text() == "*\n"


def test_a_root_that_holds_something_keeps_its_own_git_rules(tmp_path):
    (tmp_path / "README.md").write_text("a project")
    Store.create(tmp_path, RUN).close()
    assert not (tmp_path / ".gitignore").exists()


def test_git_sees_nothing_of_a_run(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with Store.create(tmp_path / "audits", RUN) as store:
        store.put_blob(b"x")
        seen = subprocess.run(
            ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True
        )
    assert seen.stdout == ""


def test_a_run_is_never_made_twice_or_half(tmp_path, monkeypatch):
    root = tmp_path / "audits"
    with Store.create(root, RUN) as store:
        kept = filled(store, 1)
    with pytest.raises(UsageError, match="exists already"):
        Store.create(root, RUN)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(StoreError, match="No space left"):
        Store.create(root, "other")
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", RUN]
    with Store.open(root / RUN) as again:
        assert list(again.events()) == kept


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "x" * 99, "a\n"])
def test_an_id_that_is_not_a_plain_name_is_refused(tmp_path, name):
    with pytest.raises(UsageError):
        Store.create(tmp_path / "audits", name)
    assert not (tmp_path / "audits").exists()


def test_opening_nothing_is_run_not_found(tmp_path):
    with pytest.raises(RunNotFound) as missing:
        Store.open(tmp_path)
    assert missing.value.exit_code == 2
    assert "relay-audit status" in missing.value.next_step


def corrupt_header(database: Path) -> None:
    database.write_bytes(b"\x00garbage" * 600)


def emptied(database: Path) -> None:
    database.write_bytes(b"")


def middle_overwritten(database: Path) -> None:
    whole = bytearray(database.read_bytes())
    whole[4096:] = b"\xff" * (len(whole) - 4096)
    database.write_bytes(bytes(whole))


def somebody_elses(database: Path) -> None:
    database.unlink()
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE events (seq INTEGER)")
    connection.close()


def without_trigger(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("DROP TRIGGER no_delete")
    connection.close()


def of_another_program(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA application_id = 7")
    connection.close()


def from_the_future(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [corrupt_header, emptied, middle_overwritten, somebody_elses, without_trigger, of_another_program, from_the_future],
)
def test_a_database_that_is_not_what_we_wrote_is_a_clear_error(tmp_path, damage):
    with Store.create(tmp_path / "audits", RUN) as store:
        filled(store, 40)
    damage(store.path / DATABASE)
    with pytest.raises(StoreError) as broken, Store.open(store.path) as again:
        again.verify_chain()
    assert broken.value.exit_code == 70
    assert broken.value.next_step


# --- blobs -----------------------------------------------------------------------------------------------------------


def test_a_blob_is_kept_once_under_its_digest(store):
    body = b"redacted \x00 bytes" * 1000
    sha = store.put_blob(body)
    assert sha == hashlib.sha256(body).hexdigest() == store.put_blob(body)
    assert store.blob(sha) == body
    assert store.blob(store.put_blob(b"")) == b""
    assert len(list((store.path / "blobs").iterdir())) == 2


def test_the_bytes_are_on_disk_before_the_name_is(store, monkeypatch):
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def spy_fsync(handle: int) -> None:
        steps.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        fsync(handle)

    def spy_replace(self: Path, target: Path) -> Path:
        steps.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(Path, "replace", spy_replace)
    store.put_blob(b"answer")
    assert steps == ["sync file", "name", "sync folder"]
    store.put_blob(b"answer")
    assert steps[3:] == ["sync folder"]


def test_a_changed_blob_is_never_read_and_is_healed_by_storing_it_again(store):
    sha = store.put_blob(b"evidence")
    (store.path / "blobs" / sha).write_bytes(b"evidencf")
    with pytest.raises(StoreError, match="not what was stored"):
        store.blob(sha)
    store.put_blob(b"evidence")
    assert store.blob(sha) == b"evidence"


@pytest.mark.parametrize("name", ["", "../run.sqlite3", "0" * 63, "0" * 64, "A" * 64])
def test_a_blob_that_is_not_there_or_not_a_digest_is_an_error(store, name):
    with pytest.raises(StoreError):
        store.blob(name)


def test_an_event_cannot_name_a_blob_that_is_not_on_disk(store):
    sha = store.put_blob(b"answer")
    assert store.append("exchange.recorded", {}, ts=NOW, payload_ref=sha).payload_ref == sha
    with pytest.raises(StoreError, match="not stored"):
        store.append("exchange.recorded", {}, ts=NOW, payload_ref="0" * 64)
    assert store.last().seq == 1


def test_a_blob_that_cannot_be_written_leaves_nothing_behind(store, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match="No space left") as refused:
        store.put_blob(b"answer")
    assert refused.value.next_step
    assert list((store.path / "blobs").iterdir()) == []


# --- places ----------------------------------------------------------------------------------------------------------

MOUNT = "{n} 1 0:{n} / {point} rw,relatime shared:1 - {kind} source rw\n"


def mounts(tmp_path: Path, *pairs: tuple[Path | str, str]) -> Path:
    table = tmp_path / "mountinfo"
    lines = [MOUNT.format(n=n, point=str(p).replace(" ", "\\040"), kind=kind) for n, (p, kind) in enumerate(pairs, 20)]
    table.write_text("".join(lines))
    return table


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "fuse.sshfs",
        "davfs",
        "fuse.davfs2",
        "fuse.davfs",
        "ceph",
        "lustre",
        "fuse.rclone",
        "fuse.glusterfs",
        "afs",
    ],
)
def test_network_file_systems_are_refused(tmp_path, kind):
    share = tmp_path / "a share"
    table = mounts(tmp_path, ("/", "ext4"), (share, kind))
    with pytest.raises(UsageError, match="network file system") as refused:
        check_filesystem(share / "audits", table)
    assert "RELAY_AUDIT_RUNS" in refused.value.next_step
    check_filesystem(tmp_path / "a sharehouse", table)


@pytest.mark.parametrize("kind", ["ext4", "overlay", "9p", "tmpfs", "btrfs", "apfs", "fuse.mergerfs"])
def test_other_file_systems_are_accepted(tmp_path, kind):
    check_filesystem(tmp_path, mounts(tmp_path, ("/", "nfs4"), (tmp_path, kind)))


def test_the_later_of_two_mounts_on_one_point_counts(tmp_path):
    with pytest.raises(UsageError):
        check_filesystem(tmp_path, mounts(tmp_path, (tmp_path, "ext4"), (tmp_path, "nfs")))


def test_a_link_to_a_share_is_followed(tmp_path):
    share = tmp_path / "share"
    share.mkdir()
    (tmp_path / "audits").symlink_to(share)
    with pytest.raises(UsageError):
        check_filesystem(tmp_path / "audits", mounts(tmp_path, ("/", "ext4"), (share, "nfs4")))


def test_without_a_mount_table_nothing_is_refused(tmp_path):
    check_filesystem(tmp_path, tmp_path / "missing")
    (tmp_path / "odd").write_text("\n1 2\n - nfs\n")
    check_filesystem(tmp_path, tmp_path / "odd")


def test_a_run_is_not_made_on_a_share(tmp_path, monkeypatch):
    def refuse(path: Path) -> None:
        raise UsageError("share")

    monkeypatch.setattr("relay_audit.store.check_filesystem", refuse)
    with pytest.raises(UsageError, match="share"):
        Store.create(tmp_path / "audits", RUN)
    assert not (tmp_path / "audits").exists()


@pytest.mark.parametrize(
    "part",
    ["Dropbox", "Dropbox (Personal)", "OneDrive - Example", "iCloudDrive", "iCloud Drive", "Mobile Documents",
     "我的坚果云", "Nutstore", "GoogleDrive-a@b.example", "百度网盘同步空间"],
)  # fmt: skip
def test_synced_folders_are_named(part):
    assert folder_warnings(Path("/home/u") / part / "audits", platform="linux") == ["synced_folder"]


def test_ordinary_folders_and_windows():
    assert folder_warnings(Path("/home/u/dropboxes/onedriver/audits"), platform="linux") == []
    assert folder_warnings(Path("/home/u/audits"), platform="win32") == ["windows_permissions"]


# --- coming back -----------------------------------------------------------------------------------------------------


def test_run_ids_sort_by_time_and_are_typable():
    rng = random.Random(7)
    moments = [NOW.replace(second=0, microsecond=0) + dt.timedelta(milliseconds=70 * n) for n in range(2000)]
    ids = [new_run_id(moment, rng) for moment in moments]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert all(len(run_id) == len(RUN) for run_id in ids)
    assert not set("".join(run_id[14:] for run_id in ids)) & set("01lio")
    beijing = dt.timezone(dt.timedelta(hours=8))
    assert new_run_id(NOW.astimezone(beijing), rng).startswith("20261130-0215-")
    last = NOW.replace(second=59, microsecond=999_999)
    assert new_run_id(last, rng)[14:16] == "zz"


@pytest.fixture
def places(tmp_path):
    """Two roots and an index: a1 < a2 < b1 by time; b1 is only in the index."""
    here, there, state = tmp_path / "here" / "audits", tmp_path / "there" / "audits", tmp_path / "state"
    for root, run_id in (
        (here, "20261130-0215-aaaaaa"),
        (here, "20261130-0216-bbbbbb"),
        (there, "20261201-0900-cccccc"),
    ):
        with Store.create(root, run_id) as store:
            register(state, run_id, store.path)
    return here, there, state


def test_runs_in_lists_runs_newest_first(places):
    here, _, _ = places
    (here / "not-a-run").mkdir()
    (here / ".new-123").mkdir()
    (here / ".new-123" / DATABASE).write_bytes(b"")
    assert [path.name for path in runs_in(here)] == ["20261130-0216-bbbbbb", "20261130-0215-aaaaaa"]
    assert runs_in(here / "missing") == []


def test_locate_by_id_prefix_and_path(places, tmp_path, monkeypatch):
    here, there, state = places
    first = here / "20261130-0215-aaaaaa"
    for name in ("20261130-0215-aaaaaa", "20261130-0215", str(first), str(first / DATABASE)):
        assert locate(name, [here], state) == first
    monkeypatch.chdir(here)
    assert locate("./20261130-0215-aaaaaa", [], tmp_path / "nothing") == first
    assert locate("202612", [here], state) == there / "20261201-0900-cccccc"
    assert locate("20261201-0900-cccccc", [], state) == there / "20261201-0900-cccccc"


@pytest.mark.parametrize("name", ["", "latest"])
def test_the_latest_run_is_the_latest_here_then_anywhere(places, tmp_path, name):
    here, there, state = places
    assert locate(name, [here], state).name == "20261130-0216-bbbbbb"
    assert locate(name, [here, there], state).name == "20261201-0900-cccccc"
    assert locate(name, [tmp_path / "empty"], state).name == "20261201-0900-cccccc"
    with pytest.raises(RunNotFound) as missing:
        locate(name, [], tmp_path / "nothing")
    assert "demo" in missing.value.next_step


def test_an_ambiguous_or_unknown_id_says_how_to_go_on(places):
    here, _, state = places
    with pytest.raises(RunNotFound, match="2 runs begin with") as many:
        locate("20261130", [here], state)
    assert many.value.details["matches"] == ["20261130-0216-bbbbbb", "20261130-0215-aaaaaa"]
    for unknown in ("2031", "/nowhere/at/all", "..", "\x00", "x" * 5000):
        with pytest.raises(RunNotFound) as missing:
            locate(unknown, [here], state)
        assert "relay-audit status" in missing.value.next_step
        assert len(missing.value.message) < 200


def test_a_whole_id_wins_over_longer_ones(tmp_path):
    for run_id in ("run", "run-2"):
        Store.create(tmp_path / "audits", run_id).close()
    assert locate("run", [tmp_path / "audits"], tmp_path / "state").name == "run"


def test_the_index_forgets_what_is_gone_and_survives_nonsense(places, tmp_path):
    _, there, state = places
    (there / "20261201-0900-cccccc" / DATABASE).unlink()
    (state / "runs" / "20990101-0000-zzzzzz").write_bytes(b"\x00\xff relative")
    (state / "runs" / "20990101-0000-yyyyyy").mkdir()
    with pytest.raises(RunNotFound):
        locate("20261201", [], state)
    assert locate("", [], state).name == "20261130-0216-bbbbbb"


def test_registering_again_moves_the_entry(places, tmp_path):
    here, _, state = places
    moved = tmp_path / "moved"
    (here / "20261130-0215-aaaaaa").rename(moved)
    register(state, "20261130-0215-aaaaaa", moved)
    with pytest.raises(UsageError):
        register(state, "../x", moved)
    assert [path.name for path in (state / "runs").iterdir() if path.name.startswith(".")] == []
    assert (state / "runs" / "20261130-0215-aaaaaa").read_text() == str(moved)


# --- the lock --------------------------------------------------------------------------------------------------------


def test_one_process_works_on_a_run(store):
    with run_lock(store.path):
        with pytest.raises(UsageError, match="another process is working on this run") as held, run_lock(store.path):
            pass
        assert held.value.exit_code == 2
        code = (
            "import sys; from pathlib import Path\n"
            "from relay_audit.errors import UsageError\n"
            "from relay_audit.store import run_lock\n"
            "try:\n    run_lock(Path(sys.argv[1])).__enter__()\n"
            "except UsageError: sys.exit(2)\n"
        )
        other = [sys.executable, "-c", code, str(store.path)]
        assert subprocess.run(other, check=False).returncode == 2
    assert subprocess.run(other, check=False).returncode == 0
    with run_lock(store.path):
        pass


def test_the_lock_is_let_go_on_an_error_and_makes_no_folder(store, tmp_path):
    with pytest.raises(ZeroDivisionError), run_lock(store.path):
        raise ZeroDivisionError
    with run_lock(store.path):
        pass
    with pytest.raises(RunNotFound), run_lock(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "nowhere").exists()


# --- the vocabulary --------------------------------------------------------------------------------------------------


def test_the_vocabulary_is_closed_and_documented():
    assert set(EVENTS) == set(get_args(EventType))
    assert set(SIGNALS) == set(get_args(SignalName))
    assert TERMINAL == ("run.completed", "run.failed", "run.cancelled")
    under = said_under_fields(Event)
    page = events_markdown(under)
    for name, spec in EVENTS.items():
        assert f"| `{name}` | {spec.doc} | {spec.redaction} |" in page
    assert under.keys() == Event.model_fields.keys()
    for name, said in under.items():
        assert f"| `{name}` | {said} |" in page
    for word, kind in SIGNALS.items():
        assert f"| `{word}` | {kind.__doc__} |" in page
        assert not set(kind.model_fields) & {"key", "secret", "token"}, "a signal never holds a key"
