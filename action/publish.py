"""What a night shows in GitHub: a summary, at most ten annotations, four outputs, and reports for an artifact.

Standard library only. Everything shown is the program's own text; it is escaped for where it goes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ANNOTATIONS = 10
REPORTS = {"public.md": ("public", "md"), "junit.xml": ("internal", "junit"), "internal.json": ("internal", "json")}
"""File → audience and format. The artifact is the repository's own: internal there means its readers."""
LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "notice"}


def objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects of stdout, one per target."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def annotations(results: list[dict[str, Any]], lang: str) -> list[str]:
    """At most ten workflow commands, gravest first, the last one counting what was left out."""
    rows = [
        (found, result) for result in results for found in result.get("findings", []) if found["severity"] in LEVELS
    ]
    rows.sort(key=lambda row: list(LEVELS).index(row[0]["severity"]))
    kept = rows if len(rows) <= ANNOTATIONS else rows[: ANNOTATIONS - 1]
    lines = [
        f"::{LEVELS[found['severity']]} title={_property(found['code'])}::{_data(_said(result, lang))}"
        for found, result in kept
    ]
    lines += [
        f"::error title={_property(r['error'])}::{_data(str(r.get('message', '')))}" for r in results if "error" in r
    ]
    lines = lines[:ANNOTATIONS]
    if len(rows) > len(kept) and len(lines) == ANNOTATIONS - 1:
        lines.append(f"::notice title=relay-audit::{len(rows) - len(kept)} more in the report")
    return lines


def summary(results: list[dict[str, Any]], lang: str, code: int) -> str:
    """Markdown for the job's page."""
    parts = []
    for result in results:
        if "error" in result:
            parts.append(
                f"### {_md(result['error'])}\n\n{_md(str(result.get('message', '')))}\n\n→ `{_code(str(result.get('next_step', '')))}`"
            )
            continue
        cards = "".join(
            f"| {_md(card['id'])} | {_md(card['state'])} | {_md(card['text'])} |\n" for card in result.get("cards", [])
        )
        night = result.get("night", {})
        parts.append(
            f"### {_md(result.get('verdict', ''))}\n\n{_md(_said(result, lang))}\n\n"
            + (f"{_md(night['text'][lang])}\n\n" if night else "")
            + f"| | | |\n|---|---|---|\n{cards}\n"
            + "".join(f"- `{_code(f['code'])}` {_md(f['severity'])}\n" for f in result.get("findings", []))
        )
    return "\n\n".join(parts) + f"\n\nexit {code}\n"


def reports(result: dict[str, Any], folder: Path, tool: str) -> None:
    """Files for the artifact; one that is refused by the leak guard is simply not there."""
    for name, (audience, form) in REPORTS.items():
        words = [
            tool,
            "report",
            result["run_id"],
            "--for",
            audience,
            "--format",
            form,
            "-o",
            str(folder / f"{result['run_id']}.{name}"),
        ]
        subprocess.run(words, check=False, stdout=subprocess.DEVNULL, timeout=300)  # noqa: S603  our own program


def _said(result: dict[str, Any], lang: str) -> str:
    said = result.get("answer", {}).get("say", {})
    return str(said.get(lang) or said.get("en") or result.get("message", ""))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _md(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    for mark in "\\`*_{}[]#|!":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ").replace("\r", " ")


def _code(text: str) -> str:
    return text.replace("`", "'").replace("\n", " ")


def main(output: Path, folder: Path, tool: str, code: int) -> None:
    results = objects(output.read_text(encoding="utf-8"))
    lang = "zh-CN" if os.environ.get("INPUT_LANG", "").lower().startswith("zh") else "en"
    for result in results:
        if "run_id" in result and "error" not in result:
            reports(result, folder, tool)
    print("\n".join(annotations(results, lang)))
    last = results[-1] if results else {}
    outputs = {
        "verdict": last.get("verdict", ""), "run": last.get("run_id", ""), "report": str(folder),
        "state": last.get("night", {}).get("state", ""),
    }  # fmt: skip
    for variable, text in (
        ("GITHUB_STEP_SUMMARY", summary(results, lang, code)),
        (
            "GITHUB_OUTPUT",
            "".join(f"{name}={str(value).splitlines()[0] if value else ''}\n" for name, value in outputs.items()),
        ),
    ):
        if os.environ.get(variable):
            with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
