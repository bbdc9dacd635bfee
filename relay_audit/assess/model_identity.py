"""Check 3: which model answers? Six names are kept apart: requested, sent, returned, leaked in an error, headed, logged.

Four roads can lead to a name: what the relay's own header or log admits, the vendor's refusal of an oversized output
limit, rules that separate the generations, and the clear part of a thinking signature. Counts are signs. A road that was
not open proves nothing, and where none was, the model is `not_verifiable`, never a pass.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from relay_audit.assess.channel_signals import signatures_of
from relay_audit.assess.long_bodies import longest_of
from relay_audit.assess.model_names import commonest, names_told, relation
from relay_audit.assess.tool_prompt import excluded_by_tool_prompt, tool_prompt_findings
from relay_audit.assess.tripped import tripped
from relay_audit.books import SiteFacts
from relay_audit.bounds import percent, unseen_share
from relay_audit.codes import finding
from relay_audit.error_text import turned_away
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge, ModelFacts
from relay_audit.plan import Step
from relay_audit.signature import Header
from relay_audit.usage import is_generation
from relay_audit.words import Side, money

OVERSIZE = "max_tokens_above_limit"
NEXT_OVERSIZE = "max_tokens_above_next_limit"
"""Asked where the first was answered: what refuses only above a larger limit has that limit."""
LIMITS = (OVERSIZE, NEXT_OVERSIZE)
NEEDED = re.compile(r"(?:需要预扣费额度|need quota)[:：]\s*([^\d\s]{0,4})\s*(\d+(?:\.\d+)?)")
"""What a refused reserve says it would have taken, and in which currency; the sign is the site's own."""
DOLLAR, YUAN = frozenset("$＄"), frozenset("¥￥")


class Leak(NamedTuple):
    """What a refusal says that gives a model away."""

    exchange: str
    cap: int | None
    """The limit that it names; None where it is about something else."""
    model: str
    vendor: str


def assess_model_identity(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    leaks = _leaks(evidence, knowledge)
    found = [
        *names_told(evidence, knowledge),
        *_leaked(leaks, evidence, knowledge),
        *_till(evidence),
    ]
    found += _signed_by_another(found, evidence, knowledge)
    if not any(f.code == "model.substituted" for f in found):
        found += tool_prompt_findings(evidence, knowledge)
    if _asked_for(evidence) and not any(f.code.startswith("model.") and f.severity != "info" for f in found):
        found += _matches(leaks, evidence, knowledge)
    return found


def _signed(evidence: Evidence, knowledge: Knowledge) -> list[tuple[str, str]]:
    """Exchange and model, from the clear headers of thinking signatures; nothing once the layout is old knowledge."""
    day = evidence.started_at.date()
    if not any(row.age(day) == "fresh" for row in knowledge.signatures):
        return []
    return [(e.id, h.model) for e in evidence.routed() for h in signatures_of(e, evidence.pack) if h.model]


def _signed_by_another(found: list[Finding], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """A signature that names another model: once, a low sign. A substitution where another source names the same model, or
    where every signature does and nothing else names a third: a name in a text is rewritten, a signature is not, since the
    vendor checks it. What the vendor signs too is held against nobody."""
    asked, signed = evidence.target.official_model, _signed(evidence, knowledge)
    other = [(x, name) for x, name in signed if relation(asked, name, knowledge) == "another"]
    if not other:
        return []
    name = commonest(name for _, name in other)
    if any(knowledge.same_model(name, h.model) for h in _of_the_vendor(evidence)):
        return []
    told = [(f, str(f.observed.get("untrusted_model", ""))) for f in found if f.outcome == "mismatch"]
    agreeing = [f for f, other_name in told if knowledge.same_model(name, other_name)]
    if any(f.code == "model.substituted" for f in agreeing):
        return []
    alike = len(signed) > 1 and all(knowledge.same_model(name, other_name) for _, other_name in signed)
    speak = partial(finding, exchanges=tuple(x for x, _ in other), evidence_level="observed_pattern", basis="known_list",
                    expected={"model": asked}, observed={"untrusted_model": name})  # fmt: skip
    if agreeing or (alike and not any(other_name for _, other_name in told)):
        params = {"requested": asked, "untrusted_leaked": name, "road": "signature", "n": len(other)}
        return [speak("model.substituted", params, confidence="strong")]
    named = {"requested": asked, "untrusted_returned": name, "n": len(other), "of": len(signed), "road": "signature"}
    return [speak("model.name_mismatch", named)]


def _of_the_vendor(evidence: Evidence) -> list[Header]:
    """What the official side's own signatures say, where it was asked."""
    return [h for e in evidence.exchanges if e.side == "official" for h in signatures_of(e, evidence.pack) if h.model]


def readable(body: str) -> str:
    """A refusal's text with the escapes of JSON inside JSON taken off, so that a name is found wherever it stands."""
    text = body[:20_000]
    for _ in range(3):
        text = text.replace('\\"', '"').replace("\\\\", "\\")
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m.group(1), 16)), text)


