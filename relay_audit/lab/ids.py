"""Ids as the vendors and the relay programs mint them: base58 UUIDv7, Bedrock and Vertex prefixes, relay request ids.

Shapes and windows are recorded facts (public test recordings up to 2026-10); none of them is documented by a vendor.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
NEW_API_BUILD = "8268d9d6"
"""First four bytes of SHA-256 of new-api's Go module path: the same in every upstream build since 2026-04."""


def base58(number: int, width: int = 22) -> str:
    """A 128-bit number as Bitcoin base58, padded to the vendors' 22 characters."""
    digits = ""
    for _ in range(width):
        number, rest = divmod(number, 58)
        digits = BASE58[rest] + digits
    return digits


def base58_number(text: str) -> int:
    """The number behind base58 digits. Raises ValueError for a character outside the alphabet."""
    number = 0
    for char in text:
        number = number * 58 + BASE58.index(char)
    return number


def uuid7(seconds: float, rng: random.Random) -> int:
    """A UUIDv7 of that moment: 48 bits of milliseconds, version and variant, the rest random."""
    milliseconds = int(seconds * 1000)
    return (milliseconds << 80) | (7 << 76) | (rng.getrandbits(12) << 64) | (2 << 62) | rng.getrandbits(62)


def uuid7_seconds(text: str) -> float | None:
    """The moment inside the last 22 characters of an id; None where they hold no UUIDv7."""
    number = base58_number(text[-22:])
    if number >> 128 or (number >> 76) & 0xF != 7 or (number >> 62) & 0b11 != 0b10:
        return None
    return (number >> 80) / 1000


def minted(kind: str, seconds: float, rng: random.Random) -> str:
    """An id of the vendor's scheme: `msg`, `req`, `msg_bdrk` or `msg_vrtx`, then `_01` and a UUIDv7 of that moment."""
    return f"{kind}_01{base58(uuid7(seconds, rng))}"


def unclocked(kind: str, rng: random.Random) -> str:
    """128 random bits in the vendor's form, as tool ids still are and message ids were until 2026-07-06."""
    return f"{kind}_01{base58(rng.getrandbits(128))}"


def lookalike(prefix: str, length: int, rng: random.Random, alphabet: str = ALNUM) -> str:
    """Random characters behind a prefix: what software that has no such id makes up."""
    return prefix + "".join(rng.choices(alphabet, k=length))


def relay_request_id(seconds: float, rng: random.Random, build: str = NEW_API_BUILD) -> str:
    """new-api's request id: UTC clock, nine digits of nanoseconds, the build's constant (older: none), eight random."""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    nanoseconds = moment.microsecond * 1000 + rng.randrange(1000)
    return f"{moment:%Y%m%d%H%M%S}{nanoseconds:09d}{build}{''.join(rng.choices(ALNUM, k=8))}"


def uuid4(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def cf_ray(rng: random.Random) -> str:
    return f"{rng.getrandbits(64):016x}-{rng.choice(('EWR', 'LAX', 'SJC', 'HKG', 'NRT', 'SIN'))}"
