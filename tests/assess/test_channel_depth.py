"""Check 1 in depth: signatures, relay request ids, chains, streams, pools of accounts, a vendor whose scheme moves."""

from __future__ import annotations

import datetime as dt
import json
import random

import pytest

from relay_audit.assess.channel import assess_channel
from relay_audit.assess.channel_signals import read_sample
from relay_audit.assess.model_identity import assess_model_identity
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.lab import signature as lab
from relay_audit.lab.message import events, printed_anew
from relay_audit.redaction import Redactor
from relay_audit.signature import mask_accounts
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, START, Said, answered, at, channel_run, minted, vendor_says

WORD = Redactor([], b"salt").account
LIMITS = (("anthropic-ratelimit-tokens-limit", "1"),)


def thinking(signature: str, id_: str = "", usage: dict | None = None) -> dict:
    blocks = [{"type": "thinking", "thinking": "…", "signature": signature}, {"type": "text", "text": "OK"}]
    return {
        "id": id_,
        "type": "message",
        "model": MODEL,
        "content": blocks,
        "usage": usage or {"input_tokens": 1, "output_tokens": 1},
    }


def signed(platform: str, model: str = MODEL, account: str = "", seed: int = 1) -> str:
    text = lab.signature(platform, model, account, random.Random(seed))
    return json.loads(mask_accounts(json.dumps({"signature": text}).encode(), WORD))["signature"]


def thought(place: int, platform: str, *, kind: str = "msg", headers=(), **more) -> Said:
    """A thinking answer with an id of one channel and a signature of maybe another."""
    id_ = f"{kind}_01{minted(at(10 * place + 0.3), place + 1)}" if kind else ""
    return Said(id_, headers=headers, body=thinking(signed(platform, seed=place, **more), id_))


def judged(said: list[Said], claim: str = "anthropic", **more) -> list[Finding]:
    return assess_channel(channel_run(said, claim=claim, **more), KNOWLEDGE)


def one(found: list[Finding], code: str) -> Finding:
    hits = [f for f in found if f.code == code]
    assert len(hits) == 1, [f.code for f in found]
    return hits[0]


def strength_of_signature(said: Said) -> str:
    run = channel_run([said])
    sample = read_sample(run.exchanges[0], run, KNOWLEDGE)
    return next((s.strength for s in sample.signals if s.kind == "signature"), "none")


# Signatures


@pytest.mark.parametrize(
    ("said", "strength"),
    [
        (thought(0, "anthropic"), "strong"),
        (thought(0, "aws", kind="msg_bdrk"), "strong"),
        (thought(0, "aws", kind=""), "supporting"),
        (thought(0, "aws"), "supporting"),
        (
            thought(0, "aws", kind="", headers=(("x-amzn-requestid", "r"), ("x-amzn-bedrock-input-token-count", "1"))),
            "strong",
        ),
        (Said("", body=thinking(lab.opaque(random.Random(1)))), "none"),
    ],
)
def test_a_signature_supports_and_is_strong_where_an_id_or_header_agrees(said, strength):
    assert strength_of_signature(said) == strength


@pytest.mark.parametrize(("platform", "claim", "code"), [
    ("anthropic", "anthropic", "channel.matches"), ("anthropic", "azure", "channel.matches"),
    ("aws", "aws", "channel.matches"), ("vertex", "vertex", "channel.matches"),
    ("aws", "anthropic", "channel.mismatch"), ("anthropic", "aws", "channel.mismatch"),
])  # fmt: skip
def test_a_signature_alone_names_a_platform_and_accuses_nobody(platform, claim, code):
    found = one(judged([thought(p, platform, kind="") for p in range(3)], claim), code)
    assert found.confidence == "supporting"
    assert not found.accusation
    assert found.severity == ("low" if code == "channel.mismatch" else "info")


def test_a_signature_and_an_id_that_agree_are_two_signals():
    found = one(judged([thought(p, "aws", kind="msg_bdrk") for p in range(3)]), "channel.mismatch")
    assert (found.severity, found.confidence, found.observed["kinds"]) == (
        "high",
        "strong",
        ["message_id", "signature"],
    )


@pytest.mark.parametrize(
    ("n", "outcome", "severity"), [(1, "inconclusive", "info"), (2, "mismatch", "low"), (5, "mismatch", "low")]
)
def test_a_signature_against_everything_else_is_never_an_accusation(n, outcome, severity):
    found = judged([*(thought(p, "aws") for p in range(n)), *(vendor_says(p) for p in range(n, n + 3))])
    doubt = one(found, "channel.signals_contradict")
    assert (doubt.outcome, doubt.severity, doubt.accusation) == (outcome, severity, False)
    assert doubt.confidence == ("supporting" if n > 1 else "weak")
    assert not [f for f in found if f.code == "channel.matches"]


