"""The one deliberate repeat: the same body twice, and what an answer out of a store looks like."""

from __future__ import annotations

from typing import Any

import pytest
from evidence_builders import MODEL, START, answered, at, only, plan_of, run_of, step_named

from relay_audit.assess.channel import assess_channel
from relay_audit.assess.repeated import assess_repeated
from relay_audit.books import LogReading, LogRow
from relay_audit.catalog import load_knowledge
from relay_audit.evidence import Evidence

KNOWLEDGE = load_knowledge()
BODY = {"model": MODEL, "max_tokens": 24, "messages": [{"role": "user", "content": "the same"}]}


def said(id_: str, text: str = "OK") -> dict[str, Any]:
    usage = {"input_tokens": 20, "output_tokens": 4}
    return {"id": id_, "type": "message", "model": MODEL, "content": [{"type": "text", "text": text}], "usage": usage}


def run(*answers: tuple[dict[str, Any], dict[str, Any]], charged: tuple[int, ...] = (), log: bool = True) -> Evidence:
    """Body and answer of each exchange; `charged`: the exchanges (from 1) that have a row."""
    steps = [step_named(f"s{place}") for place in range(len(answers))]
    exchanges = [
        answered(place + 1, f"s{place}", answer, moment=at(10 * place), sent=body)
        for place, (body, answer) in enumerate(answers)
    ]
    rows = tuple(LogRow(exchange=f"X{n:04}", created_at=START, kind="consume", model=MODEL, quota=40) for n in charged)
    reading = LogReading(at=at(100), exchange="X0099", state="read", rows=rows)
    return run_of(exchanges, steps, plan=plan_of(steps), log=(reading,) if log else ())


FRESH = {**BODY, "messages": [{"role": "user", "content": "another"}]}
LAST = {**BODY, "messages": [{"role": "user", "content": "a third"}]}
STORED = ((BODY, said("msg_1")), (BODY, said("msg_1")), (FRESH, said("msg_2")))


def test_the_same_id_and_text_is_a_stored_answer() -> None:
    hit = only(assess_repeated(run(*STORED), KNOWLEDGE))
    assert (hit.code, hit.severity, hit.outcome) == ("integrity.response_replayed", "info", "match")
    assert hit.params == {"n": 1, "of": 1, "charged": 0}
    assert (hit.confidence, hit.basis) == ("supporting", "recorded")
    assert hit.exchanges == ("X0001", "X0002")
    assert not hit.accusation


def test_a_stored_answer_that_was_charged_is_held_against_it() -> None:
    hit = only(assess_repeated(run(*STORED, charged=(1, 2, 3)), KNOWLEDGE))
    assert (hit.severity, hit.outcome, hit.confidence, hit.basis) == ("medium", "mismatch", "strong", "relay_word")
    assert hit.params["charged"] == 1
    assert hit.accusation
    assert only(assess_repeated(run(*STORED, charged=(1, 3)), KNOWLEDGE)).severity == "info"


@pytest.mark.parametrize(
    "answers",
    [
        ((BODY, said("msg_1")), (BODY, said("msg_2")), (FRESH, said("msg_3"))),
        ((BODY, said("msg_1")), (BODY, said("msg_1", "Sure")), (FRESH, said("msg_3"))),
        ((BODY, said("msg_1")), (FRESH, said("msg_2"))),
        ((BODY, said("msg_1")), (BODY, said("msg_1")), (FRESH, said("msg_1"))),
        ((BODY, {**said("msg_1"), "id": None}), (BODY, {**said("msg_1"), "id": None})),
        ((BODY, {**said("msg_1"), "id": 7}), (BODY, {**said("msg_1"), "id": 7})),
        (*STORED, (LAST, said("msg_2"))),
    ],
    ids=[
        "a new id",
        "a new text",
        "no repeat",
        "an id of everybody's",
        "no id",
        "no text for an id",
        "an id of two requests beside it",
    ],
)
def test_silent(answers: tuple[tuple[dict[str, Any], dict[str, Any]], ...]) -> None:
    assert assess_repeated(run(*answers, charged=(1, 2, 3)), KNOWLEDGE) == []


def test_the_deliberate_repeat_is_no_replay_on_different_requests() -> None:
    assert "channel.id_replayed" not in [f.code for f in assess_channel(run(*STORED), KNOWLEDGE)]
    other = ((BODY, said("msg_1")), (FRESH, said("msg_1")), (BODY, said("msg_2")))
    assert "channel.id_replayed" in [f.code for f in assess_channel(run(*other), KNOWLEDGE)]


def test_a_question_that_is_asked_again_under_another_temperature_is_no_other_question() -> None:
    """Some stores look at the prompt alone: an id that comes again with it was stored, and nothing was passed off."""
    warmer, colder = ({**BODY, "temperature": heat} for heat in (0.02, 0.01))
    asked = run((warmer, said("msg_1")), (colder, said("msg_1")), (FRESH, said("msg_2")))
    assert "channel.id_replayed" not in {f.code for f in assess_channel(asked, KNOWLEDGE)}
    beside = run((warmer, said("msg_1")), (colder, said("msg_1")), *STORED[1:], (BODY, said("msg_1")))
    assert only(assess_repeated(beside, KNOWLEDGE)).params == {"n": 1, "of": 1, "charged": 0}
    another = run((warmer, said("msg_1")), (FRESH, said("msg_1")))
    assert "channel.id_replayed" in {f.code for f in assess_channel(another, KNOWLEDGE)}
