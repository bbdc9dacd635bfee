"""Check 4 as a table: what each answer to each case means, live and by the record, for known and unknown software."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from relay_audit.assess import assess
from relay_audit.assess.coverage import cover
from relay_audit.assess.parameter_parity import assess_parameter_parity
from relay_audit.assess.sampler import CASE as SAMPLED
from relay_audit.books import SiteFacts
from relay_audit.catalog import load_packs
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, Response
from relay_audit.finding import Finding
from relay_audit.plan import Step
from relay_audit.verdict import decide, number
from tests.assess.evidence_builders import (
    BOUND,
    KNOWLEDGE,
    MODEL,
    START,
    answered,
    at,
    minted,
    plan_of,
    run_of,
    step_named,
)

LIST = [f"word{place}" for place in range(48)]
TASK = "Copy these words in this order, one per line, and write nothing else:\n" + "\n".join(LIST)
RANGE = "temperature: range: 0..1"
MAXIMUM = "which is the maximum allowed number of output tokens for"
REWRITTEN = "params.error_rewritten"
E015 = {"error": {"code": "E015", "message": "Internal server error"}, "status": 500}
STOPPED = {"stop_reason": "stop_sequence", "content": [{"type": "text", "text": "word0\nword1"}]}
BODIES: dict[str, dict[str, Any]] = {
    "temperature_range": {"temperature": 9},
    "top_p_range": {"top_p": 1.5},
    "two_faults": {"top_p": 1.5, "temperature": 2},
    "inference_geo_bogus": {"inference_geo": "mars"},
    "unknown_field": {"seed": 7},
    "unknown_model": {"model": "no-such-model-4f1c"},
    "inference_geo_us": {"inference_geo": "us"},
    "stop_word": {
        "stop_sequences": ["STOP"],
        "messages": [{"role": "user", "content": "Copy:\nword0\nword1\nSTOP\nword2"}],
    },
    "output_bound": {"max_tokens": 32, "messages": [{"role": "user", "content": TASK}]},
    "max_tokens_above_limit": {"max_tokens": 128_001},
}
LEGAL = ("inference_geo_us", "stop_word", "output_bound", "service_tier_standard_only")


def _cases() -> dict[str, list[Any]]:
    by_dialect: dict[str, list[Any]] = {}
    for probe in load_packs().probes:
        for dialect in probe.applies.dialects:
            by_dialect.setdefault(dialect, []).extend(case for request in probe.requests for case in request.cases)
    return by_dialect


CASES = _cases()


def refusal(text: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_01"}


def message(place: int = 1, model: str = MODEL, prefix: str = "msg_01", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 20, "output_tokens": 4, "inference_geo": "global", **more.pop("usage", {})}
    plain = {"id": f"{prefix}{minted(START, place)}", "type": "message", "model": model, "stop_reason": "end_turn",
             "content": [{"type": "text", "text": "OK"}], "usage": usage}  # fmt: skip
    return plain | more


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


OFFICIAL: dict[str, tuple[int, Any]] = {
    "temperature_range": (400, refusal(RANGE)),
    "top_p_range": (400, refusal("top_p: range: 0..1")),
    "two_faults": (400, refusal(RANGE)),
    "inference_geo_bogus": (400, refusal("inference_geo: must be one of ['global', 'us']")),
    "service_tier_bogus": (400, refusal("service_tier: Input should be 'auto' or 'standard_only'")),
    "temperature_type": (400, refusal("temperature: Input should be a valid number")),
    "unknown_field": (400, refusal("seed: Extra inputs are not permitted")),
    "version_header_missing": (400, refusal("anthropic-version: header is required")),
    "max_tokens_above_limit": (400, refusal(f"max_tokens: 128001 > 128000, {MAXIMUM} {MODEL}")),
    "unknown_model": (404, refusal("model: no-such-model-4f1c", "not_found_error")),
    "made_up_key": (401, refusal("invalid x-api-key", "authentication_error")),
    "inference_geo_us": (200, message(usage={"inference_geo": "us"})),
    "service_tier_standard_only": (200, message()),
    "stop_word": (200, message(**STOPPED)),
    "output_bound": (200, message(stop_reason="max_tokens", usage={"output_tokens": 32})),
}  # fmt: skip


def case_step(case: str, tier: str = "users") -> Step:
    body = {"model": MODEL, "max_tokens": 16, "messages": [{"role": "user", "content": case}], **BODIES.get(case, {})}
    return Step(
        id=f"p.{case}", probe="anthropic/parameters", request="refused", side="relay", stage="batch", cost="may_charge",
        path="/v1/messages", body=body, bound=BOUND, case=case, refusal=case not in LEGAL, tier=tier,
        key="made_up" if case == "made_up_key" else "own", output_limit=body["max_tokens"],
    )  # fmt: skip


def mirrors(step: Step) -> list[Step]:
    whens = ("before", "after") if step.refusal else ("with",)
    side = {"side": "official", "mirrors": step.id}
    return [step.model_copy(update={**side, "id": f"mirror.{when}.{step.id}", "when": when}) for when in whens]


Relay = dict[str, tuple[int, Any]]


def run(
    relay: Relay, *, live: bool = True, official: Relay | None = None, software: str = "unknown",
    tiers: dict[str, str] | None = None, plain: list[dict[str, Any]] | None = None, lag_s: int = 5,
    start: dt.datetime = START, headers: Any = (), after: Relay | None = None,
) -> Evidence:  # fmt: skip
    """Three plain answers, then the cases with the vendor's answers around each."""
    steps, exchanges = [step_named(f"s{place}") for place in range(3)], list[Exchange]()

    def add(name: str, status: int, body: Any, moment: dt.datetime, side: str = "relay", own: Any = ()) -> None:
        exchanges.append(answered(len(exchanges) + 1, name, body, moment=moment, status=status, side=side, headers=own))

    for place in range(3):
        add(f"s{place}", 200, plain[place % len(plain)] if plain else message(place + 1), at(place, start))
    for place, (case, (status, body)) in enumerate(relay.items()):
        step = case_step(case, (tiers or {}).get(case, "users"))
        steps.append(step)
        told = {**OFFICIAL, **(official or {})}[case]
        sent = at(60 + 10 * place, start)
        for mirror in mirrors(step) if live else ():
            steps.append(mirror)
            said = (after or {}).get(case, told) if mirror.when == "after" else told
            add(mirror.id, *said, at(lag_s if mirror.when == "after" else -lag_s, sent), side="official")
        add(step.id, status, body, sent, own=headers)
    plan = plan_of(steps, counter=live, checks=(1, 4))
    return run_of(exchanges, steps, plan=plan, start=start, site=SiteFacts(software=software))


