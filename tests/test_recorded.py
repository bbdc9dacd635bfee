"""Traffic that exists: what a recording can show is found, its secrets never reach a disk, a stranger's file harms nobody."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay_audit import audit
from relay_audit.archive.contents import contents
from relay_audit.cli.main import app
from relay_audit.errors import UsageError
from relay_audit.filing import report_bytes
from relay_audit.lab import HttpRequest, World
from relay_audit.recorded import Call, Traffic, read_traffic
from relay_audit.recorded_counts import countable
from relay_audit.replay import replay
from relay_audit.store import Store
from relay_audit.verification import verify_run
from tests.audits import TestClock
from tests.loopback import answering

RELAY = "https://relay.example"
WORDS = "apple river stone lamp "


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
        body = {
            "model": world.model,
            "max_tokens": 16,
            "messages": [{"role": "user", "content": text.format(n=n, words=WORDS * (4 * n + 1))}],
        }
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


@contextlib.contextmanager
def vendor(world: World) -> Iterator[tuple[str, list[tuple[dict, dict]]]]:
    """The lab's vendor on loopback: its address, and what it was asked (headers, body)."""
    asked: list[tuple[dict, dict]] = []

    def answered(path: str, headers: dict[str, str], raw: bytes) -> tuple[int, str, bytes]:
        asked.append((headers, {"path": path, **json.loads(raw)}))
        answer = world.handle("official", HttpRequest("POST", path, tuple(headers.items()), raw))
        return answer.status, "application/json", answer.body

    with answering(answered) as origin:
        yield origin, asked


def counted(
    path: Path, world: World, monkeypatch, *more: str, exit_code: int | None = None, key: str = ""
) -> tuple[dict, list]:
    monkeypatch.setenv("OFFICIAL_KEY", key or world.official_key)
    monkeypatch.setattr(
        "relay_audit.cli.traffic.SystemClock", TestClock
    )  # the vendor is asked on the day of the recording
    with vendor(world) as (url, asked):
        said = taken(
            path,
            "--claim",
            "anthropic",
            "--official-key-env",
            "OFFICIAL_KEY",
            "--official-base-url",
            url,
            *more,
            exit_code=exit_code,
        )
    return said, asked


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        ("honest", "tokens.template_noise"),
        ("hidden_508", "tokens.constant_surplus"),
        pytest.param("honest_thinking_29", "tokens.inconclusive_offset", marks=pytest.mark.deep),
    ],
)
def test_with_an_official_key_recorded_bodies_are_counted(tmp_path, here, monkeypatch, scenario, code):
    """Check 2 in ordinary use, at no cost: the vendor counts the very bodies, twice; their words stay off this disk."""
    world = har(scenario, tmp_path / "t.har", text="my private question {n}: {words}")
    result, asked = counted(tmp_path / "t.har", world, monkeypatch, exit_code=1 if scenario == "hidden_508" else 0)
    found = {f["code"]: f for f in result["findings"]}
    assert [c for c in found if c.startswith("tokens.")] in ([code], []), (
        "a match is in the report, not in the short list"
    )
    states = {row["check"]: (row["state"], row["reason"]) for row in result["coverage"]}
    assert states[2][0] == "run"
    assert set(states) == {1, 2, 3, 4, 5, 6}
    assert all(reason or state == "run" for state, reason in states.values())
    assert len(asked) == 12
    assert {body["path"] for _, body in asked} == {"/v1/messages/count_tokens"}
    assert all(world.relay_key not in str(row) for row in asked)
    assert all(set(body) == {"path", "model", "messages"} for _, body in asked)
    with Store.open(next(here.glob("2*"))) as store:
        findings = audit.judge(store).findings
        assert {f.basis for f in findings} == {"recorded"}
        assert next(f.params["n"] for f in findings if f.code == code) == 6
        for audience in ("vendor", "public", "internal"):
            page = report_bytes(replay(store), audit.judge(store), audience, "md", "en", {}).decode()
            assert "the relay was sent nothing" in page
            assert "one at a time" not in page, "nothing is said of requests that this program never made"
        assert verify_run(store, [], {}).problems == []
    whole = b"".join(p.read_bytes() for p in here.rglob("*") if p.is_file())
    for secret in (world.relay_key, world.official_key, "my private question", "apple river"):
        assert secret.encode() not in whole, secret


def test_a_key_that_the_vendor_refuses_is_said_and_clears_nothing(tmp_path, monkeypatch):
    world = har("hidden_508", tmp_path / "t.har", 3)
    result, asked = counted(tmp_path / "t.har", world, monkeypatch, key="sk-ant-api03-wrong-key-0000000000")
    assert {row["check"]: row["reason"] for row in result["coverage"]}[2] == "official_key_refused"
    assert len(asked) == 1
    assert result["incomplete"]


def test_what_cannot_be_counted_whole_is_not_compared():
    """Files, server-side tools, remembered turns and unknown keys change the input in ways no counter sees; a body is asked
    about once, and of many as many sizes as there are."""
    pack = audit.load_library().packs.pack("anthropic")
    say = {"role": "user", "content": "hello"}
    plain: dict = {"model": "m", "max_tokens": 9, "stream": True, "messages": [say]}
    tool = {"name": "t", "input_schema": {"type": "object"}}
    answered = [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "x"}]}],
        }
    ]
    good = [plain, {**plain, "system": "s"}, {**plain, "tools": [tool]}, {**plain, "messages": answered}]
    image = [{"role": "user", "content": [{"type": "image", "source": {}}]}]
    nested = [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "document"}]}]}]
    bad = [{**plain, "messages": image}, {**plain, "messages": nested}, {**plain, "tools": [{"type": "web_search_20250305"}]},
           {**plain, "container": "c"}, {**plain, "mcp_servers": []}, {**plain, "tools": "x"}]  # fmt: skip

    def calls(bodies: list) -> Traffic:
        made = [Call(TestClock().now(), "POST", RELAY, "/v1/messages", 200, sent_body=json.dumps(b)) for b in bodies]
        return Traffic("har", "anthropic", RELAY, "m", made)

    assert [place for place, _, _ in countable(calls([*good, *bad, plain]), pack)] == [0, 1, 2, 3]
    many = [{**plain, "messages": [{"role": "user", "content": "x" * n}]} for n in range(200)]
    places = [place for place, _, _ in countable(calls(many), pack)]
    assert (len(places), places[0], places[-1]) == (24, 0, 199)


def test_the_relays_own_key_is_never_the_official_one(tmp_path, monkeypatch):
    world = har("honest", tmp_path / "t.har", 2)
    monkeypatch.setenv("OFFICIAL_KEY", world.relay_key)
    done = CliRunner().invoke(
        app, ["import-traffic", str(tmp_path / "t.har"), "--official-key-env", "OFFICIAL_KEY", "--json"]
    )
    assert isinstance(done.exception, UsageError)
    assert done.exception.exit_code == 2


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
