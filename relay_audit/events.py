"""What can happen to a run: a closed vocabulary, and the event as one sealed link of a hash chain.

An event says that something happened and where its bytes are; it never holds a stranger's text. `docs/events.md` is
generated from `EVENTS`, so that another implementation can read an exported run.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, field_serializer, field_validator

from relay_audit.signals import signals_markdown
from relay_audit.words import Frozen, digest, money

EventType = Literal[
    "run.created", "plan.created", "quote.issued", "signal.received", "signal.refused", "run.state_changed",
    "discovery.recorded", "request.sending", "exchange.recorded", "request.unconfirmed", "charge.observed",
    "reading.recorded", "media.kept", "checkpoint.written", "artifact.created", "assessment.recorded", "report.refused",
    "answer.recorded", "finding.withdrawn", "blob.withheld", "stamp.recorded", "run.imported", "run.purged",
    "run.completed", "run.failed", "run.cancelled",
]  # fmt: skip
Actor = Literal["human", "agent", "ci", "runner", "relay", "official"]
Redaction = Literal["public", "vendor", "internal"]
"""Who may see it: anyone; the relay's operator as well as the buyer; the buyer alone."""

GENESIS = "0" * 64
"""`prev` of the first event."""


@dataclass(frozen=True)
class EventSpec:
    doc: str
    """One sentence: what has happened when this event exists."""
    redaction: Redaction
    payload: tuple[str, ...] = ()
    """The only keys its payload may have; none of them has to be there."""
    ref: str = ""
    """What the blob under `payload_ref` holds; empty where it has none."""
    terminal: bool = False
    """A run has at most one terminal event; its hash is the evidence head."""


EVENTS: dict[EventType, EventSpec] = {
    "run.created": EventSpec(
        "A run exists: its target, owner, scope, packs and tool version are fixed.",
        "internal",
        ("files_ref", "knowledge_digest", "tool_version", "libraries", "owner", "scope", "keys"),
        "target, its facts, and the dialect's pack",
    ),
    "plan.created": EventSpec(
        "The steps that may be sent are known; nothing was sent for them yet.",
        "vendor",
        ("plan_digest", "steps", "dropped"),
        "the plan",
    ),
    "quote.issued": EventSpec(
        "The plan has a price and waits for an approval of exactly this digest.",
        "internal",
        ("quote_digest", "plan_digest"),
        "the quote",
    ),
    "signal.received": EventSpec(
        "A typed signal was taken; the table below says what each asks.",
        "internal",
        ("signal", "id", "asked", "approval"),
        "for `add_context`: target and facts as they are from now on",
    ),
    "signal.refused": EventSpec(
        "A typed signal was refused and changed nothing.",
        "internal",
        ("signal", "id", "reason"),
    ),
    "run.state_changed": EventSpec(
        "The run's status is another one now, for a stated reason.", "public", ("status", "reason")
    ),
    "discovery.recorded": EventSpec(
        "A free request of the planning was answered and its facts kept.", "vendor", ("software",), "site and facts"
    ),
    "request.sending": EventSpec(
        "The intent to send one step and the reservation of its worst case, durable before the first byte leaves.",
        "vendor",
        ("exchange", "step", "line", "side", "at_most", "auth_trial"),
    ),
    "exchange.recorded": EventSpec(
        "The outcome of an intent: what came back, redacted, and what it cost.",
        "vendor",
        ("exchange", "step", "side", "money", "amount", "basis"),
        "request and response, redacted",
    ),
    "request.unconfirmed": EventSpec(
        "An intent without an outcome: maybe delivered, never sent again; its worst case stays charged.",
        "vendor",
        ("exchange",),
    ),
    "charge.observed": EventSpec(
        "The relay's log or balance says what an exchange really cost.", "vendor", ("exchange", "amount", "basis")
    ),
    "reading.recorded": EventSpec(
        "The relay's own log, balance or public site facts were read.", "internal", ("kind",), "what was read"
    ),
    "media.kept": EventSpec(
        "A film that a task delivered was stored, byte for byte as it came.",
        "vendor",
        ("exchange", "step", "size"),
        "the file itself",
    ),
    "checkpoint.written": EventSpec(
        "In few words: what was done, what it cost, what comes next. Everything up to here is on disk.",
        "internal",
        (
            "code",
            "probe",
            "next",
            "sent",
            "planned",
            "answered",
            "unconfirmed",
            "spent",
            "reason",
            "refusals_ended",
            "lane",
            "books_asked",
        ),
    ),
    "artifact.created": EventSpec(
        "A report or an export was written.",
        "internal",
        ("kind", "audience", "lang", "format", "name", "sha256", "version", "because", "withdrawn"),
        "the report, byte for byte",
    ),
    "assessment.recorded": EventSpec(
        "The evidence was judged with a stated knowledge digest.",
        "internal",
        ("knowledge_digest", "verdict"),
        "findings and coverage",
    ),
    "report.refused": EventSpec(
        "The leak guard refused a report; no file was written.", "internal", ("audience", "rule")
    ),
    "answer.recorded": EventSpec(
        "The relay's operator answered a finding; it stands beside the finding, never instead of it.",
        "vendor",
        ("finding", "code", "stance"),
        "the answer, a stranger's text",
    ),
    "finding.withdrawn": EventSpec(
        "A finding fell, for a stated reason; it stays visible as withdrawn.",
        "vendor",
        ("finding", "code", "reason", "run"),
    ),
    "blob.withheld": EventSpec(
        "Bytes were taken out for good; their hash and the reason stay.", "vendor", ("sha256", "size", "reason")
    ),
    "stamp.recorded": EventSpec(
        "Somebody else vouches for the evidence head: a time stamp or a signature over it.",
        "public",
        ("kind", "head", "authority", "at", "sha256"),
        "the time stamp or signature",
    ),
    "run.imported": EventSpec(
        "The run came in as an archive; everything before this was written elsewhere.",
        "internal",
        ("sha256", "tool_version"),
    ),
    "run.purged": EventSpec(
        "Exchanges and media were removed, the findings kept.", "internal", ("kept", "removed", "reason")
    ),
    "run.completed": EventSpec(
        "The run ended: the plan was sent as far as it may be.", "public", ("stopped",), terminal=True
    ),
    "run.failed": EventSpec(
        "The run ended before its plan did, and says why.", "public", ("stopped", "failure"), terminal=True
    ),
    "run.cancelled": EventSpec("The run was ended by a signal.", "public", ("stopped",), terminal=True),
}
TERMINAL: tuple[EventType, ...] = tuple(name for name, spec in EVENTS.items() if spec.terminal)


