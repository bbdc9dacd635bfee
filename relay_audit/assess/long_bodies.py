"""Bodies much longer than the texts of check 2: are they billed like the short ones?

A relay may send what is long elsewhere, and what agents send is long. The cache probe's bodies are the longest that are
bought (thorough profile), and each was counted by the vendor for the quote. Counted once, all of one script, they carry
a low finding; and it is said how long the longest was.
"""

from __future__ import annotations

from decimal import Decimal
from statistics import median

from relay_audit.assess.token_samples import FEWER, SPREAD, Sample, ids_of, range_of
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.finding import Basis, Finding
from relay_audit.plan import Step
from relay_audit.usage import Usage, read_usage
from relay_audit.words import money

LONG, TIMES = 500, 3
"""Tokens from which a body is long, and how many times the longest text it has to be."""
SEVERAL = 2


def long_bodies(
    evidence: Evidence, samples: list[Sample], answered: list[tuple[Step, Exchange, Usage]], basis: Basis
) -> list[Finding]:
    """Nothing where the short texts themselves do not keep to one constant: that is said of them."""
    low, high = range_of(samples)
    if high - low > SPREAD:
        return []
    offset, longest = round(median(s.surplus for s in samples)), max(s.official for s in samples)
    shown = {s.exchange for s in samples}
    bodies = [
        Sample(step, exchange.id, count, usage, (counted.id,))
        for step, exchange, usage in answered
        if exchange.id not in shown
        and (counted := evidence.of_step(f"count.quote.{step.id}")) is not None
        and (count := _count(evidence, counted)) >= max(LONG, TIMES * longest)
    ]
    off = [s for s in bodies if abs(s.surplus - offset) > FEWER * s.official]
    if len(off) < SEVERAL or len({s.surplus > offset for s in off}) > 1:
        return []
    ratio = median(Decimal(s.usage.billed_input - offset) / s.official for s in off)
    params = {
        "n": len(off), "of": len(bodies), "longest": max(s.official for s in off), "short": longest, "road": "long",
        "ratio": money(ratio.quantize(Decimal("0.01")).normalize()),
    }  # fmt: skip
    if off[0].surplus > offset:
        more = {"low": min(s.surplus for s in off), "high": max(s.surplus for s in off), "depends_on": "length"}
        return [finding("tokens.variable_surplus", params | more, exchanges=ids_of(off), severity="low", basis=basis)]
    slopes = {"slopes": {"long": params["ratio"]}}
    return [finding("tokens.tokenizer_differs", params | slopes, exchanges=ids_of(off), severity="low", basis=basis)]


def longest_of(evidence: Evidence) -> int:
    """Tokens of the longest body that was answered, as the vendor counts it; as it was billed where no body was counted,
    and 0 where nothing says so."""
    usages = [(e, usage) for e in evidence.generations() if (usage := read_usage(e, evidence.pack)) is not None]
    counted = [
        c for e, _ in usages if (told := evidence.of_step(f"count.quote.{e.step}")) and (c := _count(evidence, told))
    ]
    return max(counted or [usage.billed_input for _, usage in usages], default=0)


def _count(evidence: Evidence, counted: Exchange) -> int:
    counter = evidence.pack.counter
    told = pointer(counted.answer(), counter.read) if counter is not None and counted.status == 200 else None
    return whole_number(told) or 0
