"""How a text hides in bytes, and how to find it there: encodings, escapes, pieces of a stream.

Nothing here knows what is secret. `forms_of` writes a text down in every encoding it may travel in, `views_of` shows a
message as its successive readers would see it (escapes undone, string values of a stream joined), and `Needles` finds
every run of a form in such a view. One pass over a view costs the same for one form or a thousand.
"""

from __future__ import annotations

import base64
import html
import re
import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

Span = tuple[int, int]
"""Start and end, in bytes."""

WINDOW = 12
"""This many characters of a text in a row give it away; of a shorter text, all of it."""
DEPTH = 5
"""Layers of escapes that are undone; a run of backslashes, `%25` or `&amp;` of any length counts as one layer."""
BUCKETS = 0xFFFF
"""String values are joined by the name they stand under; names share this many buckets, so that a hostile message with
millions of names stays small."""

_SPACE = b"\0 \t\n\v\f\r"
APART = b"\xff"
"""Between texts that do not belong together; in no form, and not UTF-8."""
_DASHES = {0x2010: "-", 0x2011: "-", 0x2212: "-"}
"""What `&hyphen;` and its kin stand for."""

# Each quantifier that could be retried from the middle of its own match is possessive or anchored by a look-behind:
# a hostile message must not make these quadratic. A literal comes before the look-behind that belongs to it, so that
# the search can skip ahead to it.
_ESCAPE = re.compile(
    rb"%(?:25)*[0-9A-Fa-f]{2}"
    rb"|(?<!\\)\\++(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|[0-7]{3}|[\"'/nrtbfv])"
    rb"|&(?:amp;)*(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{1,31};)"
)
_STRING = re.compile(rb'"((?:[^"\\]++|\\.?)*+)(?:"(\s*+:)?|\Z)', re.DOTALL)
_DATA_LINE = re.compile(rb"data:(?<![^\r\n]data:)[ \t]?([^\r\n]++)")
_WORD = re.compile(rb"[^\0\s]+")
_NOT_NUL = re.compile(rb"[^\0]+")


class View:
    """Bytes as some reader sees them, and where each of them came from."""

    __slots__ = ("_map", "_pieces", "bridges", "data", "loose", "parent")

    def __init__(
        self,
        data: bytes,
        parent: View | None = None,
        pieces: Iterable[tuple[int, int, int]] = (),
        *,
        bridges: bool = True,
        loose: bool = False,
    ) -> None:
        self.data = data
        self.parent = parent
        self.bridges = bridges
        """Whether what lies between two neighbouring pieces (a line fold) goes with them."""
        self.loose: bool = loose or (parent is not None and parent.loose)
        """Joined from texts that may not belong together: good enough to find an exact text, not to guess at one."""
        self._pieces = pieces
        """(length here, start and end in the parent); read only when something was found, which is rare."""
        self._map: tuple[array[int], array[int], array[int]] | None = None

    def origin(self, start: int, end: int) -> list[Span]:
        """The places in the raw message that show here as [start, end)."""
        if self.parent is None:
            return [(start, end)]
        spans = self._sources(start, end)
        if self.bridges:
            spans = [(spans[0][0], spans[-1][1])]
        return [span for low, high in spans for span in self.parent.origin(low, high)]

    def _sources(self, start: int, end: int) -> list[Span]:
        starts, lows, highs = self._located()
        found: list[Span] = []
        index = bisect_right(starts, start) - 1
        while index < len(lows) and starts[index] < end:
            low, high, at = lows[index], highs[index], starts[index]
            length = starts[index + 1] - at
            if high - low == length:  # copied as it was: cut to what was asked for; an escape goes whole
                low, high = low + max(0, start - at), low + min(length, end - at)
            found.append((low, high))
            index += 1
        return found

    def _located(self) -> tuple[array[int], array[int], array[int]]:
        if self._map is None:
            starts, lows, highs, at = array("Q"), array("Q"), array("Q"), 0
            for length, low, high in self._pieces:
                starts.append(at)
                lows.append(low)
                highs.append(high)
                at += length
            starts.append(at)
            self._map = starts, lows, highs
        return self._map


