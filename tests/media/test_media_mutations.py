"""Hundreds of damaged files: none breaks the reader, and none is called an original whose content was touched."""

from __future__ import annotations

import datetime as dt
import random
import struct

import pytest

from relay_audit.assess.provenance import judge
from relay_audit.catalog import load_knowledge
from relay_audit.media.pins import pin_of
from tests.media import material as m

KNOWLEDGE = load_knowledge()
TODAY = dt.datetime.now(dt.UTC).date()
KINDS = ("mp4", "jpg", "png", "webp")


def mutated(raw: bytes, dice: random.Random) -> bytes:
    """One of the ways in which files get damaged, or are damaged on purpose."""
    at = dice.randrange(len(raw))
    size = dice.choice((1, 2, 4, 16, 200))
    return dice.choice(
        (
            lambda: m.flipped(raw, at),
            lambda: raw[:at] + dice.randbytes(size) + raw[at + size :],
            lambda: raw[:at] + raw[at + size :],
            lambda: raw[:at] + dice.randbytes(size) + raw[at:],
            lambda: raw[:at],
            lambda: raw + dice.randbytes(size),
            lambda: raw[:at] + struct.pack(">I", dice.choice((0, 1, 7, 2**31, 2**32 - 1))) + raw[at + 4 :],
            lambda: raw[:at] + raw[at : at + 400] + raw[at:],
        )
    )()


def content(raw: bytes) -> bytes:
    """The film without its credentials and padding: what a signature has to cover."""
    try:
        kept = [
            raw[a:b]
            for box, a, b in m.top_boxes(raw)
            if box not in (b"free", b"skip") and raw[a + 8 : a + 24] != m.UUID
        ]
    except struct.error:
        return raw
    return b"".join(kept)


def survivors(tmp_path, number: int, seed: int) -> tuple[int, list[str]]:
    """Reads that many different mutations of each kind's original; returns how many are still called original, and those
    that must not be."""
    by = m.chain(m.authority("Demo Official CA"))
    dice = random.Random(seed)
    originals = {kind: m.sign(m.plain(kind), tmp_path / f"original.{kind}", by) for kind in KINDS}
    pins = (pin_of(m.read_all([originals["mp4"]])[0], "seedance", TODAY, integrity_checked=True),)
    whole = {kind: path.read_bytes() for kind, path in originals.items()}
    seen = set(whole.values())
    paths = []
    while len(paths) < number:
        kind = KINDS[len(paths) % len(KINDS)]
        if (raw := mutated(whole[kind], dice)) in seen:
            continue
        seen.add(raw)
        paths.append((tmp_path / f"{len(paths)}.{kind}", kind))
        paths[-1][0].write_bytes(raw)
    original, wrong = 0, []
    for (path, kind), facts in zip(paths, m.read_all([path for path, _ in paths]), strict=True):
        found = judge(facts, KNOWLEDGE, pins, "seedance", TODAY)
        assert found.findings, path.name
        assert not any(f.code == "media.signer_spoofed" for f in found.findings), path.name
        if any(f.code in ("media.signer_matches", "media.original") for f in found.findings):
            original += 1
            raw = path.read_bytes()
            same = (
                content(raw) == content(whole[kind]) if kind == "mp4" else _only_in_credentials(raw, whole[kind], kind)
            )
            if not same:
                wrong.append(path.name)
    return original, wrong


def _only_in_credentials(raw: bytes, original: bytes, kind: str) -> bool:
    """Of images: whether all that stands before and after the credentials is as it was."""
    start, end = credentials(original, kind)
    return (
        len(raw) >= len(original) - (end - start) and raw.startswith(original[:start]) and raw.endswith(original[end:])
    )


def credentials(raw: bytes, kind: str) -> tuple[int, int]:
    """Where the segment or chunk of the credentials begins and ends."""
    if kind == "jpg":
        start = raw.index(b"\xff\xeb")
        return start, start + 2 + struct.unpack(">H", raw[start + 2 : start + 4])[0]
    if kind == "png":
        start = raw.index(b"caBX") - 4
        return start, start + 12 + struct.unpack(">I", raw[start : start + 4])[0]
    start = raw.index(b"C2PA", 12)
    length = struct.unpack("<I", raw[start + 4 : start + 8])[0]
    return start, start + 8 + length + length % 2


def test_five_hundred_mutated_files(tmp_path):
    """Different from each other and from the original, a quarter of them of each kind."""
    original, wrong = survivors(tmp_path, 520, seed=20261130)
    assert wrong == []
    assert 0 < original < 60  # what is left lies in padding of the credentials


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_many_more(tmp_path, seed):
    assert survivors(tmp_path, 1500, seed)[1] == []
