"""A stranger's text made harmless to look at: what cannot be seen is spelled out, what is long is cut and says so."""

from __future__ import annotations

import unicodedata

LIMIT = 200
"""Characters shown of one value, unless the caller says otherwise."""
MARKS_AT_MOST = 2
"""Combining marks on one letter; stacks of them climb over the lines around."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidi and zero-width among them), surrogate, private, unassigned, line and paragraph separators."""


def show(text: str, limit: int = LIMIT) -> str:
    """The text with every invisible character as an escape; beyond `limit` it is cut and its length stated."""
    head = text[:limit]
    shown: list[str] = []
    marks = 0
    for char in head:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        shown.append(_escaped(char) if category in _INVISIBLE or marks > MARKS_AT_MOST else char)
    if len(text) > limit:
        shown.append(f"… [{limit:,} / {len(text):,}]")
    return "".join(shown)


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    point = ord(char)
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
