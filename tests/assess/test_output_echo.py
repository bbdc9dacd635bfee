"""Verbatim copies on both sides: the same characters, and the tokens billed for them."""

from __future__ import annotations

from typing import Any

import pytest
from evidence_builders import MODEL, START, answered, at, only, plan_of, run_of, step_named

from relay_audit.assess.output_echo import assess_output_echo
from relay_audit.catalog import load_knowledge
from relay_audit.evidence import Evidence
from relay_audit.plan import Step

KNOWLEDGE = load_knowledge()
WORDS = ["harbour", "lantern", "meadow", "copper", "violet", "summit", "garden", "willow", "ribbon", "anchor"]


def step(name: str, words: list[str]) -> Step:
    task = "Copy these words in this order, one per line, and write nothing else:\n" + "\n".join(words)
    body = {"model": MODEL, "max_tokens": 256, "messages": [{"role": "user", "content": task}]}
    return step_named(name).model_copy(update={"body": body, "case": name, "output_limit": 256})


def said(words: list[str], tokens: int, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 60, "output_tokens": tokens, **more.pop("usage", {})}
    content = more.pop("content", [{"type": "text", "text": "\n".join(words)}])
    return {"id": "msg_1", "type": "message", "model": MODEL, "content": content, "usage": usage} | more


def run(*copies: tuple[dict[str, Any], dict[str, Any]], words: list[str] = WORDS, vendor: bool = True) -> Evidence:
    steps, exchanges = list[Step](), []
    for place, (relay, official) in enumerate(copies):
        own = step(f"copy{place}", words)
        mirror = own.model_copy(update={"id": f"mirror.{own.id}", "side": "official", "mirrors": own.id})
        steps += [own, mirror]
        for name, body, side in ((own.id, relay, "relay"), (mirror.id, official, "official")):
            exchanges.append(answered(len(exchanges) + 1, name, body, moment=at(len(exchanges), START), side=side))
    return run_of(exchanges, steps, plan=plan_of(steps, checks=(2,)), is_vendor=vendor)


def found(*copies: tuple[dict[str, Any], dict[str, Any]], **more: Any) -> list[Any]:
    return assess_output_echo(run(*copies, **more), KNOWLEDGE)


HONEST = (said(WORDS, 24), said(WORDS, 24))
TWICE = (said(WORDS, 48), said(WORDS, 24))


def test_twice_the_tokens_for_the_same_words() -> None:
    hit = only(found(TWICE, TWICE))
    assert (hit.code, hit.severity, hit.confidence, hit.basis) == (
        "tokens.output_inflated", "high", "strong", "live_official",
    )  # fmt: skip
    assert hit.params == {"n": 2, "billed": 96, "official": 48, "slope": "2.00"}
    assert (hit.expected, hit.observed) == ({"output_tokens": 48}, {"output_tokens": 96})
    assert hit.exchanges == ("X0001", "X0002", "X0003", "X0004")
    assert only(found(TWICE, TWICE, vendor=False)).basis == "declared_official"


@pytest.mark.parametrize(
    "copies",
    [
        (HONEST, HONEST),
        (TWICE,),
        (TWICE, HONEST),
        ((said(WORDS, 30), said(WORDS, 24)),) * 2,
        ((said(WORDS[:2], 10), said(WORDS[:2], 5)),) * 2,
        ((said(WORDS, 12), said(WORDS, 6)),) * 2,
    ],
    ids=[
        "the same",
        "one copy alone",
        "not on all",
        "up to a quarter more",
        "too few tokens to tell",
        "just six beyond",
    ],
)
def test_silent(copies: tuple[tuple[dict[str, Any], dict[str, Any]], ...]) -> None:
    assert found(*copies) == []


@pytest.mark.parametrize(("billed", "due", "found_"), [(13, 6, True), (12, 6, False), (31, 24, True), (30, 24, False)])
def test_from_which_amount_on_it_is_inflated(billed: int, due: int, found_: bool) -> None:
    """More than six tokens and more than a quarter, on each text."""
    assert bool(found(*((said(WORDS, billed), said(WORDS, due)),) * 2)) is found_


