"""Check 1 as a table: signals in, channel out; a prefix is never decisive and a future accuses nobody."""

from __future__ import annotations

import datetime as dt

import pytest

from relay_audit.assess.channel import assess_channel
from relay_audit.books import LogReading, LogRow
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    START,
    Said,
    at,
    base58,
    channel_run,
    codes,
    lost,
    minted,
    only,
    vendor_says,
)

RATELIMIT = ("anthropic-ratelimit-requests-limit", "50")
BEDROCK = (("x-amzn-requestid", "r-1"), ("x-amzn-bedrock-input-token-count", "17"))
PLATFORM = (("x-amzn-requestid", "r-1"),)


def judged(said: list[Said], **more) -> list[Finding]:
    return assess_channel(channel_run(said, **more), KNOWLEDGE)


def vendor(n: int = 6, **more) -> list[Said]:
    return [vendor_says(place, **more) for place in range(n)]


def bedrock(n: int = 6, *, headers: tuple[tuple[str, str], ...] = (), first: int = 0) -> list[Said]:
    return [Said(f"msg_bdrk_01{minted(at(10 * p + 0.3), p + 1)}", headers=headers) for p in range(first, first + n)]


def vertex(n: int = 6) -> list[Said]:
    return [Said(f"msg_vrtx_01{minted(at(10 * p + 0.3), p + 1)}") for p in range(n)]


# One channel


def test_the_vendors_own_answers_match():
    found = only(judged(vendor(12)))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "channel.matches",
        "match",
        "info",
        "strong",
    )
    assert (found.evidence_level, found.basis) == ("observed_pattern", "known_list")
    assert found.params == {
        "claimed": "anthropic",
        "channel": "anthropic",
        "n": 12,
        "share_bound": "22.1",
        "signals": ["anthropic.message_id", "anthropic.request_id"],
    }
    assert len(found.exchanges) == 12


def test_one_kind_of_signal_is_supporting():
    found = only(judged([Said(answer.id) for answer in vendor(3)]))
    assert (found.code, found.confidence, found.params["share_bound"]) == ("channel.matches", "supporting", "63.2")
    assert (found.observed["channel"], found.observed["kinds"]) == ("anthropic", ["message_id"])


@pytest.mark.parametrize(
    ("claim", "channel"), [("unknown", "anthropic"), ("anthropic", "anthropic"), ("azure", "azure")]
)
def test_an_id_that_two_channels_share_allows_either_claim(claim, channel):
    found = only(judged(vendor(), claim=claim))
    assert (found.code, found.params["channel"]) == ("channel.matches", channel)


@pytest.mark.parametrize("claim", ["aws", "unknown"])
def test_bedrock_sold_as_bedrock_or_as_nothing_matches(claim):
    assert only(judged(bedrock(), claim=claim)).code == "channel.matches"


def test_one_signal_against_the_claim_is_low():
    found = only(judged(vertex()))
    assert (found.code, found.severity, found.confidence) == ("channel.mismatch", "low", "supporting")
    assert found.params == {
        "claimed": "anthropic",
        "channel": "vertex",
        "n": 6,
        "of": 6,
        "signals": ["vertex.message_id"],
    }
    assert not found.accusation


def test_two_independent_signals_against_the_claim_are_high():
    found = only(judged(bedrock(headers=BEDROCK)))
    assert (found.code, found.severity, found.confidence, found.outcome) == (
        "channel.mismatch",
        "high",
        "strong",
        "mismatch",
    )
    assert (found.observed["channel"], found.observed["kinds"]) == ("aws", ["headers", "message_id"])
    assert found.expected == {"channel": "anthropic"}


def test_the_reverse_claim_is_judged_alike():
    found = only(judged(vendor(), claim="aws"))
    assert (found.code, found.severity, found.params["channel"]) == ("channel.mismatch", "high", "anthropic")


def test_tool_ids_are_a_signal_of_their_own():
    content = [{"type": "tool_use", "id": f"toolu_bdrk_01{base58(99)}"}, {"type": "text", "id": 5}, "x"]
    said = [Said(body={"id": answer.id, "content": content, "usage": {}}) for answer in bedrock(3)]
    found = only(judged(said))
    assert found.params["signals"] == ["aws.message_id", "aws.tool_id"]
    assert found.severity == "high"


