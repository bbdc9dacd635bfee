"""Relay programs that nobody here wrote, each in an environment of its own, and a buyer before them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from relay_audit.lab import Served

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".venv-relays"
"""Environments are kept here between runs; git does not see it."""
HUBRELAY, LITELLM, FERROGW = "hubrelay==0.9.0", "litellm[proxy]==1.108.7", "ferrogw==1.5.10"
MASTER_KEY = "sk-litellm-master"
CLOSED = "http://127.0.0.1:9"
"""Nobody listens there: a relay that wants to reach the world does not."""
INSTALL_S, START_S, STOP_S, AUDIT_S = 900, 180, 20, 120


ENGINE = "1,2,6"
"""What the engine's own tests buy; all checks have tests of their own."""


@dataclass(frozen=True)
class Station:
    """A running relay and what its customer was given."""

    software: str
    url: str
    key: str


@dataclass(frozen=True)
class Bought:
    """What the command line said to the buyer."""

    exit_code: int
    short: dict[str, Any]
    """The last object of `run --json`."""
    full: dict[str, Any]
    """`report --format json`; empty where no run came about."""
    home: Path

    @property
    def findings(self) -> dict[str, dict[str, Any]]:
        return {finding["code"]: finding for finding in self.full["findings"]}

    @property
    def against(self) -> set[str]:
        """Codes of every difference above info."""
        return {f["code"] for f in self.full["findings"] if f["outcome"] == "mismatch" and f["severity"] != "info"}

    @property
    def coverage(self) -> dict[int, tuple[str, str]]:
        return {row["check"]: (row["state"], row["reason"]) for row in self.short["coverage"]}

    @property
    def headline(self) -> str:
        return str(self.short["headline"]["text"])

    def page(self, audience: str) -> str:
        """The text of a report."""
        html = Path(self.short["reports"][audience]).read_text(encoding="utf-8")
        return re.sub(r"\s+", " ", re.sub(r"<style.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL))


def programs(requirement: str, *options: str) -> Path:
    """The folder of executables of an environment that holds exactly this; made at the first use."""
    name, version = re.fullmatch(r"([a-z]+)(?:\[[a-z]+\])?==([\d.]+)", requirement).groups()  # type: ignore[union-attr]
    home = CACHE / f"{name}-{version}"
    made = home / ".complete"
    CACHE.mkdir(exist_ok=True)
    with FileLock(CACHE / f"{home.name}.lock", timeout=INSTALL_S):
        if not made.exists():
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(home)],
                [str(home / "bin" / "pip"), "install", "--quiet", *options, requirement],
            ):
                subprocess.run(command, check=True, timeout=INSTALL_S)
            made.write_text(requirement, encoding="utf-8")
    return home / "bin"


def surroundings(home: Path, **more: str) -> dict[str, str]:
    """What a child process may know: no key of ours, no way out."""
    closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), CLOSED)
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **closed, **local, **more}


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], ready: str, home: Path, **more: str) -> Iterator[None]:
    """A child process from its first answer on; ended by its own id."""
    log = home / "station.log"
    with log.open("wb") as said:
        child = subprocess.Popen(command, cwd=home, env=surroundings(home, **more), stdout=said, stderr=said)
        try:
            _await(child, ready, log)
            yield
        finally:
            child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(STOP_S)


