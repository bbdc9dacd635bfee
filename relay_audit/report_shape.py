"""The shape of `report --format json`, for whoever reads it with a program. `docs/report.schema.json` is generated from it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from relay_audit.evidence import RunStatus
from relay_audit.finding import Basis, Confidence, CoverageState, EvidenceLevel, Impact, Outcome, Severity
from relay_audit.verdict import CardName, CardState, Word


class Shape(BaseModel):
    """Readers of a version accept all older ones; a later version may add fields."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class Headline(Shape):
    code: str
    params: dict[str, Any]
    text: str


class Step(Shape):
    what: str
    cost: str
    command: str


class Said(Shape):
    say: dict[Literal["zh-CN", "en"], str]
    """One sentence per language that may be repeated unchanged."""
    cannot_say: list[str]
    next: Step


class CardShape(Shape):
    id: CardName
    state: CardState
    text: str


class FindingShape(Shape):
    id: str = Field(pattern=r"^F\d{3,}$")
    code: str
    check: int = Field(ge=0, le=6)
    """0 for the run itself."""
    outcome: Outcome
    severity: Severity
    impact: Impact
    confidence: Confidence
    evidence_level: EvidenceLevel
    basis: Basis
    expected: dict[str, Any]
    observed: dict[str, Any]
    params: dict[str, Any]
    """A relay's text stands only under keys that begin with `untrusted_`, cut and escaped."""
    exchanges: list[str]
    other_explanations: list[str]
    refuted_by: str


class CoverageShape(Shape):
    check: int = Field(ge=1, le=6)
    state: CoverageState
    reason: str


class WithdrawnShape(Shape):
    id: str
    code: str


class ReportShape(Shape):
    """Complete, for the buyer; the vendor's and the public form lack policy and the buyer's money."""

    schema_version: int
    run_id: str
    """Empty in the public form."""
    status: RunStatus
    verdict: Word | None = None
    incomplete: bool
    evidence_head: str
    knowledge_digest: str
    headline: Headline
    answer: Said | None = None
    cards: list[CardShape] = Field(min_length=4, max_length=4)
    findings: list[FindingShape]
    withdrawn: list[WithdrawnShape] = []
    """What fell in a later test: not among `findings`, and without weight in headline and verdict."""
    findings_total: int
    findings_omitted: int
    coverage: list[CoverageShape] = Field(min_length=6, max_length=6)
    money: dict[str, Any]
    needs: list[dict[str, Any]] = []
    ask_user: dict[str, str] = {}
    exchanges: int
    """How many requests were sent."""
