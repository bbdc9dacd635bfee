"""One audit from target to judgement: the sentence of the architecture, as functions. The command line only calls these."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from relay_audit import __version__
from relay_audit.acquisition import WAITING, Films
from relay_audit.allowance import Allowance
from relay_audit.approval import account as account
from relay_audit.approval import approve as approve
from relay_audit.approval import refuse_imported as refuse_imported
from relay_audit.baseline_file import rows_in, sources_of
from relay_audit.clock import Clock
from relay_audit.connect import Connections
from relay_audit.context import scope_of
from relay_audit.discovery import discover
from relay_audit.disk import check_filesystem
from relay_audit.errors import ApprovalRefused, RunCancelled, TargetError, Unfinished
from relay_audit.events import Draft
from relay_audit.evidence import TargetFacts
from relay_audit.judgement import Judgement as Judgement
from relay_audit.judgement import judge as judge
from relay_audit.judgement import judged_by as judged_by
from relay_audit.judgement import record_judgement as record_judgement
from relay_audit.library import BASELINES as BASELINES
from relay_audit.library import Library as Library
from relay_audit.library import archived_library as archived_library
from relay_audit.library import current_library as current_library
from relay_audit.library import library_from as library_from
from relay_audit.library import library_versions as library_versions
from relay_audit.library import load_library as load_library
from relay_audit.library import with_baselines as with_baselines
from relay_audit.library import with_pins as with_pins
from relay_audit.planning import Knowing
from relay_audit.prices import PriceFile, read_price_file
from relay_audit.quote import Quote
from relay_audit.reading import Shelf
from relay_audit.recorder import Recorder
from relay_audit.refusal import nearest
from relay_audit.runner import Runner
from relay_audit.runs import new_run_id, register
from relay_audit.settlement import Settlement
from relay_audit.shared_books import SharedBooks
from relay_audit.site_budget import SiteBudget
from relay_audit.store import Store
from relay_audit.target import Place, Target, at_vendor, origin_of
from relay_audit.video_discovery import discover_films
from relay_audit.words import canonical
from relay_audit.workspace import Workspace

AGENT_ENDPOINTS = (
    "ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_BASE_URL",
    "GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL",
)  # fmt: skip
"""Where an agent's own model is served from: if it is the relay under audit, the accused writes the agent's thoughts."""
CONFLICT = "agent_served_by_target"


def begin(
    target: Target,
    library: Library,
    connections: Connections,
    space: Workspace,
    clock: Clock,
    environ: Mapping[str, str],
    place: Place | None = None,
    since: tuple[str, tuple[str, ...]] = ("", ()),
) -> Recorder:
    """A run folder with its first event. Nothing was sent yet. Raises `TargetError` for a claim that names no channel."""
    pack = library.packs.pack(target.subject.dialect)
    target = at_vendor(target, pack.official_roots)
    _check_claim(target, library)
    now = clock.now()
    check_filesystem(space.state, variable="RELAY_AUDIT_HOME")  # what keeps two runs apart lies there
    store = Store.create(space.audits, new_run_id(now, random.SystemRandom()))
    facts = TargetFacts(
        name=target.subject.name, model=target.subject.model, official_model=target.official_model,
        dialect=target.subject.dialect, claim=target.subject.claim,
        relay_origin=origin_of(target.relay.base_url),
        official_origin=origin_of(target.official.base_url) if target.official else "",
        official_is_vendor=bool(target.official)
        and _host(target.official.base_url if target.official else "") in pack.official_hosts,
        user_agent=connections.user_agent(),
        needs=target.needs, paid=target.internal.paid, cny_per_usd=target.prices.cny_per_usd,
        conflict=conflict(target, environ),
        since=since[0],
        since_findings=since[1],
        media_profile=target.video.profile,
        baseline_sources=sources_of(rows_in(BASELINES, library.files.get(BASELINES, ""))),
    )  # fmt: skip
    session = {
        "target": target.model_dump(mode="json", by_alias=True),
        "facts": facts.model_dump(mode="json", by_alias=True),
        "pack": pack.model_dump(mode="json", by_alias=True),
        "place": place.model_dump(mode="json") if place else None,
    }
    payload = {
        "files_ref": store.put_blob(canonical(library.files)),
        "knowledge_digest": library.digest,
        "tool_version": __version__,
        "libraries": library_versions(),
        "owner": account(),
        "scope": scope_of(target, facts),
        "keys": connections.fingerprints(),
    }
    first = Draft("run.created", payload, payload_ref=store.put_blob(canonical(session)))
    store.append_all([first, Draft("checkpoint.written", {"code": "begun"})], ts=now)
    register(space.state, store.run_id, store.path)
    return Recorder(store, clock)


def _check_claim(target: Target, library: Library) -> None:
    """A mistyped channel would look like a difference: it must be one that the knowledge or a pack knows."""
    known, claimed = library.channels, target.subject.claim.channel
    if claimed not in known:
        raise TargetError(
            f"claim.channel {claimed} is no known channel{nearest(claimed, known)}",
            next_step=f"one of: {', '.join(known)}; a channel of your own comes with --knowledge",
        )


def conflict(target: Target, environ: Mapping[str, str]) -> str:
    """`agent_served_by_target` where an agent's endpoint variable points at the relay under audit."""
    if target.against_itself:
        return ""  # who serves the agent is the vendor itself: nobody is accused here
    relay = urlsplit(target.relay.base_url)
    for name in AGENT_ENDPOINTS:
        other = urlsplit(environ.get(name, ""))
        try:
            same = other.hostname is not None and (other.hostname, other.port) == (relay.hostname, relay.port)
        except ValueError:
            same = False
        if same:
            return CONFLICT
    return ""