def test_the_vendors_platform_on_a_cloud_is_the_vendor():
    """An id of Bedrock under headers that the vendor's platform on AWS shares with it."""
    moment_id = [f"req_01{minted(at(10 * p + 0.3), p + 50)}" for p in range(4)]
    said = [Said(answer.id, request_id=rid, headers=PLATFORM) for answer, rid in zip(vendor(4), moment_id, strict=True)]
    assert only(judged(said)).code == "channel.matches"


def test_headers_alone_name_a_channel():
    found = only(judged([Said("", headers=BEDROCK)] * 3))
    assert (found.code, found.severity, found.params["signals"]) == ("channel.mismatch", "low", ["aws.bedrock"])


@pytest.mark.parametrize("status", [400, 529])
def test_an_error_shell_is_a_signal(status):
    shell = {"message": "ValidationException: The provided model identifier is invalid"}
    found = only(judged([Said(body=shell, status=status), *bedrock(2, first=1)]))
    assert found.params["signals"] == ["aws.message_id", "aws.model_identifier", "aws.validation"]
    assert found.severity == "high"


def test_an_error_text_inside_an_answer_is_no_shell():
    text = {"id": vendor_says(0).id, "content": [{"type": "text", "text": "ValidationException"}], "usage": {}}
    assert only(judged([Said(body=text), *[vendor_says(p) for p in (1, 2)]])).code == "channel.matches"


def test_a_request_id_in_the_body_of_a_refusal_counts():
    rid = f"req_01{minted(at(0.3), 8)}"
    refusal = {"type": "error", "error": {"type": "overloaded_error"}, "request_id": rid}
    found = only(judged([Said(body=refusal, status=529)]))
    assert (found.code, found.params["signals"]) == ("channel.matches", ["anthropic.request_id", "anthropic.shell"])


# Several channels


def test_two_channels_in_one_run_are_a_mixed_pool():
    found = only(judged([*bedrock(3), *[vendor_says(p) for p in range(3, 12)]]))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "channel.mixed",
        "mismatch",
        "medium",
        "strong",
    )
    assert (found.evidence_level, found.basis) == ("observed_pattern", "known_list")
    assert found.params["n"] == 12
    assert found.params["shares"] == {
        "anthropic": {"n": 9, "low": "42.8", "high": "94.5"},
        "aws": {"n": 3, "low": "5.5", "high": "57.2"},
    }
    assert found.observed == {"channels": 2}
    assert len(found.exchanges) == 12


def test_answers_that_only_say_it_less_exactly_are_not_another_channel():
    exact = [vendor_says(p, headers=(("apim-request-id", "a"),)) for p in range(3)]
    said = [*exact, *[vendor_says(p) for p in range(3, 6)]]
    for claim, code in (
        ("azure", "channel.matches"),
        ("unknown", "channel.matches"),
        ("anthropic", "channel.mismatch"),
    ):
        found = only(judged(said, claim=claim))
        assert (found.code, found.params["channel"], found.params["n"]) == (code, "azure", 6)


def test_a_weakly_shown_second_channel_is_no_accusation():
    lookalike = Said("", headers=(("server-timing", "gfet4t7; dur=5"), ("server", "scaffolding on HTTPServer2")))
    found = only(judged([lookalike, *[vendor_says(p) for p in range(1, 4)]]))
    assert (found.code, found.outcome, found.severity) == ("channel.mixed", "inconclusive", "info")
    assert (found.confidence, found.basis) == ("supporting", "known_list")


# Contradiction


def contradictory(place: int) -> Said:
    return Said(
        f"msg_bdrk_01{minted(at(10 * place + 0.3), place + 1)}", f"req_01{minted(at(10 * place + 0.3), place + 70)}"
    )


def test_signals_of_one_answer_that_contradict():
    found = only(judged([contradictory(0), contradictory(1), *[vendor_says(p) for p in (2, 3)]]))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "channel.signals_contradict",
        "mismatch",
        "medium",
        "strong",
    )
    assert found.params == {"n": 2, "of": 4, "pairs": ["message_id: aws", "request_id: anthropic/azure"]}
    assert (found.observed, found.basis) == ({"signals": found.params["pairs"]}, "known_list")
    assert found.exchanges == ("X0001", "X0002")


def test_one_contradiction_is_inconclusive():
    found = only(judged([contradictory(0), *[vendor_says(p) for p in (1, 2)]]))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "channel.signals_contradict",
        "inconclusive",
        "info",
        "weak",
    )


