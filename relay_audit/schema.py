"""Documents out of the definitions: JSON Schemas for pack and knowledge files, and the tables in the documentation.

`python -m relay_audit.schema` says what differs (exit 1), `--write` writes it. A test fails when a file differs.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.codes import CODES
from relay_audit.errors import EXIT_CODES, EXIT_PRECEDENCE
from relay_audit.events import Event, events_markdown
from relay_audit.finding import SEVERITIES, Outcome, Severity
from relay_audit.fingerprint import ROWS, Knowledge, Known
from relay_audit.manifest import models as archive_models
from relay_audit.pack import Pack
from relay_audit.plan import combinations
from relay_audit.probe import GENERATORS, VALUES, Probe, RequestSpec
from relay_audit.report_shape import ReportShape
from relay_audit.resources import checkout
from relay_audit.roads import all_roads, roads_markdown
from relay_audit.wording import Wordlists

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BEGIN, END = "<!-- generated: python -m relay_audit.schema --write -->", "<!-- end of the generated part -->"


def probe_schema() -> dict[str, Any]:
    """For every TOML file under `probes/`: a probe, a `pack.toml`, or the word lists."""
    return _schema("A file under probes/", (Probe, Pack, Wordlists), "anyOf")


def fingerprint_schema() -> dict[str, Any]:
    """For every TOML file under `known_fingerprints/`: lists of rows, by table name."""
    whole = _schema("A file under known_fingerprints/", tuple(ROWS.values()), "")
    whole["type"], whole["additionalProperties"] = "object", False
    whole["properties"] = {
        kind: {"type": "array", "items": {"$ref": f"#/$defs/{row.__name__}"}} for kind, row in ROWS.items()
    }
    return whole


def probes_markdown() -> str:
    """What each shipped probe sends, at most costs, asks, and does not prove; then what a body may refer to."""
    packs = load_packs()
    lines: list[str] = []
    for name, pack in sorted(packs.dialects.items()):
        lines += [f"## {pack.title.en} · {pack.title.zh} (`{name}`)", ""]
        for probe in (p for p in packs.probes if name in p.applies.dialects):
            lines += _probe_lines(probe)
    lines += ["## Values and generators", "", *_table(("in a body", "stands for"), VALUES.items()), ""]
    lines += _table(("generator", "makes"), GENERATORS.items())
    return "\n".join(lines) + "\n"


def fingerprints_markdown() -> str:
    """Every row that carries a date: what it means, since when, from where."""
    knowledge = load_knowledge()
    lines: list[str] = []
    for kind in (k for k in ROWS if issubclass(ROWS[k], Known)):
        lines += [f"## `[[{kind}]]`", ""]
        lines += _table(("id", "meaning", "observed", "holds", "evidence", "source"), _dated(knowledge, kind))
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def archive_schema() -> dict[str, Any]:
    """For `manifest.json` and for each line of `events.ndjson` of an archive."""
    return _schema("manifest.json of an archive, or a line of its events.ndjson", archive_models(), "anyOf")


def codes_markdown() -> str:
    """Every finding code with its trigger and defaults."""
    head = ("code", "check", "outcome", "severity", "accusation", "impact", "trigger")
    rows = [
        (
            f"`{name}`",
            str(c.check or "run"),
            c.outcome,
            c.severity,
            _accuses(c.outcome, c.severity),
            c.impact,
            c.trigger,
        )
        for name, c in CODES.items()
    ]
    return "\n".join(
        [
            "# Finding codes",
            "",
            "Generated from `relay_audit/codes.py`. A code is never reused. An accusation is a mismatch of severity",
            "medium or higher; severity and outcome are the defaults, a finding may carry weaker ones.",
            "",
            *_table(head, rows),
            "",
        ]
    )


def exit_codes_markdown() -> str:
    """The exit codes, and which wins when several apply."""
    order = " > ".join(str(code) for code in EXIT_PRECEDENCE)
    rows = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
    return "\n".join(
        ["# Exit codes", "", "Generated from `relay_audit/errors.py`.", "", *_table(("code", "meaning"), rows), "",
         f"When several apply: {order}.", ""]
    )  # fmt: skip


def model_roads_markdown() -> str:
    """What can tell each known model from its siblings, on the day of the newest fact about models."""
    packs, knowledge = load_packs(), load_knowledge()
    day = max(row.observed for row in knowledge.models)
    return "\n".join(
        ["# Roads to a model's name", "",
         f"Generated from `probes/` and `known_fingerprints/` as of {day}; `relay-audit fingerprints roads` prints today's.", "",
         "A road in the second column ends in the model's own name: where a relay lets it through and it agrees, that is",
         "`model.matches`. The next four are signs: they exclude the siblings named and confirm nobody. Whoever stands in the",
         "last column is not told from the model as long as no name comes through. Without a name the model is",
         "`model.not_verifiable`, never a pass. Whatever the model, a relay's own header or log may admit another one.", "",
         "*Tool prompt* is what the vendor itself adds to the input where a tool is offered. It is compared among models of one",
         "tokenizer whose figure was published, where the figures are more than 8 tokens apart; those of the tokenizer before",
         "4.7 are alike to a token. A model without a published figure is told from nobody by it: with an official key the",
         "vendor's own count of the day stands in for the figure, and what differs from that is said.", "",
         roads_markdown(all_roads(packs.dialects, packs.probes, knowledge, day))]
    )  # fmt: skip


DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "probes/probe.schema.json": lambda: _json(probe_schema()),
    "known_fingerprints/fingerprint.schema.json": lambda: _json(fingerprint_schema()),
    "docs/report.schema.json": lambda: _json(_schema("What report --format json gives", (ReportShape,), "anyOf")),
    "docs/archive.schema.json": lambda: _json(archive_schema()),
    "docs/finding_codes.md": codes_markdown,
    "docs/exit_codes.md": exit_codes_markdown,
    "docs/events.md": lambda: events_markdown(said_under_fields(Event)),
    "docs/model_roads.md": model_roads_markdown,
    "probes/README.md": lambda: _with_part("probes/README.md", probes_markdown()),
    "known_fingerprints/README.md": lambda: _with_part("known_fingerprints/README.md", fingerprints_markdown()),
}
"""Path in the repository → how what the file has to hold is worked out."""


@cache
def document(path: str) -> str:
    """What the file has to hold. Worked out once: definitions do not change while a program runs."""
    return DOCUMENTS[path]()


def differing(root: Path) -> list[str]:
    """The documents that are missing or not what the definitions say."""
    return [path for path in DOCUMENTS if not _holds(root / path, document(path))]


def main(arguments: list[str]) -> int:
    root = checkout()
    if not (root / "pyproject.toml").is_file():
        sys.stderr.write("documents are generated in a checkout of the repository\n")
        return 2
    changed = differing(root)
    if "--write" in arguments:
        for path in changed:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(document(path), encoding="utf-8", newline="\n")
    sys.stdout.writelines(f"{path}\n" for path in changed)
    return 1 if changed and "--write" not in arguments else 0


def _schema(title: str, models: tuple[type[Any], ...], join: str) -> dict[str, Any]:
    _, whole = models_json_schema([(model, "validation") for model in models], by_alias=True)
    for reached in {found for model in models for found in _reached(model)}:
        properties = whole["$defs"].get(reached.__name__, {}).get("properties", {})
        for name, said in said_under_fields(reached).items():
            properties.get(reached.model_fields[name].alias or name, {}).setdefault("description", said)
    top: dict[str, Any] = {"$schema": DIALECT, "title": title}
    if join:
        top[join] = [{"$ref": f"#/$defs/{model.__name__}"} for model in models]
    return {**top, "$defs": whole["$defs"]}


def _reached(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401  any annotation
    """Every model in an annotation, and in the fields of each."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _reached(field.annotation)
    for part in get_args(annotation):
        yield from _reached(part)


