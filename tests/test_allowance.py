"""The budget above a run's own: as a value against a model, on disk between processes, and in whole runs."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from relay_audit.allowance import MONTH, Allowance
from relay_audit.errors import StoreError
from relay_audit.gate import next_send
from relay_audit.ledger import Ledger
from relay_audit.parent_ledger import ParentLedger
from relay_audit.quote import Line, StepPrice
from tests.staged import Staged, staged
from tests.steered import paid

NOW = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
AMOUNTS = st.decimals(min_value=0, max_value=2, places=3)
LIGHT = {"profile": "quick", "checks": [1, 2, 6]}


class SpendersMachine(RuleBasedStateMachine):
    """Several runs under one parent: each goes through its own gate and the parent's, settles, releases, dies, comes back.

    The model is a plain list of what was really spent. Whatever the order, what was spent and what may have been spent
    stays within both ceilings, and a process that dies never frees what it may have spent.
    """

    @initialize(ceiling=AMOUNTS, parent=AMOUNTS)
    def open(self, ceiling, parent):
        self.ceiling, self.limit = ceiling, parent
        self.parent = ParentLedger(ceiling=parent, window=MONTH)
        self.runs = {name: Ledger(ceiling=ceiling) for name in "abc"}
        self.numbers = dict.fromkeys("abc", 0)
        self.now = NOW
        self.started = dict.fromkeys("abc")

    @rule(name=st.sampled_from("abc"), at_most=AMOUNTS, fate=st.sampled_from(["settle", "release", "lost", "death"]),
          share=st.decimals(min_value=0, max_value=1, places=2))  # fmt: skip
    def send(self, name, at_most, fate, share):
        ledger = self.runs[name]
        price = StepPrice(step="s", input_tokens=1, expected=Decimal(0), at_most=at_most, hold=Decimal(0))
        line = Line(id="l", probe="p", side="relay", count=9, unit_price=None, expected=Decimal(0),
                    at_most=Decimal(99), hold=Decimal(0))  # fmt: skip
        whole = ledger.committed + at_most
        own, above = next_send(ledger, price, line, (), None).go, self.parent.admits(name, whole, self.now)
        assert own == (whole <= self.ceiling)
        assert above == (self.spent(beside=name) + whole <= self.limit)
        if not (own and above):
            return
        self.parent = self.parent.commit(name, whole, self.now)
        self.started[name] = self.now
        self.numbers[name] += 1
        xid = f"X{self.numbers[name]}"
        ledger = ledger.reserve(xid, "l", "relay", at_most)
        match fate:
            case "settle":
                ledger = ledger.settle(xid, at_most * share, "usage_at_quoted_price")
            case "release":
                ledger = ledger.release(xid)
            case "lost":
                ledger = ledger.leave_unconfirmed(xid)
            case "death":
                ledger = ledger.leave_unconfirmed(xid)  # what the next process does first
        self.runs[name] = ledger
        if fate != "death":
            self.parent = self.parent.settle(name, ledger.committed, self.now)

    @rule(name=st.sampled_from("abc"), share=st.decimals(min_value=0, max_value=1, places=2))
    def the_log_says_what_a_lost_one_cost(self, name, share):
        lost = [entry for entry in self.runs[name].entries if entry.state == "unconfirmed"]
        if lost:
            self.runs[name] = self.runs[name].settle(lost[0].exchange, lost[0].amount * share, "relay_log")
            self.parent = self.parent.settle(name, self.runs[name].committed, self.now)

    @rule(days=st.integers(1, 40))
    def days_pass(self, days):
        self.now += dt.timedelta(days=days)

    def spent(self, beside: str = "") -> Decimal:
        return sum(
            (
                row.amount
                for row in self.parent.commitments
                if row.run != beside and self.now - self.started[row.run] < MONTH
            ),
            Decimal(0),
        )

    @invariant()
    def no_run_passes_its_ceiling_and_all_together_not_theirs(self):
        assert all(ledger.committed <= self.ceiling for ledger in self.runs.values())
        assert self.parent.committed(self.now) == self.spent() <= self.limit
        for row in self.parent.commitments:
            assert row.amount >= self.runs[row.run].committed, "never too low"

    @invariant()
    def room_is_what_is_left(self):
        for name in "abc":
            assert self.parent.room(name, self.now) == max(self.limit - self.spent(beside=name), Decimal(0))


TestSpendersMachine = SpendersMachine.TestCase
TestSpendersMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_run_is_counted_once_and_forgotten_after_its_time(tmp_path):
    allowance = Allowance(tmp_path, Decimal(1))
    assert allowance.admit("a", Decimal("0.4"), NOW)
    assert allowance.admit("a", Decimal("0.6"), NOW), "the same run raises what it said before"
    assert not allowance.admit("b", Decimal("0.5"), NOW)
    assert allowance.room("b", NOW) == Decimal("0.4")
    assert allowance.room("a", NOW) == Decimal(1)
    allowance.settle("a", Decimal("0.1"), NOW)
    assert allowance.admit("b", Decimal("0.5"), NOW)
    assert Allowance(tmp_path, Decimal(1)).room("c", NOW + MONTH - dt.timedelta(seconds=1)) == Decimal("0.4")
    assert allowance.room("c", NOW + MONTH) == Decimal(1)


def test_a_late_settlement_makes_no_spending_younger(tmp_path):
    """A lost call of a month ago costs what was feared or less, as the books say today: it was spent then, not today."""
    allowance, later = Allowance(tmp_path, Decimal(1)), NOW + MONTH
    assert allowance.admit("lost", Decimal("0.6"), NOW)
    assert allowance.admit("new", Decimal(1), later)
    allowance.settle("lost", Decimal("0.6"), later)
    assert allowance.room("new", later) == Decimal(1)
    allowance.settle("lost", Decimal("0.7"), later)
    assert allowance.room("new", later) == Decimal("0.3"), "more than was known is counted from the day it is known"


def test_without_a_ceiling_it_only_counts_and_a_fleet_has_no_window(tmp_path):
    assert Allowance(tmp_path).admit("a", Decimal(5), NOW)
    assert Allowance(tmp_path).room("a", NOW) is None
    fleet = Allowance(tmp_path, Decimal(6), window=None)
    assert not fleet.admit("b", Decimal(2), NOW + MONTH)
    assert fleet.admit("b", Decimal(1), NOW + MONTH)


def test_what_cannot_be_added_up_bounds_nobody(tmp_path):
    Allowance(tmp_path).admit("a", Decimal(1), NOW)
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=r"a\.json"):
        Allowance(tmp_path, Decimal(9)).admit("b", Decimal(1), NOW)


def test_processes_that_ask_at_once_share_one_room(tmp_path):
    """Eight processes, room for five."""
    ask = (
        "import sys, datetime as dt\nfrom decimal import Decimal\nfrom pathlib import Path\n"
        "from relay_audit.allowance import Allowance\n"
        "print(Allowance(Path(sys.argv[1]), Decimal(5)).admit(sys.argv[2], Decimal(1), dt.datetime.now(dt.UTC)))"
    )
    asking = [
        subprocess.Popen([sys.executable, "-c", ask, str(tmp_path), f"run-{n}"], stdout=subprocess.PIPE, text=True)
        for n in range(8)
    ]
    answers = [process.communicate(timeout=60)[0].strip() for process in asking]
    assert sorted(answers) == ["False"] * 3 + ["True"] * 5


def whole(stage: Staged) -> Staged:
    stage.plan()
    stage.approve()
    stage.execute()
    return stage


def test_a_month_bounds_all_runs_of_a_machine(tmp_path):
    first = whole(staged("honest", tmp_path, audit=LIGHT, budget={"max_usd_per_30_days": "1"}))
    assert first.history.status == "completed"
    spent = first.history.ledger.committed
    assert 0 < spent < 1
    dearest = max(price.at_most for price in first.history.quote.steps)
    limit = f"{spent + dearest + Decimal('0.000001'):f}"
    second = staged("honest", tmp_path, audit=LIGHT, budget={"max_usd_per_30_days": limit})
    whole(second)
    history = second.history
    assert (history.status, 0 < paid(second) < 4) == ("budget_limited", True)
    assert second.recorder.store.terminal() is None
    assert history.checkpoint["reason"] == "month_ceiling"
    assert spent + history.ledger.committed <= Decimal(limit)
    sent = paid(second)
    second.execute()
    assert (second.history.status, paid(second)) == ("budget_limited", sent), "the month is not over"


def test_a_run_that_stood_still_for_the_month_goes_on_when_there_is_room(tmp_path):
    stage = staged("honest", tmp_path, audit=LIGHT, budget={"max_usd_per_30_days": "1"})
    stage.plan()
    stage.approve()
    others = Allowance(stage.space.spending)
    others.admit("another", Decimal(1), stage.clock.now() - MONTH + dt.timedelta(hours=1))
    stage.execute()
    assert (stage.history.status, paid(stage)) == ("budget_limited", 0)
    stage.clock.pass_(2 * 3600)
    stage.execute()
    assert (stage.history.status, paid(stage)) == ("completed", 4)
    kept = Allowance(stage.space.spending, Decimal(9)).room("next", stage.clock.now())
    assert kept == Decimal(9) - stage.history.ledger.committed
