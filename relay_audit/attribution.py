"""Whose change it was, once our own knowledge, prices and version are ruled out: the plan's, the vendor's, the relay's, or
nobody's. Pure: two runs, told apart step by step by what each side answered.

The relay is named last: where its answers to the same question did not change, or were not obtained, it is not the cause.
"""

from __future__ import annotations

from statistics import median

from relay_audit.change import MONEY, Cause, Change, moved_figures
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.finding import Finding
from relay_audit.plan import Step
from relay_audit.usage import read_usage

Asked = tuple[str, str, str]
"""Probe, request and case: the same question in two runs, however it was worded."""
SHARE_MOVED = 0.05
"""A side's tokens per estimated token moved by more than this: beyond what another wording explains."""
OF_THE_RUN = ("run.unstable", "run.budget_limited", "run.clock_skew", "run.unconfirmed_send", "run.unreachable")
"""Findings about how a run went, on networks and clocks, not about the line."""
PUBLISHED = "GET "
"""How the source of a price begins that the relay itself publishes."""
ANSWERED = frozenset({200, 201, 202, 400, 404, 413, 422})
"""Statuses that answer the question itself."""

Told = tuple[Cause, str]


def attribute(change: Change, older: Evidence, newer: Evidence) -> Change:
    """The change with its one cause and why."""
    cause, why = _cause(change, older, newer)
    return change.model_copy(update={"cause": cause, "why": why})


def _cause(change: Change, older: Evidence, newer: Evidence) -> Told:
    if change.code in OF_THE_RUN:
        return "noise", "how_it_went"
    if (told := _money_only(change, older, newer)) is not None:
        return told
    asked = questions_of(change, older, newer)
    there, here = answered(older, asked), answered(newer, asked)
    if asked and not (there and here):
        planned = questions(older) if not there else questions(newer)
        if not asked & planned:
            return "plan", "not_asked"
        return "noise", "not_answered"
    if not change.weighs and not _outcome_turned(change):
        return ("official", "official_basis") if _basis_changed(older, newer) else ("noise", "figures_of_the_run")
    if change.check == 5 and older.libraries != newer.libraries:
        return "tool", "library_version"
    return _sides(change, older, newer, asked)


def _money_only(change: Change, older: Evidence, newer: Evidence) -> Told | None:
    """A finding whose figures moved only as the price did."""
    if change.kind != "changed" or change.before is None or change.after is None:
        return None
    moved = set(moved_figures(change.before, change.after))
    same = all(getattr(change.before, n) == getattr(change.after, n) for n in ("outcome", "severity", "basis"))
    if not moved or moved - MONEY or not same:
        return None
    return price_cause(older, newer)


def price_cause(older: Evidence, newer: Evidence) -> Told | None:
    """Whose price changed: the relay's published one, or a table of ours; None where none did."""
    one, two = _unit_price(older), _unit_price(newer)
    if one is None or two is None or (one[0], one[1]) == (two[0], two[1]):
        return None
    if one[2].startswith(PUBLISHED) and two[2].startswith(PUBLISHED):
        return "relay", "published_price"
    return "prices", "price_table"


def _unit_price(evidence: Evidence) -> tuple[str, str, str] | None:
    lines = evidence.quote.lines if evidence.quote else ()
    price = next((line.unit_price for line in lines if line.side == "relay" and line.unit_price), None)
    return None if price is None else (str(price.input), str(price.output), price.source)


def questions(evidence: Evidence) -> set[Asked]:
    """What a run's plan asks of the relay."""
    steps = evidence.plan.steps if evidence.plan else ()
    return {_question(step) for step in steps if step.side == "relay"}


def questions_of(change: Change, older: Evidence, newer: Evidence) -> set[Asked]:
    """The questions a changed finding rests on, in the runs where it was found."""
    asked: set[Asked] = set()
    for item, evidence in ((change.before, older), (change.after, newer)):
        asked |= _questions_under(item, evidence) if item is not None else set()
    return asked


def _questions_under(finding: Finding, evidence: Evidence) -> set[Asked]:
    found: set[Asked] = set()
    for exchange in (e for e in evidence.exchanges if e.id in finding.exchanges):
        step = _base_step(exchange, evidence)
        if step is not None:
            found.add(_question(step))
    return found


def _base_step(exchange: Exchange, evidence: Evidence) -> Step | None:
    """The relay's step behind an exchange: itself, or the one whose count or copy it is."""
    if evidence.plan is None:
        return None
    names = [exchange.step, exchange.step.split(".", 2)[-1]]
    return next((step for name in names if (step := evidence.plan.step(name)) and step.side == "relay"), None)


