"""Each knob does what its row says and nothing else; the seed varies what it promises; all of it holds on the wire."""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
import time
from collections import Counter
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import pytest
from lab_calls import MODEL, NOON, Clock, body, get, headers, log_rows, post, wire

from relay_audit.lab import SCENARIOS, HttpAnswer, World, ids, serve
from relay_audit.lab.hostile import BOMB_BYTES, HUGE_BYTES
from relay_audit.lab.tokenizer import count_body

TEXTS = (
    "one",
    "planet window silver morning",
    "今天的天气很好",
    "SILVER 42! " * 9,
    "短",
    "a longer line of plain words " * 6,
)


def surpluses(name: str, *, system: str = "") -> list[int]:
    """Billed minus counted input for some texts, cache fields included."""
    world = World(name, 11, Clock())
    found = []
    for text in TEXTS * 2:
        sent = body(text, **({"system": system} if system else {}))
        used = post(world, sent=sent).json()["usage"]
        billed = used["input_tokens"] + used["cache_creation_input_tokens"] + used["cache_read_input_tokens"]
        found.append(billed - count_body(sent, "claude-5"))
    return found


@pytest.mark.parametrize(
    ("name", "surplus"),
    [("hidden_508", 508), ("hidden_100", 100), ("hidden_4380", 4380), ("hidden_cached", 7552), ("honest_template_4", 4),
     ("honest_thinking_29", 29)],
)  # fmt: skip
def test_constant_surpluses_are_exact(name: str, surplus: int) -> None:
    assert set(surpluses(name)) == {surplus}


def test_a_hidden_prompt_may_depend_on_system_or_on_chance() -> None:
    assert set(surpluses("hidden_without_system")) == {508}
    assert set(surpluses("hidden_without_system", system="brief")) == {0}
    assert Counter(surpluses("hidden_sometimes")) == {0: 9, 508: 3}


def test_a_multiplier_follows_size_and_a_tokenizer_follows_script() -> None:
    world = World("usage_x13", 1, Clock())
    sent = body(TEXTS[-1])
    counted = count_body(sent, "claude-5")
    assert post(world, sent=sent).json()["usage"]["input_tokens"] == int(counted * 1.3 + 0.5)
    assert log_rows(world)[0]["prompt_tokens"] == int(counted * 1.3 + 0.5)
    swapped = surpluses("swapped_tokenizer")
    assert swapped[5] < -5, "fewer for English words"
    assert swapped[2] > swapped[5], "not by the same share for ideographs"


def test_the_first_hidden_cache_is_written_then_read() -> None:
    world = World("hidden_cached", 1, Clock())
    first, second = (post(world).json()["usage"] for _ in range(2))
    assert (first["cache_creation_input_tokens"], first["cache_read_input_tokens"]) == (7552, 0)
    assert first["cache_creation"]["ephemeral_5m_input_tokens"] == 7552
    assert (second["cache_creation_input_tokens"], second["cache_read_input_tokens"]) == (0, 7552)


def test_channels_show_in_ids_headers_and_usage() -> None:
    bedrock, vertex = (post(World(name, 1, Clock())) for name in ("bedrock_ids", "vertex_ids"))
    assert bedrock.json()["id"].startswith("msg_bdrk_011C")
    assert bedrock.header("x-amzn-bedrock-input-token-count") == str(bedrock.json()["usage"]["input_tokens"])
    assert bedrock.header("x-amzn-requestid")[14] == "4"
    assert "inference_geo" not in bedrock.json()["usage"]
    assert vertex.json()["id"].startswith("msg_vrtx_011C")
    assert not {"service_tier", "inference_geo"} & set(vertex.json()["usage"])
    for answer in (bedrock, vertex):
        assert not answer.header("request-id")
        assert not [name for name, _ in answer.headers if name.lower().startswith("anthropic")]
    world = World("mixed_pool", 1, Clock())
    mixed = Counter(post(world).json()["id"].rpartition("_")[0] for _ in range(12))
    assert mixed == {"msg": 6, "msg_bdrk": 6}


