"""Who may let a run spend, and how much: an amount in advance, a person at a terminal, the budget of thirty days."""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from relay_audit import audit
from relay_audit.allowance import Allowance
from relay_audit.cli.console import TRUTHY
from relay_audit.clock import SystemClock
from relay_audit.errors import ApprovalRefused
from relay_audit.quote import ApprovalChannel
from relay_audit.recorder import Recorder
from relay_audit.store import Store
from relay_audit.target import Target
from relay_audit.words import money
from relay_audit.workspace import Workspace, workspace

REQUIRE_APPROVE = "RELAY_AUDIT_REQUIRE_APPROVE"


def give_approval(store: Store, digest: str, ceiling: Decimal | None, *, terminal: bool) -> dict[str, Any]:
    """Records the approval; refused from a channel that the accused may be steering."""
    recorder = Recorder(store, SystemClock())
    channel = channel_of(os.environ, terminal=terminal)
    clash = recorder.history.facts.conflict or audit.conflict(recorder.history.target, os.environ)
    if clash and channel != "terminal":
        raise ApprovalRefused(
            "whoever approves here is served by the relay under audit; only a person at a terminal may approve",
            next_step="run the approve command yourself, in a terminal",
            details={"conflict": clash},
        )
    if refusal := month_refusal(recorder, workspace(os.environ, Path.cwd())):
        raise refusal
    given = audit.approve(recorder, digest, ceiling or Decimal(0), audit.account(), channel)
    return {"run_id": store.run_id, "quote_digest": given.quote_digest, "max_usd": money(given.ceiling),
            "channel": given.channel, "then": f"relay-audit resume {store.run_id}"}  # fmt: skip


def channel_of(environ: Mapping[str, str], *, terminal: bool) -> ApprovalChannel:
    """Through what somebody speaks to a command that asks nothing back."""
    return "terminal" if terminal else "ci" if environ.get("CI", "").lower() in TRUTHY else "agent"


def advance_of(
    target: Target, given: Decimal | None, environ: Mapping[str, str]
) -> tuple[Decimal | None, ApprovalChannel]:
    """The amount approved beforehand, if that is allowed here. A 30-day ceiling bounds each run too."""
    if environ.get(REQUIRE_APPROVE, "").lower() in TRUTHY:
        return None, "flag"
    in_ci = environ.get("CI", "").lower() in TRUTHY
    amount, channel = (given, "ci" if in_ci else "flag") if given is not None else (target.budget.max_usd, "file")
    if amount is not None and target.budget.max_usd_per_30_days is not None:
        amount = min(amount, target.budget.max_usd_per_30_days)
    return amount, channel  # type: ignore[return-value]


def month_refusal(recorder: Recorder, space: Workspace) -> ApprovalRefused | None:
    """Why the budget of thirty days, over all runs of this machine, leaves no room for the current quote."""
    history, limit = recorder.history, recorder.history.target.budget.max_usd_per_30_days
    if history.quote is None or limit is None:
        return None
    room = Allowance(space.spending, limit).room(recorder.store.run_id, recorder.clock.now())
    if room is None or history.quote.at_most <= room:
        return None
    return ApprovalRefused(
        f"{money(room)} of {money(limit)} are left for 30 days on this machine; the quote may take {money(history.quote.at_most)}",
        next_step="make the plan smaller (revise, --checks), wait, or raise max_usd_per_30_days in the target file",
        details={"month_left": money(room), "current_digest": history.quote.digest},
    )
