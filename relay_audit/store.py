"""A run on disk: append-only events in SQLite, blobs by digest, reports beside them. Any process may come back to it.

The order of durable things is blob, then event: an event never points at bytes that a power cut could still take away.
The chain shows that nothing changed after it was written; it does not show who answered.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import re
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from relay_audit.disk import check_filesystem, file_errors, folder_warnings, sync_folder, write_durably
from relay_audit.errors import Overtaken, RunNotFound, StoreError, UsageError
from relay_audit.event_rows import COLUMNS, RESTORE, broken, from_row, row_hash, to_row
from relay_audit.events import GENESIS, TERMINAL, Actor, Draft, Event, EventType
from relay_audit.runs import DATABASE, RUN_ID, is_run, locate, new_run_id, register, run_lock, runs_in, when_free

__all__ = [
    "DATABASE", "Draft", "Event", "Store", "check_filesystem", "folder_warnings", "is_run", "locate", "new_run_id",
    "register", "run_lock", "runs_in", "when_free",
]  # fmt: skip
"""The one door to runs on disk; what is behind it is split by what it knows."""

APPLICATION_ID = 0x52415544  # "RAUD": says whose file this is before anything in it is believed
LAYOUT = 1
BUSY_SECONDS = 30.0
"""How long a writer waits for another one; an append takes about a millisecond."""
PAGE = 256
"""Events per read: a slow reader holds no transaction open, so the write-ahead log can be folded back."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENDS = ", ".join(f"'{name}'" for name in TERMINAL)
_SCHEMA = (
    "CREATE TABLE events (seq INTEGER PRIMARY KEY, ts TEXT NOT NULL, type TEXT NOT NULL, actor TEXT NOT NULL, "
    "payload TEXT NOT NULL, payload_ref TEXT NOT NULL, redaction TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL"
    ") STRICT",
    "CREATE TRIGGER no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
    "CREATE TRIGGER no_gap BEFORE INSERT ON events "
    "WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM events) "
    "BEGIN SELECT RAISE(ABORT, 'events are numbered without gaps'); END",
    "CREATE TRIGGER no_fork BEFORE INSERT ON events "  # noqa: S608  our own constants
    f"WHEN NEW.prev IS NOT coalesce((SELECT hash FROM events ORDER BY seq DESC LIMIT 1), '{GENESIS}') "
    "BEGIN SELECT RAISE(ABORT, 'an event names the one before it'); END",
    f"CREATE TRIGGER one_end BEFORE INSERT ON events WHEN NEW.type IN ({_ENDS}) "  # noqa: S608  our own constants
    f"AND EXISTS (SELECT 1 FROM events WHERE type IN ({_ENDS})) "
    "BEGIN SELECT RAISE(ABORT, 'a run ends once'); END",
)


