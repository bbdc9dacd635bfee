"""Check 1: which channel do the answers come from? A list of signals, never a prefix.

Each signal (shape and clock of an id, request id, tool id, header family, error shell) names channels with a strength
and a date. Agreement raises confidence; contradiction inside one answer is itself the finding; what today's knowledge
does not know is `channel.unknown`, never guilty.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from relay_audit.assess.channel_signals import HARD, Sample, read_sample
from relay_audit.assess.relay_trail import chained, pooled, way_of
from relay_audit.bounds import percent, share_interval, unseen_share
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer
from relay_audit.finding import Confidence, Finding, Severity
from relay_audit.fingerprint import Knowledge
from relay_audit.ids import Reading, read_id
from relay_audit.prompt_text import question_of


def assess_channel(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    samples = [read_sample(exchange, evidence, knowledge) for exchange in evidence.routed() if exchange.response]
    answers = [s for s in samples if s.signals or s.message_id]
    if not answers:
        return []
    return [
        *_replayed(answers, evidence),
        *([] if _scheme_moved(evidence, knowledge) else _reminted(answers)),
        *_channel(answers, evidence, way_of(evidence, knowledge)),
        *chained(evidence, knowledge),
        *pooled(evidence, knowledge),
    ]


def _scheme_moved(evidence: Evidence, knowledge: Knowledge) -> bool:
    """Whether the vendor's own answers of this run break the scheme too: then the list is old, and nobody's id bad."""
    readings: dict[str, list[Reading]] = {"message_id": [], "request_id": []}
    day = evidence.started_at.date()
    for exchange in evidence.exchanges:
        if exchange.side != "official" or exchange.response is None:
            continue
        texts = {"message_id": pointer(exchange.answer(), evidence.pack.answer.id) if exchange.status == 200 else None,
                 "request_id": exchange.response.header("request-id")}  # fmt: skip
        for kind, text in texts.items():
            if isinstance(text, str) and text:
                readings[kind].append(read_id(kind, text, exchange, knowledge, day, evidence.pack.dialect))
    seen = readings["message_id"] or readings["request_id"]
    return bool(seen) and all(reading.shape is None or reading.fault for reading in seen)


def _replayed(samples: list[Sample], evidence: Evidence) -> list[Finding]:
    # One question that is asked again, under whatever limit or temperature, is another matter.
    bodies = {e.id: question_of(e.request.body) if e.request.body else e.id for e in evidence.exchanges}
    once = {(s.message_id, bodies.get(s.exchange)): s for s in samples if s.message_id and not _is_constant(s)}
    counted = Counter(s.message_id for s in once.values())
    again = {item for item, times in counted.items() if times > 1}
    if not again:
        return []
    hit = tuple(s.exchange for s in samples if s.message_id in again)
    return [
        finding("channel.id_replayed", {"n": len(hit), "of": sum(counted.values())}, exchanges=hit, confidence="strong",
                observed={"distinct_ids": len(counted)}, expected={"distinct_ids": sum(counted.values())})
    ]  # fmt: skip


def _is_constant(sample: Sample) -> bool:
    """An id that some software writes into every answer is not an answer given twice."""
    return sample.reading is not None and sample.reading.shape is not None and sample.reading.shape.constant


def _reminted(samples: list[Sample]) -> list[Finding]:
    """Ids of the vendor's form outside its scheme or its clock. Answers that contradict themselves speak there."""
    of = [s for s in samples if s.reading is not None and not s.contradicts]
    bad = [s for s in of if s.reading is not None and s.reading.fault and s.reading.age != "expired"]
    if not bad or len({s.message_id for s in bad}) < min(len(bad), 2):
        return []
    enough = sum(s.reading is not None and s.reading.age == "fresh" for s in bad) >= 3
    reasons = Counter(s.reading.fault for s in bad if s.reading)
    return [
        finding(
            "channel.id_reminted",
            {"n": len(bad), "of": len(of), "reason": reasons.most_common(1)[0][0]},
            exchanges=tuple(s.exchange for s in bad),
            outcome="mismatch" if enough else "inconclusive",
            severity="low" if enough else "info",
            evidence_level="observed_pattern",
            basis="known_list",
        )
    ]


