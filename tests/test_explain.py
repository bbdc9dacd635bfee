"""`explain` without being asked for all: what answers "why", within what an agent can read at once."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from relay_audit.cli.main import main
from relay_audit.lab import serve


@pytest.mark.deep
def test_a_finding_on_many_requests_is_explained_in_eight_kilobytes(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def command(line: str) -> str:
        monkeypatch.setattr(sys, "argv", ["relay-audit", *shlex.split(line)])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    with serve("hidden_508", pace=0) as served:
        monkeypatch.setenv("RELAY_KEY", served.relay_key)
        monkeypatch.setenv("OFFICIAL_KEY", served.official_key)
        run = f"run --base-url {served.relay_url} --model claude-sonnet-5-5 --claim anthropic --checks 2 --max-usd 1 --json"
        run += f" --official-key-env OFFICIAL_KEY --official-base-url {served.official_url}"
        told = json.loads(command(run))
    finding = next(f["id"] for f in told["findings"] if f["code"] == "tokens.constant_surplus")
    shown = command(f"explain {told['run_id']} {finding} --json")
    short, whole = json.loads(shown), json.loads(command(f"explain {told['run_id']} {finding} --all --json"))
    assert len(shown.encode()) <= 8_000
    assert short["rests_on_total"] == len(whole["rests_on"]) > 24
    assert len(short["rests_on"]) >= 5
    for row in short["rests_on"]:
        assert (row["side"], row["billed"] - row["counted"]) == ("relay", 508)
    assert short["questions"]["anthropic/token_parity"]["zh-CN"]
    assert command(short["all_cmd"].removeprefix("relay-audit ")) == json.dumps(whole, ensure_ascii=False) + "\n"
    screen = command(f"explain {told['run_id']} {finding}")
    assert "--all" in screen
    assert len(screen.encode()) <= 8_000 < len(command(f"explain {told['run_id']} {finding} --all").encode())
