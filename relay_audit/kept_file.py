"""A delivered film on its way to the disk: byte for byte, counted, hashed, and searched for our own keys as it comes.

It never lies in memory as a whole. Where a key of ours stands in it, or a limit is passed, nothing of it is kept.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from relay_audit.intake import Intake, Limits
from relay_audit.redaction import Redactor

OVERLAP = 4096
"""Bytes of the chunk before that are searched again: longer than any form of a key."""
SEARCHED = 1 << 20
"""Bytes searched at a time."""
FILM = Limits(first_byte_s=60.0, read_s=60.0, total_s=900.0, max_body=1 << 30)
"""Of one film: a gigabyte, a quarter of an hour."""


class KeptFile(Intake):
    """An `Intake` that keeps on disk what it takes. `sha256` and `whole` say what came of it."""

    def __init__(self, path: Path, redactor: Redactor, encoding: str, limits: Limits, started: float) -> None:
        super().__init__(encoding, limits, started)
        self.path = path
        self.whole = False
        self._limit = limits.max_body
        self._redactor = redactor
        self._hash = hashlib.sha256()
        self._waiting = bytearray()
        self._strange = encoding.strip().lower() not in ("", "identity")
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb")

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def take(self, chunk: bytes, now: float) -> bool:  # noqa: ARG002  the time limits are the transport's
        """Writes a chunk; False means that nothing more is to be read."""
        if self._strange:
            return self.stop("decompression")  # packed although that was not asked for: not the file's own bytes
        self.received += len(chunk)
        self.size += len(chunk)
        if self.size > self._limit:
            return self.stop("too_large")
        self._file.write(chunk)
        self._hash.update(chunk)
        self._waiting += chunk
        if len(self._waiting) >= SEARCHED and not self._clean():
            return self.stop("key_echoed")
        return True

    def finish(self) -> None:
        """The body ended by itself."""
        if self.cut or not self._clean():
            self.stop(self.hostility or "key_echoed")
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self.whole = self.size > 0

    def close(self) -> None:
        """Lets go of the file; what is not whole is removed."""
        self._file.close()
        if not self.whole:
            self.path.unlink(missing_ok=True)

    def _clean(self) -> bool:
        found = self._redactor.holds_own(bytes(self._waiting))
        del self._waiting[:-OVERLAP]
        return not found
