"""What a report says of itself and what others say about it: number, version, withdrawal, answers, and what only the
buyer's own card may show. Values; who renders does not ask where they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relay_audit.evidence import Evidence
from relay_audit.lines_file import Line
from relay_audit.target import Paid

Audience = Literal["vendor", "internal", "public"]


@dataclass(frozen=True)
class Edition:
    """One issue of a report. Version 1 replaces nothing."""

    version: int = 1
    because: str = ""
    """The buyer's own words on why it replaces the version before."""
    withdrawn: str = ""
    """Why the whole report no longer holds; empty while it does."""

    def number(self, evidence: Evidence) -> str:
        """`RA-20261129-k3f7 / 1`: day and tail of the run, then the version."""
        day, _, rest = evidence.run_id.partition("-")
        return f"RA-{day}-{rest.rpartition('-')[2]} / {self.version}" if rest else f"RA-{day} / {self.version}"


@dataclass(frozen=True)
class Inside:
    """What only the decision card shows."""

    lines: tuple[Line, ...] = ()
    lines_missing: str = ""
    """Why there are none: `not_named`, `not_there`."""
    paid: Paid | None = None
    typical_input_tokens: int | None = None
    policy_digest: str = ""
    """SHA-256 of the file that replaced the rule table; empty where ours decided."""
