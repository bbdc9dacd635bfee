"""The options of the command line, named once; and a target out of a file or of the quick form."""

from __future__ import annotations

import getpass
import os
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from relay_audit.cli.console import interactive, say
from relay_audit.connect import Permissions
from relay_audit.errors import TargetError, UsageError
from relay_audit.exits import FailOn
from relay_audit.keys import read_key_file
from relay_audit.refusal import line_of
from relay_audit.target import Place, Target, origin_of, read_target, target_from

TargetFile = Annotated[
    Path | None, typer.Argument(metavar="[TARGET.toml]", help="Target file; or use the quick form.", show_default=False)
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, a unique beginning of it, a run's folder, or `latest`.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; diagnostics on stderr.")]
LangOption = Annotated[
    str | None, typer.Option("--lang", metavar="zh-CN|en", help="Language of texts and reports.", show_default=False)
]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Quick form: the relay's address, as pasted.", show_default=False)
]
Model = Annotated[
    str | None, typer.Option(metavar="NAME", help="Quick form: the model, as the relay calls it.", show_default=False)
]
ClaimOption = Annotated[
    str, typer.Option("--claim", metavar="CHANNEL", help="Quick form: the channel the vendor claims.")
]
KeyEnv = Annotated[str, typer.Option(metavar="NAME", help="Quick form: the NAME of the variable with the relay's key.")]
OfficialKeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Quick form: the NAME of the variable with the vendor's key.", show_default=False
    ),
]
OfficialBaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Quick form: the official address, if not the vendor's own.", show_default=False),
]
OfficialProxy = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Proxy to the official side (http, https, socks5).", show_default=False),
]
Dialect = Annotated[str, typer.Option(metavar="NAME", help="Quick form: the wire format.")]
MaxUsd = Annotated[
    str | None,
    typer.Option(
        "--max-usd", metavar="X", help="Approve in advance up to X. Without it the quote waits.", show_default=False
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="quick|standard|thorough", help="How much is sent.", show_default=False),
]
Checks = Annotated[str | None, typer.Option(metavar="1,2,6", help="Only these checks.", show_default=False)]
FreeOnly = Annotated[bool, typer.Option("--free-only", help="Send nothing that may charge.")]
PacksDir = Annotated[
    Path | None,
    typer.Option("--packs", metavar="DIR", help="Your own probe packs, beside the shipped ones.", show_default=False),
]
KnowledgeDir = Annotated[
    Path | None, typer.Option("--knowledge", metavar="DIR", help="Your own knowledge files.", show_default=False)
]
BaselinesFile = Annotated[
    Path | None,
    typer.Option(
        "--baselines",
        metavar="FILE",
        help="Counts and refusals of a vendor, from whoever has its key.",
        show_default=False,
    ),
]
PricesFile = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="Your own prices; they outrank every list.", show_default=False),
]
Accepting = Annotated[
    str | None,
    typer.Option(
        "--baseline", metavar="FILE|RUN", help="What is known and accepted does not count.", show_default=False
    ),
]
WatchFile = Annotated[
    Path | None,
    typer.Option(
        "--watch", metavar="FILE", help="Kept between nights: confirm before alarm, notice silence.", show_default=False
    ),
]
FailOnOption = Annotated[
    str, typer.Option("--fail-on", metavar="none|low|medium|high|critical", help="Exit 1 from this severity on.")
]
AllowInconclusive = Annotated[bool, typer.Option("--allow-inconclusive", help="An inconclusive verdict exits 0.")]
ExpectPlan = Annotated[
    str,
    typer.Option(
        "--expect-plan", metavar="DIGEST", help="Go on only if the plan is exactly this one.", show_default=False
    ),
]
Detach = Annotated[
    bool,
    typer.Option("--detach", help="Return once the approved run works on its own; `events --follow` waits for it."),
]
SinceRun = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="RUN",
        help="Repeat that run with new wording, and say whose change is what.",
        show_default=False,
    ),
]
NoInput = Annotated[bool, typer.Option("--no-input", help="Never ask.")]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", metavar="ORIGIN", help="A key may go to this origin.", show_default=False),
]
AllowOfficialKeyTo = Annotated[
    str,
    typer.Option(
        "--allow-official-key-to", metavar="HOST", help="A vendor-shaped key may go to this host.", show_default=False
    ),
]
AllowPrivate = Annotated[bool, typer.Option("--allow-private", help="Private addresses may be connected to.")]
KeyPrompt = Annotated[bool, typer.Option("--key-prompt", help="Read the relay's key unseen from the terminal.")]
KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="Read the relay's key from a file (0600), or - for stdin.",
        show_default=False,
    ),
]


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
    official = target.official
    if official is not None and quick.get("official_proxy"):
        official = official.model_copy(update={"proxy": quick["official_proxy"]})
    return target.model_copy(update={"audit": audit, "official": official})


def _audit(table: dict[str, Any], target: Target) -> Any:  # noqa: ANN401  an Audit, validated again
    try:
        return type(target.audit).model_validate(table)
    except ValueError:
        raise UsageError(
            "no such profile or check", next_step="profiles: quick, standard, thorough; checks: numbers 1 to 6"
        ) from None


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace("，", ",").split(",") if part.strip())
    except ValueError:
        raise UsageError("--checks takes numbers: 1,2,6", next_step="for example --checks 1,2") from None
