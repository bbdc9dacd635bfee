"""Texts out of the seed: the same for the same place, fresh everywhere else, never what a relay answers by itself."""

from __future__ import annotations

import pytest

from relay_audit.catalog import load_packs
from relay_audit.errors import PackError
from relay_audit.wording import Wording

LISTS = load_packs().wordlists
SENTENCE = "Reply with the single word OK."


def text(seed: int, place: str, script: str = "ascii", units: int = 28) -> str:
    call = {"generate": "text", "script": script, "units": units, "closing": "one_word"}
    return Wording(LISTS, seed).fill({"content": call}, {}, place)["content"]


@pytest.mark.parametrize("script", ["ascii", "cjk"])
def test_same_seed_and_place_same_text(script):
    assert text(7, "a", script) == text(7, "a", script)
    assert len({text(7, "a", script), text(8, "a", script), text(7, "b", script)}) == 3


def test_two_texts_of_one_body_differ():
    call = {"generate": "text", "script": "ascii", "units": 12}
    filled = Wording(LISTS, 1).fill({"messages": [{"content": call}, {"content": dict(call)}]}, {}, "x")
    assert filled["messages"][0]["content"] != filled["messages"][1]["content"]


def test_no_text_comes_twice_in_many_runs():
    seen = [text(seed, place, script, 8) for seed in range(300) for place in ("a", "b") for script in ("ascii", "cjk")]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("units", [8, 28, 64])
def test_units_are_words_or_chinese_characters(units):
    ascii_text = text(3, "p", "ascii", units).removesuffix(" " + SENTENCE)
    assert ascii_text.isascii()
    assert len(ascii_text.removesuffix(".").split(" ")) == units
    wide = [char for char in text(3, "p", "cjk", units).removesuffix("只回复一个词：OK。") if ord(char) > 0x2E7F]
    assert units <= len(wide) <= units + 2, "the counted characters, a comma and a full stop"


def test_the_fresh_word_stands_in_every_text():
    wording = Wording(LISTS, 5)
    for script in ("ascii", "cjk"):
        call = {"generate": "text", "script": script, "units": 8}
        assert wording.fill({"content": call}, {}, "q")["content"].lower().startswith(wording.nonce("q/content"))
        line = wording.fill({"system": {"generate": "nonce_line", "script": script}}, {}, "q")["system"]
        assert wording.nonce("q/system") in line
    assert len({wording.nonce(str(n)) for n in range(2000)}) > 1990


def test_values_factors_and_the_published_sentence():
    wording = Wording(LISTS, 1, SENTENCE)
    body = {"model": "$model", "max_tokens": "$limit", "tag": "$nonce", "content": {"generate": "published_sentence"}}
    filled = wording.fill(body, {"$model": "m", "$limit": 17}, "r")
    assert filled == {"model": "m", "max_tokens": 17, "tag": wording.nonce("r"), "content": SENTENCE}
    assert body["model"] == "$model", "the definition itself is untouched"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ({"generate": "text", "script": "runes", "units": 8}, "script 'runes'"),
        ({"generate": "text", "script": "ascii", "units": 0}, "at least 1"),
        ({"generate": "text", "script": "ascii", "units": "8"}, "whole number"),
        ({"generate": "text", "script": "ascii"}, "units"),
        ({"generate": "text", "script": "ascii", "units": 8, "closing": "farewell"}, "closing 'farewell'"),
        ({"generate": "poem"}, "not registered"),
    ],
)
def test_a_call_that_cannot_be_written_is_refused(call, says):
    with pytest.raises(PackError, match=says):
        Wording(LISTS, 1).fill({"content": call}, {}, "x")


def test_the_lists_are_long_and_plain():
    assert len(set(LISTS.ascii_words)) == len(LISTS.ascii_words) >= 160
    assert len(set(LISTS.cjk_clauses)) == len(LISTS.cjk_clauses) >= 120
    assert all(word.isascii() and word.isalpha() and word.islower() for word in LISTS.ascii_words)
    assert all(4 <= len(clause) <= 9 and all("一" <= c <= "鿿" for c in clause) for clause in LISTS.cjk_clauses)
    assert LISTS.closings["one_word"] == {
        "ascii": SENTENCE,
        "cjk": "只回复一个词：OK。",
        "emoji": SENTENCE,
        "code": SENTENCE,
    }
    assert len(set(LISTS.emoji_symbols)) == len(LISTS.emoji_symbols) >= 64
    assert all(len(symbol) == 1 and symbol > "\uffff" for symbol in LISTS.emoji_symbols)


def test_nothing_looks_like_a_client_s_housekeeping():
    """Some relays answer such texts themselves, without any model."""
    texts = [text(seed, "h", script, units) for seed in range(100) for script in ("ascii", "cjk") for units in (8, 64)]
    for sample in (*texts, *LISTS.ascii_words, *LISTS.cjk_clauses):
        assert not any(
            word in sample.lower() for word in ("warmup", "title", "suggestion", "topic", "quota", "标题", "预热")
        )
