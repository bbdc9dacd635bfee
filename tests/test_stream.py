"""Streams: the message they spell, whether they came to their end, and how they were handled on the way."""

from __future__ import annotations

import datetime as dt
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_audit.assess.run_state import assess_run_state
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.gate import failed
from relay_audit.lab.message import events, printed_anew
from relay_audit.stream import looks_streamed, parse_events, read_stream
from relay_audit.usage import read_usage
from tests.assess.evidence_builders import KNOWLEDGE, PACK, run_of, step_named

ANSWER = {
    "model": "claude-sonnet-5-5",
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "one after the other", "signature": "c2lnbmVk"},
        {"type": "text", "text": "a longer text that comes in pieces"},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "stop_details": None,
    "usage": {
        "input_tokens": 31, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 77,
        "service_tier": "standard", "inference_geo": "global",
    },
}  # fmt: skip


def sse(seed: int = 1, **how) -> str:
    return b"".join(events(ANSWER, random.Random(seed), **how)).decode()


def anew(seed: int = 1) -> str:
    return b"".join(printed_anew(events(ANSWER, random.Random(seed)))).decode()


def exchange(body: str, kind: str = "text/event-stream", status: int = 200, **more) -> Exchange:
    response = Response(status=status, headers=(("content-type", kind),), body=body, **more)
    moment = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    return Exchange(id="X0001", step="s0", side="relay", sent_at=moment, elapsed_ms=1, delivery="answered",
                    request=Request(method="POST", path="/v1/messages"), response=response)  # fmt: skip


def test_a_stream_spells_the_answer_that_it_stands_for():
    read = read_stream(sse())
    assert read.complete
    assert read.message == ANSWER
    assert exchange(sse()).answer() == ANSWER


def test_its_usage_is_read_like_any_other():
    usage = read_usage(exchange(sse()), PACK)
    assert usage is not None
    assert (usage.input, usage.output) == (31, 77)


@pytest.mark.parametrize(
    ("begun", "final"),
    [
        ({"input_tokens": 31, "output_tokens": 1}, None),
        ({"input_tokens": 31, "output_tokens": 1}, {"input_tokens": 31}),
        ({"input_tokens": 0, "output_tokens": 0}, {"output_tokens": 77}),
        ({"input_tokens": 0, "output_tokens": 0}, None),
    ],
    ids=str,
)
def test_what_a_stream_began_with_is_no_report(begun, final):
    """The output of the first event is a placeholder, and so are its zeros: a charge is not held against either."""
    start = {"type": "message_start", "message": {**ANSWER, "content": [], "usage": begun}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": final}
    told = [start, end, {"type": "message_stop"}]
    answer = exchange("".join(f"event: {body['type']}\ndata: {json.dumps(body)}\n\n" for body in told))
    assert isinstance(answer.answer(), dict)
    assert read_usage(answer, PACK) is None


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n"])
def test_line_endings_do_not_matter(ending):
    assert read_stream("\ufeff" + sse().replace("\n", ending)).message == ANSWER


def test_a_tools_arguments_are_put_together():
    pieces = ['{"a": ', "[1, 2]", ', "b": null}']
    lines = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "toolu_01", "input": {}},
        },
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": p}}
            for p in pieces
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 9, "input_tokens": None},
        },
        {"type": "message_stop"},
    ]
    read = read_stream("".join(f"data: {json.dumps(line)}\n\n" for line in lines))
    assert read.message is not None
    assert read.message["content"] == [{"type": "tool_use", "id": "toolu_01", "input": {"a": [1, 2], "b": None}}]
    assert read.message["usage"] == {"input_tokens": 3, "output_tokens": 9}, "a null takes nothing away"
    assert read.message["stop_reason"] == "tool_use"


def test_what_nobody_has_seen_yet_is_stepped_over():
    read = read_stream(sse(future=True))
    assert read.message == ANSWER
    assert read.texture is not None
    assert read.texture.unknown == 1


def test_a_stream_without_its_end_is_no_answer():
    cut = sse().partition("event: message_stop")[0]
    read = read_stream(cut)
    assert not read.complete
    assert read.message is not None, "what came is still there to be looked at"
    broken = exchange(cut)
    assert broken.answer() is None
    assert failed(broken)
    assert read_usage(broken, PACK) is None
    found = assess_run_state(run_of([broken], [step_named("s0")]), KNOWLEDGE)
    assert [(f.code, f.params["kinds"]) for f in found if f.code == "run.hostile_response"] == [
        ("run.hostile_response", ["stream_incomplete"])
    ]