def test_a_contradiction_of_weaker_signals_is_inconclusive():
    forged = [
        Said(f"msg_bdrk_{'0aB' * 8}", f"req_01{minted(at(10 * p + 0.3), p + 70)}", headers=(RATELIMIT,))
        for p in range(4)
    ]
    found = only([f for f in judged(forged) if f.code != "channel.id_replayed"])
    assert (found.code, found.outcome) == ("channel.signals_contradict", "mismatch")
    without = [
        Said(f.id, headers=(("server-timing", "gfet4t7"), ("server", "scaffolding on HTTPServer2"))) for f in forged
    ]
    found = only([f for f in judged(without) if f.code != "channel.id_replayed"])
    assert (found.code, found.outcome) == ("channel.signals_contradict", "inconclusive")


def test_an_answer_that_contradicts_itself_is_not_called_reminted_too():
    forged = [
        Said(f"msg_01{base58(p + 5)}", f"req_01{minted(at(10 * p + 0.3), p + 70)}", headers=BEDROCK) for p in range(4)
    ]
    assert codes(judged(forged)) == ["channel.signals_contradict"]


# Ids that break the scheme


def random_ids(n: int) -> list[Said]:
    return [Said(f"msg_01{minted(at(10 * p), p + 1, version=4)}") for p in range(n)]


@pytest.mark.parametrize(
    ("n", "outcome", "severity"),
    [(1, "inconclusive", "info"), (2, "inconclusive", "info"), (3, "mismatch", "low"), (6, "mismatch", "low")],
)
def test_ids_outside_the_scheme(n, outcome, severity):
    said = [*random_ids(n), *[vendor_says(p) for p in range(n, 8)]]
    found = next(f for f in judged(said) if f.code == "channel.id_reminted")
    assert (found.outcome, found.severity, found.params) == (
        outcome,
        severity,
        {"n": n, "of": 8, "reason": "not_in_scheme"},
    )
    assert found.exchanges == tuple(f"X{p + 1:04}" for p in range(n))
    assert (found.evidence_level, found.basis) == ("observed_pattern", "known_list")
    assert not found.accusation


def test_ids_minted_long_ago():
    said = [Said(f"msg_01{minted(at(10 * p - 3 * 3600), p + 1)}") for p in range(4)]
    found = judged(said)
    assert codes(found) == ["channel.id_reminted", "channel.unknown"]
    assert found[0].params["reason"] == "outside_window"


def test_one_old_id_again_and_again_is_a_replay_and_not_reminted():
    said = [Said(f"msg_01{minted(at(-9000), 4)}")] * 4
    assert codes(judged(said)) == ["channel.id_replayed", "channel.unknown"]


def test_the_same_id_on_different_requests():
    said = [vendor_says(0), vendor_says(0), vendor_says(2)]
    found = next(f for f in judged(said) if f.code == "channel.id_replayed")
    assert (found.severity, found.outcome, found.params) == ("medium", "mismatch", {"n": 2, "of": 3})
    assert found.exchanges == ("X0001", "X0002")
    assert (found.observed, found.expected) == ({"distinct_ids": 2}, {"distinct_ids": 3})


# Nothing to go by


@pytest.mark.parametrize(
    ("id_", "shape"),
    [
        ("chatcmpl-" + "a" * 30, "converter.chat_other"),
        ("msg_" + "0af" * 8, "converter.hex24"),
        ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "converter.bare_uuid"),
        ("no known shape at all", "21 characters"),
    ],
)
def test_converter_ids_and_unknown_ones_name_nothing(id_, shape):
    found = only(judged([Said(f"{id_}")]))
    assert (found.code, found.outcome, found.severity) == ("channel.unknown", "inconclusive", "info")
    assert found.params == {"n": 1, "shapes": [shape]}
    assert id_ not in str(found.params) or shape != "21 characters"


def test_no_answer_no_finding():
    assert judged([]) == []
    run = channel_run([]).model_copy(update={"exchanges": (lost(1, "s0"),)})
    assert assess_channel(run, KNOWLEDGE) == []
    assert judged([Said(body="<html>", status=200)]) == []


def test_an_id_that_is_no_text_is_no_id():
    assert judged([Said(body={"id": 7, "usage": {}}), Said(body={"id": None})]) == []


def test_only_planned_answers_are_read():
    run = channel_run(vertex(3))
    other = run.exchanges[0].model_copy(update={"id": "X0009", "step": "discovery.models"})
    found = only(assess_channel(run.model_copy(update={"exchanges": (*run.exchanges, other)}), KNOWLEDGE))
    assert found.params["n"] == 3


# A future accuses nobody

YEARS = [
    dt.datetime(2028, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2028, 11, 30, tzinfo=dt.UTC),
    dt.datetime(2031, 1, 1, tzinfo=dt.UTC),
]


