"""A plan gets its price: expected, at most and hold per line. Only a quote can be approved.

Rules (architecture, rule 3): expected is what an honest hop charges; at most is expected plus the dearest single step,
plus the room a hidden prompt of a known size would take in every other step, so that the commonest fault is measured
inside the approved amount; hold is what the relay may reserve for a moment and is never counted against the ceiling.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from pydantic import Field

from relay_audit.errors import ApprovalRefused
from relay_audit.plan import Plan, Step
from relay_audit.probe import Stage
from relay_audit.words import Frozen, Side, canonical, digest, money, round_up

ApprovalChannel = Literal["terminal", "flag", "file", "ci", "agent"]
MILLION = Decimal(1_000_000)
OFFICIAL_ROOM = 200
"""Input tokens by which a vendor's own bill may pass our estimate of a body; nobody adds a prompt there."""
VALID_FOR = dt.timedelta(hours=24)


class UnitPrice(Frozen):
    """Price per million tokens, and who says so."""

    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    cache_read: Decimal | None = None
    per_call: Decimal | None = None
    """A fixed price per request, which then replaces the token prices."""
    currency: str = "USD"
    """`USD` also for a relay's site dollars: what the site calls a dollar, unconverted."""
    source: str
    observed: dt.date
    assumed: bool = False
    """No price list was found: the official list times max(1, claimed ratio), and an explicit ceiling is needed."""


class StepPrice(Frozen):
    step: str
    input_tokens: int
    """Official count, or our estimate."""
    expected: Decimal
    at_most: Decimal
    hold: Decimal


class Line(Frozen):
    """One probe on one side."""

    id: str
    probe: str
    side: Side
    count: int
    unit_price: UnitPrice | None
    """None where the vendor documents the request as free."""
    expected: Decimal
    at_most: Decimal
    hold: Decimal
    """The largest reserve of a single step: steps go one at a time."""
    stage: Stage = "probe"
    dearest: Decimal = Decimal(0)
    """The at-most of its dearest single step; for refusals, of the dearest step of each lane: one of each may stand open."""


@dataclass(frozen=True)
class Approval:
    """Leave to spend. Made only by `Quote.approve`; a paid send without one has no spelling."""

    quote_digest: str
    ceiling: Decimal
    approver: str
    channel: ApprovalChannel
    at: dt.datetime
    expires_at: dt.datetime
    seal: object

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise TypeError("an approval is made by Quote.approve")


_SEAL = object()


