"""The start of check 3: names that come for free. What the relay's own header or log says it asked for is its own word,
decisive when it names another model and worth nothing when it is absent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge, canonical_model

MAKERS = re.compile(
    r"^(claude|gpt|chatgpt|o[1-9]|gemini|gemma|glm|qwen|deepseek|kimi|minimax|llama|mistral|mixtral|grok|doubao|ernie|yi|phi)"
)
"""A name that starts like a model's: a deployment or channel label is not evidence of anything."""


def assess_model_identity(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    return [*_headers(evidence, knowledge), *_log(evidence, knowledge), *_returned(evidence, knowledge)]


def relation(asked: str, other: str, knowledge: Knowledge) -> str:
    """`same`, `another`, or `unclear` where the other name is no model's name that anybody could tell apart."""
    if knowledge.same_model(asked, other):
        return "same"
    a, b = canonical_model(asked), canonical_model(other)
    known = knowledge.model(other) is not None
    if not known and (a.startswith(b) or b.startswith(a)):
        return "unclear"
    return "another" if known or MAKERS.match(b) else "unclear"


def _headers(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    names = {row.model_header for row in knowledge.software if row.model_header}
    seen = [
        (exchange.id, header, value)
        for exchange in evidence.generations()
        if exchange.response
        for header in sorted(names)
        if (value := exchange.response.header(header))
    ]
    return _admission("model.relay_header_admits", [(x, v) for x, _, v in seen], evidence, knowledge,
                      {"header": seen[0][1]} if seen else {})  # fmt: skip


def _log(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    seen = []
    for row in evidence.own_rows():
        upstream = row.other.get("upstream_model_name") or row.other.get("response_model")
        if row.exchange and isinstance(upstream, str) and upstream:
            seen.append((row.exchange, upstream))
    return _admission("model.relay_log_admits_mapping", seen, evidence, knowledge, {})


def _admission(
    code: str, seen: list[tuple[str, str]], evidence: Evidence, knowledge: Knowledge, extra: dict[str, str]
) -> list[Finding]:
    asked = evidence.target.model
    kinds = {x: relation(asked, name, knowledge) for x, name in seen}
    other = [(x, name) for x, name in seen if kinds[x] == "another"]
    alias = [(x, name) for x, name in seen if kinds[x] == "same" and name != asked]
    for rows, accuses in ((other, True), (alias, False)):
        if rows:
            return [_one(code, rows, asked, extra, accuses=accuses)]
    return []


def _one(code: str, rows: list[tuple[str, str]], asked: str, extra: dict[str, str], *, accuses: bool) -> Finding:
    name = _commonest(name for _, name in rows)
    return finding(
        code,
        {"requested": asked, "untrusted_upstream": name, "n": len(rows), **extra},
        exchanges=tuple(x for x, _ in rows),
        outcome="mismatch" if accuses else "match",
        severity="critical" if accuses else "info",
        confidence="decisive" if accuses else "supporting",
        basis="relay_word",
        expected={"model": asked},
        observed={"untrusted_model": name},
    )


def _returned(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    asked = evidence.target.model
    answers = [(e.id, pointer(e.answer(), evidence.pack.answer.model)) for e in evidence.generations() if e.status == 200]
    other = [(x, n) for x, n in answers if isinstance(n, str) and n and relation(asked, n, knowledge) == "another"]
    if not other:
        return []
    name = _commonest(n for _, n in other)
    return [
        finding("model.name_mismatch", {"requested": asked, "untrusted_returned": name, "n": len(other), "of": len(answers)},
                exchanges=tuple(x for x, _ in other), basis="relay_word", expected={"model": asked},
                observed={"untrusted_model": name})
    ]  # fmt: skip


def _commonest(names: Iterable[str]) -> str:
    return Counter(names).most_common(1)[0][0]
