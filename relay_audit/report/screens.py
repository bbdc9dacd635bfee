"""The pages of a picture for a phone: a sentence first, then one screen for each of the four cards."""

from __future__ import annotations

import re
from dataclasses import dataclass

from relay_audit.codes import CODES
from relay_audit.report.edition import Audience
from relay_audit.report.pages import Page, headed
from relay_audit.report.phrases import capital

WIDTH = 1080
"""Pixels; what phones show without shrinking."""
SCREEN = 1480
"""Pixels of height of every screen."""
POINTS_AT_MOST = 2
SENTENCE = re.compile(r"。|[.] ")
"""Where a sentence ends."""
SENTENCE_AT_MOST = 110
"""Characters of one point in Chinese; a letter is half as wide."""


@dataclass(frozen=True)
class Screen:
    name: str
    question: str
    state: str
    symbol: str
    word: str
    text: str
    points: list[tuple[str, str]]
    """Title and what it does not prove, of the findings the card rests on."""
    foot: str


def screens(page: Page, audience: Audience) -> list[Screen]:
    """In the order of the cards."""
    room = SENTENCE_AT_MOST if page.lang == "zh-CN" else 2 * SENTENCE_AT_MOST
    made = []
    for view, made_of in zip(page.shared()["cards"], page.verdict.cards, strict=True):
        own = [f for f in page.findings if CODES[f.code].card == made_of.id and f.id in made_of.params["findings"]]
        texts = list(dict.fromkeys(headed(page.phrases.finding(f)) for f in own))[:POINTS_AT_MOST]
        points = [(_cut(capital(t.claim), room), _cut(t.not_proven, room)) for t in texts]
        foot = page.text("joint.dot").join([view.level, view.date, page.text(f"chat.{audience}")])
        made.append(
            Screen(view.name, view.question, view.state, view.symbol, view.word, _cut(view.text, room), points, foot)
        )
    return made


def _cut(text: str, room: int) -> str:
    """Whole sentences where one at least fits; a picture cannot be unfolded."""
    if len(text) <= room:
        return text
    whole = max((match.end() for match in SENTENCE.finditer(text[:room])), default=0)
    return text[:whole].rstrip() if whole > room // 3 else text[: room - 1] + "…"
