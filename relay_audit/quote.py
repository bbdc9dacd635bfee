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
from relay_audit.words import Frozen, Side, digest, money, round_up

ApprovalChannel = Literal["terminal", "flag", "file", "ci", "agent"]
MILLION = Decimal(1_000_000)
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
    """True where the input tokens are the official counts of these very bodies."""
    needs_explicit_ceiling: bool

    @property
    def expected(self) -> Decimal:
        return sum((line.expected for line in self.lines), Decimal(0))

    @property
    def at_most(self) -> Decimal:
        return sum((line.at_most for line in self.lines), Decimal(0))

    @property
    def hold(self) -> Decimal:
        return max((line.hold for line in self.lines), default=Decimal(0))

    @property
    def digest(self) -> str:
        """`quote_digest`: plan, seed, prices and expiry."""
        return digest(self.model_dump(mode="json"))

    def line_of(self, step: Step) -> Line | None:
        return next((line for line in self.lines if line.probe == step.probe and line.side == step.side), None)

    def price_of(self, step_id: str) -> StepPrice | None:
        return next((price for price in self.steps if price.step == step_id), None)

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


def make_quote(
    plan: Plan, relay: UnitPrice | None, counts: dict[str, int], hold_min_input: int, now: dt.datetime
) -> Quote:
    """Prices every step. `counts` holds official counts by relay step id. A plan that charges needs a relay price:
    without one this fails closed with `ApprovalRefused`."""
    chargeable = plan.chargeable()
    if chargeable and relay is None:
        raise ApprovalRefused(
            f"no price is known for {plan.model}, neither from the relay nor from the official list",
            next_step="give one in a price file: --prices FILE (see README, “Prices”); nothing was sent",
        )
    steps = tuple(price_step(step, relay, counts.get(step.id), hold_min_input) for step in chargeable if relay)
    lines = [_line(plan, probe, relay, steps) for probe in dict.fromkeys(step.probe for step in chargeable)]
    for probe in dict.fromkeys(step.probe for step in plan.steps if step.side == "official"):
        number = sum(step.probe == probe and step.side == "official" for step in plan.steps)
        zero = Decimal(0)
        lines.append(
            Line(id=f"{probe}@official", probe=probe, side="official", count=number, unit_price=None,
                 expected=zero, at_most=zero, hold=zero)
        )  # fmt: skip
    return Quote(
        plan_digest=plan.digest,
        seed=plan.seed,
        lines=tuple(lines),
        steps=steps,
        issued_at=now,
        expires_at=now + VALID_FOR,
        counted=bool(steps) and all(step.id in counts for step in chargeable),
        needs_explicit_ceiling=bool(relay and relay.assumed),
    )


def price_step(step: Step, price: UnitPrice, counted: int | None, hold_min_input: int) -> StepPrice:
    """Expected, at most and hold of one sending."""
    if step.bound is None:
        raise ValueError(f"{step.id} may charge and has no bound")
    tokens = counted if counted is not None else step.estimate
    limit = _own_limit(step) or step.bound.output_tokens
    if price.per_call is not None:
        fixed = round_up(price.per_call)
        return StepPrice(step=step.id, input_tokens=tokens, expected=fixed, at_most=fixed, hold=fixed)
    expected = (tokens * price.input + min(step.bound.expected_output_tokens, limit) * price.output) / MILLION
    at_most = ((tokens + step.bound.input_tokens) * _dearest_input(price) + limit * price.output) / MILLION
    hold = (max(tokens, hold_min_input) + limit) * price.input / MILLION if hold_min_input else Decimal(0)
    return StepPrice(
        step=step.id, input_tokens=tokens, expected=round_up(expected), at_most=round_up(at_most), hold=round_up(hold)
    )


def charge_of(usage: dict[str, int], price: UnitPrice) -> Decimal:
    """What a usage costs at a price. Keys: input (uncached), cache_read, cache_write_5m, cache_write_1h, output."""
    if price.per_call is not None:
        return price.per_call
    rates = {
        "input": price.input,
        "output": price.output,
        "cache_read": _or(price.cache_read, price.input),
        "cache_write_5m": _or(price.cache_write_5m, price.input * Decimal("1.25")),
        "cache_write_1h": _or(price.cache_write_1h, price.input * 2),
    }
    return sum((usage.get(kind, 0) * rate for kind, rate in rates.items()), Decimal(0)) / MILLION


def _or(value: Decimal | None, default: Decimal) -> Decimal:
    return default if value is None else value


def _dearest_input(price: UnitPrice) -> Decimal:
    """A hidden prompt may be written to a cache, at the dearest input rate there is."""
    return max(price.input, _or(price.cache_write_5m, price.input * Decimal("1.25")))


def _own_limit(step: Step) -> int | None:
    value = step.body.get("max_tokens")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _line(plan: Plan, probe: str, price: UnitPrice | None, steps: tuple[StepPrice, ...]) -> Line:
    own = {step.id: step for step in plan.chargeable() if step.probe == probe}
    prices = [item for item in steps if item.step in own]
    expected = sum((item.expected for item in prices), Decimal(0))
    dearest = max((item.at_most for item in prices), default=Decimal(0))
    room = Decimal(0)
    if price is not None and price.per_call is None:
        surplus = sum(step.bound.surplus_each for step in own.values() if step.bound) * (len(own) - 1)
        room = round_up(Decimal(surplus) / max(len(own), 1) * _dearest_input(price) / MILLION)
    return Line(
        id=f"{probe}@relay",
        probe=probe,
        side="relay",
        count=len(prices),
        unit_price=price,
        expected=expected,
        at_most=expected + dearest + room,
        hold=max((item.hold for item in prices), default=Decimal(0)),
    )
