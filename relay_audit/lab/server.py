"""A scenario on real loopback ports: every wait, cut, reset and silence of its answers happens on the wire."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from relay_audit.lab.gpt_scenarios import Dialect
from relay_audit.lab.scenario import Scenario
from relay_audit.lab.video_world import VideoWorld
from relay_audit.lab.wire import HttpAnswer, HttpRequest, Side
from relay_audit.lab.world import Arrival, World

LOOPBACK = "127.0.0.1"
WORTH_PACKING = 200
"""Bytes from which a JSON answer is compressed."""


@dataclass
class Served:
    """A running scenario."""

    world: World | VideoWorld
    relay_url: str
    official_url: str
    elsewhere_url: str
    pace: float
    """Factor on every wait; 0 answers at once."""
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def relay_key(self) -> str:
        return self.world.relay_key

    @property
    def official_key(self) -> str:
        return self.world.official_key

    @property
    def arrivals(self) -> list[Arrival]:
        """Every request that came in, in order."""
        return list(self.world.arrivals)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The rows the relay keeps of this caller's own calls, whatever its log route shows."""
        return self.world.log.own_rows() if self.world.log else []


PORTS: tuple[Side, ...] = ("relay", "official", "elsewhere")
"""In the order of their ports, where they are given."""


@contextlib.contextmanager
def serve(
    scenario: Scenario | str,
    seed: int = 0,
    clock: Callable[[], float] | None = None,
    *,
    pace: float = 1.0,
    dialect: Dialect = "anthropic",
    port: int = 0,
) -> Iterator[Served]:
    """Runs a scenario until the block ends. `clock` gives Unix seconds to ids, dates, log and limiter; waits on the
    wire are real and multiplied by `pace`. With a `port` the relay has it, the official side the next one, and the
    place that redirects lead to the one after; raises OSError when one is taken."""
    with serve_world(World(scenario, seed, clock or time.time, dialect), pace=pace, port=port) as served:
        yield served


@contextlib.contextmanager
def serve_world(world: World | VideoWorld, *, pace: float = 1.0, port: int = 0) -> Iterator[Served]:
    """The same for a world that is there already."""
    with contextlib.ExitStack() as stack:
        servers: dict[Side, LabServer] = {
            side: stack.enter_context(LabServer(side, port and port + PORTS.index(side))) for side in _sides(world)
        }
        silent = stack.enter_context(socket.socket()) if "relay" not in servers else None
        served = Served(
            world=world,
            relay_url=_closed_port(silent) if silent else servers["relay"].url,
            official_url=servers["official"].url,
            elsewhere_url=servers["elsewhere"].url,
            pace=pace,
        )
        world.points_elsewhere(served.elsewhere_url)
        for server in servers.values():
            server.start(served)
        try:
            yield served
        finally:
            served.stopping.set()
            for server in servers.values():
                server.shutdown()


def _sides(world: World | VideoWorld) -> tuple[Side, ...]:
    everything: tuple[Side, ...] = ("official", "elsewhere", "relay")
    return everything[:-1] if world.knobs.hostile == "unreachable" else everything


def _closed_port(held: socket.socket) -> str:
    """An address whose port is taken, so that nobody else gets it, and on which nobody listens."""
    held.bind((LOOPBACK, 0))
    return f"http://{LOOPBACK}:{held.getsockname()[1]}"


class LabServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64  # as a real server has it: with the base class's 5 a burst waits a second for its handshake

    def __init__(self, side: Side, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), Handler)
        self.side: Side = side
        self.served: Served | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def start(self, served: Served) -> None:
        self.served = served
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  the base class's own signature
        """A caller who hangs up is no news; anything else is a fault of the lab and may be seen."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120
    server: LabServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's own signature
        """Quiet: what arrived is in `arrivals`."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_OPTIONS(self) -> None:
        self._serve()

    def _serve(self) -> None:
        served = self.server.served
        if served is None:
            raise RuntimeError("a request before the start")
        headers = tuple(self.headers.items())
        request = HttpRequest(self.command, self.path, headers, self._body())
        answer = served.world.handle(self.server.side, request)
        packs = served.world.seen.gzip and "gzip" in request.header("accept-encoding")
        self._send(_packed(answer) if packs else answer, served)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, answer: HttpAnswer, served: Served) -> None:
        if answer.behaviour == "hang":
            served.stopping.wait()
            self.close_connection = True
            return
        if served.stopping.wait(answer.delay * served.pace):
            self.close_connection = True
            return
        head = _head(answer)
        if answer.behaviour == "reset":
            self._reset(head + answer.body, served)
            return
        chunked = _is_chunked(answer)
        for wait, part in answer.parts():
            if wait and served.stopping.wait(wait * served.pace):
                self.close_connection = True
                return
            self.wfile.write(head + (b"%x\r\n%b\r\n" % (len(part), part) if chunked and part else part))
            head = b""
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _reset(self, sent: bytes, served: Served) -> None:
        """Sends what there is, gives it time to arrive, and breaks the connection instead of closing it."""
        self.wfile.write(sent)
        served.stopping.wait(0.05)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _is_chunked(answer: HttpAnswer) -> bool:
    return answer.length is None and (answer.flow is not None or bool(answer.pieces))


def _head(answer: HttpAnswer) -> bytes:
    length = len(answer.body) if answer.length is None else answer.length
    framing = ("transfer-encoding", "chunked") if _is_chunked(answer) else ("content-length", str(length))
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{name}: {value}" for name, value in (*answer.headers, framing))]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _packed(answer: HttpAnswer) -> HttpAnswer:
    """The answer compressed, where it is whole JSON and long enough to be worth it."""
    plain = not re.match("application/json", answer.header("content-type")) or answer.header("content-encoding")
    if plain or answer.flow or answer.behaviour != "answer" or len(answer.body) < WORTH_PACKING:
        return answer
    body = gzip.compress(answer.body, mtime=0)
    pieces = (len(body) // 2, len(body) - len(body) // 2) if answer.pieces else ()
    return replace(answer, headers=(*answer.headers, ("content-encoding", "gzip")), body=body, pieces=pieces)
