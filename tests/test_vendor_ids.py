"""Clocks and structures inside vendors' ids: recorded ids decode, made-up ones do not, and windows have edges."""

from __future__ import annotations

import datetime as dt
import json
import random

import pytest

from relay_audit.catalog import load_knowledge
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.ids import read_id
from relay_audit.vendor_ids import CLOCKS, read_response_hex

KNOWLEDGE = load_knowledge()
CHATS = ("openai_chat", "deepseek", "moonshot", "qwen", "zhipu")
"""Formats that are one on the wire."""
TODAY = dt.date(2026, 11, 30)

# decoder, recorded id, the unix seconds of its recording
RECORDED = [
    ("chat_base62", "chatcmpl-BNhrEFvKSNY08Uphau5iA4InZH6jn", 1744989832),
    ("chat_base62", "chatcmpl-DFqnXjD7cQvS2DQQUKg9uZzVCnJU6", 1772670247),
    ("chat_base62", "chatcmpl-EEbhOImX79FVNNZy6Rm2hTk6sE84C", 1787150214),
    ("response_hex", "resp_04e78bca3c0a54ee016a85bfbce3bc87d284ff3c24caec686c", 1787150268),
    ("response_hex", "resp_080a59370ef38d12016a85bf15856c8194a50a69cff42c2ce3", 1787150101),
    ("response_hex", "resp_037ed810094c42c9016a6bc6e592a48196a0e9905f7d4e12d4", 1785448165),
    ("response_hex_48", "resp_67d4472d4e7c819095de160937303b1f0014ac40f9420c9c", 1741965101),
    ("google_time", "MsCFavurEdHmnsEP--XY8Qg", 1787150386),
    ("local_utc8", "20260313050506f00a029fba604431", 1773349506),
    ("ark_ms", "02177969507279077fce418cd3a659821a063326c55dce3b59e46", 1779695072),
    ("unix_seconds", "gen-1736892109-Bw6T8Zz8t3IlUpRWImy8", 1736892109),
    ("object_id", "chatcmpl-6a85bfbce3bc87d284ff3c24", 1787150268),
]


@pytest.mark.parametrize(("decoder", "text", "seconds"), RECORDED)
def test_recorded_ids_give_their_moment(decoder, text, seconds):
    read = CLOCKS[decoder](text)
    assert read is not None
    assert int(read) == seconds


@pytest.mark.parametrize(
    ("decoder", "text"),
    [
        ("chat_base62", "chatcmpl-EEb"),
        ("chat_base62", "chatcmpl-EE-hOImX79FVNNZy6Rm2hTk6sE84C"),
        ("response_hex", "resp_14e78bca3c0a54ee016a85bfbce3bc87d284ff3c24caec686c"),  # group does not begin with 0
        ("response_hex", "resp_04e78bca3c0a54ee026a85bfbce3bc87d284ff3c24caec686c"),  # store byte is neither 00 nor 01
        ("response_hex", "resp_04e78bca3c0a54ee016a85bfbce3b187d284ff3c24caec686c"),  # 30th digit is none of 0 4 8 c
        ("response_hex", "resp_04e78bca3c0a54ee016a85bfbce3bc47d284ff3c24caec686c"),  # version 4
        ("response_hex", "resp_04e78bca3c0a54ee016a85bfbce3bc87d2c4ff3c24caec686c"),  # variant
        ("response_hex", "resp_04e78bca3c0a54ee016a85bfbce3bc87d284ff3c24caec686"),
        ("response_hex_48", "resp_67d4472d4e7c419095de160937303b1f0014ac40f9420c9c"),
        ("google_time", "MsCFavurEdHmnsEP--XY8Q"),
        ("google_time", "not base64 at all"),
        ("google_time", "AAAA"),
        ("google_time", "____________________________"),
        ("local_utc8", "20261313050506f00a029fba604431"),
        ("local_utc8", "x"),
        ("ark_ms", "0217796950727"),
        ("unix_seconds", "gen-17368-x"),
        ("object_id", "chatcmpl-xyz"),
    ],
)
def test_what_breaks_the_scheme_gives_nothing(decoder, text):
    assert CLOCKS[decoder](text) is None


def test_a_response_says_whether_it_is_stored_and_shares_with_its_items():
    response = read_response_hex("resp_04e78bca3c0a54ee016a85bfbce3bc87d284ff3c24caec686c")
    item = read_response_hex("msg_04e78bca3c0a54ee016a85bfbd4c2c87d29e9ec1e7f5480a2d")
    assert response is not None
    assert item is not None
    assert (response.group, response.site, response.unstored) == (item.group, item.site, True)
    assert read_response_hex("resp_037ed810094c42c9006a6bc6e592a48196a0e9905f7d4e12d4").unstored is False


def test_random_hex_of_the_right_length_is_told():
    rng = random.Random(1)
    made_up = ("resp_" + "".join(rng.choices("0123456789abcdef", k=50)) for _ in range(5000))
    assert sum(read_response_hex(text) is not None for text in made_up) == 0


def exchange(body: object, age_s: float, elapsed_ms: int = 800) -> Exchange:
    """An answer whose Date is `age_s` after the second that its id carries."""
    sent = dt.datetime.fromtimestamp(1787150268 + age_s, dt.UTC)
    date = sent.strftime("%a, %d %b %Y %H:%M:%S GMT")
    return Exchange(
        id="X0001", step="s", side="relay", sent_at=sent, elapsed_ms=elapsed_ms, delivery="answered",
        request=Request(method="POST", path="/v1/responses"),
        response=Response(status=200, headers=(("date", date),), body=json.dumps(body)),
    )  # fmt: skip