class Quote(Frozen):
    plan_digest: str
    seed: int
    currency: str = "USD"
    lines: tuple[Line, ...]
    steps: tuple[StepPrice, ...]
    issued_at: dt.datetime
    expires_at: dt.datetime
    counted: bool
    """True where the input tokens are the official counts of these very bodies; what the vendor refuses is not counted."""
    counted_in_part: bool = False
    """True where only some of the bodies were counted; the others' tokens are our own upper estimate."""
    needs_explicit_ceiling: bool
    later: tuple[Line, ...] = ()
    """Further films, one per tier: shown, not part of this approval. Each gets a quote of its own when its turn comes."""
    later_steps: tuple[StepPrice, ...] = ()

    @property
    def expected(self) -> Decimal:
        return sum((line.expected for line in self.lines), Decimal(0))

    @property
    def at_most(self) -> Decimal:
        """Per stage and side: what is expected, the room for a hidden prompt, and the dearest single step once; a stage
        goes one step at a time and stops at the first that exceeds its line. Each lane of refusals is a stage of its own."""
        dearest: dict[tuple[str, str], Decimal] = {}
        for line in self.lines:
            place = (line.side, line.stage if line.stage == "probe" else line.id)
            dearest[place] = max(dearest.get(place, Decimal(0)), line.dearest)
        return sum((line.at_most - line.dearest for line in self.lines), Decimal(0)) + sum(dearest.values(), Decimal(0))

    @property
    def hold(self) -> Decimal:
        return max((line.hold for line in self.lines), default=Decimal(0))

    @property
    def digest(self) -> str:
        """`quote_digest`: plan, seed, prices and expiry."""
        return digest(self.model_dump(mode="json"))

    def input_cost(self, tokens: int) -> Decimal | None:
        """What so many input tokens cost at the quoted price; None where no price is known."""
        price = next((line.unit_price for line in self.lines if line.unit_price), None)
        return None if price is None else tokens * price.input / MILLION

    def line_of(self, step: Step) -> Line | None:
        return next((line for line in self.lines if line.id == step.line), None)

    def price_of(self, step_id: str) -> StepPrice | None:
        return next((price for price in self.steps if price.step == step_id), None)

    def covers(self, other: Quote) -> bool:
        """Whether an approval of this quote holds for another one of the same run: every line of the other is a line of
        this one and at most as dear."""
        own = {line.id: line for line in self.lines}
        same = (self.seed, self.currency) == (other.seed, other.currency)
        cheaper = all(line.id in own and line.at_most <= own[line.id].at_most for line in other.lines)
        return same and cheaper and other.at_most <= self.at_most

    def approve(
        self, quote_digest: str, ceiling: Decimal, *, approver: str, channel: ApprovalChannel, at: dt.datetime
    ) -> Approval:
        """Binds a ceiling to this very quote. Raises `ApprovalRefused` for a digest of another quote, an expired quote,
        or a ceiling below its at-most."""
        if quote_digest != self.digest:
            raise ApprovalRefused(
                "this digest is not the current quote's",
                next_step=f"the current quote is {self.digest}; look at it again before approving",
                details={"current_digest": self.digest},
            )
        if at >= self.expires_at:
            raise ApprovalRefused("the quote has expired", next_step="run again for a fresh quote; nothing was spent")
        if ceiling < self.at_most:
            raise ApprovalRefused(
                f"the ceiling {money(ceiling)} is below the quote's at-most {money(self.at_most)}",
                next_step="approve at least the at-most, or make the plan smaller (--checks, --profile quick)",
                details={"quoted_at_most": money(self.at_most)},
            )
        return Approval(quote_digest, ceiling, approver, channel, at, self.expires_at, _SEAL)


class Prices(Frozen):
    """The unit prices of both sides, and what the relay's software is known to do with a body."""

    relay: UnitPrice | None
    official: UnitPrice | None = None
    hold_min_input: int = 0
    """Input tokens reserved at least; 0 where no hold is known."""
    fill: int = 0
    """The largest output limit that the software fills in or clamps to; the model's own where the software is unknown."""


def make_quote(plan: Plan, prices: Prices, counts: dict[str, int], now: dt.datetime) -> Quote:
    """Prices every step. `counts` holds official counts by relay step id. A plan that charges needs a price on that
    side: without one this fails closed with `ApprovalRefused`."""
    priced: list[StepPrice] = []
    lines: list[Line] = []
    sides: tuple[tuple[Side, UnitPrice | None], ...] = (("relay", prices.relay), ("official", prices.official))
    for side, price in sides:
        chargeable = plan.chargeable(side)
        if chargeable and price is None:
            raise ApprovalRefused(
                f"no price is known for {plan.model} on the {side} side, neither published nor in the official list",
                next_step="give one in a price file: --prices FILE (see README, “Prices”); nothing was sent",
            )
        own = tuple(price_step(step, price, counts.get(step.id), prices) for step in chargeable if price)
        priced += own
        lines += [
            _line(plan, probe, side, price, own)
            for probe in dict.fromkeys(step.probe for step in plan.steps if step.side == side)
        ]
    charged = [step for step in plan.chargeable() if not step.refusal]
    return Quote(
        plan_digest=plan.digest,
        seed=plan.seed,
        lines=tuple(lines),
        steps=tuple(priced),
        issued_at=now,
        expires_at=now + VALID_FOR,
        counted=bool(charged) and all(step.id in counts for step in charged),
        counted_in_part=0 < sum(step.id in counts for step in charged) < len(charged),
        needs_explicit_ceiling=bool(prices.relay and prices.relay.assumed),
    )


