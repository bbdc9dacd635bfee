"""Check 2, asked for: what stands before the buyer's own text, in the model's words. It supports a surplus and carries none.

A model that is asked for text it was not given may make some up, and one that has some may keep it. So a word counts only
where two askings in two languages give the same passage, each as a block with nothing beside it, where the vendor's own
answer to the same request does not hold it, and where a surplus of tokens makes room for it. The passage is a stranger's
text: only a bounded part of it leaves this module, under a key that says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import partial
from itertools import combinations
from typing import NamedTuple

from relay_audit.assess.parameter_effects import written
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Step
from relay_audit.prompt_text import estimated, texts_of

REQUEST = "recite"
"""What the request of such a probe is called, in every dialect."""
SHARED = 20
"""Words, or Chinese characters, that two answers must have in common in one piece: a stock persona is shorter."""
PREFACE = 8
"""Words that may stand before the block. After it none: that is where a model says that it made the text up."""
EXCERPT = 160
READ = 12_000
"""Characters of an answer that are compared; its output limit holds far fewer."""
UNITS = re.compile("[\u2e80-\U0010ffff]|[^\\W\u2e80-\U0010ffff]+")
BLOCK = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
SURPLUSES = {
    "tokens.constant_surplus": "high",
    "tokens.intermittent_surplus": "surplus",
    "tokens.variable_surplus": "high",
    "tokens.inconclusive_offset": "offset",
}
"""Findings that leave room for a hidden text → their parameter with the most tokens of it."""
LONGER = 3
"""Times the surplus that an upper estimate of the passage may have."""


class Passage(NamedTuple):
    text: str
    units: tuple[str, ...]


def assess_recitation(evidence: Evidence, _: Knowledge) -> list[Finding]:
    asked = [s for s in evidence.plan.steps if s.request == REQUEST and s.side == "relay"] if evidence.plan else []
    answers = [(step, e) for step in asked if (e := evidence.of_step(step.id)) is not None and e.status == 200]
    if not answers:
        return []
    nothing = partial(_nothing, len(answers), exchanges=tuple(e.id for _, e in answers))
    told = [(e, block) for step, e in answers if (block := _block(step, e, evidence))]
    best = max((_common(one, other) for (_, one), (_, other) in combinations(told, 2)), key=_length, default=None)
    if best is None or _length(best) < SHARED:
        return [nothing("no_agreement" if len(told) > 1 else "not_recited")]
    vendor = [(step, e) for step in _mirrors(asked, evidence) if (e := evidence.of_step(step.id)) is not None]
    if any(2 * _length(_common(best, _passage(written(e, evidence.pack)))) >= _length(best) for _, e in vendor):
        return [nothing("control_recites")]
    params = {
        "n": len(told),
        "of": len(asked),
        "words": _length(best),
        "about_tokens": estimated(best.text, evidence.pack),
        "untrusted_excerpt": best.text[:EXCERPT],
    }
    return [finding("tokens.hidden_text_recited", params, exchanges=tuple(e.id for e, _ in told), basis="relay_word")]


def beside_the_count(found: list[Finding]) -> list[Finding]:
    """A recited text beside what was counted: without a surplus that has room for it, nothing follows from it."""
    room = max((int(f.params[SURPLUSES[f.code]]) for f in found if f.code in SURPLUSES), default=0)
    return [_without_room(f, room) if f.code == "tokens.hidden_text_recited" else f for f in found]


def _without_room(item: Finding, room: int) -> Finding:
    if room and item.params["about_tokens"] <= LONGER * room:
        return item
    return _nothing(item.params["of"], "longer_than_surplus" if room else "no_surplus", item.exchanges)


def _nothing(of: int, reason: str, exchanges: tuple[str, ...]) -> Finding:
    return finding("tokens.nothing_recited", {"of": of, "reason": reason}, exchanges=exchanges, basis="relay_word",
                   confidence="weak")  # fmt: skip


def _mirrors(asked: list[Step], evidence: Evidence) -> Iterable[Step]:
    own = {step.id for step in asked}
    return (s for s in evidence.plan.steps if s.mirrors in own) if evidence.plan else ()


def _block(step: Step, exchange: Exchange, evidence: Evidence) -> Passage | None:
    """The one block of an answer, without what the request itself says."""
    text = written(exchange, evidence.pack)[:READ]
    blocks = list(BLOCK.finditer(text))
    if len(blocks) != 1 or UNITS.search(text, blocks[0].end()):
        return None
    if len(UNITS.findall(text[: blocks[0].start()])) > PREFACE:
        return None
    passage = _passage(blocks[0][1])
    echoed = _common(passage, _passage("\n".join(texts_of(step.body))))
    return None if 2 * _length(echoed) >= _length(passage) else passage


def _passage(text: str) -> Passage:
    return Passage(text, tuple(unit.lower() for unit in UNITS.findall(text)))


def _common(one: Passage, other: Passage) -> Passage:
    """The longest piece of the first that stands in the second too, word for word."""
    match = SequenceMatcher(None, one.units, other.units, autojunk=False).find_longest_match()
    if not match.size:
        return Passage("", ())
    spans = [found.span() for found in UNITS.finditer(one.text)][match.a : match.a + match.size]
    return Passage(one.text[spans[0][0] : spans[-1][1]], one.units[match.a : match.a + match.size])


def _length(passage: Passage) -> int:
    return len(passage.units)
