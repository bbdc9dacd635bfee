"""The clocks and structures inside vendors' ids, as arithmetic: base62 seconds, hex structures with a UUIDv8, a small
protobuf, local time. Undocumented by the vendors; which shape holds which, and since when, is data.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CHAT_EPOCH = 1_576_800_000
"""Unix seconds of 2019-12-20, where the vendor's base62 seconds begin."""
UTC8 = dt.timezone(dt.timedelta(hours=8))


@dataclass(frozen=True)
class ResponseHex:
    """The 50 hex characters behind `resp_`, and behind every output item of the same response."""

    group: str
    """The first 18 characters: shared by a response and its items."""
    site: str
    """Three characters that name where it was made: shared as well."""
    unstored: bool
    """Written `01` where the request said `store: false`, else `00`."""
    seconds: int


def read_response_hex(text: str) -> ResponseHex | None:
    """The structure behind a prefix; None where a fixed digit, the version or the variant is another."""
    h = text.rpartition("_")[2]
    if not re.fullmatch(r"0[0-9a-f]{15}0[01][0-9a-f]{32}", h):
        return None
    if h[29] not in "048c" or h[30] != "8" or h[34] not in "89ab":
        return None
    return ResponseHex(h[:18], h[30:33], h[16:18] == "01", int(h[18:26], 16))


def _chat_base62(text: str) -> float | None:
    digits = text.partition("-")[2][:5]
    if len(digits) < 5 or any(char not in BASE62 for char in digits):
        return None
    seconds = 0
    for char in digits:
        seconds = seconds * 62 + BASE62.index(char)
    return float(seconds + CHAT_EPOCH)


def _response_hex(text: str) -> float | None:
    read = read_response_hex(text)
    return None if read is None else float(read.seconds)


def _response_hex_48(text: str) -> float | None:
    """Until September 2025: a UUIDv8 with the seconds first, then 16 characters that the items share."""
    h = text.rpartition("_")[2]
    sound = re.fullmatch(r"[0-9a-f]{12}8[0-9a-f]{3}[89ab][0-9a-f]{15}0[0-9a-f]{15}", h)
    return float(int(h[:8], 16)) if sound else None


def _google_time(text: str) -> float | None:
    """base64url of: seconds as four little-endian bytes, then three varints, the first of which is microseconds."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    numbers: list[int] = []
    place = 4
    while place < len(raw) and len(numbers) < 4:
        number, place = _varint(raw, place)
        numbers.append(number)
    if len(raw) < 5 or place != len(raw) or len(numbers) != 3 or not 0 <= numbers[0] < 10**6:
        return None
    return int.from_bytes(raw[:4], "little") + numbers[0] / 10**6


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    """A number and where it ends; −1 where it does not end within ten bytes."""
    number = 0
    for shift in range(10):
        if place >= len(raw):
            break
        byte = raw[place]
        place += 1
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return number, place
    return -1, len(raw) + 1


def _local_utc8(text: str) -> float | None:
    match = re.search(r"20\d{12}", text)
    try:
        moment = dt.datetime.strptime(match.group(), "%Y%m%d%H%M%S") if match else None  # noqa: DTZ007  zone follows
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC8).timestamp() if moment else None


def _ark_ms(text: str) -> float | None:
    match = re.search(r"02(\d{13})", text)
    return int(match.group(1)) / 1000 if match else None


def _unix_seconds(text: str) -> float | None:
    match = re.search(r"-(\d{10})-", text)
    return float(match.group(1)) if match else None


def _object_id(text: str) -> float | None:
    match = re.search(r"([0-9a-f]{8})[0-9a-f]{16}$", text)
    return float(int(match.group(1), 16)) if match else None


CLOCKS: dict[str, Callable[[str], float | None]] = {
    "chat_base62": _chat_base62,
    "response_hex": _response_hex,
    "response_hex_48": _response_hex_48,
    "google_time": _google_time,
    "local_utc8": _local_utc8,
    "ark_ms": _ark_ms,
    "unix_seconds": _unix_seconds,
    "object_id": _object_id,
}
"""Decoder → unix seconds inside an id; None where the id breaks the scheme."""
