"""Ids decoded, not matched by prefix: base58 integers, UUIDv7 clocks, relay request ids. Undocumented by the vendors,
so every rule lives in data with a date (`known_fingerprints/response_ids.toml`), only the arithmetic is here."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.fingerprint import Knowledge
from relay_audit.marks import IdShape
from relay_audit.vendor_ids import CLOCKS, read_response_hex

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUE = {char: index for index, char in enumerate(BASE58)}

CLOCK_ROOM_S = 300
"""What an unattended clock may be off by."""

Fault = Literal["", "not_in_scheme", "outside_window"]
Age = Literal["fresh", "stale", "expired"]


@dataclass(frozen=True)
class Reading:
    """One id against the known shapes."""

    shape: IdShape | None
    """None for a shape that the knowledge of the day does not know."""
    minted_at: dt.datetime | None = None
    fault: Fault = ""
    age: Age = "fresh"
    """Of the shape's knowledge: past its term a break of the scheme accuses nobody, past twice its term it is not one."""


def read_id(kind: str, text: str, exchange: Exchange, knowledge: Knowledge, day: dt.date, dialect: str = "") -> Reading:
    """The first known shape that fits, its clock, and whether id and clock keep the vendor's scheme."""
    for shape in knowledge.ids:
        if shape.kind == kind and shape.spoken_in(dialect) and shape.valid_on(day) and shape.matches(text):
            return _decoded(shape, text, exchange, day, knowledge)
    return Reading(None)


def _stored_s(exchange: Exchange, knowledge: Knowledge) -> int:
    """How old an answer out of the store of the software that shows itself here may be, in seconds."""
    headers = exchange.response.headers if exchange.response else ()
    return max(
        (row.answers_again_s for row in knowledge.software if row.answers_again_s and row.shows_in(headers)), default=0
    )


def base58_integer(text: str) -> int | None:
    """The 22 characters after `01` as a number; None where a character is outside the alphabet."""
    number = 0
    for char in text:
        if char not in _VALUE:
            return None
        number = number * 58 + _VALUE[char]
    return number


def uuid7_time(number: int) -> dt.datetime | None:
    """The millisecond clock of a 128-bit UUIDv7; None where version, variant or size say it is none."""
    if number >> 128 or (number >> 76) & 0xF != 7 or (number >> 62) & 0b11 != 0b10:
        return None
    try:
        return dt.datetime.fromtimestamp((number >> 80) / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return None


def relay_time(text: str) -> dt.datetime | None:
    """The UTC clock of a new-api style request id: 14 digits, then nanoseconds."""
    match = re.match(r"^(\d{14})\d{8,9}", text)
    try:
        return dt.datetime.strptime(match.group(1), "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC) if match else None
    except ValueError:
        return None


def answer_date(exchange: Exchange) -> dt.datetime:
    """The answer's own Date header, else our clock when the answer was complete."""
    return _said_date(exchange) or _our_date(exchange)


def _said_date(exchange: Exchange) -> dt.datetime | None:
    raw = exchange.response.header("date") if exchange.response else None
    try:
        parsed = parsedate_to_datetime(raw) if raw else None
    except (ValueError, TypeError):
        return None
    return parsed if parsed is None or parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)


def _our_date(exchange: Exchange) -> dt.datetime:
    return exchange.sent_at + dt.timedelta(milliseconds=exchange.elapsed_ms)


def _decoded(shape: IdShape, text: str, exchange: Exchange, day: dt.date, knowledge: Knowledge) -> Reading:
    age = shape.age(day)
    if shape.decode == "none":
        return Reading(shape, age=age)
    if shape.decode == "relay_time_utc":
        return Reading(shape, relay_time(text), age=age)
    if shape.decode in CLOCKS:
        return _clocked(shape, text, exchange, age, knowledge)
    number = base58_integer(text[-22:])
    if number is None or number >> 128:
        return Reading(shape, fault="not_in_scheme", age=age)
    if shape.decode == "base58_128":
        return Reading(shape, age=age)
    minted = uuid7_time(number)
    if minted is None:
        return Reading(shape, fault="not_in_scheme", age=age)
    return Reading(shape, minted, "" if _is_fresh(shape, minted, exchange, knowledge) else "outside_window", age)


def _clocked(shape: IdShape, text: str, exchange: Exchange, age: Age, knowledge: Knowledge) -> Reading:
    """An id with another clock in it: the scheme, its agreement with the rest of the answer, then the window."""
    seconds = CLOCKS[shape.decode](text)
    if seconds is None or not _agrees(shape, seconds, exchange) or not _shares_with_items(shape, text, exchange):
        return Reading(shape, fault="not_in_scheme", age=age)
    try:
        minted = dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return Reading(shape, fault="not_in_scheme", age=age)
    return Reading(shape, minted, "" if _is_fresh(shape, minted, exchange, knowledge) else "outside_window", age)


def _is_fresh(shape: IdShape, minted: dt.datetime, exchange: Exchange, knowledge: Knowledge) -> bool:
    """Inside the window of the answer's Date or of our own clock: either may be set wrong, and neither is the vendor's.
    Without a Date our clock alone gets the room that a clock may be off by."""
    said, elapsed = _said_date(exchange), exchange.elapsed_ms / 1000
    room = 0 if said else CLOCK_ROOM_S
    for date in (said or _our_date(exchange), _our_date(exchange)):
        lies_back = (date - minted).total_seconds()
        too_old = lies_back - (shape.fresh_before_s + room + elapsed)
        if -shape.fresh_after_s - room <= lies_back and (too_old <= 0 or too_old <= _stored_s(exchange, knowledge)):
            return True
    return False


def _agrees(shape: IdShape, seconds: float, exchange: Exchange) -> bool:
    """Whether the time in the id is the one that the answer gives for itself; an answer without one is no contradiction."""
    said = whole_number(pointer(exchange.answer(), shape.clock)) if shape.clock else None
    return said is None or -shape.clock_after_s <= said - int(seconds) <= shape.clock_before_s


def _shares_with_items(shape: IdShape, text: str, exchange: Exchange) -> bool:
    """Output items of a response carry its group and site; items whose ids have another form say nothing."""
    own = read_response_hex(text) if shape.decode == "response_hex" else None
    items = pointer(exchange.answer(), "/output")
    if own is None or not isinstance(items, list):
        return True
    named = (item.get("id") for item in items if isinstance(item, dict))
    read = [other for name in named if isinstance(name, str) and (other := read_response_hex(name))]
    return all((other.group, other.site) == (own.group, own.site) for other in read)
