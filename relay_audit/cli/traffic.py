"""`import-traffic`: checks on traffic that exists already. Nothing is sent to a relay and nothing is charged."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from relay_audit import audit
from relay_audit.cli import arguments, options, screens
from relay_audit.cli.console import emit, interactive, language, readable, say
from relay_audit.cli.terminal import result
from relay_audit.clock import SystemClock
from relay_audit.exits import exit_code
from relay_audit.keys import workspace_salt
from relay_audit.recorded import read_traffic
from relay_audit.recorded_counts import ask_counts, official_way
from relay_audit.recorded_run import check_claim, record_traffic
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.untrusted import show
from relay_audit.workspace import workspace

CountingKey = Annotated[
    str | None,
    typer.Option(
        "--official-key-env",
        metavar="NAME",
        help="Send some of the bodies to the vendor's free counter: the NAME of the variable with its key.",
        show_default=False,
    ),
]


def import_traffic(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A HAR file, or an agent's transcript (JSON lines).")],
    claim: options.ClaimOption = "unknown",
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="What was bought, where the file does not say.")
    ] = "",
    base_url: Annotated[str, typer.Option("--base-url", metavar="URL", help="Only calls to this address.")] = "",
    official_key_env: CountingKey = None,
    official_base_url: options.OfficialBaseUrl = None,
    official_model: Annotated[
        str,
        typer.Option("--official-model", metavar="NAME", help="What the vendor calls the model.", show_default=False),
    ] = "",
    official_proxy: options.OfficialProxy = None,
    allow_origin: options.AllowOrigin = None,
    allow_official_key_to: options.AllowOfficialKeyTo = "",
    knowledge: options.KnowledgeDir = None,
    fail_on: options.FailOnOption = "medium",
    allow_inconclusive: options.AllowInconclusive = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Checks 1, 2 and 6 on recorded traffic, at no cost: what a gated relay allows."""
    level = arguments.severity(fail_on)
    traffic, clock = read_traffic(file, base_url), SystemClock()
    library, space = audit.load_library(None, knowledge), workspace(os.environ, Path.cwd())
    check_claim(claim, library)
    counts = None
    if official_key_env is not None:
        asking = interactive(as_json=json, no_input=False, environ=os.environ)
        allowed = arguments.permissions(allow_origin, allow_official_key_to, private=False, key="", may_ask=asking)
        pack = library.packs.pack(traffic.dialect)
        way = official_way(official_key_env, official_base_url or "", pack, library.key_shapes, space, os.environ, allowed,
                           traffic, official_proxy or "")  # fmt: skip
        named = official_model or model or traffic.model
        counts = asyncio.run(ask_counts(traffic, pack, named, way, workspace_salt(space.state), clock))
    recorder = record_traffic(traffic, claim, model, library, space, clock.now(), clock, counts)
    with recorder.store as store:
        judgement = audit.judge(store)
        audit.record_judgement(recorder, judgement)
    chosen = language(lang, os.environ)
    if json:
        emit({**screens.short_object(judgement, chosen, {}), "calls": len(traffic.calls), "left_out": traffic.left_out})
    else:
        words = Catalogue.load(readable(chosen))
        numbers = {"n": str(len(traffic.calls)), "left": str(traffic.left_out)}
        say(words.text("traffic.taken", model=show(traffic.model, 80) or "-", **numbers), sys.stdout)
        say(result(judgement, chosen, {}, os.environ), sys.stdout)
    raise typer.Exit(
        exit_code(
            judgement.evidence, judgement.findings, judgement.coverage, judgement.verdict, level,
            allow_inconclusive=allow_inconclusive,
        )
    )  # fmt: skip
