"""One event of a run, durable, against one row of a bare SQLite table, durable: the same disk, the same number of commits.

`python bench/append.py [--json]`, also a line of `make bench`. What ours adds is the chain, the closed vocabulary and the
triggers; the ratio is ours : bare in events per second, and has to be at least a half.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from relay_audit.store import Store

EVENTS = 400
ROUNDS = 5
PAYLOAD = {"exchange": "X0001", "step": "anthropic.token_parity.with_system.cjk.28", "side": "relay", "money": "settled",
           "amount": "0.000123", "basis": "usage_at_quoted_price"}  # fmt: skip


def append() -> dict[str, float]:
    """Events and rows per second, the median of alternating rounds."""
    ours, bare = [], []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as home:
        for number in range(ROUNDS):
            ours.append(_ours(Path(home), f"20261130-0000-{number:06}"))
            bare.append(_bare(Path(home) / f"{number}.sqlite3"))
    rates = {"ours_per_s": statistics.median(ours), "bare_per_s": statistics.median(bare)}
    return {**rates, "ratio": rates["ours_per_s"] / rates["bare_per_s"]}


def _ours(home: Path, name: str) -> float:
    moment = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    with Store.create(home, name) as store:
        began = time.perf_counter()
        for _ in range(EVENTS):
            store.append("exchange.recorded", PAYLOAD, ts=moment)
        return EVENTS / (time.perf_counter() - began)


def _bare(path: Path) -> float:
    text = json.dumps(PAYLOAD)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, payload TEXT NOT NULL) STRICT")
    began = time.perf_counter()
    for seq in range(1, EVENTS + 1):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO events VALUES (?, ?)", (seq, text))
        connection.execute("COMMIT")
    rate = EVENTS / (time.perf_counter() - began)
    connection.close()
    return rate


if __name__ == "__main__":
    found = append()
    print(
        json.dumps(found) if "--json" in sys.argv else "  ".join(f"{key} {value:.3g}" for key, value in found.items())
    )
