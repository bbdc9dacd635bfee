"""Baselines as a file of their own: written by whoever has an official key, read by whoever has none.

Its format is that of `known_fingerprints/`. One that comes from a friend brings figures and refusals, and nothing that
could be turned against its reader: no keys' homes, no marks of channels, no sentence that would be sent in the reader's
name, no pattern that could be slow, no date in the future, no longer term than ours.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from relay_audit.errors import PackError
from relay_audit.fingerprint import ROWS, Knowledge, Known, LimitText, TokenBaseline
from relay_audit.refusal import line_of, parse, read_as, refuse

ALLOWED = ("baselines", "refusals", "limits")
"""Tables that may come from a stranger."""
LONGEST_TERM = 180
"""Days: a baseline belongs to a model version."""
NAMED_SOURCES = 8
LARGEST = 1_000_000
"""Characters."""
PIECES = (r"(?P<cap>\d+)", r"(?P<cap>[\d,]+)", r"(?P<model>[\w.:@/*-]+)", r"\d+")
"""All that a limit's pattern may hold besides plain text."""
_PLAIN = re.compile(r"(?:\\[^A-Za-z0-9]|[^\\.^$*+?{}\[\]|()])*")
Rows = Mapping[str, tuple[Known, ...]]


def text_of(rows: Rows, head: str = "") -> str:
    """The rows as TOML, each as short as its defaults allow."""
    parts = ["".join(f"# {line}\n" for line in head.splitlines())] if head else []
    for kind, known in rows.items():
        parts += [f"[[{kind}]]\n" + "".join(_lines(row)) for row in known]
    return "\n".join(parts)


def read_baselines(path: Path) -> str:
    """The text of a baselines file. Raises `PackError` where it cannot be read as one."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise refuse(path.name, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise refuse(path.name, "is not UTF-8 text") from None
    if len(text) > LARGEST:
        raise refuse(path.name, f"is longer than {LARGEST:,} characters")
    return text


def rows_in(name: str, text: str) -> dict[str, tuple[Known, ...]]:
    """Its rows by table. Raises `PackError` for any table but those that may come from a stranger."""
    found: dict[str, tuple[Known, ...]] = {}
    for kind, tables in parse(name, text).items():
        if kind not in ALLOWED or not isinstance(tables, list):
            what = f"table {kind} does not belong into a baselines file (it may hold: {', '.join(ALLOWED)})"
            raise refuse(name, what, line_of(text, (kind,)))
        rows = (read_as(ROWS[kind], table, name, text, (kind, index)) for index, table in enumerate(tables))
        found[kind] = tuple(row for row in rows if isinstance(row, Known))
    return found


def check_baselines(name: str, rows: Rows, knowledge: Knowledge, today: dt.date) -> None:
    """Refuses what a stranger's file may not say. `knowledge` is all that is known without it. Raises `PackError`."""
    if not any(rows.values()):
        raise refuse(name, "holds no baselines")
    texts = {row.text for row in knowledge.baselines}
    patterns = {row.pattern for row in knowledge.limits}
    for kind, known in rows.items():
        for row in known:
            if fault := _fault(row, texts, patterns, today):
                raise _refused(name, kind, row, fault)


def sources_of(rows: Rows) -> tuple[str, ...]:
    """Who says so, and when it was seen; for the report."""
    said = (f"{row.source} ({row.observed.isoformat()})" for known in rows.values() for row in known)
    return tuple(dict.fromkeys(said))[:NAMED_SOURCES]


def _fault(row: Known, texts: set[str], patterns: set[str], today: dt.date) -> str:
    if row.observed > today + dt.timedelta(days=1):
        return "was observed in the future"
    if row.term_days > LONGEST_TERM:
        return f"holds for more than {LONGEST_TERM} days"
    if isinstance(row, TokenBaseline) and row.text not in texts:
        return "counts a text that is not among the published ones; it would be sent in your name"
    if isinstance(row, LimitText) and row.pattern not in patterns and not is_plain(row.pattern):
        return "has a pattern that is more than plain text, figures and a name"
    return ""


def is_plain(pattern: str) -> bool:
    """Whether a pattern is text with at most one limit, one name and other figures in it. What parts two of those
    begins and ends with a mark or a space, so that there is one way to read it and none that is slow."""
    for piece in PIECES:
        pattern = pattern.replace(piece, "\0", 1 if "?P<" in piece else -1)
    first, *between = pattern.split("\0")
    last = between.pop() if between else ""
    parted = all(re.match(r"\W(?s:.*)(?<=\W)\Z", literal) for literal in between)
    return len(first) > 2 and parted and all(_PLAIN.fullmatch(literal) for literal in (first, *between, last))


def _refused(name: str, kind: str, row: Known, fault: str) -> PackError:
    return refuse(name, f"{kind} {row.id} {fault}")


def _lines(row: Known) -> Iterable[str]:
    """One key a line; both languages of a meaning as dotted keys."""
    for key, value in row.model_dump(mode="python", by_alias=True, exclude_defaults=True).items():
        if key == "meaning":
            yield f'meaning.en = {_value(value["en"])}\nmeaning."zh-CN" = {_value(value["zh-CN"])}\n'
        elif value is not None:
            yield f"{key} = {_value(value)}\n"


def _value(value: Any) -> str:  # noqa: ANN401  any TOML value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{_value(str(key))} = {_value(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    text = json.dumps(str(value).encode("utf-8", "replace").decode("utf-8"), ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
