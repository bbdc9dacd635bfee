"""Recorded traffic becomes a run that nobody sent: redacted before it is written, judged like any other, at no cost.

What it can say is what ordinary use can show: which channel answers come from, what the relay's own log (where the file
holds it) charged for them, and the token counts of texts whose count is known. Everything rests on `recorded` traffic:
whoever recorded it vouches for it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from dataclasses import replace
from typing import Any, Literal

from relay_audit import __version__
from relay_audit.clock import Clock
from relay_audit.errors import UsageError
from relay_audit.events import Draft
from relay_audit.evidence import TargetFacts
from relay_audit.exchange import Connection, Exchange, Request, Response
from relay_audit.finding import Coverage
from relay_audit.keys import workspace_salt
from relay_audit.library import Library, library_versions
from relay_audit.plan import Plan, Step
from relay_audit.recorded import Call, Traffic, body_of
from relay_audit.recorded_counts import Counts
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor, Secret
from relay_audit.relays import detect
from relay_audit.relays.asked import Asked, Own
from relay_audit.relays.registry import adapter_of
from relay_audit.runs import new_run_id, register
from relay_audit.store import Store
from relay_audit.target import Claim, target_from
from relay_audit.usage import read_usage
from relay_audit.words import canonical
from relay_audit.workspace import Workspace

NOWHERE = "https://recorded.invalid"
"""Stands for a relay that a transcript does not name; nothing is ever sent there."""
PROBE = "recorded/traffic"
BOTH: tuple[Literal["before", "after"], ...] = ("before", "after")


def check_claim(claim: str, library: Library) -> None:
    """Raises `UsageError` for a claim that names no channel."""
    if claim not in library.channels:
        raise UsageError(f"no channel {claim[:40]!r} is known", next_step=f"one of: {', '.join(library.channels)}")


def record_traffic(
    traffic: Traffic, claim: str, model: str, library: Library, space: Workspace, now: dt.datetime, clock: Clock,
    counts: Counts | None = None,
) -> Recorder:  # fmt: skip
    """A finished run of the recorded calls, with what the vendor counted of them. Raises `UsageError` for a claim that
    names no channel."""
    check_claim(claim, library)
    redactor = Redactor(
        [Secret(v, name="recorded", origin="none") for v in traffic.secrets], workspace_salt(space.state)
    )
    named = model or traffic.model or "unknown"
    store = Store.create(space.audits, new_run_id(now, random.SystemRandom()))
    store.append_all([_created(store, traffic, claim, named, library, counts)], ts=traffic.calls[0].at)
    register(space.state, store.run_id, store.path)
    recorder = Recorder(store, clock)
    plan = _plan(traffic, named, library, counts)
    recorder.note("plan.created", {"plan_digest": plan.digest, "steps": len(plan.steps)}, recorder.blob(plan))
    exchanges = [
        _exchange(f"X{place:04}", step.id, call, redactor)
        for place, (step, call) in enumerate(zip(_recorded(plan), traffic.calls, strict=True), start=1)
    ]
    for exchange in exchanges:
        payload = {"exchange": exchange.id, "step": exchange.step, "side": "relay"}
        recorder.note("exchange.recorded", payload, recorder.blob(exchange), "relay")
    _site(traffic, exchanges, recorder, redactor, library)
    _counted(counts, recorder)
    recorder.note("run.completed", {"stopped": ""})
    digest = hashlib.sha256(canonical([call.body for call in traffic.calls])).hexdigest()
    recorder.note("run.imported", {"sha256": digest, "tool_version": __version__}, actor="human")
    return recorder


def _created(store: Store, traffic: Traffic, claim: str, model: str, library: Library, counts: Counts | None) -> Draft:
    pack = library.packs.pack(traffic.dialect)
    table = {
        "target": {
            "name": f"recorded-{traffic.kind}",
            "model": model,
            "dialect": traffic.dialect,
            "claim": {"channel": claim},
        },
        "relay": {"base_url": traffic.origin or NOWHERE},
    }
    target = target_from(table)
    counted = bool(counts and counts.answers)
    facts = TargetFacts(
        name=target.subject.name, model=model, official_model=counts.model if counts else model, dialect=traffic.dialect,
        claim=Claim(channel=claim), relay_origin=traffic.origin or NOWHERE, user_agent="",
        no_counter_reason="" if counted else (counts.reason if counts else "recorded"), recorded=traffic.kind,
        official_origin=counts.origin if counts else "", official_is_vendor=counts.is_vendor if counts else False,
    )  # fmt: skip
    session = {
        "target": target.model_dump(mode="json", by_alias=True),
        "facts": facts.model_dump(mode="json", by_alias=True),
        "pack": pack.model_dump(mode="json", by_alias=True),
        "place": None,
    }
    payload = {
        "files_ref": store.put_blob(canonical(library.files)),
        "knowledge_digest": library.digest,
        "tool_version": __version__,
        "libraries": library_versions(),
    }
    return Draft("run.created", payload, "human", store.put_blob(canonical(session)))


def _recorded(plan: Plan) -> list[Step]:
    return [step for step in plan.steps if not step.counts]


def _counted(counts: Counts | None, recorder: Recorder) -> None:
    """The vendor's counts; of the question its digest, like of the call itself: the words are not ours to keep."""
    for place, answers in sorted(counts.answers.items()) if counts else ():
        for when, answer in zip(("before", "after"), answers, strict=True):
            name = f"count.{when}.{step_name(place)}"
            asked = replace(answer, request=answer.request.model_copy(update={"body": None}))
            recorder.free(asked, name, "official")


