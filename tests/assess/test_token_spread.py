"""What a surplus that is no constant says, whole: under a condition, sometimes, in proportion, or without a pattern."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.token_samples import Sample
from relay_audit.assess.token_spread import COARSE, MIN_ROUNDED, in_place_of_the_callers, varying
from relay_audit.usage import Usage
from tests.assess.evidence_builders import said, step_named

SIZES = (20, 45, 90)
BASE = {"check": 2, "basis": "live_official"}
WHOLE = frozenset({"input_tokens", "cache_read_input_tokens"})


def sample(
    number: int,
    official: int,
    surplus: int,
    *,
    script: str = "ascii",
    system: bool = False,
    agent: str = "a",
    stream: bool = False,
    shape: frozenset[str] = WHOLE,
) -> Sample:
    step = step_named(f"s{number}", script=script, system=system)
    step = step.model_copy(update={"body": {**step.body, "stream": stream}})
    usage = Usage(input=official + surplus)
    return Sample(step, f"X{number:02}", official, usage, (f"C{number:02}", "C00"), agent, shape)


def rows(
    *surpluses: int, sizes: tuple[int, ...] = SIZES, scripts: tuple[str, ...] = ("ascii", "cjk"), **more: Any
) -> list[Sample]:
    """One text per script and size, in that order, with these surpluses in turn."""
    places = [(script, size) for script in scripts for size in sizes]
    return [
        sample(n, size, surpluses[n % len(surpluses)], script=script, **more) for n, (script, size) in enumerate(places)
    ]


def scaled(ascii_: float, cjk: float, offset: int = 0, sizes: tuple[int, ...] = SIZES) -> list[Sample]:
    factors = [ascii_] * len(sizes) + [cjk] * len(sizes)
    surpluses = [round(size * (factor - 1)) + offset for size, factor in zip(sizes * 2, factors, strict=True)]
    return rows(*surpluses, sizes=sizes)


def told(samples: list[Sample]) -> dict[str, Any]:
    found = varying(samples, "live_official")
    assert len(found) == 1
    one = said(found[0])
    assert {name: one.pop(name) for name in BASE} == BASE
    return one


def ids(samples: list[Sample]) -> tuple[str, ...]:
    return (*(s.exchange for s in samples), *dict.fromkeys(c for s in samples for c in s.controls))


def changed(samples: list[Sample], **levels: Any) -> list[Sample]:
    """Every second text under another level of one factor."""
    return [sample(n, s.official, s.surplus, **{k: v[n % 2] for k, v in levels.items()}) for n, s in enumerate(samples)]


@pytest.mark.parametrize(
    ("levels", "name", "seen"),
    [
        ({"system": (False, True)}, "system", ("False", "True")),
        ({"agent": ("a", "b")}, "user_agent", ("a", "b")),
        ({"stream": (False, True)}, "stream", ("False", "True")),
    ],
)
@pytest.mark.parametrize("high", [49, 50])
def test_a_surplus_under_a_condition(levels, name, seen, high):
    samples = changed(rows(0, high), **levels)
    weight = {"outcome": "mismatch", "severity": "medium", "confidence": "strong"}
    assert told(samples) == {
        "code": "tokens.variable_surplus", **(weight if high == 50 else {"outcome": "inconclusive", "severity": "info"}),
        "exchanges": ids(samples), "expected": {"offset": "0 to 8"},
        "observed": {f"{name}={seen[0]}": 0, f"{name}={seen[1]}": high},
        "params": {"n": 6, "low": 0, "high": high, "depends_on": name},
    }  # fmt: skip


def test_a_condition_needs_two_texts_of_each_level_and_a_constant_within_two_tokens():
    one_alone = [*rows(0)[:5], sample(5, 90, 508, system=True)]
    assert told(one_alone)["code"] == "tokens.intermittent_surplus"
    spread = changed([sample(n, size, s) for n, (size, s) in enumerate(zip(SIZES * 2, (0, 60, 1, 62, 2, 61), strict=True))],
                     system=(False, True))  # fmt: skip
    assert told(spread)["params"]["depends_on"] == "system"
    wider = changed([sample(n, size, s) for n, (size, s) in enumerate(zip(SIZES * 2, (0, 60, 1, 63, 2, 61), strict=True))],
                    system=(False, True))  # fmt: skip
    assert told(wider)["params"].get("depends_on") != "system"


def test_a_surplus_sometimes():
    samples = rows(0, 508, 0, 0, 510, 0)
    assert told(samples) == {
        "code": "tokens.intermittent_surplus", "outcome": "mismatch", "severity": "medium", "confidence": "strong",
        "exchanges": ids([samples[1], samples[4]]), "expected": {"offset": "0 to 8"},
        "observed": {"offset": 509, "answers": "2 of 6"},
        "params": {"n": 2, "of": 6, "surplus": 509, "share_low": "4.3", "share_high": "77.7"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("surpluses", "sometimes"),
    [
        ((8, 50, 8, 8, 8, 8), True), ((9, 60, 9, 9, 9, 9), False), ((-8, 60, -8, -8, -8, -8), True),
        ((-9, 60, -9, -9, -9, -9), False), ((0, 49, 0, 0, 0, 0), False), ((0, 60, 0, 62, 2, 0), True),
        ((0, 60, 0, 63, 0, 0), False), ((0, 60, 0, 60, 3, 0), False), ((0, 60, 0, 20, 0, 0), False),
    ],
)  # fmt: skip
def test_what_is_quiet_and_what_is_loud(surpluses, sometimes):
    assert (told(rows(*surpluses))["code"] == "tokens.intermittent_surplus") is sometimes


def test_a_template_that_differs_by_a_few_tokens():
    samples = rows(0, 4, 8)
    assert told(samples) == {
        "code": "tokens.template_noise", "outcome": "match", "severity": "info", "exchanges": ids(samples),
        "params": {"n": 6, "offset": 4, "low": 0, "high": 8, "share_bound": "39.3"},
    }  # fmt: skip
    assert told(rows(-8, 4, 8))["code"] == "tokens.template_noise"
    assert told(rows(-9, 4, 8))["code"] != "tokens.template_noise"
    assert told(rows(0, 4, 9))["code"] != "tokens.template_noise"


SIX = (20, 45, 90, 60, 70, 80)
LONG = (100, 400, 1000)


@pytest.mark.parametrize(
    ("ascii_", "cjk", "slight"), [(1.03, 1.03, True), (1.03, 1.04, True), (1.01, 1.02, False), (1.03, 1.06, False)]
)
def test_a_few_in_a_hundred_to_the_token(ascii_, cjk, slight):
    samples = scaled(ascii_, cjk, sizes=LONG)
    one = told(samples)
    if not slight:
        assert one["code"] != "tokens.proportional_surplus"
        return
    mean = (ascii_ + cjk) / 2
    assert one == {
        "code": "tokens.proportional_surplus", "outcome": "mismatch", "severity": "high", "confidence": "strong",
        "exchanges": ids(samples), "expected": {"slope": "1.00"}, "observed": {"ascii": f"{ascii_:.2f}", "cjk": f"{cjk:.2f}"},
        "params": {"n": 6, "slope": f"{mean:.2f}", "offset": 0, "percent": {0.03: "3", 0.035: "3.5"}[round(mean - 1, 3)]},
    }  # fmt: skip


def test_a_slight_multiplier_needs_a_long_text_and_no_offset():
    assert told(scaled(1.04, 1.04, sizes=(25, 75, 119)))["code"] == "tokens.template_noise"
    assert told(scaled(1.04, 1.04, sizes=(25, 75, 125)))["code"] == "tokens.proportional_surplus"
    assert told(scaled(1.04, 1.04, 1, sizes=(25, 75, 125)))["code"] == "tokens.proportional_surplus"
    assert told(scaled(1.04, 1.04, 2, sizes=(25, 75, 125)))["code"] == "tokens.template_noise"
    bent = scaled(1.03, 1.03, sizes=LONG)
    bent[1] = sample(1, 400, bent[1].surplus + 4)
    assert told(bent)["params"].get("slope") is None


def swapped(*off: int, **more: Any) -> list[Sample]:
    """Nine texts, of which these places are counted by another tokenizer: a third less."""
    places = [(script, size) for script in ("ascii", "cjk", "code") for size in SIZES]
    return [
        sample(n, size, -round(size / 3) if n in off else 0, script=script, **(more if n in off else {}))
        for n, (script, size) in enumerate(places)
    ]


def test_some_answers_counted_by_another_tokenizer():
    samples = swapped(0, 4, 8)
    assert told(samples) == {
        "code": "tokens.tokenizer_differs", "outcome": "mismatch", "severity": "medium", "confidence": "strong",
        "exchanges": ids([samples[n] for n in (0, 4, 8)]), "expected": {"slope": "1.00"},
        "observed": {"ascii": "0.65", "cjk": "0.67", "code": "0.67", "answers": "3 of 9"},
        "params": {"n": 3, "slopes": {"ascii": "0.65", "cjk": "0.67", "code": "0.67"}},
    }  # fmt: skip


@pytest.mark.parametrize(
    "samples",
    [
        swapped(0, 4),
        swapped(0, 1, 2),
        swapped(0, 1, 3, 4, 5, 7, 8),
        swapped(0, 4, 8, shape=frozenset({"input_tokens"})),
        [*swapped(0, 4, 8)[:8], sample(8, 90, 20, script="code")],
    ],
    ids=["two", "of one script", "two exact", "without the usual parts", "one beside both"],
)
def test_what_is_no_other_tokenizer_of_some_answers(samples):
    assert "answers" not in told(samples).get("observed", {}), "a line of all texts may say so, a part of them does not"


def test_a_system_prompt_that_is_not_billed_is_no_other_tokenizer_and_one_on_both_is():
    off = (0, 4, 8)
    alone = [s if n not in off else sample(n, s.official, s.surplus, script=s.factor("script"), system=True)
             for n, s in enumerate(swapped(*off))]  # fmt: skip
    assert told(alone)["code"] != "tokens.tokenizer_differs"
    both = [s if n not in (*off, 1) else sample(n, s.official, s.surplus, script=s.factor("script"), system=True)
            for n, s in enumerate(swapped(*off))]  # fmt: skip
    assert told(both)["code"] == "tokens.tokenizer_differs"


@pytest.mark.parametrize(
    ("samples", "code", "params"),
    [
        (scaled(1.5, 1.5, 40, LONG), "tokens.proportional_surplus", {"slope": "1.50", "offset": 40, "percent": "50"}),
        (scaled(1.06, 1.06, 40, LONG), "tokens.proportional_surplus", {"slope": "1.06", "offset": 40, "percent": "6"}),
        (scaled(1.5, 1.3, 0, LONG), "tokens.tokenizer_differs", {"slopes": {"ascii": "1.50", "cjk": "1.30"}}),
        (scaled(1.3, 1.5, 0, LONG), "tokens.tokenizer_differs", {"slopes": {"ascii": "1.30", "cjk": "1.50"}}),
        (scaled(0.8, 0.8, 0, LONG), "tokens.deficit", {"offset": -200, "share_bound": "39.3"}),
    ],
)
def test_lines_of_two_scripts(samples, code, params):
    one = told(samples)
    assert (one["code"], one["params"]) == (code, {"n": 6, **params})
    assert one.get("confidence") == "strong"
    assert (one["exchanges"], one["expected"]) == (ids(samples), {"slope": "1.00"})
    slopes = {"ascii": f"{(samples[2].usage.input - samples[0].usage.input) / 900:.2f}",
              "cjk": f"{(samples[5].usage.input - samples[3].usage.input) / 900:.2f}"}  # fmt: skip
    assert one["observed"] == slopes


@pytest.mark.parametrize(
    ("samples", "code", "weight"),
    [
        (scaled(0.97, 0.97, 0, LONG), "tokens.inconclusive", ("inconclusive", "info", "weak")),
        (rows(50, 70, 90, 120), "tokens.variable_surplus", ("mismatch", "medium", "strong")),
        (rows(9, 60, 31, 120), "tokens.variable_surplus", ("mismatch", "medium", "strong")),
        (rows(200, 220, 240, 270), "tokens.variable_surplus", ("mismatch", "high", "strong")),
        (rows(-2, 60, 31, 120, 50, 8), "tokens.variable_surplus", ("mismatch", "medium", "strong")),
        (rows(-3, 60, 31, 120, 50, 8), "tokens.inconclusive", ("inconclusive", "info", "weak")),
        (rows(-2, 60, 31, 120, 49, 8), "tokens.inconclusive", ("inconclusive", "info", "weak")),
        (rows(9, 49, 31, 20), "tokens.inconclusive", ("inconclusive", "info", "weak")),
        (rows(8, 60, 31, 20, 12, 20), "tokens.inconclusive", ("inconclusive", "info", "weak")),
        (rows(8, 60, 31, 120, 60, 20, scripts=("ascii",), sizes=SIX), "tokens.inconclusive", ("inconclusive", "info", "weak")),
    ],
)  # fmt: skip
def test_a_surplus_without_a_pattern(samples, code, weight):
    """It accuses where every text has some, or where none is below its count and three are far above it in two scripts."""
    low, high = min(s.surplus for s in samples), max(s.surplus for s in samples)
    assert told(samples) == {
        "code": code, "outcome": weight[0], "severity": weight[1], "confidence": weight[2], "exchanges": ids(samples),
        "observed": {"low": low, "high": high},
        "params": {"n": 6, "low": low, "high": high, "depends_on": "", "reason": "unexplained_spread"},
    }  # fmt: skip


def up(step: int, *sizes: int) -> list[Sample]:
    """Texts of these sizes, each billed at the next multiple of `step`."""
    return [sample(n, size, -(-size // step) * step - size) for n, size in enumerate(sizes)]


EIGHT = (21, 33, 47, 58, 74, 81, 96, 109)


def test_input_that_is_rounded_up_says_to_which_number():
    samples = up(50, *EIGHT)
    low, high = min(s.surplus for s in samples), max(s.surplus for s in samples)
    assert told(samples) == {
        "code": "tokens.variable_surplus", "outcome": "mismatch", "severity": "medium", "confidence": "strong",
        "exchanges": ids(samples), "expected": {"offset": "0 to 8"}, "observed": {"low": low, "high": high, "step": 50},
        "params": {"n": 8, "low": low, "high": high, "depends_on": "", "step": 50, "road": "rounded"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "rounded"),
    [
        (up(COARSE, *EIGHT), True),
        (up(COARSE - 1, *EIGHT), False),
        (up(50, *EIGHT[:MIN_ROUNDED]), True),
        (up(50, *EIGHT[: MIN_ROUNDED - 1]), False),
        ([*up(50, *EIGHT[:7]), sample(7, 100, 0)], True),  # one is a multiple by itself
        ([*up(50, *EIGHT[:7]), sample(7, 101, -1)], False),  # below its count
        ([*up(50, *EIGHT[:7]), sample(7, 100, 49 + 1)], False),  # a whole step too much
        ([sample(n, size, 100 - size) for n, size in enumerate(range(60, 68))], False),  # all billed alike
    ],
)
def test_what_is_rounded_up(samples, rounded):
    assert (told(samples)["params"].get("road") == "rounded") is rounded


def prompted(bare: tuple[int, ...], own: tuple[int, ...]) -> list[Sample]:
    """Texts without and with the caller's own system prompt, by turns in two scripts."""
    places = [(surplus, False, n) for n, surplus in enumerate(bare)] + [(s, True, n) for n, s in enumerate(own)]
    return [
        sample(number, 100 + 35 * number, surplus, script=("ascii", "cjk")[n % 2], system=system)
        for number, (surplus, system, n) in enumerate(places)
    ]


