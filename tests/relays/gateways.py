"""Gateways out of the package indexes that ask for no database: Portkey and claude-code-router (Node.js), firstpass (one
binary in a wheel). Where Node.js or the index is not to be had, the tests that need them say so and are skipped."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from filelock import FileLock
from stations import CACHE, INSTALL_S, Station, free_port, programs, running

from relay_audit.lab import Served

FIRSTPASS = "firstpass==0.9.0"
PORTKEY = {
    "dependencies": {"@portkey-ai/gateway": "1.15.2"},
    "overrides": {"hono": "4.9.7", "@hono/node-server": "1.13.5"},
}
"""With a newer hono than its own lock has, every stream of it ends in a TypeError."""
ROUTER: dict[str, dict[str, str]] = {"dependencies": {"@musistudio/claude-code-router": "2.0.0"}}
BUYER = "sk-of-the-buyer-0123456789"
HOP_BY_HOP = frozenset({"connection", "host", "transfer-encoding", "content-length", "x-api-key", "authorization"})


def packages(name: str, wanted: Mapping[str, Any]) -> Path:
    """The `node_modules` of a folder that holds exactly this; made at the first use. Scripts of packages do not run."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("Node.js with npm is not installed here")
    home = CACHE / name
    CACHE.mkdir(exist_ok=True)
    text = json.dumps({"private": True, **wanted})
    with FileLock(CACHE / f"{name}.lock", timeout=INSTALL_S):
        made = home / ".complete"
        if not made.exists() or made.read_text(encoding="utf-8") != text:
            home.mkdir(exist_ok=True)
            (home / "package.json").write_text(text, encoding="utf-8")
            words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
            done = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False, timeout=INSTALL_S)
            if done.returncode:
                pytest.skip(f"{name} cannot be installed here: {done.stderr[-300:]}")
            made.write_text(text, encoding="utf-8")
    return home / "node_modules"


@contextlib.contextmanager
def portkey(lab: Served, home: Path, dialect: str, **override: str) -> Iterator[Station]:
    """Portkey as a vendor runs it: a hop before it holds the configuration and asks for the buyer's key. `override` are
    fields that its own setting writes into every request."""
    home.mkdir(parents=True, exist_ok=True)
    server = packages("portkey-1.15.2", PORTKEY) / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    url = f"http://127.0.0.1:{(port := free_port())}"
    config = {
        "provider": "anthropic" if dialect == "anthropic" else "openai",
        "api_key": lab.official_key,
        "custom_host": f"{lab.official_url}/v1",
        **({"override_params": override} if override else {}),
    }
    with (
        running(["node", str(server), f"--port={port}", "--headless"], f"{url}/", home),
        hop(url, {"x-portkey-config": json.dumps(config)}) as front,
    ):
        yield Station("portkey", front, BUYER)


@contextlib.contextmanager
def router(upstream: Served, home: Path, served: str, *, converts: bool) -> Iterator[Station]:
    """claude-code-router with one route for whatever is asked: the Messages API as it is, or converted to chat."""
    (home / ".claude-code-router").mkdir(parents=True, exist_ok=True)
    program = packages("claude-code-router-2.0.0", ROUTER) / "@musistudio" / "claude-code-router" / "dist" / "cli.js"
    port = free_port()
    route = "chat/completions" if converts else "messages"
    provider = {
        "name": "up",
        "api_base_url": f"{upstream.official_url}/v1/{route}",
        "api_key": upstream.official_key,
        "models": [served],
        **({} if converts else {"transformer": {"use": ["Anthropic"]}}),
    }
    config = {"APIKEY": BUYER, "HOST": "127.0.0.1", "PORT": port, "NON_INTERACTIVE_MODE": True, "LOG": False,
              "Providers": [provider], "Router": {"default": f"up,{served}"}}  # fmt: skip
    (home / ".claude-code-router" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    url = f"http://127.0.0.1:{port}"
    with running(["node", str(program), "start"], f"{url}/health", home, SERVICE_PORT=str(port)):
        yield Station("claude-code-router", url, BUYER)


@contextlib.contextmanager
def firstpass(lab: Served, home: Path) -> Iterator[Station]:
    """firstpass as it comes: it observes, and hands everything on."""
    home.mkdir(parents=True, exist_ok=True)
    program = str(programs(FIRSTPASS, "--no-deps") / "firstpass-proxy")
    url = f"http://127.0.0.1:{(port := free_port())}"
    own = {"FIRSTPASS_BIND": f"127.0.0.1:{port}", "FIRSTPASS_DB": str(home / "traces.db"),
           "FIRSTPASS_UPSTREAM_ANTHROPIC": lab.official_url, "FIRSTPASS_UPSTREAM_OPENAI": lab.official_url}  # fmt: skip
    with running([program], f"{url}/healthz", home, **own), hop(url, {"x-api-key": lab.official_key}) as front:
        yield Station("unknown", front, BUYER)


@contextlib.contextmanager
def hop(upstream: str, adds: Mapping[str, str], key: str = BUYER) -> Iterator[str]:
    """The address of a reverse proxy that lets `key` in, takes it off and puts its own headers on. An empty `key` asks for
    none."""
    there = urlsplit(upstream)

    class Hop(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's own signature
            """Quiet."""

        def do_GET(self) -> None:
            self._hand_on()

        def do_POST(self) -> None:
            self._hand_on()

        def do_OPTIONS(self) -> None:
            self._hand_on()

        def _hand_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            given = self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
            if key and given != key:
                self._send(401, [("content-type", "application/json")], b'{"error": {"message": "unknown key"}}')
                return
            sent = {n: v for n, v in self.headers.items() if n.lower() not in HOP_BY_HOP}
            ahead = http.client.HTTPConnection(there.hostname or "", there.port, timeout=60)
            ahead.request(self.command, self.path, body or None, {**sent, **adds})
            answer = ahead.getresponse()
            self._send(answer.status, answer.getheaders(), answer.read())
            ahead.close()

        def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hop) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
