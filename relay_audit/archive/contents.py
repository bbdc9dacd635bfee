"""What goes into an archive, in which order: events, blobs, and for the vendor a few derived facts instead of internal ones.

The vendor's edition ends at the terminal event: what comes later (assessments, reports, answers) never changes it, so a
report can print its digest before it exists. Events that only the buyer may see are there as their hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from relay_audit.archive.trail import sealed_in, server_copies
from relay_audit.catalog import KNOWLEDGE, PROBES
from relay_audit.errors import UsageError
from relay_audit.events import Event
from relay_audit.evidence import SCHEMA_VERSION, Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.judgement import Judgement, judge
from relay_audit.library import archived_library, texts_of
from relay_audit.manifest import (
    BLOBS,
    DERIVED,
    EVENTS,
    Blob,
    Edition,
    Manifest,
    Part,
    Withheld,
    event_line,
    left_out_line,
)
from relay_audit.replay import History, replay
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import conduct_of, money_of, real_costs, relay_price, surplus_of
from relay_audit.report.side_by_side import stamp
from relay_audit.store import Store
from relay_audit.words import Bilingual, Lang, canonical

SHOWN_TO_VENDOR = ("plan.created", "exchange.recorded")
"""Events whose blob goes into the vendor's edition; what other blobs hold of use to him is derived."""
NOT_FOR_VENDOR = frozenset(
    {"name", "needs", "conflict", "baseline_sources", "paid", "cny_per_usd", "since", "since_findings"}
)
"""Fields of the target's facts that are the buyer's own business."""
TOMBSTONE = "taken away later"


@dataclass
class Contents:
    """An archive before it is a file. `members` are read when they are written: a large run is never whole in memory."""

    manifest: Manifest
    members: list[tuple[str, Callable[[], bytes]]]
    scanned: list[tuple[str, Callable[[], bytes]]] = field(default_factory=list)
    """What the leak guard reads: all but the program's own data, which name no buyer."""


def contents(store: Store, edition: Edition) -> Contents:
    """The archive of a run. Raises `UsageError` for the vendor's edition of a run that has not ended."""
    history = replay(store)
    events = list(store.events())
    if edition == "full":
        return _full(history, events)
    end = next((event.seq for event in events if event.terminal), 0)
    if not end:
        raise UsageError(
            "the vendor's edition is sealed when the run has ended", next_step=f"relay-audit status {store.run_id}"
        )
    manifest, parts = _for_vendor(history, events[:end], judge(store))
    return _packed(store, manifest, parts, history.files)


def vendor_digest(store: Store, history: History, judgement: Judgement) -> str:
    """What the vendor's report prints of its archive; empty while the run has no end."""
    events = list(store.events())
    end = next((event.seq for event in events if event.terminal), 0)
    return _for_vendor(history, events[:end], judgement)[0].digest if end else ""


def _full(history: History, events: list[Event]) -> Contents:
    named: dict[str, list[Event]] = {}
    for event in events:
        for sha in _shas(event):
            named.setdefault(sha, []).append(event)
    library = archived_library(history)
    text = b"".join(map(event_line, events))
    manifest = _manifest(history, library.knowledge, events, "full", {EVENTS: text}, named)
    return _packed(history.store, manifest, {EVENTS: text}, history.files)


def _for_vendor(history: History, events: list[Event], judgement: Judgement) -> tuple[Manifest, dict[str, bytes]]:
    shown = [event for event in events if event.redaction != "internal"]
    named: dict[str, list[Event]] = {
        event.payload_ref: [event] for event in shown if event.type in SHOWN_TO_VENDOR and event.payload_ref
    }
    named[events[0].payload["files_ref"]] = []
    parts = {EVENTS: b"".join(left_out_line(e) if e.redaction == "internal" else event_line(e) for e in events)}
    parts |= {f"{DERIVED}{name}.json": canonical(value) for name, value in _derived(judgement).items()}
    own = judgement.knowledge_digest == history.knowledge_digest
    knowledge = judgement.knowledge if own else archived_library(history).knowledge
    return _manifest(history, knowledge, events, "vendor", parts, named), parts


def _derived(judgement: Judgement) -> dict[str, Any]:
    """Facts that the vendor's report rests on and that lie in events which only the buyer may see."""
    evidence = judgement.evidence
    price = relay_price(evidence)
    figures = money_of(evidence).model_dump(mode="json")
    charged = {name: value for name, value in figures.items() if name.startswith("charged") or name == "currency"}
    return {
        "subject": {
            **evidence.target.model_dump(mode="json", by_alias=True, exclude=set(NOT_FOR_VENDOR)),
            "started_at": evidence.started_at.isoformat(),
            "stopped": evidence.stopped,
            "site": evidence.site.model_dump(mode="json", by_alias=True),
        },
        "pack": evidence.pack.model_dump(mode="json", by_alias=True),
        "findings": {
            "findings": [_shared(finding) for finding in judgement.findings],
            "coverage": [row.model_dump(mode="json") for row in judgement.coverage],
            "conduct": vars(conduct_of(evidence)),
            "charged": charged,
            "real_costs": _real_costs(judgement),
        },
        "log": [row.model_dump(mode="json", by_alias=True) for row in evidence.own_rows()],
        "prices": price.model_dump(mode="json") if price else {},
    }


