"""One case of check 4, read on both sides: what the vendor does with it, today or on record, and what the relay did.

The vendor's side is the live one where it agrees with itself, before and after and near in time; else the dated record,
at a lower level. A vendor that varies today is no yardstick, whatever the record says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from relay_audit.assess.model_identity import refused_above
from relay_audit.assess.parameter_effects import EFFECTS
from relay_audit.assess.tool_prompt import FORCED, tool_arrived
from relay_audit.assess.tripped import lowered, tripped
from relay_audit.conformance import RelayDefault
from relay_audit.error_text import GATES, PASSING, SHELL_TYPES, Said, read_refusal, same_complaint
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, says_error
from relay_audit.finding import Basis, EvidenceLevel
from relay_audit.fingerprint import Knowledge, canonical_model
from relay_audit.plan import Step
from relay_audit.roads import OFFERED
from relay_audit.usage import is_generation

CONTROL_WINDOW = dt.timedelta(minutes=15)
LIMIT_CASES = frozenset({"max_tokens_above_limit", "max_output_tokens_minimum"})
"""A limit that the claimed model cannot honour: who answers it has changed it, or is another with a larger one."""

Outcome = Literal[
    "same", "own", "default", "accepted", "unchecked", "clamped", "rerouted", "rewritten", "lost", "dropped", "not_honoured",
    "refused", "unclear",
]  # fmt: skip
"""`own`: refused by the relay itself, where nobody else can (its keys, its models). `unchecked`: a key was not looked at,
which says nothing about fields of a body. `refused`: a legal value was."""


@dataclass(frozen=True)
class Official:
    """What the vendor does with a case."""

    status: int
    kind: str
    text: str
    names: str
    """The field that the complaint is about."""
    basis: Basis
    level: EvidenceLevel
    stale: bool = False
    reads: dict[str, Any] = field(default_factory=dict)
    """Pointer into the answer → the value that shows it in force, for legal cases."""
    exchanges: tuple[str, ...] = ()

    @property
    def live(self) -> bool:
        return self.basis in ("live_official", "declared_official")


@dataclass(frozen=True)
class Result:
    step: Step
    outcome: Outcome
    official: Official
    exchange: Exchange
    said: Said | None = None
    signs: tuple[str, ...] = ()
    defaults: tuple[RelayDefault, ...] = ()
    """Rows by which an honest hop of *some* software does this."""
    seldom: str = ""
    """`2/11`: so many of the sendings of the case, where the others were refused as they should be."""
    shown: tuple[str, str] = ("", "")
    """What the vendor's and the relay's answers were, where one status does not say it."""
    others: tuple[str, ...] = ()
    """Further exchanges of the relay that it rests on."""
    told: dict[str, Any] = field(default_factory=dict)
    """Further parameters of its finding: what was counted, or what a clean result would have shown."""

    @property
    def fields(self) -> tuple[str, ...]:
        """What of the request the case is about."""
        usual = {"model", "messages", "input", "max_tokens", "max_completion_tokens", "max_output_tokens"}
        return (*sorted({*self.step.body} - usual), *sorted(self.step.headers)) or (self.step.case,)


@dataclass(frozen=True)
class Scene:
    """What all cases of one run are judged against."""

    evidence: Evidence
    knowledge: Knowledge
    software: frozenset[str]
    """Names of every relay program that shows, not only the front."""

    @classmethod
    def of(cls, evidence: Evidence, knowledge: Knowledge) -> Scene:
        relay = [e for e in evidence.exchanges if e.side == "relay" and e.response]
        shown = {
            row.name for row in knowledge.software for e in relay if e.response and row.shows_in(e.response.headers)
        }
        return cls(evidence, knowledge, frozenset({*shown, evidence.site.software} - {"", "unknown"}))

    @cached_property
    def said_to_anything(self) -> frozenset[tuple[int, str]]:
        """How the official side refused requests that are legal: an address without this route, a key without this model, a
        header that it misses. The same words in reply to a wrong value say nothing of the value."""
        steps = self.evidence.plan.steps if self.evidence.plan else ()
        legal = [s.id for s in steps if s.side == "official" and not s.refusal]
        answers = [e for name in legal if (e := self.evidence.of_step(name)) and e.status not in (None, 200)]
        return frozenset(_words(e) for e in answers)

    @cached_property
    def usual(self) -> list[Exchange]:
        """Answers to legal requests: what ordinary use meets."""
        return [e for e in self.evidence.answers() if e.status == 200 and isinstance(e.answer(), dict)]

    def defaults(self, case: str) -> tuple[RelayDefault, ...]:
        """However old: knowledge that grew stale accuses nobody, and what excuses somebody does not lapse."""
        day, dialect = self.evidence.started_at.date(), self.evidence.target.dialect
        rows = self.knowledge.relay_defaults
        return tuple(r for r in rows if dialect in r.dialects and case in r.cases and r.valid_on(day))

    def is_default(self, rows: Iterable[RelayDefault], outcome: str, status: int) -> bool:
        """Whether a program that shows in this run does this by itself."""
        own = [row for row in rows if self.software & set(row.software) and row.outcome == outcome]
        return any(not row.by_setting and (not row.statuses or status in row.statuses) for row in own)

    def excuses(self, row: RelayDefault) -> bool:
        """Whether it may be an honest hop: software that does not show does it by itself, or what shows does it when told."""
        return bool(self.software & set(row.software)) if row.by_setting else not self.software


def compare(step: Step, scene: Scene, first: Step | None = None) -> Result | None:
    """The result of one sending; None where it was not sent, or nothing is known to compare it with. The vendor was asked the
    first sending of a case alone."""
    exchange = scene.evidence.of_step(step.id)
    if exchange is None or exchange.response is None:
        return None
    official = official_side(first or step, exchange, scene)
    if official is None:
        return None
    judge = _illegal if official.status != 200 else _legal
    return judge(step, exchange, official, scene)


def official_side(step: Step, exchange: Exchange, scene: Scene) -> Official | None:
    evidence = scene.evidence
    day = evidence.started_at.date()
    row = scene.knowledge.refusal_of(
        evidence.target.dialect, step.case, evidence.target.official_model, day, refused=step.refusal
    )
    asked = [s.id for s in evidence.plan.steps if s.mirrors == step.id] if evidence.plan else []
    told = [e for name in asked if (e := evidence.of_step(name)) and _is_control(step, e)]
    if step.refusal and told and scene.said_to_anything & {_words(e) for e in told}:
        told = []
    if len({(e.status, _said(e).kind) for e in told}) > 1:
        return None
    needed = 2 if step.refusal else 1
    near = any(abs(e.sent_at - exchange.sent_at) <= CONTROL_WINDOW for e in told)
    reads = dict(row.reads) if row else {}
    if len(told) >= needed and near:
        first = told[0]
        said = _said(first)
        if first.status == 200 and any(pointer(first.answer(), path) != value for path, value in reads.items()):
            return None  # the vendor's own answer does not show it today: nothing to hold an answer against
        return Official(first.status or 0, said.kind, said.text, row.names if row else "",
                        evidence.target.official_basis, "measured",
                        reads=reads, exchanges=tuple(e.id for e in told))  # fmt: skip
    if row is None or row.age(day) == "expired" or (step.refusal and any(e.status == 200 for e in told)):
        return None  # the vendor takes it today: an older record of a refusal is held against nobody
    return Official(row.status, row.error_type, row.message.replace("*", " "), row.names, "dated_baseline", row.level,
                    stale=row.age(day) == "stale", reads=reads)  # fmt: skip


def _is_control(step: Step, exchange: Exchange) -> bool:
    """Whether the vendor's answer speaks of this case: not of a moment, of a key that lacks the model, or of a legal value
    that it refuses today for a reason of its own."""
    if exchange.status is None or exchange.status in PASSING:
        return False
    if step.key == "made_up" or not step.case or "model" in step.case:
        return True
    return exchange.status not in GATES | {404} and (step.refusal or exchange.status == 200)


def _words(exchange: Exchange) -> tuple[int, str]:
    return exchange.status or 0, _said(exchange).text


def _said(exchange: Exchange) -> Said:
    if exchange.response is None or (exchange.response.status == 200 and not says_error(exchange.answer())):
        return Said(200, 200, "", "")
    return read_refusal(exchange.response.status, exchange.response.body)


def _illegal(step: Step, exchange: Exchange, official: Official, scene: Scene) -> Result:
    rows = scene.defaults(step.case)
    status = exchange.status or 0
    if status == 200 and not _is_refusal_in_disguise(exchange, scene):
        return _accepted(step, exchange, official, scene, rows)
    said = read_refusal(status, exchange.response.body) if exchange.response else _said(exchange)

    def result(outcome: Outcome) -> Result:
        return Result(step, outcome, official, exchange, said, defaults=rows)

    if _is_relays_own(step, scene.evidence):
        return result("own")
    if said.inner_status in PASSING or (status in GATES and status != official.status):
        return result("unclear")
    if same_complaint(official.text, said.text, official.names):
        kept = status == official.status and (said.kind in SHELL_TYPES or said.kind == official.kind)
        return result("same" if kept else "rewritten")
    if step.trip_wire and tripped(step, exchange, scene.evidence, scene.knowledge):
        sure = lowered(step, exchange, scene.evidence, scene.knowledge, live=official.live)
        return result("clamped" if sure else "unclear")
    same_type = status == official.status and official.kind and said.kind == official.kind
    if same_type or scene.is_default(rows, "status", status):
        return result("rewritten")
    return result("lost")


def _is_refusal_in_disguise(exchange: Exchange, scene: Scene) -> bool:
    """A whole JSON body under status 200 with neither an answer nor usage: a refusal that forgot its status."""
    whole = isinstance(exchange.answer(), dict) and not (exchange.response and exchange.response.cut)
    return whole and not is_generation(exchange, scene.evidence.pack)


def _accepted(
    step: Step, exchange: Exchange, official: Official, scene: Scene, rows: tuple[RelayDefault, ...]
) -> Result:
    """The vendor refuses it and the relay answered. A page or half an answer is no acceptance."""
    if not isinstance(exchange.answer(), dict) or (exchange.response and exchange.response.cut):
        return Result(step, "unclear", official, exchange)
    if signs := reroute_signs(exchange, scene):
        return Result(step, "rerouted", official, exchange, signs=signs)
    if scene.is_default(rows, "accepted", 200):
        return Result(step, "default", official, exchange, defaults=rows)
    if step.key == "made_up":
        return Result(step, "unchecked", official, exchange)
    changed = step.case in LIMIT_CASES and refused_above(scene.evidence, scene.knowledge) is None
    outcome: Outcome = "clamped" if changed else "accepted"
    return Result(step, outcome, official, exchange, defaults=rows)


def _legal(step: Step, exchange: Exchange, official: Official, scene: Scene) -> Result:
    status = exchange.status or 0
    rows = scene.defaults(step.case)
    said = _said(exchange)

    def result(outcome: Outcome) -> Result:
        return Result(step, outcome, official, exchange, said if status != 200 else None, defaults=rows)

    if step.refusal:  # the record says refused, the vendor takes it today: it has changed its mind
        return result("same" if status == 200 else "unclear")
    if status != 200:
        refused = 400 <= status < 500 and status not in PASSING | GATES and said.inner_status not in PASSING
        return result("refused" if refused else "unclear")
    if not is_generation(exchange, scene.evidence.pack):
        return result("unclear")
    if step.case in EFFECTS:
        return result(EFFECTS[step.case](step, exchange, scene.evidence.pack, official.reads))
    if step.case in (OFFERED, FORCED):
        return result(tool_arrived(step, exchange, scene.evidence))
    for path, value in official.reads.items():
        seen = _read_back(path, value, exchange, scene)
        if seen == "dropped" and scene.is_default(rows, "rewritten", status):
            return result("default")
        if seen != "same":
            return result(seen)
    return result("same")


def _read_back(path: str, wanted: Any, exchange: Exchange, scene: Scene) -> Outcome:  # noqa: ANN401
    """A value in the answer: as asked, as where nobody asked (the field is gone), or another one (it was changed)."""
    value = pointer(exchange.answer(), path)
    if value == wanted:
        return "same"
    usual = [pointer(e.answer(), path) for e in scene.usual if e.id != exchange.id]
    if (
        value is None
    ):  # a channel that never says it, or only some answers do: unless the vendor says it only where asked
        if _said_only_where_asked(path, wanted, scene):
            return "dropped"
        return "unclear" if not usual or None in usual else "dropped"
    return "dropped" if value in usual or not usual else "clamped"


def _said_only_where_asked(path: str, wanted: Any, scene: Scene) -> bool:  # noqa: ANN401
    """Whether the vendor's answers of this run have the value where it was asked for, and nothing there elsewhere."""
    told = [
        pointer(e.answer(), path)
        for e in scene.evidence.exchanges
        if e.side == "official" and is_generation(e, scene.evidence.pack)
    ]
    return wanted in told and len(told) > told.count(wanted) == len([v for v in told if v is not None])


