"""The program of the child process: limits, then the walk, then the parsers; a line of JSON for each finished part.

What was printed before a part dies stays. The child has no environment of ours, so no key is near a stranger's bytes.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

from relay_audit.media.contents import Contents, Malformed, Text
from relay_audit.media.images import PNG, read_jpeg, read_png, read_webp
from relay_audit.media.jumbf import StoreUnreadable
from relay_audit.media.marks import labels, workflows
from relay_audit.media.mp4 import read_mp4
from relay_audit.media.sei import library_and_settings, masked

resource: Any
try:
    import resource
except ImportError:  # Windows: the parent's time limit is all there is
    resource = None

MEMORY = 2 << 30
"""Bytes of address space."""
CPU_SECONDS = 60
ANSWER = 8 << 20
"""Bytes the child may write."""
MATROSKA = b"\x1a\x45\xdf\xa3"
MP4_STARTS = (b"ftyp", b"styp", b"uuid", b"free", b"skip", b"moov", b"mdat", b"wide")
PROVENANCE = "dcterms:provenance"
"""By this XMP property a file names credentials that are kept elsewhere."""
TEXT_SHOWN = 60
MEDIA_TRACKS = ("Video", "Image", "Audio")
_print_lock = threading.Lock()


def limit() -> None:
    """Where the system has no such limit, the time limit of the parent remains."""
    if resource is None:
        return
    for what, value in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, ANSWER),
    ):
        try:
            resource.setrlimit(what, (value, value))
        except (OSError, ValueError):
            continue


def main(path: Path) -> None:
    """The C2PA library takes most of the time and works outside the interpreter's lock: it starts as soon as the walk
    is done, and everything else is loaded and read meanwhile."""
    limit()
    with path.open("rb") as file:
        try:
            contents = walk(file)
        except Malformed as reason:
            tell("refused", {"reason": reason.reason})
            return
    checking = threading.Thread(target=lambda: tell("integrity", part("native").integrity(path)))
    tell("contents", described(contents))
    checking.start()
    tell("signer", signer(contents))
    tell("mediainfo", told_by_mediainfo(path))
    tell("libraries", part("native").libraries() | part("signature").versions())
    checking.join()


def part(name: str) -> Any:  # noqa: ANN401  a module
    """A heavy part of this package, loaded when its turn comes."""
    return importlib.import_module(f"relay_audit.media.{name}")


def tell(part: str, value: dict[str, Any]) -> None:
    with _print_lock:
        sys.stdout.write(json.dumps({part: value}) + "\n")
        sys.stdout.flush()


def walk(file: BinaryIO) -> Contents:
    """The file's own structure, whatever its name says. Raises `Malformed`."""
    size = file.seek(0, 2)
    if not size:
        raise Malformed("empty_file")
    file.seek(0)
    head = file.read(12)
    if head[:2] == b"\xff\xd8":
        return read_jpeg(file, size)
    if head.startswith(PNG):
        return read_png(file, size)
    if head[:4] == b"RIFF" and head[8:] == b"WEBP":
        return read_webp(file, size)
    if head[4:8] in MP4_STARTS:
        return read_mp4(file, size)
    return Contents("matroska" if head[:4] == MATROSKA else "other")


def described(contents: Contents) -> dict[str, Any]:
    """The part of `MediaFacts` that the walk alone gives."""
    library, settings = library_and_settings([payload for _, payload in contents.seis])
    return {
        "kind": contents.kind,
        "fragment": contents.fragment,
        "truncated": contents.truncated,
        "picture": {"width": contents.width, "height": contents.height, "seconds": min(contents.seconds, 1e6)},
        "encoder": {
            "library": library,
            "settings": settings,
            "seis": [_sei(uuid, payload) for uuid, payload in contents.seis],
            "compressors": contents.compressors,
            "codecs": contents.codecs,
            "application": _application(contents),
            "brands": contents.brands,
            "handlers": contents.handlers,
            "tree": hashlib.sha256("\n".join(contents.tree).encode()).hexdigest() if contents.tree else "",
        },
        "labels": labels(contents.texts),
        "workflows": workflows(contents.texts),
    }


def _sei(uuid: str, payload: bytes) -> str:
    """The UUID, and the text behind it unless it is the encoder's own line, which stands elsewhere."""
    text = payload.split(b"\0")[0]
    if not text or text.startswith((b"x264", b"x265")) or len(text) > TEXT_SHOWN or not text.isascii():
        return uuid
    return f"{uuid} {text.decode('ascii')}" if text.decode("ascii").isprintable() else uuid


def _application(contents: Contents) -> str:
    return next((text.value[:80] for text in contents.texts if text.key in ("encoder", "\xa9too", "©too")), "")


def signer(contents: Contents) -> dict[str, Any]:
    if not contents.stores and contents.kind == "other":
        return {"state": "not_checked", "detail": "format_not_followed"}  # where they would stand is not known here
    if not contents.stores:
        elsewhere = any(text.carrier == "xmp" and PROVENANCE in text.value for text in contents.texts)
        return {"state": "absent", "detail": "remote_manifest" if elsewhere else ""}
    if len(contents.stores) > 1:
        return {"state": "unreadable", "detail": "two_stores"}
    try:
        signature = part("signature")
        found, serial = signature.read_signer(contents.stores[0], signature.public_roots())
    except StoreUnreadable as reason:
        return {"state": "unreadable", "detail": reason.reason}
    return {"state": "read", "signer": found, "serial": serial}


def told_by_mediainfo(path: Path) -> dict[str, Any]:
    """What MediaInfo adds: containers that our walk does not follow, and encoders that leave no line of their own."""
    tracks = part("native").media_info(path)
    if tracks is None:
        return {}
    general: dict[str, Any] = next((track for track in tracks if track.get("track_type") == "General"), {})
    video: dict[str, Any] = next((track for track in tracks if track.get("track_type") == "Video"), {})
    texts = [
        Text("mediainfo", name, str(general[name]))
        for name in ("aigc", "prompt", "workflow", "comment")
        if general.get(name)
    ]
    return {
        "application": str(general.get("writing_application") or general.get("encoder") or "")[:80],
        "library": str(video.get("writing_library") or "")[:120],
        "settings": masked(str(video.get("encoding_settings") or "")),
        "codec": str(video.get("format") or "")[:40],
        "media": any(track.get("track_type") in MEDIA_TRACKS for track in tracks),
        "labels": labels(texts),
        "workflows": workflows(texts),
    }
