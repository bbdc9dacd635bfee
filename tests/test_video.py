"""Task answers of every route as values; prices of tiers; the fourth step, which must not find fault with an honest way."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from relay_audit.assess.film_link import judge_link
from relay_audit.assess.media import named_by
from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.errors import ApprovalRefused
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.media_facts import MediaFacts, MediaReading
from relay_audit.question import Question
from relay_audit.quote import UnitPrice
from relay_audit.target import VideoTier
from relay_audit.video import fits, other_ratios, read_task
from relay_audit.video_discovery import is_route
from relay_audit.video_plan import Offer, make_video_plan, next_tier, quote_tiers, routes_for, tiers_wanted, tokens_of
from relay_audit.wording import Wording
from relay_audit.words import compact

PACKS, KNOWLEDGE = load_packs(), load_knowledge()
NOW = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
TODAY = NOW.date()


def spec(dialect: str, route: str):
    return next(p.task for p in routes_for(PACKS.pack(dialect), PACKS.probes) if p.task and p.task.route == route)


def exchange(body: object, status: int = 200, name: str = "x", **headers: str) -> Exchange:
    raw = body if isinstance(body, str) else compact(body).decode()
    head = (("content-type", "application/json"), *headers.items())
    return Exchange(id="X0009", step=name, side="relay", sent_at=NOW, elapsed_ms=5, delivery="answered",
                    request=Request(method="GET", path="/"), response=Response(status=status, headers=head, body=raw))  # fmt: skip


ARK = {"id": "cgt-20261130110003-ab1cd", "model": "doubao-seedance-2-0-260128", "status": "succeeded",
       "content": {"video_url": "https://ark-acg-cn-beijing.tos-cn-beijing.volces.com/x.mp4"},
       "usage": {"completion_tokens": 108900, "total_tokens": 108900}, "created_at": 1796007605, "duration": 5}  # fmt: skip
WAN = {"request_id": "r", "output": {"task_id": "0385dc79-5ff8-4d82-bcb6-7c9f0f0f0f0f", "task_status": "SUCCEEDED",
       "video_url": "https://dashscope-result-bj.oss-cn-beijing.aliyuncs.com/x.mp4"}, "usage": {"duration": 5}}  # fmt: skip
FILM = {"id": "1", "url": "https://cdn.example/v.mp4", "duration": "5.1"}
KLING = {"code": 0, "message": "SUCCEED", "data": {"task_id": "831922345719271433", "task_status": "succeed",
         "created_at": 1796007605123, "task_result": {"videos": [FILM]}}}  # fmt: skip
MINIMAX = {
    "task_id": "106916112212032",
    "status": "Success",
    "file_id": "176844028768320",
    "base_resp": {"status_code": 0},
}


@pytest.mark.parametrize(
    ("dialect", "route", "answer", "state", "task_id"),
    [
        ("ark_video", "native", ARK, "done", ARK["id"]),
        ("ark_video", "native", {"id": "cgt-1"}, "unknown", "cgt-1"),
        ("ark_video", "native", {**ARK, "status": "expired"}, "failed", ARK["id"]),
        ("dashscope_video", "native", WAN, "done", WAN["output"]["task_id"]),
        ("kling_video", "native", KLING, "done", "831922345719271433"),
        ("minimax_video", "native", MINIMAX, "done", "106916112212032"),
        ("minimax_video", "native", {**MINIMAX, "status": "Queueing"}, "waiting", "106916112212032"),
        ("ark_video", "generations", {"data": {"task_id": "task_a", "status": "SUCCESS", "data": ARK}}, "done", "task_a"),
        ("ark_video", "generations", {"data": {"task_id": "task_a", "status": "NOT_START"}}, "waiting", "task_a"),
        ("ark_video", "generations", {"task_id": "t", "status": "succeeded", "url": "https://x.example/v"}, "done", "t"),
        ("ark_video", "videos", {"id": "video_1", "status": "completed", "metadata": {"url": "https://x.example"}}, "done", "video_1"),
        ("ark_video", "videos", None, "unknown", ""),
        ("ark_video", "videos", [1, 2], "unknown", ""),
        ("ark_video", "videos", {"id": True, "status": 7}, "unknown", ""),
    ],
)  # fmt: skip
def test_what_an_answer_says_of_a_task(dialect, route, answer, state, task_id):
    told = read_task(spec(dialect, route), answer)
    assert (told.state, told.task_id) == (state, task_id)


def test_the_vendors_own_numbers_inside_a_relays_answer():
    told = read_task(spec("ark_video", "generations"), {"data": {"task_id": "task_a", "status": "SUCCESS", "data": ARK,
                     "properties": {"upstream_model_name": "doubao-seedance-2-0-260128"}}})  # fmt: skip
    assert (told.upstream_id, told.tokens, told.seconds) == (ARK["id"], 108900, 5.0)
    assert told.upstream_model == "doubao-seedance-2-0-260128"
    assert told.created == dt.datetime.fromtimestamp(1796007605, dt.UTC)
    assert read_task(spec("kling_video", "native"), KLING).seconds == 5.1
    assert read_task(spec("minimax_video", "native"), MINIMAX).file_id == "176844028768320"


@pytest.mark.parametrize("task_id", ["../../api/user", "a/b", "a?key=1", "", "x" * 200, "a b", "a..b"])
def test_an_id_that_would_leave_its_place_is_not_asked_after(task_id):
    assert not fits(task_id)


@pytest.mark.parametrize(
    ("header", "factor"), [('{"seconds":5,"size":1.5}', "7.5"), ("", "1"), ("{", "1"), ('{"a":-1}', "1"), ("[3]", "1"), ('{"a":"x"}', "1")]
)  # fmt: skip
def test_ratios_that_a_relay_names(header, factor):
    assert other_ratios(exchange({}, **{"x-new-api-other-ratios": header})) == Decimal(factor)


@pytest.mark.parametrize(
    ("body", "status", "there"),
    [
        ({"code": "task_not_exist", "message": "task_not_exist", "data": None}, 400, True),
        ({"error": {"code": "ResourceNotFound", "message": "The specified resource is not found"}}, 404, True),
        ({"error": {"message": "Video not found"}}, 404, True),
        ({"base_resp": {"status_code": 2013, "status_msg": "invalid params"}}, 200, True),
        ({"error": {"message": "Invalid URL (GET /v1/video/generations/x)"}}, 404, False),
        ({"detail": "Not Found"}, 404, False),
        ({"error": "not found"}, 404, False),
        ("<!doctype html><div id=root></div>", 200, False),
        ({"error": {"message": "Invalid token"}}, 401, False),
    ],
)
def test_whether_software_knows_a_route(body, status, there):
    assert is_route(exchange(body, status)) is there


# Plans and prices


def plan_of(dialect: str = "ark_video", tiers: tuple[VideoTier, ...] = (), **asked):
    pack = PACKS.pack(dialect)
    question = Question(model="seedance-2.0", official_model="seedance-2.0", dialect=dialect, profile="standard",
                        checks=(), software="new-api", counter=False, **asked)  # fmt: skip
    wanted = tiers_wanted(tiers, pack.video)
    return make_video_plan(
        question, pack, routes_for(pack, PACKS.probes)[0], wanted, Wording(PACKS.wordlists, 1), 1
    ), pack


PRICE = UnitPrice(
    input=Decimal(0), output=Decimal(0), per_call=Decimal("0.3"), source="GET /api/pricing", observed=TODAY
)
ROW = KNOWLEDGE.video_price_of("seedance-2.0", TODAY)


def test_tiers_are_ordered_cheapest_first_and_once():
    plan, _ = plan_of(tiers=(VideoTier(resolution="1080p", seconds=5), VideoTier(resolution="480p", seconds=5),
                             VideoTier(resolution="480p", seconds=5), VideoTier(resolution="720p", seconds=4)))  # fmt: skip
    assert [step.order.name for step in plan.steps] == ["480p_5s", "720p_4s", "1080p_5s"]
    assert len({step.body["content"][0]["text"] for step in plan.steps}) == 3
    assert plan.digest != plan_of()[0].digest


@pytest.mark.parametrize("dialect", ["ark_video", "dashscope_video", "minimax_video", "kling_video"])
def test_every_route_of_a_dialect_can_be_ordered_by(dialect):
    pack = PACKS.pack(dialect)
    question = Question(
        model="m", official_model="m", dialect=dialect, profile="standard", checks=(), software="", counter=False
    )
    ways = routes_for(pack, PACKS.probes)
    assert [way.task.route for way in ways] == ["native", "generations", "videos"]
    for way in ways:
        plan = make_video_plan(question, pack, way, tiers_wanted((), pack.video), Wording(PACKS.wordlists, 1), 1)
        assert len(plan.steps) == 1
        assert "" not in str(plan.steps[0].body.values()).split("'")[1::2]
        assert plan.steps[0].bound is not None


@pytest.mark.parametrize(
    ("resolution", "seconds", "tokens"),
    [("720p", 5, 108900), ("1080p", 5, 246840), ("720p", 6, 130500), ("480p", 4, 40594), ("480p", 8, 80770)],
)
def test_the_formula_gives_the_public_samples(resolution, seconds, tokens):
    plan, pack = plan_of(tiers=(VideoTier(resolution=resolution, seconds=seconds),))
    assert tokens_of(plan.steps[0].order, pack.video) == tokens


def test_a_quote_by_each_kind_of_price():
    plan, pack = plan_of()
    fixed = quote_tiers(plan, pack.video, Offer(PRICE, False, {}, None, Decimal(1)), NOW)
    assert (fixed.expected, fixed.at_most) == (Decimal("0.3"), Decimal("1.5")), "of a film or of a second"
    own = quote_tiers(plan, pack.video, Offer(PRICE, True, {}, None, Decimal(1)), NOW)
    assert own.expected == own.at_most == Decimal("0.3")
    ratio = PRICE.model_copy(update={"per_call": None, "input": Decimal(10), "output": Decimal(10)})
    by_tokens = quote_tiers(plan, pack.video, Offer(ratio, False, {}, None, Decimal(1)), NOW)
    assert by_tokens.expected == Decimal("0.506380")
    assert by_tokens.at_most == Decimal("2.5"), "what is reserved at the order"
    listed = UnitPrice(input=Decimal(0), output=Decimal(0), source="list", observed=TODAY)
    assumed = quote_tiers(plan, pack.video, Offer(None, False, dict(ROW.per_second), listed, Decimal(2)), NOW)
    assert assumed.expected == Decimal("0.660035")
    assert assumed.needs_explicit_ceiling
    with pytest.raises(ApprovalRefused, match="no price is known"):
        quote_tiers(plan, pack.video, Offer(None, False, {}, None, Decimal(1)), NOW)


def test_no_approval_of_one_tier_holds_for_the_next():
    plan, pack = plan_of(tiers=tuple(VideoTier(resolution=r, seconds=5) for r in ("480p", "720p")))
    first = quote_tiers(plan, pack.video, Offer(PRICE, False, {}, None, Decimal(1)), NOW)
    second = next_tier(first, NOW)
    assert (len(first.lines), len(second.lines), second.later) == (1, 2, ())
    assert second.digest != first.digest
    assert second.at_most > first.at_most
    assert not first.covers(second)
    assert next_tier(second, NOW) is None


# Step 4

SEEDANCE = next(row for row in KNOWLEDGE.media_profiles if row.name == "seedance")
HOST = "ark-acg-cn-beijing.tos-cn-beijing.volces.com"


class Run:
    """Evidence as step 4 reads it: the order and the last answer about its task."""

    def __init__(self, order: object, last: object) -> None:
        self.order, self.last = exchange(order), exchange(last)

    def of_step(self, name: str) -> Exchange | None:
        return self.last if name.startswith("task.") else self.order


def link(last=ARK, host=HOST, order=None, route="native", row=SEEDANCE, **file):
    plan, pack = plan_of(tiers=(VideoTier(resolution="720p", seconds=5),))
    step = plan.steps[0]
    step = step.model_copy(update={"order": step.order.model_copy(update={"task": spec("ark_video", route)})})
    facts = MediaFacts(name="f.mp4", sha256="0" * 64, size=1, **{"width": 1280, "height": 720, "seconds": 5.04, **file})
    reading = MediaReading(at=NOW, step=step.id, exchange="X0011", hosts=(host,), route="link", status=200, file=facts)
    return judge_link(Run(order or {"id": ARK["id"]}, last), step, reading, row, pack)


def test_the_vendors_own_way():
    assert link().state == "holds"


@pytest.mark.parametrize(
    ("change", "odd"),
    [
        ({"usage": {"completion_tokens": 40594}}, ["usage"]),
        ({"usage": {"completion_tokens": 217_700}}, []),
        ({"usage": {}}, []),
        ({"created_at": ARK["created_at"] + 3600}, ["task_time"]),
        ({"created_at": "yesterday"}, []),
        ({"duration": 3}, ["length"]),
        ({"duration": 30}, []),
    ],
)
def test_what_contradicts_itself(change, odd):
    assert list(link({**ARK, **change}).odd) == odd


@pytest.mark.parametrize(
    ("file", "odd"),
    [({"width": 864, "height": 496}, ["picture_size"]), ({"seconds": 2.0}, ["length"]), ({"width": 0, "height": 0}, []),
     ({"seconds": 0.0}, []), ({"width": 720, "height": 1280}, []), ({"width": 1248, "height": 704}, []), ({"seconds": 4.6}, [])],
)  # fmt: skip
def test_what_came_against_what_was_ordered(file, odd):
    assert list(link(**file).odd) == odd


@pytest.mark.parametrize("minutes", [-14, 14])
def test_clocks_that_are_apart_are_no_fault(minutes):
    moment = NOW + dt.timedelta(minutes=minutes, hours=8)
    number = f"cgt-{moment:%Y%m%d%H%M%S}-ab1cd"
    said = {**ARK, "id": number, "created_at": (NOW + dt.timedelta(minutes=minutes)).timestamp() // 1}
    assert link({**said, "created_at": int(said["created_at"])}, order={"id": number}).odd == ()


def test_a_relays_own_number_is_wrapping_and_no_contradiction():
    number = "task_" + "a1B2" * 8
    found = link({"id": number, "status": "completed"}, route="videos", order={"id": number})
    assert (found.odd, found.wrapped, found.restored) == ((), ("task_id",), False)
    other = link({"id": "whatever-7", "status": "completed"}, route="videos", order={"id": "whatever-7"})
    assert (other.odd, other.wrapped) == ((), ("task_id_of_another_shape",))


@pytest.mark.parametrize(
    "host",
    [
        "films.relay.example",
        "bucket.tos-cn-beijing.volces.com",
        f"{HOST}.relay.example",
        "x" + HOST,
        "bucket.oss-cn-beijing.aliyuncs.com",
    ],
)
def test_a_bucket_at_the_same_cloud_is_not_the_vendors_store(host):
    assert link(host=host).restored


def test_a_vendor_whose_stores_are_not_known_is_not_judged_by_them():
    kling = next(row for row in KNOWLEDGE.media_profiles if row.id == "kling.2026-09")
    assert link(host="anything.example", row=kling).state == "unclear"
    assert link(host="anything.example", row=None).state == "unclear"


@pytest.mark.parametrize(
    ("model", "profile"),
    [("seedance-2.0", "seedance"), ("doubao-seedance-2-0-260128", "seedance"), ("dreamina-seedance-2-5", "seedance"),
     ("wan2.7-t2v", "wan"), ("wan3.0-video-prime", "wan"), ("kling-v3", "kling"), ("MiniMax-Hailuo-2.3", "minimax"),
     ("MiniMax-H3", "minimax"), ("sora-2-pro", "openai"), ("veo-3.1-generate-001", "google"), ("taiwan-model", ""), ("m", "")],
)  # fmt: skip
def test_what_a_model_is_called(model, profile):
    assert named_by(model, KNOWLEDGE) == profile
