"""A relay that charges more than its answers say is noticed after its first call, wherever the charge can be seen."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest

from relay_audit.books import BalanceReading
from relay_audit.early_look import EarlyLook
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.scenario import Scenario, Title
from relay_audit.ledger import Ledger
from relay_audit.multiple import multiple_of, unread
from relay_audit.relays import new_api
from relay_audit.site_budget import PER_RUN
from tests.assess.evidence_builders import answered, at
from tests.audits import Audited, in_process
from tests.staged import Staged, json_answer, somebody_spends, staged

CENT, UNIT = Decimal("0.01"), 500_000
QUICK = {"profile": "quick", "checks": [2, 6]}
BOOKS = ("reading.log.", "reading.balance.")


def audited(home: Path, seed: int = 3, **knobs: object) -> Audited:
    row = Scenario("drawn", Title("drawn", "drawn"), "fault", Knobs(**knobs), frozenset(), frozenset())  # type: ignore[arg-type]
    return in_process(row, seed, home, **QUICK)


def sent_and_read(done: Audited) -> tuple[int, int]:
    """Chargeable sendings to the relay, and readings of its limited books."""
    assert done.judgement is not None
    evidence = done.judgement.evidence
    return len(evidence.generations()), sum(e.step.startswith(BOOKS) for e in evidence.exchanges)


def ledger_of(*entries: tuple[str, str, str]) -> tuple[Ledger, dict]:
    """Forecast, what stands in the ledger, and its basis."""
    ledger, exchanges = Ledger(ceiling=Decimal(1)), {}
    for n, (forecast, amount, basis) in enumerate(entries):
        exchange = answered(n, f"s{n}", {"id": "m"}, moment=at(10 * n)).model_copy(update={"charge": Decimal(forecast)})
        exchanges[exchange.id] = exchange
        ledger = ledger.reserve(exchange.id, "a@relay", "relay", CENT).settle(exchange.id, Decimal(amount), basis)
    return ledger, exchanges


def balance(second: int, quota: int) -> BalanceReading:
    return BalanceReading(at=at(second), exchange="", when="between", used_quota=quota)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("0.0001", "0.0001", "relay_log")], "1"),
        ([("0.0001", "0.000102", "relay_log")], "1"),  # one unit of rounding
        ([("0.000001", "0.000002", "relay_log")], "1"),  # the smallest charge there is
        ([("0.0001", "0.00005", "relay_log")], "1"),  # in the buyer's favour: still reckoned at the forecast
        ([("0.0001", "0.010002", "relay_log")], "100"),
        ([("0.0001", "0.0001", "relay_log"), ("0.0001", "0.000302", "relay_log")], "3"),
        ([("0.0001", "0.0001", "usage_at_quoted_price")], "1"),
        ([("0", "0.5", "relay_log")], "1"),  # no forecast: nothing to hold it against
    ],
)
def test_the_worst_multiple_of_any_call_counts(rows, expected):
    ledger, exchanges = ledger_of(*rows)
    assert multiple_of(ledger, exchanges, (), UNIT) == Decimal(expected)


def test_a_balance_speaks_only_of_calls_without_a_row_and_while_nobody_else_spends():
    forecast = ("0.0001", "0.0001", "usage_at_quoted_price")
    ledger, exchanges = ledger_of(forecast)
    before, after = balance(-5, 1000), balance(5, 6001)
    assert multiple_of(ledger, exchanges, (before, after), UNIT) == 100
    assert multiple_of(ledger, exchanges, (before, after, balance(15, 6001)), UNIT) == 100
    assert multiple_of(ledger, exchanges, (before, after, balance(15, 7000)), UNIT) == 1, "it falls by itself"
    assert multiple_of(ledger, exchanges, (before, balance(5, 1051)), UNIT) == 1
    assert multiple_of(ledger, exchanges, (before,), UNIT) == 1
    joined, seen = ledger_of(("0.0001", "0.0001", "relay_log"))
    assert multiple_of(joined, seen, (before, after), UNIT) == 1, "the row has said what it cost"


def test_what_is_unread_is_what_stands_by_answers_alone():
    ledger, _ = ledger_of(("1", "0.3", "relay_log"), ("1", "0.2", "usage_at_quoted_price"),
                          ("1", "0.1", "usage_at_quoted_price"))  # fmt: skip
    assert unread(ledger) == Decimal("0.3")
    assert unread(ledger, ["X0001"]) == Decimal("0.1")


def test_a_call_that_was_asked_after_in_vain_still_stands_at_the_multiple():
    """Rows that come late had let a relay take three times the ceiling: what had been asked after once was reckoned at its
    answers again, though the first call's row had shown eight times that."""
    ledger, _ = ledger_of(("0.01", "0.08", "relay_log"), *[("0.01", "0.01", "usage_at_quoted_price")] * 3)
    history = SimpleNamespace(ledger=ledger, books_asked={"X0001", "X0002"})
    look = EarlyLook(SimpleNamespace(history=history), SimpleNamespace())  # type: ignore[arg-type]
    assert (look.unread(), look.standing()) == (Decimal("0.01"), Decimal("0.03"))


