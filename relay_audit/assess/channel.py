"""Check 1: which channel do the answers come from? A list of signals, never a prefix.

Each signal (shape and clock of an id, request id, tool id, header family, error shell) names channels with a strength
and a date. Agreement raises confidence; contradiction inside one answer is itself the finding; what today's knowledge
does not know is `channel.unknown`, never guilty.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Confidence, Finding
from relay_audit.fingerprint import Knowledge, Known
from relay_audit.ids import Reading, read_id
from relay_audit.bounds import percent, share_interval, unseen_share

HARD: tuple[Confidence, ...] = ("decisive", "strong")


@dataclass(frozen=True)
class Signal:
    kind: str
    """message_id, request_id, tool_id, headers or error_shell: kinds are what independence is counted by."""
    fingerprint: str
    channels: frozenset[str]
    strength: Confidence
    usable: bool
    """False where the knowledge is past twice its term: it accuses nobody."""


@dataclass(frozen=True)
class Sample:
    """What one answer says of its channel."""

    exchange: str
    signals: tuple[Signal, ...]
    message_id: str = ""
    reading: Reading | None = None

    @property
    def named(self) -> frozenset[str]:
        """The channels that every naming signal of this answer allows; empty when none names one, or they contradict."""
        sets = [signal.channels for signal in self.naming]
        return frozenset.intersection(*sets) if sets else frozenset()

    @property
    def naming(self) -> tuple[Signal, ...]:
        return tuple(s for s in self.signals if s.strength != "weak" and s.channels != {"converter"} and s.usable)

    @property
    def contradicts(self) -> bool:
        return bool(self.naming) and not self.named


def assess_channel(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    samples = [_sample(exchange, evidence, knowledge) for exchange in evidence.generations() if exchange.response]
    answers = [s for s in samples if s.signals or s.message_id]
    if not answers:
        return []
    return [
        *_replayed(answers),
        *_reminted(answers),
        *_channel(answers, evidence),
        *_chained(evidence, knowledge),
        *_subscription_hint(evidence, knowledge),
    ]


def _sample(exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> Sample:
    response = exchange.response
    if response is None:
        return Sample(exchange.id, ())
    day = evidence.started_at.date()
    answer = exchange.answer()
    signals: list[Signal] = []
    message_id, reading = "", None
    if exchange.status == 200:
        raw = pointer(answer, evidence.pack.answer.id)
        message_id = raw if isinstance(raw, str) else ""
        reading = read_id("message_id", message_id, exchange, knowledge, day) if message_id else None
        signals += _from_id(reading, "message_id", evidence)
        signals += [s for tool in _tool_ids(answer, evidence) for s in _from_id(read_id("tool_id", tool, exchange, knowledge, day), "tool_id", evidence)]  # noqa: E501
    request_id = response.header("request-id") or (answer.get("request_id") if isinstance(answer, dict) else None)
    if isinstance(request_id, str):
        signals += _from_id(read_id("request_id", request_id, exchange, knowledge, day), "request_id", evidence)
    signals += [_signal(row, "headers", row.channels, row.strength, evidence) for row in knowledge.headers
                if row.valid_on(day) and row.matches(response.headers)]  # fmt: skip
    if response.status >= 400:
        signals += [_signal(row, "error_shell", row.channels, row.strength, evidence) for row in knowledge.errors
                    if row.valid_on(day) and row.seen_in(response.body)]  # fmt: skip
    return Sample(exchange.id, tuple(signals), message_id, reading)


def _from_id(reading: Reading | None, kind: str, evidence: Evidence) -> list[Signal]:
    if reading is None or reading.shape is None or reading.fault:
        return []
    return [_signal(reading.shape, kind, reading.shape.channels, reading.shape.strength, evidence)]


def _signal(row: Known, kind: str, channels: tuple[str, ...], strength: Confidence, evidence: Evidence) -> Signal:
    age = row.age(evidence.started_at.date())
    weakened: dict[Confidence, Confidence] = {"decisive": "strong", "strong": "supporting", "supporting": "weak", "weak": "weak"}
    return Signal(kind, row.id, frozenset(channels), weakened[strength] if age == "stale" else strength, age != "expired")


def _tool_ids(answer: Any, evidence: Evidence) -> list[str]:  # noqa: ANN401
    blocks = pointer(answer, evidence.pack.answer.content)
    found = [b.get("id") for b in blocks if isinstance(b, dict) and b.get("type") == "tool_use"] if isinstance(blocks, list) else []
    return [item for item in found if isinstance(item, str)]


def _replayed(samples: list[Sample]) -> list[Finding]:
    counted = Counter(s.message_id for s in samples if s.message_id)
    again = {item for item, times in counted.items() if times > 1}
    if not again:
        return []
    hit = tuple(s.exchange for s in samples if s.message_id in again)
    return [
        finding("channel.id_replayed", {"n": len(hit), "of": sum(counted.values())}, exchanges=hit, confidence="strong",
                observed={"distinct_ids": len(counted)}, expected={"distinct_ids": sum(counted.values())})
    ]  # fmt: skip


def _reminted(samples: list[Sample]) -> list[Finding]:
    """Ids that look like the vendor's and break its scheme or its clock. Answers that contradict themselves speak there."""
    of = [s for s in samples if s.reading is not None and not s.contradicts]
    bad = [s for s in of if s.reading is not None and s.reading.fault and s.reading.shape_fresh]
    if not bad or len({s.message_id for s in bad}) < min(len(bad), 2):
        return []
    enough = len(bad) >= 3
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


