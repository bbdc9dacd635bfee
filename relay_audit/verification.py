"""`verify`: is a run what it was when it was sealed, and does every figure of a report follow from it?

Nothing here trusts the run: chain, digests, orphans, then a fresh replay and judgement; a report is rendered again from
the evidence and compared byte for byte, or is one whose digest the chain holds.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from relay_audit.archive.chain import Problem
from relay_audit.errors import LeakRefused, RelayAuditError, StoreError
from relay_audit.events import Event
from relay_audit.filing import report_bytes
from relay_audit.judgement import Judgement, evidence_withheld, judge, judged_again, recorded_judgement
from relay_audit.library import archived_library
from relay_audit.replay import History, replay, withheld_in
from relay_audit.report.render import Audience, Format
from relay_audit.store import Store
from relay_audit.words import LANGS

LARGEST_REPORT = 64 << 20
NOT_RENDERED_AGAIN = ("pdf", "png")
"""Made by a browser, which does not make the same bytes twice: they are known by their recorded digest only."""
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
SHOWN_FIGURES = 5


@dataclass
class Verified:
    """The answer of `verify`."""

    run_id: str
    head: str = ""
    last_hash: str = ""
    events: int = 0
    blobs: int = 0
    withheld: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    """What should be known and is no damage."""
    reports: list[dict[str, str]] = field(default_factory=list)


def verify_run(store: Store, reports: list[Path], environ: Mapping[str, str]) -> Verified:
    """The run and its own reports; then each report that was named."""
    result = Verified(store.run_id)
    events = walk_run(store, result)
    if result.problems:
        return result
    try:
        history, judgement = replay(store), judge(store)
    except (RelayAuditError, ValueError, KeyError, TypeError) as error:
        result.problems.append(Problem("not_a_run", {"what": type(error).__name__}))
        return result
    _judgement(history, result)
    known = {e.payload.get("sha256", ""): e for e in events if e.type == "artifact.created"}
    for path in [*sorted(p for p in store.reports.iterdir() if p.is_file() and p.name[0] != "."), *reports]:
        _report(path, history, judgement, known, environ, result)
    return result


def walk_run(store: Store, result: Verified) -> list[Event]:
    """Every link of the chain and every blob: what does not depend on what the run says."""
    events = _events(store, result)
    _blobs(store, events, result)
    return events


def _events(store: Store, result: Verified) -> list[Event]:
    try:
        events = store.verify_chain()
    except StoreError as error:
        result.problems.append(Problem("chain", {"seq": str(error.details.get("seq", "?")), "what": error.message}))
        return []
    result.events, result.head = len(events), store.head()
    result.last_hash = events[-1].hash if events else ""
    return events


def _blobs(store: Store, events: list[Event], result: Verified) -> None:
    """Every blob that an event names is here and is what its name says; others are harmless remains, if they are whole."""
    gone = withheld_in(events)
    named = {sha for e in events for sha in (e.payload_ref, e.payload.get("files_ref", "")) if sha}
    with os.scandir(store.path / "blobs") as folder:
        files = {e.name: e.path if e.is_file(follow_symlinks=False) else "" for e in folder if e.name[0] != "."}
    here = set(files)
    result.blobs, result.withheld = len(named & here), len(gone)
    for sha in sorted(named - here - gone):
        result.problems.append(Problem("blob_missing", {"sha": sha}))
    for sha in sorted(here):
        if not _is_what_it_says(sha, files[sha]):
            result.problems.append(Problem("blob_changed", {"sha": sha}))
    loose = here - named
    if loose and events:
        result.notes.append(Problem("loose_blobs", {"n": str(len(loose))}))
    if gone:
        result.notes.append(Problem("withheld", {"n": str(len(gone))}))


def _is_what_it_says(sha: str, path: str) -> bool:
    """Tens of thousands of times: what a path object would cost here is as much as the digest itself."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return hashlib.sha256(file.read()).hexdigest() == sha
    except OSError:
        return False


def _judgement(history: History, result: Verified) -> None:
    """The findings that were recorded follow from the evidence; a newer program may see more, which is said."""
    library = archived_library(history)
    kept = recorded_judgement(history.store, library.digest)
    if kept is None or evidence_withheld(history):
        return
    if kept[0] != judged_again(history, library).findings:
        result.notes.append(Problem("judged_differently"))


def _report(
    path: Path, history: History, judgement: Judgement, known: Mapping[str, Event], environ: Mapping[str, str],
    result: Verified,
) -> None:  # fmt: skip
    """A report is right where the chain holds its digest, or where rendering it again gives these very bytes."""
    try:
        raw = path.read_bytes() if path.stat().st_size <= LARGEST_REPORT else b""
    except OSError as error:
        result.problems.append(Problem("report_unreadable", {"name": path.name, "what": error.strerror or ""}))
        return
    sha = hashlib.sha256(raw).hexdigest()
    if sha in known:
        result.reports.append({"name": path.name, "sha256": sha, "state": "recorded"})
        return
    nearest: bytes = b""
    for made in _renderings(history, judgement, environ):
        if made == raw:
            result.reports.append({"name": path.name, "sha256": sha, "state": "rendered_again"})
            return
        nearest = made if _alike(made, raw) > _alike(nearest, raw) else nearest
    figures = _strange_figures(raw, nearest)
    result.reports.append({"name": path.name, "sha256": sha, "state": "altered"})
    result.problems.append(
        Problem("report_altered", {"name": path.name, "n": str(len(figures)), "figures": ", ".join(figures[:SHOWN_FIGURES]) or "-"})
    )  # fmt: skip


def _renderings(history: History, judgement: Judgement, environ: Mapping[str, str]) -> Iterator[bytes]:
    kinds: tuple[Audience, ...] = get_args(Audience)
    formats: tuple[Format, ...] = tuple(f for f in get_args(Format) if f not in NOT_RENDERED_AGAIN)
    for audience, format_, lang in itertools.product(kinds, formats, LANGS):
        try:
            yield report_bytes(history, judgement, audience, format_, lang, environ)
        except (LeakRefused, RelayAuditError, ValueError, KeyError):
            continue


def _alike(one: bytes, other: bytes) -> int:
    """How many lines two texts share; enough to tell which report was meant."""
    return len(set(one.splitlines()) & set(other.splitlines())) if one else -1


def _strange_figures(raw: bytes, made: bytes) -> list[str]:
    """Figures in lines that no rendering has: digits only, since the rest of such a line is a stranger's text."""
    own = set(made.splitlines())
    strange = [line for line in raw.splitlines() if line not in own]
    expected = set(FIGURE.findall(made.decode("utf-8", "replace")))
    found = [figure for line in strange for figure in FIGURE.findall(line.decode("utf-8", "replace"))]
    return [figure for figure in dict.fromkeys(found) if figure not in expected]