def found(relay: Relay, **how: Any) -> list[Finding]:
    return assess_parameter_parity(run(relay, **how), KNOWLEDGE)


def above_info(relay: Relay, **how: Any) -> dict[str, str]:
    return {f.code: f.severity for f in found(relay, **how) if f.above_info}


@pytest.mark.parametrize(
    ("statuses", "codes", "seldom"),
    [
        ((429, 400, 200), {"params.illegal_accepted"}, "200 · 1/2"),
        ((400, 200, 429), {"params.illegal_accepted"}, "200 · 1/2"),
        ((429, 200), {"params.illegal_accepted"}, "200"),
        ((429, 400, 400), {"params.matches"}, ""),
        ((429, 503), set(), ""),
    ],
)
def test_a_sending_that_was_turned_away_speaks_neither_for_nor_against(
    statuses: tuple[int, ...], codes: set[str], seldom: str
) -> None:
    """One case several times: what met a rate limit is not counted, also where it was the first."""
    case, said = "temperature_range", OFFICIAL["temperature_range"]
    answers = {200: message(), 400: said[1]}
    busy = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    seen = run({case: (statuses[0], answers.get(statuses[0], busy))})
    steps, exchanges = list(seen.plan.steps) if seen.plan else [], list(seen.exchanges)
    for turn, status in enumerate(statuses[1:], 2):
        step = case_step(case).model_copy(update={"id": f"p.{case}.{turn}", "again": True})
        body = answers.get(status, busy)
        exchanges.append(answered(len(exchanges) + 1, step.id, body, moment=at(60 + turn), status=status))
        steps.append(step)
    made = assess_parameter_parity(
        run_of(exchanges, steps, plan=plan_of(steps, counter=True, checks=(1, 4)), site=SiteFacts(software="unknown")),
        KNOWLEDGE,
    )
    assert {f.code for f in made} == codes
    assert [f.observed[f"case={case}"] for f in made if f.accusation] == [seldom] * bool(seldom)


