"""One issue per line: opened on confirmation, updated, closed by the first night that looked again and saw nothing; what
comes again opens the same issue again.

What is written is decided by `relay-audit` (`night.issue`); this only carries it to GitHub through `gh`, as arguments
and standard input, never through a shell.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LABEL = "relay-audit"


def carry_out(issue: dict[str, Any], line: str, call: Callable[[list[str], str], str] | None = None) -> None:
    """`issue`: action (none, open, update, close), title, body. `line` names the target file; it finds the issue again."""
    gh = call or _gh
    if issue["action"] == "none":
        return
    title = f"{issue['title']} ({line})"
    found = json.loads(
        gh(["issue", "list", "--label", LABEL, "--state", "all", "--json", "number,title,state", "--limit", "500"], "")
        or "[]"
    )
    rows = sorted((row for row in found if row["title"] == title), key=lambda row: row["state"].upper() != "OPEN")
    number = str(rows[0]["number"]) if rows else None
    closed = bool(rows) and rows[0]["state"].upper() != "OPEN"
    if closed and issue["action"] == "close":
        return
    if closed and number is not None:
        gh(["issue", "reopen", number], "")
    if number is None and issue["action"] != "close":
        gh(["label", "create", LABEL, "--force"], "")
        gh(["issue", "create", "--title", title, "--label", LABEL, "--body-file", "-"], issue["body"])
    elif number is not None:
        gh(["issue", "comment", number, "--body-file", "-"], issue["body"])
        if issue["action"] == "close":
            gh(["issue", "close", number], "")


def _gh(words: list[str], body: str) -> str:
    done = subprocess.run(["gh", *words], input=body, text=True, capture_output=True, check=True, timeout=120)  # noqa: S603, S607
    return done.stdout


if __name__ == "__main__":
    for row in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        if row.startswith("{") and "night" in (result := json.loads(row)):
            carry_out(result["night"]["issue"], Path(os.environ["INPUT_TARGET"]).name)
