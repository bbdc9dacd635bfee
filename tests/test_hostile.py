"""A hostile relay, through the command line's own path and real loopback: each ends in bounded time with its exit code
and its findings, keeps what was learnt until then, and the keys go where they belong and are left nowhere."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from canary import found_in, leaks_below

from relay_audit import audit, runner
from relay_audit.cli import course
from relay_audit.cli.flow import Invocation
from relay_audit.cli.main import main
from relay_audit.clock import SystemClock
from relay_audit.intake import Limits
from relay_audit.lab import SCENARIOS, Served, serve
from relay_audit.replay import replay
from relay_audit.store import Store, runs_in
from relay_audit.target import Target, target_from
from relay_audit.workspace import Workspace

LIMITS = Limits(connect_s=5.0, first_byte_s=8.0, read_s=8.0, total_s=10.0, max_body=512 * 1024, ratio_from=128 * 1024)
IMPATIENT = replace(LIMITS, first_byte_s=0.6, read_s=0.6, total_s=0.9)
WAITS = ("hang", "endless_stream", "slow_drip")
"""Scenarios that only a limit of time ends; the others get time enough for a busy machine."""
PACE = 0.05
"""Of the lab's waits: latencies are short, a drip is still slower than `too_slow` allows."""
SECONDS = 20.0
"""For one audit on a busy machine: it is bounded by limits times requests, not by what the relay wants."""


class HastyClock(SystemClock):
    """Real time, in which waiting for the relay's log takes none. The lab shares it."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def now(self) -> dt.datetime:
        return super().now() + dt.timedelta(seconds=self.skipped)

    def unix(self) -> float:
        return self.now().timestamp()

    async def sleep(self, seconds: float) -> None:
        self.skipped += seconds
        await asyncio.sleep(0)


@dataclass
class Ended:
    code: int
    said: dict[str, Any]
    """The object on stdout."""
    served: Served
    home: Path
    seconds: float
    everything: str = field(repr=False)
    """stdout, stderr and every log record."""

    @property
    def codes(self) -> set[str]:
        return {finding["code"] for finding in self.said.get("findings", [])}

    @property
    def paid(self) -> int:
        return sum(a.side == "relay" and a.method == "POST" for a in self.served.arrivals)


Auditing = Callable[..., Ended]


@pytest.fixture
def audit_of(tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Auditing:
    caplog.set_level(logging.DEBUG)

    def work(scenario: str, profile: str = "quick", again: Callable[[Invocation], None] | None = None) -> Ended:
        clock = HastyClock()
        with serve(scenario, clock=clock.unix, pace=PACE) as served:
            call = invocation(served, tmp_path, clock)
            call.limits = IMPATIENT if scenario in WAITS else LIMITS
            began = time.monotonic()
            code = course.run_targets([target(served, profile)], call)
            seconds = time.monotonic() - began
            out, err = capfd.readouterr()
            if again is not None:
                again(call)
            more_out, more_err = capfd.readouterr()
        everything = "\n".join((out, err, more_out, more_err, caplog.text))
        return Ended(code, json.loads(out), served, tmp_path, seconds, everything)

    return work


def invocation(served: Served, home: Path, clock: HastyClock) -> Invocation:
    return Invocation(
        lang="en",
        as_json=True,
        no_input=True,
        max_usd=Decimal(1),
        environ={"RELAY_KEY": served.relay_key, "OFFICIAL_KEY": served.official_key},
        clock=clock,
        space=Workspace(home / "audits", home / "state", home / "config"),
    )


def target(served: Served, profile: str = "quick") -> Target:
    return target_from(
        {
            "target": {"name": "line-a", "model": "claude-sonnet-5-5", "claim": {"channel": "anthropic"}},
            "relay": {"base_url": served.relay_url, "key_env": "RELAY_KEY"},
            "official": {"base_url": served.official_url, "key_env": "OFFICIAL_KEY"},
            "audit": {"profile": profile, "checks": [1, 2, 6]},
        }
    )


BREAKER = ("three_failures", "line_exceeded")
"""Whichever comes first: what cannot be read counts as its worst case until the relay's log says otherwise."""


@dataclass(frozen=True)
class Row:
    """What one hostile scenario has to end in."""

    code: int
    findings: frozenset[str]
    kinds: frozenset[str] = frozenset()
    """Of `run.hostile_response`."""
    stopped: tuple[str, ...] = BREAKER
    paid: int = 3
    """Chargeable requests at most: then the circuit breaker is open, or the line has cost its worst case."""
    profile: str = "quick"


def _spoilt(*kinds: str, **more: Any) -> Row:
    return Row(4, frozenset({"run.hostile_response"}), frozenset(kinds), **more)