def test_forged_stale_and_replayed_ids() -> None:
    forged = post(World("forged_prefix", 1, Clock()))
    assert len(forged.json()["id"]) == len("msg_bdrk_") + 24
    assert forged.header("request-id").startswith("req_")
    made_up = post(World("forged_anthropic_ids", 1, Clock()))
    assert not made_up.header("request-id")
    assert made_up.header("anthropic-organization-id"), "only the request id is gone"
    world = World("forged_anthropic_ids", 1, Clock())
    assert sum(ids.uuid7_seconds(post(world).json()["id"]) is None for _ in range(20)) >= 18
    stale = ids.uuid7_seconds(post(World("stale_ids", 1, Clock())).json()["id"]) or 0
    assert 10_790 < NOON - stale < 10_830
    world = World("replayed_ids", 1, Clock())
    seen = [post(world, sent=body(text)).json() for text in TEXTS]
    assert [seen[0]["id"] == seen[1]["id"], seen[1]["id"] == seen[2]["id"]] == [True, False]
    assert seen[0]["usage"] != seen[3]["usage"]


def test_admissions() -> None:
    world = World("log_admits_mapping", 1, Clock())
    assert post(world).json()["model"] == MODEL
    other = json.loads(log_rows(world)[0]["other"])
    assert (other["is_model_mapped"], other["upstream_model_name"]) == (True, "claude-haiku-5-5")
    world = World("overcharge_x2", 1, Clock())
    used = post(world).json()["usage"]
    assert log_rows(world)[0]["quota"] == 2 * (used["input_tokens"] + 5 * used["output_tokens"])
    assert post(World("pool_geo_not_available", 1, Clock())).json()["usage"]["inference_geo"] == "not_available"


def test_keys_are_echoed_where_the_row_says() -> None:
    for name, status in (("key_echo", 200), ("key_echoed_in_error", 401)):
        world = World(name, 1, Clock())
        answer = post(world)
        assert answer.status == status
        assert world.relay_key.encode() in answer.body
    world = World("honest", 1, Clock())
    assert world.relay_key.encode() not in post(world).body + post(world, sent=body(temperature=9)).body


def test_a_quarter_fails_without_charge_and_never_three_in_a_row() -> None:
    world = World("honest_flaky_25", 1, Clock())
    statuses = [post(world).status for _ in range(40)]
    assert sum(status in (503, 529) for status in statuses) == 10
    assert set(statuses) == {200, 503, 529}
    assert len(log_rows(world)) == 30
    assert not any(all(s != 200 for s in statuses[i : i + 3]) for i in range(38))


def test_rewritten_errors_keep_the_inner_text() -> None:
    world = World("honest_rewritten_chinese_errors", 1, Clock())
    answers = [post(world) for _ in range(8)]
    assert Counter(answer.status for answer in answers) == {200: 7, 502: 1}
    refused = next(a for a in (post(world, sent=body(temperature=9)) for _ in range(2)) if b"HTTP 400" in a.body)
    assert (refused.status, "全部 1 个渠道都失败" in refused.json()["error"]["message"]) == (502, True)


def test_unknown_usage_fields_are_there() -> None:
    got = post(World("honest_usage_extras", 1, Clock())).json()
    assert got["container"] is None
    assert got["diagnostics"] is None
    assert got["usage"]["energy_uwh"] == {"prefill": 11, "decode": 4}


def test_the_seed_varies_what_it_promises() -> None:
    worlds = [World("honest", seed, Clock()) for seed in range(30)]
    answers = [post(world) for world in worlds]
    official = [post(world, "official") for world in worlds]

    def distinct(values: list[object]) -> int:
        return len({repr(value) for value in values})

    assert distinct([sorted(n for n, _ in a.headers) for a in official]) > 5, "header set"
    assert (
        distinct([[n for n, _ in a.headers if n in ("date", "server", "cf-ray", "request-id")] for a in official]) > 5
    )
    assert distinct([list(a.json()) for a in answers]) > 3, "key order of a relay that writes the answer anew"
    assert {tuple(a.json())[:5] for a in official} == {("model", "id", "type", "role", "content")}
    assert distinct([list(a.json()["usage"]) for a in official]) > 3, "usage fields and their order"
    assert distinct([a.pieces for a in official]) > 5, "chunks"
    assert distinct([a.delay for a in official]) == 30, "latency"
    assert all(a.delay < 0.031 for a in official)
    assert {World("honest", seed).seen.template_offset for seed in range(100)} == set(range(9))
    assert distinct([world.seen.gzip for world in worlds]) == 2
    assert distinct([world.seen.version for world in worlds]) > 3
    assert distinct([world.seen.unlimited for world in worlds]) == 2
    ages = [
        parsedate_to_datetime(a.header("date")).timestamp() - (ids.uuid7_seconds(a.json()["id"]) or 0) for a in official
    ]
    assert distinct(ages) == 30
    flaky = []
    for seed in range(12):
        world = World("honest_flaky_25", seed, Clock())
        flaky.append([post(world).status != 200 for _ in range(8)])
    assert distinct(flaky) > 5, "which requests fail"


