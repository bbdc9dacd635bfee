"""Step 3: is the file encoded, written and labelled as an original is? Compared with pins, else with the list."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from relay_audit.finding import Basis
from relay_audit.fingerprint import Knowledge
from relay_audit.media_facts import Encoder, MediaFacts, Pin
from relay_audit.media_known import MediaProfile

STREAM = {"library": "encoder", "settings": "encoder_settings", "seis": "stream_user_data"}
CONTAINER = {
    "application": "writing_application",
    "brands": "file_brands",
    "handlers": "track_handlers",
    "tree": "box_tree",
}
"""Fields → what they are called in a finding."""
UNNAMED = "-"
PIN_DAYS = 365
"""How long an original says how originals are encoded."""


@dataclass(frozen=True)
class Compared:
    state: Literal["same_as_original", "differs_from_original", "not_compared"]
    profile: str = ""
    kind: Literal["", "remuxed", "re_encoded"] = ""
    differs: tuple[str, ...] = ()
    """Names of what differs from the nearest pinned original."""
    label: dict[str, Any] | None = None
    """Parameters of a label finding; None where the label is as expected or nothing is expected."""
    label_basis: Basis = "known_list"
    stale: bool = False
    """What it was compared with is older than its term: encoders change, and then nobody did anything."""


def judge_marks(
    facts: MediaFacts, knowledge: Knowledge, pins: tuple[Pin, ...], profile: str, today: dt.date
) -> Compared:
    """Nothing is compared where nobody said what the file should be."""
    if not profile:
        return Compared("not_compared")
    film = bool(facts.encoder.codecs)  # a picture is not held against a film, nor what is neither against either
    own = [pin for pin in pins if pin.profile == profile and bool(pin.encoder.codecs) == film]
    row = next((r for r in knowledge.media_profiles if r.name == profile and r.valid_on(today)), None)
    if row is not None and row.age(today) == "expired":
        row = None
    label, basis = _label(facts, own, row)
    old = (
        all((today - pin.pinned).days > PIN_DAYS for pin in own)
        if own
        else row is not None and row.age(today) != "fresh"
    )
    kind, differs, known = _nearest(facts, own)
    if not own and row is not None and row.sei and facts.kind == "mp4":
        known = any(uuid in sei for uuid in row.sei for sei in facts.encoder.seis)
    if kind:
        return Compared("differs_from_original", profile, kind, differs, label, basis, old)
    if label is not None:
        return Compared("differs_from_original", profile, label=label, label_basis=basis, stale=old)
    return Compared("same_as_original" if known else "not_compared", profile)


def _nearest(facts: MediaFacts, pins: list[Pin]) -> tuple[Literal["", "remuxed", "re_encoded"], tuple[str, ...], bool]:
    """Against the pinned original that differs least: the kind of change, what differs, whether it compares."""
    best: tuple[Literal["", "remuxed", "re_encoded"], tuple[str, ...]] | None = None
    for pin in pins:
        if not pin.encoder.known or not pin.encoder.codecs:
            continue
        change = _change(facts, pin)
        if best is None or _weight(change[0]) < _weight(best[0]):
            best = change
    return (*best, True) if best else ("", (), False)


def _weight(kind: str) -> int:
    return ("", "remuxed", "re_encoded").index(kind)


def _change(facts: MediaFacts, pin: Pin) -> tuple[Literal["", "remuxed", "re_encoded"], tuple[str, ...]]:
    """User data is read from MP4 only. The order of boxes and the names of tracks change with length and sound, so they
    are told but do not decide."""
    walked = facts.kind == "mp4" and bool(pin.encoder.brands)
    names = STREAM if walked else {name: word for name, word in STREAM.items() if name != "seis"}
    stream = _differing(facts.encoder, pin.encoder, names)
    container = _differing(facts.encoder, pin.encoder, CONTAINER)
    if stream:
        return "re_encoded", (*stream, *container)
    stripped = pin.signer is not None and facts.signer_state == "absent"
    if stripped or {"writing_application", "file_brands"} & set(container):
        return "remuxed", (*(("content_credentials",) if stripped else ()), *container)
    return "", ()


def _differing(one: Encoder, other: Encoder, names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for name, word in names.items() if getattr(one, name) != getattr(other, name))


def _label(facts: MediaFacts, pins: list[Pin], row: MediaProfile | None) -> tuple[dict[str, Any] | None, Basis]:
    """The label against the pins, else against the list. A producer is compared, its numbers are not."""
    if facts.kind == "other":
        return None, "none"
    found = sorted({label.producer or UNNAMED for label in facts.labels})
    profile = pins[0].profile if pins else row.name if row else ""
    if pins:
        expected = {pin.label for pin in pins}
        agrees = any(pin.label in (found or [""]) for pin in pins)
        return (
            None if agrees else _params(profile, "absent" if expected == {""} else "present", found)
        ), "dated_baseline"
    if row is None or row.label == "unknown":
        return None, "none"
    if row.label == "absent":
        return (_params(profile, "absent", found) if found else None), "known_list"
    named = any(re.search(pattern, producer) for pattern in row.label_producers for producer in found)
    return (None if named else _params(profile, "present", found)), "known_list"


def _params(profile: str, expected: str, found: list[str]) -> dict[str, Any]:
    state = "absent" if not found else "present" if expected == "absent" else "other_producer"
    return {"profile": profile, "expected": expected, "found": state, "untrusted_producers": found}
