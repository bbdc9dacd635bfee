"""Check 2 as a table: what differs, how it differs, and what may be said of it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from relay_audit.assess.token_parity import assess_token_parity, streams_below
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.quote import Line, Quote, UnitPrice
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    MODEL,
    SIZES,
    START,
    Text,
    answered,
    at,
    codes,
    lost,
    only,
    parity_run,
    run_of,
    step_named,
    twelve,
)


def judged(texts: list[Text], **more) -> list[Finding]:
    return assess_token_parity(parity_run(texts, **more), KNOWLEDGE)


def sloped(slope_ascii: float, slope_cjk: float, offset: int = 0) -> list[Text]:
    slopes = {"ascii": slope_ascii, "cjk": slope_cjk}
    return [Text(t.official, round(t.official * (slopes[t.script] - 1)) + offset, t.script, t.system) for t in twelve()]


def with_surpluses(*surpluses: int) -> list[Text]:
    return [Text(t.official, s, t.script, t.system) for t, s in zip(twelve(), surpluses, strict=False)]


@pytest.mark.parametrize(
    ("surplus", "code", "outcome", "severity"),
    [
        (0, "tokens.match", "match", "info"),
        (1, "tokens.template_noise", "match", "info"),
        (4, "tokens.template_noise", "match", "info"),
        (8, "tokens.template_noise", "match", "info"),
        (9, "tokens.inconclusive_offset", "inconclusive", "low"),
        (29, "tokens.inconclusive_offset", "inconclusive", "low"),
        (49, "tokens.inconclusive_offset", "inconclusive", "low"),
        (50, "tokens.constant_surplus", "mismatch", "medium"),
        (199, "tokens.constant_surplus", "mismatch", "medium"),
        (200, "tokens.constant_surplus", "mismatch", "high"),
        (508, "tokens.constant_surplus", "mismatch", "high"),
        (-3, "tokens.deficit", "match", "info"),
    ],
)
def test_a_constant_offset(surplus, code, outcome, severity):
    found = only(judged(twelve(surplus)))
    assert (found.code, found.outcome, found.severity) == (code, outcome, severity)
    assert (found.params["n"], found.confidence, found.basis) == (12, "strong", "live_official")
    assert found.observed == {"offset": surplus, "low": surplus, "high": surplus}
    assert found.expected == {"offset": "0 to 8"}
    assert found.accusation is (surplus >= 50)
    named = "surplus" if code == "tokens.constant_surplus" else "offset"
    assert found.params[named] == surplus


def test_the_surplus_says_what_was_billed_and_rests_on_all_of_it():
    run = parity_run(twelve(508))
    found = only(assess_token_parity(run, KNOWLEDGE))
    assert found.params == {
        "n": 12,
        "surplus": 508,
        "low": 508,
        "high": 508,
        "official": 20,
        "billed": 528,
        "per_1000_calls": "",
        "condition": "",
    }
    assert set(found.exchanges) == {e.id for e in run.exchanges}
    assert len(found.exchanges) == 36


def test_a_thousand_calls_are_priced_at_the_quoted_price():
    price = UnitPrice(input=Decimal(2), output=Decimal(10), source="list", observed=dt.date(2026, 11, 30))
    zero = Decimal(0)
    free = Line(
        id="a@official", probe="a", side="official", count=1, unit_price=None, expected=zero, at_most=zero, hold=zero
    )
    line = free.model_copy(update={"id": "a@relay", "side": "relay", "unit_price": price})
    quote = Quote(
        plan_digest="",
        seed=1,
        lines=(free, line),
        steps=(),
        issued_at=START,
        expires_at=START,
        counted=True,
        needs_explicit_ceiling=False,
    )
    assert only(judged(twelve(508), quote=quote)).params["per_1000_calls"] == "1.016"


@pytest.mark.parametrize(
    ("surpluses", "code", "offset"),
    [
        ((0, 1) * 6, "tokens.match", 0),
        ((-1, 0, 1) * 4, "tokens.match", 0),
        ((-1, 0) * 6, "tokens.match", 0),
        ((0, 2) * 6, "tokens.template_noise", 1),
        ((-1, -2) * 6, "tokens.deficit", -1),
        ((7, 8, 9) * 4, "tokens.template_noise", 8),
        ((8, 9, 10) * 4, "tokens.inconclusive_offset", 9),
        ((48, 49, 50) * 4, "tokens.inconclusive_offset", 49),
        ((49, 50) * 6, "tokens.inconclusive_offset", 49),
        ((50, 51, 52) * 4, "tokens.constant_surplus", 51),
        ((507, 508, 509) * 4, "tokens.constant_surplus", 508),
        ((0, 3, 6) * 4, "tokens.template_noise", 3),
        ((-8, 8) * 6, "tokens.template_noise", 0),
    ],
)
def test_jitter_of_a_token_or_two_is_no_slope(surpluses, code, offset):
    found = only(judged(with_surpluses(*surpluses)))
    assert found.code == code
    assert found.params.get("offset", found.params.get("surplus")) == offset


def test_a_spread_of_three_is_no_constant_surplus():
    assert codes(judged(with_surpluses(*((505, 508) * 6)))) == ["tokens.variable_surplus"]


@pytest.mark.parametrize(
    ("ascii_", "cjk", "offset", "code", "params"),
    [
        (1.3, 1.3, 0, "tokens.proportional_surplus", {"n": 12, "slope": "1.30", "offset": 0, "percent": "30"}),
        (2.0, 2.0, 0, "tokens.proportional_surplus", {"n": 12, "slope": "2.00", "offset": 0, "percent": "100"}),
        (1.5, 1.5, 400, "tokens.proportional_surplus", {"n": 12, "slope": "1.50", "offset": 400, "percent": "50"}),
        (1.3, 1.1, 0, "tokens.tokenizer_differs", {"n": 12, "slopes": {"ascii": "1.30", "cjk": "1.10"}}),
        (0.7, 0.9, 0, "tokens.tokenizer_differs", {"n": 12, "slopes": {"ascii": "0.70", "cjk": "0.90"}}),
        (0.7, 0.7, 0, "tokens.deficit", {"n": 12, "offset": -27, "share_bound": "22.1"}),
    ],
)
def test_slopes_of_two_scripts(ascii_, cjk, offset, code, params):
    found = only(judged(sloped(ascii_, cjk, offset)))
    assert found.code == code
    got, params = dict(found.params), dict(params)
    if code == "tokens.proportional_surplus":
        assert abs(got.pop("offset") - params["offset"]) <= 1
        assert Decimal(got.pop("percent")) == pytest.approx(Decimal(params["percent"]), abs=Decimal(1))
        params = {k: v for k, v in params.items() if k in got}
    if code == "tokens.tokenizer_differs":
        slopes = got.pop("slopes")
        assert {k: Decimal(v) for k, v in slopes.items()} == pytest.approx(
            {k: Decimal(v) for k, v in params.pop("slopes").items()}, abs=Decimal("0.01")
        )
        assert found.observed == slopes
    assert got == params
    assert found.confidence == "strong"
    assert found.expected == {"slope": "1.00"}


def test_one_script_carries_no_slope():
    one = [t for t in sloped(1.3, 1.3) if t.script == "ascii"]
    found = only(judged(one))
    assert (found.code, found.params["reason"]) == ("tokens.inconclusive", "unexplained_spread")


def test_two_sizes_carry_no_slope():
    found = only(judged([t for t in sloped(1.3, 1.3) if t.official != 45]))
    assert found.code == "tokens.inconclusive"


def test_slopes_are_alike_within_a_twentieth():
    assert codes(judged(sloped(1.30, 1.27))) == ["tokens.proportional_surplus"]
    assert codes(judged(sloped(1.30, 1.20))) == ["tokens.tokenizer_differs"]


def test_points_that_lie_on_no_line_say_nothing_of_a_tokenizer():
    """Billed above the count or at it, never below: a surplus of no one size. Billed below too: an estimate says nothing."""
    wild = (90, 0, 45, 300, 20, 150, 10, 200, 0, 70, 220, 30)
    assert codes(judged(with_surpluses(*wild))) == ["tokens.variable_surplus"]
    assert codes(judged(with_surpluses(*(n - 30 for n in wild)))) == ["tokens.inconclusive"]


def test_quantities_rounded_up_are_a_surplus_of_no_one_size():
    rounded = [-(-t.official // 100) * 100 - t.official for t in with_surpluses(*[0] * 12)]
    assert codes(judged(with_surpluses(*rounded))) == ["tokens.variable_surplus"]


def test_some_answers_counted_by_another_tokenizer_are_seen_among_exact_ones():
    """One answer in four is billed a quarter less, in each script: another model answered it. Two such answers, or an
    answer that lacks the usual parts of usage (the relay's own estimate), show nothing."""
    exact = with_surpluses(*[0] * 12)
    fewer = [-round(t.official * 0.25) if place % 4 == 1 else 0 for place, t in enumerate(exact)]
    found = only(judged(with_surpluses(*fewer)))
    assert (found.code, found.severity, found.params["n"]) == ("tokens.tokenizer_differs", "medium", 3)
    assert found.observed["answers"] == "3 of 12"
    near = [
        -round(t.official * 0.06) if place == 2 else gap
        for place, (t, gap) in enumerate(zip(exact, fewer, strict=True))
    ]
    assert near[2] < -2  # neither exact nor far below: numbers, say, which two tokenizers count nearly alike
    assert codes(judged(with_surpluses(*near))) == ["tokens.tokenizer_differs"]
    above = [3 if place == 2 else gap for place, gap in enumerate(fewer)]  # no tokenizer of a smaller grain
    assert codes(judged(with_surpluses(*above))) == ["tokens.inconclusive"]
    two = [gap if place < 6 else 0 for place, gap in enumerate(fewer)]
    assert codes(judged(with_surpluses(*two))) == ["tokens.inconclusive"]


@pytest.mark.parametrize(("hits", "low", "high"), [(1, "0.2", "38.5"), (3, "5.5", "57.2")])
def test_some_samples_at_one_constant(hits, low, high):
    texts = with_surpluses(*[508 if place % 4 == 0 and place // 4 < hits else 0 for place in range(12)])
    found = only(judged(texts))
    assert (found.code, found.severity, found.outcome) == ("tokens.intermittent_surplus", "medium", "mismatch")
    assert found.params == {"n": hits, "of": 12, "surplus": 508, "share_low": low, "share_high": high}
    assert found.observed == {"offset": 508, "answers": f"{hits} of 12"}
    assert len(found.exchanges) == 3 * hits


def test_input_that_is_rounded_up_is_seen_in_the_figures():
    texts = with_surpluses(*[0] * 12)
    up = [-t.official % 50 for t in texts]
    found = only(judged(with_surpluses(*up)))
    assert (found.code, found.severity, found.confidence) == ("tokens.variable_surplus", "medium", "strong")
    assert (found.params["road"], found.params["step"], found.params["high"]) == ("rounded", 50, max(up))
    assert codes(judged(with_surpluses(*[gap + (place == 3) for place, gap in enumerate(up)]))) == [
        "tokens.inconclusive"
    ]
    down = [gap - 50 if gap else 0 for gap in up]
    assert "tokens.variable_surplus" not in codes(judged(with_surpluses(*down)))


def test_two_constants_are_not_one_that_comes_and_goes():
    assert codes(judged(with_surpluses(508, 0, 0, 300, *[0] * 8))) == ["tokens.inconclusive"]
    assert codes(judged(with_surpluses(508, 30, 0, 508, *[0] * 8))) == ["tokens.inconclusive"]


def test_below_fifty_nothing_comes_and_goes():
    assert codes(judged(with_surpluses(49, *[0] * 11))) == ["tokens.inconclusive"]
    assert codes(judged(with_surpluses(50, *[0] * 11))) == ["tokens.intermittent_surplus"]


def test_only_without_a_system_prompt():
    texts = [Text(t.official, 0 if t.system else 508, t.script, t.system) for t in twelve()]
    found = only(judged(texts))
    assert (found.code, found.outcome, found.severity) == ("tokens.variable_surplus", "mismatch", "medium")
    assert found.params == {"n": 12, "low": 0, "high": 508, "depends_on": "system"}
    assert found.observed == {"system=False": 508, "system=True": 0}
    assert found.confidence == "strong"


@pytest.mark.parametrize(("least", "weight"), [(199, "medium"), (200, "high"), (2100, "high")])
def test_a_surplus_of_every_text_is_as_heavy_as_a_constant_though_a_system_prompt_adds_to_it(least, weight):
    texts = [Text(t.official, least + 3 * t.system, t.script, t.system) for t in twelve()]
    found = only(judged(texts))
    assert (found.code, found.severity, found.params["low"]) == ("tokens.variable_surplus", weight, least)


def test_a_condition_of_a_few_tokens_accuses_nobody():
    texts = [Text(t.official, 0 if t.system else 49, t.script, t.system) for t in twelve()]
    found = only(judged(texts))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "tokens.variable_surplus",
        "inconclusive",
        "info",
        "supporting",
    )


def test_a_single_answer_under_a_condition_is_no_condition():
    texts = [Text(20, 0), Text(45, 0), Text(90, 0), Text(45, 508, system=True)]
    assert codes(judged(texts)) == ["tokens.intermittent_surplus"]


def test_a_surplus_everywhere_that_follows_nothing():
    found = only(judged(with_surpluses(60, 90, 75, 120, 66, 81, 99, 61, 140, 70, 88, 101)))
    assert (found.code, found.outcome, found.params["depends_on"]) == ("tokens.variable_surplus", "mismatch", "")
    assert (found.params["low"], found.params["high"]) == (60, 140)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"after": 27}, "control_varies"),
        ({"before": -1, "after": -1}, "control_failed"),
        ({"after": -1}, "control_failed"),
        ({"lag_s": 901}, "control_too_old"),
        ({"counted_twice": False}, "control_not_repeated"),
    ],
)
def test_a_control_that_does_not_control_accuses_nobody(change, reason):
    found = only(judged(twelve(508, **change)))
    assert (found.code, found.params) == ("tokens.inconclusive", {"n": 0, "reason": reason})
    assert found.outcome == "inconclusive"


