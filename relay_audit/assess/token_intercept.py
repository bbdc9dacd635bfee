"""Check 2 without a counter: what every request carries besides its text.

One fresh line was sent 1, 2, 4 and 8 times over. Each repetition costs the same, so the straight line through what was
billed has an intercept: template, closing instruction and whatever was added on the way. It accuses only where it
exceeds the largest frame known of the family, the instruction's upper bound, and twice both together, by the contract's
margins: a doubling of all tokens moves the intercept too. The slope is reported and never judged.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

from relay_audit.assess.token_parity import told_beside
from relay_audit.bounds import percent, share_interval, unseen_share
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Basis, Finding
from relay_audit.fingerprint import Knowledge, TokenFrame
from relay_audit.plan import Step
from relay_audit.prompt_text import estimated, texts_of
from relay_audit.usage import read_usage
from relay_audit.words import money

NOISE, SURPLUS, SPREAD, HIGH = 8, 50, 2, 200
"""The contract's margins, as against a counter."""
GRAIN = 4.0
"""Tokens that a point may lie beside the line through two others, where each count may be two off."""
ENOUGH = 3
"""Points that agree on a line; fewer show nothing."""
BASIS: Basis = "known_list"
ROAD = {"road": "intercept"}


@dataclass(frozen=True)
class Point:
    exchange: str
    times: int
    billed: int


@dataclass(frozen=True)
class Series:
    """One line of text and what its repetitions were billed."""

    script: str
    points: tuple[Point, ...]
    instruction: int
    """Upper bound of the closing instruction's tokens."""
    intercept: float
    slope: float
    on_line: tuple[Point, ...]
    beside: tuple[Point, ...]

    def excess(self, frame: int) -> float:
        """What surely does not come from template and instruction."""
        return self.intercept - frame - self.instruction

    @property
    def jump(self) -> int | None:
        """The one distance at which all points beside the line lie; None where there are several, or no such points."""
        gaps = [round(p.billed - self.intercept - self.slope * p.times) for p in self.beside]
        return round(sum(gaps) / len(gaps)) if gaps and max(gaps) - min(gaps) <= 2 * SPREAD else None


