"""Commands that take bytes away: `withhold` one blob, `purge` runs. What may remain on servers is listed, never touched."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit.archive.removal import Removed, older_than, purge_bytes, remove_run, what_goes, withhold
from relay_audit.cli import options
from relay_audit.cli.console import emit, language, say
from relay_audit.cli.opening import opened
from relay_audit.clock import SystemClock
from relay_audit.errors import RelayAuditError, UsageError
from relay_audit.manifest import ServerCopy
from relay_audit.recorder import Recorder
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.untrusted import show
from relay_audit.runs import LATEST
from relay_audit.store import Store, run_lock, runs_in
from relay_audit.workspace import workspace

SHOWN_IDS = 5
AGE = re.compile(r"(\d{1,5})\s*d(?:ays?)?")


def withhold_blob(
    run: options.RunId,
    sha: Annotated[str, typer.Argument(metavar="SHA", help="Digest of the blob, or its first 12 characters.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept in the chain, seen by everybody.")] = "",
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Take one blob's bytes away for good; a tombstone with digest and reason stays."""
    with opened(run) as store, run_lock(store.path):
        removed = withhold(Recorder(store, SystemClock()), sha.lower(), reason)
    words = Catalogue.load(language(lang, os.environ))
    text = words.text("purge.withheld", n=str(removed.blobs), bytes=f"{removed.bytes:,}")
    emit(_row(removed)) if json else say(text, sys.stdout)


def purge(
    run: Annotated[str, typer.Argument(metavar="[RUN]", show_default=False)] = "",
    older: Annotated[
        str,
        typer.Option("--older-than", metavar="90d", help="Every run here that began so long ago.", show_default=False),
    ] = "",
    keep_findings: Annotated[
        bool, typer.Option("--keep-findings", help="Remove prompts and answers; keep chain and findings.")
    ] = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Remove a run, or old ones, from this machine; says what may remain on servers."""
    if bool(run) == bool(older) or run in LATEST[1:]:
        raise UsageError("name one run, or an age: --older-than 90d", next_step="relay-audit status lists the runs")
    done: list[Removed] = []
    skipped: list[dict[str, str]] = []
    for path, moment in _chosen(run, older):
        try:
            if (removed := _purged(path, moment, keep_findings)) is not None:
                done.append(removed)
        except RelayAuditError as error:
            if run:
                raise
            skipped.append({"run_id": path.name, "why": error.message})
    words = Catalogue.load(language(lang, os.environ))
    if json:
        emit({"purged": [_row(item) for item in done], "skipped": skipped})
    else:
        say("\n".join(_screen(done, skipped, words)), sys.stdout)


def _chosen(run: str, older: str) -> Iterator[tuple[Path, dt.datetime | None]]:
    if run:
        with opened(run) as store:
            path = store.path
        yield path, None
        return
    match = AGE.fullmatch(older.strip().lower())
    if match is None:
        raise UsageError("--older-than takes days: 90d", next_step="for example --older-than 90d")
    moment = SystemClock().now() - dt.timedelta(days=int(match[1]))
    yield from ((path, moment) for path in runs_in(workspace(os.environ, Path.cwd()).audits))


def _purged(path: Path, moment: dt.datetime | None, keep_findings: bool) -> Removed | None:
    """None for a run that is not that old, or holds nothing more to take."""
    with Store.open(path) as store, run_lock(path):
        if moment is not None and not older_than(store, moment):
            return None
        if keep_findings:
            removed = purge_bytes(Recorder(store, SystemClock()))
            return removed if removed.blobs or moment is None else None
        removed = what_goes(store)
    remove_run(path, workspace(os.environ, Path.cwd()).state)
    return removed


def _row(removed: Removed) -> dict[str, Any]:
    copies = [copy.model_dump(mode="json") for copy in removed.server_copies]
    return {
        "run_id": removed.run_id,
        "blobs": removed.blobs,
        "bytes": removed.bytes,
        "findings_kept": removed.findings_kept,
        "server_copies": [{**row, "untrusted_id": show(row["untrusted_id"])} for row in copies],
    }


def _screen(done: list[Removed], skipped: list[dict[str, str]], words: Catalogue) -> list[str]:
    lines = [] if done or skipped else [words.text("purge.nothing")]
    for item in done:
        key = "purge.findings_kept" if item.findings_kept else "purge.run"
        params = {"run": item.run_id, "n": str(item.blobs), "bytes": f"{item.bytes:,}"}
        lines.append(words.text(key, **{k: v for k, v in params.items() if k in words.placeholders(key)}))
    lines += [words.text("purge.skipped", run=row["run_id"], why=row["why"]) for row in skipped]
    copies = [copy for item in done for copy in item.server_copies]
    if copies:
        lines += ["", words.text("purge.elsewhere"), *(f"  {line}" for line in _copies(copies, words))]
    return lines


def _copies(copies: list[ServerCopy], words: Catalogue) -> Iterator[str]:
    groups: dict[tuple[str, str, str], list[ServerCopy]] = {}
    for copy in copies:
        groups.setdefault((copy.side, copy.host, copy.retention), []).append(copy)
    for (side, host, retention), members in sorted(groups.items()):
        times = [copy.at.strftime("%Y-%m-%d %H:%M") for copy in members]
        yield words.text(
            "purge.copy", side=words.text(f"quote.side_{side}"), host=show(host, 80), n=str(len(members)), first=min(times),
            last=max(times), retention=retention,
        )  # fmt: skip
        named = [show(copy.untrusted_id, 60) for copy in members if copy.untrusted_id]
        if named:
            more = f" (+{len(named) - SHOWN_IDS})" if len(named) > SHOWN_IDS else ""
            yield "  " + words.text("purge.ids", ids=", ".join(named[:SHOWN_IDS])) + more
