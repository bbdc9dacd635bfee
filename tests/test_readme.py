"""Both README files do what they say: every command in them runs against the lab, on consoles of three kinds."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relay_audit import __version__
from relay_audit.cli.main import main
from relay_audit.lab import Served, serve

ROOT = Path(__file__).resolve().parent.parent
ENGLISH, CHINESE = "README.md", "README.zh-CN.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PREFIX = f"uvx --from relay-audit-toolkit=={__version__} relay-audit "


def blocks(file: str, *kinds: str) -> list[str]:
    return [body for kind, body in BLOCK.findall((ROOT / file).read_text(encoding="utf-8")) if kind in kinds]


def lines(file: str) -> list[str]:
    return [
        line.removeprefix("$ ").strip() for body in blocks(file, "sh", "console") for line in body.splitlines() if line
    ]


def commands(file: str) -> list[tuple[str, int]]:
    """Each line that starts with our command, and the exit code its comment names (0 without one)."""
    found = []
    for line in lines(file):
        if line.startswith("relay-audit "):
            command, _, remark = line.partition("#")
            code = re.fullmatch(r"\s*exit (\d+)\s*", remark)
            assert code or not remark, line
            found.append((command.strip(), int(code[1]) if code else 0))
    return found


def files(file: str) -> dict[str, str]:
    """TOML blocks whose first line names the file they are."""
    return {body.split("\n", 1)[0].removeprefix("# "): body for body in blocks(file, "toml")}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve("hidden_508", pace=0) as lab:
        yield lab


@pytest.fixture
def relay_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """The command in this process, its output through a console of the given encoding."""
    monkeypatch.chdir(tmp_path)

    def run(line: str, encoding: str = "utf-8") -> tuple[int, str, str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
        monkeypatch.setattr(sys, "argv", line.split())
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        with pytest.raises(SystemExit) as ended:
            main()
        raw = [stream.buffer.getvalue().decode(encoding) for stream in (out, err) if not stream.flush()]
        return int(ended.value.code or 0), raw[0], raw[1]

    return run


@pytest.mark.deep
@pytest.mark.parametrize(("file", "lang", "encoding"), [(ENGLISH, "zh-CN", "cp1252"), (CHINESE, "zh-CN", "gbk")])
def test_every_command_does_what_is_said(file, lang, encoding, served, relay_audit, tmp_path, monkeypatch):
    for name, value in {
        "RELAY_KEY": served.relay_key, "OFFICIAL_KEY": served.official_key, "RELAY_AUDIT_LANG": lang,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    places = {"https://relay.example": served.relay_url, "https://api.anthropic.com": served.official_url}
    for name, text in files(file).items():
        for shown, real in places.items():
            text = text.replace(f'"{shown}"', f'"{real}"')
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "film.mp4").write_bytes((ROOT / "tests/data/media/plain.mp4").read_bytes())
    run, digest = "", ""
    for line, expected in commands(file):
        for shown, real in places.items():
            line = line.replace(shown, real)
        if "--official-key-env" in line:
            line += f" --official-base-url {served.official_url}"
        code, out, err = relay_audit(line.replace(" RUN", f" {run}").replace("DIGEST", digest), encoding)
        assert code == expected, f"{line}\n{out}\n{err}"
        assert "Traceback" not in err
        if line.startswith("relay-audit run") and (
            found := re.search(r"approve (\S+) --quote ([0-9a-f]{64})", out + err)
        ):
            run, digest = found[1], found[2]
        if " --json" in line:
            run = json.loads(out)["run_id"]
    assert {path.name for path in tmp_path.glob("*.html")} == {"vendor.html"}
    assert "508" in (tmp_path / "vendor.html").read_text(encoding="utf-8")
    assert "508" in (tmp_path / "internal.json").read_text(encoding="utf-8")


def test_both_languages_show_the_same_commands_and_files():
    assert commands(ENGLISH) == commands(CHINESE)
    assert [tomllib.loads(text).keys() for text in files(ENGLISH).values()] == [
        tomllib.loads(text).keys() for text in files(CHINESE).values()
    ]
    assert list(files(ENGLISH)) == list(files(CHINESE)) == ["target.toml", "prices.toml", "film.toml"]


def test_every_command_of_the_program_is_shown(relay_audit):
    _, text, _ = relay_audit("relay-audit --help")
    named = set(re.findall(r"^  ([a-z-]+) {2,}", text.split("Commands:")[1].split("Exit codes")[0], re.MULTILINE))
    assert {"run", "quote", "approve", "doctor"} <= named
    assert named == {line.split()[1] for line, _ in commands(ENGLISH)}


@pytest.mark.parametrize("file", [ENGLISH, CHINESE])
def test_other_lines_have_the_right_form(file):
    others = [line for line in lines(file) if not line.startswith("relay-audit ")]
    assert any(line.startswith(PREFIX) for line in others)
    allowed = re.compile(
        rf"{re.escape(PREFIX)}\w+|pip install relay-audit-toolkit=={re.escape(__version__)}|make (demo|test) .*"
        r"|export (RELAY_KEY|OFFICIAL_KEY)(_ORIGIN)?='[^']*'.*"
    )
    assert not [line for line in others if not allowed.fullmatch(line)]


def test_the_same_sections_in_both_languages():
    heads = [
        re.findall(r"^##+", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE) for file in (ENGLISH, CHINESE)
    ]
    assert heads[0] == heads[1]


@pytest.mark.parametrize("encoding", ["gbk", "cp1252"])
def test_a_real_console_of_that_encoding(encoding, tmp_path):
    """In a child process, as `PYTHONIOENCODING` sets it."""
    environ = {**os.environ, "PYTHONIOENCODING": encoding, "RELAY_AUDIT_LANG": "zh-CN"}
    command = [sys.executable, "-m", "relay_audit.cli.main", "doctor"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "relay-audit-toolkit" in done.stdout.decode(encoding)
