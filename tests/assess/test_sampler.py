"""A low temperature, judged at each of its boundaries: what is drawn, what wavers, what is stored and what is not compared."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

from relay_audit.assess import sampler
from relay_audit.assess.parameter_parity import assess_parameter_parity
from relay_audit.books import SiteFacts
from relay_audit.bounds import astray, stray_chance
from relay_audit.catalog import load_packs
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.lab.tokenizer import count_body
from relay_audit.plan import Plan, Question, Step, make_plan
from relay_audit.wording import Wording
from tests.assess.evidence_builders import KNOWLEDGE, START, answered, at, minted, run_of

PACKS = load_packs()
TAKES = "claude-sonnet-4-5"
MODELS = {"anthropic": TAKES, "openai_chat": "gpt-4o", "openai_responses": "gpt-4.1-mini"}
STILL, THREE, TWO = [0] * 7, [0, 0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 0, 1, 2]
"""Which word each of the seven answers is: all alike, three that stray, two that stray."""
PAIR = [0, 0, 0, 0, 1, 1, 1]
"""Between two words."""


def planned(model: str = TAKES, dialect: str = "anthropic", profile: str = "thorough", seed: int = 1) -> Plan:
    facts = KNOWLEDGE.model(model)
    question = Question(
        model=model, official_model=model, dialect=dialect, profile=profile, checks=(4,), software="new-api", counter=False,
        official=True, family=facts.family if facts else "", refuses=facts.refuses if facts else {},
    )  # fmt: skip
    return make_plan(question, PACKS.pack(dialect), PACKS.probes, Wording(PACKS.wordlists, seed), seed)


def drawn(plan: Plan, side: str = "relay") -> list[Step]:
    return [step for step in plan.steps if "drawn" in step.factors and step.side == side]


PLAN = planned("gpt-4o", "openai_chat")
"""The one with seven answers to each question; the answers here are Claude's."""
PLAN = PLAN.model_copy(update={"steps": tuple(step for step in PLAN.steps if "drawn" in step.factors)})
Answers = dict[str, list[int]]


def run(
    relay: Answers, vendor: Answers | None, *, usual: tuple[int, int] = (4, 5), software: str = "new-api", tokens: int = 40,
    lag_s: int = 5, same_id: str = "", text: str = "{word}", statuses: dict[str, int] | None = None, drift: int = 0,
    start: dt.datetime = START, first: int = 0,
) -> Evidence:  # fmt: skip
    """The plan's own steps. Word 0 is one word of a question, word 1 another; fewer answers than steps: the rest failed."""
    exchanges: list[Exchange] = []
    left = {
        (side, key): list(words)
        for side, by in (("relay", relay), ("official", vendor or {}))
        for key, words in by.items()
    }
    status = {"relay": 200, "official": 200, **(statuses or {})}
    moments: dict[str, int] = {}
    for step in PLAN.steps:
        key, low = str(step.factors["drawn"]), "temperature" in step.body
        if step.side == "official" and vendor is None:
            continue
        moment = moments.setdefault(step.mirrors or step.id, len(moments) + 1)
        names = sorted(sampler.offered(step))
        queue = left[step.side, key] if low else [usual["ab".index(key)]]
        own, body = (
            (status[step.side], {"type": "error", "error": {"type": "x", "message": "no"}}) if low else (200, {})
        )
        if queue and own == 200:
            body = said(text.format(word=names[queue.pop(0)]), len(exchanges), tokens if step.side == "relay" else 40)
            body["usage"]["input_tokens"] += drift * moment * (step.side == "relay")
            if same_id and step.side == "relay":
                body["id"] = {"question": f"msg_01{key}", "all": "msg_01all"}[same_id]
        else:
            own = 529 if own == 200 else own
        late = at(moment + (lag_s if step.side == "official" else 0), start)
        exchanges.append(
            answered(len(exchanges) + 1, step.id, body, moment=late, status=own, side=step.side, sent=step.body)
        )
    return run_of(
        exchanges, [], plan=PLAN, model=TAKES, start=start, site=SiteFacts(software=software), is_vendor=True
    )  # fmt: skip


def said(text: str, number: int, tokens: int) -> dict[str, Any]:
    return {"id": f"msg_01{minted(START, number)}", "type": "message", "model": TAKES, "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}] if text else [],
            "usage": {"input_tokens": tokens, "output_tokens": 3}}  # fmt: skip


