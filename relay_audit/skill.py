"""The agent's instructions: the installable folder, and the topics that this version serves.

The installed file is a thin stub; what to do is asked of the program itself, so that text and program never part.
Format and places: agentskills.io, and the documentation of Claude Code, Codex and Cursor (read 2026-11).
"""

from __future__ import annotations

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import get_args

from relay_audit.disk import write_durably
from relay_audit.errors import UsageError
from relay_audit.refusal import nearest
from relay_audit.resources import folder, skill_folder
from relay_audit.words import Lang

FIRST = "audit"
"""The topic that is shown when none is named."""
PLACES = {"claude": ".claude/skills", "codex": ".agents/skills", "cursor": ".cursor/skills"}
"""Where each agent looks for skills, below a project's root."""
NAME = "relay-audit"
ASSETS = {
    "{claude}": "claude-code.settings.json",
    "{codex}": "codex.rules",
    "{codex_config}": "codex.config.toml",
}
"""What a topic may quote out of the installable folder."""


def topics() -> tuple[str, ...]:
    """The topics' names; the same in every language."""
    return tuple(sorted(f.name.removesuffix(".md") for f in folder("skills/topics/en").iterdir()))


def topic(name: str, lang: Lang) -> str:
    """One topic's text, at most 8 KB. Raises `UsageError` for a name that there is none of."""
    if name not in topics():
        raise UsageError(
            f"no topic {name[:40]!r}{nearest(name[:40], list(topics()))}",
            next_step="topics: " + ", ".join(topics()),
        )
    text = folder(f"skills/topics/{lang}").joinpath(f"{name}.md").read_text(encoding="utf-8")
    for mark, asset in ASSETS.items():
        if mark in text:
            text = text.replace(mark, skill_folder().joinpath("assets", asset).read_text(encoding="utf-8").strip())
    return text


def languages() -> tuple[str, ...]:
    return get_args(Lang)


def files() -> dict[str, bytes]:
    """The installable folder: path below it → bytes."""
    return dict(_walk(skill_folder(), ""))


def _walk(place: Traversable, below: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for item in sorted(place.iterdir(), key=lambda f: f.name):
        path = f"{below}{item.name}"
        found += _walk(item, f"{path}/") if item.is_dir() else [(path, item.read_bytes())]
    return found


def install(parent: Path) -> Path:
    """Writes the skill to `parent/relay-audit`; an older copy of ours is replaced, a stranger's folder is not touched.

    Raises `UsageError` when the folder holds something else.
    """
    place = parent / NAME
    present = place / "SKILL.md"
    if place.is_symlink() or (place.exists() and not _ours(present)):
        raise UsageError(
            f"{place} is there already and is not this skill",
            next_step="move it away, or name another folder with --dir",
        )
    for path, data in files().items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_durably(target, data)
    return place


def _ours(file: Path) -> bool:
    try:
        head = file.read_text(encoding="utf-8")[:2000]
    except (OSError, UnicodeDecodeError):
        return False
    return f"\nname: {NAME}\n" in head and "relay-audit-toolkit" in head
