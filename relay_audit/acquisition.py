"""A film from order to file: ordered once by the runner, asked after for nothing, fetched once, read in a child process.

The task's id is durable before it is first asked after: it stands in the recorded answer to the order. So a process
that dies while it waits can be followed by another one, which asks after the same task and orders nothing again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from relay_audit.disk import file_errors, move_durably
from relay_audit.endpoint import Answer, Endpoint, Outgoing
from relay_audit.errors import RelayAuditError
from relay_audit.exchange import Exchange, says_error
from relay_audit.free_questions import Sides
from relay_audit.kept_file import FILM, KeptFile
from relay_audit.media.examine import examine
from relay_audit.media_facts import MediaFacts, MediaReading
from relay_audit.plan import Step
from relay_audit.recorder import Recorder
from relay_audit.redaction import Redactor
from relay_audit.target import is_loopback, origin_of
from relay_audit.video import TaskAnswer, TaskSpec, fits, read_task, url_in

FIRST_WAIT_S, LONGEST_WAIT_S, SLOWER = 5.0, 30.0, 1.3
WAIT_AT_MOST_S = 1800.0
"""How long one process waits for a task; then the run is left waiting and can be resumed."""
LOST_AFTER = 5
"""Refusals in a row after which a task is not asked after any more in this process."""
REDIRECTS = 3
ENDED = ("done", "failed")
WAITING = "waiting_task"
"""Why a run that is not finished was left: its task is not ended."""


def poll_name(step: Step) -> str:
    return f"task.{step.id}"


def film_name(step: Step) -> str:
    return f"film.{step.id}"


class Films:
    """What follows the order of a film. Every request here is free; none is an order."""

    def __init__(self, recorder: Recorder, sides: Sides, redactor: Redactor) -> None:
        self.recorder = recorder
        self.sides = sides
        self.redactor = redactor

    async def follow(self, step: Step) -> str:
        """Until the film lies here, or will not. Returns why nothing further may be ordered now, or an empty text."""
        if step.order is None or any(reading.step == step.id for reading in self.recorder.history.media):
            return ""
        spec = step.order.task
        order = self.recorder.history.last_of(step.id)
        if order is None or order.delivery != "answered":
            return "unconfirmed"
        task_id = read_task(spec, order.answer()).task_id
        if not _accepted(order) or says_error(order.answer()):
            return "tier_refused"
        if not fits(task_id):
            return "unconfirmed"  # taken, and nobody can say which task it became
        if self._has_failed(step, spec):
            return "tier_failed"
        answer = await self._wait(step, spec, task_id)
        if answer is None:
            return self.recorder.history.wish or WAITING
        self.recorder.state("running")
        if read_task(spec, answer).state == "failed":
            return "tier_failed"
        reading = await self._fetch(step, spec, answer, task_id)
        self.recorder.media_reading(reading)
        return "" if reading.file and not reading.file.no_film else "tier_failed"

    async def _wait(self, step: Step, spec: TaskSpec, task_id: str) -> Any:  # noqa: ANN401  the task's last answer
        """Asks after the task until it has ended; None where that is not yet so. Only what is new is recorded."""
        clock, pause, refused = self.sides.clock, FIRST_WAIT_S, 0
        until, told = clock.monotonic() + WAIT_AT_MOST_S, ""
        self.recorder.state("waiting_task")
        outgoing = Outgoing("GET", spec.poll.replace("{id}", task_id))
        while True:
            answer = await self._ask(outgoing)
            raw = _json(answer)
            state = read_task(spec, raw).state
            status = answer.response.status if answer.response else None
            if f"{status} {state}" != told or state in ENDED:
                told = f"{status} {state}"
                self.recorder.free(answer, poll_name(step), "relay")
                self.sides.notify("task", {"step": step.request, "reason": f"task_{state}"})
            if state in ENDED:
                return raw
            refused = refused + 1 if status is None or status >= 400 else 0
            if clock.monotonic() + pause > until or refused >= LOST_AFTER or self.recorder.catch_up().wish:
                return None
            await clock.sleep(pause)
            pause = min(pause * SLOWER, LONGEST_WAIT_S)

    def _has_failed(self, step: Step, spec: TaskSpec) -> bool:
        """A task that was seen to fail is not asked after again: the moment of its end stays what it was."""
        told = self.recorder.history.last_of(poll_name(step))
        return told is not None and read_task(spec, told.answer()).state == "failed"

    async def _ask(self, outgoing: Outgoing) -> Answer:
        return await self.sides.transport.send(self.sides.relay, outgoing)

    async def _fetch(self, step: Step, spec: TaskSpec, answer: Any, task_id: str) -> MediaReading:  # noqa: ANN401
        """The film, by the address that the task names and without a key; by the relay's own route where it names none."""
        url, bare = await self._address(spec, read_task(spec, answer)), self._nothing(step)
        if not url and spec.content:
            path = spec.content.replace("{id}", task_id)
            reading, _ = await self._download(step, self.sides.relay, Outgoing("GET", path))
            return reading.model_copy(update={"route": "relay_content"})
        if not url:
            return bare.model_copy(update={"failure": "no_link"})
        hosts: list[str] = []
        for _ in range(REDIRECTS + 1):
            endpoint, outgoing = self._bare(url)
            hosts.append(urlsplit(url).hostname or "")
            reading, further = await self._download(step, endpoint, outgoing)
            if not further:
                break
            url = further
        found: dict[str, Any] = {"route": "link", "hosts": tuple(hosts)}
        if reading.status in (401, 403) and origin_of(url) == origin_of(self.sides.relay.base_url):
            own = replace(self.sides.relay, base_url=origin_of(self.sides.relay.base_url))
            reading, _ = await self._download(step, own, replace(outgoing, authenticated=True))
            found["needs_key"] = True
        return reading.model_copy(update=found)

    async def _address(self, spec: TaskSpec, told: TaskAnswer) -> str:
        """The film's address: in the task's answer, or one question further by its file id."""
        if told.url or not spec.file or not fits(told.file_id):
            return told.url
        answer = await self._ask(Outgoing("GET", spec.file.replace("{id}", told.file_id)))
        self.recorder.free(answer, "task.file", "relay")
        return url_in(_json(answer), spec.file_url)

    def _bare(self, url: str) -> tuple[Endpoint, Outgoing]:
        """The way to an address that a stranger named: no key, no dialect, the buyer's own proxy."""
        relay, parts = self.sides.relay, urlsplit(url)
        if parts.scheme == "http" and not is_loopback(url):
            parts = parts._replace(scheme="https")  # the stores of all vendors here answer both
        origin = origin_of(parts.geturl())
        endpoint = Endpoint("relay", origin, None, "bearer", {"accept-encoding": "identity"}, relay.proxy, relay.ca_file,
                            relay.user_agent, relay.allow_private)  # fmt: skip
        path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        return endpoint, Outgoing("GET", path, authenticated=False)

    async def _download(self, step: Step, endpoint: Endpoint, outgoing: Outgoing) -> tuple[MediaReading, str]:
        """One download: the reading, and where it was sent on to instead."""
        endpoint = replace(endpoint, headers={**endpoint.headers, "accept-encoding": "identity"})
        kept: list[KeptFile] = []
        draft = self.recorder.store.path / "blobs" / f".new-{step.request}"

        def maker(*given: Any) -> KeptFile:  # noqa: ANN401  as `Intake` is made
            kept.append(KeptFile(draft, self.redactor, *given))
            return kept[0]

        try:
            if (
                endpoint.side == "relay"
                and endpoint.secret is None
                and _loopback_from_outside(endpoint, self.sides.relay)
            ):
                return self._nothing(step).model_copy(update={"failure": "link_refused"}), ""
            answer = await self.sides.transport.keeping(maker, FILM).send(endpoint, outgoing)
        except RelayAuditError:
            return self._nothing(step).model_copy(update={"failure": "link_refused"}), ""
        exchange = self.recorder.free(answer, film_name(step), "relay")
        reading = self._nothing(step).model_copy(
            update={
                "exchange": exchange.id,
                "status": exchange.status,
                "content_type": (exchange.response.header("content-type") or "")[:80] if exchange.response else "",
                "failure": _failure(exchange),
            }
        )
        try:
            if kept and kept[0].whole and exchange.status == 200:
                file = await self._keep(step, exchange, kept[0])
                return reading.model_copy(update={"failure": "", "file": file}), ""
        finally:
            for one in kept:
                one.whole = one.whole and not one.path.exists()
                one.close()
        return reading, _further(exchange, endpoint)

    async def _keep(self, step: Step, exchange: Exchange, kept: KeptFile) -> MediaFacts:
        """The file gets its place, then its event, then it is read: what a parser does to us cannot take it away."""
        place = self.recorder.store.path / "blobs" / kept.sha256
        with file_errors("a film cannot be kept"):
            move_durably(kept.path, place)
        self.recorder.film(exchange, kept.sha256, kept.size)
        facts = await asyncio.to_thread(examine, place)
        return facts.model_copy(update={"name": f"{step.request}.{facts.kind}"})

    def _nothing(self, step: Step) -> MediaReading:
        return MediaReading(at=self.sides.clock.now(), step=step.id)


