"""The buyer's own originals: kept in the user's configuration, never overwritten, only superseded."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from relay_audit.disk import file_errors, write_durably
from relay_audit.errors import UsageError
from relay_audit.media_facts import MediaFacts, Pin
from relay_audit.refusal import parse, read_as

HEAD = "# Originals of your own, written by `relay-audit pin`: files that you got from the official API, no others.\n"
UNNAMED = "-"


def read_pins(path: Path) -> tuple[Pin, ...]:
    """All pins, superseded ones too. Raises `PackError` for a file that cannot be read as pins."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path.name} cannot be read", next_step="correct or remove it; pins can be made again"
        ) from error
    rows = parse(path.name, text).get("pins", [])
    return tuple(read_as(Pin, row, path.name, text, ("pins", index)) for index, row in enumerate(rows))


def pin_of(facts: MediaFacts, profile: str, today: dt.date, *, integrity_checked: bool) -> Pin:
    """What is remembered of an original."""
    return Pin(
        profile=profile,
        file_sha256=facts.sha256,
        pinned=today,
        integrity_checked=integrity_checked,
        signer=facts.signer.leaf if facts.signer else None,
        issuing_key=facts.signer.issuing_key if facts.signer else "",
        encoder=facts.encoder,
        label=(facts.labels[0].producer or UNNAMED) if facts.labels else "",
    )


def add_pin(pins: tuple[Pin, ...], new: Pin, *, rotate: bool) -> tuple[Pin, ...]:
    """The pins with the new one. Raises `UsageError` where another certificate stands there, without `--rotate`."""
    others = [pin for pin in pins if (pin.profile, pin.file_sha256) != (new.profile, new.file_sha256)]
    current = [pin for pin in others if pin.profile == new.profile and pin.signer and not pin.superseded]
    changed = [pin for pin in current if new.signer and pin.signer and pin.signer.sha256 != new.signer.sha256]
    if changed and not rotate:
        raise UsageError(
            f"the pinned original of {new.profile} is signed with another certificate",
            next_step=f"if it comes from the official API: relay-audit pin FILE --profile {new.profile} --rotate",
        )
    kept = [pin.model_copy(update={"superseded": new.pinned}) if pin in changed else pin for pin in others]
    return (*kept, new)


def write_pins(path: Path, pins: tuple[Pin, ...]) -> None:
    with file_errors("the pins cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        tables = [_table(pin.model_dump(mode="python", exclude_none=True)) for pin in pins]
        write_durably(path, (HEAD + "".join(f"\n[[pins]]\n{table}" for table in tables)).encode())


def _table(fields: dict[str, Any]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in fields.items())


def _value(value: Any) -> str:  # noqa: ANN401  what a pin holds: texts, dates, flags, lists and one level of tables
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    # JSON's escapes are TOML's, except DEL and lone surrogates, which no decoded text of ours holds in a name.
    return json.dumps(str(value).encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