def step_name(place: int) -> str:
    """The step of the call at a place of the recording, counted from 0."""
    return f"recorded.{place + 1}"


def _plan(traffic: Traffic, model: str, library: Library, counts: Counts | None) -> Plan:
    sentence = library.knowledge.baseline_for(model, traffic.calls[0].at.date())
    steps = tuple(
        _step(number, call, sentence.text if sentence else "") for number, call in enumerate(traffic.calls, start=1)
    )
    asked = sorted(counts.answers) if counts else []
    known = bool(asked) or sum(step.request == "published" for step in steps) >= 3
    counter = library.packs.pack(traffic.dialect).counter
    path = counter.path if counter else ""
    controls = tuple(
        Step(id=f"count.{when}.{step_name(place)}", probe=PROBE, request="count", side="official", stage="probe", cost="free",
             path=path, body={}, counts=step_name(place), when=when)
        for when in BOTH for place in asked
    )  # fmt: skip
    log = any(name == "log" for name, _ in traffic.pages)
    why = "recorded_without_count" if counts is None else counts.reason
    rows = [] if known else [Coverage(check=2, state="not_run", reason=why)]
    rows += [Coverage(check=check, state="not_run", reason="recorded_only") for check in (3, 4)]
    rows.append(Coverage(check=5, state="not_applicable", reason="text_line"))
    rows += [] if log else [Coverage(check=6, state="not_run", reason="recorded_without_log")]
    checks = tuple(check for check, wanted in ((1, True), (2, known), (6, log)) if wanted)
    return Plan(
        dialect=traffic.dialect, model=model, official_model=model, profile="quick", checks=checks, seed=0, counter=bool(asked),
        steps=(*steps, *controls), coverage=tuple(rows),
    )  # fmt: skip


def _step(number: int, call: Call, sentence: str) -> Step:
    """Somebody's own request: its words are not kept, except where they are the published sentence and nothing else."""
    body = body_of(call) or {}
    published = bool(sentence) and _only_says(body, sentence)
    return Step(
        id=step_name(number - 1), factors={"breakpoints": '"cache_control"' in call.sent_body}, probe=PROBE,
        request="published" if published else "call", side="relay", stage="probe", cost="may_charge",
        path=call.path.split("?")[0], body={},
    )  # fmt: skip


def _only_says(body: dict[str, Any], sentence: str) -> bool:
    turns = body.get("messages")
    if any(body.get(name) for name in ("system", "tools", "thinking", "instructions")) or not isinstance(turns, list):
        return False
    one = turns[0] if len(turns) == 1 and isinstance(turns[0], dict) else {}
    said = one.get("content")
    if isinstance(said, list) and len(said) == 1 and isinstance(said[0], dict) and set(said[0]) == {"type", "text"}:
        said = said[0]["text"]
    return one.get("role") == "user" and said == sentence


def _exchange(xid: str, step: str, call: Call, redactor: Redactor, body: str | None = None) -> Exchange:
    """The call as it may be kept: no key, no account, and of the request only its digest and headers."""
    text = redactor.clean_text(call.body) if body is None else body
    response = Response(
        status=call.status, headers=redactor.clean_headers(call.headers, outgoing=False), body=text,
        body_bytes=len(call.body.encode("utf-8", "replace")),
        body_sha256=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
    )  # fmt: skip
    request = Request(
        method="POST" if call.method == "POST" else "GET",
        path=redactor.clean_text(call.path.split("?")[0]),
        headers=redactor.clean_headers(call.sent_headers, outgoing=True),
        body_sha256=hashlib.sha256(call.sent_body.encode("utf-8", "replace")).hexdigest() if call.sent_body else "",
    )
    return Exchange(
        id=xid, step=step, side="relay", sent_at=call.at, elapsed_ms=call.elapsed_ms, delivery="answered", request=request,
        response=response, connection=Connection(address=redactor.clean_text(call.address)),
    )  # fmt: skip


def _site(
    traffic: Traffic, exchanges: list[Exchange], recorder: Recorder, redactor: Redactor, library: Library
) -> None:
    """What the browser saw of the relay's site: its facts, and its log joined to the calls. Other rows leave a sum."""
    pages = [(name, call) for name, call in traffic.pages if call.status == 200]
    asked = [
        (name, _exchange(f"X{len(exchanges) + n:04}", name, call, redactor, "" if name == "log" else None), call)
        for n, (name, call) in enumerate(pages, start=1)
    ]
    known = {name: exchange for name, exchange, _ in asked}
    software, signals = detect.detect((*exchanges, *known.values()), library.knowledge, "auto")
    adapter = adapter_of(software, library.knowledge)
    base = recorder.history.site.model_copy(update={"software": software, "software_signals": signals})
    site = adapter.read_site(known.get("discovery.status"), known.get("discovery.pricing"), base, traffic.model)
    facts = recorder.history.facts
    found = {"site": site.model_dump(mode="json", by_alias=True), "facts": facts.model_dump(mode="json", by_alias=True)}
    recorder.note("discovery.recorded", {"software": software}, recorder.blob(found))
    pack = recorder.history.pack
    own = Own(
        sent=tuple((e, read_usage(e, pack)) for e in exchanges), model=traffic.model, site=site, account=redactor.account,
        answers=tuple(exchanges),
    )  # fmt: skip
    for name, exchange, call in asked:
        payload = {"exchange": exchange.id, "step": name, "side": "relay"}
        recorder.note("exchange.recorded", payload, recorder.blob(exchange), "relay")
        if name == "log":
            recorder.reading(adapter.read_log(Asked(exchange, call.body), own).reading)