def _accepted(order: Exchange) -> bool:
    return order.status is not None and 200 <= order.status < 300


def _loopback_from_outside(endpoint: Endpoint, relay: Endpoint) -> bool:
    """An address on this machine, named by somebody who is not on it."""
    return is_loopback(endpoint.base_url) and not is_loopback(relay.base_url) and not relay.allow_private


def _failure(exchange: Exchange) -> str:
    if exchange.failure:
        return exchange.failure
    if exchange.hostility:
        return next((kind for kind in exchange.hostility if kind != "redirect"), "not_delivered")
    return "not_delivered" if exchange.status != 200 else "empty_file"


def _further(exchange: Exchange, endpoint: Endpoint) -> str:
    """Where a download was sent on to. An address without a key may be followed; with one it is not."""
    if exchange.response is None or exchange.status not in (301, 302, 303, 307, 308) or endpoint.secret is not None:
        return ""
    place = exchange.response.header("location") or ""
    if place.startswith("/") and not place.startswith("//"):
        place = origin_of(endpoint.base_url) + place
    return place if place.startswith(("https://", "http://")) else ""


def _json(answer: Answer) -> Any:  # noqa: ANN401  any JSON value
    """The answer as it came: a signed address would not survive redaction. It is followed, never recorded."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(answer.raw)
    return None
