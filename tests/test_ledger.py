"""Money as a state machine: against a model made of plain dictionaries, and arrow by arrow."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from relay_audit.ledger import Ledger

AMOUNTS = st.decimals(min_value=0, max_value=2, places=6)
ARROWS = {
    "reserved": {"settled", "released", "unconfirmed"},
    "unconfirmed": {"settled", "released"},
    "settled": {"settled"},
    "released": set(),
}
MOVES = {
    "settled": lambda ledger, xid: ledger.settle(xid, Decimal("0.1"), "relay_log"),
    "released": lambda ledger, xid: ledger.release(xid),
    "unconfirmed": lambda ledger, xid: ledger.leave_unconfirmed(xid),
}


class LedgerMachine(RuleBasedStateMachine):
    """Every move either does exactly what the arrow says, or is refused and changes nothing."""

    exchanges = Bundle("exchanges")

    @initialize(ceiling=AMOUNTS)
    def open(self, ceiling):
        self.ledger = Ledger(ceiling=ceiling)
        self.model: dict[str, tuple[str, Decimal, str, str]] = {}

    @rule(
        target=exchanges,
        number=st.integers(1, 12),
        line=st.sampled_from("ab"),
        side=st.sampled_from(["relay", "official"]),
        at_most=AMOUNTS,
    )
    def reserve(self, number, line, side, at_most):
        xid = f"X{number}"
        if xid in self.model:
            self.refused(lambda: self.ledger.reserve(xid, line, side, at_most))
        else:
            self.ledger = self.ledger.reserve(xid, line, side, at_most)
            self.model[xid] = ("reserved", at_most, line, side)
        return xid

    @rule(xid=exchanges, amount=AMOUNTS)
    def settle(self, xid, amount):
        self.move(xid, "settled", amount, lambda: self.ledger.settle(xid, amount, "usage_at_quoted_price"))

    @rule(xid=exchanges)
    def release(self, xid):
        self.move(xid, "released", Decimal(0), lambda: self.ledger.release(xid))

    @rule(xid=exchanges)
    def leave_unconfirmed(self, xid):
        self.move(xid, "unconfirmed", self.model[xid][1], lambda: self.ledger.leave_unconfirmed(xid))

    @rule(xid=exchanges, amount=st.decimals(min_value=-2, max_value="-0.000001", places=6))
    def nothing_costs_less_than_nothing(self, xid, amount):
        self.refused(lambda: self.ledger.settle(xid, amount, "relay_log"))

    @rule()
    def strangers_have_no_money(self):
        for move in MOVES.values():
            self.refused(lambda move=move: move(self.ledger, "X999"))

    def move(self, xid, state, amount, act):
        if state in ARROWS[self.model[xid][0]]:
            self.ledger = act()
            self.model[xid] = (state, amount, *self.model[xid][2:])
        else:
            self.refused(act)

    def refused(self, act):
        before = self.ledger
        with pytest.raises(ValueError, match=r"."):
            act()
        assert self.ledger == before

    @invariant()
    def agrees_with_the_model(self):
        for state in ARROWS:
            for side in (None, "relay", "official"):
                for line in (None, "a", "b"):
                    expected = sum(
                        (
                            a
                            for s, a, own, d in self.model.values()
                            if s == state and side in (None, d) and line in (None, own)
                        ),
                        Decimal(0),
                    )
                    assert self.ledger.total(state, side, line) == expected

    @invariant()
    def commitment_is_never_negative_and_room_is_the_rest(self):
        committed = sum((a for s, a, *_ in self.model.values() if s != "released"), Decimal(0))
        assert self.ledger.committed == committed >= 0
        assert self.ledger.room == self.ledger.ceiling - committed

    @invariant()
    def one_entry_each_in_the_order_of_intent(self):
        assert [entry.exchange for entry in self.ledger.entries] == list(self.model)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def reached(state: str) -> Ledger:
    ledger = Ledger(ceiling=Decimal(1)).reserve("X1", "a", "relay", Decimal("0.2"))
    return ledger if state == "reserved" else MOVES[state](ledger, "X1")


@pytest.mark.parametrize("start", ARROWS)
@pytest.mark.parametrize("end", MOVES)
def test_every_arrow_and_no_other(start, end):
    ledger = reached(start)
    if end in ARROWS[start]:
        assert MOVES[end](ledger, "X1").entry("X1").state == end
    else:
        with pytest.raises(ValueError, match=f"X1: {start} does not become {end}"):
            MOVES[end](ledger, "X1")


def test_what_is_unconfirmed_stays_at_its_worst_case():
    entry = reached("unconfirmed").entry("X1")
    assert (entry.amount, entry.basis, entry.line, entry.side) == (Decimal("0.2"), "worst_case", "a", "relay")


def test_what_was_released_costs_nothing_and_frees_its_room():
    ledger = reached("released")
    assert (ledger.entry("X1").amount, ledger.entry("X1").basis) == (Decimal(0), "not_sent")
    assert ledger.room == Decimal(1)


def test_what_was_settled_may_be_corrected_by_the_log():
    ledger = (
        reached("reserved")
        .settle("X1", Decimal("0.01"), "usage_at_quoted_price")
        .settle("X1", Decimal("0.02"), "relay_log")
    )
    assert (ledger.committed, ledger.entry("X1").basis) == (Decimal("0.02"), "relay_log")


def test_a_ledger_is_a_value():
    ledger = reached("reserved")
    ledger.settle("X1", Decimal(0), "relay_log")
    assert ledger.entry("X1").state == "reserved"


def test_an_amount_below_zero_is_refused():
    with pytest.raises(ValueError, match="amount"):
        Ledger().reserve("X1", "a", "relay", Decimal(-1))
