"""Two runs of one line, and whose change each difference is.

Ours are ruled out first: the older run is judged again by this version of the program, then by the newer run's knowledge,
then by its price tables. What differs after that differs in what was asked or answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from relay_audit.attribution import attribute, price_cause
from relay_audit.catalog import KNOWLEDGE
from relay_audit.change import Cause, Change, changes_between
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.judgement import Judgement, evidence_withheld, judge, judged_again
from relay_audit.library import Library, archived_library, library_from
from relay_audit.replay import History, replay
from relay_audit.store import Store

PRICES = f"{KNOWLEDGE}/prices/"
ACCEPT: dict[Cause, str] = {
    "official": "relay-audit calibrate --vendor NAME",
    "knowledge": "relay-audit assess {older} --knowledge current",
    "prices": "relay-audit quote TARGET",
    "tool": "relay-audit assess {older} --knowledge archived",
    "plan": "relay-audit quote TARGET --json",
}
"""What looks at a change that is not the relay's, and lets it stand from then on."""


@dataclass(frozen=True)
class Fact:
    """Something that is another one now and means nothing by itself: a certificate, an address, a version."""

    name: str
    before: str
    after: str


@dataclass
class Difference:
    older: str
    newer: str
    changes: list[Change] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Knowledge files that are not the same in both runs."""
    judged: tuple[Judgement, Judgement] | None = None
    """Both runs as they stand, the earlier one first."""

    @property
    def relay_changed(self) -> bool:
        """The only thing that may fail a night."""
        return any(change.cause == "relay" and change.weighs for change in self.changes)


def difference(older: Store, newer: Store, only: tuple[Finding, ...] = ()) -> Difference:
    """`only`: of these findings of the older run and of nothing else."""
    one, two = replay(older), replay(newer)
    result = Difference(older.run_id, newer.run_id, facts=_facts(one, two), files=changed_files(one.files, two.files))
    then, now = judge(older), judge(newer)
    result.judged = (then, now)
    left = _ours(one, two, then, result)
    last = now if evidence_withheld(two) else judged_again(two, archived_library(two))
    result.changes += _kept(changes_between(now.findings, last.findings), "tool", "program_version")
    evidence = (left.evidence, last.evidence)
    result.changes += [attribute(change, *evidence) for change in changes_between(left.findings, last.findings)]
    result.changes += _price(*evidence)
    if only:
        named = {(item.code, item.check) for item in only}
        result.changes = [change for change in result.changes if (change.code, change.check) in named]
    return result


def by_knowledge(history: History, then: Judgement, library: Library) -> list[Change]:
    """What other knowledge, or another version of the program, makes of the same evidence."""
    if evidence_withheld(history):
        return []
    same = judged_again(history, archived_library(history))
    now = judged_again(history, library)
    return [
        *_kept(changes_between(then.findings, same.findings), "tool", "program_version"),
        *_kept(changes_between(same.findings, now.findings), "knowledge", "knowledge_files"),
    ]


def changed_files(one: dict[str, str], two: dict[str, str]) -> list[str]:
    return sorted(path for path in {*one, *two} if one.get(path) != two.get(path))


def _ours(one: History, two: History, then: Judgement, result: Difference) -> Judgement:
    """The older run by today's program, knowledge and prices; what changed on the way is noted with its cause."""
    if evidence_withheld(one):
        return then
    libraries: list[tuple[Library, Cause, str]] = [
        (archived_library(one), "tool", "program_version"),
        (library_from(_without_prices(two.files, one.files)), "knowledge", "knowledge_files"),
        (archived_library(two), "prices", "price_table"),
    ]
    last = then
    for library, cause, why in libraries:
        again = judged_again(one, library)
        result.changes += _kept(changes_between(last.findings, again.findings), cause, why)
        last = again
    return last


def _without_prices(files: dict[str, str], older: dict[str, str]) -> dict[str, str]:
    """The newer knowledge with the older price tables."""
    rest = {path: text for path, text in files.items() if not path.startswith(PRICES)}
    return rest | {path: text for path, text in older.items() if path.startswith(PRICES)}


def _kept(changes: list[Change], cause: Cause, why: str) -> list[Change]:
    return [change.model_copy(update={"cause": cause, "why": why}) for change in changes]


def _price(older: Evidence, newer: Evidence) -> list[Change]:
    """The quoted price itself, when it changed: a change even where no finding speaks of it."""
    told = price_cause(older, newer)
    if told is None:
        return []
    return [
        Change(kind="changed", code="quote.price", check=6, cause=told[0], why=told[1], params=_prices(older, newer))
    ]


def _prices(older: Evidence, newer: Evidence) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, evidence in (("before", older), ("after", newer)):
        lines = evidence.quote.lines if evidence.quote else ()
        price = next((line.unit_price for line in lines if line.side == "relay" and line.unit_price), None)
        found[name] = f"{price.input} / {price.output}" if price else ""
        found[f"{name}_source"] = price.source if price else ""
    return found


def _facts(one: History, two: History) -> list[Fact]:
    pairs = [
        ("plan_digest", one.plan.digest if one.plan else "", two.plan.digest if two.plan else ""),
        ("knowledge_digest", one.knowledge_digest, two.knowledge_digest),
        ("tool_version", one.tool_version, two.tool_version),
        ("software_version", f"{one.site.software} {one.site.version}", f"{two.site.software} {two.site.version}"),
        *((f"library {name}", one.libraries.get(name, ""), two.libraries.get(name, ""))
          for name in sorted({*one.libraries, *two.libraries})),
    ]  # fmt: skip
    for side in ("relay", "official"):
        pairs += [(f"{side} {what}", _wire(one, side, what), _wire(two, side, what)) for what in WIRE]
    return [Fact(name, before.strip(), after.strip()) for name, before, after in pairs if before != after]


WIRE = ("address", "leaf_sha256", "issuer", "tls_version", "http_version")


def _wire(history: History, side: str, what: str) -> str:
    seen = {str(getattr(e.connection, what)) for e in history.exchanges.values() if e.side == side}
    return ", ".join(sorted(seen - {""}))
