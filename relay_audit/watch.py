"""A line that is looked at every night: what of tonight counts, what waits for tomorrow, when silence is an alarm.

A new accusation is *unconfirmed* first; it is *confirmed* when it is seen again, by a repeat in the same night or by the
next night that looked, or at once when its evidence is decisive. Only the relay's own change fails a night: what our
knowledge, a price table or another version of this tool brought up is said and accepted by hand. Nights without a result
are counted; from the third in a row they are no longer excused. There is one issue per line: opened on confirmation,
closed by the first night that looked again and saw nothing; it says what was checked and never that a line is well.

That nothing was seen counts only where it could have been seen: a night on which too little of what an accusation rests
on was answered is *blind* to it and neither clears, nor confirms, nor interrupts. A line that comes and goes is not
cleared by one of its good nights: as many are needed as make seeing nothing by chance unlikely.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from pydantic import Field

from relay_audit.codes import CODES
from relay_audit.finding import Finding
from relay_audit.words import Frozen

KEPT = 60
"""Nights remembered."""
SILENT = 3
"""Nights in a row without a result from which silence is an alarm."""
FORGOTTEN = dt.timedelta(days=7)
"""An unconfirmed accusation older than this is a new one when it comes again."""
SIGHTINGS = 3
"""Nights within that time that saw it, from which a line that comes and goes is confirmed too."""
CHANCE = 0.05
"""A line is cleared when it would have shown nothing on so many nights with less than this probability."""
POWER = 0.5
"""The share of the answers that an accusation rested on from which a night could have seen it again."""
NightState = Literal["clean", "standing", "unconfirmed", "confirmed", "none"]
"""`standing`: nothing was seen, and the open issue stands: tonight could not see it, or saw nothing for too short a time."""
IssueAction = Literal["none", "open", "update", "close"]
Grounds = Mapping[str, int]
"""Probe → how many of its requests the relay answered."""


class Night(Frozen):
    date: dt.date
    run: str = Field(max_length=80)
    state: NightState
    codes: tuple[str, ...] = ()
    """Accusations of that night, confirmed or not."""
    others: dict[str, str] = Field(default_factory=dict)
    """Codes that somebody else's change brought up, with whose; they stay so until they are gone."""
    blind: tuple[str, ...] = ()
    """Codes of earlier nights that this one could not have seen again."""
    checks: tuple[int, ...] = ()
    """Checks that ran to a result."""
    prices: dict[str, Decimal] = Field(default_factory=dict)
    """Unit prices of the quote, for the next night's comparison; amounts differ with the wording of every run."""


class Watch(Frozen):
    """The file between two nights."""

    schema_version: Literal[1] = 1
    nights: tuple[Night, ...] = ()
    open: tuple[str, ...] = ()
    """Codes that the open issue is about; empty when there is none."""
    grounds: dict[str, dict[str, int]] = Field(default_factory=dict)
    """What each remembered code rested on when it was last seen."""

    def last_with_result(self) -> Night | None:
        return next((night for night in reversed(self.nights) if night.state != "none"), None)

    def that_looked(self, code: str) -> list[Night]:
        """The nights that saw this code, or could have."""
        return [night for night in self.nights if night.state != "none" and code not in night.blind]

    def remembered(self) -> set[str]:
        """Every code that some night or the issue speaks of."""
        return {*self.open, *(code for night in self.nights for code in (*night.codes, *night.others))}

    def silent_nights(self) -> int:
        """Nights without a result, up to now, in a row."""
        count = 0
        for night in reversed(self.nights):
            if night.state != "none":
                break
            count += 1
        return count


@dataclass(frozen=True)
class Seen:
    """One night's run, as far as the watch is concerned."""

    date: dt.date
    run: str
    has_result: bool
    accusations: tuple[Finding, ...]
    """Not accepted by the reviewed file."""
    checks: tuple[int, ...]
    causes: Mapping[str, str]
    """By code, whose change it is since the last night; a code that is missing did not change."""
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    answers: Grounds = field(default_factory=dict)
    grounds: Mapping[str, Grounds] = field(default_factory=dict)
    """By accused code, what it rests on."""
    again: frozenset[str] = frozenset()
    """Codes that a repeat in the same night saw again."""

    def looked_for(self, code: str, grounds: Grounds) -> bool:
        """Whether this run could have seen it: its check ran, and enough of what it rested on was answered."""
        if code in self.codes:
            return True
        ran = code not in CODES or CODES[code].check in (0, *self.checks)
        return ran and all(self.answers.get(probe, 0) >= POWER * count for probe, count in grounds.items())

    @property
    def codes(self) -> set[str]:
        return {finding.code for finding in self.accusations}


@dataclass(frozen=True)
class Morning:
    """What is said of it the next morning."""

    watch: Watch
    state: NightState
    confirmed: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    """(code, whose change): shown, never failing."""
    silent: int = 0
    """Nights in a row without a result, this one included."""
    issue: IssueAction = "none"
    about: tuple[str, ...] = ()
    """Codes that the issue is about, the closed one's and one that stands included."""

    @property
    def alarm(self) -> bool:
        """Silence that is no longer excused."""
        return self.silent >= SILENT


