"""One case of check 4, read on both sides: what each answer comes to, also where it comes to nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from relay_audit.assess.parameter_cases import Official, Result, Scene, compare, official_side, reroute_signs
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.plan import Step
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, START, answered, at, lost
from tests.assess.test_parameter_parity import E015, LIST, OFFICIAL, RANGE, message, refusal, run, text

RANGE_ROW = KNOWLEDGE.refusal_of("anthropic", "temperature_range", MODEL, START.date(), refused=True)
OVERLOADED = refusal("Overloaded", "overloaded_error")


def own(evidence: Evidence) -> Step:
    """The relay's step of the one case."""
    return next(s for s in evidence.plan.steps if s.case and s.side == "relay")  # type: ignore[union-attr]


def compared(
    case: str, answer: tuple[int, Any], *, change: Any = None, step: dict[str, Any] | None = None, **how: Any
) -> Result | None:
    evidence = run({case: answer}, **how)
    one = own(evidence).model_copy(update=step or {})
    steps = tuple(one if s.id == one.id else s for s in evidence.plan.steps)  # type: ignore[union-attr]
    evidence = evidence.model_copy(update={"plan": evidence.plan.model_copy(update={"steps": steps})})  # type: ignore[union-attr]
    if change is not None:
        evidence = change(evidence)
    return compare(one, Scene.of(evidence, KNOWLEDGE))


def outcome(case: str, answer: tuple[int, Any], **how: Any) -> str:
    found = compared(case, answer, **how)
    assert found is not None
    assert found.official is not None
    assert found.step.case == case
    assert found.exchange.step == f"p.{case}"
    return found.outcome


# The vendor's side


def side(**how: Any) -> Official | None:
    case = how.pop("case", "temperature_range")
    evidence = run({case: OFFICIAL[case]}, **how)
    step = own(evidence)
    exchange = evidence.of_step(step.id)
    assert exchange is not None
    return official_side(step, exchange, Scene.of(evidence, KNOWLEDGE))


LIVE = Official(
    400, "invalid_request_error", RANGE, "temperature", "live_official", "measured", exchanges=("X0004", "X0005")
)


def test_the_vendor_today_and_the_vendor_on_record():
    assert side() == LIVE
    assert RANGE_ROW is not None
    assert side(live=False) == Official(
        400, "invalid_request_error", RANGE_ROW.message.replace("*", " "), "temperature", "dated_baseline", RANGE_ROW.level
    )  # fmt: skip
    legal = side(case="inference_geo_us")
    assert legal == Official(
        200,
        "",
        "",
        "inference_geo",
        "live_official",
        "measured",
        reads={"/usage/inference_geo": "us"},
        exchanges=("X0004",),
    )
    assert legal.live
    assert not side(live=False).live


@pytest.mark.parametrize(("days", "stale"), [(0, False), (1, True)])
def test_a_record_grows_stale_and_then_is_none(days, stale):
    assert RANGE_ROW is not None
    term = dt.timedelta(days=RANGE_ROW.term_days)
    start = dt.datetime.combine(RANGE_ROW.observed + term, dt.time(12), dt.UTC) + dt.timedelta(days=days)
    old = side(live=False, start=start)
    assert old is not None
    assert old.stale is stale
    assert side(live=False, start=start + term + dt.timedelta(days=1)) is None


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"lag_s": 900}, "live_official"),
        ({"lag_s": 901}, "dated_baseline"),
        ({"after": {"temperature_range": (529, OVERLOADED)}}, "dated_baseline"),
        ({"after": {"temperature_range": (404, refusal("model"))}}, "dated_baseline"),
        ({"after": {"temperature_range": (401, refusal("key"))}}, "dated_baseline"),
        ({"after": {"temperature_range": (400, refusal(RANGE, "another_error"))}}, None),
        ({"after": {"temperature_range": (422, refusal(RANGE))}}, None),
        ({"official": {"temperature_range": (200, message())}, "lag_s": 901}, None),
    ],
)
def test_when_the_vendor_of_today_is_a_yardstick(how, found):
    official = side(**how)
    assert (official.basis if official else None) == found


