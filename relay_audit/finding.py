"""A judgement about facts, with a neutral outcome. Texts are made from code and parameters by the report, never stored."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from relay_audit.words import Frozen

Outcome = Literal["match", "mismatch", "inconclusive", "not_run", "error"]
Impact = Literal["users", "integration", "none"]
Severity = Literal["critical", "high", "medium", "low", "info"]
Confidence = Literal["decisive", "strong", "supporting", "weak"]
EvidenceLevel = Literal["measured", "observed_pattern", "inference", "official_doc"]
Basis = Literal["live_official", "declared_official", "dated_baseline", "known_list", "relay_word", "recorded", "none"]
CoverageState = Literal["run", "not_run", "not_applicable", "gated", "no_information"]

SEVERITIES: tuple[Severity, ...] = ("info", "low", "medium", "high", "critical")


class Finding(Frozen):
    id: str = ""
    """F001, F002, … in order of severity; given once all assessors have spoken."""
    code: str
    check: int = Field(ge=0, le=6)
    """0 for findings about the run itself."""
    outcome: Outcome
    severity: Severity
    impact: Impact = "none"
    confidence: Confidence = "supporting"
    evidence_level: EvidenceLevel = "measured"
    basis: Basis = "none"
    expected: dict[str, Any] = Field(default_factory=dict)
    observed: dict[str, Any] = Field(default_factory=dict)
    params: dict[str, Any] = Field(default_factory=dict)
    """What the texts of this code are filled with. Text of a stranger only under keys named `untrusted_*`."""
    exchanges: tuple[str, ...] = ()
    other_explanations: tuple[str, ...] = ()
    """Message keys, not prose."""
    refuted_by: str = ""
    """Message key of what would refute it."""

    @property
    def accusation(self) -> bool:
        return self.outcome == "mismatch" and SEVERITIES.index(self.severity) >= SEVERITIES.index("medium")

    @property
    def above_info(self) -> bool:
        return self.severity != "info"


class Coverage(Frozen):
    check: int = Field(ge=1, le=6)
    state: CoverageState
    reason: str = ""
    """Message key; empty when the check ran to its end."""
    params: dict[str, Any] = Field(default_factory=dict)


class Money(Frozen):
    """What was quoted and what it came to, in the quote's currency."""

    currency: str = "USD"
    quoted_expected: Decimal = Decimal(0)
    quoted_at_most: Decimal = Decimal(0)
    hold: Decimal = Decimal(0)
    approved: Decimal | None = None
    charged_relay: Decimal = Decimal(0)
    charged_official: Decimal = Decimal(0)
    unconfirmed: Decimal = Decimal(0)
    basis: str = ""
    """Message key: `relay_log` where the relay's own rows say it, `usage_at_quoted_price` where only usage does."""

    @property
    def charged_label(self) -> str:
        """Message key of what `charged_relay` is: without rows nobody has said what was charged."""
        return "money.charged_reckoned" if self.basis == "usage_at_quoted_price" else "money.charged_relay"