def found(relay: tuple[list[int], list[int]], vendor: tuple[list[int], list[int]] | None, **how: Any) -> list[Finding]:
    by = {"a": relay[0], "b": relay[1]}
    return assess_parameter_parity(run(by, {"a": vendor[0], "b": vendor[1]} if vendor else None, **how), KNOWLEDGE)


def weight(relay: tuple[list[int], list[int]], vendor: tuple[list[int], list[int]] | None, **how: Any) -> str:
    """The finding's severity, `match` with its parameters, or nothing."""
    return ", ".join(
        "match" if f.code == "params.matches" else f"{f.code} {f.severity}" for f in found(relay, vendor, **how)
    )


LOST = "params.not_honoured medium"
ALONE = "params.not_honoured low"
QUIET = (STILL, STILL)


@pytest.mark.parametrize(
    ("relay", "vendor", "says"),
    [
        ((THREE, THREE), QUIET, LOST),
        ((THREE, TWO), QUIET, ""),  # five strays: by chance more often than in one run of a hundred
        (([0, 0, 0, 1, 2, 3, 4], TWO), QUIET, LOST),
        ((THREE, PAIR), QUIET, ""),  # two words: undecided, or two hosts
        ((PAIR, PAIR), QUIET, ""),
        (([0, 1, 2, 3, 4, 5, 6], STILL), QUIET, ""),  # one question alone
        ((THREE, THREE), (STILL, [0, 0, 0, 0, 0, 0, 1]), ""),  # then six are too few …
        ((THREE, [0, 1, 2, 3, 4, 5, 6]), (STILL, [0, 0, 0, 0, 0, 0, 1]), LOST),  # … and nine are not
        (
            ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
            (STILL, TWO),
            "",
        ),  # a vendor that is undecided is no yardstick
        (
            ([3, 4, 5, 3, 3, 3, 6], [3, 4, 5, 3, 3, 3, 6]),
            QUIET,
            LOST,  # whichever word is its commonest
        ),
        (([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]), (STILL, PAIR), LOST),  # that wavers between two it still is
        ((THREE, THREE), (STILL, PAIR), ""),
        (([3] * 7, [3] * 7), QUIET, "match"),  # another word than the vendor's, each time: nothing strays
        (([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7]), QUIET, LOST),
    ],
)
def test_what_is_drawn_is_told_from_what_wavers(relay: Any, vendor: Any, says: str) -> None:
    assert weight(relay, vendor) == says


def test_an_accusation_says_what_was_answered_and_how_likely_by_chance() -> None:
    (hit,) = found((THREE, THREE), QUIET)
    assert hit.accusation
    assert (hit.confidence, hit.basis, hit.impact) == ("strong", "live_official", "users")
    assert hit.params == {
        "cases": ["temperature_low"], "fields": ["temperature"], "n": 1, "of": 1, "road": "sampled",
        "sampled": 14, "strays": 6, "vendors": 0, "vendors_of": 14, "chance": "1",
    }  # fmt: skip
    words = sorted(sampler.offered(drawn(PLAN)[0]))
    assert hit.expected["case=temperature_low"].startswith(f"{words[0]} ×7 / ")
    assert hit.observed["case=temperature_low"].startswith(
        f"{words[0]} ×4, {words[1]} ×1, {words[2]} ×1, {words[3]} ×1 / "
    )
    assert len(hit.exchanges) == 28


@pytest.mark.parametrize(
    ("relay", "vendor", "how", "says"),
    [
        ((STILL, STILL), QUIET, {}, "match"),
        ((STILL, STILL), QUIET, {"usual": (0, 5)}, "match"),  # one question shows it
        ((STILL, STILL), QUIET, {"usual": (0, 0)}, ""),  # the same word without the field: nothing was to be seen
        ((STILL, [0, 0, 0, 0, 0, 0, 1]), QUIET, {}, "match"),
        ((STILL, TWO), QUIET, {}, ""),
        ((STILL, STILL), (TWO, TWO), {}, "match"),
        ((STILL, STILL), None, {}, "match"),
        ((STILL, STILL), QUIET, {"tokens": 500}, "match"),  # whatever stands before the question
        ((STILL, STILL), QUIET, {"same_id": "question"}, ""),  # stored answers show nothing
        ((STILL, STILL), QUIET, {"same_id": "all"}, "match"),  # a constant of some software
        ((STILL[:4], STILL[:4]), QUIET, {}, "match"),
        ((STILL[:4], STILL[:3]), QUIET, {}, ""),
        ((STILL, STILL), QUIET, {"text": "**{word}**."}, "match"),
        ((STILL, STILL), QUIET, {"text": "I would rather not."}, ""),
        ((STILL, STILL), QUIET, {"text": ""}, ""),
    ],
)
def test_a_clean_result_needs_a_question_that_is_open_and_answers_that_are_fresh(
    relay: Any, vendor: Any, how: dict[str, Any], says: str
) -> None:
    assert weight(relay, vendor, **how) == says