def test_the_reason_of_most_is_the_reason():
    texts = [*twelve(508, before=-1, after=-1)[:7], *twelve(508, after=27)[7:]]
    assert only(judged(texts)).params["reason"] == "control_failed"
    texts = [*twelve(508, before=-1, after=-1)[:5], *twelve(508, after=27)[5:]]
    assert only(judged(texts)).params["reason"] == "control_varies"


def test_fifteen_minutes_are_near_enough():
    assert codes(judged(twelve(508, lag_s=900))) == ["tokens.constant_surplus"]


def test_texts_without_a_control_are_set_aside_and_the_others_judged():
    texts = [*twelve(508)[:4], *twelve(508, after=1)[4:]]
    assert only(judged(texts)).params["n"] == 4


def test_a_count_asked_again_after_a_failure_is_one_count():
    run = parity_run(twelve(508, counted_twice=False))
    failed = [
        e.model_copy(update={"id": f"Y{e.id}", "response": e.response.model_copy(update={"status": 529})})
        for e in run.exchanges
        if e.side == "official"
    ]
    run = run.model_copy(update={"exchanges": (*failed, *run.exchanges)})
    assert only(assess_token_parity(run, KNOWLEDGE)).params["reason"] == "control_not_repeated"


def test_the_count_of_the_quote_is_a_control_too():
    run = parity_run(twelve(508, counted_twice=False))
    quoted = [
        e.model_copy(update={"id": f"Y{e.id}", "step": e.step.replace("count.before", "count.quote")})
        for e in run.exchanges
        if e.side == "official"
    ]
    run = run.model_copy(update={"exchanges": (*quoted, *run.exchanges)})
    assert codes(assess_token_parity(run, KNOWLEDGE)) == ["tokens.constant_surplus"]


