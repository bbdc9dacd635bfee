"""Everything a run's events say, as one value that grows with each event: what the doing asks, and evidence is made of."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, Literal

from relay_audit.books import BalanceReading, LogReading, PriceReading, RateReading, SiteFacts, UsageReading
from relay_audit.events import Event
from relay_audit.evidence import ApprovalFacts, Evidence, RunStatus, TargetFacts, VendorAnswer, Withdrawal
from relay_audit.exchange import Exchange
from relay_audit.ledger import Ledger
from relay_audit.media_facts import MediaReading
from relay_audit.pack import Pack
from relay_audit.plan import Plan, Step
from relay_audit.quote import Approval, Quote
from relay_audit.store import Store
from relay_audit.target import Place, Target
from relay_audit.words import Side

Wish = Literal["", "cancelled", "paused", "requoted"]
"""What somebody asked of a run that has not happened yet."""
FINAL: dict[str, RunStatus] = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}
Moment = tuple[int, int, int]
"""The last event that was applied, and how many exchanges and intents there are: while it is the same, so is what was sent."""


class Steps:
    """A plan's steps as they are asked for before every sending, sorted once for each plan."""

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self.all = plan.steps if plan else ()
        self.chargeable: dict[Side, tuple[Step, ...]] = {
            side: plan.chargeable(side) if plan else () for side in ("relay", "official")
        }
        self.refusals = frozenset(step.id for step in self.all if step.refusal)
        self.cases = {step.id: step.case for step in self.all if step.case}
        """Step → the deviation it sends; several steps may send the same."""
        self.refused = {step.id: step for step in self.chargeable["relay"] if step.refusal}
        """Those of them that the relay is asked."""
        self.legal = frozenset(step.id for step in self.chargeable["relay"] if not step.refusal)
        """Steps to the relay that the vendor answers."""


