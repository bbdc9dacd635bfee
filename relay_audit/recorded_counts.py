"""The vendor's own counts of recorded bodies: free questions, asked only where the reader names his official key for it.

A recording is somebody's ordinary use, so only bodies are counted of which the count is the whole input: text and plain
tools, no files, no server-side tools, nothing that a server remembers. Each is counted twice: a count that does not agree
with itself says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from relay_audit.clock import Clock
from relay_audit.connect import Permissions
from relay_audit.endpoint import Answer, Endpoint, Outgoing
from relay_audit.errors import KeyRefused, UsageError
from relay_audit.intake import Limits
from relay_audit.keys import KeyShapes, confirm_origin, guard_same, guard_shape, read_key, read_trust_list
from relay_audit.pack import Pack
from relay_audit.plan import count_body
from relay_audit.recorded import Call, Traffic, body_of
from relay_audit.redaction import Redactor, Secret
from relay_audit.target import origin_of
from relay_audit.transport import Inner, Transport
from relay_audit.workspace import Workspace

AT_MOST = 24
"""Bodies, of as many sizes as there are; each is asked about twice."""
LIMITS = Limits(first_byte_s=30, total_s=60, max_body=64 << 10)
NOT_INPUT = frozenset({
    "max_tokens", "max_output_tokens", "stream", "stream_options", "temperature", "top_p", "top_k", "stop_sequences",
    "metadata", "service_tier", "store", "user",
})  # fmt: skip
"""Keys that say how to answer and are no input."""
COUNTED_BLOCKS = frozenset({"text", "tool_use", "tool_result", "input_text", "output_text"})
PLAIN_TOOLS = frozenset({None, "custom", "function"})


@dataclass
class Counts:
    """What the vendor counted, by the place of the call in the recording (0 is the first)."""

    model: str
    """As the vendor calls it."""
    origin: str
    is_vendor: bool
    answers: dict[int, tuple[Answer, Answer]] = field(default_factory=dict)
    reason: str = ""
    """Why nothing was counted: `recorded_uncountable`, or a fault of the official side."""


def countable(traffic: Traffic, pack: Pack) -> list[tuple[int, Call, dict[str, Any]]]:
    """The calls whose body can be counted, one per body, at most `AT_MOST`, from the shortest to the longest."""
    found: dict[str, tuple[int, Call, dict[str, Any]]] = {}
    for place, call in enumerate(traffic.calls):
        body = body_of(call)
        if call.status == 200 and body is not None and _whole_input(body, pack):
            found.setdefault(call.sent_body, (place, call, body))
    rows = sorted(found.values(), key=lambda row: (len(row[1].sent_body), row[0]))
    if len(rows) <= AT_MOST:
        return rows
    return [rows[round(n * (len(rows) - 1) / (AT_MOST - 1))] for n in range(AT_MOST)]


def _whole_input(body: dict[str, Any], pack: Pack) -> bool:
    if pack.counter is None or set(body) - set(pack.counter.keep) - NOT_INPUT:
        return False
    tools = body.get("tools") or []
    plain = isinstance(tools, list) and all(isinstance(t, dict) and t.get("type") in PLAIN_TOOLS for t in tools)
    return plain and all(
        kind in COUNTED_BLOCKS for kind in _blocks([body.get(k) for k in ("system", "messages", "input")])
    )


def _blocks(value: Any, deep: int = 0) -> Iterator[str]:  # noqa: ANN401  a stranger's JSON
    """The kinds of content blocks, at any depth that content can have."""
    if deep > 8:
        yield "too deep"
        return
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            if "role" not in item:
                yield str(item.get("type"))
            yield from _blocks(item.get("content"), deep + 1)
        elif isinstance(item, list):
            yield from _blocks(item, deep + 1)


def official_way(
    variable: str, base_url: str, pack: Pack, shapes: KeyShapes, space: Workspace, environ: Mapping[str, str],
    permissions: Permissions, relay: Traffic, proxy: str = "",
) -> Endpoint:  # fmt: skip
    """The way to the vendor. Raises `KeyRefused` and `OriginUnconfirmed` before any socket is opened, `UsageError` for a
    dialect without a counter."""
    if pack.counter is None:
        raise UsageError("this dialect has no counting endpoint", next_step="leave out --official-key-env")
    if not base_url and not pack.official_hosts:
        raise UsageError("this dialect names no official host", next_step="give --official-base-url")
    url = base_url or f"https://{pack.official_hosts[0]}"
    key, origin = read_key(variable, environ), origin_of(url)
    guard_shape(key, origin, shapes, permissions.official_key_to)
    for known in relay.secrets:
        guard_same(known, key, relay.origin, permissions.official_key_to, origin)
    confirm_origin(
        variable, origin, environ, read_trust_list(space.trust_list), set(permissions.origins), permissions.ask
    )
    secret = Secret(key, name=variable, origin=origin)
    return Endpoint("official", url, secret, pack.auth_styles[0], dict(pack.headers), proxy,
                    allow_private=permissions.private)  # fmt: skip


async def ask_counts(
    traffic: Traffic, pack: Pack, model: str, way: Endpoint, salt: bytes, clock: Clock, inner: Inner | None = None
) -> Counts:
    """Through a transport that knows every secret of the recording, so that none of them leaves."""
    known = [Secret(value, name="recorded", origin="none") for value in traffic.secrets]
    redactor = Redactor([*known, *([way.secret] if way.secret else [])], salt)
    async with Transport(redactor, clock, LIMITS, inner) as transport:
        return await count_bodies(traffic, pack, model, way, transport)


async def count_bodies(traffic: Traffic, pack: Pack, model: str, way: Endpoint, transport: Transport) -> Counts:
    """Asks about each body twice, all of them once before any of them again. The first failure of the first body ends it
    with its reason; a later body that fails is left out. Whatever holds a key is not asked about."""
    hosts = {f"https://{host}" for host in pack.official_hosts}
    counts = Counts(model, origin_of(way.base_url), origin_of(way.base_url) in hosts)
    rows = countable(traffic, pack)
    first: dict[int, Answer] = {}
    for again in (False, True):
        for place, call, body in rows:
            if again and place not in first:
                continue
            try:
                answer = await transport.send(_as_sent(way, call), _question(pack, body, model))
            except KeyRefused:
                continue
            if answer.response is None or answer.response.status != 200:
                if not first:
                    counts.reason = _fault(answer)
                    return counts
                continue
            if again:
                counts.answers[place] = (first[place], answer)
            else:
                first[place] = answer
    counts.reason = "" if counts.answers else "recorded_uncountable"
    return counts


def _question(pack: Pack, body: dict[str, Any], model: str) -> Outgoing:
    if pack.counter is None:
        raise ValueError("no counter")
    return Outgoing("POST", pack.counter.path.replace("$model", model), count_body(body, pack, model))


def _as_sent(way: Endpoint, call: Call) -> Endpoint:
    """With the feature flags of the call: they can change what a body's tokens are."""
    flags = {name.lower(): value for name, value in call.sent_headers if name.lower().endswith("-beta")}
    return replace(way, headers={**way.headers, **flags})


def _fault(answer: Answer) -> str:
    status = answer.response.status if answer.response else 0
    if status == 401:
        return "official_key_refused"
    return "official_lacks_model" if status in (403, 404) else "official_unreachable"
