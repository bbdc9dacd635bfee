"""Official beside relay with the differing part marked, and what an operator needs to find each request in a log."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shlex
from dataclasses import dataclass

from pydantic import JsonValue

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Finding
from relay_audit.report.figures import official_count
from relay_audit.report.phrases import Phrases
from relay_audit.report.terms import request_ids
from relay_audit.report.untrusted import show
from relay_audit.usage import read_usage

ID_LIMIT = 80
"""Characters shown of an id."""
NOT_REPLAYED = frozenset({
    "host", "content-length", "connection", "accept", "accept-encoding", "authorization", "x-api-key", "x-goog-api-key",
    "transfer-encoding",
})  # fmt: skip
"""Headers a client writes by itself, and those that hold a key."""


@dataclass(frozen=True)
class Marked:
    """A value in three pieces: what both sides share at the start, what differs, what they share at the end."""

    head: str
    differing: str
    tail: str


@dataclass(frozen=True)
class Row:
    label: str
    official: str
    relay: Marked
    differs: bool
    difference: str = ""
    """For counts: how much more the relay bills, with its sign."""


@dataclass(frozen=True)
class Trace:
    """One exchange as an operator looks it up."""

    id: str
    time: str
    """UTC with milliseconds."""
    side: str
    request_id: str
    response_id: str
    status: str
    charge: str
    charge_basis: str


@dataclass(frozen=True)
class Replay:
    """One request to send again, body word for word."""

    id: str
    time: str
    curl: str
    exact: bool
    """The body shown is byte for byte what left."""
    sha256: str


def compare(finding: Finding, evidence: Evidence, phrases: Phrases) -> list[Row]:
    """For token counts one row per text; then what the finding itself says was expected and observed."""
    rows = _count_rows(finding, evidence, phrases) if finding.check == 2 else []
    expected = {_plain(key): value for key, value in finding.expected.items()}
    observed = {_plain(key): (key, value) for key, value in finding.observed.items()}
    both = [key for key in expected if key in observed] + [key for key in observed if key not in expected]
    for key in both if not rows else []:
        name, value = observed[key]
        official = phrases.value(key, expected[key]) if key in expected else ""
        relay = phrases.value(name, value)
        rows.append(
            Row(label(key, phrases), official, mark(official, relay), differs=bool(official) and official != relay)
        )
    return rows


def mark(official: str, relay: str) -> Marked:
    """The differing middle of two texts; numbers are marked whole, since half a number means nothing."""
    if official == relay or not official:
        return Marked(relay, "", "")
    if any(text.strip("+-").replace(",", "").replace(".", "").isdigit() for text in (official, relay)):
        return Marked("", relay, "")
    head = _shared(official, relay)
    tail = _shared(official[head:][::-1], relay[head:][::-1])
    end = len(relay) - tail
    return Marked(relay[:head], relay[head:end], relay[end:]) if end > head else Marked("", relay, "")


def trace(exchange: Exchange, evidence: Evidence, phrases: Phrases) -> Trace:
    row = next((r for r in evidence.own_rows() if r.exchange == exchange.id), None)
    header = next(iter(request_ids(exchange)), "")
    answer_id = pointer(exchange.answer(), evidence.pack.answer.id)
    entry = evidence.ledger.entry(exchange.id)
    paid = entry is not None and entry.state in ("settled", "unconfirmed")
    amount = entry.amount if entry is not None and paid else exchange.charge
    return Trace(
        id=exchange.id,
        time=stamp(exchange.sent_at),
        side=exchange.side,
        request_id=show((row.request_id if row else "") or header, ID_LIMIT),
        response_id=show(answer_id, ID_LIMIT) if isinstance(answer_id, str) else "",
        status=str(exchange.status)
        if exchange.status is not None
        else phrases.word(exchange.failure or exchange.delivery),
        charge=phrases.amount(amount) if amount is not None else "",
        charge_basis=phrases.word(entry.basis) if entry is not None and paid and entry.basis else "",
    )


def replay(exchange: Exchange, evidence: Evidence) -> Replay | None:
    """A curl with the literal body; the key is a variable of the shell. None where no body was sent."""
    body = exchange.request.body
    if body is None:
        return None
    literal = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    host = evidence.target.relay_origin if exchange.side == "relay" else evidence.target.official_origin
    lines = [
        f"curl -sS -X {exchange.request.method} {shlex.quote(host + exchange.request.path)}",
        _key_header(exchange, evidence),
    ]
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in _headers(exchange)]
    lines.append(f"--data-raw {shlex.quote(literal)}")
    return Replay(
        id=exchange.id,
        time=stamp(exchange.sent_at),
        curl=" \\\n  ".join(show(line, len(line)) for line in lines),
        exact=hashlib.sha256(literal.encode()).hexdigest() == exchange.request.body_sha256,
        sha256=exchange.request.body_sha256,
    )


def stamp(moment: dt.datetime) -> str:
    """`2026-11-29 08:03:04.512`, UTC: the form log searches take."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def cited(finding: Finding, evidence: Evidence) -> list[Exchange]:
    wanted = set(finding.exchanges)
    return [exchange for exchange in evidence.exchanges if exchange.id in wanted]


