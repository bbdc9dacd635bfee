"""Thinking signatures: what their clear header says, what says nothing, and that no account survives into a record."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_audit.lab import signature as lab
from relay_audit.redaction import Redactor
from relay_audit.signature import Header, mask_accounts, read_signature

SAMPLES = json.loads(Path(__file__).with_name("data").joinpath("signatures.json").read_text())["samples"]
ACCOUNT, PROJECT = "3f2b8c1e-77aa-4b0c-9d5e-0123456789ab", "482913007716"
REDACTOR = Redactor([], b"salt of one workspace")


def signed(account: str = ACCOUNT, platform: str = "anthropic", seed: int = 1, model: str = "claude-opus-5") -> str:
    return lab.signature(platform, model, account, random.Random(seed))


def in_stream(text: str, size: int) -> bytes:
    """A signature that comes in pieces of so many characters."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    lines = [
        json.dumps({"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": p}})
        for p in pieces
    ]
    return "".join(f"event: content_block_delta\ndata: {line}\n\n" for line in lines).encode()


def joined(raw: bytes) -> str:
    events = [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: ")]
    return "".join(event["delta"]["signature"] for event in events)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s['platform']}-{s['generation']}")
def test_recorded_headers_are_read(sample):
    header = read_signature(sample["signature"])
    assert header is not None
    assert (header.generation, header.platform, header.model) == (
        sample["generation"], sample["field_2"], sample["model"],
    )  # fmt: skip
    assert header.account == "", "an account that nobody hashed is not handed on"


def test_both_envelopes_are_read():
    starts = set()
    for seed in range(20):
        text = signed(seed=seed)
        starts.add(text[:4] == "CAIS")
        assert read_signature(text) == Header(lab.GENERATION, None, "claude-opus-5", "")
    assert starts == {True, False}


@pytest.mark.parametrize(("platform", "number"), [("anthropic", None), ("aws", 1), ("vertex", 2)])
def test_the_platform_is_absent_or_a_number(platform, number):
    header = read_signature(signed(platform=platform))
    assert header is not None
    assert header.platform == number


@pytest.mark.parametrize(
    "text",
    ["", "OK", "not base64!", lab.opaque(random.Random(1)), "AAAA", base64.b64encode(b"\x12\x03\x0a\x01\x08").decode(),
     signed()[:40], signed().replace("=", "") + "A", "é" * 40],
)  # fmt: skip
def test_anything_else_says_nothing(text):
    assert read_signature(text) is None


def test_another_layout_says_nothing():
    whole = base64.b64decode(signed())
    assert read_signature(base64.b64encode(whole.replace(b"\x18\x02", b"\x18\x03", 1)).decode()) is None, "the constant"
    assert read_signature(base64.b64encode(whole.replace(b"\x08\x10", b"\x0a\x00", 1)).decode()) is None, (
        "the generation"
    )
    assert read_signature(base64.b64encode(whole.replace(b"claude-opus-5", b"claude opus 5", 1)).decode()) is None


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data):
    text = base64.b64encode(data)
    assert read_signature(text.decode()) is None or data
    body = b'{"signature":"' + text + b'"}'
    assert len(mask_accounts(body, REDACTOR.account)) == len(body)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 400))
def test_a_damaged_signature_breaks_nothing(damage, place):
    whole = bytearray(base64.b64decode(signed()))
    whole[place : place + len(damage)] = damage
    read_signature(base64.b64encode(bytes(whole)).decode())


@pytest.mark.parametrize(("name", "account"), [("signature", ACCOUNT), ("data", ACCOUNT), ("signature", PROJECT)])
def test_an_account_is_hashed_before_anything_is_recorded(name, account):
    body = json.dumps({"content": [{"type": "thinking", name: signed(account)}]}).encode()
    cleaned = REDACTOR.clean(body).raw
    text = json.loads(cleaned)["content"][0][name]
    assert account.encode() not in base64.b64decode(text)
    header = read_signature(text)
    assert header is not None
    assert header.account == REDACTOR.account(account), "as in the vendor's own header, so that the two can be compared"
    assert (header.model, len(cleaned)) == ("claude-opus-5", len(body))
    assert REDACTOR.clean(cleaned).raw == cleaned, "a second pass changes nothing"


@pytest.mark.parametrize("size", [1000, 64, 37, 5])
def test_an_account_is_hashed_in_a_stream_of_pieces(size):
    cleaned = mask_accounts(in_stream(signed(), size), REDACTOR.account)
    header = read_signature(joined(cleaned))
    assert header is not None
    assert header.account == REDACTOR.account(ACCOUNT)
    assert ACCOUNT.encode() not in base64.b64decode(joined(cleaned))


def test_two_signatures_of_one_answer_are_two():
    other = "9d5e0000-77aa-4b0c-9d5e-0123456789ab"
    body = json.dumps(
        [{"signature": signed()}, {"signature": signed(other, seed=2)}, {"data": signed(PROJECT)}]
    ).encode()
    found = json.loads(mask_accounts(body, REDACTOR.account))
    accounts = [read_signature(next(iter(item.values()))) for item in found]
    assert [header.account for header in accounts if header] == list(map(REDACTOR.account, (ACCOUNT, other, PROJECT)))


def test_an_account_in_a_layout_of_tomorrow_is_hashed_by_its_shape():
    text = base64.b64encode(b"\xff\xfe tomorrow " + ACCOUNT.encode() + b" sealed")
    cleaned = mask_accounts(b'{"signature":"' + text + b'"}', REDACTOR.account)
    assert ACCOUNT.encode() not in base64.b64decode(json.loads(cleaned)["signature"])


def test_escaped_slashes_and_json_in_json_are_read_through():
    text = next(t for t in (signed(seed=seed) for seed in range(50)) if "/" in t)
    escaped = b'{"signature":"' + text.replace("/", "\\/").encode() + b'"}'
    for body in (escaped, json.dumps({"message": json.dumps({"signature": text})}).encode()):
        cleaned = mask_accounts(body, REDACTOR.account).decode()
        value = json.loads(cleaned)
        value = json.loads(value["message"]) if "message" in value else value
        header = read_signature(value["signature"])
        assert header is not None
        assert header.account == REDACTOR.account(ACCOUNT)


def test_what_holds_no_account_stays_as_it_is():
    for body in (b'{"data":"aGVsbG8gd29ybGQ="}', b'{"signature":""}', json.dumps({"signature": signed("")}).encode()):
        assert mask_accounts(body, REDACTOR.account) == body
