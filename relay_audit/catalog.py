"""Packs and knowledge out of their folders: read, checked whole, refused where they break their own rules.

Both are made from (path, text) maps, so that the copy archived with a run loads exactly as the folder of the day did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType

from relay_audit.codes import CODES
from relay_audit.errors import PackError
from relay_audit.exchange import pointer
from relay_audit.fingerprint import ROWS, Knowledge, Known, VerdictRule
from relay_audit.media_facts import Pin
from relay_audit.pack import Pack
from relay_audit.plan import combinations
from relay_audit.probe import Probe, RequestSpec
from relay_audit.question import Question, values_of
from relay_audit.refusal import line_of, nearest, parse, read_as, refuse
from relay_audit.resources import folder
from relay_audit.wording import Wording, Wordlists
from relay_audit.words import digest

PROBES = "probes"
KNOWLEDGE = "known_fingerprints"
WORDLISTS = "wordlists.toml"
PINS = "pins_of_this_run.toml"
"""Where the buyer's own originals stand among the knowledge of a run."""
ANYTHING = Question(
    model="model", official_model="model", dialect="any", profile="standard", checks=(), software="", counter=False
)
"""What a body is filled for when it is only read over."""


@dataclass(frozen=True)
class Packs:
    dialects: Mapping[str, Pack]
    probes: tuple[Probe, ...]
    wordlists: Wordlists

    def pack(self, dialect: str) -> Pack:
        """The pack of a dialect. Raises `PackError` naming the nearest."""
        if dialect not in self.dialects:
            raise PackError(
                f"no pack speaks the dialect {dialect}{nearest(dialect, list(self.dialects))}",
                next_step="correct target.dialect, or name the folder of your own pack: --packs DIR",
            )
        return self.dialects[dialect]


def load_packs(extra: Path | None = None) -> Packs:
    """The shipped packs and those of `--packs DIR`. Raises `PackError`."""
    return packs_from(read_files(PROBES, extra))


def load_knowledge(extra: Path | None = None) -> Knowledge:
    """The shipped knowledge and that of `--knowledge DIR`. Raises `PackError`."""
    return knowledge_from(read_files(KNOWLEDGE, extra))


def read_files(name: str, extra: Path | None = None) -> dict[str, str]:
    """Every TOML file of a shipped folder, and of the user's beside it, as path → text. A user's file never takes a
    shipped one's place: that is refused, since what was reviewed under a name must be what is sent under it."""
    files = dict(_toml_files(folder(name)))
    if extra is None:
        return files
    if not extra.is_dir():
        raise PackError(f"{extra.name} is not a folder", next_step="name a folder that holds TOML files")
    for path, text in _toml_files(extra):
        if path in files:
            raise refuse(path, "shadows a shipped definition; give yours a folder or name of its own")
        files[path] = text
    return files


def outside_digest(packs: Path) -> str:
    """What a reviewer of a folder of packs signs for: the digest of all its texts."""
    return digest(dict(_toml_files(packs)))


def knowledge_digest(files: Mapping[str, str]) -> str:
    """An input of every assessment: same run and same digest, same bytes."""
    return digest(dict(files))


def packs_from(files: Mapping[str, str]) -> Packs:
    """Packs from path → text. Raises `PackError` for the first file that breaks a rule."""
    return _packs(tuple(sorted(files.items())))


@lru_cache(maxsize=8)
def _packs(texts: tuple[tuple[str, str], ...]) -> Packs:
    """The last few are kept: a run is judged by the very texts that it was planned with."""
    files = dict(texts)
    if WORDLISTS not in files:
        raise refuse(WORDLISTS, "is missing; every generated text comes from it")
    lists = read_as(Wordlists, parse(WORDLISTS, files[WORDLISTS]), WORDLISTS, files[WORDLISTS])
    dialects: dict[str, Pack] = {}
    probes: dict[str, Probe] = {}
    for path in sorted(set(files) - {WORDLISTS}):
        table = parse(path, files[path], money=False)
        if path.rsplit("/", 1)[-1] == "pack.toml":
            pack = read_as(Pack, table, path, files[path])
            if pack.dialect in dialects:
                raise refuse(path, f"the dialect {pack.dialect} is defined twice", line_of(files[path], ("dialect",)))
            dialects[pack.dialect] = pack
        else:
            probes[path] = read_as(Probe, table, path, files[path])
    for path, probe in probes.items():
        _check_probe(probe, path, files[path], dialects, lists)
        _check_order(probe, path, files[path], probes.values())
    return Packs(MappingProxyType(dialects), tuple(probes.values()), lists)


def knowledge_from(files: Mapping[str, str]) -> Knowledge:
    """Knowledge from path → text. Raises `PackError` for the first file that breaks a rule."""
    rows: dict[str, list[Known | VerdictRule | Pin]] = {kind: [] for kind in ROWS}
    places: dict[tuple[str, str], str] = {}
    for path in sorted(files):
        for kind, row in _rows(path, files[path]):
            if kind == "pins" and path != PINS:
                raise refuse(
                    path, "pins are your own originals; they are made with: relay-audit pin FILE --profile NAME"
                )
            if (first := places.get((kind, row.id))) is not None:
                raise refuse(path, f"{kind} {row.id} is defined twice (first in {first}); give yours an id of its own")
            places[kind, row.id] = path
            rows[kind].append(row)
    knowledge = Knowledge.model_validate(rows)
    _check_knowledge(knowledge, places)
    return knowledge