def _count_rows(finding: Finding, evidence: Evidence, phrases: Phrases) -> list[Row]:
    rows = []
    for exchange in cited(finding, evidence):
        step = evidence.plan.step(exchange.step) if evidence.plan else None
        usage = read_usage(exchange, evidence.pack) if step is not None and step.side == "relay" else None
        counted = official_count(exchange, evidence)
        if step is None or usage is None or counted is None:
            continue
        billed = usage.billed_input
        parts = [_factor(name, level, phrases) for name, level in step.factors.items()]
        label = " · ".join([*parts, phrases.word(step.request)])
        official, relay = f"{counted:,}", f"{billed:,}"
        rows.append(
            Row(
                f"{exchange.id} · {label}", official, mark(official, relay), billed != counted, f"{billed - counted:+,}"
            )
        )
    return rows


def _factor(name: str, level: JsonValue, phrases: Phrases) -> str:
    """`English text`, `streamed`, but `length 8`: a number or a yes alone says nothing."""
    if isinstance(level, bool) and (said := phrases.word(key := f"{name}_{'yes' if level else 'no'}")) != key:
        return said
    value = phrases.value(name, level)
    return phrases.text("joint.pair", name=phrases.word(name), value=value) if isinstance(level, int) else value


def _key_header(exchange: Exchange, evidence: Evidence) -> str:
    variable = "$RELAY_KEY" if exchange.side == "relay" else "$OFFICIAL_KEY"
    style = evidence.target.auth_style if exchange.side == "relay" else evidence.pack.auth_styles[0]
    return f'-H "authorization: Bearer {variable}"' if style == "bearer" else f'-H "{style}: {variable}"'


def _headers(exchange: Exchange) -> list[tuple[str, str]]:
    sent = [(n, v) for n, v in exchange.request.headers if n.lower() not in NOT_REPLAYED and "[redacted" not in v]
    known = any(name.lower() == "content-type" for name, _ in sent)
    return sent if known else [("content-type", "application/json"), *sent]


def _shared(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _plain(key: str) -> str:
    return key.removeprefix("untrusted_")


def label(key: str, phrases: Phrases) -> str:
    """What was compared: `case=stop_word` is called by its case, `intercept=cjk` by both."""
    name, _, level = key.removeprefix("untrusted_").partition("=")
    if name == "case" and level:
        return phrases.word(level)
    return (
        phrases.text("joint.pair", name=phrases.word(name), value=phrases.word(level)) if level else phrases.word(name)
    )


def vendors_own(finding: Finding) -> bool:
    """Whether what stands beside the relay's side is the vendor's: else it is what was to be expected, by a list, by the
    order, or by the relay's own rules."""
    return finding.basis in ("live_official", "declared_official")
