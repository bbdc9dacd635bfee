"""Which runs there are and how to come back to one: ids, a run's lock, and the index in the user's state folder."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from relay_audit.disk import file_errors, write_durably
from relay_audit.errors import RunNotFound, UsageError

DATABASE = "run.sqlite3"
"""A folder that holds this file is a run."""
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")
ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""In ASCII order, without 0 o 1 l i: an id is read aloud and typed."""
GLANCE_S = 0.3
"""A status or a signal looks whether the run is free; whoever comes to work on it outwaits such a glance."""
LATEST = ("", "latest")

_LIST = "`relay-audit status` lists the runs."


def new_run_id(now: dt.datetime, rng: random.Random) -> str:
    """`20261130-0215-k7m2qx`: minute, place in the minute (two letters, 62 ms), chance. Text order is time order."""
    moment = now.astimezone(dt.UTC)
    size = len(ALPHABET)
    slot = (moment.second * 1_000_000 + moment.microsecond) * size * size // 60_000_000
    tail = ALPHABET[slot // size] + ALPHABET[slot % size] + "".join(rng.choices(ALPHABET, k=4))
    return f"{moment:%Y%m%d-%H%M}-{tail}"


@contextlib.contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """One process works on a run at a time; the others are told so, not kept waiting. The lock goes with the process."""
    if not is_run(path):
        raise RunNotFound(f"there is no run in {path}", next_step=_LIST)
    lock = FileLock(path / "run.lock", timeout=GLANCE_S, mode=0o600)
    try:
        lock.acquire()
    except Timeout as error:
        raise UsageError(
            "another process is working on this run",
            next_step=f"Wait for it, or follow it: `relay-audit status {path.name}`.",
            details={"run_id": path.name},
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def when_free(path: Path) -> Iterator[bool]:
    """Whether no process works on the run; while the block lasts none begins to. Never waits."""
    lock = FileLock(path / "run.lock", timeout=0, mode=0o600)
    try:
        lock.acquire()
    except (Timeout, OSError):  # held, or a folder that nobody can work in
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def is_run(path: Path) -> bool:
    try:
        return (path / DATABASE).is_file()
    except OSError:
        return False


def runs_in(root: Path) -> list[Path]:
    """The run folders below `root`, newest first."""
    try:
        found = [path for path in root.iterdir() if RUN_ID.fullmatch(path.name) and is_run(path)]
    except OSError:
        return []
    return sorted(found, key=lambda path: path.name, reverse=True)


def register(state_dir: Path, run_id: str, path: Path) -> None:
    """Remembers where a run is. One small file per run: two processes never write the same one."""
    if not RUN_ID.fullmatch(run_id):
        raise UsageError(f"{run_id[:80]!r} cannot be the id of a run", next_step=_LIST)
    index = state_dir / "runs"
    with file_errors("the index of runs cannot be written"):
        state_dir.parent.mkdir(parents=True, exist_ok=True)
        for folder in (state_dir, index):
            folder.mkdir(mode=0o700, exist_ok=True)
        write_durably(index / run_id, os.fsencode(path.absolute()))


def locate(run_id: str, roots: list[Path], state_dir: Path) -> Path:
    """The run that is meant by a path, an id, the beginning of one, or "" and "latest".

    `roots` come before the index: the latest run is the latest *here*, and only where there is none, anywhere.
    """
    here = [path for root in roots for path in runs_in(root)]
    if run_id in LATEST:
        for paths in (here, _indexed(state_dir)):
            if paths:
                return max(paths, key=lambda path: path.name).absolute()
        raise RunNotFound("there is no run yet", next_step="`relay-audit demo` makes one without a key or an account.")
    named = Path(run_id)
    as_path = named.parent if named.name == DATABASE else named
    if is_run(as_path):
        return as_path.absolute()
    return _by_prefix(run_id, [*here, *_indexed(state_dir)]).absolute()


def _by_prefix(run_id: str, paths: list[Path]) -> Path:
    matches: dict[str, Path] = {}
    for path in paths:
        if path.name.startswith(run_id):
            matches.setdefault(path.name, path)
    if run_id in matches:
        return matches[run_id]
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        some = sorted(matches, reverse=True)[:5]
        raise RunNotFound(
            f"{len(matches)} runs begin with {run_id[:80]!r}; the newest of them: {', '.join(some)}",
            next_step="Give a few more letters of the id.",
            details={"matches": some},
        )
    raise RunNotFound(f"there is no run {run_id[:80]!r} here or in the index", next_step=_LIST)


def _indexed(state_dir: Path) -> list[Path]:
    """Where the index says that runs are, as far as they still are there."""
    try:
        names = [entry for entry in (state_dir / "runs").iterdir() if RUN_ID.fullmatch(entry.name)]
    except OSError:
        return []
    paths = []
    for entry in names:
        with contextlib.suppress(OSError):
            path = Path(os.fsdecode(entry.read_bytes()))
            if path.is_absolute() and is_run(path):
                paths.append(path)
    return paths