def _is_relays_own(step: Step, evidence: Evidence) -> bool:
    """A key that is nobody's, a model that nobody has: the relay answers for itself, in its own words."""
    return step.key == "made_up" or ("model" in step.body and step.body["model"] != evidence.target.model)


def reroute_signs(exchange: Exchange, scene: Scene) -> tuple[str, ...]:
    """What shows that another model or channel answered than answers legal requests of this run."""
    signs = []
    headers = exchange.response.headers if exchange.response else ()
    if any(
        name.lower().endswith("attempted-fallbacks") and value.strip().isdigit() and int(value) > 0
        for name, value in headers
    ):
        signs.append("fallback_header")
    usual = scene.usual
    pack, known = scene.evidence.pack, scene.knowledge
    named = pointer(exchange.answer(), pack.answer.model)
    models = [m for e in usual if isinstance(m := pointer(e.answer(), pack.answer.model), str)]
    if isinstance(named, str) and models and not any(known.same_model(named, m) for m in models):
        signs.append("model")
    for header in sorted({row.model_header for row in known.software if row.model_header}):
        own = exchange.response.header(header) if exchange.response else None
        others = {canonical_model(value) for e in usual if e.response and (value := e.response.header(header))}
        if own and others and canonical_model(own) not in others:
            signs.append("model_header")
    mine, theirs = _channels(exchange, scene), [_channels(e, scene) for e in usual]
    if mine and theirs and all(theirs) and not any(mine & channels for channels in theirs):
        signs.append("channel")
    return tuple(signs)


def _channels(exchange: Exchange, scene: Scene) -> frozenset[str]:
    """Channels that mint ids of this shape in this dialect; converters say nothing."""
    value = pointer(exchange.answer(), scene.evidence.pack.answer.id)
    day, dialect = scene.evidence.started_at.date(), scene.evidence.pack.dialect
    if not isinstance(value, str):
        return frozenset()
    rows = [
        r
        for r in scene.knowledge.ids
        if r.kind == "message_id"
        and r.spoken_in(dialect)
        and r.valid_on(day)
        and r.age(day) != "expired"
        and r.matches(value)
    ]
    return frozenset(channel for row in rows for channel in row.channels if channel != "converter")
