"""Check 3 by counts: what the vendor's own tool prompt adds where a tool is offered, on both sides.

One text is sent without a tool, with one offered, and with it forced. The difference of the first two is the vendor's tool
prompt and the tool's own text; the difference of the last two is free of that text as well. A hidden prompt stands in all
three and falls out. A multiplier does not: with a key it is looked for in other texts, without one in the second difference,
and where it may be there nothing is said. A published figure names a class of models and no model, and a prompt that is
added only where tools are would look alike: so the figure is a difference on the bill, and another model only beside a
second sign.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from relay_audit.assess.model_names import from_a_cloud
from relay_audit.assess.token_parity import CONTROL_WINDOW, steady
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge, ModelFacts
from relay_audit.plan import Step
from relay_audit.roads import APART, OFFERED, siblings_by_tool_prompt, with_a_tool_prompt
from relay_audit.usage import counted, read_usage
from relay_audit.words import Side

PLAIN, FORCED = "metadata_user_id", "forced_tool"
ESTIMATE = 4
"""Tokens by which two counts of one body may differ: the vendor calls its counter an estimate."""
LOST = 8
"""A tool adds no more than this only where it did not arrive: its own text takes more."""

Arrived = Literal["same", "dropped"]
Number = Callable[[Step], tuple[int, Exchange] | None]


class Added(NamedTuple):
    """What one side counts for a tool, in input tokens."""

    offered: int
    """The body with a tool, less the same text without one."""
    forced: int | None
    """What forcing the tool adds to that; None where it was refused, or where the force did not arrive."""
    exchanges: tuple[str, ...]


class Reading(NamedTuple):
    relay: Added
    vendor: Added | None
    outcome: Literal["kept", "another", "unlike", "lost", "unclear"]
    """`kept`: as the claimed model. `another`: as siblings with another figure. `unlike`: as nobody known, and not as the
    vendor counts today. `lost`: as if there were no tool."""
    fits: tuple[ModelFacts, ...] = ()


def tool_prompt_findings(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """`model.tool_prompt_differs` beside the models that fit, inconclusive where none does; else nothing. Medium where both
    differences are another generation's and not the claimed one's, beside the vendor's count of the same bodies: an estimate
    hits one of them at most, and what is added to requests with tools leaves the second as it is. Else a sign: low. The
    figures are those of the vendor's own service: a cloud may have a prompt of its own, and is held to none of them."""
    seen = read_tool_prompt(evidence, knowledge)
    facts = knowledge.model(evidence.target.official_model)
    if seen is None or seen.outcome not in ("another", "unlike"):
        return []
    if from_a_cloud(evidence, knowledge):
        if seen.vendor is None:
            return []
        seen = seen._replace(outcome="unlike", fits=())
    low, high = _expected(seen, facts, evidence)
    params: dict[str, Any] = {"requested": evidence.target.official_model, "billed": seen.relay.offered, "low": low, "high": high,
              "fits": [model.name for model in seen.fits]}  # fmt: skip
    differs = seen.outcome == "another"
    sure = differs and _both_apart(seen)
    params |= {} if differs else {"road": "unlike"}
    return [
        finding("model.tool_prompt_differs", params,
                exchanges=(*seen.relay.exchanges, *(seen.vendor.exchanges if seen.vendor else ())),
                outcome="mismatch" if differs else "inconclusive",
                severity="medium" if sure else "low" if differs else "info", confidence="strong" if sure else "supporting",
                evidence_level="official_doc", basis=evidence.target.official_basis if seen.vendor else "known_list",
                expected={"tool_prompt": [low, high]}, observed={"tool_prompt": seen.relay.offered})
    ]  # fmt: skip


def excluded_by_tool_prompt(evidence: Evidence, knowledge: Knowledge) -> frozenset[str]:
    """Siblings that the relay's figure excludes, where it is the claimed model's: it confirms nobody."""
    seen, facts = read_tool_prompt(evidence, knowledge), knowledge.model(evidence.target.official_model)
    if seen is None or facts is None or seen.outcome != "kept":
        return frozenset()
    text, day = _text(evidence), evidence.started_at.date()
    return frozenset(m.name for m in siblings_by_tool_prompt(facts, knowledge, day) if not _fits(m, seen.relay, text))


