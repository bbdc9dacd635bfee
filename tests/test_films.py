"""Ordering, waiting and fetching: one order per tier whatever happens, ids before questions, no key to a store."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from relay_audit import acquisition, audit, kept_file
from relay_audit.assess.film_parameters import assess_film_parameters
from relay_audit.assess.media import assess_media, row_of
from relay_audit.catalog import load_knowledge
from relay_audit.cli.main import main
from relay_audit.errors import ApprovalRefused, TargetError, Unfinished
from relay_audit.lab.server import serve_world
from relay_audit.lab.video_scenarios import VIDEO_SCENARIOS
from relay_audit.lab.video_world import VideoWorld
from relay_audit.library import OWN_PINS
from relay_audit.media.pins import write_pins
from relay_audit.words import canonical
from tests.video_audits import Films, above_info, codes, video_run


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Films:
    return Films(Path(tmp_path_factory.mktemp("films")))


def started(name, tmp_path, films, **ways):
    run = video_run(name, tmp_path, films, **ways)
    run.plan()
    run.approve()
    return run


class Killed(BaseException):
    """What a process that is gone does not catch."""


def of(method: str, part: str):
    return lambda m, path: m == method and part in path


# One order


@pytest.mark.parametrize("polls_before", [0, 1, 2])
def test_a_process_that_dies_while_it_waits_orders_nothing_again(polls_before, tmp_path, films):
    run = started("film_original", tmp_path, films)
    asked = []

    def die(method, path):
        if method == "GET" and "/v1/video/generations/" in path:
            asked.append(path)
            return Killed() if len(asked) > polls_before else None
        return None

    run.replace = die
    with pytest.raises(Killed):
        run.execute()
    run.again()
    assert run.recorder.history.status == "waiting_task"
    task = acquisition.read_task(run.recorder.history.plan.steps[0].order.task,
                                 run.recorder.history.last_of(run.recorder.history.plan.steps[0].id).answer())  # fmt: skip
    assert task.task_id in asked[-1], "the id was durable before the first question"
    run.replace = None
    run.execute()
    judged = audit.judge(run.recorder.store)
    assert "media.original" in codes(judged)
    assert len(run.world.orders) == 1


def test_a_process_that_dies_in_the_order_leaves_it_unconfirmed_for_ever(tmp_path, films):
    run = started("film_original", tmp_path, films)
    run.replace = lambda method, path: Killed() if method == "POST" else None
    with pytest.raises(Killed):
        run.execute()
    run.again()
    run.replace = None
    run.execute()
    assert run.world.orders == []
    judged = audit.judge(run.recorder.store)
    assert judged.evidence.stopped == "unconfirmed"
    assert "run.unconfirmed_send" in codes(judged)
    assert above_info(judged) == set()


@pytest.mark.parametrize("error", [httpx.ReadTimeout("late"), httpx.ReadError("gone")])
def test_an_order_without_an_answer_is_not_sent_again(error, tmp_path, films):
    run = started("film_three_tiers", tmp_path, films)
    sent = []
    run.replace = lambda method, path: sent.append(path) or error if method == "POST" else None
    run.execute()
    assert len(sent) == 1
    assert audit.judge(run.recorder.store).evidence.stopped == "unconfirmed"
    assert run.recorder.history.ledger.total("unconfirmed") == run.recorder.history.quote.steps[0].at_most


def test_a_task_that_takes_longer_than_one_process_waits(tmp_path, films):
    run = started("film_original", tmp_path, films)
    run.world.relay._knobs = VIDEO_SCENARIOS["film_original"].knobs.__class__(polls=80)
    with pytest.raises(Unfinished) as waiting:
        run.execute()
    assert waiting.value.exit_code == 4
    assert "resume" in waiting.value.next_step
    polls = [a for a in run.world.arrivals if "/v1/video/generations/" in a.path and "task_" not in a.path]
    assert len(polls) < 80
    assert sum(e.step.startswith("task.") for e in run.recorder.history.exchanges.values()) <= 2, "only what is new"
    run.again()
    run.execute()
    assert "media.original" in codes(audit.judge(run.recorder.store))
    assert len(run.world.orders) == 1


def test_questions_that_fail_are_asked_again_and_no_order_is(tmp_path, films):
    run = started("film_original", tmp_path, films)
    seen = []

    def flaky(method, path):
        if method == "GET" and "/v1/video/generations/" in path:
            seen.append(path)
            return httpx.Response(502, content=b"<html>") if len(seen) in (1, 2) else None
        return None

    run.replace = flaky
    run.execute()
    assert "media.original" in codes(audit.judge(run.recorder.store))
    assert len(run.world.orders) == 1


# Tiers


def test_each_tier_has_a_quote_and_an_approval_of_its_own(tmp_path, films):
    run = video_run("film_three_tiers", tmp_path, films)
    quote = run.plan()
    assert [line.id for line in quote.lines] == ["new_api_video/generations.480p_5s@relay"]
    assert [line.id.split(".")[1] for line in quote.later] == ["720p_5s@relay", "1080p_5s@relay"]
    approved = []
    for resolution in ("480p", "720p", "1080p"):
        digest = run.recorder.history.quote.digest
        with pytest.raises(ApprovalRefused):
            run.execute()
        run.approve()
        run.execute()
        approved.append(digest)
        assert json.loads(run.world.orders[-1].body)["metadata"]["resolution"] == resolution
    assert len(set(approved)) == 3
    assert run.recorder.history.status == "completed"
    assert len(run.world.orders) == 3
    table = next(f for f in audit.judge(run.recorder.store).findings if f.code == "billing.tiers_measured")
    assert [row["charged"] for row in table.observed.values() if isinstance(row, dict)] == ["0.3", "0.7", "1.7"]
    ratios = {row["ratio"] for row in table.observed.values() if isinstance(row, dict)}
    assert len(ratios) == 3, "each tier against its own official price"


def test_the_lowest_tier_alone_without_a_word_in_the_target(tmp_path, films):
    run = video_run("film_original", tmp_path, films, video={})
    quote = run.plan()
    assert [line.id for line in quote.lines] == ["new_api_video/generations.480p_5s@relay"]
    assert quote.later == ()


def test_a_dearer_charge_ends_the_climb(tmp_path, films):
    run = started("film_charged_double", tmp_path, films)
    run.execute()
    assert run.recorder.history.status == "completed"
    assert audit.judge(run.recorder.store).evidence.stopped == "charge_differs"
    assert len(run.world.orders) == 1


def test_a_failed_tier_ends_the_climb_and_shows_its_refund(tmp_path, films):
    run = video_run("film_tier_refused", tmp_path, films)
    judged = run.whole()
    hit = next(f for f in judged.findings if f.code == "billing.tier_refused")
    assert (hit.params["charged"], hit.params["refunded"], hit.params["difference"]) == ("2.5", "2.5", "0")
    assert hit.accusation
    assert judged.evidence.stopped == "tier_failed"
    assert "2k 5 s: 2.5 / 2.5 / 0" in str(next(f for f in judged.findings if f.code == "billing.tiers_measured").params)


@pytest.mark.parametrize(
    ("status", "body", "codes_"),
    [
        (503, {"code": "model_not_found", "message": "No available channel"}, set()),
        (429, {"message": "当前分组上游负载已饱和"}, set()),
        (400, {"message": "the prompt was refused by the content filter"}, set()),
        (403, {"message": "预扣费额度失败"}, set()),
        (400, {"message": "resolution 480p is not available in this group"}, {"billing.tier_refused"}),
    ],
)
def test_only_a_refusal_that_speaks_of_the_tier_is_held_against_the_list(status, body, codes_, tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    run.replace = lambda method, path: httpx.Response(status, json=body) if method == "POST" else None
    judged = run.whole()
    assert above_info(judged) == codes_
    assert judged.evidence.stopped


def test_a_refund_is_missing_only_when_its_time_is_over(tmp_path, films):
    """Left in the wait, taken up again by another process: counted from the end of the task, and asked after once."""
    run = started("film_never_refunded", tmp_path, films)
    began, asked = run.clock.now(), []
    real = run.clock.sleep

    async def interrupted(seconds):
        await real(seconds)
        if (run.clock.now() - began).total_seconds() > 900:
            raise Killed

    run.clock.sleep = interrupted
    with pytest.raises(Killed):
        run.execute()
    cut = audit.judge(run.recorder.store)
    hit = next(f for f in cut.findings if f.code == "billing.refund_open")
    assert (above_info(cut), hit.params["reason"]) == (set(), "refund_may_come")
    run.clock.sleep = real
    run.again()
    run.replace = lambda method, path: asked.append((method, path))
    run.execute()
    judged = audit.judge(run.recorder.store)
    missing = next(f for f in judged.findings if f.code == "billing.refund_missing")
    assert (missing.params["charged"], missing.params["refunded"], missing.accusation) == ("0.3", "0", True)
    assert 1800 <= missing.params["waited_s"] < 2000
    assert [m for m, p in asked if m == "POST" or "/generations/" in p] == []


def test_a_refund_in_the_balance_alone_is_not_missing(tmp_path, films):
    run = video_run("film_never_refunded", tmp_path, films)
    till = run.world.relay.till
    till.give_back = lambda quota, *_: till._used.append((run.clock.unix() + 5, -quota))
    judged = run.whole()
    hit = next(f for f in judged.findings if f.code == "billing.refund_open")
    assert hit.params["reason"] == "balance_came_back"
    assert "billing.refund_missing" not in codes(judged)


@pytest.mark.parametrize("answer", [(404, b""), (200, b"<!doctype html><html>this link has expired</html>")])
def test_a_film_that_did_not_arrive_is_owed_no_refund_and_ends_the_climb(answer, tmp_path, films):
    """A page in the place of a film is none, whatever its status."""
    run = video_run("film_three_tiers", tmp_path, films)
    run.replace = lambda _, path: httpx.Response(answer[0], content=answer[1]) if path.startswith("/films/") else None
    judged = run.whole()
    assert [f.params["reason"] for f in judged.findings if f.code == "media.unreadable"] == [
        "not_delivered" if answer[0] == 404 else "no_media"
    ]
    assert (judged.evidence.stopped, len(run.world.orders), above_info(judged)) == ("tier_failed", 1, set())
    assert not {"billing.refund_missing", "billing.refund_open"} & codes(judged)
    assert (run.clock.now() - judged.evidence.started_at).total_seconds() < 300


def test_no_charge_passes_its_tiers_at_most(tmp_path, films):
    for seed in range(3):
        run = video_run("film_three_tiers", tmp_path / str(seed), films, seed=seed)
        run.whole()
        quote, ledger = run.recorder.history.quote, run.recorder.history.ledger
        assert ledger.total("settled") == Decimal("2.7")
        assert ledger.committed <= quote.at_most


def test_an_unknown_tier_is_refused_before_anything_is_sent(tmp_path, films):
    run = video_run("film_original", tmp_path, films, video={"tiers": [{"resolution": "999p", "seconds": 5}]})
    with pytest.raises(TargetError, match="999p"):
        run.plan()
    assert run.world.arrivals == []


# The download


def test_the_store_is_shown_no_key_and_asked_once(tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    run.whole()
    downloads = [a for a in run.world.arrivals if a.side == "elsewhere"]
    assert len(downloads) == 1
    names = {name.lower(): value for name, value in downloads[0].headers}
    assert not {"authorization", "x-api-key", "x-dashscope-async"} & set(names)
    assert names["accept-encoding"] == "identity"
    assert run.world.relay_key not in str(downloads[0])


def test_the_file_is_kept_byte_for_byte(tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    judged = run.whole()
    reading = judged.evidence.media[0]
    kept = run.recorder.store.blob(reading.file.sha256)
    assert kept == films("official", 864, 496, 5)
    assert (reading.file.width, reading.file.height, reading.file.seconds) == (864, 496, 5.0)
    assert reading.hosts == ("ark-acg-cn-beijing.tos-cn-beijing.volces.com",)
    event = next(e for e in run.recorder.store.events() if e.type == "media.kept")
    assert event.payload_ref == reading.file.sha256


def test_judging_again_asks_nobody_and_says_the_same(tmp_path, films):
    run = video_run("film_self_signed", tmp_path, films)
    first = run.whole()
    arrived = len(run.world.arrivals)
    again = audit.judge(run.recorder.store)
    assert canonical([f.model_dump(mode="json") for f in first.findings]) == canonical(
        [f.model_dump(mode="json") for f in again.findings]
    )
    assert len(run.world.arrivals) == arrived


def test_pins_travel_with_the_run(tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    run.whole()
    run.space.pins.unlink()
    assert "media.original" in codes(audit.judge(run.recorder.store))
    assert OWN_PINS in run.recorder.history.files
    assert "media.original" in codes(audit.judge(run.recorder.store, current=True))


def test_without_a_pin_nothing_is_claimed(tmp_path, films):
    for name in ("film_original", "film_self_signed"):
        judged = video_run(name, tmp_path / name, films, pinned=False).whole()
        assert above_info(judged) == set()
        hit = next(f for f in judged.findings if f.code == "media.signer_unknown")
        assert hit.params["next"] == "relay-audit pin FILE --profile seedance"


def test_a_film_that_holds_our_key_is_not_kept(tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    key = run.world.relay_key.encode()
    run.replace = lambda method, path: (
        httpx.Response(200, content=b"x" * 3_000_000 + key) if path.startswith("/films/") else None
    )
    judged = run.whole()
    assert judged.evidence.media[0].failure == "key_echoed"
    assert "run.key_echoed" in codes(judged)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or key not in file.read_bytes(), file


def test_a_film_beyond_the_limit_is_cut_and_not_kept(tmp_path, films, monkeypatch):
    monkeypatch.setattr(acquisition, "FILM", kept_file.Limits(max_body=1000))
    run = video_run("film_original", tmp_path, films)
    judged = run.whole()
    assert judged.evidence.media[0].failure == "too_large"
    assert not list((run.recorder.store.path / "blobs").glob(".new-*"))
    assert above_info(judged) == set()


@pytest.mark.parametrize(
    "place", ["http://169.254.169.254/latest/meta-data", "http://10.0.0.5/film.mp4", "https://films.localhost/f"]
)
def test_a_link_into_somebodys_own_network_is_not_followed(place, tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    run.world.relay.store_url = place
    judged = run.whole()
    assert judged.evidence.media[0].failure == "link_refused"
    assert not [a for a in run.world.arrivals if a.side == "elsewhere"]


def test_a_link_that_carries_our_key_is_not_followed(tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    run.world.relay.store_url = f"https://films.relay.example/{run.world.relay_key}"
    judged = run.whole()
    assert judged.evidence.media[0].failure == "link_refused"


def test_a_link_that_is_sent_on_is_followed_and_its_hosts_are_named(tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    told = []

    def send_on(method, path):
        if path.startswith("/films/") and not told:
            told.append(path)
            return httpx.Response(302, headers={"location": f"https://cdn.relay.example{path}"})
        return None

    run.replace = send_on
    judged = run.whole()
    assert judged.evidence.media[0].hosts == ("ark-acg-cn-beijing.tos-cn-beijing.volces.com", "cdn.relay.example")
    assert "media.restored_by_relay" in above_info(judged)


def test_a_signed_link_survives_redaction_and_its_signature_is_in_no_record(tmp_path, films):
    """A presigned address holds what looks like somebody's key: it is followed, never written down."""
    run = video_run("film_original", tmp_path, films)
    run.world.relay.store_url = "https://bucket.relay.example/AKIAIOSFODNN7EXAMPLQ"
    judged = run.whole()
    assert judged.evidence.media[0].file is not None
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"AKIAIOSFODNN7EXAMPLQ" not in file.read_bytes(), file


