"""Walks and marks: limits that hold, carriers that are read, and nothing private that is kept."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from pathlib import Path

import pytest

from relay_audit.errors import UsageError
from relay_audit.media import images, marks, mp4
from relay_audit.media.contents import MAX_BOXES, Contents, Malformed, Text
from relay_audit.media.examine import examine
from relay_audit.media.sei import library_and_settings, masked, user_data
from relay_audit.media.worker import signer, walk
from tests.media.material import DATA, plain

LABEL = json.dumps({"Label": "1", "ContentProducer": "001191330106MA2CFLDG4R10001", "ProduceID": "p"})
GRAPH = {
    "4": {"class_type": "UNETLoader", "inputs": {"unet_name": "C:\\Users\\somebody\\models\\wan2.2_fp8.safetensors"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a private wish"}},
}
SHEET = {
    "nodes": [{"type": "LoraLoader", "widgets_values": ["style.safetensors", "a private wish"]}],
    "links": [],
    "last_node_id": 1,
}


def box(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", zlib.crc32(kind + body))


def png(*parts: bytes) -> bytes:
    raw = plain("png").read_bytes()
    return raw[:-12] + b"".join(parts) + raw[-12:]


def jpeg(*segments: bytes) -> bytes:
    raw = plain("jpg").read_bytes()
    return raw[:2] + b"".join(b"\xff" + s[:1] + struct.pack(">H", len(s) + 1) + s[1:] for s in segments) + raw[2:]


def webp(kind: bytes, body: bytes) -> bytes:
    raw = plain("webp").read_bytes()
    more = kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
    return raw[:4] + struct.pack("<I", len(raw) - 8 + len(more)) + raw[8:] + more


def exif(text: bytes, tag: int = 0x9286) -> bytes:
    """A directory with one entry; UserComment lies one directory deeper."""
    entry = struct.pack("<HHII", tag, 7, len(text), 26 if tag != 0x9286 else 44) + bytes(4)
    if tag != 0x9286:
        return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 1) + entry + text
    outer = struct.pack("<H", 1) + struct.pack("<HHII", 0x8769, 4, 1, 26) + bytes(4)
    return b"II*\0" + struct.pack("<I", 8) + outer + struct.pack("<H", 1) + entry + text


def xmp(body: str) -> bytes:
    return f'<x:xmpmeta xmlns:TC260="http://www.tc260.org.cn/ns/AIGC/1.0/">{body}</x:xmpmeta>'.encode()


ESCAPED = LABEL.replace('"', "&quot;")
CARRIERS = {
    "mdta": (DATA / "labelled.mp4").read_bytes(),
    "xmp in png": png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(f'<r TC260:AIGC="{ESCAPED}"/>'))),
    "xmp in jpeg": jpeg(b"\xe1" + images.XMP_MARK + xmp(f"<TC260:AIGC>{ESCAPED}</TC260:AIGC>")),
    "xmp in mp4": plain().read_bytes() + box(b"uuid", mp4.XMP + xmp(f"<r TC260:AIGC='{ESCAPED}'/>")),
    "xmp in webp": webp(b"XMP ", xmp(f'<r TC260:AIGC="{ESCAPED}"/>')),
    "png_text": png(chunk(b"tEXt", b"AIGC\0" + LABEL.encode())),
    "png_text compressed": png(chunk(b"zTXt", b"AIGC\0\0" + zlib.compress(LABEL.encode()))),
    "exif in jpeg": jpeg(b"\xe1Exif\0\0" + exif(b"ASCII\0\0\0" + json.dumps({"AIGC": json.loads(LABEL)}).encode())),
    "exif in webp": webp(b"EXIF", exif(b"UNICODE\0" + json.dumps({"AIGC": json.loads(LABEL)}).encode("utf-16-le"))),
    "exif in png": png(chunk(b"eXIf", exif(b"ASCII\0\0\0" + json.dumps({"AIGC": LABEL}).encode()))),
    "jpeg_segment": jpeg(b"\xe9AIGC" + LABEL.encode()),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_label_is_read_in_every_carrier(carrier):
    found = marks.labels(walk(io.BytesIO(CARRIERS[carrier])).texts)
    assert [(one["label"], one["producer"]) for one in found] == [("1", "001191330106MA2CFLDG4R10001")]
    assert found[0]["carrier"] == carrier.split()[0]


def test_the_label_in_matroska_is_read_by_mediainfo():
    facts = examine(DATA / "labelled.mkv")
    assert (facts.kind, facts.labels[0].producer) == ("matroska", "001191330106MA2CFLDG4R10001")
    assert facts.encoder.settings == examine(plain()).encoder.settings  # one form, whoever printed it


def test_a_label_without_its_key_and_what_is_none():
    assert marks.labels([Text("mdta", "x", LABEL)])[0]["producer"].startswith("0011")
    assert marks.labels([Text("png_text", "AIGC", "some words")]) == [{"carrier": "png_text"}]
    assert (
        marks.labels([Text("mdta", "aigc_info", '{"aigc_label_type":2}'), Text("mdta", "comment", '{"Label": "1"}')])
        == []
    )


@pytest.mark.parametrize(
    ("text", "nodes", "models"),
    [
        (Text("mdta", "prompt", json.dumps(GRAPH)), 2, ["wan2.2_fp8.safetensors"]),
        (Text("png_text", "workflow", json.dumps(SHEET)), 1, ["style.safetensors"]),
        (
            Text("mdta", "comment", json.dumps({"prompt": json.dumps(GRAPH), "workflow": {}})),
            2,
            ["wan2.2_fp8.safetensors"],
        ),
        (Text("exif", "Make", "Prompt: " + json.dumps(GRAPH)), 2, ["wan2.2_fp8.safetensors"]),
        (Text("exif", "UserComment", json.dumps({"workflow": SHEET})), 1, ["style.safetensors"]),
    ],
)
def test_workflows_are_counted_and_their_prompts_and_paths_stay_out(text, nodes, models):
    found = marks.workflows([text])
    assert [(one["nodes"], one["models"]) for one in found] == [(nodes, models)]
    assert "private" not in repr(found)
    assert "somebody" not in repr(found)


@pytest.mark.parametrize(
    "value", ["", "{", "[1]", '{"nodes": []}', '{"a": {"class_type": "x"}}', "{" * 100_000, '{"a":' * 5000]
)
def test_other_json_is_no_workflow(value):
    assert marks.workflows([Text("mdta", "prompt", value)]) == []
    assert marks.labels([Text("mdta", "x", value)]) == []


def test_workflow_in_a_film():
    found = walk((DATA / "workflow.mp4").open("rb"))
    assert marks.workflows(found.texts)[0]["models"] == ["wan2.2_t2v_high_noise_14B_fp8_scaled.safetensors"]


HEAD = box(b"ftyp", b"isom\0\0\0\0")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (HEAD + box(b"free") * 80_000, "too_many_boxes"),
        (HEAD + b"\x7f\xff\xff\xffmoov", "box_overruns"),
        (HEAD + b"\0\0\0\1mdat" + b"\xff" * 8, "box_overruns"),
        (HEAD + b"\0\0\0\1mdat", "file_truncated"),
        (HEAD + b"\0\0\0\7mdat", "box_overruns"),
        (HEAD + b"\0\0\0\0\0\0\0", None),
        (b"\x89PNG\r\n\x1a\n" + b"\xff\xff\xff\xffIDAT" + bytes(8), "box_overruns"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"tEXt", b"") * (MAX_BOXES + 1), "too_many_boxes"),
        (b"\xff\xd8" + b"\xff\xe9\0\2" * (MAX_BOXES + 1), "too_many_boxes"),
        (b"\xff\xd8\xff\xe1\xff\xff\0\0", "box_overruns"),
        (b"\xff\xd8\x00\x01\x02\x03", "box_overruns"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IDAT", b""), "file_truncated"),
        (b"", "empty_file"),
        (b"RIFF\xff\xff\xff\xffWEBPVP8 \xff\xff\xff\x7f", "box_overruns"),
    ],
)
def test_limits_of_a_walk(raw, reason):
    if reason is None:
        assert walk(io.BytesIO(raw)).kind == "mp4"
        return
    with pytest.raises(Malformed) as refused:
        walk(io.BytesIO(raw))
    assert refused.value.reason == reason


@pytest.mark.parametrize("depth", [12, 13, 5000])
def test_depth(depth):
    raw = b""
    for _ in range(depth):
        raw = box(b"moov", raw)
    if depth <= 12:
        assert len(list(mp4.boxes(io.BytesIO(raw), len(raw)))) == depth
    else:
        with pytest.raises(Malformed, match="too_deep"):
            list(mp4.boxes(io.BytesIO(raw), len(raw)))


def test_80000_boxes_are_refused_before_a_native_parser_sees_them(tmp_path):
    """How much sooner than an honest film is read: `python -m bench.media`."""
    bomb = tmp_path / "bomb.mp4"
    bomb.write_bytes(plain().read_bytes() + box(b"free") * 80_000)
    facts = examine(bomb)
    assert (facts.refused, facts.integrity.state) == ("too_many_boxes", "unreadable")
    assert set(facts.libraries) == {"relay-audit"}, "the child loaded none"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_no_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe.mp4"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path, Path("/dev/zero"), tmp_path / "absent.mp4"):
        with pytest.raises(UsageError):
            examine(place)
    link = tmp_path / "link.mp4"
    link.symlink_to(plain())
    assert examine(link).kind == "mp4"


def test_a_page_saved_as_a_film_is_no_film(tmp_path):
    page = tmp_path / "film.mp4"
    page.write_bytes(b"<!doctype html><html><body>The link has expired.</body></html>")
    assert examine(page).refused == "no_media"


def test_a_picture_that_did_not_arrive_whole():
    raw = plain("jpg").read_bytes()
    assert not walk(io.BytesIO(raw)).truncated
    assert not walk(io.BytesIO(raw + b"written behind it")).truncated
    assert walk(io.BytesIO(raw[:-40])).truncated


def test_credentials_kept_elsewhere_are_seen_without_the_library():
    told = png(
        chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp('<r dcterms:provenance="https://store.example/1"/>'))
    )
    assert signer(walk(io.BytesIO(told))) == {"state": "absent", "detail": "remote_manifest"}
    assert signer(walk(io.BytesIO(png()))) == {"state": "absent", "detail": ""}
    assert signer(walk(io.BytesIO(b"RIFF\0\0\0\0AVI \0\0")))["state"] == "not_checked"


def test_an_inflated_text_is_bounded():
    found = images.read_png(
        io.BytesIO(raw := png(chunk(b"zTXt", b"AIGC\0\0" + zlib.compress(bytes(100 << 20))))), len(raw)
    )
    assert all(len(text.value) <= 4 << 20 for text in found.texts)


def test_what_an_encoder_leaves():
    found = walk(plain().open("rb"))
    assert (found.brands, found.compressors, found.codecs) == (
        "isom:isomiso2avc1mp41",
        ["Lavc59.37.100 libx264"],
        ["avc1", "mp4a"],
    )
    assert found.handlers == ["vide|VideoHandler", "soun|SoundHandler"]
    library, settings = library_and_settings([payload for _, payload in found.seis])
    assert library.startswith("x264 - core 164")
    assert "subme=8" in settings
    assert "threads" not in settings
    assert masked("cabac=1 / ref=5 / threads=40 / lookahead_threads=6 / rc=crf") == "cabac=1 ref=5 rc=crf"


def test_a_picture_that_is_shown_turned_has_the_sides_that_are_seen():
    raw = bytearray(plain().read_bytes())
    upright, at = walk(io.BytesIO(raw)), raw.find(b"tkhd") + 4 + 40
    assert upright.width > upright.height
    raw[at : at + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    turned = walk(io.BytesIO(raw))
    assert (turned.width, turned.height) == (upright.height, upright.width)


def test_user_data_of_both_kinds_of_stream():
    mark = bytes.fromhex("91ca60614aee38548 6142d5f73f4ae2e".replace(" ", ""))
    message = b"\x05" + bytes([16 + 8]) + mark + b"kling-ai" + b"\x80"
    for head, hevc in ((b"\x06", False), (b"\x4e\x01", True)):
        unit = head + message
        sample = struct.pack(">I", len(unit)) + unit + struct.pack(">I", 2) + b"\x65\0"
        assert user_data(sample, 4, hevc=hevc) == [("91ca6061-4aee-3854-8614-2d5f73f4ae2e", b"kling-ai")]
    assert user_data(b"\0\0\xff\xff\x06\x05\xff\xff", 4, hevc=False) == []


def test_texts_are_bounded():
    found = Contents("png")
    for _ in range(200):
        found.add("png_text", "k", b"v")
    found.add("png_text", "k", bytes(5 << 20))
    assert len(found.texts) == 64
