"""What relays leave on answers, read directly: accounts, storage that was switched off, chains, and lost requests."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.channel_signals import Sample, Signal, read_sample, signed_texts
from relay_audit.assess.relay_trail import chained, pooled, way_of
from relay_audit.books import LogReading, LogRow
from relay_audit.catalog import load_packs
from relay_audit.evidence import Evidence
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    MODEL,
    PACK,
    START,
    answered,
    at,
    base58,
    lost,
    only,
    plan_of,
    run_of,
    said,
    step_named,
)  # fmt: skip

UNSTORED = "resp_04e78bca3c0a54ee016a85bfbce3bc87d284ff3c24caec686c"
STORED = "resp_037ed810094c42c9006a6bc6e592a48196a0e9905f7d4e12d4"
ACCOUNTS = ("[account:0123456789]", "[account:abcdef0123]")
HEADER = "anthropic-organization-id"
HINT = {
    "code": "channel.subscription_pool_hint", "check": 1, "outcome": "inconclusive", "evidence_level": "observed_pattern",
    "basis": "known_list", "severity": "info",
}  # fmt: skip


def run(
    *said_: dict[str, Any], sent: Any = None, claim: str = "anthropic", model: str = MODEL, **more: Any
) -> Evidence:
    """One answer per entry: its body, and under `headers` its headers."""
    steps = [step_named(f"s{n}") for n in range(1, len(said_) + 2)]
    exchanges = [
        answered(n, f"s{n}", {k: v for k, v in own.items() if k != "headers"}, moment=at(n), headers=own.get("headers", ()),
                 sent=sent) for n, own in enumerate(said_, 1)
    ]  # fmt: skip
    return run_of([*exchanges, lost(90, f"s{len(said_) + 1}")], steps, claim=claim, model=model, **more)


def account(place: int) -> dict[str, Any]:
    return {"id": f"m{place}", "headers": ((HEADER, ACCOUNTS[place % 2]),)}


GONE, HERE = {"usage": {"inference_geo": "not_available"}}, {"usage": {"inference_geo": "global"}}


@pytest.mark.parametrize(("claim", "severity"), [("anthropic", "low"), ("unknown", "info")])
def test_the_region_of_subscription_accounts(claim, severity):
    assert [said(one) for one in pooled(run(GONE, HERE, GONE, GONE, claim=claim), KNOWLEDGE)] == [
        {**HINT, "severity": severity, "params": {"n": 3, "of": 4, "signs": ["inference_geo"]}, "exchanges": ("X0001", "X0003", "X0004"),
         "expected": {"inference_geo": "global"}, "observed": {"inference_geo": "not_available"}}
    ]  # fmt: skip
    assert pooled(run(GONE, GONE, HERE, claim=claim), KNOWLEDGE) == []


def test_several_accounts_are_counted_and_one_is_not():
    assert [said(one) for one in pooled(run(*map(account, range(4)), {"id": "m"}), KNOWLEDGE)] == [
        {**HINT, "params": {"n": 4, "of": 5, "signs": ["several_accounts"]}, "exchanges": ("X0001", "X0002", "X0003", "X0004"),
         "observed": {"accounts": 2}}
    ]  # fmt: skip
    assert pooled(run(account(0), account(2)), KNOWLEDGE) == []
    plain = {"id": "m", "headers": ((HEADER, "3f2b8c1e"),)}
    assert pooled(run(account(0), plain), KNOWLEDGE) == [], "what is no hashed account is none"


def test_answers_that_are_not_stored_though_the_request_left_it_on():
    unstored = ({"id": UNSTORED},) * 3
    assert [said(one) for one in pooled(run(*unstored, {"id": STORED}, sent={"store": True}), KNOWLEDGE)] == [
        {**HINT, "params": {"n": 3, "of": 4, "signs": ["store_switched_off"]}, "exchanges": ("X0001", "X0002", "X0003")}
    ]  # fmt: skip
    for body in ({"store": False}, {}, None):
        assert pooled(run(*unstored, sent=body), KNOWLEDGE) == []
    assert (
        pooled(run(*unstored[:2], {"id": STORED}, {"id": 7}, {"id": "resp_x"}, sent={"store": True}), KNOWLEDGE) == []
    )


def test_several_signs_stand_in_one_finding_and_the_weightiest_names_the_answers():
    both = {**GONE, "id": UNSTORED}
    mixed = run(*({**both, **account(n), "id": UNSTORED} for n in range(3)), {"id": UNSTORED}, sent={"store": True})
    hit = only(pooled(mixed, KNOWLEDGE))
    assert hit.params == {"n": 3, "of": 4, "signs": ["inference_geo", "several_accounts", "store_switched_off"]}
    assert hit.observed == {"inference_geo": "not_available", "accounts": 2}
    two = run(
        *({"id": UNSTORED, **({"headers": account(n)["headers"]} if n < 2 else {})} for n in range(3)),
        sent={"store": True},
    )
    hit = only(pooled(two, KNOWLEDGE))
    assert (hit.params["n"], hit.exchanges, hit.expected) == (2, ("X0001", "X0002"), {})


LITELLM = (("x-litellm-call-id", "c-1"),)
NEW_API = (("x-new-api-version", "v0.9"),)


def row(number: str, **more: Any) -> LogRow:
    return LogRow(
        exchange=number,
        created_at=START,
        kind="consume",
        model=MODEL,
        quota=1,
        prompt_tokens=1,
        completion_tokens=1,
        **more,
    )


def test_a_chain_by_headers_and_by_the_log():
    two = {"id": "m", "headers": (*LITELLM, *NEW_API)}
    found = only(chained(run({"id": "m", "headers": LITELLM}, two), KNOWLEDGE))
    names = {r.family or r.name for r in KNOWLEDGE.software if r.shows_in((*LITELLM, *NEW_API))}
    assert len(names) == 2
    assert said(found) == {"code": "channel.chained_relay", "check": 1, "outcome": found.outcome, "severity": "info", "basis": "relay_word",
                           "params": {"via": sorted(names)}, "exchanges": ("X0002",)}  # fmt: skip
    rows = (row("X0003", upstream_request_id="r"), row("", upstream_request_id="q"))
    log = (LogReading(at=START, exchange="X9", state="read", rows=rows),)
    logged = only(chained(run({"id": "m"}, two, {"id": "m"}, log=log), KNOWLEDGE))
    assert (logged.params["via"], logged.exchanges) == (sorted({*names, "relay_log"}), ("X0002", "X0003"))
    assert chained(run({"id": "m", "headers": LITELLM}, {"id": "m", "headers": NEW_API}), KNOWLEDGE) == []


def test_of_nothing_but_lost_requests_there_is_nothing_to_tell():
    silent = run()
    assert way_of(silent, KNOWLEDGE) == {}
    assert chained(silent, KNOWLEDGE) == pooled(silent, KNOWLEDGE) == []
    assert read_sample(silent.exchanges[0], silent, KNOWLEDGE) == Sample("X0090", ())


# Signals of one answer


def signals(body: Any, dialect: str = "anthropic", **more: Any) -> list[Signal]:
    exchange = answered(1, "s1", body, moment=at(1), **more)
    whole = run_of([exchange], [step_named("s1")]).model_copy(update={"pack": load_packs().pack(dialect)})
    return list(read_sample(exchange, whole, KNOWLEDGE).signals)


def test_a_mark_in_the_body_names_its_channels_as_strongly_as_it_is_known():
    filtered = {"choices": [{"content_filter_results": {"hate": {"filtered": False}}}]}
    azure = Signal("body", "azure.chat.filters", frozenset({"azure"}), "strong", usable=True)
    assert signals(filtered, "openai_chat") == [azure]
    assert signals(filtered) == [], "in another dialect nobody said what it means"
    assert signals(filtered, "openai_chat", status=400) == []


def test_the_id_of_a_tool_means_what_it_means_in_its_dialect():
    block = {"type": "tool_use", "id": f"toolu_01{base58(99)}"}
    assert [(one.kind, one.fingerprint) for one in signals({"content": [block]})] == [("tool_id", "anthropic.tool_id")]


def test_a_refusal_and_an_id_are_signals_of_their_own_kinds():
    shell = {"message": "ValidationException: The provided model identifier is invalid"}
    assert {(one.kind, one.fingerprint) for one in signals(shell, status=400)} == {
        ("error_shell", "aws.validation"), ("error_shell", "aws.model_identifier"),
    }  # fmt: skip
    gemini = {"id": f"other_{base58(99)[:16]}"}
    assert signals(gemini) == [], "what another dialect's ids look like says nothing here"


@pytest.mark.parametrize("text", [None, "", 7, ["x"], {"a": 1}])
def test_a_signature_that_is_no_text_is_none(text):
    blocks = [{"type": "thinking", "thinking": "…", "signature": text}, {"type": "redacted_thinking", "data": "abc"}]
    exchange = answered(1, "s1", {"content": blocks}, moment=at(1))
    assert signed_texts(exchange, PACK) == ["abc"]
    assert (
        signed_texts(
            exchange.model_copy(update={"response": exchange.response.model_copy(update={"status": 400})}), PACK
        )
        == []
    )


def test_without_a_plan_nothing_was_generated():
    assert chained(run({"id": "m"}).model_copy(update={"plan": None}), KNOWLEDGE) == []
    assert pooled(run(GONE, GONE, GONE).model_copy(update={"plan": plan_of([])}), KNOWLEDGE) == []