@pytest.mark.parametrize(("relay", "share"), [((STILL, STILL), "80.7"), ((STILL, [1, *STILL[1:]]), "70.3")])
def test_a_clean_result_says_what_it_would_have_shown(relay: Any, share: str) -> None:
    """0.807 ** 14 is 5 %: a word with that share of the answers would have been given so often by a sampler that is on."""
    (clean,) = found(relay, QUIET)
    assert (clean.params["road"], clean.params["sampled"], clean.params["sampled_share"]) == ("sampled", 14, share)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"tokens": 48}, LOST),
        ({"tokens": 49}, ""),  # the model reads something else, perhaps another thing each time
        ({"same_id": "question"}, ""),
        ({"text": "{word} or {word}"}, LOST),
        ({"lag_s": 900}, LOST),
        ({"lag_s": 901}, ALONE),  # the vendor's answers are of another hour
        ({"statuses": {"official": 529}}, ALONE),
        ({"statuses": {"official": 404}}, ALONE),
        ({"statuses": {"official": 400}}, ""),  # it does not take the field today
        ({"software": "unknown"}, ALONE),  # an honest hop of some software does it
        ({"software": "sub2api"}, "params.relay_default info"),
    ],
)
def test_what_else_may_explain_it_weighs(how: dict[str, Any], says: str) -> None:
    assert weight((THREE, THREE), QUIET, **how) == says


@pytest.mark.parametrize(
    ("relay", "how", "says"),
    [
        ((THREE, THREE), {}, ALONE),
        ((THREE, TWO), {}, ""),
        (([0, 1, 2, 3, 4, 5, 6], PAIR), {}, ""),
        ((THREE, THREE), {"drift": 1}, ""),  # a prompt that grows is another one each time
        ((THREE, THREE), {"start": START + dt.timedelta(days=800)}, ""),  # no record is left to hold it against
    ],
)
def test_without_the_vendor_it_is_a_fact_of_low_weight(relay: Any, how: dict[str, Any], says: str) -> None:
    assert weight(relay, None, **how) == says
    assert all(f.params["road"] == "sampled_alone" for f in found(relay, None, **how))


@pytest.mark.parametrize(("vendor", "official", "says"), [(QUIET, 200, ALONE), (QUIET, 400, ""), (None, 200, ALONE)])
def test_a_temperature_that_is_refused_is_said_unless_the_vendor_does_it_too(
    vendor: Any, official: int, says: str
) -> None:
    assert weight(QUIET, vendor, statuses={"relay": 400, "official": official}) == says


def test_by_itself_it_supports_no_other_loss() -> None:
    """Two fields that are lost support each other; answers that were only drawn are no second one."""
    step = drawn(PLAN)[0]
    stop = step.model_copy(
        update={"id": "p.stop_word", "case": "stop_word", "tier": "users", "factors": {},
                "body": {"model": TAKES, "max_tokens": 16, "stop_sequences": ["STOP"],
                         "messages": [{"role": "user", "content": "Copy:\nword0\nSTOP\nword2"}]}}
    )  # fmt: skip
    evidence = run({"a": THREE, "b": THREE}, None)
    more = answered(900, stop.id, said("word0\nSTOP\nword2", 900, 40), moment=at(100))
    both = evidence.model_copy(update={
        "plan": PLAN.model_copy(update={"steps": (*PLAN.steps, stop)}), "exchanges": (*evidence.exchanges, more),
    })  # fmt: skip
    hits = assess_parameter_parity(both, KNOWLEDGE)
    assert {f.severity for f in hits if f.code == "params.not_honoured"} == {"low"}
    assert {case for f in hits for case in f.params["cases"]} == {"temperature_low", "stop_word"}


# What is sent


