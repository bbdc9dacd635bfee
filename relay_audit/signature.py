"""The clear header inside a thinking `signature` (or `redacted_thinking.data`): platform, model and account.

Standard base64 of a protobuf message that the vendor does not document; the field numbers were read off 150 recorded
ones (2025-03 to 2026-08), with and without the envelope whose text begins `CAIS`. Any other layout is unknown and says
nothing. The account is somebody's identifier: `mask_accounts` takes it out of an answer's bytes before a record exists.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MOST_BYTES = 1 << 20
MOST_FIELDS = 64
MOST_LEVELS = 3
GENERATION, PLATFORM, CONSTANT, OPAQUE_OLD, OPAQUE, MODEL, PURPOSE, ACCOUNT = 1, 2, 3, 4, 5, 6, 8, 11
HEADER_FIELD, BODY_FIELD = 1, 2
CONSTANT_VALUE = 2
_MODEL_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:@/-]{2,99}")
_UUID = re.compile(rb"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f])")
_MASKED = re.compile(r"(?:\[account:|a:)([0-9a-f]{1,10})\]?")
_VALUE = re.compile(rb'(?P<name>signature|data)\\*+"\s*+:\s*+\\*+"(?P<text>(?:[A-Za-z0-9+/=]++|\\++(?=/))++)')
_BLOCK_ENDS, _NEXT_LINE = b"content_block_st", b"data:"
Span = tuple[int, int]


@dataclass(frozen=True)
class Header:
    generation: int
    """Rises with date: 1 in 2025-03, 16 in 2026-08."""
    platform: int | None
    """None where the field is absent."""
    model: str
    """Empty where the header has none. A stranger's text, however it was signed."""
    account: str
    """As `redaction` writes it, hashed; empty where there is none or it was never hashed."""


@dataclass(frozen=True)
class _Field:
    number: int
    value: int
    """Of a varint; 0 for anything else."""
    span: Span | None
    """Where a length-delimited value lies."""


def read_signature(text: str) -> Header | None:
    """The header of a whole signature; None for an opaque one, a layout that nobody has seen, or no base64 at all."""
    data = _decoded(text.encode("ascii", "replace"))
    fields = _find_header(data, whole=True) if data is not None else None
    if data is None or fields is None:
        return None
    named = {field.number: field for field in fields}
    model = _bytes(data, named.get(MODEL))
    if model and not _MODEL_NAME.fullmatch(model):
        return None
    masked = _MASKED.fullmatch(_bytes(data, named.get(ACCOUNT)).decode("ascii", "replace").strip())
    return Header(
        generation=named[GENERATION].value,
        platform=named[PLATFORM].value if PLATFORM in named else None,
        model=model.decode(),
        account=f"[account:{masked[1]}]" if masked else "",
    )


def mask_accounts(raw: bytes, word: Callable[[str], str]) -> bytes:
    """An answer's bytes with the accounts inside its signatures replaced by the workspace's word for them, and every
    length kept, so that what is recorded still reads as a signature. Also for one that a stream brings in pieces."""
    parts, at = list[bytes](), 0
    for run in _runs(raw):
        texts = [raw[low:high].replace(b"\\", b"") for low, high in run]
        joined = b"".join(texts)
        masked = _masked(joined, word)
        if masked == joined:  # or pieces that do not belong together
            masked = b"".join(_masked(text, word) for text in texts)
        start = 0
        for (low, high), text in zip(run, texts, strict=True) if masked != joined else ():
            parts += [raw[at:low], masked[start : start + len(text)]]
            at, start = high, start + len(text)
    return b"".join([*parts, raw[at:]])


def _runs(raw: bytes) -> Iterator[list[Span]]:
    """Places that make up one signature each: a value by itself, or the pieces of one that no block boundary parts."""
    run: list[Span] = []
    name, end = b"", 0
    for match in _VALUE.finditer(raw):
        between = raw[end : match.start()]
        if run and (match["name"] != name or _BLOCK_ENDS in between or _NEXT_LINE not in between):
            yield run
            run = []
        run.append(match.span("text"))
        name, end = match["name"], match.end()
    if run:
        yield run


def _masked(text: bytes, word: Callable[[str], str]) -> bytes:
    """Base64 of the same length, the account masked: by its field where the layout is known, by its shape anywhere."""
    whole = text[: len(text) - len(text) % 4]
    data = _decoded(whole)
    if data is None:
        return text
    changed = _UUID.sub(lambda match: _fitting(match[0], word), data)
    fields = _find_header(data, whole=False)
    account = next((field.span for field in fields or () if field.number == ACCOUNT and field.span), None)
    if account is not None:
        low, high = account
        changed = changed[:low] + _fitting(data[low:high], word) + changed[high:]
    return base64.b64encode(changed) + text[len(whole) :] if changed != data else text


def _fitting(value: bytes, word: Callable[[str], str]) -> bytes:
    """The word for an account in as many bytes as the account took; what is masked already stays."""
    plain = value.decode("utf-8", "replace").strip()
    if not plain or _MASKED.fullmatch(plain):
        return value
    mark = word(plain).encode()
    if len(mark) > len(value):
        mark = b"a:" + mark.partition(b":")[2].rstrip(b"]")
    return mark[: len(value)].ljust(len(value))


def _decoded(text: bytes) -> bytes | None:
    if not text or len(text) > MOST_BYTES * 4 // 3:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _find_header(data: bytes, *, whole: bool) -> list[_Field] | None:
    """The header's fields, at most `MOST_LEVELS` messages down. Not `whole`: a later part may be cut off."""
    span: Span = (0, len(data))
    for _ in range(MOST_LEVELS):
        fields = _fields(data, span, whole=whole)
        if fields is None:
            return None
        inner = {field.number: field.span for field in fields if field.span}
        if HEADER_FIELD in inner and inner[HEADER_FIELD] is not None:
            header = _fields(data, inner[HEADER_FIELD], whole=whole)
            return header if header is not None and _is_header(header) else None
        if (body := inner.get(BODY_FIELD)) is None:
            return None
        span = body
    return None


def _is_header(fields: list[_Field]) -> bool:
    """Generation, the constant and the opaque bytes stood in every recorded header."""
    numbers = {field.number: field for field in fields}
    if len(numbers) != len(fields) or not {GENERATION, CONSTANT} <= set(numbers):
        return False
    opaque = any(numbers[number].span for number in (OPAQUE_OLD, OPAQUE) if number in numbers)
    plain = numbers[GENERATION].span is None and (PLATFORM not in numbers or numbers[PLATFORM].span is None)
    return plain and opaque and numbers[CONSTANT].value == CONSTANT_VALUE


def _fields(data: bytes, span: Span, *, whole: bool) -> list[_Field] | None:
    """One level of a protobuf message; None where it is none."""
    at, end = span
    fields: list[_Field] = []
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if tag < 0 or not number or len(fields) >= MOST_FIELDS:
            return None
        value, inside = 0, None
        if wire == 0:
            value, at = _varint(data, at, end)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == 2:
            length, at = _varint(data, at, end)
            value, inside = min(length, 0), (at, min(at + max(length, 0), end))
            at += max(length, 0)
        else:
            return None
        if value < 0 or (whole and at > end):
            return None
        fields.append(_Field(number, value, inside))
    return fields


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends; -1 where it does not end."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            return -1, at
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    return -1, at


def _bytes(data: bytes, field: _Field | None) -> bytes:
    return data[field.span[0] : field.span[1]] if field is not None and field.span else b""
