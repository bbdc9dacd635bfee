"""The pieces a page is laid out from: text that is ready, and nothing to decide."""

from __future__ import annotations

from dataclasses import dataclass

from relay_audit.finding import Severity
from relay_audit.report.phrases import Texts
from relay_audit.report.side_by_side import Replay, Row, Trace
from relay_audit.report.terms import host_of as host_of

WIDTH = 80
"""Characters shown of a name or an address."""


@dataclass(frozen=True)
class Fact:
    """A row of a key-value table."""

    name: str
    value: str
    code: bool = False
    """Set in the typewriter face: digests, addresses."""


@dataclass(frozen=True)
class CardView:
    name: str
    question: str
    state: str
    symbol: str
    word: str
    text: str
    level: str
    date: str


@dataclass(frozen=True)
class AnswerView:
    """What the relay's operator replied: a stranger's text, made harmless."""

    kind: str
    text: str
    date: str


@dataclass(frozen=True)
class FindingView:
    id: str
    severity: Severity
    severity_word: str
    outcome_word: str
    tags: str
    text: Texts
    rows: list[Row]
    against: str
    """Head of the column beside the relay's: the vendor's side, or what was to be expected."""
    traces: list[Trace]
    more_traces: int
    replay: Replay | None
    settings: list[Fact]
    known: list[Fact]
    upstream_visible: bool
    cost: str
    """What it costs the buyer; empty where nothing differs."""
    answer: AnswerView | None


@dataclass(frozen=True)
class CoverageView:
    check: int
    name: str
    state: str
    state_word: str
    reason: str