def test_a_doubted_answer_does_not_hide_what_the_others_say():
    said = [thought(0, "aws"), *(Said(f"msg_bdrk_01{minted(at(10 * p + 0.3), p + 1)}") for p in range(1, 4))]
    assert {f.code for f in judged(said)} == {"channel.signals_contradict", "channel.mixed"}


def opaque(place: int) -> Said:
    id_ = f"msg_01{minted(at(10 * place + 0.3), place + 1)}"
    return Said(id_, body=thinking(lab.opaque(random.Random(place)), id_))


def test_an_opaque_signature_changes_nothing():
    assert one(judged([opaque(p) for p in range(4)]), "channel.matches").observed["kinds"] == ["message_id"]


def test_a_platform_number_that_nobody_knows_says_nothing():
    lab.PLATFORMS["moon"] = 9
    try:
        assert strength_of_signature(thought(0, "moon")) == "none"
    finally:
        del lab.PLATFORMS["moon"]


# The model's name in a signature


def identity(model: str, *, returned: str = MODEL, start: dt.datetime = START, headers=(), others=()) -> list[Finding]:
    said = [
        Said("", headers=headers, body=thinking(signed("anthropic", name, seed=p)) | {"model": returned})
        for p, name in enumerate((model, *(others or (model,))))
    ]
    return [f for f in assess_model_identity(channel_run(said, start=start), KNOWLEDGE) if f.outcome == "mismatch"]


def test_a_name_in_every_signature_is_a_substitution():
    found = one(identity("claude-haiku-5-5"), "model.substituted")
    assert (found.severity, found.confidence, found.params["n"]) == ("critical", "strong", 2)
    assert (found.params["untrusted_leaked"], found.params["road"]) == ("claude-haiku-5-5", "signature")


@pytest.mark.parametrize("others", [(MODEL,), ("claude-opus-5-5",)])
def test_a_name_in_one_signature_of_several_is_low(others):
    found = one(identity("claude-haiku-5-5", others=others), "model.name_mismatch")
    assert (found.severity, found.params["road"]) == ("low", "signature")


def test_what_the_vendor_signs_too_is_held_against_nobody():
    run = channel_run([Said("", body=thinking(signed("anthropic", "claude-haiku-5-5", seed=p))) for p in range(2)])
    own = run.exchanges[0].model_copy(update={"id": "X0900", "side": "official"})
    beside = run.model_copy(update={"exchanges": (*run.exchanges, own)})
    assert [f for f in assess_model_identity(beside, KNOWLEDGE) if f.outcome == "mismatch"] == []


@pytest.mark.parametrize("model", [MODEL, f"{MODEL}-20260928", "", "deployment-7"])
def test_the_same_model_or_no_models_name_says_nothing(model):
    assert identity(model) == []


@pytest.mark.parametrize(
    "second",
    [{"returned": "claude-haiku-5-5-20261007"}, {"headers": (("x-litellm-model-name", "anthropic/claude-haiku-5-5"),)}],
)
def test_a_second_source_that_names_the_same_model_is_a_substitution(second):
    found = one(identity("claude-haiku-5-5", **second), "model.substituted")
    assert (found.severity, found.confidence, found.params["road"]) == ("critical", "strong", "signature")


def test_two_sources_that_disagree_are_no_substitution():
    found = identity("claude-haiku-5-5", returned="claude-opus-5-5")
    assert {f.code for f in found} == {"model.name_mismatch"}


def test_a_layout_seen_long_ago_names_no_model():
    assert identity("claude-haiku-5-5", start=dt.datetime(2028, 6, 1, tzinfo=dt.UTC)) == []


# What relays leave


def relay_id(moment: dt.datetime, build: str, tail: str = "AbCdEfGh") -> str:
    return f"{moment:%Y%m%d%H%M%S}123456789{build}{tail}"


def test_the_chain_in_a_refusal_is_read_outermost_first():
    moment = at(0.8)
    inner = relay_id(moment + dt.timedelta(hours=8), "c955d568")
    text = f"Overloaded (request id: {inner}) (request id: {relay_id(moment, '8268d9d6')})"
    body = {"type": "error", "error": {"type": "<nil>", "message": text}}
    found = one(judged([Said(status=529, body=body), vendor_says(1)]), "channel.chained_relay")
    assert (found.severity, found.params) == ("info", {"via": ["error_text"]})
    assert found.observed["outermost_first"] == [
        {"shape": "relay.new_api", "build": "8268d9d6", "clock_h": 0},
        {"shape": "relay.new_api.fork", "build": "c955d568", "clock_h": 8},
    ]


