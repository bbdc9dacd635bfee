"""An event as a row of the run's database, and back; and its hash, from the row as it lies."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from relay_audit.errors import StoreError
from relay_audit.events import Event, timestamp
from relay_audit.words import canonical

COLUMNS = "seq, ts, type, actor, payload, payload_ref, redaction, prev, hash"
RESTORE = "Restore the run's folder from a copy; what was changed cannot be used as evidence."


def to_row(event: Event) -> tuple[int | str, ...]:
    payload = canonical(event.payload).decode()
    return (event.seq, timestamp(event.ts), event.type, event.actor, payload, event.payload_ref, event.redaction,
            event.prev, event.hash)  # fmt: skip


def from_row(row: tuple[Any, ...]) -> Event:
    try:
        fields = dict(zip(COLUMNS.split(", "), row, strict=True))
        return Event.model_validate({**fields, "payload": json.loads(fields["payload"])})
    except (ValueError, RecursionError) as error:
        raise broken(row[0], "cannot be read; it was changed or written by a newer version") from error


def row_hash(row: tuple[Any, ...]) -> str:
    """The hash of an event from its row as it lies: what is stored is canonical, so nothing is written out again."""
    seq, ts, kind, actor, payload, ref, redaction, prev, _ = row
    text = (f'{{"actor":"{actor}","payload":{payload},"payload_ref":"{ref}","prev":"{prev}","redaction":"{redaction}",'
            f'"seq":{seq},"ts":"{ts}","type":"{kind}"}}')  # fmt: skip
    return hashlib.sha256(text.encode()).hexdigest()


def broken(seq: int, why: str) -> StoreError:
    return StoreError(f"event {seq} of this run {why}", next_step=RESTORE, details={"seq": seq})
