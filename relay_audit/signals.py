"""What may be said to a run from outside while it lives: a closed list of signals, each a value with its own fields.

A signal is recorded with who gave it and what was answered. The same signal again is the same answer and writes
nothing; only what a run can honour is offered.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from relay_audit.words import Frozen

SignalName = Literal["approve", "decline", "pause", "resume", "revise", "add_context", "cancel"]


class Signal(Frozen):
    """One thing that was asked of a run."""

    id: str = Field(default="", pattern=r"^[A-Za-z0-9_.:-]{0,80}$")
    """Chosen by the sender: the same id again is the same signal, whatever became of the run meanwhile. May be empty."""


class Approve(Signal):
    """Spend on exactly this quote, up to this ceiling."""

    quote_digest: str
    ceiling: Decimal = Field(ge=0)
    """In the quote's currency."""


class Decline(Signal):
    """No to the quote; or, with lines, no to these lines: what they would have sent is never sent."""

    lines: tuple[str, ...] = ()
    """Ids of quote lines (`probe@side`); empty means the whole quote."""


class Pause(Signal):
    """Finish the request in flight, record its outcome, send nothing more."""


class Resume(Signal):
    """Go on after a pause. Also what a pause that was not heard yet is taken back by."""


class Revise(Signal):
    """Another plan: probes left out or put in the place of others; it gets a new quote."""

    drop: tuple[str, ...] = ()
    """Probe ids whose unsent steps are left out."""
    replace: dict[str, str] = Field(default_factory=dict)
    """Probe id → the probe that takes its place."""


class AddContext(Signal):
    """Something the buyer knows and had not said: it may change the plan, its prices, or only the decision card."""

    official_key_env: str = ""
    """The NAME of the variable that holds the vendor's key; never the key."""
    official_base_url: str = ""
    prices_ref: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """SHA-256 of the blob that holds the price file as it was read."""
    line_names: tuple[str, ...] = ()
    """The buyer's own names of lines; internal."""
    lines_file: str = ""


class Cancel(Signal):
    """End the run: no further request leaves, and what is in flight is recorded when it comes back."""


SIGNALS: dict[SignalName, type[Signal]] = {
    "approve": Approve,
    "decline": Decline,
    "pause": Pause,
    "resume": Resume,
    "revise": Revise,
    "add_context": AddContext,
    "cancel": Cancel,
}


def signals_markdown() -> str:
    """The signals with their fields, as a part of `docs/events.md`."""
    lines = ["| signal | what it asks | fields |", "|---|---|---|"]
    for name, kind in SIGNALS.items():
        own = [field for field in kind.model_fields if field != "id"]
        fields = ", ".join(f"`{field}`" for field in own)
        lines.append(f"| `{name}` | {' '.join((kind.__doc__ or '').split())} | {fields} |")
    return "\n".join(lines)
