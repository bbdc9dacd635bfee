"""A quote says what a clean run of its plan would leave unseen, and what the next bound costs."""

from __future__ import annotations

from decimal import Decimal

from relay_audit.bounds import percent, unseen_share
from relay_audit.cli.screens import bounds, quote_screen
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.report.quote_text import next_bound
from relay_audit.words import LANGS
from tests.staged import staged


def test_the_quote_offers_the_next_bound_and_its_price(tmp_path):
    stage = staged("honest", tmp_path)
    quote = stage.plan()
    evidence = stage.history.evidence()
    legal = [step for step in evidence.plan.chargeable() if not step.refusal]
    cost = sum((quote.price_of(step.id).expected for step in legal), Decimal(0))
    n = len(legal)
    assert n > 24
    assert 0 < cost <= quote.expected
    said = bounds(evidence)
    assert set(said) == set(LANGS)
    for lang, text in said.items():
        for figure in (
            str(n),
            percent(unseen_share(n)),
            percent(unseen_share(2 * n)),
            Phrases(Catalogue.load(lang)).amount(cost),
        ):
            assert figure in text
        assert text in quote_screen(evidence, lang)


def test_where_nothing_is_bought_no_bound_is_offered(tmp_path):
    stage = staged("honest", tmp_path)
    assert next_bound(stage.history.evidence(), Catalogue.load("en")) == "", "there is no quote yet"
    stage.plan(free_only=True)
    assert set(bounds(stage.history.evidence()).values()) == {""}