def _channel(samples: list[Sample], evidence: Evidence) -> list[Finding]:
    torn = [s for s in samples if s.contradicts]
    if torn:
        return _contradiction(torn, samples)
    named = [s for s in samples if s.named]
    if not named:
        return _unknown(samples)
    claimed = evidence.target.claim.channel
    groups: dict[str, list[Sample]] = {}
    for sample in named:
        groups.setdefault(_one_name(sample, claimed), []).append(sample)
    if len(groups) > 1:
        return _mixed(groups, claimed)
    channel, members = next(iter(groups.items()))
    if claimed in ("unknown", channel):
        return [_match(channel, claimed, members)]
    return [_mismatch(channel, claimed, members, samples)]


def _one_name(sample: Sample, claimed: str) -> str:
    """The claim where the signals allow it, else the first of what they name."""
    return claimed if claimed in sample.named or _allowed_by_headers(sample, claimed) else sorted(sample.named)[0]


def _allowed_by_headers(sample: Sample, claimed: str) -> bool:
    """A header family that several channels share (the vendor's platform sold through a cloud) excuses the claim."""
    return any(
        s.kind == "headers" and len(s.channels) > 1 and claimed in s.channels and s.channels & sample.named for s in sample.signals
    )


def _kinds(samples: list[Sample]) -> list[str]:
    return sorted({signal.kind for sample in samples for signal in sample.naming})


def _prints(samples: list[Sample]) -> list[str]:
    return sorted({signal.fingerprint for sample in samples for signal in sample.naming})


def _match(channel: str, claimed: str, members: list[Sample]) -> Finding:
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
        observed={"channel": channel, "kinds": _kinds(members)},
    )  # fmt: skip


def _mismatch(channel: str, claimed: str, members: list[Sample], samples: list[Sample]) -> Finding:
    independent = len(_kinds(members)) >= 2
    return finding(
        "channel.mismatch",
        {"claimed": claimed, "channel": channel, "n": len(members), "of": len(samples), "signals": _prints(members)},
        exchanges=tuple(s.exchange for s in members),
        severity="high" if independent else "low",
        confidence="strong" if independent else "supporting",
        evidence_level="observed_pattern",
        basis="known_list",
        expected={"channel": claimed},
        observed={"channel": channel, "kinds": _kinds(members)},
    )


def _mixed(groups: dict[str, list[Sample]], claimed: str) -> list[Finding]:
    n = sum(map(len, groups.values()))
    shares = {}
    for name, members in sorted(groups.items()):
        low, high = share_interval(len(members), n)
        shares[name] = {"n": len(members), "low": percent(low), "high": percent(high)}
    hard = all(any(s.strength in HARD for sample in members for s in sample.naming) for members in groups.values())
    return [
        finding(
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
    ]


def _contradiction(torn: list[Sample], samples: list[Sample]) -> list[Finding]:
    pairs = sorted({f"{s.kind}: {'/'.join(sorted(s.channels))}" for sample in torn for s in sample.naming})
    enough = len(torn) >= 2 and all(any(s.strength in HARD for s in sample.naming) for sample in torn)
    return [
        finding(
            "channel.signals_contradict",
            {"n": len(torn), "of": len(samples), "pairs": pairs},
            exchanges=tuple(s.exchange for s in torn),
            outcome="mismatch" if enough else "inconclusive",
            severity="medium" if enough else "info",
            confidence="strong" if enough else "weak",
            evidence_level="observed_pattern",
            basis="known_list",
            observed={"signals": pairs},
        )
    ]


def _unknown(samples: list[Sample]) -> list[Finding]:
    shapes = sorted({_shape_word(s) for s in samples})
    return [
        finding("channel.unknown", {"n": len(samples), "shapes": shapes}, exchanges=tuple(s.exchange for s in samples),
                confidence="weak", evidence_level="observed_pattern", basis="known_list")
    ]  # fmt: skip


def _shape_word(sample: Sample) -> str:
    """A name for a shape; the id itself is a stranger's text."""
    if sample.reading is not None and sample.reading.shape is not None:
        return sample.reading.shape.id
    return f"{len(sample.message_id)} characters" if sample.message_id else "no id"


def _chained(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    via, hits = set[str](), set[str]()
    for exchange in evidence.generations():
        headers = exchange.response.headers if exchange.response else ()
        seen = {row.family or row.name for row in knowledge.software if row.shows_in(headers)}
        if len(seen) > 1:
            via |= seen
            hits.add(exchange.id)
        if exchange.response and exchange.response.status >= 400 and exchange.response.body.count("(request id: ") > 1:
            via.add("error_text")
            hits.add(exchange.id)
    if any(row.upstream_request_id for row in evidence.own_rows()):
        via.add("relay_log")
        hits |= {row.exchange for row in evidence.own_rows() if row.upstream_request_id and row.exchange}
    if not via:
        return []
    return [finding("channel.chained_relay", {"via": sorted(via)}, exchanges=tuple(sorted(hits)), basis="relay_word")]


def _subscription_hint(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    facts = knowledge.model(evidence.target.official_model)
    if facts is None or facts.inference_geo != "global" or facts.age(evidence.started_at.date()) == "expired":
        return []
    answers = [e for e in evidence.generations() if e.status == 200]
    hits = tuple(e.id for e in answers if pointer(e.answer(), "/usage/inference_geo") == "not_available")
    if len(hits) < 3:
        return []
    contrary = evidence.target.claim.channel == "anthropic"
    return [
        finding("channel.subscription_pool_hint", {"n": len(hits), "of": len(answers)}, exchanges=hits,
                severity="low" if contrary else "info", evidence_level="observed_pattern", basis="known_list",
                expected={"inference_geo": "global"}, observed={"inference_geo": "not_available"})
    ]  # fmt: skip

