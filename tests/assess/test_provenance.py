"""The tree of check 5 as a pure function: every leaf, the branch without credentials, renewals, old knowledge."""

from __future__ import annotations

import datetime as dt

import pytest

from relay_audit.assess.provenance import judge
from relay_audit.catalog import load_knowledge
from relay_audit.media_facts import Certificate, Encoder, Integrity, Label, MediaFacts, Pin, Signer, Workflow

KNOWLEDGE = load_knowledge()
TODAY = dt.date(2026, 11, 30)
BYTEPLUS, ORGANISATION_ID = "Byteplus Pte. Ltd.", "NTRSG-202024632W"
ENCODER = Encoder(
    library="x264 - core 164",
    settings="crf=23 ref=3",
    codecs=("avc1",),
    application="Lavf60.16.100",
    brands="isom:",
    tree="t1",
)
OTHER_STREAM = ENCODER.model_copy(update={"settings": "crf=30 ref=1"})
OTHER_WRITER = ENCODER.model_copy(update={"application": "Lavf59.27.100", "tree": "t2"})
WAN = Label(carrier="mdta", label="1", producer="001191330106MA2CFLDG4R10001")
HOLDS = ("claimSignature.validated", "assertion.bmffHash.match")


def day(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def leaf(
    mark: str, *, key: str = "", organisation=BYTEPLUS, start="2026-06-01", end="2027-06-01", issuer="CN=Private CA"
) -> Certificate:
    return Certificate(
        sha256=mark * 64, spki_sha256=(key or mark) * 64, organisation=organisation, organisation_id=ORGANISATION_ID,
        issuer=issuer,
        subject=f"O={organisation}", not_before=day(start), not_after=day(end),
    )  # fmt: skip


def facts(
    one: Certificate | None = None, *, issuing="e", issuer="CN=Some Root", public_root=False, **more
) -> MediaFacts:
    """A file that holds, signed by `one`; or one without credentials."""
    base: dict = {
        "name": "film.mp4",
        "sha256": "f" * 64,
        "size": 9,
        "kind": "mp4",
        "encoder": ENCODER,
        "libraries": {"c2pa-rs": "0.91.3"},
    }
    if one is None:
        return MediaFacts(**base | {"integrity": Integrity(state="absent"), "signer_state": "absent"} | more)
    above = Certificate(
        sha256=issuing * 64,
        spki_sha256=issuing * 64,
        issuer=issuer,
        not_before=day("2020-01-01"),
        not_after=day("2040-01-01"),
    )
    signer = Signer(label="urn:1", algorithm="ES256", chain=(one, above), linked=True, public_root=public_root)
    integrity = Integrity(
        state="read", success=HOLDS, failure=("signingCredential.untrusted",), label="urn:1", serial="7"
    )
    return MediaFacts(**base | {"integrity": integrity, "signer_state": "read", "signer": signer, "serial": "7"} | more)


def pin(
    one: Certificate | None = None, *, profile="seedance", issuing="e", pinned=TODAY, encoder=ENCODER, label=""
) -> Pin:
    return Pin(
        profile=profile, file_sha256="a" * 64, pinned=pinned, integrity_checked=True, signer=one,
        issuing_key=issuing * 64 if one else "", encoder=encoder, label=label,
    )  # fmt: skip


def found(file: MediaFacts, *pins: Pin, profile="seedance", today=TODAY) -> list[tuple[str, str, str]]:
    return [
        (f.code.removeprefix("media."), f.outcome, f.severity)
        for f in judge(file, KNOWLEDGE, pins, profile, today).findings
    ]


PINNED = leaf("1")
MATCH = ("signer_matches", "match", "info")
UNKNOWN = ("signer_unknown", "inconclusive", "info")
SPOOFED = ("signer_spoofed", "mismatch", "high")


def relation(file: MediaFacts, *pins: Pin, profile="seedance", today=TODAY) -> str:
    return judge(file, KNOWLEDGE, pins, profile, today).findings[0].params["relation"]


def test_steps_one_to_three_hold():
    tree = judge(facts(PINNED), KNOWLEDGE, (pin(PINNED),), "seedance", TODAY)
    assert [step.state for step in tree.steps] == ["holds", "holds", "holds", "not_checked"]
    assert found(facts(PINNED), pin(PINNED)) == [MATCH]
    assert tree.findings[0].confidence == "decisive"
    assert tree.findings[0].observed["libraries"] == {"c2pa-rs": "0.91.3"}


def test_first_no_changed_after_signing():
    broken = facts(
        PINNED, integrity=Integrity(state="read", success=HOLDS[:1], failure=("assertion.bmffHash.mismatch",))
    )
    assert found(broken, pin(PINNED)) == [("modified_after_signing", "mismatch", "medium")]
    assert found(broken.model_copy(update={"fragment": True}), pin(PINNED)) == [("unreadable", "inconclusive", "info")]


def test_second_no_another_key_under_the_vendors_name():
    assert found(facts(leaf("2"), issuing="d"), pin(PINNED)) == [SPOOFED]


def test_third_no_repackaged():
    stripped = facts()
    assert found(stripped, pin(PINNED)) == [("repackaged", "mismatch", "low")]
    assert kind(stripped) == "remuxed"
    assert kind(facts(encoder=OTHER_STREAM)) == "re_encoded"
    assert kind(facts(encoder=OTHER_WRITER)) == "remuxed"


def kind(file: MediaFacts) -> str:
    return judge(file, KNOWLEDGE, (pin(PINNED),), "seedance", TODAY).findings[0].params["kind"]


def test_a_difference_under_the_pinned_signature_is_told_and_held_against_nobody():
    assert found(facts(PINNED, encoder=OTHER_WRITER), pin(PINNED)) == [MATCH, ("repackaged", "inconclusive", "info")]
    assert found(facts(PINNED, labels=(WAN,)), pin(PINNED)) == [MATCH, ("label_mismatch", "inconclusive", "info")]


def test_the_length_of_a_film_is_no_difference():
    longer = ENCODER.model_copy(update={"tree": "t9", "handlers": ("vide|V", "soun|S")})
    assert found(facts(encoder=longer), pin(profile="wan", label=""), profile="wan") == [
        ("no_credentials", "inconclusive", "info")
    ]


def test_the_branch_without_credentials():
    """Wan: originals carry no C2PA, so step 3 decides."""
    original = facts(labels=(WAN,))
    tree = judge(original, KNOWLEDGE, (pin(profile="wan", label=WAN.producer),), "wan", TODAY)
    assert [step.state for step in tree.steps] == ["absent", "skipped", "holds", "not_checked"]
    assert [(f.code, f.params["expected"], f.confidence) for f in tree.findings] == [
        ("media.no_credentials", "never", "supporting")
    ]
    assert found(facts(), profile="wan") == [
        ("no_credentials", "inconclusive", "info"),
        ("label_mismatch", "mismatch", "low"),
    ]
    elsewhere = facts(labels=(WAN.model_copy(update={"producer": "somebody"}),))
    assert ("label_mismatch", "mismatch", "low") in found(elsewhere, profile="wan")
    assert found(facts(labels=(WAN,)), profile="wan") == [("no_credentials", "inconclusive", "info")]


def test_a_label_where_originals_have_none():
    assert ("label_mismatch", "mismatch", "low") in found(facts(labels=(WAN,)))
    assert found(facts()) == [("no_credentials", "inconclusive", "info")]


def test_user_data_of_kling():
    encoder = ENCODER.model_copy(update={"seis": ("91ca6061-4aee-3854-8614-2d5f73f4ae2e kling-ai",)})
    kling = facts(encoder=encoder, labels=(Label(carrier="mdta", label="1", producer="kling"),))
    assert judge(kling, KNOWLEDGE, (), "kling", TODAY).findings[0].params["encoder"] == "same_as_original"
    assert judge(facts(), KNOWLEDGE, (), "kling", TODAY).findings[0].params["encoder"] != "same_as_original"


@pytest.mark.parametrize("wherever", [facts(), facts(leaf("2"), issuing="d", public_root=True)])
def test_a_workflow_that_loads_weights(wherever):
    weights = Workflow(carrier="mdta", nodes=9, models=("wan2.2.safetensors",))
    assert ("self_hosted_pipeline", "mismatch", "high") in found(wherever.model_copy(update={"workflows": (weights,)}))
    calls = Workflow(carrier="mdta", nodes=2)
    assert ("self_hosted_pipeline", "inconclusive", "info") in found(
        wherever.model_copy(update={"workflows": (calls,)})
    )


def test_a_workflow_under_the_pinned_signature_accuses_nobody():
    weights = Workflow(carrier="mdta", nodes=9, models=("wan2.2.safetensors",))
    assert found(facts(PINNED, workflows=(weights,)), pin(PINNED)) == [
        MATCH,
        ("self_hosted_pipeline", "inconclusive", "info"),
    ]


@pytest.mark.parametrize(
    ("renewal", "expected"),
    [
        (facts(leaf("1", key="1")), MATCH),
        (facts(leaf("2", key="1", start="2026-11-01", end="2027-11-01"), issuing="d"), MATCH),
        (facts(leaf("2", start="2026-11-01", end="2027-11-01")), UNKNOWN),
        (facts(leaf("2", start="2027-05-01", end="2028-05-01"), issuing="d", public_root=True), UNKNOWN),
        (facts(leaf("2", start="2026-11-01"), issuing="d", issuer="CN=DigiCert ECC P384 Root for C2PA G1"), UNKNOWN),
        (facts(leaf("2", start="2026-11-01"), issuing="d", public_root=None), UNKNOWN),
        (facts(leaf("2", start="2025-05-01", end="2026-06-10"), issuing="d"), UNKNOWN),
        (facts(leaf("2", start="2026-11-01", end="2028-11-01"), issuing="d"), SPOOFED),
    ],
    ids=[
        "same", "same key", "same authority", "public root", "named authority", "no list of roots", "before the pin",
        "private, at the same time",
    ],
)  # fmt: skip
def test_a_renewed_certificate_is_never_an_accusation(renewal, expected):
    assert found(renewal, pin(PINNED)) == [expected]


def test_after_the_pinned_certificate_ended_a_new_one_is_unknown():
    assert found(
        facts(leaf("2", start="2026-11-01", end="2028-11-01"), issuing="d"), pin(PINNED), today=dt.date(2027, 7, 1)
    ) == [UNKNOWN]


def test_relations():
    stranger = leaf("3", organisation="Some Studio")
    assert relation(facts(stranger), pin(PINNED)) == "other_signer"
    assert relation(facts(leaf("2"), issuing="d")) == "known_name"
    assert relation(facts(leaf("2")), pin(PINNED)) == "same_authority"
    assert relation(facts(leaf("9")), pin(leaf("9"), profile="wan"), profile="seedance") == "other_vendor"


def known_signer(vendor: str):
    return next(row for row in KNOWLEDGE.signers if row.vendor == vendor)


@pytest.mark.parametrize("vendor", ["openai", "google", "adobe", "black-forest-labs"])
def test_signers_on_the_list_are_recognised_until_the_list_is_old(vendor):
    row = known_signer(vendor)
    one = leaf("0", organisation=row.organisation).model_copy(
        update={"sha256": row.leaf_sha256, "spki_sha256": row.leaf_spki_sha256}
    )
    profile = next(p.name for p in KNOWLEDGE.media_profiles if p.vendor == vendor)
    for named in (profile, ""):
        tree = judge(facts(one), KNOWLEDGE, (), named, TODAY)
        assert (tree.findings[0].code, tree.findings[0].confidence, tree.findings[0].basis) == (
            "media.signer_matches",
            "decisive",
            "known_list",
        )
    assert judge(facts(one), KNOWLEDGE, (), profile, dt.date(2028, 6, 1)).findings[0].confidence == "strong"
    assert found(facts(one), profile=profile, today=dt.date(2031, 1, 1)) == [UNKNOWN]


@pytest.mark.parametrize("row", KNOWLEDGE.test_certificates, ids=lambda row: row.id)
def test_a_public_test_key_is_nobodys_original(row):
    for sha256, key in ((row.leaf_sha256, "5" * 64), ("5" * 64, row.leaf_spki_sha256)):
        one = leaf("0").model_copy(update={"sha256": sha256, "spki_sha256": key})
        assert found(facts(one), pin(one)) == [SPOOFED]
        assert judge(facts(one), KNOWLEDGE, (pin(one),), "", TODAY).findings[0].params["why"] == "test_certificate"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"refused": "too_many_boxes"}, "too_many_boxes"),
        ({"integrity": Integrity(state="remote", detail="Remote: …")}, "remote_manifest"),
        (
            {"integrity": Integrity(state="unreadable", detail="Manifest: more than one manifest store detected")},
            "two_stores",
        ),
        ({"integrity": Integrity(state="unreadable", detail="Other: prerelease content detected")}, "prerelease"),
        ({"integrity": Integrity(state="unreadable", detail="Box size extends beyond asset bounds")}, "file_truncated"),
        ({"integrity": Integrity(state="unreadable", detail="something new")}, "parser_refused"),
        ({"integrity": Integrity(state="unreadable", detail="parser_died")}, "parser_died"),
        ({"integrity": Integrity(state="read", success=HOLDS, failure=("assertion.future.code",))}, "unknown_codes"),
        (
            {"integrity": Integrity(state="read", success=HOLDS, failure=("signingCredential.invalid",))},
            "unknown_codes",
        ),
        ({"integrity": Integrity(state="read", success=HOLDS[:1])}, "nothing_bound"),
        ({"integrity": Integrity(state="read", success=HOLDS, label="urn:1", serial="8")}, "parsers_disagree"),
        ({"integrity": Integrity(state="read", success=HOLDS, label="urn:2", serial="7")}, "parsers_disagree"),
        ({"signer": None, "signer_state": "unreadable", "signer_detail": "two_chains"}, "two_chains"),
        (
            {"kind": "other", "signer": None, "signer_state": "not_checked", "signer_detail": "format_not_followed"},
            "format_not_followed",
        ),
        (
            {
                "kind": "jpeg",
                "truncated": True,
                "integrity": Integrity(state="read", success=HOLDS[:1], failure=("assertion.dataHash.mismatch",)),
            },
            "file_truncated",
        ),
        (
            {
                "kind": "png",
                "signer": None,
                "signer_state": "absent",
                "signer_detail": "remote_manifest",
                "integrity": Integrity(state="not_checked"),
            },
            "remote_manifest",
        ),
    ],
)
def test_what_is_not_clear_is_no_accusation(more, reason):
    tree = judge(facts(PINNED, **more), KNOWLEDGE, (pin(PINNED),), "seedance", TODAY)
    assert [(f.code, f.params) for f in tree.findings] == [("media.unreadable", {"reason": reason})]
    assert not tree.settled


