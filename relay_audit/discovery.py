"""Before anything costs: how the key is sent, what software answers, what it publishes, what the vendor counts.

Every request here is free: the relay's public pages, its model list, the vendor's own counter. A relay that does not
answer ends the run here; an official side that does not answer changes no relay finding, it only lowers the basis.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import get_args

from relay_audit.books import SiteFacts
from relay_audit.calibration import with_calibration
from relay_audit.catalog import Packs
from relay_audit.clock import Clock
from relay_audit.errors import Unfinished, key_refused
from relay_audit.evidence import TargetFacts
from relay_audit.exchange import Exchange, pointer
from relay_audit.fingerprint import Knowledge
from relay_audit.pack import Pack
from relay_audit.plan import Plan, Question, Step, make_plan, quote_counts
from relay_audit.prices import PriceFile
from relay_audit.quote import Prices, Quote, make_quote
from relay_audit.recorder import Recorder
from relay_audit.redaction import Secret
from relay_audit.relays import detect, panel, tariff
from relay_audit.relays.registry import adapter_of
from relay_audit.replay import History
from relay_audit.target import origin_of
from relay_audit.transport import Endpoint, Outgoing, Transport
from relay_audit.trip_wire import armed
from relay_audit.usage import counted, official_fault
from relay_audit.wording import Wording
from relay_audit.words import AuthStyle

FREE_ATTEMPTS = 3
"""A free request may be asked again after a passing fault; each attempt is recorded."""
OFFICIAL_AT_ONCE = 8
"""Free questions in flight at the vendor: its limit is per minute, and a buyer's other work goes on."""
PASSING = (408, 425, 429, 500, 502, 503, 504, 529)

Notify = Callable[[str, dict[str, object]], None]


@dataclass
class Sides:
    """The ways out of a run: one transport, at most two endpoints."""

    transport: Transport
    clock: Clock
    relay: Endpoint
    official: Endpoint | None
    notify: Notify


@dataclass(frozen=True)
class Knowing:
    """What a run is planned with: packs, knowledge, and the buyer's own prices."""

    packs: Packs
    knowledge: Knowledge
    prices: PriceFile


async def discover(
    recorder: Recorder, sides: Sides, knowing: Knowing, *, offline: bool = False, free_only: bool = False
) -> Quote:
    """Plans and quotes. Raises `Unfinished` (relay unreachable), `KeyRefused`, `ApprovalRefused` (no price at all)."""
    history = recorder.history
    pack, seed = history.pack, random.SystemRandom().randrange(2**53)
    recorder.heed_cancel()
    found = [] if offline else await _ask_relay(recorder, sides, pack, knowing.knowledge)
    site, auth = _site(found, recorder, sides, knowing)
    sides.relay = replace(sides.relay, auth=auth)
    plan, counts, reason = await _plan(recorder, sides, knowing, site, seed, offline=offline, free_only=free_only)
    facts = history.facts.model_copy(
        update={"auth_style": auth, "no_counter_reason": reason, "user_agent": _agents(recorder, plan)}
    )
    recorder.heed_cancel()
    _keep(recorder, site, facts)
    recorder.note("plan.created", {"plan_digest": plan.digest, "steps": len(plan.steps)}, recorder.blob(plan))
    prices = prices_for(recorder.history, knowing, plan)
    quote = make_quote(plan, prices, counts, sides.clock.now())
    recorder.note("quote.issued", {"quote_digest": quote.digest, "plan_digest": plan.digest}, recorder.blob(quote))
    recorder.state("awaiting_approval")
    recorder.checkpoint("quoted")
    return quote


async def _ask_relay(recorder: Recorder, sides: Sides, pack: Pack, knowledge: Knowledge) -> list[Exchange]:
    """The model list (with the key), then the public pages at the origin, and where those name no software the pages by
    which some can be told. Raises `Unfinished` when nothing answers."""
    found = await _authenticate(recorder, sides, pack)
    if all(exchange.delivery != "answered" for exchange in found):
        recorder.checkpoint("failed", reason="unreachable")
        recorder.note("run.failed", {"stopped": "unreachable", "failure": found[-1].failure})
        raise Unfinished(
            f"the relay does not answer ({found[-1].failure}); nothing was spent",
            next_step="check base_url, your network or relay.proxy, then run again",
            details={"finding": "run.unreachable", "failure": found[-1].failure},
        )
    public = replace(sides.relay, base_url=origin_of(sides.relay.base_url), secret=None)
    for name, path in (("status", panel.STATUS), ("pricing", panel.PRICING)):
        recorder.heed_cancel()
        found.append(
            await _free(recorder, sides, public, Outgoing("GET", path, authenticated=False), f"discovery.{name}")
        )
    return found + await _look_for_software(recorder, sides, knowledge, found)


