"""The manifest store: labelled boxes in boxes (JUMBF), one manifest after the other, the last of them in force."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

MAX_BOXES, MAX_DEPTH = 20_000, 32
CLAIMS = ("c2pa.claim", "c2pa.claim.v2")
ACTIONS = ("c2pa.actions", "c2pa.actions.v2")


class StoreUnreadable(Exception):
    """A manifest store or signature that is not what its format says. `reason` is a word of the message catalogues."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Super:
    """A labelled box and what it holds."""

    label: str
    inner: list[Super] = field(default_factory=list)
    contents: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class Manifest:
    label: str
    claim: bytes
    signature: bytes
    actions: bytes = b""
    """What was done to the file, as CBOR; empty where there is not exactly one such assertion."""


def manifests(store: bytes) -> list[Manifest]:
    """In the order of the store; the active one is the last. Raises `StoreUnreadable`."""
    try:
        top = [box for box in _supers(store, 0, [0]) if box.label == "c2pa"]
    except (struct.error, ValueError, IndexError) as error:
        raise StoreUnreadable("malformed_store") from error
    if len(top) != 1:
        raise StoreUnreadable("two_stores" if top else "malformed_store")
    found = [
        Manifest(box.label, _only(box, CLAIMS), _only(box, ("c2pa.signature",)), _actions(box)) for box in top[0].inner
    ]
    if not found:
        raise StoreUnreadable("malformed_store")
    if len({manifest.label for manifest in found}) != len(found):
        raise StoreUnreadable("malformed_store")
    return found


def _only(manifest: Super, labels: tuple[str, ...]) -> bytes:
    """The one CBOR box under one of these labels; two of them would let two readers read two things."""
    boxes = [box for box in manifest.inner if box.label in labels]
    raw = [content for box in boxes for kind, content in box.contents if kind == b"cbor"]
    if len(boxes) != 1 or len(raw) != 1:
        raise StoreUnreadable("malformed_store")
    return raw[0]


def _actions(manifest: Super) -> bytes:
    kept = [box for store in manifest.inner if store.label == "c2pa.assertions" for box in store.inner]
    raw = [content for box in kept if box.label in ACTIONS for kind, content in box.contents if kind == b"cbor"]
    return raw[0] if len(raw) == 1 else b""


def _supers(raw: bytes, depth: int, count: list[int]) -> list[Super]:
    return [box for box in _boxes(raw, depth, count) if isinstance(box, Super)]


def _boxes(raw: bytes, depth: int, count: list[int]) -> list[Super | tuple[bytes, bytes]]:
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    found: list[Super | tuple[bytes, bytes]] = []
    at = 0
    while at + 8 <= len(raw):
        count[0] += 1
        if count[0] > MAX_BOXES:
            raise ValueError("too many boxes")
        length, kind = struct.unpack(">I4s", raw[at : at + 8])
        body = at + 8
        if length == 1:
            length, body = struct.unpack(">Q", raw[at + 8 : at + 16])[0], at + 16
        elif length == 0:
            length = len(raw) - at
        if length < body - at or at + length > len(raw):
            raise ValueError("a box is longer than what holds it")
        content = raw[body : at + length]
        found.append(_described(content, depth, count) if kind == b"jumb" else (kind, content))
        at += length
    return found


def _described(content: bytes, depth: int, count: list[int]) -> Super:
    length, kind = struct.unpack(">I4s", content[:8])
    if kind != b"jumd" or not 25 <= length <= len(content):
        raise ValueError("a box without a description")
    description = content[8:length]
    label = description[17 : description.index(b"\0", 17)].decode("utf-8") if description[16] & 2 else ""
    box = Super(label)
    for inner in _boxes(content[length:], depth + 1, count):
        if isinstance(inner, Super):
            box.inner.append(inner)
        else:
            box.contents.append(inner)
    return box
