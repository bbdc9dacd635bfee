"""What an honest audit costs, both sides at list price, and how near the quote comes to the bill."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from relay_audit.evidence import Evidence
from relay_audit.lab import DIALECTS, Dialect
from relay_audit.usage import read_usage
from tests.audits import in_process

CEILINGS = {"quick": Decimal("0.003"), "standard": Decimal("0.05"), "thorough": Decimal("0.25")}
"""US dollars, relay and official together, on Claude Sonnet 5.5 at list price."""
HALF_A_DOLLAR = Decimal("0.50")
"""The ceiling of the contract's example of a target file."""
NEAR = Decimal("0.25")
"""Without a counter the quoted input tokens lie this near to the billed ones."""
SHORT = 150
"""Tokens of a line so short that the drawn words decide: of six draws one such line came to 18 to 26 % too much."""


def evidence_of(profile: str, home: Path, *, official: bool, dialect: Dialect = "anthropic") -> Evidence:
    scenario = "honest_template_4" if dialect == "anthropic" else "honest"
    audited = in_process(scenario, 6, home, official=official, dialect=dialect, profile=profile)
    assert audited.judgement is not None
    return audited.judgement.evidence


def lines_of(evidence: Evidence) -> dict[str, list[tuple[int, int]]]:
    """Line → quoted and billed input tokens of each of its answered legal steps."""
    lines: dict[str, list[tuple[int, int]]] = {}
    for step in evidence.plan.chargeable() if evidence.plan else ():
        exchange = evidence.of_step(step.id)
        usage = read_usage(exchange, evidence.pack) if exchange and exchange.status == 200 else None
        price = evidence.quote.price_of(step.id) if evidence.quote else None
        if usage and price and not step.refusal:
            lines.setdefault(step.probe, []).append((price.input_tokens, usage.billed_input))
    return lines


@pytest.mark.parametrize("official", [True, False], ids=["with_key", "no_key"])
@pytest.mark.parametrize("profile", CEILINGS)
def test_a_profile_costs_no_more_than_it_says(profile: str, official: bool, tmp_path: Path) -> None:
    evidence = evidence_of(profile, tmp_path, official=official)
    spent = evidence.ledger.total("settled")
    assert evidence.quote is not None
    assert not evidence.ledger.total("unconfirmed")
    assert 0 < spent <= CEILINGS[profile], spent
    assert evidence.quote.expected <= CEILINGS[profile]
    assert profile == "thorough" or evidence.quote.at_most <= HALF_A_DOLLAR
    for line in evidence.quote.lines:
        charged = evidence.ledger.total("settled", line=line.id)
        assert charged <= line.at_most
        assert charged <= line.expected * 2 or not line.expected or charged < Decimal("0.001"), line.id


@pytest.mark.parametrize("profile", CEILINGS)
def test_with_a_key_every_quoted_input_token_is_on_the_bill(profile: str, tmp_path: Path) -> None:
    """Four tokens of template on each answer, which the counter does not know, and nothing else."""
    evidence = evidence_of(profile, tmp_path, official=True)
    assert evidence.quote is not None
    assert evidence.quote.counted
    lines = lines_of(evidence)
    assert sum(map(len, lines.values())) >= (4 if profile == "quick" else 30)
    apart = {billed - quoted for rows in lines.values() for quoted, billed in rows}
    assert apart == {4}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_a_key_the_quote_is_within_a_quarter(dialect: Dialect, tmp_path: Path) -> None:
    """The whole always; a line as soon as its texts are more than the few words that happened to be drawn."""
    lines = lines_of(evidence_of("standard", tmp_path, official=False, dialect=dialect))
    lines["all"] = [row for rows in lines.values() for row in rows]
    for probe, rows in lines.items():
        quoted, billed = (Decimal(sum(side)) for side in zip(*rows, strict=True))
        near = NEAR if billed > SHORT else 2 * NEAR
        assert abs(quoted - billed) <= billed * near, f"{probe}: {quoted} quoted, {billed} billed"