class Store:
    """One run folder. One object may be used from several threads, one folder from several processes."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.RLock()

    @classmethod
    def create(cls, root: Path, run_id: str) -> Store:
        """A new run below `root`. It appears whole or not at all: it is made beside its place and then renamed."""
        if not RUN_ID.fullmatch(run_id):
            raise UsageError(f"{run_id[:80]!r} cannot be the id of a run", next_step="Leave the id out; one is made.")
        check_filesystem(root)
        path = root / run_id
        draft = root / f".new-{secrets.token_hex(6)}"
        with file_errors("the run folder cannot be made"):
            _make_root(root)
            if path.exists():
                raise UsageError(f"the run {run_id} exists already", next_step="Use another id.")
            try:
                _make_run(draft)
                draft.rename(path)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            sync_folder(root)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Store:
        path = path.absolute()
        if not is_run(path):
            raise RunNotFound(f"there is no run in {path}", next_step="`relay-audit status` lists the runs.")
        check_filesystem(path)
        with _sqlite():
            connection = _connect(path / DATABASE)
            try:
                _check_ours(connection)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def reports(self) -> Path:
        return self.path / "reports"

    def append(
        self,
        type: EventType,  # noqa: A002  the event's own word
        payload: dict[str, Any],
        *,
        ts: dt.datetime,
        actor: Actor = "runner",
        payload_ref: str = "",
    ) -> Event:
        return self.append_all([Draft(type, payload, actor, payload_ref)], ts=ts)[0]

    def append_all(self, drafts: Sequence[Draft], *, ts: dt.datetime, after: int | None = None) -> list[Event]:
        """All of them or none, in one transaction. When this returns they survive a power cut. With `after`, only while
        that is still the last event: what was decided by reading up to there holds. Raises `Overtaken` otherwise."""
        for draft in drafts:
            if draft.payload_ref and not self._blob_path(draft.payload_ref).is_file():
                raise StoreError(f"the event {draft.type} names a blob that was not stored", next_step=_REPORT_IT)
        with self._lock, _sqlite(), _transaction(self._connection):
            seq, prev = self._tip()
            if after is not None and seq != after:
                raise Overtaken("somebody else wrote into this run", next_step="Give the command again.")
            sealed = []
            for draft in drafts:
                event = _seal(draft, seq + 1, ts, prev)
                self._connection.execute(f"INSERT INTO events ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", to_row(event))  # noqa: S608
                sealed.append(event)
                seq, prev = event.seq, event.hash
        return sealed

    def events(self, after: int = 0) -> Iterator[Event]:
        """In order, from the cursor; events that others append meanwhile are included."""
        while page := self._select("WHERE seq > ? ORDER BY seq LIMIT ?", after, PAGE):
            yield from page
            after = page[-1].seq

    def events_of(self, *types: EventType) -> list[Event]:
        """Those of these types alone, in order: the others are not read at all."""
        return self._select(f"WHERE type IN ({', '.join('?' * len(types))}) ORDER BY seq", *types)

    def last(self) -> Event | None:
        return next(iter(self._select("ORDER BY seq DESC LIMIT 1")), None)

    def terminal(self) -> Event | None:
        return next(iter(self._select(f"WHERE type IN ({_ENDS}) ORDER BY seq LIMIT 1")), None)

    def head(self) -> str:
        """The evidence head: the hash of the terminal event; empty while the run has none."""
        end = self.terminal()
        return end.hash if end else ""

    def verify_chain(self) -> list[Event]:
        """Every event. Raises StoreError at the first that is missing, changed, out of order or a second end."""
        events: list[Event] = []
        prev, ended = GENESIS, False
        while rows := self._rows("WHERE seq > ? ORDER BY seq LIMIT ?", events[-1].seq if events else 0, PAGE):
            for row in rows:
                event = from_row(row)
                if event.seq != len(events) + 1:
                    raise broken(len(events) + 1, "is missing")
                if event.prev != prev:
                    raise broken(event.seq, "does not follow the one before it")
                if event.hash != row_hash(row) and event.hash != event.computed_hash():
                    raise broken(event.seq, "was changed after it was written")
                if event.terminal and ended:
                    raise broken(event.seq, "is a second end of the run")
                prev, ended = event.hash, ended or event.terminal
                events.append(event)
        return events

    def put_blob(self, raw: bytes) -> str:
        """Stores redacted bytes under their digest; then they survive a power cut. The same bytes: once."""
        sha = hashlib.sha256(raw).hexdigest()
        target = self._blob_path(sha)
        with file_errors("a blob cannot be written"):
            if target.is_file() and _sha256_of(target) == sha:
                sync_folder(target.parent)  # whoever renamed it here may not have come this far
            else:
                write_durably(target, raw)
        return sha

    def blob(self, sha: str) -> bytes:
        try:
            raw = self._blob_path(sha).read_bytes()
        except OSError as error:
            raise StoreError(f"the blob {sha} cannot be read ({error.strerror})", next_step=RESTORE) from error
        if hashlib.sha256(raw).hexdigest() != sha:
            raise StoreError(f"the blob {sha} is not what was stored under this digest", next_step=RESTORE)
        return raw

    def blob_size(self, sha: str) -> int:
        with file_errors(f"the blob {sha} cannot be read"):
            return self._blob_path(sha).stat().st_size

    def remove_blob(self, sha: str) -> None:
        """Takes stored bytes away; the caller has recorded why before. What is not there any more: nothing to do."""
        with file_errors("a blob cannot be taken away"):
            self._blob_path(sha).unlink(missing_ok=True)
            sync_folder(self.path / "blobs")

    def adopt(self, events: Sequence[Event]) -> None:
        """Events that were sealed elsewhere, as they are, in one transaction; the chain's triggers hold for them too."""
        with self._lock, _sqlite(), _transaction(self._connection):
            for event in events:
                self._connection.execute(f"INSERT INTO events ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", to_row(event))  # noqa: S608

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _blob_path(self, sha: str) -> Path:
        return _blob_path(self.path, sha)

    def _tip(self) -> tuple[int, str]:
        row = self._connection.execute("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
        return (row[0], row[1]) if row else (0, GENESIS)

    def _select(self, tail: str, *values: int | str) -> list[Event]:
        return [from_row(row) for row in self._rows(tail, *values)]

    def _rows(self, tail: str, *values: int | str) -> list[tuple[Any, ...]]:
        with self._lock, _sqlite():
            return self._connection.execute(f"SELECT {COLUMNS} FROM events {tail}", values).fetchall()  # noqa: S608


_REPORT_IT = "This is an error of relay-audit; please report it. Nothing was written."


def _make_root(root: Path) -> None:
    """A new root ignores itself in git. One that holds something may be a project; its files are not ours to hide."""
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=0o700, exist_ok=True)
    if all(entry.name.startswith(".new-") for entry in root.iterdir()):
        write_durably(root / ".gitignore", b"*\n")
        with contextlib.suppress(PermissionError):  # a parent that we may not list
            sync_folder(root.parent)