STOPLESS = (200, message(content=text("word0\nword1\nSTOP\nword2")))


def test_fields_lost_in_two_ways_support_each_other_by_the_record_alone() -> None:
    """A proxy that asks another format: what it takes out is answered where it is wrong, and without effect where it is right."""
    both = {"temperature_range": (200, message()), "stop_word": STOPLESS}
    assert above_info(both, live=False) == {"params.illegal_accepted": "medium", "params.not_honoured": "medium"}
    # a limit that was changed is no field that was lost, and what an honest hop of some software does supports nothing
    changed = {"max_tokens_above_limit": (200, message()), "stop_word": STOPLESS}
    assert above_info(changed, live=False) == {"params.clamped": "low", "params.not_honoured": "low"}
    usual = {"unknown_field": (200, message()), "stop_word": STOPLESS}
    assert above_info(usual, live=False) == {"params.illegal_accepted": "low", "params.not_honoured": "low"}


def test_a_relay_that_passes_everything_on_matches() -> None:
    found_ = found(OFFICIAL)
    assert [f.code for f in found_] == ["params.matches"]
    assert (found_[0].params["n"], found_[0].params["of"]) == (len(OFFICIAL), len(OFFICIAL))
    assert (found_[0].basis, found_[0].confidence, found_[0].evidence_level) == ("live_official", "strong", "measured")
    assert (found_[0].expected, found_[0].observed) == ({}, {})


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    ("case", "answer", "code"),
    [
        ("temperature_range", (200, message()), "params.illegal_accepted"),
        ("max_tokens_above_limit", (200, message()), "params.clamped"),
        ("inference_geo_us", (200, message(usage={"inference_geo": "eu"})), "params.clamped"),
        ("stop_word", (200, message(content=text("word0\nword1\nSTOP\nword2"))), "params.not_honoured"),
        ("output_bound", (200, message(content=text("\n".join(LIST)))), "params.not_honoured"),
        ("output_bound", (200, message(stop_reason="max_tokens", usage={"output_tokens": 12})), "params.clamped"),
    ],
)  # fmt: skip
def test_one_difference_is_medium_against_the_live_vendor_and_low_by_the_record(
    case: str, answer: tuple[int, Any], code: str, live: bool
) -> None:
    hit = next(f for f in found({case: answer}, live=live) if f.code == code)
    assert hit.severity == ("medium" if live else "low")
    assert hit.confidence == ("strong" if live else "supporting")
    assert hit.basis == ("live_official" if live else "dated_baseline")
    assert hit.params["cases"] == [case]
    assert "fields" in hit.params
    assert hit.accusation is live
    assert not [f for f in found({case: answer}, live=live) if f.code == "params.matches"]


def test_two_independent_records_carry_what_one_does_not() -> None:
    swallowed = {"temperature_range": (200, message()), "temperature_type": (200, message(2))}
    assert above_info(swallowed, live=False) == {"params.illegal_accepted": "medium"}
    hit = next(f for f in found(swallowed, live=False) if f.above_info)
    assert (hit.confidence, hit.basis) == ("strong", "dated_baseline")


