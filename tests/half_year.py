"""Half a year of nights on one line, as the CI of a buyer lives them: one target file with its reviewed ceilings, one watch
file, one folder of runs, and each night a relay of its own kind. What runs is the command's own path; the network and the
clock are the lab's.

`python -m tests.half_year SEED` prints the nights on which something was said.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from relay_audit import audit, judgement
from relay_audit.allowance import Allowance
from relay_audit.cli import flow
from relay_audit.cli.course import run_targets
from relay_audit.cli.flow import Invocation
from relay_audit.cli.nightly import Night
from relay_audit.connect import connect
from relay_audit.lab import World
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.scenario import Scenario
from relay_audit.lab.scenarios import SCENARIOS
from relay_audit.runs import runs_in
from relay_audit.workspace import Workspace
from tests.audits import OFFICIAL, RELAY, Door, TestClock, target_for

FIRST = dt.datetime(2026, 6, 1, 3, tzinfo=dt.UTC)
NIGHTS = 180
ODD = ("honest_template_4", "honest_accounts", "honest_slow", "honest_dated_name", "honest_log_late", "honest_foreign_rows",
       "honest_usage_extras", "honest_rewritten_chinese_errors", "honest_flaky_25", "honest_rebuilt_streams",
       "official_incident", "official_down", "unreachable")  # fmt: skip
"""What an honest line does now and then: drift, rotation, failures, an incident at the vendor, a night without an answer."""
KEPT_RUNS = 4
NEWS = """
[[headers]]
id = "news.another_channel"
channels = ["aws"]
all_of = ["x-oneapi-request-id"]
strength = "strong"
meaning.en = "A row that came with newer knowledge and says something else of the same answers."
meaning."zh-CN" = "新版知识里的一行，对同样的回答另有说法。"
observed = 2026-08-01
source = "half a year of nights"
term_days = 365
level = "measured"
"""
"""Newer knowledge that accuses what was there all along: said, and nobody's fault at night."""
PRICES = """
[[price]]
side = "relay"
models = ["claude-sonnet-5-5"]
input = "{input}"
output = "15"
source = "contract"
observed = 2026-05-30
"""


@dataclass(frozen=True)
class Story:
    """What happens in half a year besides odd nights; days are counted from 0."""

    seed: int = 7
    worse: int = 120
    """From this night on the line is degraded, for good."""
    degraded: Knobs = field(default_factory=lambda: Knobs(hidden=508))
    dearer: int = 40
    """The contract's price goes up."""
    newer: int = 70
    """Another version of this program, with more knowledge."""
    odd_share: float = 0.3
    per_night: str = "0.60"
    per_month: str = "3"


@dataclass
class HalfYear:
    issues: list[tuple[int, str]] = field(default_factory=list)
    """(night, open or close)."""
    codes: list[int] = field(default_factory=list)
    nights: list[dict[str, Any]] = field(default_factory=list)
    """The last JSON object of each night, with its scenario's name."""
    dearest_month: Decimal = Decimal(0)
    """The most that thirty days in a row came to."""


class Unreachable(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody listens", request=request)


def scenario_of(story: Story, day: int, rng: random.Random) -> Scenario:
    """Tonight's line: honest or odd, and from the day on which it gets worse with the same fault on top."""
    tonight = SCENARIOS[rng.choice(ODD) if rng.random() < story.odd_share else "honest"]
    if day < story.worse or tonight.name == "unreachable":
        return tonight
    fault = {name: value for name, value in vars(story.degraded).items() if value != getattr(Knobs(), name)}
    return replace(tonight, name=f"{tonight.name}+worse", knobs=replace(tonight.knobs, **fault))


def live(
    story: Story, home: Path, told: Callable[[int, dict[str, Any]], None] = lambda *_: None, nights: int = NIGHTS
) -> HalfYear:
    """Every night in turn. The files between two nights are the product's own."""
    rng, result = random.Random(story.seed), HalfYear()
    space = Workspace(home / "audits", home / "state", home / "config")
    knowledge = home / "knowledge"
    knowledge.mkdir(parents=True)
    for day in range(nights):
        clock = TestClock(FIRST + dt.timedelta(days=day, minutes=rng.randrange(600)))
        world = World(scenario_of(story, day, rng), story.seed * 1000 + day, clock.unix)
        if day == story.newer:
            (knowledge / "news.toml").write_text(NEWS, "utf-8")
        (home / "prices.toml").write_text(PRICES.format(input="3" if day < story.dearer else "4"), "utf-8")
        call = Invocation(
            lang="en", as_json=True, no_input=True, prices=home / "prices.toml", allow_inconclusive=True, clock=clock,
            environ={"LAB_RELAY_KEY": world.relay_key, "LAB_OFFICIAL_KEY": world.official_key, "CI": "true"},
            space=space, night=Night(watch=home / "watch.json"), knowledge=knowledge,
        )  # fmt: skip
        version = "0.1.0" if day < story.newer else "0.2.0"
        code, said = night(story, world, clock, call, version)
        said["scenario"] = world.scenario.name
        result.codes.append(code)
        result.nights.append(said)
        if (action := said["night"]["issue"]["action"]) in ("open", "close"):
            result.issues.append((day, action))
        spent = Allowance(space.spending, Decimal(story.per_month))
        month = Decimal(story.per_month) - (spent.room("", clock.now()) or Decimal(0))
        result.dearest_month = max(result.dearest_month, month)
        told(day, said)
        for old in runs_in(space.audits)[KEPT_RUNS:]:
            shutil.rmtree(old)
    return result


def night(story: Story, world: World, clock: TestClock, call: Invocation, version: str) -> tuple[int, dict[str, Any]]:
    """One invocation, with a way out into the lab: exit code and the last object on stdout."""
    target = target_for(world, RELAY, OFFICIAL, checks=(1, 2, 6), profile="quick")
    budget = {"max_usd": Decimal(story.per_night), "max_usd_per_30_days": Decimal(story.per_month)}
    target = target.model_copy(update={"budget": target.budget.model_copy(update=budget)})
    gone = world.knobs.hostile == "unreachable"

    def inner(endpoint: Any) -> httpx.AsyncBaseTransport:
        return Unreachable() if gone and endpoint.side == "relay" else Door(world, endpoint.side, clock)

    out = io.StringIO()
    with (
        patch.object(flow, "connect", partial(connect, inner=inner)),
        patch.object(audit, "__version__", version),
        patch.object(judgement, "__version__", version),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        code = run_targets([target], call)
    return code, json.loads(out.getvalue().splitlines()[-1])


def _show(day: int, said: dict[str, Any]) -> None:
    tonight = said["night"]
    if tonight["state"] != "clean" or tonight["issue"]["action"] != "none":
        shown = {name: tonight[name] for name in ("state", "confirmed", "unconfirmed", "others", "repeat")}
        sys.stdout.write(f"{day} {said['scenario']} {tonight['issue']['action']} {shown} {said.get('error', '')}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp())
    try:
        lived = live(Story(seed=int(sys.argv[1])), place, _show)
        failed = sum(map(bool, lived.codes))
        sys.stdout.write(f"{lived.issues}, dearest month {lived.dearest_month}, {failed} nights failed\n")
    finally:
        shutil.rmtree(place)
