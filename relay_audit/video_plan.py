"""Films to be ordered, one per tier, cheapest first; and what each of them may cost. Pure: no network, no clock.

A film is charged in full when it is ordered and given back later if it fails, so a tier's at-most is its whole price.
Only the first tier is quoted at once; each further one gets a quote of its own when the one before it came as quoted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic import JsonValue

from relay_audit.errors import ApprovalRefused, TargetError
from relay_audit.finding import Coverage
from relay_audit.pack import Pack
from relay_audit.plan import Plan, Step
from relay_audit.probe import Probe
from relay_audit.question import Question, values_of
from relay_audit.quote import VALID_FOR, Line, Quote, StepPrice, UnitPrice
from relay_audit.target import VideoTier
from relay_audit.video import VideoFormat, VideoOrder
from relay_audit.wording import Wording
from relay_audit.words import round_up

VIDEO_CHECKS = (4, 5, 6)
"""The checks of a video line: the others compare texts."""
FRAMES = 24
"""Per second: films of all vendors here."""
RESERVED = Decimal(250_000)
"""Tokens' worth that new-api reserves for a film it prices by tokens (`model_ratio / 2 × quota_per_unit`)."""
FACTOR_AT_MOST = Decimal(4)
"""A price per film or second may be multiplied by resolution; the steepest step of the lists that are known is 3.4."""


class Offer(NamedTuple):
    """What is known of the prices of a video line."""

    relay: UnitPrice | None
    """The buyer's own price of one film (`per_call`) or of a million video tokens (`output`); else the relay's list."""
    own: bool
    """Whether the relay's price is the buyer's own figure: then it is the price, and nothing multiplies it."""
    per_second: dict[str, Decimal]
    """The vendor's list by resolution, US dollars; `any` where the list makes no difference."""
    listed: UnitPrice | None
    """Where that list comes from: source and date."""
    ratio: Decimal
    """What a relay without a list is assumed to take, as a multiple of the vendor's: at least 1."""


def tiers_wanted(asked: tuple[VideoTier, ...], video: VideoFormat) -> tuple[VideoTier, ...]:
    """The target's tiers, cheapest first; without any, the lowest alone. Raises `TargetError`."""
    wanted = asked or (VideoTier(resolution=video.default_resolution, seconds=video.default_seconds),)
    for tier in wanted:
        if tier.resolution.lower() not in video.sizes:
            raise TargetError(
                f"video.tiers: this dialect has no resolution {tier.resolution}",
                next_step=f"one of: {', '.join(video.sizes)}; a vendor's own names come with --packs",
            )
    return tuple(sorted(dict.fromkeys(wanted), key=lambda tier: _weight(tier, video)))


def _weight(tier: VideoTier, video: VideoFormat) -> tuple[int, int]:
    size = video.sizes[tier.resolution.lower()]
    return size.width * size.height * tier.seconds, tier.seconds


def routes_for(pack: Pack, probes: tuple[Probe, ...]) -> tuple[Probe, ...]:
    """The ways in which this dialect's films can be ordered: the vendor's own first, then the one that shows most."""
    order = ("native", "generations", "videos")
    own = [probe for probe in probes if probe.task is not None and pack.dialect in probe.applies.dialects]
    return tuple(sorted(own, key=lambda p: order.index(p.task.route) if p.task and p.task.route in order else -1))


def make_video_plan(
    question: Question, pack: Pack, route: Probe | None, tiers: tuple[VideoTier, ...], wording: Wording, seed: int
) -> Plan:
    """One step per tier. Without a route, or where neither check 4 nor 5 was chosen, nothing is ordered."""
    wanted = tuple(check for check in question.checks or VIDEO_CHECKS if check in VIDEO_CHECKS)
    orders = bool({4, 5} & set(wanted)) and route is not None and not question.free_only
    steps = tuple(_step(question, pack, route, tier, wording) for tier in tiers) if orders and route else ()
    return Plan(
        dialect=question.dialect,
        model=question.model,
        official_model=question.official_model,
        profile=question.profile,
        checks=wanted if steps else (),
        seed=seed,
        counter=False,
        steps=steps,
        coverage=tuple(_left_out(question, wanted, ordered=bool(steps))),
    )


def _step(question: Question, pack: Pack, probe: Probe, tier: VideoTier, wording: Wording) -> Step:
    if probe.task is None or pack.video is None:
        raise ValueError(f"{probe.id} orders no film")
    size = pack.video.sizes[tier.resolution.lower()]
    order = VideoOrder(resolution=tier.resolution.lower(), seconds=tier.seconds, task=probe.task)
    request = probe.requests[0]
    named: dict[str, JsonValue] = {
        "$seconds": tier.seconds,
        "$seconds_text": str(tier.seconds),
        "$resolution": size.resolution,
        "$size": size.size,
        "$mode": size.mode,
    }
    name = f"{probe.id.replace('/', '.')}.{order.name}"
    body = wording.fill(request.body, values_of(question, {}) | named, name)
    return Step(
        id=name,
        probe=probe.id,
        request=order.name,
        side="relay",
        stage=probe.stage,
        cost="may_charge",
        path=request.path,
        body=_without_empty(body),
        bound=request.bound,
        factors={"resolution": order.resolution, "seconds": tier.seconds},
        headers=dict(probe.task.headers),
        order=order,
    )


