"""One request over the wire, at most once, and an account of what came back; the only importer of httpx.

Nothing here retries, follows a redirect, reads the environment or keeps a cookie or a connection. Whatever the other
side does becomes an `Answer`; exceptions are for our own mistakes (an address or key that is refused) and cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from relay_audit import addresses, receipt, wire
from relay_audit.clock import Clock
from relay_audit.endpoint import (
    Answer,
    Endpoint,
    Outgoing,
    address_of,
    credentials,
    provably_not_sent,
    proxy_name,
    unusable_proxy,
)
from relay_audit.errors import KeyRefused, RelayAuditError, TargetError
from relay_audit.exchange import Connection, Delivery, Hostility
from relay_audit.intake import Intake, Limits, fitting
from relay_audit.redaction import Redactor

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
"""Raised before a request is written. Everything else may come after."""
Headers = tuple[tuple[str, str], ...]
IntakeMaker = Callable[[str, Limits, float], Intake]
Inner = Callable[[Endpoint], httpx.AsyncBaseTransport]  # what may stand in for the network, named without httpx

__all__ = ["Answer", "Endpoint", "Inner", "Limits", "Outgoing", "Transport", "provably_not_sent"]


class Transport:
    """Sends requests of one run. `inner` replaces the network (made anew for each send, closed after it): names are
    then not looked up. `lookup` replaces the resolver.
    """

    def __init__(
        self,
        redactor: Redactor,
        clock: Clock,
        limits: Limits | None = None,
        inner: Inner | None = None,
        lookup: addresses.Lookup | None = None,
        intake: IntakeMaker = Intake,
    ) -> None:
        self._redactor = redactor
        self._clock = clock
        self._limits = limits or Limits()
        self._inner = inner
        self._book = addresses.AddressBook(lookup)
        self._new_intake = intake
        self._trust: dict[tuple[str, bool], ssl.SSLContext] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Forgets the certificates; connections never outlive their send."""
        self._trust.clear()

    def keeping(self, intake: IntakeMaker, limits: Limits) -> Transport:
        """The same way out for a body that goes elsewhere than into memory."""
        return Transport(self._redactor, self._clock, limits, self._inner, self._book.look_up, intake)

    def user_agent(self, endpoint: Endpoint) -> str:
        return endpoint.user_agent or f"python-httpx/{httpx.__version__}"

    async def send(self, endpoint: Endpoint, outgoing: Outgoing) -> Answer:
        """Sends once. Before any socket is opened it may raise `AddressRefused`, `KeyRefused` or `TargetError`."""
        content = outgoing.content()
        flight = _Flight(endpoint, self._limits, self._clock, self._new_intake)
        request = self._request(endpoint, outgoing, content, flight)
        sent_at, started = self._clock.now(), self._clock.monotonic()
        failure = await self._fly(endpoint, request, flight)
        elapsed_ms = max(0, round((self._clock.monotonic() - started) * 1000))
        left = receipt.request(self._redactor, outgoing, wire.header_text(request.headers.raw), content)
        came = receipt.NOTHING
        if flight.status is not None:
            came = receipt.response(
                self._redactor, flight.status, flight.headers, flight.intake, asked_in_json=bool(content)
            )
        return Answer(
            delivery=flight.delivery(failure),
            request=left,
            response=came.response,
            failure=failure,
            hostility=tuple(dict.fromkeys((*flight.hostility, *came.hostility))),
            foreign_secrets=came.foreign_secrets,
            connection=flight.connection,
            sent_at=sent_at,
            elapsed_ms=elapsed_ms,
            raw=bytes(flight.intake.body),
        )

    def _request(self, endpoint: Endpoint, outgoing: Outgoing, content: bytes, flight: _Flight) -> httpx.Request:
        url = address_of(endpoint, outgoing)
        headers = {
            "accept": "*/*",
            "accept-encoding": "gzip, deflate",
            "connection": "keep-alive",
            "user-agent": self.user_agent(endpoint),
            "accept-language": "en",
            **({"content-type": "application/json"} if content else {}),
            **{name.lower(): value for name, value in endpoint.headers.items()},
        }
        loose = "\n".join([url, *headers.values()]).encode() + b"\n" + content
        if self._redactor.shows_own(loose):
            raise KeyRefused(
                "a key stands in the path, a header or the body of a request; nothing was sent",
                next_step="keys go into the variable that the target names, and nowhere else",
            )
        if outgoing.authenticated and endpoint.secret is not None:
            headers |= credentials(endpoint, endpoint.secret)
        return httpx.Request(
            outgoing.method, url, headers=headers, content=content or None, extensions=flight.extensions
        )

    async def _fly(self, endpoint: Endpoint, request: httpx.Request, flight: _Flight) -> str:
        """Sends and reads; returns our word for what went wrong, or nothing."""
        way = self._way(endpoint)
        deadline = asyncio.timeout(self._limits.total_s)
        try:
            async with deadline:
                places = await self._places(endpoint, request.url)
                if places is None:
                    return "dns"
                async with way:
                    flight.hand_over()
                    await flight.read(await self._deliver(way, places, request, flight))
        except RelayAuditError:
            raise
        except Exception as error:  # noqa: BLE001  a stranger's bytes reach every layer below; what they raise is data
            return flight.end(error, expired=deadline.expired())
        finally:
            await flight.let_go()
        return ""

    async def _places(self, endpoint: Endpoint, url: httpx.URL) -> tuple[str, ...] | None:
        """The checked addresses; none when somebody else resolves the name. None when there is no such name."""
        host = url.raw_host.decode()
        if endpoint.proxy or self._inner is not None:
            addresses.check_host(host, allow_private=endpoint.allow_private)
            return ()
        try:
            async with asyncio.timeout(self._limits.connect_s):
                port = url.port or (443 if url.scheme == "https" else 80)
                return await self._book.addresses(host, port, allow_private=endpoint.allow_private)
        except (OSError, UnicodeError):
            return None

    async def _deliver(
        self, way: httpx.AsyncBaseTransport, places: tuple[str, ...], request: httpx.Request, flight: _Flight
    ) -> httpx.Response:
        """Hands the request to the first address that accepts a connection."""
        for place in places[:-1]:
            try:
                return await self._knock(way, place, request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if not flight.refused_at_the_door:
                    raise
        return await self._knock(way, places[-1], request) if places else await way.handle_async_request(request)

    async def _knock(self, way: httpx.AsyncBaseTransport, place: str, request: httpx.Request) -> httpx.Response:
        response = await way.handle_async_request(_pinned(request, place))
        self._book.prefer(request.url.raw_host.decode(), place)
        return response

    def _way(self, endpoint: Endpoint) -> httpx.AsyncBaseTransport:
        """A pool of one fresh connection: a kept one that the server has closed would make a send unconfirmed."""
        if self._inner is not None:
            return self._inner(endpoint)
        return httpx.AsyncHTTPTransport(
            verify=self._trusted(endpoint),
            trust_env=False,
            http1=True,
            http2=False,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=0),
            proxy=_proxy(endpoint.proxy),
            retries=0,
        )

    def _trusted(self, endpoint: Endpoint) -> ssl.SSLContext:
        """Plain http needs no certificate, and to read all of a machine's takes as long as a local answer."""
        plain = urlsplit(endpoint.base_url).scheme == "http" and not endpoint.proxy
        ca_file = endpoint.ca_file
        if (known := self._trust.get((ca_file, plain))) is not None:
            return known
        bare = plain and not ca_file
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if bare else httpx.create_ssl_context(trust_env=False)
        try:
            if ca_file:
                context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError):
            raise TargetError(
                "ca_file cannot be read as PEM certificates", next_step="give the path of a PEM file"
            ) from None
        return self._trust.setdefault((ca_file, plain), context)


