"""What a plan is made from, besides packs: the question that a run puts, and what the references of its bodies stand for."""

from __future__ import annotations

from pydantic import Field, JsonValue

from relay_audit.probe import ProfileName
from relay_audit.words import Frozen

OF_A_FILM = ("$seconds", "$seconds_text", "$resolution", "$size", "$mode")


class Question(Frozen):
    """The parts of a target, and of what is known of its model, that decide what is sent."""

    model: str
    official_model: str
    dialect: str
    profile: ProfileName
    checks: tuple[int, ...]
    software: str
    counter: bool
    """An official key and a counting endpoint are at hand."""
    family: str = ""
    has_baseline: bool = False
    also: tuple[str, ...] = ()
    free_only: bool = False
    official: bool = False
    official_priced: bool = True
    """An official key is at hand, so that the same body can be sent there; without a price only if it is refused."""
    refuses: dict[str, bool] = Field(default_factory=dict)
    """Trait → whether the claimed model refuses it, as far as known."""
    max_output: int | None = None
    """The claimed model's output limit, as named or published last; None where not known."""
    next_output: int | None = None
    """The smallest limit above it that a model sold in this dialect has; None where there is none."""
    min_cacheable: int = 4096
    """Tokens of the smallest prefix that the vendor caches for the model; the largest known where not established."""


def values_of(question: Question, factors: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What the references of one body stand for."""
    return {
        "$model": question.model,
        "$unknown_model": "no-such-model-4f1c",
        "$max_output_plus_1": (question.max_output or 0) + 1,
        "$next_output_plus_1": (question.next_output or 0) + 1,
        "$prefix_words": question.min_cacheable * 5 // 4,
        **dict.fromkeys(OF_A_FILM, ""),
        **{f"${factor}": level for factor, level in factors.items()},
    }
