"""How the lab's tests call it: in process by default, over a real loopback connection where the wire is the point."""

from __future__ import annotations

import gzip
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from relay_audit.lab import HttpAnswer, HttpRequest, World

NOON = 1_795_953_600.0
"""2026-11-29 12:00:00 UTC."""
MODEL = "claude-sonnet-5-5"
SENTENCE = "Reply with the single word OK."


class Clock:
    """Unix seconds that stand still until a test moves them."""

    def __init__(self, at: float = NOON) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


def body(text: str = SENTENCE, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 16, "messages": [{"role": "user", "content": text}], **more}


def headers(key: str, *, bearer: bool = False, **more: str) -> tuple[tuple[str, str], ...]:
    auth = ("authorization", f"Bearer {key}") if bearer else ("x-api-key", key)
    rest = {"anthropic-version": "2023-06-01", "content-type": "application/json", "accept-language": "en"} | more
    return (auth, *rest.items())


def post(world: World, side: str = "relay", path: str = "/v1/messages", sent: Any = None, **how: Any) -> HttpAnswer:
    key = world.relay_key if side == "relay" else world.official_key
    raw = json.dumps(body() if sent is None else sent).encode()
    return world.handle(side, HttpRequest("POST", path, headers(key, **how), raw))  # type: ignore[arg-type]


def get(world: World, path: str, *, key: str | None = None, side: str = "relay") -> HttpAnswer:
    own = world.relay_key if side == "relay" else world.official_key
    return world.handle(side, HttpRequest("GET", path, headers(own if key is None else key, bearer=True)))  # type: ignore[arg-type]


def log_rows(world: World) -> list[dict[str, Any]]:
    return get(world, "/api/log/token").json()["data"]


def wire(
    url: str, method: str, path: str, key: str, sent: Any = None, **how: Any
) -> tuple[http.client.HTTPResponse, bytes]:
    """One request on its own connection; the body read to its end and unpacked."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        raw = None if sent is None else json.dumps(sent).encode()
        connection.request(method, path, raw, dict(headers(key, **how)))
        answer = connection.getresponse()
        got = answer.read()
        return answer, gzip.decompress(got) if answer.getheader("content-encoding") == "gzip" else got
    finally:
        connection.close()
