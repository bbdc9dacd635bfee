"""`verify`: whether a run, an archive or a report is what it was, and who vouches for it. Offline; nothing is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit.archive.chain import MOST_PROBLEMS, Problem, check_archive
from relay_audit.archive.seals import Trust, check_archive_seals, check_run_seals
from relay_audit.archive.zipped import open_archive
from relay_audit.cli import options
from relay_audit.cli.console import emit, language, readable, say
from relay_audit.cli.opening import opened
from relay_audit.errors import UsageError
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.untrusted import show
from relay_audit.store import is_run
from relay_audit.verification import Verified, verify_run
from relay_audit.words import Lang

Subject = Annotated[str, typer.Argument(metavar="RUN", help="Run id, a run's folder, `latest`, or an archive file.")]
Reports = Annotated[
    list[Path] | None, typer.Argument(metavar="[REPORT]…", help="Reports to check against it.", show_default=False)
]
Signers = Annotated[
    Path | None,
    typer.Option("--allowed-signers", metavar="FILE", help="Who may have signed an archive.", show_default=False),
]
Authorities = Annotated[
    Path | None,
    typer.Option("--tsa-ca", metavar="FILE", help="Certificates of a time stamp authority.", show_default=False),
]

NOT_SEALED = frozenset({"signature_missing", "time_stamp_missing"})
"""Nothing was changed; what was asked for is not there."""


def verify(
    run: Subject,
    reports: Reports = None,
    allowed_signers: Signers = None,
    tsa_ca: Authorities = None,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Is a run, an archive or a report what it was when it was sealed? Offline; 0 yes, 1 no."""
    chosen, trust = language(lang, os.environ), Trust(allowed_signers, tsa_ca)
    named = Path(run)
    if named.is_file() and not is_run(named.parent):
        if reports:
            raise UsageError("reports are checked against a run", next_step=f"relay-audit import {named.name}")
        result, lines = _archive(named, chosen, trust)
    else:
        with opened(run) as store:
            seals = check_run_seals(store, trust)
            found = verify_run(store, reports or [], os.environ)
        found.problems += seals.problems
        found.notes += seals.notes
        result, lines = _object(found, chosen), _screen(found, readable(chosen))
    emit(result) if json else say("\n".join(lines), sys.stdout)
    raise typer.Exit(0 if result["ok"] else 1)


def _archive(path: Path, lang: Lang, trust: Trust) -> tuple[dict[str, Any], list[str]]:
    """An archive as it lies, also the vendor's edition: chain, digests and lists; nothing is written anywhere."""
    with open_archive(path) as archive:
        chain, problems = check_archive(archive)
        manifest = archive.manifest
        seals = check_archive_seals(archive, chain.head, trust)
    told = readable(lang)
    words = Catalogue.load(told)
    found = Verified(show(manifest.run_id, 80), chain.head or manifest.evidence_head, chain.last_hash,
                     len(chain.events) + chain.left_out, len(manifest.blobs), len(manifest.withheld),
                     problems + seals.problems, seals.notes)  # fmt: skip
    lines = _screen(found, told)
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
    if found.problems and {item.code for item in found.problems} <= NOT_SEALED:
        lines = [words.text("verify.not_sealed", run=found.run_id)]
    elif found.problems:
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