def test_three_sizes_make_a_constant():
    two = [t for t in twelve(508) if t.official != 90]
    found = only(judged(two))
    assert (found.code, found.params["reason"]) == ("tokens.inconclusive", "too_few_sizes")
    assert codes(judged([Text(20, 508), Text(45, 508), Text(90, 508)])) == ["tokens.constant_surplus"]


def test_too_few_answers():
    assert judged([]) == []
    found = only(judged([Text(20, 508)]))
    assert (found.code, found.params) == ("tokens.inconclusive", {"n": 1, "reason": "too_few_answers"})
    assert only(judged([Text(20), Text(45)])).code == "tokens.match"


def test_a_match_says_what_share_would_have_been_seen():
    assert only(judged(twelve())).params["share_bound"] == "22.1"
    assert only(judged(twelve()[:3])).params["share_bound"] == "63.2"


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": "NaN"},
        {"input_tokens": -5},
        {"input_tokens": 1.5},
        {"cache_read_input_tokens": -1},
        {"output_tokens": None},
        {"input_tokens": True},
    ],
    ids=str,
)
def test_a_usage_that_is_no_count_is_no_sample(usage):
    assert judged(twelve(508, usage=usage)) == []
    bad = [Text(t.official, 508, t.script, t.system, usage=usage) for t in twelve()[:3]]
    assert only(judged([*bad, *twelve()[3:]])).params["n"] == 9


