"""Bytes are taken away and the taking is recorded: one blob (`withhold`), or what a run holds of prompts and answers
(`purge`). The chain stays whole: a tombstone has the digest and the reason, and the findings stay as they were judged."""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from relay_audit.archive.trail import server_copies
from relay_audit.disk import file_errors
from relay_audit.errors import UsageError
from relay_audit.events import Draft, Event
from relay_audit.judgement import judge, record_judgement
from relay_audit.library import archived_library
from relay_audit.manifest import ServerCopy
from relay_audit.recorder import Recorder
from relay_audit.replay import replay, withheld_in
from relay_audit.store import Store

REMOVABLE = ("exchange.recorded", "reading.recorded", "artifact.created", "answer.recorded")
"""Events whose blobs may go. The others carry the run itself: target, packs, plan, quote, findings."""
LONGEST_REASON = 200
PURGED = "purged"


@dataclass
class Removed:
    run_id: str
    blobs: int = 0
    bytes: int = 0
    findings_kept: bool = True
    server_copies: tuple[ServerCopy, ...] = ()
    """What may remain on servers: nobody but their owners can take it away."""
    events: list[str] = field(default_factory=list)


def withhold(recorder: Recorder, sha: str, reason: str) -> Removed:
    """Takes one blob away, named by its digest or at least 12 characters of it; the same again changes nothing.

    Raises `UsageError` for a digest that nothing here names, for a blob that carries the run, before the run has ended.
    """
    store = recorder.store
    _ended(store)
    events = list(store.events())
    named = {event.payload_ref: event for event in events if event.payload_ref}
    found = [each for each in named if each == sha or (len(sha) >= 12 and each.startswith(sha))]
    if len(found) != 1:
        raise UsageError("no blob of this digest here", next_step=f"relay-audit verify {store.run_id} lists what is")
    if named[found[0]].type not in REMOVABLE:
        raise UsageError(
            f"this blob carries the run itself ({named[found[0]].type}); only all of it can go",
            next_step=f"relay-audit purge {store.run_id}",
        )
    return _take(recorder, events, {found[0]}, reason[:LONGEST_REASON] or "withheld")


def purge_bytes(recorder: Recorder) -> Removed:
    """Takes away prompts, answers, readings and reports; events and findings stay. Raises `UsageError` while a run lives."""
    store = recorder.store
    _ended(store)
    events = list(store.events())
    shas = {event.payload_ref for event in events if event.type in REMOVABLE and event.payload_ref}
    copies = _copies(store)
    removed = _take(recorder, events, shas - withheld_in(events), PURGED)
    removed.server_copies = copies
    if removed.blobs:
        recorder.note("run.purged", {"kept": "findings", "removed": removed.blobs, "reason": PURGED}, actor="human")
    return removed


def what_goes(store: Store) -> Removed:
    """What a whole run leaves on servers and takes with it, while it can still be read."""
    blobs = [path.stat().st_size for path in (store.path / "blobs").iterdir()]
    return Removed(store.run_id, len(blobs), sum(blobs), findings_kept=False, server_copies=_copies(store))


def remove_run(path: Path, state: Path) -> None:
    """Takes the whole folder away: nothing of the run is on this machine but what was exported or copied. It must be
    closed and nobody's."""
    if path.is_symlink():
        raise UsageError("this run is a link to another place", next_step="purge it where it lies")
    going = path.parent / f".new-gone-{secrets.token_hex(4)}"
    with file_errors("the run cannot be removed"):
        path.rename(going)  # at once out of every list, however long the rest takes
        shutil.rmtree(going)
    with contextlib.suppress(OSError):
        (state / "runs" / path.name).unlink()


def older_than(store: Store, moment: dt.datetime) -> bool:
    first = next(store.events(), None)
    return first is not None and first.ts < moment


def _ended(store: Store) -> None:
    if store.terminal() is None:
        raise UsageError(
            "the run has not ended; what it may still need is not taken away",
            next_step=f"relay-audit cancel {store.run_id}, then again",
        )


def _take(recorder: Recorder, events: list[Event], shas: set[str], reason: str) -> Removed:
    """First the judgement, then the tombstones, then the bytes: whatever is interrupted can be done again."""
    store = recorder.store
    if not withheld_in(events) and recorder.history.plan is not None:
        record_judgement(recorder, judge(store))
    sizes = {sha: store.blob_size(sha) for sha in sorted(shas - withheld_in(events))}
    drafts = [
        Draft("blob.withheld", {"sha256": sha, "size": size, "reason": reason}, "human") for sha, size in sizes.items()
    ]
    sealed = recorder.note_all(drafts) if drafts else []
    for sha in shas:
        store.remove_blob(sha)
    for report in store.reports.iterdir() if sizes else ():
        _remove_report(report, set(sizes), events)
    return Removed(store.run_id, len(sizes), sum(sizes.values()), events=[event.hash for event in sealed])


def _remove_report(report: Path, shas: set[str], events: list[Event]) -> None:
    """The file beside a report's blob is the same bytes."""
    names = {e.payload.get("name") for e in events if e.type == "artifact.created" and e.payload_ref in shas}
    if report.name in names:
        with file_errors("a report cannot be taken away"):
            report.unlink()


def _copies(store: Store) -> tuple[ServerCopy, ...]:
    history = replay(store)
    return server_copies(history.evidence(), archived_library(history).knowledge)