def test_an_official_address_that_is_not_the_vendors_is_said():
    evidence = run({"temperature_range": (200, message())})
    declared = evidence.model_copy(update={"target": evidence.target.model_copy(update={"official_is_vendor": False})})
    found = compare(own(declared), Scene.of(declared, KNOWLEDGE))
    assert found is not None
    assert (found.official.basis, found.official.live) == ("declared_official", True)


def test_a_record_names_what_varies_by_a_star():
    row = next(
        row for row in KNOWLEDGE.refusals if row.dialect == "anthropic" and "*" in row.message and row.case in OFFICIAL
    )
    official = side(case=row.case, live=False)
    assert official is not None
    assert "*" in row.message
    assert official.text == row.message.replace("*", " ")


def test_a_legal_value_that_the_vendor_refuses_today_is_held_to_the_record():
    assert side(case="inference_geo_us", official={"inference_geo_us": (400, refusal("x"))}).basis == "dated_baseline"  # type: ignore[union-attr]
    assert side(case="inference_geo_us", official={"inference_geo_us": (200, message())}) is None, "nor does it show it"


def test_a_key_of_nobodys_and_a_model_of_nobodys_are_refused_as_such():
    key = side(case="made_up_key")
    assert key is not None
    assert (key.status, key.kind, key.text, key.exchanges) == (
        401,
        "authentication_error",
        "invalid x-api-key",
        ("X0004", "X0005"),
    )
    assert side(case="unknown_model").status == 404  # type: ignore[union-attr]


def test_what_was_not_sent_or_is_unknown_is_not_compared():
    def gone(evidence: Evidence) -> Evidence:
        return evidence.model_copy(
            update={"exchanges": tuple(e for e in evidence.exchanges if not e.step.startswith("p."))}
        )

    def unanswered(evidence: Evidence) -> Evidence:
        return evidence.model_copy(update={"exchanges": (*gone(evidence).exchanges, lost(50, "p.temperature_range"))})

    assert compared("temperature_range", (200, message()), change=gone) is None
    assert compared("temperature_range", (200, message()), change=unanswered) is None
    assert compared("temperature_range", (200, message()), step={"case": "nobody_knows"}, live=False) is None


# What the vendor refuses


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, message(), "accepted"),
        (200, "<html>", "unclear"),
        (200, [1], "unclear"),
        (200, refusal(RANGE), "rewritten"),
        (400, refusal(RANGE), "same"),
        (400, refusal(RANGE, "<nil>"), "same"),
        (400, refusal(RANGE, "another_error"), "rewritten"),
        (422, refusal(RANGE), "rewritten"),
        (400, refusal("a sampling value is too high"), "rewritten"),
        (400, E015, "lost"),
        (500, refusal("Upstream request failed", "upstream_error"), "lost"),
        (422, refusal("a sampling value is too high"), "lost"),
        (401, refusal("x"), "unclear"), (402, refusal("x"), "unclear"), (403, refusal("x"), "unclear"), (404, refusal("x"), "lost"),
        (408, refusal(RANGE), "unclear"), (409, refusal(RANGE), "unclear"), (425, refusal(RANGE), "unclear"),
        (429, refusal(RANGE), "unclear"), (503, refusal(RANGE), "unclear"), (504, refusal(RANGE), "unclear"),
        (519, refusal(RANGE), "rewritten"), (520, refusal(RANGE), "unclear"), (529, refusal(RANGE), "unclear"),
        (530, refusal(RANGE), "rewritten"),
        (502, refusal('HTTP 529: {"error": {"message": "Overloaded"}}'), "unclear"),
    ],
)  # fmt: skip
def test_what_a_refused_value_comes_to(status, body, expected):
    assert outcome("temperature_range", (status, body)) == expected


