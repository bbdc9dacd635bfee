"""One audit from target to judgement: the sentence of the architecture, as functions. The command line only calls these."""

from __future__ import annotations

import datetime as dt
import platform
import random
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from relay_audit import __version__
from relay_audit.acquisition import WAITING, Films
from relay_audit.allowance import Allowance
from relay_audit.approval import account as account
from relay_audit.approval import approve as approve
from relay_audit.approval import refuse_imported as refuse_imported
from relay_audit.assess import assess
from relay_audit.baseline_file import check_baselines, read_baselines, rows_in, sources_of
from relay_audit.catalog import KNOWLEDGE, PINS, PROBES, Packs, knowledge_digest, knowledge_from, packs_from, read_files
from relay_audit.clock import Clock
from relay_audit.connect import Connections
from relay_audit.discovery import Knowing, discover
from relay_audit.errors import ApprovalRefused, RunCancelled, TargetError, Unfinished
from relay_audit.events import Draft
from relay_audit.evidence import Evidence, TargetFacts
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import Knowledge, VerdictRule
from relay_audit.media.pins import read_pins
from relay_audit.prices import PriceFile, read_price_file
from relay_audit.quote import Quote
from relay_audit.reading import Shelf
from relay_audit.recorder import Recorder
from relay_audit.refusal import nearest
from relay_audit.relays.detect import recognised
from relay_audit.replay import History, blob_json, replay
from relay_audit.runner import Runner
from relay_audit.runs import new_run_id, register
from relay_audit.settlement import Settlement
from relay_audit.shared_books import SharedBooks
from relay_audit.site_budget import SiteBudget
from relay_audit.store import Store
from relay_audit.target import Place, Target, at_vendor, origin_of
from relay_audit.verdict import Verdict, decide
from relay_audit.video_discovery import discover_films
from relay_audit.words import Frozen, canonical, money
from relay_audit.workspace import Workspace

AGENT_ENDPOINTS = (
    "ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_BASE_URL",
    "GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL",
)  # fmt: skip
"""Where an agent's own model is served from: if it is the relay under audit, the accused writes the agent's thoughts."""
CONFLICT = "agent_served_by_target"
BASELINES = f"{KNOWLEDGE}/baselines_of_this_run.toml"
"""Where a baselines file stands among the texts of a run, whatever it was called."""


OWN_PINS = f"{KNOWLEDGE}/{PINS}"


class Judgement(Frozen):
    evidence: Evidence
    findings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    verdict: Verdict
    knowledge_digest: str
    knowledge: Knowledge = Field(exclude=True, repr=False)
    """What judged, for the texts and dates a report prints."""