@pytest.mark.parametrize(
    ("bare", "own", "said_so"),
    [
        ((0, 2, -2), (-20, -31, -26), True),
        ((0, 3, -2), (-20, -31, -26), False),
        ((0, 2, -2), (-20, -31, -3), True),
        ((0, 2, -2), (-20, -31, -2), False),
        ((0, 2), (-20, -31, -26), False),
        ((0, 2, -2), (-20, -31), False),
    ],
)
def test_a_system_prompt_that_is_not_counted(bare, own, said_so):
    samples = prompted(bare, own)
    one = told(samples)
    assert (one["params"].get("reason") == "system_not_counted") is said_so
    if said_so:
        low, high = min(own), max(bare)
        assert one == {
            "code": "tokens.inconclusive", "outcome": "inconclusive", "severity": "info", "confidence": "weak",
            "exchanges": ids(samples), "observed": {"low": low, "high": high},
            "params": {"n": 6, "low": low, "high": high, "depends_on": "system", "reason": "system_not_counted"},
        }  # fmt: skip


@pytest.mark.parametrize(
    ("bare", "own", "there"),
    [
        ((60, 60, 60), (30, 40, 30), True),
        ((60, 61, 62), (30, 40, 32), True),  # two tokens are no other constant
        ((60, 61, 63), (30, 40, 30), False),
        ((60, 60, 60), (30, 40, 33), False),  # of several lengths in one script
        ((60, 60), (30, 40, 30), False),
        ((60, 60, 60), (30, 40), False),
        ((60, 60, 60), (30, 31, 30), False),  # as long in every script: no prompt of the caller's
        ((9, 9, 9), (-20, 6, -20), True),
        ((8, 8, 8), (-20, 5, -20), False),  # a template
        ((60, 60, 60), (30, 57, 30), True),
        ((60, 60, 60), (30, 58, 30), False),
    ],
)
def test_a_prompt_in_the_place_of_the_callers(bare, own, there):
    samples = prompted(bare, own)
    assert in_place_of_the_callers(samples) == (samples[: len(bare)] if there else [])


