"""By which roads a model can be told from its siblings, out of what is known before anything is sent.

Two roads end in a name: a refusal of the vendor's whose text says one (of an oversized output limit, of an effort that the
model has not), and the clear part of a thinking signature. Where a relay lets one of them through, agreement is a match.
The others are signs: a limit, rules that one model has and another has not, a tokenizer, and among models of one tokenizer
the prompt that the vendor adds where tools are offered. They exclude siblings and confirm nobody, so that without a name
the model stays `not_verifiable`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from relay_audit.fingerprint import Knowledge, ModelFacts
from relay_audit.pack import Pack
from relay_audit.probe import Probe
from relay_audit.words import Frozen

RoadName = Literal["error_text", "signature", "limit", "rules", "tokenizer", "tool_prompt"]
OFFERED = "offered_tool"
"""The case that offers a tool: beside the same text without one it shows what the vendor adds there."""
APART = 8
"""Tokens by which two tool prompts must differ to be told apart: less is what counts of one model may differ by."""


class Road(Frozen):
    name: RoadName
    ends_in_a_name: bool
    """Whether it says the model's own name; else it only excludes others."""
    tells_apart: tuple[str, ...]
    """Siblings that answer otherwise on it."""


class Roads(Frozen):
    """Of one model in one dialect."""

    dialect: str
    model: str
    siblings: tuple[str, ...]
    """The other known models that the vendor sells in this dialect."""
    roads: tuple[Road, ...]
    """Those that are open in principle: whether a relay lets through what they need is known only afterwards."""

    @property
    def verifiable(self) -> bool:
        """Whether the model can be confirmed at all; else `model.not_verifiable` is the most that can be said."""
        return any(road.ends_in_a_name for road in self.roads)

    @property
    def alike(self) -> tuple[str, ...]:
        """Siblings that no sign excludes: without a name they are not told from it."""
        signs = {name for road in self.roads if not road.ends_in_a_name for name in road.tells_apart}
        return tuple(name for name in self.siblings if name not in signs)

    def plain(self) -> dict[str, Any]:
        """For `--json`: what stands in it, and what follows from it."""
        return {**self.model_dump(mode="json"), "verifiable": self.verifiable, "alike": list(self.alike)}


def roads_of(model: ModelFacts, pack: Pack, probes: tuple[Probe, ...], knowledge: Knowledge, day: dt.date) -> Roads:
    """The roads to a model's name in a dialect. A road that tells it from no sibling is left out."""
    others = [m for m in knowledge.models if pack.dialect in m.dialects and m.name != model.name]
    names = tuple(sorted(m.name for m in others))
    cases = [
        case for p in probes if pack.dialect in p.applies.dialects and 3 in p.checks for r in p.requests for case in r.cases
    ]  # fmt: skip
    limit = knowledge.max_output_of(model.name, day)
    oversize = (
        limit is not None and pack.oversize == "allowed" and any("$max_output_plus_1" in c.set.values() for c in cases)
    )
    traits = {c.trait for c in cases if c.trait in model.refuses}

    def another_limit(other: ModelFacts) -> bool:
        theirs = knowledge.max_output_of(other.name, day)
        return oversize and theirs is not None and theirs != limit

    def other_rules(other: ModelFacts) -> bool:
        return any(other.refuses.get(trait, model.refuses[trait]) != model.refuses[trait] for trait in traits)

    counts = {row.id: row.at_most for row in knowledge.frames}
    frame = knowledge.frame_for(model.name, day)

    def another_count(other: ModelFacts) -> bool:
        """What is known of both families' frames differs: a text of one is counted otherwise by the other."""
        if pack.counter is None or frame is None:
            return False
        theirs = knowledge.frame_for(other.name, day)
        return theirs is not None and counts[theirs.id] != counts[frame.id]

    offered = any(c.id == OFFERED for c in cases)
    by_tool_prompt = siblings_by_tool_prompt(model, knowledge, day) if offered else []

    def another_tool_prompt(other: ModelFacts) -> bool:
        return other in by_tool_prompt

    wordings = [
        row
        for row in knowledge.limits
        if row.vendor == pack.dialect.split("_")[0] and row.valid_on(day) and row.age(day) != "expired"
    ]
    refused = {c.id for c in cases if model.refuses.get(c.trait)}
    named = any(
        (oversize if not row.cases else refused & set(row.cases)) and "(?P<model>" in row.pattern for row in wordings
    )
    signed = pack.claude_like and any(row.age(day) == "fresh" for row in knowledge.signatures)
    found = (
        Road(name="error_text", ends_in_a_name=True, tells_apart=names if named else ()),
        Road(name="signature", ends_in_a_name=True, tells_apart=names if signed else ()),
        Road(name="limit", ends_in_a_name=False, tells_apart=_those(others, another_limit)),
        Road(name="rules", ends_in_a_name=False, tells_apart=_those(others, other_rules)),
        Road(name="tokenizer", ends_in_a_name=False, tells_apart=_those(others, another_count)),
        Road(name="tool_prompt", ends_in_a_name=False, tells_apart=_those(others, another_tool_prompt)),
    )  # fmt: skip
    return Roads(
        dialect=pack.dialect, model=model.name, siblings=names, roads=tuple(road for road in found if road.tells_apart)
    )


