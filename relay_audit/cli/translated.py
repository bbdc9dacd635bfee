"""What an error says, in the other language: the program writes it in English, the Chinese is a row of a file beside the
report's texts. What no row fits stays as it was written: an error is never lost for want of a translation.
"""

from __future__ import annotations

import re
from functools import cache

import tomli

from relay_audit.errors import RelayAuditError
from relay_audit.resources import folder
from relay_audit.words import Lang

FILE = "errors.toml"
LONGEST = 1_000
"""Characters; what is longer holds somebody's file or list and is left alone."""
_PLACE = re.compile(r"\{(\w+)\}")
_PARTS = "; "
"""Several faults of one file stand in one message."""


def in_(text: str, lang: Lang) -> str:
    """The same in that language; unchanged where no row fits."""
    if lang == "en" or not text or len(text) > LONGEST:
        return text
    try:
        return _translated(text)
    except (RelayAuditError, OSError):  # an installation without its data still says what is wrong, in English
        return text


def _translated(text: str) -> str:
    parts = [_row(part) for part in text.split(_PARTS)]
    if len(parts) > 1 and all(parts):
        return "；".join(part or "" for part in parts)
    return _row(text) or text


def _row(text: str) -> str | None:
    for pattern, other in _rows():
        if found := pattern.fullmatch(text):
            told = {name: _row(value) or value for name, value in found.groupdict().items() if value != text}
            return _PLACE.sub(lambda place, told=told: told[place[1]], other)  # type: ignore[misc]
    return None


@cache
def _rows() -> tuple[tuple[re.Pattern[str], str], ...]:
    """English as a pattern, and the Chinese; the more of a row is fixed text, the earlier it is tried."""
    text = folder("reports/templates").joinpath(FILE).read_text(encoding="utf-8")
    rows = sorted(tomli.loads(text)["say"], key=lambda row: -len(_PLACE.sub("", row["en"])))
    return tuple((_pattern(row["en"]), row["zh-CN"]) for row in rows)


def _pattern(english: str) -> re.Pattern[str]:
    """A name that stands twice has to be the same text both times."""
    known: set[str] = set()
    parts = _PLACE.split(english)
    made = [re.escape(parts[0])]
    for name, fixed in zip(parts[1::2], parts[2::2], strict=True):
        made.append(f"(?P={name})" if name in known else f"(?P<{name}>.+?)")
        made.append(re.escape(fixed))
        known.add(name)
    return re.compile("".join(made), re.DOTALL)
