"""Where a request goes, what it is and what came back: what a caller of `transport` speaks in."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from relay_audit.base_address import below, is_loopback, origin_of
from relay_audit.errors import AddressRefused, KeyRefused, TargetError
from relay_audit.exchange import Connection, Delivery, Hostility, Request, Response
from relay_audit.redaction import Secret
from relay_audit.words import AuthStyle, Side

PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


@dataclass(frozen=True)
class Endpoint:
    """One side of the comparison, and the only way to it."""

    side: Side
    base_url: str
    secret: Secret | None = None
    auth: AuthStyle = "bearer"
    headers: dict[str, str] = field(default_factory=dict)
    """The dialect's fixed headers."""
    proxy: str = field(default="", repr=False)
    """Named by the buyer, never taken from the environment; may hold credentials."""
    ca_file: str = ""
    """Trusted in addition to the public authorities. There is no way to trust everybody."""
    user_agent: str = ""
    allow_private: bool = False


@dataclass(frozen=True)
class Outgoing:
    method: Literal["GET", "POST"]
    path: str
    """Path and query below the base address, beginning with `/`."""
    body: dict[str, Any] | None = None
    authenticated: bool = True
    raw_body: bytes | None = None
    """Sent instead of `body`, byte for byte."""

    def content(self) -> bytes:
        """The exact bytes: compact JSON, the probe's own order of keys."""
        if self.raw_body is not None:
            return self.raw_body
        if self.body is None:
            return b""
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True)
class Answer:
    """What is known after a send; already redacted. The parts of an exchange that the wire decides."""

    delivery: Delivery
    """`answered` as soon as a status line came. Whether it came whole is `complete`."""
    request: Request
    response: Response | None
    failure: str
    """connect, dns, tls, proxy, timeout_connect, timeout_read, reset, protocol; empty when nothing failed."""
    hostility: tuple[Hostility, ...]
    foreign_secrets: tuple[str, ...]
    connection: Connection
    sent_at: dt.datetime
    elapsed_ms: int
    raw: bytes = field(default=b"", repr=False)
    """The body before it was redacted: only for following a signed address at once, never for a record."""

    @property
    def complete(self) -> bool:
        """The answer was read to its end. If not, and the request was chargeable, its charge is unconfirmed."""
        return self.response is not None and not self.response.cut


def provably_not_sent(answer: Answer) -> bool:
    """Only then may a caller send the same request again."""
    return answer.delivery == "not_sent"


def address_of(endpoint: Endpoint, outgoing: Outgoing) -> str:
    """The address, checked to be below the base address and fit for a key. Raises `AddressRefused`."""
    path = outgoing.path
    plain = unquote(unquote(path.partition("?")[0]))
    sound = path.startswith("/") and not path.startswith("//") and path.isascii() and path.isprintable()
    if not sound or any(c in path for c in " #\\") or "://" in path or ".." in plain.split("/") or "\\" in plain:
        raise AddressRefused(
            "a request's path is not a plain path below the base address; nothing was sent",
            next_step="write it as /v1/messages, without scheme, host, .. or fragment",
        )
    url = below(endpoint.base_url, path)
    if origin_of(url) != origin_of(endpoint.base_url) or urlsplit(url).scheme not in ("http", "https"):
        raise AddressRefused("a request would leave its base address; nothing was sent", next_step="correct base_url")
    if urlsplit(url).scheme == "http" and not is_loopback(url):
        raise AddressRefused(
            "plain http would send the key in clear text; nothing was sent",
            next_step="use https:// (http only to loopback)",
        )
    return url


def credentials(endpoint: Endpoint, secret: Secret) -> dict[str, str]:
    """The one place where a key becomes text, for the one origin that it is bound to."""
    key = secret.reveal_for(origin_of(endpoint.base_url))
    if not (key.isascii() and key.isprintable()) or " " in key:
        # httpx would quote it in its error
        raise KeyRefused("a key holds characters that no header can carry", next_step="set the variable again, bare")
    return {"authorization": f"Bearer {key}"} if endpoint.auth == "bearer" else {endpoint.auth: key}


def unusable_proxy() -> TargetError:
    return TargetError(
        "proxy is not an address of a proxy", next_step="give it as http://host:port or socks5://host:port"
    )


def proxy_name(address: str) -> str:
    """host:port without credentials. Raises `TargetError`, which does not quote the address."""
    if not address:
        return ""
    parts = urlsplit("")
    try:
        parts = urlsplit(address)
        port = parts.port or PROXY_PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0
    if parts.scheme not in PROXY_PORTS or not port or not parts.hostname or parts.path.strip("/") or parts.query:
        raise unusable_proxy()
    return f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}"
