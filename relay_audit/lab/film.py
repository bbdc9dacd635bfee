"""The smallest film that a walk of boxes takes for one: a header, a video track's description, no picture. No signature:
whoever wants signed films brings them (signing needs libraries that the lab does not have)."""

from __future__ import annotations

import struct
from typing import Protocol

TICKS = 1000
"""Per second."""
IDENTITY = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


class FilmMaker(Protocol):
    def __call__(self, kind: str, width: int, height: int, seconds: int) -> bytes:
        """A film of one kind (`official`, `self_signed`, …) with that picture and length."""


def plain_film(kind: str, width: int, height: int, seconds: int) -> bytes:
    """Unsigned, whatever kind is asked for."""
    track = _box(
        b"trak",
        _tkhd(width, height, seconds),
        _box(b"mdia", _mdhd(seconds), _hdlr(), _box(b"minf", _stbl(width, height))),
    )
    moov = _box(b"moov", _mvhd(seconds), track)
    return b"".join((_box(b"ftyp", b"isom\0\0\2\0isomiso2avc1mp41"), moov, _box(b"mdat", kind.encode() * 8)))


def resized(film: bytes, width: int, height: int, seconds: int) -> bytes:
    """The same film with another picture size and length in its headers; nothing moves."""
    raw = bytearray(film)
    at = raw.index(b"mvhd") + 4
    scale = struct.unpack_from(">I", raw, at + 12)[0]
    struct.pack_into(">I", raw, at + 16, scale * seconds)
    head = raw.index(b"tkhd")
    end = head - 4 + struct.unpack_from(">I", raw, head - 4)[0]
    struct.pack_into(">HHHH", raw, end - 8, width, 0, height, 0)
    return bytes(raw)


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", len(body) + 8, kind) + body


def _mvhd(seconds: int) -> bytes:
    return _box(
        b"mvhd", struct.pack(">IIIII", 0, 0, 0, TICKS, seconds * TICKS), bytes(16), IDENTITY, bytes(24), b"\0\0\0\2"
    )


def _tkhd(width: int, height: int, seconds: int) -> bytes:
    head = struct.pack(">IIIIII", 7, 0, 0, 1, 0, seconds * TICKS)
    return _box(b"tkhd", head, bytes(16), IDENTITY, struct.pack(">HHHH", width, 0, height, 0))


def _mdhd(seconds: int) -> bytes:
    return _box(b"mdhd", struct.pack(">IIIIIHH", 0, 0, 0, TICKS, seconds * TICKS, 0x55C4, 0))


def _hdlr() -> bytes:
    return _box(b"hdlr", bytes(8), b"vide", bytes(12), b"VideoHandler\0")


def _stbl(width: int, height: int) -> bytes:
    entry = _box(b"avc1", bytes(6), b"\0\1", bytes(16), struct.pack(">HH", width, height), bytes(50))
    return _box(b"stbl", _box(b"stsd", bytes(4), b"\0\0\0\1", entry))
