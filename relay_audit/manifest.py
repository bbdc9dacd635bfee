"""What one archive file says of itself: what is in it, by which digest, and what was left out.

The archive is a ZIP of stored members: `manifest.json`, `events.ndjson`, `blobs/<sha256>`, in the vendor's edition also
`derived/*.json`, and optional seals. `docs/archive.schema.json` is generated from here; `docs/read_archive.py` reads one
without anything of ours. Rule for versions: readers accept every older `schema_version`, writers write the newest only,
and fields that a reader does not know are kept.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from relay_audit.events import Event, Redaction
from relay_audit.words import Bilingual, Side, canonical, digest

FORMAT = "relay-audit archive"
ARCHIVE_VERSION = 1
"""Of this layout; one that a reader does not know yet is refused with advice."""
MANIFEST, EVENTS, BLOBS, DERIVED = "manifest.json", "events.ndjson", "blobs/", "derived/"
SIGNATURE, TIME_STAMP = "seals/manifest.sig", "seals/head.tsr"
"""Not in the manifest: they are made over it, or over the head in it."""
LARGEST_SEAL = 64 << 10
"""Bytes; a time stamp with its certificates has a few thousand."""
DERIVED_NAMES = ("subject", "pack", "findings", "log", "prices")
SHA256 = r"^[0-9a-f]{64}$"

Edition = Literal["full", "vendor"]


class Open(BaseModel):
    """What crosses between versions: unknown fields are kept, inputs never quoted in errors."""

    model_config = ConfigDict(
        frozen=True, extra="allow", hide_input_in_errors=True, defer_build=True, populate_by_name=True,
        serialize_by_alias=True,
    )  # fmt: skip


class Part(Open):
    """A member of the archive besides blobs."""

    name: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=SHA256)


class Blob(Open):
    """A blob and its readable neighbour: nothing in an archive can be understood through a digest alone."""

    sha256: str = Field(pattern=SHA256)
    bytes: int = Field(ge=0)
    kind: str
    """What it holds: the event type that names it, `session` or `files`."""
    seq: tuple[int, ...] = ()
    """The events that name it."""
    about: str = ""
    """In our words: exchange, side, step, status, time."""


class Withheld(Open):
    """Bytes that are not here, and why: a tombstone, or what this edition leaves out."""

    sha256: str = Field(pattern=SHA256)
    reason: str
    seq: tuple[int, ...] = ()


class Sealed(Open):
    """Something only its maker can read (a thinking signature, encrypted content), with what can be read of it."""

    exchange: str
    pointer: str
    """Where it stands in the answer."""
    kind: str
    bytes: int
    sha256: str = Field(pattern=SHA256)
    neighbour: str
    """What stands beside it in clear text, or what is known of it."""


class ServerCopy(Open):
    """What a server may still hold of this run. The archive never needs it: the answer itself is here."""

    side: Side
    host: str
    exchange: str
    kind: Literal["response", "task", "file", "log_row"]
    untrusted_id: str
    """As the server calls it; empty where it gave no id."""
    at: dt.datetime
    stored: Literal["asked", "refused", "default", "unknown"]
    """Whether the request asked for storage, forbade it, left it to the default, or nobody knows."""
    retention: str
    """What the maker documents, or `unknown`."""


class Manifest(Open):
    format: Literal["relay-audit archive"] = "relay-audit archive"
    archive_version: int = ARCHIVE_VERSION
    schema_version: int
    """Of the evidence in it."""
    edition: Edition
    run_id: str
    status: str
    evidence_head: str
    """Hash of the terminal event; empty where the run has none."""
    last_hash: str
    """Hash of the last event in the archive."""
    events: int
    left_out: int = 0
    """Events of which only the hash is here."""
    tool_version: str
    libraries: dict[str, str] = Field(default_factory=dict)
    """Of the day of the run."""
    packs: dict[str, str] = Field(default_factory=dict)
    """Path → SHA-256 of each probe file the run was planned with."""
    knowledge: dict[str, str] = Field(default_factory=dict)
    """Path → SHA-256 of each knowledge file."""
    knowledge_digest: str
    baselines: tuple[str, ...] = ()
    """Who vouches for baselines that were given for the run."""
    parts: tuple[Part, ...]
    blobs: tuple[Blob, ...]
    withheld: tuple[Withheld, ...] = ()
    sealed: tuple[Sealed, ...] = ()
    server_copies: tuple[ServerCopy, ...] = ()
    proves: Bilingual
    """What the archive shows and what it does not."""

    @property
    def raw(self) -> bytes:
        """The bytes of `manifest.json`."""
        return canonical(self.model_dump(mode="json", by_alias=True))

    @property
    def digest(self) -> str:
        """What a report prints of its archive: SHA-256 of `manifest.json`."""
        return digest(self.model_dump(mode="json", by_alias=True))


class LeftOut(Open):
    """An event that this edition does not show; its hash keeps the chain whole."""

    seq: int = Field(ge=1)
    hash: str = Field(pattern=SHA256)
    left_out: Redaction


def event_line(event: Event) -> bytes:
    return canonical(event.model_dump(mode="json")) + b"\n"


def left_out_line(event: Event) -> bytes:
    line = LeftOut(seq=event.seq, hash=event.hash, left_out=event.redaction)
    return canonical(line.model_dump(mode="json")) + b"\n"


def models() -> tuple[type[Any], ...]:
    """The types of which `docs/archive.schema.json` is made."""
    return (Manifest, Event, LeftOut)