async def _look_for_software(
    recorder: Recorder, sides: Sides, knowledge: Knowledge, found: list[Exchange]
) -> list[Exchange]:
    """Asked only where nothing has named the software, up to the first page that does."""
    target = recorder.history.target
    if target.relay.software != "auto" or target.against_itself:
        return []
    asked: list[Exchange] = []
    for path, keyed in detect.questions(knowledge):
        if detect.detect((*found, *asked), knowledge)[0] != "unknown":
            break
        place = replace(sides.relay, base_url=origin_of(sides.relay.base_url), auth="bearer")
        endpoint = place if keyed else replace(place, secret=None)
        outgoing = Outgoing("GET", path, authenticated=keyed)
        asked.append(await _free(recorder, sides, endpoint, outgoing, detect.PAGE_STEP))
    return asked


async def _authenticate(recorder: Recorder, sides: Sides, pack: Pack) -> list[Exchange]:
    """The header style of the key, learnt where nothing can be billed: the model list."""
    configured = recorder.history.target.relay.auth
    styles = pack.auth_styles if configured == "auto" else (configured,)
    asked = []
    for style in styles:
        endpoint = replace(sides.relay, auth=style)
        exchange = await _free(
            recorder, sides, endpoint, Outgoing("GET", pack.models_path), f"discovery.models.{style}"
        )
        asked.append(exchange)
        if exchange.status != 401:
            return asked
    if all(exchange.status == 401 for exchange in asked):
        recorder.checkpoint("failed", reason="key_refused")
        recorder.note("run.failed", {"stopped": "key_refused"})
        raise key_refused(recorder.history.target.relay.key_env, "relay")
    return asked


def _site(found: list[Exchange], recorder: Recorder, sides: Sides, knowing: Knowing) -> tuple[SiteFacts, AuthStyle]:
    target = recorder.history.target
    named = {exchange.step: exchange for exchange in found}
    software, signals = detect.detect(tuple(found), knowing.knowledge, target.relay.software)
    base = SiteFacts(software=software, software_signals=signals)
    adapter = adapter_of(software, knowing.knowledge)
    site = adapter.read_site(named.get("discovery.status"), named.get("discovery.pricing"), base, target.subject.model)
    models = [e for e in found if e.step.startswith("discovery.models.") and e.status != 401]
    worked = models[-1].step.rsplit(".", 1)[-1] if models else ""
    style = next((known for known in get_args(AuthStyle) if known == worked), sides.relay.auth)
    return site.model_copy(update={"model_listed": _listed(models, target.subject.model, recorder.history.pack)}), style


def _listed(models: list[Exchange], model: str, pack: Pack) -> bool | None:
    """Whether the relay's model list names the model; None where the list has another form."""
    rows = pointer(models[-1].answer(), pack.models_rows) if models and models[-1].status == 200 else None
    if not isinstance(rows, list) or not rows:
        return None
    names = [pointer(row, pack.models_name) for row in rows]
    return any(isinstance(name, str) and name.removeprefix("models/") == model for name in names)


async def _plan(
    recorder: Recorder, sides: Sides, knowing: Knowing, site: SiteFacts, seed: int, *, offline: bool, free_only: bool
) -> tuple[Plan, dict[str, int], str]:
    """The plan, the official counts by relay step, and why no counter is asked (empty when one is)."""
    pack, reason = recorder.history.pack, ""
    if pack.counter is None:
        reason = "no_counting_endpoint"
    elif sides.official is None:
        reason = "no_official_key"
    if not reason:
        plan = plan_for(recorder, knowing, site, seed, counter=True, free_only=free_only)
        if offline or not plan.chargeable():
            return plan, {}, ""
        counts, reason = await _count_all(recorder, sides, plan)
        if not reason:
            return plan, counts, ""
        sides.notify("official_side", {"reason": reason})
    return plan_for(recorder, knowing, site, seed, counter=False, free_only=free_only), {}, reason


def plan_for(
    recorder: Recorder, knowing: Knowing, site: SiteFacts, seed: int, *, counter: bool, free_only: bool
) -> Plan:
    """What will be sent; for a vendor against itself, what it shows of itself for nothing comes on top."""
    question = question_for(recorder.history, knowing, site, counter=counter, free_only=free_only)
    return plan_by(question, recorder.history, knowing, seed)


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
        min_cacheable=(facts.min_cacheable if facts else None) or 4096,
        max_output=knowing.knowledge.max_output_of(target.official_model, day),
        refuses=facts.refuses if facts else {},
    )


def plan_by(question: Question, history: History, knowing: Knowing, seed: int) -> Plan:
    """The plan that answers a question; for a vendor against itself, with what it shows of itself for nothing."""
    target, day, pack = history.target, history.started_at.date(), history.pack
    baseline = knowing.knowledge.baseline_for(target.official_model, day)
    wording = Wording(knowing.packs.wordlists, seed, baseline.text if baseline else "")
    plan = make_plan(question, pack, knowing.packs.probes, wording, seed)
    if not target.against_itself:
        return armed(plan, pack, knowing.knowledge, day)
    return with_calibration(plan, question, pack, knowing.packs.probes, knowing.packs.wordlists, knowing.knowledge, day)


