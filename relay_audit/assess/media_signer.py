"""Step 2: whose certificate signed? Tiers from a pinned leaf down to a name that anybody may write."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from relay_audit.finding import Confidence
from relay_audit.fingerprint import Knowledge
from relay_audit.media_facts import Certificate, MediaFacts, Pin, Signer

TierName = Literal[
    "pinned", "same_key", "same_authority", "test_certificate", "another_key", "known_name", "other_vendor",
    "other_signer", "absent",
    "unreadable",
]  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A certificate of a known original: the buyer's own pin, or a row of the list."""

    profile: str
    vendor: str
    leaf: str
    key: str
    issuing_key: str
    organisation: str
    organisation_id: str
    not_before: dt.datetime
    not_after: dt.datetime
    by: Literal["own_pin", "known_list"]
    stale: bool = False


@dataclass(frozen=True)
class Tier:
    name: TierName
    profile: str = ""
    """The profile or vendor it was recognised as."""
    known_by: str = ""
    leaf: str = ""
    key: str = ""
    subject: str = ""
    """The signer's name for itself: a stranger's text."""
    confidence: Confidence = "strong"

    @property
    def state(self) -> Literal["holds", "fails", "absent", "unclear"]:
        states: dict[str, Literal["holds", "fails", "absent", "unclear"]] = {
            "pinned": "holds", "same_key": "holds", "absent": "absent",
            "test_certificate": "fails", "another_key": "fails",
        }  # fmt: skip
        return states.get(self.name, "unclear")


def vendor_of(profile: str, knowledge: Knowledge) -> str:
    """The vendor of a profile; a profile of the buyer's own stands for itself."""
    return next((row.vendor for row in knowledge.media_profiles if row.name == profile), profile)


def judge_signer(facts: MediaFacts, knowledge: Knowledge, pins: tuple[Pin, ...], profile: str, today: dt.date) -> Tier:
    """The strongest tier that fits. Without a profile every known signer is compared."""
    if facts.signer is None:
        return Tier("absent" if facts.signer_state == "absent" else "unreadable")
    if facts.integrity.state == "read" and not _same_signature(facts):
        return Tier("unreadable")
    leaf = facts.signer.leaf
    bare = Tier("other_signer", leaf=leaf.sha256, key=leaf.spki_sha256, subject=leaf.organisation or leaf.subject)
    denied = {hash_ for row in knowledge.test_certificates for hash_ in (row.leaf_sha256, row.leaf_spki_sha256)}
    if leaf.sha256 in denied or leaf.spki_sha256 in denied:
        return replace(bare, name="test_certificate", confidence="decisive")
    everyone = [*_own(pins, knowledge), *_listed(knowledge, today)]
    wanted = [one for one in everyone if not profile or one.vendor == vendor_of(profile, knowledge)]
    return (
        _recognised(bare, facts.signer, wanted)
        or _elsewhere(bare, facts.signer, everyone, profile)
        or _named(bare, facts, wanted, knowledge, profile, today)
    )


def _same_signature(facts: MediaFacts) -> bool:
    """Whether the library and we read the same manifest and leaf. The serial number proves nothing by itself."""
    return (
        facts.signer is not None
        and facts.serial == facts.integrity.serial
        and facts.signer.label == facts.integrity.label
    )


def _own(pins: tuple[Pin, ...], knowledge: Knowledge) -> Iterable[Known]:
    for pin in pins:
        if pin.signer is not None:
            yield _known(pin.profile, vendor_of(pin.profile, knowledge), pin.signer, pin.issuing_key)


def _known(profile: str, vendor: str, leaf: Certificate, issuing_key: str) -> Known:
    return Known(
        profile, vendor, leaf.sha256, leaf.spki_sha256, issuing_key, leaf.organisation, leaf.organisation_id,
        leaf.not_before, leaf.not_after, "own_pin",
    )  # fmt: skip


