"""The action is run as a runner runs it, with our own lab as the vendor; an input is data whatever it holds."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay_audit.lab import Served, serve

ROOT = Path(__file__).resolve().parent.parent
NASTY = "x$(touch pwned)`touch pwned`\n; touch pwned\n--max-usd=9"


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"action_{name}", ROOT / "action" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve("hidden_508", pace=0) as lab:
        yield lab


@pytest.fixture
def runner(tmp_path: Path, served: Served) -> Any:
    """A job's folder and environment; the program is installed already, as it is on the second night."""
    bin_ = tmp_path / "temp/relay-audit/venv/bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (bin_ / "relay-audit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m relay_audit.cli.main "$@"\n')
    for file in bin_.iterdir():
        file.chmod(0o755)
    (tmp_path / "target.toml").write_text(
        f'[target]\nmodel = "claude-sonnet-5-5"\nclaim = {{ channel = "anthropic" }}\n'
        f'[relay]\nbase_url = "{served.relay_url}"\nkey_env = "RELAY_KEY"\n'
    )

    def run(**inputs: str) -> tuple[int, str, dict[str, str], str]:
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(tmp_path / "temp"),
            "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "CI": "true",
            "RELAY_KEY": served.relay_key, "INPUT_TARGET": "target.toml", "INPUT_PACKAGE": "unused",
            "RELAY_AUDIT_RUNS": str(tmp_path / "runs"), "RELAY_AUDIT_HOME": str(tmp_path / "home"),
        } | inputs  # fmt: skip
        done = subprocess.run(
            ["bash", str(ROOT / "action/night.sh")],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            timeout=300,
            check=False,
        )
        output = (tmp_path / "output").read_text() if (tmp_path / "output").exists() else ""
        pairs = dict(line.split("=", 1) for line in output.splitlines())
        summary = (tmp_path / "summary").read_text() if (tmp_path / "summary").exists() else ""
        return done.returncode, done.stdout.decode(), pairs, summary

    return run


@pytest.mark.deep
def test_a_free_night_costs_nothing_and_says_what_it_looked_at(runner, served, tmp_path):
    before = len(served.arrivals)
    code, out, outputs, summary = runner(INPUT_WATCH="state/watch.json", INPUT_ALLOW_INCONCLUSIVE="true")
    assert code == 0, out
    assert not [a for a in served.arrivals[before:] if a.method == "POST" and a.path.endswith("/messages")]
    assert f"::add-mask::{served.relay_key}" in out
    assert outputs["state"] == "clean"
    assert re.fullmatch(r"\d{8}-\d{4}-\w+", outputs["run"])
    assert summary.endswith("exit 0\n")
    assert served.relay_key not in summary + json.dumps(outputs)
    names = {path.name.split(".", 1)[1] for path in Path(outputs["report"]).iterdir()}
    assert names == {"public.md", "junit.xml", "internal.json"}


def test_paid_probes_need_a_reviewed_plan(runner, served):
    before = len(served.arrivals)
    code, out, _, _ = runner(INPUT_FREE_ONLY="false")
    assert code == 2
    assert "expect-plan" in out
    assert len(served.arrivals) == before
    code, _, _, summary = runner(INPUT_FREE_ONLY="false", INPUT_EXPECT_PLAN="0" * 64)
    assert code == 3
    assert not [a for a in served.arrivals[before:] if a.method == "POST" and a.path.endswith("/messages")]
    assert summary.endswith("exit 3\n")


@pytest.mark.deep
@pytest.mark.parametrize(
    "name", ["TARGET", "FREE_ONLY", "EXPECT_PLAN", "BASELINE", "FAIL_ON", "LANG", "KEY_VARIABLES", "ALLOW_INCONCLUSIVE"]
)
def test_an_input_is_data(runner, name, served, tmp_path):
    before = len(served.arrivals)
    code, out, _, _ = runner(**{f"INPUT_{name}": NASTY})
    assert code in (0, 2, 4), out
    assert not list(tmp_path.rglob("pwned"))
    assert not [a for a in served.arrivals[before:] if a.method == "POST" and a.path.endswith("/messages")]


def test_an_event_that_mixes_secrets_with_a_strangers_files_is_refused(runner, served):
    before = len(served.arrivals)
    code, out, _, _ = runner(GITHUB_EVENT_NAME="pull_request_target")
    assert code == 2
    assert "pull_request_target" in out
    assert len(served.arrivals) == before


