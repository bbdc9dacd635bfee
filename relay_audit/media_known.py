"""What is known about media files: who signs, what originals carry, which keys are public, who may sign for others."""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal

from pydantic import Field, field_validator

from relay_audit.marks import Known


class MediaSigner(Known):
    """A certificate seen under a vendor's originals. The hashes decide; the names are there to be read."""

    vendor: str
    leaf_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    leaf_spki_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    issuing_key: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the issuing certificate's public key."""
    organisation: str
    organisation_id: str = ""
    not_before: dt.datetime
    not_after: dt.datetime
    public_root: bool
    """Whether its chain ends in a root or authority that anybody can look up."""


class MediaProfile(Known):
    """What a vendor's originals carry, per route and date. A buyer's own pin outranks it."""

    name: str
    vendor: str
    credentials: Literal["always", "sometimes", "never", "unknown"]
    label: Literal["present", "absent", "unknown"]
    label_producers: tuple[str, ...] = ()
    """Patterns of the producer that the label names."""
    sei: tuple[str, ...] = ()
    """UUIDs of user data in the stream."""
    models: tuple[str, ...] = ()
    """Patterns of the names under which its models are sold."""
    hosts: tuple[str, ...] = ()
    """Patterns of the whole host name from which the vendor delivers films."""
    task_id: str = ""
    """Pattern of the vendor's own task numbers; a group `time` holds YYYYMMDDHHMMSS."""
    task_zone_hours: int = 0
    """Of that time, east of UTC."""
    frames_per_second: tuple[int, ...] = ()
    """Where usage follows from size and length (floor(w·h·(fps·seconds + 1) / 1024)): the rates that were seen."""
    organisations: tuple[str, ...] = ()
    """Names that stand in its certificates, and in those of anybody who writes them there."""

    @field_validator("label_producers", "hosts")
    @classmethod
    def _compile(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            re.compile(pattern)
        return value


class DeniedCertificate(Known):
    """A certificate whose private key is published: anybody can sign with it."""

    leaf_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    leaf_spki_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class MediaAuthority(Known):
    """A public authority for media signatures that operating systems do not list. A name alone proves nothing; it
    keeps an unknown certificate from being held against anybody."""

    pattern: str
    """Searched in the name of whoever issued the last certificate of a chain."""
    keys: tuple[str, ...] = ()
    """SHA-256 of its issuing keys, as far as seen."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        re.compile(value)
        return value
