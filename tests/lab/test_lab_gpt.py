"""The lab in OpenAI's formats behaves as recorded: ids, key order, printing, streams, counts, refusals, the bill."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_audit.lab import HttpAnswer, HttpRequest, World, scenarios_in
from relay_audit.lab.gpt_count import count_openai
from relay_audit.vendor_ids import CLOCKS, read_response_hex
from tests.lab.lab_calls import SENTENCE, Clock, log_rows

PATHS = {"openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses"}


def lab(name: str = "honest", dialect: str = "openai_chat", seed: int = 0) -> World:
    return World(name, seed, Clock(), dialect)  # type: ignore[arg-type]


def body(dialect: str, text: str = SENTENCE, **more: Any) -> dict[str, Any]:
    if dialect == "openai_chat":
        return {
            "model": "gpt-6-sol",
            "max_completion_tokens": 64,
            "messages": [{"role": "user", "content": text}],
            **more,
        }
    return {"model": "gpt-6-sol", "max_output_tokens": 64, "input": text, **more}


def ask(world: World, side: str = "official", path: str = "", **more: Any) -> HttpAnswer:
    key = world.relay_key if side == "relay" else world.official_key
    sent = more.pop("sent", None) or body(world.dialect, **more)
    headers = (
        ("authorization", f"Bearer {key}"),
        ("content-type", "application/json"),
        ("user-agent", "python-httpx/0.28"),
    )
    return world.handle(side, HttpRequest("POST", path or PATHS[world.dialect], headers, json.dumps(sent).encode()))  # type: ignore[arg-type]


def test_a_chat_answer_looks_as_recorded() -> None:
    answer = ask(lab())
    said = answer.json()
    assert answer.body.startswith(b'{\n  "id": "chatcmpl-'), "pretty-printed"
    assert list(said) == ["id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint"]
    assert len(said["id"]) == len("chatcmpl-") + 29
    assert CLOCKS["chat_base62"](said["id"]) == said["created"]
    assert said["model"] == "gpt-6-sol-2026-09-15"
    assert "logprobs" not in said["choices"][0], "models that reason leave it out"
    assert "logprobs" in ask(lab(), sent=body("openai_chat") | {"model": "gpt-4o"}).json()["choices"][0]
    usage = said["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert answer.header("openai-version") == "2020-10-01"
    assert answer.header("x-request-id").startswith("req_")


@pytest.mark.parametrize("store", [None, True, False])
def test_a_response_and_its_items_share_what_they_share(store: bool | None) -> None:
    more = {} if store is None else {"store": store}
    said = ask(lab(dialect="openai_responses"), **more).json()
    own = read_response_hex(said["id"])
    assert own is not None
    assert own.unstored is (store is False)
    assert said["store"] is (store is not False)
    assert own.seconds == said["created_at"]
    for item in said["output"]:
        other = read_response_hex(item["id"])
        assert other is not None
        assert (other.group, other.site) == (own.group, own.site)


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_azure_prints_compact_in_alphabetical_order_and_filters(dialect: str) -> None:
    world = lab(
        "honest_azure",
        dialect,
        seed=next(s for s in range(20) if not lab("honest_azure", dialect, s).seen.rebuilds_json),
    )
    answer = ask(world, "relay")
    said = answer.json()
    assert list(said) == sorted(said)
    assert b"\n" not in answer.body
    assert answer.header("apim-request-id")
    assert not answer.header("openai-version")
    assert ("prompt_filter_results" in said) or ("content_filters" in said)


def test_a_chat_stream_ends_in_done_and_a_response_stream_does_not() -> None:
    chat = ask(lab(), stream=True).body.decode()
    chunks = [json.loads(line[6:]) for line in chat.splitlines() if line.startswith("data: {")]
    assert chat.endswith("data: [DONE]\n\n")
    assert all(0 <= len(chunk["obfuscation"]) <= 15 for chunk in chunks)
    assert chunks[-1]["usage"]["prompt_tokens"] > 0
    responses = ask(lab(dialect="openai_responses"), stream=True).body.decode()
    events = [json.loads(line[6:]) for line in responses.splitlines() if line.startswith("data: ")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert "[DONE]" not in responses
    assert events[-1]["response"]["usage"]["input_tokens"] > 0


def test_the_counter_counts_what_is_billed_up_to_the_template() -> None:
    world = lab("honest_template_4", "openai_responses")
    for more in ({}, {"instructions": "be brief"}, {"text": "一句中文🍎 and more\nlines"}):
        sent = body("openai_responses", more.pop("text", SENTENCE), **more)
        counted = ask(
            world, path="/v1/responses/input_tokens", sent={k: v for k, v in sent.items() if k != "max_output_tokens"}
        )
        assert list(counted.json()) == ["object", "input_tokens"]
        assert ask(world, "relay", sent=sent).json()["usage"]["input_tokens"] == counted.json()["input_tokens"] + 4


@pytest.mark.parametrize(
    ("dialect", "change", "status", "code"),
    [
        ("openai_responses", {"model": "gpt-none"}, 400, "model_not_found"),
        ("openai_chat", {"model": "gpt-none"}, 404, "model_not_found"),
        ("openai_responses", {"seed": 1}, 400, "unknown_parameter"),
        ("openai_responses", {"max_output_tokens": 15}, 400, "integer_below_min_value"),
        ("openai_chat", {"max_tokens": 9}, 400, "unsupported_parameter"),
        ("openai_chat", {"model": "gpt-4o", "max_completion_tokens": 16385}, 400, "invalid_value"),
    ],
)
def test_refusals_in_the_vendors_words(dialect: str, change: dict[str, Any], status: int, code: str) -> None:
    answer = ask(lab(dialect=dialect), sent=body(dialect) | change)
    assert answer.status == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == code


def test_keys_are_bearer_only_and_strangers_are_refused() -> None:
    world = lab()
    wrong = world.handle(
        "official", HttpRequest("POST", PATHS["openai_chat"], (("x-api-key", world.official_key),), b"{}")
    )
    assert (wrong.status, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
    listed = world.handle(
        "official", HttpRequest("GET", "/v1/models", (("authorization", f"Bearer {world.official_key}"),))
    )
    assert {row["id"] for row in listed.json()["data"]} >= {"gpt-6-sol", "gpt-oss-120b"}


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_the_relay_bills_cached_tokens_inside_the_prompt(dialect: str) -> None:
    world = lab("hidden_cached", dialect)
    usages = [ask(world, "relay").json()["usage"] for _ in range(2)]
    details = [u.get("prompt_tokens_details") or u["input_tokens_details"] for u in usages]
    assert (details[0]["cache_write_tokens"], details[1]["cached_tokens"]) == (7552, 7552)
    for row, usage, detail in zip(reversed(log_rows(world)), usages, details, strict=True):
        prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
        spoken = usage.get("completion_tokens", usage.get("output_tokens"))
        read, written = detail["cached_tokens"], detail["cache_write_tokens"]
        exact = (prompt - read - written) + read * 0.1 + written * 1.25 + spoken * 5
        assert row["prompt_tokens"] == prompt > 7552
        assert abs(row["quota"] - exact) <= 1, "ratio 1 at two dollars per million"


def test_the_hidden_prompt_may_depend_on_the_user_agent() -> None:
    world = lab("hidden_by_user_agent", "openai_responses")
    library = ask(world, "relay").json()["usage"]["input_tokens"]
    headers = (("authorization", f"Bearer {world.relay_key}"), ("user-agent", "curl/8.14.1"))
    raw = json.dumps(body("openai_responses")).encode()
    curl = world.handle("relay", HttpRequest("POST", PATHS["openai_responses"], headers, raw)).json()["usage"][
        "input_tokens"
    ]
    assert library - curl == 508


def test_a_family_with_a_default_system_text_counts_it_for_everybody() -> None:
    assert scenarios_in("openai_chat")["honest_template_70"].model == "gpt-oss-120b"
    sent = {"messages": [{"role": "user", "content": SENTENCE}]}
    assert count_openai(sent, "gpt-oss") - count_openai(sent, "gpt-o200k") == 64
    assert count_openai(sent, "gpt-oss") == 77


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two, other = (ask(lab(seed=seed)).body for seed in (3, 3, 4))
    assert one == two != other
