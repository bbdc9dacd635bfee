"""Check 5 on local files: `media` judges, `pin` remembers an original of your own. No network, no key, no money."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit.assess.provenance import INSTALL, Provenance, Step, judge
from relay_audit.catalog import knowledge_digest, knowledge_from, read_files
from relay_audit.cli import arguments, options
from relay_audit.cli.console import emit, language, readable, report_error, say, told
from relay_audit.errors import UsageError
from relay_audit.exits import FailOn, media_exit_code, worst
from relay_audit.fingerprint import Knowledge
from relay_audit.media.examine import examine
from relay_audit.media.pins import add_pin, pin_of, read_pins, write_pins
from relay_audit.media_facts import MediaFacts, Pin
from relay_audit.refusal import nearest
from relay_audit.report.as_json import finding_json
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.report.untrusted import show
from relay_audit.verdict import number
from relay_audit.words import Lang
from relay_audit.workspace import workspace

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…", help="Films or images: MP4, MOV, JPEG, PNG, WebP; others as far as they can be read."
    ),
]
Profile = Annotated[
    str,
    typer.Option(
        "--profile", metavar="NAME", help="What they should be: seedance, wan, kling, … or a name you pinned."
    ),
]
Original = Annotated[
    Path, typer.Argument(metavar="FILE", help="An original that you got from the official API yourself.")
]
Pinned = Annotated[str, typer.Option("--profile", metavar="NAME", help="What it is an original of: seedance, wan, …")]
Rotate = Annotated[
    bool, typer.Option("--rotate", help="The vendor renewed its certificate: this one takes the place of the last.")
]
MARKS = {"holds": "+", "fails": "x", "absent": "-", "unclear": "?", "not_checked": "?", "skipped": " "}


def media(
    files: Files,
    profile: Profile = "",
    knowledge: options.KnowledgeDir = None,
    fail_on: options.FailOnOption = "medium",
    allow_inconclusive: options.AllowInconclusive = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Is this film or image the vendor's original? Offline: against known signers and originals that you pinned."""
    texts = read_files("known_fingerprints", knowledge)
    known, pins = knowledge_from(texts), _pins()
    _check_profile(profile, known, pins)
    level = arguments.severity(fail_on)
    today, chosen = dt.datetime.now(dt.UTC).date(), language(lang, os.environ)
    examined, lost = _examined(files)
    results = [(facts, judge(facts, known, pins, profile, today)) for facts in examined]
    codes = [_exit(found, level, allow_inconclusive=allow_inconclusive) for _, found in results]
    if json:
        rows = [_row(facts, found, chosen) for facts, found in results]
        lost_rows = [told(e.code, e.message, e.next_step, e.details) for e in lost]
        emit({"schema_version": 1, "profile": profile, "knowledge_digest": knowledge_digest(texts), "files": rows,
              "not_read": lost_rows})  # fmt: skip
    else:
        say("\n\n".join(_screen(facts, found, readable(chosen)) for facts, found in results), sys.stdout)
        if not profile:
            say(Catalogue.load(readable(chosen, sys.stderr)).text("media.no_profile"))
        for error in lost:
            report_error(error, as_json=False)
    raise typer.Exit(worst([*codes, *(error.exit_code for error in lost)]))


def _examined(files: list[Path]) -> tuple[list[MediaFacts], list[UsageError]]:
    """What the files say of themselves, and what was wrong with those that cannot be opened: one of many hides no other.
    Raises `UsageError` where none can be."""
    facts, lost = [], []
    for file in files:
        try:
            facts.append(examine(file))
        except UsageError as error:
            lost.append(error)
    if lost and not facts:
        raise lost[0]
    return facts, lost


def pin(
    file: Original,
    profile: Pinned,
    rotate: Rotate = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Remember an original of your own: signer, encoder, structure, label. Kept in your configuration."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,40}", profile):
        raise UsageError("a profile is a short name: a-z, 0-9, - and _", next_step="for example --profile seedance")
    path, pins = workspace(os.environ, Path.cwd()).pins, _pins()
    today = dt.datetime.now(dt.UTC).date()
    facts = examine(file)
    step = _worth_pinning(facts, knowledge_from(read_files("known_fingerprints", None)), pins, today)
    new = pin_of(facts, profile, today, integrity_checked=step == "holds")
    write_pins(path, add_pin(pins, new, rotate=rotate))
    text = Catalogue.load(language(lang, os.environ)).text
    notes = [text("media.pin_means")]
    if step == "not_checked":
        notes.append(text("media.pin_unchecked", command=INSTALL))
    if json:
        emit({"pinned": profile, "file_sha256": facts.sha256, "leaf_sha256": new.signer.sha256 if new.signer else None,
              "integrity": step, "pins": str(path), "notes": notes})  # fmt: skip
    else:
        say("\n".join([text("media.pinned", profile=profile, file=show(facts.name)), *notes]), sys.stdout)


