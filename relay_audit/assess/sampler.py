"""Check 4, one legal field that leaves no trace in an answer: is a low temperature in force?

Questions with many equally good answers (one of some words, at random) are asked several times at a temperature near 0,
and once without one. Where the field arrives a question gets one word again and again; where it is lost the words differ
as they do without it. The vendor is asked the very same bodies: some of its answers are undecided at any temperature.

The temperature is near 0 and not 0, because software that keeps numbers without a mark for "not set" loses every 0, and
each body has another one, so that a store of answers is not asked the same twice. No other sampling field stands beside
it: `top_k` would keep the answers together where the temperature was lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from relay_audit.assess.parameter_cases import CONTROL_WINDOW, Official, Outcome, Result, Scene, compare
from relay_audit.assess.parameter_effects import written
from relay_audit.bounds import astray, percent, share_interval, stray_chance
from relay_audit.exchange import Exchange
from relay_audit.pack import Pack
from relay_audit.plan import Step
from relay_audit.prompt_text import texts_of
from relay_audit.usage import read_usage

CASE = "temperature_low"
QUESTIONS = 2
LEAST = 4
"""Answers to a question, below which nothing is said of it."""
WORDS = 3
"""Different words that each question must get. What is undecided at a low temperature wavers between two that are as good
as equal, and two hosts behind one line give two; three on both of two questions are given by whoever draws."""
CHANCE = 0.01
"""The exact chance that the relay's answers stray so much more than the vendor's, were they the same, however undecided the
vendor is on these questions. It is undecided on about one question in ten (measured), and both would have to be of these,
between three words and more: fewer than one honest relay in ten thousand. With 7 answers to each question it takes 6 strays
where the vendor has none. With a tenth of the questions undecided that is met in 90 % of runs where the commonest word has a
share of 0.3 without the field, in 80 % at 0.4 and in 61 % at 0.5; with six and five answers in 72, 57 and 37 %."""
WAVERS = 2
"""Different words to a question of a vendor that is still a yardstick: more, and it draws too."""
STRAYS_ALONE = 6
"""The same without the vendor beside it: a fact of low weight."""
STILL = 1
"""Strays, all questions together, with which the relay's answers still count as one word for each."""
REFUSED = frozenset({400, 422})
"""What a vendor says that does not take this today: then it is no yardstick, and its record none either."""
SAME_PROMPT = 8
"""Input tokens by which the two sides may differ: beyond it the relay's model reads something else, and what is added may be
another text each time."""


@dataclass(frozen=True)
class Asked:
    """One question, and what was answered."""

    relay: tuple[str, ...]
    vendor: tuple[str, ...]
    usual: tuple[str, ...]
    """The relay's answers without a temperature."""


Sent = list[tuple[Step, Exchange]]
"""Steps with what was answered to them, in the order of the plan."""


def low_temperature(scene: Scene) -> Result | None:
    """The case of a low temperature; None where it was not sent, or where the answers show nothing either way."""
    plan = scene.evidence.plan
    steps = [step for step in plan.steps if "drawn" in step.factors] if plan else []
    sent = [(step, e) for step in steps if (e := scene.evidence.of_step(step.id))]
    low = [step for step in steps if step.side == "relay" and "temperature" in step.body]
    if not low:
        return None
    step = low[0].model_copy(update={"case": CASE, "tier": "users"})
    heard = [(s, e) for s, e in sent if s in low and e.status == 200]
    told = [(s, e) for s, e in sent if s.side == "official"]
    if any(e.status in REFUSED for _, e in told):
        return None
    if not heard:
        return compare(step, scene)
    asked, usual = {s.id: e for s, e in heard}, [(s, e) for s, e in sent if s.side == "relay" and s not in low]
    told = [
        (s, e) for s, e in told if s.mirrors in asked and abs(e.sent_at - asked[s.mirrors].sent_at) <= CONTROL_WINDOW
    ]
    stored = scene.evidence.stored() | scene.evidence.stored("official")
    heard_, told_, usual_ = ([(s, e) for s, e in sent if e.id not in stored] for sent in (heard, told, usual))
    questions = [_asked(drawn, heard_, told_, usual_, scene.evidence.pack) for drawn in _questions(low)]
    if len(questions) < QUESTIONS or any(len(q.relay) < LEAST for q in questions):
        return None
    live = all(len(q.vendor) >= LEAST for q in questions)
    official = _official(scene, step, told if live else [])
    outcome: Outcome | None = _outcome(questions, live=live)
    if official is None or outcome is None:
        return None
    if outcome == "not_honoured" and not _reads_the_same(heard, told if live else [], scene.evidence.pack):
        return None
    rows = scene.defaults(CASE)
    if outcome == "not_honoured" and scene.is_default(rows, "rewritten", 200):
        outcome = "default"
    return Result(
        step, outcome, official, heard[0][1], defaults=rows, others=tuple(e.id for _, e in heard[1:]),
        shown=(_shown(q.vendor for q in questions) if live else "", _shown(q.relay for q in questions)),
        told=_bound(questions) if outcome == "same" else _counted(questions, live=live),
    )  # fmt: skip