def _channel(samples: list[Sample], evidence: Evidence, way: dict[str, Any]) -> list[Finding]:
    if torn := [s for s in samples if s.unsigned.contradicts]:
        return [_contradiction(torn, samples)]
    doubted = [s for s in samples if s.contradicts]  # only the signature says otherwise
    rest = [s.unsigned if s in doubted else s for s in samples]
    found = _by_names(rest, evidence, way)
    if not doubted:
        return found
    return [*(f for f in found if f.outcome != "match"), _doubt(doubted, samples)]


FEW_REFUSALS = 3
"""So many refusals must name another channel than the answers do: a relay retries elsewhere what one channel refuses."""


SEVERAL = 2
"""So many refusals in another maker's words: one may be of a second line that only takes what the first refuses."""
PLATFORMS = ("anthropic", "aws", "vertex", "azure")
"""Where the same model is sold too; any other maker's words are another model's."""


def _heard(samples: list[Sample], evidence: Evidence) -> list[Sample]:
    """Samples that name a channel; refusals that say otherwise than all answers count only where there are several."""
    named = [s for s in samples if s.named]
    served = {e.id for e in evidence.answers() if e.status == 200}
    said = frozenset().union(*(s.named for s in named if s.exchange in served))
    stray = [s for s in named if s.exchange not in served and said and not s.named & said]
    return [s for s in named if s not in stray] if len(stray) < FEW_REFUSALS else named


def _by_names(samples: list[Sample], evidence: Evidence, way: dict[str, Any]) -> list[Finding]:
    worded = [s for s in samples if _in_a_makers_words(s)]
    named = _heard([s for s in samples if s not in worded], evidence)
    if not named:
        named, worded = worded, []
    if not named:
        return [_unknown(samples, way)]
    claimed = evidence.target.claim.channel
    groups: dict[str, list[Sample]] = {}
    for sample in named:
        groups.setdefault(_one_name(sample, claimed), []).append(sample)
    if len(groups) > 1 and (shared := frozenset.intersection(*(s.named for s in named))):
        groups = {min(shared): named}  # one channel explains them all; some answers only say it less exactly
    if len(groups) > 1:
        return [_mixed(groups, claimed)]
    channel, members = next(iter(groups.items()))
    strange = [s for s in worded if channel not in s.named]
    if len(strange) >= FEW_REFUSALS:
        return [_mixed({channel: members, _one_name(strange[0], claimed): strange}, claimed)]
    if claimed in ("unknown", channel):
        return [_match(channel, claimed, members, way)]
    return [_mismatch(channel, claimed, members, samples, way)]


def _in_a_makers_words(sample: Sample) -> bool:
    """A refusal that only its words speak for, which are those of one maker wherever its models are sold. Where anything
    else names a channel it neither narrows nor replaces that: what one line refuses may have been asked of another."""
    kinds = {signal.kind for signal in sample.naming}
    return kinds == {"error_shell"} and bool(sample.named - set(PLATFORMS))


def _one_name(sample: Sample, claimed: str) -> str:
    """The claim where the signals allow it, else the first of what they name: the maker before a platform that sells its
    models too."""
    if claimed in sample.named or _allowed_by_headers(sample, claimed):
        return claimed
    return min(sample.named, key=lambda channel: (channel in PLATFORMS, channel))


def _allowed_by_headers(sample: Sample, claimed: str) -> bool:
    """A header family that several channels share (the vendor's platform sold through a cloud) excuses the claim."""
    return any(
        s.kind == "headers" and len(s.channels) > 1 and claimed in s.channels and s.channels & sample.named
        for s in sample.signals
    )


def _kinds(samples: list[Sample]) -> list[str]:
    return sorted({signal.kind for sample in samples for signal in sample.naming})


def _prints(samples: list[Sample]) -> list[str]:
    return sorted({signal.fingerprint for sample in samples for signal in sample.naming})


def _match(channel: str, claimed: str, members: list[Sample], way: dict[str, Any]) -> Finding:
    strong = len(_kinds(members)) >= 2
    return finding(
        "channel.matches",
        {"claimed": claimed, "channel": channel, "n": len(members), "share_bound": percent(unseen_share(len(members))),
         "signals": _prints(members)},
        exchanges=tuple(s.exchange for s in members),
        confidence="strong" if strong else "supporting",
        evidence_level="observed_pattern",
        basis="known_list",
        expected={"channel": claimed},
        observed={"channel": channel, "kinds": _kinds(members), **way},
    )  # fmt: skip


