"""From a target to a run that was sent, at the command line: what an invocation says, who may approve, what is printed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from relay_audit import audit
from relay_audit.again import Earlier
from relay_audit.audit import Library
from relay_audit.cli import screens
from relay_audit.cli.console import interactive, readable, say
from relay_audit.cli.nightly import Night
from relay_audit.cli.permit import advance_of, month_refusal
from relay_audit.cli.progress import ProgressLine
from relay_audit.clock import Clock, SystemClock
from relay_audit.connect import Connections, Permissions, connect
from relay_audit.errors import ApprovalNeeded, RelayAuditError, RunPaused, Unfinished
from relay_audit.exits import FailOn
from relay_audit.intake import Limits
from relay_audit.quote import Quote
from relay_audit.recorder import Recorder
from relay_audit.store import folder_warnings, run_lock
from relay_audit.target import Place, Target
from relay_audit.words import Lang, money
from relay_audit.workspace import Workspace, workspace


@dataclass
class Invocation:
    """What one command line says beyond the target, and the world it runs in."""

    lang: Lang
    as_json: bool = False
    no_input: bool = False
    packs: Path | None = None
    knowledge: Path | None = None
    prices: Path | None = None
    baselines: Path | None = None
    permissions: Permissions = field(default_factory=Permissions)
    max_usd: Decimal | None = None
    expect_plan: str = ""
    free_only: bool = False
    offline: bool = False
    fail_on: FailOn = "medium"
    allow_inconclusive: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Clock = field(default_factory=SystemClock)
    space: Workspace = field(default_factory=lambda: workspace(os.environ, Path.cwd()))
    hand_over: Callable[[Path, Invocation], int] | None = None
    """What sends an approved run instead of this process (`--detach`)."""
    night: Night = field(default_factory=Night)
    """What was accepted, and the file between two nights."""
    earlier: Earlier | None = None
    """The run that this one repeats, or tests again in part."""
    place: Place | None = None
    """Where the target file names what is under test."""
    limits: Limits | None = None
    """Of one answer's size and time; None for the product's own."""

    def notice(self, code: str, params: Mapping[str, object]) -> None:
        """Says on stderr what should be known before money is spent."""
        if code != "step":
            say(screens.notice(code, self.spoken, **{name: str(value) for name, value in params.items()}))

    @property
    def spoken(self) -> Lang:
        """The language of what is said on stderr."""
        return readable(self.lang, sys.stderr)

    @property
    def may_ask(self) -> bool:
        return interactive(as_json=self.as_json, no_input=self.no_input, environ=self.environ)


def free_of_charge(recorder: Recorder, quote: Quote) -> bool:
    """A plan that cannot charge needs nobody's leave; that is recorded as an approval of nothing."""
    plan = recorder.history.plan
    if plan is not None and plan.chargeable():
        return False
    audit.approve(recorder, quote.digest, Decimal(0), audit.account(), "flag")
    return True


@contextmanager
def begun(target: Target, call: Invocation) -> Iterator[tuple[Recorder, Connections, Library, Quote]]:
    """Plans and quotes: a run folder that waits for approval, and is this process's alone until the block ends."""
    with started(target, call) as (recorder, connections, library):
        prices = call.prices or (Path(target.prices.file) if target.prices.file else None)
        quote = asyncio.run(
            audit.plan_and_quote(recorder, connections, library, prices, offline=call.offline, free_only=call.free_only)
        )
        if not call.as_json:
            say(screens.quote_screen(recorder.history.evidence(), call.spoken))
        yield recorder, connections, library, quote


@contextmanager
def started(target: Target, call: Invocation) -> Iterator[tuple[Recorder, Connections, Library]]:
    """A run folder in which nothing was asked yet, this process's alone until the block ends."""
    library = library_for(call)
    if library.packs.pack(target.subject.dialect).video is not None:
        library = audit.with_pins(library, call.space.pins)
    connections = connected(target, library, call)
    connections.sides.notify = call.notice
    for warning in folder_warnings(call.space.audits):
        call.notice(warning, {})
    since = (call.earlier.run, call.earlier.findings) if call.earlier else ("", ())
    recorder = audit.begin(target, library, connections, call.space, call.clock, call.environ, call.place, since)
    for source in recorder.history.facts.baseline_sources:
        call.notice("baselines", {"source": screens.shown(source)})
    with recorder.store, run_lock(recorder.store.path), _naming(recorder.store.run_id):
        yield recorder, connections, library


def library_for(call: Invocation) -> Library:
    """Packs and knowledge as this command line names them. Raises `PackError`."""
    library = audit.load_library(call.packs, call.knowledge)
    if call.earlier and call.earlier.probes:
        library = library.only(call.earlier.probes)
    return audit.with_baselines(library, call.baselines, call.clock.now().date()) if call.baselines else library