def test_a_refusal_keeps_what_was_said_and_an_acceptance_says_nothing():
    heard = compared("temperature_range", (422, refusal("too hot")))
    assert heard is not None
    assert heard.said is not None
    assert (heard.said.status, heard.said.text, heard.signs, heard.official) == (422, "too hot", (), LIVE)
    taken = compared("temperature_range", (200, message()))
    assert taken is not None
    assert (taken.said, taken.official) == (None, LIVE)


def cut(evidence: Evidence) -> Evidence:
    def half(e: Exchange) -> Exchange:
        return (
            e.model_copy(update={"response": e.response.model_copy(update={"cut": True})})
            if e.step.startswith("p.")
            else e
        )  # type: ignore[union-attr]

    return evidence.model_copy(update={"exchanges": tuple(map(half, evidence.exchanges))})


def test_half_an_answer_is_no_acceptance():
    assert outcome("temperature_range", (200, message()), change=cut) == "unclear"
    assert outcome("temperature_range", (200, refusal(RANGE)), change=cut) == "unclear"
    assert outcome("temperature_range", (400, refusal(RANGE)), change=cut) == "same"


@pytest.mark.parametrize(
    ("case", "step", "answer", "expected"),
    [
        ("made_up_key", {}, (401, {"error": {"message": "无效的令牌"}}), "own"),
        ("made_up_key", {}, (503, "busy"), "own"),
        ("made_up_key", {"key": "made_up"}, (200, message()), "unchecked"),
        ("unknown_model", {}, (503, {"error": {"message": "无可用渠道"}}), "own"),
        ("temperature_range", {"body": {"temperature": 9}}, (503, "busy"), "unclear"),
        ("temperature_range", {"body": {"model": MODEL}}, (503, "busy"), "unclear"),
        ("temperature_range", {"key": "made_up"}, (503, "busy"), "own"),
    ],
)
def test_what_only_the_relay_can_answer(case, step, answer, expected):
    assert outcome(case, answer, step=step) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [("max_tokens_above_limit", "clamped"), ("temperature_range", "accepted"), ("top_p_range", "accepted")],
)
def test_a_limit_that_nobody_can_honour_was_changed(case, expected):
    assert outcome(case, (200, message())) == expected


@pytest.mark.parametrize(
    ("case", "software", "expected"),
    [("inference_geo_bogus", "new-api", "default"), ("inference_geo_bogus", "unknown", "accepted"), ("inference_geo_bogus", "", "accepted"),
     ("inference_geo_bogus", "hubrelay", "accepted"), ("temperature_range", "new-api", "accepted")],
)  # fmt: skip
def test_what_software_does_by_itself_is_its_default(case, software, expected):
    found = compared(case, (200, message()), software=software)
    assert found is not None
    assert found.outcome == expected
    ids = {row.id for row in KNOWLEDGE.relay_defaults if case in row.cases and "anthropic" in row.dialects}
    assert {row.id for row in found.defaults} == ids


# What the vendor takes


GEO = {"inference_geo": "us"}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, message(usage=GEO), "same"),
        (200, message(usage={"inference_geo": "global"}), "dropped"),
        (200, message(usage={"inference_geo": "eu"}), "clamped"),
        (200, message(usage={"inference_geo": None}), "dropped"),
        (200, refusal("x"), "unclear"),
        (400, refusal("x"), "refused"), (404, refusal("x"), "refused"), (499, refusal("x"), "refused"), (500, refusal("x"), "unclear"),
        (401, refusal("x"), "unclear"), (403, refusal("x"), "unclear"), (429, refusal("x"), "unclear"), (399, refusal("x"), "unclear"),
        (400, refusal('HTTP 529: {"error": {"message": "Overloaded"}}'), "unclear"),
    ],
)  # fmt: skip
def test_what_a_legal_value_comes_to(status, body, expected):
    found = compared("inference_geo_us", (status, body))
    assert found is not None
    assert found.outcome == expected
    assert (found.said is None) is (status == 200)


def test_a_refused_legal_value_keeps_its_words():
    found = compared("inference_geo_us", (400, refusal("no such region")))
    assert found is not None
    assert found.said is not None
    assert (found.said.status, found.said.text) == (400, "no such region")


