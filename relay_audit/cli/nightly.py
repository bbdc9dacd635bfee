"""What `--baseline` and `--watch` make of a result: what was accepted, what is confirmed, what the morning is told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from relay_audit import __version__, audit
from relay_audit.accepted import Accepted, accepting, read_accepted
from relay_audit.attribution import answers_of, probes_under
from relay_audit.audit import Judgement
from relay_audit.clock import Clock
from relay_audit.difference import difference
from relay_audit.disk import write_durably
from relay_audit.errors import RelayAuditError, UsageError
from relay_audit.exits import FailOn, counts
from relay_audit.finding import Finding
from relay_audit.quote import Quote
from relay_audit.report.catalogue import Catalogue
from relay_audit.runs import locate
from relay_audit.store import Store
from relay_audit.target import Target
from relay_audit.watch import Morning, Seen, Watch, dearer, morning_after, new_accusations
from relay_audit.words import LANGS, Frozen, Lang, digest, money
from relay_audit.workspace import Workspace


class Lines(Frozen):
    """The watch file: every line of a target file by an id of its own."""

    schema_version: Literal[1] = 1
    lines: dict[str, Watch] = Field(default_factory=dict)


@dataclass(frozen=True)
class Night:
    """What the options ask for; both may be absent."""

    accepted: Accepted | None = None
    watch: Path | None = None


@dataclass(frozen=True)
class Settled:
    """A judgement in the light of what is accepted and of the nights before."""

    counted: tuple[Finding, ...]
    """Findings that may fail: not accepted, and with a watch confirmed."""
    alarm: bool = False
    """Silence that `--allow-inconclusive` no longer excuses."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """For the JSON object: `accepted`, `night`."""
    text: str = ""
    """For the terminal."""


def accepted_from(text: str, space: Workspace, clock: Clock) -> Accepted:
    """`--baseline FILE|RUN`: a reviewed file, or everything that an earlier run found. Raises `UsageError`, `PackError`."""
    file = Path(text)
    if file.is_file():
        try:
            return read_accepted(file.name, file.read_bytes())
        except OSError as error:
            raise UsageError(f"{file.name} cannot be read: {error.strerror}", next_step="correct its path") from None
    with Store.open(locate(text, [space.audits], space.state)) as store:
        return accepted_of(store, clock)


def accepted_of(store: Store, clock: Clock, reason: str = "", days: int = 90) -> Accepted:
    """What `baseline write` writes of a stored run."""
    judged = audit.judge(store)
    plan = judged.evidence.quote.plan_digest if judged.evidence.quote else ""
    return accepting(
        judged.findings, run=store.run_id, today=clock.now().date(), tool=__version__, plan_digest=plan,
        knowledge_digest=judged.knowledge_digest, reason=reason, days=days,
    )  # fmt: skip


Causes = Callable[[str], Mapping[str, str]]
"""Given the last night's run: whose change each code is since then."""


def unknown(_: str) -> Mapping[str, str]:
    """Where that run is gone nothing is known, and a change is taken for the relay's."""
    return {}


@dataclass(frozen=True)
class Repeat:
    """What a new accusation came to when its probes were sent once more in the same night."""

    run: str
    asked: frozenset[str]
    """Codes that were tested again, and had their answers."""
    again: frozenset[str]
    """Those that were seen again."""


def settle(
    judgement: Judgement,
    target: Target,
    night: Night,
    fail_on: FailOn,
    clock: Clock,
    lang: Lang,
    causes: Causes = unknown,
    repeat: Callable[[tuple[Finding, ...]], Repeat | None] = lambda _: None,
) -> Settled:
    """Applies both options and writes the watch file. Without them every finding counts. `repeat` tests again, tonight,
    what would else wait for the next night."""
    today = clock.now().date()
    taken = [f for f in judgement.findings if night.accepted and night.accepted.takes(f, today)]
    left = tuple(f for f in judgement.findings if f not in taken)
    fields: dict[str, Any] = {}
    if night.accepted:
        ended = [entry.code for entry in night.accepted.ended(today)]
        fields["accepted"] = {"findings": [f.id for f in taken], "ended": ended}
    if night.watch is None:
        return Settled(left, fields=fields)
    accused = tuple(f for f in left if fail_on != "none" and counts(f, fail_on))
    seen = _seen(judgement, accused, today, causes(_last_run(night.watch, target)) if accused else {})
    waiting = new_accusations(_read(night.watch).lines.get(line_id(target), Watch()), seen) if seen.has_result else ()
    repeated = repeat(waiting) if waiting else None
    if repeated is not None:
        seen = replace(seen, again=repeated.again)
    morning, before = _turn(night.watch, target, seen)
    confirmed = set(morning.confirmed)
    counted = tuple(f for f in left if f.code in confirmed)
    prices = dearer(before, seen.prices)
    fields["night"] = _object(morning, target, prices, repeated)
    return Settled(counted, morning.alarm, fields, _text(morning, prices, repeated, lang))


def _seen(judgement: Judgement, accused: tuple[Finding, ...], today: dt.date, causes: Mapping[str, str]) -> Seen:
    evidence = judgement.evidence
    ran = tuple(row.check for row in judgement.coverage if row.state == "run")
    nothing_bought = evidence.plan is not None and not evidence.plan.chargeable()
    answers = answers_of(evidence)
    grounds: dict[str, dict[str, int]] = {}
    for finding in accused:
        rests = {probe: answers.get(probe, 0) for probe in probes_under(finding, evidence)}
        grounds.setdefault(finding.code, {}).update(rests)
    return Seen(
        date=today,
        run=evidence.run_id,
        has_result=evidence.status == "completed" and not evidence.stopped and bool(ran or nothing_bought),
        accusations=accused,
        checks=ran,
        causes=causes,
        prices=unit_prices(evidence.quote),
        answers=answers,
        grounds=grounds,
    )


