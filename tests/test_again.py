"""A line tested again: only what is disputed is sent, with its own quote; what falls is withdrawn and stays visible."""

from __future__ import annotations

import contextlib
import json
import os
import socket

import pytest
from typer.testing import CliRunner

from relay_audit import audit
from relay_audit.cli.main import app
from relay_audit.filing import report_bytes
from relay_audit.lab import serve
from relay_audit.replay import replay
from relay_audit.store import Store

pytestmark = pytest.mark.deep


@pytest.fixture
def lab(monkeypatch, tmp_path):
    """A relay at one address, whose operator may change it: `lab(scenario)` puts another one there."""
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path / "audits"))
    port = free_ports()
    with contextlib.ExitStack() as stack:

        def put(scenario: str):
            stack.pop_all().close()
            served = stack.enter_context(serve(scenario, 3, pace=0, port=port))
            monkeypatch.setenv("RELAY_KEY", served.relay_key)
            monkeypatch.setenv("OFFICIAL_KEY", served.official_key)
            return served

        yield put


def free_ports() -> int:
    """The first of three that nobody has."""
    for port in range(23_000 + os.getpid() % 5_000, 32_000, 3):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for offset in range(3):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            return port
    raise AssertionError("no ports")


def cli(*arguments: str, codes=(0,)) -> dict:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code in codes, done.output + repr(done.exception)
    return json.loads(done.stdout.splitlines()[-1])


def first(lab, *more: str) -> dict:
    return cli("run", "--base-url", lab.relay_url, "--model", lab.world.model, "--claim", "anthropic", "--official-base-url",
               lab.official_url, "--checks", "1,2", "--max-usd", "5", *more, codes=(0, 1))  # fmt: skip


def test_only_what_is_disputed_is_asked_again_and_what_fell_is_withdrawn(lab, tmp_path):
    served = lab("hidden_508")
    run = first(served)
    found = next(f["id"] for f in run["findings"] if f["code"] == "tokens.constant_surplus")
    waiting = cli("retest", run["run_id"], "--findings", found, codes=(3,))
    assert waiting["quote_digest"]
    stands = cli("retest", run["run_id"], "--findings", found, "--max-usd", "5", codes=(1,))
    assert [row["fate"] for row in stands["retest"]] == ["stands"]
    with Store.open(tmp_path / "audits" / stands["run_id"]) as store:
        plan = replay(store).plan
        assert plan is not None
        assert {step.probe for step in plan.steps} == {"anthropic/token_parity"}
    lab("honest")
    fell = cli("retest", run["run_id"], "--findings", found, "--max-usd", "5", codes=(0, 4))
    assert [row["fate"] for row in fell["retest"]] == ["withdrawn"]
    assert fell["since"]["relay_changed"]
    with Store.open(tmp_path / "audits" / run["run_id"]) as store:
        judgement = audit.judge(store)
        assert [(w.finding, w.run) for w in judgement.evidence.withdrawn] == [(found, fell["run_id"])]
        assert "tokens.constant_surplus" in {f.code for f in judgement.findings}, "it stays visible"
        page = report_bytes(replay(store), judgement, "vendor", "html", "en", {}).decode()
        assert "508" in page
    told = CliRunner().invoke(app, ["explain", run["run_id"], found]).stdout
    assert fell["run_id"] in told


def test_a_repeated_run_says_whose_change_it_was(lab):
    served = lab("hidden_508")
    run = first(served)
    same = cli("run", "--since", run["run_id"], "--max-usd", "5", codes=(0, 1))
    assert (same["since"]["compared"], same["since"]["relay_changed"]) == (True, False)
    lab("honest")
    again = cli("run", "--since", run["run_id"], "--max-usd", "5", codes=(0, 1, 4))
    assert again["since"]["relay_changed"]


def test_a_reply_is_kept_beside_its_finding_and_changes_none(lab, tmp_path):
    served = lab("hidden_508")
    run = first(served)
    found = next(f["id"] for f in run["findings"] if f["code"] == "tokens.constant_surplus")
    file = tmp_path / "replies.toml"
    file.write_text(
        f'[[reply]]\nfinding = "{found}"\nstance = "disputed"\ntext = "<b>no</b> \\u001b[31m {served.relay_key} IGNORE"\n',
        encoding="utf-8",
    )
    before = cli("assess", run["run_id"])["findings"]
    assert cli("answer", run["run_id"], str(file))["replies"][0]["stance"] == "disputed"
    assert cli("assess", run["run_id"])["findings"] == before
    with Store.open(tmp_path / "audits" / run["run_id"]) as store:
        page = report_bytes(replay(store), audit.judge(store), "vendor", "html", "en", {}).decode()
        assert "disputed" in page
        assert "<b>no</b>" not in page
        assert "\x1b" not in page
    whole = b"".join(p.read_bytes() for p in (tmp_path / "audits").rglob("*") if p.is_file())
    assert served.relay_key.encode() not in whole
    told = CliRunner().invoke(app, ["explain", run["run_id"], found, "--lang", "zh-CN"]).stdout
    assert "\x1b" not in told
    assert cli("verify", run["run_id"])["ok"]


@pytest.mark.parametrize(
    "text",
    ["", "x", '[[reply]]\nfinding = "F999"\nstance = "fixed"', '[[reply]]\nfinding = "F001"\nstance = "furious"', '[reply]\na = 1',
     '[[reply]]\nfinding = "F001"\nstance = "fixed"\nmore = 1'],
)  # fmt: skip
def test_a_file_that_holds_no_reply_is_refused(lab, tmp_path, text):
    served = lab("hidden_508")
    run = first(served)
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["answer", run["run_id"], str(tmp_path / "r.toml")])
    assert done.exit_code != 0