@pytest.mark.parametrize("times", [1, 2])
def test_one_id_is_no_chain_however_often_it_stands_there(times):
    text = "bad (request id: " + relay_id(at(0.8), "8268d9d6") + ")"
    assert not [
        f for f in judged([Said(status=502, body=text * times), vendor_says(1)]) if f.code == "channel.chained_relay"
    ]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (relay_id(at(0.8), "8268d9d6"), {"shape": "relay.new_api", "build": "8268d9d6", "clock_h": 0}),
        (relay_id(at(0.8), "c955d568"), {"shape": "relay.new_api.fork", "build": "c955d568", "clock_h": 0}),
        (relay_id(at(0.8), ""), {"shape": "relay.new_api.before_2026_04", "clock_h": 0}),
        (f"{at(0.8):%Y%m%d%H%M%S}12345678987654321", {"shape": "relay.one_api", "clock_h": 0}),
        ("something-else", None),
    ],
)
def test_a_relays_request_id_tells_software_build_and_clock(value, told):
    found = one(
        judged([vendor_says(p, headers=(("X-Oneapi-Request-Id", value),)) for p in range(3)]), "channel.matches"
    )
    assert found.observed.get("relay_request_id") == told


def streamed(place: int, *, anew: bool) -> Said:
    answer = thinking("", f"msg_01{minted(at(10 * place + 0.3), place + 1)}") | {"stop_reason": "end_turn"}
    answer["content"] = [{"type": "text", "text": "OK then"}]
    pieces = events(answer, random.Random(place))
    body = b"".join(printed_anew(pieces) if anew else pieces).decode()
    return Said(headers=(("content-type", "text/event-stream"),), body=body)


def test_streams_are_read_and_their_handling_is_a_fact():
    found = one(judged([streamed(0, anew=False), streamed(1, anew=True), streamed(2, anew=True)]), "channel.matches")
    assert found.observed["streams"] == {"as_sent": 1, "rebuilt": 2}
    assert (found.params["n"], found.severity) == (3, "info")


def test_the_form_of_whole_answers_is_a_fact():
    id_ = f"msg_01{minted(at(0.3), 1)}"
    official = {"model": MODEL, "id": id_, "type": "message", "role": "assistant", "content": [], "usage": {}}
    texts = (
        json.dumps(official, separators=(",", ":")),
        json.dumps(official),
        json.dumps(dict(sorted(official.items())), separators=(",", ":")),
    )
    for text, form in zip(texts, ("as_sent", "rebuilt", "rebuilt"), strict=True):
        assert one(judged([Said(body=text)]), "channel.matches").observed["bodies"] == {form: 1}


# Pools and constants


def test_several_accounts_are_a_fact_and_their_ids_stay_out_of_the_finding():
    said = [thought(p, "anthropic", account=f"3f2b8c1e-77aa-4b0c-9d5e-00000000000{p % 2}") for p in range(4)]
    found = one(judged(said), "channel.subscription_pool_hint")
    assert (found.severity, found.outcome, found.params) == (
        "info",
        "inconclusive",
        {"n": 4, "of": 4, "signs": ["several_accounts"]},
    )
    assert found.observed == {"accounts": 2}
    assert "3f2b" not in found.model_dump_json()
    assert "account:" not in found.model_dump_json()


def test_one_account_in_header_and_signature_is_one():
    account = "3f2b8c1e-77aa-4b0c-9d5e-000000000001"
    said = [
        vendor_says(0, headers=(("anthropic-organization-id", WORD(account)),)),
        thought(1, "anthropic", account=account),
    ]
    assert not [f for f in judged(said) if f.code == "channel.subscription_pool_hint"]


def test_a_programs_constant_id_is_no_replay():
    constant = "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY"
    assert [f.code for f in judged([Said(constant)] * 4)] == ["channel.unknown"]
    assert "channel.id_replayed" in [f.code for f in judged([Said(f"msg_{'ab' * 12}")] * 4)]


# A vendor whose scheme moves


def beside(official_id: str, said: list[Said], request_id: str = "") -> Evidence:
    run = channel_run(said)
    headers = (("request-id", request_id),) if request_id else ()
    own = answered(99, "mirror.with.s0", {"id": official_id}, moment=at(1), side="official", headers=headers)
    return run.model_copy(update={"exchanges": (*run.exchanges, own)})


RANDOM = [Said(f"msg_01{minted(at(10 * p + 0.3), p + 1, version=4)}") for p in range(4)]


def test_where_the_vendor_breaks_its_own_scheme_no_id_is_bad():
    moved = f"msg_01{minted(at(1), 9, version=4)}"
    assert "channel.id_reminted" in [f.code for f in assess_channel(channel_run(RANDOM), KNOWLEDGE)]
    assert "channel.id_reminted" not in [f.code for f in assess_channel(beside(moved, RANDOM), KNOWLEDGE)]
    assert "channel.id_reminted" not in [
        f.code for f in assess_channel(beside("", RANDOM, "req_02whatever"), KNOWLEDGE)
    ]


def test_where_the_vendor_keeps_its_scheme_the_ids_are():
    kept = f"msg_01{minted(at(1), 9)}"
    assert one(assess_channel(beside(kept, RANDOM), KNOWLEDGE), "channel.id_reminted").severity == "low"
    by_request = beside("", RANDOM, f"req_01{minted(at(1), 9)}")
    assert one(assess_channel(by_request, KNOWLEDGE), "channel.id_reminted").severity == "low"
