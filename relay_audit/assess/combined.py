"""Two independent signs that only together carry an accusation: neither assessor sees the other's."""

from __future__ import annotations

from relay_audit.assess.model_identity import OVERSIZE, TRAITS
from relay_audit.assess.token_parity import streams_below
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer
from relay_audit.finding import Basis, Finding
from relay_audit.fingerprint import Knowledge, ModelFacts, canonical_model

HOSTS = {
    "claude": frozenset({"anthropic", "aws", "vertex", "azure", "openrouter", "converter"}),
    "gpt": frozenset({"openai", "azure", "openrouter", "converter"}),
}
"""How a model's name begins → the channels on which it is served. What another channel's servers mint is another model's."""
ANYBODYS = frozenset({"openrouter", "converter", "azure"})
"""Channels that serve models of many makers."""
MIN_RULES = 2
"""Fields of different kinds that must have been taken: one may be dropped by a program in between."""
MIN_DOUBTED = 2
"""Signatures that must say so: one alone may be a slip."""


def in_combination(found: list[Finding], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """The findings, with what two of them say together. Nothing is taken away that said more alone."""
    counted = _by_limit_and_tokenizer(_by_channel_and_tokenizer(found, evidence))
    counted = _by_tool_prompt_and_rules(counted, knowledge)
    named = _by_limit_and_name(counted, evidence, knowledge)
    signed = _signed_and_seen(_by_limit_taken(named), evidence, knowledge)
    return _signed_elsewhere(signed, evidence, knowledge)


def _tokenizer(found: list[Finding]) -> Finding | None:
    return next((f for f in found if f.code == "tokens.tokenizer_differs" and f.outcome == "mismatch"), None)


def _by_channel_and_tokenizer(found: list[Finding], evidence: Evidence) -> list[Finding]:
    """One kind of sign for a channel that does not serve the claimed model, and a count that is not that model's."""
    elsewhere = next((f for f in found if f.code == "channel.mismatch" and f.severity == "low"), None)
    count = _tokenizer(found)
    maker = next((name for name in HOSTS if canonical_model(evidence.target.official_model).startswith(name)), "")
    if elsewhere is None or count is None or not maker or elsewhere.params["channel"] in HOSTS[maker]:
        return found
    kinds = [*elsewhere.observed.get("kinds", []), "tokenizer"]
    heavier = elsewhere.model_copy(
        update={
            "severity": "high",
            "confidence": "strong",
            "observed": {**elsewhere.observed, "kinds": kinds},
            "exchanges": tuple(dict.fromkeys((*elsewhere.exchanges, *count.exchanges))),
        }
    )
    return [heavier if f is elsewhere else f for f in found]


def _by_limit_taken(found: list[Finding]) -> list[Finding]:
    """Refused above another model's limit only, and what the vendor refuses for the claimed one was answered: a relay's own
    text is not behind both."""
    limit = next((f for f in found if f.code == "model.limit_mismatch" and f.severity == "low"), None)
    taken = next((f for f in found if f.code == "params.illegal_accepted" and OVERSIZE in f.params["cases"]), None)
    if limit is None or taken is None or taken.severity != "medium":
        return found
    both = tuple(dict.fromkeys((*limit.exchanges, *taken.exchanges)))
    heavier = limit.model_copy(update={"severity": "medium", "confidence": "strong", "exchanges": both})
    return [heavier if f is limit else f for f in found]


def _ids_of_the_same(limit: Finding | None, found: list[Finding]) -> Finding | None:
    """Ids of the channel that serves just the models whose limit was named, where another maker's model was asked for."""
    minted = next((f for f in found if f.code == "channel.mismatch" and f.outcome == "mismatch"), None)
    if limit is None or minted is None:
        return None
    fits = [str(name) for name in limit.params["fits"]]
    maker = next((own for own in HOSTS if fits and all(name.startswith(own) for name in fits)), "")
    anybody = canonical_model(limit.params["requested"]).startswith(maker) or minted.params["channel"] in ANYBODYS
    return minted if maker and not anybody and minted.params["channel"] in HOSTS[maker] else None


def _by_limit_and_tokenizer(found: list[Finding]) -> list[Finding]:
    """Another model's output limit, and another tokenizer: a text that a relay may have written itself, and a count."""
    limit = next((f for f in found if f.code == "model.limit_mismatch" and f.outcome == "mismatch"), None)
    count = _tokenizer(found) or _ids_of_the_same(limit, found)
    if limit is None or count is None or any(f.code == "model.substituted" for f in found):
        return found
    asked = limit.params["requested"]
    names = ", ".join(limit.params["fits"]) or str(limit.params["cap"])
    road = "limit_and_tokenizer" if count.code.startswith("tokens.") else "limit_and_ids"
    made = _substituted(limit, count, limit.basis, asked=asked, name=names, road=road, n=len(limit.exchanges))
    return [*found, made]


def _by_limit_and_name(found: list[Finding], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """Every answer names one other model, and the output limit is that model's: named in a refusal, or what the vendor
    refuses for the claimed model was answered and the named one takes so much; or the tool prompt is. A label alone would be
    nobody's fault."""
    told = next((f for f in found if f.code == "model.name_mismatch" and not f.params.get("road")), None)
    facts = (
        knowledge.model(told.params["untrusted_returned"]) if told and told.params["n"] == told.params["of"] else None
    )
    if told is None or facts is None or any(f.code == "model.substituted" for f in found):
        return found
    name = told.params["untrusted_returned"]
    limit = _limit_of(name, found, knowledge) or next((f for f in found if _takes(f, facts, evidence)), None)
    second = limit or _tool_prompt_of(name, found, knowledge)
    if second is None:
        return found
    asked, n = told.params["requested"], told.params["n"]
    road = "limit_and_name" if limit else "tool_prompt_and_name"
    made = _substituted(told, second, second.basis, asked=asked, name=name, road=road, n=n)
    return [*(f for f in found if f is not second or f.code == "model.limit_mismatch"), made]


def _by_tool_prompt_and_rules(found: list[Finding], knowledge: Knowledge) -> list[Finding]:
    """Another generation's tool prompt on the bill, and fields taken that the claimed model refuses and that generation takes.
    A field that was dropped on the way brings no prompt with it, and a prompt that was added takes no field."""
    prompt = _tool_prompt(found)
    taken = next((f for f in found if f.code == "params.illegal_accepted" and f.outcome == "mismatch"), None)
    if prompt is None or taken is None or any(f.code == "model.substituted" for f in found):
        return found
    names = [name for name in prompt.params["fits"] if _rules_of(name, found, knowledge)]
    if not names:
        return found
    asked, n, name = prompt.params["requested"], taken.params["n"], ", ".join(names)
    made = _substituted(prompt, taken, taken.basis, asked=asked, name=name, road="tool_prompt_and_rules", n=n)
    return [made if f is prompt else f for f in found]


def _tool_prompt(found: list[Finding]) -> Finding | None:
    return next((f for f in found if f.code == "model.tool_prompt_differs" and f.outcome == "mismatch"), None)


def _tool_prompt_of(name: str, found: list[Finding], knowledge: Knowledge) -> Finding | None:
    """The tool prompt, where it fits the model of this name."""
    facts, prompt = knowledge.model(name), _tool_prompt(found)
    return prompt if prompt and facts and facts.name in prompt.params["fits"] else None


def _substituted(first: Finding, second: Finding, basis: Basis, *, asked: str, name: str, road: str, n: int) -> Finding:
    """Another model, by two signs of which neither would be enough."""
    return finding(
        "model.substituted",
        {"requested": asked, "untrusted_leaked": name, "road": road, "n": n},
        exchanges=tuple(dict.fromkeys((*first.exchanges, *second.exchanges))),
        confidence="strong",
        evidence_level="observed_pattern",
        basis=basis,
        expected={**first.expected, **second.expected},
        observed={**first.observed, **second.observed},
    )


def _takes(item: Finding, facts: ModelFacts, evidence: Evidence) -> bool:
    """Whether this is an answer to an output limit that need not have been lowered: for all that is known, the model of
    these facts has so much."""
    if item.code != "params.clamped" or item.outcome != "mismatch" or item.params["cases"] != [OVERSIZE]:
        return False
    sent = [s.output_limit or 0 for s in evidence.plan.steps if s.case == OVERSIZE] if evidence.plan else []
    return bool(sent) and (facts.max_output is None or max(sent) <= facts.max_output)


def _signed_and_seen(found: list[Finding], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """A signature that names another model, and what no signature can bring about: the tokens are another tokenizer's,
    fields are taken that the claimed model refuses and the signed one takes, or the output limit or the tool prompt is the
    signed one's. One field alone may have been dropped."""
    signed = next((f for f in found if f.code == "model.name_mismatch" and f.params.get("road") == "signature"), None)
    if signed is None or any(f.code == "model.substituted" for f in found):
        return found
    count, taken = _tokenizer(found), _rules_of(signed.params["untrusted_returned"], found, knowledge)
    limit = _limit_of(signed.params["untrusted_returned"], found, knowledge)
    prompt = _tool_prompt_of(signed.params["untrusted_returned"], found, knowledge)
    second = count or taken or limit or prompt
    streams = () if second else _streams_beside(signed, evidence)
    if second is None and not streams:
        return found
    made = finding(
        "model.substituted",
        {
            "requested": signed.params["requested"],
            "untrusted_leaked": signed.params["untrusted_returned"],
            "road": "signature_and_tokenizer"
            if not second or count
            else f"signature_and_{'rules' if taken else 'limit' if limit else 'tool_prompt'}",
            "n": signed.params["n"],
        },
        exchanges=tuple(dict.fromkeys((*signed.exchanges, *(second.exchanges if second else streams)))),
        confidence="strong",
        evidence_level="observed_pattern",
        basis=second.basis if second else evidence.target.official_basis,
        expected={**(second.expected if second else {}), **signed.expected},
        observed={**(second.observed if second else {}), **signed.observed},
    )
    return [made if f is signed else f for f in found if f is not prompt or second is not prompt]


def _limit_of(name: str, found: list[Finding], knowledge: Knowledge) -> Finding | None:
    """The output limit that was named, where it is that of the model of this name."""
    facts = knowledge.model(name)
    limit = next((f for f in found if f.code == "model.limit_mismatch" and f.outcome == "mismatch"), None)
    return limit if limit and facts and facts.max_output == limit.params["cap"] else None


def _streams_beside(signed: Finding, evidence: Evidence) -> tuple[str, ...]:
    """Where all signatures of the other model came in streams: the streamed texts that another tokenizer counted."""
    streamed = {e.id for e in evidence.exchanges if e.streamed() is not None}
    return streams_below(evidence) if set(signed.exchanges) <= streamed else ()


def _rules_of(name: str, found: list[Finding], knowledge: Knowledge) -> Finding | None:
    """What was taken against the claimed model's rules, where all of it is what the model of this name takes."""
    facts = knowledge.model(name)
    taken = next((f for f in found if f.code == "params.illegal_accepted" and f.outcome == "mismatch"), None)
    if facts is None or taken is None:
        return None
    traits = [TRAITS[case] for case in taken.params["cases"] if case in TRAITS]
    fits = len(traits) >= MIN_RULES and all(facts.refuses.get(trait) is False for trait in traits)
    return taken if fits else None


def _signed_elsewhere(found: list[Finding], evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """A signature of another platform under ids of the vendor, and usage that lacks the region which every answer of the
    vendor has for this model: what cannot be rewritten, and what a rewriter forgets."""
    doubt = next((f for f in found if f.code == "channel.signals_contradict" and f.severity == "low"), None)
    if doubt is None or len(doubt.exchanges) < MIN_DOUBTED or not _without_region(evidence, knowledge):
        return found
    pairs = [*doubt.params["pairs"], "usage: no inference_geo"]
    heavier = doubt.model_copy(
        update={"severity": "medium", "confidence": "strong", "params": {**doubt.params, "pairs": pairs}}
    )
    return [heavier if f is doubt else f for f in found]


def _without_region(evidence: Evidence, knowledge: Knowledge) -> bool:
    facts = knowledge.model(evidence.target.official_model)
    if facts is None or not facts.inference_geo or facts.age(evidence.started_at.date()) != "fresh":
        return False
    answers = [e.answer() for e in evidence.answers() if e.status == 200 and e.streamed() is None]
    return bool(answers) and all(pointer(answer, "/usage/inference_geo") is None for answer in answers)
