"""The last look at a report before it exists: final bytes are scanned, and on a hit nothing is written.

Key-like strings and the buyer's own keys stop every report; internal names, local paths, the name of the account and
weights of a scoring stop what is handed to others; addresses of machines also stop what is public. Text is looked at as it
stands and as a reader or a program would see it: without escapes, without tags, without invisible characters, with lines
joined. The refusal names rule and place, never the text that was found.
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
from urllib.parse import unquote

from relay_audit.errors import LeakRefused, UsageError
from relay_audit.report.catalogue import TEMPLATES, Catalogue
from relay_audit.report.edition import Audience
from relay_audit.report.printed import readable
from relay_audit.report.terms import SHORTEST_TERM, whole_word
from relay_audit.resources import folder
from relay_audit.words import LANGS

# As in `disguise`: a literal before the look-behind that belongs to it, so that the search can skip ahead.
PATTERNS: dict[str, re.Pattern[str]] = {
    "key_like": re.compile(
        r"sk-(?<![A-Za-z0-9]sk-)[A-Za-z0-9_-]{16,}|AIza(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{30,}"
        r"|AKIA(?<![A-Za-z0-9]AKIA)[A-Z0-9]{16}|cr_(?<![A-Za-z0-9]cr_)[A-Za-z0-9]{24,}"
        r"|gh[pousr]_(?<![A-Za-z0-9]gh._)[A-Za-z0-9]{30,}"
        r"|eyJ(?<![A-Za-z0-9]eyJ)[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    ),
    "bearer_token": re.compile(r"[Bb](?<!\w.)(?i:earer)\s+[A-Za-z0-9._~+/-]{16,}"),
    "key_in_address": re.compile(r"(?i)[?&](?:api[_-]?)?key=[A-Za-z0-9._-]{12,}"),
}
"""Whatever looks like a key, ours or not."""
OUTWARD: dict[str, re.Pattern[str]] = {
    "local_path": re.compile(
        r"(?:/home|/Users)/[^\s/\"'<>]+|:(?<=[A-Za-z]:)(?<![A-Za-z0-9].:)[\\/]+Users[\\/]+[^\s\\\"'<>]+"
        r"|/root/(?<![\w/]/root/)|/tmp/(?<![\w/]/tmp/)[\w.-]+/|~/(?<!\S~/)[\w.-]+/"
        r"|/var/folders/\w|/mnt/[a-z]/Users/|file://+[^\s\"'<>]|%USERPROFILE%"
    ),
    "scoring": re.compile(
        r"(?:[Ww](?<![\w-].)(?i:eights?)|[Ss](?<![\w-].)(?i:cor(?:e|ing)[ _-]?weights?))[\"'`]?\s*[:=]\s*[\"'`]?-?\d*[.]?\d+"
        r"|(?:权重|加权)\s*[:：=]\s*-?\d*[.]?\d+"
    ),
}
"""What tells of this computer, or of how the buyer decides: nobody else's business."""
MACHINES = re.compile(
    r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])"
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:){4,}[0-9a-f:]+"
)
"""Addresses of machines: not in public."""
SHARED_ACCOUNTS = frozenset({"root", "user", "admin", "administrator", "ubuntu", "debian", "runner", "nobody", "guest"})
"""Account names that point to no person."""
NEXT_STEPS = {
    "internal_name": "rename what holds the name (claim, model, file), or use the internal card",
    "local_path": "choose another file name or report the place, or use the internal card",
    "machine_address": "take --for vendor for its own operator, or report the place",
    "scoring": "take the weights out of what is shown, or use the internal card",
    "other": "read the run on this computer only, and report the place if a redaction was missed",
}


JOINED = " (lines joined)"
View = tuple[str, str]
"""How it was looked at (empty: as it stands), and the text so seen."""


