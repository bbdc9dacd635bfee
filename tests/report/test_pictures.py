"""Pictures: what they show follows from the figures, and every word in them stays inside."""

from __future__ import annotations

import unicodedata
from typing import Any, get_args

import pytest

from relay_audit.codes import finding
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.report.pictures import Picture, pictures
from relay_audit.tiers import TierState
from relay_audit.words import LANGS
from tests.report import samples

TIERS: dict[str, Any] = {
    "1080p_5s": {"state": "failed", "charged": "1.7", "official": "1.77", "ratio": None},
    "480p_5s": {"state": "delivered", "charged": "0.3", "official": "0.33", "ratio": "0.9091"},
    "720p_5s": {"state": "delivered", "charged": "0.9", "official": "0.71", "ratio": "1.2676"},
}
SHARES = {
    "anthropic": {"n": 18, "low": "34.0", "high": "68.6"},
    "aws": {"n": 17, "low": "31.4", "high": "66.0"},
}


def test_every_state_of_a_tier_has_its_word() -> None:
    for lang in LANGS:
        assert all(Catalogue.load(lang).text(f"tier_state.{state}") for state in get_args(TierState))


def drawn(lang) -> dict[str, Picture]:
    run = samples.evidence()
    paid = {entry.exchange: entry.amount / 2 for entry in run.ledger.entries}
    exchanges = tuple(e.model_copy(update={"charge": paid.get(e.id)}) for e in run.exchanges)
    run = run.model_copy(update={"exchanges": exchanges})
    more = [
        finding("billing.tiers_measured", {"n": 2, "table": []}, observed=TIERS),
        finding("channel.mixed", {"n": 35, "shares": SHARES, "claimed": "anthropic", "signals": ["aws.bedrock"]}),
    ]
    words = Catalogue.load(lang)
    made = pictures(run, samples.number((*samples.surplus_findings(run), *more)), words, Phrases(words))
    return {picture.id: picture for picture in made}


@pytest.mark.parametrize("lang", LANGS)
def test_all_five_are_drawn_and_no_word_runs_out_of_its_picture(lang) -> None:
    made = drawn(lang)
    assert set(made) == {"surplus", "shares", "charges", "tiers", "timeline"}
    for picture in made.values():
        assert picture.title
        assert picture.description
        for shape in picture.shapes:
            assert 0 <= min(shape.x, shape.x2 or shape.x) <= max(shape.x, shape.x2) <= picture.width, picture.id
            assert 0 <= max(shape.y, shape.y2) <= picture.height, picture.id
            # 13 units a character, a little more than half of it where it is narrow
            wide = sum(13 if unicodedata.east_asian_width(c) in "WF" else 7.2 for c in shape.text)
            left = shape.x - {"start": 0, "middle": wide / 2, "end": wide}[shape.anchor]
            assert left >= 0, (picture.id, shape.text)
            assert left + wide <= picture.width, (picture.id, shape.text)


def test_a_tier_stands_where_its_own_ratio_puts_it_and_one_without_a_ratio_nowhere() -> None:
    tiers = drawn("en")["tiers"]
    (official,) = [s.x for s in tiers.shapes if s.kind == "line" and s.tone == "official"]
    dots = [s.x for s in tiers.shapes if s.kind == "dot"]
    assert len(dots) == 2  # the third film was not made: its neighbours say nothing about it
    assert dots[0] < official < dots[1]
    texts = [s.text for s in tiers.shapes if s.kind == "text"]
    assert [t for t in texts if t.startswith(("480p", "720p", "1080p"))] == ["480p 5 s", "720p 5 s", "1080p 5 s"]
    assert {"×0.909", "×1.268", "not made"} < set(texts)
    assert "0.909 to 1.268" in tiers.description


def test_the_line_through_a_constant_surplus_is_level_and_says_one_number() -> None:
    surplus = drawn("en")["surplus"]
    (line,) = [s for s in surplus.shapes if s.kind == "line" and s.tone == "relay"]
    assert line.y == line.y2
    assert "508 tokens more than counted, whatever the length of the text" in surplus.description
