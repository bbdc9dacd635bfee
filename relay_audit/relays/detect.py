"""Which software a relay runs, from signals that cost nothing: headers, `GET /api/status`, the form of a refusal."""

from __future__ import annotations

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.fingerprint import Knowledge, RelaySoftware


def detect(exchanges: tuple[Exchange, ...], knowledge: Knowledge, named: str = "auto") -> tuple[str, tuple[str, ...]]:
    """Name and the signals it rests on; `unknown` where nothing shows. A name given in the target file wins."""
    if named != "auto":
        return named, ("target_file",)
    scores: dict[str, list[str]] = {}
    for row in knowledge.software:
        signals = [f"{row.name}:header" for e in exchanges if e.response and row.shows_in(e.response.headers)][:1]
        signals += [f"{row.name}:status" for e in exchanges if e.step == "discovery.status" and _status_fits(row, e)]
        signals += [
            f"{row.name}:refusal"
            for e in exchanges
            if e.response and row.refuses_like(e.response.readable(), e.response.status)
        ][:1]
        if signals:
            scores.setdefault(row.name, []).extend(signals)
    if not scores:
        return "unknown", ()
    best = max(scores, key=lambda name: len(scores[name]))
    return best, tuple(scores[best])


def recognised(evidence: Evidence, knowledge: Knowledge) -> Evidence:
    """The same run, with its software named by what the answers showed where the planning saw nothing: LiteLLM marks
    answers, and neither its model list nor its refusals of unknown pages."""
    if evidence.site.software != "unknown":
        return evidence
    name, signals = detect(tuple(e for e in evidence.exchanges if e.side == "relay"), knowledge)
    return evidence.model_copy(
        update={"site": evidence.site.model_copy(update={"software": name, "software_signals": signals})}
    )


def facts(name: str, knowledge: Knowledge) -> RelaySoftware | None:
    return next((row for row in knowledge.software if row.name == name), None)


def _status_fits(row: RelaySoftware, exchange: Exchange) -> bool:
    answer = exchange.answer()
    data = answer.get("data") if isinstance(answer, dict) else None
    return bool(row.status_keys) and isinstance(data, dict) and all(key in data for key in row.status_keys)