def _real_costs(judgement: Judgement) -> list[dict[str, str]]:
    """What input really costs at some sizes of call, where a surplus was found: (own × slope + offset) ÷ own."""
    surplus = surplus_of(judgement.findings)
    rows = real_costs(judgement.evidence, surplus) if surplus else ()
    return [
        {"tokens_per_call": str(row.tokens_per_call), "factor": str(row.factor), "price": str(row.price)}
        for row in rows
    ]


def _shared(finding: Finding) -> dict[str, Any]:
    return finding.model_dump(mode="json")


def _manifest(
    history: History, knowledge: Knowledge, events: list[Event], edition: Edition, parts: dict[str, bytes],
    named: dict[str, list[Event]],
) -> Manifest:  # fmt: skip
    evidence, files = history.evidence(), history.files
    head = next((event.hash for event in events if event.terminal), "")
    present = [sha for sha in named if sha not in history.withheld]
    left_out = sum(event.redaction == "internal" for event in events) if edition == "vendor" else 0
    return Manifest(
        schema_version=SCHEMA_VERSION,
        edition=edition,
        run_id=history.store.run_id,
        status=history.status,
        evidence_head=head,
        last_hash=events[-1].hash,
        events=len(events),
        left_out=left_out,
        tool_version=history.tool_version,
        libraries=history.libraries,
        packs=_digests(files, PROBES),
        knowledge=_digests(files, KNOWLEDGE),
        knowledge_digest=history.knowledge_digest,
        baselines=history.facts.baseline_sources if edition == "full" else (),
        parts=tuple(Part(name=name, bytes=len(raw), sha256=_sha(raw)) for name, raw in parts.items()),
        blobs=tuple(_blob(history, sha, named[sha], evidence) for sha in sorted(present)),
        withheld=tuple(_gone(sha, named[sha]) for sha in sorted(named) if sha in history.withheld),
        sealed=sealed_in(evidence),
        server_copies=server_copies(evidence, knowledge),
        proves=Bilingual(en=_limits("en"), zh=_limits("zh-CN")),
    )


def _limits(lang: Lang) -> str:
    return Catalogue.load(lang).text("limit.archive")


def _packed(store: Store, manifest: Manifest, parts: dict[str, bytes], files: dict[str, str]) -> Contents:
    members: list[tuple[str, Callable[[], bytes]]] = [(name, given(raw)) for name, raw in parts.items()]
    blobs = [(blob, _stored(store, blob.sha256)) for blob in manifest.blobs]
    members += [(f"{BLOBS}{blob.sha256}", read) for blob, read in blobs]
    scanned = [(name, given(raw)) for name, raw in parts.items()]
    scanned += [(f"{BLOBS}{blob.sha256}", read) for blob, read in blobs if blob.kind != "files"]
    shipped = texts_of()
    scanned += [(path, given(text.encode())) for path, text in files.items() if shipped.get(path) != text]
    return Contents(manifest, members, scanned)


def given(raw: bytes) -> Callable[[], bytes]:
    return lambda: raw


def _stored(store: Store, sha: str) -> Callable[[], bytes]:
    return lambda: store.blob(sha)


def _shas(event: Event) -> Iterable[str]:
    """Every blob that an event names."""
    return [sha for sha in (event.payload_ref, event.payload.get("files_ref", "")) if sha]


def _blob(history: History, sha: str, events: list[Event], evidence: Evidence) -> Blob:
    first = events[0] if events else None
    files = not events or (first is not None and first.payload.get("files_ref") == sha)
    kind = "files" if files else "session" if first and first.type == "run.created" else first.type if first else ""
    return Blob(
        sha256=sha,
        bytes=history.store.blob_size(sha),
        kind=kind,
        seq=tuple(event.seq for event in events),
        about=_about(kind, first, evidence),
    )


ABOUT = {
    "files": "probe and knowledge files as they were when the run began: path → text",
    "session": "target, its facts, and the wire format of the run",
    "plan.created": "the steps that may be sent",
    "quote.issued": "what the plan would cost",
    "discovery.recorded": "what the relay says of itself",
    "reading.recorded": "a reading of the relay's own log or balance",
    "assessment.recorded": "findings and coverage as they were judged",
    "artifact.created": "a report, byte for byte as it was written",
    "answer.recorded": "the vendor's reply to a finding",
    "stamp.recorded": "a time stamp over the evidence head, or a signature over an archive's manifest",
}


def _about(kind: str, event: Event | None, evidence: Evidence) -> str:
    if event is None or kind != "exchange.recorded":
        return ABOUT.get(kind, kind)
    xid = event.payload["exchange"]
    exchange = next((e for e in evidence.exchanges if e.id == xid), None)
    if exchange is None:
        return str(xid)
    status = exchange.status if exchange.status is not None else exchange.failure or exchange.delivery
    return f"{xid} · {exchange.side} · {exchange.step} · {status} · {stamp(exchange.sent_at)} UTC"


def _gone(sha: str, events: list[Event]) -> Withheld:
    return Withheld(sha256=sha, reason=TOMBSTONE, seq=tuple(event.seq for event in events))


def _digests(files: dict[str, str], folder: str) -> dict[str, str]:
    return {path: _sha(text.encode()) for path, text in sorted(files.items()) if path.startswith(f"{folder}/")}


def _sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
