"""Commands over the archive: verify, export, import. They write one file at most and send nothing of a run."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit.archive.chain import MOST_PROBLEMS, Problem, check_archive
from relay_audit.archive.contents import contents
from relay_audit.archive.unpack import unpack
from relay_audit.archive.zipped import open_archive, write_archive
from relay_audit.cli import options
from relay_audit.cli.console import emit, language, say
from relay_audit.cli.opening import opened
from relay_audit.clock import SystemClock
from relay_audit.errors import UsageError
from relay_audit.filing import guard_archive
from relay_audit.manifest import Edition
from relay_audit.recorder import Recorder
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.untrusted import show
from relay_audit.store import is_run, run_lock
from relay_audit.verification import Verified, verify_run
from relay_audit.words import Lang
from relay_audit.workspace import workspace

Subject = Annotated[str, typer.Argument(metavar="RUN", help="Run id, a run's folder, `latest`, or an archive file.")]
Reports = Annotated[
    list[Path] | None, typer.Argument(metavar="[REPORT]…", help="Reports to check against it.", show_default=False)
]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", show_default=False)]
ForWhom = Annotated[
    str,
    typer.Option("--for", metavar="vendor", help="Without internal names, lists and other runs.", show_default=False),
]


def verify(run: Subject, reports: Reports = None, lang: options.LangOption = None, json: options.Json = False) -> None:
    """Is a run, an archive or a report what it was when it was sealed? Offline; 0 yes, 1 no."""
    chosen = language(lang, os.environ)
    named = Path(run)
    if named.is_file() and not is_run(named.parent):
        if reports:
            raise UsageError("reports are checked against a run", next_step=f"relay-audit import {named.name}")
        result, lines = _archive(named, chosen)
    else:
        with opened(run) as store:
            found = verify_run(store, reports or [], os.environ)
        result, lines = _object(found, chosen), _screen(found, chosen)
    emit(result) if json else say("\n".join(lines), sys.stdout)
    raise typer.Exit(0 if result["ok"] else 1)


def export(
    run: options.RunId,
    audience: ForWhom = "",
    output: Output = None,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """One archive file that anybody can read and check, for you or (--for vendor) for the vendor."""
    if audience not in ("", "vendor", "internal"):
        raise UsageError("no such edition", next_step="--for vendor, or leave it out for your own")
    edition: Edition = "vendor" if audience == "vendor" else "full"
    with opened(run) as store:
        packed = contents(store, edition)
        name = f"{store.run_id}.vendor.zip" if edition == "vendor" else f"{store.run_id}.zip"
        path = output or Path(name)
        recorder = Recorder(store, SystemClock())
        guard_archive(packed, recorder.history, edition, path.name, os.environ)
        sha = write_archive(packed, path)
        with run_lock(store.path):
            payload = {"kind": "archive", "audience": edition, "name": path.name, "sha256": sha}
            recorder.note("artifact.created", payload, actor="human")
        result = {"run_id": store.run_id, "archive": str(path), "edition": edition, "sha256": sha,
                  "digest": packed.manifest.digest, "evidence_head": packed.manifest.evidence_head}  # fmt: skip
    words = Catalogue.load(language(lang, os.environ))
    text = words.text("archive.written", path=str(path), sha=sha, digest=packed.manifest.digest)
    emit(result) if json else say(f"{text}\n  {words.text('archive.read_it')}", sys.stdout)


def import_(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="A file that `export` wrote.")],
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Takes in an archive, which is checked whole before a byte of it is written. It can be read, never resumed."""
    space = workspace(os.environ, Path.cwd())
    with open_archive(archive) as opened_archive:
        with archive.open("rb") as file:
            sha = hashlib.file_digest(file, "sha256").hexdigest()
        place, fresh = unpack(opened_archive, space, sha, SystemClock().now())
    words, run = Catalogue.load(language(lang, os.environ)), place.name
    then = words.text("archive.then_verify", run=run)
    text = words.text("archive.imported" if fresh else "archive.imported_before", run=run, path=str(place))
    result = {"run_id": run, "path": str(place), "imported": fresh, "then": then}
    emit(result) if json else say(f"{text}\n  -> {then}", sys.stdout)


def _archive(path: Path, lang: Lang) -> tuple[dict[str, Any], list[str]]:
    """An archive as it lies, also the vendor's edition: chain, digests and lists; nothing is written anywhere."""
    with open_archive(path) as archive:
        chain, problems = check_archive(archive)
        manifest = archive.manifest
    words = Catalogue.load(lang)
    found = Verified(show(manifest.run_id, 80), chain.head or manifest.evidence_head, chain.last_hash,
                     len(chain.events) + chain.left_out, len(manifest.blobs), len(manifest.withheld), problems)  # fmt: skip
    lines = _screen(found, lang)
    if manifest.left_out:
        lines.append("  " + words.text("verify.archive_vendor", left_out=str(manifest.left_out)))
    lines.append("  " + words.text("verify.digest", digest=manifest.digest))
    return {**_object(found, lang), "edition": manifest.edition, "digest": manifest.digest}, lines


def _object(found: Verified, lang: Lang) -> dict[str, Any]:
    return {
        "run_id": found.run_id,
        "ok": not found.problems,
        "evidence_head": found.head,
        "last_hash": found.last_hash,
        "events": found.events,
        "blobs": found.blobs,
        "withheld": found.withheld,
        "problems": [_problem(item, lang) for item in found.problems[:MOST_PROBLEMS]],
        "problems_total": len(found.problems),
        "notes": [_problem(item, lang) for item in found.notes],
        "reports": [{**row, "name": show(row["name"])} for row in found.reports],
    }


def _problem(item: Problem, lang: Lang) -> dict[str, Any]:
    return {"code": item.code, **{name: show(value) for name, value in item.params.items()}, "text": _said(item, lang)}


def _said(item: Problem, lang: Lang) -> str:
    params = {name: show(value) for name, value in item.params.items()}
    return Catalogue.load(lang).text(f"verify.problem.{item.code}", **params)


def _screen(found: Verified, lang: Lang) -> list[str]:
    words = Catalogue.load(lang)
    numbers = {"events": str(found.events), "blobs": str(found.blobs)}
    if found.problems:
        lines = [words.text("verify.bad", run=found.run_id)]
    elif found.head:
        lines = [words.text("verify.good", run=found.run_id, head=found.head, **numbers)]
    else:
        lines = [words.text("verify.good_open", run=found.run_id, **numbers)]
    lines += [f"  x {_said(item, lang)}" for item in found.problems[:MOST_PROBLEMS]]
    if len(found.problems) > MOST_PROBLEMS:
        lines.append("  " + words.text("verify.more", n=str(len(found.problems) - MOST_PROBLEMS)))
    lines += [f"  - {_said(item, lang)}" for item in found.notes]
    marks = {"recorded": "+", "rendered_again": "+", "altered": "x"}
    return lines + [
        f"  {marks[r['state']]} {words.text('verify.report_' + r['state'], name=show(r['name']))}"
        for r in found.reports
    ]