def views_of(raw: bytes, extra: Iterable[tuple[Span, ...]] = ()) -> Iterator[View]:
    """The message, what its string values and `data:` lines say when joined, and each of these with escapes undone.

    `extra` names further sequences of places to be read as one text. Innermost layer first: there a pattern sees
    whole words.
    """
    roots = [View(raw)]
    if b"\0" in raw:  # UTF-16, or any other way of writing a NUL between letters
        roots.append(View(raw.replace(b"\0", b""), roots[0], _runs(_NOT_NUL, raw)))
    for root in roots:
        yield from _layers(root)
        by_name, in_order = _strings(root.data)
        yield from _layers(_join(root, by_name, loose=False))
        yield from _layers(_join(root, in_order, loose=True))
    named = [array("Q", [place for span in spans for place in span]) for spans in extra]
    yield from _layers(_join(roots[0], named, loose=True))


def bare(data: bytes) -> bytes:
    """Without white space and NUL, in lower case: what is folded, wrapped or UTF-16 reads like anything else."""
    return data.lower().translate(None, _SPACE)


def squeezed(view: View) -> View:
    """The same as a view, which knows where in the message it stands."""
    return View(bare(view.data), view, _runs(_WORD, view.data))


def _layers(view: View) -> list[View]:
    layers = [view]
    for _ in range(DEPTH):
        data = view.data
        if b"\\" not in data and b"%" not in data and b"&" not in data:
            break
        data = _ESCAPE.sub(_undo, data)
        if data == view.data:
            break
        view = View(data, view, _unescaped(view.data))
        layers.append(view)
    return layers[::-1]


def _undo(match: re.Match[bytes]) -> bytes:
    return _character(match[0])


def _unescaped(data: bytes) -> Iterator[tuple[int, int, int]]:
    at = 0
    for match in _ESCAPE.finditer(data):
        start, end = match.span()
        if start > at:
            yield start - at, at, start
        yield len(_character(match[0])), start, end
        at = end
    if at < len(data):
        yield len(data) - at, at, len(data)


@lru_cache(maxsize=4096)
def _character(token: bytes) -> bytes:
    """What one escape stands for; an unknown entity stands for itself."""
    if token.startswith(b"%"):
        return bytes([int(token[-2:], 16)])
    if token.startswith(b"&"):
        name = token[1:].decode("ascii")
        while name.startswith("amp;") and name != "amp;":
            name = name[4:]
        written = f"&{name.removesuffix(';')};"
        text = html.unescape(written)
        return token if text == written else text.translate(_DASHES).encode("utf-8", "surrogatepass")
    rest = token.lstrip(b"\\").decode("ascii")
    if rest in "\"'/":
        return rest.encode()
    if len(rest) == 1:
        return b" "
    number = int(rest, 8) if rest.isdigit() else int(rest[1:].strip("{}"), 16)
    return chr(min(number, 0x10FFFF)).encode("utf-8", "surrogatepass")


def _strings(data: bytes) -> tuple[list[array[int]], list[array[int]]]:
    """Where quoted values and `data:` payloads lie: by the name they stand under, and all of them in order.

    Not a parser: what a stranger sent need not be JSON, and a stream is many documents.
    """
    names: dict[int, array[int]] = {}
    every = array("Q")
    bucket = 0
    for match in _STRING.finditer(data):
        if match[2] is not None:
            bucket = zlib.crc32(match[1]) & BUCKETS
        elif match[1]:
            names.setdefault(bucket, array("Q")).extend(match.span(1))
            every.extend(match.span(1))
    lines = array("Q")
    for match in _DATA_LINE.finditer(data):
        lines.extend(match.span(1))
    return [*names.values(), lines], [every]


def _join(root: View, sequences: Iterable[array[int]], *, loose: bool) -> View:
    worth = [places for places in sequences if len(places) > 2]
    data = APART.join(b"".join(root.data[low:high] for low, high in _pairs(places)) for places in worth)
    return View(data, root, _joined_pieces(worth), bridges=False, loose=loose)


def _joined_pieces(sequences: list[array[int]]) -> Iterator[tuple[int, int, int]]:
    for number, places in enumerate(sequences):
        if number:
            yield len(APART), 0, 0
        for low, high in _pairs(places):
            yield high - low, low, high


def _pairs(places: array[int]) -> Iterator[Span]:
    return zip(places[::2], places[1::2], strict=True)


