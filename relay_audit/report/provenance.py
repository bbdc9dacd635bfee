"""Versions and sources: what a report rests on, with dates, so that somebody else can rest on it too."""

from __future__ import annotations

from typing import Protocol

from relay_audit.evidence import Evidence
from relay_audit.fingerprint import Knowledge
from relay_audit.report.figures import relay_price
from relay_audit.report.phrases import Phrases
from relay_audit.report.side_by_side import stamp
from relay_audit.report.untrusted import show
from relay_audit.report.views import WIDTH, Fact, host_of


class Say(Protocol):
    """A catalogue's look-up."""

    def __call__(self, key: str, /, **params: str) -> str: ...


def versions(
    evidence: Evidence, knowledge: Knowledge, phrases: Phrases, text: Say, knowledge_digest: str
) -> list[Fact]:
    """What the result rests on, each with its date: program, software, control, price, connection, digests."""
    site = evidence.site
    known_software = site.software != "unknown"
    software = (
        " ".join(filter(None, [site.software, site.version])) if known_software else text("version.software_unknown")
    )
    facts = [
        Fact(text("version.tool"), evidence.tool_version),
        Fact(text("version.schema"), str(evidence.schema_version)),
        Fact(text("version.software"), show(software, WIDTH)),
        *_controls(evidence, knowledge, text),
        *_prices(evidence, phrases, text),
        *_connections(evidence, text),
    ]
    if knowledge_digest:
        facts.append(Fact(text("version.knowledge"), knowledge_digest, code=True))
    if evidence.archive_digest:
        facts.append(Fact(text("version.archive"), evidence.archive_digest, code=True))
    facts.append(Fact(text("report.evidence_head"), evidence.evidence_head or text("report.sealed_later"), code=True))
    return facts


def _controls(evidence: Evidence, knowledge: Knowledge, text: Say) -> list[Fact]:
    """What the official side of the comparison was, and when."""
    day = evidence.started_at.date()
    counter = evidence.pack.counter
    asked = [
        stamp(e.sent_at)
        for e in evidence.exchanges
        if counter and e.side == "official" and e.request.path == counter.path
    ]
    given = [Fact(text("version.baselines_file"), show(source, WIDTH)) for source in evidence.target.baseline_sources]
    if asked:
        host = host_of(evidence.target.official_origin)
        value = text("version.counter_value", host=host, first=asked[0], last=asked[-1])
        return [Fact(text("version.counter"), value), *given]
    baseline = knowledge.baseline_for(evidence.target.official_model, day)
    if baseline is None:
        return given
    value = text(
        "version.baseline_value",
        text=show(baseline.text, WIDTH),
        tokens=str(baseline.tokens),
        date=baseline.observed.isoformat(),
    )
    return [Fact(text("version.baseline"), value), *given]


def _prices(evidence: Evidence, phrases: Phrases, text: Say) -> list[Fact]:
    price = relay_price(evidence)
    if price is None or not (price.input or price.output):  # a film has no price per token
        return []
    value = text(
        "version.price_value",
        input=phrases.amount(price.input),
        output=phrases.amount(price.output),
        source=show(price.source, WIDTH),
        date=price.observed.isoformat(),
    )
    return [Fact(text("version.list_price" if price.assumed else "version.relay_price"), value)]


def _connections(evidence: Evidence, text: Say) -> list[Fact]:
    seen = {e.connection for e in evidence.exchanges if e.side == "relay" and e.connection.leaf_sha256}
    return [
        Fact(
            text("version.tls"),
            text("version.tls_value", address=c.address, tls=c.tls_version, leaf=c.leaf_sha256),
        )
        for c in sorted(seen, key=lambda c: (c.address, c.leaf_sha256))[:3]
    ]
