"""`verify` of a run of 10,000 exchanges against SHA-256 of the same bytes: a ratio, so that the machine cancels out.

`python bench/verify.py [EXCHANGES]`. The chain, every blob and every event are walked; no network, no key.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

from relay_audit.events import Draft
from relay_audit.store import Store
from relay_audit.verification import Verified, walk_run

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


def bare(store: Store) -> float:
    """Reading and hashing the same bytes, and nothing else."""
    files = [*sorted((store.path / "blobs").iterdir()), store.path / "run.sqlite3"]
    before = time.perf_counter()
    for file in files:
        hashlib.sha256(file.read_bytes()).hexdigest()
    return time.perf_counter() - before


def main(number: int) -> None:
    with tempfile.TemporaryDirectory() as home, made(Path(home), number) as store:
        bare(store)
        least = min(bare(store) for _ in range(3))
        times = []
        for _ in range(3):
            before = time.perf_counter()
            result = Verified(store.run_id)
            walk_run(store, result)
            times.append(time.perf_counter() - before)
            if result.problems:
                raise SystemExit("the run of the benchmark does not verify")
        ratio = min(times) / least
    print(
        json.dumps(
            {
                "exchanges": number,
                "sha256_s": round(least, 3),
                "verify_s": round(min(times), 3),
                "ratio": round(ratio, 2),
                "at_most": 3,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