# What was ordered, and what came


@pytest.mark.parametrize(
    ("width", "height", "seconds", "cases"),
    [
        (864, 496, 5.04, []), (832, 480, 4.6, []), (854, 480, 0, []), (0, 0, 5, []), (1280, 720, 6, []),
        (496, 864, 5, ["film_shape"]), (640, 640, 5, ["film_shape"]), (640, 360, 5, ["film_resolution"]),
        (864, 496, 2, ["film_length"]), (320, 240, 2, ["film_resolution", "film_length", "film_shape"]),
    ],
)  # fmt: skip
def test_the_file_against_the_order(width, height, seconds, cases, delivered):
    evidence = delivered(width, height, seconds)
    found = assess_film_parameters(evidence, load_knowledge())
    assert sorted(case for one in found for case in one.params.get("cases", ())) == sorted(cases)
    assert {one.code for one in found} == ({"params.clamped"} if cases else {"params.matches"})
    for one in found:
        shape_alone = one.params.get("cases") == ["film_shape"]
        assert one.severity == ("info" if not cases else "low" if shape_alone else "medium")


def test_a_tier_that_the_vendor_is_not_known_to_sell_weighs_less(delivered):
    evidence = delivered(640, 360, 5)
    unknown = evidence.model_copy(
        update={"target": evidence.target.model_copy(update={"official_model": "seedance-9"})}
    )
    assert [one.severity for one in assess_film_parameters(unknown, load_knowledge())] == ["low"]


