"""Whether this hour is today's hour: a schedule spread over the day, so that no peak stays unseen and none is always met.

Called every hour; says yes once a day, at an hour that follows from the date and the repository.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import sys


def hour_of(day: dt.date, name: str) -> int:
    """0 to 23, the same for everybody who asks, different from day to day."""
    return int.from_bytes(hashlib.sha256(f"{day.isoformat()} {name}".encode()).digest()[:4], "big") % 24


if __name__ == "__main__":
    now = dt.datetime.now(dt.UTC)
    due = (
        hour_of(now.date(), os.environ.get("GITHUB_REPOSITORY", "") + (sys.argv[1] if len(sys.argv) > 1 else ""))
        == now.hour
    )
    answer = f"due={'true' if due else 'false'}\n"
    if os.environ.get("GITHUB_OUTPUT"):
        with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:  # noqa: PTH123  one line to the runner
            file.write(answer)
    sys.stdout.write(answer)
