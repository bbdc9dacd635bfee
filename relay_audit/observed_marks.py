"""Marks of a vendor as they were seen: shapes of ids, header families, platforms in thinking signatures. For review.

A known row that was seen again gets a fresh date under an id of its own. What is new becomes a shape without weight;
what an opaque signature holds becomes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from relay_audit.assess.channel_signals import signatures_of
from relay_audit.exchange import Exchange, pointer
from relay_audit.ids import read_id
from relay_audit.marks import IdShape, Known, SignedPlatform
from relay_audit.observed import TERM_DAYS, Groups, Observer, slug

ENOUGH = 3
"""Ids that share a shape, before it is one."""
CLASSES = ("0-9", "0-9a-f", "0-9a-z", "0-9A-Za-z", "0-9A-Za-z_-")


def marks_of(seen: Observer) -> Groups:
    rows: dict[str, Iterable[Known]] = {"ids": _ids(seen), "headers": _headers(seen), "signatures": _signatures(seen)}
    return {kind: tuple(found) for kind, known in rows.items() if (found := list(known))}


def _again(kind: str, row: Known, seen: Observer) -> Known:
    fresh = {"id": slug(f"{row.id}.{seen.day:%Y%m%d}"), "observed": seen.day, "source": seen.source,
             "term_days": TERM_DAYS[kind], "level": "measured", "valid_to": None, "superseded_by": ""}  # fmt: skip
    return row.model_copy(update=fresh)


def _answers(seen: Observer) -> list[Exchange]:
    return [exchange for exchange in seen.evidence.exchanges if exchange.status == 200]


def _ids(seen: Observer) -> Iterator[Known]:
    """Known shapes seen again, then new ones by prefix, alphabet and length."""
    known: dict[str, IdShape] = {}
    strange: dict[str, list[str]] = {}
    for exchange in _answers(seen):
        for kind, text in _named(exchange, seen):
            reading = read_id(kind, text, exchange, seen.knowledge, seen.day, seen.dialect)
            if reading.shape is None:
                strange.setdefault(kind, []).append(text)
            elif not reading.fault:
                known[reading.shape.id] = reading.shape
    yield from (_again("ids", row, seen) for row in known.values())
    for kind, texts in strange.items():
        if pattern := shape_of(texts):
            dated = seen.dated("ids", f"{seen.dialect}.{kind}", what=kind, pattern=pattern)
            yield IdShape(**dated, kind=kind, pattern=pattern, channels=(seen.evidence.target.claim.channel,),
                          dialects=(seen.dialect,), strength="weak")  # fmt: skip


def _named(exchange: Exchange, seen: Observer) -> Iterator[tuple[Any, str]]:
    generated = exchange.step in {step.id for step in seen.steps if step.cost == "may_charge"}
    texts = {
        "message_id": pointer(exchange.answer(), seen.evidence.pack.answer.id) if generated else None,
        "request_id": exchange.response.header("request-id") if exchange.response else None,
    }
    return ((kind, text) for kind, text in texts.items() if isinstance(text, str) and text)


def _headers(seen: Observer) -> Iterator[Known]:
    headers = [exchange.response.headers for exchange in _answers(seen) if exchange.response]
    known = (row for row in seen.knowledge.headers if row.valid_on(seen.day))
    return (_again("headers", row, seen) for row in known if any(row.matches(own) for own in headers))


def _signatures(seen: Observer) -> Iterator[Known]:
    read = [header for exchange in _answers(seen) for header in signatures_of(exchange, seen.evidence.pack)]
    for platform in sorted({header.platform for header in read}, key=str):
        known = [row for row in seen.knowledge.signatures if row.valid_on(seen.day) and row.fits(platform)]
        yield from (_again("signatures", row, seen) for row in known)
        if not known:
            number = "absent" if platform is None else str(platform)
            dated = seen.dated("signatures", f"{seen.dialect}.signature.{number}", platform=number)
            channel = seen.evidence.target.claim.channel
            yield SignedPlatform(**dated, platform=number, channels=(channel,), strength="weak")


def shape_of(texts: list[str]) -> str:
    """What ids of one kind have in common: the beginning, the alphabet of the rest, the length. Empty for too few or
    too unlike ones."""
    distinct = sorted(set(texts))
    if len(distinct) < ENOUGH:
        return ""
    head = next((i for i, row in enumerate(zip(*distinct, strict=False)) if len(set(row)) > 1), len(distinct[0]))
    while head and distinct[0][head - 1].isalnum():  # only a part that ends in a mark is a prefix
        head -= 1
    rests = [text[head:] for text in distinct]
    letters = next((c for c in CLASSES if all(re.fullmatch(rf"[{c}]+", rest) for rest in rests)), "")
    sizes = sorted({len(rest) for rest in rests})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]},{sizes[-1]}"
    return f"{re.escape(distinct[0][:head])}[{letters}]{{{size}}}" if letters else ""
