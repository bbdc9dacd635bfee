"""What this program says: results on stdout, everything else on stderr, on any console, without control characters.

A console that cannot encode a character gets an ASCII stand-in; an encoding failure never ends an audit.
"""

from __future__ import annotations

import codecs
import json
import locale
import os
import sys
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, TextIO

from relay_audit.cli.translated import in_
from relay_audit.errors import RelayAuditError
from relay_audit.report.untrusted import show
from relay_audit.words import LANGS, Lang, money

STAND_INS = {"✓": "+", "✗": "x", "✕": "x", "¥": "CNY ", "▲": "!", "…": "...", "—": "-", "–": "-", "·": "-", "“": '"', "”": '"',
             "≤": "<=", "≥": ">=", "×": "x", "→": "->", "●": "*", "○": "o", "？": "?"}  # fmt: skip
LONGEST = 2_000
"""Characters of one line of a message."""
PROBES: dict[Lang, str] = {"zh-CN": "中文", "en": "a"}
"""A word of each language, to be encoded."""
TRUTHY = ("1", "true", "yes", "on")


def plain(text: str, encoding: str) -> str:
    """What a console of this encoding will show: to be laid out before it is printed, since a stand-in may be wider."""
    return text.encode(encoding, STAND_IN).decode(encoding)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(STAND_INS.get(char, "?") for char in bad), error.end


STAND_IN = "relay_audit_stand_in"
codecs.register_error(STAND_IN, _stand_in)


def prepare_streams() -> None:
    """Makes stdout and stderr total functions: nothing they are given can fail to be written."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=STAND_IN)


def say(text: str, stream: TextIO | None = None) -> None:
    """One block of our own text. Control characters of strangers never get here; they are shown escaped before."""
    print(text, file=stream or sys.stderr, flush=True)


def visible(text: str) -> str:
    """A message that may name a file, a host or an id of somebody else's: line by line, nothing in it invisible."""
    return "\n".join(show(line, LONGEST) for line in text.split("\n"))


def emit(value: Mapping[str, Any]) -> None:
    """One JSON object on stdout, one line, readable by any console."""
    say(line_of_json(value), sys.stdout)


def line_of_json(value: Mapping[str, Any]) -> str:
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(value, ensure_ascii=not utf8, default=_plain)


def _plain(value: object) -> str:
    return money(value) if isinstance(value, Decimal) else str(value)


def report_error(error: RelayAuditError, *, as_json: bool) -> None:
    """To a person in their language, to a program in both. `message` stays English: scripts and search engines know it."""
    tell(error.code, error.message, error.next_step, error.details, as_json=as_json)


def tell(code: str, message: str, step: str, details: Mapping[str, Any], *, as_json: bool) -> None:
    """What went wrong and what to do about it."""
    row = told(code, message, step, details)
    if as_json:
        emit(row)
        return
    say(f"relay-audit: {row['text'][readable(language(_named(sys.argv), os.environ), sys.stderr)]}")


def told(code: str, message: str, step: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """An error as a row: the message in English, and both languages under `text`."""
    message, step = visible(message), visible(step)
    texts = {lang: _with_step(in_(message, lang), in_(step, lang)) for lang in LANGS}
    return {"error": code, "message": message, "next_step": step, "text": texts, **details}


def _with_step(message: str, step: str) -> str:
    return f"{message}\n  -> {step}" if step else message


def _named(words: list[str]) -> str | None:
    """The language that a command line asks for, also one that could not be read otherwise."""
    joined = next((word.partition("=")[2] for word in words if word.startswith("--lang=")), None)
    after = next((two for one, two in pairwise(words) if one == "--lang"), None)
    return joined or after


def readable(lang: Lang, stream: TextIO | None = None) -> Lang:
    """What a person can read on this console: English where its encoding has no Chinese, instead of a line of question
    marks. Reports and JSON stay in the language that was asked for."""
    try:
        PROBES[lang].encode(getattr(stream or sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return "en"
    return lang


def interactive(*, as_json: bool, no_input: bool, environ: Mapping[str, str]) -> bool:
    """Whether a person can be asked: both stdin and stderr are terminals, and nothing says that nobody is there."""
    asked_off = as_json or no_input or environ.get("CI", "").lower() in TRUTHY
    return not asked_off and sys.stdin.isatty() and sys.stderr.isatty()


def language(named: str | None, environ: Mapping[str, str]) -> Lang:
    """`--lang`, else `RELAY_AUDIT_LANG`, else the locale."""
    for text in (
        named,
        environ.get("RELAY_AUDIT_LANG"),
        environ.get("LC_ALL"),
        environ.get("LC_MESSAGES"),
        environ.get("LANG"),
    ):
        if text:
            return "zh-CN" if text.lower().startswith("zh") else "en"
    return "zh-CN" if (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"
