"""A stranger's archive becomes a run here: checked whole before the first byte is written, and never able to send."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

from relay_audit import __version__
from relay_audit.archive.chain import Chain, Problem, check_archive
from relay_audit.archive.zipped import Archive, refused
from relay_audit.errors import ArchiveRefused, RelayAuditError, UsageError
from relay_audit.events import Draft
from relay_audit.manifest import SIGNATURE, TIME_STAMP
from relay_audit.replay import replay
from relay_audit.runs import RUN_ID, is_run, register
from relay_audit.store import Store
from relay_audit.workspace import Workspace


def unpack(archive: Archive, space: Workspace, sha: str, now: dt.datetime) -> tuple[Path, bool]:
    """The run's folder, and whether it was made now; the same archive again changes nothing. Raises `ArchiveRefused`."""
    manifest = archive.manifest
    if manifest.edition != "full":
        raise ArchiveRefused(
            "this is the vendor's edition: it holds no run that could be judged again",
            next_step=f"check it as it is: relay-audit verify {archive.path.name}, or docs/read_archive.py",
        )
    if not RUN_ID.fullmatch(manifest.run_id):
        raise refused("its run id is none")
    chain, problems = check_archive(archive)
    if problems:
        raise refused(_first(problems))
    place = space.audits / manifest.run_id
    if is_run(place):
        _same(place, chain)
        return place, False
    _write(archive, chain, space, sha, now)
    return place, True


def _write(archive: Archive, chain: Chain, space: Workspace, sha: str, now: dt.datetime) -> None:
    with Store.create(space.audits, archive.manifest.run_id) as store:
        try:
            for blob in archive.manifest.blobs:
                store.put_blob(archive.blob(blob.sha256))
            store.adopt(chain.events)
            replay(store)
            drafts = [Draft("run.imported", {"sha256": sha, "tool_version": __version__}, "human")]
            for name, kind in ((SIGNATURE, "signature"), (TIME_STAMP, "timestamp")):
                if name in archive.names:
                    ref = store.put_blob(archive.read(name))
                    payload = {"kind": kind, "head": chain.head, "sha256": archive.manifest.digest}
                    drafts.append(Draft("stamp.recorded", payload, "human", ref))
            store.append_all(drafts, ts=now)
        except BaseException as error:
            store.close()
            shutil.rmtree(store.path, ignore_errors=True)
            if isinstance(error, RelayAuditError):
                raise refused("its events are not those of a run") from error
            if isinstance(error, ValueError | KeyError | TypeError):
                raise refused(f"its events are not those of a run ({type(error).__name__})") from error
            raise
    register(space.state, archive.manifest.run_id, space.audits / archive.manifest.run_id)


def _same(place: Path, chain: Chain) -> None:
    """A run of this id is here already: it has to begin with the very events of the archive, or one of both is another."""
    with Store.open(place) as store:
        here = {event.seq: event.hash for event in store.events()}
    if any(here.get(event.seq) != event.hash for event in chain.events):
        raise UsageError(
            "a run of this id is here already, and it is another one",
            next_step="name another folder for runs: RELAY_AUDIT_RUNS=DIR",
        )


def _first(problems: list[Problem]) -> str:
    first = problems[0]
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"{first.code} ({', '.join(f'{k} {v}' for k, v in first.params.items())}){more}"