def tool_arrived(step: Step, exchange: Exchange, evidence: Evidence) -> Arrived:
    """Whether an offered or a forced tool reached the model. A count that leaves it out is only as good as the relay's other
    counts: they must keep to the vendor's, or they may be an estimate of the text alone."""
    blocks = pointer(exchange.answer(), evidence.pack.answer.content)
    if isinstance(blocks, list) and any(isinstance(b, dict) and b.get("type") == "tool_use" for b in blocks):
        return "same"
    relay, vendor = _added(evidence, "relay", _billed(evidence)), _of_the_vendor(evidence)
    if relay is None or vendor is None or vendor.offered <= LOST or not _steady(evidence):
        return "same"
    if abs(relay.offered) <= LOST:
        return "dropped"
    forced = step.case == FORCED and vendor.forced is not None and relay.forced is None
    return "dropped" if forced else "same"


def read_tool_prompt(evidence: Evidence, knowledge: Knowledge) -> Reading | None:
    """None where the three bodies were not sent, or not all of them billed by a number."""
    relay, vendor = _added(evidence, "relay", _billed(evidence)), _of_the_vendor(evidence)
    facts, day = knowledge.model(evidence.target.official_model), evidence.started_at.date()
    if relay is None or facts is None:
        return None
    if relay.offered <= LOST:
        return Reading(relay, vendor, "lost")
    if vendor is not None:
        if not _steady(evidence):
            return Reading(relay, vendor, "unclear")
        return _beside_the_vendor(relay, vendor, facts, knowledge, evidence)
    if facts.tool_prompt is None or facts.age(day) != "fresh" or relay.forced is None:
        return Reading(relay, None, "unclear")  # without the second difference a multiplier would show as another model
    text = _text(evidence)
    if _fits(facts, relay, text):
        return Reading(relay, None, "kept")
    fits = tuple(m for m in siblings_by_tool_prompt(facts, knowledge, day) if _fits(m, relay, text))
    return Reading(relay, None, "another" if fits else "unclear", fits)


def _beside_the_vendor(
    relay: Added, vendor: Added, facts: ModelFacts, knowledge: Knowledge, evidence: Evidence
) -> Reading:
    """The vendor's own figure of the day stands where one was published; what is published of others is read by its distance
    from it, or, for a model without a figure, as it is: then only if forcing the tool was answered and fits as well."""
    apart, day = relay.offered - vendor.offered, evidence.started_at.date()
    both = None if relay.forced is None or vendor.forced is None else relay.forced - vendor.forced
    if abs(apart) <= ESTIMATE and (both is None or abs(both) <= ESTIMATE):
        return Reading(relay, vendor, "kept")
    if abs(apart) <= APART:
        return Reading(relay, vendor, "unclear")
    if facts.tool_prompt is not None and facts.age(day) == "fresh":
        own = facts.tool_prompt
        fits = tuple(
            m
            for m in siblings_by_tool_prompt(facts, knowledge, day)
            if m.tool_prompt is not None
            and abs(apart - (m.tool_prompt[0] - own[0])) <= ESTIMATE
            and _forced_fits(m, relay)
        )
    else:
        text = _text(evidence)
        fits = tuple(
            m
            for m in with_a_tool_prompt(facts, knowledge, day)
            if relay.forced is not None and _fits(m, relay, text) and not _fits(m, vendor, text)
        )
    return Reading(relay, vendor, "another" if fits else "unlike", fits)


def _both_apart(seen: Reading) -> bool:
    """Whether forcing the tool costs otherwise than with the vendor as well, or is refused there. Models of one generation
    may have the same second difference: then a prompt that goes with tools, as long as the first one, gives both."""
    if seen.vendor is None or seen.relay.forced is None:
        return False
    return seen.vendor.forced is None or abs(seen.relay.forced - seen.vendor.forced) > ESTIMATE


def _fits(model: ModelFacts, added: Added, text: tuple[int, int]) -> bool:
    if model.tool_prompt is None:
        return False
    low, high = model.tool_prompt[0] + text[0] - ESTIMATE, model.tool_prompt[0] + text[1] + ESTIMATE
    return low <= added.offered <= high and _forced_fits(model, added)


def _forced_fits(model: ModelFacts, added: Added) -> bool:
    auto, forced = model.tool_prompt or (0, 0)
    return added.forced is None or abs(added.forced - (forced - auto)) <= ESTIMATE


