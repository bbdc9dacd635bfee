"""The boxes of MP4 and MOV, followed within limits before any native parser sees them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from relay_audit.media.contents import MAX_BOXES, MAX_DEPTH, MAX_STORE, MAX_TEXT, Contents, Malformed, read_at
from relay_audit.media.sei import user_data

C2PA = bytes.fromhex("d8fec3d61b0e483c92975828877ec481")
XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
CONTAINERS = frozenset(
    b"moov trak mdia minf stbl udta edts dinf mvex moof traf ilst mfra sinf schi".split()
)  # fmt: skip
COUNTED = "".join(map(chr, range(32)))
"""QuickTime writes a name's length before it."""
SAMPLE_ENTRIES = 78
"""Bytes of a visual sample entry before its boxes."""
MOVES_FREELY = (b"uuid", b"free", b"skip", b"mdat")
"""Boxes that credentials, padding and the order of writing change without touching what was encoded."""


@dataclass(frozen=True)
class Box:
    path: tuple[bytes, ...]
    start: int
    body: int
    end: int

    @property
    def type(self) -> bytes:
        return self.path[-1]


def boxes(file: BinaryIO, size: int) -> Iterator[Box]:
    """Every box in the order of the file, parents before children. Raises `Malformed`."""
    count = 0
    pending: list[tuple[int, int, tuple[bytes, ...]]] = [(0, size, ())]
    while pending:
        position, end, parents = pending.pop()
        if position >= end:
            continue
        box = _box(file, position, end, parents)
        if box is None:
            continue
        count += 1
        if count > MAX_BOXES:
            raise Malformed("too_many_boxes")
        pending.append((box.end, end, parents))
        yield box
        inside = _inside(file, box)
        if inside is not None and inside < box.end:
            if len(box.path) >= MAX_DEPTH:
                raise Malformed("too_deep")
            pending.append((inside, box.end, box.path))


def _box(file: BinaryIO, position: int, end: int, parents: tuple[bytes, ...]) -> Box | None:
    if end - position < 8:
        if not parents and any(read_at(file, position, end - position)):
            raise Malformed("file_truncated")
        return None  # QuickTime ends some lists with four zero bytes
    length, kind = struct.unpack(">I4s", read_at(file, position, 8))
    body = position + 8
    if length == 1:
        length, body = struct.unpack(">Q", read_at(file, position + 8, 8))[0], position + 16
    elif length == 0:
        if parents and kind == b"\0\0\0\0":
            return None
        length = end - position
    if length < body - position or position + length > end:
        raise Malformed("box_overruns")
    return Box((*parents, kind), position, body, position + length)


def _inside(file: BinaryIO, box: Box) -> int | None:
    """Where a box's children begin; None where it has none that we follow."""
    if box.type == b"meta":
        if box.end - box.body < 8:
            return None
        # QuickTime's meta has no version and flags before its first box.
        return box.body if read_at(file, box.body, 8)[4:] == b"hdlr" else box.body + 4
    if box.type in CONTAINERS or (len(box.path) > 1 and box.path[-2] == b"ilst"):
        return box.body
    return None


def read_mp4(file: BinaryIO, size: int) -> Contents:
    """What the file holds. Raises `Malformed`."""
    found, keys, track = Contents("mp4"), [], _Track()
    top: set[bytes] = set()
    fragmented = False
    for box in boxes(file, size):
        if len(box.path) == 1:
            top.add(box.type)
        fragmented |= box.type == b"mvex"
        if box.type not in MOVES_FREELY:
            found.tree.append("/".join(part.decode("latin-1") for part in box.path))
        if box.type == b"keys":
            keys = _keys(_body(file, box))
        elif box.path[-1:] == (b"data",) and b"ilst" in box.path:
            found.add("mdta", _key(box.path[-2], keys), _body(file, box)[8:])
        elif box.type == b"uuid":
            _uuid(file, box, found)
        else:
            _structure(file, box, found, track)
    found.fragment = (fragmented and not top & {b"moof", b"mdat"}) or (b"moof" in top and b"moov" not in top)
    found.seis = track.user_data(file, size)
    return found


def _uuid(file: BinaryIO, box: Box, found: Contents) -> None:
    if box.end - box.body < 16:
        return
    which = read_at(file, box.body, 16)
    if which == XMP:
        found.add("xmp", "xmp", _body(file, box)[16:])
    elif which == C2PA:
        if box.end - box.body > MAX_STORE:
            raise Malformed("store_too_large")
        raw = read_at(file, box.body + 16, box.end - box.body - 16)
        purpose, end, rest = raw[4:].partition(b"\0")
        if end and purpose in (b"manifest", b"original", b"update"):
            found.stores.append(rest[8:])


