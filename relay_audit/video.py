"""A video task: how one wire format orders, asks after and delivers a film (data), and what an answer says about it.

Sources: known_fingerprints/README.md and the packs that hold a `[task]`. Pure: JSON in, facts out.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from relay_audit.books import LogRow
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.words import Frozen

TaskState = Literal["waiting", "done", "failed", "unknown"]
ID = re.compile(r"[A-Za-z0-9_.:-]{1,120}")
"""What may stand in a path as the id of a task; anything else a relay names is not asked after."""
NESTED = 6
"""How deep a web address is looked for in an answer whose pointers lead nowhere."""


class TaskSpec(Frozen):
    """One route for tasks, as data: where to ask, and where an answer says what."""

    route: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    poll: str
    """Path below the base address, with `{id}` in it."""
    file: str = ""
    """Path that turns a file id into an address, with `{id}` in it; empty where the task names the address itself."""
    content: str = ""
    """Path that delivers the bytes themselves to the key's owner; used only where no address is named."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with the order, besides the dialect's own."""
    task_id: tuple[str, ...] = Field(min_length=1)
    """Where the answer to the order names the task; the first that holds one counts. So below."""
    status: tuple[str, ...] = Field(min_length=1)
    waiting: tuple[str, ...]
    done: tuple[str, ...]
    failed: tuple[str, ...]
    """Words of `status`, in small letters."""
    url: tuple[str, ...] = ()
    file_id: tuple[str, ...] = ()
    file_url: tuple[str, ...] = ()
    """In the answer of `file`."""
    reason: tuple[str, ...] = ()
    """Where a failed task says why; a stranger's text."""
    tokens: tuple[str, ...] = ()
    seconds: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    """When the task was made: seconds or milliseconds since 1970."""
    upstream_id: tuple[str, ...] = ()
    """Where the vendor's own task id stands, when the route gives another one in its place."""
    upstream_model: tuple[str, ...] = ()
    """Where the relay says which model it asked for."""
    missing: tuple[str, ...] = ()
    """Patterns of an answer of software that does not have this route."""

    @field_validator("missing")
    @classmethod
    def _compile(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            re.compile(pattern)
        return value


class VideoOrder(Frozen):
    """One film, as it is ordered."""

    resolution: str = Field(pattern=r"^[0-9a-z]{2,8}$")
    """`480p`, `720p`, `1080p`, `2k`, `4k`, …: the vendor's own word in small letters."""
    seconds: int = Field(gt=0, le=120)
    task: TaskSpec
    """The route by which it is ordered."""

    @property
    def name(self) -> str:
        return f"{self.resolution}_{self.seconds}s"


class VideoSize(Frozen):
    """One resolution at 16:9, and what this vendor's routes call it."""

    width: int = Field(gt=0)
    height: int = Field(gt=0)
    resolution: str
    size: str
    mode: str = ""


class VideoFormat(Frozen):
    """For a dialect that orders films."""

    profile: str
    """The `media_profiles` row its originals are compared with, where the model's name says nothing."""
    default_resolution: str
    """The lowest tier: the only one that is ordered where the target names none."""
    default_seconds: int = Field(gt=0)
    sizes: dict[str, VideoSize] = Field(min_length=1)

    @model_validator(mode="after")
    def _default_is_known(self) -> VideoFormat:
        if self.default_resolution not in self.sizes:
            raise ValueError("default_resolution is one of sizes")
        return self


class TaskAnswer(Frozen):
    """What one answer says of a task. Texts are a stranger's."""

    task_id: str = ""
    state: TaskState = "unknown"
    url: str = ""
    file_id: str = ""
    reason: str = ""
    tokens: int | None = None
    seconds: float | None = None
    created: dt.datetime | None = None
    upstream_id: str = ""
    upstream_model: str = ""


def read_task(spec: TaskSpec, answer: Any) -> TaskAnswer:  # noqa: ANN401  any JSON value
    """Raises nothing: what is not there, or not of its kind, is left empty."""
    word = _text(answer, spec.status).lower()
    return TaskAnswer(
        task_id=_text(answer, spec.task_id),
        state=_state(spec, word),
        url=_url(answer, spec.url),
        file_id=_text(answer, spec.file_id),
        reason=_text(answer, spec.reason)[:300],
        tokens=next((n for path in spec.tokens if (n := whole_number(pointer(answer, path))) is not None), None),
        seconds=_number(answer, spec.seconds),
        created=_moment(answer, spec.created),
        upstream_id=_text(answer, spec.upstream_id),
        upstream_model=_text(answer, spec.upstream_model)[:120],
    )


def other_ratios(order: Exchange) -> Decimal:
    """What new-api says it multiplies a film's price by (since 2026-02): seconds, size; 1 where it says nothing."""
    return math.prod(told_ratios(order).values(), start=Decimal(1))


def told_ratios(order: Exchange) -> dict[str, Decimal]:
    """Those multipliers by their names; empty where the answer names none that can be read."""
    try:
        told = json.loads((order.response.header("x-new-api-other-ratios") if order.response else None) or "{}")
        factors = {name: Decimal(str(value)) for name, value in told.items()}
        return factors if all(0 < factor < 1000 for factor in factors.values()) else {}
    except (ValueError, ArithmeticError, AttributeError, RecursionError):
        return {}


def shows_refunds(order: Exchange, task_id: str, rows: Iterable[LogRow]) -> bool:
    """Whether the log that a key reads would show this film's refund. new-api before 2026-02-22 wrote a refund as a row of
    the account, without the key, and left the key's own counter as it was: there a refund that came is not to be seen.
    Since then a charge is marked as a task's, and numbers or ratios of the answer say the same."""
    if not any(row.kind == "consume" and row.other.get("is_task") is True for row in rows):
        return False
    told = order.response.header("x-new-api-other-ratios") if order.response else None
    return told is not None or task_id.startswith("task_")


def url_in(answer: Any, paths: tuple[str, ...]) -> str:  # noqa: ANN401
    """The address that an answer names, by its pointers."""
    return _url(answer, paths)


def fits(task_id: str) -> bool:
    """Whether an id can be asked after without leaving its place in the path."""
    return bool(ID.fullmatch(task_id)) and ".." not in task_id


def _state(spec: TaskSpec, word: str) -> TaskState:
    if word in spec.done:
        return "done"
    if word in spec.failed:
        return "failed"
    return "waiting" if word in spec.waiting else "unknown"


def _text(answer: Any, paths: tuple[str, ...]) -> str:  # noqa: ANN401
    """The first text or number that one of the pointers leads to."""
    for path in paths:
        value = pointer(answer, path)
        if isinstance(value, str) and value.strip():
            return value.strip()[:4000]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def _url(answer: Any, paths: tuple[str, ...]) -> str:  # noqa: ANN401
    found = _text(answer, paths)
    return found if found.startswith(("https://", "http://")) else ""


def _number(answer: Any, paths: tuple[str, ...]) -> float | None:  # noqa: ANN401
    text = _text(answer, paths) or next((str(v) for path in paths if isinstance(v := pointer(answer, path), float)), "")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 10_000 else None


def _moment(answer: Any, paths: tuple[str, ...]) -> dt.datetime | None:  # noqa: ANN401
    text = _text(answer, paths)
    if not text.isdigit() or len(text) > 13:
        return None
    value = int(text)
    seconds = value / 1000 if value > 10**11 else float(value)
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (OverflowError, ValueError, OSError):  # pragma: no cover  thirteen figures are a date
        return None
