"""`--baseline`, `--watch` and `baseline write` at the command line."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from relay_audit.cli.main import main
from relay_audit.lab import serve

pytestmark = pytest.mark.deep

FREE = "--max-usd 1 --no-input --json"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["relay-audit", *shlex.split(line)])
        with pytest.raises(SystemExit) as ended:
            main()
        lines = [row for row in capsys.readouterr().out.splitlines() if row.startswith("{")]
        return int(ended.value.code or 0), json.loads(lines[-1]) if lines else {}

    return run


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line of an audit of what is served, with checks 1 and 2."""

    def of(served: Any) -> str:
        monkeypatch.setenv("RELAY_KEY", served.relay_key)
        monkeypatch.setenv("OFFICIAL_KEY", served.official_key)
        return (
            f"run --base-url {served.relay_url} --model claude-sonnet-5-5 --claim anthropic --checks 1,2,6 "
            f"--official-key-env OFFICIAL_KEY --official-base-url {served.official_url} {FREE}"
        )

    return of


def test_what_was_accepted_no_longer_fails_and_what_has_grown_does(command, line, tmp_path):
    with serve("hidden_100", pace=0) as served:
        code, result = command(line(served))
        assert code == 1
        code, written = command(f"baseline write {result['run_id']} -o accepted.toml --reason agreed --json")
        assert code == 0
        assert written["accepted"] == ["tokens.constant_surplus"]
        code, again = command(line(served) + " --baseline accepted.toml")
        assert code == 0
        assert again["accepted"]["findings"] == ["F001"]
        assert [f["code"] for f in again["findings"] if f["severity"] != "info"] == ["tokens.constant_surplus"]
        code, _ = command(line(served) + f" --baseline {result['run_id']}")
        assert code == 0
    text = (tmp_path / "accepted.toml").read_text("utf-8")
    assert served.relay_key not in text
    assert "127.0.0.1" not in text
    with serve("hidden_508", pace=0) as served:
        assert command(line(served) + " --baseline accepted.toml")[0] == 1
    past = dt.date.today() - dt.timedelta(days=1)  # noqa: DTZ011  the command's own clock is the system's
    ended = text.replace(str(tomllib.loads(text)["accepted"][0]["expires"]), past.isoformat())
    (tmp_path / "accepted.toml").write_text(ended, "utf-8")
    with serve("hidden_100", pace=0) as served:
        code, result = command(line(served) + " --baseline accepted.toml")
    assert code == 1
    assert result["accepted"] == {"findings": [], "ended": ["tokens.constant_surplus"]}


def test_a_new_accusation_is_tested_again_tonight_where_the_amount_covers_it(command, line, tmp_path):
    """A run of its own, within what the night's run left of the amount; the same probes and nothing else."""
    with serve("hidden_508", pace=0) as served:
        whole = line(served).replace("--max-usd 1", "--max-usd 0.2 --profile quick") + " --watch watch.json"
        code, told = command(whole)
        night = told["night"]
        assert (code, night["state"], night["issue"]["action"]) == (1, "confirmed", "open")
        assert night["repeat"]["seen_again"] == ["tokens.constant_surplus"]
        assert night["repeat"]["run"] != told["run_id"]
        repeated = command(f"assess {night['repeat']['run']} --json")[1]
        assert repeated["status"] == "completed"
        assert [f["code"] for f in repeated["findings"] if f["outcome"] == "mismatch"] == ["tokens.constant_surplus"]
        spent = [Decimal(said["money"]["charged_relay"]) for said in (told, repeated)]
        assert Decimal(repeated["money"]["approved"]) == Decimal("0.2") - spent[0]
        _, again = command(whole)
        assert again["night"]["repeat"] is None  # confirmed already: nothing waits


def test_a_new_accusation_waits_one_night_and_an_unreachable_line_three(command, line, tmp_path):
    with serve("hidden_508", pace=0) as served:
        quick = line(served).replace("--max-usd 1", "--profile quick")
        at_most = Decimal(command(quick)[1]["money"]["quoted_at_most"])
        whole = f"{quick} --max-usd {at_most * Decimal('1.02'):.6f}"  # no room for a repeat
        whole += " --watch nights/watch.json --allow-inconclusive"
        code, first = command(whole)
        assert (code, first["night"]["state"]) == (0, "unconfirmed")
        assert first["night"]["repeat"] is None
        assert first["night"]["issue"]["action"] == "none"
        code, second = command(whole)
        assert (code, second["night"]["state"]) == (1, "confirmed")
        assert second["night"]["issue"]["action"] == "open"
        assert "tokens.constant_surplus" in second["night"]["issue"]["body"]
    codes = [command(whole) for _ in range(4)]  # nobody listens any more
    assert [code for code, _ in codes] == [0, 0, 4, 4]
    assert [result["night"]["silent_nights"] for _, result in codes] == [1, 2, 3, 4]
    assert codes[0][1]["finding"] == "run.unreachable"
    (tmp_path / "nights/watch.json").write_text("{}x", "utf-8")
    code, refused = command(whole)
    assert code == 2
    assert "watch file" in refused["message"]


def price(amount: str) -> None:
    row = {"side": "relay", "input": amount, "output": "20", "source": "contract"}
    table = "".join(f'{k} = "{v}"\n' for k, v in row.items())
    Path("prices.toml").write_text(f'[[price]]\n{table}models = ["claude-sonnet-5-5"]\nobserved = 2026-11-29\n')


def test_a_price_that_rose_is_said_and_beyond_the_ceiling_shown(command, line):
    with serve("honest", pace=0) as served:
        whole = line(served) + " --watch watch.json --prices prices.toml"
        price("2")
        code, first = command(whole)
        assert code == 0, first
        price("4")
        code, stopped = command(whole.replace("--max-usd 1", "--max-usd 0.001"))
        assert code == 3
        assert stopped["quote_diff"] == {"relay input": ["2", "4"]}
        code, told = command(whole)
    assert code == 0
    assert told["night"]["prices"] == stopped["quote_diff"]
    assert "1 prices of the quote changed" in told["night"]["text"]["en"]
