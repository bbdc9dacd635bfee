"""Commands that hold what is stored against something: today's knowledge, another run, a line's history, a vendor's replies."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit import audit
from relay_audit.change import Change
from relay_audit.cli import options
from relay_audit.cli.console import emit, language, line_of_json, readable, say
from relay_audit.cli.opening import opened
from relay_audit.cli.terminal import result
from relay_audit.clock import SystemClock
from relay_audit.difference import ACCEPT, Difference, by_knowledge, changed_files, difference
from relay_audit.errors import UsageError
from relay_audit.filing import own_keys
from relay_audit.judgement import Judgement, judge
from relay_audit.library import archived_library, current_library
from relay_audit.line_history import LineRun, history_of
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.reply_file import cleaned, read_replies
from relay_audit.report.as_difference import Compared, difference_page
from relay_audit.report.as_json import summary_json
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.leakguard import check, write_asked
from relay_audit.report.phrases import Phrases
from relay_audit.report.untrusted import show
from relay_audit.store import Store, run_lock
from relay_audit.words import Lang
from relay_audit.workspace import workspace

SHOWN_IDS = 6
DIFFERENCES = ("text", "html", "md", "json")
Other = Annotated[str, typer.Argument(metavar="RUN", help="The later run.")]


def diff(
    older: Annotated[str, typer.Argument(metavar="RUN", help="The earlier run.")],
    newer: Other,
    form: Annotated[str, typer.Option("--format", metavar="|".join(DIFFERENCES))] = "text",
    lang: options.LangOption = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """What changed between two runs, and whose change each is: relay, official side, knowledge, prices, tool, plan, noise."""
    form = "json" if json else form
    if form not in DIFFERENCES:
        raise UsageError("no such form here", next_step=f"--format {'|'.join(DIFFERENCES)}")
    chosen = language(lang, os.environ)
    with opened(older) as one, opened(newer) as two:
        found = difference(one, two)
        raw = difference_bytes(found, form, chosen)
        for store in (one, two):
            check(raw, "internal", (), own_keys(replay(store), os.environ), output.name if output else "")
    if output is None:
        say(raw.decode().rstrip("\n"), sys.stdout)
        return
    write_asked(output, raw)
    say(str(output))


def history(
    line: Annotated[str, typer.Argument(metavar="LINE", help="Name of the target, its host, or its model.")],
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Every run of one line here, oldest first, with what changed each time and whose change it was."""
    rows = history_of(line, workspace(os.environ, Path.cwd()).audits)
    chosen = language(lang, os.environ)
    if json:
        emit({"line": show(line, 80), "runs": [_history_row(row) for row in rows]})
    else:
        say("\n".join(_history_lines(rows, Catalogue.load(readable(chosen)))), sys.stdout)


