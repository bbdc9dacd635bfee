"""One scenario of the lab: what is turned, and what an audit of it must say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from relay_audit.lab.knobs import Knobs

Kind = Literal["honest", "ambiguous", "fault", "hostile"]


class Title(NamedTuple):
    en: str
    zh: str


@dataclass(frozen=True)
class Scenario:
    name: str
    title: Title
    kind: Kind
    knobs: Knobs
    expect: frozenset[str]
    """Finding codes above info, no more and no fewer: claimed channel `anthropic`, with an official key."""
    expect_no_key: frozenset[str] | None
    """The same without an official key; None where a run of three sends may or may not meet the fault."""
    notes: str = ""
    may: frozenset[str] = frozenset()
    """Codes that a run may or may not give: what strikes seldom is found or bounded."""
    model: str = ""
    """What is bought; empty means the dialect's usual model."""
    profile: str = ""
    """The profile whose probes meet it; empty means the usual one."""


def row(
    kind: Kind,
    name: str,
    en: str,
    zh: str,
    knobs: Knobs,
    expect: str = "",
    *,
    no_key: str | None = "=",
    notes: str = "",
    may: str = "",
    model: str = "",
    profile: str = "",
) -> Scenario:
    codes = frozenset(expect.split())
    without = None if no_key is None else codes if no_key == "=" else frozenset(no_key.split())
    return Scenario(name, Title(en, zh), kind, knobs, codes, without, notes, frozenset(may.split()), model, profile)
