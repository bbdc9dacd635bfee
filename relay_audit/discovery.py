"""Before anything costs: how the key is sent, what software answers, what it publishes, what the vendor counts.

Every request here is free: the relay's public pages, its model list, the vendor's own counter. A relay that does not
answer ends the run here; an official side that does not answer changes no relay finding, it only lowers the basis.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple, get_args

from relay_audit.books import SiteFacts
from relay_audit.errors import Unfinished, key_refused
from relay_audit.evidence import TargetFacts
from relay_audit.exchange import Exchange, pointer
from relay_audit.fingerprint import Knowledge
from relay_audit.free_questions import Sides, ask_free, ask_officials
from relay_audit.pack import Pack
from relay_audit.plan import Plan, quote_counts
from relay_audit.planning import Knowing, official_price, plan_by, prices_for, question_for
from relay_audit.quote import Quote, make_quote
from relay_audit.recorder import Recorder
from relay_audit.relays import detect, panel
from relay_audit.relays.registry import adapter_of
from relay_audit.target import origin_of
from relay_audit.transport import Outgoing
from relay_audit.usage import counted, official_fault
from relay_audit.words import AuthStyle


async def discover(
    recorder: Recorder, sides: Sides, knowing: Knowing, *, offline: bool = False, free_only: bool = False
) -> Quote:
    """Plans and quotes. Raises `Unfinished` (relay unreachable), `KeyRefused`, `ApprovalRefused` (no price at all)."""
    history, seed = recorder.history, random.SystemRandom().randrange(2**53)
    recorder.heed_cancel()
    found, ahead = ([], None) if offline else await _ask_both(recorder, sides, knowing, seed, free_only=free_only)
    site, auth = site_of(found, recorder, sides, knowing)
    sides.relay = replace(sides.relay, auth=auth)
    plan, counts, reason = await _plan(
        recorder, sides, knowing, site, seed, ahead, offline=offline, free_only=free_only
    )
    facts = history.facts.model_copy(
        update={"auth_style": auth, "no_counter_reason": reason, "user_agent": _agents(recorder, plan)}
    )
    recorder.heed_cancel()
    keep(recorder, site, facts)
    recorder.note("plan.created", {"plan_digest": plan.digest, "steps": len(plan.steps)}, recorder.blob(plan))
    prices = prices_for(recorder.history, knowing, plan)
    quote = make_quote(plan, prices, counts, sides.clock.now())
    recorder.note("quote.issued", {"quote_digest": quote.digest, "plan_digest": plan.digest}, recorder.blob(quote))
    recorder.state("awaiting_approval")
    recorder.checkpoint("quoted")
    return quote


async def _ask_both(
    recorder: Recorder, sides: Sides, knowing: Knowing, seed: int, *, free_only: bool
) -> tuple[list[Exchange], _Counted | None]:
    """The relay's pages, and beside them the official counts: what a plan sends hardly ever depends on the software. What
    breaks on one side is raised when the other has ended."""
    found = await _reach(recorder, sides)
    recorder.heed_cancel()
    pages, ahead = await asyncio.gather(
        _pages(recorder, sides, knowing.knowledge, found),
        _count_ahead(recorder, sides, knowing, seed, free_only=free_only),
        return_exceptions=True,
    )
    if isinstance(pages, BaseException):
        raise pages
    if isinstance(ahead, BaseException):
        raise ahead
    recorder.heed_cancel()
    return pages, ahead


async def ask_relay(recorder: Recorder, sides: Sides, knowledge: Knowledge) -> list[Exchange]:
    """The model list (with the key), then the public pages at the origin, and where those name no software the pages by
    which some can be told. Raises `Unfinished` when nothing answers, `KeyRefused`, `RunCancelled`."""
    found = await _pages(recorder, sides, knowledge, await _reach(recorder, sides))
    recorder.heed_cancel()
    return found


async def _reach(recorder: Recorder, sides: Sides) -> list[Exchange]:
    found = await _authenticate(recorder, sides, recorder.history.pack)
    if all(exchange.delivery != "answered" for exchange in found):
        recorder.checkpoint("failed", reason="unreachable")
        recorder.note("run.failed", {"stopped": "unreachable", "failure": found[-1].failure})
        raise Unfinished(
            f"the relay does not answer ({found[-1].failure}); nothing was spent",
            next_step="check base_url, your network or relay.proxy, then run again",
            details={"finding": "run.unreachable", "failure": found[-1].failure},
        )
    return found


async def _pages(recorder: Recorder, sides: Sides, knowledge: Knowledge, models: list[Exchange]) -> list[Exchange]:
    if recorder.catch_up().wish == "cancelled":
        return models  # heeded where nothing is in flight any more
    public = replace(sides.relay, base_url=origin_of(sides.relay.base_url), secret=None)
    named = (("status", panel.STATUS), ("pricing", panel.PRICING))
    asked = await asyncio.gather(
        *(
            ask_free(recorder, sides, public, Outgoing("GET", path, authenticated=False), f"discovery.{name}")
            for name, path in named
        )
    )
    found = [*models, *asked]
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
        asked.append(await ask_free(recorder, sides, endpoint, outgoing, detect.PAGE_STEP))
    return asked


async def _authenticate(recorder: Recorder, sides: Sides, pack: Pack) -> list[Exchange]:
    """The header style of the key, learnt where nothing can be billed: the model list."""
    configured = recorder.history.target.relay.auth
    styles = pack.auth_styles if configured == "auto" else (configured,)
    asked = []
    for style in styles:
        endpoint = replace(sides.relay, auth=style)
        exchange = await ask_free(
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


def site_of(found: list[Exchange], recorder: Recorder, sides: Sides, knowing: Knowing) -> tuple[SiteFacts, AuthStyle]:
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


UNCOUNTED = Fraction(1, 4)
"""Controls that may fail for the moment: a vendor's limit per minute, or an incident that passes."""


