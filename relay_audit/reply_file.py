"""The vendor's replies to findings, as a file: each names one finding, takes a stance, and may say why.

It is a stranger's file: bounded, its text cut, redacted and never trusted. A reply is kept beside its finding and changes
no finding. TOML or JSON:

    [[reply]]
    finding = "F003"
    stance = "fixed"      # accepted | fixed | disputed | explained
    text = "channel 7 was switched off on 2 December"
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import tomli
from pydantic import Field, ValidationError

from relay_audit.errors import UsageError
from relay_audit.finding import Finding
from relay_audit.redaction import Redactor
from relay_audit.words import Frozen

LARGEST = 256 * 1024
LONGEST = 2000
"""Characters of one reply that are kept."""
EXAMPLE = 'for example: [[reply]]  finding = "F003"  stance = "fixed"  text = "…"'


class Reply(Frozen):
    finding: str = Field(pattern=r"^F\d{3,4}$")
    stance: Literal["accepted", "fixed", "disputed", "explained"]
    text: str = ""


def read_replies(path: Path, findings: tuple[Finding, ...]) -> list[tuple[Reply, Finding]]:
    """Each reply with the finding it is to. Raises `UsageError` for a file that is none, or a finding nobody made."""
    rows = _rows(path)
    try:
        replies = [Reply.model_validate(row) for row in rows]
    except ValidationError as error:
        place = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, place["loc"]))[:60]
        raise UsageError(f"a reply is not well formed: {where}: {place['msg'][:120]}", next_step=EXAMPLE) from None
    known = {finding.id: finding for finding in findings}
    missing = [reply.finding for reply in replies if reply.finding not in known]
    if missing or not replies:
        what = f"there is no finding {missing[0]} in this run" if missing else "the file holds no reply"
        raise UsageError(what, next_step=f"findings of this run: {', '.join(known) or 'none'}; {EXAMPLE}")
    return [(reply, known[reply.finding]) for reply in replies]


def cleaned(text: str, redactor: Redactor) -> str:
    """What is kept of a reply's text: no secret in it, and not more than it needs."""
    return redactor.clean_text(text)[:LONGEST]


def _rows(path: Path) -> list[Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError("the file of replies is too large", next_step="keep it below 256 KB")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"the file of replies cannot be read: {error.strerror}", next_step="correct its path"
        ) from None
    except UnicodeDecodeError:
        raise UsageError("the file of replies is not UTF-8", next_step="save it as UTF-8") from None
    try:
        table = (
            json.loads(text) if text.lstrip().startswith(("{", "[")) and path.suffix == ".json" else tomli.loads(text)
        )
    except (ValueError, RecursionError):
        raise UsageError("the file of replies is neither TOML nor JSON", next_step=EXAMPLE) from None
    rows = table.get("reply") if isinstance(table, dict) else table
    if not isinstance(rows, list) or (isinstance(table, dict) and set(table) - {"reply"}):
        raise UsageError("the file of replies is a list of [[reply]] tables", next_step=EXAMPLE)
    return rows
