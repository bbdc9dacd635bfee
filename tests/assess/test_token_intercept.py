"""The fixed part of what is billed, from one repeated line: what it shows, what it leaves open, what it never says."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess import assess
from relay_audit.assess.token_intercept import assess_token_intercept
from relay_audit.assess.token_parity import assess_token_parity
from relay_audit.catalog import load_packs
from relay_audit.evidence import Evidence, TargetFacts
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Step
from relay_audit.quote import Line, Quote, UnitPrice
from relay_audit.target import Claim
from tests.assess.evidence_builders import BOUND, KNOWLEDGE, START, answered, at, plan_of, said

PACK = load_packs().pack("openai_chat")
LINE = "bakevoba hammer sofa chalk corner pillow meadow guitar stone."
CLOSING = {"ascii": "Reply with the single word OK.", "cjk": "只回复一个词：OK。"}
TIMES = (1, 2, 4, 8)
# gpt-6: frame at most 7, closing at most ceil(30 × 0.25) = 8 (ascii) and 8 × 1.0 + 2 × 0.25 → 9 (cjk)
FRAME, CLOSED = 7, {"ascii": 8, "cjk": 9}


def run(
    billed: dict[str, Sequence[int | None]],
    *,
    model: str = "gpt-6-sol",
    start: dt.datetime = START,
    counter: bool = False,
    **more: Any,
) -> Evidence:
    """Billed input per script, for 1, 2, 4 and 8 repetitions; None is a request without an answer."""
    steps, exchanges = [], []
    for script, amounts in billed.items():
        for times, amount in zip(TIMES, amounts, strict=True):
            name = f"{script}.{times}"
            content = f"{LINE}\n" * times + CLOSING[script]
            body = {"model": model, "max_completion_tokens": 16, "messages": [{"role": "user", "content": content}]}
            steps.append(
                Step(id=name, probe="openai_chat/token_intercept", request="repeated", side="relay", stage="probe",
                     cost="may_charge", path="/v1/chat/completions", body=body, bound=BOUND,
                     factors={"script": script, "times": times})
            )  # fmt: skip
            answer = {"usage": {"prompt_tokens": amount, "completion_tokens": 4}}
            status = 503 if amount is None else 200
            exchanges.append(
                answered(len(exchanges) + 1, name, answer, moment=at(len(exchanges), start), status=status)
            )
    facts = TargetFacts(
        name="line", model=model, official_model=model, dialect="openai_chat", claim=Claim(channel="openai"),
        relay_origin="https://relay.example", user_agent="x",
    )  # fmt: skip
    return Evidence(
        run_id="r", tool_version="0", started_at=start, status="completed", target=facts, pack=PACK,
        plan=plan_of(steps, counter=counter), exchanges=tuple(exchanges), **more,
    )  # fmt: skip


def billed(constant: float, slope: float = 14, factor: float = 1.0) -> list[int]:
    return [round((constant + slope * times) * factor) for times in TIMES]


def judged(evidence: Evidence, knowledge: Knowledge = KNOWLEDGE) -> Any:
    found = assess_token_intercept(evidence, knowledge)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("hidden", "code", "severity"),
    [
        (0, "tokens.match", "info"),
        (8, "tokens.match", "info"),
        (10, "tokens.match", "info"),
        (11, "tokens.inconclusive_offset", "low"),
        (50, "tokens.inconclusive_offset", "low"),
        (52, "tokens.constant_surplus", "medium"),
        (100, "tokens.constant_surplus", "medium"),
        (201, "tokens.constant_surplus", "medium"),
        (202, "tokens.constant_surplus", "high"),
        (508, "tokens.constant_surplus", "high"),
        (4380, "tokens.constant_surplus", "high"),
    ],
)
def test_a_constant_by_its_size(hidden, code, severity):
    """Template 6, closing 7: what is hidden shows from the margin of frame and closing on."""
    hit = judged(run({"ascii": billed(13 + hidden), "cjk": billed(14 + hidden, 11)}))
    assert (hit.code, hit.severity) == (code, severity)
    assert hit.params["road"] == "intercept"
    assert hit.basis == "known_list"
    assert len(hit.exchanges) == 8
    assert hit.observed["slope=ascii"] == "14.0"
    assert hit.observed["intercept=ascii"] == 13 + hidden


def test_the_figures_of_an_accusation():
    hit = judged(run({"ascii": billed(13 + 508), "cjk": billed(14 + 508, 11)}))
    assert hit.params["low"] == hit.params["surplus"] == 13 + 508 - FRAME - CLOSED["ascii"]
    assert hit.params["billed"] == 14 + 508
    assert hit.params["official"] == FRAME + CLOSED["cjk"]
    assert hit.expected == {"intercept": f"0 to {FRAME + CLOSED['cjk']}"}
    assert hit.confidence == "strong"
    assert (hit.outcome, hit.accusation) == ("mismatch", True)


@pytest.mark.parametrize("factor", [1.3, 2.0, 3.0])
def test_a_multiplier_is_never_a_constant(factor):
    hit = judged(run({"ascii": billed(13, 14, factor), "cjk": billed(14, 11, factor)}))
    assert hit.code in ("tokens.match", "tokens.inconclusive_offset")
    assert not hit.accusation


@pytest.mark.parametrize(("factor", "code"), [(1.0, "tokens.match"), (2.0, "tokens.inconclusive_offset")])
def test_a_family_with_a_default_system_text(factor, code):
    """A template of seventy is known of it; doubled it is 160, and still no constant."""
    hit = judged(run({"ascii": billed(77, 14, factor), "cjk": billed(78, 11, factor)}, model="gpt-oss-120b"))
    assert hit.code == code
    assert judged(run({"ascii": billed(77 + 508)}, model="gpt-oss-120b")).code == "tokens.constant_surplus"


def test_a_few_tokens_of_jitter_change_nothing():
    clean = [amount + noise for amount, noise in zip(billed(13), (2, -2, 2, -2), strict=True)]
    loud = [amount + noise for amount, noise in zip(billed(521), (2, -2, 1, -1), strict=True)]
    assert judged(run({"ascii": clean})).code == "tokens.match"
    assert judged(run({"ascii": loud})).code == "tokens.constant_surplus"


def test_one_script_above_the_margin_is_left_open():
    hit = judged(run({"ascii": billed(13), "cjk": billed(14 + 300, 11)}))
    assert (hit.code, hit.params["offset"]) == ("tokens.inconclusive_offset", 14 + 300 - FRAME - CLOSED["cjk"])


def test_some_of_the_requests():
    rows = billed(13)
    rows[1] += 508
    hit = judged(run({"ascii": rows, "cjk": billed(14, 11)}))
    assert hit.code == "tokens.intermittent_surplus"
    assert (hit.params["n"], hit.params["of"], hit.params["surplus"]) == (1, 8, 508)
    assert (hit.severity, hit.confidence) == ("medium", "strong")


def test_most_of_the_requests():
    rows = billed(13 + 508)
    rows[2] -= 508
    hit = judged(run({"ascii": rows}))
    assert hit.code == "tokens.intermittent_surplus"
    assert (hit.params["n"], hit.params["of"], hit.params["surplus"]) == (3, 4, 508)


@pytest.mark.parametrize(
    "rows",
    [
        [27, 549, 69, 633],  # two and two: which line is the line?
        [27, 41 + 30, 69, 125],  # one beside it, by less than a surplus
        [500, 41, 900, 20],
    ],
)
def test_no_line_no_verdict(rows):
    hit = judged(run({"ascii": rows}))
    assert (hit.code, hit.params["reason"]) == ("tokens.inconclusive", "unexplained_spread")


def test_two_different_jumps_are_no_constant():
    one, other = billed(13), billed(14, 11)
    one[1] += 508
    other[2] += 90
    assert judged(run({"ascii": one, "cjk": other})).code == "tokens.inconclusive"


@pytest.mark.parametrize("amounts", [[27, None, None, None], [None] * 4, [27, 41, None, None]])
def test_too_few_answers(amounts):
    hit = judged(run({"ascii": amounts}))
    assert (hit.code, hit.params["reason"]) == ("tokens.inconclusive", "too_few_answers")


def test_three_of_four_are_enough():
    assert judged(run({"ascii": [27, 41, None, 125]})).code == "tokens.match"


@pytest.mark.parametrize(("constant", "code"), [(70, "tokens.match"), (250, "tokens.constant_surplus")])
def test_a_default_system_text_of_open_weights_has_room_and_a_hidden_prompt_has_none(constant, code):
    found = judged(run({"ascii": billed(constant), "cjk": billed(constant)}, model="qwen2.5-72b-instruct"))
    assert found.code == code


def test_a_family_nobody_measured_is_reported_and_not_judged():
    hit = judged(run({"ascii": billed(600)}, model="kimi-k2.6"))
    assert (hit.code, hit.params["reason"]) == ("tokens.inconclusive", "no_known_frame")
    assert hit.observed == {"intercept=ascii": 600, "slope=ascii": "14.0"}


@pytest.mark.parametrize(
    ("days", "code", "severity"), [(180, "tokens.constant_surplus", "high"), (181, "tokens.constant_surplus", "info")]
)
def test_old_knowledge_accuses_nobody(days, code, severity):
    frame = next(row for row in KNOWLEDGE.frames if row.id == "frame.gpt_6")
    start = dt.datetime.combine(frame.observed + dt.timedelta(days=days), dt.time(12), dt.UTC)
    hit = judged(run({"ascii": billed(521)}, start=start))
    assert (hit.code, hit.severity, hit.accusation) == (code, severity, severity != "info")


def test_knowledge_past_twice_its_term_says_nothing():
    hit = judged(run({"ascii": billed(521)}, start=dt.datetime(2031, 1, 1, tzinfo=dt.UTC)))
    assert hit.code == "tokens.inconclusive"


def test_with_a_counter_it_is_silent():
    assert assess_token_intercept(run({"ascii": billed(521)}, counter=True), KNOWLEDGE) == []


def test_a_plan_without_such_a_line_is_silent():
    assert assess_token_intercept(run({}), KNOWLEDGE) == []


# What is said, whole


def quoted(per_million: str) -> Quote:
    zero = Decimal(0)
    price = UnitPrice(input=Decimal(per_million), output=zero, source="list", observed=START.date())
    line = Line(id="a", probe="a", side="relay", count=1, unit_price=price, expected=zero, at_most=zero, hold=zero)
    return Quote(plan_digest="", seed=1, lines=(line,), steps=(), issued_at=START, expires_at=START, counted=False,
                 needs_explicit_ceiling=False)  # fmt: skip


EXCHANGES = tuple(f"X{n:04}" for n in range(1, 9))
BASE = {"check": 2, "basis": "known_list"}


def fresh(**more: Any) -> dict[str, Any]:
    """Both scripts: 13 and 14 without anything hidden."""
    return said(
        judged(run({"ascii": billed(13 + more.pop("hidden", 0)), "cjk": billed(14 + more.pop("other", 0), 11)}, **more))
    )


def told(ascii_: int, cjk: int) -> dict[str, Any]:
    return {"intercept=ascii": ascii_, "intercept=cjk": cjk, "slope=ascii": "14.0", "slope=cjk": "11.0"}


def test_a_constant_says_what_it_rests_on_and_what_it_costs():
    assert fresh(hidden=508, other=508, quote=quoted("2")) == {
        "code": "tokens.constant_surplus", **BASE, "outcome": "mismatch", "severity": "high", "confidence": "strong",
        "exchanges": EXCHANGES, "expected": {"intercept": "0 to 16"}, "observed": told(521, 522),
        "params": {"n": 8, "surplus": 506, "low": 506, "high": 506, "official": 16, "billed": 522, "per_1000_calls": "1.012",
                   "condition": "", "road": "intercept"},
    }  # fmt: skip
    unpriced = quoted("2").model_copy(update={"lines": ()})
    assert fresh(hidden=508, other=508, quote=unpriced)["params"]["per_1000_calls"] == ""
    assert fresh(hidden=508, other=508)["params"]["per_1000_calls"] == ""
    uneven = fresh(hidden=508, other=208)["params"]
    assert (uneven["surplus"], uneven["low"], uneven["high"], uneven["billed"]) == (206, 206, 506, 521)


def test_nothing_hidden_says_how_much_that_could_miss():
    assert fresh() == {
        "code": "tokens.match", **BASE, "outcome": "match", "severity": "info", "exchanges": EXCHANGES,
        "expected": {"intercept": "0 to 16"}, "observed": told(13, 14),
        "params": {"n": 8, "offset": 16, "share_bound": "31.2", "road": "intercept"},
    }  # fmt: skip


def test_a_little_more_says_how_much():
    assert fresh(hidden=20, other=30) == {
        "code": "tokens.inconclusive_offset", **BASE, "outcome": "inconclusive", "severity": "low", "exchanges": EXCHANGES,
        "expected": {"intercept": "0 to 16"}, "observed": told(33, 44),
        "params": {"n": 8, "offset": 28, "road": "intercept"},
    }  # fmt: skip


def test_a_constant_on_some_requests_says_on_how_many():
    one, other = billed(13), billed(14, 11)
    one[1] += 508
    other[3] += 506
    assert said(judged(run({"ascii": one, "cjk": other}))) == {
        "code": "tokens.intermittent_surplus", **BASE, "outcome": "mismatch", "severity": "medium", "confidence": "strong",
        "exchanges": EXCHANGES, "expected": {"intercept": "0 to 16"}, "observed": {**told(13, 14), "answers": "2 of 8"},
        "params": {"n": 2, "of": 8, "surplus": 507, "share_low": "3.2", "share_high": "65.1", "road": "intercept"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "reason", "n", "observed"),
    [
        (run({"ascii": [27, 41, None, None], "cjk": [None, None, None, 9]}), "unexplained_spread", 3, {}),
        (run({"ascii": [27, 41, None, None], "cjk": [None] * 4}), "too_few_answers", 2, {}),
        (
            run({"ascii": billed(600)}, model="kimi-k2.6"),
            "no_known_frame",
            4,
            {"intercept=ascii": 600, "slope=ascii": "14.0"},
        ),
    ],
)
def test_what_is_open_says_why(evidence, reason, n, observed):
    one = said(judged(evidence))
    assert len(one.pop("exchanges")) == n
    expected = {"code": "tokens.inconclusive", **BASE, "outcome": "inconclusive", "severity": "info", "confidence": "weak",
                "params": {"n": n, "reason": reason, "road": "intercept"}}  # fmt: skip
    assert one == expected | ({"observed": observed} if observed else {})


@pytest.mark.parametrize(
    ("days", "severity", "outcome", "confidence"),
    [(0, "high", "mismatch", "strong"), (1, "info", "inconclusive", "supporting")],
)
def test_how_old_a_frame_may_be(days, severity, outcome, confidence):
    frame = next(row for row in KNOWLEDGE.frames if row.id == "frame.gpt_6")
    start = dt.datetime.combine(frame.observed + dt.timedelta(days=frame.term_days + days), dt.time(12), dt.UTC)
    hit = judged(run({"ascii": billed(521)}, start=start))
    assert (hit.severity, hit.outcome, hit.confidence) == (severity, outcome, confidence)
    quiet = judged(run({"ascii": billed(13)}, start=start))
    assert (quiet.severity, quiet.outcome, quiet.confidence) == ("info", "match", "weak" if days else "supporting")
    little = judged(run({"ascii": billed(33)}, start=start))
    assert (little.severity, little.confidence) == (("info", "weak") if days else ("low", "supporting"))
    rows = billed(13)
    rows[1] += 508
    some = judged(run({"ascii": rows}, start=start))
    assert (some.code, some.severity) == ("tokens.intermittent_surplus", "medium"), "it rests on the run's own answers"
    gone = start + dt.timedelta(days=frame.term_days)
    assert judged(run({"ascii": billed(521)}, start=gone)).code == "tokens.inconclusive" or not days


# Where a line ends and a jump begins


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([27, 41 + 4, None, 125], "tokens.match"),  # four beside the line through two others
        ([27, 41 + 5, None, 125], "tokens.inconclusive"),
        ([27, 41, 69 + 50, 125], "tokens.intermittent_surplus"),
        ([27, 41, 69 + 49, 125], "tokens.inconclusive"),
        ([27, 27, 27, 27], "tokens.inconclusive"),  # nothing rises
        ([125, 69, 41, 27], "tokens.inconclusive"),
        ([10, 24, 52, 108], "tokens.match"),  # begins four below zero
        ([9, 23, 51, 107], "tokens.inconclusive"),  # and five: no such line
    ],
)
def test_the_grain_of_a_line(rows, code):
    assert judged(run({"ascii": rows})).code == code


def test_jumps_of_two_scripts_are_one_within_four_tokens():
    for apart, code in ((4, "tokens.intermittent_surplus"), (5, "tokens.inconclusive")):
        one, other = billed(13), billed(14, 11)
        one[1] += 508
        other[2] += 508 + apart
        assert judged(run({"ascii": one, "cjk": other})).code == code


def test_a_base_that_is_itself_too_high_is_no_occasional_surplus():
    """Up to eight beyond frame and closing is a base; above it the others carry something too."""
    for base, code in ((23, "tokens.intermittent_surplus"), (24, "tokens.inconclusive")):
        rows = billed(base)
        rows[1] += 508
        assert judged(run({"ascii": rows})).code == code


@pytest.mark.parametrize(("intercept", "code"), [(184, "tokens.inconclusive_offset"), (185, "tokens.constant_surplus")])
def test_twice_the_frame_and_the_closing_is_a_doubling(intercept, code):
    """A frame of eighty: doubled tokens alone move the intercept that far."""
    assert judged(run({"ascii": billed(intercept)}, model="gpt-oss-120b")).code == code


def test_the_closing_is_the_last_line_of_the_longest_text_and_the_script_may_be_unnamed():
    whole = run({"ascii": billed(14)})
    steps = []
    for step in whole.plan.steps:
        messages = [*step.body["messages"], {"role": "user", "content": "~" * 30 + "\n" + "~" * 3}]
        factors = {"times": step.factors["times"]}
        steps.append(step.model_copy(update={"body": {**step.body, "messages": messages}, "factors": factors}))
    hit = judged(whole.model_copy(update={"plan": whole.plan.model_copy(update={"steps": tuple(steps)})}))
    assert hit.expected == {"intercept": f"0 to {FRAME + CLOSED['ascii']}"}
    assert hit.observed == {"intercept=": 14, "slope=": "14.0"}


def test_cached_tokens_of_a_vendor_that_caches_by_itself_are_nobody_s_doing():
    evidence = run({"ascii": billed(13)})
    rows = []
    for exchange in evidence.exchanges:
        usage = {**exchange.answer()["usage"], "prompt_tokens_details": {"cached_tokens": 5}}
        body = exchange.response.model_copy(update={"body": json.dumps({"usage": usage})})
        rows.append(exchange.model_copy(update={"response": body}))
    found, _ = assess(evidence.model_copy(update={"exchanges": tuple(rows)}), KNOWLEDGE)
    assert [f.code for f in found if f.check == 2] == ["tokens.match"]


def later(evidence: Evidence, rows: list[tuple[str, int, int | None]], **more: Any) -> Evidence:
    """The run with later answers: content, what the relay bills, and what the vendor bills where it was asked as well."""
    steps, exchanges = [], []
    for i, (content, billed_input, due) in enumerate(rows):
        body = {
            "model": "gpt-6-sol",
            "max_completion_tokens": 24,
            "messages": [{"role": "user", "content": content}],
            **more,
        }
        own = Step(id=f"later.{i}", probe="openai_chat/repeated", request="same", side="relay", stage="probe",
                   cost="may_charge", path="/v1/chat/completions", body=body, bound=BOUND)  # fmt: skip
        for step, side, amount in ((own, "relay", billed_input), (None, "official", due)):
            if amount is not None:
                made = step or own.model_copy(update={"id": f"with.{i}", "side": "official", "mirrors": own.id})
                n = len(evidence.exchanges) + len(exchanges) + 1
                answer = {"usage": {"prompt_tokens": amount, "completion_tokens": 4}}
                steps.append(made)
                exchanges.append(answered(n, made.id, answer, moment=at(n), side=side))
    assert evidence.plan is not None
    plan = evidence.plan.model_copy(update={"steps": (*evidence.plan.steps, *steps)})
    return evidence.model_copy(update={"plan": plan, "exchanges": (*evidence.exchanges, *exchanges)})


THRICE = f"{LINE}\n" * 3 + CLOSING["ascii"]


@pytest.mark.parametrize(("added", "code"), [(0, "tokens.match"), (200, "tokens.intermittent_surplus")])
def test_the_same_line_sent_later_for_another_question_lies_on_the_line_or_shows_who_waited(added, code):
    once = run({"ascii": billed(13), "cjk": billed(14, 11)})
    hit = judged(later(once, [(THRICE, 13 + 3 * 14 + added, None), (THRICE, 13 + 3 * 14 + added, None)]))
    assert hit.code == code
    assert (hit.params["n"], hit.params.get("of")) == ((2, 10) if added else (10, None))


@pytest.mark.parametrize(
    "content", [THRICE.replace("sofa", "couch"), THRICE.replace("OK", "YES"), CLOSING["ascii"], f"x\n{THRICE}"]
)
def test_another_text_is_no_point_of_the_line(content):
    once = run({"ascii": billed(13), "cjk": billed(14, 11)})
    assert judged(later(once, [(content, 500, None)])) == judged(once)


def mirrored(evidence: Evidence) -> Evidence:
    """The vendor was asked each line too, and counts as the relay does."""
    assert evidence.plan is not None
    steps = [
        s.model_copy(update={"id": f"with.{s.id}", "side": "official", "mirrors": s.id}) for s in evidence.plan.steps
    ]
    told = [
        e.model_copy(update={"id": f"Y{i}", "step": f"with.{e.step}", "side": "official"})
        for i, e in enumerate(evidence.exchanges)
    ]
    plan = evidence.plan.model_copy(update={"steps": (*evidence.plan.steps, *steps)})
    return evidence.model_copy(update={"plan": plan, "exchanges": (*evidence.exchanges, *told)})


LATER = [("one", 30, 30), ("two", 240, 40), ("three", 250, 50)]


@pytest.mark.parametrize(
    ("rows", "more", "code", "n"),
    [
        (LATER, {}, "tokens.intermittent_surplus", 2),
        (LATER, {"response_format": {"type": "json_object"}}, "tokens.match", 8),  # it may be written into the prompt
        ([("one", 30, 30), ("two", 41, 40)], {}, "tokens.match", 8),
        ([("one", 30, 30), ("two", 240, None)], {}, "tokens.match", 8),
        ([("one", 60, 30), ("two", 240, 40)], {}, "tokens.match", 8),  # neither as counted nor one constant
    ],
)
def test_bodies_that_both_sides_answered_later_show_who_was_honest_for_the_first_requests_only(rows, more, code, n):
    evidence = later(mirrored(run({"ascii": billed(13), "cjk": billed(14, 11)})), rows, **more)
    [hit] = assess_token_parity(evidence, KNOWLEDGE)
    assert (hit.code, hit.params["n"]) == (code, n)