RESPONSE = "resp_04e78bca3c0a54ee016a85bfbce3bc87d284ff3c24caec686c"
ITEM = "msg_04e78bca3c0a54ee016a85bfbd4c2c87d29e9ec1e7f5480a2d"


@pytest.mark.parametrize(
    ("body", "age", "fault"),
    [
        ({"created_at": 1787150268, "output": [{"id": ITEM}]}, 0, ""),
        ({"created_at": 1787150268}, 30, ""),
        ({"created_at": 1787150268}, 32, "outside_window"),
        ({"created_at": 1787150268}, -5, ""),
        ({"created_at": 1787150268}, -6, "outside_window"),
        ({}, 0, ""),
        ({"created_at": 1787150273}, 5, ""),
        ({"created_at": 1787150274}, 5, "not_in_scheme"),
        ({"created_at": 1787150262}, 0, "not_in_scheme"),
        ({"output": [{"id": ITEM.replace("04e7", "05e7")}]}, 0, "not_in_scheme"),
        ({"output": [{"id": ITEM.replace("87d29e", "81929e")}]}, 0, "not_in_scheme"),
        ({"output": [{"id": "msg_abc"}, 7, {"id": None}]}, 0, ""),
        ({"output": "x"}, 0, ""),
    ],
)
def test_clock_agreement_and_shared_parts(body, age, fault):
    reading = read_id("message_id", RESPONSE, exchange(body, age), KNOWLEDGE, TODAY, "openai_responses")
    assert reading.shape is not None
    assert (reading.shape.id, reading.fault) == ("openai.responses.id", fault)


@pytest.mark.parametrize(
    ("dialect", "text", "shape", "channels"),
    [
        ("openai_chat", "chatcmpl-EEbhOImX79FVNNZy6Rm2hTk6sE84C", "openai.chat.id", ("openai", "azure")),
        ("anthropic", "chatcmpl-EEbhOImX79FVNNZy6Rm2hTk6sE84C", "openai.chat_id", ("openai", "azure", "converter")),
        ("openai_responses", RESPONSE, "openai.responses.id", ("openai", "azure")),
        ("anthropic", RESPONSE, "openai.response_id", ("openai", "azure")),
        ("gemini", "MsCFavurEdHmnsEP--XY8Qg", "google.response_id", ("google", "vertex")),
        ("deepseek", "ec4bb68d-8c36-4119-96c4-7808cc10998e", "deepseek.chat.id", ("deepseek", "converter")),
        ("openai_chat", "ec4bb68d-8c36-4119-96c4-7808cc10998e", "converter.bare_uuid", ("converter",)),
        ("zhipu", "20260313050506f00a029fba604431", "zai.chat.id", ("zai",)),
        ("moonshot", "chatcmpl-6a85bfbce3bc87d284ff3c24", "moonshot.chat.id", ("moonshot",)),
        ("qwen", "chatcmpl-ec4bb68d-8c36-4119-96c4-7808cc10998e", "qwen.chat.id", ("qwen", "converter")),
        *((own, "chatcmpl-5c204aa7-23bd-90ab-bf79-8850297aefde", "qwen.chat.id.9", ("qwen",)) for own in CHATS),
        *((own, "20260810175218c2d1a8a2d5f14b0a", "zai.chat.id", ("zai",)) for own in CHATS),
        ("openai_responses", "ec4bb68d-8c36-9119-96c4-7808cc10998e", "xai.responses.id", ("xai",)),
        ("openai_chat", "msg_011CeEEr4zwJ97DhCGXLpTZJ", "anthropic.message_id", ("anthropic", "azure")),
    ],
)
def test_one_shape_may_mean_different_things_in_different_formats(dialect, text, shape, channels):
    reading = read_id("message_id", text, exchange({}, 0), KNOWLEDGE, TODAY, dialect)
    assert reading.shape is not None
    assert (reading.shape.id, reading.shape.channels) == (shape, channels)


@pytest.mark.parametrize("mark", ["azure.chat.filters", "deepseek.fingerprint", "groq.id", "xai.ticks"])
def test_one_wire_format_has_one_set_of_marks_whoever_was_asked_in_it(mark):
    """A DeepSeek behind a Kimi line says its name there as it does behind a GPT line."""
    row = next(row for row in KNOWLEDGE.bodies if row.id == mark)
    assert set(CHATS) <= set(row.dialects)


@pytest.mark.parametrize(
    ("mark", "answer", "raw", "stands"),
    [
        ("azure.chat.filters", {"choices": [{"content_filter_results": {}}]}, "", True),
        ("azure.chat.filters", {"choices": [{"content_filter_results": None}]}, "", False),
        ("azure.chat.filters", {"choices": []}, "", False),
        ("azure.responses.filters", {"content_filters": []}, "", True),
        ("openai.responses.billing", {"billing": {"payer": "developer"}}, "", True),
        ("deepseek.fingerprint", {"system_fingerprint": "fp_a18b46594c_prod0820_fp8"}, "", True),
        ("deepseek.fingerprint", {"system_fingerprint": "fp_a18b46594c"}, "", False),
        ("deepseek.fingerprint", {"system_fingerprint": 7}, "", False),
        ("xai.ticks", {"usage": {"cost_in_usd_ticks": 3}}, "", True),
        ("openai.pretty", {}, '{\n  "id": "chatcmpl-1"', True),
        ("openai.pretty", {}, '{"id":"chatcmpl-1"', False),
        ("vertex.traffic", {"createTime": "x", "usageMetadata": {"trafficType": "ON_DEMAND"}}, "", True),
        ("vertex.traffic", {"usageMetadata": {"trafficType": "ON_DEMAND"}}, "", False),
    ],
)
def test_marks_in_bodies(mark, answer, raw, stands):
    row = next(row for row in KNOWLEDGE.bodies if row.id == mark)
    assert row.stands_in(answer, raw) is stands