class _Counted(NamedTuple):
    """Official counts by relay step, of one plan, and why there are none (empty when there are)."""

    plan: str
    by_step: dict[str, int]
    reason: str


async def _plan(
    recorder: Recorder,
    sides: Sides,
    knowing: Knowing,
    site: SiteFacts,
    seed: int,
    ahead: _Counted | None,
    *,
    offline: bool,
    free_only: bool,
) -> tuple[Plan, dict[str, int], str]:
    """The plan, the official counts by relay step, and why no counter is asked (empty when one is)."""
    reason = _no_counter(recorder, sides, knowing)
    if reason == "no_official_price":
        sides.notify("official_side", {"reason": reason})
    if not reason:
        plan = plan_for(recorder, knowing, site, seed, counter=True, free_only=free_only)
        if offline or not plan.chargeable():
            return plan, {}, ""
        if ahead is None or ahead.plan != plan.digest:  # a pack's probe that is meant for this software
            ahead = await _count_all(recorder, sides, plan)
        if not ahead.reason:
            return plan, ahead.by_step, ""
        reason = ahead.reason
        sides.notify("official_side", {"reason": reason})
    return plan_for(recorder, knowing, site, seed, counter=False, free_only=free_only), {}, reason


async def _count_ahead(
    recorder: Recorder, sides: Sides, knowing: Knowing, seed: int, *, free_only: bool
) -> _Counted | None:
    if _no_counter(recorder, sides, knowing):
        return None
    plan = plan_for(recorder, knowing, SiteFacts(), seed, counter=True, free_only=free_only)
    return await _count_all(recorder, sides, plan) if plan.chargeable() else None


def _no_counter(recorder: Recorder, sides: Sides, knowing: Knowing) -> str:
    if recorder.history.pack.counter is None:
        unpriced = sides.official is not None and official_price(recorder.history, knowing) is None
        return "no_official_price" if unpriced else "no_counting_endpoint"
    return "no_official_key" if sides.official is None else ""


def plan_for(
    recorder: Recorder, knowing: Knowing, site: SiteFacts, seed: int, *, counter: bool, free_only: bool
) -> Plan:
    """What will be sent; for a vendor against itself, what it shows of itself for nothing comes on top."""
    question = question_for(recorder.history, knowing, site, counter=counter, free_only=free_only)
    return plan_by(question, recorder.history, knowing, seed)


async def _count_all(recorder: Recorder, sides: Sides, plan: Plan) -> _Counted:
    """The official count of every body that will be charged: one alone, since it says whether the rest can be asked, then
    the rest at once. Where more than `UNCOUNTED` of the controls fail the counter is given up, with the first one's reason:
    a text without its control is set aside when it is judged, and what only the quote needs may stay uncounted."""
    pack = recorder.history.pack
    controls = [step for step in plan.steps if step.counts and step.when == "before"]
    steps = [*controls, *quote_counts(plan, pack)]
    named = [(step, f"count.quote.{step.counts}") for step in steps]
    asked = await ask_officials(recorder, sides, named[:1])
    if all(counted(exchange, pack) is not None for exchange in asked) and recorder.catch_up().wish != "cancelled":
        asked += await ask_officials(recorder, sides, named[1:])
    numbers = [counted(exchange, pack) for exchange in asked]
    told = list(zip(asked, numbers[: len(controls)], strict=False))
    faults = [official_fault(exchange) for exchange, number in told if number is None]
    if faults and (len(faults) > UNCOUNTED * len(controls) or len(told) < len(controls)):
        return _Counted(plan.digest, {}, faults[0])
    known = {step.counts: n for step, n in zip(steps, numbers, strict=False) if n is not None}
    mirrored = {s.id: known[s.mirrors] for s in plan.chargeable("official") if s.mirrors in known}
    return _Counted(plan.digest, known | mirrored, "")


def _agents(recorder: Recorder, plan: Plan) -> str:
    """Every User-Agent that the relay will see: the buyer's own, or the plain ones of the plan."""
    own = recorder.history.facts.user_agent
    planned = (
        [] if recorder.history.target.relay.user_agent else [step.user_agent for step in plan.steps if step.user_agent]
    )
    return ", ".join(dict.fromkeys([own, *planned]))


def keep(recorder: Recorder, site: SiteFacts, facts: TargetFacts) -> None:
    ref = recorder.blob(
        {"site": site.model_dump(mode="json", by_alias=True), "facts": facts.model_dump(mode="json", by_alias=True)}
    )
    recorder.note("discovery.recorded", {"software": site.software}, ref)
