"""Check 2: faults that strike some answers only and grow with the text: a multiplier, or another tokenizer's count.

Most texts are billed at one constant. The rest follow one proportion in all scripts, or each script its own. An answer
without the usual parts of usage may be the relay's own estimate and shows nothing.
"""

from __future__ import annotations

from statistics import median

from relay_audit.assess.token_samples import ENOUGH, FEWER, NOISE, SLOPE_NOISE, SPREAD, TO_THE_TOKEN, Sample, ids_of
from relay_audit.bounds import percent, share_interval
from relay_audit.codes import finding
from relay_audit.finding import Basis, Finding

SOME = ENOUGH + 1
"""Answers that another tokenizer must have counted where it counts more in one script and less in another."""
LONGER = 1.5
"""How much longer than the shortest of them the longest has to be: what grows is seen on texts of several sizes."""
GRAIN, SHARE = 4.0, 0.08
"""How far a text of another tokenizer may lie beside its script's proportion: tokens, or a share of the largest."""


def striking_sometimes(samples: list[Sample], basis: Basis) -> Finding | None:
    near = [s.surplus for s in samples if -SPREAD <= s.surplus <= NOISE]
    usual = median(near) if near else 0.0
    quiet = [s for s in samples if abs(s.surplus - usual) <= SPREAD]
    rest = [s for s in samples if s not in quiet]
    if len(quiet) < max(ENOUGH, len(rest)) or len(rest) < ENOUGH or len({s.factor("script") for s in rest}) < 2:
        return None
    sizes = [s.official for s in rest]
    if max(sizes) < LONGER * min(sizes):
        return None
    if not frozenset.union(*(s.shape for s in quiet)) <= frozenset.intersection(*(s.shape for s in rest)):
        return None
    return _multiplied(rest, usual, samples, basis) or _counted_otherwise(rest, usual, samples, basis)


def _growth(samples: list[Sample], usual: float) -> float:
    """What is billed on top of the count and the usual constant, as a share of the count: the line through zero."""
    return sum((s.surplus - usual) * s.official for s in samples) / sum(s.official**2 for s in samples)


def _beside(samples: list[Sample], usual: float, growth: float) -> float:
    return max(abs(s.surplus - usual - growth * s.official) for s in samples)


def _multiplied(rest: list[Sample], usual: float, samples: list[Sample], basis: Basis) -> Finding | None:
    """To the token the same share of every text, whatever its script."""
    growth = _growth(rest, usual)
    if growth < SLOPE_NOISE or _beside(rest, usual, growth) > TO_THE_TOKEN:
        return None
    slope = f"{1 + growth:.2f}"
    params = {"slope": slope, "offset": round(usual), "percent": percent(growth), **_shares(rest, samples)}
    return finding("tokens.proportional_surplus", params, exchanges=ids_of(rest), severity="medium", basis=basis,
                   confidence="strong", expected={"slope": "1.00"}, observed=_seen(slope, rest, samples))  # fmt: skip


def _counted_otherwise(rest: list[Sample], usual: float, samples: list[Sample], basis: Basis) -> Finding | None:
    """Well below the count in one script, otherwise in another: no surplus does that, and no estimate with one rule."""
    far = [s for s in rest if abs(s.surplus - usual) > max(SPREAD, FEWER * s.official)]
    between = [s for s in rest if s not in far]
    if len(far) < SOME or 2 * len(between) > len(far) or any(abs(s.surplus - usual) > NOISE for s in between):
        return None
    scripts = {
        script: [s for s in far if s.factor("script") == script] for script in sorted({s.factor("script") for s in far})
    }
    growth = {script: _growth(members, usual) for script, members in scripts.items()}
    grain = max(GRAIN, SHARE * max(s.usage.billed_input for s in far))
    if min(growth.values()) > -FEWER or max(growth.values()) - min(growth.values()) <= FEWER:
        return None
    if any(_beside(members, usual, growth[script]) > grain for script, members in scripts.items()):
        return None
    slopes = {script: f"{1 + value:.2f}" for script, value in growth.items()}
    params = {"slopes": slopes, **_shares(far, samples)}
    return finding("tokens.tokenizer_differs", params, exchanges=ids_of(far), basis=basis, confidence="strong",
                   expected={"slope": "1.00"}, observed={**slopes, "answers": f"{len(far)} of {len(samples)}"})  # fmt: skip


def _shares(hit: list[Sample], samples: list[Sample]) -> dict[str, str | int]:
    low, high = share_interval(len(hit), len(samples))
    return {
        "road": "sometimes",
        "n": len(hit),
        "of": len(samples),
        "share_low": percent(low),
        "share_high": percent(high),
    }


def _seen(slope: str, hit: list[Sample], samples: list[Sample]) -> dict[str, str]:
    return {"slope": slope, "answers": f"{len(hit)} of {len(samples)}"}