@pytest.mark.parametrize("dialect", MODELS)
def test_one_question_is_asked_again_under_other_numbers_and_of_the_vendor_too(dialect: str) -> None:
    plan = planned(MODELS[dialect], dialect)
    relay, vendor = drawn(plan), drawn(plan, "official")
    low = [step for step in relay if "temperature" in step.body]
    assert (len(low), len(relay), len(vendor)) == ((11, 12, 11) if dialect == "anthropic" else (14, 16, 14))
    for step in low:
        assert 0 < step.body["temperature"] < 0.02
        assert len(sampler.offered(step)) == 8
        assert [mirror.body for mirror in vendor if mirror.mirrors == step.id] == [step.body]
    for key in ("a", "b"):
        asked = [step.body.get("messages") or step.body["input"] for step in relay if step.factors["drawn"] == key]
        assert len(asked) >= 5
        assert all(prompt == asked[0] for prompt in asked)
    assert len({str(step.body) for step in low}) == len(low), "a store that looks at the body has nothing to give again"
    again = planned(MODELS[dialect], dialect, seed=2)
    assert not {str(step.body) for step in drawn(again)} & {str(step.body) for step in relay}


@pytest.mark.parametrize(
    ("model", "dialect", "profile"),
    [
        ("claude-sonnet-5-5", "anthropic", "thorough"), ("claude-opus-4-7", "anthropic", "thorough"),
        ("gpt-6-sol", "openai_chat", "thorough"), ("o3", "openai_responses", "thorough"),
        ("nobody-knows-it", "openai_chat", "thorough"), (TAKES, "anthropic", "standard"), (TAKES, "anthropic", "quick"),
    ],
)  # fmt: skip
def test_who_refuses_it_or_is_not_known_to_take_it_is_not_asked(model: str, dialect: str, profile: str) -> None:
    assert drawn(planned(model, dialect, profile)) == []


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dialect", MODELS)
def test_all_of_it_costs_at_most_four_tenths_of_a_cent(dialect: str, seed: int) -> None:
    """Both sides at the list price of Sonnet 5.5, which is not asked itself, by its tokenizer."""
    plan = planned(MODELS[dialect], dialect, seed=seed)
    steps = [*drawn(plan), *drawn(plan, "official")]
    tokens = sum(
        count_body({"messages": step.body.get("messages", step.body.get("input"))}, "claude-5") for step in steps
    )
    answers = sum(step.bound.expected_output_tokens for step in steps if step.bound)
    assert tokens * 2e-6 + answers * 10e-6 <= 0.004
    assert answers == 4 * len(steps)


# How often it is wrong, and how often it sees


def judged(relay: list[list[str]], vendor: list[list[str]]) -> bool:
    questions = [sampler.Asked(tuple(r), tuple(v), ()) for r, v in zip(relay, vendor, strict=True)]
    return sampler._outcome(questions, live=True) == "not_honoured"


@pytest.mark.parametrize("share", [0.5, 0.7, 0.8, 0.9])
def test_a_vendor_that_is_undecided_on_every_question_leads_to_few_accusations(share: float) -> None:
    """Both sides the same and both questions among four words: the worst that the bound speaks of."""
    rng, words = random.Random(f"{share}"), "abcd"
    weights = [share, *[(1 - share) / 3] * 3]
    runs = [[[rng.choices(words, weights, k=7) for _ in "ab"] for _ in range(2)] for _ in range(1000)]
    assert sum(judged(*sides) for sides in runs) / len(runs) <= sampler.CHANCE


@pytest.mark.parametrize(("share", "least"), [(0.3, 0.85), (0.4, 0.73), (0.5, 0.52)])
def test_a_lost_temperature_is_seen_as_often_as_it_is_said(share: float, least: float) -> None:
    """Eight words, and a vendor that wavers on one question in ten."""
    rng, words = random.Random(f"{share}"), "abcdefgh"
    rest = [0.75**place for place in range(7)]
    weights = [share, *[(1 - share) * weight / sum(rest) for weight in rest]]

    def vendor() -> list[str]:
        return rng.choices("ab", (65, 35), k=7) if rng.random() < 0.1 else ["a"] * 7

    seen = sum(judged([rng.choices(words, weights, k=7) for _ in "ab"], [vendor(), vendor()]) for _ in range(200))
    assert seen / 200 >= least


def test_the_chance_is_exact() -> None:
    strays = list("aaaabcd")
    assert astray(strays) == 3
    assert astray([]) == 0
    pairs = [(strays, ["a"] * 7)]
    assert stray_chance(pairs) == pytest.approx(330 / 3432)  # all three on one side: C(11, 4) of C(14, 7) ways
    assert stray_chance(pairs * 2) == pytest.approx((330 / 3432) ** 2)
    assert stray_chance([(["a"] * 7, strays)]) == 1
    assert stray_chance([(["a"] * 7, ["a"] * 7)]) == 1
