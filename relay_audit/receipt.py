"""From bytes on the wire to what may be recorded of them: redacted first, then made into a record."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from relay_audit.endpoint import Outgoing
from relay_audit.exchange import Hostility, Request, Response
from relay_audit.intake import Intake, json_faults, should_parse
from relay_audit.redaction import Redactor

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Received:
    response: Response | None
    hostility: tuple[Hostility, ...]
    foreign_secrets: tuple[str, ...]


NOTHING = Received(None, (), ())
"""No status line came."""


def request(redactor: Redactor, outgoing: Outgoing, headers: Headers, content: bytes) -> Request:
    """The request as it left, without its key; the digest is of the exact bytes."""
    return Request(
        method=outgoing.method,
        path=redactor.clean_text(outgoing.path),
        headers=redactor.clean_headers(headers, outgoing=True),
        body=redactor.clean_json(outgoing.body) if outgoing.raw_body is None else None,
        body_sha256=hashlib.sha256(content).hexdigest() if content else "",
    )


def response(redactor: Redactor, status: int, headers: Headers, intake: Intake, *, asked_in_json: bool) -> Received:
    """The answer as it may be kept, what was odd about it, and the marks of secrets that are somebody else's."""
    raw = bytes(intake.body)
    head = redactor.inspect_headers(headers, outgoing=False)
    # a cookie is not kept, but may echo our key
    dropped = redactor.shows_own("\n".join(value for _, value in headers).encode())
    body = redactor.clean(raw)
    text = body.raw.decode("utf-8", "replace")
    record = Response(
        status=status,
        headers=head.headers,
        body=text,
        body_bytes=intake.size,
        body_sha256=hashlib.sha256(text.encode()).hexdigest(),
        cut=intake.cut,
    )
    odd: list[Hostility] = ["redirect"] if 300 <= status < 400 else []
    odd += [intake.hostility] if intake.hostility else []
    if should_parse(record, asked_in_json=asked_in_json):
        odd += json_faults(raw.decode("utf-8", "replace"))
    odd += ["key_echoed"] if head.own or dropped or body.own else []
    return Received(record, tuple(odd), tuple(dict.fromkeys((*head.foreign, *body.foreign))))
