"""What is known of the cases of check 4: how a vendor answers them, and what an honest hop of relay software does."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from relay_audit.marks import Known


class Refusal(Known):
    """How a vendor answers one case of check 4: refused with a status and a type, or taken (200) and seen."""

    dialect: str
    case: str
    models: tuple[str, ...] = ("*",)
    """Model name patterns."""
    status: int = Field(ge=200, le=599)
    error_type: str = ""
    message: str = ""
    """The vendor's words, with `*` where they vary. Compared softly: wording drifts."""
    names: str = ""
    """The field the complaint is about; for a body with two faults, the one that is reported first."""
    reads: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON Pointer into a 200 answer → the value that shows the field in force."""


class RelayDefault(Known):
    """What an honest hop of a relay program does by itself with some cases of check 4; it is held against nobody."""

    software: tuple[str, ...] = Field(min_length=1)
    dialects: tuple[str, ...] = Field(min_length=1)
    cases: tuple[str, ...] = Field(min_length=1)
    outcome: Literal["accepted", "rewritten", "status"]
    """`accepted`: 200 where the vendor refuses. `rewritten`: a legal value is lost. `status`: refused otherwise."""
    statuses: tuple[int, ...] = ()
    by_setting: bool = False
    """Only where its operator switched it on: no default to be subtracted, yet no more than a low fact about that software."""
