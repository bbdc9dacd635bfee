"""Ids decoded, not matched by prefix: base58 integers, UUIDv7 clocks, relay request ids. Undocumented by the vendors,
so every rule lives in data with a date (`known_fingerprints/response_ids.toml`), only the arithmetic is here."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from relay_audit.exchange import Exchange
from relay_audit.fingerprint import IdShape, Knowledge

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUE = {char: index for index, char in enumerate(BASE58)}

Fault = Literal["", "not_in_scheme", "outside_window"]


@dataclass(frozen=True)
class Reading:
    """One id against the known shapes."""

    shape: IdShape | None
    """None for a shape that the knowledge of the day does not know."""
    minted_at: dt.datetime | None = None
    fault: Fault = ""
    shape_fresh: bool = True
    """False where the knowledge of the shape is past twice its term."""


def read_id(kind: str, text: str, exchange: Exchange, knowledge: Knowledge, day: dt.date) -> Reading:
    """The first known shape that fits, its clock, and whether id and clock keep the vendor's scheme."""
    for shape in knowledge.ids:
        if shape.kind == kind and shape.valid_on(day) and shape.matches(text):
            return _decoded(shape, text, exchange, day, _stored_s(exchange, knowledge))
    return Reading(None)


def _stored_s(exchange: Exchange, knowledge: Knowledge) -> int:
    """How old an answer out of the store of the software that shows itself here may be, in seconds."""
    headers = exchange.response.headers if exchange.response else ()
    return max((row.answers_again_s for row in knowledge.software if row.shows_in(headers)), default=0)


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
    raw = exchange.response.header("date") if exchange.response else None
    fallback = exchange.sent_at + dt.timedelta(milliseconds=exchange.elapsed_ms)
    if not raw:
        return fallback
    try:
        parsed = parsedate_to_datetime(raw)
    except (ValueError, TypeError):
        return fallback
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)


def _decoded(shape: IdShape, text: str, exchange: Exchange, day: dt.date, stored_s: int) -> Reading:
    fresh = shape.age(day) != "expired"
    if shape.decode == "none":
        return Reading(shape, shape_fresh=fresh)
    if shape.decode == "relay_time_utc":
        return Reading(shape, relay_time(text), shape_fresh=fresh)
    number = base58_integer(text[-22:])
    if number is None or number >> 128:
        return Reading(shape, fault="not_in_scheme", shape_fresh=fresh)
    if shape.decode == "base58_128":
        return Reading(shape, shape_fresh=fresh)
    minted = uuid7_time(number)
    if minted is None:
        return Reading(shape, fault="not_in_scheme", shape_fresh=fresh)
    elapsed = exchange.elapsed_ms / 1000
    age = (answer_date(exchange) - minted).total_seconds()
    inside = -shape.fresh_after_s <= age <= shape.fresh_before_s + stored_s + elapsed
    return Reading(shape, minted, "" if inside else "outside_window", fresh)