def _listed(knowledge: Knowledge, today: dt.date) -> Iterable[Known]:
    """Rows past twice their term are left out; a stale one weakens what rests on it."""
    for row in knowledge.signers:
        age = row.age(today)
        if age != "expired":
            yield Known(
                row.vendor, row.vendor, row.leaf_sha256, row.leaf_spki_sha256, row.issuing_key, row.organisation,
                row.organisation_id, row.not_before, row.not_after, "known_list", stale=age == "stale",
            )  # fmt: skip


def _recognised(bare: Tier, signer: Signer, known: list[Known]) -> Tier | None:
    leaf = signer.leaf
    for one in known:
        if one.leaf == leaf.sha256:
            return replace(
                bare, name="pinned", profile=one.profile, known_by=one.by, confidence=_weaker("decisive", one)
            )
    for one in known:
        if one.key == leaf.spki_sha256:
            return replace(
                bare, name="same_key", profile=one.profile, known_by=one.by, confidence=_weaker("strong", one)
            )
    for one in known:
        same = (one.organisation, one.organisation_id) == (leaf.organisation, leaf.organisation_id)
        if one.issuing_key and one.issuing_key == signer.issuing_key and same:
            return replace(bare, name="same_authority", profile=one.profile, known_by=one.by)
    return None


def _weaker(confidence: Confidence, known: Known) -> Confidence:
    steps: tuple[Confidence, ...] = ("weak", "supporting", "strong", "decisive")
    return steps[steps.index(confidence) - 1] if known.stale else confidence


def _elsewhere(bare: Tier, signer: Signer, everyone: list[Known], profile: str) -> Tier | None:
    """Signed by a known vendor, who is not the one that was named."""
    if not profile:
        return None
    hit = next((one for one in everyone if signer.leaf.sha256 == one.leaf or signer.leaf.spki_sha256 == one.key), None)
    return replace(bare, name="other_vendor", profile=hit.profile, known_by=hit.by) if hit else None


def _named(
    bare: Tier, facts: MediaFacts, wanted: list[Known], knowledge: Knowledge, profile: str, today: dt.date
) -> Tier:
    """A known name on an unknown key: held against it only where a renewal is ruled out."""
    signer = facts.signer
    if signer is None:
        return bare
    organisation = signer.leaf.organisation.casefold()
    rows = [row for row in knowledge.media_profiles if not profile or row.name == profile]
    names = {name.casefold() for row in rows for name in row.organisations}
    same = [one for one in wanted if one.organisation.casefold() == organisation]
    if not organisation or not (same or organisation in names):
        return bare
    named = next((row.name for row in rows if organisation in map(str.casefold, row.organisations)), profile)
    pinned = next((one for one in same if _in_force(one, facts, today)), None)
    if pinned is None or _may_be_public(signer, knowledge):
        return replace(bare, name="known_name", profile=same[0].profile if same else named)
    name: TierName = "known_name" if pinned.stale else "another_key"
    return replace(bare, name=name, profile=pinned.profile, known_by=pinned.by)


def _in_force(known: Known, facts: MediaFacts, today: dt.date) -> bool:
    """Whether the known certificate was valid when the file was signed. Without an accepted time stamp: over all the
    days on which the file's own certificate can have signed it."""
    if facts.signer is None:
        return False
    moment = facts.integrity.signed_at
    leaf = facts.signer.leaf
    now = dt.datetime.combine(today, dt.time.max, dt.UTC)
    first, last = (moment, moment) if moment else (leaf.not_before, min(leaf.not_after, now))
    return known.not_before <= first and last <= known.not_after


def _may_be_public(signer: Signer, knowledge: Knowledge) -> bool:
    """A chain that ends, or that may end, in an authority open to everyone: a renewal cannot be ruled out."""
    if signer.public_root is None or signer.public_root:
        return True
    keys = {one.spki_sha256 for one in signer.chain[1:]} if signer.linked else set()
    issuer = signer.chain[-1].issuer
    return any(keys & set(row.keys) or re.search(row.pattern, issuer) for row in knowledge.authorities)
