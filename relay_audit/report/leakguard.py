"""The last look at a report before it exists: final bytes are scanned, and on a hit nothing is written.

Key-like strings and the buyer's own keys stop every report; internal names, local paths and the name of the account
stop what is handed to others. The refusal names rule and place, never the text that was found.
"""

from __future__ import annotations

import getpass
import html
import os
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Protocol

from relay_audit.errors import LeakRefused
from relay_audit.report.catalogue import TEMPLATES, Catalogue
from relay_audit.report.render import Audience
from relay_audit.resources import folder
from relay_audit.words import LANGS

PATTERNS: dict[str, re.Pattern[str]] = {
    "key_like": re.compile(
        r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|AKIA[A-Z0-9]{16}|cr_[A-Za-z0-9]{24,}"
        r"|gh[pousr]_[A-Za-z0-9]{30,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY-----)"
    ),
    "bearer_token": re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}"),
    "key_in_address": re.compile(r"(?i)[?&](?:api[_-]?)?key=[A-Za-z0-9._-]{12,}"),
}
"""Whatever looks like a key, ours or not."""
LOCAL_PATHS = re.compile(
    r"(?:/home|/Users)/[^\s/\"'<>]+|(?<![A-Za-z0-9])[A-Za-z]:\\+Users\\+[^\s\\\"'<>]+|(?<![\w/])/root/"
)
SHARED_ACCOUNTS = frozenset({"root", "user", "admin", "administrator", "ubuntu", "debian", "runner", "nobody", "guest"})
"""Account names that point to no person."""
SHORTEST_NAME = 2
"""Characters; a single letter is found everywhere."""
NEXT_STEPS = {
    "internal_name": "rename what holds the name (claim, model, file), or use the internal card",
    "local_path": "choose another file name or report the place, or use the internal card",
    "other": "read the run on this computer only, and report the place if a redaction was missed",
}


class Cleaned(Protocol):
    @property
    def own(self) -> int:
        """How many places held one of our own keys, in whatever form."""
        ...


class KeyFinder(Protocol):
    """What the redactor is to this guard: it knows every form of the buyer's own keys."""

    def clean(self, raw: bytes) -> Cleaned: ...


def check(
    raw: bytes,
    audience: Audience,
    forbidden_names: Iterable[str],
    secrets: KeyFinder | None,
    file_name: str,
    *,
    public_terms: Iterable[str] = (),
) -> tuple[str, ...]:
    """Raises `LeakRefused`. `public_terms` are texts the vendor knows anyway (its host, the model's name).

    The result are notes: names that could not be looked for, because our own texts or the public terms hold them.
    """
    text = raw.decode("utf-8", errors="replace")
    for rule, pattern in PATTERNS.items():
        _refuse_on(rule, pattern, text, file_name)
    if secrets is not None and (secrets.clean(raw).own or secrets.clean(file_name.encode()).own):
        raise _refusal("own_key", "in the report or its file name")
    if audience == "internal":
        return ()
    _refuse_on("local_path", LOCAL_PATHS, text, Path(file_name).name)
    public = _normal("\n".join(public_terms))
    notes = []
    for name in sorted({_normal(name).strip() for name in forbidden_names}):
        if len(name) < SHORTEST_NAME or _word(name).search(_own_words()) or _word(name).search(public):
            notes.append(
                f"a name of {len(name)} characters occurs in our own texts or is public; it was not looked for"
            )
        else:
            _refuse_on("internal_name", _word(name), text, Path(file_name).name)
    return tuple(notes)


def local_names() -> tuple[str, ...]:
    """The name of the account this runs under, where it may be a person's."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return ()
    return () if name.lower() in SHARED_ACCOUNTS else (name,)


def write_report(path: Path, raw: bytes) -> None:
    """Whole or not at all, readable by its owner only."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".report-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _refuse_on(rule: str, pattern: re.Pattern[str], text: str, file_name: str) -> None:
    if pattern.search(_normal(file_name) if rule == "internal_name" else file_name):
        raise _refusal(rule, "in the file's name")
    for form, view in _views(text):
        if (hit := pattern.search(_normal(view) if rule == "internal_name" else view)) is not None:
            line = view.count("\n", 0, hit.start()) + 1
            raise _refusal(rule, f"at line {line}, character {hit.start()}{form}")


def _views(text: str) -> Iterator[tuple[str, str]]:
    """The text as it stands, and as a reader or a program would see it."""
    yield "", text
    plain = html.unescape(text)
    if plain != text:
        yield " (after HTML escapes)", plain
    if "<" in text:
        yield " (without tags)", html.unescape(re.sub(r"</?(?:mark|wbr|b|span|strong|code)\b[^>]*>", "", text))
    if "\\" in text:
        yield " (after JSON escapes)", re.sub(r"\\u([0-9a-fA-F]{4})", lambda hit: chr(int(hit[1], 16)), text)


def _word(name: str) -> re.Pattern[str]:
    """A name as a whole word. Scripts without spaces have no word edges."""
    left = r"(?<![a-z0-9_])" if name[0].isascii() and name[0].isalnum() else ""
    right = r"(?![a-z0-9_])" if name[-1].isascii() and name[-1].isalnum() else ""
    return re.compile(left + re.escape(name) + right)


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


@cache
def _own_words() -> str:
    """Everything we write ourselves into any report: a name that is one of our words cannot be told from it."""
    catalogues = [message for lang in LANGS for message in Catalogue.load(lang).messages()]
    templates = [
        item.read_text(encoding="utf-8") for item in folder(TEMPLATES).iterdir() if item.name.endswith((".j2", ".css"))
    ]
    return _normal("\n".join(catalogues + templates))


def _refusal(rule: str, place: str) -> LeakRefused:
    """Neither what was found nor the file's name, which may hold it too."""
    return LeakRefused(
        f"the report was not written: rule {rule} found something {place}",
        next_step=NEXT_STEPS.get(rule, NEXT_STEPS["other"]) + "; nothing was left on disk",
        details={"rule": rule, "place": place},
    )
