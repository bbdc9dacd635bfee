"""What a run is planned and priced with: the question that packs answer, and a unit price per side. Nothing is sent here."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from relay_audit.books import SiteFacts
from relay_audit.calibration import with_calibration
from relay_audit.catalog import Packs
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Plan, make_plan
from relay_audit.prices import PriceFile
from relay_audit.question import Question
from relay_audit.quote import Prices, UnitPrice
from relay_audit.relays import detect, tariff
from relay_audit.relays.registry import adapter_of
from relay_audit.replay import History
from relay_audit.trip_wire import armed
from relay_audit.wording import Wording


@dataclass(frozen=True)
class Knowing:
    """What a run is planned with: packs, knowledge, and the buyer's own prices."""

    packs: Packs
    knowledge: Knowledge
    prices: PriceFile


def question_for(history: History, knowing: Knowing, site: SiteFacts, *, counter: bool, free_only: bool) -> Question:
    """What is to be planned, out of what is known at this moment."""
    target, day, pack = history.target, history.started_at.date(), history.pack
    baseline = knowing.knowledge.baseline_for(target.official_model, day)
    facts = knowing.knowledge.model(target.official_model)
    return Question(
        model=target.subject.model,
        official_model=target.official_model,
        dialect=target.subject.dialect,
        profile=target.audit.profile,
        checks=target.audit.checks,
        also=target.audit.also,
        software=site.software,
        counter=counter,
        family=facts.family if facts else "",
        has_baseline=baseline is not None and baseline.age(day) != "expired",
        free_only=free_only,
        official=target.official is not None and (counter or pack.counter is None),
        official_priced=official_price(history, knowing) is not None,
        min_cacheable=(facts.min_cacheable if facts else None) or 4096,
        max_output=knowing.knowledge.max_output_of(target.official_model, day),
        next_output=_next_output(target.official_model, pack.dialect, knowing.knowledge, day),
        refuses=facts.refuses if facts else {},
    )


def _next_output(model: str, dialect: str, knowledge: Knowledge, day: dt.date) -> int | None:
    """The smallest output limit above the model's own that any model sold in the dialect has."""
    own = knowledge.max_output_of(model, day)
    limits = (knowledge.max_output_of(m.name, day) for m in knowledge.models if dialect in m.dialects)
    return min((limit for limit in limits if own and limit and limit > own), default=None)


def plan_by(question: Question, history: History, knowing: Knowing, seed: int) -> Plan:
    """The plan that answers a question; for a vendor against itself, with what it shows of itself for nothing."""
    target, day, pack = history.target, history.started_at.date(), history.pack
    baseline = knowing.knowledge.baseline_for(target.official_model, day)
    wording = Wording(knowing.packs.wordlists, seed, baseline.text if baseline else "")
    plan = make_plan(question, pack, knowing.packs.probes, wording, seed)
    if not target.against_itself:
        return armed(plan, pack, knowing.knowledge, day)
    return with_calibration(plan, question, pack, knowing.packs.probes, knowing.packs.wordlists, knowing.knowledge, day)


def official_price(history: History, knowing: Knowing) -> UnitPrice | None:
    """What the vendor takes for the model; where that is not known, nothing that it may charge for is sent to it."""
    model = history.target.official_model
    listed = tariff.list_price(knowing.knowledge, model, history.started_at.date())
    return knowing.prices.of("official", model) or listed


def prices_for(history: History, knowing: Knowing, plan: Plan) -> Prices:
    """Per side: the buyer's price file, else a published list. A relay without one: official list × max(1, claimed ratio)."""
    target, site = history.target, history.site
    model, claim = target.subject.model, target.subject.claim
    today: dt.date = history.started_at.date()
    pricing = history.last_of("discovery.pricing")
    software = detect.facts(site.software, knowing.knowledge)
    official = official_price(history, knowing)
    relay = (
        knowing.prices.of("relay", model)
        or (official if target.against_itself else None)
        or adapter_of(site.software, knowing.knowledge).read_price(pricing, model, claim.group, site, today)
        or tariff.known_price(knowing.knowledge, target.official_model, claim.ratio, today)
    )
    known_fill = software.fill_max_tokens if software else 0
    limit = knowing.knowledge.max_output_of(target.official_model, today) or 128_000
    return Prices(
        relay=relay if plan.chargeable() else None,
        official=official if plan.chargeable("official") else None,
        hold_min_input=software.hold_min_input if software else 0,
        fill=known_fill or limit,
    )
