"""What a run that repeats an earlier one says of the two: whose change it was, and which findings fell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from relay_audit.again import Compared, compare
from relay_audit.cli.console import readable, say
from relay_audit.clock import Clock
from relay_audit.errors import RunNotFound, UsageError
from relay_audit.finding import Finding
from relay_audit.judgement import Judgement
from relay_audit.recorder import Recorder
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.store import Store, locate, run_lock
from relay_audit.words import Lang
from relay_audit.workspace import Workspace


class Call(Protocol):
    """What of a command line is needed here."""

    @property
    def lang(self) -> Lang: ...
    @property
    def space(self) -> Workspace: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def environ(self) -> Mapping[str, str]: ...


@dataclass
class Beside:
    """Nothing, for a run that repeats none."""

    fields: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    excused: frozenset[str] = frozenset()

    def counted(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """The findings that count for the exit code: what came without the relay fails no night."""
        return tuple(finding for finding in findings if finding.id not in self.excused)


def compared(recorder: Recorder, judgement: Judgement, call: Call) -> Beside:
    """The earlier run may be gone or at work: then this one is judged alone, and says so."""
    run = recorder.history.facts.since
    if not run or recorder.history.status != "completed":
        return Beside()
    try:
        path = locate(run, [call.space.audits], call.space.state)
        with Store.open(path) as older, run_lock(path):
            found = compare(recorder, judgement, older, call.clock)
    except (RunNotFound, UsageError) as error:
        say(f"relay-audit: {error.message}\n  -> {error.next_step}")
        return Beside({"since": {"run": run, "compared": False}})
    return Beside(_fields(found), _text(found, readable(call.lang)), found.excused)


def _fields(found: Compared) -> dict[str, Any]:
    result = found.difference
    fields: dict[str, Any] = {
        "since": {
            "run": result.older, "compared": True, "relay_changed": result.relay_changed,
            "causes": dict(Counter(change.cause for change in result.changes)),
            "diff_cmd": f"relay-audit diff {result.older} {result.newer}",
        }
    }  # fmt: skip
    if found.fates:
        fields["retest"] = [{"finding": f.id, "code": f.code, "fate": fate} for f, fate in found.fates]
    return fields


def _text(found: Compared, lang: Lang) -> str:
    words = Catalogue.load(lang)
    phrases = Phrases(words)
    lines = [words.text("diff.relay" if found.difference.relay_changed else "diff.not_relay")]
    lines += [f"  -> relay-audit diff {found.difference.older} {found.difference.newer}"]
    for finding, fate in found.fates:
        params = {"finding": finding.id, "title": phrases.title(finding), "run": found.difference.older}
        key = f"retest.{fate}"
        lines.append("  " + words.text(key, **{n: v for n, v in params.items() if n in words.placeholders(key)}))
    return "\n".join(lines)