def _asked_for(evidence: Evidence) -> bool:
    """Whether the question was put: also where no probe can answer it for such a line, which has to be said."""
    return evidence.plan is not None and (3 in evidence.plan.checks or _no_probe(evidence))


def _no_probe(evidence: Evidence) -> bool:
    rows = evidence.plan.coverage if evidence.plan else ()
    return any(row.check == 3 and row.reason == "no_probe_applies" for row in rows)


def _leaks(evidence: Evidence, knowledge: Knowledge) -> list[Leak]:
    """What the refusals say that may give a model away; a generation says nothing here, a refusal under status 200 does."""
    found = []
    for _, exchange in _sent_for_a_name(evidence, knowledge):
        if exchange.response is None or is_generation(exchange, evidence.pack):
            continue
        text = readable(exchange.response.body)
        for row in knowledge.limits:
            if (read := row.read(text)) is not None and row.age(evidence.started_at.date()) != "expired":
                found.append(Leak(exchange.id, read[0], read[1], row.vendor))
                break
    return found


def refused_above(evidence: Evidence, knowledge: Knowledge) -> int | None:
    """The larger limit above which it refuses, where the claimed model's was taken: what answers has so much itself."""
    asked = {exchange.id for _, exchange in _of_case(evidence, NEXT_OVERSIZE)}
    caps = [leak.cap for leak in _leaks(evidence, knowledge) if leak.cap and leak.exchange in asked] if asked else []
    return max(caps, default=None)


def _sent_for_a_name(evidence: Evidence, knowledge: Knowledge, side: Side = "relay") -> list[tuple[Step, Exchange]]:
    return [pair for case in (*LIMITS, *knowledge.naming_cases) for pair in _of_case(evidence, case, side)]


def _of_case(evidence: Evidence, case: str, side: Side = "relay") -> list[tuple[Step, Exchange]]:
    steps = [s for s in evidence.plan.steps if s.case == case and s.side == side] if evidence.plan else []
    return [(step, exchange) for step in steps if (exchange := evidence.of_step(step.id)) is not None]


