"""What others vouch for: a signature over an archive's manifest, a third party's time stamp over the evidence head.

A chain made by the buyer shows that nothing changed since; the buyer could have written all of it yesterday. A seal adds
who stands behind an archive, or since when it exists. Neither says that the answers came from that server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from relay_audit.archive import stamping
from relay_audit.archive.chain import Problem
from relay_audit.archive.contents import Contents
from relay_audit.archive.signing import SealRefused, key_of, sign, signer
from relay_audit.archive.zipped import Archive
from relay_audit.clock import Clock
from relay_audit.errors import StoreError, UsageError
from relay_audit.events import Draft
from relay_audit.manifest import SIGNATURE, TIME_STAMP
from relay_audit.redaction import Redactor
from relay_audit.store import Store
from relay_audit.transport import Inner, Transport


@dataclass(frozen=True)
class Trust:
    """Files that the reader names: whom he believes. Nobody is believed by default."""

    signers: Path | None = None
    """Allowed signers, in the format of `ssh-keygen`."""
    authorities: Path | None = None
    """PEM certificates of a time stamp authority: its root, and what lies between."""


NOBODY = Trust()


@dataclass
class Checked:
    """What checking seals gave: damage, and what should be known."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def stamped(store: Store, url: str, clock: Clock, *, allow_private: bool = False, inner: Inner | None = None) -> Draft:
    """Asks a time stamp authority once, and gives the event that keeps its answer; the blob is stored.

    Raises `UsageError` for a run without an end, a bad address or a missing extra; `Unfinished` where no stamp came.
    """
    end = store.terminal()
    if end is None:
        raise UsageError(
            "a time stamp is made over the end of a run, and this one has none yet",
            next_step=f"relay-audit status {store.run_id}",
        )
    transport = Transport(Redactor([], b""), clock, stamping.LIMITS, inner)
    stamp = asyncio.run(stamping.ask(transport, url, end, allow_private=allow_private))
    payload = {"kind": "timestamp", "head": end.hash, "authority": stamp.authority, "at": stamp.at}
    return Draft("stamp.recorded", payload, "human", store.put_blob(stamp.raw))


def signed(store: Store, packed: Contents, key: Path) -> Draft:
    """Signs the manifest; the event keeps the signature, whose blob is stored. Raises `UsageError`."""
    manifest = packed.manifest
    payload = {"kind": "signature", "head": manifest.evidence_head, "sha256": manifest.digest}
    return Draft("stamp.recorded", payload, "human", store.put_blob(sign(manifest.raw, key)))


def seals_of(store: Store, digest: str) -> dict[str, bytes]:
    """The members that go into an archive with this manifest digest: the latest time stamp over the run's end, and the
    signature over this very manifest, as far as the run holds them."""
    found: dict[str, bytes] = {}
    head = store.head()
    for event in store.events_of("stamp.recorded"):
        mine = {"timestamp": (TIME_STAMP, head, "head"), "signature": (SIGNATURE, digest, "sha256")}
        name, wanted, key = mine[event.payload["kind"]]
        if wanted and event.payload.get(key) == wanted:
            found[name] = store.blob(event.payload_ref)
    return found


def check_archive_seals(archive: Archive, head: str, trust: Trust) -> Checked:
    """The seals in an archive. Raises `UsageError` for a file of trust that cannot be read."""
    found = Checked()
    signatures = [archive.read(SIGNATURE)] if SIGNATURE in archive.names else []
    stamps = [archive.read(TIME_STAMP)] if TIME_STAMP in archive.names else []
    _signature(archive.manifest_raw, signatures, trust.signers, found)
    _stamps(head, stamps, trust.authorities, found)
    return found


def check_run_seals(store: Store, trust: Trust) -> Checked:
    """The seals that a run holds. A signature is one over an archive's manifest: it is checked with that file."""
    if trust.signers is not None:
        raise UsageError(
            "a signature is over an archive, not over a run",
            next_step="relay-audit verify ARCHIVE --allowed-signers FILE",
        )
    found, stamps = Checked(), []
    for event in store.events_of("stamp.recorded"):
        if event.payload["kind"] == "timestamp":
            try:
                stamps.append(store.blob(event.payload_ref))
            except StoreError:
                continue  # taken away, or damaged: the walk along the blobs has said so
        elif event.type == "stamp.recorded":
            found.notes.append(Problem("signature_kept", {"digest": event.payload.get("sha256", "")}))
    _stamps(store.head(), stamps, trust.authorities, found)
    return found


def _signature(raw: bytes, signatures: Iterable[bytes], signers: Path | None, found: Checked) -> None:
    signature = next(iter(signatures), None)
    if signature is None:
        if signers is not None:
            found.problems.append(Problem("signature_missing"))
        return
    try:
        if signers is not None:
            found.notes.append(Problem("signed", {"what": signer(raw, signature, signers)}))
        else:
            found.notes.append(Problem("signature_unchecked", {"what": key_of(raw, signature)}))
    except SealRefused as error:
        found.problems.append(Problem("signature", {"what": error.word}))


def _stamps(head: str, stamps: list[bytes], authorities: Path | None, found: Checked) -> None:
    """With a file of authorities, one of the stamps has to be theirs; without, what can be told is told."""
    if not stamps:
        if authorities is not None:
            found.problems.append(Problem("time_stamp_missing"))
        return
    words: list[str] = []
    for raw in stamps:
        try:
            if authorities is None:
                stamping.look(raw, head)
                continue
            at = stamping.dated(raw, head, authorities)
            params = {"at": at.isoformat(timespec="seconds"), "file": authorities.name}
            found.notes.append(Problem("stamped", params))
        except SealRefused as error:
            words.append(error.word)
    if authorities is None and len(words) < len(stamps):
        found.notes.append(Problem("stamp_unchecked"))
    good = any(note.code == "stamped" for note in found.notes)
    wrong = [word for word in words if word != "not_signed" or not good]
    found.problems += [Problem("time_stamp", {"what": word}) for word in wrong]
