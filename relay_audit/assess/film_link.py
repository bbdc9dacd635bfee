"""Step 4: are the film's address, its task's number and its usage the vendor's own? Read from what the run recorded.

What is absent is absent, never odd: relay software gives tasks numbers of its own and passes films on from its own
address by default. Odd is what contradicts itself: a number with another time in it, a usage of another film.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Literal

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.media_facts import MediaReading
from relay_audit.media_known import MediaProfile
from relay_audit.pack import Pack
from relay_audit.plan import Step
from relay_audit.video import TaskAnswer, read_task

WRAPPED_ID = re.compile(r"task_[A-Za-z0-9]{20,40}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Numbers that relay software gives (new-api since 2026-02: `task_` and 32 characters), and UUIDs, which are anybody's."""
CREATED_WITHIN_S = 60
"""Between the time in a task's number and `created_at`: 0 to 5 s in 8 of 8 public samples, with room."""
SENT_WITHIN_S = 900
"""Between the time in a task's number and our order: clocks, queues and retries upstream."""
USAGE_WITHIN = 0.02
SHORTER_BY_S = 1.0
SMALLER_THAN = 0.9
"""Of the ordered short side: vendors round sizes to what their encoder takes."""


@dataclass(frozen=True)
class Link:
    """`state` is what step 4 came to."""

    state: Literal["holds", "fails", "unclear"]
    odd: tuple[str, ...] = ()
    """What contradicts itself."""
    restored: bool = False
    """Delivered from an address that is not the vendor's."""
    wrapped: tuple[str, ...] = ()
    """What the relay's software put its own in the place of."""
    hosts: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()
    told_elsewhere: tuple[str, ...] = ()
    """Of `odd`: what check 4 says already."""

    @property
    def why(self) -> str:
        if self.odd:
            return "task_odd"
        return "link_restored" if self.restored else "link_wrapped" if self.wrapped else ""


def task_of(evidence: Evidence, step: Step) -> tuple[TaskAnswer, Exchange | None, Exchange | None]:
    """What the task's answers say taken together; the order, and the last answer about the task."""
    order = evidence.of_step(step.id)
    last = evidence.of_step(f"task.{step.id}")
    if step.order is None:
        return TaskAnswer(), order, last
    spec = step.order.task
    first = read_task(spec, order.answer()) if order else TaskAnswer()
    told = read_task(spec, last.answer()) if last else TaskAnswer()
    return told.model_copy(update={"task_id": first.task_id or told.task_id}), order, last


def judge_link(evidence: Evidence, step: Step, reading: MediaReading, row: MediaProfile | None, pack: Pack) -> Link:
    task, order, last = task_of(evidence, step)
    seen = tuple(e.id for e in (order, last) if e) + ((reading.exchange,) if reading.exchange else ())
    host = reading.hosts[-1] if reading.hosts else ""
    if row is None or not row.hosts:
        plain = tuple(dict.fromkeys((*of_the_film(step, reading, pack), *_spoken(task, step))))
        return Link("fails" if plain else "unclear", plain, hosts=reading.hosts, exchanges=seen)
    number = task.upstream_id or task.task_id
    shaped = re.fullmatch(row.task_id, number) if row.task_id else None
    odd = [*of_the_film(step, reading, pack), *_spoken(task, step), *_usage(task, step, reading, row, pack)]
    if shaped is not None and order is not None:
        odd += _time(shaped, row, order, task)
    wrapped = ["task_id"] if row.task_id and shaped is None else []
    if wrapped and not WRAPPED_ID.fullmatch(number):
        wrapped = ["task_id_of_another_shape"]
    if reading.needs_key or reading.route == "relay_content":
        wrapped.append("relay_route")
    official = any(re.fullmatch(pattern, host) for pattern in row.hosts)
    holds = official and not odd and not wrapped
    return Link(
        "holds" if holds else "fails", tuple(dict.fromkeys(odd)), not official, tuple(wrapped), reading.hosts, seen
    )


def _time(shaped: re.Match[str], row: MediaProfile, order: Exchange, task: TaskAnswer) -> list[str]:
    """The moment in a task's number, against when the vendor says it made the task and when we ordered it."""
    text = shaped.groupdict().get("time") or ""
    try:
        zone = dt.timezone(dt.timedelta(hours=row.task_zone_hours))
        moment = dt.datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=zone)
    except ValueError:
        return ["task_time"] if text else []
    late = (moment - order.sent_at).total_seconds()
    made = (task.created - moment).total_seconds() if task.created else 0.0
    return ["task_time"] if abs(late) > SENT_WITHIN_S or abs(made) > CREATED_WITHIN_S else []


def _usage(task: TaskAnswer, step: Step, reading: MediaReading, row: MediaProfile, pack: Pack) -> list[str]:
    """Video tokens follow from picture size and length; a figure that fits neither what was ordered nor what came is odd."""
    if task.tokens is None or not row.frames_per_second or step.order is None or pack.video is None:
        return []
    size = pack.video.sizes[step.order.resolution]
    shapes = [(size.width, size.height, float(step.order.seconds))]
    file = reading.file
    if file and file.width and file.height:
        shapes.append((file.width, file.height, file.seconds or float(step.order.seconds)))
    expected = [w * h * (fps * s + 1) / 1024 for w, h, s in shapes for fps in row.frames_per_second]
    return [] if any(abs(task.tokens - number) <= number * USAGE_WITHIN for number in expected) else ["usage"]


def _spoken(task: TaskAnswer, step: Step) -> list[str]:
    """The length that the task's own answer names."""
    shorter = task.seconds is not None and step.order is not None and task.seconds < step.order.seconds - SHORTER_BY_S
    return ["length"] if shorter else []


def of_the_film(step: Step, reading: MediaReading, pack: Pack) -> tuple[str, ...]:
    """The file itself, against what was ordered."""
    file, odd = reading.file, list[str]()
    if file is None or step.order is None or pack.video is None:
        return ()
    size = pack.video.sizes[step.order.resolution]
    if file.width and file.height and min(file.width, file.height) < SMALLER_THAN * min(size.width, size.height):
        odd.append("picture_size")
    if file.seconds and file.seconds < step.order.seconds - SHORTER_BY_S:
        odd.append("length")
    return tuple(odd)
