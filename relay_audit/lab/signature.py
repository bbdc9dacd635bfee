"""A thinking signature as the vendor's servers write it: a protobuf message in base64, its header in clear.

Field numbers and lengths follow recorded signatures up to 2026-08; what the vendor seals inside is random here.
"""

from __future__ import annotations

import base64
import random

GENERATION = 16
PLATFORMS: dict[str, int | None] = {"anthropic": None, "azure": None, "vertex": 2, "aws": 1}
"""Nobody has recorded one of Azure's; it is thought to look like the vendor's own."""
CONSTANT, PURPOSE = 2, b"thinking"
OPAQUE = 210
"""Bytes of a signature that shows nothing."""


def signature(platform: str, model: str, account: str, rng: random.Random) -> str:
    """Signed on a platform, for a model (empty: not named) and an account; now and then in the newer envelope."""
    header = _number(1, GENERATION)
    if (value := PLATFORMS[platform]) is not None:
        header += _number(2, value)
    header += _number(3, CONSTANT) + _text(5, rng.randbytes(64))
    if model:
        header += _text(6, model.encode()) + _number(7, 0) + _text(8, PURPOSE)
    if account:
        header += _text(11, account.encode())
    sealed = (
        _text(1, header)
        + _text(2, rng.randbytes(12))
        + _text(3, rng.randbytes(12))
        + _text(4, rng.randbytes(48))
        + _text(5, rng.randbytes(rng.randint(60, 400)))
    )
    whole = _text(2, sealed) + _number(3, 1)
    return base64.b64encode(_number(1, 2) + whole if rng.random() < 0.3 else whole).decode()


def opaque(rng: random.Random) -> str:
    """One that no reader of today understands."""
    return base64.b64encode(b"\xff" + rng.randbytes(OPAQUE)).decode()


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
