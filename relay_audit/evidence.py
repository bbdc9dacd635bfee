"""What a run is, as a value: everything an assessor may read, and nothing else. The store makes it; nobody sends from it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from relay_audit.exchange import Exchange
from relay_audit.ledger import Ledger
from relay_audit.pack import Pack
from relay_audit.plan import Plan
from relay_audit.quote import ApprovalChannel, Quote
from relay_audit.target import Claim
from relay_audit.words import Frozen

SCHEMA_VERSION = 1
RunStatus = Literal[
    "planned", "awaiting_approval", "running", "waiting_task", "paused", "blocked", "budget_limited", "completed", "failed",
    "cancelled",
]  # fmt: skip
LogState = Literal["read", "empty", "unavailable", "unsafe", "limited", "not_asked"]


class LogRow(Frozen):
    """One row of the relay's own log that is ours; names of people and tokens are hashed before the record exists."""

    exchange: str
    """The exchange it was joined to, or empty where only time, model and tokens fit."""
    request_id: str = ""
    upstream_request_id: str = ""
    created_at: dt.datetime
    kind: Literal["consume", "error", "refund", "other"]
    model: str
    quota: int
    prompt_tokens: int
    completion_tokens: int
    is_stream: bool = False
    group: str = ""
    channel: str = ""
    other: dict[str, Any] = Field(default_factory=dict)
    """The parsed `other` column, reduced to the keys an assessor reads."""


class ForeignRows(Frozen):
    """Rows of other traffic on the same key: nothing of them is kept but this."""

    count: int = 0
    quota: int = 0
    first: dt.datetime | None = None
    last: dt.datetime | None = None


class LogReading(Frozen):
    at: dt.datetime
    exchange: str
    """The exchange that read it."""
    state: LogState
    reason: str = ""
    rows: tuple[LogRow, ...] = ()
    foreign: ForeignRows = ForeignRows()
    truncated: bool = False


class BalanceReading(Frozen):
    at: dt.datetime
    exchange: str
    used_quota: int | None = None
    available: Decimal | None = None
    """In quote currency (site dollars); None where unlimited or unknown."""
    unlimited: bool = False


class SiteFacts(Frozen):
    """What the relay says of itself in public: a claim."""

    software: str = "unknown"
    software_signals: tuple[str, ...] = ()
    version: str = ""
    quota_per_unit: int = 500_000
    price_cny: Decimal | None = None
    display_type: str = ""
    group_ratio: dict[str, Decimal] = Field(default_factory=dict)
    model_listed: bool | None = None
    """Whether `/v1/models` lists the model; None where it could not be read."""


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
    baseline_sources: tuple[str, ...] = ()
    """Who vouches for the rows of the buyer's baselines file, and when they were seen."""


class ApprovalFacts(Frozen):
    quote_digest: str
    ceiling: Decimal
    approver: str
    channel: ApprovalChannel
    at: dt.datetime
    expires_at: dt.datetime


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

    def routed(self) -> tuple[Exchange, ...]:
        """Relay exchanges that show where requests go: without refusals that were answered, since a fallback may have done it."""
        refusals = {step.id for step in self.plan.steps if step.refusal} if self.plan else set()
        return tuple(
            exchange for exchange in self.generations() if exchange.status != 200 or exchange.step not in refusals
        )

    def own_rows(self) -> tuple[LogRow, ...]:
        """The rows of the last reading of the log that worked."""
        read = [reading for reading in self.log if reading.state == "read"]
        return read[-1].rows if read else ()
