"""Reports of a run: rendered in memory, scanned as final bytes, then written into the run's own folder and recorded."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from relay_audit.archive.contents import Contents, vendor_digest
from relay_audit.audit import Judgement, archived_library
from relay_audit.errors import LeakRefused, UsageError
from relay_audit.manifest import Edition
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor, Secret
from relay_audit.replay import History
from relay_audit.report.leakguard import check, write_report
from relay_audit.report.render import Audience, Format, render
from relay_audit.words import Lang

MARKS_SUFFIX = ".marks.toml"
"""How the file beside a baselines file ends: marks of channels, for review only."""
AUDIENCES: tuple[Audience, ...] = ("vendor", "internal")


def report_bytes(
    history: History, judgement: Judgement, audience: Audience, format_: Format, lang: Lang, environ: Mapping[str, str]
) -> bytes:
    """The report, already past the leak guard. Raises `LeakRefused`."""
    knowledge = archived_library(history).knowledge
    evidence = judgement.evidence
    if audience != "internal":
        evidence = evidence.model_copy(update={"archive_digest": vendor_digest(history.store, history, judgement)})
    raw = render(
        evidence, judgement.findings, judgement.coverage, judgement.verdict, knowledge, audience, format_, lang,
        knowledge_digest=judgement.knowledge_digest,
    )  # fmt: skip
    keys = own_keys(history, environ)
    check(raw, audience, forbidden(history), keys, f"{audience}.{format_}", public_terms=_public(history))
    return raw


def guard_archive(
    packed: Contents, history: History, edition: Edition, file_name: str, environ: Mapping[str, str]
) -> None:
    """Reads an archive as the guard reads a report, before a byte of it is written. Raises `LeakRefused`."""
    audience: Audience = "vendor" if edition == "vendor" else "internal"
    keys, names = own_keys(history, environ), forbidden(history)
    check(packed.manifest.raw, audience, names, keys, file_name, public_terms=_public(history))
    for name, read in packed.scanned:
        check(read(), audience, names, keys, name, public_terms=_public(history))


def _public(history: History) -> tuple[str, ...]:
    """What the vendor knows anyway."""
    facts = history.facts
    return (facts.relay_origin, urlsplit(facts.relay_origin).hostname or "", facts.model, facts.claim.group)


def forbidden(history: History) -> tuple[str, ...]:
    """Names that stay inside: the target's own, the lines' of the decision card, and who works here."""
    names = [history.target.subject.name, *history.target.internal.line_names]
    with contextlib.suppress(KeyError, OSError):
        names.append(getpass.getuser())
    return tuple(name for name in names if name and name not in ("relay", "root"))


def own_keys(history: History, environ: Mapping[str, str]) -> Redactor:
    """The keys of this run, where they are at hand, so that no encoding of them passes."""
    keys = [environ[name] for name in history.target.key_names if environ.get(name)]
    return Redactor([Secret(key, name="own", origin="none") for key in keys], b"")


def file_reports(recorder: Recorder, judgement: Judgement, lang: Lang, environ: Mapping[str, str]) -> dict[str, Path]:
    """Both reports as HTML into the run's folder; a refusal is recorded and leaves nothing behind."""
    paths: dict[str, Path] = {}
    for audience in AUDIENCES:
        try:
            raw = report_bytes(recorder.history, judgement, audience, "html", lang, environ)
        except LeakRefused as refusal:
            recorder.note("report.refused", {"audience": audience, "rule": refusal.details.get("rule", "")})
            raise
        path = recorder.store.reports / f"{audience}.{lang}.html"
        write_report(path, raw)
        sha = hashlib.sha256(raw).hexdigest()
        payload = {
            "kind": "report",
            "audience": audience,
            "lang": lang,
            "format": "html",
            "name": path.name,
            "sha256": sha,
        }
        recorder.note("artifact.created", payload, recorder.store.put_blob(raw))
        paths[audience] = path
    return paths


def file_rows(path: Path, text: str, history: History, environ: Mapping[str, str]) -> None:
    """Rows of knowledge as a file that may be given away: past the leak guard, whole or not at all. Raises `LeakRefused`."""
    raw = text.encode("utf-8")
    check(raw, "internal", (), own_keys(history, environ), path.name)
    try:
        write_report(path, raw)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", next_step="name another file: -o FILE"
        ) from None


def marks_beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".toml") + MARKS_SUFFIX)