class _Flight:
    """What has happened to one request so far, noted while it happens: a cut at any moment leaves the facts behind."""

    def __init__(self, endpoint: Endpoint, limits: Limits, clock: Clock, new_intake: IntakeMaker) -> None:
        self.status: int | None = None
        self.headers: Headers = ()
        self.intake = Intake("", limits, 0.0)
        self._new_intake = new_intake
        self.hostility: list[Hostility] = []
        self.connection = Connection(proxy=proxy_name(endpoint.proxy), custom_ca=bool(endpoint.ca_file))
        self._proxied = bool(endpoint.proxy)
        self._tls = urlsplit(endpoint.base_url).scheme == "https"
        self._limits = limits
        self._clock = clock
        self._layer, self._stage = "", "look_up"
        """The wire's last word about itself; the stage is empty when what carries the request does not report."""
        self._streams: list[Any] = []
        self._left = False
        self._never_sent = False
        self._timeouts = {"connect": limits.connect_s, "read": limits.first_byte_s, "write": limits.read_s,
                          "pool": limits.connect_s}  # fmt: skip

    @property
    def extensions(self) -> dict[str, Any]:
        return {"timeout": self._timeouts, "trace": self._note}

    @property
    def refused_at_the_door(self) -> bool:
        """No TCP connection came about, so the next address may be tried within the same send."""
        return not self._left and self._stage == "connect_tcp.failed"

    def hand_over(self) -> None:
        self._stage = ""

    async def _note(self, event: str, info: dict[str, Any]) -> None:
        self._layer, _, self._stage = event.partition(".")
        if self._stage == "send_request_headers.started":
            # a CONNECT to the proxy carries nothing of ours
            self._left = self._left or info["request"].method != b"CONNECT"
        elif self._stage == "connect_tcp.complete":
            self._streams.append(info["return_value"])
            self._connected(address="" if self._proxied else wire.peer(info["return_value"]))
        elif self._stage == "start_tls.complete" and self._tls and not self._is_proxys_own:
            self._connected(**wire.certificate(info["return_value"].get_extra_info("ssl_object")))

    @property
    def _is_proxys_own(self) -> bool:
        """The TLS spoken of is the one with an https proxy, not the one with the other side."""
        return self._proxied and self._layer == "connection"

    def _connected(self, **facts: str) -> None:
        self.connection = self.connection.model_copy(update=facts)

    async def read(self, response: httpx.Response) -> None:
        """Reads headers and body within the limits; leaves the rest in the wire."""
        async with contextlib.aclosing(response):
            self._connected(http_version=response.extensions.get("http_version", b"").decode("ascii", "replace"))
            self.status = response.status_code
            self.headers = tuple(fitting(wire.header_text(response.headers.raw), self._limits.max_headers))
            encoding = response.headers.get("content-encoding", "")
            self.intake = self._new_intake(encoding, self._limits, self._clock.monotonic())
            if len(self.headers) < len(response.headers.raw):
                self.hostility.append("not_http")
                self.intake.stop(None)
                return
            self._timeouts["read"] = self._limits.read_s  # the wire reads it again for the body
            stream = response.stream
            if not isinstance(stream, httpx.AsyncByteStream):
                raise TypeError("an inner transport has to stream asynchronously")
            async for chunk in stream:
                if not self.intake.take(chunk, self._clock.monotonic()):
                    return
            self.intake.finish()

    async def let_go(self) -> None:
        """Closes what was opened: a handshake that fails behind a proxy leaves its socket open in the library."""
        for stream in self._streams:
            with contextlib.suppress(OSError):
                await stream.aclose()

    def end(self, error: Exception, *, expired: bool) -> str:
        """The flight broke off: notes what that means and returns our word for it."""
        self._never_sent = not self._left if self._stage else isinstance(error, NEVER_SENT)
        if self.status is not None and expired:
            self.intake.run_out(self._clock.monotonic())
            return ""
        if self.status is not None:
            self.intake.stop(self.intake.hostility)
        word = self._word(error, expired=expired)
        if word == "protocol" and not self._never_sent:
            self.hostility.append("not_http")
        return word

    def _word(self, error: Exception, *, expired: bool) -> str:
        if expired:
            return "timeout_connect" if self._never_sent else "timeout_read"
        if self._never_sent and not isinstance(error, httpx.LocalProtocolError):
            return self._word_before(error)
        if isinstance(error, httpx.TimeoutException):
            return "timeout_read"
        if isinstance(error, httpx.ProtocolError):
            # a peer that hangs up is told apart from one that talks nonsense by the text of the parser alone
            return "reset" if any(words in str(error) for words in ("disconnected", "peer closed")) else "protocol"
        return "reset" if isinstance(error, httpx.NetworkError | OSError) else "protocol"

    def _word_before(self, error: Exception) -> str:
        shaking_hands = self._stage.startswith("start_tls") and not self._is_proxys_own
        if isinstance(error, httpx.ProxyError) or (self._proxied and not shaking_hands):
            return "proxy"
        if isinstance(error, httpx.TimeoutException):
            return "timeout_connect"
        broken = any(isinstance(cause, ssl.SSLError) for cause in wire.causes(error))
        return "tls" if shaking_hands or broken else "connect"

    def delivery(self, failure: str) -> Delivery:
        if self.status is not None:
            return "answered"
        return "not_sent" if self._never_sent or failure == "dns" else "unconfirmed"


def _pinned(request: httpx.Request, address: str) -> httpx.Request:
    """The same request to a checked address. Host header, SNI and certificate check keep the name."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode()},
    )


def _proxy(address: str) -> httpx.Proxy | None:
    try:
        return httpx.Proxy(address) if proxy_name(address) else None
    except (httpx.InvalidURL, ValueError):
        raise unusable_proxy() from None