def _question(step: Step) -> Asked:
    return (step.probe, step.request, step.case)


def answered(evidence: Evidence, asked: set[Asked]) -> bool:
    """Whether at least one of these questions got an answer here."""
    steps = [s for s in (evidence.plan.steps if evidence.plan else ()) if s.side == "relay" and _question(s) in asked]
    return any((e := evidence.of_step(step.id)) is not None and e.status is not None for step in steps)


def probes_under(finding: Finding, evidence: Evidence) -> set[str]:
    """The probes of the relay's requests that a finding rests on."""
    return {probe for probe, _, _ in _questions_under(finding, evidence)}


def answers_of(evidence: Evidence) -> dict[str, int]:
    """Probe → how many of its requests the relay itself answered, with what was asked for or with a refusal of it. A
    failure of the line (5xx, too many requests, a key that is not admitted) is none."""
    found: dict[str, int] = {}
    for step in evidence.plan.steps if evidence.plan else ():
        exchange = evidence.of_step(step.id) if step.side == "relay" else None
        if exchange is not None and exchange.status in ANSWERED:
            found[step.probe] = found.get(step.probe, 0) + 1
    return found


def _outcome_turned(change: Change) -> bool:
    outcomes = {item.outcome for item in (change.before, change.after) if item is not None}
    return change.kind == "changed" and len(outcomes) > 1


def _basis_changed(older: Evidence, newer: Evidence) -> bool:
    return older.target.no_counter_reason != newer.target.no_counter_reason


def _sides(change: Change, older: Evidence, newer: Evidence, asked: set[Asked]) -> Told:
    """Both runs asked the same and were answered: which side answered otherwise?"""
    relay, official = (_moved(side, older, newer, asked) for side in ("relay", "official"))
    if change.check == 2 and (_tokens_moved("relay", older, newer) or _tokens_moved("official", older, newer)):
        relay, official = (_tokens_moved(side, older, newer) for side in ("relay", "official"))
    rests_on_both = any(
        e.side == "official"
        for item, evidence in ((change.before, older), (change.after, newer))
        for e in evidence.exchanges
        if item is not None and e.id in item.exchanges
    )
    if official and not relay and (rests_on_both or change.check in (2, 4)):
        return "official", "official_answers_otherwise"
    if not relay and _basis_changed(older, newer):
        return "official", "official_basis"
    return "relay", "relay_answers_otherwise" if relay else "same_questions"


def _moved(side: str, older: Evidence, newer: Evidence, asked: set[Asked]) -> bool:
    """Whether a side's refusals and acceptances of these questions are others."""
    return _statuses(side, older, asked) != _statuses(side, newer, asked)


def _statuses(side: str, evidence: Evidence, asked: set[Asked]) -> set[tuple[Asked, int | None]]:
    found: set[tuple[Asked, int | None]] = set()
    for exchange in evidence.exchanges:
        step = _base_step(exchange, evidence)
        if exchange.side == side and step is not None and _question(step) in asked and exchange.status is not None:
            found.add((_question(step), exchange.status))
    return found


def _tokens_moved(side: str, older: Evidence, newer: Evidence) -> bool:
    one, two = _tokens_per_estimate(side, older), _tokens_per_estimate(side, newer)
    return one is not None and two is not None and abs(one - two) > SHARE_MOVED * max(one, two)


def _tokens_per_estimate(side: str, evidence: Evidence) -> float | None:
    """Tokens billed (or counted) per token of our own estimate: comparable between two wordings of one text."""
    shares = []
    for step in evidence.plan.chargeable() if evidence.plan else ():
        tokens = _billed(step, evidence) if side == "relay" else _counted(step, evidence)
        if tokens is not None and step.estimate:
            shares.append(tokens / step.estimate)
    return median(shares) if shares else None


def _billed(step: Step, evidence: Evidence) -> int | None:
    exchange = evidence.of_step(step.id)
    usage = read_usage(exchange, evidence.pack) if exchange is not None else None
    return usage.billed_input if usage else None


def _counted(step: Step, evidence: Evidence) -> int | None:
    counter = evidence.pack.counter
    names = {f"count.{when}.{step.id}" for when in ("quote", "before", "after")}
    for exchange in evidence.exchanges if counter else ():
        if exchange.step in names and exchange.status == 200 and counter is not None:
            return whole_number(pointer(exchange.answer(), counter.read))
    return None
