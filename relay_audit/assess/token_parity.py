"""Check 2: does the relay bill the tokens that the vendor counts for the very same body?

The yardstick is the vendor's own counter (never the relay's), asked before and after; without a key it is a dated
baseline for one published sentence. What is judged is the difference per text: constant (hidden prompt), growing with
the text alike in all scripts (a multiplier), growing unlike (another tokenizer), only under a condition, only sometimes.
Thresholds are the contract's: up to 8 is template noise, 9 to 49 is inconclusive, 50 and more is a surplus.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import partial
from statistics import median

from relay_audit.bounds import Line, fit, percent, share_interval, unseen_share
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.finding import Basis, Confidence, Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Step
from relay_audit.prompt_text import has_system
from relay_audit.usage import Usage, read_usage
from relay_audit.words import money

NOISE, SURPLUS, SPREAD, HIGH = 8, 50, 2, 200
SLOPE_NOISE = 0.05
"""A slope this near to 1, or two slopes this near to each other, are alike."""
CONTROL_WINDOW = dt.timedelta(minutes=15)
MIN_SIZES = 3


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

    @property
    def surplus(self) -> int:
        return self.usage.billed_input - self.official

    def factor(self, name: str) -> str:
        if name == "system":
            return str(has_system(self.step.body))
        return self.user_agent if name == "user_agent" else str(self.step.factors.get(name, ""))


def assess_token_parity(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """Raises nothing: what cannot be compared becomes `tokens.inconclusive` or nothing at all."""
    plan = evidence.plan
    if plan is None:
        return []
    answered = [
        (s, e, u) for s in plan.chargeable() if (e := evidence.of_step(s.id)) and (u := read_usage(e, evidence.pack))
    ]
    if plan.counter:
        samples, refused = _against_counter(evidence, answered)
        return _judge(samples, refused, evidence, _basis(evidence), "strong")
    return _against_baseline(evidence, knowledge, answered)


def _basis(evidence: Evidence) -> Basis:
    return "live_official" if evidence.target.official_is_vendor else "declared_official"


def _against_counter(
    evidence: Evidence, answered: list[tuple[Step, Exchange, Usage]]
) -> tuple[list[Sample], list[str]]:
    """Samples whose control controls, and the reasons why others were set aside."""
    samples, refused = [], []
    for step, exchange, usage in answered:
        control = _control(evidence, step, exchange)
        if isinstance(control, str):
            refused.append(control)
        else:
            agent = next((value for name, value in exchange.request.headers if name.lower() == "user-agent"), "")
            samples.append(Sample(step, exchange.id, control[0], usage, control[1], agent))
    return samples, refused


def _control(evidence: Evidence, step: Step, exchange: Exchange) -> tuple[int, tuple[str, ...]] | str:
    """The official count of this body, if the official side agrees with itself near the relay's sending."""
    counter = evidence.pack.counter
    if counter is None or evidence.plan is None:
        return "no_counter"
    names = {f"count.quote.{step.id}", *(s.id for s in evidence.plan.steps if s.counts == step.id)}
    asked = [e for e in evidence.exchanges if e.step in names and e.delivery != "not_sent"]
    values = {
        whole_number(pointer(e.answer(), counter.read)) if e.status == 200 else None for e in _last_of_each(asked)
    }
    if None in values or not values:
        return "control_failed"
    if len(values) > 1:
        return "control_varies"
    told = [e for e in asked if e.status == 200]
    if not any(abs(e.sent_at - exchange.sent_at) <= CONTROL_WINDOW for e in told):
        return "control_too_old"
    if len(told) < 2:
        return "control_not_repeated"
    return int(next(iter(values)) or 0), tuple(e.id for e in told)


def _last_of_each(exchanges: list[Exchange]) -> list[Exchange]:
    """A free count may be asked again after a failure; the last word per step counts."""
    return list({exchange.step: exchange for exchange in exchanges}.values())


def _judge(
    samples: list[Sample], refused: list[str], evidence: Evidence, basis: Basis, confidence: Confidence
) -> list[Finding]:
    if len(samples) < 2:
        reason = max(set(refused), key=refused.count) if refused else "too_few_answers"
        return [_inconclusive(samples, reason, basis)] if samples or refused else []
    found = [] if evidence.pack.usage.automatic_cache else _cache_breakpoints(samples, basis)
    low, high = _range(samples)
    if high - low <= SPREAD:
        return [*found, _constant(samples, evidence, basis, confidence)]
    return [*found, *_varying(samples, basis)]


