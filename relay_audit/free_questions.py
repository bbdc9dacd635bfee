"""Questions that cost nothing, and the ways out by which everything is sent. Each answer is recorded after the fact."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from relay_audit.clock import Clock
from relay_audit.exchange import Exchange
from relay_audit.plan import Step
from relay_audit.recorder import Recorder
from relay_audit.redaction import Secret
from relay_audit.target import origin_of
from relay_audit.transport import Endpoint, Outgoing, Transport

FREE_ATTEMPTS = 3
"""A free request may be asked again after a passing fault; each attempt is recorded."""
OFFICIAL_AT_ONCE = 6
"""Free questions in flight at the vendor: its limit is per minute, and a buyer's other work goes on. Each has a connection
of its own, and a small server or proxy has room for six that it has not accepted yet; the seventh waits a whole second."""
LONGEST_WAIT_S = 5
PASSING = (408, 425, 429, 500, 502, 503, 504, 529)

Notify = Callable[[str, dict[str, object]], None]


@dataclass
class Sides:
    """The ways out of a run: one transport, at most two endpoints."""

    transport: Transport
    clock: Clock
    relay: Endpoint
    official: Endpoint | None
    notify: Notify


async def ask_free(
    recorder: Recorder, sides: Sides, endpoint: Endpoint, outgoing: Outgoing, name: str, *, once: bool = False
) -> Exchange:
    """A free request, asked again a bounded number of times after a passing fault. `once`: not where it may have been
    delivered; a refusal is free only as long as it is refused."""
    for attempt in range(1, FREE_ATTEMPTS + 1):
        exchange = recorder.free(await sides.transport.send(endpoint, outgoing), name, endpoint.side)
        passing = exchange.status in PASSING or (
            exchange.delivery != "answered" and exchange.failure not in ("tls", "dns")
        )
        lost = exchange.failure.startswith("timeout") or (once and exchange.delivery == "unconfirmed")
        if not passing or lost or attempt == FREE_ATTEMPTS:
            return exchange
        await sides.clock.sleep(max(0.5 * attempt, _asked_to_wait(exchange)))
    raise AssertionError("unreachable")  # pragma: no cover


def _asked_to_wait(exchange: Exchange) -> float:
    """Seconds that the answer asks for, where they are few; a limit of minutes is not waited out."""
    told = (exchange.response.header("retry-after") if exchange.response else None) or ""
    return float(told) if told.isascii() and told.isdigit() and int(told) <= LONGEST_WAIT_S else 0.0


async def ask_official(recorder: Recorder, sides: Sides, step: Step, name: str) -> Exchange:
    """One free question to the official side. Raises ValueError where the run has none."""
    if sides.official is None:
        raise ValueError("no official side")
    outgoing = Outgoing("POST", step.path, step.body)
    return await ask_free(recorder, sides, way(sides.official, step), outgoing, name, once=bool(step.mirrors))


async def ask_officials(recorder: Recorder, sides: Sides, steps: list[tuple[Step, str]]) -> list[Exchange]:
    """Free questions to the official side, a few at a time, answers in the order of the questions."""
    turnstile = asyncio.Semaphore(OFFICIAL_AT_ONCE)

    async def one(step: Step, name: str) -> Exchange:
        async with turnstile:
            exchange = await ask_official(recorder, sides, step, name)
        sides.notify("step", {"step": name, "side": "official"})
        return exchange

    return list(await asyncio.gather(*(one(step, name) for step, name in steps)))


def way(endpoint: Endpoint, step: Step) -> Endpoint:
    """The endpoint as this step uses it: a header left out, or a key that was never anybody's."""
    endpoint = replace(endpoint, user_agent=endpoint.user_agent or step.user_agent)
    if not step.headers and step.key == "own":
        return endpoint
    headers = {name: value for name, value in {**endpoint.headers, **step.headers}.items() if value}
    made_up = Secret(f"made-up-key-{step.id[-8:]}-0000", name="made_up", origin=origin_of(endpoint.base_url))
    return replace(endpoint, headers=headers, secret=made_up if step.key == "made_up" else endpoint.secret)
