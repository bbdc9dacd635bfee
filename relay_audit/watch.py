"""A line that is looked at every night: what of tonight counts, what waits for tomorrow, when silence is an alarm.

A new accusation is *unconfirmed* first; it is *confirmed* when the next night with a result sees it again, or at once
when its evidence is decisive. Only the relay's own change fails a night: what our knowledge, a price table or another
version of this tool brought up is said and accepted by hand. Nights without a result are counted; from the third in a
row they are no longer excused. There is one issue per line: opened on confirmation, closed by the first night that
looked again and saw nothing; it says what was checked and never that a line is well.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
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
NightState = Literal["clean", "unconfirmed", "confirmed", "none"]
IssueAction = Literal["none", "open", "update", "close"]


class Night(Frozen):
    date: dt.date
    run: str = Field(max_length=80)
    state: NightState
    codes: tuple[str, ...] = ()
    """Accusations of that night, confirmed or not."""
    others: dict[str, str] = Field(default_factory=dict)
    """Codes that somebody else's change brought up, with whose; they stay so until they are gone."""
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

    def last_with_result(self) -> Night | None:
        return next((night for night in reversed(self.nights) if night.state != "none"), None)

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
    """Codes that the issue is about, the closed one's included."""

    @property
    def alarm(self) -> bool:
        """Silence that is no longer excused."""
        return self.silent >= SILENT


def morning_after(watch: Watch, seen: Seen) -> Morning:
    """The next state of the watch and what follows from tonight. Pure; the same night twice counts once."""
    earlier = watch.model_copy(update={"nights": tuple(n for n in watch.nights if n.run != seen.run)})
    if not seen.has_result:
        after = _with(earlier, seen, "none", (), earlier.open)
        return Morning(after, "none", silent=after.silent_nights())
    known = earlier.last_with_result()
    causes = {**(known.others if known else {}), **seen.causes}
    others = tuple(sorted({(f.code, c) for f in seen.accusations if (c := causes.get(f.code, "relay")) != "relay"}))
    theirs = [f for f in seen.accusations if causes.get(f.code, "relay") == "relay"]
    before = _recent(earlier, seen.date)
    confirmed = tuple(sorted({f.code for f in theirs if f.confidence == "decisive" or f.code in before}))
    unconfirmed = tuple(sorted({f.code for f in theirs} - set(confirmed)))
    if confirmed:
        about = tuple(sorted({*confirmed, *(code for code in earlier.open if code in {f.code for f in theirs})}))
        after = _with(earlier, seen, "confirmed", (*confirmed, *unconfirmed), about, others)
        return Morning(
            after, "confirmed", confirmed, unconfirmed, others, issue="update" if earlier.open else "open", about=about
        )
    still = tuple(code for code in earlier.open if code in unconfirmed or not _looked_again(code, seen))
    state: NightState = "unconfirmed" if unconfirmed else "clean"
    after = _with(earlier, seen, state, unconfirmed, still, others)
    closes = bool(earlier.open) and not still
    return Morning(
        after, state, (), unconfirmed, others, issue="close" if closes else "none", about=earlier.open if closes else ()
    )


def dearer(watch: Watch, prices: Mapping[str, Decimal]) -> dict[str, tuple[Decimal, Decimal]]:
    """Unit prices that are not the last night's: then, now. Empty where nothing is known of either."""
    last = next((night for night in reversed(watch.nights) if night.prices), None)
    if last is None or not prices:
        return {}
    names = sorted({*last.prices, *prices})
    pairs = {name: (last.prices.get(name, Decimal(0)), prices.get(name, Decimal(0))) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _recent(watch: Watch, today: dt.date) -> set[str]:
    last = watch.last_with_result()
    return set(last.codes) if last is not None and today - last.date <= FORGOTTEN else set()


def _looked_again(code: str, seen: Seen) -> bool:
    """Whether tonight's run could have seen it: its check ran."""
    return code not in CODES or CODES[code].check in (0, *seen.checks)


def _with(
    watch: Watch,
    seen: Seen,
    state: NightState,
    codes: tuple[str, ...],
    open_: tuple[str, ...],
    others: tuple[tuple[str, str], ...] = (),
) -> Watch:
    night = Night(
        date=seen.date, run=seen.run, state=state, codes=tuple(sorted(set(codes))), others=dict(others), checks=seen.checks,
        prices=dict(seen.prices),
    )  # fmt: skip
    return Watch(nights=(*watch.nights, night)[-KEPT:], open=open_)
