"""Commands over data: `probes` (what is sent) and `fingerprints` (what is known, and how old)."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from relay_audit.catalog import load_knowledge, load_packs, outside_digest, read_files
from relay_audit.cli import options
from relay_audit.cli.console import emit, language, say
from relay_audit.errors import UsageError
from relay_audit.fingerprint import Known
from relay_audit.roads import all_roads, roads_markdown

probes = typer.Typer(
    help="What is sent in your name.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
fingerprints = typer.Typer(
    help="What is known, from where, and how old it is.", no_args_is_help=True, rich_markup_mode=None
)
KINDS = ("ids", "headers", "errors", "baselines", "software", "models", "prices", "settings", "vendors",
         "signers", "media_profiles", "test_certificates", "authorities")  # fmt: skip
Name = Annotated[str, typer.Argument(metavar="ID")]


@probes.command(name="list")
def list_probes(packs: options.PacksDir = None, lang: options.LangOption = None, json: options.Json = False) -> None:
    """Every probe: id, checks, requests, question."""
    chosen = language(lang, {})
    rows = [
        {"id": p.id, "checks": list(p.checks), "requests": len(p.requests), "question": p.question.in_(chosen)}
        for p in load_packs(packs).probes
    ]
    if json:
        emit({"probes": rows})
    else:
        say("\n".join(f"{r['id']:<34} {r['checks']}  {r['question']}" for r in rows), sys.stdout)


@probes.command(name="show")
def show_probe(name: Name, packs: options.PacksDir = None, json: options.Json = False) -> None:
    """One probe as its file says it."""
    found = next((p for p in load_packs(packs).probes if p.id == name), None)
    if found is None:
        raise UsageError(f"no probe {name[:60]!r}", next_step="relay-audit probes list")
    if json:
        emit(found.model_dump(mode="json", by_alias=True))
        return
    files = read_files("probes", packs)
    say(
        files.get(f"{name}.toml") or files[next(path for path in files if path.removesuffix(".toml").endswith(name))],
        sys.stdout,
    )


@probes.command(name="check")
def check_probes(
    packs: options.PacksDir = None,
    digest_: Annotated[
        str,
        typer.Option(
            "--digest", metavar="SHA256", help="The digest of your own packs that you reviewed.", show_default=False
        ),
    ] = "",
    json: options.Json = False,
) -> None:
    """Load every pack; exit 2 names the first fault, and refuses packs from outside until their digest is given."""
    loaded = load_packs(packs)
    if packs is not None and (own := outside_digest(packs)) != digest_:
        raise UsageError(
            "these packs come from outside: review what they send, then name them by their digest",
            next_step=f"relay-audit probes check --packs {packs} --digest {own}",
            details={"digest": own},
        )
    emit({"ok": True, "probes": len(loaded.probes)}) if json else say(f"ok: {len(loaded.probes)} probes", sys.stdout)


@fingerprints.command(name="list")
def list_fingerprints(knowledge: options.KnowledgeDir = None, json: options.Json = False) -> None:
    """Every known fact: kind, id, date, age."""
    today = dt.datetime.now(dt.UTC).date()
    rows = [
        {
            "kind": kind,
            "id": fact.id,
            "observed": fact.observed.isoformat(),
            "age": fact.age(today),
            "level": fact.level,
        }
        for kind, fact in _facts(knowledge)
    ]
    if json:
        emit({"fingerprints": rows})
    else:
        say("\n".join(f"{r['kind']:<10} {r['id']:<44} {r['observed']}  {r['age']}" for r in rows), sys.stdout)


@fingerprints.command(name="show")
def show_fingerprint(name: Name, knowledge: options.KnowledgeDir = None, json: options.Json = False) -> None:
    """One fact with its source."""
    found = next((fact for _, fact in _facts(knowledge) if fact.id == name), None)
    if found is None:
        raise UsageError(f"no fact {name[:60]!r}", next_step="relay-audit fingerprints list")
    plain = found.model_dump(mode="json", by_alias=True)
    emit(plain) if json else say("\n".join(f"{key}: {value}" for key, value in plain.items()), sys.stdout)


@fingerprints.command(name="check")
def check_fingerprints(knowledge: options.KnowledgeDir = None, json: options.Json = False) -> None:
    """Load every file; exit 2 names the first fault."""
    number = sum(1 for _ in _facts(knowledge))
    emit({"ok": True, "facts": number}) if json else say(f"ok: {number} facts", sys.stdout)


@fingerprints.command(name="roads")
def show_roads(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="Every known model without it.")] = "",
    packs: options.PacksDir = None,
    knowledge: options.KnowledgeDir = None,
    json: options.Json = False,
) -> None:
    """By which roads a model can be told from its siblings; where none ends in its name it stays not verifiable."""
    loaded, known = load_packs(packs), load_knowledge(knowledge)
    rows = all_roads(loaded.dialects, loaded.probes, known, dt.datetime.now(dt.UTC).date(), model)
    if not rows:
        raise UsageError(f"no vendor's model {model[:60]!r} is known", next_step="relay-audit fingerprints roads")
    if json:
        emit({"roads": [row.plain() for row in rows]})
    else:
        say(roads_markdown(rows), sys.stdout)


def _facts(extra: Path | None) -> Iterator[tuple[str, Known]]:
    known = load_knowledge(extra)
    for kind in KINDS:
        for fact in getattr(known, kind):
            yield kind, fact
