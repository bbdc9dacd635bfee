"""The validation matrix and the attacks, each with its outcome: no file that was changed, moved or signed by somebody
else is ever called an original. Everything is signed while the test runs."""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
import time
from pathlib import Path

import pytest

from relay_audit.assess.provenance import judge
from relay_audit.catalog import load_knowledge
from relay_audit.media.examine import examine
from relay_audit.media.pins import pin_of
from tests.media import material as m

KNOWLEDGE = load_knowledge()
TODAY = dt.datetime.now(dt.UTC).date()
ORIGINAL = ("media.signer_matches", "match")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Every file of the matrix, read once; and the chains behind them."""
    folder = tmp_path_factory.mktemp("matrix")
    official, legit = m.authority("Demo Official CA"), m.authority("Totally Legit CA")
    chains = {
        "official": m.chain(official),
        "renewed": m.chain(official),
        "renamed": m.chain(official, "Another Company Ltd.", ""),
        "spoof": m.chain(legit),
        "copied_serial": None,
        "stranger": m.chain(legit, "Some Studio", ""),
    }
    chains["copied_serial"] = m.chain(legit, serial=chains["official"].leaf.serial_number)
    chains["same_key"] = m.chain(official, key=chains["official"].key, days=(-1, 500))
    files = {f"{name}.mp4": m.sign(m.plain(), folder / f"{name}.mp4", by) for name, by in chains.items()}
    for kind in ("jpg", "png", "webp"):
        files[f"official.{kind}"] = m.sign(m.plain(kind), folder / f"official.{kind}", chains["official"])
    files["resigned.mp4"] = m.sign(
        files["official.mp4"], folder / "resigned.mp4", chains["spoof"], parent=files["official.mp4"]
    )
    files["plain.mp4"] = m.plain()
    files["preliminary.mp4"] = folder / "preliminary.mp4"
    files["preliminary.mp4"].write_bytes(m.preliminary(files["official.mp4"], chains["official"]))
    for name, raw in altered(files["official.mp4"].read_bytes(), files["spoof.mp4"].read_bytes(), chains).items():
        files[name] = folder / name
        files[name].write_bytes(raw)
    facts = dict(zip(files, m.read_all(list(files.values())), strict=True))
    pin = pin_of(facts["official.mp4"], "seedance", TODAY, integrity_checked=True)
    return chains, files, facts, (pin,)


def altered(official: bytes, spoof: bytes, chains) -> dict[str, bytes]:
    boxes = {kind: (start, end) for kind, start, end in m.top_boxes(official)}
    start, end = m.credentials(official)
    other = m.flipped(m.plain().read_bytes(), m.plain().read_bytes().index(b"mdat") + 40)
    spoofed = m.credentials(spoof)
    return {
        "flip_mdat.mp4": m.flipped(official, boxes[b"mdat"][0] + 200),
        "flip_moov.mp4": m.flipped(official, boxes[b"moov"][0] + 40),
        "flip_claim.mp4": m.flipped(official, m.inside(official, b"relay-audit-tests")),
        "flip_assertion.mp4": m.flipped(official, m.inside(official, b"c2pa.created")),
        "transplant.mp4": transplanted(official, other),
        "trailing.mp4": official + bytes(16),
        "free_box.mp4": official + struct.pack(">I4s", 32, b"free") + bytes(24),
        "cut_tail.mp4": official[:-100],
        "cut_head.mp4": official[100:],
        "two_stores.mp4": official[:end] + spoof[spoofed[0] : spoofed[1]] + official[end:],
        "two_stores_first.mp4": official[:start] + spoof[spoofed[0] : spoofed[1]] + official[start:],
        "injected.mp4": m.with_chain_in_unprotected(spoof, chains["official"].ders[:1]),
        "stripped.mp4": m.without_credentials(official),
    }


def transplanted(official: bytes, other: bytes) -> bytes:
    """The official's credentials on another film, at the place where they stood."""
    start, end = m.credentials(official)
    first = m.top_boxes(other)[0][2]
    return other[:first] + official[start:end] + other[first:]