@dataclass(frozen=True)
class Library:
    """Packs and knowledge of one invocation, and their texts for the archive."""

    packs: Packs
    knowledge: Knowledge
    files: dict[str, str]

    @property
    def digest(self) -> str:
        return knowledge_digest(_below(self.files, KNOWLEDGE))

    @property
    def channels(self) -> list[str]:
        """What a claim may name: every channel of the knowledge, and `unknown`."""
        known = self.knowledge
        named = {channel for row in known.ids for channel in row.channels}
        named |= {channel for row in known.headers for channel in row.channels}
        named |= {channel for row in known.errors for channel in row.channels}
        return sorted(named - {"converter"} | {"unknown"})

    @property
    def key_shapes(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """Vendor → patterns of its keys and its own hosts: known vendors and those of the packs."""
        shapes = {pack.vendor: (pack.key_shapes, pack.official_hosts) for pack in self.packs.dialects.values()}
        return shapes | {vendor.name: (vendor.key_shapes, vendor.hosts) for vendor in self.knowledge.vendors}


def load_library(packs: Path | None = None, knowledge: Path | None = None) -> Library:
    """The shipped folders and the user's beside them. Raises `PackError`."""
    files = {f"{PROBES}/{path}": text for path, text in read_files(PROBES, packs).items()}
    files |= {f"{KNOWLEDGE}/{path}": text for path, text in read_files(KNOWLEDGE, knowledge).items()}
    return library_from(files)


def with_baselines(library: Library, file: Path, today: dt.date) -> Library:
    """The same with the rows of a baselines file, which travel with the run. Raises `PackError`."""
    text = read_baselines(file)
    check_baselines(file.name, rows_in(file.name, text), library.knowledge, today)
    return library_from({**library.files, BASELINES: text})


def with_pins(library: Library, pins: Path) -> Library:
    """The same with the buyer's own originals, which travel with the run that used them. Raises `UsageError`."""
    if not read_pins(pins):
        return library
    return library_from({**library.files, OWN_PINS: pins.read_text(encoding="utf-8")})


def library_from(files: dict[str, str]) -> Library:
    return Library(packs_from(_below(files, PROBES)), knowledge_from(_below(files, KNOWLEDGE)), files)


def begin(
    target: Target,
    library: Library,
    connections: Connections,
    space: Workspace,
    clock: Clock,
    environ: Mapping[str, str],
    place: Place | None = None,
) -> Recorder:
    """A run folder with its first event. Nothing was sent yet. Raises `TargetError` for a claim that names no channel."""
    pack = library.packs.pack(target.subject.dialect)
    target = at_vendor(target, pack.official_hosts)
    _check_claim(target, library)
    now = clock.now()
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


def scope_of(target: Target, facts: TargetFacts) -> dict[str, Any]:
    """What a run may do and spend, fixed at its start; a later plan stays inside it."""
    budget = target.budget
    return {
        "relay": facts.relay_origin,
        "official": facts.official_origin,
        "model": facts.model,
        "group": facts.claim.group,
        "dialect": facts.dialect,
        "checks": list(target.audit.checks),
        "profile": target.audit.profile,
        "max_usd": money(budget.max_usd) if budget.max_usd is not None else "",
        "max_usd_per_30_days": money(budget.max_usd_per_30_days) if budget.max_usd_per_30_days is not None else "",
    }


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
    connections.use_auth(history.facts.auth_style)
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


def judge(store: Store, *, current: bool = False, rules: tuple[VerdictRule, ...] = ()) -> Judgement:
    """Findings, coverage and verdict of a stored run, by the knowledge it carries or by today's, and by `rules` of the
    buyer's own where there are any. Where bytes were taken away, by the judgement that was recorded while they were there."""
    history = replay(store)
    library = current_library(history) if current else archived_library(history)
    return judged_by(history, library, rules)


def judged_by(history: History, library: Library, rules: tuple[VerdictRule, ...] = ()) -> Judgement:
    evidence = recognised(history.evidence(), library.knowledge)
    kept = recorded_judgement(history.store) if evidence_withheld(history) else None
    findings, coverage = kept or assess(evidence, library.knowledge)
    verdict = decide(evidence, findings, coverage, rules or library.knowledge.rules)
    return Judgement(
        evidence=evidence,
        findings=findings,
        coverage=coverage,
        verdict=verdict,
        knowledge_digest=library.digest,
        knowledge=library.knowledge,
    )


def current_library(history: History) -> Library:
    """Today's packs and knowledge; a baselines file that was given for the run stays with it."""
    given = {path: history.files[path] for path in (BASELINES, OWN_PINS) if path in history.files}
    return library_from({**load_library().files, **given})


def archived_library(history: History) -> Library:
    return library_from(history.files)


def evidence_withheld(history: History) -> bool:
    return any(exchange.failure == "withheld" for exchange in history.exchanges.values())


def recorded_judgement(store: Store) -> tuple[tuple[Finding, ...], tuple[Coverage, ...]] | None:
    """The first judgement that was recorded after the run ended; None where there is none."""
    event = next((event for event in store.events() if event.type == "assessment.recorded"), None)
    if event is None:
        return None
    kept = blob_json(store, event.payload_ref)
    findings, coverage = (kept, []) if isinstance(kept, list) else (kept["findings"], kept["coverage"])
    return tuple(map(Finding.model_validate, findings)), tuple(map(Coverage.model_validate, coverage))


def record_judgement(recorder: Recorder, judgement: Judgement) -> None:
    """Once per knowledge: what was judged stays readable when the bytes under it, or this program, are gone."""
    digest = judgement.knowledge_digest
    if any(e.payload["knowledge_digest"] == digest for e in recorder.store.events() if e.type == "assessment.recorded"):
        return
    ref = recorder.blob({"findings": [finding.model_dump(mode="json") for finding in judgement.findings],
                         "coverage": [row.model_dump(mode="json") for row in judgement.coverage]})  # fmt: skip
    payload = {"knowledge_digest": judgement.knowledge_digest, "verdict": judgement.verdict.verdict}
    recorder.note("assessment.recorded", payload, ref)


LIBRARIES = ("c2pa-python", "pymediainfo", "cryptography", "httpx", "pydantic")
"""What facts of a run may depend on besides our own code."""


def library_versions() -> dict[str, str]:
    """Installed versions; a library that is not there is left out."""
    found = {name: version for name in LIBRARIES if (version := _version(name))}
    return {"python": platform.python_version(), **found}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _below(files: Mapping[str, str], folder: str) -> dict[str, str]:
    return {path.removeprefix(f"{folder}/"): text for path, text in files.items() if path.startswith(f"{folder}/")}


def _host(address: str) -> str:
    return urlsplit(address).hostname or ""
