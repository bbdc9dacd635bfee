"""What a container holds, as the walks of `mp4` and `images` find it, and the limits that every walk keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO

MAX_BOXES = 10_000
"""Boxes, chunks or segments of one file. The C2PA library's time grows with the square of their number."""
MAX_DEPTH = 12
MAX_STORE = 64 << 20
"""Bytes of a manifest store."""
MAX_TEXT = 4 << 20
"""Bytes of one metadata value; a longer one is left out."""
MAX_TEXTS = 64


class Malformed(Exception):
    """A file that does not keep its own format, or a limit of ours. `reason` is a word of the message catalogues."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Text:
    """One piece of metadata: in what it was carried, under which key."""

    carrier: str
    key: str
    value: str


@dataclass
class Contents:
    """Filled by one walk."""

    kind: str
    """A `Kind` of `media_facts`; that module is not loaded in the child, which has no time for it."""
    stores: list[bytes] = field(default_factory=list)
    """C2PA manifest stores; more than one is nobody's original."""
    texts: list[Text] = field(default_factory=list)
    fragment: bool = False
    truncated: bool = False
    brands: str = ""
    width: int = 0
    height: int = 0
    seconds: float = 0.0
    handlers: list[str] = field(default_factory=list)
    compressors: list[str] = field(default_factory=list)
    codecs: list[str] = field(default_factory=list)
    tree: list[str] = field(default_factory=list)
    seis: list[tuple[str, bytes]] = field(default_factory=list)
    """UUID and payload of unregistered user data in the first picture."""

    def add(self, carrier: str, key: str, raw: bytes | str) -> None:
        """Keeps a text within limits."""
        if len(raw) <= MAX_TEXT and len(self.texts) < MAX_TEXTS:
            value = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
            self.texts.append(Text(carrier, key, value))


def read_at(file: BinaryIO, position: int, length: int) -> bytes:
    """Exactly these bytes. Raises `Malformed` where the file ends before them."""
    file.seek(position)
    raw = file.read(length)
    if len(raw) != length:
        raise Malformed("file_truncated")
    return raw