@pytest.mark.parametrize(
    ("software", "expected"), [("new-api", "default"), ("unknown", "dropped"), ("hubrelay", "dropped")]
)
def test_a_legal_value_that_software_takes_out(software, expected):
    assert outcome("inference_geo_us", (200, message()), software=software) == expected
    assert outcome("inference_geo_us", (200, message(usage={"inference_geo": "eu"})), software=software) == "clamped"


def test_all_that_shows_a_value_must_agree():
    """Two places in the answer: the first that differs decides."""
    row = KNOWLEDGE.refusal_of("anthropic", "inference_geo_us", MODEL, START.date(), refused=False)
    assert row is not None
    both = row.model_copy(update={"reads": {"/usage/inference_geo": "us", "/type": "message"}})
    known = KNOWLEDGE.model_copy(update={"refusals": (both,)})
    for answer, expected in (
        (message(usage=GEO), "same"), (message(), "dropped"), (message(usage=GEO, type="other"), "clamped"),
    ):  # fmt: skip
        evidence = run({"inference_geo_us": (200, answer)}, live=False)
        found = compare(own(evidence), Scene.of(evidence, known))
        assert found is not None
        assert found.outcome == expected


@pytest.mark.parametrize(
    ("case", "answer", "expected"),
    [
        ("stop_word", message(content=text("word0\nword1"), stop_reason="stop_sequence"), "same"),
        ("stop_word", message(content=text("word0\nword1\nSTOP")), "not_honoured"),
        ("stop_word", message(content=text("Sure!")), "unclear"),
        ("output_bound", message(content=text("\n".join(LIST))), "not_honoured"),
        ("output_bound", message(stop_reason="max_tokens", usage={"output_tokens": 32}), "same"),
        ("output_bound", message(stop_reason="max_tokens", usage={"output_tokens": 12}), "clamped"),
    ],
)
def test_effects_are_looked_for_in_what_was_written(case, answer, expected):
    assert outcome(case, (200, answer)) == expected


def test_a_vendor_that_has_changed_its_mind():
    """The record says refused; today the vendor takes it, and so may the relay."""
    for status, expected in ((200, "same"), (400, "unclear")):
        assert outcome("unknown_field", (status, message()), official={"unknown_field": (200, message())}) == expected


@pytest.mark.parametrize(
    ("plain", "vendor", "expected"),
    [
        (["global"], None, "dropped"),
        ([None], None, "unclear"),
        (["global", None], None, "unclear"),
        ([None], [None], "dropped"),  # the vendor says it where it was asked, and nothing elsewhere
        ([None], ["global"], "unclear"),
        ([None], ["us"], "unclear"),
    ],
)
def test_a_value_that_is_not_told(plain, vendor, expected):
    usual = [message(place + 1, usage={"inference_geo": word}) for place, word in enumerate(plain)]

    def beside(evidence: Evidence) -> Evidence:
        more = [answered(70 + n, f"mirror.x{n}", message(usage={"inference_geo": word}), moment=at(90), side="official")
                for n, word in enumerate(vendor or [])]  # fmt: skip
        return evidence.model_copy(update={"exchanges": (*evidence.exchanges, *more)})

    silent = (200, message(9, usage={"inference_geo": None}))
    assert outcome("inference_geo_us", silent, plain=usual, change=beside) == expected


# Whether another answered


def signs(
    answer: dict[str, Any], *, plain: list[dict[str, Any]] | None = None, headers: Any = (), usual_headers: Any = ()
) -> tuple[str, ...]:
    evidence = run({"temperature_range": (200, answer)}, plain=plain, headers=headers)

    def with_headers(e: Exchange) -> Exchange:
        return (
            e.model_copy(update={"response": e.response.model_copy(update={"headers": usual_headers})})
            if e.step.startswith("s")
            else e
        )  # type: ignore[union-attr]

    evidence = evidence.model_copy(update={"exchanges": tuple(map(with_headers, evidence.exchanges))})
    exchange = evidence.of_step("p.temperature_range")
    assert exchange is not None
    return reroute_signs(exchange, Scene.of(evidence, KNOWLEDGE))