def test_a_finding_is_of_the_lowest_level_that_it_rests_on() -> None:
    rows = {row.case: row for row in KNOWLEDGE.refusals if row.dialect == "anthropic"}
    cases = ("temperature_range", "temperature_type")
    evidence = run({case: (200, message(n)) for n, case in enumerate(cases, 1)}, live=False)
    for levels in (("measured", "inference"), ("inference", "official_doc"), ("observed_pattern", "official_doc")):
        own = tuple(rows[case].model_copy(update={"level": level}) for case, level in zip(cases, levels, strict=True))
        hit = assess_parameter_parity(evidence, KNOWLEDGE.model_copy(update={"refusals": own}))[0]
        assert hit.evidence_level == levels[1 if levels[0] == "measured" else 0]


def test_of_an_address_that_is_not_the_vendors_the_status_is_shown_and_no_words() -> None:
    evidence = run({"temperature_range": (400, refusal("temperature out of range"))})
    target = evidence.target.model_copy(update={"official_is_vendor": False})
    hit = assess_parameter_parity(evidence.model_copy(update={"target": target}), KNOWLEDGE)[0]
    assert (hit.basis, hit.expected) == ("declared_official", {"case=temperature_range": "400"})
    record = found({"temperature_range": (400, refusal("temperature out of range"))}, live=False)[0]
    assert record.expected["case=temperature_range"].startswith("400 · temperature")
    legal = found({"inference_geo_us": (200, message())})[0]
    assert legal.expected == {"case=inference_geo_us": "200 · /usage/inference_geo: us"}
    assert legal.observed == {"case=inference_geo_us": "200"}


@pytest.mark.parametrize(
    ("start", "severity"),
    [(dt.datetime(2027, 6, 1, tzinfo=dt.UTC), "info"), (dt.datetime(2028, 6, 1, tzinfo=dt.UTC), None)],
)
def test_an_old_record_accuses_nobody(start: dt.datetime, severity: str | None) -> None:
    swallowed = {"temperature_range": (200, message()), "temperature_type": (200, message(2))}
    got = found(swallowed, live=False, start=start)
    assert [(f.code, f.outcome, f.severity, f.confidence) for f in got] == (
        [("params.illegal_accepted", "inconclusive", severity, "weak")] if severity else []
    )


def test_the_live_vendor_outweighs_the_record() -> None:
    now_taken = {"unknown_field": (200, message())}
    assert above_info(now_taken, official=now_taken) == {}
    assert [f.code for f in found(now_taken, official=now_taken)] == ["params.matches"]
    changed = {"temperature_range": (400, refusal("sampling: not in the range from 0 to 1"))}
    assert [f.code for f in found(changed, official=changed)] == ["params.matches"]


@pytest.mark.parametrize(
    "how",
    [{"after": {"temperature_range": (200, message())}}, {"official": {"inference_geo_us": (200, message())}}],
)
def test_a_control_that_varies_or_does_not_show_it_is_no_control(how: dict[str, Any]) -> None:
    case = "temperature_range" if "after" in how else "inference_geo_us"
    assert found({case: (200, message())}, **how) == []


@pytest.mark.parametrize(
    "how", [{"official": {"temperature_range": (529, refusal("Overloaded", "overloaded_error"))}}, {"lag_s": 1800}]
)
def test_a_control_that_fails_or_is_too_far_leaves_the_record(how: dict[str, Any]) -> None:
    hit = next(f for f in found({"temperature_range": (200, message())}, **how) if f.code == "params.illegal_accepted")
    assert (hit.severity, hit.basis) == ("low", "dated_baseline")


@pytest.mark.parametrize(
    ("software", "expected"), [("unknown", "low"), ("hubrelay", "medium"), ("new-api", None), ("litellm", None)]
)
def test_what_an_honest_hop_does_is_subtracted(software: str, expected: str | None) -> None:
    got = above_info({"inference_geo_bogus": (200, message())}, software=software)
    assert got == ({"params.illegal_accepted": expected} if expected else {})
    if expected is None:
        default = next(
            f
            for f in found({"inference_geo_bogus": (200, message())}, software=software)
            if f.code == "params.relay_default"
        )
        assert (default.params["fields"], default.params["software"]) == (["inference_geo"], [software])
        assert (default.outcome, default.impact, default.basis) == ("match", "users", "known_list")