def assess_token_intercept(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """Nothing where the vendor's counter was asked, where it answered the same lines itself, or no such line was sent."""
    if told_beside(evidence):
        return []
    plan = evidence.plan
    sent = [s for s in plan.chargeable() if "times" in s.factors] if plan and not plan.counter else []
    if not sent:
        return []
    points = {script: _points(steps, evidence) for script, steps in _by_script(sent).items()}
    points = {
        script: [*own, *_of_the_same_line(_by_script(sent)[script][0], evidence)] for script, own in points.items()
    }
    series = [
        read for script, steps in _by_script(sent).items() if (read := _read(script, steps, points[script], evidence))
    ]
    if not series:
        reason = "too_few_answers" if sum(map(len, points.values())) < ENOUGH else "unexplained_spread"
        return [_open(reason, [p for own in points.values() for p in own])]
    frame = knowledge.frame_for(evidence.target.official_model, evidence.started_at.date())
    if frame is None or frame.age(evidence.started_at.date()) == "expired":
        return [_open("no_known_frame", _all(series), _told(series))]
    return [_weighed(item, frame, evidence) for item in _judge(series, frame, evidence)]


def _by_script(steps: list[Step]) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(str(step.factors.get("script", "")), []).append(step)
    return found


def _points(steps: list[Step], evidence: Evidence) -> list[Point]:
    points = []
    for step in steps:
        exchange = evidence.of_step(step.id)
        usage = read_usage(exchange, evidence.pack) if exchange else None
        times = step.factors["times"]
        if exchange and usage and isinstance(times, int):
            points.append(Point(exchange.id, times, usage.billed_input))
    return points


def _of_the_same_line(first: Step, evidence: Evidence) -> list[Point]:
    """What else was sent of this very line, for another question and later in the run: who is honest for the first requests
    only is not on the line in these. A tool is more than the line."""
    line, _, closing = max(texts_of(first.body), key=len, default="").partition("\n")
    closing = closing.rpartition("\n")[2]
    points = []
    for step in evidence.plan.chargeable() if evidence.plan and line and closing else ():
        if step.body.get("tools"):
            continue
        *lines, last = max(texts_of(step.body), key=len, default="").split("\n")
        exchange = evidence.of_step(step.id)
        usage = read_usage(exchange, evidence.pack) if exchange else None
        if usage and exchange and "times" not in step.factors and lines and last == closing and set(lines) == {line}:
            points.append(Point(exchange.id, len(lines), usage.billed_input))
    return points


def _read(script: str, steps: list[Step], points: list[Point], evidence: Evidence) -> Series | None:
    """The line that most points lie on; None where no three do, or two lines have as many."""
    lines = [line for one, other in itertools.combinations(points, 2) if (line := _through(one, other, points))]
    best = max(lines, key=len, default=())
    rivals = {line for line in lines if len(line) == len(best)}
    if len(best) < ENOUGH or len(rivals) > 1:
        return None
    slope, intercept = _fit(best)
    closing = max(texts_of(steps[0].body), key=len, default="").rpartition("\n")[2]
    beside = tuple(point for point in points if point not in best)
    return Series(script, tuple(points), estimated(closing, evidence.pack), intercept, slope, best, beside)


def _through(one: Point, other: Point, points: list[Point]) -> tuple[Point, ...]:
    """The points on the rising line through two of them."""
    if one.times == other.times:
        return ()
    slope = (other.billed - one.billed) / (other.times - one.times)
    start = one.billed - slope * one.times
    if slope <= 0 or start < -GRAIN:
        return ()
    return tuple(point for point in points if abs(point.billed - start - slope * point.times) <= GRAIN)


def _fit(points: tuple[Point, ...]) -> tuple[float, float]:
    """Slope and intercept by least squares; the points have at least two different counts."""
    n = len(points)
    mean_x, mean_y = sum(p.times for p in points) / n, sum(p.billed for p in points) / n
    slope = sum((p.times - mean_x) * (p.billed - mean_y) for p in points) / sum((p.times - mean_x) ** 2 for p in points)
    return slope, mean_y - slope * mean_x


def _judge(series: list[Series], frame: TokenFrame, evidence: Evidence) -> list[Finding]:
    if any(own.beside for own in series):
        return [_sometimes(series, frame)]
    low = min(own.excess(frame.at_most) for own in series)
    high = max(own.excess(frame.at_most) for own in series)
    bound = max(frame.at_most + own.instruction for own in series)
    n = sum(len(own.points) for own in series)
    speak = partial(
        finding, exchanges=tuple(p.exchange for p in _all(series)), basis=BASIS,
        expected={"intercept": f"0 to {bound}"}, observed=_told(series),
    )  # fmt: skip
    doubled = all(own.intercept <= 2 * (frame.at_most + own.instruction) + NOISE for own in series)
    if low >= SURPLUS and not doubled:
        largest = max(series, key=lambda own: own.intercept)
        params = {
            "n": n,
            "surplus": round(low),
            "low": round(low),
            "high": round(high),
            "official": bound,
            "billed": round(largest.intercept),
            "per_1000_calls": _cost_of(round(low), evidence),
            "condition": "",
            **ROAD,
        }
        return [
            speak("tokens.constant_surplus", params, severity="high" if low >= HIGH else "medium", confidence="strong")
        ]
    if high > NOISE:
        return [speak("tokens.inconclusive_offset", {"n": n, "offset": round(high), **ROAD})]
    return [speak("tokens.match", {"n": n, "offset": bound, "share_bound": percent(unseen_share(n)), **ROAD})]


def _sometimes(series: list[Series], frame: TokenFrame) -> Finding:
    """Some points one constant off the line of the others: above it the fewer carry a surplus, below it the more."""
    jumps = {own.jump for own in series if own.beside}
    loud = [p for own in series for p in (own.beside if (own.jump or 0) > 0 else own.on_line if own.beside else ())]
    known = [jump for jump in jumps if jump is not None]
    alike = len(known) == len(jumps) and max(map(abs, known)) - min(map(abs, known)) <= 2 * SPREAD
    base = min(own.intercept + min(own.jump or 0, 0) - frame.at_most - own.instruction for own in series)
    if not alike or abs(known[0]) < SURPLUS or base > NOISE:
        return _open("unexplained_spread", _all(series), _told(series))
    n = sum(len(own.points) for own in series)
    share_low, share_high = share_interval(len(loud), n)
    surplus = round(sum(map(abs, known)) / len(known))
    return finding(
        "tokens.intermittent_surplus",
        {
            "n": len(loud),
            "of": n,
            "surplus": surplus,
            "share_low": percent(share_low),
            "share_high": percent(share_high),
            **ROAD,
        },
        exchanges=tuple(p.exchange for p in _all(series)),
        basis=BASIS,
        confidence="strong",
        expected={"intercept": f"0 to {frame.at_most + max(own.instruction for own in series)}"},
        observed={**_told(series), "answers": f"{len(loud)} of {n}"},
    )


def _weighed(item: Finding, frame: TokenFrame, evidence: Evidence) -> Finding:
    """Knowledge of the frame past its term accuses nobody."""
    if frame.age(evidence.started_at.date()) == "fresh" or item.code == "tokens.intermittent_surplus":
        return item
    if item.accusation:
        return item.model_copy(update={"outcome": "inconclusive", "severity": "info", "confidence": "supporting"})
    return item.model_copy(update={"severity": "info", "confidence": "weak"})


def _open(reason: str, points: list[Point], told: dict[str, Any] | None = None) -> Finding:
    params = {"n": len(points), "reason": reason, **ROAD}
    return finding("tokens.inconclusive", params, exchanges=tuple(p.exchange for p in points), basis=BASIS,
                   confidence="weak", observed=told or {})  # fmt: skip


def _all(series: list[Series]) -> list[Point]:
    return [point for own in series for point in own.points]


def _told(series: list[Series]) -> dict[str, Any]:
    """Intercept and slope per script, as facts."""
    rows = {f"intercept={own.script}": round(own.intercept) for own in series}
    return rows | {f"slope={own.script}": f"{own.slope:.1f}" for own in series}


def _cost_of(tokens: int, evidence: Evidence) -> str:
    """What so many input tokens cost in 1,000 calls at the quoted price; empty where no price is known."""
    cost = evidence.quote.input_cost(tokens) if evidence.quote else None
    return "" if cost is None else money(cost * 1000)