def _text(evidence: Evidence) -> tuple[int, int]:
    """The fewest and the most tokens that the offered tool itself takes. In recorded answers of five models its text took 0.31
    to 0.39 tokens per character of its JSON."""
    step = _steps(evidence).get(OFFERED)
    length = len(json.dumps(step.body.get("tools"), separators=(",", ":"), ensure_ascii=False)) if step else 0
    return length // 5, length * 3 // 5 + LOST


def _expected(seen: Reading, facts: ModelFacts | None, evidence: Evidence) -> tuple[int, int]:
    if seen.vendor is not None:
        return seen.vendor.offered, seen.vendor.offered
    own, text = (facts.tool_prompt if facts else None) or (0, 0), _text(evidence)
    return own[0] + text[0], own[0] + text[1]


def _steady(evidence: Evidence) -> bool:
    offered = _steps(evidence).get(OFFERED)
    exchange = evidence.of_step(offered.id) if offered else None
    return exchange is not None and steady(evidence, exchange)


# The numbers


def _steps(evidence: Evidence) -> dict[str, Step]:
    """The three bodies by case, where the offered and the forced tool stand under the very text that was sent without one."""
    steps = {s.case: s for s in evidence.plan.steps if s.side == "relay"} if evidence.plan else {}
    plain = steps.get(PLAIN)
    alike = [case for case in (PLAIN, OFFERED, FORCED) if plain and case in steps and _same(plain, steps[case])]
    return {case: steps[case] for case in alike}


def _same(one: Step, other: Step) -> bool:
    return one.body.get("messages") == other.body.get("messages")


def _added(evidence: Evidence, side: Side, number: Number) -> Added | None:
    """By one kind of number. The relay's own may be far apart in time; the vendor's stand beside them already."""
    told = {case: found for case, step in _steps(evidence).items() if (found := number(step)) is not None}
    if PLAIN not in told or OFFERED not in told:
        return None
    offered = told[OFFERED][0] - told[PLAIN][0]
    forced = told[FORCED][0] - told[OFFERED][0] if FORCED in told else None
    if forced is not None and abs(forced) <= LOST and side == "relay":
        forced = None  # nothing was added: the force was taken out on the way, and says nothing of a model
    return Added(offered, forced, tuple(e.id for _, e in told.values()))


def _billed(evidence: Evidence) -> Number:
    stored = evidence.stored()

    def number(step: Step) -> tuple[int, Exchange] | None:
        exchange = evidence.of_step(step.id)
        usage = read_usage(exchange, evidence.pack) if exchange and exchange.id not in stored else None
        return (usage.billed_input, exchange) if exchange and usage and usage.billed_input > 0 else None

    return number


def _of_the_vendor(evidence: Evidence) -> Added | None:
    """What the vendor counts, and what it billed for the same bodies where they were sent there too; None where the two
    disagree, or stand too far from the relay's."""
    told = [found for how in (_counter, _mirror) if (found := _added(evidence, "official", how(evidence))) is not None]
    if not told or max(one.offered for one in told) - min(one.offered for one in told) > ESTIMATE:
        return None
    return told[-1]


def _counter(evidence: Evidence) -> Number:
    def number(step: Step) -> tuple[int, Exchange] | None:
        plan = evidence.plan
        names = {f"count.quote.{step.id}", *(s.id for s in plan.steps if s.counts == step.id)} if plan else set()
        rows = [(counted(e, evidence.pack), e) for e in evidence.exchanges if e.step in names]
        rows = [row for row in rows if row[0] is not None and _near(row[1], step, evidence)]
        return (int(rows[-1][0] or 0), rows[-1][1]) if len({value for value, _ in rows}) == 1 else None

    return number


def _mirror(evidence: Evidence) -> Number:
    def number(step: Step) -> tuple[int, Exchange] | None:
        names = [s.id for s in evidence.plan.steps if s.mirrors == step.id] if evidence.plan else []
        for name in names:
            exchange = evidence.of_step(name)
            usage = read_usage(exchange, evidence.pack) if exchange else None
            if exchange and usage and _near(exchange, step, evidence):
                return usage.billed_input, exchange
        return None

    return number


def _near(exchange: Exchange, step: Step, evidence: Evidence) -> bool:
    own = evidence.of_step(step.id)
    apart = abs(exchange.sent_at - own.sent_at) if own else dt.timedelta.max
    return apart <= CONTROL_WINDOW
