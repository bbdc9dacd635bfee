"""Step 4 at its bounds: what a film's address, number, time, usage and length come to, as one whole judgement."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from relay_audit.assess.film_link import Link, judge_link, of_the_film, task_of
from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.evidence import Evidence
from relay_audit.media_facts import MediaFacts, MediaReading
from relay_audit.media_known import MediaProfile
from relay_audit.plan import Step
from relay_audit.video import TaskSpec, VideoOrder
from tests.assess.evidence_builders import answered, at, run_of, step_named

PACK = load_packs().pack("ark_video")
ROUTE = TaskSpec(
    route="native", poll="/v/{id}", task_id=("/id",), status=("/status",), waiting=("queued",), done=("done",), failed=("failed",),
    tokens=("/tokens",), seconds=("/seconds",), created=("/created",), upstream_id=("/upstream",),
)  # fmt: skip
PROFILE = next(row for row in load_knowledge().media_profiles if row.name == "seedance").model_copy(
    update={
        "hosts": (r"films\.vendor\.example",), "task_id": r"cgt-(?P<time>[0-9]{14})-[a-z]{5}", "task_zone_hours": 8,
        "frames_per_second": (24,),
    }
)  # fmt: skip
HOST, OTHER = "films.vendor.example", "cdn.relay.example"
SENT = at(1)
SEEN = ("X0001", "X0002", "X0003")


def number(seconds: float = 0, mark: str = "abcde") -> str:
    """A task's number with a moment so long after the order in it, in the vendor's zone."""
    return f"cgt-{SENT + dt.timedelta(seconds=seconds, hours=8):%Y%m%d%H%M%S}-{mark}"


def created(seconds: float) -> int:
    return int((SENT + dt.timedelta(seconds=seconds)).timestamp())


def setting(order: Any, last: Any, *, ordered: bool = True) -> tuple[Evidence, Step]:
    film = VideoOrder(resolution="720p", seconds=5, task=ROUTE) if ordered else None
    step = step_named("film").model_copy(update={"order": film})
    sent = [answered(1, "film", order, moment=SENT)] if order is not None else []
    sent += [answered(2, "task.film", last, moment=at(60))] if last is not None else []
    return run_of(sent, [step]), step


def file_of(**facts: Any) -> MediaFacts:
    return MediaFacts(name="f.mp4", sha256="0" * 64, size=1, **{"width": 1280, "height": 720, "seconds": 5.0, **facts})


def judged(last: Any = None, *, order: Any = None, row: MediaProfile | None = PROFILE, file: MediaFacts | None = None,
           ordered: bool = True, pack: Any = PACK, **reading: Any) -> Link:  # fmt: skip
    evidence, step = setting(
        {"id": number()} if order is None else order, {"status": "done"} if last is None else last, ordered=ordered
    )
    read = MediaReading(**{"at": at(90), "step": "film", "exchange": "X0003", "hosts": (HOST,), "route": "link",
                           "file": file or file_of(), **reading})  # fmt: skip
    return judge_link(evidence, step, read, row, pack)


def test_the_whole_of_a_link_that_holds_and_of_one_that_does_not():
    assert judged() == Link("holds", hosts=(HOST,), exchanges=SEEN)
    assert judged({"status": "done", "seconds": 3}, hosts=(HOST, OTHER), exchange="") == Link(
        "fails", ("length",), restored=True, hosts=(HOST, OTHER), exchanges=SEEN[:2]
    )


@pytest.mark.parametrize("row", [None, PROFILE.model_copy(update={"hosts": ()})])
def test_a_vendor_that_is_not_known_is_judged_by_the_film_alone(row):
    assert judged(row=row) == Link("unclear", hosts=(HOST,), exchanges=SEEN)
    short = judged({"status": "done", "seconds": 3}, row=row, file=file_of(seconds=3.0, height=300))
    assert short == Link("fails", ("picture_size", "length"), hosts=(HOST,), exchanges=SEEN)
    assert short.why == "task_odd"


@pytest.mark.parametrize(
    ("how", "state", "restored", "wrapped", "why"),
    [
        ({}, "holds", False, (), ""),
        ({"hosts": (OTHER,)}, "fails", True, (), "link_restored"),
        ({"hosts": ()}, "fails", True, (), "link_restored"),
        ({"hosts": (OTHER, HOST)}, "holds", False, (), ""),
        ({"needs_key": True}, "fails", False, ("relay_route",), "link_wrapped"),
        ({"route": "relay_content"}, "fails", False, ("relay_route",), "link_wrapped"),
        ({"order": {"id": "task_" + "a1B2c" * 4}}, "fails", False, ("task_id",), "link_wrapped"),
        ({"order": {"id": "0385dc79-5ff8-4d82-bcb6-7c9f0f0f0f0f"}}, "fails", False, ("task_id",), "link_wrapped"),
        ({"order": {"id": "17"}}, "fails", False, ("task_id_of_another_shape",), "link_wrapped"),
        ({"order": {"id": "17"}, "hosts": (OTHER,), "needs_key": True}, "fails", True, ("task_id_of_another_shape", "relay_route"),
         "link_restored"),
        ({"row": PROFILE.model_copy(update={"task_id": ""}), "order": {"id": "17"}}, "holds", False, (), ""),
        # The vendor's own number inside a relay's answer counts
        ({"order": {"id": "17"}, "last": {"status": "done", "upstream": number()}}, "holds", False, (), ""),
    ],
)  # fmt: skip
def test_what_a_relay_put_its_own_in_the_place_of(how, state, restored, wrapped, why):
    made = judged(**how)
    assert (made.state, made.restored, made.wrapped, made.odd, made.why) == (state, restored, wrapped, (), why)


NO_MOMENT = f"cgt-{'9' * 14}-abcde"
NO_TIME = PROFILE.model_copy(update={"task_id": r"cgt-[a-z]{5}"})


@pytest.mark.parametrize(
    ("id_", "told", "row", "odd"),
    [
        (number(900), None, PROFILE, False),
        (number(901), None, PROFILE, True),
        (number(-900), None, PROFILE, False),
        (number(-901), None, PROFILE, True),
        (number(), created(60), PROFILE, False),
        (number(), created(61), PROFILE, True),
        (number(), created(-60), PROFILE, False),
        (number(), created(-61), PROFILE, True),
        (NO_MOMENT, None, PROFILE, True),  # the shape of the vendor's numbers, and no moment
        ("cgt-abcde", None, NO_TIME, False),  # numbers without a moment
    ],
)
def test_the_moment_in_a_number_is_that_of_the_order_and_of_the_task(id_, told, row, odd):
    made = judged({"status": "done", **({"created": told} if told else {})}, order={"id": id_}, row=row)
    assert made.odd == (("task_time",) if odd else ())


def tokens(width: int, height: int, seconds: float, frames: int = 24) -> float:
    return width * height * (frames * seconds + 1) / 1024


@pytest.mark.parametrize(
    ("told", "file", "odd"),
    [
        (108_900, file_of(), False),  # 1280 × 720 × 121 / 1024
        (111_078, file_of(), False),
        (111_079, file_of(), True),
        (106_722, file_of(), False),
        (106_721, file_of(), True),
        (217_800, file_of(), True),
        (round(tokens(1920, 1080, 7)), file_of(width=1920, height=1080, seconds=7.0), False),  # what came
        (108_900, file_of(width=1920, height=1080, seconds=7.0), False),  # what was ordered
        (round(tokens(1920, 1080, 5)), file_of(width=1920, height=1080, seconds=0.0), False),
        (round(tokens(1920, 1080, 7)), file_of(width=1920, height=0, seconds=7.0), True),
        (5, file_of(width=1, height=0, seconds=7.0), True),
        (None, file_of(), False),
    ],
)
def test_a_usage_fits_what_was_ordered_or_what_came(told, file, odd):
    made = judged({"status": "done", "tokens": told}, file=file)
    assert ("usage" in made.odd) is odd


def test_a_usage_is_not_held_against_a_vendor_or_an_order_whose_films_cannot_be_computed():
    told = {"status": "done", "tokens": 5}
    assert judged(told, row=PROFILE.model_copy(update={"frames_per_second": ()})).odd == ()
    assert judged(told, pack=PACK.model_copy(update={"video": None})).odd == ()
    twice = PROFILE.model_copy(update={"frames_per_second": (24, 48)})
    assert judged({**told, "tokens": 216_900}, row=twice).odd == ()


@pytest.mark.parametrize(("seconds", "odd"), [(4, False), (3.99, True), (6, False)])
def test_a_second_less_is_a_vendors_rounding(seconds, odd):
    assert judged({"status": "done", "seconds": seconds}).odd == (("length",) if odd else ())
    assert judged(file=file_of(seconds=float(seconds))).odd == (("length",) if odd else ())


@pytest.mark.parametrize(
    ("file", "odd"),
    [
        (file_of(width=1152, height=648), ()),  # nine tenths of the ordered short side
        (file_of(width=1152, height=647), ("picture_size",)),
        (file_of(width=647, height=1152), ("picture_size",)),
        (file_of(width=0, height=100), ()),
        (file_of(width=100, height=0), ()),
        (file_of(width=100, height=100, seconds=1.0), ("picture_size", "length")),
        (file_of(seconds=0.0), ()),
        (None, ()),
    ],
)
def test_the_file_itself(file, odd):
    _, step = setting({"id": "1"}, None)
    reading = MediaReading(at=at(90), step="film", file=file)
    assert of_the_film(step, reading, PACK) == odd
    assert of_the_film(step.model_copy(update={"order": None}), reading, PACK) == ()
    assert of_the_film(step, reading, PACK.model_copy(update={"video": None})) == ()


@pytest.mark.parametrize(
    ("order", "last", "task_id", "state"),
    [
        ({"id": "first"}, {"id": "later", "status": "done"}, "first", "done"),
        ({"id": "first"}, {"status": "done"}, "first", "done"),
        ({"status": "queued"}, {"id": "later", "status": "failed"}, "later", "failed"),
        ({"id": "first", "status": "queued"}, None, "first", "unknown"),
        (None, {"id": "later", "status": "done"}, "later", "done"),
        (None, None, "", "unknown"),
    ],
)
def test_order_and_last_answer_taken_together(order, last, task_id, state):
    evidence, step = setting(order, last)
    task, sent, asked = task_of(evidence, step)
    assert (task.task_id, task.state) == (task_id, state)
    assert (sent.id if sent else None, asked.id if asked else None) == (
        "X0001" if order else None,
        "X0002" if last else None,
    )
    bare, _, _ = task_of(evidence, step.model_copy(update={"order": None}))
    assert (bare.task_id, bare.state) == ("", "unknown")
