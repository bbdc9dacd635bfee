"""Whether a list of events and blobs is what it was: the chain link by link, each digest, the schema of each event."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from relay_audit.archive.zipped import Archive
from relay_audit.errors import ArchiveRefused
from relay_audit.events import GENESIS, Event
from relay_audit.manifest import BLOBS, EVENTS, LeftOut

OWN_HASH = re.compile(rb'\{"actor":"[a-z]+",("hash":"[0-9a-f]{64}",)')
MOST_PROBLEMS = 50
"""Named one by one; the rest are counted."""


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it was written."""

    code: str
    """Message key: `verify.problem.<code>`."""
    params: dict[str, str] = field(default_factory=dict)


@dataclass
class Chain:
    """What walking along the events gave."""

    events: list[Event] = field(default_factory=list)
    left_out: int = 0
    head: str = ""
    last_hash: str = GENESIS
    problems: list[Problem] = field(default_factory=list)


def walk(lines: Iterable[bytes]) -> Chain:
    """The chain of an archive, one line of JSON per event, with events left out where the edition says so. Ends at the
    first broken link."""
    chain = Chain()
    for expected, line in enumerate(lines, start=1):
        link = _link(line)
        if link is None:
            chain.problems.append(Problem("event_unreadable", {"seq": str(expected)}))
            break
        if (broken := _broken(link, line, expected, chain)) is not None:
            chain.problems.append(Problem(broken, {"seq": str(expected)}))
            break
        chain.last_hash = link.hash
        if isinstance(link, LeftOut):
            chain.left_out += 1
            continue
        chain.events.append(link)
        chain.head = link.hash if link.terminal else chain.head
    return chain


def _link(line: bytes) -> Event | LeftOut | None:
    """In one pass where the line is one of ours; a lone surrogate, which that pass refuses, and all else in two."""
    try:
        return Event.model_validate_json(line)
    except (ValidationError, RecursionError):
        pass
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            return None
        return LeftOut.model_validate(value) if "left_out" in value else Event.model_validate(value)
    except (ValueError, RecursionError):
        return None


def _broken(link: Event | LeftOut, line: bytes, expected: int, chain: Chain) -> str | None:
    if link.seq != expected:
        return "event_missing"
    if isinstance(link, LeftOut):
        return None
    if link.prev != chain.last_hash:
        return "event_out_of_order"
    if link.hash != _hash_of(line) and link.hash != link.computed_hash():
        return "event_changed"
    return "second_end" if link.terminal and chain.head else None


def _hash_of(line: bytes) -> str:
    """The hash of a line that is written as `export` writes it, which is canonical: of its bytes without the hash."""
    stands = OWN_HASH.match(line)
    return hashlib.sha256(line[: stands.start(1)] + line[stands.end(1) :]).hexdigest() if stands else ""


def check_archive(archive: Archive) -> tuple[Chain, list[Problem]]:
    """Everything in an archive against its manifest and its chain. Raises nothing for what does not fit: it is listed."""
    manifest = archive.manifest
    try:
        chain = walk(archive.lines())
    except ArchiveRefused as error:
        return Chain(), [Problem("unreadable", {"what": error.message})]
    problems = list(chain.problems)
    if not problems:
        problems += _against_manifest(archive, chain)
    listed = {f"{BLOBS}{blob.sha256}" for blob in manifest.blobs}
    named = {part.name for part in manifest.parts} | listed
    extra = [
        name for name in sorted(archive.names) if name not in named and not name.startswith(("seals/", "manifest"))
    ]
    problems += [Problem("not_in_manifest", {"name": name}) for name in extra]
    problems += list(_members(archive))
    return chain, problems


def _against_manifest(archive: Archive, chain: Chain) -> Iterator[Problem]:
    manifest = archive.manifest
    if len(chain.events) + chain.left_out != manifest.events or chain.left_out != manifest.left_out:
        yield Problem("event_count", {"n": str(len(chain.events) + chain.left_out), "of": str(manifest.events)})
    if chain.last_hash != manifest.last_hash:
        yield Problem("last_hash")
    if manifest.left_out == 0 and chain.head != manifest.evidence_head:
        yield Problem("evidence_head")
    here = {blob.sha256 for blob in manifest.blobs} | {gone.sha256 for gone in manifest.withheld}
    if manifest.edition == "full":
        named = {sha for e in chain.events for sha in (e.payload_ref, e.payload.get("files_ref", "")) if sha}
        yield from (Problem("blob_missing", {"sha": sha}) for sha in sorted(named - here))


def _members(archive: Archive) -> Iterator[Problem]:
    for part in archive.manifest.parts:
        if part.name not in archive.names:
            yield Problem("member_missing", {"name": part.name})
        elif hashlib.sha256(archive.read(part.name)).hexdigest() != part.sha256:
            yield Problem("member_changed", {"name": part.name})
    if EVENTS not in {part.name for part in archive.manifest.parts}:
        yield Problem("member_missing", {"name": EVENTS})
    for blob in archive.manifest.blobs:
        try:
            archive.blob(blob.sha256)
        except ArchiveRefused:
            code = "blob_changed" if f"{BLOBS}{blob.sha256}" in archive.names else "blob_missing"
            yield Problem(code, {"sha": blob.sha256})
