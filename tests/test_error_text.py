"""Refusals lose their wrappers and keep their meaning: recorded forms of relay software, and others."""

from __future__ import annotations

import json

import pytest

from relay_audit.error_text import masked, read_refusal, same_complaint
from relay_audit.exchange import says_error

INNER = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": "temperature: range: 0..1"},
    "request_id": "req_01",
}
NEW_API = {
    "type": "error",
    "error": {"type": "<nil>", "message": "temperature: range: 0..1 (request id: 20260808063129123456789Xy7Kp2Qz)"},
}
TWO_HOPS = {
    "error": {"message": "temperature: range: 0..1 (request id: a1) (request id: b2)", "type": "upstream_error"}
}
LITELLM = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": f"litellm.BadRequestError: AnthropicException - {json.dumps(INNER)}\n\n"
        "LiteLLM: model group 'x' failed with the error above. No fallback was attempted.",
    },
}
HUBRELAY = {
    "type": "error",
    "error": {"type": "api_error", "message": f"全部 1 个渠道都失败，最后一个错误：HTTP 400: {json.dumps(INNER)}"},
}
PORTKEY = {
    "error": {"message": "anthropic error: temperature: range: 0..1", "type": "invalid_request_error"},
    "provider": "anthropic",
}

OPENROUTER = {
    "error": {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": json.dumps(INNER, indent=2), "provider_name": "Anthropic"},
    },
    "user_id": "user_2b",
}
BESIDE = {
    "code": 400,
    "message": "upstream rejected the request",
    "details": [{"note": "n"}, {"body": json.dumps(INNER)}],
}


@pytest.mark.parametrize(
    ("status", "body", "inner", "kind"),
    [(400, INNER, 400, "invalid_request_error"), (400, NEW_API, 400, "<nil>"), (400, TWO_HOPS, 400, "upstream_error"),
     (400, LITELLM, 400, "invalid_request_error"), (502, HUBRELAY, 400, "invalid_request_error"),
     (400, PORTKEY, 400, "invalid_request_error"), (400, OPENROUTER, 400, "invalid_request_error"),
     (400, BESIDE, 400, "invalid_request_error")],
)  # fmt: skip
def test_wrappers_come_off(status: int, body: dict, inner: int, kind: str) -> None:
    said = read_refusal(status, json.dumps(body))
    assert (said.status, said.inner_status, said.kind, said.text) == (status, inner, kind, "temperature: range: 0..1")


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [('{"error":"Invalid API key format","message":"no"}', "", "no"), ('{"detail":"Not Found"}', "", "Not Found"),
     ('[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]', "INVALID_ARGUMENT", "bad"),
     ('{"error":{"code":"E015","message":"Internal server error"},"status":500}', "E015", "Internal server error"),
     ("upstream timed out", "", "upstream timed out"),
     ('{"error":{"message":"Provider returned error","metadata":{"raw":"{\\"id\\": 7}"}}}', "", "Provider returned error"),
     ('{"error":{"message":"Provider returned error","metadata":{"raw":"{cut"}}}', "", "Provider returned error"),
     ('{"error":{"message":7}}', "", '{"error":{"message":7}}'), ("", "", "")],
)  # fmt: skip
def test_other_forms(body: str, kind: str, text: str) -> None:
    said = read_refusal(400, body)
    assert (said.kind, said.text) == (kind, text)


def test_json_in_json_is_followed_to_a_depth_and_no_further() -> None:
    body = json.dumps({"error": {"type": "t", "message": "end"}})
    for _ in range(40):
        body = json.dumps({"error": {"type": "t", "message": body}})[:20_000]
    assert read_refusal(400, body).status == 400


@pytest.mark.parametrize(
    ("text", "shown"),
    [("messages.0.content.0.text: Field required", "***.***.***.***.text: Field required"),
     ("us.anthropic.claude-x", "***.***.claude-x"),
     ("tools.0.custom.input_schema.type", "***.***.custom.input_schema.type"),
     ("thinking.enabled.budget_tokens", "***.enabled.budget_tokens"), ("gpt-4.1-mini", "gpt-4.1-mini"),
     ("max_tokens: 9 > 8, for claude-3-haiku-20240307", "max_tokens: 9 > 8, for claude-3-haiku-20240307")],
)  # fmt: skip
def test_masking_is_new_api_s(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("official", "relay", "names", "same"),
    [
        ("temperature: range: 0..1", "temperature: range: 0..1", "temperature", True),
        ("temperature: range: 0..1", "top_p: range: 0..1", "temperature", False),
        (
            "inference_geo: must be one of ['global', 'us']",
            "inference_geo: Input should be 'us' or 'global'",
            "inference_geo",
            False,
        ),
        ("messages.0.content.0.text: Field required", "***.***.***.***.text: Field required", "messages", True),
        (
            "metadata.bogus: Extra inputs are not permitted",
            "***.bogus: Extra inputs are not permitted",
            "metadata",
            True,
        ),
        ("temperature: range: 0..1", "Internal server error", "temperature", False),
        ("temperature: range: 0..1", "", "temperature", False),
        ("", "anything", "", False),
    ],
)
def test_a_complaint_is_the_same_by_its_words_and_its_field(official: str, relay: str, names: str, same: bool) -> None:
    assert same_complaint(official, relay, names) is same


@pytest.mark.parametrize(
    ("answer", "is_error"),
    [
        (INNER, True),
        ({"error": {"message": "no"}}, True),
        ({"error": "no", "choices": []}, True),
        ({"code": 400, "msg": "bad request", "data": None}, True),
        ({"code": 503, "message": "busy", "content": [{"type": "text", "text": "OK"}]}, False),
        ({"code": 200, "message": "ok", "data": {}}, False), ({"code": 0, "message": "SUCCEED"}, False),
        ({"code": 400, "data": {"task_id": "t"}}, False), ({"code": "success", "message": ""}, False),
        ({"success": False, "message": "no"}, True),
        ({"error": None, "output": [{"type": "message"}], "object": "response"}, False),
        ({"error": {"message": "no"}, "content": [{"type": "text", "text": "OK"}]}, False),
        ({"id": "msg_1", "content": []}, False),
        ({}, False), (None, False), ([INNER], False), ("error", False),
    ],
)  # fmt: skip
def test_an_error_is_one_whatever_its_status(answer: object, is_error: bool) -> None:
    assert says_error(answer) is is_error