@pytest.mark.parametrize("start", YEARS, ids=str)
def test_the_vendor_against_itself_in_years_to_come(start):
    today = [vendor_says(p, start=start, headers=(RATELIMIT,)) for p in range(6)]
    reworded = [
        Said(f"msg_01{minted(at(10 * p, start), p + 1, version=8)}", f"req_01{base58(p + 3)}") for p in range(6)
    ]
    unheard = [Said(f"msg_02{'Zz9' * 9}{p}", f"req_02{p}", headers=(("anthropic-budget", "1"),)) for p in range(6)]
    mixed = [*today[:3], *reworded[3:]]
    for said in (today, reworded, unheard, mixed):
        found = judged(said, start=start)
        assert found
        assert [f.code for f in found if f.above_info] == []


@pytest.mark.parametrize(
    ("start", "said_as", "severity", "confidence"),
    [
        (dt.datetime(2027, 8, 1, tzinfo=dt.UTC), "channel.mismatch", "high", "strong"),
        (dt.datetime(2028, 1, 1, tzinfo=dt.UTC), "channel.mismatch", "medium", "supporting"),
        (dt.datetime(2031, 1, 1, tzinfo=dt.UTC), "channel.unknown", "info", "weak"),
    ],
)
def test_old_knowledge_weakens_and_then_is_silent(start, said_as, severity, confidence):
    said = [Said(f"msg_bdrk_01{base58(p + 900)}", headers=BEDROCK) for p in range(4)]
    found = only(judged(said, start=start))
    assert (found.code, found.severity, found.confidence) == (said_as, severity, confidence)


def test_a_contradiction_by_stale_knowledge_is_inconclusive():
    start = dt.datetime(2028, 1, 1, tzinfo=dt.UTC)
    said = [Said(f"msg_bdrk_01{base58(p + 900)}", f"req_01{minted(at(10 * p + 0.3, start), p + 70)}") for p in range(4)]
    found = only(judged(said, start=start))
    assert (found.code, found.outcome, found.severity) == ("channel.signals_contradict", "inconclusive", "info")


def test_stale_knowledge_of_a_scheme_calls_nothing_reminted():
    for start, outcome in (
        (dt.datetime(2027, 9, 1, tzinfo=dt.UTC), "mismatch"),
        (dt.datetime(2028, 1, 1, tzinfo=dt.UTC), "inconclusive"),
    ):
        said = [Said(f"msg_01{minted(at(10 * p, start), p + 1, version=4)}") for p in range(5)]
        found = next(f for f in judged(said, start=start) if f.code == "channel.id_reminted")
        assert found.outcome == outcome
        assert found.above_info is (outcome == "mismatch")


# A second relay, a pool


def test_marks_of_two_families_are_a_chain():
    both = (("x-new-api-version", "v0.9"), ("x-litellm-call-id", "c"))
    found = list(judged([vendor_says(0, headers=both), *[vendor_says(p) for p in (1, 2)]]))
    chained = found[-1]
    assert (chained.code, chained.severity, chained.params) == (
        "channel.chained_relay",
        "info",
        {"via": ["litellm", "one-api"]},
    )
    assert chained.exchanges == ("X0001",)


def test_two_names_of_one_family_are_one_relay():
    same = (("x-new-api-version", "v0.9"), ("x-oneapi-request-id", "r"))
    assert codes(judged([vendor_says(p, headers=same) for p in range(3)])) == ["channel.matches"]


@pytest.mark.parametrize(("times", "status", "chained"), [(2, 500, True), (1, 500, False), (2, 200, False)])
def test_an_error_that_quotes_two_request_ids_is_a_chain(times, status, chained):
    body = "bad gateway " + " ".join(f"(request id: {place})" for place in range(times))
    found = judged([Said(body=body, status=status), vendor_says(1)])
    assert ("channel.chained_relay" in codes(found)) is chained


def row(**changes) -> LogRow:
    fields = {
        "exchange": "X0001",
        "created_at": START,
        "kind": "consume",
        "model": "m",
        "quota": 1,
        "prompt_tokens": 1,
        "completion_tokens": 1,
        **changes,
    }
    return LogRow(**fields)


def test_an_upstream_request_id_in_the_log_is_a_chain():
    run = channel_run(vendor(3))
    reading = LogReading(
        at=START, exchange="X0009", state="read", rows=(row(upstream_request_id="up"), row(exchange="X0002"))
    )
    found = assess_channel(run.model_copy(update={"log": (reading,)}), KNOWLEDGE)[-1]
    assert (found.code, found.params, found.exchanges) == ("channel.chained_relay", {"via": ["relay_log"]}, ("X0001",))


