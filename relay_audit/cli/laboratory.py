"""`demo` and `lab`: the whole audit against the built-in lab, and the lab by itself. Loopback only, no key, no account."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from relay_audit.cli import options
from relay_audit.cli.console import emit, language, say
from relay_audit.cli.course import run_one
from relay_audit.cli.flow import Invocation
from relay_audit.errors import UsageError
from relay_audit.lab import (
    DIALECTS,
    VIDEO_SCENARIOS,
    Dialect,
    Scenario,
    Served,
    VideoScenario,
    VideoWorld,
    scenarios_in,
    serve,
    serve_world,
)
from relay_audit.target import Target, target_from
from relay_audit.workspace import Workspace

PORTS_EACH = 3
"""Ports of one scenario: relay, official, and where redirects lead."""
DEMO = "hidden_508"
FILMS: Literal["films"] = "films"
SPOKEN = (*DIALECTS, FILMS)
DEMO_CEILING = Decimal(1)
ScenarioName = Annotated[str, typer.Argument(metavar="[SCENARIO]", help="A scenario of `relay-audit lab --list`.")]


def demo(scenario: ScenarioName = DEMO, lang: options.LangOption = None, json: options.Json = False) -> None:
    """The whole audit, both reports, against the built-in lab. Exit 0 unless it breaks."""
    chosen = _scenario(scenario)
    spoken = language(lang, os.environ)
    if not json:
        say(f"lab: {chosen.title.zh if spoken == 'zh-CN' else chosen.title.en}  ({chosen.name})")
    with serve(chosen) as served, tempfile.TemporaryDirectory(prefix="relay-audit-demo-") as home:
        call = Invocation(lang=spoken, as_json=json, no_input=True, max_usd=DEMO_CEILING)
        call.environ = {**os.environ, "LAB_RELAY_KEY": served.relay_key, "LAB_OFFICIAL_KEY": served.official_key}
        call.environ = {k: v for k, v in call.environ.items() if k != "RELAY_AUDIT_REQUIRE_APPROVE"}
        call.space = Workspace(call.space.audits, Path(home) / "state", Path(home) / "config")
        run_one(demo_target(served), call)


def demo_target(served: Served) -> Target:
    """The lab as a buyer would describe it."""
    return target_from(
        {
            "target": {"name": "lab-line", "model": "claude-sonnet-5-5", "claim": {"channel": "anthropic"}},
            "relay": {"base_url": served.relay_url, "key_env": "LAB_RELAY_KEY"},
            "official": {"base_url": served.official_url, "key_env": "LAB_OFFICIAL_KEY"},
        }
    )


def lab(
    scenarios: Annotated[list[str] | None, typer.Argument(metavar="[SCENARIO…]", show_default=False)] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the scenarios and end.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="What varies within a scenario.")] = 0,
    dialect: Annotated[
        str, typer.Option("--dialect", metavar="NAME", help=f"The wire format: {', '.join(SPOKEN)}.")
    ] = "anthropic",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65_000, help="The first relay's port; the rest follow it.")
    ] = 0,
    seconds: Annotated[int, typer.Option("--seconds", help="Serve so long; 0 until interrupted.")] = 0,
    json: options.Json = False,
) -> None:
    """Serve simulated vendors and relays on loopback; print their addresses and keys."""
    spoken = FILMS if dialect == FILMS else _dialect(dialect)
    if list_:
        rows = [
            {"name": s.name, "kind": s.kind, "title": s.title.en, "expect": sorted(s.expect)}
            for s in _known(spoken).values()
        ]
        emit({"scenarios": rows}) if json else say(
            "\n".join(f"{r['kind']:<10} {r['name']:<26} {r['title']}" for r in rows), sys.stdout
        )
        return
    usual = ["film_original", "film_restored"] if spoken == FILMS else ["honest", DEMO]
    chosen = [_scenario(name, spoken) for name in scenarios or usual]
    with contextlib.ExitStack() as stack:
        rows = []
        for number, scenario in enumerate(chosen):
            first = port and port + number * PORTS_EACH
            try:
                served = stack.enter_context(_serving(scenario, seed, spoken, first))
            except OSError as error:
                why = f"port {first} cannot be used: {error.strerror}"
                raise UsageError(why, next_step="another --port, or none: free ones are taken") from None
            rows.append(_served(scenario, served))
        if json:
            emit({"served": rows})
        else:
            say("\n".join(f"{name}: {value}" for row in rows for name, value in row.items()), sys.stdout)
        deadline = time.monotonic() + seconds
        while not seconds or time.monotonic() < deadline:
            time.sleep(0.2)


def _serving(
    scenario: Scenario | VideoScenario, seed: int, spoken: Dialect | Literal["films"], port: int
) -> contextlib.AbstractContextManager[Served]:
    """Films of the lab are unsigned: signing needs libraries that it does not have."""
    if isinstance(scenario, VideoScenario):
        return serve_world(VideoWorld(scenario, seed), port=port)
    return serve(scenario, seed, dialect=_dialect(spoken), port=port)


def _known(spoken: Dialect | Literal["films"]) -> dict[str, Any]:
    return dict(VIDEO_SCENARIOS) if spoken == FILMS else dict(scenarios_in(_dialect(spoken)))


def _served(scenario: Scenario | VideoScenario, served: Served) -> dict[str, Any]:
    return {
        "scenario": scenario.name,
        "dialect": served.world.dialect,
        "model": served.world.model,
        "relay": served.relay_url,
        "relay_key": served.relay_key,
        "official": served.official_url,
        "official_key": served.official_key,
    }


def _scenario(name: str, dialect: Dialect | Literal["films"] = "anthropic") -> Any:  # noqa: ANN401  of either table
    known = _known(dialect)
    if name not in known:
        raise UsageError(
            f"no scenario {name[:60]!r} in {dialect}", next_step=f"relay-audit lab --list --dialect {dialect}"
        )
    return known[name]


def _dialect(name: str) -> Dialect:
    known: Dialect | None = next((spoken for spoken in DIALECTS if spoken == name), None)
    if known is None:
        raise UsageError(f"the lab does not speak {name[:40]!r}", next_step=f"--dialect {' | '.join(SPOKEN)}")
    return known