def _structure(file: BinaryIO, box: Box, found: Contents, track: _Track) -> None:
    """Brands, handlers, sample descriptions: the shape an encoder and a writer leave."""
    if box.type == b"ftyp":
        raw = _body(file, box)
        found.brands = f"{_latin(raw[:4])}:{_latin(raw[8:])}"
    elif box.type == b"mvhd":
        found.seconds = _length(_body(file, box))
    elif box.type == b"tkhd":
        raw = _body(file, box)
        if len(raw) >= 84 and not found.width:  # sound tracks say 0 × 0
            found.width, found.height = _shown(raw)
    elif box.type == b"hdlr" and b"trak" in box.path:
        raw = _body(file, box)
        track.handler = raw[8:12]
        name = raw[24:].split(b"\0")[0].decode("utf-8", "replace").lstrip(COUNTED)
        found.handlers.append(f"{_latin(raw[8:12])}|{name[:80]}")
    elif box.type == b"stsd":
        raw = _body(file, box)
        if len(raw) >= 16:
            found.codecs.append(_latin(raw[12:16]))
        if track.handler == b"vide" and len(raw) >= 8 + 8 + SAMPLE_ENTRIES:
            length = min(raw[8 + 50], 31)
            found.compressors.append(raw[8 + 51 : 8 + 51 + length].split(b"\0")[0].decode("utf-8", "replace"))
            track.describe(raw)
    elif track.handler == b"vide":
        track.locate(box.type, file, box)


class _Track:
    """Where the first picture of the first video track lies, and how long its length fields are."""

    def __init__(self) -> None:
        self.handler = b""
        self.length_size = 4
        self.hevc = False
        self.offset = self.size = 0

    def describe(self, description: bytes) -> None:
        for box, at in ((b"avcC", 4), (b"hvcC", 21)):
            place = description.find(box)
            if place >= 0 and place + 4 + at < len(description):
                self.length_size, self.hevc = (description[place + 4 + at] & 3) + 1, box == b"hvcC"

    def locate(self, kind: bytes, file: BinaryIO, box: Box) -> None:
        if kind in (b"stco", b"co64") and not self.offset:
            width = 4 if kind == b"stco" else 8
            raw = read_at(file, box.body, min(8 + width, box.end - box.body))
            self.offset = int.from_bytes(raw[8:], "big") if len(raw) == 8 + width else 0
        elif kind == b"stsz" and not self.size:
            raw = read_at(file, box.body, min(16, box.end - box.body))
            self.size = int.from_bytes(raw[4:8], "big") or int.from_bytes(raw[12:16], "big")

    def user_data(self, file: BinaryIO, size: int) -> list[tuple[str, bytes]]:
        if not self.offset or not self.size or self.offset + self.size > size:
            return []
        sample = read_at(file, self.offset, min(self.size, MAX_TEXT))
        return user_data(sample, self.length_size, hevc=self.hevc)


def _shown(raw: bytes) -> tuple[int, int]:
    """Width and height of a track header as a player shows them: its matrix may turn the picture by a quarter."""
    width, height = (int.from_bytes(raw[at : at + 2], "big") for at in (-8, -4))
    turned = any(raw[-40:-36]) and not any(raw[-44:-40]) and not any(raw[-28:-24])
    return (height, width) if turned else (width, height)


def _length(raw: bytes) -> float:
    """Seconds of a movie header: ticks over ticks per second, in the 32- or the 64-bit form."""
    at, width = (20, 8) if raw[:1] == b"\1" else (12, 4)
    scale, ticks = int.from_bytes(raw[at : at + 4], "big"), raw[at + 4 : at + 4 + width]
    return round(int.from_bytes(ticks, "big") / scale, 3) if scale and len(ticks) == width else 0.0


def _keys(raw: bytes) -> list[str]:
    names, at = [], 8
    for _ in range(min(int.from_bytes(raw[4:8], "big"), 1000)):
        length = int.from_bytes(raw[at : at + 4], "big")
        if length < 8 or at + length > len(raw):
            break
        names.append(raw[at + 8 : at + length].decode("utf-8", "replace"))
        at += length
    return names


def _key(kind: bytes, keys: list[str]) -> str:
    number = int.from_bytes(kind, "big")
    return keys[number - 1] if 1 <= number <= len(keys) else _latin(kind)


def _body(file: BinaryIO, box: Box) -> bytes:
    return read_at(file, box.body, min(box.end - box.body, MAX_TEXT + 16))


def _latin(raw: bytes) -> str:
    return raw.decode("latin-1").rstrip("\0")