ROWS = {
    "html_200": _spoilt("bad_json"),
    "empty_body": replace(  # and its log says that each of them was charged
        _spoilt("bad_json"), code=1, findings=frozenset({"run.hostile_response", "billing.empty_reply_charged"})
    ),
    "huge_body": _spoilt("too_large"),
    "gzip_bomb": _spoilt("decompression"),
    "endless_stream": _spoilt("endless"),
    "slow_drip": _spoilt("too_slow"),
    "redirect": _spoilt("redirect"),
    "invalid_json": _spoilt("bad_json"),
    "nan_usage": _spoilt("bad_numbers"),
    "negative_usage": _spoilt("bad_usage"),
    # Refused in both header styles: neither is a delivery.
    "key_echoed_in_error": Row(2, frozenset({"run.key_echoed"}), stopped=("key_refused",), paid=2),
    "hang": Row(4, frozenset({"run.unconfirmed_send", "run.unstable"}), stopped=("two_unconfirmed",), paid=2),
    "reset_after_headers": Row(4, frozenset()),
    "gated_403": Row(4, frozenset({"run.gated_client"}), stopped=("gated",), paid=1),
    "balance_empty": Row(
        4, frozenset({"run.budget_limited"}), stopped=("balance_exhausted",), paid=5, profile="standard"
    ),
}
PLANNING = {"wrong_key", "unreachable"}
"""These end before there is a quote."""


def test_every_hostile_scenario_of_the_lab_has_its_row() -> None:
    assert set(ROWS) | PLANNING == {row.name for row in SCENARIOS.values() if row.kind == "hostile"}


@pytest.mark.parametrize("scenario", ROWS)
def test_a_hostile_relay_is_survived(scenario: str, audit_of: Auditing) -> None:
    row = ROWS[scenario]
    ended = audit_of(scenario, row.profile)
    assert ended.code == row.code, ended.said
    assert 1 <= ended.paid <= row.paid
    assert row.findings <= ended.codes
    assert ended.seconds < SECONDS
    history = the_run(ended.home)
    assert history.status == "completed"
    assert history.stopped in row.stopped
    assert kinds_of(ended) == set(row.kinds)
    nothing_lost(ended)
    keys_stayed_home(ended)


def the_run(home: Path) -> Any:
    (path,) = runs_in(home / "audits")
    with Store.open(path) as store:
        store.verify_chain()
        return replay(store)


def kinds_of(ended: Ended) -> set[str]:
    (path,) = runs_in(ended.home / "audits")
    with Store.open(path) as store:
        found = audit.judge(store).findings
    return {kind for f in found if f.code == "run.hostile_response" for kind in f.params["kinds"]}


def nothing_lost(ended: Ended) -> None:
    """Each paid request that arrived is an exchange with its digest, and each has an end in the ledger."""
    history = the_run(ended.home)
    arrived = [a.body_sha for a in ended.served.arrivals if a.side == "relay" and a.method == "POST"]
    intended = [e for xid, e in sorted(history.exchanges.items()) if xid in history.intents and e.side == "relay"]
    recorded = [e.request.body_sha256 for e in intended]
    assert recorded == arrived
    assert {entry.state for entry in history.ledger.entries} <= {"settled", "unconfirmed", "released"}
    for exchange in history.exchanges.values():
        if exchange.response:
            assert len(exchange.response.body) <= LIMITS.max_body
    paths = [Path(path) for path in ended.said["reports"].values()]
    assert len(paths) == 2
    assert all(path.stat().st_size > 1000 for path in paths)


def keys_stayed_home(ended: Ended) -> None:
    """Each key went to its own side and in no address; a third host saw neither; neither is left anywhere."""
    served = ended.served
    keys = (served.relay_key, served.official_key)
    own = {"relay": served.relay_key, "official": served.official_key}
    for arrival in served.arrivals:
        others = [key for key in keys if key != own.get(arrival.side)]
        text = json.dumps([arrival.path, dict(arrival.headers)]).encode() + arrival.body
        assert found_in(text, others) == []
        assert found_in(arrival.path.encode() + arrival.body, keys) == []
    assert [a for a in served.arrivals if a.side == "elsewhere"] == []
    assert found_in(ended.everything.encode(), keys) == []
    assert leaks_below(ended.home, keys) == []


def test_a_wrong_key_ends_before_the_quote_and_says_what_is_needed(audit_of: Auditing) -> None:
    ended = audit_of("wrong_key")
    assert (ended.code, ended.said["error"], ended.paid) == (2, "key_refused", 0)
    (need,) = ended.said["needs"]
    assert need["field"] == "relay.key_env"
    assert set(need["ask"]) == {"zh-CN", "en"}
    history = the_run(ended.home)
    assert (history.status, history.stopped, history.store.run_id) == ("failed", "key_refused", ended.said["run_id"])
    assert [e.status for e in history.exchanges.values()] == [401, 401]
    keys_stayed_home(ended)