def _mismatch(channel: str, claimed: str, members: list[Sample], samples: list[Sample], way: dict[str, Any]) -> Finding:
    against = [signal for sample in members for signal in sample.naming if claimed not in signal.channels]
    independent = len({signal.kind for signal in against}) >= 2
    hard = any(signal.strength in HARD for signal in against)
    once = (
        len(members) < SEVERAL and {signal.kind for signal in against} == {"error_shell"} and channel not in PLATFORMS
    )
    return finding(
        "channel.mismatch",
        {"claimed": claimed, "channel": channel, "n": len(members), "of": len(samples), "signals": _prints(members)},
        exchanges=tuple(s.exchange for s in members),
        outcome="inconclusive" if once else None,
        severity="info" if once else ("high" if hard else "medium") if independent else "low",
        confidence="strong" if independent and hard else "supporting",
        evidence_level="observed_pattern",
        basis="known_list",
        expected={"channel": claimed},
        observed={"channel": channel, "kinds": _kinds(members), **way},
    )


def _mixed(groups: dict[str, list[Sample]], claimed: str) -> Finding:
    n = sum(map(len, groups.values()))
    shares = {}
    for name, members in sorted(groups.items()):
        low, high = share_interval(len(members), n)
        shares[name] = {"n": len(members), "low": percent(low), "high": percent(high)}
    hard = all(any(s.strength in HARD for sample in members for s in sample.naming) for members in groups.values())
    return finding(
        "channel.mixed",
        {"claimed": claimed, "shares": shares, "n": n, "signals": _prints([s for m in groups.values() for s in m])},
        exchanges=tuple(s.exchange for m in groups.values() for s in m),
        outcome="mismatch" if hard else "inconclusive",
        severity="medium" if hard else "info",
        confidence="strong" if hard else "supporting",
        evidence_level="observed_pattern",
        basis="known_list",
        expected={"channels": 1},
        observed={"channels": len(groups)},
    )


def _contradiction(torn: list[Sample], samples: list[Sample]) -> Finding:
    enough = len(torn) >= 2 and all(any(s.strength in HARD for s in sample.naming) for sample in torn)
    return _against_itself(
        torn, samples, severity="medium" if enough else "info", confidence="strong" if enough else "weak"
    )


def _doubt(doubted: list[Sample], samples: list[Sample]) -> Finding:
    """A signature against all else of its answer: the sign that cannot be forged, and the one least is known of."""
    enough = len(doubted) >= 2
    severity: Severity = "low" if enough else "info"
    return _against_itself(doubted, samples, severity=severity, confidence="supporting" if enough else "weak")


def _against_itself(
    torn: list[Sample], samples: list[Sample], *, severity: Severity, confidence: Confidence
) -> Finding:
    pairs = sorted({f"{s.kind}: {'/'.join(sorted(s.channels))}" for sample in torn for s in sample.naming})
    return finding(
        "channel.signals_contradict",
        {"n": len(torn), "of": len(samples), "pairs": pairs},
        exchanges=tuple(s.exchange for s in torn),
        outcome="inconclusive" if severity == "info" else "mismatch",
        severity=severity,
        confidence=confidence,
        evidence_level="observed_pattern",
        basis="known_list",
        observed={"signals": pairs},
    )


def _unknown(samples: list[Sample], way: dict[str, Any]) -> Finding:
    shapes = sorted({_shape_word(s) for s in samples})
    return finding(
        "channel.unknown",
        {"n": len(samples), "shapes": shapes},
        exchanges=tuple(s.exchange for s in samples),
        confidence="weak",
        evidence_level="observed_pattern",
        basis="known_list",
        observed=way,
    )


def _shape_word(sample: Sample) -> str:
    """A name for a shape; the id itself is a stranger's text."""
    if sample.reading is not None and sample.reading.shape is not None:
        return sample.reading.shape.id
    return f"{len(sample.message_id)} characters" if sample.message_id else "no id"
