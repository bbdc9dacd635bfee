"""Check 1: the one deliberate repeat. The very same body is sent twice; an answer out of a store has the id and the text
of the first. An id that other requests got as well is a constant of some software and says nothing here.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.prompt_text import question_of
from relay_audit.words import digest


def assess_repeated(evidence: Evidence, _: Knowledge) -> list[Finding]:
    answered = [e for e in evidence.answers() if e.status == 200 and e.request.body]
    bodies: dict[str, list[Exchange]] = defaultdict(list)
    owners: dict[str, set[str]] = defaultdict(set)
    for exchange in answered:
        bodies[digest(exchange.request.body)].append(exchange)
        owners[_id(exchange, evidence)].add(question_of(exchange.request.body))
    again = [
        (first, later)
        for same in bodies.values()
        for first, later in pairwise(same)
        if _is_stored(first, later, evidence) and len(owners[_id(later, evidence)]) == 1
    ]
    if not again or any(len(keys) > 1 for keys in owners.values()):
        return []  # an id on different requests is its own finding, and says more
    charged = [later.id for _, later in again if _was_charged(later, evidence)]
    params = {"n": len(again), "of": sum(len(same) - 1 for same in bodies.values()), "charged": len(charged)}
    return [
        finding(
            "integrity.response_replayed",
            params,
            exchanges=tuple(dict.fromkeys(e.id for pair in again for e in pair)),
            severity="medium" if charged else "info",
            outcome="mismatch" if charged else "match",
            confidence="strong" if charged else "supporting",
            basis="relay_word" if charged else "recorded",
        )
    ]


def _id(exchange: Exchange, evidence: Evidence) -> str:
    value = pointer(exchange.answer(), evidence.pack.answer.id)
    return value if isinstance(value, str) else ""


def _is_stored(first: Exchange, later: Exchange, evidence: Evidence) -> bool:
    where = evidence.pack.answer.content
    same_text = pointer(first.answer(), where) == pointer(later.answer(), where) is not None
    return bool(_id(later, evidence)) and _id(first, evidence) == _id(later, evidence) and same_text


def _was_charged(exchange: Exchange, evidence: Evidence) -> bool:
    per_unit = evidence.site.quota_per_unit
    return any(row.exchange == exchange.id and row.charged(per_unit) > 0 for row in evidence.own_rows())
