"""Under one finding: each request it rests on, from the plan and its price over the approval to the answer, then to the
rule that made a verdict of it. Values and codes only; the command line makes sentences of them."""

from __future__ import annotations

from dataclasses import dataclass

from relay_audit.errors import UsageError
from relay_audit.events import Event
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.finding import Finding
from relay_audit.fingerprint import Known
from relay_audit.judgement import Judgement
from relay_audit.library import Library
from relay_audit.probe import Probe
from relay_audit.quote import StepPrice
from relay_audit.store import Store
from relay_audit.usage import read_usage
from relay_audit.verdict import deciding


@dataclass(frozen=True)
class Link:
    """One exchange, from why it was sent to what came back."""

    exchange: Exchange
    probe: Probe | None
    price: StepPrice | None
    intent: Event | None
    """The durable intent; None for what was free."""
    outcome: Event | None
    billed: int | None
    counted: int | None
    """By the vendor's own counter, for this very body."""
    counted_by: tuple[str, ...]
    charge: str
    charge_basis: str


@dataclass(frozen=True)
class Explanation:
    finding: Finding
    links: tuple[Link, ...]
    approval: Event | None
    rule: str
    """Id of the verdict rule, where this finding is one that it rests on; else empty."""
    knowledge: tuple[tuple[str, Known], ...]
    """Dated facts it names: table and row."""
    head: str


def explain(store: Store, judgement: Judgement, library: Library, finding_id: str) -> Explanation:
    """Raises `UsageError` for an id that this judgement does not have."""
    found = next((f for f in judgement.findings if f.id == finding_id.upper()), None)
    if found is None:
        known = ", ".join(f.id for f in judgement.findings)
        raise UsageError(
            f"no finding {finding_id[:20]!r} in this run", next_step=f"one of: {known or 'none were made'}"
        )
    events = list(store.events())
    evidence = judgement.evidence
    wanted = [e for e in evidence.exchanges if e.id in found.exchanges]
    rule = next((r for r in library.knowledge.rules if r.id == judgement.verdict.rule), None)
    return Explanation(
        finding=found,
        links=tuple(_link(exchange, events, evidence, library) for exchange in wanted),
        approval=next((e for e in reversed(events) if e.payload.get("signal") == "approve"), None),
        rule=rule.id if rule and found in deciding(rule, judgement.findings) else "",
        knowledge=_named(found, library),
        head=evidence.evidence_head,
    )


def _link(exchange: Exchange, events: list[Event], evidence: Evidence, library: Library) -> Link:
    step = evidence.plan.step(exchange.step) if evidence.plan else None
    asked = step or (evidence.plan.step(exchange.step.split(".", 2)[-1]) if evidence.plan else None)
    usage = read_usage(exchange, evidence.pack) if exchange.side == "relay" else None
    counts = _counts(exchange, evidence)
    entry = evidence.ledger.entry(exchange.id)
    own = [event for event in events if event.payload.get("exchange") == exchange.id]
    return Link(
        exchange=exchange,
        probe=next((p for p in library.packs.probes if asked is not None and p.id == asked.probe), None),
        price=evidence.quote.price_of(exchange.step) if evidence.quote else None,
        intent=next((event for event in own if event.type == "request.sending"), None),
        outcome=next((event for event in own if event.type == "exchange.recorded"), None),
        billed=usage.billed_input if usage else None,
        counted=counts[0][1] if counts else None,
        counted_by=tuple(xid for xid, _ in counts),
        charge=str(entry.amount) if entry is not None else "",
        charge_basis=entry.basis if entry is not None else "",
    )


def _counts(exchange: Exchange, evidence: Evidence) -> list[tuple[str, int]]:
    counter = evidence.pack.counter
    names = {f"count.{when}.{exchange.step}" for when in ("quote", "before", "after")}
    asked = [e for e in evidence.exchanges if counter and e.step in names and e.status == 200]
    read = [(e.id, whole_number(pointer(e.answer(), counter.read)) if counter else None) for e in asked]
    return [(xid, number) for xid, number in read if number is not None]


def _named(finding: Finding, library: Library) -> tuple[tuple[str, Known], ...]:
    words = {item for value in finding.params.values() if isinstance(value, list | tuple) for item in map(str, value)}
    words |= {str(value) for value in finding.params.values() if isinstance(value, str)}
    known = library.knowledge
    tables: dict[str, tuple[Known, ...]] = {
        "ids": known.ids, "headers": known.headers, "errors": known.errors, "baselines": known.baselines,
        "signatures": known.signatures, "limits": known.limits, "bodies": known.bodies,
    }  # fmt: skip
    return tuple((table, row) for table, rows in tables.items() for row in rows if row.id in words)
