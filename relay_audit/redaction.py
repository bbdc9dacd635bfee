"""The only place that knows what a secret looks like. It works on the bytes of a message before a record of it exists.

In this order: our own keys (in every encoding `disguise` knows, whole or any window of 12 characters, also in pieces),
then whatever has the shape of somebody else's secret (kept as kind and hash), then account identifiers (hashed with the
workspace's salt, so that one buyer's runs can be compared and nobody else's can).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from relay_audit import foreign_secrets
from relay_audit.disguise import APART, Needles, Span, View, bare, forms_of, squeezed, views_of
from relay_audit.errors import AddressRefused
from relay_audit.signature import mask_accounts

AUTHENTICATION = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
"""Request headers whose whole value is a credential."""
COOKIES = frozenset({"set-cookie", "set-cookie2"})
ACCOUNT_HEADERS = frozenset(
    {"anthropic-organization-id", "anthropic-workspace-id", "openai-organization", "openai-project", "new-api-user"}
)
ACCOUNT_FIELDS = ("user_id", "username", "token_name", "organization_id", "email", "ip", "channel_name")
DROPPED = "[dropped]"
SHORT, REMEMBERED = 4096, 256
"""Bytes of a message that is cleaned once, and how many of those: a path, a body that is counted before and after, a
refusal in the same words come again and again in one run."""
LONG = 65_536
"""Bytes of a message above which its readings are not laid side by side: there they would take the memory thrice."""

PUBLIC_PREFIX = re.compile(
    r"sk-ant-[a-z]{3,5}\d\d-|sk-ant-|sk-(?:proj|svcacct|admin|None)-|sk-or-v1-|sk-|cr_|AIza|AKIA|gsk_|xai-"
)
"""What every key of a kind begins with: finding it in an answer says nothing about ours."""

_NAMES = "|".join(ACCOUNT_FIELDS).encode()
_ACCOUNT = re.compile(
    rb'"(?<!\\")(?:' + _NAMES + rb')"\s*+:\s*+(?:"(?P<text>(?:[^"\\]++|\\.?)++)(?:"|\Z)|(?P<number>-?\d++(?![.eE])))',
    re.DOTALL,
)
_ACCOUNT_IN_TEXT = re.compile(  # JSON inside a JSON string: each quote carries the same run of backslashes
    rb'(?P<escape>\\(?<!\\\\)\\*+)"(?:' + _NAMES + rb')(?P=escape)"\s*+:\s*+'
    rb'(?:(?P=escape)"(?P<text>[^"\\]++)(?:(?P=escape)"|\Z)|(?P<number>-?\d++(?![.eE])))'
)
_ALREADY = re.compile(rb"\[(?:account:[0-9a-f]{10}|redacted:[a-z_]+(?::[0-9a-f]{8})?)\]")


class Secret:
    """One key: one object, bound to one origin. It shows itself to nobody, and to no other address."""

    __slots__ = ("__name", "__origin", "__reveal")

    def __init__(self, value: str, *, name: str, origin: str) -> None:
        self.__name = name
        self.__origin = origin
        self.__reveal: Callable[[], str] = lambda: value

    @property
    def name(self) -> str:
        """Of the variable it came from; not secret."""
        return self.__name

    @property
    def origin(self) -> str:
        """`scheme://host:port` as `target.origin_of` writes it; cannot be changed afterwards."""
        return self.__origin

    def reveal_for(self, origin: str) -> str:
        """The key itself, for its own origin only. Raises `AddressRefused` for any other."""
        if origin != self.origin:
            raise AddressRefused(
                f"the key of {self.name} belongs to {self.origin} and is not sent to {origin}",
                next_step="give each side its own key and address",
            )
        return self.__reveal()

    def fingerprint(self, salt: bytes) -> str:
        """Tells two keys apart and one key again, in this workspace only."""
        return hmac.new(salt, _bytes(self.__reveal()), hashlib.sha256).hexdigest()[:12]

    def __repr__(self) -> str:
        return f"<secret {self.name}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled")


@dataclass(frozen=True, slots=True)
class Cleaned:
    raw: bytes
    own: int
    """Places where one of our own keys stood."""
    foreign: tuple[str, ...]
    """Other people's secrets as `kind:hash`, each once."""


@dataclass(frozen=True, slots=True)
class CleanedHeaders:
    headers: tuple[tuple[str, str], ...]
    own: int
    foreign: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Find:
    """A place to blank. `rank` decides who names it where finds overlap: the lower one."""

    start: int
    end: int
    marker: bytes
    rank: int