def _make_run(folder: Path) -> None:
    for each in (folder, folder / "blobs", folder / "reports"):
        each.mkdir(mode=0o700)
    # SQLite gives its -wal and -shm files the mode of the database, so the database has to be private first.
    os.close(os.open(folder / DATABASE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with _sqlite(), contextlib.closing(_connect(folder / DATABASE)) as connection, _transaction(connection):
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
    sync_folder(folder)


def _connect(database: Path) -> sqlite3.Connection:
    """`mode=rw` never creates a file; every transaction is on disk before its commit returns."""
    uri = f"{database.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: past the disk's own cache as well
        if mode != "wal":
            raise StoreError("this place cannot keep a write-ahead log", next_step="Keep the runs on a local disk.")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_ours(connection: sqlite3.Connection) -> None:
    """A folder may come from somebody else: without our triggers it is not the append-only thing it says it is."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError("the database is not a run of relay-audit", next_step=RESTORE)
    layout = connection.execute("PRAGMA user_version").fetchone()[0]
    if layout != LAYOUT:
        raise StoreError(f"the run has layout {layout}, this version reads {LAYOUT}", next_step="Update relay-audit.")
    if {row[0] for row in connection.execute("SELECT sql FROM sqlite_master")} != set(_SCHEMA):
        raise StoreError("the run's database is not built as we build it", next_step=RESTORE)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _sqlite() -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a closed store is an error of ours, not damage
    except sqlite3.IntegrityError as error:
        raise StoreError(f"the run refuses this event: {error}", next_step=_REPORT_IT) from error
    except sqlite3.OperationalError as error:
        step = "Free some disk space, see that no other program holds the run, and resume it."
        raise StoreError(f"the run's database cannot be used: {error}", next_step=step) from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"the run's database is damaged: {error}", next_step=RESTORE) from error


def _seal(draft: Draft, seq: int, ts: dt.datetime, prev: str) -> Event:
    try:
        return Event.seal(draft, seq=seq, ts=ts, prev=prev)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"the event {draft.type} is not well formed ({type(error).__name__})", next_step=_REPORT_IT
        ) from error


@lru_cache(maxsize=64)
def _blob_path(run: Path, sha: str) -> Path:
    """Remembered: a blob is written, named by an event and read back in a row, and a path costs more than its hash."""
    if not _SHA256.fullmatch(sha):
        raise StoreError("a blob is named by its SHA-256, nothing else", next_step=RESTORE)
    return run / "blobs" / sha


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