def morning_after(watch: Watch, seen: Seen) -> Morning:
    """The next state of the watch and what follows from tonight. Pure; the same night twice counts once."""
    earlier = watch.model_copy(update={"nights": tuple(n for n in watch.nights if n.run != seen.run)})
    if not seen.has_result:
        after = _after(earlier, seen, "none", (), earlier.open)
        return Morning(after, "none", silent=after.silent_nights())
    theirs, others = _whose(earlier, seen)
    confirmed = _sorted(f.code for f in theirs if f.confidence == "decisive" or _seen_before(earlier, f.code, seen))
    unconfirmed = _sorted({f.code for f in theirs} - set(confirmed))
    standing = tuple(code for code in earlier.open if not _cleared(earlier, code, seen))
    if confirmed:
        about = _sorted({*confirmed, *(code for code in earlier.open if code in seen.codes)})
        after = _after(earlier, seen, "confirmed", (*confirmed, *unconfirmed), _sorted({*about, *standing}), others)
        action: IssueAction = "update" if earlier.open else "open"
        return Morning(after, "confirmed", confirmed, unconfirmed, others, issue=action, about=about)
    if unconfirmed:  # no clean night: an issue about something else is not closed by it
        after = _after(earlier, seen, "unconfirmed", unconfirmed, earlier.open, others)
        return Morning(after, "unconfirmed", (), unconfirmed, others)
    state: NightState = "standing" if standing else "clean"
    after = _after(earlier, seen, state, (), standing, others)
    if earlier.open and not standing:
        return Morning(after, state, others=others, issue="close", about=earlier.open)
    return Morning(after, state, others=others, about=standing)


def new_accusations(watch: Watch, seen: Seen) -> tuple[Finding, ...]:
    """What tonight alone would leave unconfirmed: worth repeating before the night ends."""
    waiting = set(morning_after(watch, seen).unconfirmed)
    return tuple(finding for finding in seen.accusations if finding.code in waiting)


def dearer(watch: Watch, prices: Mapping[str, Decimal]) -> dict[str, tuple[Decimal, Decimal]]:
    """Unit prices that are not the last night's: then, now. Empty where nothing is known of either."""
    last = next((night for night in reversed(watch.nights) if night.prices), None)
    if last is None or not prices:
        return {}
    names = sorted({*last.prices, *prices})
    pairs = {name: (last.prices.get(name, Decimal(0)), prices.get(name, Decimal(0))) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _whose(watch: Watch, seen: Seen) -> tuple[list[Finding], tuple[tuple[str, str], ...]]:
    """Accusations that are the relay's, and (code, whose) of the rest. What was the relay's when it was last looked at
    stays so, whatever else changed since; what was somebody else's stays so until a night that looked did not see it."""
    last = watch.last_with_result()
    causes = {**(last.others if last else {}), **seen.causes}
    kept = {*watch.open, *(code for code in seen.codes if _last_saw(watch, code))}
    others = {
        f.code: c for f in seen.accusations if f.code not in kept and (c := causes.get(f.code, "relay")) != "relay"
    }
    return [f for f in seen.accusations if f.code not in others], tuple(sorted(others.items()))


def _last_saw(watch: Watch, code: str) -> bool:
    """Whether the last night that looked saw it."""
    looked = watch.that_looked(code)
    return bool(looked) and code in looked[-1].codes


def _seen_before(watch: Watch, code: str, seen: Seen) -> bool:
    """Whether tonight is the second sighting that confirms: a repeat tonight, the last night that looked, an issue that
    is still open for it, or as many nights of a line that comes and goes."""
    recent = [night for night in watch.nights if seen.date - night.date <= FORGOTTEN and code in night.codes]
    if code in seen.again:
        return True
    return bool(recent) and (_last_saw(watch, code) or code in watch.open or len(recent) >= SIGHTINGS - 1)


def _cleared(watch: Watch, code: str, seen: Seen) -> bool:
    """Whether tonight ends it: it looked, saw nothing, and nothing was seen for longer than chance explains."""
    if code in seen.codes or not seen.looked_for(code, watch.grounds.get(code, {})):
        return False
    looked = watch.that_looked(code)
    sightings = [at for at, night in enumerate(looked) if code in night.codes]
    if not sightings:
        return True
    first = last = sightings[-1]
    for at in reversed(sightings):
        if looked[first].date - looked[at].date > FORGOTTEN:
            break
        first = at
    inside = sum(first <= at <= last for at in sightings)
    share = inside / (last - first + 1)
    return (1 - share) ** (len(looked) - last) <= CHANCE


def _after(
    watch: Watch,
    seen: Seen,
    state: NightState,
    codes: tuple[str, ...],
    open_: tuple[str, ...],
    others: tuple[tuple[str, str], ...] = (),
) -> Watch:
    blind = _sorted(c for c in watch.remembered() if not seen.looked_for(c, watch.grounds.get(c, {})))
    last = watch.last_with_result()
    unseen = {code: whose for code, whose in (last.others if last else {}).items() if code in blind}
    night = Night(
        date=seen.date, run=seen.run, state=state, codes=_sorted(codes), others=unseen | dict(others),
        blind=() if state == "none" else blind, checks=seen.checks, prices=dict(seen.prices),
    )  # fmt: skip
    after = watch.model_copy(update={"nights": (*watch.nights, night)[-KEPT:], "open": open_})
    grounds = {**watch.grounds, **{code: dict(rests) for code, rests in seen.grounds.items()}}
    known = after.remembered()
    return after.model_copy(update={"grounds": {code: rests for code, rests in grounds.items() if code in known}})


def _sorted(codes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(codes)))
