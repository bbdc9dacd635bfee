"""Money that can be relied on: with an honest tariff no charge is above its quoted at-most; with any relay nothing leaves
that could pass the ceiling, and what is in flight is one step."""

from __future__ import annotations

import os
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay_audit.lab.knobs import Knobs
from relay_audit.lab.money import Money
from relay_audit.lab.scenario import Scenario, Title
from relay_audit.store import Store
from tests.audits import Audited, in_process

pytestmark = pytest.mark.deep
RUNS = int(os.environ.get("TARIFF_RUNS", "200"))
"""Drawn runs; a thousand in the soak (`TARIFF_RUNS=1000`)."""
QUICK = {"profile": "quick", "checks": [2, 6]}
RATIO = st.decimals("0.05", "3", places=2)
MARKUP = st.decimals("0.5", "3", places=1)


def scenario(knobs: Knobs) -> Scenario:
    return Scenario("drawn", Title("drawn", "drawn"), "honest", knobs, frozenset(), frozenset())


def audited(knobs: Knobs, seed: int) -> Audited:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR") or None) as home:
        done = in_process(scenario(knobs), seed, Path(home), **QUICK)
        assert done.error is None, done.error
        return done


@settings(max_examples=RUNS, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6), ratio=RATIO, markup=MARKUP, per_call=st.none() | st.decimals("0.001", "0.02", places=3)
)
def test_no_charge_of_an_honest_tariff_is_above_its_at_most(
    seed: int, ratio: Decimal, markup: Decimal, per_call: Decimal | None
) -> None:
    done = audited(Knobs(group="drawn", group_ratio=ratio, money=Money(markup=markup, per_call=per_call)), seed)
    assert done.judgement is not None
    evidence = done.judgement.evidence
    assert evidence.quote is not None
    settled = [e for e in evidence.ledger.entries if e.side == "relay" and e.state == "settled"]
    assert settled
    steps = {exchange.id: exchange.step for exchange in evidence.exchanges}
    for entry in settled:
        price = evidence.quote.price_of(steps[entry.exchange])
        assert price is not None
        assert entry.amount <= price.at_most, (entry, price)
    assert evidence.ledger.committed <= evidence.quote.at_most
    assert not [f.code for f in done.judgement.findings if f.check == 6 and f.above_info]


@settings(max_examples=RUNS // 4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    factor=st.sampled_from([1, 2, 3, 5, 10, 30, 100, 1000]),
    hidden=st.sampled_from([0, 100, 508, 4380]),
    log=st.sampled_from(["on", "late", "off"]),
)
def test_with_any_relay_nothing_leaves_that_could_pass_the_ceiling(
    seed: int, factor: int, hidden: int, log: Literal["on", "late", "off"]
) -> None:
    """Each intent is looked at with what was known when it was written; and what the relay really took, whatever the
    ledger knows of it, passed the ceiling by the one step in flight at most."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR") or None) as home:
        done = in_process(scenario(Knobs(charge_factor=factor, hidden=hidden, log=log)), seed, Path(home), **QUICK)
        assert done.recorder is not None
        assert done.judgement is not None
        evidence = done.judgement.evidence
        taken = [e.charge * factor for e in evidence.generations() if e.charge]
        assert sum(taken[:-1], Decimal(0)) <= evidence.ledger.ceiling, "more than the last step passed the ceiling"
        store = Store.open(done.recorder.store.path)
        sends, passed = _gate_at_each_send(store)
        store.close()
    assert sends
    assert not [send for send in sends if send > 0], "a send left although it could have passed the ceiling"
    assert not passed, "a send left after the known charges had passed the ceiling"


def _gate_at_each_send(store: Store) -> tuple[list[Decimal], bool]:
    """By how much each send could have passed the ceiling, by what was known when it left; and whether one left after
    the ceiling had been passed. The events in order are all that is looked at."""
    worth: dict[str, Decimal] = {}
    ceiling, over, sends, later = Decimal(0), False, [], False
    for event in store.events():
        payload = event.payload
        if event.type == "signal.received" and payload["signal"] == "approve":
            ceiling = Decimal(payload["approval"]["ceiling"])
        elif event.type == "request.sending":
            later = later or over
            worth[payload["exchange"]] = Decimal(payload["at_most"])
            sends.append(sum(worth.values(), Decimal(0)) - ceiling)
        elif event.type == "charge.observed" or (event.type == "exchange.recorded" and payload.get("amount")):
            worth[payload["exchange"]] = Decimal(payload["amount"])
            over = sum(worth.values(), Decimal(0)) > ceiling
    return sends, later
