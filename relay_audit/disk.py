"""Private, durable files, and whether a place can hold a run at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

from relay_audit.errors import StoreError, UsageError

if sys.platform == "darwin":
    import fcntl

MOUNTS = Path("/proc/self/mountinfo")
"""Where Linux says what is mounted; where it is missing, nothing is known and nothing is refused."""

_NETWORK = re.compile(
    r"nfs\d*|cifs|smb\w*|ncpfs|davfs\d*|afs|ceph|lustre|gpfs|beegfs|gfs2?|ocfs2|glusterfs|orangefs"
    r"|fuse\.(sshfs|davfs\d*|s3fs|gcsfuse|rclone|glusterfs|ceph|ceph-fuse|goofys|juicefs|blobfuse\d*|smbnetfs|curlftpfs)"
)
"""They share files between hosts but not the memory that a write-ahead log needs; locks may be advisory or absent."""
_OCTAL = re.compile(r"\\([0-7]{3})")
_SYNCED = re.compile(
    r"(dropbox|onedrive|icloud ?drive|icloud|mobile documents|com~apple~clouddocs|cloudstorage|google ?drive|nutstore|"
    r"baidunetdisk|baidusyncdisk|nextcloud|owncloud|seafile|pcloud ?drive|box sync)([ (_-].*)?"
    r"|.*(坚果云|百度网盘|同步盘|同步空间).*",
    re.IGNORECASE,
)


def check_filesystem(path: Path, mounts: Path = MOUNTS, variable: str = "RELAY_AUDIT_RUNS") -> None:
    """Refuses a network file system, where two writers could each believe that they hold the only lock. `mounts` is the
    table to read; `variable` names what moves the folder elsewhere."""
    kind = "share" if path.drive.startswith("\\\\") else _filesystem(path, mounts)
    if kind == "share" or _NETWORK.fullmatch(kind):
        raise UsageError(
            f"{path} is on a network file system ({kind}), which cannot keep what a run promises",
            next_step=f"Set {variable} to a folder on a local disk; copy finished reports wherever you like.",
        )


def folder_warnings(root: Path, platform: str = sys.platform) -> list[str]:
    """Message keys for what a person should know about this place. Nothing here stops a run."""
    warnings = []
    if any(_SYNCED.fullmatch(part) for part in root.absolute().parts):
        warnings.append("synced_folder")
    if platform == "win32":
        warnings.append("windows_permissions")
    return warnings


def write_durably(target: Path, raw: bytes) -> None:
    """Whole or not at all: a private temporary file, its bytes on disk, then the name, then the folder."""
    draft = target.parent / f".new-{secrets.token_hex(6)}"
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(raw)
            file.flush()
            _flush(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def move_durably(file: Path, target: Path) -> None:
    """A file whose bytes are on disk gets its place, and the place is on disk too."""
    file.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """A rename is durable when its folder is. Windows has no such call and does it by itself."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush(handle: int) -> None:
    """macOS keeps what `fsync` gave it in the disk's cache; a power cut would take it."""
    if sys.platform == "darwin":
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


@contextlib.contextmanager
def file_errors(what: str) -> Iterator[None]:
    """An accident of the disk as an error that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        step = "See that the folder is writable and the disk not full, then try again."
        raise StoreError(f"{what}: {reason}", next_step=step) from error


def _filesystem(path: Path, mounts: Path) -> str:
    """The type of the innermost mount that holds `path`; empty where nobody says."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place, depth, kind = path.resolve(), -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, types = left.split(" "), right.split(" ")
        if len(fields) < 5:
            continue
        point = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # On equal depth the later line was mounted over the earlier one.
        if place.is_relative_to(point) and len(point.parts) >= depth:
            depth, kind = len(point.parts), types[0]
    return kind
