"""What a run is, as a value: everything an assessor may read, and nothing else. The store makes it; nobody sends from it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Literal

from pydantic import Field

from relay_audit.books import BalanceReading, LogReading, LogRow, PriceReading, RateReading, SiteFacts, UsageReading
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Basis
from relay_audit.ledger import Ledger
from relay_audit.media_facts import MediaReading
from relay_audit.pack import Pack
from relay_audit.plan import Plan, Step
from relay_audit.prompt_text import question_of
from relay_audit.quote import ApprovalChannel, Quote
from relay_audit.reconcile import rows_of
from relay_audit.target import Claim, Paid, Rate
from relay_audit.words import Frozen, Side

SCHEMA_VERSION = 1
RunStatus = Literal[
    "planned", "awaiting_approval", "running", "waiting_task", "paused", "blocked", "budget_limited", "completed", "failed",
    "cancelled",
]  # fmt: skip


class TargetFacts(Frozen):
    """The part of a target that an assessor and a report may know."""

    name: str
    """Internal; the leak guard keeps it out of a vendor's report."""
    model: str
    official_model: str
    dialect: str
    claim: Claim
    relay_origin: str
    official_origin: str = ""
    official_is_vendor: bool = False
    """False for an address that is not the vendor's own: basis `declared_official`."""
    user_agent: str
    """As sent to the relay."""
    auth_style: str = ""
    no_counter_reason: str = ""
    """Why no official counter was asked: no_official_key, official_unreachable, official_lacks_model, …; empty if one was."""
    needs: dict[str, str | int | bool] = Field(default_factory=dict)
    conflict: str = ""
    """`agent_served_by_target` where it applies."""
    media_profile: str = ""
    """What films should be, where the target says so."""
    paid: Paid | None = None
    """What the buyer really paid for how many site dollars. Internal."""
    cny_per_usd: Rate | None = None
    """The buyer's exchange rate, with its date and source."""
    recorded: str = ""
    """`har` or `transcript` where nothing was sent and everything was recorded by somebody else; else empty."""
    since: str = ""
    """The earlier run this one repeats; internal."""
    since_findings: tuple[str, ...] = ()
    """The findings of that run that are tested again; empty where all of it is repeated."""
    baseline_sources: tuple[str, ...] = ()
    """Who vouches for the rows of the buyer's baselines file, and when they were seen."""

    @property
    def official_basis(self) -> Basis:
        """What a comparison with the official side rests on."""
        return "live_official" if self.official_is_vendor else "declared_official"


class ApprovalFacts(Frozen):
    quote_digest: str
    ceiling: Decimal
    approver: str
    channel: ApprovalChannel
    at: dt.datetime
    expires_at: dt.datetime


class VendorAnswer(Frozen):
    """What the vendor replied to one finding; shown beside it, never instead of it."""

    finding: str
    code: str
    """The finding's code on that day: an id alone could mean another one after a new assessment."""
    stance: Literal["accepted", "fixed", "disputed", "explained"]
    untrusted_text: str = ""
    at: dt.datetime


class Withdrawal(Frozen):
    """A finding that fell in a later test. It stays where it was."""

    finding: str
    code: str
    reason: str = ""
    """Message key."""
    run: str = ""
    """The run in which it did not appear again."""
    at: dt.datetime


class Evidence(Frozen):
    run_id: str
    schema_version: int = SCHEMA_VERSION
    tool_version: str
    started_at: dt.datetime
    """Knowledge is as old as it was then, whenever the run is judged."""
    status: RunStatus
    stopped: str = ""
    """Why no further chargeable step was sent; empty when the plan was sent to its end."""
    refusals_ended: str = ""
    """Why no further refusal was sent (the relay's books could not be read after one was accepted); empty if all were."""
    evidence_head: str = ""
    target: TargetFacts
    site: SiteFacts = SiteFacts()
    pack: Pack
    plan: Plan | None = None
    quote: Quote | None = None
    approval: ApprovalFacts | None = None
    ledger: Ledger = Ledger()
    exchanges: tuple[Exchange, ...] = ()
    log: tuple[LogReading, ...] = ()
    balance: tuple[BalanceReading, ...] = ()
    usage: tuple[UsageReading, ...] = ()
    rates: tuple[RateReading, ...] = ()
    libraries: dict[str, str] = Field(default_factory=dict)
    """Versions on which facts of this run depend, as they were on its day."""
    replies: tuple[VendorAnswer, ...] = ()
    withdrawn: tuple[Withdrawal, ...] = ()
    archive_digest: str = ""
    """Of the vendor's edition of this run's archive; only a report that goes to the vendor needs it."""
    prices: tuple[PriceReading, ...] = ()
    """The public price list, looked at again after the sendings."""
    media: tuple[MediaReading, ...] = ()
    """Films that were delivered, or should have been."""

    def of_step(self, step_id: str) -> Exchange | None:
        """The last sending of a step: an earlier one was refused or never left, else there would be no later one."""
        return next((exchange for exchange in reversed(self.exchanges) if exchange.step == step_id), None)

    def generations(self) -> tuple[Exchange, ...]:
        """Relay exchanges of planned steps, in order."""
        planned = {step.id for step in self.plan.steps if step.side == "relay"} if self.plan else set()
        return tuple(exchange for exchange in self.exchanges if exchange.step in planned)

    def answers(self) -> tuple[Exchange, ...]:
        """Relay exchanges of legal steps: what ordinary use would have met."""
        refusals = {step.id for step in self.plan.steps if step.refusal} if self.plan else set()
        return tuple(exchange for exchange in self.generations() if exchange.step not in refusals)

    def stored(self, side: Side = "relay") -> frozenset[str]:
        """Ids of a side's exchanges that were answered out of a store: under the id of an earlier answer to the same question, which
        stands under no other question. Some stores look at the prompt alone; what such an answer counts is the first body."""
        questions: dict[object, set[str]] = {}
        planned = {step.id for step in self.plan.steps if step.side == side} if self.plan else set()
        asked = [e for e in self.exchanges if e.step in planned and e.request.body]
        told = [(e, pointer(e.answer(), self.pack.answer.id)) for e in asked]
        for exchange, own in told:
            questions.setdefault(own, set()).add(question_of(exchange.request.body))
        seen: set[object] = {None}
        again = set()
        for exchange, own in told:
            if own in seen and own is not None and len(questions[own]) == 1:
                again.add(exchange.id)
            seen.add(own)
        return frozenset(again)

    def routed(self) -> tuple[Exchange, ...]:
        """Relay exchanges that show where requests go: without refusals that were answered, since a fallback may have done it,
        and without those that went nowhere, since a relay answers for its own keys and names itself."""
        steps = self.plan.steps if self.plan else ()
        refusals = {step.id for step in steps if step.refusal}
        nowhere = {step.id for step in steps if step.key == "made_up" or self._names_another(step)}
        return tuple(
            exchange
            for exchange in self.generations()
            if exchange.step not in nowhere and (exchange.status != 200 or exchange.step not in refusals)
        )

    def _names_another(self, step: Step) -> bool:
        """Whether a step asks for a model that is not the one on sale."""
        return "model" in step.body and step.body["model"] not in (self.target.model, self.target.official_model)

    def own_rows(self) -> tuple[LogRow, ...]:
        """The rows of the last reading of the log that worked, and of our calls those that only an earlier one shows: a log
        of the newest few rows has dropped them since, and what they admit was said all the same."""
        read = [reading for reading in self.log if reading.state == "read"]
        return tuple(rows_of(read)) if read else ()
