"""What a finding code is: which check it belongs to, what it says by default, and which parameters its texts need."""

from __future__ import annotations

from typing import Literal

from relay_audit.finding import Impact, Outcome, Severity
from relay_audit.words import Frozen

CardId = Literal["backend", "model", "interface", "cost", "run"]


class Code(Frozen):
    check: int
    card: CardId
    outcome: Outcome
    severity: Severity
    impact: Impact
    trigger: str
    """In short, for the generated table."""
    params: tuple[str, ...] = ()
    """What its texts may be filled with; a finding gives every one of them."""


def code(
    check: int, card: CardId, outcome: Outcome, severity: Severity, impact: Impact, trigger: str, *params: str
) -> Code:
    return Code(
        check=check, card=card, outcome=outcome, severity=severity, impact=impact, trigger=trigger, params=params
    )