def test_refusals_and_cut_answers_are_no_samples():
    assert judged(twelve(508, status=500)) == []
    assert judged(twelve(508, cut=True)) == []


def test_the_first_refusal_of_a_step_that_was_sent_again_hides_nothing():
    run = parity_run(twelve(508))
    trial = answered(900, "s0", {"error": "no"}, moment=START, status=401)
    run = run.model_copy(update={"exchanges": (trial, *run.exchanges)})
    assert only(assess_token_parity(run, KNOWLEDGE)).params["n"] == 12


def test_cached_tokens_are_billed_tokens_and_a_finding_of_their_own():
    texts = [
        Text(
            t.official, 0, t.script, t.system, usage={"cache_creation_input_tokens": 0, "cache_read_input_tokens": 7552}
        )
        for t in twelve()
    ]
    breakpoints, surplus = judged(texts)
    assert (breakpoints.code, breakpoints.params) == (
        "tokens.cache_breakpoint_injected",
        {"n": 12, "of": 12, "cached": 7552},
    )
    assert (breakpoints.outcome, breakpoints.severity, breakpoints.confidence) == ("mismatch", "medium", "strong")
    assert (breakpoints.expected, breakpoints.observed) == ({"cached": 0}, {"cached": 7552})
    assert (surplus.code, surplus.params["surplus"], surplus.severity) == ("tokens.constant_surplus", 7552, "high")


