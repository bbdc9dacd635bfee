"""What one answer says of its channel: signals from ids, headers, refusals and the header of a thinking signature.

A signature names a platform and cannot be written by a relay without the vendor noticing; recorded ones agree, yet few
were seen since August 2026. Alone it supports; with an id or a header of the same answer that agrees it is strong. What
cannot be read is no signal at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Confidence
from relay_audit.fingerprint import Knowledge, Known
from relay_audit.ids import Reading, read_id
from relay_audit.pack import Pack
from relay_audit.signature import Header, read_signature

HARD: tuple[Confidence, ...] = ("decisive", "strong")
WEAKENED: dict[Confidence, Confidence] = {
    "decisive": "strong",
    "strong": "supporting",
    "supporting": "weak",
    "weak": "weak",
}
SIGNED = {"thinking": "signature", "redacted_thinking": "data"}
"""Block type → where its signature stands."""


@dataclass(frozen=True)
class Signal:
    kind: str
    """One of message_id, request_id, tool_id, headers, body, error_shell, signature: independence is counted by it."""
    fingerprint: str
    channels: frozenset[str]
    strength: Confidence
    usable: bool
    """False where the knowledge is past twice its term: it accuses nobody."""

    @property
    def naming(self) -> bool:
        return self.strength != "weak" and self.channels != {"converter"} and self.usable


@dataclass(frozen=True)
class Sample:
    """What one answer says of its channel."""

    exchange: str
    signals: tuple[Signal, ...]
    message_id: str = ""
    reading: Reading | None = None

    @property
    def named(self) -> frozenset[str]:
        """The channels that every naming signal allows; empty when none names one, or they contradict."""
        sets = [signal.channels for signal in self.naming]
        return frozenset.intersection(*sets) if sets else frozenset()

    @property
    def naming(self) -> tuple[Signal, ...]:
        return tuple(signal for signal in self.signals if signal.naming)

    @property
    def contradicts(self) -> bool:
        return bool(self.naming) and not self.named

    @property
    def unsigned(self) -> Sample:
        """The same answer without what its signature says."""
        return replace(self, signals=tuple(signal for signal in self.signals if signal.kind != "signature"))


def read_sample(exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> Sample:
    """All signals of one answer. Headers are not copied onto every stream; what is missing is neutral."""
    response = exchange.response
    if response is None:
        return Sample(exchange.id, ())
    day, dialect = evidence.started_at.date(), evidence.pack.dialect
    answer = exchange.answer()
    signals: list[Signal] = []
    message_id, reading = "", None
    if exchange.status == 200:
        raw = pointer(answer, evidence.pack.answer.id)
        message_id = raw if isinstance(raw, str) else ""
        reading = read_id("message_id", message_id, exchange, knowledge, day, dialect) if message_id else None
        signals += _from_id(reading, "message_id", evidence)
        for tool in _tool_ids(answer, evidence.pack):
            signals += _from_id(read_id("tool_id", tool, exchange, knowledge, day, dialect), "tool_id", evidence)
        spoken = (mark for mark in knowledge.bodies if mark.valid_on(day) and mark.spoken_in(dialect))
        marks = [mark for mark in spoken if mark.stands_in(answer, response.body)]
        signals += [_signal(mark, "body", mark.channels, mark.strength, evidence) for mark in marks]
    request_id = response.header("request-id") or (answer.get("request_id") if isinstance(answer, dict) else None)
    if isinstance(request_id, str):
        signals += _from_id(
            read_id("request_id", request_id, exchange, knowledge, day, dialect), "request_id", evidence
        )
    signals += [_signal(row, "headers", row.channels, row.strength, evidence) for row in knowledge.headers
                if row.valid_on(day) and row.matches(response.headers)]  # fmt: skip
    if response.status >= 400:
        signals += [_signal(row, "error_shell", row.channels, row.strength, evidence) for row in knowledge.errors
                    if row.valid_on(day) and row.seen_in(response.readable())]  # fmt: skip
    signed = _from_signatures(exchange, evidence, knowledge)
    return Sample(exchange.id, (*signals, *_supported(signed, signals)), message_id, reading)


def signatures_of(exchange: Exchange, pack: Pack) -> list[Header]:
    """The readable headers of an answer's thinking signatures."""
    headers = (read_signature(text) for text in signed_texts(exchange, pack))
    return [header for header in headers if header is not None]


def signed_texts(exchange: Exchange, pack: Pack) -> list[str]:
    """The signatures of an answer's thinking blocks, as they came."""
    if exchange.status != 200:
        return []
    texts = (
        block.get(SIGNED[block["type"]]) for block in _blocks(exchange.answer(), pack) if block.get("type") in SIGNED
    )
    return [text for text in texts if isinstance(text, str) and text]


def _from_signatures(exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> list[Signal]:
    day = evidence.started_at.date()
    found = {
        row.id: _signal(row, "signature", row.channels, row.strength, evidence)
        for header in signatures_of(exchange, evidence.pack)
        for row in knowledge.signatures
        if row.valid_on(day) and row.fits(header.platform)
    }
    return list(found.values())


def _supported(signed: list[Signal], others: list[Signal]) -> Iterator[Signal]:
    """A signature that an id or a header agrees with is as strong as they are."""
    for signal in signed:
        agree = any(o.naming and o.strength in HARD and o.channels & signal.channels for o in others)
        yield replace(signal, strength="strong") if agree and signal.strength == "supporting" else signal


def _from_id(reading: Reading | None, kind: str, evidence: Evidence) -> list[Signal]:
    if reading is None or reading.shape is None or reading.fault:
        return []
    return [_signal(reading.shape, kind, reading.shape.channels, reading.shape.strength, evidence)]


def _signal(row: Known, kind: str, channels: tuple[str, ...], strength: Confidence, evidence: Evidence) -> Signal:
    age = row.age(evidence.started_at.date())
    return Signal(
        kind, row.id, frozenset(channels), WEAKENED[strength] if age == "stale" else strength, age != "expired"
    )


def _tool_ids(answer: Any, pack: Pack) -> list[str]:  # noqa: ANN401
    found = [block.get("id") for block in _blocks(answer, pack) if block.get("type") == "tool_use"]
    return [item for item in found if isinstance(item, str)]


def _blocks(answer: Any, pack: Pack) -> list[dict[str, Any]]:  # noqa: ANN401
    blocks = pointer(answer, pack.answer.content)
    found = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return [block for block in found if isinstance(block.get("type"), str)]
