"""The world of every test: no network but loopback, no names looked up, a home of its own, nobody's keys.

`pytest-socket` (pyproject) refuses connections in this process. Child processes get proxies that point at a closed
port, so that a forgotten connection fails there too; tests that install packages (`relays`, `wheel`) are exempt.
"""

from __future__ import annotations

import gc
import ipaddress
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")  # no test is a timed one: a busy machine is no fault of ours
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Else each worker rewrites the asserts of two hundred modules, and each child compiles the program and its templates anew.
CLOSED = "http://127.0.0.1:9"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
LOCAL = "127.0.0.1,localhost,::1"
STRANGERS = (
    "ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE_GEMINI", "RELAY_", "OFFICIAL_KEY", "LAB_", "CI", "COLUMNS", "FORCE_COLOR",
    "NO_COLOR",
)  # fmt: skip
"""Beginnings of variables that would make a test depend on who runs it."""
INSTALLERS = ("relays", "wheel")
OUTSIDE = dict(os.environ)
"""The environment pytest was started in: what an installer needs."""
HOMES = ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.upper().startswith(STRANGERS)]:
        del os.environ[name]
    config.stash[HOME] = tempfile.TemporaryDirectory(prefix="relay-audit-tests-")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """xdist 3.8 writes a test's group where pytest 9.2 no longer reads it, and both workers would make what a group shares."""
    yield
    for item in items:
        if (grouped := getattr(item, "_nodeid", item.nodeid)) != item.nodeid:
            item._id = type(item._id).parse(grouped) if hasattr(type(item._id), "parse") else grouped


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: walked through at each full collection, it cost more than what
    the tests leave behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[HOME].cleanup()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a run over many seeds has shown: silence, and the bound on what silence can hide."""
    passed = terminalreporter.getreports("passed")
    bounds = sorted(str(value) for report in passed for name, value in report.user_properties if name == "bound")
    if bounds:
        terminalreporter.section("silent over many seeds")
        for line in bounds:
            terminalreporter.write_line(line)


HOME = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of the test, whatever its scope, so that its children get this environment."""
    installs = any(item.get_closest_marker(name) for name in INSTALLERS)
    home = item.config.stash[HOME].name
    for name in (*PROXIES, "NO_PROXY", "no_proxy", *HOMES):
        os.environ.pop(name, None)
        if installs and name in OUTSIDE:
            os.environ[name] = OUTSIDE[name]
    if not installs:
        os.environ.update(dict.fromkeys(PROXIES, CLOSED) | {"NO_PROXY": LOCAL, "no_proxy": LOCAL})
        os.environ.update({"HOME": home, "USERPROFILE": home})


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State (locks, salt, log budgets) and configuration of this test alone."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("RELAY_AUDIT_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocked connection would still have looked its name up; here the look-up is refused."""
    ask = socket.getaddrinfo

    def only_local(host, *rest, **more):
        text = host.decode() if isinstance(host, bytes) else host
        if text not in (None, "", "localhost") and not _literal(text):
            raise socket.gaierror(socket.EAI_NONAME, "tests look up no names")
        return ask(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", only_local)


def _literal(text: str) -> bool:
    try:
        ipaddress.ip_address(text.split("%")[0])
    except ValueError:
        return False
    return True
