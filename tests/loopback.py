"""Loopback servers that behave as badly as a test wants, and a count of what reached them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TLS = Path(__file__).parent / "data" / "tls"
Writer = asyncio.StreamWriter
Behaviour = Callable[[bytes, Writer], Awaitable[None]]


class Server:
    """One listening port. `seen` holds each request as it arrived, `connections` how many were opened."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.seen: list[bytes] = []
        self.names: list[str] = []
        """Server names that TLS clients asked for."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    return head + (await reader.readexactly(length) if length else b"")


@contextlib.asynccontextmanager
async def serving(behave: Behaviour, *, tls: bool = False) -> AsyncIterator[Server]:
    """Reads one request per connection and hands it to `behave`; connections are closed at the end."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: Writer) -> None:
        server.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            request = await read_request(reader)
            server.seen.append(request)
            await behave(request, writer)
        writer.close()

    async with listening(connected, server, tls=tls):
        yield server
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def listening(
    connected: Callable[[asyncio.StreamReader, Writer], Awaitable[None]], server: Server, *, tls: bool = False
) -> AsyncIterator[Server]:
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "server.pem")
        context.sni_callback = lambda _socket, name, _context: server.names.append(name)
    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await asyncio.sleep(0.01)  # lets what was closed on either side be gone


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body) if length is None else length}", *headers]
    if not any(line.lower().startswith("content-type") for line in headers):
        lines.append("content-type: application/json")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def says(raw: bytes) -> Behaviour:
    async def behave(_request: bytes, writer: Writer) -> None:
        writer.write(raw)
        await writer.drain()

    return behave


async def silent(_request: bytes, _writer: Writer) -> None:
    await asyncio.sleep(60)


def drips(head: bytes, drop: bytes, every: float) -> Behaviour:
    """A beginning, then the same bytes for ever."""

    async def behave(_request: bytes, writer: Writer) -> None:
        writer.write(head)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(every)

    return behave


@contextlib.contextmanager
def answering(answer: Callable[[str, dict[str, str], bytes], tuple[int, str, bytes]]) -> Iterator[str]:
    """A server in a thread of its own, for a caller that waits. `answer`: path, headers (names in lower case) and body of a
    POST to status, content type and body. Yields its origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, kind, raw = answer(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
