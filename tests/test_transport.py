"""At most once, to the checked address, with the key in one header, and bounded whatever comes back."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import respx

from relay_audit.clock import SystemClock
from relay_audit.errors import AddressRefused, KeyRefused, TargetError
from relay_audit.redaction import Redactor, Secret
from relay_audit.target import origin_of
from relay_audit.transport import Answer, Endpoint, Limits, Outgoing, Transport, provably_not_sent
from tests.loopback import TLS, Server, Writer, answer, drips, listening, read_request, says, serving, silent

KEY = "sk-relay-Q7xZ2mN8vB4kL1pR9tW3"
ASK = Outgoing("POST", "/v1/messages", {"model": "m", "max_tokens": 5, "text": "你好"})
OK = answer(b'{"id":"msg_01"}')


def endpoint(base_url: str, **changes: Any) -> Endpoint:
    secret = Secret(KEY, name="RELAY_KEY", origin=origin_of(base_url))
    return Endpoint(**{"side": "relay", "base_url": base_url, "secret": secret, **changes})


def transport(limits: Limits | None = None, **more: Any) -> Transport:
    secret = Secret(KEY, name="RELAY_KEY", origin="https://relay.example")
    return Transport(Redactor([secret], b"salt"), SystemClock(), limits, **more)


def to(*addresses: str) -> Callable[[str, int], Awaitable[list[str]]]:
    async def lookup(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return lookup


async def no_lookup(host: str, _port: int) -> list[str]:
    raise AssertionError(f"{host} was looked up")


def ask(base_url: str, outgoing: Outgoing = ASK, limits: Limits | None = None, **changes: Any) -> Any:
    return transport(limits).send(endpoint(base_url, **changes), outgoing)


def exchange_with(raw: bytes, outgoing: Outgoing = ASK, limits: Limits | None = None) -> Answer:
    """One send to a server that answers these bytes and hangs up."""

    async def run() -> Answer:
        async with serving(says(raw)) as server:
            got: Answer = await ask(server.url, outgoing, limits)
            assert len(server.seen) == 1
            assert server.connections == 1
            return got

    return asyncio.run(run())


def raising(error: Exception) -> Transport:
    def handler(_request: httpx.Request) -> httpx.Response:
        raise error

    return transport(inner=lambda _: httpx.MockTransport(handler))


# --- what leaves


def test_a_request_leaves_once_as_written_with_the_key_in_one_header():
    async def run() -> tuple[Server, Answer]:
        async with serving(says(OK)) as server:
            return server, await ask(server.url, headers={"anthropic-version": "2023-06-01"}, auth="x-api-key")

    server, got = asyncio.run(run())
    head, _, body = server.seen[0].partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert len(server.seen) == 1
    assert lines[0] == "post /v1/messages http/1.1"
    assert f"host: 127.0.0.1:{server.port}" in lines
    assert body == '{"model":"m","max_tokens":5,"text":"你好"}'.encode()
    assert head.decode().count(KEY) == 1
    assert f"x-api-key: {KEY}".lower() in lines
    assert f"user-agent: python-httpx/{httpx.__version__}" in lines
    for line in ("accept-language: en", "accept-encoding: gzip, deflate", "anthropic-version: 2023-06-01"):
        assert line in lines
    assert got.delivery == "answered"
    assert got.complete
    assert got.failure == ""
    assert got.hostility == ()
    assert got.request.body == ASK.body
    assert got.request.body_sha256 == hashlib.sha256(body).hexdigest()
    assert KEY not in repr(got)
    assert {name.lower() for name, _ in got.request.headers} >= {"x-api-key", "host", "user-agent"}
    assert got.response is not None
    assert got.response.parsed() == {"id": "msg_01"}
    assert got.response.body_sha256 == hashlib.sha256(got.response.body.encode()).hexdigest()
    assert got.connection.address == f"127.0.0.1:{server.port}"
    assert got.connection.http_version == "HTTP/1.1"
    assert got.sent_at.tzinfo is not None
    assert 0 <= got.elapsed_ms < 10_000


def test_bearer_user_agent_raw_body_and_free_requests():
    async def run() -> Server:
        async with serving(says(OK)) as server:
            line = transport()
            relay = endpoint(server.url, user_agent="buyer/1")
            await line.send(relay, Outgoing("POST", "/v1/messages", raw_body=b"{not json"))
            await line.send(relay, Outgoing("GET", "/api/status?x=1", authenticated=False))
            assert line.user_agent(relay) == "buyer/1"
            return server

    first, second = asyncio.run(run()).seen
    assert f"authorization: Bearer {KEY}".encode() in first
    assert first.endswith(b"\r\n\r\n{not json")
    assert b"user-agent: buyer/1" in first
    assert second.startswith(b"GET /api/status?x=1 HTTP/1.1")
    assert KEY.encode() not in second
    assert b"content-type" not in second.lower()


def test_no_cookie_and_no_connection_is_kept():
    async def run() -> Server:
        async with serving(says(answer(b"{}", "set-cookie: session=abc; path=/"))) as server:
            async with transport() as line:
                for _ in range(3):
                    assert (await line.send(endpoint(server.url), ASK)).delivery == "answered"
            return server

    server = asyncio.run(run())
    assert server.connections == len(server.seen) == 3
    assert not any(b"cookie" in request.lower() for request in server.seen)


@pytest.mark.parametrize(
    "path",
    [
        "v1/messages", "//evil.example/v1", "/v1/../../admin", "/v1/%2e%2e/admin", "/v1/%252e%252e/a", "/v1\\x",
        "https://evil.example/", "/https://evil.example/", "/v1#x", "/v1 x", "/v1\r\nx: y", "/渠道", "",
    ],
)  # fmt: skip
def test_a_path_stays_below_the_base_address(path: str):
    with pytest.raises(AddressRefused):
        asyncio.run(raising(httpx.ReadError("")).send(endpoint("https://relay.example"), Outgoing("GET", path)))


def test_plain_http_reaches_loopback_only():
    with pytest.raises(AddressRefused, match="clear text"):
        asyncio.run(raising(httpx.ReadError("")).send(endpoint("http://relay.example"), ASK))


@pytest.mark.parametrize(
    ("outgoing", "headers"),
    [
        (Outgoing("GET", f"/api/log/token?key={KEY}"), {}),
        (Outgoing("POST", "/v1/messages", {"text": f"my key is {KEY}"}), {}),
        (Outgoing("POST", "/v1/messages", raw_body=KEY.encode()), {}),
        (ASK, {"x-note": KEY}),
    ],
)
def test_a_key_is_nowhere_but_in_its_header(outgoing: Outgoing, headers: dict[str, str]):
    async def run() -> Server:
        async with serving(says(OK)) as server:
            with pytest.raises(KeyRefused) as refused:
                await ask(server.url, outgoing, headers=headers)
            assert KEY not in str(refused.value)
            return server

    assert asyncio.run(run()).connections == 0


def test_a_key_goes_to_its_own_origin_only():
    elsewhere = Secret(KEY, name="RELAY_KEY", origin="https://relay.example")
    with pytest.raises(AddressRefused):
        asyncio.run(raising(httpx.ReadError("")).send(endpoint("https://other.example", secret=elsewhere), ASK))


@pytest.mark.parametrize("bad", [KEY + "\n", KEY + " x", KEY + "ü"])
def test_a_key_that_no_header_carries_is_refused_unquoted(bad: str):
    secret = Secret(bad, name="RELAY_KEY", origin="https://relay.example")
    with pytest.raises(KeyRefused) as refused:
        asyncio.run(raising(httpx.ReadError("")).send(endpoint("https://relay.example", secret=secret), ASK))
    assert KEY[:12] not in str(refused.value)


# --- delivery


@pytest.mark.parametrize(
    ("error", "delivery", "failure"),
    [
        (httpx.ConnectError("x"), "not_sent", "connect"),
        (httpx.ConnectTimeout("x"), "not_sent", "timeout_connect"),
        (httpx.PoolTimeout("x"), "not_sent", "timeout_connect"),
        (httpx.ReadTimeout("x"), "unconfirmed", "timeout_read"),
        (httpx.WriteTimeout("x"), "unconfirmed", "timeout_read"),
        (httpx.WriteError("x"), "unconfirmed", "reset"),
        (httpx.ReadError("x"), "unconfirmed", "reset"),
        (httpx.CloseError("x"), "unconfirmed", "reset"),
        (ConnectionResetError("x"), "unconfirmed", "reset"),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), "unconfirmed", "reset"),
        (httpx.RemoteProtocolError("illegal status line"), "unconfirmed", "protocol"),
        (RuntimeError("nobody foresaw this"), "unconfirmed", "protocol"),
    ],
)
def test_only_what_is_raised_before_a_request_is_written_was_not_sent(error: Exception, delivery: str, failure: str):
    got = asyncio.run(raising(error).send(endpoint("https://relay.example"), ASK))
    assert (got.delivery, got.failure, got.response) == (delivery, failure, None)
    assert provably_not_sent(got) is (delivery == "not_sent")
    assert not got.complete


def test_a_tls_error_in_the_chain_of_causes_is_called_tls():
    error = httpx.ConnectError("x")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    assert asyncio.run(raising(error).send(endpoint("https://relay.example"), ASK)).failure == "tls"


@respx.mock
def test_the_library_is_asked_once_even_when_it_times_out():
    route = respx.post("http://127.0.0.1:9/v1/messages").mock(side_effect=httpx.ReadTimeout)
    got = asyncio.run(ask("http://127.0.0.1:9"))
    assert (got.delivery, got.failure) == ("unconfirmed", "timeout_read")
    assert route.call_count == 1


def test_nobody_listens():
    async def run() -> Answer:
        async with serving(silent) as server:
            url = server.url
        return await ask(url)

    got = asyncio.run(run())
    assert (got.delivery, got.failure, got.hostility) == ("not_sent", "connect", ())


@pytest.mark.parametrize(
    ("raw", "failure", "hostility"),
    [
        (b"", "reset", ()),
        (b"HTTP/1.1 20", "reset", ()),
        (b"220 mail.relay.example ESMTP\r\n\r\n", "protocol", ("not_http",)),
        (b"HTTP/1.1 two hundred\r\n\r\n", "protocol", ("not_http",)),
        (b"HTTP/1.1 200 OK\r\nbad header\x00: x\r\n\r\n", "protocol", ("not_http",)),
        (b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"a" * 200_000, "protocol", ("not_http",)),
    ],
)
def test_delivered_without_a_status_line_is_unconfirmed(raw: bytes, failure: str, hostility: tuple[str, ...]):
    got = exchange_with(raw)
    assert (got.delivery, got.failure, got.hostility) == ("unconfirmed", failure, hostility)
    assert got.connection.address.startswith("127.0.0.1:")


def test_a_silent_server_is_unconfirmed_after_the_first_byte_limit():
    async def run() -> tuple[Server, Answer]:
        async with serving(silent) as server:
            return server, await ask(server.url, limits=Limits(first_byte_s=0.2))

    server, got = asyncio.run(run())
    assert (got.delivery, got.failure, got.hostility) == ("unconfirmed", "timeout_read", ())
    assert got.elapsed_ms < 2_000
    assert len(server.seen) == server.connections == 1


def test_headers_that_drip_for_ever_end_with_the_total_time():
    async def run() -> Answer:
        async with serving(drips(b"HTTP/1.1 200 OK\r\nx: ", b"a", 0.02)) as server:
            got: Answer = await ask(server.url, limits=Limits(total_s=0.4))
            return got

    got = asyncio.run(run())
    assert (got.delivery, got.failure) == ("unconfirmed", "timeout_read")
    assert got.elapsed_ms < 2_000


@pytest.mark.parametrize(
    "raw",
    [
        answer(b'{"id":', length=100),
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n6\r\n" + b'{"id":\r\n',
    ],
)
def test_an_answer_that_breaks_off_is_answered_and_incomplete(raw: bytes):
    got = exchange_with(raw)
    assert (got.delivery, got.failure, got.hostility) == ("answered", "reset", ())
    assert got.response is not None
    assert (got.response.status, got.response.body, got.response.cut) == (200, '{"id":', True)
    assert not got.complete


def test_silence_within_a_body_is_measured_by_its_own_limit():
    async def behave(_request: bytes, writer: Writer) -> None:
        writer.write(answer(b"{", length=10))
        await asyncio.sleep(60)

    async def run() -> Answer:
        async with serving(behave) as server:
            got: Answer = await ask(server.url, limits=Limits(first_byte_s=30, read_s=0.2))
            return got

    got = asyncio.run(run())
    assert (got.delivery, got.failure, got.complete) == ("answered", "timeout_read", False)
    assert got.elapsed_ms < 2_000


def test_cancelling_passes_through_and_sends_nothing_more():
    async def run() -> Server:
        async with serving(silent) as server:
            task = asyncio.create_task(ask(server.url))
            while not server.seen:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.1)
            return server

    server = asyncio.run(run())
    assert len(server.seen) == server.connections == 1


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_is_recorded_and_never_followed(status: str):
    async def run() -> tuple[Server, Server, Answer]:
        async with serving(says(OK)) as second:
            moved = answer(b"", f"location: {second.url}/v1/messages", status=status)
            async with serving(says(moved)) as first:
                return first, second, await ask(first.url)

    first, second, got = asyncio.run(run())
    assert (len(first.seen), second.connections) == (1, 0)
    assert (got.delivery, got.hostility) == ("answered", ("redirect",))
    assert got.response is not None
    assert got.response.header("location") == f"{second.url}/v1/messages"


# --- what comes back


def test_three_hundred_megabytes_are_not_read():
    written = 0

    async def behave(_request: bytes, writer: Writer) -> None:
        nonlocal written
        writer.write(answer(b"", length=300 * 2**20))
        for _ in range(300 * 16):
            writer.write(b"a" * 2**16)
            await writer.drain()
            written += 2**16

    async def run() -> Answer:
        async with serving(behave) as server:
            got: Answer = await ask(server.url)
            return got

    got = asyncio.run(run())
    assert (got.delivery, got.hostility, got.complete) == ("answered", ("too_large",), False)
    assert got.response is not None
    assert len(got.response.body) == 8 * 2**20
    assert written < 40 * 2**20


@pytest.mark.parametrize(
    ("limits", "drop", "kind"),
    [
        (Limits(total_s=0.5), b"x" * 1000, "endless"),
        (Limits(total_s=0.5), b"x", "too_slow"),
        (Limits(slow_after_s=0.2, min_bytes_per_s=1000), b"x", "too_slow"),
    ],
)
def test_a_body_without_end_is_cut(limits: Limits, drop: bytes, kind: str):
    async def run() -> Answer:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        async with serving(drips(head, drop, 0.02)) as server:
            got: Answer = await ask(server.url, limits=limits)
            return got

    got = asyncio.run(run())
    assert (got.delivery, got.failure, got.hostility) == ("answered", "", (kind,))
    assert got.response is not None
    assert got.response.cut
    assert got.response.body.startswith("x")
    assert got.elapsed_ms < 2_000


def test_one_ping_a_minute_is_waiting_and_not_a_drip():
    """new-api keeps a stream open with 8 bytes a minute by default."""
    limits = Limits()
    assert limits.min_bytes_per_s * 60 < len(b": PING\n\n")


def test_more_headers_than_allowed_are_cut():
    flood = answer(b"{}", *(f"x-{index}: {'a' * 1000}" for index in range(80)))
    got = exchange_with(flood)
    assert (got.delivery, got.hostility, got.complete) == ("answered", ("not_http",), False)
    assert got.response is not None
    assert 1 < len(got.response.headers) < 70


def test_an_event_stream_is_read_to_its_end_as_text():
    events = b"event: message_start\ndata: {}\n\nevent: message_stop\ndata: {}\n\n" * 50
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (events[:77], events[77:]))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    got = exchange_with(head + chunks + b"0\r\n\r\n")
    assert got.complete
    assert got.hostility == ()
    assert got.response is not None
    assert got.response.body.encode() == events
    assert got.response.body_bytes == len(events)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"n": NaN}', ("bad_numbers",)),
        (b'{"n": -Infinity}', ("bad_numbers",)),
        (b'{"n": 1e999}', ("bad_numbers",)),
        (b'{"n": %b}' % (b"9" * 5000), ("bad_numbers",)),
        (b'{"n": 1', ("bad_json",)),
        (b"<html>not here</html>", ("bad_json",)),
        (b"", ("bad_json",)),
        (b"[" * 100_000, ("bad_json",)),
        (b'{"n": 1.5e3, "m": 12345678901234567890, "s": "NaN"}', ()),
    ],
)
def test_json_that_is_none(body: bytes, kind: tuple[str, ...]):
    got = exchange_with(answer(body))
    assert (got.delivery, got.hostility) == ("answered", kind)


def test_a_page_is_no_fault_unless_json_was_asked_for():
    page = answer(b"<html></html>", "content-type: text/html")
    assert exchange_with(page, Outgoing("GET", "/api/status")).hostility == ()
    assert exchange_with(page).hostility == ("bad_json",)
    missing = answer(b"<html></html>", "content-type: text/html", status="404 Not Found")
    assert exchange_with(missing).hostility == ()


@pytest.mark.parametrize(
    "raw",
    [
        answer(json.dumps({"error": f"invalid key {KEY}"}).encode(), status="401 Unauthorized"),
        answer(b"{}", f"x-debug: {KEY}"),
        answer(b"{}", f"set-cookie: k={KEY}; path=/"),
    ],
)
def test_an_echoed_key_is_noticed_and_not_kept(raw: bytes):
    got = exchange_with(raw)
    assert got.hostility == ("key_echoed",)
    assert KEY not in repr(got)
    assert KEY[8:20] not in repr(got)


def test_somebody_elses_secret_is_kept_as_a_mark():
    foreign = "sk-ant-api03-" + "Ab3dEf6hIj" * 8
    got = exchange_with(answer(json.dumps({"error": foreign}).encode()))
    assert len(got.foreign_secrets) == 1
    assert foreign not in repr(got)
    assert got.hostility == ()


def test_bytes_that_are_no_text_are_shown_as_such():
    got = exchange_with(answer(b"\xff\xfe\x00caf\xc3\xa9", "content-type: text/plain"), Outgoing("GET", "/x"))
    assert got.response is not None
    assert got.response.body == "\ufffd\ufffd\x00café"


# --- TLS


async def ask_tls(base_url: str, *, ca: bool = True, **more: Any) -> tuple[Server, Answer]:
    async with serving(says(OK), tls=True) as server:
        line = transport(lookup=more.pop("lookup", to("127.0.0.1")))
        ca_file = str(TLS / "ca.pem") if ca else ""
        relay = endpoint(base_url.format(port=server.port), ca_file=ca_file, allow_private=True, **more)
        return server, await line.send(relay, ASK)


def test_the_certificate_is_checked_against_the_name_and_recorded():
    server, got = asyncio.run(ask_tls("https://relay.example:{port}"))
    leaf = ssl.PEM_cert_to_DER_cert((TLS / "server.pem").read_text().partition("\n")[2].partition("-----BEGIN PRIV")[0])
    assert (got.delivery, got.failure, len(server.seen)) == ("answered", "", 1)
    assert got.connection.leaf_sha256 == hashlib.sha256(leaf).hexdigest()
    assert got.connection.issuer == "O=relay-audit tests, CN=Test authority, trusted by nobody"
    assert got.connection.tls_version in ("TLSv1.2", "TLSv1.3")
    assert got.connection.address == f"127.0.0.1:{server.port}"
    assert got.connection.custom_ca
    assert server.names == ["relay.example"]
    assert f"host: relay.example:{server.port}".encode() in server.seen[0].lower()


@pytest.mark.parametrize(
    ("base_url", "ca"), [("https://relay.example:{port}", False), ("https://a.example:{port}", True)]
)
def test_an_unverified_certificate_gets_nothing(base_url: str, ca: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
    server, got = asyncio.run(ask_tls(base_url, ca=ca))
    assert (got.delivery, got.failure, got.response) == ("not_sent", "tls", None)
    assert server.seen == []


def test_there_is_no_way_to_switch_verification_off():
    names = {field.name for kind in (Endpoint, Outgoing, Limits) for field in dataclasses.fields(kind)}
    assert not any(word in name for name in names for word in ("verify", "insecure", "tls", "ssl", "skip"))


def test_a_ca_file_that_is_none_is_refused_before_anything_is_sent():
    with pytest.raises(TargetError, match="ca_file"):
        asyncio.run(ask("https://127.0.0.1:9", ca_file="/nowhere/ca.pem"))


# --- names and addresses


def test_a_name_is_looked_up_once_and_stays_where_it_was_checked():
    looked: list[str] = []

    async def rebinding(host: str, _port: int) -> list[str]:
        looked.append(host)
        return ["127.0.0.1"] if len(looked) == 1 else ["127.0.0.9"]

    async def run() -> list[Answer]:
        async with serving(says(OK), tls=True) as server:
            line = transport(lookup=rebinding)
            relay = endpoint(f"https://relay.example:{server.port}", ca_file=str(TLS / "ca.pem"), allow_private=True)
            return [await line.send(relay, ASK) for _ in range(2)]

    answers = asyncio.run(run())
    assert [got.delivery for got in answers] == ["answered", "answered"]
    assert looked == ["relay.example"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_loopback_behind_a_public_name_is_refused_before_a_socket(address: str):
    async def run() -> Server:
        async with serving(says(OK), tls=True) as server:
            with pytest.raises(AddressRefused) as refused:
                await transport(lookup=to("8.8.8.8", address)).send(
                    endpoint(f"https://relay.example:{server.port}"), ASK
                )
            assert refused.value.details["kind"] == "loopback"
            return server

    assert asyncio.run(run()).connections == 0


def test_a_name_that_is_none_was_not_sent():
    async def unknown(_host: str, _port: int) -> list[str]:
        raise OSError("no such name")

    async def hanging(_host: str, _port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    for lookup, limits in ((unknown, Limits()), (to(), Limits()), (hanging, Limits(connect_s=0.1))):
        line = transport(limits, lookup=lookup)
        got = asyncio.run(line.send(endpoint("https://relay.example"), ASK))
        assert (got.delivery, got.failure) == ("not_sent", "dns")
    got = asyncio.run(transport(Limits(total_s=0.1), lookup=hanging).send(endpoint("https://relay.example"), ASK))
    assert (got.delivery, got.failure) == ("not_sent", "timeout_connect")


def test_the_next_address_is_tried_when_the_first_takes_no_connection():
    async def run() -> tuple[Server, list[Answer]]:
        async with serving(says(OK)) as server:
            line = transport(lookup=to("::1", "127.0.0.1"))
            relay = endpoint(f"http://localhost:{server.port}")
            return server, [await line.send(relay, ASK) for _ in range(2)]

    server, answers = asyncio.run(run())
    assert [got.delivery for got in answers] == ["answered", "answered"]
    assert len(server.seen) == server.connections == 2
    assert f"host: localhost:{server.port}".encode() in server.seen[0].lower()


# --- proxies


class Proxy(Server):
    """A CONNECT proxy that leads every name to one loopback port."""

    def __init__(self, behind: int, reply: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        super().__init__()
        self.behind = behind
        self.reply = reply

    async def connected(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        self.connections += 1
        self.seen.append(await read_request(reader))
        writer.write(self.reply)
        if b" 200 " in self.reply:
            await tunnel(reader, writer, self.behind)
        writer.close()


class Socks(Server):
    """A SOCKS5 proxy without authentication that leads every name to one loopback port."""

    def __init__(self, behind: int, greeting: bytes = b"\x05\x00") -> None:
        super().__init__()
        self.behind = behind
        self.greeting = greeting

    async def connected(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        self.connections += 1
        await reader.readexactly(3)
        writer.write(self.greeting)
        if self.greeting != b"\x05\x00":
            writer.close()
            return
        head = await reader.readexactly(5)
        self.seen.append(head + await reader.readexactly(head[4] + 2))
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
        await tunnel(reader, writer, self.behind)
        writer.close()


async def tunnel(reader: asyncio.StreamReader, writer: Writer, port: int) -> None:
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)

    async def pump(source: asyncio.StreamReader, sink: Writer) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)


def test_a_proxy_is_used_when_named_and_recorded_without_credentials(monkeypatch: pytest.MonkeyPatch):
    async def run() -> tuple[Server, Proxy, Server, Answer]:
        async with serving(says(OK)) as decoy, serving(says(OK), tls=True) as server:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
                monkeypatch.setenv(name, decoy.url)
            proxy = Proxy(server.port)
            async with listening(proxy.connected, proxy):
                named = f"http://buyer:hunter2@127.0.0.1:{proxy.port}"
                relay = endpoint("https://relay.example", proxy=named, ca_file=str(TLS / "ca.pem"))
                assert "hunter2" not in repr(relay)
                return decoy, proxy, server, await transport(lookup=no_lookup).send(relay, ASK)

    decoy, proxy, server, got = asyncio.run(run())
    assert decoy.connections == 0
    assert proxy.seen[0].startswith(b"CONNECT relay.example:443 HTTP/1.1")
    assert b"proxy-authorization: basic " in proxy.seen[0].lower()
    assert KEY.encode() not in proxy.seen[0]
    assert (got.delivery, len(server.seen)) == ("answered", 1)
    assert got.connection.proxy == f"127.0.0.1:{proxy.port}"
    assert got.connection.address == ""
    assert got.connection.leaf_sha256
    assert "hunter2" not in repr(got)


def test_the_environments_proxy_is_ignored(monkeypatch: pytest.MonkeyPatch):
    async def run() -> tuple[Server, Server, Answer]:
        async with serving(says(OK)) as decoy, serving(says(OK)) as server:
            for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
                monkeypatch.setenv(name, decoy.url)
            return decoy, server, await ask(server.url)

    decoy, server, got = asyncio.run(run())
    assert (decoy.connections, len(server.seen), got.delivery, got.connection.proxy) == (0, 1, "answered", "")


def test_a_socks_proxy_resolves_the_name():
    async def run() -> tuple[Socks, Server, Answer]:
        async with serving(says(OK), tls=True) as server:
            proxy = Socks(server.port)
            async with listening(proxy.connected, proxy):
                named = f"socks5://127.0.0.1:{proxy.port}"
                relay = endpoint("https://relay.example", proxy=named, ca_file=str(TLS / "ca.pem"))
                return proxy, server, await transport(lookup=no_lookup).send(relay, ASK)

    proxy, server, got = asyncio.run(run())
    assert b"relay.example" in proxy.seen[0]
    assert (got.delivery, len(server.seen)) == ("answered", 1)
    assert got.connection.leaf_sha256


@pytest.mark.parametrize(
    "kind",
    [
        lambda: Proxy(0, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"),
        lambda: Proxy(0, b"HTTP/1.1 502 Bad Gateway\r\n\r\n"),
        lambda: Proxy(0, b""),
        lambda: Proxy(0, b"220 nonsense\r\n\r\n"),
        lambda: Socks(0, b"\x05\xff"),
        lambda: Socks(0, b"\x00"),
        lambda: Socks(0, b""),
    ],
)
def test_a_proxy_that_does_not_let_us_through_means_not_sent(kind: Callable[[], Proxy | Socks]):
    async def run() -> Answer:
        proxy = kind()
        async with listening(proxy.connected, proxy):
            scheme = "http" if isinstance(proxy, Proxy) else "socks5"
            got: Answer = await ask("https://relay.example", proxy=f"{scheme}://127.0.0.1:{proxy.port}")
            return got

    got = asyncio.run(run())
    assert (got.delivery, got.failure, got.hostility) == ("not_sent", "proxy", ())


def test_behind_a_proxy_the_relays_certificate_is_still_checked():
    async def run() -> tuple[Server, Answer]:
        async with serving(says(OK), tls=True) as server:
            proxy = Proxy(server.port)
            async with listening(proxy.connected, proxy):
                return server, await ask("https://relay.example", proxy=f"http://127.0.0.1:{proxy.port}")

    server, got = asyncio.run(run())
    assert (got.delivery, got.failure, server.seen) == ("not_sent", "tls", [])


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "[fe80::1]", "2130706433", "localhost."])
def test_behind_a_proxy_addresses_that_are_spelled_out_are_checked(host: str):
    with pytest.raises(AddressRefused):
        asyncio.run(ask(f"https://{host}:8443", proxy="http://127.0.0.1:9", secret=None))


@pytest.mark.parametrize("proxy", ["127.0.0.1:7890", "ftp://127.0.0.1:1", "http://", "http://u:hunter2@h:99999", "x"])
def test_a_proxy_that_is_none_is_refused_without_quoting_it(proxy: str):
    with pytest.raises(TargetError) as refused:
        asyncio.run(ask("https://relay.example", proxy=proxy))
    assert "hunter2" not in str(refused.value)
