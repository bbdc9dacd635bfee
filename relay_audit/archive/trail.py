"""What of a run lies elsewhere or behind a seal: copies on servers, and items that only their maker can read.

Pure. Both lists stand in the manifest, so that no id and no opaque item is the only carrier of a meaning: the answer
itself is in the archive, and beside every sealed item stands what can be read of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.fingerprint import Knowledge
from relay_audit.manifest import Sealed, ServerCopy
from relay_audit.signature import read_signature

SEALED_KEYS = {
    "signature": "thinking_signature", "thoughtSignature": "thinking_signature", "thought_signature": "thinking_signature",
    "encrypted_content": "encrypted_content", "encrypted_index": "encrypted_content", "data": "redacted_thinking",
}  # fmt: skip
"""Field names under which vendors return what only they can read; `data` only inside redacted thinking."""
READABLE_KEYS = ("thinking", "text", "summary", "content", "title", "url")
SHORTEST = 40
"""Characters; what is shorter is no sealed state."""
DEEPEST = 12
IDS = ("/id", "/task_id", "/data/task_id", "/responseId")

Stored = Literal["asked", "refused", "default", "unknown"]


def sealed_in(evidence: Evidence) -> tuple[Sealed, ...]:
    """Every sealed item of every answer, in order."""
    found = []
    for exchange in evidence.exchanges:
        for where, holder, key in _walk(exchange.answer()):
            value = str(holder[key])
            found.append(
                Sealed(
                    exchange=exchange.id,
                    pointer=where,
                    kind=SEALED_KEYS[key],
                    bytes=len(value.encode("utf-8", "replace")),
                    sha256=hashlib.sha256(value.encode("utf-8", "replace")).hexdigest(),
                    neighbour=_neighbour(holder, key, value),
                )
            )
    return tuple(found)


def server_copies(evidence: Evidence, knowledge: Knowledge) -> tuple[ServerCopy, ...]:
    """What servers may still hold: each request that was sent has left a copy, with an id or without."""
    copies = []
    for exchange in evidence.exchanges:
        if exchange.delivery == "not_sent" or exchange.request.body is None:
            continue
        origin = evidence.target.relay_origin if exchange.side == "relay" else evidence.target.official_origin
        copies.append(
            ServerCopy(
                side=exchange.side,
                host=urlsplit(origin).netloc,
                exchange=exchange.id,
                kind="task" if _task(exchange) else "response",
                untrusted_id=_id(exchange),
                at=exchange.sent_at,
                stored=_stored(exchange),
                retention=_retention(exchange, evidence, knowledge),
            )
        )
    return tuple(copies)


def _walk(value: Any, where: str = "", deep: int = 0) -> Iterator[tuple[str, dict[str, Any], str]]:  # noqa: ANN401
    if deep > DEEPEST:
        return
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from _walk(item, f"{where}/{place}", deep + 1)
    if isinstance(value, dict):
        for key, item in value.items():
            name = str(key).replace("~", "~0").replace("/", "~1")
            if _is_sealed(value, str(key), item):
                yield f"{where}/{name}", value, str(key)
            yield from _walk(item, f"{where}/{name}", deep + 1)


def _is_sealed(holder: dict[str, Any], key: str, item: Any) -> bool:  # noqa: ANN401
    if not isinstance(item, str) or len(item) < SHORTEST or key not in SEALED_KEYS:
        return False
    return key != "data" or holder.get("type") == "redacted_thinking"


def _neighbour(holder: dict[str, Any], key: str, value: str) -> str:
    """What stands beside it in clear text, named and measured; else what its own clear header says."""
    kind: Any = holder.get("type")
    readable = [
        f"{name}: {len(text)} characters"
        for name in READABLE_KEYS
        if name != key and isinstance(text := holder.get(name), str) and text
    ]
    header = read_signature(value)
    if header is not None:
        platform = "absent" if header.platform is None else str(header.platform)
        readable.append(f"clear header: generation {header.generation}, platform {platform}")
    said = "; ".join(readable) or "nothing readable beside it; when, where and how large are in this row"
    return f"{kind if isinstance(kind, str) and kind.isidentifier() else 'item'}: {said}"


def _id(exchange: Exchange) -> str:
    answer = exchange.answer()
    named = [text for path in IDS if isinstance(text := pointer(answer, path), str) and text]
    header = exchange.response.header("request-id") if exchange.response else None
    return (named[0] if named else header or "")[:200]


def _task(exchange: Exchange) -> bool:
    return any(isinstance(pointer(exchange.answer(), path), str) for path in IDS[1:3])


def _stored(exchange: Exchange) -> Stored:
    body = exchange.request.body
    if body is None or "store" not in body:
        return "default"
    return "asked" if body["store"] is True else "refused"


def _retention(exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> str:
    """What the vendor documents on that day. Of a relay it is not known: it may keep what it likes."""
    if exchange.side == "relay":
        return "unknown: the relay may keep prompts and answers, and its upstream keeps what that vendor documents"
    row = knowledge.retention_of(evidence.pack.dialect, evidence.started_at.date())
    return f"{row.rule.en} ({row.source}, {row.observed.isoformat()})" if row else "unknown"
