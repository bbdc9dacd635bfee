"""What was typed becomes values: targets out of a file or of the quick form, amounts, permissions, keys."""

from __future__ import annotations

import getpass
import os
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, cast

import typer

from relay_audit.cli.console import interactive, say
from relay_audit.connect import Permissions
from relay_audit.errors import TargetError, UsageError
from relay_audit.exits import FailOn
from relay_audit.keys import read_key_file
from relay_audit.refusal import line_of
from relay_audit.target import Place, Target, origin_of, read_target, target_from


def targets_from(file: Path | None, quick: dict[str, Any]) -> list[Target]:
    """Targets of a file, or one of the quick form; overrides of the command line applied. Raises `UsageError`."""
    if file is not None:
        targets = read_target(text_of(file))
    elif quick.get("base_url") and quick.get("model"):
        targets = [_quick(quick)]
    else:
        raise UsageError(
            "no target: name a target file, or give --base-url and --model",
            next_step="relay-audit run target.toml, or see relay-audit run --help",
            details={"needs": _needs(quick)},
        )
    return [_overridden(target, quick) for target in targets]


def place_of(file: Path | None) -> Place | None:
    """The line of a target file that names the model, relative to here; the bare name for a file elsewhere."""
    if file is None:
        return None
    here, whole = Path.cwd().resolve(), file.resolve()
    path = whole.relative_to(here).as_posix() if whole.is_relative_to(here) else file.name
    text = text_of(file)
    line = line_of(text, ("target", "model")) or line_of(text, ("target",)) or 1
    return Place(path=path, line=line)


def amount(text: str | None, option: str) -> Decimal | None:
    """A positive decimal amount. Raises `UsageError`."""
    if text is None:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value <= 0:
        raise UsageError(f"{option} is not a positive amount", next_step=f"for example {option} 0.25")
    return value


def severity(text: str) -> FailOn:
    """Raises `typer.BadParameter`."""
    if text not in ("none", "low", "medium", "high", "critical"):
        raise typer.BadParameter("one of none, low, medium, high, critical", param_hint="--fail-on")
    return cast("FailOn", text)


def permissions(
    allow_origin: list[str] | None, official_key_to: str, *, private: bool, key: str, may_ask: bool
) -> Permissions:
    return Permissions(
        origins=frozenset(origin_of(item if "://" in item else f"https://{item}") for item in allow_origin or ()),
        official_key_to=official_key_to,
        private=private,
        ask=_ask if may_ask else None,
        relay_key=key,
    )


def key_from(*, prompt: bool, file: str | None, as_json: bool, no_input: bool) -> str:
    """A key read unseen, or from a file; empty means the environment."""
    if file is not None:
        return read_key_file(Path(file) if file != "-" else file, sys.stdin)
    if not prompt:
        return ""
    if not interactive(as_json=as_json, no_input=no_input, environ=os.environ):
        raise UsageError("--key-prompt needs a terminal", next_step="set the variable, or use --key-file")
    return getpass.getpass("relay key: ")


def _ask(origin: str) -> bool:
    say(f"May the key go to {origin}? Type the host's name to confirm:")
    return sys.stdin.readline().strip() == origin.split("://", 1)[-1].split(":")[0]


def text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TargetError(f"the target file cannot be read: {error.strerror}", next_step="correct its path") from None
    except UnicodeDecodeError:
        raise TargetError("the target file is not UTF-8", next_step="save it as UTF-8") from None


def _needs(quick: dict[str, Any]) -> list[dict[str, Any]]:
    rows = {
        "base_url": ("--base-url", "中转站的地址是什么？", "What is the relay's address?", "https://relay.example"),
        "model": (
            "--model",
            "要查哪个模型？按中转站的叫法。",
            "Which model, as the relay calls it?",
            "claude-sonnet-5-5",
        ),
    }
    return [
        {"field": option, "why": "no_target", "ask": {"zh-CN": zh, "en": en}, "example": example}
        for name, (option, zh, en, example) in rows.items()
        if not quick.get(name)
    ]


def _quick(quick: dict[str, Any]) -> Target:
    table: dict[str, Any] = {
        "target": {"model": quick["model"], "dialect": quick["dialect"], "claim": {"channel": quick["claim"]}},
        "relay": {"base_url": quick["base_url"], "key_env": quick["key_env"]},
    }
    if quick.get("official_key_env") or quick.get("official_base_url"):
        official = {
            "key_env": quick.get("official_key_env") or "OFFICIAL_KEY",
            "base_url": quick.get("official_base_url"),
        }
        table["official"] = {name: value for name, value in official.items() if value}
    return target_from(table)


def _overridden(target: Target, quick: dict[str, Any]) -> Target:
    audit = target.audit
    if quick.get("profile"):
        audit = _audit(audit.model_dump() | {"profile": quick["profile"]}, target)
    if quick.get("checks"):
        audit = _audit(audit.model_dump() | {"checks": _numbers(quick["checks"])}, target)
    if quick.get("also"):
        audit = _audit(audit.model_dump() | {"also": words_in(quick["also"])}, target)
    official = target.official
    if official is not None and quick.get("official_proxy"):
        official = official.model_copy(update={"proxy": quick["official_proxy"]})
    return target.model_copy(update={"audit": audit, "official": official})


def _audit(table: dict[str, Any], target: Target) -> Any:  # noqa: ANN401  an Audit, validated again
    try:
        return type(target.audit).model_validate(table)
    except ValueError:
        raise UsageError(
            "no such profile, check or extra",
            next_step="profiles: quick, standard, thorough; checks: numbers 1 to 6; --also: recitation",
        ) from None


def words_in(text: str) -> tuple[str, ...]:
    """The items of a list as people type one, full-width commas among them."""
    return tuple(part.strip() for part in text.replace("，", ",").split(",") if part.strip())


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in words_in(text))
    except ValueError:
        raise UsageError("--checks takes numbers: 1,2,6", next_step="for example --checks 1,2") from None
