"""Check 2: one text as the vendor counts it and as the relay billed it, and how far figures may lie apart."""

from __future__ import annotations

from dataclasses import dataclass

from relay_audit.plan import Step
from relay_audit.prompt_text import has_system
from relay_audit.usage import Usage

NOISE, SURPLUS, SPREAD, HIGH = 8, 50, 2, 200
SLOPE_NOISE = 0.05
"""A slope this near to 1, or two slopes this near to each other, are alike."""
ENOUGH = 3
"""Answers that make a pattern where not all of them follow it."""
TO_THE_TOKEN = 1.5
"""Tokens by which a text may lie beside its line, and the line beside zero."""
FEWER = 0.08
"""A share of the official count by which one answer must fall short to count as another tokenizer's."""


@dataclass(frozen=True)
class Sample:
    """One text: what the vendor counts for it and what the relay billed for it."""

    step: Step
    exchange: str
    official: int
    usage: Usage
    controls: tuple[str, ...]
    """The exchanges on which the official number rests."""
    user_agent: str = ""
    """As it was sent."""
    shape: frozenset[str] = frozenset()
    """The parts that the answer's usage has."""

    @property
    def surplus(self) -> int:
        return self.usage.billed_input - self.official

    def factor(self, name: str) -> str:
        if name == "system":
            return str(has_system(self.step.body))
        if name == "stream":
            return str(self.step.body.get("stream") is True)
        return self.user_agent if name == "user_agent" else str(self.step.factors.get(name, ""))


def range_of(samples: list[Sample]) -> tuple[int, int]:
    surpluses = [sample.surplus for sample in samples]
    return min(surpluses), max(surpluses)


def counted_fewer(sample: Sample) -> bool:
    """Whether one text is billed so far below its count that another tokenizer must have counted it."""
    return sample.surplus < -max(SPREAD, FEWER * sample.official)


def ids_of(samples: list[Sample]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([s.exchange for s in samples] + [c for s in samples for c in s.controls]))