_OWN, _FOREIGN_RANK, _TRACE = 0, 1, 2


class Redactor:
    """Takes out of a message what no record may hold. Built once per run."""

    __slots__ = ("__salt", "_left_once", "_marker", "_needles", "_once", "_shown_once")

    def __init__(self, secrets: Iterable[Secret], salt: bytes) -> None:
        forms = []
        for secret in secrets:
            value = secret.reveal_for(secret.origin)
            prefix = PUBLIC_PREFIX.match(value)
            forms += forms_of(_bytes(value), len(prefix[0]) if prefix else 0)
        self._needles = Needles(forms)
        self.__salt = salt
        self._once = lru_cache(maxsize=REMEMBERED)(self._clean)
        self._shown_once = lru_cache(maxsize=REMEMBERED)(self._shows_own)
        self._left_once = lru_cache(maxsize=REMEMBERED)(self._outgoing)
        marker = b"[redacted:key]"
        self._marker = b"[*]" if self._needles.find(marker) else marker

    def __repr__(self) -> str:
        return "<redactor>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a redactor cannot be pickled")

    def account(self, identifier: str) -> str:
        """An account as this workspace knows it: the same one gives the same word, and the word gives nothing away."""
        return f"[account:{hmac.new(self.__salt, _bytes(identifier), hashlib.sha256).hexdigest()[:10]}]"

    def clean(self, raw: bytes) -> Cleaned:
        """A whole message. Nothing of it may be recorded, logged or parsed for a record before this."""
        return self._once(raw) if len(raw) <= SHORT else self._clean(raw)

    def _clean(self, raw: bytes) -> Cleaned:
        finds, foreign = self._finds(raw)
        blanked, own = _blank(raw, finds)
        for pattern in (_ACCOUNT, _ACCOUNT_IN_TEXT):
            blanked = pattern.sub(self._account_value, blanked)
        return Cleaned(mask_accounts(blanked, self.account), own, foreign)

    def shows_own(self, raw: bytes) -> bool:
        """Whether one of our keys stands in a finished text, in any form that `clean` would take out."""
        return self._shown_once(raw) if len(raw) <= SHORT else self._shows_own(raw)

    def _shows_own(self, raw: bytes) -> bool:
        readings = (view.data for view in (views_of(raw) if self._needles else ()))
        rows = [APART.join(readings)] if len(raw) <= LONG else readings
        return any(telling for data in rows for _, _, telling in self._needles.find(bare(data)))

    def holds_own(self, raw: bytes) -> bool:
        """Whether one of our keys stands in bytes that are no text, in any form that shows without undoing escapes."""
        return any(telling for _, _, telling in self._needles.find(raw.lower()))

    def clean_text(self, text: str) -> str:
        return _text(self.clean(_bytes(text)).raw)

    def clean_json(self, value: Any) -> Any:  # noqa: ANN401  JSON in, JSON out
        """Plain data of any depth, names included; also what shows only when its strings are read in a row."""
        written = _bytes(json.dumps(value, ensure_ascii=False, default=str))
        cleaned = self.clean(written).raw
        if cleaned == written:
            return value
        try:
            return json.loads(cleaned)
        except ValueError:  # a find that was not inside a string (a key of digits as a number)
            return self._marker.decode()

    def clean_headers(self, headers: Iterable[tuple[str, str]], outgoing: bool) -> tuple[tuple[str, str], ...]:
        return self._left_once(tuple(headers)) if outgoing else self.inspect_headers(headers, outgoing).headers

    def _outgoing(self, headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return self.inspect_headers(headers, outgoing=True).headers

    def inspect_headers(self, headers: Iterable[tuple[str, str]], outgoing: bool) -> CleanedHeaders:
        """Headers of one message, read one by one and in a row, with what was found in them.

        Our own credentials on the way out are no find: they belong there.
        """
        fields: list[bytes] = []
        for name, value in headers:
            fields += [_bytes(name), _bytes(self._header_value(name, value, outgoing))]
        places, at = [], 0
        for field in fields:
            places.append((at, at + len(field)))
            at += len(field) + 1
        finds, foreign = self._finds(b"\n".join(fields), [tuple(places[1::2])])
        cleaned = [self._clip(field, place, finds) for field, place in zip(fields, places, strict=True)]
        own = sum(find.rank == _OWN for find in _merged(finds))
        return CleanedHeaders(tuple(zip(cleaned[::2], cleaned[1::2], strict=True)), own, foreign)

    def _header_value(self, name: str, value: str, outgoing: bool) -> str:
        lower = name.lower()
        if outgoing and lower in AUTHENTICATION:
            return self._marker.decode()
        if lower in COOKIES:
            return DROPPED
        if lower in ACCOUNT_HEADERS and value and not _ALREADY.fullmatch(_bytes(value)):
            return self.account(value)
        return value

    def _clip(self, field: bytes, place: Span, finds: list[_Find]) -> str:
        low, high = place
        inside = [
            _Find(max(find.start, low) - low, min(find.end, high) - low, find.marker, find.rank)
            for find in finds
            if find.start < high and find.end > low
        ]
        return _text(_blank(field, inside)[0] if inside else field)

    def _account_value(self, match: re.Match[bytes]) -> bytes:
        text, number = match["text"], match["number"]
        if text is None:
            escape = match["escape"] if "escape" in match.re.groupindex else b""
            quoted = escape + b'"' + self.account(number.decode()).encode() + escape + b'"'
            return _without(match, "number", quoted)
        if _ALREADY.fullmatch(text):
            return match[0]
        return _without(match, "text", self.account(_read(text)).encode())

    def _finds(self, raw: bytes, extra: Iterable[tuple[Span, ...]] = ()) -> tuple[list[_Find], tuple[str, ...]]:
        """All places to blank, and the secrets of others."""
        finds: list[_Find] = []
        taken = bytearray(len(raw))
        foreign: list[tuple[list[Span], str]] = []
        views: Iterable[View] = (view for view in views_of(raw, extra) if view.data)
        own, kinds = bool(self._needles), list(foreign_secrets.SHAPES)
        if len(raw) <= LONG:  # all its readings in a row say whether there is anything to look for in each of them
            views = list(views)
            row = bare(APART.join(view.data for view in views))
            own, kinds = bool(self._needles.find(row)), foreign_secrets.possible(row)
        for view in views if own or kinds else ():
            tight = squeezed(view)
            for start, end, telling in self._needles.find(tight.data) if own else ():
                rank = _OWN if telling else _TRACE
                finds += [_Find(*_whole(raw, span), self._marker, rank) for span in tight.origin(start, end)]
            if not view.loose:
                foreign += foreign_secrets.found_in(view, taken, kinds)
        strong = bytearray(len(raw))
        for find in finds:
            if find.rank == _OWN:
                strong[find.start : find.end] = b"\1" * (find.end - find.start)
        named: dict[str, None] = {}
        for spans, kind in foreign:
            ours = any(strong.find(1, low, high) >= 0 for low, high in spans)
            if not ours:
                named[kind] = None
            marker = self._marker if ours else f"[redacted:{kind}]".encode()
            finds += [_Find(*_whole(raw, span), marker, _OWN if ours else _FOREIGN_RANK) for span in spans]
        return finds, tuple(named)


def _whole(raw: bytes, span: Span) -> Span:
    """A place does not begin in the middle of an escape: half a `\\n` would be neither JSON nor text."""
    start, end = span
    while start and raw[start - 1] == 0x5C:
        start -= 1
    return start, end


def _merged(finds: Iterable[_Find]) -> list[_Find]:
    merged: list[_Find] = []
    for find in sorted(finds, key=lambda item: (item.start, item.rank)):
        if merged and find.start < merged[-1].end:
            last = merged.pop()
            first = min(last, find, key=lambda item: item.rank)
            find = _Find(last.start, max(last.end, find.end), first.marker, first.rank)
        merged.append(find)
    return merged


def _blank(raw: bytes, finds: Iterable[_Find]) -> tuple[bytes, int]:
    """The message without them, and how many were our own."""
    parts, at, own = [], 0, 0
    for find in _merged(finds):
        parts += [raw[at : find.start], find.marker]
        at, own = find.end, own + (find.rank == _OWN)
    return b"".join([*parts, raw[at:]]), own


def _without(match: re.Match[bytes], group: str, replacement: bytes) -> bytes:
    start, end = match.span(group)
    return match.string[match.start() : start] + replacement + match.string[end : match.end()]


def _read(quoted: bytes) -> str:
    try:
        return str(json.loads(b'"' + quoted + b'"', strict=False))
    except ValueError:
        return _text(quoted)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _text(raw: bytes) -> str:
    try:
        return raw.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return raw.decode(errors="replace")