@pytest.mark.parametrize(("software", "severity"), [("litellm", "low"), ("new-api", "medium"), ("unknown", "medium")])
def test_what_software_does_where_its_operator_says_so_is_a_low_fact_about_it(software: str, severity: str) -> None:
    """LiteLLM's `modify_params` lowers a limit; no other known program does, and no default is subtracted for it."""
    got = above_info({"max_tokens_above_limit": (200, message())}, software=software)
    assert got == {"params.clamped": severity}


def test_the_second_hop_s_defaults_count_too() -> None:
    headers = (("x-litellm-call-id", "abc"),)
    assert above_info({"unknown_field": (200, message())}, software="portkey", headers=headers) == {}
    assert above_info({"temperature_range": (200, message())}, headers=headers) == {"params.illegal_accepted": "medium"}


@pytest.mark.parametrize(
    ("value", "plain", "software", "code"),
    [
        ("global", ["global"], "unknown", "params.legal_dropped"),
        ("global", ["global"], "new-api", "params.relay_default"),
        ("global", ["global"], "hubrelay", "params.legal_dropped"),
        ("not_available", ["not_available"], "unknown", "params.legal_dropped"),
        ("not_available", ["not_available"], "hubrelay", "params.legal_dropped"),
        (None, ["global"], "unknown", "params.legal_dropped"),
        (None, [None], "unknown", None),
        (None, ["global", None], "unknown", None),
        ("us", ["global"], "unknown", "params.matches"),
    ],
)
def test_a_region_is_read_back_against_ordinary_answers(
    value: Any, plain: list[Any], software: str, code: str | None
) -> None:
    usual = [message(place + 1, usage={"inference_geo": word}) for place, word in enumerate(plain)]
    got = found({"inference_geo_us": (200, message(9, usage={"inference_geo": value}))}, plain=usual, software=software)
    assert [f.code for f in got] == ([code] if code else [])
    if code == "params.legal_dropped":
        told = value != "not_available"  # an account that tells no region may be the cause, whatever the software
        assert got[0].severity == ("medium" if software == "hubrelay" and told else "low"), "honest hops do it"
        assert got[0].impact == "users"


def test_effects_that_cannot_be_seen_say_nothing() -> None:
    silent = {
        "stop_word": (200, message(content=[{"type": "text", "text": "Sure!"}])),
        "output_bound": (200, message(content=[], stop_reason="end_turn")),
    }
    assert found(silent) == []


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, refusal(f"{RANGE} (request id: 2026)", "<nil>"), "params.matches"),
        (400, refusal("a sampling value is too high"), REWRITTEN),
        (502, refusal(f'全部 1 个渠道都失败：HTTP 400: {{"error": {{"message": "{RANGE}"}}}}'), REWRITTEN),
        (400, E015, "params.error_unusable"),
        (500, refusal("Upstream request failed", "upstream_error"), "params.error_unusable"),
        (503, refusal("Service Unavailable"), None),
        (502, refusal('HTTP 529: {"error": {"message": "Overloaded"}}', "api_error"), None),
        (403, refusal("预扣费额度失败"), None),
        (429, "", None),
    ],
)  # fmt: skip
def test_a_refusal_is_read_by_status_type_and_field(status: int, body: Any, code: str | None) -> None:
    three = dict.fromkeys(("temperature_range", "two_faults", "top_p_range"), (status, body))
    three["top_p_range"] = (status, body if code in (None, "params.error_unusable") else OFFICIAL["top_p_range"][1])
    got = [f for f in found(three) if f.code != "params.matches" or code == "params.matches"]
    assert [f.code for f in got] == ([code] if code else [])
    assert not any(f.accusation for f in got)


