"""Checks 4 and 5 inside a run, from films made by hand: which ones are judged, what is said of each, and where it stands."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.film_parameters import asks_for_a_shape, assess_film_parameters
from relay_audit.assess.media import assess_media, is_another, named_by, profile_of, row_of
from relay_audit.catalog import load_packs
from relay_audit.evidence import Evidence
from relay_audit.media_facts import MediaFacts, MediaReading
from relay_audit.video import TaskSpec, VideoOrder
from tests.assess.evidence_builders import KNOWLEDGE, START, answered, at, plan_of, run_of, said, step_named
from tests.assess.test_provenance import PINNED, facts, pin

ARK = load_packs().pack("ark_video")
SEEDANCE = next(row for row in KNOWLEDGE.media_profiles if row.name == "seedance")
HOST = "ark-acg-cn-beijing.tos-cn-beijing.volces.com"
NUMBER = "cgt-20261130200010-ab1cd"
MODEL = "seedance-2.0"
ROUTE = TaskSpec(
    route="tasks", poll="/v1/video/{id}", task_id=("/id",), status=("/status",), waiting=("queued",), done=("succeeded",),
    failed=("failed",), tokens=("/usage",), seconds=("/duration",), created=("/created",), upstream_model=("/upstream",),
)  # fmt: skip
TOKENS = 108_900
KNOWN = KNOWLEDGE.model_copy(update={"pins": (pin(PINNED),)})
SHOWN = {"width": 1280, "height": 720, "seconds": 5.04}
UNSET: Any = object()


def film(**more: Any) -> MediaFacts:
    return facts(PINNED, **{**SHOWN, **more})


def reading(name: str = "film", number: int = 3, file: MediaFacts | None = UNSET, **more: Any) -> MediaReading:
    came = film() if file is UNSET else file
    base = {"at": at(90), "step": name, "exchange": f"X{number:04}", "hosts": (HOST,), "route": "link", "file": came}
    return MediaReading(**{**base, **more})


def run(
    *media: MediaReading,
    last: dict[str, Any] | None = None,
    names: tuple[str, ...] = ("film",),
    checks: tuple[int, ...] = (5,),
    model: str = MODEL,
    resolution: str = "720p",
    body: Any = None,
    **target: Any,
) -> Evidence:
    """One order per name at 1, 11, 21 … s, and the last answer about its task."""
    steps, sent = [step_named("before")], []
    for place, name in enumerate(names):
        order = VideoOrder(resolution=resolution, seconds=5, task=ROUTE)
        asked = {} if body is None else {"body": body}
        steps.append(step_named(name).model_copy(update={"order": order, **asked}))
        sent.append(answered(10 * place + 1, name, {"id": NUMBER}, moment=at(10 * place + 1)))
        told = {"id": NUMBER, "status": "succeeded", "usage": TOKENS, **(last or {})}
        sent.append(answered(10 * place + 2, f"task.{name}", told, moment=at(60)))
    whole = run_of(sent, steps, model=model, media=media, plan=plan_of(steps, checks=checks))
    facts = whole.target.model_copy(update={"official_model": MODEL, **target})
    return whole.model_copy(update={"pack": ARK, "target": facts})


def judged(*media: MediaReading, knowledge=KNOWN, **more: Any) -> list[dict[str, Any]]:
    found = [said(one) for one in assess_media(run(*media, **more), knowledge)]
    assert all(one.pop("check") == 5 for one in found)
    return found


SEEN = ("X0001", "X0002", "X0003")
FILE = {"libraries": {"c2pa-rs": "0.91.3"}, "file_sha256": "f" * 64, "tier": "720p_5s"}
ORIGINAL = {
    "code": "media.original", "outcome": "match", "severity": "info", "confidence": "decisive", "basis": "dated_baseline",
    "exchanges": SEEN, "params": {"profile": "seedance", "signed": "by_the_vendor"}, "observed": {"untrusted_hosts": [HOST], **FILE},
}  # fmt: skip


def test_an_original_stands_where_it_was_ordered_asked_after_and_fetched():
    assert judged(reading()) == [ORIGINAL]


def test_a_film_that_did_not_come_says_why_and_the_next_is_judged_all_the_same():
    lost = {"code": "media.unreadable", "outcome": "inconclusive", "severity": "info", "params": {"reason": "not_delivered"},
            "observed": {"why": "link_refused"}}  # fmt: skip
    missing = reading("other", 13, None, failure="link_refused")
    assert judged(missing, reading(), names=("other", "film")) == [
        {**lost, "exchanges": ("X0013",)},
        {**ORIGINAL, "exchanges": ("X0011", "X0012", "X0003")},
    ]
    never_asked = reading("other", file=None, exchange="", failure="link_refused")
    assert judged(never_asked, names=("other",)) == [lost]


def test_an_order_without_a_reading_is_passed_over():
    assert judged(reading(), names=("waiting", "film"))[0]["exchanges"] == ("X0011", "X0012", "X0003")
    assert judged() == []
    assert assess_media(run(reading()).model_copy(update={"plan": None}), KNOWN) == []


def test_without_a_pin_nothing_is_called_an_original():
    assert [one["code"] for one in judged(reading(), knowledge=KNOWLEDGE)] == ["media.signer_unknown"]


def test_what_film_and_order_contradict_is_said_by_one_check_only():
    smaller = reading(file=film(width=864, height=496))
    assert [one["code"] for one in judged(smaller)] == ["media.signer_matches", "media.task_inconsistent"]
    assert judged(smaller)[1]["params"] == {"profile": "seedance", "what": ["picture_size"]}
    assert [one["code"] for one in judged(smaller, checks=(4, 5))] == ["media.signer_matches"]
    shorter = judged(smaller, checks=(4, 5), last={"duration": 3})
    assert shorter[1]["params"]["what"] == ["length"], "the task's own word is no parameter of the film"


@pytest.mark.parametrize(
    ("signed", "kept"),
    [
        ("", True),
        ("doubao-seedance-2-0", True),
        ("seedance-2-0-fast", False),
        ("wan2.7-t2v", False),
        ("anything", True),
    ],
)
def test_what_the_claim_names_is_held_against_the_order(signed, kept):
    signer = film().signer.model_copy(update={"model": signed})
    found = judged(reading(file=film(signer=signer)))
    if kept:
        assert found == [ORIGINAL]
    else:
        assert [one["code"] for one in found] == ["media.signer_matches", "media.task_inconsistent"]
        assert found[1]["params"]["what"] == ["signed_model"]
        assert found[1]["exchanges"] == SEEN
        also = judged(reading(file=film(signer=signer)), last={"usage": 7})
        assert also[1]["params"]["what"] == ["usage", "signed_model"]


def test_a_seller_s_own_name_is_not_what_a_claim_is_held_against():
    signer = film().signer.model_copy(update={"model": "seedance-2-0-fast"})
    own = {"model": "seedance-2-0-fast", "official_model": ""}
    assert judged(reading(file=film(signer=signer)), **own, media_profile="seedance") == [ORIGINAL]


@pytest.mark.parametrize(
    ("upstream", "told"),
    [
        ("seedance-2.0", False), ("doubao-seedance-2-0-260128", False), ("whatever", False), ("", False),
        ("wan3.0-video", True), ("seedance-2.0-fast", True), ("doubao-seedance-2-0-lite-260128", True),
    ],
)  # fmt: skip
def test_the_relays_own_record_of_the_task_names_the_model(upstream, told):
    expected = {
        "code": "model.relay_log_admits_mapping", "check": 5, "outcome": "mismatch", "severity": "critical", "confidence": "decisive",
        "basis": "relay_word", "params": {"requested": MODEL, "untrusted_upstream": upstream, "n": 1}, "exchanges": SEEN[:2],
    }  # fmt: skip
    found = [said(one) for one in assess_media(run(last={"upstream": upstream}), KNOWN)]
    assert found == ([expected] if told else [])


def test_what_no_order_answered_admits_nothing():
    whole = run(last={"upstream": "wan3.0-video"})
    assert assess_media(whole.model_copy(update={"exchanges": whole.exchanges[1:]}), KNOWN) == []


# What a film should be


@pytest.mark.parametrize(
    ("named", "model", "dialect", "profile"),
    [
        ("mine", MODEL, "ark_video", "mine"),
        ("", MODEL, "ark_video", "seedance"),
        ("", "wan3.0-video", "ark_video", "wan"),
        ("", "house-blend", "ark_video", "seedance"),
        ("", MODEL, "anthropic", ""),
        ("mine", MODEL, "anthropic", "mine"),
    ],
)
def test_the_target_the_name_and_then_the_dialect_say_what_a_film_should_be(named, model, dialect, profile):
    whole = run(official_model=model, media_profile=named)
    assert profile_of(whole.model_copy(update={"pack": load_packs().pack(dialect)}), KNOWLEDGE) == profile


@pytest.mark.parametrize(
    ("asked", "named", "another"),
    [
        (MODEL, "wan3.0-video", True), (MODEL, "DOUBAO-SEEDANCE-2-0", False), (MODEL, "Seedance-2.0-FAST", True),
        ("seedance-2.0-fast", "doubao-seedance-2-0-fast", False), ("Seedance-2.0-Fast", "seedance-2.0-fast", False),
        ("seedance-2.0-fast", "seedance-2.0", False),
        (MODEL, "breakfast", False), (MODEL, "house-mini", False), ("house", "house-mini", True), ("house", "distilled", True),
        ("house", "seedance-2.0", False), ("MiniMax-H3", "minimax-h3", False),
    ],
)  # fmt: skip
def test_another_vendors_model_or_a_cheaper_sibling(asked, named, another):
    assert is_another(asked, named, KNOWLEDGE) is another


def test_a_name_is_read_in_either_writing():
    assert named_by("WAN3.0-Video", KNOWLEDGE) == named_by("vendor/wan3.0-video", KNOWLEDGE) == "wan"
    assert named_by("", KNOWLEDGE) == ""


def test_a_row_serves_until_twice_its_term_has_passed():
    day, term = SEEDANCE.observed, SEEDANCE.term_days
    assert row_of("seedance", KNOWLEDGE, day + timedelta(days=2 * term)) == SEEDANCE
    assert row_of("seedance", KNOWLEDGE, day + timedelta(days=2 * term + 1)) is None
    assert row_of("nobody", KNOWLEDGE, day) is None


# Check 4


def compared(*media: MediaReading, knowledge=KNOWLEDGE, **more: Any) -> list[dict[str, Any]]:
    found = [said(one) for one in assess_film_parameters(run(*media, **more), knowledge)]
    assert all(one.pop("check") == 4 for one in found)
    return found


RATIO = {"prompt": "a cat", "parameters": [{"size": "16:9"}]}
FETCHED = ("X0001", "X0003")
PRICED = KNOWLEDGE.video_price_of(MODEL, START.date())


def clamped(severity: str, cases: list[str], n: int, of: int, told: dict[str, str]) -> dict[str, Any]:
    fields = sorted(case.removeprefix("film_") for case in cases)
    return {"code": "params.clamped", "outcome": "mismatch", "severity": severity, "confidence": "strong", "exchanges": FETCHED,
            "params": {"cases": cases, "n": n, "of": of, "fields": fields}, "observed": told}  # fmt: skip


def test_what_was_ordered_came():
    assert compared(reading(), body=RATIO) == [
        {"code": "params.matches", "outcome": "match", "severity": "info", "params": {"n": 3, "of": 3, "share_bound": "95"},
         "exchanges": FETCHED}
    ]  # fmt: skip
    two = compared(reading(), reading("other", 13), names=("film", "other"))
    assert (two[0]["params"], two[0]["exchanges"]) == (
        {"n": 4, "of": 4, "share_bound": "95"},
        ("X0001", "X0003", "X0011", "X0013"),
    )


@pytest.mark.parametrize(
    ("file", "cases"),
    [
        ({"width": 648, "height": 1152}, []),  # 0.9 of the short side, and standing
        ({"width": 1152, "height": 647}, ["film_resolution"]),
        ({"seconds": 4.0}, []),
        ({"seconds": 3.99}, ["film_length"]),
        ({"seconds": 0.0}, []),
        ({"width": 0}, []),
        ({"height": 0}, []),
        ({"width": 0, "seconds": 2}, ["film_length"]),
    ],
)
def test_how_much_may_be_missing(file, cases):
    found = compared(reading(file=film(**file)))
    assert [case for one in found for case in one["params"].get("cases", ())] == cases


@pytest.mark.parametrize(
    ("width", "height", "shaped"), [(1407, 720, True), (1409, 720, False), (1152, 720, True), (1151, 720, False)]
)
def test_a_tenth_of_the_ratio_is_rounding(width, height, shaped):
    came = f"{width} × {height}"
    expected = clamped("low", ["film_shape"], 1, 3, {"720p_5s film_shape": came})
    found = compared(reading(file=film(width=width, height=height)), body=RATIO)
    assert (found == [expected]) is not shaped
    assert compared(reading(file=film(width=width, height=height)))[0]["code"] == "params.matches", (
        "no shape was asked for"
    )


def test_a_smaller_and_shorter_film_weighs_by_what_the_vendor_is_known_to_sell():
    assert PRICED is not None
    assert "720p" in PRICED.per_second
    short = reading(file=film(width=640, height=640, seconds=2.5))
    told = {"720p_5s film_resolution": "640 × 640", "720p_5s film_length": "2.5 s"}
    shape = clamped("low", ["film_shape"], 1, 3, {"720p_5s film_shape": "640 × 640"})
    assert compared(short, body=RATIO) == [clamped("medium", ["film_resolution", "film_length"], 2, 3, told), shape]
    everything = ["film_resolution", "film_shape", "film_length"]
    low = clamped("low", everything, 3, 3, {**told, **shape["observed"]})
    assert compared(short, body=RATIO, official_model="seedance-9") == [low]
    listed = PRICED.model_copy(update={"per_second": {"480p": Decimal(1)}})
    other = KNOWLEDGE.model_copy(update={"video_prices": (listed,)})
    assert compared(short, body=RATIO, knowledge=other) == [low], "at this resolution it is not on the list"


def test_one_case_of_two_films_is_named_once():
    films = (reading(file=film(seconds=2)), reading("other", 13, film(seconds=3)))
    one = compared(*films, names=("film", "other"))[0]
    assert one["params"] == {"cases": ["film_length"], "n": 2, "of": 4, "fields": ["length"]}
    assert one["exchanges"] == ("X0001", "X0003", "X0011", "X0013")


@pytest.mark.parametrize("media", [reading("elsewhere"), reading("before"), reading(file=None)])
def test_of_what_was_not_ordered_or_did_not_come_nothing_is_said(media):
    assert compared(media) == []
    assert compared(media, reading())[0]["params"] == {"n": 2, "of": 2, "share_bound": "95"}
    assert assess_film_parameters(run(reading()).model_copy(update={"plan": None}), KNOWLEDGE) == []


def test_a_film_whose_order_is_on_no_record_is_compared_all_the_same():
    whole = run(reading(exchange=""))
    found = assess_film_parameters(whole.model_copy(update={"exchanges": ()}), KNOWLEDGE)
    assert [(one.code, one.exchanges) for one in found] == [("params.matches", ())]


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        ({"size": "1280x720"}, True), ({"a": {"b": ["x", "1280*720"]}}, True), ("16:9", True), (["16:9"], True),
        ({"prompt": "in 16:9"}, False), ({"16:9": "x"}, False), ("99x720", False), ("12800x720", False), ([], False), (None, False),
        ({"seconds": 5}, False), (16.9, False),
    ],
)  # fmt: skip
def test_whether_an_order_asks_for_a_shape(body, asks):
    assert asks_for_a_shape(body) is asks