def _runs(pattern: re.Pattern[bytes], data: bytes) -> Iterator[tuple[int, int, int]]:
    for match in pattern.finditer(data):
        yield match.end() - match.start(), match.start(), match.end()


@dataclass(frozen=True, slots=True, repr=False)
class Form:
    """A text in one encoding, lower case."""

    text: bytes
    least: int
    """A run this long is a find: what `WINDOW` characters of the text come to in this encoding."""
    public: Span
    """The part that everybody knows (`sk-ant-api03-`): a run that holds little else is no proof of anything."""


def forms_of(text: bytes, public: int = 0) -> list[Form]:
    """Plain, in two bytes a letter (UTF-16, either order), reversed, hexadecimal and base64 (three alignments, both
    alphabets); the first `public` are no secret."""
    window = min(WINDOW, len(text))
    size = len(text)
    forms = [
        Form(text.lower(), window, (0, public)),
        Form(b"\0".join(text[at : at + 1] for at in range(size)).lower(), 2 * window - 1, (0, 2 * public)),
        Form(text[::-1].lower(), window, (size - public, size)),
        Form(text.hex().encode(), 2 * window, (0, 2 * public)),
    ]
    for alignment in range(3):
        # Only characters all of whose bits are the text's own are the same in every surrounding.
        first, last = -(-8 * alignment // 6), 8 * (alignment + size) // 6
        core = base64.b64encode(b"\0" * alignment + text)[first:last]
        least = min(8 * window // 6 - 1, len(core))
        known = (0, max(0, 8 * (alignment + public) // 6 - first))
        alphabets = {core.lower(), core.translate(bytes.maketrans(b"+/", b"-_")).lower()}
        forms += [Form(written, least, known) for written in alphabets]
    return forms


class Needles:
    """Finds runs of any of the forms: every so many bytes a few bytes are looked up in a set of all that occur in them.

    With a step of `least - size + 1` no run of `least` bytes can pass between two look-ups.
    """

    __slots__ = ("_forms", "_grams", "_size", "_step")

    def __init__(self, forms: Iterable[Form]) -> None:
        self._forms = tuple(form for form in forms if form.least > 0)
        least = min((form.least for form in self._forms), default=1)
        self._size = max(1, least // 2)
        self._step = least - self._size + 1
        self._grams: dict[bytes, list[tuple[int, int]]] = {}
        for number, form in enumerate(self._forms):
            for at in range(len(form.text) - self._size + 1):
                self._grams.setdefault(form.text[at : at + self._size], []).append((number, at))

    def __len__(self) -> int:
        return len(self._forms)

    def find(self, data: bytes) -> list[tuple[int, int, bool]]:
        """Runs as (start, end, whether it holds enough that is not public)."""
        padded = data + APART * (self._step + self._size)
        padded = padded[: len(padded) // self._step * self._step]
        blocks = [block for (block,) in struct.iter_unpack(f"{self._size}s{self._step - self._size}x", padded)]
        if self._grams.keys().isdisjoint(blocks):
            return []
        found: list[tuple[int, int, bool]] = []
        seen: dict[tuple[int, int], int] = {}
        for number, block in enumerate(blocks):
            for form, at in self._grams.get(block, ()):
                place = number * self._step
                if seen.get((form, place - at), -1) > place:
                    continue  # the same run, met again
                start, end, offset = self._run(data, place, self._forms[form].text, at)
                seen[form, place - at] = end
                if end - start >= self._forms[form].least:
                    found.append((start, end, self._is_telling(self._forms[form], offset, offset + end - start)))
        return found

    def _run(self, data: bytes, place: int, text: bytes, at: int) -> tuple[int, int, int]:
        start, offset = place, at
        while start and offset and data[start - 1] == text[offset - 1]:
            start, offset = start - 1, offset - 1
        end, after = place + self._size, at + self._size
        while end < len(data) and after < len(text) and data[end] == text[after]:
            end, after = end + 1, after + 1
        return start, end, offset

    @staticmethod
    def _is_telling(form: Form, low: int, high: int) -> bool:
        known = max(0, min(high, form.public[1]) - max(low, form.public[0]))
        private = len(form.text) - (form.public[1] - form.public[0])
        return high - low - known >= min(2 * form.least // 3, private)