def test_a_cache_that_the_texts_themselves_ask_for_was_injected_by_nobody():
    made = parity_run([Text(t.official, 0, t.script, t.system, usage={"cache_read_input_tokens": 1}) for t in twelve()])
    assert made.plan is not None
    asked = [s.model_copy(update={"factors": {**s.factors, "breakpoints": 1}}) for s in made.plan.steps]
    plan = made.plan.model_copy(update={"steps": tuple(asked)})
    assert "tokens.cache_breakpoint_injected" in codes(assess_token_parity(made, KNOWLEDGE))
    own = assess_token_parity(made.model_copy(update={"plan": plan}), KNOWLEDGE)
    assert "tokens.cache_breakpoint_injected" not in codes(own)


def test_a_cache_that_is_written_once_and_read_afterwards():
    texts = [
        Text(
            t.official,
            0,
            t.script,
            t.system,
            usage={"cache_creation_input_tokens" if place == 0 else "cache_read_input_tokens": 600},
        )
        for place, t in enumerate(twelve())
    ]
    assert codes(judged(texts)) == ["tokens.cache_breakpoint_injected", "tokens.constant_surplus"]


def test_null_cache_fields_are_no_cache():
    nothing = {"cache_creation_input_tokens": None, "cache_read_input_tokens": 0}
    assert codes(judged(twelve(usage=nothing))) == ["tokens.match"]


def test_an_official_address_that_is_not_the_vendors_is_said():
    assert only(judged(twelve(508), is_vendor=False)).basis == "declared_official"


def test_without_a_plan_nothing_is_said():
    run = parity_run(twelve(508)).model_copy(update={"plan": None})
    assert assess_token_parity(run, KNOWLEDGE) == []


# Against the published sentence, without a key


def baseline_run(
    *surpluses: int, start: dt.datetime = START, model: str = MODEL, usage=None, request: str = "published"
) -> Evidence:
    steps = [step_named(f"p{place}", request=request) for place in range(len(surpluses))]
    exchanges = [
        answered(
            place + 1,
            f"p{place}",
            {"usage": {"input_tokens": 18 + surplus, "output_tokens": 4, **(usage or {})}},
            moment=at(place, start),
        )
        for place, surplus in enumerate(surpluses)
    ]
    return run_of(exchanges, steps, start=start, model=model)