def test_without_the_library_the_signer_is_still_read():
    tree = judge(facts(PINNED, integrity=Integrity(state="not_checked")), KNOWLEDGE, (pin(PINNED),), "seedance", TODAY)
    assert [(f.code, f.outcome, f.params["signer"]) for f in tree.findings] == [
        ("media.not_checked", "not_run", "pinned")
    ]
    assert "relay-audit-toolkit[media]" in tree.findings[0].params["command"]
    spoof = facts(leaf("2"), issuing="d", integrity=Integrity(state="not_checked"))
    assert found(spoof, pin(PINNED)) == [("not_checked", "not_run", "info")]
    bare = facts(integrity=Integrity(state="not_checked"), encoder=Encoder())
    assert found(bare) == [("no_credentials", "inconclusive", "info")]


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "mp4", "other"])
def test_a_picture_is_not_held_against_a_film(kind):
    """Nor a sound, nor what nobody recognises: an AVIF is of MP4's boxes and has no stream."""
    picture = facts(kind=kind, encoder=Encoder(brands="avif:mif1", tree="t9"))
    own = pin(PINNED).model_copy(update={"label": "somebody"})
    assert found(picture, own) == [("no_credentials", "inconclusive", "info")]
    assert judge(picture, KNOWLEDGE, (own,), "seedance", TODAY).steps[2].state == "not_checked"


@pytest.mark.parametrize("year", [2028, 2031])
def test_old_pins_and_old_lists_weigh_nothing(year):
    today = dt.date(year, 6, 1)
    for profile in ("seedance", "wan", "kling", "minimax", "vidu", "openai", ""):
        for file in (facts(), facts(labels=(WAN,)), facts(encoder=OTHER_STREAM)):
            own = (pin(PINNED), pin(profile="wan", label="x"))
            assert {severity for _, _, severity in found(file, *own, profile=profile, today=today)} <= {"info"}


@pytest.mark.parametrize("year", [2028, 2031])
def test_what_was_signed_beside_the_vendors_own_certificate_stays_so(year):
    """It is the file's date that counts, not the reader's."""
    assert found(facts(leaf("2"), issuing="d"), pin(PINNED), today=dt.date(year, 6, 1)) == [SPOOFED]