def siblings_by_tool_prompt(model: ModelFacts, knowledge: Knowledge, day: dt.date) -> list[ModelFacts]:
    """Models of the same tokenizer whose published tool prompt has another length than this one's, both within their term.
    With another tokenizer a multiplied count of one could be the plain one of the other."""
    if model.tool_prompt is None or model.age(day) != "fresh":
        return []
    mine = model.tool_prompt[0]
    return [
        other
        for other in with_a_tool_prompt(model, knowledge, day)
        if other.tool_prompt is not None and abs(other.tool_prompt[0] - mine) > APART
    ]


def with_a_tool_prompt(model: ModelFacts, knowledge: Knowledge, day: dt.date) -> list[ModelFacts]:
    """Other models of the same tokenizer whose tool prompt was published, within its term."""
    frame = knowledge.frame_for(model.name, day)
    return [
        other
        for other in knowledge.models
        if frame is not None and other.name != model.name and other.tool_prompt and other.age(day) == "fresh"
        and (theirs := knowledge.frame_for(other.name, day)) is not None and theirs.id == frame.id
    ]  # fmt: skip


def _those(models: list[ModelFacts], differs: Callable[[ModelFacts], bool]) -> tuple[str, ...]:
    return tuple(sorted(model.name for model in models if differs(model)))


def all_roads(
    packs: Mapping[str, Pack], probes: tuple[Probe, ...], knowledge: Knowledge, day: dt.date, model: str = ""
) -> tuple[Roads, ...]:
    """Of every known model in every dialect it is sold in, or of one model by any of its names."""
    asked = knowledge.model(model)
    return tuple(
        roads_of(facts, pack, probes, knowledge, day)
        for dialect, pack in sorted(packs.items())
        for facts in knowledge.models
        if dialect in facts.dialects and (not model or facts == asked)
    )


SIGNS: tuple[RoadName, ...] = ("limit", "rules", "tokenizer", "tool_prompt")


def roads_markdown(rows: Iterable[Roads]) -> str:
    """A table per dialect: by its own name, by signs, and what is left when no name comes through."""
    lines: list[str] = []
    heading = ""
    for row in rows:
        if row.dialect != heading:
            heading = row.dialect
            lines += ["", f"## `{heading}`", "",
                      "| model | names it | limit | rules | tokenizer | tool prompt | alike in every sign |",
                      "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
        by = {road.name: road for road in row.roads}
        naming = ", ".join(road.name for road in row.roads if road.ends_in_a_name)
        cells = [
            f"`{row.model}`",
            naming.replace("_", " ") or "nothing: `model.not_verifiable`",
            *(_listed(by[name].tells_apart if name in by else (), row.siblings) for name in SIGNS),
            _listed(row.alike, row.siblings),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines).strip() + "\n"


def _listed(names: tuple[str, ...], of: tuple[str, ...]) -> str:
    """Names, or all but some of them, whichever is shorter."""
    rest = [name for name in of if name not in names]
    if not names:
        return "–"
    if not rest:
        return "all"
    return f"all but {', '.join(rest)}" if len(rest) < len(names) else ", ".join(names)
