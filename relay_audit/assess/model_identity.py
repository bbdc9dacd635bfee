"""Check 3: which model answers? Six names are kept apart: requested, sent, returned, leaked in an error, headed, logged.

Four roads can lead to a name: what the relay's own header or log admits, the vendor's refusal of an oversized output
limit, rules that separate the generations, and the clear part of a thinking signature. A road that was not open proves
nothing, and where none was, the model is `not_verifiable`, never a pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from relay_audit.assess.channel_signals import signatures_of
from relay_audit.bounds import percent, unseen_share
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge, ModelFacts, canonical_model
from relay_audit.plan import Step
from relay_audit.usage import is_generation
from relay_audit.words import Side, money

MAKERS = re.compile(
    r"^(claude|gpt|chatgpt|o[1-9]|gemini|gemma|glm|qwen|deepseek|kimi|minimax|llama|mistral|mixtral|grok|doubao|ernie|yi|phi)"
)
"""A name that starts like a model's: a deployment or channel label is not evidence of anything."""
OVERSIZE = "max_tokens_above_limit"
NEEDED = re.compile(r"(?:需要预扣费额度|need quota)[:：]\s*[^\d]{0,4}(\d+(?:\.\d+)?)")
"""What a refused reserve says it would have taken; the currency sign is the site's own."""


class Leak(NamedTuple):
    """What a refused output limit says."""

    exchange: str
    cap: int
    model: str
    vendor: str


def assess_model_identity(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    leaks = _leaks(evidence, knowledge)
    found = [
        *_headers(evidence, knowledge),
        *_log(evidence, knowledge),
        *_returned(evidence, knowledge),
        *_leaked(leaks, evidence, knowledge),
        *_till(evidence),
    ]
    found += _signed_by_another(found, evidence, knowledge)
    if _planned(evidence) and not any(f.code.startswith("model.") and f.severity != "info" for f in found):
        found += _matches(leaks, evidence, knowledge)
    return found


def _signed(evidence: Evidence, knowledge: Knowledge) -> list[tuple[str, str]]:
    """Exchange and model, from the clear headers of thinking signatures; nothing once the layout is old knowledge."""
    day = evidence.started_at.date()
    if not any(row.age(day) == "fresh" for row in knowledge.signatures):
        return []
    return [(e.id, h.model) for e in evidence.routed() for h in signatures_of(e, evidence.pack) if h.model]


def _signed_by_another(found: list[Finding], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """A signature that names another model: alone a low sign; with a second source for the same, a substitution."""
    asked, signed = evidence.target.official_model, _signed(evidence, knowledge)
    other = [(x, name) for x, name in signed if relation(asked, name, knowledge) == "another"]
    if not other:
        return []
    name = _commonest(name for _, name in other)
    told = [(f, str(f.observed.get("untrusted_model", ""))) for f in found if f.outcome == "mismatch"]
    agreeing = [f for f, other_name in told if knowledge.same_model(name, other_name)]
    if any(f.code == "model.substituted" for f in agreeing):
        return []
    speak = partial(finding, exchanges=tuple(x for x, _ in other), evidence_level="observed_pattern", basis="known_list",
                    expected={"model": asked}, observed={"untrusted_model": name})  # fmt: skip
    if agreeing:
        params = {"requested": asked, "untrusted_leaked": name, "road": "signature", "n": len(other)}
        return [speak("model.substituted", params, confidence="strong")]
    named = {"requested": asked, "untrusted_returned": name, "n": len(other), "of": len(signed)}
    return [speak("model.name_mismatch", named)]


def relation(asked: str, other: str, knowledge: Knowledge) -> str:
    """`same`, `another`, or `unclear` where one of the names is no model's name that anybody could tell apart.

    A seller's own label (`官转-claude-sonnet-5-5`) is read as the longest model name in it; that name alone is `unclear`,
    and a label that holds none and does not begin like one can be held against nobody.
    """
    if knowledge.same_model(asked, other):
        return "same"
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
    return "another" if known or MAKERS.match(b) else "unclear"


def _held_to(name: str, evidence: Evidence, knowledge: Knowledge) -> str:
    """The relation of a name to what was bought: as the relay calls it, or as its maker does."""
    target = evidence.target
    ways = [relation(asked, name, knowledge) for asked in dict.fromkeys((target.official_model, target.model))]
    return "same" if "same" in ways else ways[0]


def readable(body: str) -> str:
    """A refusal's text with the escapes of JSON inside JSON taken off, so that a name is found wherever it stands."""
    text = body[:20_000]
    for _ in range(3):
        text = text.replace('\\"', '"').replace("\\\\", "\\")
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m.group(1), 16)), text)