FRESH, STALE, EXPIRED = (
    dt.datetime(y, m, d, tzinfo=dt.UTC) for y, m, d in ((2027, 4, 12), (2027, 4, 13), (2027, 10, 10))
)
"""The last day of its 180 days, the first day after them, the first day after 360."""


@pytest.mark.parametrize(
    ("surplus", "start", "code", "outcome", "severity", "confidence"),
    [
        (508, FRESH, "tokens.constant_surplus", "mismatch", "high", "strong"),
        (508, STALE, "tokens.constant_surplus", "inconclusive", "info", "supporting"),
        (508, EXPIRED, "tokens.constant_surplus", "inconclusive", "info", "supporting"),
        (50, FRESH, "tokens.constant_surplus", "mismatch", "medium", "strong"),
        (0, FRESH, "tokens.match", "match", "info", "supporting"),
        (0, STALE, "tokens.match", "match", "info", "weak"),
        (5, FRESH, "tokens.template_noise", "match", "info", "supporting"),
        (18, FRESH, "tokens.inconclusive_offset", "inconclusive", "low", "supporting"),
        (18, STALE, "tokens.inconclusive_offset", "inconclusive", "info", "weak"),
        (-3, FRESH, "tokens.deficit", "match", "info", "supporting"),
    ],
)
def test_the_published_sentence_against_its_dated_count(surplus, start, code, outcome, severity, confidence):
    found = only(assess_token_parity(baseline_run(surplus, surplus, surplus, start=start), KNOWLEDGE))
    assert (found.code, found.outcome, found.severity, found.confidence) == (code, outcome, severity, confidence)
    assert (found.basis, found.params["n"]) == ("dated_baseline", 3)


def test_the_ages_are_those_of_the_shipped_baseline():
    row = KNOWLEDGE.baseline_for(MODEL, START.date())
    assert [row.age(moment.date()) for moment in (FRESH, STALE, EXPIRED)] == ["fresh", "stale", "expired"]


def test_a_cache_on_the_published_sentence_needs_no_baseline_in_date():
    run = baseline_run(0, 0, 0, start=EXPIRED, usage={"cache_read_input_tokens": 900})
    breakpoints, surplus = assess_token_parity(run, KNOWLEDGE)
    assert (breakpoints.code, breakpoints.outcome, breakpoints.severity) == (
        "tokens.cache_breakpoint_injected",
        "mismatch",
        "medium",
    )
    assert (surplus.code, surplus.severity) == ("tokens.constant_surplus", "info")


def test_three_sends_are_needed():
    found = only(assess_token_parity(baseline_run(508, 508), KNOWLEDGE))
    assert (found.code, found.params["reason"], found.basis) == (
        "tokens.inconclusive",
        "too_few_answers",
        "dated_baseline",
    )
    run = baseline_run(508, 508, 508)
    gone = run.model_copy(update={"exchanges": (*run.exchanges[:2], lost(3, "p2"))})
    assert only(assess_token_parity(gone, KNOWLEDGE)).params["reason"] == "too_few_answers"


def test_a_model_without_a_baseline_and_other_texts_say_nothing():
    assert assess_token_parity(baseline_run(508, 508, 508, model="claude-haiku-4-5"), KNOWLEDGE) == []
    assert assess_token_parity(baseline_run(508, 508, 508, request="sample"), KNOWLEDGE) == []


def test_a_prompt_that_comes_and_goes_shows_on_the_published_sentence():
    assert codes(assess_token_parity(baseline_run(508, 0, 0), KNOWLEDGE)) == ["tokens.intermittent_surplus"]


def test_sizes_of_the_builder_are_the_least_there_must_be():
    assert len(SIZES) == 3


@pytest.mark.parametrize(("surplus", "outcome"), [(49, "inconclusive"), (50, "mismatch")])
def test_a_condition_accuses_from_fifty_tokens_on(surplus, outcome):
    texts = [Text(t.official, 0 if t.system else surplus, t.script, t.system) for t in twelve()]
    assert only(judged(texts)).outcome == outcome