def _without_empty(body: dict[str, Any]) -> dict[str, Any]:
    """A word that this vendor does not have is not sent."""
    return {
        key: _without_empty(value) if isinstance(value, dict) else value for key, value in body.items() if value != ""
    }


def _left_out(question: Question, wanted: tuple[int, ...], *, ordered: bool) -> Iterable[Coverage]:
    for check in range(1, 7):
        if check in (1, 2, 3):
            yield Coverage(check=check, state="not_applicable", reason="video_line")
        elif check not in wanted:
            yield Coverage(check=check, state="not_run", reason="not_chosen")
        elif question.free_only:
            yield Coverage(check=check, state="not_run", reason="free_only")
        elif not ordered:
            yield Coverage(check=check, state="not_run", reason="no_video_route")


def tokens_of(order: VideoOrder, video: VideoFormat) -> int:
    """Video tokens of a film: floor(w·h·(fps·seconds + 1) / 1024), exact on public samples of Seedance."""
    size = video.sizes[order.resolution]
    return size.width * size.height * (FRAMES * order.seconds + 1) // 1024


def quote_tiers(plan: Plan, video: VideoFormat, offer: Offer, now: dt.datetime) -> Quote:
    """The first tier's quote, and what the further ones are expected to cost. Raises `ApprovalRefused` without a price."""
    priced = [_priced(step, video, offer) for step in plan.steps if step.order is not None]
    return Quote(
        plan_digest=plan.digest,
        seed=plan.seed,
        lines=tuple(line for line, _ in priced[:1]),
        steps=tuple(price for _, price in priced[:1]),
        later=tuple(line for line, _ in priced[1:]),
        later_steps=tuple(price for _, price in priced[1:]),
        issued_at=now,
        expires_at=now + VALID_FOR,
        counted=False,
        needs_explicit_ceiling=any(line.unit_price is not None and line.unit_price.assumed for line, _ in priced),
    )


def next_tier(quote: Quote, now: dt.datetime) -> Quote | None:
    """The quote of what was ordered and of the tier that comes next; no approval of the one before covers it. None after
    the last."""
    if not quote.later:
        return None
    return quote.model_copy(
        update={
            "lines": (*quote.lines, quote.later[0]),
            "steps": (*quote.steps, quote.later_steps[0]),
            "later": quote.later[1:],
            "later_steps": quote.later_steps[1:],
            "issued_at": now,
            "expires_at": now + VALID_FOR,
        }
    )


def without_films(quote: Quote, plan: Plan, now: dt.datetime) -> Quote:
    """The quote of a plan that orders fewer films; what was ordered keeps its line, and the next one stands beside it."""
    ids, lines = {step.id for step in plan.steps}, {step.line for step in plan.steps}
    kept = [line for line in quote.lines if line.id in lines], [line for line in quote.later if line.id in lines]
    prices = [p for p in quote.steps if p.step in ids], [p for p in quote.later_steps if p.step in ids]
    fewer = quote.model_copy(
        update={
            "plan_digest": plan.digest, "lines": tuple(kept[0]), "steps": tuple(prices[0]), "later": tuple(kept[1]),
            "later_steps": tuple(prices[1]), "issued_at": now, "expires_at": now + VALID_FOR,
        }
    )  # fmt: skip
    return fewer if fewer.lines else next_tier(fewer, now) or fewer


def _priced(step: Step, video: VideoFormat, offer: Offer) -> tuple[Line, StepPrice]:
    expected, at_most, unit = _cost(step, video, offer)
    price = StepPrice(
        step=step.id, input_tokens=0, expected=round_up(expected), at_most=round_up(at_most), hold=round_up(at_most)
    )
    line = Line(
        id=step.line, probe=step.probe, side="relay", count=1, unit_price=unit, expected=price.expected,
        at_most=price.at_most, hold=price.hold, stage=step.stage,
    )  # fmt: skip
    return line, price


def _cost(step: Step, video: VideoFormat, offer: Offer) -> tuple[Decimal, Decimal, UnitPrice]:
    """Expected, at most, and the price of this film with its source."""
    order, relay = step.order, offer.relay
    if order is None:
        raise ValueError(f"{step.id} orders no film")
    if relay is not None and relay.per_call is not None:
        # A list's price may be of a film or of a second, times the resolution: which, the relay says when it charges.
        factor = 1 if order.resolution == video.default_resolution else FACTOR_AT_MOST
        steep = 1 if offer.own else order.seconds * factor
        return relay.per_call, relay.per_call * steep, relay
    if relay is not None:
        rate = relay.output if offer.own else relay.input  # a task has no completion ratio
        cost = tokens_of(order, video) * rate / 1_000_000
        return cost, max(2 * cost, rate * RESERVED / 1_000_000), relay.model_copy(update={"per_call": cost})
    second = offer.per_second.get(order.resolution, offer.per_second.get("any"))
    if second is None or offer.listed is None:
        raise ApprovalRefused(
            f"no price is known for {step.body.get('model', 'this model')} at {order.resolution}, neither published nor in "
            "the official list",
            next_step="give one in a price file: --prices FILE (per_call = the price of one film); nothing was sent",
        )
    cost = second * order.seconds * offer.ratio
    return cost, 2 * cost, offer.listed.model_copy(update={"per_call": cost, "assumed": True})
