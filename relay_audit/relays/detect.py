"""Which software a relay runs, from signals that cost nothing: headers, `GET /api/status`, the form of a refusal."""

from __future__ import annotations

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.fingerprint import Knowledge, RelaySoftware

PAGE_STEP = "discovery.software"
"""The step of a question that only looks for the software."""


def detect(exchanges: tuple[Exchange, ...], knowledge: Knowledge, named: str = "auto") -> tuple[str, tuple[str, ...]]:
    """Name and the signals it rests on; `unknown` where nothing shows. A name given in the target file wins."""
    if named != "auto":
        return named, ("target_file",)
    scores: dict[str, list[str]] = {}
    weights: dict[str, int] = {}
    for row in knowledge.software:
        status = any(e.step == "discovery.status" and _status_fits(row, e) for e in exchanges)
        signals = (
            [f"{row.name}:header"] if any(e.response and row.shows_in(e.response.headers) for e in exchanges) else []
        )
        signals += [f"{row.name}:status"] if status else []
        signals += [f"{row.name}:refusal"] if any(_refuses(row, e) for e in exchanges) else []
        signals += [f"{row.name}:page"] if any(_says(row, e) for e in exchanges) else []
        if signals:
            scores.setdefault(row.name, []).extend(signals)
            weights[row.name] = max(weights.get(row.name, 0), len(row.status_keys) if status else 0)
    if not scores:
        return "unknown", ()
    best = max(scores, key=lambda name: (len(scores[name]), weights[name]))
    return best, tuple(scores[best])


def questions(knowledge: Knowledge) -> list[tuple[str, bool]]:
    """Free pages that name a software which nothing else has named, in order; whether the key goes with each."""
    asked = [(page.removeprefix("key:"), page.startswith("key:")) for row in knowledge.software for page in row.pages]
    return list(dict.fromkeys(asked))


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


def _refuses(row: RelaySoftware, exchange: Exchange) -> bool:
    response = exchange.response
    return response is not None and row.refuses_like(response.readable(), response.status)


def _says(row: RelaySoftware, exchange: Exchange) -> bool:
    """Only of a page of its own: the same words in an answer of a model are nobody's mark."""
    response = exchange.response
    own = exchange.step == PAGE_STEP and exchange.request.path in {page.removeprefix("key:") for page in row.pages}
    return own and response is not None and row.says(response.body, response.status)


def _status_fits(row: RelaySoftware, exchange: Exchange) -> bool:
    answer = exchange.answer()
    data = answer.get("data") if isinstance(answer, dict) else None
    if not row.status_keys or not isinstance(data, dict):
        return False
    return all(key in data for key in row.status_keys) and not any(key in data for key in row.status_lacks)
