"""Before a film is ordered: by which route this relay takes orders, and what each tier is said to cost. All of it free.

A route is looked for by asking after a task that nobody has: software that knows the route says so in its own words.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from decimal import Decimal

from relay_audit.books import SiteFacts
from relay_audit.discovery import ask_relay, keep, site_of
from relay_audit.endpoint import Outgoing
from relay_audit.exchange import Exchange
from relay_audit.free_questions import Sides
from relay_audit.pack import Pack
from relay_audit.planning import Knowing, question_for
from relay_audit.probe import Probe
from relay_audit.quote import Quote, UnitPrice
from relay_audit.recorder import Recorder
from relay_audit.relays.registry import adapter_of
from relay_audit.video_plan import Offer, make_video_plan, quote_tiers, routes_for, tiers_wanted
from relay_audit.wording import Wording

SPEAKS_OF_TASKS = re.compile(r"task|video|resource|invalid[_ ]parameter|base_resp|record not found", re.IGNORECASE)
NO_ROUTE = re.compile(
    r"invalid url|no route|\"detail\"\s*:\s*\"not found\"|page not found|unknown path|cannot (?:get|post) /",
    re.IGNORECASE,
)
"""How software says that it has no such address."""


async def discover_films(
    recorder: Recorder, sides: Sides, knowing: Knowing, *, offline: bool = False, free_only: bool = False
) -> Quote:
    """Plans the wanted tiers and quotes the first. Raises `Unfinished`, `KeyRefused`, `TargetError`, `ApprovalRefused`."""
    history = recorder.history
    pack, seed, video = history.pack, random.SystemRandom().randrange(2**53), history.pack.video
    if video is None:
        raise ValueError(f"{pack.dialect} orders no films")
    tiers = tiers_wanted(history.target.video.tiers, video)
    found = [] if offline else await ask_relay(recorder, sides, knowing.knowledge)
    site, auth = site_of(found, recorder, sides, knowing)
    sides.relay = replace(sides.relay, auth=auth)
    route = await _route(recorder, sides, pack, knowing.packs.probes, site, offline=offline)
    wording = Wording(knowing.packs.wordlists, seed, "")
    question = question_for(history, knowing, site, counter=False, free_only=free_only)
    plan = make_video_plan(question, pack, route, tiers, wording, seed)
    facts = history.facts.model_copy(update={"auth_style": auth, "no_counter_reason": "no_counting_endpoint"})
    keep(recorder, site, facts)
    recorder.note("plan.created", {"plan_digest": plan.digest, "steps": len(plan.steps)}, recorder.blob(plan))
    quote = quote_tiers(plan, video, _offer(recorder, knowing), sides.clock.now())
    recorder.note("quote.issued", {"quote_digest": quote.digest, "plan_digest": plan.digest}, recorder.blob(quote))
    recorder.state("awaiting_approval")
    return quote


async def _route(
    recorder: Recorder, sides: Sides, pack: Pack, probes: tuple[Probe, ...], site: SiteFacts, *, offline: bool
) -> Probe | None:
    """The first route that answers as one; where none does, the likeliest by the relay's software."""
    ways = routes_for(pack, probes)
    wanted = recorder.history.target.video.route
    if wanted != "auto":
        return next((probe for probe in ways if probe.task and probe.task.route == wanted), None)
    for probe in () if offline else ways:
        if probe.task is not None:
            nobody = "task_" + "".join(random.SystemRandom().choices("abcdefghijklmnopqrstuvwxyz0123456789", k=32))
            outgoing = Outgoing("GET", probe.task.poll.replace("{id}", nobody))
            answer = await sides.transport.send(sides.relay, outgoing)
            exchange = recorder.free(answer, f"discovery.route.{probe.task.route}", "relay")
            if is_route(exchange):
                return probe
    likely = "generations" if site.software != "unknown" else "native"
    return next((probe for probe in ways if probe.task and probe.task.route == likely), next(iter(ways), None))


def is_route(exchange: Exchange) -> bool:
    """Whether an answer about a task that nobody has comes from software that knows such tasks."""
    if exchange.status is None or exchange.status in (401, 405) or exchange.response is None:
        return False
    text = exchange.response.body[:20_000]
    if NO_ROUTE.search(text) or not isinstance(exchange.answer(), dict):
        return False
    return bool(SPEAKS_OF_TASKS.search(json.dumps(exchange.answer()))) or exchange.status not in (404, 403)


def _offer(recorder: Recorder, knowing: Knowing) -> Offer:
    """The buyer's own price, else the relay's list, else the vendor's list times the claimed ratio."""
    target, day, site = recorder.history.target, recorder.history.started_at.date(), recorder.history.site
    own = knowing.prices.of("relay", target.subject.model)
    pricing = recorder.history.last_of("discovery.pricing")
    adapter = adapter_of(site.software, knowing.knowledge)
    relay = own or adapter.read_price(pricing, target.subject.model, target.subject.claim.group, site, day)
    row = knowing.knowledge.video_price_of(target.official_model, day)
    none = Decimal(0)
    listed = (
        UnitPrice(input=none, output=none, source=f"official list: {row.source}", observed=row.observed)
        if row
        else None
    )
    ratio = max(Decimal(1), target.subject.claim.ratio or Decimal(1))
    return Offer(relay, own is not None, dict(row.per_second) if row else {}, listed, ratio)
