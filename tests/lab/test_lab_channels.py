"""The lab's knobs for check 1: signatures, streams, accounts, chains, channels, and the vendor's next dialect."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from lab_calls import MODEL, Clock, body, post

from relay_audit.lab import SCENARIOS, HttpAnswer, World
from relay_audit.signature import Header, read_signature
from relay_audit.stream import read_stream

THINK = {"thinking": {"type": "adaptive"}, "max_tokens": 1200}


def header(name: str, seed: int = 1, **knobs) -> Header | None:
    """What the first thinking signature of a scenario says."""
    scenario = replace(SCENARIOS[name], knobs=replace(SCENARIOS[name].knobs, **knobs))
    answer = post(World(scenario, seed, Clock()), sent=body(**THINK)).json()
    assert [block["type"] for block in answer["content"]] == ["thinking", "text"]
    return read_signature(answer["content"][0]["signature"])


@pytest.mark.parametrize(("channel", "platform"), [("anthropic", None), ("azure", None), ("aws", 1), ("vertex", 2)])
def test_a_channel_signs_as_its_platform(channel: str, platform: int | None) -> None:
    found = header("honest", channel=channel)
    assert found is not None
    assert (found.platform, found.model in (MODEL, "")) == (platform, True)


def test_a_signature_may_be_opaque_or_name_another_platform_or_model() -> None:
    assert header("honest_opaque_signature") is None
    other = header("honest", signature="vertex", signature_model="claude-haiku-5-5")
    assert other is not None
    assert (other.platform, other.model) == (2, "claude-haiku-5-5")


def test_thinking_only_where_it_is_asked_for() -> None:
    plain, thinking = (post(World("honest", 1, Clock()), sent=body(**more)).json() for more in ({}, THINK))
    assert [block["type"] for block in plain["content"]] == ["text"]
    assert thinking["usage"]["output_tokens"] > 50 > plain["usage"]["output_tokens"]


def streamed(name: str, **more) -> tuple[HttpAnswer, HttpAnswer]:
    """The same answer whole and as a stream, from two worlds of one seed."""
    whole, stream = (post(World(name, 3, Clock()), sent=body(**more, **extra)) for extra in ({}, {"stream": True}))
    return whole, stream


@pytest.mark.parametrize(
    ("name", "handling"),
    [
        ("honest", "as_sent"),
        ("honest_vertex", "as_sent"),
        ("honest_rebuilt_streams", "rebuilt"),
        ("bedrock_ids", "rebuilt"),
    ],
)
def test_a_stream_is_passed_on_or_printed_anew(name: str, handling: str) -> None:
    whole, stream = streamed(name, **THINK)
    read = read_stream(stream.body.decode())
    assert read.complete
    assert read.texture is not None
    assert read.texture.handling == handling
    assert read.message is not None
    assert set(read.message) == set(whole.json())
    assert read.message["content"][0]["signature"]
    assert not stream.header("request-id"), "headers are not copied onto streams"


def test_requests_go_round_among_accounts() -> None:
    world = World("honest_accounts", 1, Clock())
    seen = [post(world).header("anthropic-organization-id") for _ in range(8)]
    assert len(set(seen)) == 4
    assert seen[:4] == seen[4:]


def test_a_refusal_carries_both_relays_ids() -> None:
    world = World("honest_chain", 1, Clock())
    refusals = [a for a in (post(world) for _ in range(8)) if a.status != 200]
    assert len(refusals) == 2
    for refusal in refusals:
        text = refusal.json()["error"]["message"]
        assert text.count("(request id: ") == 2
        assert text.endswith(f"(request id: {refusal.header('x-oneapi-request-id')})"), "the outermost stands last"
        assert "c955d568" in text


def test_channels_sold_under_their_own_name() -> None:
    azure = post(World("honest_azure", 1, Clock()))
    assert azure.header("apim-request-id")
    assert azure.json()["id"].startswith("msg_01")
    assert azure.json()["usage"]["inference_geo"] == "not_available"
    bedrock = post(World("honest_bedrock_reseller", 1, Clock()))
    assert bedrock.json()["model"] == "us.anthropic.claude-sonnet-5-5-20260928-v1:0"
    assert not [name for name, _ in bedrock.headers if name.lower().startswith("x-amzn")]
    assert [World(name).claim["channel"] for name in ("honest_azure", "honest_bedrock_reseller", "honest")] == [
        "azure", "aws", "anthropic",
    ]  # fmt: skip


def test_the_next_dialect_is_spoken_on_both_sides() -> None:
    world = World("official_future", 1, Clock())
    for side in ("relay", "official"):
        whole = post(world, side, sent=body(**THINK))
        answer = whole.json()
        assert answer["id"].startswith("msg_02")
        assert answer["stop_reason"] == "end_of_answer"
        assert whole.header("request-id").startswith("req_02")
        assert read_signature(answer["content"][0]["signature"]) is None
        stream = read_stream(post(world, side, sent=body(stream=True)).body.decode())
        assert stream.texture is not None
        assert stream.texture.unknown == 1
    refusal = post(world, "official", sent={"model": MODEL})
    assert json.loads(refusal.body)["error"]["message"].startswith("Your request was not accepted: ")