NAMED = "x-litellm-model-name"
TRIED = "x-litellm-attempted-fallbacks"


@pytest.mark.parametrize(
    ("answer", "more", "found"),
    [
        (message(9), {}, ()),
        (message(9), {"headers": ((TRIED, "1"),)}, ("fallback_header",)),
        (message(9), {"headers": ((TRIED.upper(), " 2 "),)}, ("fallback_header",)),
        (message(9), {"headers": ((TRIED, "0"),)}, ()),
        (message(9), {"headers": ((TRIED, "none"),)}, ()),
        (message(9), {"headers": (("x-other", "1"),)}, ()),
        (message(9, model="gpt-4o-mini"), {}, ("model",)),
        (message(9, model="claude-sonnet-5.5"), {}, ()),
        (message(9, model="gpt-4o-mini"), {"plain": [message(1), message(2, model="gpt-4o-mini")]}, ()),
        (message(9, model=7), {}, ()),
        (message(9), {"plain": [message(1, model=7)]}, ()),
        (message(9), {"headers": ((NAMED, "gpt-4o"),), "usual_headers": ((NAMED, MODEL),)}, ("model_header",)),
        (message(9), {"headers": ((NAMED, f"anthropic/{MODEL}"),), "usual_headers": ((NAMED, MODEL),)}, ()),
        (message(9), {"headers": ((NAMED, "gpt-4o"),)}, ()),
        (message(9), {"usual_headers": ((NAMED, MODEL),)}, ()),
        (message(9, prefix="msg_bdrk_01"), {}, ("channel",)),
        (message(9, prefix="msg_bdrk_01"), {"plain": [message(1), message(2, prefix="msg_bdrk_01")]}, ()),
        (message(9, prefix="msg_bdrk_01"), {"plain": [message(1), message(2, prefix="other_")]}, ()),
        (message(9, prefix="other_"), {}, ()),
        (message(9, id=7), {}, ()),
        (
            message(9, model="gpt-4o-mini", prefix="msg_bdrk_01"),
            {"headers": ((TRIED, "1"), (NAMED, "gpt-4o")), "usual_headers": ((NAMED, MODEL),)},
            ("fallback_header", "model", "model_header", "channel"),
        ),
        # an id that means something in another dialect only names no channel here
        (message(9, prefix="other_"), {"plain": [message(1, prefix="msg_bdrk_01")]}, ()),
    ],
)  # fmt: skip
def test_what_shows_that_another_answered(answer, more, found):
    assert signs(answer, **more) == found


def test_a_fallback_says_by_which_signs():
    found = compared("temperature_range", (200, message(9, model="gpt-4o-mini")))
    assert found is not None
    assert (found.outcome, found.signs, found.official, found.said) == ("rerouted", ("model",), LIVE, None)


# What a case is about, and whose software shows


@pytest.mark.parametrize(
    ("body", "headers", "fields"),
    [
        ({"model": "m", "messages": [], "max_tokens": 1, "top_p": 2, "a": 1}, {}, ("a", "top_p")),
        ({"input": "x", "max_completion_tokens": 1, "max_output_tokens": 2}, {}, ("temperature_range",)),
        ({"model": "m"}, {"z-beta": "1", "b": "2"}, ("b", "z-beta")),
        ({"seed": 1}, {"b": "2"}, ("seed", "b")),
    ],
)
def test_which_fields_a_case_is_about(body, headers, fields):
    found = compared("temperature_range", (200, message()), step={"body": body, "headers": headers})
    assert found is not None
    assert found.fields == fields


def test_every_program_that_shows_counts_and_an_unknown_one_is_none():
    both = run({"temperature_range": (200, message())}, software="portkey", headers=(("x-litellm-call-id", "a"),))
    assert Scene.of(both, KNOWLEDGE).software == {"portkey", "litellm"}
    assert Scene.of(run({"temperature_range": (200, message())}), KNOWLEDGE).software == frozenset()
