"""Two runs side by side: every cause is named, what weighs stands first, a stranger's text stays text, in both languages."""

from __future__ import annotations

import re

import pytest

from relay_audit.report.as_difference import difference_page
from relay_audit.report.catalogue import Catalogue
from relay_audit.words import LANGS
from tests.report import samples


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("form", ["html", "md"])
def test_every_change_has_its_cause_and_what_weighs_stands_first(form, lang) -> None:
    compared, words = samples.compared(), Catalogue.load(lang)
    text = difference_page(compared, form, words).decode()
    assert text == difference_page(compared, form, words).decode()
    for cause in ("relay", "official", "knowledge", "prices", "tool", "plan", "noise"):
        assert words.text(f"diff.cause.{cause}") in text
    numbers = [int(n) for n in re.findall(r"\bD(\d\d)\b(?=</span>|</dt>| )", text)]
    assert list(dict.fromkeys(numbers)) == list(range(1, len(compared.changes) + 1))
    heavy = sum(change.weighs or change.code == "quote.price" for change in compared.changes)
    rest = text.index(words.text("diff.rest"))
    assert text.index(f"D{heavy:02d}") < rest < text.index(f"D{heavy + 1:02d}")
    assert "3 / 15" in text
    assert "4 / 15" in text
    assert compared.then.evidence.run_id in text.replace("\\", "")


@pytest.mark.parametrize("lang", LANGS)
def test_what_the_relay_wrote_stays_text(lang) -> None:
    page = difference_page(samples.compared(), "html", Catalogue.load(lang)).decode()
    assert "<script>" not in page
    assert "<img" not in page
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page) is None


@pytest.mark.parametrize("lang", LANGS)
def test_a_command_stands_only_by_changes_that_are_not_the_relays(lang) -> None:
    compared = samples.compared()
    page = difference_page(compared, "html", Catalogue.load(lang)).decode()
    expected = sum(change.weighs and change.cause in compared.commands for change in compared.changes)
    assert expected
    assert page.count("<code>relay-audit ") == expected