def test_a_count_that_never_left_is_no_failed_control():
    run = parity_run(twelve(508))
    unsent = lost(900, "count.after.s0", delivery="not_sent", failure="connect")
    run = run.model_copy(update={"exchanges": (*run.exchanges, unsent)})
    assert only(assess_token_parity(run, KNOWLEDGE)).params["n"] == 12


def test_a_text_of_no_tokens_is_a_text():
    found = only(judged([Text(0, 508), Text(20, 508), Text(45, 508)]))
    assert (found.params["official"], found.params["billed"]) == (0, 508)


def test_a_system_prompt_that_is_not_billed_is_no_other_tokenizer():
    texts = [Text(t.official, -9 if t.system else 0, t.script, t.system) for t in twelve()]
    assert (only(judged(texts)).code, only(judged(texts)).outcome) == ("tokens.variable_surplus", "inconclusive")
    dropped = [Text(t.official, -round(t.official * 0.3) if t.system else 0, t.script, t.system) for t in twelve()]
    found = only(judged(dropped))
    assert (found.code, found.params["reason"]) == ("tokens.inconclusive", "system_not_counted")
    both = [Text(t.official, t.surplus - 9, t.script, t.system) for t in dropped]
    assert "system_not_counted" not in {f.params.get("reason") for f in judged(both)}


@pytest.mark.parametrize(
    ("prompt", "code", "severity"),
    [
        (164, "tokens.constant_surplus", "medium"),
        (240, "tokens.constant_surplus", "high"),
        (34, "tokens.inconclusive_offset", "low"),
        (5, "tokens.inconclusive", "info"),
    ],
)
def test_a_prompt_in_the_place_of_the_callers_is_no_other_tokenizer(prompt, code, severity):
    """A gateway that overrides `system`: each text with one lacks what its own counts, 19 in one script and 26 in the other.
    Portkey 1.15.2 billed 24 texts so, and they had been called another tokenizer's."""
    own = {"ascii": 19, "cjk": 26}
    texts = [Text(t.official, prompt - (own[t.script] if t.system else 0), t.script, t.system) for t in twelve()]
    found = only(judged(texts))
    assert (found.code, found.severity) == (code, severity)
    if code == "tokens.constant_surplus":
        assert (found.params["road"], found.params["n"], found.params["surplus"]) == ("replaced", 6, prompt)
        assert (found.params["low"], found.params["high"]) == (prompt, prompt)
        assert len(found.exchanges) == 12 * 3, "those it stands in the place of are shown as well"


def test_a_longer_prompt_in_the_place_of_the_callers_alone():
    own = {"ascii": 19, "cjk": 26}
    texts = [Text(t.official, 164 - own[t.script] if t.system else 0, t.script, t.system) for t in twelve()]
    found = only(judged(texts))
    assert (found.code, found.params["depends_on"], found.severity) == ("tokens.variable_surplus", "system", "medium")
    assert (found.params["low"], found.params["high"]) == (0, 145)


@pytest.mark.parametrize(("factor", "code"), [(1.03, "tokens.proportional_surplus"), (1.01, "tokens.match")])
def test_a_small_multiplier_that_every_text_keeps_is_no_template(factor, code):
    """Three in a hundred on each text of each script: a template is the same for all of them."""
    sizes = (40, 90, 160)
    texts = [
        Text(size, round(size * factor) - size if code != "tokens.match" else 0, script=script)
        for script in ("ascii", "cjk", "code")
        for size in sizes
    ]
    assert codes(judged(texts)) == [code]


def streamed(texts: list[Text], surplus: int, whole: int = 0) -> Evidence:
    """Every third text is streamed and billed so much above its count."""
    run = parity_run([Text(t.official, surplus if p % 3 == 0 else whole, t.script) for p, t in enumerate(texts)])
    steps = [
        s.model_copy(update={"body": {**s.body, "stream": int(s.id[1:]) % 3 == 0}}) if not s.counts else s
        for s in run.plan.steps
    ]
    return run.model_copy(update={"plan": run.plan.model_copy(update={"steps": tuple(steps)})})


