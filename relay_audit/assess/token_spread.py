"""Check 2: what billed tokens say where they differ from the vendor's count by more than one constant.

Only under a condition, only sometimes, growing alike in all scripts (a multiplier), growing unlike (another tokenizer),
some answers counted by another tokenizer, or far above the count without a pattern.
"""

from __future__ import annotations

from functools import partial
from math import gcd
from statistics import median

from relay_audit.assess.token_samples import (
    ENOUGH,
    HIGH,
    NOISE,
    SLOPE_NOISE,
    SPREAD,
    SURPLUS,
    TO_THE_TOKEN,
    Sample,
    counted_fewer,
    ids_of,
    range_of,
)
from relay_audit.assess.token_sometimes import striking_sometimes
from relay_audit.bounds import Line, fit, percent, share_interval, unseen_share
from relay_audit.codes import finding
from relay_audit.finding import Basis, Finding, Severity

MIN_SIZES = 3
SLIGHT = 0.02
"""A multiplier from which a few in a hundred are told from rounding, and how far scripts may differ in it."""
LONG = 120
"""Tokens that the longest text must have for it: on short ones a few tokens are jitter."""
COARSE, MIN_ROUNDED = 10, 8
"""A step from which rounding up costs the buyer something, and texts enough to leave no chance of a common divisor."""


def in_place_of_the_callers(samples: list[Sample]) -> list[Sample]:
    """The texts without a system prompt, where all of these are billed one constant more and every text with one less more,
    by the same number in each script: a prompt precedes them all and stands in the place of the caller's own, whose tokens
    the vendor's count has. Empty where it is not so."""
    bare, own = _by_system(samples)
    if min(len(bare), len(own)) < ENOUGH or not _one_constant(bare) or not _constant_in_scripts(own):
        return []
    if _one_constant(own):
        return []  # added under a condition: what stood in a prompt's place would lack as much as that prompt counts
    low, _ = range_of(bare)
    return bare if low > NOISE and range_of(own)[1] < low - SPREAD else []