class KeyFinder(Protocol):
    """What the redactor is to this guard: it knows every form of the buyer's own keys."""

    def shows_own(self, raw: bytes) -> bool: ...


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
    views = tuple(_views(readable(raw)))
    for rule, pattern in PATTERNS.items():
        _refuse_on(rule, pattern, views, file_name)
    if secrets is not None:
        looked = {raw, file_name.encode(), *(view.encode("utf-8", "replace") for _, view in views)}
        if any(map(secrets.shows_own, looked)):
            raise _refusal("own_key", "in the report or its file name")
    if audience == "internal":
        return ()
    name_of_file = Path(file_name).name
    for rule, pattern in OUTWARD.items():
        _refuse_on(rule, pattern, views, name_of_file)
    if audience == "public":
        _refuse_on("machine_address", MACHINES, views, name_of_file)
    return _look_for(forbidden_names, tuple((form, _normal(view)) for form, view in views), name_of_file, public_terms)


def _look_for(
    names: Iterable[str], views: tuple[View, ...], file_name: str, public_terms: Iterable[str]
) -> tuple[str, ...]:
    """Names as whole words, in normal form."""
    public = _normal("\n".join(public_terms))
    notes = []
    for name in sorted({_normal(name).strip() for name in names}):
        if len(name) < SHORTEST_TERM or _stands_in(name, _own_words()) or _stands_in(name, public):
            notes.append(
                f"a name of {len(name)} characters occurs in our own texts or is public; it was not looked for"
            )
        else:
            there = tuple(view for view in views if name in view[1] and view[0] != JOINED)
            _refuse_on("internal_name", whole_word(name), there, _normal(file_name))
            if any(form == JOINED and name in text for form, text in views):
                _refuse_on("internal_name", _across_lines(name), views, "")
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


def write_asked(path: Path, raw: bytes) -> None:
    """The same where somebody asked for it (`-o FILE`). Raises `UsageError`."""
    try:
        write_report(path, raw)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", next_step="name another file: -o FILE"
        ) from None


def _across_lines(name: str) -> re.Pattern[str]:
    """A name that a line break runs through; joined lines have no word edges, so it is looked for where the break is."""
    left, right = (r"(?<![a-z0-9_])", r"(?![a-z0-9_])") if name.isascii() else ("", "")
    return re.compile(left + r"(?:[ \t]*(?:\r?\n|\\[nr])+[ \t]*)?".join(map(re.escape, name)) + right)


def _stands_in(name: str, text: str) -> bool:
    return name in text and whole_word(name).search(text) is not None


def _refuse_on(rule: str, pattern: re.Pattern[str], views: tuple[View, ...], file_name: str) -> None:
    if pattern.search(file_name):
        raise _refusal(rule, "in the file's name")
    for form, view in views:
        if (hit := pattern.search(view)) is not None:
            line = view.count("\n", 0, hit.start()) + 1
            raise _refusal(rule, f"at line {line}, character {hit.start()}{form}")


def _views(text: str) -> Iterator[View]:
    """The text as it stands, and as a reader or a program would see it. Each once."""
    seen: set[str] = set()
    for form, view in _all_views(text):
        if view not in seen:
            seen.add(view)
            yield form, view


def _all_views(text: str) -> Iterator[View]:
    yield "", text
    plain = html.unescape(text)
    yield " (after HTML escapes)", plain
    bare = html.unescape(_TAGS.sub("", text))
    yield " (without tags)", bare
    yield " (without tags that are shown)", _TAGS.sub("", plain)
    yield " (after JSON escapes)", _unescaped(plain)
    visible = _unescaped(bare.replace("\\\\", "\\"))
    visible = visible.translate({ord(char): None for char in set(visible) if unicodedata.category(char) == "Cf"})
    yield " (without invisible characters)", visible
    yield " (without Markdown escapes)", re.sub(r"\\([^\w\s])|[*_`]{2}", r"\1", visible)
    yield " (after percent escapes)", unquote(plain)
    yield JOINED, re.sub(r"[ \t]*(?:\r?\n|\\[nr])+[ \t]*", "", visible)


def _unescaped(text: str) -> str:
    r"""`\u0041`, `\x41` and `\U00000041` as the characters they stand for."""
    return _ESCAPES.sub(_character, text)


_TAGS = re.compile(r"<!--|-->|</?(?:mark|wbr|b|i|em|a|p|li|span|strong|code)\b[^>]*>")
_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8}))")


def _character(hit: re.Match[str]) -> str:
    point = int(hit[1] or hit[2] or hit[3], 16)
    return chr(point) if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF else hit[0]


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
