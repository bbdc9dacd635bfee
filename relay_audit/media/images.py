"""Segments of JPEG, chunks of PNG and WebP, and the EXIF inside: followed within the same limits as boxes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from relay_audit.media.contents import MAX_BOXES, MAX_STORE, MAX_TEXT, Contents, Malformed, read_at

PNG = b"\x89PNG\r\n\x1a\n"
XMP_MARK = b"http://ns.adobe.com/xap/1.0/\0"
EXIF_MARK = b"Exif\0\0"
STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""
NEAR_THE_END = 1 << 20
END, SCAN, APP1, APP11, COMMENT = 0xD9, 0xDA, 0xE1, 0xEB, 0xFE
MAKE, DESCRIPTION, SOFTWARE, EXIF_IFD, USER_COMMENT = 0x010F, 0x010E, 0x0131, 0x8769, 0x9286


def read_jpeg(file: BinaryIO, size: int) -> Contents:
    """Raises `Malformed`."""
    found = Contents("jpeg")
    parts: dict[int, dict[int, tuple[bytes, bytes]]] = {}
    for marker, position, length in _segments(file, size):
        found.tree.append(f"{marker:02x}")
        if marker not in (APP1, APP11, COMMENT) and not 0xE0 <= marker <= 0xEF:
            continue
        raw = read_at(file, position, length)
        if marker == APP11:
            _jumbf_part(raw, parts)
        elif raw.startswith(XMP_MARK):
            found.add("xmp", "xmp", raw[len(XMP_MARK) :])
        elif raw.startswith(EXIF_MARK):
            _exif(raw[len(EXIF_MARK) :], found)
        elif marker == COMMENT or raw.startswith(b"AIGC"):
            found.add("jpeg_segment", "AIGC" if raw.startswith(b"AIGC") else "comment", raw.removeprefix(b"AIGC"))
    found.truncated = not _ended(file, size)
    for pieces in parts.values():
        ordered = [pieces[number] for number in sorted(pieces)]
        store = ordered[0][0] + b"".join(rest for _, rest in ordered)
        if store[16:20] == b"c2pa":
            found.stores.append(store)
    return found


def _ended(file: BinaryIO, size: int) -> bool:
    """Whether the mark of the end stands near the end; a camera or an editor may write something behind it."""
    length = min(size, NEAR_THE_END)
    return bytes((0xFF, END)) in read_at(file, size - length, length)


def _segments(file: BinaryIO, size: int) -> Iterator[tuple[int, int, int]]:
    position, count = 2, 0
    while position + 4 <= size:
        count += 1
        if count > MAX_BOXES:
            raise Malformed("too_many_boxes")
        mark, marker = read_at(file, position, 2)
        if mark != 0xFF:
            raise Malformed("box_overruns")
        if marker == 0xFF:
            position += 1
            continue
        if marker in STANDALONE:
            position += 2
            continue
        if marker in (END, SCAN):
            return
        length = struct.unpack(">H", read_at(file, position + 2, 2))[0]
        if length < 2 or position + 2 + length > size:
            raise Malformed("box_overruns")
        yield marker, position + 4, length - 2
        position += 2 + length


def _jumbf_part(raw: bytes, parts: dict[int, dict[int, tuple[bytes, bytes]]]) -> None:
    """One piece of a JUMBF box; the box's own header is repeated in each."""
    if raw[:2] != b"JP" or len(raw) < 16:
        return
    box, number, length, kind = struct.unpack(">HII4s", raw[2:16])
    header = 16 if length == 1 else 8
    if kind == b"jumb":
        pieces = parts.setdefault(box, {})
        if number in pieces:
            raise Malformed("two_stores")
        pieces[number] = (raw[8 : 8 + header], raw[8 + header :])


def read_png(file: BinaryIO, size: int) -> Contents:
    """Raises `Malformed`."""
    found = Contents("png")
    for kind, position, length in _chunks(file, 8, size, png=True):
        found.tree.append(kind.decode("latin-1"))
        if kind == b"caBX":
            if length > MAX_STORE:
                raise Malformed("store_too_large")
            found.stores.append(read_at(file, position, length))
        elif kind in (b"tEXt", b"zTXt", b"iTXt") and length <= MAX_TEXT:
            _png_text(kind, read_at(file, position, length), found)
        elif kind == b"eXIf" and length <= MAX_TEXT:
            _exif(read_at(file, position, length), found)
    return found