async def _count_all(recorder: Recorder, sides: Sides, plan: Plan) -> tuple[dict[str, int], str]:
    """The official count of every body that will be charged: one alone, since it says whether the rest can be asked, then
    the rest. The first failure of a control ends it with its reason; what only the quote needs may stay uncounted."""
    steps = [step for step in plan.steps if step.counts and step.when == "before"]
    named = [(step, f"count.quote.{step.counts}") for step in steps]
    asked = await ask_officials(recorder, sides, named[:1])
    if all(counted(exchange, recorder.history.pack) is not None for exchange in asked):
        asked += await ask_officials(recorder, sides, named[1:])
    numbers = [counted(exchange, recorder.history.pack) for exchange in asked]
    for exchange, number in zip(asked, numbers, strict=True):
        if number is None:
            return {}, official_fault(exchange)
    more = quote_counts(plan, recorder.history.pack)
    asked += await ask_officials(recorder, sides, [(step, f"count.quote.{step.counts}") for step in more])
    told = zip([*steps, *more], asked, strict=False)
    known = {step.counts: n for step, exchange in told if (n := counted(exchange, recorder.history.pack)) is not None}
    return known | {s.id: known[s.mirrors] for s in plan.chargeable("official") if s.mirrors in known}, ""


async def ask_official(recorder: Recorder, sides: Sides, step: Step, name: str) -> Exchange:
    """One free question to the official side. Raises ValueError where the run has none."""
    if sides.official is None:
        raise ValueError("no official side")
    outgoing = Outgoing("POST", step.path, step.body)
    return await _free(recorder, sides, way(sides.official, step), outgoing, name, once=bool(step.mirrors))


async def ask_officials(recorder: Recorder, sides: Sides, steps: list[tuple[Step, str]]) -> list[Exchange]:
    """Free questions to the official side, a few at a time, answers in the order of the questions."""
    turnstile = asyncio.Semaphore(OFFICIAL_AT_ONCE)

    async def one(step: Step, name: str) -> Exchange:
        async with turnstile:
            exchange = await ask_official(recorder, sides, step, name)
        sides.notify("step", {"step": name, "side": "official"})
        return exchange

    return list(await asyncio.gather(*(one(step, name) for step, name in steps)))


def way(endpoint: Endpoint, step: Step) -> Endpoint:
    """The endpoint as this step uses it: a header left out, or a key that was never anybody's."""
    endpoint = replace(endpoint, user_agent=endpoint.user_agent or step.user_agent)
    if not step.headers and step.key == "own":
        return endpoint
    headers = {name: value for name, value in {**endpoint.headers, **step.headers}.items() if value}
    made_up = Secret(f"made-up-key-{step.id[-8:]}-0000", name="made_up", origin=origin_of(endpoint.base_url))
    return replace(endpoint, headers=headers, secret=made_up if step.key == "made_up" else endpoint.secret)


async def _free(
    recorder: Recorder, sides: Sides, endpoint: Endpoint, outgoing: Outgoing, name: str, *, once: bool = False
) -> Exchange:
    """A free request, asked again a bounded number of times after a passing fault. `once`: not where it may have been
    delivered; a refusal is free only as long as it is refused."""
    for attempt in range(1, FREE_ATTEMPTS + 1):
        exchange = recorder.free(await sides.transport.send(endpoint, outgoing), name, endpoint.side)
        passing = exchange.status in PASSING or (
            exchange.delivery != "answered" and exchange.failure not in ("tls", "dns")
        )
        lost = exchange.failure.startswith("timeout") or (once and exchange.delivery == "unconfirmed")
        if not passing or lost or attempt == FREE_ATTEMPTS:
            return exchange
        await sides.clock.sleep(0.5 * attempt)
    raise AssertionError("unreachable")  # pragma: no cover


def prices_for(history: History, knowing: Knowing, plan: Plan) -> Prices:
    """Per side: the buyer's price file, else a published list. A relay without one: official list × max(1, claimed ratio)."""
    target, site = history.target, history.site
    model, claim = target.subject.model, target.subject.claim
    today: dt.date = history.started_at.date()
    pricing = history.last_of("discovery.pricing")
    software = detect.facts(site.software, knowing.knowledge)
    official = knowing.prices.of("official", target.official_model) or tariff.list_price(
        knowing.knowledge, target.official_model, today
    )
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


def _agents(recorder: Recorder, plan: Plan) -> str:
    """Every User-Agent that the relay will see: the buyer's own, or the plain ones of the plan."""
    own = recorder.history.facts.user_agent
    planned = (
        [] if recorder.history.target.relay.user_agent else [step.user_agent for step in plan.steps if step.user_agent]
    )
    return ", ".join(dict.fromkeys([own, *planned]))


def _keep(recorder: Recorder, site: SiteFacts, facts: TargetFacts) -> None:
    ref = recorder.blob(
        {"site": site.model_dump(mode="json", by_alias=True), "facts": facts.model_dump(mode="json", by_alias=True)}
    )
    recorder.note("discovery.recorded", {"software": site.software}, ref)
