"""Check 2: does the relay bill the tokens that the vendor counts for the very same body?

The yardstick is the vendor's own counter (never the relay's), asked before and after; without a key it is a dated
baseline for one published sentence. What is judged is the difference per text: constant (hidden prompt), growing with
the text alike in all scripts (a multiplier), growing unlike (another tokenizer), only under a condition, only sometimes.
Thresholds are the contract's: up to 8 is template noise, 9 to 49 is inconclusive, 50 and more is a surplus.
"""

from __future__ import annotations

import datetime as dt
from functools import partial
from statistics import median

from relay_audit.assess.long_bodies import long_bodies
from relay_audit.assess.token_samples import (
    ENOUGH,
    HIGH,
    NOISE,
    SPREAD,
    SURPLUS,
    Sample,
    counted_fewer,
    ids_of,
    range_of,
)
from relay_audit.assess.token_spread import MIN_SIZES, in_place_of_the_callers, sometimes, varying
from relay_audit.bounds import percent, unseen_share
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.finding import Basis, Confidence, Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Step
from relay_audit.usage import Usage, read_usage
from relay_audit.words import money

CONTROL_WINDOW = dt.timedelta(minutes=15)
RECORDED_WINDOW = dt.timedelta(days=30)
"""How old a recorded call may be when its body is counted: counters change with a model's name, and seldom besides."""


