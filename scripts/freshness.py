"""The weekly look at our own knowledge: one pull request when prices changed, one issue with what is out of date.

Runs in the repository's own job, after `scripts/refresh_prices.py`; needs `gh` and its token.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

TITLE = "Knowledge past its date"


def called(*words: str, body: str = "") -> str:
    done = subprocess.run(words, input=body, text=True, capture_output=True, check=True, timeout=300)
    return done.stdout


def issue_body(rows: list[dict[str, str]]) -> str:
    """What is stale, each with the command that renews it."""
    return "\n".join(f"- `{row['name']}`: {row['what']}" for row in rows)


def prices() -> None:
    """A branch of its own for each week, a pull request for people to review."""
    if not called("git", "status", "--porcelain", "known_fingerprints/prices"):
        return
    branch = f"prices-{dt.datetime.now(dt.UTC).date().isoformat()}"
    called("git", "switch", "--create", branch)
    called("git", "-c", "user.name=freshness", "-c", "user.email=freshness@users.noreply.github.com", "commit", "--message",
           "Price snapshot refreshed", "known_fingerprints/prices")  # fmt: skip
    called("gh", "auth", "setup-git")
    called("git", "push", "origin", branch)
    called(
        "gh",
        "pr",
        "create",
        "--title",
        "Price snapshot refreshed",
        "--body",
        "From the public price lists; review the figures.",
    )


def stale(rows: list[dict[str, str]]) -> None:
    found = json.loads(called("gh", "issue", "list", "--state", "open", "--search", TITLE, "--json", "number,title"))
    number = next((str(row["number"]) for row in found if row["title"] == TITLE), None)
    if rows and number:
        called("gh", "issue", "edit", number, "--body-file", "-", body=issue_body(rows))
    elif rows:
        called("gh", "issue", "create", "--title", TITLE, "--body-file", "-", body=issue_body(rows))
    elif number:
        called("gh", "issue", "close", number)


if __name__ == "__main__":
    report = json.loads(called(sys.executable, "-m", "relay_audit.cli.main", "doctor", "--stale", "--json"))
    stale(report["rows"])
    prices()
