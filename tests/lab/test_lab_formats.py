"""Ids, counts and refusals of the lab against recorded facts."""

from __future__ import annotations

import ast
import random
import re
import sys
from decimal import Decimal
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from lab_calls import MODEL, NOON, SENTENCE, Clock, body, get, post

import relay_audit.lab
from relay_audit.lab import SCENARIOS, World, ids
from relay_audit.lab.message import stamps
from relay_audit.lab.models import MODELS
from relay_audit.lab.refusals import refuse
from relay_audit.lab.tokenizer import count_body, count_text

RNG = random.Random(7)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("msg_011CffJyfGSEsRKWWTTKLQan", 1791030824.664),
        ("msg_bdrk_011CfjukowJGNdRPkmrmvmEU", 1791240731.685),
        ("req_011CdeibixvGNTgsPHPgWbhY", 1785710039.865),
        ("req_01A7u6aDNi2C6mvDawgML8jB", None),
    ],
)
def test_the_codec_reads_recorded_ids(text: str, seconds: float | None) -> None:
    assert ids.uuid7_seconds(text) == seconds


@pytest.mark.parametrize(
    ("date", "prefix"), [(1790812800, "011CfaXt"), (1793491200, "011CgbDx"), (1795910400, "011ChWEc")]
)
def test_minted_ids_carry_the_calendar_prefix(date: int, prefix: str) -> None:
    """2026-10-01, 2026-11-01 and 2026-11-29, as recorded."""
    numbers = [ids.base58_number(ids.minted("msg", date + hour * 3600, RNG)[-22:]) for hour in (0, 23)]
    low = ids.base58_number(prefix[2:].ljust(22, "1"))
    high = ids.base58_number(prefix[2:].ljust(22, "z"))
    assert numbers[0] <= high
    assert numbers[1] >= low


def test_minted_ids_decode_and_keep_their_form() -> None:
    for _ in range(200):
        text = ids.minted("msg_vrtx", NOON + RNG.random(), RNG)
        assert re.fullmatch(r"msg_vrtx_011C[1-9A-HJ-NP-Za-km-z]{20}", text)
        assert 0 <= (ids.uuid7_seconds(text) or 0) - NOON < 1


def test_random_ids_are_mostly_outside_the_scheme() -> None:
    made = [ids.lookalike("msg_01", 22, RNG, ids.BASE58) for _ in range(400)]
    too_large = sum(ids.base58_number(text[-22:]) >> 128 > 0 for text in made)
    assert 0.35 < too_large / 400 < 0.55, "about 45 % of random base58 exceeds 128 bits"
    assert sum(ids.uuid7_seconds(text) is not None for text in made) < 20


def test_relay_request_ids_name_clock_and_build() -> None:
    text = ids.relay_request_id(NOON + 0.25, RNG)
    assert re.fullmatch(r"20261129120000250000\d{3}8268d9d6[A-Za-z0-9]{8}", text)
    assert re.fullmatch(r"\d{23}[A-Za-z0-9]{8}", ids.relay_request_id(NOON, RNG, build=""))


def test_id_clocks_stay_in_the_recorded_windows() -> None:
    drawn = [stamps(NOON + 0.9, RNG) for _ in range(3000)]
    ages = sorted(stamp.date - stamp.message for stamp in drawn)
    assert ages[0] >= -0.6
    assert ages[-1] <= 8.8
    assert 0.3 < ages[1500] < 0.9, "median recorded: 0.57 s"
    assert all(stamp.message - stamp.request >= 0.048 for stamp in drawn)
    assert all(-0.9 <= stamp.date - stamp.request <= 133 for stamp in drawn)


