"""`verify` of 10,000 exchanges, as a run and as an archive, against SHA-256 of the same bytes: a ratio of processor time,
so that the machine and its other work cancel out.

`python bench/verify.py [EXCHANGES]`. The chain, every blob and every event are walked; no network, no key. Judging again,
with which `verify` of a run also finds figures that do not follow, is no part of it: it grows with what is judged.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from relay_audit.archive.chain import check_archive
from relay_audit.archive.contents import Contents, given
from relay_audit.archive.zipped import open_archive, write_archive
from relay_audit.events import Draft
from relay_audit.evidence import SCHEMA_VERSION
from relay_audit.manifest import BLOBS, EVENTS, Blob, Manifest, Part, event_line
from relay_audit.store import Store
from relay_audit.verification import Verified, walk_run
from relay_audit.words import Bilingual

NOW = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
BODY = 24_000
"""Bytes of one exchange: a request and a streamed answer with its headers."""


def made(root: Path, number: int) -> Store:
    store = Store.create(root, "20261130-0300-bench2")
    for start in range(0, number, 1000):
        drafts = []
        for n in range(start, min(start + 1000, number)):
            raw = json.dumps({"id": f"X{n:05}", "body": f"{n:08}" * (BODY // 8)}).encode()
            sha = hashlib.sha256(raw).hexdigest()
            (store.path / "blobs" / sha).write_bytes(raw)
            drafts.append(
                Draft("exchange.recorded", {"exchange": f"X{n:05}", "step": "bench", "side": "relay"}, "relay", sha)
            )
        store.append_all(drafts, ts=NOW)
    return store


def packed(store: Store, path: Path) -> None:
    """The same run as an archive."""
    events = list(store.events())
    text = b"".join(map(event_line, events))
    blobs = sorted((store.path / "blobs").iterdir())
    manifest = Manifest(
        schema_version=SCHEMA_VERSION, edition="full", run_id=store.run_id, status="running", evidence_head="",
        last_hash=events[-1].hash, events=len(events), tool_version="bench", knowledge_digest="",
        parts=(Part(name=EVENTS, bytes=len(text), sha256=hashlib.sha256(text).hexdigest()),),
        blobs=tuple(Blob(sha256=b.name, bytes=b.stat().st_size, kind="exchange.recorded") for b in blobs),
        proves=Bilingual(en="nothing", zh="nothing"),
    )  # fmt: skip
    members = [(EVENTS, given(text)), *((f"{BLOBS}{blob.name}", blob.read_bytes) for blob in blobs)]
    write_archive(Contents(manifest, members), path)


def bare(files: list[Path]) -> None:
    """Reading and hashing the same bytes, and nothing else."""
    for file in files:
        hashlib.sha256(file.read_bytes()).hexdigest()


def run_walked(store: Store) -> None:
    result = Verified(store.run_id)
    walk_run(store, result)
    if result.problems:
        raise SystemExit("the run of the benchmark does not verify")


def archive_checked(path: Path) -> None:
    with open_archive(path) as archive:
        if check_archive(archive)[1]:
            raise SystemExit("the archive of the benchmark does not verify")


def least(job: Callable[[], None]) -> float:
    """Seconds of processor time, of the quickest of three."""
    times = []
    for _ in range(3):
        before = time.process_time()
        job()
        times.append(time.process_time() - before)
    return min(times)


def main(number: int) -> None:
    with tempfile.TemporaryDirectory() as home, made(Path(home), number) as store:
        archive = Path(home) / "run.zip"
        packed(store, archive)
        files = [*sorted((store.path / "blobs").iterdir()), store.path / "run.sqlite3"]
        hashed = least(lambda: bare(files))
        run, file = least(lambda: run_walked(store)), least(lambda: archive_checked(archive))
    row = {"exchanges": number, "sha256_s": round(hashed, 3), "run_s": round(run, 3), "archive_s": round(file, 3)}
    print(json.dumps({**row, "ratio": round(run / hashed, 2), "archive_ratio": round(file / hashed, 2), "at_most": 3}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
