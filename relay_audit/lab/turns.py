"""What a relay does with the n-th request: which treatment it gets, whether it fails, whether an old answer is sent.

Shares come in blocks: of every four requests exactly one, of every two exactly one, its place drawn by the seed. So a
share is what the table says also in a run of twelve, and three in a row never fail.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from relay_audit.lab.evasion import Blocks, Mood
from relay_audit.lab.knobs import Channel, Knobs
from relay_audit.lab.message import Treatment


@dataclass(frozen=True)
class Turn:
    number: int
    """From 1."""
    how: Treatment
    fails: bool
    replays: bool
    strikes: bool = True
    """Whether this request is treated as the knobs say."""


class Turns:
    def __init__(self, knobs: Knobs, rng: random.Random, flaky_phase: int) -> None:
        self._knobs = knobs
        self._flaky = Blocks(knobs.flaky_every, random.Random(flaky_phase))
        self._dosed = Blocks(4, rng)
        self._bedrock = Blocks(2, rng)
        self._number = 0
        self._cache_written = False
        self._mood = Mood(knobs.strikes, random.Random(rng.random()) if knobs.strikes != "always" else rng)

    def next(self, body: dict[str, Any], agent: str = "") -> Turn:
        self._number += 1
        fails = self._flaky.hit()
        replays = self._knobs.replays and self._number % 2 == 0
        strikes = self._mood.strikes(body)
        return Turn(self._number, self._treatment(body, agent, strikes=strikes), fails, replays, strikes)

    def _treatment(self, body: dict[str, Any], agent: str, *, strikes: bool) -> Treatment:
        knobs = self._knobs
        new, self._cache_written = not self._cache_written, bool(knobs.hidden_cached)
        return Treatment(
            channel=self._channel(),
            ids=knobs.ids,
            generation=knobs.generation if strikes else None,
            hidden=knobs.hidden if strikes and self._adds_prompt(body, agent) else 0,
            recites=knobs.recites,
            cached=knobs.hidden_cached,
            cache_is_new=new,
            factor=knobs.usage_factor if strikes else Decimal(1),
            output_factor=knobs.output_factor,
            empty=knobs.empty_text,
            geo=knobs.geo,
            extras=knobs.usage_extras,
            signature=knobs.signature,
            signature_model=knobs.signature_model,
            account=self._number % knobs.accounts,
            cache=knobs.cache,
        )

    def _channel(self) -> Channel:
        if self._knobs.channel != "mixed":
            return self._knobs.channel
        return "aws" if self._bedrock.hit() else "anthropic"

    def _adds_prompt(self, body: dict[str, Any], agent: str) -> bool:
        if self._knobs.hidden_when == "no_system":
            return not body.get("system")
        if self._knobs.hidden_when == "library_agent":
            return agent.startswith("python-")
        if self._knobs.hidden_when == "streams":
            return body.get("stream") is True
        return self._knobs.hidden_when == "always" or self._dosed.hit()
