"""Names of models in a relay's own words: what a header, its log or an answer calls the model, held against what was bought.

A name that is another model's is evidence; a label of the seller's or of a cloud customer's is none. A returned name that
nobody knows and that no rule tells for a label differs, and that is all it does: low, never an accusation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from relay_audit.assess.channel_signals import read_sample
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge, canonical_model

MAKERS = re.compile(
    r"^(claude|gpt|chatgpt|o[1-9]|gemini|gemma|glm|qwen|deepseek|kimi|minimax|llama|mistral|mixtral|grok|doubao|ernie|yi|phi)"
)
"""A name that starts like a model's: a deployment or channel label is not evidence of anything."""
WORD = re.compile(r"[a-z]{2,}")
MODES = frozenset({"chat", "reasoner", "preview", "instruct", "thinking"})
"""Words of a moving name that tell how a model is asked, not which one it is."""
CUSTOMER_NAMED = frozenset({"azure", "aws", "vertex"})
"""Clouds that let their customers name what they rent: deployments, inference profiles, endpoints."""


def names_told(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """`model.relay_header_admits`, `model.relay_log_admits_mapping` and `model.name_mismatch`, at most one of each."""
    return [*_headers(evidence, knowledge), *_log(evidence, knowledge), *_returned(evidence, knowledge)]


def relation(asked: str, other: str, knowledge: Knowledge) -> str:
    """`same`, `another`, or `unclear` where one of the names is no model's name that anybody could tell apart.

    A seller's own label (`官转-claude-sonnet-5-5`) is read as the longest model name in it; that name alone is `unclear`,
    and a label that holds none and does not begin like one can be held against nobody. Neither can a name without a version
    (`claude-sonnet-latest`, `deepseek-chat`) that its maker moves from one model to the next, nor a name of the same maker
    that names a channel (`claude-max-pool`).
    """
    if knowledge.same_model(asked, other):
        return "same"
    if _moved(asked, other):
        return "unclear"
    a, b = canonical_model(asked), canonical_model(other)
    known = knowledge.model(other) is not None
    if knowledge.model(asked) is None:
        meant = knowledge.named_in(asked)
        if not meant and not MAKERS.match(a):
            return "unclear"
        if meant and knowledge.same_model(meant, other):
            return "unclear"
    if not known and (a.startswith(b) or b.startswith(a)):
        return "unclear"
    if known or (named := knowledge.named_in(other)):
        return "another" if known or not knowledge.same_model(asked, named) else "unclear"
    if not MAKERS.match(b) or (maker(a) == maker(b) and _is_a_channel(a, b, knowledge)):
        return "unclear"
    return "another"


def maker(name: str) -> str:
    """The word with which names of its maker begin, of a canonical name; empty where it begins like nobody's."""
    found = MAKERS.match(name)
    return "gpt" if found and found[1] in ("chatgpt", "o1", "o3", "o4") else found[1] if found else ""


def _is_a_channel(asked: str, name: str, knowledge: Knowledge) -> bool:
    """An unknown name without a version, or with a word that people put into the names of channels; not one that names
    another class of the maker's models (`claude-haiku-latest` for a sonnet)."""
    classes = {word for m in knowledge.models if maker(m.name) == maker(name) for word in WORD.findall(m.name)}
    other = (set(WORD.findall(name)) & classes) - set(WORD.findall(asked)) - {maker(name)}
    if any(not any(row.fits(word) for row in knowledge.labels) for word in other):
        return False
    return not re.search(r"\d", name) or any(row.fits(name) for row in knowledge.labels)


def _moved(one: str, other: str) -> bool:
    """Whether one of two names is a moving one, without a version, and the other may be what it stands for today; or the
    name before and after its release."""
    a, b = (canonical_model(name).removesuffix("-preview") for name in (one, other))
    if a == b:
        return True
    asked, answered = (bool(re.search(r"\d", name)) for name in (a, b))
    if asked == answered or not maker(a) or maker(a) != maker(b):
        return False
    moving, dated = (b, a) if asked else (a, b)
    said = set(WORD.findall(moving)) - {maker(moving)} - MODES
    return said <= set(WORD.findall(dated)) and (bool(said) or answered)


def _held_to(name: str, evidence: Evidence, knowledge: Knowledge) -> str:
    """The relation of a name to what was bought: as the relay calls it, or as its maker does."""
    target = evidence.target
    ways = [relation(asked, name, knowledge) for asked in dict.fromkeys((target.official_model, target.model))]
    return "same" if "same" in ways else ways[0]


def _headers(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    names = {row.model_header for row in knowledge.software if row.model_header}
    seen = [
        (exchange.id, header, value)
        for exchange in evidence.answers()
        if exchange.response
        for header in sorted(names)
        if (value := exchange.response.header(header))
    ]
    return _admission("model.relay_header_admits", [(x, v) for x, _, v in seen], evidence, knowledge,
                      {"header": seen[0][1]} if seen else {})  # fmt: skip


def _log(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    legal = {exchange.id for exchange in evidence.answers()}
    seen = []
    for row in evidence.own_rows():
        said, other = row.admissions, row.other
        upstream = said.upstream_model or other.get("upstream_model_name") or said.response_model
        upstream = upstream or other.get("response_model")
        if row.exchange in legal and isinstance(upstream, str) and upstream:
            seen.append((row.exchange, upstream))
    return _admission("model.relay_log_admits_mapping", seen, evidence, knowledge, {})


def _admission(
    code: str, seen: list[tuple[str, str]], evidence: Evidence, knowledge: Knowledge, extra: dict[str, str]
) -> list[Finding]:
    asked = evidence.target.model
    kinds = {x: _held_to(name, evidence, knowledge) for x, name in seen}
    other = [(x, name) for x, name in seen if kinds[x] == "another"]
    alias = [(x, name) for x, name in seen if kinds[x] == "same" and name != asked]
    for rows, accuses in ((other, True), (alias, False)):
        if rows:
            return [_one(code, rows, asked, extra, accuses=accuses)]
    return []


def _one(code: str, rows: list[tuple[str, str]], asked: str, extra: dict[str, str], *, accuses: bool) -> Finding:
    name = commonest(name for _, name in rows)
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
    answers = [(e.id, pointer(e.answer(), evidence.pack.answer.model)) for e in evidence.answers() if e.status == 200]
    named = [(x, n) for x, n in answers if isinstance(n, str) and n]
    other = [(x, n) for x, n in named if _held_to(n, evidence, knowledge) == "another"]
    if not other:
        other = [(x, n) for x, n in named if _unheard_of(n, evidence, knowledge)]
    if not other:
        return []
    name = commonest(n for _, n in other)
    return [
        finding("model.name_mismatch", {"requested": asked, "untrusted_returned": name, "n": len(other), "of": len(answers)},
                exchanges=tuple(x for x, _ in other), basis="relay_word", expected={"model": asked},
                observed={"untrusted_model": name})
    ]  # fmt: skip


def _unheard_of(name: str, evidence: Evidence, knowledge: Knowledge) -> bool:
    """Whether an answer to a known model's name carries one that nobody knows, and that is no label.

    Where a cloud's customer names what he rents (a deployment, an inference profile), any name may be his. A word of the
    name that was asked for makes it a variant of it.
    """
    asked = evidence.target.model
    if knowledge.model(asked) is None or _held_to(name, evidence, knowledge) != "unclear":
        return False
    if knowledge.named_in(name) or any(word in name.lower() for word in re.findall(r"[a-z]{3,}", asked.lower())):
        return False
    return not (from_a_cloud(evidence, knowledge) or any(row.fits(name) for row in knowledge.labels))


def from_a_cloud(evidence: Evidence, knowledge: Knowledge) -> bool:
    """Whether it is sold as a cloud's, or the marks of any answer are those of one whose customers name what they rent."""
    if evidence.target.claim.channel in CUSTOMER_NAMED:
        return True
    named = (read_sample(exchange, evidence, knowledge).named for exchange in evidence.generations())
    return any(channels and CUSTOMER_NAMED.issuperset(channels) for channels in named)


def commonest(names: Iterable[str]) -> str:
    return Counter(names).most_common(1)[0][0]