def _leaked(leaks: list[Leak], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """A name of another model is a second, independent source; a limit of another model is a sign, whether no name stands
    beside it or the one that was asked for: names in texts are rewritten, and the number stays. What the vendor calls the
    model in its own refusal is held against nobody."""
    asked = evidence.target.official_model
    named = [leak for leak in leaks if leak.model and relation(asked, leak.model, knowledge) == "another"]
    own_words = _vendors_names(evidence, knowledge) if named else set()
    named = [leak for leak in named if not any(knowledge.same_model(leak.model, name) for name in own_words)]
    if named:
        name = commonest(leak.model for leak in named)
        return [
            finding("model.substituted", {"requested": asked, "untrusted_leaked": name, "road": "error_text", "n": len(named)},
                    exchanges=tuple(leak.exchange for leak in named), confidence="strong", evidence_level="observed_pattern",
                    basis="known_list", expected={"model": asked}, observed={"untrusted_model": name})
        ]  # fmt: skip
    limit, live = _vendors_limit(evidence, knowledge)
    own = [leak for leak in leaks if not leak.model or relation(asked, leak.model, knowledge) == "same"]
    other = [leak for leak in own if limit and leak.cap not in (None, limit)]
    if not other or (cap := other[0].cap) is None:
        return []
    fits = _with_limit(cap, knowledge)
    # A limit of nobody's may be the relay's own, and a larger one of the very model is the vendor's to give; beside the
    # vendor's answer to the same body it counts.
    grown = bool(other[0].model) and limit is not None and cap > limit
    seen = live or (bool(fits) and not grown)
    return [
        finding("model.limit_mismatch", {"requested": asked, "cap": cap, "expected_cap": limit, "fits": fits},
                exchanges=tuple(leak.exchange for leak in other), outcome="mismatch" if seen else "inconclusive",
                severity="low" if seen else "info", evidence_level="official_doc", basis="known_list",
                expected={"max_output": limit}, observed={"max_output": cap})
    ]  # fmt: skip


def _vendors_limit(evidence: Evidence, knowledge: Knowledge) -> tuple[int | None, bool]:
    """What the vendor names today for the very same body (and that it does), else what it named or published before."""
    texts = [
        readable(e.response.body) for _, e in _of_case(evidence, OVERSIZE, "official") if e.response and e.status != 200
    ]
    told = [read[0] for text in texts for row in knowledge.limits if (read := row.read(text)) is not None]
    live = {cap for cap in told if cap is not None}
    if len(live) == 1:
        return live.pop(), True
    if any(is_generation(e, evidence.pack) for _, e in _of_case(evidence, OVERSIZE, "official")):
        return None, False  # the vendor takes it today: what was published is no limit any more
    return knowledge.max_output_of(evidence.target.official_model, evidence.started_at.date()), False


def _vendors_names(evidence: Evidence, knowledge: Knowledge) -> set[str]:
    """What the vendor's own refusals of these bodies call the model."""
    pairs = _sent_for_a_name(evidence, knowledge, "official")
    texts = [readable(e.response.body) for _, e in pairs if e.response and e.status != 200]
    return {read[1] for text in texts for row in knowledge.limits if (read := row.read(text)) and read[1]}


def _with_limit(cap: int, knowledge: Knowledge) -> list[str]:
    return sorted(model.name for model in knowledge.models if model.max_output == cap)[:6]


def _matches(leaks: list[Leak], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """The claimed model, where a road that tells it from its siblings was open; else not verifiable."""
    asked = evidence.target.official_model
    named = [leak.exchange for leak in leaks if leak.model and relation(asked, leak.model, knowledge) == "same"]
    signed = [x for x, name in _signed(evidence, knowledge) if relation(asked, name, knowledge) == "same"]
    kept = _rules_kept(evidence, knowledge)
    roads = ["error_text"] * bool(named) + ["signature"] * bool(signed)
    counted = excluded_by_tool_prompt(evidence, knowledge)
    siblings = [name for name in _siblings(asked, kept, knowledge) if name not in counted]
    params: dict[str, Any] = {"requested": asked, "roads": roads, "siblings": siblings, "longest": longest_of(evidence)}
    signs = {"rules_kept": kept} | ({"tool_prompt_excludes": sorted(counted)} if counted else {})
    if roads:
        n = len(named) + len(signed)
        params |= {"n": n, "share_bound": percent(unseen_share(n))}
        return [
            finding("model.matches", params, exchanges=(*named, *signed),
                    evidence_level="observed_pattern", basis="known_list", expected={"model": asked},
                    observed={"model": asked, **signs})
        ]  # fmt: skip
    tried = [e.id for case in (*LIMITS, *knowledge.naming_cases, *kept) for _, e in _of_case(evidence, case)]
    params["reason"] = _why_closed(evidence, leaks, knowledge)
    return [
        finding("model.not_verifiable", params, exchanges=tuple(tried), confidence="weak", observed=signs),
    ]


def _why_closed(evidence: Evidence, leaks: list[Leak], knowledge: Knowledge) -> str:
    sent = _sent_for_a_name(evidence, knowledge)
    if not sent:
        return "not_sent" if _road_planned(evidence, knowledge) else "no_road"
    for step, exchange in sent:
        if is_generation(exchange, evidence.pack) or tripped(step, exchange, evidence, knowledge):
            return "limit_not_refused" if step.case in LIMITS else "taken_instead"
    if all(turned_away(exchange) for _, exchange in sent):
        return "all_turned_away"
    return "no_name_in_text" if leaks else "text_rewritten"


def _road_planned(evidence: Evidence, knowledge: Knowledge) -> bool:
    """Whether something in the plan could have ended in a name, had it been sent: a refusal, or a signed thought."""
    cases = {OVERSIZE, *knowledge.naming_cases}
    steps = evidence.plan.steps if evidence.plan else ()
    return evidence.pack.claude_like or any(s.side == "relay" and s.case in cases for s in steps)


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

    return sorted(model.name for model in knowledge.models if alike(model))


def _till(evidence: Evidence) -> list[Finding]:
    """A reserve that the relay refused before any upstream call: no name, but the ratio it works with.

    new-api reserves `(max(prompt, 500) + max_tokens) × model ratio × group ratio` in quota units, without the ratio of
    the output, and says how much (source of new-api 823e2630).
    """
    for step, exchange in _of_case(evidence, OVERSIZE):
        response = exchange.response
        match = NEEDED.search(readable(response.body)) if response and response.status in (400, 403) else None
        price = evidence.quote.price_of(step.id) if evidence.quote else None
        tokens = max(price.input_tokens if price else step.estimate, 500) + (step.output_limit or 0)
        if match is None:
            continue
        needed = Decimal(match.group(2))
        dollars = _site_dollars(match.group(1), needed, evidence.site)
        params = {
            "needed": match.group(2),
            "per_mtok": money((needed * 1_000_000 / tokens).quantize(Decimal("0.0001"))),
            "ratio": "unknown" if dollars is None else _plain(dollars * evidence.site.quota_per_unit / tokens),
        }
        return [finding("billing.gated_at_till", params, exchanges=(exchange.id,), basis="relay_word")]
    return []


def _site_dollars(sign: str, printed: Decimal, site: SiteFacts) -> Decimal | None:
    """What stands behind a currency sign, as site dollars; a bare number is in the site's own display unit, and another
    sign is its custom currency. None where the site does not say what that is worth."""
    if sign and DOLLAR.issuperset(sign):
        return printed
    if sign and YUAN.issuperset(sign):
        return printed / site.usd_exchange_rate if site.usd_exchange_rate else None
    if sign:
        return printed / site.custom_rate if site.custom_rate else None
    return printed / site.quota_per_unit if site.display_type in ("", "TOKENS") else site.in_dollars(printed)


def _plain(ratio: Decimal) -> str:
    """Four decimals: what a refusal's six leave of a reserve for 128,000 tokens."""
    return f"{ratio.quantize(Decimal('0.0001')).normalize():f}"