def test_a_hundredfold_charge_that_only_the_log_shows_ends_the_run_after_one_call(tmp_path: Path) -> None:
    """The balance stands still, as it does for keys without a limit."""

    def still(seen, before):
        body = {"code": True, "data": {"total_used": 7, "total_available": 0, "unlimited_quota": True}}
        return json_answer(body) if seen.path == new_api.BALANCE else None

    stage = staged("honest", tmp_path, audit=QUICK, replace=still)
    assert stage.world.log is not None
    stage.world.log._knobs = Knobs(charge_factor=100)
    evidence = stage.whole().evidence
    assert (len(evidence.generations()), evidence.stopped) == (1, "ceiling")
    assert evidence.ledger.committed < evidence.ledger.ceiling


@pytest.mark.deep
def test_a_hundredfold_charge_that_only_the_balance_shows_ends_it_too(tmp_path: Path) -> None:
    done = audited(tmp_path, charge_factor=100, log="off")
    assert done.judgement is not None
    assert done.judgement.evidence.stopped == "ceiling"
    sent, read = sent_and_read(done)
    assert sent == 1
    assert read <= PER_RUN


@pytest.mark.deep
@pytest.mark.parametrize("factor", [10, 100, 1000])
@pytest.mark.parametrize(
    ("log", "foreign"), [("on", False), ("on", True), ("late", False), ("late", True), ("off", False)]
)
def test_what_is_really_charged_passes_the_ceiling_by_one_step_at_most(
    factor: int, log: str, foreign: bool, tmp_path: Path
) -> None:
    """By the relay's own till, whatever the ledger knows of it. With other traffic and no log nobody can tell: a balance
    that others move is no witness (below)."""
    row = Scenario("drawn", Title("d", "d"), "fault", Knobs(charge_factor=factor, log=log, foreign_rows=foreign),
                   frozenset(), frozenset())  # type: ignore[arg-type]  # fmt: skip
    done = in_process(row, 4, tmp_path, profile="standard")
    assert done.judgement is not None
    evidence = done.judgement.evidence
    sent, read = sent_and_read(done)
    forecasts = [e.charge * factor for e in evidence.generations() if e.charge]
    assert sum(forecasts) - max(forecasts) <= evidence.ledger.ceiling
    assert sent == 1 or factor < 100
    assert read <= PER_RUN


@pytest.mark.parametrize("log", ["on", pytest.param("late", marks=pytest.mark.deep)])
def test_an_honest_relay_is_read_once_more_and_audited_to_its_end(log: str, tmp_path: Path) -> None:
    done = audited(tmp_path, log=log)
    assert done.judgement is not None
    assert (done.judgement.evidence.stopped, done.codes) == ("", set())
    early = [e for e in done.judgement.evidence.exchanges if e.step == "reading.log.early"]
    assert len(early) == 1
    assert early[0].sent_at - done.judgement.evidence.generations()[0].sent_at < dt.timedelta(seconds=10)


@pytest.mark.deep
def test_a_balance_that_others_move_ends_nothing(tmp_path: Path) -> None:
    stage = staged("honest_log_off", tmp_path, audit=QUICK, replace=somebody_spends())
    assert stage.whole().evidence.stopped == ""