def price_step(step: Step, price: UnitPrice, counted: int | None, prices: Prices) -> StepPrice:
    """Expected, at most and hold of one sending. A refusal is expected to cost nothing; at most it is answered in full."""
    if step.bound is None:
        raise ValueError(f"{step.id} may charge and has no bound")
    tokens = counted if counted is not None else step.estimate
    own = _own_limit(step)
    limit = max(prices.fill, step.bound.output_tokens) if step.unbounded else own or step.bound.output_tokens
    limit *= _answers(step)
    if price.per_call is not None:
        fixed = round_up(price.per_call)
        expected = Decimal(0) if step.refusal else fixed
        return StepPrice(step=step.id, input_tokens=tokens, expected=expected, at_most=fixed, hold=fixed)
    rate = _dearest_input(price) if b'"cache_control"' in canonical(step.body) else price.input
    usual = (tokens * rate + min(step.bound.expected_output_tokens, limit) * price.output) / MILLION
    room = step.bound.input_tokens if step.side == "relay" else OFFICIAL_ROOM
    at_most = ((tokens + room) * _dearest_input(price) + limit * price.output) / MILLION
    reserved = max(tokens, prices.hold_min_input) + (own or limit)
    hold = reserved * price.input / MILLION if prices.hold_min_input and step.side == "relay" else Decimal(0)
    expected = Decimal(0) if step.refusal else usual
    return StepPrice(
        step=step.id, input_tokens=tokens, expected=round_up(expected), at_most=round_up(at_most), hold=round_up(hold)
    )


def charge_of(usage: dict[str, int], price: UnitPrice) -> Decimal:
    """What a usage costs at a price. Keys: input (uncached), cache_read, cache_write_5m, cache_write_1h, output."""
    if price.per_call is not None:
        return price.per_call
    return sum((usage.get(kind, 0) * rate for kind, rate in _rates(price).items()), Decimal(0)) / MILLION


def _rates(price: UnitPrice) -> dict[str, Decimal]:
    return {
        "input": price.input,
        "output": price.output,
        "cache_read": _or(price.cache_read, price.input),
        "cache_write_5m": _or(price.cache_write_5m, price.input * Decimal("1.25")),
        "cache_write_1h": _or(price.cache_write_1h, price.input * 2),
    }


def _or(value: Decimal | None, default: Decimal) -> Decimal:
    return default if value is None else value


def _dearest_input(price: UnitPrice) -> Decimal:
    """A hidden prompt may be written to a cache, for an hour too: the dearest input rate there is."""
    return max(price.input, *(rate for kind, rate in _rates(price).items() if kind != "output"))


LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Where a body may bound its own output, by dialect."""


def _own_limit(step: Step) -> int | None:
    if step.output_limit:
        return step.output_limit
    for name in LIMITS:
        value = step.body.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _answers(step: Step) -> int:
    """How many answers a body asks for at once, each with the whole limit to itself."""
    value = step.body.get("n", 1)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 1 else 1


def _dearest(own: dict[str, Step], prices: list[StepPrice]) -> Decimal:
    """The dearest step, or the dearest refusal of each lane and the dearest of the other steps."""
    lanes: dict[str, Decimal] = {}
    for item in prices:
        lane = own[item.step].lane if own[item.step].refusal else ""
        lanes[lane] = max(lanes.get(lane, Decimal(0)), item.at_most)
    return sum(lanes.values(), Decimal(0))


def _line(plan: Plan, probe: str, side: Side, price: UnitPrice | None, steps: tuple[StepPrice, ...]) -> Line:
    """One probe on one side. Requests that the vendor documents as free are counted and cost nothing."""
    all_ = [step for step in plan.steps if step.probe == probe and step.side == side]
    own = {step.id: step for step in all_ if step.cost == "may_charge"}
    prices = [item for item in steps if item.step in own]
    expected = sum((item.expected for item in prices), Decimal(0))
    dearest = _dearest(own, prices)
    room = Decimal(0)
    if price is not None and price.per_call is None and own:
        surplus = sum(step.bound.surplus_each for step in own.values() if step.bound and side == "relay") * (
            len(own) - 1
        )
        room = round_up(Decimal(surplus) / len(own) * price.input / MILLION)
    return Line(
        id=f"{probe}@{side}",
        probe=probe,
        side=side,
        count=len(all_),
        unit_price=price if own else None,
        expected=expected,
        at_most=expected + dearest + room,
        hold=max((item.hold for item in prices), default=Decimal(0)),
        stage=all_[0].stage if all_ else "probe",
        dearest=dearest,
    )
