"""What an answer says was used. A count that is not a count makes the whole usage void."""

from __future__ import annotations

import pytest

from relay_audit.exchange import pointer, whole_number
from relay_audit.usage import Usage, has_bad_usage, read_usage
from tests.assess.evidence_builders import PACK, START, answered, lost


def told(usage: object, *, status: int = 200, cut: bool = False):
    return answered(1, "s", {"usage": usage}, moment=START, status=status, cut=cut)


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ({"input_tokens": 18, "output_tokens": 4}, Usage(input=18, output=4)),
        ({"input_tokens": 0, "output_tokens": 1}, Usage(input=0, output=1)),
        ({"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 9}, Usage(input=0, cache_read=9)),
        ({"input_tokens": 0, "output_tokens": 0}, None),  # no prompt takes nothing: a form that nobody filled in
        ({"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0}, None),
        ({"input_tokens": 18.0, "output_tokens": 4}, Usage(input=18, output=4)),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 7}, Usage(input=1, output=2, cache_read=7)),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 7},
            Usage(input=1, output=2, cache_write_5m=7),
        ),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": None, "cache_creation": None},
            Usage(input=1, output=2),
        ),
        (
            {
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_1h_input_tokens": 5, "ephemeral_5m_input_tokens": 2},
            },
            Usage(input=1, output=2, cache_write_5m=2, cache_write_1h=5),
        ),
        (
            {
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_1h_input_tokens": 9},
            },
            Usage(input=1, output=2, cache_write_1h=7),
        ),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_creation": {"ephemeral_1h_input_tokens": 9}},
            Usage(input=1, output=2, cache_write_1h=9),
        ),
        ({"input_tokens": 18, "output_tokens": 4, "unheard_of": {"a": -1}}, Usage(input=18, output=4)),
    ],
    ids=str,
)
def test_a_usage_is_read(usage, read):
    assert read_usage(told(usage), PACK) == read
    assert not has_bad_usage(told(usage), PACK)


BAD = [-1, 1.5, "18", True, 2**53, [1], float("inf")]


@pytest.mark.parametrize(
    "field", ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
)
@pytest.mark.parametrize("value", BAD[:6], ids=str)
def test_one_count_that_is_none_voids_the_usage(field, value):
    exchange = told({"input_tokens": 18, "output_tokens": 4, field: value})
    assert read_usage(exchange, PACK) is None
    assert has_bad_usage(exchange, PACK)


def test_a_bad_hour_voids_it_too():
    usage = {"input_tokens": 18, "output_tokens": 4, "cache_creation": {"ephemeral_1h_input_tokens": -1}}
    assert read_usage(told(usage), PACK) is None


@pytest.mark.parametrize(
    "usage", [None, {}, {"input_tokens": 18}, {"output_tokens": 4}, [], "x", {"input_tokens": None, "output_tokens": 4}]
)
def test_what_is_missing_cannot_be_read_and_is_not_bad(usage):
    assert read_usage(told(usage), PACK) is None
    assert not has_bad_usage(told(usage), PACK)


def test_only_a_whole_answer_is_read():
    usage = {"input_tokens": 18, "output_tokens": 4}
    assert read_usage(told(usage, status=201), PACK) is None
    assert read_usage(told(usage, cut=True), PACK) is None
    assert read_usage(lost(1, "s"), PACK) is None
    assert read_usage(answered(1, "s", "<html>", moment=START), PACK) is None
    assert not has_bad_usage(told({"input_tokens": -1}, status=500), PACK)


def test_nan_is_no_json():
    assert answered(1, "s", '{"usage": {"input_tokens": NaN}}', moment=START).answer() is None
    assert answered(1, "s", '{"usage": {"input_tokens": Infinity}}', moment=START).answer() is None
    assert answered(1, "s", "[" * 100_000, moment=START).answer() is None


def test_all_input_is_billed_input():
    usage = Usage(input=1, cache_read=2, cache_write_5m=4, cache_write_1h=8, output=16)
    assert (usage.billed_input, usage.cached) == (15, 14)
    assert usage.by_kind() == {"input": 1, "cache_read": 2, "cache_write_5m": 4, "cache_write_1h": 8, "output": 16}


@pytest.mark.parametrize("value", [*BAD, None, float("nan"), 1e99, -0.5])
def test_no_count(value):
    assert whole_number(value) is None


@pytest.mark.parametrize(("value", "number"), [(0, 0), (7, 7), (7.0, 7), (2**53 - 1, 2**53 - 1)])
def test_a_count(value, number):
    assert whole_number(value) == number


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", {"a": [{"b": 1}], "x/y": 2, "m~n": 3, "": 4, "0": 5}),
        ("/a/0/b", 1),
        ("/x~1y", 2),
        ("/m~0n", 3),
        ("/", 4),
        ("/0", 5),
        ("/a/1", None),
        ("/a/-", None),
        ("/a/b", None),
        ("/a/0/b/c", None),
        ("/no", None),
        ("/a/-1", None),
    ],
)
def test_pointers(path, value):
    assert pointer({"a": [{"b": 1}], "x/y": 2, "m~n": 3, "": 4, "0": 5}, path) == value