@pytest.fixture(scope="module")
def delivered(tmp_path_factory, films):
    evidence = video_run("film_original", tmp_path_factory.mktemp("run"), films).whole().evidence

    def of(width: int, height: int, seconds: float):
        file = evidence.media[0].file.model_copy(update={"width": width, "height": height, "seconds": seconds})
        return evidence.model_copy(update={"media": (evidence.media[0].model_copy(update={"file": file}),)})

    return of


@pytest.mark.parametrize(
    ("signed", "original"),
    [("", True), ("doubao-seedance-2-0", True), ("dreamina-seedance-2-0", True), ("doubao-seedance-2-0-fast", False),
     ("wan2.7-t2v", False), ("anything", True)],
)  # fmt: skip
def test_a_claim_that_names_another_model_is_no_original_of_this_one(signed, original, tmp_path, films, delivered):
    """Even under the vendor's own certificate: what it says itself was not what was ordered."""
    evidence = delivered(864, 496, 5)
    file = evidence.media[0].file
    said = file.model_copy(update={"signer": file.signer.model_copy(update={"model": signed})})
    evidence = evidence.model_copy(update={"media": (evidence.media[0].model_copy(update={"file": said}),)})
    knowledge = load_knowledge().model_copy(update={"pins": films.pins(evidence.started_at.date())})
    found = {one.code: one for one in assess_media(evidence, knowledge)}
    assert ("media.original" in found) == original
    assert original or found["media.task_inconsistent"].params["what"] == ["signed_model"]