@pytest.mark.parametrize(
    ("surplus", "code", "n"),
    [(0, "tokens.match", 12), (900, "tokens.variable_surplus", 12), (-20, "tokens.match", 8), (-60, "tokens.match", 8)],
)
def test_streams_that_are_billed_more_are_seen_and_estimates_in_them_are_not(surplus, code, n):
    found = only(assess_token_parity(streamed(twelve(), surplus), KNOWLEDGE))
    assert (found.code, found.params["n"]) == (code, n)
    if surplus > 0:
        assert (found.params["depends_on"], found.accusation) == ("stream", True)


@pytest.mark.parametrize(("surplus", "n"), [(-20, 4), (0, 0), (900, 0), (-2, 0)])
def test_streams_of_another_tokenizer_are_known_to_whoever_has_a_second_sign(surplus, n):
    run = streamed(twelve(), surplus)
    low = [e.id for e in run.exchanges if e.side == "relay" and e.id in streams_below(run)]
    assert len(low) == n
    one = [Text(t.official, t.surplus, "ascii") for t in twelve()]
    assert streams_below(streamed(one, surplus)) == (), "one script may be an estimate's grain"
    assert streams_below(run.model_copy(update={"plan": None})) == ()


def test_recorded_use_shows_patterns_and_a_difference_without_one_accuses_nobody():
    """Ordinary use was not made to be measured; a constant shows in it all the same."""

    def recorded(texts):
        run = parity_run(texts)
        return run.model_copy(update={"target": run.target.model_copy(update={"recorded": "har"})})

    constant = only(assess_token_parity(recorded(twelve(508)), KNOWLEDGE))
    assert (constant.code, constant.severity, constant.confidence) == ("tokens.constant_surplus", "high", "strong")
    uneven = [Text(t.official, 50 + 37 * n % 400, t.script, t.system) for n, t in enumerate(twelve())]
    loose = only(assess_token_parity(recorded(uneven), KNOWLEDGE))
    assert (loose.code, loose.outcome, loose.severity, loose.confidence) == (
        "tokens.variable_surplus", "inconclusive", "info", "supporting",
    )  # fmt: skip
    assert only(judged(uneven)).severity == "medium"


def test_the_recorded_month_is_near_enough_for_a_count():
    def apart(days, **more):
        run = parity_run(twelve(508))
        late = [
            e.model_copy(update={"sent_at": e.sent_at + dt.timedelta(days=days)}) if e.side == "official" else e
            for e in run.exchanges
        ]
        target = run.target.model_copy(update={"recorded": "har"})
        return only(assess_token_parity(run.model_copy(update={"exchanges": tuple(late), "target": target}), KNOWLEDGE))

    assert apart(29).code == "tokens.constant_surplus"
    assert apart(31).params["reason"] == "control_too_old"


def test_a_surplus_that_follows_the_client_s_name():
    run = parity_run([Text(t.official, 508 * (n % 2), t.script) for n, t in enumerate(twelve())])
    named = []
    for exchange in run.exchanges:
        agent = "b" if int(exchange.step.split(".")[-1][1:]) % 2 else "a"
        headers = (("X-Other", "z"), ("User-Agent", agent))
        named.append(exchange.model_copy(update={"request": exchange.request.model_copy(update={"headers": headers})}))
    found = only(assess_token_parity(run.model_copy(update={"exchanges": tuple(named)}), KNOWLEDGE))
    assert found.params["depends_on"] == "user_agent"
    assert found.observed == {"user_agent=a": 0, "user_agent=b": 508}


def test_an_answer_without_the_usual_parts_of_usage_is_no_other_tokenizer():
    """A relay's own estimate is written without them; another tokenizer's count comes with all of them."""
    for more, code in (({}, "tokens.inconclusive"), ({"cache_read_input_tokens": 0}, "tokens.tokenizer_differs")):
        usual = {"cache_read_input_tokens": 0}
        texts = [Text(t.official, -round(t.official / 3), t.script, t.system, usage=more) if n % 4 == 1
                 else Text(t.official, 0, t.script, t.system, usage=usual) for n, t in enumerate(twelve())]  # fmt: skip
        assert only(judged(texts)).code == code


def test_the_published_sentence_names_its_sends():
    assert only(assess_token_parity(baseline_run(508, 508, 508), KNOWLEDGE)).exchanges == ("X0001", "X0002", "X0003")