def silent(target: Target, run: str, night: Night, clock: Clock, lang: Lang) -> Settled:
    """A night that never came to a judgement: nobody answered, or the run broke off."""
    if night.watch is None:
        return Settled((), alarm=True)
    morning, _ = _turn(night.watch, target, Seen(clock.now().date(), run, False, (), (), {}))
    return Settled((), morning.alarm, {"night": _object(morning, target, {})}, _text(morning, {}, None, lang))


def causes_since(store: Store, space: Workspace) -> Causes:
    """Whose change each code of this run is, held against an earlier run of the same line."""

    def told(earlier: str) -> Mapping[str, str]:
        try:
            path = locate(earlier, [space.audits], space.state)
        except RelayAuditError:
            return {}
        with Store.open(path) as older:
            changes = [c for c in difference(older, store).changes if c.kind != "gone" and c.weighs]
        by_code: dict[str, set[str]] = {}
        for change in changes:
            by_code.setdefault(change.code, set()).add(change.cause)
        return {code: "relay" if "relay" in found else min(found) for code, found in by_code.items()}

    return told


def last_quote(target: Target, night: Night, quote: Quote) -> dict[str, tuple[Decimal, Decimal]]:
    """The unit prices that are not the last night's: then, now."""
    if night.watch is None:
        return {}
    watch = _read(night.watch).lines.get(line_id(target), Watch())
    return dearer(watch, unit_prices(quote))


def line_id(target: Target) -> str:
    """A line of a target file: the same model at the same address, in the same format."""
    return digest([target.relay.base_url, target.subject.model, target.subject.dialect])[:16]


def unit_prices(quote: Quote | None) -> dict[str, Decimal]:
    """What the quote counts with, per side: US dollars per million tokens, or per call."""
    found: dict[str, Decimal] = {}
    for line in quote.lines if quote else ():
        price = line.unit_price
        if price is not None:
            named = {"input": price.input, "output": price.output, "call": price.per_call}
            found |= {f"{line.side} {name}": value for name, value in named.items() if value is not None}
    return found


def _last_run(file: Path, target: Target) -> str:
    night = _read(file).lines.get(line_id(target), Watch()).last_with_result()
    return night.run if night else ""


def _turn(file: Path, target: Target, seen: Seen) -> tuple[Morning, Watch]:
    lines = _read(file)
    before = lines.lines.get(line_id(target), Watch())
    morning = morning_after(before, seen)
    after = lines.model_copy(update={"lines": {**lines.lines, line_id(target): morning.watch}})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, after.model_dump_json().encode())
    except OSError as error:
        raise UsageError(
            f"the watch file cannot be written: {error.strerror}", next_step="name another: --watch FILE"
        ) from None
    return morning, before


def _read(file: Path) -> Lines:
    if not file.exists():
        return Lines()
    try:
        return Lines.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise UsageError(
            f"{file.name} is no watch file of this version",
            next_step="move it away: the nights begin again, and the first accusation waits for a second night",
        ) from None


def _object(
    morning: Morning, target: Target, prices: Mapping[str, tuple[Decimal, Decimal]], repeated: Repeat | None = None
) -> dict[str, Any]:
    tested = repeated and {
        "run": repeated.run, "seen_again": sorted(repeated.again), "not_seen": sorted(repeated.asked - repeated.again),
    }  # fmt: skip
    return {
        "state": morning.state,
        "confirmed": list(morning.confirmed),
        "unconfirmed": list(morning.unconfirmed),
        "others": [{"code": code, "cause": cause} for code, cause in morning.others],
        "silent_nights": morning.silent,
        "repeat": tested,
        "text": {lang: _text(morning, prices, repeated, lang) for lang in LANGS},
        "prices": {name: [money(then), money(now)] for name, (then, now) in prices.items()},
        "issue": {
            "action": morning.issue,
            "title": Catalogue.load("en").text("night.issue_title", model=target.subject.model),
            "body": "\n\n".join(_issue(morning, lang) for lang in LANGS) if morning.issue != "none" else "",
        },
    }


def _text(morning: Morning, prices: Mapping[str, tuple[Decimal, Decimal]], repeated: Repeat | None, lang: Lang) -> str:
    words = Catalogue.load(lang)
    key = "alarm" if morning.alarm else morning.state
    told: Sequence[str] = morning.confirmed or morning.unconfirmed or morning.about
    lines = [words.text(f"night.{key}", codes=", ".join(told), n=str(morning.silent))]
    if repeated is not None:
        told = sorted(repeated.again) or ["-"]
        lines.append(words.text("night.repeat", run=repeated.run, codes=", ".join(told)))
    lines += [
        words.text("night.others", code=code, cause=words.text(f"night.cause_{cause}"))
        for code, cause in morning.others
    ]
    if prices:
        lines.append(words.text("night.prices", n=str(len(prices))))
    return "\n".join(lines)


def _issue(morning: Morning, lang: Lang) -> str:
    words = Catalogue.load(lang)
    return words.text(f"night.issue_{morning.issue}", codes=", ".join(morning.about), run=morning.watch.nights[-1].run)
