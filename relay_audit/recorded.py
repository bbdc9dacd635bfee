"""Traffic that exists: a HAR file of a browser or proxy, or an agent's transcript (JSON lines), as calls to a relay.

A stranger's file: bounded in size, lines and depth; what is not a call to a generation route, or not well formed, is left
out and counted. Nothing here is redacted yet, and nothing is written: that is the caller's next act.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from relay_audit.errors import UsageError
from relay_audit.redaction import AUTHENTICATION

LARGEST_FILE = 256 << 20
LARGEST_BODY = 8 << 20
MOST_CALLS = 2_000
MOST_LINES = 500_000
ROUTES = {
    "/v1/messages": "anthropic", "/v1/chat/completions": "openai_chat", "/v1/responses": "openai_responses",
}  # fmt: skip
"""How a generation route ends → the dialect that is spoken there."""
PAGES = {"/api/status": "discovery.status", "/api/pricing": "discovery.pricing", "/api/log/token": "log",
         "/api/log/self": "log"}  # fmt: skip
"""Pages of a relay's site that a browser may have seen: what it says of itself, and its log."""
TELLING = ("id", "type", "role", "model", "stop_reason", "usage")
"""What is kept of a transcript's message besides signatures: nobody's words."""

Kind = Literal["har", "transcript"]
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Call:
    """One request and its answer, as they were written down."""

    at: dt.datetime
    method: str
    origin: str
    """Empty in a transcript: it does not say who was asked."""
    path: str
    status: int
    sent_headers: Headers = ()
    sent_body: str = ""
    headers: Headers = ()
    body: str = ""
    elapsed_ms: int = 0
    address: str = ""


@dataclass
class Traffic:
    kind: Kind
    dialect: str
    origin: str
    model: str
    calls: list[Call]
    pages: list[tuple[str, Call]] = field(default_factory=list)
    """Pages of the relay's site, by what they are."""
    left_out: int = 0
    """Entries that are no calls, are not well formed, or went to somebody else."""
    secrets: tuple[str, ...] = ()
    """Values of credential headers: they are known here, and nowhere after the redactor was made."""


