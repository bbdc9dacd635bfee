"""One file into `MediaFacts`: a child process reads it, this one takes its hash and puts the parts together."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from io import BufferedReader
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from relay_audit import __version__
from relay_audit.errors import UsageError
from relay_audit.media_facts import Encoder, Integrity, Label, MediaFacts, Signer, Workflow

SECONDS = 90
"""Of wall time, for the whole child."""
ANSWER_AT_MOST = 8 << 20
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from pathlib import Path; "
    "from relay_audit.media.worker import main; main(Path(sys.argv[2]))"
)
KEPT_VARIABLES = ("SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG")
"""All the child is told of our environment: what loads libraries and makes temporary files."""
DIED, NO_MEDIA = "parser_died", "no_media"
"""A child that ended early; a text, an archive, anything in which nobody finds a picture or a sound."""
PICTURE: dict[str, type[int] | type[float]] = {"width": int, "height": int, "seconds": float}


def examine(path: Path, seconds: float = SECONDS) -> MediaFacts:
    """What the file says of itself. Raises `UsageError` where it cannot be opened; anything odd inside it is a fact."""
    try:
        with _regular(path) as file, tempfile.TemporaryFile() as answer:
            child = _start(path, answer.fileno())
            try:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
                child.wait(seconds)
                end = "" if child.returncode == 0 else DIED
            except subprocess.TimeoutExpired:
                end = "out_of_time"
            finally:
                child.kill()
                child.wait()
            answer.seek(0)
            parts = _parts(answer.read(ANSWER_AT_MOST))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"{path.name} cannot be read: {reason}", next_step="name a file of yours") from None
    bare = MediaFacts(name=path.name, sha256=sha256, size=size, libraries={"relay-audit": __version__})
    try:
        return together(bare, parts, end)
    except (ValidationError, KeyError, TypeError, AttributeError):
        return together(bare, {}, DIED)  # what a stranger's file made of the child is no answer of ours


def _regular(path: Path) -> BufferedReader:
    """Opened without waiting for a writer at a pipe's other end; what has no end of its own is not read."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return file
    file.close()
    raise UsageError(f"{path.name} is no file", next_step="save what it gives as a file, and name that")


def _start(path: Path, answer: int) -> subprocess.Popen[bytes]:
    """A Python without our environment and without the current folder among its modules."""
    places = [str(Path(place).absolute()) for place in sys.path if place]
    return subprocess.Popen(  # noqa: S603  ourselves, with a file's name as an argument
        [sys.executable, "-I", "-c", PROGRAM, json.dumps(places), str(path.absolute())],
        stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
    )  # fmt: skip


def _parts(raw: bytes) -> dict[str, dict[str, Any]]:
    """The finished parts; a line cut off in the middle belongs to a part that did not finish."""
    parts: dict[str, dict[str, Any]] = {}
    for line in raw.splitlines():
        try:
            parts |= json.loads(line)
        except ValueError:
            continue
    return parts


def together(bare: MediaFacts, parts: dict[str, dict[str, Any]], end: str) -> MediaFacts:
    told = {str(name): str(value) for name, value in parts.get("libraries", {}).items()}
    libraries = bare.libraries | told
    if "refused" in parts or "contents" not in parts:
        refused = str(parts["refused"]["reason"]) if "refused" in parts else end or DIED
        integrity = Integrity(state="unreadable", detail=refused)
        return bare.model_copy(update={"refused": refused, "integrity": integrity, "libraries": libraries})
    contents, signer, extra = parts["contents"], parts.get("signer", {}), parts.get("mediainfo", {})
    if (
        contents["kind"] == "other"
        and extra.get("media") is False
        and parts.get("integrity", {}).get("state") != "read"
    ):
        integrity = Integrity(state="unreadable", detail=NO_MEDIA)
        return bare.model_copy(update={"refused": NO_MEDIA, "integrity": integrity, "libraries": libraries})
    read = Signer.model_validate(signer["signer"]) if signer.get("signer") else None
    lost = Integrity(state="unreadable", detail=end or DIED)
    return bare.model_copy(
        update={
            "kind": contents["kind"],
            "fragment": contents["fragment"],
            "truncated": contents["truncated"],
            **{name: type_(contents["picture"][name]) for name, type_ in PICTURE.items()},
            "integrity": Integrity.model_validate(parts["integrity"]) if "integrity" in parts else lost,
            "signer_state": signer.get("state", "unreadable"),
            "signer": read,
            "signer_detail": str(signer.get("detail", "") if signer else end or DIED),
            "serial": str(signer.get("serial", "")),
            "encoder": _encoder(Encoder.model_validate(contents["encoder"]), extra),
            "labels": _both(Label, contents, extra, "labels"),
            "workflows": _both(Workflow, contents, extra, "workflows"),
            "libraries": libraries,
        }
    )


def _encoder(own: Encoder, extra: dict[str, Any]) -> Encoder:
    """Ours first: it is the same with and without MediaInfo, so pins stay comparable."""
    codecs = own.codecs or ((str(extra["codec"]),) if extra.get("codec") else ())
    update = {name: getattr(own, name) or str(extra.get(name, "")) for name in ("application", "library", "settings")}
    return own.model_copy(update={**update, "codecs": codecs})


def _both(
    kind: type[Label] | type[Workflow], contents: dict[str, Any], extra: dict[str, Any], name: str
) -> tuple[Label | Workflow, ...]:
    """From our walk; from MediaInfo only where the walk found none, since both read the same places."""
    rows = contents.get(name) or extra.get(name) or []
    return tuple(kind.model_validate(row) for row in rows)
