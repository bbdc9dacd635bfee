"""A run of free questions to the vendor alone: what its own key can learn for forty relays, at no cost.

No quote and no approval: nothing that may charge is planned. A refusal that the vendor turns out to take is not sent
again.
"""

from __future__ import annotations

import random

from relay_audit.books import SiteFacts
from relay_audit.calibration import free_part
from relay_audit.discovery import plan_for
from relay_audit.errors import Unfinished, key_refused
from relay_audit.exchange import Exchange
from relay_audit.free_questions import Sides, ask_official
from relay_audit.plan import Step
from relay_audit.planning import Knowing
from relay_audit.recorder import Recorder


async def record_baselines(recorder: Recorder, sides: Sides, knowing: Knowing) -> tuple[str, ...]:
    """Asks, and completes the run. Returns the cases that the vendor took instead of refusing them; raises `KeyRefused`
    and `Unfinished` where it cannot be asked at all."""
    counter = recorder.history.pack.counter is not None
    seed = random.SystemRandom().randrange(2**53)
    plan = free_part(plan_for(recorder, knowing, SiteFacts(), seed, counter=counter, free_only=False))
    recorder.note("plan.created", {"plan_digest": plan.digest, "steps": len(plan.steps)}, recorder.blob(plan))
    recorder.state("running")
    taken: dict[str, Step] = {}
    for index, step in enumerate(plan.steps):
        if step.case in taken:
            continue
        exchange = await ask_official(recorder, sides, step, step.id)
        if index == 0:
            _can_be_asked(recorder, step, exchange)
        if step.refusal and exchange.status == 200:
            taken[step.case] = step
        sides.notify("step", {"step": step.id, "side": "official"})
    recorder.note("run.completed", {"stopped": ""})
    return tuple(taken)


def _can_be_asked(recorder: Recorder, step: Step, exchange: Exchange) -> None:
    """The first answer decides whether there will be others."""
    if exchange.status == 401 and step.key == "own":
        recorder.note("run.failed", {"stopped": "key_refused"})
        raise key_refused(recorder.history.target.relay.key_env, "official")
    if exchange.delivery != "answered":
        recorder.note("run.failed", {"stopped": "unreachable", "failure": exchange.failure})
        raise Unfinished(
            f"the official side does not answer ({exchange.failure}); nothing was spent",
            next_step="check official.base_url, your network or official.proxy, then try again",
        )