def read_traffic(path: Path, base_url: str = "") -> Traffic:
    """Raises `UsageError` for a file in which there is no call to a generation route."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UsageError("the file is larger than 256 MB", next_step="export fewer requests")
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the file cannot be read: {error.strerror}", next_step="correct its path") from None
    text = raw.decode("utf-8-sig", "replace")
    found = _har(text) if '"entries"' in text[:200_000] and text.lstrip().startswith("{") else None
    traffic = _from_har(found, base_url) if found is not None else _from_lines(text)
    if not traffic.calls:
        raise UsageError(
            "there is no call to a generation route in this file",
            next_step="give a HAR file with POSTs to /v1/messages, /v1/chat/completions or /v1/responses, or an agent's "
            "transcript (JSON lines with message.usage)",
        )
    return traffic


def _har(text: str) -> list[Any] | None:
    try:
        table = json.loads(text)
        entries = table["log"]["entries"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return entries if isinstance(entries, list) else None


def _from_har(entries: list[Any], base_url: str) -> Traffic:
    read = [_entry(item) for item in entries[: MOST_CALLS * 10]]
    calls = [call for call in read if call is not None]
    posts = [(call, d) for call in calls if call.method == "POST" and (d := _dialect(call.path)) and call.sent_body]
    wanted = base_url.rstrip("/")
    posts = [(c, d) for c, d in posts if not wanted or f"{c.origin}{c.path}".startswith(wanted) or c.origin == wanted]
    origin, dialect = Counter((call.origin, d) for call, d in posts).most_common(1)[0][0] if posts else ("", "")
    own = [call for call, d in posts if (call.origin, d) == (origin, dialect)][:MOST_CALLS]
    own = _of_one_model(own)
    pages = [
        (name, c)
        for c in calls
        if c.origin == origin and c.method == "GET" and (name := PAGES.get(c.path.split("?")[0]))
    ]
    secrets = {
        v.split(" ", 1)[-1] for c in calls for n, v in c.sent_headers if n.lower() in AUTHENTICATION and len(v) >= 8
    }
    model = _model_of(own[0]) if own else ""
    return Traffic(
        "har", dialect, origin, model, own, pages, len(entries) - len(own) - len(pages), tuple(sorted(secrets))
    )


def _of_one_model(calls: list[Call]) -> list[Call]:
    """A judgement is of one model: the one asked for most."""
    if not calls:
        return []
    usual = Counter(map(_model_of, calls)).most_common(1)[0][0]
    return [call for call in calls if _model_of(call) == usual]


def _model_of(call: Call) -> str:
    body = body_of(call)
    model = body.get("model") if body else None
    return model[:200] if isinstance(model, str) else ""


def body_of(call: Call) -> dict[str, Any] | None:
    """The sent body as an object; None where it is none."""
    try:
        value = json.loads(call.sent_body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dialect(path: str) -> str:
    plain = path.split("?", 1)[0].rstrip("/")
    return next((dialect for route, dialect in ROUTES.items() if plain.endswith(route)), "")


def _entry(item: Any) -> Call | None:  # noqa: ANN401  a stranger's JSON
    try:
        request, response = item["request"], item["response"]
        parts = urlsplit(str(request["url"]))
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            return None
        body = _text(response.get("content") or {})
        host = parts.hostname + (f":{parts.port}" if parts.port else "")
        return Call(
            at=_moment(item["startedDateTime"]),
            method=str(request["method"]).upper()[:8],
            origin=f"{parts.scheme}://{host}",
            path=parts.path + (f"?{parts.query}" if parts.query else ""),
            status=int(response["status"]),
            sent_headers=_headers(request.get("headers")),
            sent_body=str((request.get("postData") or {}).get("text") or "")[:LARGEST_BODY],
            headers=_headers(response.get("headers")),
            body=body,
            elapsed_ms=max(0, int(float(item.get("time") or 0))),
            address=str(item.get("serverIPAddress") or "")[:64],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _text(content: dict[str, Any]) -> str:
    text = str(content.get("text") or "")[: LARGEST_BODY * 2]
    if content.get("encoding") == "base64":
        try:
            text = base64.b64decode(text, validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return ""
    return text[:LARGEST_BODY]


def _headers(rows: Any) -> Headers:  # noqa: ANN401
    if not isinstance(rows, list):
        return ()
    pairs = [(r.get("name"), r.get("value")) for r in rows[:200] if isinstance(r, dict)]
    return tuple((n[:200], v[:16_384]) for n, v in pairs if isinstance(n, str) and isinstance(v, str) and n[:1] != ":")


def _moment(text: Any) -> dt.datetime:  # noqa: ANN401
    moment = dt.datetime.fromisoformat(str(text))
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)


def _from_lines(text: str) -> Traffic:
    """An agent's transcript: of each message its id, model and usage; the words stay where they are."""
    found: dict[str, tuple[dt.datetime, dict[str, Any], str]] = {}
    left_out = 0
    for number, line in enumerate(_objects(text)):
        read = _message(line)
        if read is None:
            left_out += 1
            continue
        moment, message, request_id = read
        found[str(message.get("id") or f"line {number}")] = (
            moment,
            message,
            request_id,
        )  # the last state of a streamed one
    usual = Counter(str(m.get("model") or "") for _, m, _ in found.values()).most_common(1)
    model = usual[0][0] if usual else ""
    rows = [row for row in found.values() if str(row[1].get("model") or "") == model][:MOST_CALLS]
    calls = [_call(*row) for row in rows]
    claude = any(str(m.get("type")) == "message" for _, m, _ in rows)
    return Traffic("transcript", "anthropic" if claude else "openai_responses", "", model[:200], calls, [], left_out)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines()):
        if number >= MOST_LINES:
            return
        try:
            value = json.loads(line) if line.lstrip().startswith("{") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _message(line: dict[str, Any]) -> tuple[dt.datetime, dict[str, Any], str] | None:
    """Claude Code: `message` with usage, `requestId` beside it. Codex: a `token_count` event with the last usage."""
    try:
        moment = _moment(line.get("timestamp"))
        message = line.get("message")
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            kept = {name: message[name] for name in TELLING if name in message}
            return moment, {**kept, "content": _signed(message.get("content"))}, str(line.get("requestId") or "")[:200]
        payload = line.get("payload")
        if isinstance(payload, dict) and payload.get("type") == "token_count":
            usage = payload["info"]["last_token_usage"]
            shape = {"input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"],
                     "input_tokens_details": {"cached_tokens": usage.get("cached_input_tokens", 0)}}  # fmt: skip
            return moment, {"object": "response", "usage": shape}, ""
    except (ValueError, KeyError, TypeError):
        return None
    return None


def _signed(content: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Of the blocks their kind and, where there is one, the signature; no text."""
    blocks = content if isinstance(content, list) else []
    return [
        {name: block[name] for name in ("type", "id", "signature") if isinstance(block.get(name), str)}
        for block in blocks
        if isinstance(block, dict)
    ]


def _call(moment: dt.datetime, message: dict[str, Any], request_id: str) -> Call:
    headers: Headers = (("content-type", "application/json"),)
    if request_id:
        headers += (("request-id", request_id),)
    # "recorded" stands first, so that nobody reads the vendor's way of printing out of ours
    body = json.dumps({"recorded": "transcript", **message}, ensure_ascii=False)
    return Call(moment, "POST", "", "/v1/messages" if message.get("type") == "message" else "/v1/responses", 200,
                headers=headers, body=body[:LARGEST_BODY])  # fmt: skip
