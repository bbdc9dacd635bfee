"""An archive as one ZIP file: the same run gives the same bytes, and a stranger's file harms nobody.

Members are stored, not compressed: the bytes do not depend on a compression library, anybody can open the file, and no
member can be larger than the file it came in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from relay_audit.archive.contents import Contents, given
from relay_audit.errors import ArchiveRefused, UsageError
from relay_audit.evidence import SCHEMA_VERSION
from relay_audit.manifest import (
    ARCHIVE_VERSION,
    BLOBS,
    DERIVED,
    DERIVED_NAMES,
    EVENTS,
    FORMAT,
    LARGEST_SEAL,
    MANIFEST,
    SIGNATURE,
    TIME_STAMP,
    Manifest,
)

LARGEST_FILE = 4 << 30
MOST_MEMBERS = 200_000
LARGEST_MEMBER = 512 << 20
NAMES = re.compile(
    rf"{re.escape(MANIFEST)}|{re.escape(EVENTS)}|{re.escape(SIGNATURE)}|{re.escape(TIME_STAMP)}"
    rf"|{re.escape(BLOBS)}[0-9a-f]{{64}}|{re.escape(DERIVED)}(?:{'|'.join(DERIVED_NAMES)})\.json"
)
"""All that an archive holds. No other name is ever looked at, so that none can lead out of a folder."""
LOCAL = struct.Struct("<4s4xH16xHH")
"""Of a member's own header: its mark, how it is packed, how long its name and its extra field are."""
TAIL = 66_000
"""Bytes from the end in which a ZIP says where its list of members is."""
EPOCH = (1980, 1, 1, 0, 0, 0)
ADVICE = "Ask whoever made it for the archive as `relay-audit export` wrote it."


@dataclass
class Archive:
    """An archive that was opened and is what it says, as far as that can be told without reading its members."""

    path: Path
    manifest: Manifest
    manifest_raw: bytes
    zip: zipfile.ZipFile
    file: BinaryIO
    """The same file, for its members' bytes."""
    names: frozenset[str]

    def read(self, name: str) -> bytes:
        """A member, which lies in the file as it is: each byte is read once, and told by its digest, not by a checksum
        besides. Raises `ArchiveRefused` where it is not there or cannot be read."""
        if name not in self.names:
            raise refused(f"the archive lacks {name}")
        entry = self.zip.getinfo(name)
        try:
            self.file.seek(entry.header_offset)
            head = LOCAL.unpack(self.file.read(LOCAL.size))
            own = self.file.read(head[2])
            self.file.seek(head[3], os.SEEK_CUR)
            raw = self.file.read(entry.file_size)
        except (OSError, ValueError, struct.error) as error:
            raise refused(f"{name} cannot be read ({type(error).__name__})") from error
        if head[:2] != (b"PK\3\4", zipfile.ZIP_STORED) or own != name.encode() or len(raw) != entry.file_size:
            raise refused(f"{name} cannot be read (its own header says otherwise)")
        return raw

    def blob(self, sha: str) -> bytes:
        """The bytes of a blob, which are what their name says. Raises `ArchiveRefused`."""
        raw = self.read(f"{BLOBS}{sha}")
        if hashlib.sha256(raw).hexdigest() != sha:
            raise refused(f"the blob {sha} is not what its name says")
        return raw

    def lines(self) -> list[bytes]:
        """The events, one line each. Raises `ArchiveRefused`."""
        return self.read(EVENTS).removesuffix(b"\n").split(b"\n")


def write_archive(contents: Contents, path: Path, seals: dict[str, bytes] | None = None) -> str:
    """The archive as a private file, whole or not at all; returns its SHA-256. The same contents give the same bytes."""
    members = [(MANIFEST, given(contents.manifest.raw)), *contents.members]
    members += [(name, given(raw)) for name, raw in sorted((seals or {}).items())]
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".archive-")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", next_step="name another file: -o FILE"
        ) from None
    try:
        with os.fdopen(handle, "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as out:
                for name, read in members:
                    out.writestr(_entry(name), read())
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            sha = hashlib.file_digest(file, "sha256").hexdigest()
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return sha


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """A stranger's file, opened within limits. Raises `ArchiveRefused` for anything that is not an archive of ours."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            raise refused("this is not a file, or one beyond every archive's size")
        _check_directory(path)
        file = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise refused(f"this is not an archive ({type(error).__name__})") from error
    with file, path.open("rb") as bare:
        names = _checked_names(file, path.stat().st_size)
        if MANIFEST not in names or EVENTS not in names:
            raise refused("manifest or events are missing")
        try:
            raw = file.read(MANIFEST)
        except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
            raise refused(f"its manifest cannot be read ({type(error).__name__})") from error
        yield Archive(path, _manifest(raw), raw, file, bare, names)


def refused(what: str) -> ArchiveRefused:
    return ArchiveRefused(f"the archive is refused: {what}", next_step=ADVICE)


def _check_directory(path: Path) -> None:
    """The list of members is bounded before it is read: it alone could fill the memory."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - TAIL))
        tail = file.read(TAIL)
        end = tail.rfind(b"PK\5\6")
        if end < 0 or len(tail) - end < 22:
            raise refused("it has no list of members")
        length = struct.unpack_from("<L", tail, end + 12)[0]
        if length == 0xFFFFFFFF and end >= 20 and tail[end - 20 : end - 16] == b"PK\6\7":
            file.seek(min(struct.unpack_from("<Q", tail, end - 12)[0], size))
            record = file.read(56)
            length = struct.unpack_from("<Q", record, 40)[0] if len(record) == 56 else length
    if length > MOST_MEMBERS * 150:
        raise refused("its list of members is too long")


def _checked_names(file: zipfile.ZipFile, size: int) -> frozenset[str]:
    entries = file.infolist()
    if len(entries) > MOST_MEMBERS or sum(e.compress_size for e in entries) > size:
        raise refused("it lists more than it can hold")
    names: set[str] = set()
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        largest = LARGEST_SEAL if entry.filename in (SIGNATURE, TIME_STAMP) else LARGEST_MEMBER
        if not NAMES.fullmatch(entry.filename):
            raise refused("it holds a member that no archive has")
        if entry.filename in names:
            raise refused("it holds one name twice")
        if kind not in (0, stat.S_IFREG) or entry.is_dir():
            raise refused("it holds something that is not a plain file")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
            raise refused("a member is compressed or encrypted; members of an archive are stored as they are")
        if entry.file_size > largest:
            raise refused("a member is too large")
        names.add(entry.filename)
    return frozenset(names)


def _manifest(raw: bytes) -> Manifest:
    try:
        table = json.loads(raw)
    except (ValueError, RecursionError):
        raise refused("its manifest is not JSON") from None
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise refused("its manifest is not one of ours")
    for name, known in (("archive_version", ARCHIVE_VERSION), ("schema_version", SCHEMA_VERSION)):
        version = table.get(name)
        if isinstance(version, int) and version > known:
            raise ArchiveRefused(
                f"the archive has {name} {version}; this version reads up to {known}", next_step="Update relay-audit."
            )
    try:
        return Manifest.model_validate(table)
    except ValidationError as error:
        place = ".".join(map(str, error.errors(include_input=False, include_url=False)[0]["loc"]))
        raise refused(f"its manifest breaks the schema at {place[:80]}") from None


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = (stat.S_IFREG | 0o600) << 16
    entry.create_system = 3
    return entry
