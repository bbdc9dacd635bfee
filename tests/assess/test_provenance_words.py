"""What each leaf of the tree of check 5 says, whole: its parameters, how sure it is, and what it rests on."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from relay_audit.assess.film_link import Link
from relay_audit.assess.media_marks import Compared, judge_marks
from relay_audit.assess.media_signer import Tier, judge_signer
from relay_audit.assess.provenance import Provenance, judge
from relay_audit.media_facts import Encoder, Integrity, Label, MediaFacts, Pin, Workflow
from tests.assess.evidence_builders import said
from tests.assess.test_provenance import (
    BYTEPLUS,
    ENCODER,
    HOLDS,
    KNOWLEDGE,
    OTHER_STREAM,
    OTHER_WRITER,
    PINNED,
    TODAY,
    WAN,
    day,
    facts,
    known_signer,
    leaf,
    pin,
)  # fmt: skip

FILE = {"libraries": {"c2pa-rs": "0.91.3"}, "file_sha256": "f" * 64}
"""What every finding of check 5 tells of the file."""
OWN = {"leaf_sha256": "1" * 64, "key_sha256": "1" * 64, **FILE}
OTHER = {"leaf_sha256": "2" * 64, "key_sha256": "2" * 64, **FILE}
NOTHING = {"outcome": "inconclusive", "severity": "info"}
NOT_READ = Integrity(state="not_checked")


def tree(file: MediaFacts, *pins: Pin, profile: str = "seedance", link: Link | None = None) -> Provenance:
    return judge(file, KNOWLEDGE, pins, profile, TODAY, link)


def first(file: MediaFacts, *pins: Pin, **more: Any) -> dict[str, Any]:
    one = said(tree(file, *pins, **more).findings[0])
    assert one.pop("check") == 5
    return one


def broken(*codes: str, **more: Any) -> MediaFacts:
    return facts(PINNED, integrity=Integrity(state="read", success=HOLDS[:1], failure=codes), **more)


# Steps 1 and 2


@pytest.mark.parametrize(
    ("one", "how", "confidence"),
    [(PINNED, "same_certificate", "decisive"), (leaf("2", key="1", start="2026-11-01"), "same_key", "strong")],
)
def test_what_the_pinned_key_signed(one, how, confidence):
    assert first(facts(one), pin(PINNED)) == {
        "code": "media.signer_matches", "outcome": "match", "severity": "info", "confidence": confidence, "basis": "dated_baseline",
        "params": {"profile": "seedance", "how": how, "known_by": "own_pin", "encoder": "same_as_original"},
        "observed": {"leaf_sha256": one.sha256, "key_sha256": one.spki_sha256, **FILE},
    }  # fmt: skip


def spoofed(why: str, **more: Any) -> dict[str, Any]:
    params = {"profile": "seedance", "why": why, "untrusted_name": BYTEPLUS}
    return {"code": "media.signer_spoofed", "outcome": "mismatch", "severity": "high", "params": params, **more}


def test_a_vendors_name_on_another_key():
    assert first(facts(leaf("2"), issuing="d"), pin(PINNED)) == spoofed(
        "another_key", confidence="strong", basis="dated_baseline", observed=OTHER
    )


def test_a_key_that_everybody_has():
    row = KNOWLEDGE.test_certificates[0]
    one = leaf("0").model_copy(update={"sha256": row.leaf_sha256, "spki_sha256": row.leaf_spki_sha256})
    shown = {"leaf_sha256": row.leaf_sha256, "key_sha256": row.leaf_spki_sha256, **FILE}
    assert first(facts(one)) == spoofed("test_certificate", confidence="decisive", basis="known_list", observed=shown)


@pytest.mark.parametrize(
    ("file", "pins", "profile", "relation", "shown", "asks", "confidence"),
    [
        (facts(leaf("2")), (pin(PINNED),), "seedance", "same_authority", "seedance", "seedance --rotate", "supporting"),
        (facts(leaf("2"), issuing="d"), (), "seedance", "known_name", "seedance", "seedance", "weak"),
        (facts(leaf("2", organisation="Some Studio")), (), "seedance", "other_signer", "seedance", "seedance", "weak"),
        (facts(leaf("2", organisation="Some Studio")), (), "", "other_signer", "no_profile", "NAME", "weak"),
        (facts(leaf("2", organisation="")), (), "", "other_signer", "no_profile", "NAME", "weak"),
        (facts(leaf("9")), (pin(leaf("9"), profile="wan"),), "seedance", "other_vendor", "wan", "wan", "weak"),
        (facts(leaf("2"), issuing="d"), (), "", "known_name", "seedance", "seedance", "weak"),
    ],
)
def test_an_unknown_signer_says_how_to_know_him(file, pins, profile, relation, shown, asks, confidence):
    one = file.signer.leaf
    name = one.organisation or one.subject
    params = {
        "profile": shown,
        "relation": relation,
        "untrusted_name": name,
        "next": f"relay-audit pin FILE --profile {asks}",
    }
    expected = {"code": "media.signer_unknown", **NOTHING, "params": params,
                "observed": {"leaf_sha256": one.sha256, "key_sha256": one.spki_sha256, **FILE}}  # fmt: skip
    if confidence != "supporting":
        expected["confidence"] = confidence
    assert first(file, *pins, profile=profile) == expected


@pytest.mark.parametrize(
    ("codes", "parts"),
    [
        (("assertion.bmffHash.mismatch",), ["content_hash"]),
        (("assertion.dataHash.mismatch",), ["content_hash"]),
        (("assertion.boxesHash.mismatch",), ["content_hash"]),
        (("assertion.hashedURI.mismatch",), ["assertion_hash"]),
        (("claimSignature.mismatch",), ["claim_signature"]),
        (("claimSignature.mismatch", "assertion.boxesHash.mismatch", "assertion.dataHash.mismatch"), ["claim_signature", "content_hash"]),
        (("signingCredential.untrusted", "assertion.dataHash.mismatch"), ["content_hash"]),
        (("assertion.future", "assertion.dataHash.mismatch"), ["content_hash"]),
    ],
)  # fmt: skip
def test_which_part_was_changed(codes, parts):
    assert first(broken(*codes), pin(PINNED)) == {
        "code": "media.modified_after_signing", "outcome": "mismatch", "severity": "medium", "confidence": "decisive",
        "params": {"parts": parts}, "observed": {"codes": list(codes), **FILE},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("codes", "more", "outcome"),
    [
        (("assertion.bmffHash.mismatch",), {"fragment": True}, "lone_fragment"),
        (("assertion.bmffHash.mismatch", "signingCredential.untrusted"), {"fragment": True}, "lone_fragment"),
        (("assertion.dataHash.mismatch",), {"fragment": True}, ""),
        (("assertion.bmffHash.mismatch", "claimSignature.mismatch"), {"fragment": True}, ""),
        (("assertion.dataHash.mismatch",), {"truncated": True}, "file_truncated"),
        (("assertion.dataHash.mismatch", "assertion.boxesHash.mismatch"), {"truncated": True}, "file_truncated"),
        (("assertion.dataHash.mismatch", "claimSignature.mismatch"), {"truncated": True}, ""),
    ],
)
def test_what_did_not_arrive_whole_was_changed_by_nobody(codes, more, outcome):
    one = first(broken(*codes, **more), pin(PINNED))
    assert (one["code"], one["params"].get("reason", "")) == (
        ("media.unreadable", outcome) if outcome else ("media.modified_after_signing", "")
    )


@pytest.mark.parametrize("failure", [(), ("signingCredential.untrusted",), ("signingCredential.expired",)])
@pytest.mark.parametrize("bound", ["bmffHash", "dataHash", "boxesHash"])
def test_lists_and_clocks_are_no_fault_of_the_content(bound, failure):
    read = Integrity(
        state="read", success=("claimSignature.validated", f"assertion.{bound}.match"), failure=failure, label="urn:1", serial="7"
    )  # fmt: skip
    assert tree(facts(PINNED, integrity=read), pin(PINNED)).steps[0].state == "holds"
    unsigned = read.model_copy(update={"success": read.success[1:]})
    assert tree(facts(PINNED, integrity=unsigned), pin(PINNED)).steps[0].why == "nothing_bound"


@pytest.mark.parametrize(
    ("file", "state", "why"),
    [
        (facts(PINNED, refused="too_many_boxes"), "unclear", "too_many_boxes"),
        (facts(), "absent", ""),
        (facts(integrity=Integrity(state="unsupported")), "absent", ""),
        (facts(integrity=Integrity(state="remote")), "unclear", "remote_manifest"),
        (facts(integrity=NOT_READ), "absent", ""),
        (facts(integrity=NOT_READ, signer_detail="elsewhere"), "absent", ""),
        (facts(integrity=NOT_READ, signer_detail="remote_manifest"), "unclear", "remote_manifest"),
        (facts(PINNED, integrity=NOT_READ, signer_detail="remote_manifest"), "not_checked", "c2pa_missing"),
        (facts(integrity=Integrity(state="unreadable", detail="out_of_time")), "unclear", "out_of_time"),
        (facts(integrity=Integrity(state="unreadable", detail="two_stores")), "unclear", "two_stores"),
        (facts(integrity=Integrity(state="unreadable")), "unclear", "parser_refused"),
        (facts(signer_state="unreadable", integrity=Integrity(state="read", success=HOLDS)), "unclear", "parsers_disagree"),
        (facts(integrity=Integrity(state="read", success=HOLDS)), "unclear", "parsers_disagree"),
        (facts(PINNED), "holds", ""),
    ],
)  # fmt: skip
def test_step_one(file, state, why):
    step = tree(file).steps[0]
    assert (step.name, step.state, step.why) == ("integrity", state, why)


def test_without_the_library_the_signer_is_told_and_how_to_get_it():
    assert first(facts(PINNED, integrity=NOT_READ), pin(PINNED)) == {
        "code": "media.not_checked", "outcome": "not_run", "severity": "info", "observed": FILE,
        "params": {"reason": "c2pa_missing", "signer": "pinned", "command": "pip install 'relay-audit-toolkit[media]'"},
    }  # fmt: skip


def test_what_cannot_be_read_says_why_and_rests_on_nothing():
    assert first(facts(refused="no_media")) == {
        "code": "media.unreadable", **NOTHING, "params": {"reason": "no_media"}, "observed": FILE,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "pins", "expected", "encoder", "rest"),
    [
        ("seedance", (), "sometimes", "not_compared", {"basis": "known_list", "confidence": "weak"}),
        ("openai", (), "always", "not_compared", {"basis": "known_list", "confidence": "weak"}),
        ("wan", (pin(profile="wan"),), "never", "same_as_original", {"basis": "known_list"}),
        ("", (), "unknown", "not_compared", {"confidence": "weak"}),
        ("mine", (pin(profile="mine"),), "unknown", "same_as_original", {}),
    ],
)
def test_no_credentials_say_what_was_to_be_expected(profile, pins, expected, encoder, rest):
    assert first(facts(), *pins, profile=profile) == {
        "code": "media.no_credentials", **NOTHING, "observed": FILE, **rest,
        "params": {"profile": profile or "no_profile", "expected": expected, "encoder": encoder},
    }  # fmt: skip


# Step 3


def second(file: MediaFacts, *pins: Pin, **more: Any) -> dict[str, Any]:
    one = said(tree(file, *pins, **more).findings[-1])
    assert one.pop("check") == 5
    return one


TWO = (WAN, Label(carrier="xmp", producer="a"), WAN)
CONTAINER = ["writing_application", "box_tree"]


@pytest.mark.parametrize(
    ("file", "kind", "differs"),
    [
        (facts(), "remuxed", ["content_credentials"]),
        (facts(encoder=OTHER_STREAM), "re_encoded", ["encoder_settings"]),
        (facts(encoder=OTHER_WRITER), "remuxed", ["content_credentials", *CONTAINER]),
        (
            facts(encoder=OTHER_WRITER.model_copy(update={"library": "x265", "seis": ("u",)})),
            "re_encoded",
            ["encoder", "stream_user_data", *CONTAINER],
        ),
    ],
)
def test_what_differs_from_the_pinned_original(file, kind, differs):
    assert second(file, pin(PINNED)) == {
        "code": "media.repackaged", "outcome": "mismatch", "severity": "low", "basis": "dated_baseline", "observed": FILE,
        "params": {"profile": "seedance", "kind": kind, "differs": differs},
    }  # fmt: skip


def test_under_the_pinned_signature_the_same_is_worth_reading_and_no_more():
    assert second(facts(PINNED, encoder=OTHER_WRITER), pin(PINNED)) == {
        "code": "media.repackaged", **NOTHING, "confidence": "weak", "basis": "dated_baseline", "observed": FILE,
        "params": {"profile": "seedance", "kind": "remuxed", "differs": CONTAINER},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "pins", "profile", "params", "basis"),
    [
        ((WAN,), (), "seedance", ("absent", "present", [WAN.producer]), "known_list"),
        ((), (), "wan", ("present", "absent", []), "known_list"),
        ((Label(carrier="xmp"),), (), "wan", ("present", "other_producer", ["-"]), "known_list"),
        ((WAN,), (pin(),), "seedance", ("absent", "present", [WAN.producer]), "dated_baseline"),
        ((), (pin(label="me"),), "seedance", ("present", "absent", []), "dated_baseline"),
        ((WAN,), (pin(label="me"),), "seedance", ("present", "other_producer", [WAN.producer]), "dated_baseline"),
        ((WAN,), (pin(label="me"), pin()), "seedance", ("present", "other_producer", [WAN.producer]), "dated_baseline"),
        (TWO, (pin(),), "seedance", ("absent", "present", [WAN.producer, "a"]), "dated_baseline"),
    ],
)  # fmt: skip
def test_a_label_that_originals_do_not_carry(labels, pins, profile, params, basis):
    expected, found, producers = params
    assert second(facts(labels=labels), *pins, profile=profile) == {
        "code": "media.label_mismatch", "outcome": "mismatch", "severity": "low", "basis": basis, "observed": FILE,
        "params": {"profile": profile, "expected": expected, "found": found, "untrusted_producers": producers},
    }  # fmt: skip


WEIGHTS = Workflow(carrier="mdta", nodes=9, models=("wan2.2.safetensors", "vae.pt"))


def test_a_workflow_tells_its_weights_and_the_first_of_them_is_told():
    file = facts(workflows=(WEIGHTS, Workflow(carrier="xmp", nodes=1)))
    assert second(file) == {
        "code": "media.self_hosted_pipeline", "outcome": "mismatch", "severity": "high", "confidence": "strong", "observed": FILE,
        "params": {"carrier": "mdta", "nodes": 9, "untrusted_models": ["wan2.2.safetensors", "vae.pt"]},
    }  # fmt: skip


def test_in_a_file_that_was_changed_marks_weigh_nothing():
    changed = broken("claimSignature.mismatch", workflows=(WEIGHTS,), labels=(WAN,), encoder=OTHER_STREAM)
    assert [f.code for f in tree(changed, pin(PINNED)).findings] == ["media.modified_after_signing"]
    unread = facts(refused="box_overruns", workflows=(WEIGHTS,), labels=(WAN,), encoder=OTHER_STREAM)
    assert [f.code for f in tree(unread, pin(PINNED)).findings] == ["media.unreadable", "media.self_hosted_pipeline"]


def test_under_a_false_name_marks_are_not_looked_at():
    spoof = facts(leaf("2"), issuing="d", labels=(WAN,), encoder=OTHER_STREAM)
    assert [f.code for f in tree(spoof, pin(PINNED)).findings] == ["media.signer_spoofed"]


# All steps, and the fourth


def steps(found: Provenance) -> list[tuple[str, str, str]]:
    return [(step.name, step.state, step.why) for step in found.steps]


LINK = Link("holds", hosts=("store.vendor.example",))


@pytest.mark.parametrize(
    ("file", "pins", "profile", "expected"),
    [
        (facts(PINNED), (pin(PINNED),), "seedance", ["holds/", "holds/pinned", "holds/same_as_original", "holds/"]),
        (facts(PINNED), (), "seedance", ["holds/", "unclear/known_name", "not_checked/not_compared", "holds/"]),
        (facts(leaf("2"), issuing="d"), (pin(PINNED),), "seedance", ["holds/", "fails/another_key", "skipped/holds", "skipped/"]),
        (facts(), (), "wan", ["absent/", "skipped/never_signed", "fails/not_compared", "skipped/"]),
        (facts(labels=(WAN,)), (pin(profile="wan", label=WAN.producer),), "wan",
         ["absent/", "skipped/never_signed", "holds/same_as_original", "holds/"]),
        (facts(), (), "openai", ["absent/", "skipped/absent", "not_checked/not_compared", "holds/"]),
        (facts(), (pin(PINNED),), "seedance", ["absent/", "skipped/absent", "fails/remuxed", "skipped/"]),
        (broken("claimSignature.mismatch"), (pin(PINNED),), "wan", ["fails/modified", "skipped/fails", "skipped/fails", "skipped/"]),
        (facts(refused="x"), (), "wan", ["unclear/x", "skipped/unclear", "skipped/unclear", "skipped/"]),
        (facts(PINNED, integrity=NOT_READ), (pin(PINNED),), "seedance",
         ["not_checked/c2pa_missing", "holds/pinned", "holds/same_as_original", "holds/"]),
        (facts(leaf("2"), issuing="d", integrity=NOT_READ), (pin(PINNED),), "seedance",
         ["not_checked/c2pa_missing", "fails/another_key", "skipped/not_checked", "skipped/"]),
    ],
)  # fmt: skip
def test_the_walk_ends_where_the_evidence_ends(file, pins, profile, expected):
    names = ("integrity", "signer", "encoder", "link")
    walked = [(name, *word.split("/")) for name, word in zip(names, expected, strict=True)]
    if expected[2] == "fails/not_compared":
        walked[2] = ("encoder", "fails", "differs_from_original")  # by its label alone
    assert steps(tree(file, *pins, profile=profile, link=LINK)) == walked
    outside = tree(file, *pins, profile=profile)
    assert steps(outside) == [*walked[:3], ("link", "not_checked", "only_in_a_run")]
    assert not {f.code for f in outside.findings} & {"media.original", "media.restored_by_relay"}


SIGNED = (facts(PINNED), (pin(PINNED),), "seedance")
UNSIGNED = (facts(labels=(WAN,)), (pin(profile="wan", label=WAN.producer),), "wan")
HOSTS = {"untrusted_hosts": ["store.vendor.example"], **FILE}


def ended(found: Provenance) -> list[dict[str, Any]]:
    """What step 4 adds."""
    own = [
        f for f in found.findings if f.code in ("media.original", "media.restored_by_relay", "media.task_inconsistent")
    ]
    return [{k: v for k, v in said(f).items() if k not in ("check", "code")} | {"code": f.code} for f in own]


@pytest.mark.parametrize(
    ("way", "signed", "rest"), [(SIGNED, "by_the_vendor", {"confidence": "decisive"}), (UNSIGNED, "never_signed", {})]
)
def test_an_original_is_said_to_be_one_and_the_signer_is_not_told_twice(way, signed, rest):
    file, pins, profile = way
    found = tree(file, *pins, profile=profile, link=LINK)
    assert ended(found) == [
        {"code": "media.original", "outcome": "match", "severity": "info", "basis": "dated_baseline", "observed": HOSTS,
         "params": {"profile": profile, "signed": signed}, **rest}
    ]  # fmt: skip
    assert [f.code for f in found.findings] == ["media.original"]
    assert found.settled


def test_without_the_hash_over_the_content_nothing_is_an_original():
    found = tree(facts(PINNED, integrity=NOT_READ), pin(PINNED), link=LINK)
    assert [f.code for f in found.findings] == ["media.not_checked"]
    assert not found.settled


@pytest.mark.parametrize(
    ("link", "codes"),
    [
        (Link("unclear", hosts=LINK.hosts), []),
        (Link("fails", odd=("usage",), hosts=LINK.hosts), ["media.task_inconsistent"]),
        (Link("fails", restored=True, hosts=LINK.hosts), ["media.restored_by_relay"]),
        (Link("fails", wrapped=("task_id",), hosts=LINK.hosts), ["media.restored_by_relay"]),
        (
            Link("fails", odd=("usage",), restored=True, hosts=LINK.hosts),
            ["media.task_inconsistent", "media.restored_by_relay"],
        ),
    ],
)
def test_what_the_fourth_step_comes_to(link, codes):
    for file, pins, profile in (SIGNED, UNSIGNED):
        found = tree(file, *pins, profile=profile, link=link)
        assert [one["code"] for one in ended(found)] == codes
        assert len(found.findings) == len(codes) + 1, "signer or missing credentials are told beside"
        assert found.steps[3].why == link.why


@pytest.mark.parametrize(
    ("restored", "hosts", "weight"),
    [(True, ("a.example", "b.example"), ("mismatch", "low")), (False, (), ("mismatch", "info"))],
)
def test_a_film_from_another_address_and_one_in_the_relays_numbers(restored, hosts, weight):
    link = Link("fails", restored=restored, wrapped=("task_id", "relay_route"), hosts=hosts)
    assert ended(tree(facts(PINNED), pin(PINNED), link=link)) == [
        {"code": "media.restored_by_relay", "outcome": weight[0], "severity": weight[1], "basis": "known_list",
         "observed": {"untrusted_hosts": list(hosts), **FILE},
         "params": {"profile": "seedance", "wrapped": ["task_id", "relay_route"], "untrusted_host": hosts[-1] if hosts else ""}}
    ]  # fmt: skip


def test_what_check_four_says_already_is_not_said_again():
    odd = Link("fails", odd=("usage", "length"), told_elsewhere=("length",), hosts=LINK.hosts)
    assert ended(tree(facts(PINNED), pin(PINNED), link=odd)) == [
        {"code": "media.task_inconsistent", "outcome": "mismatch", "severity": "low", "observed": HOSTS,
         "params": {"profile": "seedance", "what": ["usage"]}}
    ]  # fmt: skip
    whole = Link("fails", odd=("length",), told_elsewhere=("length",), hosts=LINK.hosts)
    assert ended(tree(facts(PINNED), pin(PINNED), link=whole)) == []


def test_a_walk_that_ended_before_it_says_nothing_of_the_link():
    odd = Link("fails", odd=("usage",), restored=True, wrapped=("task_id",), hosts=LINK.hosts)
    assert ended(tree(facts(), pin(PINNED), link=odd)) == []


@pytest.mark.parametrize(("profile", "shown"), [("", "no_profile"), ("mine", "mine")])
def test_whose_film_it_was_to_be(profile, shown):
    odd = Link("fails", odd=("usage",))
    assert ended(tree(facts(), profile=profile, link=odd))[0]["params"]["profile"] == shown
    pinned = tree(facts(PINNED), pin(PINNED), profile="", link=odd)
    assert ended(pinned)[0]["params"]["profile"] == "seedance", "as it was recognised, where nobody said"


# How old knowledge may be


def test_an_original_says_for_a_year_how_originals_are_encoded():
    for days, stale in ((365, False), (366, True)):
        old = pin(PINNED, pinned=TODAY - dt.timedelta(days=days))
        assert judge_marks(facts(encoder=OTHER_STREAM), KNOWLEDGE, (old,), "seedance", TODAY) == Compared(
            "differs_from_original", "seedance", "re_encoded", ("encoder_settings",), None, "dated_baseline", stale
        )
    pins = (pin(PINNED, pinned=TODAY - dt.timedelta(days=900)), pin(PINNED))
    assert not judge_marks(facts(encoder=OTHER_STREAM), KNOWLEDGE, pins, "seedance", TODAY).stale, "one is young enough"


SEEDANCE = next(row for row in KNOWLEDGE.media_profiles if row.name == "seedance")
TERM = dt.timedelta(days=SEEDANCE.term_days)


@pytest.mark.parametrize(
    ("today", "expected"),
    [
        (SEEDANCE.observed + TERM, {"stale": False}),
        (SEEDANCE.observed + TERM + dt.timedelta(days=1), {"stale": True}),
        (SEEDANCE.observed + 2 * TERM, {"stale": True}),
        (SEEDANCE.observed + 2 * TERM + dt.timedelta(days=1), None),
    ],
)
def test_a_row_of_the_list_grows_old_with_its_term(today, expected):
    label = {"profile": "seedance", "expected": "absent", "found": "present", "untrusted_producers": [WAN.producer]}
    whole = Compared("differs_from_original", "seedance", label=label, label_basis="known_list", **(expected or {}))
    gone = Compared("not_compared", "seedance")
    assert judge_marks(facts(labels=(WAN,)), KNOWLEDGE, (), "seedance", today) == (whole if expected else gone)


def marks(file: MediaFacts, *pins: Pin, profile: str = "seedance") -> Compared:
    return judge_marks(file, KNOWLEDGE, pins, profile, TODAY)


def other(**fields: Any) -> Encoder:
    return ENCODER.model_copy(update=fields)


PICTURE = Encoder(library="", settings="", codecs=(), application="GIMP", brands="avif")


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        (lambda: marks(facts(labels=(WAN,)), pin(PINNED), profile=""), Compared("not_compared")),
        (lambda: marks(facts(PINNED), pin(PINNED, profile="wan")), Compared("not_compared", "seedance")),
        (lambda: marks(facts(PINNED), pin(PINNED)), Compared("same_as_original", "seedance")),
        (lambda: marks(facts(), pin(encoder=PICTURE)), Compared("not_compared", "seedance")),
        (lambda: marks(facts(encoder=PICTURE), pin(encoder=ENCODER)), Compared("not_compared", "seedance")),
        (lambda: marks(facts(encoder=PICTURE), pin(encoder=PICTURE)), Compared("not_compared", "seedance")),
        (lambda: marks(facts(kind="other", labels=(WAN,))), Compared("not_compared", "seedance")),
        (lambda: marks(facts(labels=(WAN,)), profile="openai"), Compared("not_compared", "openai")),
        (lambda: marks(facts(labels=(WAN,)), profile="nobody"), Compared("not_compared", "nobody")),
        # of several originals the nearest counts
        (lambda: marks(facts(), pin(encoder=OTHER_STREAM), pin(encoder=OTHER_WRITER), pin()), Compared("same_as_original", "seedance")),
        (
            lambda: marks(facts(), pin(encoder=OTHER_STREAM), pin(encoder=OTHER_WRITER)),
            Compared("differs_from_original", "seedance", "remuxed", ("writing_application", "box_tree"), None, "dated_baseline"),
        ),
        # user data is read from MP4 only, and only where the original was walked
        (lambda: marks(facts(kind="matroska"), pin(encoder=other(seis=("u",)))), Compared("same_as_original", "seedance")),
        (
            lambda: marks(facts(encoder=other(brands="")), pin(encoder=other(seis=("u",), brands=""))),
            Compared("same_as_original", "seedance"),
        ),
        # other brands are another container; other tracks or boxes alone are none
        (
            lambda: marks(facts(encoder=other(brands="mp42:")), pin()),
            Compared("differs_from_original", "seedance", "remuxed", ("file_brands",), None, "dated_baseline"),
        ),
        (lambda: marks(facts(encoder=other(handlers=("soun|S",), tree="t9")), pin()), Compared("same_as_original", "seedance")),
        # an original without a signature is not missed
        (lambda: marks(facts(signer_state="unreadable"), pin(PINNED)), Compared("same_as_original", "seedance")),
        # one of the pinned labels is enough
        (lambda: marks(facts(labels=(WAN,)), pin(label="me"), pin(label=WAN.producer)), Compared("same_as_original", "seedance")),
        (lambda: marks(facts(labels=(Label(carrier="xmp"),)), pin(label="-")), Compared("same_as_original", "seedance")),
    ],
)  # fmt: skip
def test_what_a_file_is_compared_with(compare, expected):
    found = compare()
    if expected.state == "not_compared" or (expected.state == "same_as_original"):
        assert (found.state, found.profile, found.kind, found.differs, found.label) == (
            expected.state, expected.profile, "", (), None,
        )  # fmt: skip
    else:
        assert found == expected


def test_user_data_of_the_list_speaks_only_of_films_and_only_without_a_pin():
    row = next(r for r in KNOWLEDGE.media_profiles if r.id == "kling.2026-09")
    encoder = ENCODER.model_copy(update={"seis": ("other", f"{row.sei[0]} kling-ai")})
    label = (Label(carrier="mdta", producer="kling"),)
    for file, pins, state in (
        (facts(encoder=encoder, labels=label), (), "same_as_original"),
        (facts(encoder=ENCODER, labels=label), (), "not_compared"),
        (facts(kind="matroska", encoder=encoder, labels=label), (), "not_compared"),
        (facts(encoder=encoder, labels=label), (pin(profile="kling", label="kling", encoder=Encoder(codecs=("avc1",))),), "not_compared"),
    ):  # fmt: skip
        assert judge_marks(file, KNOWLEDGE, pins, "kling", TODAY).state == state


# Whose key


def signed_by(file: MediaFacts, *pins: Pin, profile: str = "seedance", today: dt.date = TODAY) -> Tier:
    return judge_signer(file, KNOWLEDGE, pins, profile, today)


def tier(name: Any, mark: str = "2", **more: Any) -> Tier:
    return Tier(name, **{"leaf": mark * 64, "key": mark * 64, "subject": BYTEPLUS, **more})


BY_PIN = {"profile": "seedance", "known_by": "own_pin"}
UNLINKED = facts(leaf("2"))
UNLINKED = UNLINKED.model_copy(update={"signer": UNLINKED.signer.model_copy(update={"linked": False})})
OTHER_ID = leaf("2").model_copy(update={"organisation_id": "another"})


@pytest.mark.parametrize(
    ("recognise", "expected"),
    [
        (lambda: signed_by(facts(signer_state="absent")), Tier("absent")),
        (lambda: signed_by(facts(signer_state="not_checked")), Tier("unreadable")),
        (lambda: signed_by(facts(PINNED), pin(PINNED)), tier("pinned", "1", confidence="decisive", **BY_PIN)),
        (lambda: signed_by(facts(PINNED, serial="8"), pin(PINNED)), Tier("unreadable")),
        (lambda: signed_by(facts(PINNED, serial="8", integrity=NOT_READ), pin(PINNED)).name, "pinned"),
        (lambda: signed_by(facts(leaf("2", key="1")), pin(PINNED)), tier("same_key", key="1" * 64, **BY_PIN)),
        (lambda: signed_by(facts(leaf("2")), pin(PINNED)), tier("same_authority", **BY_PIN)),
        (lambda: signed_by(UNLINKED, pin(PINNED)), tier("another_key", **BY_PIN)),
        (lambda: signed_by(facts(OTHER_ID), pin(PINNED)), tier("another_key", **BY_PIN)),
        (lambda: signed_by(facts(leaf("2"), issuing="d"), pin(PINNED)), tier("another_key", **BY_PIN)),
        (lambda: signed_by(facts(leaf("2", organisation=BYTEPLUS.upper()), issuing="d"), pin(PINNED)),
         tier("another_key", subject=BYTEPLUS.upper(), **BY_PIN)),
        (lambda: signed_by(facts(leaf("2"), issuing="d", public_root=True), pin(PINNED)), tier("known_name", profile="seedance")),
        (lambda: signed_by(facts(leaf("2"), issuing="d")), tier("known_name", profile="seedance")),
        (lambda: signed_by(facts(leaf("2", organisation=BYTEPLUS.upper()), issuing="d"), profile=""),
         tier("known_name", profile="seedance", subject=BYTEPLUS.upper())),
        (lambda: signed_by(facts(leaf("2"), issuing="d"), profile="wan"), tier("other_signer")),
        (lambda: signed_by(facts(leaf("1")), pin(PINNED, profile="wan")), tier("other_vendor", "1", profile="wan", known_by="own_pin")),
        (lambda: signed_by(facts(leaf("2", key="1")), pin(PINNED, profile="wan")),
         tier("other_vendor", key="1" * 64, profile="wan", known_by="own_pin")),
        (lambda: signed_by(facts(leaf("2"), issuing="d"), pin(PINNED, profile="mine"), profile="mine"),
         tier("another_key", profile="mine", known_by="own_pin")),
        (lambda: signed_by(facts(leaf("2", organisation="")), pin(PINNED)), tier("other_signer", subject="O=")),
    ],
)  # fmt: skip
def test_the_strongest_tier_that_fits(recognise, expected):
    assert recognise() == expected


def test_a_row_of_another_vendor_is_told_by_its_name():
    row = known_signer("google")
    one = leaf("0", organisation="G").model_copy(update={"sha256": row.leaf_sha256})
    assert signed_by(facts(one)) == Tier("other_vendor", "google", "known_list", row.leaf_sha256, "0" * 64, "G")
    later = row.observed + dt.timedelta(days=row.term_days)
    for today, confidence in ((later, "decisive"), (later + dt.timedelta(days=1), "strong")):
        assert signed_by(facts(one), profile="google", today=today) == Tier(
            "pinned", "google", "known_list", row.leaf_sha256, "0" * 64, "G", confidence
        )
    key = leaf("0", organisation="G").model_copy(update={"spki_sha256": row.leaf_spki_sha256})
    for today, confidence in ((later, "strong"), (later + dt.timedelta(days=1), "supporting")):
        assert signed_by(facts(key), profile="google", today=today) == Tier(
            "same_key", "google", "known_list", "0" * 64, row.leaf_spki_sha256, "G", confidence
        )


@pytest.mark.parametrize("row", [row for row in KNOWLEDGE.signers if row.issuing_key], ids=lambda row: row.id)
def test_a_renewal_by_the_authority_of_the_list_is_told_as_such(row):
    one = leaf("2", organisation=row.organisation).model_copy(update={"organisation_id": row.organisation_id})
    file = facts(one)
    above = file.signer.chain[1].model_copy(update={"spki_sha256": row.issuing_key})
    signed = file.model_copy(update={"signer": file.signer.model_copy(update={"chain": (one, above)})})
    found = signed_by(signed, profile="")
    assert (found.name, found.profile, found.known_by) == ("same_authority", row.vendor, "known_list")


def test_a_name_of_the_list_on_another_key_is_held_against_nobody_once_the_list_is_stale():
    row = known_signer("google")
    start, end = row.not_before + dt.timedelta(days=1), row.not_after - dt.timedelta(days=1)
    one = leaf("2", organisation=row.organisation).model_copy(update={"not_before": start, "not_after": end})
    later = row.observed + dt.timedelta(days=row.term_days)
    for today, name in ((later, "another_key"), (later + dt.timedelta(days=1), "known_name")):
        found = signed_by(facts(one, issuing="d"), profile="google", today=today)
        assert (found.name, found.profile, found.known_by) == (name, "google", "known_list")
    gone = later + dt.timedelta(days=row.term_days + 1)
    assert signed_by(facts(one, issuing="d"), profile="google", today=gone) == tier(
        "known_name", profile="google", subject=row.organisation
    )


@pytest.mark.parametrize(
    ("start", "end", "signed_at", "name"),
    [
        ("2026-06-01", "2027-06-01", None, "another_key"),
        ("2026-05-31", "2027-06-01", None, "known_name"),
        ("2026-06-01", "2030-06-01", None, "another_key"),  # it cannot have signed after today
        ("2020-06-01", "2030-06-01", "2026-06-01", "another_key"),
        ("2020-06-01", "2030-06-01", "2027-06-01", "another_key"),
        ("2020-06-01", "2030-06-01", "2026-05-31", "known_name"),
        ("2020-06-01", "2030-06-01", "2027-06-02", "known_name"),
    ],
)
def test_a_renewal_is_ruled_out_only_while_the_known_certificate_was_valid(start, end, signed_at, name):
    file = facts(leaf("2", start=start, end=end), issuing="d")
    if signed_at:
        file = file.model_copy(update={"integrity": file.integrity.model_copy(update={"signed_at": day(signed_at)})})
    assert signed_by(file, pin(PINNED)).name == name


def test_the_day_on_which_it_is_judged_counts_to_its_end():
    last = dt.date(2027, 6, 1)
    file = facts(leaf("2", end="2030-06-01"), issuing="d")
    held = pin(leaf("1", end="2027-06-02"))
    assert signed_by(file, held, today=last).name == "another_key"
    assert signed_by(file, held, today=last + dt.timedelta(days=1)).name == "known_name"


def test_an_authority_of_the_list_is_known_by_its_key_or_its_name():
    known = KNOWLEDGE.authorities[0].keys[0]
    file = facts(leaf("2"), issuing="d")
    above = file.signer.chain[1].model_copy(update={"spki_sha256": known})
    for linked, name in ((True, "known_name"), (False, "another_key")):
        signer = file.signer.model_copy(update={"chain": (file.signer.leaf, above), "linked": linked})
        assert signed_by(file.model_copy(update={"signer": signer}), pin(PINNED)).name == name
    leafs = file.signer.leaf.model_copy(update={"spki_sha256": known})
    signer = file.signer.model_copy(update={"chain": (leafs, file.signer.chain[1])})
    assert signed_by(file.model_copy(update={"signer": signer}), pin(PINNED)).name == "another_key", (
        "its own key is none"
    )


@pytest.mark.parametrize(
    ("name", "state"),
    [("pinned", "holds"), ("same_key", "holds"), ("absent", "absent"), ("test_certificate", "fails"), ("another_key", "fails"),
     ("same_authority", "unclear"), ("known_name", "unclear"), ("other_vendor", "unclear"), ("other_signer", "unclear"),
     ("unreadable", "unclear")],
)  # fmt: skip
def test_what_a_tier_comes_to(name, state):
    assert Tier(name).state == state
