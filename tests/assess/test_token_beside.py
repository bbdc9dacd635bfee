"""Repeated lines beside what the vendor billed for the very same bodies: the yardstick where it has no counter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from relay_audit.assess.token_intercept import assess_token_intercept
from relay_audit.assess.token_parity import assess_token_parity, told_beside
from relay_audit.evidence import Evidence
from tests.assess.evidence_builders import KNOWLEDGE, answered, at, codes, only
from tests.assess.test_token_intercept import TIMES, billed, run

ASCII, CJK = billed(13), billed(14, 11)


def beside(
    ours: dict[str, Sequence[int | None]],
    theirs: dict[str, Sequence[int | None]],
    *,
    later: float = 1,
    when: str = "with",
    **more: Any,
) -> Evidence:
    """The relay's amounts and the vendor's, per script; None is an answer without a usage."""
    made = run(ours, **more)
    assert made.plan is not None
    steps, exchanges = [], []
    for script, amounts in theirs.items():
        for times, amount in zip(TIMES, amounts, strict=True):
            own = made.plan.step(f"{script}.{times}")
            sent = made.of_step(f"{script}.{times}")
            assert own is not None
            assert sent is not None
            name = f"official.{own.id}"
            steps.append(own.model_copy(update={"id": name, "side": "official", "mirrors": own.id, "when": when}))
            told = {"usage": {"prompt_tokens": amount, "completion_tokens": 4}} if amount is not None else {}
            moment = at(later, sent.sent_at)
            exchanges.append(answered(500 + len(exchanges), name, told, moment=moment, side="official"))
    plan = made.plan.model_copy(update={"steps": (*made.plan.steps, *steps)})
    return made.model_copy(update={"plan": plan, "exchanges": (*made.exchanges, *exchanges)})


def plus(amounts: Sequence[int], more: int) -> list[int]:
    return [amount + more for amount in amounts]


def test_bodies_that_both_bill_alike():
    made = beside({"ascii": ASCII, "cjk": CJK}, {"ascii": ASCII, "cjk": CJK})
    hit = only(assess_token_parity(made, KNOWLEDGE))
    ids = [f"X{n:04}" for pair in range(8) for n in (pair + 1, 500 + pair)]
    assert (hit.code, hit.basis, hit.confidence) == ("tokens.match", made.target.official_basis, "strong")
    assert (sorted(hit.exchanges), hit.params["n"]) == (sorted(ids), 8)
    assert assess_token_intercept(made, KNOWLEDGE) == []
    assert {s.shape for s in told_beside(made)} == {frozenset({"prompt_tokens", "completion_tokens"})}


def test_what_the_relay_adds_to_each_of_them():
    made = beside({"ascii": plus(ASCII, 60), "cjk": plus(CJK, 60)}, {"ascii": ASCII, "cjk": CJK})
    hit = only(assess_token_parity(made, KNOWLEDGE))
    assert (hit.code, hit.severity, hit.params["surplus"]) == ("tokens.constant_surplus", "medium", 60)
    assert (hit.params["official"], hit.params["billed"]) == (ASCII[0], ASCII[0] + 60)


def test_what_the_relay_multiplies():
    twice = beside({"ascii": [2 * n for n in ASCII], "cjk": [2 * n for n in CJK]}, {"ascii": ASCII, "cjk": CJK})
    hit = only(assess_token_parity(twice, KNOWLEDGE))
    assert (hit.code, hit.params["slope"]) == ("tokens.proportional_surplus", "2.00")


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        (ASCII, True),
        ([ASCII[0], ASCII[1] + 2, ASCII[2] - 2, ASCII[3]], True),  # the jitter of a count
        ([ASCII[0], ASCII[1] + 3, *ASCII[2:]], False),
        ([*ASCII[:2], ASCII[2] - 3, ASCII[3]], False),
        ([27, 27, 27, 27], False),
        (ASCII[::-1], False),
        ([*ASCII[:3], None], True),  # three lines are enough
        ([*ASCII[:2], None, None], False),
    ],
)
def test_the_vendors_own_numbers_have_to_grow_by_the_line(told, heard):
    made = beside({"ascii": ASCII, "cjk": CJK}, {"ascii": told, "cjk": CJK})
    assert len(told_beside(made)) == (4 + sum(n is not None for n in told) if heard else 0)
    assert bool(assess_token_intercept(made, KNOWLEDGE)) is not heard


@pytest.mark.parametrize("later", [900, -900])
def test_it_was_asked_near_the_relays_sending(later):
    """A quarter of an hour before or after, and not a second more."""
    lines = {"ascii": ASCII, "cjk": CJK}
    assert len(told_beside(beside(lines, lines, later=later))) == 8
    assert told_beside(beside(lines, lines, later=later + (1 if later > 0 else -1))) == []


def test_lines_that_are_not_comparable_are_left_out():
    lines: dict[str, Sequence[int | None]] = {"ascii": ASCII, "cjk": CJK}
    made = beside({"ascii": [None, *ASCII[1:]], "cjk": CJK}, lines)
    assert [s.exchange for s in told_beside(made)] == [f"X{n:04}" for n in range(2, 9)]
    assert told_beside(beside(lines, lines, when="before")) == [], "a count is no answer"
    assert told_beside(beside(lines, lines, counter=True)) == []
    refused = beside(lines, lines)
    exchanges = tuple(
        e if e.id != "X0503" or e.response is None else e.model_copy(
            update={"response": e.response.model_copy(update={"status": 429})})
        for e in refused.exchanges
    )  # fmt: skip
    assert len(told_beside(refused.model_copy(update={"exchanges": exchanges}))) == 7
    assert refused.plan is not None
    other = [
        s if s.id != "ascii.1" else s.model_copy(update={"factors": {"script": "ascii"}}) for s in refused.plan.steps
    ]
    plain = refused.model_copy(update={"plan": refused.plan.model_copy(update={"steps": tuple(other)})})
    assert "X0001" not in [s.exchange for s in told_beside(plain)]
    assert codes(assess_token_parity(refused.model_copy(update={"plan": None}), KNOWLEDGE)) == []