def assess_token_parity(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """Raises nothing: what cannot be compared becomes `tokens.inconclusive` or nothing at all."""
    plan = evidence.plan
    if plan is None:
        return []
    stored = evidence.stored()
    sent = [(s, e) for s in plan.chargeable() if (e := evidence.of_step(s.id)) and e.id not in stored]
    answered = [(s, e, usage) for s, e in sent if (usage := read_usage(e, evidence.pack))]
    if plan.counter and evidence.target.recorded:
        counted = {step.counts for step in plan.steps}
        samples, refused = _against_counter(evidence, [row for row in answered if row[0].id in counted])
        return _patterns_alone(_judge(samples, refused, evidence, evidence.target.official_basis, "strong"))
    if plan.counter:
        samples, refused = _against_counter(evidence, answered)
        basis = evidence.target.official_basis
        longer = long_bodies(evidence, samples, answered, basis) if len(samples) > 1 else []
        return [*_judge(samples, refused, evidence, basis, "strong"), *longer]
    if beside := told_beside(evidence):
        basis = evidence.target.official_basis
        later = sometimes([*beside, *_mirrored(evidence)], basis) if range_of(beside)[1] <= NOISE else None
        return [later] if later else _judge(beside, [], evidence, basis, "strong")
    return _against_baseline(evidence, knowledge, answered)


def told_beside(evidence: Evidence) -> list[Sample]:
    """Where the vendor has no counter: repeated lines, each beside what the vendor billed for the very same body. Empty
    where its own numbers do not grow by the line."""
    samples = _pairs(evidence, lines=True)
    scripts = {s.factor("script") for s in samples}
    return samples if scripts and all(_grows([s for s in samples if s.factor("script") == n]) for n in scripts) else []


UNCOUNTED = frozenset({"model", "messages", "input", "contents", "max_tokens", "max_completion_tokens", "max_output_tokens",
                       "generationConfig", "stop", "store"})  # fmt: skip
"""Fields that put no token of their own into a prompt, whether they arrive or not."""


def _mirrored(evidence: Evidence) -> list[Sample]:
    """What was sent to both sides for other questions, later in a run: who is honest for the first requests only bills
    these as it bills everybody."""
    return [s for s in _pairs(evidence, lines=False) if UNCOUNTED.issuperset(s.step.body)]


def _pairs(evidence: Evidence, *, lines: bool) -> list[Sample]:
    """Each answer of the relay beside what the vendor billed for the very same body, where it was sent to both: the
    repeated lines, or everything else."""
    plan = evidence.plan
    mirrors = {s.mirrors: s for s in plan.steps if s.mirrors and s.when == "with"} if plan and not plan.counter else {}
    samples, stored = [], evidence.stored()
    for step in plan.chargeable() if plan else ():
        own, told = evidence.of_step(step.id), evidence.of_step(mirrors[step.id].id) if step.id in mirrors else None
        if (
            ("times" in step.factors) is not lines
            or own is None
            or own.id in stored
            or told is None
            or told.status != 200
        ):
            continue
        usage, due = read_usage(own, evidence.pack), read_usage(told, evidence.pack)
        if usage is not None and due is not None and abs(told.sent_at - own.sent_at) <= CONTROL_WINDOW:
            samples.append(Sample(step, own.id, due.billed_input, usage, (told.id,), shape=_shape(own)))
    return samples


def _grows(samples: list[Sample]) -> bool:
    """Whether the vendor's own numbers lie on one line, each within the jitter of a count."""
    points = sorted((int(str(s.factor("times"))), s.official) for s in samples)
    if len(points) < MIN_SIZES:
        return False
    (first, low), (last, high) = points[0], points[-1]
    slope = (high - low) / (last - first) if last > first else 0.0
    return slope > 0 and all(abs(low + slope * (times - first) - count) <= SPREAD for times, count in points)


def streams_below(evidence: Evidence) -> tuple[str, ...]:
    """Exchanges of streamed texts, in two scripts at least, that are billed well below the vendor's count while whole
    answers keep to it. Software that converts a stream may have estimated them: alone that says nothing, and is not
    said; beside a signature of another model it is that model's tokenizer. Empty where there is no such thing."""
    plan = evidence.plan
    if plan is None or not plan.counter:
        return ()
    pairs = [(s, e) for s in plan.chargeable() if (e := evidence.of_step(s.id))]
    answered = [(s, e, u) for s, e in pairs if (u := read_usage(e, evidence.pack))]
    samples, _ = _against_counter(evidence, answered)
    kept = {s.exchange for s in _without_estimates(samples)}
    low = [s for s in samples if s.exchange not in kept and counted_fewer(s)]
    return ids_of(low) if len(low) >= ENOUGH and len({s.factor("script") for s in low}) > 1 else ()


def steady(evidence: Evidence, beside: Exchange) -> bool:
    """Whether whole answers to texts of three sizes at least, sent as this one was and without a system prompt, keep to one
    constant beside the vendor's count: nothing is multiplied, estimated or counted by another tokenizer."""
    plan = evidence.plan
    if plan is None or not plan.counter:
        return False
    pairs = [(s, e) for s in plan.chargeable() if (e := evidence.of_step(s.id))]
    samples, _ = _against_counter(evidence, [(s, e, u) for s, e in pairs if (u := read_usage(e, evidence.pack))])
    alike = [
        s for s in samples if s.user_agent == _agent(beside) and "True" not in (s.factor("stream"), s.factor("system"))
    ]
    low, high = range_of(alike) if alike else (0, 0)
    return len({s.official for s in alike}) >= MIN_SIZES and high - low <= SPREAD


def _agent(exchange: Exchange) -> str:
    return next((value for name, value in exchange.request.headers if name.lower() == "user-agent"), "")


def _patterns_alone(found: list[Finding]) -> list[Finding]:
    """Ordinary use was not made to be measured: a difference without a pattern accuses nobody in it."""
    return [
        item.model_copy(update={"outcome": "inconclusive", "severity": "info", "confidence": "supporting"})
        if item.code == "tokens.variable_surplus" and item.accusation else item
        for item in found
    ]  # fmt: skip


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
            samples.append(Sample(step, exchange.id, control[0], usage, control[1], _agent(exchange), _shape(exchange)))
    return samples, refused


def _shape(exchange: Exchange) -> frozenset[str]:
    usage = pointer(exchange.answer(), "/usage")
    return frozenset(map(str, usage)) if isinstance(usage, dict) else frozenset()


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
    window = RECORDED_WINDOW if evidence.target.recorded else CONTROL_WINDOW
    if not any(abs(e.sent_at - exchange.sent_at) <= window for e in told):
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
    samples = _without_estimates(samples)
    found = [] if evidence.pack.usage.automatic_cache else _cache_breakpoints(samples, basis)
    low, high = range_of(samples)
    if high - low <= SPREAD:
        return [*found, _constant(samples, evidence, basis, confidence)]
    if bare := in_place_of_the_callers(samples):
        own = tuple(x for x in ids_of(samples) if x not in ids_of(bare))
        return [*found, _constant(bare, evidence, basis, confidence, replaced=own)]
    return [*found, *varying(samples, basis)]


def _without_estimates(samples: list[Sample]) -> list[Sample]:
    """Whole answers alone, where these keep to one constant and streams say less: relay software that converts a stream
    writes an estimate or a 0 into it. Streams that say more are billed more."""
    whole = [s for s in samples if s.factor("stream") == "False"]
    streams = [s for s in samples if s.factor("stream") == "True"]
    if len(whole) < 2 or not streams:
        return samples
    low, high = range_of(whole)
    less = any(s.surplus < low - SPREAD for s in streams)
    return whole if high - low <= SPREAD and less else samples


def _inconclusive(samples: list[Sample], reason: str, basis: Basis) -> Finding:
    return finding("tokens.inconclusive", {"n": len(samples), "reason": reason}, exchanges=ids_of(samples), basis=basis)


def _constant(
    samples: list[Sample], evidence: Evidence, basis: Basis, confidence: Confidence, *, replaced: tuple[str, ...] = ()
) -> Finding:
    """`replaced`: the exchanges in which the prompt stands in the place of the caller's own."""
    low, high = range_of(samples)
    offset = int(median(s.surplus for s in samples))
    n = len(samples)
    speak = partial(
        finding,
        exchanges=(*ids_of(samples), *replaced),
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
        noise = {"n": n, "offset": offset, "low": low, "high": high}
        return speak("tokens.template_noise", noise | {"share_bound": percent(unseen_share(n))})
    if offset < SURPLUS:
        return speak("tokens.inconclusive_offset", {"n": n, "offset": offset})
    if len({s.official for s in samples}) < MIN_SIZES and evidence.plan is not None and evidence.plan.counter:
        return _inconclusive(samples, "too_few_sizes", basis)
    first = samples[0]
    params = {
        **({"road": "replaced"} if replaced else {}),
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
    samples = [s for s in samples if not s.step.factors.get("breakpoints")]
    hits = [s for s in samples if s.usage.cached > 0]
    if not hits:
        return []
    params = {"n": len(hits), "of": len(samples), "cached": max(s.usage.cached for s in hits)}
    return [finding("tokens.cache_breakpoint_injected", params, exchanges=ids_of(hits), basis=basis, confidence="strong",
                    expected={"cached": 0}, observed={"cached": params["cached"]})]  # fmt: skip


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
