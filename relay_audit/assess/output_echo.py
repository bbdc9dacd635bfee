"""Check 2, the other side of the bill: verbatim copies, and the output tokens billed for them beside the vendor's.

Both sides copied from lists of the same words, so a token holds as many characters on one side as on the other. Thinking
is taken off where it is told, and a copy that is none (other words, or thinking that is not told) is set aside.
"""

from __future__ import annotations

from typing import NamedTuple

from relay_audit.assess.parameter_effects import asked_for, written
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.pack import Pack
from relay_audit.plan import Step
from relay_audit.usage import read_usage

FACTOR = 1.25
"""From this factor on all texts; lists of fresh words differ by less."""
BEYOND = 6
"""Tokens that must be too many besides, on `COPIES` texts at least: a text of four words cannot be so many too long."""
COPIES = 2
THOUGHTS = ("/usage/output_tokens_details/thinking_tokens", "/usage/completion_tokens_details/reasoning_tokens",
            "/usage/output_tokens_details/reasoning_tokens")  # fmt: skip


class Copy(NamedTuple):
    """A verbatim copy on both sides: characters that were written, and the tokens billed for them."""

    exchanges: tuple[str, str]
    relay: tuple[int, int]
    official: tuple[int, int]

    @property
    def due(self) -> float:
        """What the vendor bills for as many characters."""
        return self.relay[0] * self.official[1] / self.official[0]


def assess_output_echo(evidence: Evidence, _: Knowledge) -> list[Finding]:
    copies = [copy for step in _copied(evidence) if (copy := _pair(step, evidence)) is not None]
    if len(copies) < COPIES:
        return []
    if (
        not all(c.relay[1] > c.due * FACTOR for c in copies)
        or sum(c.relay[1] > c.due + BEYOND for c in copies) < COPIES
    ):
        return []
    billed, due = sum(c.relay[1] for c in copies), round(sum(c.due for c in copies))
    params = {"n": len(copies), "billed": billed, "official": due, "slope": f"{billed / due:.2f}"}
    return [finding("tokens.output_inflated", params, exchanges=tuple(x for c in copies for x in c.exchanges),
                    confidence="strong", basis=evidence.target.official_basis, expected={"output_tokens": due},
                    observed={"output_tokens": billed})]  # fmt: skip


def _copied(evidence: Evidence) -> list[Step]:
    """Relay steps that ask for a copy and that the vendor answered too."""
    steps = evidence.plan.steps if evidence.plan else ()
    mirrored = {step.mirrors for step in steps if step.mirrors}
    return [step for step in steps if step.side == "relay" and step.id in mirrored and len(asked_for(step)) > 1]


def _pair(step: Step, evidence: Evidence) -> Copy | None:
    mirror = next((s.id for s in evidence.plan.steps if s.mirrors == step.id), "") if evidence.plan else ""
    relay, official = evidence.of_step(step.id), evidence.of_step(mirror)
    if relay is None or official is None:
        return None
    own, vendors = _measured(step, relay, evidence.pack), _measured(step, official, evidence.pack)
    return Copy((relay.id, official.id), own, vendors) if own and vendors else None


def _measured(step: Step, exchange: Exchange, pack: Pack) -> tuple[int, int] | None:
    """Characters of a copy that is verbatim as far as it goes, and its tokens without thinking."""
    usage, text = read_usage(exchange, pack), written(exchange, pack).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if exchange.status != 200 or usage is None or not _is_copy(lines, asked_for(step)):
        return None
    thought = next((n for path in THOUGHTS if (n := whole_number(pointer(exchange.answer(), path))) is not None), 0)
    if not thought and _thinks(exchange, pack):
        return None
    tokens = usage.output - thought
    return (len(text), tokens) if tokens > 0 else None


def _is_copy(lines: list[str], wanted: list[str]) -> bool:
    """At least two lines, in their order; the last one may be cut short."""
    last = len(lines) - 1
    return 1 <= last < len(wanted) and lines[:last] == wanted[:last] and wanted[last].startswith(lines[last])


def _thinks(exchange: Exchange, pack: Pack) -> bool:
    content = pointer(exchange.answer(), pack.answer.content)
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking") for block in blocks)