def test_check_four_is_run_where_a_film_came(tmp_path, films):
    judged = video_run("film_original", tmp_path / "a", films).whole()
    matches = next(f for f in judged.findings if f.code == "params.matches")
    assert (matches.params["n"], matches.params["of"]) == (3, 3)
    assert next(row.state for row in judged.coverage if row.check == 4) == "run"
    run = video_run("film_smaller", tmp_path / "b", films, audit={"checks": [5]})
    judged = run.whole()
    assert "media.task_inconsistent" in codes(judged), "said once: where check 4 is not asked, check 5 says it"
    assert "params.clamped" not in codes(judged)
    failed = video_run("film_failed_and_refunded", tmp_path / "c", films).whole()
    assert next((r.state, r.reason) for r in failed.coverage if r.check == 4) == ("no_information", "not_delivered")


# How strict the buyer is


@pytest.mark.parametrize(
    ("scenario", "need", "verdict"),
    [
        ("film_restored", "", "usable"),
        ("film_restored", "restored_ok", "usable"),
        ("film_restored", "original", "fix_first"),
        ("film_original", "original", "usable"),
        ("film_wrapped", "original", "usable"),
        ("film_stripped", "restored_ok", "fix_first"),
        ("film_self_signed", "", "fix_first"),
        ("film_of_a_lesser_model", "", "do_not_use"),
    ],
)
def test_how_strict_the_verdict_is_says_the_buyer(scenario, need, verdict, tmp_path, films):
    needs = {"needs": {"film": need}} if need else {}
    assert video_run(scenario, tmp_path, films, **needs).whole().verdict.verdict == verdict