def pool(n: int, claim: str, start: dt.datetime = START, model: str = "claude-sonnet-5-5") -> Evidence:
    none = {"inference_geo": "not_available"}
    said = [vendor_says(p, start=start, usage=none if p < n else {"inference_geo": "global"}) for p in range(6)]
    return channel_run(said, claim=claim, start=start, model=model)


@pytest.mark.parametrize(
    ("n", "claim", "severity"),
    [
        (6, "anthropic", "low"),
        (3, "anthropic", "low"),
        (6, "unknown", "info"),
        (2, "anthropic", None),
        (0, "anthropic", None),
    ],
)
def test_a_region_that_api_keys_have_and_this_traffic_has_not(n, claim, severity):
    found = [f for f in assess_channel(pool(n, claim), KNOWLEDGE) if f.code == "channel.subscription_pool_hint"]
    assert [f.severity for f in found] == ([severity] if severity else [])
    if found:
        assert (found[0].outcome, found[0].params, found[0].accusation) == (
            "inconclusive",
            {"n": n, "of": 6, "signs": ["inference_geo"]},
            False,
        )


@pytest.mark.parametrize(
    ("model", "start"),
    [
        ("claude-sonnet-4-5", START),
        ("no-such-model", START),
        ("claude-sonnet-5-5", dt.datetime(2031, 1, 1, tzinfo=dt.UTC)),
    ],
)
def test_no_hint_where_the_region_says_nothing(model, start):
    found = assess_channel(pool(6, "anthropic", start, model), KNOWLEDGE)
    assert "channel.subscription_pool_hint" not in codes(found)


def test_headers_that_the_vendors_platform_shares_with_a_cloud_excuse_the_claim():
    said = [Said(answer.id, "req_01short", headers=PLATFORM) for answer in bedrock(3)]
    assert only(judged(said)).code == "channel.matches"
    assert only(judged([Said(answer.id, "req_02short", headers=PLATFORM) for answer in bedrock(3)])).code == (
        "channel.mismatch"
    )
    assert only(judged(said, claim="vertex")).params["channel"] == "aws"


@pytest.mark.parametrize(("n", "code"), [(2, "channel.matches"), (3, "channel.mixed")])
def test_a_few_refusals_from_elsewhere_are_no_second_channel(n, code):
    """Relays retry elsewhere what one channel refuses, and word their own refusals like a vendor: several must say so."""
    shell = {"message": "ValidationException: The provided model identifier is invalid"}
    other = [Said(body=shell, status=400, headers=BEDROCK) for _ in range(n)]
    assert only(judged([*[vendor_says(p) for p in range(5)], *other])).code == code


def in_openais_words(field: str) -> Said:
    text = f"Unsupported parameter: '{field}' is not supported with this model. (request id: 20261130)"
    return Said(body={"type": "error", "error": {"type": "<nil>", "message": text}}, status=400)


@pytest.mark.parametrize(
    ("claim", "said", "weight"),
    [
        ("anthropic", [in_openais_words("top_k")], ("channel.mismatch", "inconclusive", "info", "openai")),
        (
            "anthropic",
            [in_openais_words(f) for f in ("top_k", "top_p")],
            ("channel.mismatch", "mismatch", "low", "openai"),
        ),
        ("openai", [in_openais_words("top_k")], ("channel.matches", "match", "info", "openai")),
        ("azure", [in_openais_words("top_k")], ("channel.matches", "match", "info", "azure")),
        (
            "anthropic",
            [vendor_says(0), vendor_says(1), *(in_openais_words(f) for f in ("top_k", "top_p"))],
            ("channel.matches", "match", "info", "anthropic"),
        ),  # what one line refuses is asked of another: that says nothing of the answers
        (
            "anthropic",
            [vendor_says(0), *(in_openais_words(f) for f in ("top_k", "top_p", "stop"))],
            ("channel.mixed", "inconclusive", "info", None),
        ),
        ("azure", [vendor_says(0), in_openais_words("top_k")], ("channel.matches", "match", "info", "azure")),
    ],
)
def test_refusals_in_another_makers_words_are_a_soft_sign(claim, said, weight):
    found = only(judged(said, claim=claim))
    assert (found.code, found.outcome, found.severity, found.params.get("channel")) == weight