def _questions(low: list[Step]) -> list[str]:
    return sorted({str(step.factors["drawn"]) for step in low})


def _asked(drawn: str, heard: Sent, told: Sent, usual: Sent, pack: Pack) -> Asked:
    def of(sent: Sent) -> tuple[str, ...]:
        return _words([(s, e) for s, e in sent if str(s.factors["drawn"]) == drawn], pack)

    return Asked(of(heard), of(told), of(usual))


def _words(sent: Sent, pack: Pack) -> tuple[str, ...]:
    """The words that were picked. An answer that holds none or several of them picks nothing."""
    said = [set(re.findall(r"[a-z]+", written(e, pack).lower())) & offered(s) for s, e in sent if e.status == 200]
    return tuple(words.pop() for words in said if len(words) == 1)


def offered(step: Step) -> set[str]:
    """The words to pick from: what stands after the last colon of the question."""
    return set(re.findall(r"[a-z]+", "\n".join(texts_of(step.body)).rpartition(":")[2].lower()))


def _outcome(questions: list[Asked], *, live: bool) -> Literal["same", "not_honoured"] | None:
    """Kept together where they would not be without the field, or gone astray where the vendor's are not."""
    strays = sum(astray(q.relay) for q in questions)
    if strays <= STILL:
        open_ = any(word != Counter(q.relay).most_common(1)[0][0] for q in questions for word in q.usual)
        return "same" if open_ else None  # one word with and without a temperature: nothing was to be seen
    if any(len(set(q.relay)) < WORDS for q in questions):
        return None
    if not live:
        return "not_honoured" if strays >= STRAYS_ALONE else None
    still = all(len(set(q.vendor)) <= WAVERS for q in questions)
    return "not_honoured" if still and stray_chance((q.relay, q.vendor) for q in questions) <= CHANCE else None


def _official(scene: Scene, step: Step, told: Sent) -> Official | None:
    """The vendor's answers of this run; without them its dated record."""
    target, day = scene.evidence.target, scene.evidence.started_at.date()
    if told:
        return Official(200, "", "", "temperature", target.official_basis, "measured",
                        exchanges=tuple(e.id for _, e in told))  # fmt: skip
    row = scene.knowledge.refusal_of(target.dialect, step.case, target.official_model, day, refused=False)
    if row is None or row.age(day) == "expired":
        return None
    return Official(200, "", "", row.names, "dated_baseline", row.level, stale=row.age(day) == "stale")


def _reads_the_same(heard: Sent, told: Sent, pack: Pack) -> bool:
    """Whether each question came to the relay's model as it was sent: as many tokens as at the vendor, or without one always
    as many."""
    counts = [(s, usage.billed_input) for s, e in heard if (usage := read_usage(e, pack))]
    vendors = {s.mirrors: usage.billed_input for s, e in told if (usage := read_usage(e, pack))}
    if len(counts) < len(heard):
        return False
    if vendors:
        return all(abs(count - vendors[s.id]) <= SAME_PROMPT for s, count in counts if s.id in vendors)
    return len({(str(s.factors["drawn"]), count) for s, count in counts}) == len(
        {s.factors["drawn"] for s, _ in counts}
    )


def _bound(questions: list[Asked]) -> dict[str, Any]:
    """How large the share of one word may have been without the field for a lost one to look like this: 95 %, one-sided."""
    n = sum(len(q.relay) for q in questions)
    kept = n - sum(astray(q.relay) for q in questions)
    return {"road": "sampled", "sampled": n, "sampled_share": percent(share_interval(kept, n, 0.9)[0])}


def _counted(questions: list[Asked], *, live: bool) -> dict[str, Any]:
    strays, vendors = (sum(map(astray, side)) for side in ([q.relay for q in questions], [q.vendor for q in questions]))
    told = {"sampled": sum(len(q.relay) for q in questions), "strays": strays}
    if not live:
        return {"road": "sampled_alone", **told}
    chance = stray_chance((q.relay, q.vendor) for q in questions)
    return {"road": "sampled", **told, "vendors": vendors, "vendors_of": sum(len(q.vendor) for q in questions),
            "chance": percent(ceil(chance * 1000) / 1000)}  # fmt: skip


def _shown(answers: Iterable[tuple[str, ...]]) -> str:
    """`cedar ×7 / harbor ×5, lake ×2`: our own words, counted."""
    return " / ".join(", ".join(f"{word} ×{n}" for word, n in Counter(words).most_common()) for words in answers)