def outcome(world, name: str, profile: str = "seedance", today: dt.date = TODAY):
    _, _, facts, pins = world
    return judge(facts[name], KNOWLEDGE, pins, profile, today)


def codes(found) -> list[tuple[str, str]]:
    return [(f.code, f.outcome) for f in found.findings]


@pytest.mark.parametrize(
    "name", ["official.mp4", "official.jpg", "official.png", "official.webp", "free_box.mp4", "same_key.mp4"]
)
def test_what_the_pinned_key_signed_is_recognised(world, name):
    found = outcome(world, name)
    assert ORIGINAL in codes(found)
    assert [step.state for step in found.steps[:2]] == ["holds", "holds"]
    assert all(f.severity == "info" for f in found.findings)
    match = found.findings[0]
    assert match.params["how"] == ("same_key" if name == "same_key.mp4" else "same_certificate")
    assert match.observed["libraries"]["c2pa-python"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("flip_mdat.mp4", ["content_hash"]),
        ("flip_moov.mp4", ["content_hash"]),
        ("flip_claim.mp4", ["claim_signature"]),
        ("flip_assertion.mp4", ["assertion_hash"]),
        ("transplant.mp4", ["content_hash"]),
        ("trailing.mp4", ["content_hash"]),
    ],
)
def test_changed_after_signing(world, name, parts):
    found = outcome(world, name)
    assert codes(found) == [("media.modified_after_signing", "mismatch")]
    assert found.findings[0].severity == "medium"
    assert found.findings[0].params["parts"] == parts
    assert [step.state for step in found.steps] == ["fails", "skipped", "skipped", "not_checked"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("two_stores.mp4", "two_stores"),
        ("two_stores_first.mp4", "two_stores"),
        ("injected.mp4", "two_chains"),
        ("preliminary.mp4", "prerelease"),
        ("cut_tail.mp4", "box_overruns"),
        ("cut_head.mp4", None),
    ],
)
def test_what_cannot_be_judged_says_why(world, name, reason):
    found = outcome(world, name)
    assert found.findings[0].code in ("media.unreadable", "media.no_credentials")
    if reason:
        assert codes(found) == [("media.unreadable", "inconclusive")]
        assert found.findings[0].params == {"reason": reason}
    assert not any(f.accusation for f in found.findings)


def test_the_library_alone_would_have_accepted_the_injected_chain(world):
    """The attack is real: only reading the chain ourselves refuses it."""
    facts = world[2]["injected.mp4"]
    assert set(facts.integrity.failure) <= {"signingCredential.untrusted"}
    assert {"claimSignature.validated", "assertion.bmffHash.match"} <= set(facts.integrity.success)


@pytest.mark.parametrize("name", ["spoof.mp4", "copied_serial.mp4", "resigned.mp4"])
def test_a_name_on_another_key_is_never_the_vendors(world, name):
    found = outcome(world, name)
    assert codes(found) == [("media.signer_spoofed", "mismatch")]
    one = found.findings[0]
    assert (one.severity, one.confidence, one.params["why"]) == ("high", "strong", "another_key")
    assert one.accusation


def test_the_ingredient_of_a_resigned_file_is_told_apart(world):
    chains, _, facts, _ = world
    assert facts["resigned.mp4"].signer.ingredients == (chains["official"].sha256,)
    assert facts["resigned.mp4"].signer.leaf.sha256 == chains["spoof"].sha256


@pytest.mark.parametrize(
    ("name", "relation"),
    [("renewed.mp4", "same_authority"), ("renamed.mp4", "other_signer"), ("stranger.mp4", "other_signer")],
)
def test_an_unknown_certificate_accuses_nobody(world, name, relation):
    found = outcome(world, name)
    assert codes(found) == [("media.signer_unknown", "inconclusive")]
    assert found.findings[0].params["relation"] == relation
    assert ("--rotate" in found.findings[0].params["next"]) is (relation == "same_authority")


