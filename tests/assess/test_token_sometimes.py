"""A multiplier or another tokenizer that strikes one answer in four is named, with the share of calls it may strike."""

from __future__ import annotations

import pytest

from relay_audit.assess.token_samples import Sample
from tests.assess.test_token_spread import WHOLE, ids, sample, told

SCRIPTS = ("ascii", "cjk", "emoji", "code")
OFFICIAL = (31, 47, 58, 80, 114, 131)
"""Tokens of the six texts of each script."""
OLDER = {"ascii": -0.25, "cjk": 0.29, "emoji": -0.1, "code": -0.23}
"""What a tokenizer of the generation before counts more or less, by script."""


def texts(growth: dict[str, float], hits: tuple[int, ...], usual: int = 0) -> list[Sample]:
    """Twenty-four texts; those at `hits` grow by their script's share, the rest is billed at one constant."""
    made = []
    for n, (script, official) in enumerate((script, size) for script in SCRIPTS for size in OFFICIAL):
        more = round(official * growth[script]) if n in hits else 0
        made.append(sample(n, official, more + usual, script=script))
    return made


def alike(share: float) -> dict[str, float]:
    return dict.fromkeys(SCRIPTS, share)


@pytest.mark.parametrize(
    ("share", "printed", "percent"), [(0.3, "1.30", "29.8"), (1.0, "2.00", "100"), (0.1, "1.10", "9.9")]
)
@pytest.mark.parametrize("usual", [0, 4, 8])
def test_a_multiplier_on_some_answers_is_one_whatever_the_template(share, printed, percent, usual):
    hits = (1, 5, 9, 16, 20, 23)
    made = texts(alike(share), hits, usual)
    found = told(made)
    assert (found["code"], found["outcome"], found["severity"], found["confidence"]) == (
        "tokens.proportional_surplus", "mismatch", "medium", "strong",
    )  # fmt: skip
    assert found["params"] == {
        "slope": printed, "offset": usual, "percent": percent, "road": "sometimes", "n": 6, "of": 24,
        "share_low": "9.8", "share_high": "46.7",
    }  # fmt: skip
    assert found["exchanges"] == ids([made[n] for n in hits])
    assert found["observed"] == {"slope": printed, "answers": "6 of 24"}
    assert found["expected"] == {"slope": "1.00"}


@pytest.mark.parametrize("hits", [(4, 8, 10, 17, 21, 23), (5, 7, 11, 20, 22, 2), (3, 9, 11, 19)])
@pytest.mark.parametrize("usual", [0, 6])
def test_another_tokenizer_on_some_answers_counts_more_here_and_less_there(hits, usual):
    found = told(texts(OLDER, hits, usual))
    assert (found["code"], found["confidence"], found["params"]["road"]) == (
        "tokens.tokenizer_differs", "strong", "sometimes",
    )  # fmt: skip
    assert found["params"]["of"] == 24
    assert set(found["params"]["slopes"]) <= set(SCRIPTS)
    assert float(found["params"]["slopes"]["cjk"]) > 1.2


FOUR = (3, 9, 11, 19)


@pytest.mark.parametrize("usual", [0, 6])
def test_all_that_is_said_of_another_tokenizer(usual):
    made = texts(OLDER, FOUR, usual)
    slopes = {"ascii": "0.75", "cjk": "1.29", "code": "0.77"}
    assert told(made) == {
        "code": "tokens.tokenizer_differs", "outcome": "mismatch", "severity": "medium", "confidence": "strong",
        "exchanges": ids([made[n] for n in FOUR]), "expected": {"slope": "1.00"},
        "observed": {**slopes, "answers": "4 of 24"},
        "params": {"slopes": slopes, "road": "sometimes", "n": 4, "of": 24, "share_low": "4.7", "share_high": "37.4"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("hits", "jitter"),
    [
        ((1, 5, 9), 0),  # three of two scripts
        (tuple(range(0, 24, 2)), 0),  # half of all
        ((1, 5, 9, 16), 2),
        ((1, 5, 9, 16), -2),
    ],
)
def test_how_few_or_many_a_multiplier_may_strike(hits, jitter):
    made = texts(alike(0.3), hits)
    made[3] = sample(3, made[3].official, jitter, script="ascii") if 3 not in hits else made[3]
    params = told(made)["params"]
    assert (params["road"], params["n"], params["slope"]) == ("sometimes", len(hits), "1.30")


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ((8,), True),
        ((9,), False),  # beside the template too
        ((8, 5), True),
        ((8, 5, 4), False),  # more than half as many as are far
    ],
)
@pytest.mark.parametrize("usual", [0, 6])
def test_texts_that_two_tokenizers_count_nearly_alike_may_stand_between(beside, named, usual):
    between = [sample(30 + n, 131, usual + more, script="emoji") for n, more in enumerate(beside)]
    params = told([*texts(OLDER, FOUR, usual), *between])["params"]
    assert (params.get("road") == "sometimes") is named
    assert not named or params["n"] == 4


def test_a_text_may_lie_beside_its_scripts_proportion_by_that_tokenizers_grain():
    made = texts(OLDER, FOUR)
    made[11] = sample(11, 131, 50, script="cjk")
    assert told(made)["params"]["slopes"]["cjk"] == "1.36"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(texts(alike(0.3), (1, 9)), id="two_are_no_pattern"),
        pytest.param(texts(alike(0.3), (1, 2, 3, 4)), id="one_script_alone"),
        pytest.param(texts(OLDER, (4, 8, 23)), id="three_of_another_tokenizer"),
        pytest.param(texts({**OLDER, "cjk": 0.5, "code": 0.3}, (8, 10, 21, 23)), id="never_below_the_count"),
        pytest.param([*texts({**OLDER, "cjk": 0.9}, (4, 23, 17, 3)), sample(30, 60, 20)], id="beside_its_scripts_line"),
    ],
)
def test_what_follows_no_proportion_is_left_to_the_others(made):
    assert told(made)["params"].get("road") != "sometimes"


def test_an_estimate_that_lacks_the_usual_parts_shows_nothing():
    for growth in (alike(0.3), OLDER):
        made = texts(growth, (4, 8, 10, 17, 21, 23))
        bare = [
            sample(
                n,
                s.official,
                s.surplus,
                script=s.factor("script"),
                shape=WHOLE if s.surplus == 0 else frozenset({"input_tokens"}),
            )
            for n, s in enumerate(made)
        ]
        assert told(bare)["params"].get("road") != "sometimes"


def test_where_most_answers_are_off_it_is_no_now_and_then():
    assert told(texts(alike(0.3), tuple(range(14))))["params"].get("road") != "sometimes"