@pytest.mark.parametrize(
    ("bare", "own", "depends"),
    [
        ((8, 8, 8), (50, 90, 50), True),
        ((-8, -7, -8), (50, 90, 50), True),
        ((9, 9, 9), (50, 90, 50), False),
        ((0, 0, 0), (49, 90, 49), False),
        ((0, 0, 0), (50, 90, 53), False),
        ((0, 0), (50, 90, 50), False),
        ((0, 0, 0), (50, 90), False),
    ],
)
def test_a_longer_prompt_only_where_the_caller_sends_one(bare, own, depends):
    assert (told(prompted(bare, own))["params"].get("depends_on") == "system") is depends


def test_two_texts_of_a_level_are_enough_for_a_condition():
    two = [*rows(0)[:4], sample(4, 45, 510, agent="b"), sample(5, 90, 508, agent="b")]
    assert told(two)["params"]["depends_on"] == "user_agent"
    wider = [*rows(0)[:4], sample(4, 45, 511, agent="b"), sample(5, 90, 508, agent="b")]
    assert told(wider)["params"].get("depends_on") != "user_agent"


@pytest.mark.parametrize(
    "samples",
    [
        swapped(0, 1, 3, 4, 7, 8),  # three that are exact
        [s if n not in (1, 2) else sample(n, s.official, 2 if n == 1 else -2) for n, s in enumerate(swapped(0, 4, 8))],
        [s if n not in (2, 3, 7) else sample(n, s.official, -3 if s.official > 40 else -1, script=s.factor("script"))
         for n, s in enumerate(swapped(0, 4, 8))],  # as many between the two as off
    ],
)  # fmt: skip
def test_the_least_that_shows_another_tokenizer_of_some_answers(samples):
    assert "answers" in told(samples)["observed"]


def test_at_the_margins_of_a_line():
    assert told(scaled(1.04, 1.04, sizes=(25, 75, 120)))["code"] == "tokens.proportional_surplus"
    deficit = told(scaled(0.8, 0.8, 28, LONG))
    assert (deficit["code"], deficit["params"]["offset"]) == ("tokens.deficit", -172)
    assert told(scaled(0.8, 0.8, 29, LONG))["code"] != "tokens.deficit"
    bent = scaled(1.5, 1.3, 0, LONG)
    bent[1] = sample(1, 400, bent[1].surplus + 40)
    assert told(bent)["code"] == "tokens.tokenizer_differs", "another tokenizer's grain"
    # Far above its count four times in two scripts, too little in proportion to be a multiplier.
    assert told(scaled(1.04, 1.04, 3, (100, 1300, 1400)))["code"] == "tokens.variable_surplus"
    assert told(rows(9, 50, 31, 20))["code"] == "tokens.variable_surplus"