def test_without_a_pin_a_known_name_is_unknown_and_says_how_to_pin(world):
    _, _, facts, _ = world
    for name in ("official.mp4", "spoof.mp4"):
        found = judge(facts[name], KNOWLEDGE, (), "seedance", TODAY)
        assert codes(found) == [("media.signer_unknown", "inconclusive")]
        params = found.findings[0].params
        assert (params["relation"], params["next"]) == ("known_name", "relay-audit pin FILE --profile seedance")


def test_no_credentials(world):
    assert codes(judge(world[2]["plain.mp4"], KNOWLEDGE, (), "seedance", TODAY)) == [
        ("media.no_credentials", "inconclusive")
    ]


def test_stripped_of_its_credentials(world):
    found = outcome(world, "stripped.mp4")
    assert codes(found) == [("media.repackaged", "mismatch")]
    assert (found.findings[0].severity, found.findings[0].params["kind"]) == ("low", "remuxed")
    assert found.findings[0].params["differs"] == ["content_credentials"]


@pytest.mark.parametrize("years", [2, 5, 34])
def test_the_clock_past_every_certificate_accuses_nobody(world, years):
    """A file stays what it was. Pins and lists grow old and then weaken what rests on them."""
    later = TODAY + dt.timedelta(days=366 * years)
    for name in ("official.mp4", "official.png", "renewed.mp4", "stranger.mp4", "plain.mp4", "stripped.mp4"):
        found = outcome(world, name, today=later)
        assert not any(f.above_info for f in found.findings), name
    assert ORIGINAL in codes(outcome(world, "official.mp4", today=later))


def test_a_certificate_that_has_ended_meanwhile(tmp_path):
    brief = m.chain(m.authority("Demo Brief CA"), days=(-2, 3 / 86400))
    while dt.datetime.now(dt.UTC) > brief.leaf.not_valid_after_utc - dt.timedelta(seconds=1):
        brief = m.chain(
            m.authority("Demo Brief CA"),
            days=(-2, (dt.datetime.now(dt.UTC) - m.NOW).total_seconds() / 86400 + 3 / 86400),
        )
    path = m.sign(m.plain(), tmp_path / "brief.mp4", brief)
    time.sleep(max(0.0, (brief.leaf.not_valid_after_utc - dt.datetime.now(dt.UTC)).total_seconds()) + 1)
    facts = m.read_all([path])[0]
    assert "signingCredential.expired" in facts.integrity.failure
    pin = pin_of(facts, "seedance", TODAY, integrity_checked=True)
    assert ORIGINAL in codes(judge(facts, KNOWLEDGE, (pin,), "seedance", TODAY))


def test_the_model_that_was_signed_is_read(tmp_path):
    by = m.chain(m.authority("Demo Official CA"))
    named = m.sign(m.plain(), tmp_path / "named.mp4", by, model="doubao-seedance-2-0-fast")
    facts = m.read_all([named, m.sign(m.plain(), tmp_path / "bare.mp4", by)])
    assert [one.signer.model for one in facts] == ["doubao-seedance-2-0-fast", ""]
    assert {"claimSignature.validated", "assertion.bmffHash.match"} <= set(facts[0].integrity.success)


def test_examine_reads_the_same_in_its_own_child(world):
    """One file through the front door: the same facts, MediaInfo added, hash and size of the whole file."""
    _, files, facts, _ = world
    path: Path = files["official.mp4"]
    read = examine(path)
    assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read.size == path.stat().st_size
    assert read.model_copy(update={"libraries": facts["official.mp4"].libraries}) == facts["official.mp4"]
    assert {"c2pa-python", "c2pa-rs", "pymediainfo", "mediainfo", "cbor2", "cryptography"} <= set(read.libraries)
