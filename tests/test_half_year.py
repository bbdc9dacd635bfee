"""Half a year of nights: one issue for the one real change, within two nights, and below the ceiling."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.half_year import NIGHTS, ODD, Story, live

pytestmark = pytest.mark.deep


def test_half_a_year_of_nights_opens_one_issue(tmp_path):
    """Drift, rotation, flaky nights, incidents at the vendor, nights without an answer, a dearer contract, a newer program
    with more knowledge; and from night 120 on the one real degradation, itself with odd nights."""
    story = Story()
    lived = live(story, tmp_path)
    assert len(lived.nights) == NIGHTS
    met = {said["scenario"].removesuffix("+worse") for said in lived.nights}
    assert met >= {"honest", *ODD}
    assert [action for _, action in lived.issues] == ["open"]
    opened = lived.issues[0][0]
    assert story.worse <= opened <= story.worse + 1
    failed = [night for night, code in enumerate(lived.codes) if code]
    assert failed[0] == opened
    after = dict(enumerate(lived.nights[opened:], opened))
    unseen = {night for night, said in after.items() if night not in failed}
    assert {after[night]["night"]["state"] for night in unseen} <= {"standing", "none"}
    assert len(unseen) < len(after) / 10
    assert lived.nights[opened]["night"]["confirmed"] == ["tokens.constant_surplus"]
    told = [night for night, said in enumerate(lived.nights) if said["night"]["prices"]]
    assert told[0] == story.dearer
    assert Decimal(0) < lived.dearest_month < Decimal(story.per_month)


def test_a_month_that_is_spent_neither_fails_a_night_nor_clears_the_line(tmp_path):
    """The ceiling of thirty days leaves room for few paid nights: the others look free of charge, and nobody takes what
    they did not look at for recovery."""
    story = Story(seed=11, worse=10, odd_share=0, per_month="0.09")
    lived = live(story, tmp_path, nights=45)
    assert [action for _, action in lived.issues] == ["open"]
    unpaid = [said for said in lived.nights[lived.issues[0][0] :] if said["night"]["state"] == "standing"]
    assert len(unpaid) >= 5
    assert all("tokens.constant_surplus" in said["night"]["text"]["en"] for said in unpaid)
    assert lived.dearest_month <= Decimal(story.per_month)