def test_one_refusal_with_its_meaning_shows_that_errors_are_usable() -> None:
    lost = dict.fromkeys(("top_p_range", "two_faults", "service_tier_bogus"), (400, E015))
    assert above_info(lost) == {"params.error_unusable": "low"}
    assert above_info({**lost, "temperature_range": OFFICIAL["temperature_range"]}) == {}
    assert above_info(dict(list(lost.items())[:2])) == {}, "two are not enough"
    assert above_info({**lost, "temperature_range": (422, refusal(RANGE))}) == {}, "by another status it is still said"
    legal = {"inference_geo_us": OFFICIAL["inference_geo_us"]}
    assert above_info({**lost, **legal}) == {"params.error_unusable": "low"}, (
        "an answer is no refusal that kept its meaning"
    )


def test_another_fault_first_is_another_order() -> None:
    got = found({"two_faults": (400, refusal("top_p: range: 0..1"))})
    assert {f.code for f in got} == {"params.error_rewritten", "params.matches"}


def test_what_only_the_relay_can_answer_is_its_own() -> None:
    own = {
        "made_up_key": (401, {"error": {"message": "无效的令牌"}}),
        "unknown_model": (503, {"error": {"message": "无可用渠道"}}),
    }
    assert [f.code for f in found(own)] == ["params.matches"]


@pytest.mark.parametrize("live", [True, False])
def test_a_relay_that_looks_at_no_key_gives_nobody_another_thing(live: bool) -> None:
    """A reverse proxy that puts its own key in: whom it lets in speaks neither for nor against what else it takes."""
    opened = {"made_up_key": (200, message())}
    assert above_info(opened, live=live) == {"params.key_unchecked": "low"}
    one_field = {**opened, "temperature_range": (200, message(2))}
    assert above_info(one_field, live=live) == {
        "params.key_unchecked": "low",
        "params.illegal_accepted": "medium" if live else "low",
    }


@pytest.mark.parametrize(
    ("answer", "headers", "sign", "severity"),
    [
        (message(9, model="gpt-4o-mini"), (), "model", "medium"),
        (message(9), (("x-litellm-attempted-fallbacks", "1"),), "fallback_header", "medium"),
        (message(9, prefix="msg_bdrk_01"), (), "channel", "low"),
    ],
)
def test_a_fallback_is_named_for_what_it_is(answer: Any, headers: Any, sign: str, severity: str) -> None:
    got = found({"temperature_range": (200, answer)}, headers=headers)
    hit = next(f for f in got if f.code == "params.rerouted_on_error")
    assert (hit.params["signs"], hit.severity) == ([sign], severity)
    assert "params.illegal_accepted" not in {f.code for f in got}


def test_a_pool_of_two_channels_is_no_fallback() -> None:
    pool = [message(1), message(2, prefix="msg_bdrk_01")]
    got = found({"temperature_range": (200, message(9, prefix="msg_bdrk_01"))}, plain=pool)
    assert {f.code for f in got} == {"params.illegal_accepted"}


def test_tiers_are_kept_apart_and_what_touches_nobody_weighs_nothing() -> None:
    swallowed = {
        case: (200, message(place))
        for place, case in enumerate(("temperature_range", "temperature_type", "two_faults"), 1)
    }
    tiers = {"temperature_type": "integration", "two_faults": "none"}
    got = [f for f in found(swallowed, tiers=tiers) if f.code == "params.illegal_accepted"]
    assert {(f.impact, f.severity) for f in got} == {("users", "medium"), ("integration", "medium"), ("none", "info")}
    assert above_info({"two_faults": (200, message())}, tiers={"two_faults": "none"}) == {}


@pytest.mark.parametrize(("case", "severity"), [("sampling_half", "info"), ("temperature_range", "medium")])
def test_rules_of_another_model_are_not_held_against_parameters_too(case: str, severity: str) -> None:
    official = {"sampling_half": (400, refusal("`temperature` is deprecated for this model."))}
    evidence = run({case: (200, message())}, official=official, headers=(("x-litellm-model-name", "gpt-4o"),))
    plain = [
        e.model_copy(update={"response": exchange_naming("gpt-4o")}) if e.step.startswith("s") else e
        for e in evidence.exchanges
    ]
    findings, _ = assess(evidence.model_copy(update={"exchanges": tuple(plain)}), KNOWLEDGE)
    assert "model.relay_header_admits" in {f.code for f in findings}
    assert [f.severity for f in findings if f.code == "params.illegal_accepted"] == [severity]