def test_a_short_copy_may_be_too_many_by_less() -> None:
    """Half as many again on four words are a few tokens; it must still be half as many again."""
    half, short = (said(WORDS, 48), said(WORDS, 32)), (said(WORDS[:4], 14), said(WORDS[:4], 9))
    assert only(found(half, short, half)).params == {"n": 3, "billed": 110, "official": 73, "slope": "1.51"}
    assert found(half, (said(WORDS[:4], 11), said(WORDS[:4], 9)), half) == []
    assert found(half, short, short) == []


def test_two_lines_are_a_copy_and_the_last_may_be_cut() -> None:
    two = said(WORDS[:2], 40)
    assert only(found((two, said(WORDS, 24)), (two, said(WORDS, 24)))).params["billed"] == 80
    cut = said([WORDS[0], WORDS[1][:3]], 40)
    assert only(found((cut, said(WORDS, 24)), (cut, said(WORDS, 24)))).params["billed"] == 80
    other = said([WORDS[0], "x"], 40)
    assert found((other, said(WORDS, 24)), (other, said(WORDS, 24))) == []


def test_tokens_that_were_all_thought_are_no_measure() -> None:
    """Nothing is left for the copy on the vendor's side: by what would a factor be taken?"""
    for spent in (24, 30):
        thought = said(WORDS, 24, usage={"output_tokens_details": {"thinking_tokens": spent}})
        assert found((said(WORDS, 90), thought), (said(WORDS, 90), thought)) == []
    one = said(WORDS, 24, usage={"output_tokens_details": {"thinking_tokens": 23}})
    assert only(found((said(WORDS, 90), one), (said(WORDS, 90), one))).params["official"] == 2


def test_the_sides_need_not_have_written_equally_much() -> None:
    """The relay's copy was cut at half; what is due goes by characters."""
    half = said(WORDS[:5], 24)
    assert only(found((half, said(WORDS, 24)), (half, said(WORDS, 24)))).params["slope"] in (
        "1.88",
        "2.00",
        "2.09",
        "1.92",
    )
    cut = said([*WORDS[:4], "vio"], 24)
    assert only(found((cut, said(WORDS, 24)), (cut, said(WORDS, 24)))).code == "tokens.output_inflated"
    assert found((said(WORDS[:5], 12), said(WORDS, 24)), (said(WORDS[:5], 12), said(WORDS, 24))) == []


def test_thinking_that_is_told_is_taken_off() -> None:
    thought = said(WORDS, 124, usage={"output_tokens_details": {"thinking_tokens": 100}})
    assert found((thought, said(WORDS, 24)), (thought, said(WORDS, 24))) == []
    more = said(WORDS, 148, usage={"output_tokens_details": {"thinking_tokens": 100}})
    assert only(found((more, said(WORDS, 24)), (more, said(WORDS, 24)))).params["billed"] == 96


@pytest.mark.parametrize(
    "other",
    [
        said(["other", *WORDS[1:]], 200),
        said(WORDS[::-1], 200),
        said([*WORDS, "more"], 200),
        said(WORDS[:1], 200),
        said(WORDS, 200, usage={"output_tokens": -3}),
        said(WORDS, 200, content=[{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "\n".join(WORDS)}]),
        said(
            WORDS, 200, content=[{"type": "redacted_thinking", "data": "…"}, {"type": "text", "text": "\n".join(WORDS)}]
        ),
        said([], 200),
    ],
    ids=[
        "another word",
        "another order",
        "more than asked",
        "one line",
        "no count",
        "thinking untold",
        "thinking hidden",
        "nothing",
    ],
)
def test_what_is_no_copy_says_nothing(other: dict[str, Any]) -> None:
    assert found((other, said(WORDS, 24)), (other, said(WORDS, 24))) == []
    assert found((said(WORDS, 24), other), (said(WORDS, 24), other)) == []


def test_a_step_without_the_vendors_copy_is_not_compared() -> None:
    whole = run(TWICE, TWICE)
    alone = whole.model_copy(update={"exchanges": tuple(e for e in whole.exchanges if e.side == "relay")})
    assert assess_output_echo(alone, KNOWLEDGE) == []
