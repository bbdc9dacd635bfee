"""Reports of a run: rendered in memory, scanned as final bytes, then written into the run's own folder and recorded."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from relay_audit.archive.contents import Contents, vendor_digest
from relay_audit.errors import LeakRefused
from relay_audit.issues import edition_of
from relay_audit.judgement import Judgement
from relay_audit.lines_file import read_lines
from relay_audit.manifest import Edition as ArchiveEdition
from relay_audit.policy import Policy
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor, Secret
from relay_audit.replay import History
from relay_audit.report.edition import Audience, Edition, Inside
from relay_audit.report.leakguard import SHARED_ACCOUNTS, check, write_asked, write_report
from relay_audit.report.printed import pdf, png
from relay_audit.report.render import Format, render, terms_for
from relay_audit.words import Lang

MARKS_SUFFIX = ".marks.toml"
"""How the file beside a baselines file ends: marks of channels, for review only."""
FILED: tuple[Audience, ...] = ("vendor", "internal")
"""What every run leaves in its folder; the public edition is made when somebody asks for it."""


@dataclass(frozen=True)
class Order:
    """What a report is asked for besides audience, format and language."""

    policy: Policy | None = None
    edition: Edition | None = None
    """None takes the run's own: the last issue that was recorded."""
    file_name: str = ""
    """Under which it will be written; a name may leak, too."""
    masked: bool = False
    """Without a stranger's words in its sentences: for a stream that a program may read."""


def report_bytes(
    history: History,
    judgement: Judgement,
    audience: Audience,
    format_: Format,
    lang: Lang,
    environ: Mapping[str, str],
    order: Order | None = None,
) -> bytes:
    """The report, already past the leak guard. Raises `LeakRefused`, and `UsageError` where it cannot be made here."""
    order = order or Order()
    knowledge = judgement.knowledge
    if order.policy is not None:
        knowledge = knowledge.model_copy(update={"rules": order.policy.rules})
    inside, evidence = inside_of(history, order.policy), judgement.evidence
    if audience != "internal":
        evidence = evidence.model_copy(update={"archive_digest": vendor_digest(history.store, history, judgement)})
    raw = render(
        evidence, judgement.findings, judgement.coverage, judgement.verdict, knowledge, audience, format_, lang,
        knowledge_digest=judgement.knowledge_digest, edition=order.edition or edition_of(history.store), inside=inside,
        anchor=history.place, masked=order.masked,
    )  # fmt: skip
    name = order.file_name or f"{audience}.{format_}"
    keys = own_keys(history, environ)
    names = forbidden(history) + tuple(line.name for line in inside.lines)
    public = _public(history)
    if audience == "public":
        names, public = names + tuple(terms_for(evidence, knowledge).names), (history.facts.model,)
    check(raw, audience, names, keys, name, public_terms=public)
    if format_ == "sarif" and history.place is not None:  # goes where code goes, whoever it was made for
        path = quote(history.place.path).encode()
        check(raw.replace(path, b""), "vendor", names, keys, "report.sarif", public_terms=public)
    if format_ not in ("pdf", "png"):
        return raw
    made = (pdf if format_ == "pdf" else png)(raw, lang, environ)
    check(made, audience, names, keys, name, public_terms=public)
    return made


def inside_of(history: History, policy: Policy | None) -> Inside:
    """What only the buyer's card shows; a lines file that is gone is said to be missing."""
    named = history.target.internal
    lines = read_lines(Path(named.lines_file)) if named.lines_file else None
    missing = "not_named" if not named.lines_file else "not_there" if lines is None else ""
    return Inside(
        lines=lines or (), lines_missing=missing, paid=named.paid, typical_input_tokens=named.typical_input_tokens,
        policy_digest=policy.digest if policy else "",
    )  # fmt: skip


def guard_archive(
    packed: Contents, history: History, edition: ArchiveEdition, file_name: str, environ: Mapping[str, str]
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
    """Names that stay inside: the target's own, the lines' of the decision card, who approved, and who works here."""
    names = [history.target.subject.name, *history.target.internal.line_names]
    people = [history.approval.approver] if history.approval else []
    with contextlib.suppress(KeyError, OSError):
        people.append(getpass.getuser())
    names += [name for name in people if name.lower() not in SHARED_ACCOUNTS]
    return tuple(name for name in names if name and name != "relay")


def own_keys(history: History, environ: Mapping[str, str]) -> Redactor:
    """The keys of this run, where they are at hand, so that no encoding of them passes."""
    keys = [environ[name] for name in history.target.key_names if environ.get(name)]
    return Redactor([Secret(key, name="own", origin="none") for key in keys], b"")


def file_reports(recorder: Recorder, judgement: Judgement, lang: Lang, environ: Mapping[str, str]) -> dict[str, Path]:
    """Both reports as HTML into the run's folder; a refusal is recorded and leaves nothing behind."""
    paths: dict[str, Path] = {}
    for audience in FILED:
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
    write_asked(path, raw)


def marks_beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".toml") + MARKS_SUFFIX)
