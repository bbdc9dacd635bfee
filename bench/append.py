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

EVENTS = 2_000
PAYLOAD = {"exchange": "X0001", "step": "anthropic.token_parity.with_system.cjk.28", "side": "relay", "money": "settled",
           "amount": "0.000123", "basis": "usage_at_quoted_price"}  # fmt: skip


def append() -> dict[str, float]:
    """Events and rows per second, by the median of single commits: one of ours and one bare in turn, so that the disk and
    whatever else the machine does meet both alike."""
    moment = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    ours: list[float] = []
    bare: list[float] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as home, Store.create(Path(home), "20261130-0000-000000") as store:
        connection = _bare(Path(home) / "bare.sqlite3")
        text = json.dumps(PAYLOAD)
        for seq in range(1, EVENTS + 1):
            began = time.perf_counter()
            store.append("exchange.recorded", PAYLOAD, ts=moment)
            between = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO events VALUES (?, ?)", (seq, text))
            connection.execute("COMMIT")
            ours.append(between - began)
            bare.append(time.perf_counter() - between)
        connection.close()
    rates = {"ours_per_s": 1 / statistics.median(ours), "bare_per_s": 1 / statistics.median(bare)}
    return {**rates, "ratio": rates["ours_per_s"] / rates["bare_per_s"]}


def _bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, payload TEXT NOT NULL) STRICT")
    return connection


if __name__ == "__main__":
    found = append()
    print(
        json.dumps(found) if "--json" in sys.argv else "  ".join(f"{key} {value:.3g}" for key, value in found.items())
    )
