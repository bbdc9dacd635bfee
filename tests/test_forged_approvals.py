"""Nobody but a person approves: each way around is refused at the command line with a message of its own, and nothing
paid leaves."""

from __future__ import annotations

import io
import json
import shlex
import sys
from typing import Any

import pytest

from relay_audit.cli.main import main
from relay_audit.lab import serve

pytestmark = pytest.mark.deep


@pytest.fixture
def command(monkeypatch, capsys, tmp_path) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(line: str, typed: str = "") -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["relay-audit", *shlex.split(line)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as ended:
            main()
        rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("{")]
        return int(ended.value.code or 0), json.loads(rows[-1]) if rows else {}

    return run


def test_each_forgery_is_refused_with_its_own_message(command, monkeypatch):
    with serve("honest", pace=0) as served:
        monkeypatch.setenv("RELAY_KEY", served.relay_key)
        line = (
            f"run --base-url {served.relay_url} --model claude-sonnet-5-5 --claim anthropic --checks 2 --profile quick"
        )
        code, asked = command(f"{line} --json", "y\n")
        assert (code, asked["status"]) == (3, "awaiting_approval"), "a piped y approves nothing"
        assert command(line, "y\n")[0] == 3
        digest, most, run = asked["quote_digest"], asked["money"]["quoted_at_most"], asked["run_id"]
        altered = digest[:-1] + ("0" if digest[-1] != "0" else "1")
        monkeypatch.setenv("RELAY_AUDIT_REQUIRE_APPROVE", "1")
        assert command(f"{line} --max-usd 5 --json")[0] == 3, "an amount in advance approves nothing here"
        monkeypatch.delenv("RELAY_AUDIT_REQUIRE_APPROVE")
        assert command(f"{line} --max-usd 5 --expect-plan {'0' * 64} --json")[0] == 3, (
            "another plan than the reviewed one"
        )
        refusals = {
            "altered": command(f"approve {run} --quote {altered} --max-usd 5 --json"),
            "below": command(f"approve {run} --quote {digest} --max-usd 0.000001 --json"),
        }
        monkeypatch.setenv("ANTHROPIC_BASE_URL", served.relay_url)
        refusals["served"] = command(f"approve {run} --quote {digest} --max-usd 5 --json")
        code, conflict = command(f"{line} --max-usd 5 --json")
        assert (code, conflict["conflict"]) == (3, "agent_served_by_target")
        monkeypatch.delenv("ANTHROPIC_BASE_URL")
        assert not [a for a in served.arrivals if a.method == "POST" and a.path.endswith("/messages")]
        assert command(f"approve {run} --quote {digest} --max-usd {most} --json")[0] == 0
        refusals["consumed"] = command(f"approve {run} --quote {digest} --max-usd 5 --json")
    assert {name: code for name, (code, _) in refusals.items()} == dict.fromkeys(refusals, 2)
    assert {said["error"] for _, said in refusals.values()} == {"approval_refused"}
    assert len({said["message"] for _, said in refusals.values()}) == len(refusals)
    assert len({said["text"]["zh-CN"] for _, said in refusals.values()}) == len(refusals)
    assert refusals["consumed"][1]["current_digest"] == digest