def _planned(evidence: Evidence) -> bool:
    return evidence.plan is not None and 3 in evidence.plan.checks


def _leaks(evidence: Evidence, knowledge: Knowledge) -> list[Leak]:
    """What the answers to oversized limits say; a generation says nothing here, a refusal under status 200 does."""
    found = []
    for _, exchange in _of_case(evidence, OVERSIZE):
        if exchange.response is None or is_generation(exchange, evidence.pack):
            continue
        text = readable(exchange.response.body)
        for row in knowledge.limits:
            if (read := row.read(text)) is not None and row.age(evidence.started_at.date()) != "expired":
                found.append(Leak(exchange.id, read[0], read[1], row.vendor))
                break
    return found


def _of_case(evidence: Evidence, case: str, side: Side = "relay") -> list[tuple[Step, Exchange]]:
    steps = [s for s in evidence.plan.steps if s.case == case and s.side == side] if evidence.plan else []
    return [(step, exchange) for step in steps if (exchange := evidence.of_step(step.id)) is not None]


def _leaked(leaks: list[Leak], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """A name of another model is a second, independent source; a limit of another model without a name is a sign."""
    asked = evidence.target.official_model
    named = [leak for leak in leaks if leak.model and relation(asked, leak.model, knowledge) == "another"]
    if named:
        name = _commonest(leak.model for leak in named)
        return [
            finding("model.substituted", {"requested": asked, "untrusted_leaked": name, "road": "error_text", "n": len(named)},
                    exchanges=tuple(leak.exchange for leak in named), confidence="strong", evidence_level="observed_pattern",
                    basis="known_list", expected={"model": asked}, observed={"untrusted_model": name})
        ]  # fmt: skip
    limit = _vendors_limit(evidence, knowledge)
    other = [leak for leak in leaks if not leak.model and limit and leak.cap != limit]
    if not other:
        return []
    fits = _with_limit(other[0].cap, knowledge)
    return [
        finding("model.limit_mismatch", {"requested": asked, "cap": other[0].cap, "expected_cap": limit, "fits": fits},
                exchanges=tuple(leak.exchange for leak in other), outcome="mismatch" if fits else "inconclusive",
                severity="low" if fits else "info", evidence_level="official_doc", basis="known_list",
                expected={"max_output": limit}, observed={"max_output": other[0].cap})
    ]  # fmt: skip


def _vendors_limit(evidence: Evidence, knowledge: Knowledge) -> int | None:
    """What the vendor names today for the very same body, else what it named or published before."""
    texts = [
        readable(e.response.body) for _, e in _of_case(evidence, OVERSIZE, "official") if e.response and e.status != 200
    ]
    live = {read[0] for text in texts for row in knowledge.limits if (read := row.read(text)) is not None}
    return (
        live.pop()
        if len(live) == 1
        else knowledge.max_output_of(evidence.target.official_model, evidence.started_at.date())
    )


def _with_limit(cap: int, knowledge: Knowledge) -> list[str]:
    return sorted(model.name for model in knowledge.models if model.max_output == cap)[:6]


def _matches(leaks: list[Leak], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """The claimed model, where a road that tells it from its siblings was open; else not verifiable."""
    asked = evidence.target.official_model
    named = [leak.exchange for leak in leaks if leak.model and relation(asked, leak.model, knowledge) == "same"]
    signed = [x for x, name in _signed(evidence, knowledge) if relation(asked, name, knowledge) == "same"]
    kept = _rules_kept(evidence, knowledge)
    roads = ["error_text"] * bool(named) + ["signature"] * bool(signed)
    params: dict[str, Any] = {"requested": asked, "roads": roads, "siblings": _siblings(asked, kept, knowledge)}
    if roads:
        n = len(named) + len(signed)
        params |= {"n": n, "share_bound": percent(unseen_share(n))}
        return [
            finding("model.matches", params, exchanges=(*named, *signed), confidence="supporting",
                    evidence_level="observed_pattern", basis="known_list", expected={"model": asked},
                    observed={"model": asked, "rules_kept": kept})
        ]  # fmt: skip
    tried = [e.id for case in (OVERSIZE, *kept) for _, e in _of_case(evidence, case)]
    params["reason"] = _why_closed(evidence, leaks)
    return [
        finding(
            "model.not_verifiable", params, exchanges=tuple(tried), confidence="weak", observed={"rules_kept": kept}
        )
    ]


def _why_closed(evidence: Evidence, leaks: list[Leak]) -> str:
    sent = _of_case(evidence, OVERSIZE)
    if not sent:
        return "not_sent"
    if any(is_generation(e, evidence.pack) for _, e in sent):
        return "limit_not_refused"
    return "no_name_in_text" if leaks else "text_rewritten"


def _rules_kept(evidence: Evidence, knowledge: Knowledge) -> list[str]:
    """Cases in which the relay refused, in the vendor's words, just what the claimed model refuses."""
    facts = knowledge.model(evidence.target.official_model)
    refused = {trait for trait, refuses in facts.refuses.items() if refuses} if facts else set()
    kept = []
    for step in evidence.plan.steps if evidence.plan else ():
        exchange = evidence.of_step(step.id)
        trait = TRAITS.get(step.case)
        if (
            step.side == "relay"
            and trait in refused
            and exchange
            and exchange.response
            and exchange.response.status >= 400
        ):
            kept += [step.case] if RULE_TEXT.search(readable(exchange.response.body)) else []
    return kept


TRAITS = {"thinking_enabled": "thinking_enabled", "thinking_disabled": "thinking_disabled", "sampling_half": "sampling",
          "prefill": "prefill", "forced_tool": "forced_tool"}  # fmt: skip
RULE_TEXT = re.compile(
    r"not supported (?:for|on) this model|does not support assistant message prefill|deprecated for this model|"
    r"not supported on this model"
)


def _siblings(asked: str, kept: list[str], knowledge: Knowledge) -> list[str]:
    """Models of the same class that keep the same rules: what the rules alone cannot tell from the claimed one."""
    own = knowledge.model(asked)
    traits = {TRAITS[case] for case in kept}

    def alike(model: ModelFacts) -> bool:
        if own is None or model.name == own.name or model.family != own.family:
            return False
        return all(model.refuses.get(trait, True) for trait in traits)

    return sorted(model.name for model in knowledge.models if alike(model))[:8]


def _till(evidence: Evidence) -> list[Finding]:
    """A reserve that the relay refused before any upstream call: no name, but the ratio it works with."""
    for step, exchange in _of_case(evidence, OVERSIZE):
        match = (
            NEEDED.search(exchange.response.body)
            if exchange.response and exchange.response.status in (400, 403)
            else None
        )
        if match is None:
            continue
        tokens = max(step.estimate, 500) + (step.output_limit or 0)
        rate = Decimal(match.group(1)) * 1_000_000 / tokens if tokens else Decimal(0)
        params = {"needed": match.group(1), "per_mtok": money(rate.quantize(Decimal("0.0001")))}
        return [finding("billing.gated_at_till", params, exchanges=(exchange.id,), basis="relay_word")]
    return []


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
    answers = [(e.id, pointer(e.answer(), evidence.pack.answer.model)) for e in evidence.answers() if e.status == 200]
    other = [(x, n) for x, n in answers if isinstance(n, str) and n and _held_to(n, evidence, knowledge) == "another"]
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
