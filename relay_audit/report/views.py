"""The pieces a page is laid out from: text that is ready, and nothing to decide."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from relay_audit.finding import Severity
from relay_audit.report.phrases import Texts
from relay_audit.report.side_by_side import Replay, Row, Trace

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
class FindingView:
    id: str
    severity: Severity
    severity_word: str
    outcome_word: str
    tags: str
    text: Texts
    rows: list[Row]
    traces: list[Trace]
    more_traces: int
    replay: Replay | None
    settings: list[Fact]
    known: list[Fact]
    upstream_visible: bool


@dataclass(frozen=True)
class CoverageView:
    check: int
    name: str
    state: str
    state_word: str
    reason: str


def host_of(address: str) -> str:
    """The host and port of an address; the address itself where it has none."""
    return urlsplit(address).netloc.rsplit("@", 1)[-1] or address