def test_a_key_that_a_file_moves_to_another_origin_goes_nowhere(runner, tmp_path):
    """The file of a pull request names another address; the environment does not."""
    text = (tmp_path / "target.toml").read_text()
    (tmp_path / "target.toml").write_text(re.sub(r'base_url = "[^"]+"', 'base_url = "https://elsewhere.example"', text))
    code, out, _, _ = runner(RELAY_KEY_ORIGIN="https://relay.example")
    assert code == 2, out


def found(n: int, severity: str = "high") -> dict[str, Any]:
    return {"code": f"tokens.x{n}", "severity": severity, "id": f"F{n:03}"}


def test_at_most_ten_annotations_and_none_can_be_forged():
    publish = script("publish")
    result = {"findings": [found(n) for n in range(30)], "answer": {"say": {"en": "a\n::error::forged%0A"}}}
    lines = publish.annotations([result], "en")
    assert len(lines) == 10
    assert "21 more" in lines[-1]
    assert all("\n" not in line for line in lines)
    assert "%0A::error::forged%250A" in lines[0]
    few = publish.annotations([{**result, "findings": [found(1), found(2, "info"), found(3, "low")]}], "en")
    assert [line.split(" ")[0] for line in few] == ["::error", "::notice"]


def test_the_summary_shows_text_as_text():
    publish = script("publish")
    text = publish.summary([{"verdict": "usable", "answer": {"say": {"en": "<img src=x> [a](b) | `c`"}}}], "en", 0)
    assert "<img" not in text
    assert "[a](b)" not in text


@pytest.mark.parametrize(
    ("action", "there", "calls"),
    [
        ("none", {}, []),
        ("open", {}, ["issue list", "label create", "issue create"]),
        ("open", {7: "OPEN"}, ["issue list", "issue comment 7"]),
        ("open", {7: "CLOSED"}, ["issue list", "issue reopen 7", "issue comment 7"]),
        ("update", {7: "CLOSED", 9: "OPEN"}, ["issue list", "issue comment 9"]),
        ("close", {7: "OPEN"}, ["issue list", "issue comment 7", "issue close 7"]),
        ("close", {7: "CLOSED"}, ["issue list"]),
        ("close", {}, ["issue list"]),
    ],
)
def test_one_issue_per_line(action, there, calls):
    made: list[tuple[list[str], str]] = []

    def gh(words: list[str], body: str) -> str:
        made.append((words, body))
        rows = [{"number": n, "title": "t (target.toml)", "state": state} for n, state in there.items()]
        return json.dumps(rows) if words[1] == "list" else ""

    script("issue").carry_out({"action": action, "title": "t", "body": NASTY}, "target.toml", gh)
    assert [" ".join(word for word in words[:3] if not word.startswith("-")) for words, _ in made] == [
        f"{call} relay-audit" if call == "label create" else call for call in calls
    ]
    assert all(NASTY not in word for words, _ in made for word in words)


def test_every_day_has_one_hour_and_the_hours_differ():
    hour_of = script("due").hour_of
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(365)]
    hours = {hour_of(day, "owner/name") for day in days}
    assert hours == set(range(24))
    assert hour_of(days[0], "owner/name") == hour_of(days[0], "owner/name")


def test_every_step_of_somebody_elses_is_pinned_by_its_digest():
    files = [*sorted((ROOT / ".github/workflows").iterdir()), ROOT / "examples/ci/github-nightly.yml"]
    used = [line for file in files for line in re.findall(r"uses: (\S+.*)", file.read_text("utf-8"))]
    assert len(used) > 10
    assert not [line for line in used if not re.match(r"\./|\S+@[0-9a-f]{40} # \S", line)]


def test_a_release_needs_no_stored_token_and_a_persons_nod():
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    assert "secrets." not in text
    publish = text.split("  publish:")[1].split("  page:")[0]
    assert re.findall(r"^ {6}([a-z-]+: write)$", publish, re.MULTILINE) == ["id-token: write"]
    assert "environment: pypi" in publish
    assert "attestations: true" in publish
    assert not re.search(r"\brun:.*\$\{\{", text)


def test_the_examples_name_this_version_and_never_hold_a_key():
    from relay_audit import __version__

    for file in [ROOT / "action.yml", *sorted((ROOT / "examples/ci").iterdir())]:
        text = file.read_text("utf-8")
        assert not re.search(r"relay-audit-toolkit==(?!" + re.escape(__version__) + ")", text), file
        assert "--max-usd" not in text
        assert not re.search(r"\brun:.*\$\{\{", text), file
        assert "sk-" not in text