def _await(child: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert child.poll() is None, f"ended before it answered: {log.read_text(errors='replace')[-2000:]}"
        if _answers(url):
            return
        time.sleep(0.1)
    raise AssertionError(f"no answer within {START_S} s: {log.read_text(errors='replace')[-2000:]}")


def _answers(url: str) -> bool:
    """Whether anything at all comes back, a refusal included."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        direct.open(url, timeout=5).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def hubrelay(lab: Served, home: Path, sold: str, served: str = "") -> Iterator[Station]:
    """hubrelay with one channel: `sold` as it is, or mapped to the model `served`."""
    home.mkdir(parents=True, exist_ok=True)
    program = str(programs(HUBRELAY, "--no-deps") / "hubrelay")
    pool, tokens = home / "pool.json", home / "tokens.json"

    def tell(*words: str) -> str:
        done = subprocess.run([program, *words], env=surroundings(home, RELAYHUB_HOME=str(home)), cwd=home,
                              capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
        return done.stdout

    mapping = ["--mapping", f"{sold}={served}"] if served else []
    tell("pool", "add", "--pool", str(pool), "--base-url", lab.official_url, "--api-key", lab.official_key,
         "--protocol", "anthropic-messages", "--label", "only", "--model", sold, *mapping)  # fmt: skip
    token = re.search(r"rht_[0-9a-f]+", tell("token", "add", "--tokens", str(tokens), "--name", "buyer"))
    assert token, "no token was printed"
    url = f"http://127.0.0.1:{(port := free_port())}"
    place = ["--pool", str(pool), "--tokens", str(tokens), "--host", "127.0.0.1", "--port", str(port)]
    unlimited = ["--api-key", "rh_master_of_nobody", "--health-interval", "0", "--ip-rpm", "0"]
    command = [program, "serve", *place, *unlimited]
    with running(command, f"{url}/v1/models", home, RELAYHUB_HOME=str(home)):
        yield Station("hubrelay", url, token[0])


@contextlib.contextmanager
def litellm(lab: Served, home: Path, channels: Mapping[str, str], **settings: object) -> Iterator[Station]:
    """LiteLLM's proxy: each name that is sold, and the model it is mapped to; `settings` of its own kind."""
    home.mkdir(parents=True, exist_ok=True)
    program = str(programs(LITELLM) / "litellm")
    rows = [
        {
            "model_name": sold,
            "litellm_params": {
                "model": f"anthropic/{served}",
                "api_base": lab.official_url,
                "api_key": lab.official_key,
            },
        }
        for sold, served in channels.items()
    ]
    config = home / "config.yaml"  # JSON is YAML
    config.write_text(
        json.dumps({"model_list": rows, "general_settings": {"master_key": MASTER_KEY}, "litellm_settings": settings}),
        encoding="utf-8",
    )
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1"}
    with running(command, f"{url}/health/liveliness", home, **offline):
        yield Station("litellm", url, MASTER_KEY)


@contextlib.contextmanager
def ferrogw(lab: Served, home: Path) -> Iterator[Station]:
    """ferrogw before OpenAI: it speaks that format alone, takes Bearer alone and sells what its own catalogue holds.

    It has no setting for the address it listens on, so that its key is the only thing between it and the network.
    """
    home.mkdir(parents=True, exist_ok=True)
    program = str(programs(FERROGW, "--no-deps") / "ferrogw")
    (home / "config.yaml").write_text(
        json.dumps({"strategy": {"mode": "fallback"}, "targets": [{"virtual_key": "openai"}]}), encoding="utf-8"
    )
    key, port = f"fgw_{secrets.token_hex(16)}", free_port()
    url = f"http://127.0.0.1:{port}"
    own = {"PORT": str(port), "MASTER_KEY": key, "GATEWAY_CONFIG": "config.yaml"}
    upstream = {"OPENAI_API_KEY": lab.official_key, "OPENAI_BASE_URL": lab.official_url}
    with running([program, "serve"], f"{url}/health", home, **own, **upstream):
        yield Station("ferrogw", url, key)


def buy(station: Station, lab: Served, home: Path, model: str, *, official: bool, vendor_name: str = "",
        key: str = "", checks: str = ENGINE, dialect: str = "anthropic") -> Bought:  # fmt: skip
    """The audit as a buyer runs it: a target file, keys in variables, a ceiling; an empty `checks` means all."""
    home.mkdir(parents=True, exist_ok=True)
    target = home / "target.toml"
    text = _target(station, lab, model, vendor_name or model, official=official)
    if dialect != "anthropic":
        text = text.replace('channel = "anthropic"', 'channel = "openai"')
        text = text.replace("[relay]", f'dialect = "{dialect}"\n[relay]')
    target.write_text(text, encoding="utf-8")
    keys = {"RELAY_KEY": key or station.key, **({"OFFICIAL_KEY": lab.official_key} if official else {})}
    only = ("--checks", checks) if checks else ()
    ended = _relay_audit(
        home, keys, "run", target.name, *only, "--max-usd", "5", "--no-input", "--json", "--lang", "en"
    )
    short = json.loads(ended.stdout)
    if "run_id" not in short:
        return Bought(ended.returncode, short, {}, home)
    whole = _relay_audit(home, {}, "report", short["run_id"], "--for", "internal", "--format", "json", "--lang", "en")
    assert whole.returncode == 0, whole.stderr
    return Bought(ended.returncode, short, json.loads(whole.stdout), home)


def _target(station: Station, lab: Served, model: str, vendor_name: str, *, official: bool) -> str:
    lines = ["[target]", 'name = "line-under-test"', f'model = "{model}"', 'claim = { channel = "anthropic" }',
             "[relay]", f'base_url = "{station.url}/v1"', 'key_env = "RELAY_KEY"']  # fmt: skip
    if official:
        lines += [
            "[official]",
            f'base_url = "{lab.official_url}"',
            f'model = "{vendor_name}"',
            'key_env = "OFFICIAL_KEY"',
        ]
    return "\n".join(lines) + "\n"


def _relay_audit(home: Path, keys: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("relay-audit")
    # The checkout's own code, wherever the environment's editable install points.
    environ = surroundings(home, RELAY_AUDIT_HOME=str(home / "state"), PYTHONPATH=str(ROOT), **keys)
    return subprocess.run(
        [str(program), *words], cwd=home, env=environ, capture_output=True, text=True, check=False, timeout=AUDIT_S
    )