# Routes


def test_the_route_is_found_by_asking_after_a_task_that_nobody_has(tmp_path, films):
    for name, route in (
        ("film_native_route", "native"),
        ("film_videos_route", "videos"),
        ("film_original", "generations"),
    ):
        run = video_run(name, tmp_path / name, films)
        run.plan()
        assert {step.order.task.route for step in run.recorder.history.plan.steps} == {route}
        assert run.world.orders == []


def test_a_named_route_is_not_looked_for(tmp_path, films):
    run = video_run("film_original", tmp_path, films, video={"route": "videos"})
    run.plan()
    assert run.recorder.history.plan.steps[0].path == "/v1/videos"
    assert not [a for a in run.world.arrivals if "task_" in a.path]


def test_free_only_orders_nothing(tmp_path, films):
    run = video_run("film_original", tmp_path, films)
    asyncio.run(audit.plan_and_quote(run.recorder, run.connections, run.library, None, offline=False, free_only=True))
    assert run.recorder.history.plan.steps == ()
    assert {row.reason for row in run.recorder.history.plan.coverage if row.check in (5, 6)} == {"free_only"}


# At the command line, over real loopback HTTP


def at_the_terminal(tmp_path, monkeypatch, capsys, films, scenario, *words, tiers=()):
    """One `run` against a served lab; the clock's waits cost nothing since the first question is answered."""
    row = VIDEO_SCENARIOS[scenario]
    knobs = dataclasses.replace(row.knobs, polls=1)
    world = VideoWorld(dataclasses.replace(row, knobs=knobs), films=films)
    for name, value in {"RELAY_AUDIT_HOME": str(tmp_path / "home"), "RELAY_AUDIT_RUNS": str(tmp_path / "runs"),
                        "RELAY_KEY": world.relay_key}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    write_pins(tmp_path / "home" / "config" / "pins.toml", films.pins(dt.datetime.now(dt.UTC).date()))
    with serve_world(world, pace=0) as served:
        target = tmp_path / "target.toml"
        wanted = "".join(f'[[video.tiers]]\nresolution = "{name}"\nseconds = 5\n' for name in tiers)
        target.write_text(f'[target]\nmodel = "{world.model}"\ndialect = "{world.dialect}"\n'
                          f'[relay]\nbase_url = "{served.relay_url}"\n{wanted}', encoding="utf-8")  # fmt: skip
        codes = [called(["run", str(target), "--json", *words], monkeypatch)]
        out = capsys.readouterr().out
        last = (
            json.loads(out.strip().splitlines()[-1])
            if out.count("\n") > 1 and out.startswith('{"')
            else json.loads(out)
        )
        while codes[-1] == 3 and "--max-usd" not in words:
            digest, most = last["quote_digest"], last["money"]["quoted_at_most"]
            assert called(["approve", last["run_id"], "--quote", digest, "--max-usd", most, "--json"], monkeypatch) == 0
            capsys.readouterr()
            codes.append(called(["resume", last["run_id"], "--json"], monkeypatch))
            last = json.loads(capsys.readouterr().out)
    return codes, last, world