@dataclass
class History:
    """Everything a run's events say, collected once."""

    store: Store
    target: Target
    facts: TargetFacts
    pack: Pack
    files: dict[str, str]
    """Path → text of every pack and knowledge file as it was when the run began."""
    knowledge_digest: str
    tool_version: str
    started_at: dt.datetime
    place: Place | None = None
    """Where the target file names what is under test; None where there was no file."""
    status: RunStatus = "planned"
    stopped: str = ""
    plan: Plan | None = None
    quote: Quote | None = None
    approval: ApprovalFacts | None = None
    """The last one; `approvals` holds all."""
    approvals: list[ApprovalFacts] = field(default_factory=list)
    approved_quote: Quote | None = None
    """The quote that the last approval was given for."""
    covered: bool = False
    """Whether the last approval holds for the current quote."""
    declined: set[str] = field(default_factory=set)
    """Digests of quotes that somebody said no to."""
    dropped: set[str] = field(default_factory=set)
    """Probes and quote lines that were taken out of the plan."""
    signals: dict[str, Event] = field(default_factory=dict)
    """Signals that brought an id of their own."""
    cancelling: bool = False
    pausing: bool = False
    owner: str = ""
    scope: dict[str, Any] = field(default_factory=dict)
    """What was fixed at the start: relay, official side, model, dialect, checks, budget."""
    checkpoint: dict[str, Any] = field(default_factory=dict)
    """The last one, as codes and figures."""
    seq: int = 1
    """The last event that was applied."""
    site: SiteFacts = field(default_factory=SiteFacts)
    ledger: Ledger = field(default_factory=Ledger)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    intents: dict[str, Event] = field(default_factory=dict)
    """Chargeable exchange id → the event that announced it."""
    log: list[LogReading] = field(default_factory=list)
    balance: list[BalanceReading] = field(default_factory=list)
    usage: list[UsageReading] = field(default_factory=list)
    rates: list[RateReading] = field(default_factory=list)
    prices: list[PriceReading] = field(default_factory=list)
    media: list[MediaReading] = field(default_factory=list)
    refusals_ended: str = ""
    """Why some refusals were not sent; empty while all may go on."""
    ended_lanes: set[str] = field(default_factory=set)
    """Lanes of refusals that ended with it; an empty name means all of them."""
    books_asked: set[str] = field(default_factory=set)
    """Refusals that were looked for in the relay's books, found there or not."""
    highest: int = 0
    """The highest exchange number used so far."""
    libraries: dict[str, str] = field(default_factory=dict)
    """Versions on which facts of this run depend, as they were on its day."""
    withheld: frozenset[str] = frozenset()
    """Digests of bytes that were taken away later; what is known of them is in the events."""
    replies: list[VendorAnswer] = field(default_factory=list)
    withdrawn: list[Withdrawal] = field(default_factory=list)
    imported: bool = False
    """It came in as somebody's archive: it is read and judged, and nothing of it is ever sent from here."""
    _steps: Steps | None = field(default=None, init=False, repr=False, compare=False)
    _sent: tuple[Moment, dict[Side, tuple[Exchange, ...]]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def moment(self) -> Moment:
        return self.seq, len(self.exchanges), len(self.intents)

    @property
    def steps(self) -> Steps:
        """The steps of the plan as it is now."""
        if self._steps is None or self._steps.plan is not self.plan:
            self._steps = Steps(self.plan)
        return self._steps

    @property
    def wish(self) -> Wish:
        """What whoever works on the run has to do before anything else is sent."""
        if self.status in FINAL.values():
            return ""
        if self.cancelling:
            return "cancelled"
        if self.pausing:
            return "paused"
        return "requoted" if self.approval is not None and not self.covered else ""

    def unanswered(self) -> list[str]:
        """Intents whose process died before an outcome: they may have been delivered, and are never sent again."""
        return [entry.exchange for entry in self.ledger.entries if entry.state == "reserved"]

    def sent(self, side: Side = "relay") -> tuple[Exchange, ...]:
        """Chargeable exchanges of a side so far, in order; a refusal of a guessed header style is none. Asked for a dozen
        times between two events, and then the same."""
        if self._sent is None or self._sent[0] != self.moment:
            self._sent = self.moment, {}
        if (known := self._sent[1].get(side)) is not None:
            return known
        found = tuple(
            self.exchanges[xid]
            for xid in sorted(self.intents.keys() & self.exchanges.keys())
            if self.exchanges[xid].side == side
            and not (self.intents[xid].payload.get("auth_trial") and self.exchanges[xid].status == 401)
        )
        return self._sent[1].setdefault(side, found)

    def sent_steps(self) -> set[str]:
        """Steps that must not be sent again. A refusal of the key's form (401) is provably not a delivery."""
        return {
            event.payload["step"]
            for xid, event in self.intents.items()
            if not (xid in self.exchanges and self.exchanges[xid].delivery == "not_sent")
            and not (xid in self.exchanges and event.payload.get("auth_trial") and self.exchanges[xid].status == 401)
        }

    def last_of(self, step: str) -> Exchange | None:
        """The last exchange of a step."""
        found = [exchange for _, exchange in sorted(self.exchanges.items()) if exchange.step == step]
        return found[-1] if found else None

    @property
    def auth_style(self) -> str:
        """The header style of the key: that of the last call that was answered; before one, what the model list took."""
        answered = [exchange.request.headers for exchange in self.sent() if exchange.status == 200]
        names = {name.lower() for name, _ in answered[-1]} if answered else set()
        styles = ["bearer"] if "authorization" in names else [s for s in self.pack.auth_styles if s in names]
        return styles[0] if styles else self.facts.auth_style

    def approved(self) -> Approval | None:
        """The approval as a value again; the quote it was given for must cover the current one."""
        if self.approval is None or self.approved_quote is None or not self.covered:
            return None
        facts = self.approval
        return self.approved_quote.approve(
            facts.quote_digest, facts.ceiling, approver=facts.approver, channel=facts.channel, at=facts.at
        )

    def evidence(self) -> Evidence:
        return Evidence(
            run_id=self.store.run_id,
            tool_version=self.tool_version,
            started_at=self.started_at,
            status=self.status,
            stopped=self.stopped,
            refusals_ended=self.refusals_ended,
            evidence_head=self.store.head(),
            target=self.facts.model_copy(update={"auth_style": self.auth_style}),
            site=self.site,
            pack=self.pack,
            plan=self.plan,
            quote=self.quote,
            approval=self.approval,
            ledger=self.ledger,
            exchanges=tuple(self.exchanges[key] for key in sorted(self.exchanges)),
            log=tuple(self.log),
            balance=tuple(self.balance),
            usage=tuple(self.usage),
            rates=tuple(self.rates),
            libraries=self.libraries,
            replies=tuple(self.replies),
            withdrawn=tuple(self.withdrawn),
            prices=tuple(self.prices),
            media=tuple(self.media),
        )