@lru_cache(maxsize=256)
def _rows(path: str, text: str) -> tuple[tuple[str, Known | VerdictRule | Pin], ...]:
    """A file's rows. The same text is the same rows, and rows do not change: it is read once."""
    return tuple(_read_rows(path, text))


def _read_rows(path: str, text: str) -> Iterator[tuple[str, Known | VerdictRule | Pin]]:
    for kind, tables in parse(path, text).items():
        if kind not in ROWS:
            raise refuse(path, f"unknown table {kind}{nearest(kind, list(ROWS))}", line_of(text, (kind,)))
        if not isinstance(tables, list):
            raise refuse(path, f"{kind} is a list of tables: write [[{kind}]]", line_of(text, (kind,)))
        for index, table in enumerate(tables):
            yield kind, read_as(ROWS[kind], table, path, text, (kind, index))


def _toml_files(where: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in sorted(where.iterdir(), key=lambda item: item.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _toml_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            try:
                text = entry.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise refuse(prefix + entry.name, "is not UTF-8 text") from None
            yield prefix + entry.name, text


def _check_probe(probe: Probe, path: str, text: str, dialects: Mapping[str, Pack], lists: Wordlists) -> None:
    if f"{probe.id}.toml" != path:
        what = f"its id {probe.id} is not where it lies; the id is the path without .toml"
        raise refuse(path, what, line_of(text, ("id",)))
    for name in probe.applies.dialects:
        if name not in dialects:
            what = f"no pack speaks {name}{nearest(name, list(dialects))}"
            raise refuse(path, what, line_of(text, ("applies", "dialects")))
        if any(request.counted for request in probe.requests) and dialects[name].counter is None:
            raise refuse(path, f"is counted, but the pack {name} has no counter", line_of(text, ("paired",)))
    for index, request in enumerate(probe.requests):
        try:
            _fill_every_body(request, lists, {dialects[name].output_limit for name in probe.applies.dialects})
        except PackError as error:
            where = ("requests", index, "body")
            raise refuse(path, f"requests[{index}].body: {error.message}", line_of(text, where)) from None


def _check_order(probe: Probe, path: str, text: str, probes: Iterable[Probe]) -> None:
    """A case that waits for another one has that one in each of its dialects."""
    for request in probe.requests:
        for case in (case for case in request.cases if case.after):
            for dialect in probe.applies.dialects:
                beside = [p for p in probes if dialect in p.applies.dialects]
                known = [c.id for p in beside for r in p.requests for c in r.cases if c.id != case.id]
                if case.after not in known:
                    what = f"{case.id} is sent after {case.after}, which nothing in {dialect} sends{nearest(case.after, known)}"
                    raise refuse(path, what, line_of(text, ("requests",)))


def _fill_every_body(request: RequestSpec, lists: Wordlists, limits: set[str]) -> None:
    """What cannot be written cannot be quoted: each body is filled once, and none may allow more than its bound."""
    wording = Wording(lists, seed=0, published_sentence="a sentence")
    bodies = [(request.body, values_of(ANYTHING, factors), False) for factors in combinations(request)]
    bodies += [(request.body | case.set, values_of(ANYTHING, {}), case.unbounded) for case in request.cases]
    for body, values, unbounded in bodies:
        filled = wording.fill(body, values, request.id)
        for where in sorted(limits):
            limit = pointer(filled, where)
            if isinstance(limit, int) and limit > request.bound.output_tokens and not unbounded:
                raise PackError(f"{where[1:]} {limit} is more than bound.output_tokens {request.bound.output_tokens}")


def _check_knowledge(knowledge: Knowledge, places: Mapping[tuple[str, str], str]) -> None:
    """Rows that speak of other rows, or of finding codes, speak of ones that are there."""
    software = [row.name for row in knowledge.software]
    spoken_of = [("settings", row.id, row.codes) for row in knowledge.settings]
    spoken_of += [("rules", row.id, row.any_code) for row in knowledge.rules]
    for kind, name, codes in spoken_of:
        for code in (code for code in codes if not _is_code(code)):
            raise refuse(places[kind, name], f"{kind} {name}: no finding code {code}{nearest(code, list(CODES))}")
    for setting in (row for row in knowledge.settings if row.software not in software):
        what = f"settings {setting.id}: unknown software {setting.software}{nearest(setting.software, software)}"
        raise refuse(places["settings", setting.id], what)
    for kind in (kind for kind, row_type in ROWS.items() if issubclass(row_type, Known)):
        rows: tuple[Known, ...] = getattr(knowledge, kind)
        for row in (row for row in rows if row.superseded_by and (kind, row.superseded_by) not in places):
            raise refuse(
                places[kind, row.id], f"{kind} {row.id} is superseded by {row.superseded_by}, which is not there"
            )


def _is_code(code: str) -> bool:
    return any(known.startswith(code[:-1]) for known in CODES) if code.endswith("*") else code in CODES