def _by_system(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    return ([s for s in samples if s.factor("system") != "True"], [s for s in samples if s.factor("system") == "True"])


def _one_constant(samples: list[Sample]) -> bool:
    low, high = range_of(samples)
    return high - low <= SPREAD


def _constant_in_scripts(samples: list[Sample]) -> bool:
    """One line in each script is that script's system prompt: as long in all texts of it, and not in all scripts."""
    return all(
        _one_constant([s for s in samples if s.factor("script") == script])
        for script in {s.factor("script") for s in samples}
    )


def _replaced_where_sent(samples: list[Sample]) -> bool:
    """Whether only callers' own system prompts are replaced, by a longer one: texts without one are billed as counted."""
    bare, own = _by_system(samples)
    if min(len(bare), len(own)) < ENOUGH or not _one_constant(bare) or not _constant_in_scripts(own):
        return False
    return all(abs(s.surplus) <= NOISE for s in bare) and range_of(own)[0] >= SURPLUS


def varying(samples: list[Sample], basis: Basis) -> list[Finding]:
    if (name := _conditional(samples)) is not None:
        return [_conditional_finding(name, samples, basis)]
    if (now_and_then := sometimes(samples, basis)) is not None:
        return [now_and_then]
    if (rounded := _rounded_up(samples, basis)) is not None:
        return [rounded]
    if (slight := _slight_multiplier(samples, basis)) is not None:
        return [slight]
    if (other := _other_tokenizer(samples, basis)) is not None:
        return [other]
    if _without_system(samples):
        return [_open(samples, basis, "system_not_counted", "system")]
    if (seldom := striking_sometimes(samples, basis)) is not None:
        return [seldom]
    low, high = range_of(samples)
    if max(abs(low), abs(high)) <= NOISE:
        offset, unseen = int(median(s.surplus for s in samples)), percent(unseen_share(len(samples)))
        params = {"n": len(samples), "offset": offset, "low": low, "high": high, "share_bound": unseen}
        return [finding("tokens.template_noise", params, exchanges=ids_of(samples), basis=basis)]
    return _sloped(samples, basis)


def _conditional(samples: list[Sample]) -> str | None:
    """The factor under whose levels the surplus is constant, though it differs between them."""
    for name in ("system", "user_agent", "stream"):
        levels: dict[str, list[Sample]] = {}
        for sample in samples:
            levels.setdefault(sample.factor(name), []).append(sample)
        ranges = [range_of(members) for members in levels.values()]
        if (
            len(levels) > 1
            and all(len(m) >= 2 for m in levels.values())
            and all(hi - lo <= SPREAD for lo, hi in ranges)
        ):
            return name
    return "system" if _replaced_where_sent(samples) else None


def _conditional_finding(name: str, samples: list[Sample], basis: Basis) -> Finding:
    low, high = range_of(samples)
    levels = {
        level: [s.surplus for s in samples if s.factor(name) == level] for level in {s.factor(name) for s in samples}
    }
    accuses = high >= SURPLUS
    return finding(
        "tokens.variable_surplus",
        {"n": len(samples), "low": low, "high": high, "depends_on": name},
        exchanges=ids_of(samples),
        outcome="mismatch" if accuses else "inconclusive",
        severity=_weight(low) if accuses else "info",
        basis=basis,
        confidence="strong" if accuses else "supporting",
        expected={"offset": f"0 to {NOISE}"},
        observed={f"{name}={level}": int(median(values)) for level, values in sorted(levels.items())},
    )


def _weight(least: int) -> Severity:
    """As heavy as a constant of what every text carries: that some carry more on top makes it no lighter."""
    return "high" if least >= HIGH else "medium"


def sometimes(samples: list[Sample], basis: Basis) -> Finding | None:
    """A constant on some texts, where all the others are billed as counted; None where it is not so."""
    loud = _intermittent(samples)
    return None if loud is None else _intermittent_finding(loud, samples, basis)


def _intermittent(samples: list[Sample]) -> list[Sample] | None:
    """The samples at one constant, when all others are at (template) zero."""
    quiet = [s for s in samples if -NOISE <= s.surplus <= NOISE]
    loud = [s for s in samples if s.surplus >= SURPLUS]
    if not quiet or not loud or len(quiet) + len(loud) != len(samples):
        return None
    if any(hi - lo > SPREAD for lo, hi in (range_of(quiet), range_of(loud))):
        return None
    return loud


def _intermittent_finding(loud: list[Sample], samples: list[Sample], basis: Basis) -> Finding:
    low, high = share_interval(len(loud), len(samples))
    surplus = int(median(s.surplus for s in loud))
    return finding(
        "tokens.intermittent_surplus",
        {
            "n": len(loud),
            "of": len(samples),
            "surplus": surplus,
            "share_low": percent(low),
            "share_high": percent(high),
        },
        exchanges=ids_of(loud),
        basis=basis,
        confidence="strong",
        expected={"offset": f"0 to {NOISE}"},
        observed={"offset": surplus, "answers": f"{len(loud)} of {len(samples)}"},
    )


def _other_tokenizer(samples: list[Sample], basis: Basis) -> Finding | None:
    """Some answers counted exactly as the vendor counts and others well below it, in proportion to their text: another
    tokenizer answered those. An answer without the usual parts of usage may be the relay's own estimate and shows nothing."""
    exact = [s for s in samples if abs(s.surplus) <= SPREAD]
    off = [s for s in samples if counted_fewer(s)]
    scripts = {s.factor("script") for s in off}
    between = [s for s in samples if s not in exact and s not in off]  # two tokenizers may be near in one script
    if len(exact) < ENOUGH or len(off) < ENOUGH or len(between) > len(off) or len(scripts) < 2:
        return None
    if any(s.surplus > 0 for s in between):
        return None
    if _without_system(samples):
        return None  # the same tokenizer counts the rest
    if not frozenset.union(*(s.shape for s in exact)) <= frozenset.intersection(*(s.shape for s in off)):
        return None
    ratios = {
        script: [s.usage.billed_input / s.official for s in off if s.factor("script") == script] for script in scripts
    }
    printed = {script: f"{median(found):.2f}" for script, found in sorted(ratios.items())}
    return finding("tokens.tokenizer_differs", {"n": len(off), "slopes": printed}, exchanges=ids_of(off), basis=basis,
                   confidence="strong", expected={"slope": "1.00"},
                   observed={**printed, "answers": f"{len(off)} of {len(samples)}"})  # fmt: skip


def _without_system(samples: list[Sample]) -> bool:
    """Every text with a system prompt below its count and every other at it: the prompt did not arrive, or is not billed."""
    under = [s.surplus for s in samples if s.factor("system") == "True"]
    rest = [abs(s.surplus) for s in samples if s.factor("system") != "True"]
    return min(len(under), len(rest)) >= ENOUGH and max(under) < -SPREAD and max(rest) <= SPREAD


def _open(samples: list[Sample], basis: Basis, reason: str, depends_on: str) -> Finding:
    low, high = range_of(samples)
    params = {"n": len(samples), "low": low, "high": high, "depends_on": depends_on, "reason": reason}
    return finding("tokens.inconclusive", params, exchanges=ids_of(samples), basis=basis, confidence="weak",
                   observed={"low": low, "high": high})  # fmt: skip


def _rounded_up(samples: list[Sample], basis: Basis) -> Finding | None:
    """Every text billed at a multiple of one number that is never below its count: rounded up, to the buyer's cost. Counts
    of different texts have no common divisor of that size by themselves."""
    step = gcd(*(s.usage.billed_input for s in samples))
    low, high = range_of(samples)
    sizes = {s.usage.billed_input for s in samples}
    if step < COARSE or len(samples) < MIN_ROUNDED or len(sizes) < 2 or low < 0 or high >= step:
        return None
    params = {"n": len(samples), "low": low, "high": high, "depends_on": "", "step": step, "road": "rounded"}
    return finding("tokens.variable_surplus", params, exchanges=ids_of(samples), basis=basis, confidence="strong",
                   expected={"offset": f"0 to {NOISE}"}, observed={"low": low, "high": high, "step": step})  # fmt: skip


def _lines(samples: list[Sample]) -> dict[str, Line]:
    """Script → the line through its texts, where they are of enough sizes."""
    lines: dict[str, Line] = {}
    for script in sorted({s.factor("script") for s in samples}):
        own = [s for s in samples if s.factor("script") == script]
        line = fit([(s.official, s.usage.billed_input) for s in own])
        if line is not None and len({s.official for s in own}) >= MIN_SIZES:
            lines[script] = line
    return lines


def _slight_multiplier(samples: list[Sample], basis: Basis) -> Finding | None:
    """A few in a hundred on every text of every script, to the token: within the size of a template, and not one."""
    lines = _lines(samples)
    slopes = [line.slope for line in lines.values()]
    if len(lines) < 2 or min(slopes) < 1 + SLIGHT or max(slopes) - min(slopes) > SLIGHT:
        return None
    if max(s.official for s in samples) < LONG:
        return None
    if any(line.residual > TO_THE_TOKEN or abs(line.intercept) > TO_THE_TOKEN for line in lines.values()):
        return None
    slope = sum(slopes) / len(slopes)
    params = {"n": len(samples), "slope": f"{slope:.2f}", "offset": 0, "percent": percent(slope - 1)}
    return finding("tokens.proportional_surplus", params, exchanges=ids_of(samples), basis=basis, confidence="strong",
                   expected={"slope": "1.00"}, observed={script: f"{line.slope:.2f}" for script, line in lines.items()})  # fmt: skip


def _sloped(samples: list[Sample], basis: Basis) -> list[Finding]:
    """Lines per script: alike and above 1 is a multiplier, unlike is another tokenizer."""
    lines = _lines(samples)
    if len(lines) < 2 or not all(_straight(line, samples) for line in lines.values()):
        return [_unexplained(samples, basis, scripts=len(lines))]
    slopes = [line.slope for line in lines.values()]
    alike = max(slopes) - min(slopes) <= SLOPE_NOISE * max(slopes)
    printed = {script: f"{line.slope:.2f}" for script, line in lines.items()}
    speak = partial(
        finding,
        exchanges=ids_of(samples),
        basis=basis,
        confidence="strong",
        expected={"slope": "1.00"},
        observed=dict(printed),
    )
    if not alike:
        return [speak("tokens.tokenizer_differs", {"n": len(samples), "slopes": printed})]
    slope = sum(slopes) / len(slopes)
    offset = round(sum(line.intercept for line in lines.values()) / len(lines))
    if slope > 1 + SLOPE_NOISE:
        params = {"n": len(samples), "slope": f"{slope:.2f}", "offset": offset, "percent": percent(slope - 1)}
        return [speak("tokens.proportional_surplus", params)]
    if slope < 1 - SLOPE_NOISE and range_of(samples)[1] <= NOISE:
        return [speak("tokens.deficit", {"n": len(samples), "offset": range_of(samples)[0]})]
    return [_unexplained(samples, basis, scripts=len(lines))]


def _straight(line: Line, samples: list[Sample]) -> bool:
    """Whether the points lie on the line, as far as another tokenizer's grain lets them."""
    largest = max(s.usage.billed_input for s in samples)
    return line.residual <= max(4.0, 0.08 * largest)


def _unexplained(samples: list[Sample], basis: Basis, scripts: int = 0) -> Finding:
    """No pattern. Where nothing is billed below its count and several texts far above it, in more than one script, the
    surplus is a fact without one: rounded up, or of another size each time."""
    low, high = range_of(samples)
    far = sum(s.surplus >= SURPLUS for s in samples)
    accuses = high >= SURPLUS and (low > NOISE or (low >= -SPREAD and far >= ENOUGH and scripts > 1))
    return finding(
        "tokens.variable_surplus" if accuses else "tokens.inconclusive",
        {"n": len(samples), "low": low, "high": high, "depends_on": "", "reason": "unexplained_spread"},
        exchanges=ids_of(samples),
        severity=_weight(low) if accuses else None,
        basis=basis,
        confidence="strong" if accuses else "weak",
        observed={"low": low, "high": high},
    )