def said_under_fields(model: type[BaseModel]) -> dict[str, str]:
    """Field → the text that stands under it in the source. Read here and not by pydantic when a class is made: that
    would be a tenth of every start."""
    found: dict[str, str] = {}
    for owner in (kind for kind in reversed(model.__mro__) if issubclass(kind, BaseModel) and kind is not BaseModel):
        (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        lines = parsed.body if isinstance(parsed, ast.ClassDef) else []
        for field, under in pairwise(lines):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(under, ast.Expr):
                said = under.value.value if isinstance(under.value, ast.Constant) else None
                if isinstance(said, str) and field.target.id in model.model_fields:
                    found[field.target.id] = inspect.cleandoc(said)
    return found


def _probe_lines(probe: Probe) -> list[str]:
    sent = [
        f"{sum(1 + case.again for case in r.cases) or len(combinations(r)) * r.repeat} × `{r.method} {r.path}` ({r.id}: each at most "
        f"{r.bound.input_tokens:,} input tokens above the count and {r.bound.output_tokens} output tokens{_beside(r)})"
        for r in probe.requests
    ]
    applies = probe.applies
    when = [f"counter {applies.counter}", f"baseline {applies.baseline}", f"profiles {', '.join(applies.profiles)}"]
    when += [f"only with `--also {applies.also}`"] * (applies.also is not None)
    return [
        f"### `{probe.id}`", "",
        f"{probe.question.en}  ", probe.question.zh, "",
        f"- checks {', '.join(map(str, probe.checks))}; assessors {', '.join(probe.assess)}; {'; '.join(when)}",
        f"- sent: {'; '.join(sent)}",
        f"- why: {probe.motivation.en}  ", f"  {probe.motivation.zh}",
        f"- what it does not prove: {probe.caveat.en}  ", f"  {probe.caveat.zh}", "",
    ]  # fmt: skip


def _beside(request: RequestSpec) -> str:
    """What the vendor is asked of the same bodies."""
    if request.counted:
        return "; counted by the vendor before and after"
    if not request.mirrored:
        return ""
    return "; sent to the vendor too" + (", what it refuses before and after" if request.cases else "")


def _dated(knowledge: Knowledge, kind: str) -> list[tuple[str, ...]]:
    rows: tuple[Known, ...] = getattr(knowledge, kind)
    return [
        (
            f"`{r.id}`",
            f"{r.meaning.en} {r.meaning.zh}",
            r.observed.isoformat(),
            f"{r.term_days} days",
            r.level,
            r.source,
        )
        for r in rows
    ]


def _accuses(outcome: Outcome, severity: Severity) -> str:
    weight = SEVERITIES.index(severity)
    return "yes" if outcome == "mismatch" and weight >= SEVERITIES.index("medium") else "no"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _with_part(path: str, generated: str) -> str:
    """The file as it lies, its generated part replaced; without the two marks the part is put at its end."""
    file = checkout() / path
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if BEGIN not in text or END not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n".lstrip()
    before, after = text.split(BEGIN, 1)[0], text.split(END, 1)[1]
    return f"{before}{BEGIN}\n\n{generated}\n{END}{after}"


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