def _pins() -> tuple[Pin, ...]:
    return read_pins(workspace(os.environ, Path.cwd()).pins)


def _check_profile(profile: str, known: Knowledge, pins: tuple[Pin, ...]) -> None:
    names = sorted({row.name for row in known.media_profiles} | {pin.profile for pin in pins})
    if profile and profile not in names:
        raise UsageError(
            f"no profile {profile[:40]!r}{nearest(profile, names)}",
            next_step=f"pin an original of your own: relay-audit pin FILE --profile {profile[:40]}",
        )


def _worth_pinning(facts: MediaFacts, known: Knowledge, pins: tuple[Pin, ...], today: dt.date) -> str:
    """The state of step 1; a file that cannot be an original is refused."""
    found = judge(facts, known, pins, "", today)
    integrity, signer = found.steps[0], found.steps[1]
    if integrity.state in ("fails", "unclear") or signer.why == "test_certificate":
        why = signer.why if signer.why == "test_certificate" else integrity.why
        words = Phrases(Catalogue.load("en"))
        raise UsageError(
            f"this file cannot be pinned as an original: {words.word(why)}",
            next_step="relay-audit media FILE says more; fetch the file again from the official API",
            details={"reason": why},
        )
    return integrity.state


def _exit(found: Provenance, fail_on: FailOn, *, allow_inconclusive: bool) -> int:
    return media_exit_code(found.findings, fail_on, settled=found.settled or allow_inconclusive)


def _row(facts: MediaFacts, found: Provenance, lang: Lang) -> dict[str, Any]:
    signer = facts.signer
    return {
        "untrusted_file": show(facts.name),
        "sha256": facts.sha256,
        "size": facts.size,
        "kind": facts.kind,
        "settled": found.settled,
        "steps": [{"step": place, **asdict(step)} for place, step in enumerate(found.steps, 1)],
        "signer": signer
        and {
            "leaf_sha256": signer.leaf.sha256,
            "key_sha256": signer.leaf.spki_sha256,
            "issuing_key_sha256": signer.issuing_key,
            "not_before": signer.leaf.not_before.isoformat(),
            "not_after": signer.leaf.not_after.isoformat(),
            "public_root": signer.public_root,
            "earlier_leaves": list(signer.ingredients),
            "untrusted_subject": show(signer.leaf.subject),
            "untrusted_issuer": show(signer.leaf.issuer),
            "untrusted_generator": show(signer.generator),
        },
        "findings": [finding_json(f, "USD", Catalogue.load(lang)) for f in number(found.findings)],
        "libraries": facts.libraries,
    }


def _screen(facts: MediaFacts, found: Provenance, lang: Lang) -> str:
    words = Catalogue.load(lang)
    phrases = Phrases(words, masked=not sys.stdout.isatty())  # a program that reads a screen obeys what it reads
    lines = [f"{show(facts.name)}  {facts.sha256[:16]}…", ""]
    lines += [_step(step, phrases, words) for step in found.steps]
    for one in number(found.findings):
        texts = phrases.finding(one)
        lines += ["", f"  {one.id} {words.text(f'severity.{one.severity}')}  {texts.title}", f"      {texts.claim}"]
        lines.append(f"      {words.text('finding_part.not_proven')}: {texts.not_proven}")
    return "\n".join(lines)


def _step(step: Step, phrases: Phrases, words: Catalogue) -> str:
    told = step.why and step.state != "skipped" and words.knows(f"word.{step.why}")
    why = f": {phrases.word(step.why)}" if told else ""
    name, state = words.text(f"media.step.{step.name}"), words.text(f"media.state.{step.state}")
    return f"  [{MARKS[step.state]}] {name}  {state}{why}"