async def plan_and_quote(
    recorder: Recorder,
    connections: Connections,
    library: Library,
    prices: Path | None,
    *,
    offline: bool,
    free_only: bool,
) -> Quote:
    own = read_price_file(prices) if prices else PriceFile()
    knowing = Knowing(library.packs, library.knowledge, own)
    find = discover if recorder.history.pack.video is None else discover_films
    return await find(recorder, connections.sides, knowing, offline=offline, free_only=free_only)


async def execute(recorder: Recorder, connections: Connections, library: Library, space: Workspace) -> None:
    """Sends what the approval allows and completes the run, or leaves it as a signal asked (`recorder.history.status`).
    Raises `RunCancelled`, `ApprovalRefused` (none was given)."""
    history = recorder.catch_up()
    refuse_imported(history)
    if history.status == "cancelled":
        raise RunCancelled("this run was cancelled", next_step="begin a new run")
    if history.status in ("completed", "failed"):
        return
    approval = history.approved()
    if approval is None:
        raise ApprovalRefused("this run has no approval of its current quote", next_step="approve the quote first")
    connections.use_auth(history.auth_style)
    shelf = Shelf(SiteBudget(space.state), SharedBooks(space.state, connections.key_name()))
    settlement = Settlement(recorder, connections.sides, library.knowledge, connections.redactor, shelf)
    allowance = Allowance(space.spending, history.target.budget.max_usd_per_30_days)
    async with connections.exclusive(space):
        try:
            films = Films(recorder, connections.sides, connections.redactor)
            await Runner(recorder, connections.sides, settlement, allowance, films).run(approval)
        finally:
            if history.ledger.entries:
                allowance.settle(recorder.store.run_id, history.ledger.committed, recorder.clock.now())
    if history.status == WAITING:
        raise Unfinished(
            "the film is not finished yet; its task is recorded and is not ordered again",
            next_step=f"ask after it later: relay-audit resume {recorder.store.run_id}",
        )


def _host(address: str) -> str:
    return urlsplit(address).hostname or ""