def _range(samples: list[Sample]) -> tuple[int, int]:
    surpluses = [sample.surplus for sample in samples]
    return min(surpluses), max(surpluses)


def _ids(samples: list[Sample]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([s.exchange for s in samples] + [c for s in samples for c in s.controls]))


def _inconclusive(samples: list[Sample], reason: str, basis: Basis) -> Finding:
    return finding("tokens.inconclusive", {"n": len(samples), "reason": reason}, exchanges=_ids(samples), basis=basis)


def _constant(samples: list[Sample], evidence: Evidence, basis: Basis, confidence: Confidence) -> Finding:
    low, high = _range(samples)
    offset = int(median(s.surplus for s in samples))
    n = len(samples)
    speak = partial(
        finding,
        exchanges=_ids(samples),
        basis=basis,
        confidence=confidence,
        expected={"offset": f"0 to {NOISE}"},
        observed={"offset": offset, "low": low, "high": high},
    )
    if high < 0:
        return speak("tokens.deficit", {"n": n, "offset": offset})
    if high == 0 or (low <= 0 and high <= 1):
        return speak("tokens.match", {"n": n, "offset": offset, "share_bound": percent(unseen_share(n))})
    if high <= NOISE + SPREAD and offset <= NOISE:
        return speak("tokens.template_noise", {"n": n, "offset": offset, "low": low, "high": high})
    if offset < SURPLUS:
        return speak("tokens.inconclusive_offset", {"n": n, "offset": offset})
    if len({s.official for s in samples}) < MIN_SIZES and evidence.plan is not None and evidence.plan.counter:
        return _inconclusive(samples, "too_few_sizes", basis)
    first = samples[0]
    params = {
        "n": n,
        "surplus": offset,
        "low": low,
        "high": high,
        "official": first.official,
        "billed": first.usage.billed_input,
        "per_1000_calls": _cost_of(offset, evidence),
        "condition": "",
    }
    return speak("tokens.constant_surplus", params, severity="high" if offset >= HIGH else "medium")


def _cost_of(tokens: int, evidence: Evidence) -> str:
    """What so many input tokens cost in 1,000 calls at the quoted price; empty where no price is known."""
    cost = evidence.quote.input_cost(tokens) if evidence.quote else None
    return "" if cost is None else money(cost * 1000)


def _cache_breakpoints(samples: list[Sample], basis: Basis) -> list[Finding]:
    hits = [s for s in samples if s.usage.cached > 0]
    if not hits:
        return []
    params = {"n": len(hits), "of": len(samples), "cached": max(s.usage.cached for s in hits)}
    return [finding("tokens.cache_breakpoint_injected", params, exchanges=_ids(hits), basis=basis, confidence="strong",
                    expected={"cached": 0}, observed={"cached": params["cached"]})]  # fmt: skip


def _varying(samples: list[Sample], basis: Basis) -> list[Finding]:
    if (name := _conditional(samples)) is not None:
        return [_conditional_finding(name, samples, basis)]
    if (sometimes := _intermittent(samples)) is not None:
        return [_intermittent_finding(sometimes, samples, basis)]
    low, high = _range(samples)
    if max(abs(low), abs(high)) <= NOISE:
        params = {"n": len(samples), "offset": int(median(s.surplus for s in samples)), "low": low, "high": high}
        return [finding("tokens.template_noise", params, exchanges=_ids(samples), basis=basis, confidence="supporting")]
    return _sloped(samples, basis)


def _conditional(samples: list[Sample]) -> str | None:
    """The factor under whose levels the surplus is constant, though it differs between them."""
    for name in ("system", "user_agent"):
        levels: dict[str, list[Sample]] = {}
        for sample in samples:
            levels.setdefault(sample.factor(name), []).append(sample)
        ranges = [_range(members) for members in levels.values()]
        if (
            len(levels) > 1
            and all(len(m) >= 2 for m in levels.values())
            and all(hi - lo <= SPREAD for lo, hi in ranges)
        ):
            return name
    return None


