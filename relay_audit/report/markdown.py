"""Markdown: what a stranger wrote stays text, in any reader of the format."""

from __future__ import annotations

import re

_ACTIVE = re.compile(r"([\\`*_\[\]<>|~$])")
"""Characters that begin something, wherever they stand."""
_AT_START = re.compile(r"^(\s*)([#+\-=>])", re.MULTILINE)
"""Characters that begin something at the start of a line."""
_NUMBERED = re.compile(r"^(\s*\d+)([.)])(?=\s|$)", re.MULTILINE)
"""A number that would begin a list; before the digit itself a backslash would be shown."""
_ADDRESS = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")
"""Bare addresses that some readers turn into links."""


def escape(value: object) -> str:
    """One line of text for a paragraph, a list item or a cell of a table."""
    text = " ".join(str(value).split("\n"))
    text = text.replace("&", "&amp;")
    text = _ACTIVE.sub(r"\\\1", text)
    text = _NUMBERED.sub(r"\1\\\2", _AT_START.sub(r"\1\\\2", text))
    text = text.replace("](", "]\\(").replace("@", "&#64;")
    return _ADDRESS.sub(lambda hit: f"{hit[1] or hit[3]}\\{hit[2] or hit[4]}", text)


def fenced(text: str) -> str:
    """A block of code whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