def test_scenario_seed_and_clock_decide_every_byte() -> None:
    def record() -> list[HttpAnswer]:
        world = World("honest_foreign_rows", 9, Clock())
        return [post(world), post(world, "official"), get(world, "/api/log/token")]

    assert record() == record()


@pytest.mark.parametrize("year", [2028, 2031])
def test_a_later_clock_changes_no_shape(year: int) -> None:
    clock = Clock(NOON + (year - 2026) * 365.25 * 86_400)
    answer = post(World("honest", 1, clock))
    age = parsedate_to_datetime(answer.header("date")).timestamp() - (ids.uuid7_seconds(answer.json()["id"]) or 0)
    assert -0.6 <= age <= 8.8


QUIET = [name for name, row in SCENARIOS.items() if row.kind != "hostile"]


@pytest.mark.parametrize("name", QUIET)
def test_every_quiet_scenario_serves_over_loopback(name: str) -> None:
    with serve(name, seed=4, clock=Clock(), pace=0) as lab:
        sent = body()
        answers = [wire(lab.relay_url, "POST", "/v1/messages", lab.relay_key, sent, bearer=True)[0] for _ in range(2)]
        assert 200 in [answer.status for answer in answers]
        counted, raw = wire(
            lab.official_url, "POST", "/v1/messages/count_tokens", lab.official_key, sent | {"max_tokens": 1}
        )
        assert (counted.status == 200 and "input_tokens" in json.loads(raw)) or name in (
            "official_down",
            "official_lacks_model",
        )
        assert [(row.side, row.method, row.path) for row in lab.arrivals] == [
            ("relay", "POST", "/v1/messages"), ("relay", "POST", "/v1/messages"),
            ("official", "POST", "/v1/messages/count_tokens"),
        ]  # fmt: skip
        assert json.loads(lab.arrivals[0].body) == sent


def test_streams_and_packed_answers_arrive_whole() -> None:
    packed = 0
    for seed in range(6):
        with serve("honest", seed=seed, pace=0) as lab:
            answer, raw = wire(
                lab.relay_url, "POST", "/v1/messages", lab.relay_key, body(), **{"accept-encoding": "gzip"}
            )
            packed += answer.getheader("content-encoding") == "gzip"
            assert json.loads(raw)["usage"]["input_tokens"] == 18 + lab.world.seen.template_offset
            _, events = wire(lab.relay_url, "POST", "/v1/messages", lab.relay_key, body(stream=True))
            assert events.rstrip().endswith(b"}")
            assert b"event: message_stop" in events
            assert len(lab.log) == 2
    assert 0 < packed < 6


@pytest.mark.parametrize(
    ("name", "status", "start"),
    [("html_200", 200, b"<!doctype"), ("empty_body", 200, b""), ("invalid_json", 200, b"{"), ("nan_usage", 200, b"{"),
     ("negative_usage", 200, b"{"), ("redirect", 307, b""), ("wrong_key", 401, b'{"error"'),
     ("gated_403", 403, b'{"error"'),
     ("key_echoed_in_error", 401, b'{"error"'), ("balance_empty", 200, b"{")],
)  # fmt: skip
def test_small_hostile_answers_on_the_wire(name: str, status: int, start: bytes) -> None:
    with serve(name, seed=2, pace=0) as lab:
        answer, raw = wire(lab.relay_url, "POST", "/v1/messages", lab.relay_key, body())
        assert answer.status == status
        assert raw.startswith(start)
        assert (name == "empty_body") == (raw == b"" and status == 200)
        if name == "nan_usage":
            assert str(json.loads(raw)["usage"]["input_tokens"]) == "nan"
        if name == "negative_usage":
            assert json.loads(raw)["usage"]["input_tokens"] == -7
        if name == "invalid_json":
            with pytest.raises(ValueError, match=r"^(Unterminated|Expecting|Invalid)"):
                json.loads(raw)
        if name == "redirect":
            assert answer.getheader("location") == lab.elsewhere_url + "/v1/messages"
            assert wire(lab.elsewhere_url, "POST", "/v1/messages", "anything", body())[0].status == 200
            assert [row.side for row in lab.arrivals] == ["relay", "elsewhere"]


