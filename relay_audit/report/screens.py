"""The pages of a picture for a phone: a sentence first, then one screen for each of the four cards."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from unicodedata import east_asian_width

from relay_audit.codes import CODES
from relay_audit.report.edition import Audience
from relay_audit.report.pages import Page, headed
from relay_audit.report.phrases import Texts, capital

WIDTH = 1080
"""Pixels; what phones show without shrinking."""
SCREEN = 1480
"""Pixels of height of every screen."""
POINTS_AT_MOST = 2
SHARES = (Decimal(1), Decimal("0.75"), Decimal("0.5"))
"""Of the characters of a point, tried in turn, before one point less is shown."""
SENTENCE = re.compile(r"。|[.] ")
"""Where a sentence ends."""
SENTENCE_AT_MOST = 110
"""Characters of one point in Chinese; a letter is half as wide."""
ROOM, LINE, POINT = 1330, 928, 848
"""Pixels: height inside a screen's margins, width of a line there and inside a point's box (`_screens.css`)."""
FIXED, BOX = 86 + 57 + 10 + 166 + 34, 30 + 56 + 18
"""Pixels of height: name, question, state and the gap over the foot; edges of a point's box."""
QUESTION, HEAD, CLAIM = (38, Decimal(57)), (46, Decimal("66.7")), (36, Decimal("53.3"))
LIMIT, FOOT = (34, Decimal(51)), (32, Decimal("46.4"))
"""Size of a letter and height of a line, in pixels."""
WIDE, NARROW, RAGGED = Decimal(1), Decimal("0.56"), Decimal("0.93")
"""Width of a Chinese character and of a letter, by its size; how much of a line words fill."""


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
    foot: list[str]
    """Level, day and edition; on the last screen what was not judged, too."""


def screens(page: Page, audience: Audience) -> list[Screen]:
    """In the order of the cards."""
    room = SENTENCE_AT_MOST if page.lang == "zh-CN" else 2 * SENTENCE_AT_MOST
    made: list[Screen] = []
    for view, made_of in zip(page.shared()["cards"], page.verdict.cards, strict=True):
        own = [f for f in page.findings if CODES[f.code].card == made_of.id and f.id in made_of.params["findings"]]
        texts = list(dict.fromkeys(headed(page.phrases.finding(f)) for f in own))[:POINTS_AT_MOST]
        foot = [page.text("joint.dot").join([view.level, view.date, page.text(f"chat.{audience}")])]
        foot += [page.text("limit.capacity")] if len(made) == len(page.verdict.cards) - 1 else []
        text = _cut(view.text, room)
        taken = sum((_height(part, FOOT, LINE) for part in foot), _height(text, HEAD, LINE))
        taken += _height(view.question, QUESTION, LINE) - QUESTION[1]
        points = _points(texts, room, ROOM - FIXED - taken, page.text("finding_part.not_proven"))
        made.append(Screen(view.name, view.question, view.state, view.symbol, view.word, text, points, foot))
    return made


def _points(texts: list[Texts], room: int, height: Decimal, word: str) -> list[tuple[str, str]]:
    """As many as the height holds, shorter before fewer: a picture has no scroll bar, and what runs over is gone."""
    for many in range(len(texts), 0, -1):
        for share in SHARES:
            at_most = int(room * share)
            points = [(_cut(capital(t.claim), at_most), _cut(t.not_proven, at_most)) for t in texts[:many]]
            wanted = (
                BOX + _height(claim, CLAIM, POINT) + _height(f"{word}: {limit}", LIMIT, POINT)
                for claim, limit in points
            )
            if sum(wanted) <= height:
                return points
    return []


def _height(text: str, letter: tuple[int, Decimal], width: int) -> Decimal:
    """Pixels of a text, estimated; rather too many than too few."""
    size, line = letter
    long = size * sum((WIDE if east_asian_width(char) in "WFA" else NARROW for char in text), Decimal(0))
    return line * max(1, math.ceil(long / (width * RAGGED)))


def _cut(text: str, room: int) -> str:
    """Whole sentences where one at least fits; a picture cannot be unfolded."""
    if len(text) <= room:
        return text
    whole = max((match.end() for match in SENTENCE.finditer(text[:room])), default=0)
    return text[:whole].rstrip() if whole > room // 3 else text[: room - 1] + "…"