def read_webp(file: BinaryIO, size: int) -> Contents:
    """Raises `Malformed`."""
    found = Contents("webp")
    for kind, position, length in _chunks(file, 12, size, png=False):
        found.tree.append(kind.decode("latin-1"))
        if kind == b"C2PA":
            if length > MAX_STORE:
                raise Malformed("store_too_large")
            found.stores.append(read_at(file, position, length))
        elif kind == b"XMP " and length <= MAX_TEXT:
            found.add("xmp", "xmp", read_at(file, position, length))
        elif kind == b"EXIF" and length <= MAX_TEXT:
            _exif(read_at(file, position, length).removeprefix(EXIF_MARK), found)
    return found


def _chunks(file: BinaryIO, position: int, size: int, *, png: bool) -> Iterator[tuple[bytes, int, int]]:
    """Kind, place and length of each chunk. PNG: length first, CRC after; RIFF: kind first, padded to even."""
    count = 0
    while position + (12 if png else 8) <= size:
        count += 1
        if count > MAX_BOXES:
            raise Malformed("too_many_boxes")
        head = read_at(file, position, 8)
        length, kind = struct.unpack(">I4s", head) if png else (int.from_bytes(head[4:], "little"), head[:4])
        after = position + 8 + length + (4 if png else length % 2)
        if after > size + (0 if png else 1):
            raise Malformed("box_overruns")
        yield kind, position + 8, length
        if png and kind == b"IEND":
            return
        position = after
    if png:
        raise Malformed("file_truncated")


def _png_text(kind: bytes, raw: bytes, found: Contents) -> None:
    name, _, rest = raw.partition(b"\0")
    key = name.decode("latin-1")
    if kind == b"zTXt":
        rest = _inflated(rest[1:])
    elif kind == b"iTXt":
        packed, rest = rest[:1] == b"\1", rest[2:]
        rest = rest.partition(b"\0")[2].partition(b"\0")[2]
        rest = _inflated(rest) if packed else rest
    found.add("xmp" if key == "XML:com.adobe.xmp" else "png_text", key, rest)


def _inflated(raw: bytes) -> bytes:
    """At most `MAX_TEXT` bytes of it: a few bytes can stand for gigabytes."""
    try:
        return zlib.decompressobj().decompress(raw, MAX_TEXT)
    except zlib.error:
        return b""


def _exif(raw: bytes, found: Contents) -> None:
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(raw[:4])
    if order is None or len(raw) > MAX_TEXT:
        return
    start = struct.unpack(f"{order}I", raw[4:8])[0] if len(raw) >= 8 else 0
    tags = _directory(raw, order, start)
    if pointer := tags.get(EXIF_IFD):
        tags |= _directory(raw, order, int.from_bytes(pointer[:4], "little" if order == "<" else "big"))
    for tag, key in ((MAKE, "Make"), (DESCRIPTION, "ImageDescription"), (SOFTWARE, "Software")):
        if value := tags.get(tag, b"").rstrip(b"\0"):
            found.add("exif", key, value)
    if comment := tags.get(USER_COMMENT, b""):
        code, text = comment[:8], comment[8:]
        wide = code.startswith(b"UNICODE")
        found.add(
            "exif",
            "UserComment",
            text.decode("utf-16-be" if order == ">" else "utf-16-le", "replace") if wide else text,
        )


def _directory(raw: bytes, order: str, at: int) -> dict[int, bytes]:
    """Tag → bytes of one directory; what points outside is left out."""
    if at < 8 or at + 2 > len(raw):
        return {}
    tags: dict[int, bytes] = {}
    for index in range(min(struct.unpack(f"{order}H", raw[at : at + 2])[0], 200)):
        entry = raw[at + 2 + 12 * index : at + 14 + 12 * index]
        if len(entry) < 12:
            break
        tag, kind, count = struct.unpack(f"{order}HHI", entry[:8])
        length = count * {3: 2, 4: 4, 5: 8}.get(kind, 1)
        place = struct.unpack(f"{order}I", entry[8:])[0]
        value = entry[8 : 8 + length] if length <= 4 else raw[place : place + length]
        if len(value) == length:
            tags[tag] = value
    return tags