def _conditional_finding(name: str, samples: list[Sample], basis: Basis) -> Finding:
    low, high = _range(samples)
    levels = {
        level: [s.surplus for s in samples if s.factor(name) == level] for level in {s.factor(name) for s in samples}
    }
    accuses = high >= SURPLUS
    return finding(
        "tokens.variable_surplus",
        {"n": len(samples), "low": low, "high": high, "depends_on": name},
        exchanges=_ids(samples),
        outcome="mismatch" if accuses else "inconclusive",
        severity="medium" if accuses else "info",
        basis=basis,
        confidence="strong" if accuses else "supporting",
        expected={"offset": f"0 to {NOISE}"},
        observed={f"{name}={level}": int(median(values)) for level, values in sorted(levels.items())},
    )


def _intermittent(samples: list[Sample]) -> list[Sample] | None:
    """The samples at one constant, when all others are at (template) zero."""
    quiet = [s for s in samples if -NOISE <= s.surplus <= NOISE]
    loud = [s for s in samples if s.surplus >= SURPLUS]
    if not quiet or not loud or len(quiet) + len(loud) != len(samples):
        return None
    if any(hi - lo > SPREAD for lo, hi in (_range(quiet), _range(loud))):
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
        exchanges=_ids(loud),
        basis=basis,
        confidence="strong",
        expected={"offset": f"0 to {NOISE}"},
        observed={"offset": surplus, "answers": f"{len(loud)} of {len(samples)}"},
    )


def _sloped(samples: list[Sample], basis: Basis) -> list[Finding]:
    """Lines per script: alike and above 1 is a multiplier, unlike is another tokenizer."""
    lines: dict[str, Line] = {}
    for script in sorted({s.factor("script") for s in samples}):
        own = [s for s in samples if s.factor("script") == script]
        line = fit([(s.official, s.usage.billed_input) for s in own])
        if line is not None and len({s.official for s in own}) >= MIN_SIZES:
            lines[script] = line
    if len(lines) < 2 or not all(_straight(line, samples) for line in lines.values()):
        return [_unexplained(samples, basis)]
    slopes = [line.slope for line in lines.values()]
    alike = max(slopes) - min(slopes) <= SLOPE_NOISE * max(slopes)
    printed = {script: f"{line.slope:.2f}" for script, line in lines.items()}
    speak = partial(
        finding,
        exchanges=_ids(samples),
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
    if slope < 1 - SLOPE_NOISE:
        return [speak("tokens.deficit", {"n": len(samples), "offset": _range(samples)[0]})]
    return [_unexplained(samples, basis)]


def _straight(line: Line, samples: list[Sample]) -> bool:
    """Whether the points lie on the line, as far as another tokenizer's grain lets them."""
    largest = max(s.usage.billed_input for s in samples)
    return line.residual <= max(4.0, 0.08 * largest)


def _unexplained(samples: list[Sample], basis: Basis) -> Finding:
    low, high = _range(samples)
    accuses = low > NOISE and high >= SURPLUS
    return finding(
        "tokens.variable_surplus" if accuses else "tokens.inconclusive",
        {"n": len(samples), "low": low, "high": high, "depends_on": "", "reason": "unexplained_spread"},
        exchanges=_ids(samples),
        basis=basis,
        confidence="strong" if accuses else "weak",
        observed={"low": low, "high": high},
    )


def _against_baseline(
    evidence: Evidence, knowledge: Knowledge, answered: list[tuple[Step, Exchange, Usage]]
) -> list[Finding]:
    """Three sends of the published sentence against its dated count. A match is supporting at most."""
    day = evidence.started_at.date()
    baseline = knowledge.baseline_for(evidence.target.official_model, day)
    sent = [(s, e, u) for s, e, u in answered if s.request == "published"]
    if baseline is None or not sent:
        return []
    samples = [Sample(s, e.id, baseline.tokens, u, ()) for s, e, u in sent]
    if len(samples) < 3:
        return [_inconclusive(samples, "too_few_answers", "dated_baseline")]
    age = baseline.age(day)
    found = _judge(samples, [], evidence, "dated_baseline", "strong")
    return [_by_age(item, age) for item in found]


def _by_age(item: Finding, age: str) -> Finding:
    """Stale knowledge weakens one step: nothing that rests on it stays above info. A match is never strong."""
    if item.code == "tokens.cache_breakpoint_injected":
        return item
    if age == "fresh":
        return item if item.accusation else item.model_copy(update={"confidence": "supporting"})
    if item.accusation:
        return item.model_copy(update={"outcome": "inconclusive", "severity": "info", "confidence": "supporting"})
    return item.model_copy(update={"severity": "info", "confidence": "weak"})