def exchange_naming(model: str) -> Response:
    return Response(status=200, headers=(("x-litellm-model-name", model),), body=json.dumps(message()))


def test_a_legal_value_that_is_refused_can_be_heard() -> None:
    assert above_info({"service_tier_standard_only": (400, refusal("service_tier: not supported"))}) == {
        "params.not_honoured": "low"
    }
    assert above_info({"service_tier_standard_only": (503, "busy")}) == {}


def test_both_sides_stand_side_by_side_and_a_stranger_s_words_are_marked() -> None:
    hit = next(
        f
        for f in found({"temperature_range": (400, refusal("temperature out of range"))})
        if f.code == "params.error_rewritten"
    )
    assert hit.expected == {"case=temperature_range": f"400 · {RANGE}"}
    assert hit.observed == {"untrusted_case=temperature_range": "400 · temperature out of range"}
    assert hit.exchanges == ("X0006", "X0004", "X0005")


@pytest.mark.parametrize("body", ["<html>", "", "[1]"])
def test_a_page_with_status_200_is_no_acceptance(body: str) -> None:
    assert found({"temperature_range": (200, body)}) == []


@pytest.mark.parametrize(
    "body",
    [
        refusal(RANGE),
        {"code": 40001, "msg": "参数错误: " + json.dumps(refusal(RANGE), ensure_ascii=False), "data": None},
    ],
)
def test_a_refusal_under_status_200_is_no_acceptance(body: Any) -> None:
    """Some relays answer 200 whatever the vendor said: nothing was generated and nothing is billed."""
    assert above_info({"temperature_range": (200, body)}) == {}
    assert next(f.code for f in found({"temperature_range": (200, body)})) == REWRITTEN


def test_a_limit_in_a_refusal_under_status_200_was_not_clamped() -> None:
    body = {"code": 1, "msg": json.dumps(refusal(f"max_tokens: 128001 > 128000, {MAXIMUM} {MODEL}"))}
    assert above_info({"max_tokens_above_limit": (200, body)}) == {}


def test_coverage_says_when_no_more_was_refused() -> None:
    evidence = run({"temperature_range": (200, message())}).model_copy(update={"refusals_ended": "books_unreadable"})
    rows = {row.check: row for row in cover(evidence, number(tuple(assess_parameter_parity(evidence, KNOWLEDGE))))}
    assert (rows[4].state, rows[4].reason) == ("run", "books_unreadable")
    rows = {row.check: row for row in cover(evidence, ())}
    assert (rows[4].state, rows[4].reason) == ("no_information", "no_official_basis")


@pytest.mark.parametrize(
    ("needs", "word"),
    [({"inference_geo": "us"}, "fix_first"), ({"store": False}, "inconclusive"), ({}, "inconclusive")],
)
def test_a_need_turns_a_default_into_fix_first(needs: dict[str, Any], word: str) -> None:
    evidence = run({"inference_geo_us": (200, message())}, software="new-api")
    evidence = evidence.model_copy(update={"target": evidence.target.model_copy(update={"needs": needs})})
    findings = number(tuple(assess_parameter_parity(evidence, KNOWLEDGE)))
    verdict = decide(evidence, findings, cover(evidence, findings), KNOWLEDGE.rules)
    assert verdict.verdict == word
    assert (verdict.headline_code == "need_not_met") is (word == "fix_first")
    assert verdict.next_code != "send_report" or needs


@pytest.mark.parametrize("row", KNOWLEDGE.refusals, ids=lambda row: row.id)
def test_every_record_is_about_a_case_that_is_sent(row: Any) -> None:
    from_probes = {case.id: case for case in CASES[row.dialect]}
    assert row.case in from_probes or row.case == "max_tokens_above_limit" or row.case == SAMPLED
    assert (row.status == 200) or (row.message and row.error_type and row.names)
    case = from_probes.get(row.case)
    assert case is None or bool(case.trait) or case.legal is (row.status == 200)


