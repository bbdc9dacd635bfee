"""What a team knows of a line and has accepted, in a small file that is reviewed like code: `baseline write`, `--baseline`.

It holds codes, a few figures, a reason and a day on which each entry ends; no bodies, no addresses, no secrets. An
entry that has ended, or whose figures have grown, accepts nothing.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from pydantic import Field

from relay_audit.errors import UsageError
from relay_audit.finding import SEVERITIES, Finding, Severity
from relay_audit.refusal import parse, read_as
from relay_audit.words import Frozen, digest

LARGEST = 65_536
"""Bytes of such a file."""
TERM = 90
"""Days that an entry holds."""
FIGURES = ("surplus", "offset", "slope", "percent", "per_mtok", "cap")
"""Parameters whose size is part of what was accepted."""
NAMES = (
    "channel", "fields", "cases", "parts", "software", "untrusted_leaked", "untrusted_upstream", "untrusted_returned",
)  # fmt: skip
"""Parameters that say who or what was accepted. A stranger's text is kept as a digest, never as itself."""
ROOM = Decimal("0.10")
"""A figure may move by a tenth before it is another one."""
UNREVIEWED = "not reviewed yet: say why this is accepted"


class Entry(Frozen):
    code: str = Field(max_length=60)
    severity: Severity
    """The highest that is accepted."""
    figures: dict[str, str] = Field(default_factory=dict)
    """Parameters of the finding: numbers with room for a tenth, names exactly."""
    expires: dt.date
    reason: str = Field(min_length=1, max_length=500)


class Accepted(Frozen):
    run: str = Field(max_length=80)
    """The run it was written from."""
    written: dt.date
    tool: str = Field(max_length=40)
    plan_digest: str = Field(pattern=r"^([0-9a-f]{64})?$")
    knowledge_digest: str = Field(pattern=r"^([0-9a-f]{64})?$")
    accepted: tuple[Entry, ...] = ()

    def takes(self, finding: Finding, today: dt.date) -> bool:
        """Whether an entry in date covers it: same code, no graver, same names, figures not grown by more than a tenth."""
        return any(_covers(entry, finding) for entry in self.accepted if today <= entry.expires)

    def ended(self, today: dt.date) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.accepted if today > entry.expires)


def accepting(
    findings: Iterable[Finding],
    *,
    run: str,
    today: dt.date,
    tool: str,
    plan_digest: str,
    knowledge_digest: str,
    reason: str = "",
    days: int = TERM,
) -> Accepted:
    """Every difference that a run found, each for `days` days."""
    entries = tuple(
        Entry(
            code=finding.code,
            severity=finding.severity,
            figures=_figures(finding),
            expires=today + dt.timedelta(days=days),
            reason=reason or UNREVIEWED,
        )
        for finding in findings
        if finding.outcome == "mismatch" and finding.above_info
    )
    return Accepted(
        run=run, written=today, tool=tool, plan_digest=plan_digest, knowledge_digest=knowledge_digest, accepted=entries
    )


def text_of(accepted: Accepted) -> str:
    """The file, for review: TOML, one table per entry. Raises `UsageError` beyond 64 KB."""
    head = accepted.model_dump(mode="json", exclude={"accepted"})
    lines = [
        "# What is known of this line and accepted until the day named. Review each reason; delete what you do not accept.",
        *(f"{key} = {_value(value, key)}" for key, value in head.items()),
    ]
    for entry in accepted.accepted:
        table = entry.model_dump(mode="json")
        lines += ["", "[[accepted]]", *(f"{key} = {_value(value, key)}" for key, value in table.items())]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > LARGEST:
        raise UsageError(
            "this run found more than a reviewed file can hold (64 KB)",
            next_step="settle what can be settled first: relay-audit report RUN --for internal",
        )
    return text


def read_accepted(name: str, raw: bytes) -> Accepted:
    """Raises `UsageError` for a file too large, `PackError` with the line for anything it may not say."""
    if len(raw) > LARGEST:
        raise UsageError(
            f"{name} is larger than 64 KB", next_step="write it again: relay-audit baseline write RUN -o FILE"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8", next_step="save it as UTF-8") from None
    return read_as(Accepted, parse(name, text), name, text)


def _value(value: object, key: str) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()) + " }"
    return str(value) if key in ("written", "expires") else json.dumps(value, ensure_ascii=False)


def _figures(finding: Finding) -> dict[str, str]:
    present = [name for name in (*FIGURES, *NAMES) if finding.params.get(name) is not None]
    return {name: _figure(name, finding.params[name]) for name in present}


def _figure(name: str, value: object) -> str:
    if name in FIGURES and not isinstance(value, list | dict):
        return str(value)[:40]
    return "sha256:" + digest(value)[:16]


def _covers(entry: Entry, finding: Finding) -> bool:
    if entry.code != finding.code or SEVERITIES.index(finding.severity) > SEVERITIES.index(entry.severity):
        return False
    now = _figures(finding)
    return all(_same(entry.figures.get(name), value) for name, value in now.items() if name in entry.figures)


def _same(then: str | None, now: str) -> bool:
    if then is None or then == now:
        return True
    try:
        before, after = Decimal(then), Decimal(now)
    except InvalidOperation:
        return False
    if not (before.is_finite() and after.is_finite()):
        return False
    return abs(after - before) <= max(
        abs(before) * ROOM, Decimal(2) if before == before.to_integral_value() else Decimal(0)
    )