def test_an_unreachable_relay_ends_before_the_quote(audit_of: Auditing) -> None:
    ended = audit_of("unreachable")
    assert (ended.code, ended.said["finding"], ended.paid) == (4, "run.unreachable", 0)
    assert ended.said["next_step"]
    history = the_run(ended.home)
    assert (history.status, history.stopped) == ("failed", "unreachable")
    assert {e.failure for e in history.exchanges.values()} == {"connect"}
    assert [a for a in ended.served.arrivals if a.side == "official"] == []
    assert ended.seconds < SECONDS
    keys_stayed_home(ended)


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        ("wrong_key", 2),
        ("unreachable", 4),
        *(pytest.param(n, 4, marks=pytest.mark.deep) for n in ("huge_body", "hang")),
    ],
)
def test_resuming_an_ended_run_sends_nothing_and_ends_alike(scenario: str, code: int, audit_of: Auditing) -> None:
    seen: list[int] = []

    def again(call: Invocation) -> None:
        (path,) = runs_in(call.space.audits)
        with Store.open(path) as store:
            seen.append(course.resume(store, replace(call, as_json=True)))

    ended = audit_of(scenario, again=again)
    assert seen == [ended.code] == [code]
    if "exchanges" in ended.said:
        assert len(the_run(ended.home).exchanges) == ended.said["exchanges"]
    keys_stayed_home(ended)


def test_an_answer_with_the_key_in_it_is_reported_and_not_kept(audit_of: Auditing) -> None:
    ended = audit_of("key_echo")
    assert ended.code == 1
    assert "run.key_echoed" in ended.codes
    keys_stayed_home(ended)


def test_an_internal_error_shows_neither_key_nor_answer_and_the_run_goes_on_later(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of ours while a key and a stranger's text are at hand."""
    clock = HastyClock()
    with serve("key_echo", clock=clock.unix, pace=0) as served:

        def breaks(*_: object) -> NoReturn:
            raise RuntimeError(f"x-api-key: {served.relay_key} msg_0123 said the relay")

        file = tmp_path / "target.toml"
        file.write_text(
            '[target]\nmodel = "claude-sonnet-5-5"\n'
            f'[relay]\nbase_url = "{served.relay_url}"\nkey_env = "RELAY_KEY"\n'
            '[audit]\nprofile = "quick"\nchecks = [1, 2, 6]\n',
            encoding="utf-8",
        )
        monkeypatch.chdir(tmp_path)
        for name, value in {"RELAY_KEY": served.relay_key, "RELAY_AUDIT_HOME": str(tmp_path / "private")}.items():
            monkeypatch.setenv(name, value)
        with monkeypatch.context() as broken:
            broken.setattr(runner, "read_usage", breaks)
            broken.setattr(sys, "argv", ["relay-audit", "run", str(file), "--max-usd", "1", "--json"])
            code, out, err = ran(capfd)
        assert code == 70
        assert json.loads(out)["error"] == "internal"
        assert "RuntimeError" in json.loads(out)["message"]
        assert "msg_0123" not in out + err
        monkeypatch.setattr(sys, "argv", ["relay-audit", "resume", "latest", "--json"])
        code, more_out, more_err = ran(capfd)
        assert code in (1, 4)
        assert json.loads(more_out)["status"] == "completed"
        bodies = [a.body_sha for a in served.arrivals if a.method == "POST"]
        assert len(bodies) == len(set(bodies)) > 1
        assert found_in((out + err + more_out + more_err).encode(), [served.relay_key]) == []
        assert leaks_below(tmp_path, [served.relay_key]) == []


def ran(capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capfd.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, out, err


@pytest.mark.parametrize("form", ["plain", "base64", "hex", "reversed", "utf-16", "percent"])
def test_the_canary_is_found_in_every_form_it_is_looked_for(form: str, tmp_path: Path) -> None:
    """The search itself can fail a test."""
    key = "sk-lab-Qw7rT9yU2iO4pA6sD8fG1hJ3kL5zX0cV"
    hidden = {
        "plain": key.encode(),
        "base64": base64.b64encode(f"Bearer {key} and more".encode()),
        "hex": key.encode().hex().encode(),
        "reversed": key[::-1].encode(),
        "utf-16": key.encode("utf-16-le"),
        "percent": "".join(f"%{byte:02X}" for byte in key.encode()).encode(),
    }
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"x" * 100 + hidden[form] + b"y" * 100)
    assert leaks_below(tmp_path, [key])
    assert leaks_below(tmp_path, ["sk-lab-another-key-of-the-same-length-00"]) == []