def test_large_bodies_are_made_as_they_are_read() -> None:
    with serve("huge_body", pace=0) as lab:
        connection = http.client.HTTPConnection(urlsplit(lab.relay_url).netloc, timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(body()), dict(headers(lab.relay_key)))
        answer = connection.getresponse()
        assert int(answer.getheader("content-length") or 0) == HUGE_BYTES + 9
        assert len(answer.read(1_000_000)) == 1_000_000
        connection.close()
    answer = post(World("gzip_bomb", 1, Clock()))
    packed = sum(len(part) for _, part in answer.parts())
    assert answer.header("content-encoding") == "gzip"
    assert packed * 500 < BOMB_BYTES


def test_endless_dripping_and_broken_answers() -> None:
    with serve("endless_stream", pace=0.05) as lab:
        raw = b""
        with socket.create_connection(("127.0.0.1", urlsplit(lab.relay_url).port or 0), timeout=5) as line:
            line.sendall(_raw_request(lab.relay_key))
            while raw.count(b"event: ping") < 20:
                raw += line.recv(4096)
        assert b"message_stop" not in raw
    drip = post(World("slow_drip", 1, Clock()))
    waits = [wait for wait, _ in drip.parts()]
    assert len(waits) == drip.length
    assert sum(waits) > 180
    with serve("reset_after_headers", pace=0) as lab, pytest.raises((ConnectionError, http.client.IncompleteRead)):
        wire(lab.relay_url, "POST", "/v1/messages", lab.relay_key, body())


def test_a_hanging_relay_charges_and_ends_with_the_block() -> None:
    with serve("hang") as lab:
        with socket.create_connection(("127.0.0.1", urlsplit(lab.relay_url).port or 0), timeout=0.2) as line:
            line.sendall(_raw_request(lab.relay_key))
            with pytest.raises(TimeoutError):
                line.recv(1)
        assert len(lab.log) == 1
        begun = time.monotonic()
    assert time.monotonic() - begun < 2


def test_an_unreachable_relay_refuses_the_connection() -> None:
    with serve("unreachable") as lab:
        with pytest.raises(ConnectionRefusedError):
            wire(lab.relay_url, "GET", "/api/status", lab.relay_key)
        assert wire(lab.official_url, "GET", "/v1/models", lab.official_key)[0].status == 200


def test_waits_are_real_and_paced() -> None:
    with serve("honest_slow", pace=0.1) as lab:
        begun = time.monotonic()
        wire(lab.relay_url, "POST", "/v1/messages", lab.relay_key, body())
        assert 0.03 < time.monotonic() - begun < 0.5


def test_hostile_rows_are_all_known() -> None:
    loud = {name for name, row in SCENARIOS.items() if row.kind == "hostile"}
    assert loud == {
        "html_200", "empty_body", "huge_body", "gzip_bomb", "endless_stream", "slow_drip", "redirect", "invalid_json",
        "nan_usage", "negative_usage", "key_echoed_in_error", "hang", "reset_after_headers", "wrong_key", "gated_403",
        "balance_empty", "unreachable",
    }  # fmt: skip
    assert dataclasses.is_dataclass(SCENARIOS["hang"].knobs)


def _raw_request(key: str) -> bytes:
    sent = json.dumps(body()).encode()
    lines = [
        "POST /v1/messages HTTP/1.1",
        "host: relay.example",
        f"x-api-key: {key}",
        f"content-length: {len(sent)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + sent