def called(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["relay-audit", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_two_tiers_over_http_with_an_approval_each(tmp_path, monkeypatch, capsys, films):
    codes_, last, world = at_the_terminal(tmp_path, monkeypatch, capsys, films, "film_original", tiers=("720p", "480p"))
    assert codes_ == [3, 3, 0]
    assert len(world.orders) == 2
    assert last["status"] == "completed"
    known = row_of("seedance", load_knowledge(), dt.datetime.now(dt.UTC).date()) is not None  # lists of hosts grow old
    found = {f["code"] for f in last["findings"]}
    assert ("media.restored_by_relay" in found) == known, "the store is no host of the vendor here"


def test_an_amount_in_advance_covers_the_tiers_it_has_room_for(tmp_path, monkeypatch, capsys, films):
    codes_, _, world = at_the_terminal(
        tmp_path, monkeypatch, capsys, films, "film_original", "--max-usd", "30", tiers=("480p", "720p")
    )
    assert codes_ == [0]
    assert len(world.orders) == 2


def test_an_amount_that_is_too_small_for_the_next_tier_ends_there(tmp_path, monkeypatch, capsys, films):
    codes_, last, world = at_the_terminal(
        tmp_path, monkeypatch, capsys, films, "film_original", "--max-usd", "2", tiers=("480p", "720p")
    )
    assert codes_ == [3]
    assert len(world.orders) == 1
    assert "approve" in last["approve_cmd"]


def test_a_film_that_was_changed_ends_with_one(tmp_path, monkeypatch, capsys, films):
    codes_, last, _ = at_the_terminal(tmp_path, monkeypatch, capsys, films, "film_changed", "--max-usd", "30")
    assert codes_ == [1]
    assert "media.modified_after_signing" in {f["code"] for f in last["findings"]}