def test_the_published_sentence_counts_18() -> None:
    counts = {name: count_body(body(), MODELS[name].generation) for name in MODELS}
    assert [counts[name] for name in ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5")] == [18, 18, 18]
    assert counts["claude-sonnet-4-5-20250929"] == counts["claude-3-haiku-20240307"] == 14


def test_generations_differ_by_script() -> None:
    words, clauses = "planet window silver morning bridge yellow " * 6, "今天的天气很好我们去公园散步" * 4
    ratio = [count_text(text, "claude-4-5") / count_text(text, "claude-5") for text in (words, clauses)]
    assert ratio[0] < 0.8
    assert ratio[1] > 1.2
    assert count_text("2026-11-29", "claude-5") != count_text("2026-11-29", "claude-4-5")
    assert count_text("好。", "claude-5") != count_text("好。", "claude-4-5")


def test_counts_add_up() -> None:
    plain = count_body(body("one two"), "claude-5")
    assert count_body(body("one two\nthree"), "claude-5") == plain + 2
    assert count_body(body("one two", system="Be brief"), "claude-5") == plain + 3 + 2
    assert count_body(body([{"type": "text", "text": "one two"}]), "claude-5") == plain  # type: ignore[arg-type]


REFUSALS: list[tuple[dict, str]] = [
    ({"model": None}, "model: Input should be a valid string"),
    ({"model": ""}, "model: String should have at least 1 character"),
    ({"messages": []}, "messages: at least one message is required"),
    (
        {"messages": [{"role": "bogus", "content": "x"}]},
        'messages: Unexpected role "bogus". Allowed roles are "user" or "assistant"',
    ),
    (
        {"messages": [{"role": "user", "content": "a", "bogus": 1}], "temperature": "x"},
        "messages.0.bogus: Extra inputs are not permitted",
    ),
    (
        {"messages": [{"role": "user", "content": []}], "temperature": "x"},
        "temperature: Input should be a valid number",
    ),
    ({"messages": [{"role": "user", "content": []}], "zzz": 1}, "zzz: Extra inputs are not permitted"),
    ({"messages": [{"role": "user", "content": ""}]}, "messages.0: user messages must have non-empty content"),
    ({"max_tokens": "x"}, "max_tokens: Input should be a valid integer"),
    ({"max_tokens": -1}, "max_tokens: must be greater than or equal to 0"),
    (
        {"max_tokens": 9_999_999},
        "max_tokens: 9999999 > 128000, which is the maximum allowed number of output tokens for claude-sonnet-5-5",
    ),
    ({"temperature": 2}, "temperature: range: 0..1"),
    ({"temperature": 0.5}, "`temperature` is deprecated for this model."),
    ({"stop_sequences": [1]}, "stop_sequences.0: Input should be a valid string"),
    ({"inference_geo": "mars"}, "inference_geo: must be one of ['global', 'us']"),
    ({"seed": 1}, "seed: Extra inputs are not permitted"),
    ({"metadata": {"bogus": 1}}, "metadata.bogus: Extra inputs are not permitted"),
    ({"top_k": 1.5}, "top_k: Input should be a valid integer"),
    ({"stream": None}, "stream: Input should be a valid boolean"),
    ({"tool_choice": {"type": "any"}}, 'tool_choice: type "tool" and "any" are not supported for this model.'),
    ({"model": "claude-nope"}, "model: claude-nope"),
]


@pytest.mark.parametrize(("override", "message"), REFUSALS)
def test_refusals_use_the_vendors_words_and_order(override: dict, message: str) -> None:
    refusal = refuse(body() | override, counting=False, beta=False)
    assert refusal is not None
    assert refusal.message == message
    assert refusal.status == (404 if message == "model: claude-nope" else 400)


@pytest.mark.parametrize(
    "override",
    [
        {},
        {"max_tokens": 0},
        {"top_k": -1},
        {"stop_sequences": []},
        {"service_tier": "standard_only"},
        {"temperature": 1},
    ],
)
def test_accepted_bodies_are_accepted(override: dict) -> None:
    assert refuse(body() | override, counting=False, beta=False) is None


def test_the_error_shell_repeats_the_request_id() -> None:
    world = World("honest", 1, Clock())
    answer = post(world, "official", sent={"model": MODEL})
    assert answer.status == 400
    assert answer.json()["error"] == {"type": "invalid_request_error", "message": "messages: Field required"}
    assert answer.json()["request_id"] == answer.header("request-id")
    assert answer.header("x-should-retry") == "false"
    assert list(answer.json()) == ["type", "error", "request_id"]


def test_the_official_answer_has_the_recorded_texture() -> None:
    world = World("honest", 3, Clock())
    answer = post(world, "official")
    got = answer.json()
    assert list(got)[:5] == ["model", "id", "type", "role", "content"]
    assert got["usage"]["inference_geo"] == "global"
    assert got["usage"]["service_tier"] == "standard"
    assert got["usage"]["input_tokens"] == 18 + world.seen.template_offset
    assert answer.header("anthropic-ratelimit-input-tokens-limit")
    assert answer.header("server") == "cloudflare"
    date = parsedate_to_datetime(answer.header("date")).timestamp()
    assert -0.6 <= date - (ids.uuid7_seconds(got["id"]) or 0) <= 8.8
    assert -0.9 <= date - (ids.uuid7_seconds(answer.header("request-id")) or 0) <= 133


def test_counting_is_free_of_offset_and_rate_limits() -> None:
    world = World("honest", 5, Clock())
    answer = post(
        world, "official", "/v1/messages/count_tokens", {k: v for k, v in body().items() if k != "max_tokens"}
    )
    assert answer.json() == {"input_tokens": 18}
    assert not answer.header("anthropic-ratelimit-tokens-limit")
    assert answer.header("request-id")


def test_older_models_have_no_region() -> None:
    world = World("honest", 3, Clock())
    got = post(world, "official", sent=body() | {"model": "claude-sonnet-4-5-20250929"}).json()
    assert got["usage"]["inference_geo"] == "not_available"


def test_the_stream_has_the_vendors_texture() -> None:
    world = World("honest", 2, Clock())
    raw = post(world, "official", sent=body(stream=True)).body.decode()
    lines = raw.splitlines()
    assert lines[0] == "event: message_start"
    assert [line for line in lines if line.startswith("event: ")][-1] == "event: message_stop"
    assert 'data: {"type": "ping"}' in lines
    assert "[DONE]" not in raw
    pads = {len(match) for match in re.findall(r"^data: \{.*?( *)\}$", raw, re.MULTILINE)}
    assert len(pads) > 1
    assert max(pads) <= 15


def test_official_refuses_strangers_and_missing_versions() -> None:
    world = World("honest", 1, Clock())
    assert (
        get(world, "/v1/models", key="sk-ant-other", side="official").json()["error"]["message"] == "invalid x-api-key"
    )
    assert [row["id"] for row in get(world, "/v1/models", side="official").json()["data"]] == list(MODELS)
    assert (
        post(world, "official", **{"anthropic-version": ""}).json()["error"]["message"]
        == "anthropic-version: header is required"
    )
    assert get(world, "/v1/nowhere", side="official").status == 404


def test_an_incident_changes_counts_in_the_middle_only() -> None:
    world = World("official_incident", 1, Clock())
    sent = {"model": MODEL, "messages": [{"role": "user", "content": SENTENCE}]}
    counts = [post(world, "official", "/v1/messages/count_tokens", sent).json()["input_tokens"] for _ in range(24)]
    assert counts == [18] * 4 + [25] * 12 + [18] * 8


def test_a_vendor_that_is_down_says_529() -> None:
    answer = post(World("official_down", 1, Clock()), "official")
    assert (answer.status, answer.json()["error"]["type"]) == (529, "overloaded_error")


def test_list_prices_in_relay_units() -> None:
    assert MODELS[MODEL].list_price.model == Decimal(1)
    assert MODELS["claude-sonnet-4-5-20250929"].list_price.model == Decimal("1.5")


def test_the_lab_imports_nothing_but_the_standard_library_and_itself() -> None:
    for path in Path(relay_audit.lab.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names or name.startswith("relay_audit.lab"), (
                    path.name,
                    name,
                )


def test_the_table_is_consistent() -> None:
    assert len(SCENARIOS) >= 56
    for name, row in SCENARIOS.items():
        assert name == row.name
        assert row.title.en
        assert row.title.zh
        assert row.kind != "honest" or not row.expect
        assert row.kind not in ("fault", "ambiguous") or row.expect | row.may
    knobs = [row.knobs for row in SCENARIOS.values()]
    assert len(set(knobs)) == len(knobs), "two scenarios turn the same knobs"
