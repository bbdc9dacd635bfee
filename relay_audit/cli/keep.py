"""Commands over the archive: export, import. They write one file at most and send nothing of a run."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from relay_audit.archive.contents import contents
from relay_audit.archive.seals import seals_of, signed, stamped
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
from relay_audit.store import run_lock
from relay_audit.workspace import workspace

Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", show_default=False)]
ForWhom = Annotated[
    str,
    typer.Option("--for", metavar="vendor", help="Without internal names, lists and other runs.", show_default=False),
]
Authority = Annotated[
    str,
    typer.Option(
        "--timestamp",
        metavar="URL",
        help="Have this authority date it (RFC 3161); only a hash leaves.",
        show_default=False,
    ),
]
SigningKey = Annotated[
    Path | None, typer.Option("--sign", metavar="KEY", help="Sign it with an SSH key.", show_default=False)
]


def export(
    run: options.RunId,
    audience: ForWhom = "",
    output: Output = None,
    sign: SigningKey = None,
    timestamp: Authority = "",
    allow_private: options.AllowPrivate = False,
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
        with run_lock(store.path):
            if timestamp:
                recorder.note_all([stamped(store, timestamp, recorder.clock, allow_private=allow_private)])
            if sign is not None:
                recorder.note_all([signed(store, packed, sign)])
            seals = seals_of(store, packed.manifest.digest)
            sha = write_archive(packed, path, seals)
            payload = {"kind": "archive", "audience": edition, "name": path.name, "sha256": sha}
            recorder.note("artifact.created", payload, actor="human")
        result = {"run_id": store.run_id, "archive": str(path), "edition": edition, "sha256": sha,
                  "digest": packed.manifest.digest, "evidence_head": packed.manifest.evidence_head, "seals": sorted(seals)}  # fmt: skip
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
