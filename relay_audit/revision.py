"""Another plan for a run that lives: parts left out, put in the place of others, or made possible by what the buyer
added; with its new price. What was sent stays in the plan. Asks nobody: what was not counted before is estimated.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from relay_audit.errors import SignalRefused
from relay_audit.finding import Coverage
from relay_audit.plan import CHECKS_HERE, WHEN, Plan, Step, turn
from relay_audit.planning import Knowing, plan_by, prices_for, question_for
from relay_audit.probe import Probe
from relay_audit.quote import Prices, Quote, UnitPrice, make_quote
from relay_audit.refusal import nearest
from relay_audit.replay import History
from relay_audit.usage import counted
from relay_audit.video_plan import without_films
from relay_audit.words import Side

DECLINED = "declined"
"""Why a check of a revised plan does not run."""


@dataclass(frozen=True)
class Revision:
    """A plan and its quote, and what was taken out to get there."""

    plan: Plan
    quote: Quote
    dropped: tuple[str, ...] = ()


def without_probes(history: History, knowing: Knowing, probes: Iterable[str], plan: Plan | None = None) -> Plan:
    """The plan without what is left to send of these probes. Raises `SignalRefused` for one that is not in it."""
    named, plan = set(probes), plan or planned(history)
    _known(named, {step.probe for step in plan.steps}, "probe")
    return _reduced(history, knowing, plan, lambda step: step.probe in named)


def without_lines(history: History, knowing: Knowing, lines: Iterable[str]) -> Plan:
    """The plan without what is left to send on these lines of the quote (`probe@side`)."""
    named, plan = set(lines), planned(history)
    _known(named, {step.line for step in plan.steps}, "quote line")
    return _reduced(history, knowing, plan, lambda step: step.line in named)


def replaced(history: History, knowing: Knowing, pairs: dict[str, str], plan: Plan) -> Plan:
    """The plan with probes put in the place of others, within the run's own scope: dialect, model and checks."""
    plan = without_probes(history, knowing, pairs, plan)
    wanted = set(history.target.audit.checks or CHECKS_HERE)
    inside = {p.id: p for p in knowing.packs.probes if set(p.checks) & wanted and plan.dialect in p.applies.dialects}
    _known(set(pairs.values()), set(inside), "probe of this run's dialect and checks")
    question = question_for(history, knowing, history.site, counter=plan.counter, free_only=False)
    whole = plan_by(question.model_copy(update={"profile": "thorough"}), history, knowing, plan.seed)
    new = [step for step in whole.steps if step.probe in pairs.values()]
    if missing := set(pairs.values()) - {step.probe for step in new}:
        raise SignalRefused(
            f"{min(missing)} cannot be sent to this relay with what is known of it",
            next_step="relay-audit probes show says what it applies to",
        )
    return _joined(plan, new, knowing)


def with_target(history: History, knowing: Knowing) -> Plan:
    """The plan that the target as it is now makes possible (`history.target`), with the same wording; parts that were
    taken out before stay out."""
    plan = planned(history)
    free_only = any(row.reason == "free_only" for row in plan.coverage)
    counter = history.pack.counter is not None and history.target.official is not None
    question = question_for(history, knowing, history.site, counter=counter, free_only=free_only)
    whole = plan_by(question.model_copy(update={"profile": plan.profile}), history, knowing, plan.seed)
    done = begun_steps(history)
    kept = plan.model_copy(update={"steps": tuple(step for step in plan.steps if step.id in done), "counter": counter})
    wanted = [step for step in whole.steps if not {step.probe, step.line} & history.dropped]
    return _joined(kept.model_copy(update={"coverage": whole.coverage}), wanted, knowing)


def priced(history: History, knowing: Knowing, plan: Plan, now: dt.datetime) -> Quote:
    """The quote of a revised plan: unit prices as they were quoted, unless the buyer's own file says otherwise."""
    if history.pack.video is not None and history.quote is not None:
        return without_films(history.quote, plan, now)
    counts = {
        step.id: number
        for step in plan.chargeable()
        if (asked := history.last_of(f"count.quote.{step.id}")) and (number := counted(asked, history.pack)) is not None
    }
    return make_quote(plan, _prices(history, knowing, plan), counts, now)


def planned(history: History) -> Plan:
    if history.plan is None:
        raise SignalRefused(
            "this run has no plan yet", next_step=f"wait for its quote: relay-audit status {history.store.run_id}"
        )
    return history.plan


def begun_steps(history: History) -> set[str]:
    """Steps that left, or that were answered for nothing: they stay in every plan."""
    return history.sent_steps() | {exchange.step for exchange in history.exchanges.values()}


def _reduced(history: History, knowing: Knowing, plan: Plan, gone: Callable[[Step], bool]) -> Plan:
    done = begun_steps(history)
    dropped = {step.id for step in plan.steps if gone(step) and step.id not in done}
    kept = [
        step
        for step in plan.steps
        if step.id in done or not (step.id in dropped or step.mirrors in dropped or step.counts in dropped)
    ]
    return _covering(plan.model_copy(update={"steps": tuple(kept)}), knowing)


def _joined(plan: Plan, more: Iterable[Step], knowing: Knowing) -> Plan:
    known = {step.id for step in plan.steps}
    steps = sorted([*plan.steps, *(step for step in more if step.id not in known)], key=_place)
    return _covering(plan.model_copy(update={"steps": tuple(steps)}), knowing)


def _place(step: Step) -> tuple[int, int, tuple[int, int]]:
    """The order of a plan: counts first, then what goes to the relay by stage, then the vendor's side of it."""
    kind = 0 if step.counts else 2 if step.mirrors else 1
    return WHEN.index(step.when), kind, turn(step) if kind == 1 else (0, 0)


def _covering(plan: Plan, knowing: Knowing) -> Plan:
    """The plan's own word on its checks: what no step serves any more does not run, and says why."""
    probes: dict[str, Probe] = {probe.id: probe for probe in knowing.packs.probes}
    served = {c for step in plan.steps if step.side == "relay" for c in probes[step.probe].checks}
    before = {row.check: row for row in plan.coverage}
    rows = []
    for check in range(1, 7):
        if check in before and not (check in served and before[check].state == "not_run"):
            rows.append(before[check])
        elif check not in served and check != 6:
            rows.append(Coverage(check=check, state="not_run", reason=DECLINED))
    wanted = set(plan.checks) | served
    return plan.model_copy(
        update={
            "checks": tuple(sorted(wanted - {row.check for row in rows})),
            "coverage": tuple(rows),
        }
    )


def _prices(history: History, knowing: Knowing, plan: Plan) -> Prices:
    found = prices_for(history, knowing, plan)
    relay = _as_quoted(history, "relay", knowing.prices.of("relay", history.target.subject.model), found.relay)
    own = knowing.prices.of("official", history.target.official_model)
    official = _as_quoted(history, "official", own, found.official)
    return Prices(relay=relay, official=official, hold_min_input=found.hold_min_input, fill=found.fill)


def _as_quoted(history: History, side: Side, own: UnitPrice | None, found: UnitPrice | None) -> UnitPrice | None:
    lines = history.quote.lines if history.quote else ()
    before = next((line.unit_price for line in lines if line.side == side and line.unit_price), None)
    return own or before or found


def _known(named: set[str], known: set[str], what: str) -> None:
    if strange := sorted(named - known):
        raise SignalRefused(
            f"{strange[0][:80]} is no {what} here{nearest(strange[0], sorted(known))}",
            next_step=f"one of: {', '.join(sorted(known))}",
        )