def test_an_error_in_the_middle_is_no_answer():
    start = sse().partition("event: content_block_stop")[0]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    read = read_stream(
        f'{start}event: error\ndata: {json.dumps(error)}\n\nevent: message_stop\ndata: {{"type":"message_stop"}}\n\n'
    )
    assert not read.complete
    assert read.error == error["error"]


@pytest.mark.parametrize("seed", range(30))
def test_the_vendors_padding_tells_what_was_passed_on(seed):
    passed, printed = read_stream(sse(seed)).texture, read_stream(anew(seed)).texture
    assert passed is not None
    assert printed is not None
    assert (passed.handling, passed.ping, passed.event_lines, passed.in_order, passed.done) == (
        "as_sent", "spaced", True, True, False,
    )  # fmt: skip
    assert sum(passed.padding) == sum(printed.padding) == printed.padding[0]
    assert (printed.handling, printed.ping) == ("rebuilt", "compact")


def test_too_little_to_tell_by():
    lines = ['{"type":"message_start","message":{"id":"m"}}', '{"type":"message_stop"}']
    texture = read_stream("".join(f"data: {line}\n\n" for line in lines)).texture
    assert texture is not None
    assert (texture.handling, texture.event_lines, texture.ping) == ("unclear", False, "")


def test_a_done_line_and_a_wrong_order_are_noted():
    texture = read_stream('data: {"type":"ping"}\n\n' + sse() + "data: [DONE]\n\n").texture
    assert texture is not None
    assert (texture.done, texture.in_order) == (True, False)


def test_openai_streams_are_read_too():
    chunks = [
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "model": "gpt",
            "choices": [{"index": 0, "delta": {"content": p}}],
        }
        for p in ("O", "K")
    ]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    chunks.append(
        {"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    )
    body = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks)
    for text in (body, body + "data: [DONE]\n\n"):
        read = read_stream(text)
        assert read.complete
        assert read.message is not None
        assert read.message["choices"][0] == {
            "index": 0,
            "message": {"role": "assistant", "content": "OK"},
            "finish_reason": "stop",
        }
        assert read.message["usage"]["prompt_tokens"] == 5
    assert not read_stream(f"data: {json.dumps(chunks[0])}\n\n").complete
    whole = {"id": "resp_1", "usage": {"input_tokens": 4}}
    created = {"type": "response.created", "response": {"id": "resp_1"}}
    ended = {"type": "response.completed", "response": whole}
    assert read_stream("".join(f"data: {json.dumps(e)}\n\n" for e in (created, ended))).message == whole
    assert not read_stream(f"data: {json.dumps(created)}\n\n").complete


@pytest.mark.parametrize(
    ("kind", "body", "streamed"),
    [
        ("text/event-stream; charset=utf-8", "", True),
        ("application/json", "event: message_start\n", True),
        ("text/event-stream", '{"type":"error"}', False),
        ("application/json", '{"id":"m"}', False),
        (None, "\ufeffdata: {}", True),
        (None, "<html>", False),
    ],
)
def test_a_stream_is_known_by_its_first_line(kind, body, streamed):
    assert looks_streamed(kind, body) is streamed


def test_a_refusal_under_a_streams_type_is_read():
    refusal = exchange('{"type":"error","error":{"type":"invalid_request_error"}}', status=400)
    assert refusal.answer()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "data",
    ["{", "[]", "null", '"x"', "NaN", "[" * 100_000, '{"type":"content_block_delta","index":"0","delta":7}',
     '{"type":"content_block_start","index":0}', '{"type":"message_delta","usage":[1],"delta":"x"}',
     '{"type":["ping"]}',
     '{"type":"content_block_delta","index":0,"delta":{"type":{},"text":1}}', '{"type":"error","error":"text"}'],
)  # fmt: skip
def test_nonsense_breaks_nothing(data):
    for text in (f"data: {data}\n\n", sse().replace("event: ping\n", f"data: {data}\n\nevent: ping\n", 1)):
        read_stream(text)
    assert exchange(f"data: {data}\n\n").answer() is None


@given(st.text(max_size=200))
def test_any_text_is_read_without_harm(text):
    assert read_stream("data: " + text) is read_stream("data: " + text)
    assert all("\n" not in event.name for event in parse_events(text))
