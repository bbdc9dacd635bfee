"""Long bodies beside the short texts: billed alike, fewer or more, and how long the longest was."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.long_bodies import longest_of
from relay_audit.assess.token_parity import assess_token_parity
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from tests.assess.evidence_builders import KNOWLEDGE, Text, answered, at, parity_run, step_named, twelve

COUNT = 1100


def run(
    *billed: int, count: int = COUNT, surplus: int = 3, texts: Any = None, status: int = 200, **usage: int
) -> Evidence:
    short = parity_run(twelve(surplus) if texts is None else texts)
    assert short.plan is not None
    steps = [step_named(f"long{n}") for n in range(len(billed))]
    more = []
    for n, tokens in enumerate(billed):
        said = {"usage": {"input_tokens": tokens, "output_tokens": 4, **usage}}
        more.append(answered(500 + n, f"long{n}", said, moment=at(400 + n), sent=steps[n].body))
        told = {"input_tokens": count}
        more.append(answered(600 + n, f"count.quote.long{n}", told, moment=at(n), side="official", status=status))
    plan = short.plan.model_copy(update={"steps": (*short.plan.steps, *steps)})
    return short.model_copy(update={"plan": plan, "exchanges": (*short.exchanges, *more)})


def about_length(evidence: Evidence) -> list[Finding]:
    return [f for f in assess_token_parity(evidence, KNOWLEDGE) if f.params.get("road") == "long"]


def test_long_bodies_that_are_billed_fewer_tokens():
    made = about_length(run(803, 825, 1103))
    assert [(f.code, f.outcome, f.severity, f.confidence, f.basis) for f in made] == [
        ("tokens.tokenizer_differs", "mismatch", "low", "supporting", "live_official")
    ]
    assert made[0].exchanges == ("X0500", "X0501", "X0600", "X0601")
    assert made[0].params == {
        "n": 2, "of": 3, "longest": 1100, "short": 90, "road": "long", "ratio": "0.74", "slopes": {"long": "0.74"},
    }  # fmt: skip


def test_long_bodies_that_are_billed_more_tokens():
    made = about_length(run(1603, 1653))
    assert [
        (f.code, f.severity, f.params["depends_on"], f.params["low"], f.params["high"], f.params["ratio"]) for f in made
    ] == [("tokens.variable_surplus", "low", "length", 503, 553, "1.48")]
    assert (made[0].basis, made[0].exchanges) == ("live_official", ("X0500", "X0501", "X0600", "X0601"))


@pytest.mark.parametrize(
    "evidence",
    [
        run(1014, 1014),  # more than eight in a hundred beside the constant of three
        run(1192, 1192),
        run(303, 303, count=500),
        run(803, 803, texts=twelve(3)[:6] + twelve(5)[6:]),
    ],
)
def test_from_where_on_bodies_are_long_and_billed_otherwise(evidence):
    assert len(about_length(evidence)) == 1


def test_the_constant_of_the_short_texts_is_no_part_of_the_ratio():
    assert [f.params["ratio"] for f in about_length(run(850, 850, surplus=50))] == ["0.73"]


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (run(1103, 1103), "the constant of the short texts"),
        (run(1015, 1015), "eight in a hundred"),
        (run(1191, 1191), "eight in a hundred"),
        (run(303, 303, count=499), "not long enough"),
        (run(403, 403, count=599, texts=[*twelve(3), Text(200, 3)]), "not three times the longest"),
        (run(803), "one body alone"),
        (run(803, 1103), "one of two"),
        (run(803, 1603), "in both directions"),
        (run(203, 203, count=450), "not long"),
        (run(803, 803, status=529), "no count"),
        (run(100, 100, cache_read_input_tokens=1003), "read from a cache, and billed"),
        (run(803, 803, texts=twelve(3)[:6] + twelve(508)[6:]), "the short ones differ already"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_nothing_is_said_of_length(evidence, why):
    assert about_length(evidence) == [], why


def test_how_long_the_longest_was():
    assert longest_of(run(1608, 1250)) == COUNT, "as the vendor counts it: a hidden prompt is not the body's"
    assert longest_of(run(1103, 1250, status=529)) == 1250
    assert longest_of(run(100, status=529, cache_creation_input_tokens=1000)) == 1100
    assert longest_of(run(texts=[])) == 0
