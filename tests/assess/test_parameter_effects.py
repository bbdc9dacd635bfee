"""Does a stop word stop, does a limit bound: read from what was written, and only where the task was followed."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.parameter_effects import asked_for, output_bound, stop_word, written
from relay_audit.exchange import Exchange
from relay_audit.plan import Step
from tests.assess.evidence_builders import PACK, answered, at, step_named

LINES = [f"word{n}" for n in range(1, 41)]
TASK = "\n".join(["Copy these lines:", *LINES])


def step(limit: int | None = 48, **body: Any) -> Step:
    whole = {"messages": [{"role": "user", "content": TASK}], **body}
    return step_named("s").model_copy(update={"body": whole, "output_limit": limit})


def said(lines: list[str], output: int = 20, **more: Any) -> Exchange:
    usage = {"input_tokens": 90, "output_tokens": output}
    body = {"content": [{"type": "text", "text": "\n".join(lines)}], "usage": usage, **more}
    return answered(1, "s", body, moment=at(1))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}], "a"),
        ([{"type": "message", "content": [{"text": "deep"}]}], "deep"),
        ([{"text": 7, "content": "kept"}], "kept"),
        ([None, 3, {}], ""),
        (None, ""),
    ],
)
def test_what_was_written_is_found_wherever_the_dialect_puts_it(content, text):
    assert written(answered(1, "s", {"content": content}, moment=at(1)), PACK) == text


def test_the_lines_to_copy_are_all_but_the_first():
    assert asked_for(step()) == LINES
    assert asked_for(step(messages=[{"role": "user", "content": "Copy:\n\n  a  \n b\n"}])) == ["a", "b"]


STOP = {"stop_sequences": ["word20"]}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (LINES[:19], "same"),
        (LINES[:3], "same"),
        (LINES[:20], "not_honoured"),
        (LINES, "not_honoured"),
        ([*LINES[:19], "word30"], "unclear"),
        ([*LINES[:19], "word21"], "unclear"),
        ([], "unclear"),
    ],
)
def test_a_stop_word_stops_before_it_is_written(lines, says):
    assert stop_word(step(**STOP), said(lines), PACK, {}) == says


def test_what_the_vendor_says_of_a_stop_is_looked_for():
    reads = {"/stop_reason": "stop_sequence"}
    assert stop_word(step(**STOP), said(LINES[:19], stop_reason="stop_sequence"), PACK, reads) == "same"
    assert stop_word(step(**STOP), said(LINES[:19], stop_reason="end_turn"), PACK, reads) == "unclear"
    assert stop_word(step(**STOP), said(LINES[:20], stop_reason="stop_sequence"), PACK, reads) == "not_honoured"


@pytest.mark.parametrize(
    "given", [{"stop": "word20"}, {"stop": ["word20", "x"]}, {"stop_sequences": None, "stop": ["word20"]}]
)
def test_a_stop_word_in_either_dialect(given):
    assert stop_word(step(**given), said(LINES[:19]), PACK, {}) == "same"
    assert stop_word(step(**given), said(LINES), PACK, {}) == "not_honoured"


@pytest.mark.parametrize(
    "given",
    [{}, {"stop": []}, {"stop": [""]}, {"stop": [7]}, {"stop": {"a": 1}}, {"stop": "word40"}, {"stop": "elsewhere"}],
)
def test_without_a_stop_word_inside_the_list_nothing_shows(given):
    assert stop_word(step(**given), said(LINES[:19]), PACK, {}) == "unclear"


@pytest.mark.parametrize(
    ("lines", "output", "says"),
    [
        (LINES[:24], 48, "same"),
        (LINES[:24], 52, "same"),
        (LINES[:24], 53, "unclear"),
        (LINES[:26], 52, "same"),
        (LINES[:26], 53, "unclear"),
        (LINES[:27], 53, "not_honoured"),
        (LINES, 48, "not_honoured"),
        (LINES[37:], 10, "not_honoured"),
        (LINES[38:], 10, "same"),
        (LINES[:5], 10, "same"),
        ([" "], 48, "unclear"),
        ([], 48, "unclear"),
    ],
)
def test_a_limit_bounds_what_is_written(lines, output, says):
    assert output_bound(step(), said(lines, output), PACK, {}) == says


@pytest.mark.parametrize(
    ("reason", "output", "says"),
    [
        ("max_tokens", 48, "same"),
        ("max_tokens", 40, "same"),
        ("max_tokens", 39, "clamped"),
        ("max_tokens", 15, "clamped"),
        ("max_tokens", 14, "unclear"),  # fewer than there are lines: it counts another answer, or none
        ("max_tokens", 0, "unclear"),
        ("end_turn", 39, "unclear"),
        ("end_turn", 48, "unclear"),
    ],
)
def test_an_answer_that_ended_at_a_lower_limit_was_clamped(reason, output, says):
    reads = {"/stop_reason": "max_tokens"}
    assert output_bound(step(), said(LINES[:15], output, stop_reason=reason), PACK, reads) == says


def test_without_a_limit_a_list_or_a_usage_nothing_shows():
    assert output_bound(step(limit=None), said(LINES[:5]), PACK, {}) == "unclear"
    assert output_bound(step(messages=[{"role": "user", "content": "hi"}]), said(LINES[:5]), PACK, {}) == "unclear"
    assert output_bound(step(), said(LINES[:5], usage=None), PACK, {}) == "unclear"