@dataclass(frozen=True)
class Draft:
    """An event before it has a place in the chain."""

    type: EventType
    payload: dict[str, Any] = field(default_factory=dict)
    actor: Actor = "runner"
    payload_ref: str = ""


class Event(Frozen):
    """A link of the chain. Its hash is SHA-256 over the canonical JSON of every other field."""

    seq: int = Field(ge=1)
    """1, 2, 3, … without gaps."""
    ts: AwareDatetime
    """UTC with microseconds, from the run's clock; order comes from `seq`, never from here."""
    type: EventType
    """One of the names above."""
    actor: Actor
    """Who caused it: human, agent, ci, runner, relay or official."""
    payload: dict[str, Any]
    """Small; anything that a stranger wrote is in a blob instead."""
    payload_ref: str = Field(pattern=r"^([0-9a-f]{64})?$")
    """SHA-256 of the blob that belongs to it, or empty."""
    redaction: Redaction
    """Who may see it."""
    prev: str
    """Hash of the event before; 64 zeros for the first."""
    hash: str
    """Of everything else, see below."""

    @field_validator("ts")
    @classmethod
    def _utc(cls, value: dt.datetime) -> dt.datetime:
        return value.astimezone(dt.UTC)

    @field_serializer("ts")
    def _ts_text(self, value: dt.datetime) -> str:
        return timestamp(value)

    @classmethod
    def seal(cls, draft: Draft, *, seq: int, ts: dt.datetime, prev: str) -> Event:
        """Gives a draft its place. Raises ValueError for a payload that is not JSON, TypeError for a foreign object."""
        plain: dict[str, Any] = {
            "seq": seq,
            "ts": timestamp(ts),
            "type": draft.type,
            "actor": draft.actor,
            "payload": json.loads(_AS_JSON.encode(draft.payload)),
            "payload_ref": draft.payload_ref,
            "redaction": EVENTS[draft.type].redaction,
            "prev": prev,
        }
        return cls(**plain | {"ts": ts}, hash=digest(plain))

    def computed_hash(self) -> str:
        """What `hash` has to be."""
        return digest(
            {
                "seq": self.seq,
                "ts": timestamp(self.ts),
                "type": self.type,
                "actor": self.actor,
                "payload": self.payload,
                "payload_ref": self.payload_ref,
                "redaction": self.redaction,
                "prev": self.prev,
            }
        )

    @property
    def terminal(self) -> bool:
        return EVENTS[self.type].terminal


def timestamp(moment: dt.datetime) -> str:
    """The one text form of a moment: UTC, always six digits of microseconds, so that text order is time order."""
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds")


def events_markdown(fields: Mapping[str, str]) -> str:
    """The text of `docs/events.md`; `fields` says what stands under each field of an event."""
    rows = "\n".join(
        f"| `{name}` | {spec.doc} | {spec.redaction} | {'yes' if spec.terminal else ''} "
        f"| {', '.join(f'`{key}`' for key in spec.payload)} | {spec.ref} |"
        for name, spec in EVENTS.items()
    )
    said = "\n".join(f"| `{name}` | {text} |" for name, text in fields.items())
    return _MARKDOWN.format(rows=rows, fields=said, signals=signals_markdown())


def _json_form(value: object) -> Any:  # noqa: ANN401  JSON out
    """The few things of ours a payload may hold besides JSON; anything else would be stored as its repr."""
    if isinstance(value, Decimal):
        return money(value)
    if isinstance(value, dt.datetime):
        return timestamp(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"an event's payload cannot hold a {type(value).__name__}")


_AS_JSON = json.JSONEncoder(default=_json_form, allow_nan=False)
"""Made once: an append is measured against a bare row in a table."""
_MARKDOWN = """# Events of a run

Generated from `relay_audit/events.py`. A run is this list and nothing else: append-only, numbered without gaps,
each event chained to the one before. The vocabulary is closed.

| event | what has happened | seen by | terminal | payload | blob |
|---|---|---|---|---|---|
{rows}

*Seen by*: `public` anyone · `vendor` the relay's operator as well · `internal` the buyer alone.
A run has at most one terminal event. Its hash is the **evidence head** that reports print; later events follow it and
never change it.

## Signals

What `signal.received` and `signal.refused` name in `payload.signal`. The sender's `id` makes a signal its own for good:
the same id again is the same answer. A signal without an id is the same signal when it would change nothing.

{signals}

## Fields

| field | meaning |
|---|---|
{fields}

`hash` = SHA-256 (hex) of the JSON object of all other fields: keys sorted, no spaces, UTF-8, non-ASCII characters as
they are.
"""
