"""OpenAI's ids as its servers mint them: base62 seconds on Chat; group, store byte and UUIDv8 on Responses."""

from __future__ import annotations

import random

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CHAT_EPOCH = 1_576_800_000
SITES = ("819", "819", "819", "81a", "87d")


def chat_id(seconds: int, rng: random.Random) -> str:
    """`chatcmpl-`, five characters of seconds, 24 random ones."""
    number, digits = seconds - CHAT_EPOCH, ""
    for _ in range(5):
        number, rest = divmod(number, 62)
        digits = DIGITS[rest] + digits
    return "chatcmpl-" + digits + "".join(rng.choices(DIGITS, k=24))


class ResponseIds:
    """The ids of one response and its items: one group, one store byte, one site."""

    def __init__(self, seconds: int, *, stored: bool, rng: random.Random) -> None:
        self._rng = rng
        self._head = f"0{rng.getrandbits(60):015x}{'00' if stored else '01'}"
        self._site = rng.choice(SITES)
        self._seconds = seconds
        self.response = self.of("resp")

    def of(self, kind: str) -> str:
        rng = self._rng
        middle = f"{rng.getrandbits(12):03x}{rng.choice('048c')}"
        tail = f"{rng.getrandbits(4):x}{rng.choice('89ab')}{rng.getrandbits(60):015x}"
        return f"{kind}_{self._head}{self._seconds:08x}{middle}{self._site}{tail}"