def answer(
    run: options.RunId,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The vendor's replies, TOML or JSON.")],
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Keep the vendor's reply beside each finding it is to; no finding changes."""
    with opened(run) as store, run_lock(store.path):
        recorder, judgement = Recorder(store, SystemClock()), judge(store)
        audit.record_judgement(recorder, judgement)
        keys = own_keys(recorder.history, os.environ)
        rows = []
        for reply, finding in read_replies(file, judgement.findings):
            ref = recorder.blob({"untrusted_text": cleaned(reply.text, keys)})
            payload = {"finding": finding.id, "code": finding.code, "stance": reply.stance}
            recorder.note("answer.recorded", payload, ref, "human")
            rows.append(payload)
    words = Catalogue.load(language(lang, os.environ))
    emit({"run_id": store.run_id, "replies": rows}) if json else say(
        words.text("replies.stored", n=str(len(rows))), sys.stdout
    )


def assess(
    run: options.RunId,
    knowledge: Annotated[
        str, typer.Option("--knowledge", metavar="archived|current", help="Whose knowledge judges.")
    ] = "archived",
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Judge a stored run again; nothing is sent. With today's knowledge it says what changed and why."""
    if knowledge not in ("archived", "current"):
        raise UsageError("--knowledge is archived or current", next_step="archived reproduces the run's own judgement")
    chosen = language(lang, os.environ)
    with opened(run) as store:
        judgement, more = _assessed(store, current=knowledge == "current")
    words = Catalogue.load(chosen if json else readable(chosen))
    if json:
        emit({**_short(judgement, words), **{k: v for k, v in more.items() if k != "found"},
              "changes": [change_row(change, chosen) for change in more["found"]]})  # fmt: skip
        return
    lines = [words.text("assess.changed" if more["found"] else "assess.unchanged")] if knowledge == "current" else []
    lines += [f"  {line}" for change in more["found"] for line in change_lines(change, readable(chosen))]
    if more["files"]:
        lines.append(words.text("assess.files", files=", ".join(more["files"][:SHOWN_IDS])))
    if knowledge == "archived" and more["recorded"]:
        lines.append(words.text("assess.reproduced" if more["reproduced"] else "assess.differs"))
    say("\n".join([result(judgement, chosen, {}, os.environ), *lines]), sys.stdout)


def _assessed(store: Store, *, current: bool) -> tuple[Judgement, dict[str, Any]]:
    """The judgement, and how it stands to the one that was recorded or to the knowledge of the day."""
    run, then = replay(store), judge(store)
    library = current_library(run) if current else archived_library(run)
    found = by_knowledge(run, then, library)
    recorded = bool(store.events_of("assessment.recorded"))
    more = {
        "knowledge": "current" if current else "archived", "recorded": recorded, "reproduced": not found,
        "found": found, "files": changed_files(run.files, library.files) if current else [],
    }  # fmt: skip
    return (judge(store, current=True) if current else then), more


def _short(judgement: Judgement, words: Catalogue) -> dict[str, Any]:
    return summary_json(
        judgement.evidence, judgement.findings, judgement.coverage, judgement.verdict, True, words,
        knowledge_digest=judgement.knowledge_digest,
    )  # fmt: skip


def difference_bytes(found: Difference, form: str, lang: Lang) -> bytes:
    """Both runs side by side (`html`, `md`), one JSON object, or lines for a terminal."""
    if form == "text":
        return "\n".join(difference_lines(found, lang)).encode()
    if form == "json" or found.judged is None:
        return line_of_json(difference_object(found, lang)).encode()
    facts = [(fact.name, fact.before, fact.after) for fact in found.facts]
    compared = Compared(*found.judged, found.changes, facts, found.files, found.relay_changed, ACCEPT)
    return difference_page(compared, "md" if form == "md" else "html", Catalogue.load(lang))


def difference_object(found: Difference, lang: Lang) -> dict[str, Any]:
    return {
        "older": found.older,
        "newer": found.newer,
        "relay_changed": found.relay_changed,
        "causes": dict(Counter(change.cause for change in found.changes)),
        "changes": [change_row(change, lang, found.older) for change in found.changes],
        "facts": [{"name": fact.name, "before": show(fact.before), "after": show(fact.after)} for fact in found.facts],
        "knowledge_files": found.files,
    }


def change_row(change: Change, lang: Lang, older: str = "RUN") -> dict[str, Any]:
    """A change as an object: code, kind, cause; both findings in short form; what lets it stand where it is not the relay's."""
    row: dict[str, Any] = {"code": change.code, "check": change.check, "change": change.kind, "cause": change.cause}
    for name, item in (("before", change.before), ("after", change.after)):
        row[name] = None if item is None else _brief(item.model_dump(mode="json"))
    words = Catalogue.load(lang)
    row |= {"weighs": change.weighs, "why": change.why, "text": words.text(f"diff.why.{change.why}")}
    if change.params:
        row["params"] = {name: show(str(value)) for name, value in change.params.items()}
    if change.cause in ACCEPT:
        row["accept_cmd"] = ACCEPT[change.cause].format(older=older)
    return row


def _brief(dumped: dict[str, Any]) -> dict[str, Any]:
    return {name: dumped[name] for name in ("id", "outcome", "severity", "confidence", "basis")}


def difference_lines(found: Difference, lang: Lang) -> list[str]:
    words = Catalogue.load(lang)
    if not found.changes:
        lines = [words.text("diff.none", older=found.older, newer=found.newer)]
    else:
        lines = [words.text("diff.head", older=found.older, newer=found.newer, n=str(len(found.changes)))]
        lines.append(words.text("diff.relay" if found.relay_changed else "diff.not_relay"))
        lines += [line for change in found.changes for line in change_lines(change, lang, found.older)]
    if found.facts:
        lines += ["", words.text("diff.facts")]
        lines += [
            "  "
            + words.text("diff.fact", name=f.name, before=show(f.before, 80) or "-", after=show(f.after, 80) or "-")
            for f in found.facts
        ]
    return lines


def change_lines(change: Change, lang: Lang, older: str = "RUN") -> list[str]:
    words = Catalogue.load(lang)
    phrases = Phrases(words)
    finding = change.after or change.before
    title = phrases.title(finding) if finding is not None else change.code
    severities = " -> ".join(
        words.text(f"severity.{item.severity}") if item else "-" for item in (change.before, change.after)
    )
    lines = [
        f"  [{words.text(f'diff.cause.{change.cause}')}] {words.text(f'diff.{change.kind}')}  {title}  ({severities})"
    ]
    lines.append(f"      {words.text(f'diff.why.{change.why}')}")
    if change.weighs and change.cause in ACCEPT:
        lines.append("      " + words.text("diff.accept", command=ACCEPT[change.cause].format(older=older)))
    return lines


def _history_row(row: LineRun) -> dict[str, Any]:
    return {
        "run_id": row.run_id, "at": row.at.isoformat(timespec="seconds"), "hour_utc": row.at.hour, "status": row.status,
        "verdict": row.verdict, "findings": row.findings, "spent": row.spent, "changes": row.changes,
        "relay_changed": row.relay_changed,
    }  # fmt: skip


def _history_lines(rows: list[LineRun], words: Catalogue) -> list[str]:
    if not rows:
        return [words.text("history.none")]
    lines = []
    for row in rows:
        verdict = (
            words.text(f"verdict.{row.verdict}")
            if row.verdict
            else words.text("history.not_finished", status=row.status)
        )
        codes = ", ".join(row.findings) or words.text("history.clean")
        lines.append(
            words.text("history.row", date=f"{row.at:%Y-%m-%d %H:%M}", run=row.run_id, verdict=verdict, findings=codes)
        )
        changed = [
            words.text("history.change", n=str(n), cause=words.text(f"diff.cause.{c}")) for c, n in row.changes.items()
        ]
        lines += [f"    {', '.join(changed)}"] if changed else []
    hours: dict[int, list[LineRun]] = {}
    for row in rows:
        hours.setdefault(row.at.hour, []).append(row)
    lines += ["", words.text("history.hours")]
    return lines + [
        "  "
        + words.text("history.hour", hour=f"{hour:02}", n=str(len(own)), bad=str(sum(bool(r.findings) for r in own)))
        for hour, own in sorted(hours.items())
    ]
