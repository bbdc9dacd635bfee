"""Time stamps of RFC 3161: somebody else says that the evidence head existed at a moment.

The head is the SHA-256 of the terminal event, so the stamp is made over that event and only its hash leaves. A stamp is
checked offline, against the authority's certificates that the reader names; nothing is trusted by itself.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from relay_audit.archive.signing import SealRefused
from relay_audit.endpoint import Endpoint, Outgoing
from relay_audit.errors import TargetError, Unfinished, UsageError
from relay_audit.events import Event
from relay_audit.intake import Limits
from relay_audit.manifest import LARGEST_SEAL
from relay_audit.target import is_loopback, origin_of
from relay_audit.transport import Transport
from relay_audit.words import canonical

try:
    import rfc3161_client as library
except ImportError:  # the extra [timestamp] is not there
    library = None

ASKED_WITH = {"content-type": "application/timestamp-query", "accept": "application/timestamp-reply"}
LIMITS = Limits(first_byte_s=30, read_s=30, total_s=60, max_body=LARGEST_SEAL)
LARGEST_CA_FILE = 4 << 20
EXTRA = "pip install 'relay-audit-toolkit[timestamp]'"
GRANTED = 0


@dataclass(frozen=True)
class Stamp:
    """A time stamp over an evidence head, as the authority sent it."""

    raw: bytes
    """The DER of the whole response, token and certificates included."""
    at: dt.datetime
    authority: str
    """Host that was asked."""


async def ask(transport: Transport, url: str, end: Event, *, allow_private: bool = False) -> Stamp:
    """One free request; it carries the hash of the terminal event `end` and a random number, nothing else.

    Raises `UsageError` for an address that cannot be one and where the library is missing, `Unfinished` where no stamp
    over this very hash came back.
    """
    needed()
    asked = library.TimestampRequestBuilder(sealed_bytes(end), library.HashAlgorithm.SHA256).build()
    parts = _address(url)
    way = Endpoint("official", f"{parts.scheme}://{parts.netloc}", headers=ASKED_WITH, allow_private=allow_private)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    answer = await transport.send(way, Outgoing("POST", path, authenticated=False, raw_body=asked.as_bytes()))
    host = parts.hostname or ""
    if answer.response is None or answer.response.status != 200 or not answer.complete:
        word = answer.failure or (f"status {answer.response.status}" if answer.response else "no answer")
        raise _nothing(host, word)
    try:
        found = _decoded(answer.raw, end.hash)
        if found.nonce != asked.nonce:
            raise SealRefused("other_hash")
    except SealRefused as error:
        raise _nothing(host, error.word) from None
    return Stamp(answer.raw, _moment(found.gen_time), host)


def sealed_bytes(event: Event) -> bytes:
    """The bytes whose SHA-256 is the event's hash."""
    return canonical(event.model_dump(mode="json", exclude={"hash"}))


def dated(raw: bytes, head: str, authorities: Path) -> dt.datetime:
    """The moment that an authority of the given PEM file signed for `head`. Raises `SealRefused`; `UsageError` where the
    file holds no certificates or the library is missing. Certificates have to be valid then, not today."""
    needed()
    roots = _certificates(authorities)
    info = _decoded(raw, head)
    try:
        library.VerifierBuilder(roots=roots).build().verify(library.decode_timestamp_response(raw), bytes.fromhex(head))
    except (library.VerificationError, ValueError, TypeError):
        raise SealRefused("not_signed") from None
    return _moment(info.gen_time)


def look(raw: bytes, head: str) -> None:
    """What can be told of a stamp without anybody's certificates: that it is one, and over `head`. Raises `SealRefused`;
    says nothing where the extra is not installed."""
    if library is not None:
        _decoded(raw, head)


def needed() -> None:
    """Raises `UsageError` where the extra that reads time stamps is not installed."""
    if library is None:
        raise UsageError("time stamps need an extra that is not installed", next_step=EXTRA)


def _decoded(raw: bytes, head: str) -> Any:  # noqa: ANN401  a type of the optional library
    """What the stamp says of itself, unsigned so far. Raises `SealRefused`."""
    try:
        response = library.decode_timestamp_response(raw)
        if response.status != GRANTED:
            raise SealRefused("unreadable")
        info = response.tst_info
        imprint = info.message_imprint.message
    except (ValueError, TypeError, OverflowError):
        raise SealRefused("unreadable") from None
    if imprint != bytes.fromhex(head):
        raise SealRefused("other_hash")
    return info


def _moment(when: dt.datetime) -> dt.datetime:
    return when.astimezone(dt.UTC) if when.tzinfo else when.replace(tzinfo=dt.UTC)


def _address(url: str) -> Any:  # noqa: ANN401  a split address
    try:
        parts = urlsplit(url.strip())
        origin_of(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except (ValueError, TargetError):
        sound = False
    if not sound:
        raise UsageError("this is not the address of a time stamp authority", next_step="--timestamp https://HOST/PATH")
    if parts.scheme == "http" and not is_loopback(url.strip()):
        raise UsageError(
            "over plain http anybody on the way learns which hash was dated, and may answer instead; nothing was sent",
            next_step="name an authority that listens on https (http only to loopback)",
        )
    return parts


def _certificates(path: Path) -> list[x509.Certificate]:
    try:
        raw = path.read_bytes() if path.stat().st_size <= LARGEST_CA_FILE else b""
        return x509.load_pem_x509_certificates(raw)
    except (OSError, ValueError):
        raise UsageError(
            "the file holds no PEM certificates that could be read",
            next_step="give the authority's root (and intermediate) certificates: --tsa-ca ca.pem",
        ) from None


def _nothing(host: str, word: str) -> Unfinished:
    return Unfinished(
        f"no time stamp over this head came from {host} ({word}); no archive was written",
        next_step="ask another authority, or export without --timestamp",
    )
