"""A new-api style relay that sells films, the vendor behind it, and the store that delivers. Shapes as recorded or read in
source: new-api's video routes (2026-02 to 2026-08), Ark's task API (8 public samples), DashScope's documentation."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from relay_audit.lab import ids
from relay_audit.lab.film import FilmMaker
from relay_audit.lab.video_scenarios import VideoKnobs
from relay_audit.lab.video_till import VideoTill
from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, date_header, json_answer

SIZES = {"480p": (864, 496), "720p": (1280, 720), "1080p": (1920, 1088), "2k": (2560, 1440), "4k": (3840, 2160)}
STORES = {
    "seedance": "https://ark-acg-cn-beijing.tos-cn-beijing.volces.com",
    "wan": "https://dashscope-result-bj.oss-cn-beijing.aliyuncs.com",
}
OWN_STORE = "https://films.relay.example"
ZONE_S = 8 * 3600
CREATES = {
    "/api/v3/contents/generations/tasks": ("native", "seedance"),
    "/api/v1/services/aigc/video-generation/video-synthesis": ("native", "wan"),
    "/v1/video/generations": ("generations", ""),
    "/v1/videos": ("videos", ""),
}
POLLS = {"/api/v3/contents/generations/tasks/": "native", "/api/v1/tasks/": "native", "/v1/video/generations/": "generations",
         "/v1/videos/": "videos"}  # fmt: skip


@dataclass
class Task:
    public: str
    upstream: str
    resolution: str
    seconds: int
    created: float
    quota: int
    asked: int = 0
    failed: str = ""
    film: str = ""
    """Its name in the store."""


class VideoRelay:
    """`films` makes what is delivered; `store_url` takes the place of the vendor's store where one listens on loopback."""

    def __init__(
        self, *, key: str, model: str, knobs: VideoKnobs, films: FilmMaker, rng: random.Random, now: Callable[[], float],
    ) -> None:  # fmt: skip
        self._key, self._model, self._knobs, self._films, self._rng, self._now = key, model, knobs, films, rng, now
        self.till = VideoTill(key, model, knobs, rng, now)
        self.tasks: dict[str, Task] = {}
        self.store_url = ""

    def handle(self, request: HttpRequest) -> HttpAnswer:
        request_id = ids.relay_request_id(self._now(), self._rng)
        own = (date_header(self._now()), ("X-Oneapi-Request-Id", request_id), ("X-New-Api-Version", "v0.12.3"))
        if (page := self.till.handle(request, own)) is not None:
            return page
        if request.route == "/v1/models":
            return self._refused(request, own) or json_answer(
                200, {"object": "list", "data": [{"id": self._model, "object": "model", "owned_by": "video"}]}, own
            )
        if request.method == "POST" and request.route in CREATES:
            route, vendor = CREATES[request.route]
            if route == self._knobs.route and vendor in ("", self._knobs.vendor):
                return self._refused(request, own) or self._create(request, request_id, own)
        if request.method == "GET":
            for start, route in POLLS.items():
                if request.route.startswith(start) and route == self._knobs.route:
                    return self._refused(request, own) or self._ask(request.route.removeprefix(start), own)
        message = f"Invalid URL ({request.method} {request.route})"
        return json_answer(404, {"error": {"message": message, "type": "invalid_request_error", "code": ""}}, own)

    def store(self, request: HttpRequest) -> HttpAnswer:
        """The vendor's store, or the relay's own: it wants no key, and is shown none."""
        name = request.route.rpartition("/")[2]
        task = next((one for one in self.tasks.values() if one.film == name), None)
        if task is None or request.header("authorization") or request.header("x-api-key"):
            return HttpAnswer(404, (("content-type", "application/xml"),), b"<Error><Code>NoSuchKey</Code></Error>")
        return HttpAnswer(200, (("content-type", "video/mp4"), date_header(self._now())), self._film(task))

    def _refused(self, request: HttpRequest, own: Headers) -> HttpAnswer | None:
        if request.bearer == self._key:
            return None
        return json_answer(401, {"error": {"message": "Invalid token", "type": "new_api_error", "code": ""}}, own)

    def _create(self, request: HttpRequest, request_id: str, own: Headers) -> HttpAnswer:
        body = request.json()
        if not isinstance(body, dict) or body.get("model") != self._model:
            return json_answer(503, {"code": "model_not_found", "message": "No available channel", "data": None}, own)
        resolution, seconds = _ordered(body)
        quota = self.till.charge(resolution, request_id)
        task = Task(self._public(), self._upstream(), resolution, seconds, self._now(), quota)
        if self._knobs.ids == "upstream" or self._knobs.route == "native":
            task.public = task.upstream
        task.film = f"{self._rng.getrandbits(160):040x}.mp4"
        self.tasks[task.public] = task
        silent = self._knobs.old_books or not self._knobs.names_ratios
        told = () if silent else (("X-New-Api-Other-Ratios", _compact(self.till.ratios(resolution))),)
        return json_answer(200, self._accepted(task), (*own, *told))

    def _public(self) -> str:
        return "task_" + "".join(self._rng.choices(string.ascii_letters + string.digits, k=32))

    def _upstream(self) -> str:
        if self._knobs.vendor == "wan":
            return ids.uuid4(self._rng)
        made = self._now() - (86_400 * 9 if self._knobs.stale_task else 0)
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(made + ZONE_S))
        return f"cgt-{stamp}-" + "".join(self._rng.choices(string.ascii_lowercase + string.digits, k=5))

    def _accepted(self, task: Task) -> dict[str, Any]:
        if self._knobs.route == "native":
            if self._knobs.vendor == "wan":
                return {
                    "output": {"task_status": "PENDING", "task_id": task.public},
                    "request_id": ids.uuid4(self._rng),
                }
            return {"id": task.public}
        return {
            "id": task.public, "task_id": task.public, "object": "video", "model": self._model, "status": "queued",
            "progress": 0, "created_at": int(task.created), "seconds": str(task.seconds), "size": "864x496",
        }  # fmt: skip

    def _ask(self, rest: str, own: Headers) -> HttpAnswer:
        name, _, tail = rest.partition("/")
        task = self.tasks.get(name)
        if task is None:
            return json_answer(400, {"code": "task_not_exist", "message": "task_not_exist", "data": None}, own)
        if tail == "content":
            return HttpAnswer(200, (("content-type", "video/mp4"), *own), self._film(task))
        task.asked += 1
        done = task.asked >= self._knobs.polls
        if done and not task.failed and (self._knobs.fails or task.resolution not in self._knobs.takes):
            task.failed = "upstream overloaded" if self._knobs.fails else "resolution 2K is not supported, only <= 768P"
            self.till.give_back(task.quota, task.public, task.failed)
        answer = {"native": self._native, "generations": self._generations, "videos": self._videos}[self._knobs.route]
        return json_answer(200, answer(task, done), own)

    def _url(self, task: Task) -> str:
        home = self.store_url or (OWN_STORE if self._knobs.store == "relay" else STORES[self._knobs.vendor])
        return f"{home}/films/{task.film}?X-Tos-Expires=86400&X-Tos-Signature={self._rng.getrandbits(128):032x}"

    def _native(self, task: Task, done: bool) -> dict[str, Any]:
        """The vendor's own answer."""
        if self._knobs.vendor == "wan":
            word = "FAILED" if task.failed else "SUCCEEDED" if done else "RUNNING"
            output: dict[str, Any] = {"task_id": task.upstream, "task_status": word}
            if done and not task.failed:
                output["video_url"] = self._url(task)
            usage = {"duration": task.seconds, "size": "832*480", "video_count": 1} if done else {}
            return {"request_id": ids.uuid4(self._rng), "output": output, "usage": usage}
        answer: dict[str, Any] = {
            "id": task.upstream, "model": self._knobs.upstream_model or self._model,
            "status": "failed" if task.failed else "succeeded" if done else "running", "created_at": int(task.created),
            "updated_at": int(self._now()), "resolution": task.resolution, "ratio": "16:9", "duration": task.seconds,
            "framespersecond": 24, "service_tier": "default", "execution_expires_after": 172800, "seed": 4242,
        }  # fmt: skip
        if task.failed:
            answer["error"] = {"code": "InternalServiceError", "message": task.failed}
        elif done:
            tokens = self._tokens(task)
            answer |= {
                "content": {"video_url": self._url(task)},
                "usage": {"completion_tokens": tokens, "total_tokens": tokens},
            }
        return answer

    def _tokens(self, task: Task) -> int:
        width, height = SIZES[self._knobs.tokens_of or task.resolution]
        return width * height * (24 * task.seconds + 1) // 1024

    def _generations(self, task: Task, done: bool) -> dict[str, Any]:
        url = "" if not done or task.failed else self._url(task)
        data: dict[str, Any] = {
            "id": 91, "task_id": task.public, "platform": "54", "user_id": 812, "group": "default", "channel_id": 17,
            "quota": task.quota, "action": "generate", "status": "FAILURE" if task.failed else "SUCCESS" if done else "IN_PROGRESS",
            "fail_reason": task.failed, "result_url": url, "submit_time": int(task.created), "progress": "100%" if done else "50%",
            "properties": {"input": "", "upstream_model_name": self._knobs.upstream_model or self._model,
                           "origin_model_name": self._model},
        }  # fmt: skip
        if self._knobs.raw:
            data["data"] = self._native(task, done)
        return {"code": "success", "message": "", "data": data}

    def _videos(self, task: Task, done: bool) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "id": task.public, "task_id": task.public, "object": "video", "model": self._model,
            "status": "failed" if task.failed else "completed" if done else "in_progress", "progress": 100 if done else 40,
            "created_at": int(task.created), "seconds": str(task.seconds), "size": "864x496",
        }  # fmt: skip
        if task.failed:
            answer["error"] = {"message": task.failed, "code": "upstream_error"}
        elif done and self._knobs.store != "content_route":
            answer["metadata"] = {"url": self._url(task)}
        return answer

    def _film(self, task: Task) -> bytes:
        width, height = SIZES[self._knobs.delivers or task.resolution]
        return self._films(self._knobs.film, width, height, self._knobs.delivers_seconds or task.seconds)


def _ordered(body: dict[str, Any]) -> tuple[str, int]:
    """Resolution and length, wherever the route puts them."""
    extra = body.get("metadata") or body.get("parameters") or {}
    resolution = str(body.get("resolution") or extra.get("resolution") or "720p").lower()
    return resolution, int(body.get("duration") or extra.get("duration") or body.get("seconds") or 5)


def _compact(value: dict[str, float]) -> str:
    return "{" + ",".join(f'"{name}":{number!r}' for name, number in value.items()) + "}"
