"""What is different between two judgements of one line: which findings came, went or changed, and whether it matters.

Pure. Whose change it was is decided in `attribution`.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from pydantic import Field

from relay_audit.finding import SEVERITIES, Finding
from relay_audit.words import Frozen

Kind = Literal["appeared", "gone", "changed"]
Cause = Literal["relay", "official", "knowledge", "prices", "tool", "plan", "noise"]
CAUSES: tuple[Cause, ...] = ("relay", "official", "knowledge", "prices", "tool", "plan", "noise")
"""Exactly one stands behind each change. Only the first may fail a night."""
IDENTITY = ("road", "case", "cases", "fields", "header", "line", "channel", "untrusted_upstream", "untrusted_leaked")
"""Parameters that tell two findings of one code apart."""
MONEY = frozenset({"per_1000_calls", "charged", "recomputed", "difference", "at_most"})
"""Parameters that follow a price."""
FIGURES = frozenset({"surplus", "slope", "offset", "low", "high", "percent", "limit", "ratio"})
"""Parameters that measure the line; the rest (how many samples, which text) measure the run."""
TOLERANCE = Decimal("0.05")
LEAST = Decimal(2)
"""A figure that moved by no more than both of these did not move."""


class Change(Frozen):
    kind: Kind
    code: str
    check: int
    before: Finding | None = None
    after: Finding | None = None
    cause: Cause = "noise"
    why: str = ""
    """Message key: `diff.why.<why>`."""
    params: dict[str, Any] = Field(default_factory=dict)

    @property
    def weighs(self) -> bool:
        """Whether a person has to look: a finding above info came or went, or one changed its weight or its figures."""
        return any(finding is not None and finding.above_info for finding in (self.before, self.after))


def identity(finding: Finding) -> tuple[str, ...]:
    """The same for one difference seen in two runs."""
    return (finding.code, *(_text(finding.params.get(name)) for name in IDENTITY))


def changes_between(before: Iterable[Finding], after: Iterable[Finding]) -> list[Change]:
    """Every finding that came, went, or is not what it was, in order of weight."""
    old, new = _by_identity(before), _by_identity(after)
    found = [_change("gone", item, None) for key, item in old.items() if key not in new]
    found += [_change("appeared", None, item) for key, item in new.items() if key not in old]
    both = ((old[key], item) for key, item in new.items() if key in old)
    found += [_change("changed", one, two) for one, two in both if differs(one, two)]
    return sorted(found, key=lambda change: (-_weight(change), change.check, change.code))


def differs(before: Finding, after: Finding) -> bool:
    """In outcome, weight or basis, or in a figure beyond its tolerance."""
    if any(getattr(before, name) != getattr(after, name) for name in ("outcome", "severity", "basis", "confidence")):
        return True
    return bool(moved_figures(before, after))


def moved_figures(before: Finding, after: Finding) -> tuple[str, ...]:
    """The parameters that measure the line or follow a price, where they moved."""
    names = (FIGURES | MONEY) & (set(before.params) | set(after.params))
    return tuple(sorted(n for n in names if _moved(before.params.get(n), after.params.get(n))))


def _moved(one: Any, two: Any) -> bool:  # noqa: ANN401  parameters
    before, after = _number(one), _number(two)
    if before is None or after is None:
        return _text(one) != _text(two)
    gap = abs(before - after)
    return gap > LEAST * (1 if abs(before) > 10 else 0) and gap > TOLERANCE * max(abs(before), abs(after))


def _by_identity(findings: Iterable[Finding]) -> dict[tuple[str, ...], Finding]:
    found: dict[tuple[str, ...], Finding] = {}
    for item in findings:
        found.setdefault(identity(item), item)
    return found


def _change(kind: Kind, before: Finding | None, after: Finding | None) -> Change:
    one = after or before
    if one is None:
        raise ValueError("a change has a side")
    return Change(kind=kind, code=one.code, check=one.check, before=before, after=after)


def _weight(change: Change) -> int:
    return max(SEVERITIES.index(item.severity) for item in (change.before, change.after) if item is not None)


def _number(value: Any) -> Decimal | None:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted(map(str, value)))
    return "" if value is None else str(value)
