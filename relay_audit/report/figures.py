"""The figures of a report, each computed from recorded facts and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.finding import Finding, Money
from relay_audit.fingerprint import Knowledge, ListPrice
from relay_audit.multiple import BOOKS, from_books
from relay_audit.quote import UnitPrice
from relay_audit.usage import read_usage
from relay_audit.words import round_up

CALL_SIZES = (1_000, 10_000, 100_000)
"""Input tokens of a call for which the real price is shown."""


@dataclass(frozen=True)
class RealCost:
    """What a million input tokens of the buyer's own really cost at one size of call."""

    tokens_per_call: int
    factor: Decimal
    price: Decimal | None
    """In quote currency per million; None where no price is known."""


@dataclass(frozen=True)
class Surplus:
    """How a finding changes the input that is billed: `slope × own + offset`."""

    finding: str
    slope: Decimal
    offset: int

    def factor(self, own: int) -> Decimal:
        """By how much a call with so many input tokens of the buyer's own is dearer."""
        return self.slope + Decimal(self.offset) / own


@dataclass(frozen=True)
class Conduct:
    """How many requests of which kind, and over how long."""

    generation: int
    counting: int
    reading: int
    official_reading: int
    unsent: int
    """Chargeable steps of the plan that never left."""
    seconds: int

    @property
    def both_sides(self) -> bool:
        """Whether the vendor was asked anything: of films, and without a key, it is only known by record."""
        return self.counting + self.official_reading > 0


def money_of(evidence: Evidence) -> Money:
    """Quoted, approved and charged, from quote, approval and ledger."""
    quote, approval, ledger = evidence.quote, evidence.approval, evidence.ledger
    settled = [entry for entry in ledger.entries if entry.state == "settled" and entry.side == "relay"]
    return Money(
        currency=quote.currency if quote else "USD",
        quoted_expected=quote.expected if quote else Decimal(0),
        quoted_at_most=quote.at_most if quote else Decimal(0),
        hold=quote.hold if quote else Decimal(0),
        approved=approval.ceiling if approval else None,
        charged_relay=ledger.total("settled", "relay"),
        charged_official=ledger.total("settled", "official"),
        unconfirmed=ledger.total("unconfirmed"),
        basis=(BOOKS if from_books(settled) else "usage_at_quoted_price") if settled else "",
    )


def relay_price(evidence: Evidence) -> UnitPrice | None:
    """The price the quote was made with."""
    lines = evidence.quote.lines if evidence.quote else ()
    return next((line.unit_price for line in lines if line.side == "relay" and line.unit_price), None)


def surplus_of(findings: Iterable[Finding]) -> Surplus | None:
    """The heaviest surplus that a difference was found in; None where input is billed as counted."""
    found = [s for f in findings if f.outcome == "mismatch" and f.above_info and (s := _surplus(f)) is not None]
    return max(found, key=lambda s: s.slope * CALL_SIZES[0] + s.offset, default=None)


def list_price(knowledge: Knowledge, evidence: Evidence) -> ListPrice | None:
    """The vendor's own price of the model on the day of the run."""
    return knowledge.price_of(evidence.target.official_model, evidence.started_at.date())


def real_costs(evidence: Evidence, surplus: Surplus, sizes: tuple[int, ...] = CALL_SIZES) -> tuple[RealCost, ...]:
    price = relay_price(evidence)
    per_million = price.input if price is not None and price.per_call is None else None
    rows = []
    for own in sizes:
        factor = surplus.factor(own)
        rows.append(RealCost(own, factor, round_up(per_million * factor, 4) if per_million is not None else None))
    return tuple(rows)


def conduct_of(evidence: Evidence) -> Conduct:
    chargeable = {step.id for step in evidence.plan.chargeable()} if evidence.plan else set()
    sent = [e for e in evidence.exchanges if e.delivery != "not_sent"]
    generation = [e for e in sent if e.side == "relay" and e.step in chargeable]
    counter = evidence.pack.counter.path if evidence.pack.counter else ""
    counting = sum(e.side == "official" and e.request.path == counter for e in sent)
    times = [e.sent_at for e in sent]
    return Conduct(
        generation=len(generation),
        counting=counting,
        reading=sum(e.side == "relay" for e in sent) - len(generation),
        official_reading=sum(e.side == "official" for e in sent) - counting,
        unsent=len(chargeable - {e.step for e in generation}),
        seconds=round((max(times) - min(times)).total_seconds()) if times else 0,
    )


def counted_pairs(evidence: Evidence) -> list[tuple[int, int]]:
    """Official count and billed input of every relay answer whose body was counted, in order of size."""
    found = []
    for exchange in evidence.exchanges:
        step = evidence.plan.step(exchange.step) if evidence.plan else None
        usage = read_usage(exchange, evidence.pack) if step is not None and step.side == "relay" else None
        counted = official_count(exchange, evidence) if usage is not None else None
        if usage is not None and counted is not None:
            found.append((counted, usage.billed_input))
    return sorted(found)


def official_count(exchange: Exchange, evidence: Evidence) -> int | None:
    """The official count of the body of a relay step, by the step's name."""
    counter = evidence.pack.counter
    if counter is None:
        return None
    names = {f"count.{when}.{exchange.step}" for when in ("quote", "before", "after")}
    answers = (pointer(e.answer(), counter.read) for e in evidence.exchanges if e.step in names and e.status == 200)
    return next((number for value in answers if (number := whole_number(value)) is not None), None)


def requests_sent(evidence: Evidence) -> int:
    return sum(exchange.delivery != "not_sent" for exchange in evidence.exchanges)


def _surplus(finding: Finding) -> Surplus | None:
    params = finding.params
    if finding.code in ("tokens.constant_surplus", "tokens.intermittent_surplus"):
        return Surplus(finding.id, Decimal(1), _whole(params.get("surplus")))
    if finding.code == "tokens.proportional_surplus" and (slope := _decimal(params.get("slope"))) is not None:
        return Surplus(finding.id, slope, _whole(params.get("offset")))
    return None


def _whole(value: Any) -> int:  # noqa: ANN401  a parameter
    number = _decimal(value)
    return int(number) if number is not None else 0


def _decimal(value: Any) -> Decimal | None:  # noqa: ANN401  a parameter
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