@contextmanager
def _naming(run_id: str) -> Iterator[None]:
    """An error that ends a run says which run it is: what was recorded until then can be read."""
    try:
        yield
    except RelayAuditError as error:
        error.details.setdefault("run_id", run_id)
        raise


def connected(target: Target, library: Library, call: Invocation) -> Connections:
    pack = library.packs.pack(target.subject.dialect)
    return connect(
        target, pack, library.key_shapes, call.space, call.clock, call.environ, call.permissions, lambda *_: None,
        call.limits,
    )  # fmt: skip


def approved(recorder: Recorder, quote: Quote, call: Invocation) -> bool:
    """An approval in advance, or a person at the terminal. Nothing else approves."""
    facts = recorder.history.facts
    if call.expect_plan and call.expect_plan != quote.plan_digest:
        call.notice("plan_differs", {"digest": quote.plan_digest})
        return False
    advance, channel = advance_of(recorder.history.target, call.max_usd, call.environ)
    if advance is not None and not facts.conflict:
        if advance < quote.at_most or month_refusal(recorder, call.space):
            return False
        audit.approve(recorder, quote.digest, advance, audit.account(), channel)
        return True
    if not call.may_ask or quote.needs_explicit_ceiling or month_refusal(recorder, call.space):
        return False
    say(screens.confirm(quote, call.spoken))
    if sys.stdin.readline().strip().lower() != quote.digest[:6]:
        return False
    audit.approve(recorder, quote.digest, quote.at_most, audit.account(), "terminal")
    return True


def approval_needed(
    recorder: Recorder, quote: Quote, dearer: Mapping[str, tuple[Decimal, Decimal]] | None = None
) -> ApprovalNeeded:
    """The exit-3 object: the quote, the command that approves it, the question for a person. `dearer`: lines that cost
    another amount than on the night before (then, now)."""
    run = recorder.store.run_id
    command = f"relay-audit approve {run} --quote {quote.digest} --max-usd {money(quote.at_most)}"
    details: dict[str, Any] = {
        "run_id": run,
        "status": recorder.history.status,
        "quote_digest": quote.digest,
        "plan_digest": quote.plan_digest,
        "money": {
            "currency": quote.currency,
            "quoted_expected": money(quote.expected),
            "quoted_at_most": money(quote.at_most),
            "hold": money(quote.hold),
        },
        "approve_cmd": command,
        "then": f"relay-audit resume {run}",
        "ask_user": screens.ask_user(recorder.history.evidence()),
        "reveals": screens.reveals(recorder.history.evidence()),
        "next_bound": screens.bounds(recorder.history.evidence()),
    }
    if dearer:
        details["quote_diff"] = {name: [money(then), money(now)] for name, (then, now) in dearer.items()}
    if recorder.history.facts.conflict:
        details["conflict"] = recorder.history.facts.conflict
    return ApprovalNeeded("the quote waits for approval; nothing was spent", next_step=command, details=details)


def send(recorder: Recorder, connections: Connections, library: Library, call: Invocation) -> None:
    """What the approval allows, with a line of progress; a further film waits for an approval of its own."""
    _send_once(recorder, connections, library, call)
    while recorder.history.pack.video and recorder.history.status == "awaiting_approval" and recorder.history.quote:
        if not call.as_json:
            say(screens.quote_screen(recorder.history.evidence(), call.spoken))
        if not approved(recorder, recorder.history.quote, call):
            break
        _send_once(recorder, connections, library, call)
    _ended(recorder)


def _send_once(recorder: Recorder, connections: Connections, library: Library, call: Invocation) -> None:
    plan = recorder.history.plan
    total = sum(step.side == "relay" or step.when != "with" for step in plan.steps) if plan else 0
    with ProgressLine(total, recorder.store.run_id) as line:
        connections.sides.notify = lambda code, params: (line.step if code == "step" else call.notice)(code, params)
        asyncio.run(audit.execute(recorder, connections, library, call.space))


def _ended(recorder: Recorder) -> None:
    """Nothing for a run that has come to its end. Raises what says why it has not, and how it goes on."""
    history, run = recorder.history, recorder.store.run_id
    again, details = f"relay-audit resume {run}", {"run_id": run, "status": history.status}
    if history.status == "paused":
        raise RunPaused("the run was paused, as asked; nothing is in flight", next_step=again, details=details)
    if history.status == "budget_limited":
        why = "the budget of 30 days has no room for the next request"
        raise Unfinished(why, next_step=f"later, or with a higher max_usd_per_30_days: {again}", details=details)
    if history.status == "awaiting_approval" and history.quote is not None:
        raise approval_needed(recorder, history.quote)
