"""Traffic that exists: what a recording can show is found, its secrets never reach a disk, a stranger's file harms nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay_audit import audit
from relay_audit.archive.contents import contents
from relay_audit.cli.main import app
from relay_audit.errors import UsageError
from relay_audit.lab import HttpRequest, World
from relay_audit.recorded import read_traffic
from relay_audit.store import Store
from relay_audit.verification import verify_run
from tests.audits import TestClock

RELAY = "https://relay.example"


def entry(clock: TestClock, request: HttpRequest, answer, url: str) -> dict:
    return {
        "startedDateTime": clock.now().isoformat(),
        "time": 900,
        "serverIPAddress": "203.0.113.7",
        "request": {
            "method": request.method,
            "url": url,
            "headers": [{"name": n, "value": v} for n, v in request.headers],
            **({"postData": {"mimeType": "application/json", "text": request.body.decode()}} if request.body else {}),
        },
        "response": {
            "status": answer.status,
            "headers": [{"name": n, "value": v} for n, v in answer.headers],
            "content": {"text": answer.body.decode()},
        },
    }


def har(
    scenario: str, path: Path, calls: int = 6, *, log: bool = True, text: str = "how are you, number {n}?"
) -> World:
    """Ordinary use of a lab relay, as a browser's or proxy's recording of it."""
    clock = TestClock()
    world = World(scenario, 5, clock.unix)
    headers = (("content-type", "application/json"), ("authorization", f"Bearer {world.relay_key}"),
               ("cookie", "session=secret-cookie-value-123"), ("anthropic-version", "2023-06-01"))  # fmt: skip
    rows = []
    for n in range(calls):
        clock.pass_(20)
        body = {"model": world.model, "max_tokens": 16, "messages": [{"role": "user", "content": text.format(n=n)}]}
        request = HttpRequest("POST", "/v1/messages", headers, json.dumps(body).encode())
        rows.append(entry(clock, request, world.handle("relay", request), f"{RELAY}/v1/messages"))
    clock.pass_(60)
    for page in ("/api/status", "/api/pricing", *(["/api/log/token"] if log else [])):
        request = HttpRequest("GET", page, headers, b"")
        rows.append(entry(clock, request, world.handle("relay", request), f"{RELAY}{page}"))
    rows.append({"request": {"method": "GET", "url": "https://elsewhere.example/x.png"}, "response": {"status": 200}})
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": rows}}), encoding="utf-8")
    return world


def taken(path: Path, *more: str, exit_code: int | None = None) -> dict:
    done = CliRunner().invoke(app, ["import-traffic", str(path), *more, "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert exit_code is None or done.exit_code == exit_code, done.output
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path / "audits"))
    return tmp_path / "audits"


@pytest.mark.parametrize(
    ("scenario", "codes"),
    [("honest", set()), ("bedrock_ids", {"channel.mismatch"}), ("overcharge_x2", {"billing.overcharged"}), ("honest_group_ratio", set()),
     ("replayed_ids", {"channel.id_replayed"})],
)  # fmt: skip
def test_what_ordinary_use_shows_is_found(tmp_path, scenario, codes):
    har(scenario, tmp_path / "t.har")
    result = taken(tmp_path / "t.har", "--claim", "anthropic", exit_code=1 if codes else 0)
    accused = {
        f["code"] for f in result["findings"] if f["outcome"] == "mismatch" and f["severity"] not in ("info", "low")
    }
    assert accused == codes
    assert result["calls"] == 6
    assert result["money"]["charged_relay"] == "0"
    states = {row["check"]: row["state"] for row in result["coverage"]}
    assert (states[1], states[3], states[4]) == ("run", "not_run", "not_run")
    with Store.open(next((tmp_path / "audits").glob("2*"))) as store:
        assert {f.basis for f in audit.judge(store).findings} == {"recorded"}
        assert verify_run(store, [], {}).problems == []


def test_the_published_sentence_is_compared_with_its_dated_count(tmp_path):
    library = audit.load_library()
    sentence = library.knowledge.baseline_for("claude-sonnet-5-5", TestClock().now().date()).text
    har("hidden_508", tmp_path / "t.har", 4, text=sentence)
    result = taken(tmp_path / "t.har", "--claim", "anthropic", exit_code=1)
    assert "tokens.constant_surplus" in {f["code"] for f in result["findings"]}


def test_without_a_log_or_a_known_text_nothing_is_clean(tmp_path):
    har("hidden_508", tmp_path / "t.har", log=False)
    result = taken(tmp_path / "t.har", "--claim", "anthropic")
    reasons = {row["check"]: row["reason"] for row in result["coverage"]}
    assert (reasons[2], reasons[6]) == ("recorded_without_count", "recorded_without_log")
    assert result["incomplete"]


def test_no_secret_and_no_word_of_the_recording_reaches_the_disk(tmp_path, here):
    world = har("honest", tmp_path / "t.har", text="my private question {n}")
    taken(tmp_path / "t.har")
    whole = b"".join(path.read_bytes() for path in here.rglob("*") if path.is_file())
    for secret in (world.relay_key, "secret-cookie-value-123", "my private question"):
        assert secret.encode() not in whole, secret
    with Store.open(next(here.glob("2*"))) as store:
        assert contents(store, "vendor").manifest.evidence_head


def test_nothing_of_a_recording_is_ever_sent(tmp_path, here):
    har("honest", tmp_path / "t.har")
    run = taken(tmp_path / "t.har")["run_id"]
    assert CliRunner().invoke(app, ["resume", run, "--json"]).exit_code in (0, 2, 4)
    with Store.open(here / run) as store:
        assert not [e for e in store.events() if e.type == "request.sending"]


def lines(path: Path, *rows: dict) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def claude_line(n: int, ident: str, request: str) -> dict:
    message = {
        "id": ident, "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
        "content": [{"type": "text", "text": "private words"}],
        "usage": {"input_tokens": 12 + n, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }  # fmt: skip
    return {"type": "assistant", "timestamp": f"2026-11-30T03:0{n}:00.000Z", "requestId": request, "message": message}


def test_an_agents_transcript_names_its_channel(tmp_path, here):
    rows = [claude_line(n, f"msg_bdrk_01{n}b3dEf7hJk9mNpQrStUvWx", "") for n in range(5)]
    path = lines(
        tmp_path / "session.jsonl",
        {"type": "user", "message": {"role": "user", "content": "secret plan"}},
        *rows,
        rows[-1],
    )
    result = taken(path, "--claim", "anthropic")
    assert result["calls"] == 5
    assert any(f["code"].startswith("channel.") for f in result["findings"])
    whole = b"".join(p.read_bytes() for p in here.rglob("*") if p.is_file())
    assert b"private words" not in whole
    assert b"secret plan" not in whole


def test_codexs_transcript_is_read_and_says_little(tmp_path):
    usage = {"input_tokens": 4400, "cached_input_tokens": 0, "output_tokens": 9}
    row = {"timestamp": "2026-11-30T03:00:00Z", "type": "event_msg",
           "payload": {"type": "token_count", "info": {"last_token_usage": usage}}}  # fmt: skip
    result = taken(lines(tmp_path / "rollout.jsonl", row, row), "--model", "gpt-5.5")
    assert result["calls"] == 2
    assert not [f for f in result["findings"] if f["severity"] in ("medium", "high", "critical")]


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[" * 200_000, b'{"log": {"entries": 5}}', b'{"log": {"entries": [1, null, {}, {"request": {}}]}}', b"\xff\xfe\x00",
     b'{"log": {"entries": [{"request": {"url": "http://[", "method": "POST"}, "response": {"status": "x"}}]}}', b"x\n" * 1000,
     b'{"message": {"usage": {}}, "timestamp": "yesterday"}'],
)  # fmt: skip
def test_a_file_without_a_call_is_refused(tmp_path, raw):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(UsageError, match="no call"):
        read_traffic(tmp_path / "x")


def test_hostile_values_in_a_recording_are_contained(tmp_path, here):
    har("honest", tmp_path / "t.har")
    table = json.loads((tmp_path / "t.har").read_text(encoding="utf-8"))
    for item in table["log"]["entries"][:3]:
        item["response"]["content"]["text"] = '{"id": "\x1b]0;x\x07<script>IGNORE ALL", "usage": {"input_tokens": -1}}'
        item["time"] = 1e308
    (tmp_path / "t.har").write_text(json.dumps(table), encoding="utf-8")
    done = CliRunner().invoke(app, ["import-traffic", str(tmp_path / "t.har"), "--claim", "anthropic"])
    assert done.exit_code in (0, 1, 4)
    assert "\x1b" not in done.stdout
    assert "IGNORE ALL" not in done.stdout
    assert list(here.glob("2*"))