@pytest.mark.parametrize("row", KNOWLEDGE.relay_defaults, ids=lambda row: row.id)
def test_every_default_is_about_a_case_and_a_program_that_are_known(row: Any) -> None:
    assert set(row.software) <= {software.name for software in KNOWLEDGE.software}
    known = {SAMPLED, *(case.id for dialect in row.dialects for case in CASES[dialect])}
    assert set(row.cases) & known
    assert (row.outcome == "status") is bool(row.statuses)


AS_200 = {
    case: (200, OFFICIAL[case][1]) for case in ("temperature_range", "top_p_range", "unknown_field", "temperature_type")
}


def test_refusals_under_status_200_are_no_acceptance() -> None:
    """A client that looks at the status takes them for answers; nobody took the values."""
    assert above_info(AS_200) == {"params.error_unusable": "low"}
    assert above_info({**OFFICIAL, **AS_200}) == {"params.error_unusable": "low"}, "though others keep their status"
    two = dict(list(AS_200.items())[:2])
    assert above_info({**OFFICIAL, **two}) == {}


def test_three_such_refusals_are_enough_where_they_say_nothing_at_all() -> None:
    three = dict.fromkeys(("top_p_range", "two_faults", "service_tier_bogus"), (200, E015))
    got = found({**three, "temperature_range": OFFICIAL["temperature_range"]})
    hit = next(f for f in got if f.code == "params.error_unusable")
    assert (hit.severity, hit.params["n"], hit.params["of"]) == ("low", 3, 3)


def test_a_case_that_is_not_clear_counts_for_nothing() -> None:
    match = next(f for f in found({**OFFICIAL, "temperature_range": (429, E015)}) if f.code == "params.matches")
    assert (match.params["n"], match.params["of"]) == (len(OFFICIAL) - 1, len(OFFICIAL) - 1)


def test_rewritten_refusals_are_counted_among_all_refusals() -> None:
    got = found({**OFFICIAL, "temperature_range": (400, refusal("a sampling value is too high"))})
    hit = next(f for f in got if f.code == REWRITTEN)
    assert (hit.params["n"], hit.params["of"]) == (1, sum(status != 200 for status, _ in OFFICIAL.values()))


def test_a_vendor_that_lacks_the_model_is_no_yardstick() -> None:
    lacking = (404, refusal(f"model: {MODEL}", "not_found_error"))
    all_lack = {case: lacking for case in OFFICIAL if case not in ("unknown_model", "made_up_key")}
    legal = {case: (200, message()) for case in ("service_tier_standard_only",)}
    assert above_info(legal, official=all_lack) == {}
    refused = {"temperature_range": OFFICIAL["temperature_range"]}
    assert above_info(refused, official=all_lack) == {}


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_a_legal_value_that_the_vendor_refuses_today_accuses_nobody(status: int) -> None:
    today = {"service_tier_standard_only": (status, refusal("no longer supported"))}
    assert above_info({"service_tier_standard_only": (200, message())}, official=today) == {}


def test_a_vendor_that_refuses_what_is_legal_in_the_same_words_is_no_yardstick() -> None:
    """An address without this route, a header that it misses, a key without this model: it refuses everything alike."""
    swallowed = {"temperature_type": (200, message()), "unknown_field": (200, message(2))}
    deaf = (400, refusal("anthropic-version: header is required"))
    legal = {"service_tier_standard_only": (200, message(3))}
    official = dict.fromkeys((*swallowed, *legal), deaf)
    assert above_info(swallowed | legal, official=official, software="new-api") == above_info(
        swallowed | legal, live=False, software="new-api"
    )
    assert above_info(swallowed, software="new-api") == {"params.illegal_accepted": "medium"}
    other = official | {"temperature_type": OFFICIAL["temperature_type"]}
    hit = next(f for f in found(swallowed | legal, official=other) if "temperature_type" in f.params["cases"])
    assert (hit.basis, hit.severity) == ("live_official", "medium"), "what it says of this very value still counts"
