"""Both languages say the same things, every code can be spoken of, and nobody's intent is ever named."""

from __future__ import annotations

import re

import pytest

from relay_audit.codes import CODES, finding
from relay_audit.gate import StopReason
from relay_audit.report.catalogue import Catalogue, MissingTextError
from relay_audit.report.phrases import DERIVED, PARTS, Phrases
from relay_audit.report.terms import UNIT_PRICES
from relay_audit.words import LANGS

EN, ZH = Catalogue.load("en"), Catalogue.load("zh-CN")
INTENT = (
    "欺诈", "诈骗", "造假", "假冒", "骗", "黑心", "掺水",
    "fraud", "fake", "scam", "cheat", "counterfeit", "dishonest", "steal",
)  # fmt: skip


def test_both_languages_have_the_same_keys_and_placeholders() -> None:
    assert EN.names() == ZH.names()
    assert {k: EN.placeholders(k) for k in EN.names()} == {k: ZH.placeholders(k) for k in ZH.names()}


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_complete_and_filled_from_its_own_parameters(code: str) -> None:
    for catalogue in (EN, ZH):
        for part in PARTS:
            names = catalogue.placeholders(f"finding.{code}.{part}")
            assert names <= {*CODES[code].params, *DERIVED.get(code, ())}, (catalogue.lang, part)


PUBLISHED = sorted({key.split(".", 2)[2].rsplit(".", 1)[0] for key in EN.names() if key.startswith("compared.")})


@pytest.mark.parametrize("code", PUBLISHED)
def test_what_was_held_against_a_published_count_is_not_called_official(code: str) -> None:
    """Without a key one sentence is compared with one published number: no text may claim the vendor's own count of it."""
    made = finding(code, dict.fromkeys(CODES[code].params, 1), basis="dated_baseline")
    live = made.model_copy(update={"basis": "live_official"})
    for catalogue, published, official in ((EN, "published", "the official count"), (ZH, "公开", "与官方计数")):
        texts = Phrases(catalogue).finding(made)
        assert published in texts.title
        assert published in texts.claim
        assert official not in texts.title + texts.claim
        assert published not in Phrases(catalogue).finding(live).claim


def test_no_text_for_a_code_that_does_not_exist() -> None:
    spoken = {key.removeprefix("finding.").rsplit(".", 1)[0] for key in EN.names() if key.startswith("finding.")}
    assert spoken == set(CODES)


def test_a_sentence_that_names_a_price_has_public_words_without_it() -> None:
    spoken = [key for key in EN.names() if key.startswith(("finding.", "agreeing.", "road."))]
    public = {key.removeprefix("in_public.") for key in EN.names() if key.startswith("in_public.")}
    assert public <= set(spoken)
    for catalogue in (EN, ZH):
        assert {key for key in spoken if catalogue.placeholders(key) & UNIT_PRICES} <= public
        for key in public:
            assert catalogue.placeholders(f"in_public.{key}") <= catalogue.placeholders(key) - UNIT_PRICES


@pytest.mark.parametrize("code", CODES)
def test_titles_hold_no_text_of_a_stranger(code: str) -> None:
    for catalogue in (EN, ZH):
        assert not any(name.startswith("untrusted_") for name in catalogue.placeholders(f"finding.{code}.title"))


def test_no_text_names_an_intent() -> None:
    for catalogue in (EN, ZH):
        texts = "\n".join(catalogue.messages()).lower()
        assert [word for word in INTENT if word in texts] == []


def test_every_reason_to_stop_has_a_text() -> None:
    for reason in StopReason.__args__:  # type: ignore[attr-defined]
        for catalogue in (EN, ZH):
            assert catalogue.text(f"stop.{reason}")


def test_chinese_texts_are_chinese() -> None:
    """Every sentence of a finding holds Chinese characters and Chinese full stops."""
    for key in ZH.names():
        text = ZH.text(key, **dict.fromkeys(ZH.placeholders(key), "x"))
        if key.startswith("finding.") and not key.endswith(".title"):
            assert re.search(r"[\u4e00-\u9fff]", text), key
            assert not re.search(r"[\u4e00-\u9fff][,.;:!?](?:\s|$)", text), key


@pytest.mark.parametrize("lang", LANGS)
def test_lookup_is_strict(lang: str) -> None:
    catalogue = Catalogue.load(lang)  # type: ignore[arg-type]
    with pytest.raises(MissingTextError):
        catalogue.text("finding.no.such.code")
    with pytest.raises(MissingTextError):
        catalogue.text("finding.tokens.match.claim", n="3")


def test_placeholders_are_plain_names_only() -> None:
    odd = Catalogue("en", {"a": "{x.__class__}", "b": "{x[0]}", "c": "{}", "d": "{x!r}", "e": "{x:>9}", "ok": "{x}"})
    for key in "abce":
        with pytest.raises(MissingTextError):
            odd.text(key, x="v")
    assert odd.text("ok", x="{y.__class__}") == "{y.__class__}"
