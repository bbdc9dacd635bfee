"""No body costs more than its limit, whatever it unfolds to."""

from __future__ import annotations

import gzip
import random
import time
import tracemalloc
import zlib

import pytest

from relay_audit.intake import Intake, Limits

TEXT = '{"text": "你好, relay"}'.encode() * 20


def take_in(wire: bytes, encoding: str, limits: Limits | None = None, piece: int = 65536) -> Intake:
    intake = Intake(encoding, limits or Limits(), 0.0)
    for start in range(0, len(wire), piece):
        if not intake.take(wire[start : start + piece], 0.0):
            return intake
    intake.finish()
    return intake


def bare_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


@pytest.mark.parametrize("piece", [1, 7, 65536])
@pytest.mark.parametrize(
    ("wire", "encoding"),
    [
        (TEXT, ""),
        (TEXT, "identity"),
        (gzip.compress(TEXT, mtime=0), "gzip"),
        (gzip.compress(TEXT, mtime=0), "x-gzip"),
        (gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0), "GZIP"),
        (gzip.compress(TEXT, mtime=0) + b"\0\0\0padding", "gzip"),
        (zlib.compress(TEXT), "deflate"),
        (bare_deflate(TEXT), "deflate"),
    ],
)
def test_bodies_are_decoded_in_pieces_of_any_size(wire: bytes, encoding: str, piece: int):
    intake = take_in(wire, encoding, piece=piece)
    assert (bytes(intake.body), intake.size, intake.received) == (TEXT, len(TEXT), len(wire))
    assert (intake.cut, intake.hostility) == (False, None)


@pytest.mark.parametrize(
    ("wire", "encoding"),
    [
        (gzip.compress(TEXT, mtime=0)[:-9], "gzip"),
        (gzip.compress(TEXT, mtime=0)[:1], "gzip"),
        (b"not gzip at all", "gzip"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 50, "gzip"),
        (gzip.compress(gzip.compress(TEXT, mtime=0), mtime=0), "gzip, gzip"),
        (TEXT, "br"),
        (TEXT, "zstd"),
    ],
)
def test_what_cannot_be_decoded_is_cut(wire: bytes, encoding: str):
    intake = take_in(wire, encoding)
    assert (intake.cut, intake.hostility) == (True, "decompression")


@pytest.mark.parametrize("encoding", ["", "gzip", "br"])
def test_an_empty_body_is_complete(encoding: str):
    intake = take_in(b"", encoding)
    assert (bytes(intake.body), intake.cut) == (b"", False)


@pytest.mark.parametrize("layers", ["gzip", "deflate"])
def test_a_bomb_stays_small(layers: str):
    wbits = zlib.MAX_WBITS | 16 if layers == "gzip" else zlib.MAX_WBITS
    engine = zlib.compressobj(9, wbits=wbits)
    wire = b"".join(engine.compress(b"\0" * 2**20) for _ in range(300)) + engine.flush()
    tracemalloc.start()
    started = time.monotonic()
    intake = take_in(wire, layers)
    taken, (_, peak) = time.monotonic() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (intake.cut, intake.hostility) == (True, "decompression")
    assert len(intake.body) <= Limits().max_body
    assert peak < 40 * 2**20
    assert taken < 2


def test_empty_members_without_end_are_bounded_by_what_was_received():
    wire = gzip.compress(b"") * 2000
    intake = take_in(wire, "gzip", Limits(max_body=20_000), piece=1000)
    assert (intake.cut, intake.hostility) == (True, "too_large")
    assert intake.received <= 21_000


def test_too_large_keeps_exactly_the_limit():
    noise = random.Random(7).randbytes(3000)
    for wire, encoding in ((noise, ""), (gzip.compress(noise), "gzip")):
        intake = take_in(wire, encoding, Limits(max_body=1000), piece=400)
        assert (bytes(intake.body), intake.cut, intake.hostility) == (noise[:1000], True, "too_large")
    exact = take_in(noise[:1000], "", Limits(max_body=1000), piece=400)
    assert (bytes(exact.body), exact.cut) == (noise[:1000], False)


def test_a_small_body_of_blanks_is_no_bomb():
    intake = take_in(gzip.compress(b" " * 500_000, 9), "gzip")
    assert (intake.size, intake.cut) == (500_000, False)


def test_a_drip_is_noticed_and_a_late_burst_is_not_one():
    limits = Limits(slow_after_s=30, min_bytes_per_s=1)
    drip = Intake("", limits, 100.0)
    assert drip.take(b"x", 129.0)
    assert not drip.take(b"x", 131.0)
    assert drip.hostility == "too_slow"
    burst = Intake("", limits, 100.0)
    assert burst.take(b"x" * 200, 159.0)
    assert (burst.cut, burst.hostility) == (False, None)


@pytest.mark.parametrize(("received", "kind"), [(b"x" * 10, "too_slow"), (b"x" * 100_000, "endless")])
def test_what_ran_out_of_time_is_named_by_its_pace(received: bytes, kind: str):
    intake = Intake("", Limits(), 0.0)
    intake.take(received, 1.0)
    intake.run_out(180.0)
    assert (intake.cut, intake.hostility) == (True, kind)