def test_a_charge_reckoned_at_the_multiple_decides_at_the_gate():
    from relay_audit.gate import next_send
    from tests.test_gate import LINE, STEP, spent

    ledger = spent("0.02", line="b@relay", ceiling="0.06")
    assert next_send(ledger, STEP, LINE, (), None).go
    assert next_send(ledger, STEP, LINE, (), None, multiple=Decimal(2)).go
    assert next_send(ledger, STEP, LINE, (), None, multiple=Decimal("2.1")).reason == "ceiling"
    assert next_send(ledger, STEP, LINE, (), None, multiple=Decimal(2), unread=CENT).reason == "ceiling"


@pytest.mark.deep
@pytest.mark.parametrize("software", ["litellm", "claude-relay-service"])
def test_software_that_names_the_cost_of_each_call_is_heard_too(software: str, tmp_path: Path) -> None:
    done = audited(tmp_path, software=software, charge_factor=300)
    assert done.judgement is not None
    assert done.judgement.evidence.stopped == "ceiling"
    assert sent_and_read(done)[0] == 1


@pytest.mark.deep
def test_a_usage_page_is_the_only_book_of_an_unknown_software(tmp_path: Path) -> None:
    def page(seen, before):
        if seen.path == "/v1/dashboard/billing/usage":
            return json_answer({"object": "list", "total_usage": 100 * before})
        return json_answer({"hard_limit_usd": 100}) if seen.path.endswith("/subscription") else None

    stage = staged("honest_no_software", tmp_path, audit=QUICK, replace=page)
    evidence = stage.whole().evidence
    assert (len(evidence.generations()), evidence.stopped) == (1, "ceiling")


def reserving(stage: Staged, seconds: float, *, rows: bool) -> None:
    """The relay's books show what was reserved for a call, in its row or in the balance alone, until it is settled."""
    log = stage.world.log
    assert log is not None
    base = type(log)

    class Reserving(base):  # type: ignore[misc, valid-type]
        def read(self, *, old: bool) -> list[dict]:
            shown, now = super().read(old=old), self._now()
            held = [row | {"quota": row["quota"] * 40} for row in shown]
            return [
                h if rows and now - row["created_at"] < seconds else row for row, h in zip(shown, held, strict=True)
            ]

        @property
        def used(self) -> int:
            open_ = [row for row in self.rows if self._now() - row.data["created_at"] < seconds]
            return base.used.fget(self) + (0 if rows else 3000 * len(open_))

    log.__class__ = Reserving


@pytest.mark.parametrize(("seconds", "rows"), [(6, True), (40, False)], ids=["row", "balance"])
def test_a_reserve_that_is_settled_late_is_no_charge_without_a_row(seconds: float, rows: bool, tmp_path: Path) -> None:
    stage = staged("honest", tmp_path, audit=QUICK)
    reserving(stage, seconds, rows=rows)
    judged = stage.whole()
    assert judged.evidence.stopped == ""
    assert [f.code for f in judged.findings if f.above_info and f.outcome == "mismatch"] == []
    readings = [e for e in judged.evidence.exchanges if e.step.startswith(BOOKS)]
    assert len(readings) <= PER_RUN


def test_a_long_call_of_somebody_else_is_in_the_balance_before_it_is_in_the_log(tmp_path: Path) -> None:
    stage = staged("honest", tmp_path, audit=QUICK)
    log = stage.world.log
    assert log is not None
    began = log._now()
    log.unlogged += 5000
    base = type(log)

    class Running(base):  # type: ignore[misc, valid-type]
        def read(self, *, old: bool) -> list[dict]:
            shown, now = super().read(old=old), self._now()
            theirs = {**shown[0], "request_id": "20261130030000000000000", "quota": 5000} if shown else {}
            return [{**theirs, "created_at": int(now)}, *shown] if theirs and now - began > 30 else shown

        @property
        def used(self) -> int:
            return base.used.fget(self) - (0 if self.rows else 5000)

    log.__class__ = Running
    assert [f.code for f in stage.whole().findings if f.accusation] == []
