"""`skill`: the instructions for agents, always those of this version."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from relay_audit import skill
from relay_audit.cli import options
from relay_audit.cli.console import emit, language, say
from relay_audit.errors import UsageError

group = typer.Typer(
    help="Instructions for agents, of this version.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@group.command(name="show")
def show(
    topic: Annotated[str, typer.Argument(metavar="[TOPIC]", help="One of those that the first names.")] = skill.FIRST,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """What an agent does, step by step; a topic of its own for errors, money, reading, CI and permissions."""
    spoken = language(lang, os.environ)
    text = skill.topic(topic, spoken)
    emit({"topic": topic, "lang": spoken, "topics": list(skill.topics()), "text": text}) if json else say(
        text.rstrip("\n"), sys.stdout
    )


@group.command(name="install")
def install(
    claude: Annotated[bool, typer.Option("--claude", help="Into .claude/skills of this folder.")] = False,
    codex: Annotated[bool, typer.Option("--codex", help="Into .agents/skills of this folder.")] = False,
    cursor: Annotated[bool, typer.Option("--cursor", help="Into .cursor/skills of this folder.")] = False,
    into: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Into another folder of skills.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Put the skill where an agent looks for it. Settings and permissions are left alone."""
    asked = {"claude": claude, "codex": codex, "cursor": cursor}
    parents = [Path(skill.PLACES[name]) for name, wanted in asked.items() if wanted] + ([into] if into else [])
    if not parents:
        raise UsageError(
            "name the agent that the skill is for",
            next_step="relay-audit skill install --claude (--codex, --cursor, --dir DIR)",
        )
    try:
        places = [str(skill.install(parent)) for parent in parents]
    except OSError as error:
        raise UsageError(
            f"the skill cannot be written: {error.strerror}", next_step="name another folder: --dir DIR"
        ) from None
    following = "relay-audit skill show permissions"
    if json:
        emit({"installed": places, "next": following})
    else:
        say("\n".join(f"installed: {place}" for place in places) + f"\n  -> {following}", sys.stdout)
