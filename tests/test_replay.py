"""A run folder says everything again: what a fresh reader knows is what the writer knew."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import httpx
import pytest

from relay_audit.errors import RelayAuditError, StoreError, Unfinished
from relay_audit.plan import Step
from relay_audit.quote import Line, StepPrice
from relay_audit.replay import replay
from relay_audit.store import Store
from tests.staged import Staged, json_answer, staged

QUICK = {"profile": "quick", "checks": [2, 6]}
NOW = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)


def prepared(tmp_path, **more) -> Staged:
    stage = staged("honest", tmp_path, audit=QUICK, **more)
    stage.plan()
    return stage


def first(stage: Staged) -> tuple[Step, Line, StepPrice]:
    step = stage.history.plan.chargeable()[0]
    return step, stage.history.quote.line_of(step), stage.history.quote.price_of(step.id)


def test_every_act_reads_back_as_it_was_written(tmp_path):
    stage = staged("honest", tmp_path, audit=QUICK)
    acts = (lambda: None, stage.plan, stage.approve, stage.execute)
    states = ("planned", "awaiting_approval", "awaiting_approval", "completed")
    for act, status in zip(acts, states, strict=True):
        act()
        again = replay(stage.recorder.store)
        assert again.evidence() == stage.history.evidence()
        assert again.status == status
        assert (again.highest, again.sent_steps(), again.sent()) == (
            stage.history.highest,
            stage.history.sent_steps(),
            stage.history.sent(),
        )
    assert again.approved() == stage.history.approved()
    assert again.ledger.ceiling == stage.history.quote.at_most
    assert (len(again.sent()), again.unanswered()) == (4, [])
    assert [e.id for e in again.evidence().exchanges] == sorted(again.exchanges)


def test_an_intent_whose_process_died_is_unconfirmed_and_never_sent_again(tmp_path):
    stage = prepared(tmp_path)
    stage.approve(Decimal(1))
    step, line, price = first(stage)
    xid = stage.recorder.intent(step, line, price, auth_trial=False)
    again = replay(stage.recorder.store)
    assert again.unanswered() == [xid]
    lost = again.exchanges[xid]
    assert (lost.delivery, lost.failure, lost.request.body, lost.step) == (
        "unconfirmed",
        "no_outcome",
        step.body,
        step.id,
    )
    assert again.ledger.entry(xid).amount == price.at_most
    assert again.sent_steps() == {step.id}

    stage.recorder.give_up(xid)
    stage.execute()
    paid = [s.body for s in stage.seen if s.side == "relay" and s.method == "POST"]
    assert step.body not in paid
    assert len(paid) == 3
    judged = stage.judged()
    assert any(f.code == "run.unconfirmed_send" and xid in f.exchanges for f in judged.findings)


def test_a_worst_case_that_fills_the_ceiling_ends_the_run(tmp_path):
    stage = prepared(tmp_path)
    stage.approve()
    step, line, price = first(stage)
    whole = price.model_copy(update={"at_most": stage.history.quote.at_most})
    stage.recorder.intent(step, line, whole, auth_trial=False)
    stage.execute()
    assert (stage.paths(method="POST"), stage.history.stopped) == ([], "ceiling")
    assert [entry.state for entry in stage.history.ledger.entries] == ["unconfirmed"]


def test_what_provably_never_left_may_be_sent_again(tmp_path):
    stage = prepared(tmp_path)
    stage.approve()
    step, line, price = first(stage)
    xid = stage.recorder.intent(step, line, price, auth_trial=False)
    stage.recorder.withdraw(xid, step)
    again = replay(stage.recorder.store)
    assert (again.unanswered(), again.sent_steps()) == ([], set())
    assert (again.ledger.entry(xid).state, again.ledger.committed) == ("released", Decimal(0))
    assert again.exchanges[xid].delivery == "not_sent"


def test_a_refusal_of_a_guessed_header_style_is_no_sending(tmp_path):
    def unlisted(seen, before):
        return json_answer({"error": "no list"}, 404) if seen.path == "/v1/models" else None

    stage = staged("honest_bearer_only", tmp_path, audit=QUICK, replace=unlisted)
    judged = stage.whole()
    history = stage.history
    statuses = [e.status for e in history.exchanges.values() if e.id in history.intents]
    assert statuses == [401, 200, 200, 200, 200]
    assert [e.status for e in history.sent()] == [200] * 4
    assert len(history.sent_steps()) == 4
    assert replay(stage.recorder.store).sent() == history.sent()
    parity = next(f for f in judged.findings if f.check == 2)
    assert parity.params["n"] == 4, "the step that was sent again is a sample too"


def test_an_open_model_list_says_nothing_about_the_header_style(tmp_path):
    stage = staged("honest_bearer_only_open_list", tmp_path, audit=QUICK)
    judged = stage.whole()
    assert stage.history.facts.auth_style == "x-api-key", "the list took whatever came"
    statuses = [e.status for e in stage.history.exchanges.values() if e.id in stage.history.intents]
    assert statuses == [401, 200, 200, 200, 200]
    assert not [f for f in judged.findings if f.above_info]
    again = replay(stage.recorder.store)
    assert (again.auth_style, again.evidence().target.auth_style) == ("bearer", "bearer"), "so a resumed run goes on"


def test_an_approval_of_another_quote_is_none(tmp_path):
    stage = prepared(tmp_path)
    stage.approve()
    assert stage.history.approved() is not None
    other = stage.history.quote.model_copy(update={"seed": stage.history.quote.seed + 1})
    stage.recorder.note(
        "quote.issued", {"quote_digest": other.digest, "plan_digest": other.plan_digest}, stage.recorder.blob(other)
    )
    assert stage.history.approved() is None
    assert replay(stage.recorder.store).approved() is None


def test_charges_of_the_log_are_replayed(tmp_path):
    stage = staged("honest", tmp_path, audit=QUICK)
    stage.whole()
    entries = replay(stage.recorder.store).ledger.entries
    assert {entry.basis for entry in entries if entry.side == "relay"} == {"relay_log"}
    assert all(entry.state == "settled" for entry in entries)


def test_a_folder_without_a_beginning(tmp_path):
    empty = Store.create(tmp_path, "20261130-030000-abcdef")
    with pytest.raises(Unfinished, match="before its first event"):
        replay(empty)
    empty.append("run.state_changed", {"status": "running", "reason": ""}, ts=NOW)
    with pytest.raises(StoreError, match="no beginning"):
        replay(empty)
    empty.close()


def test_a_settled_run_cannot_be_broken_by_a_lost_answer(tmp_path):
    """The second generation never answers; nothing is sent twice and its worst case stays reserved."""

    def hang(seen, before):
        return httpx.ReadTimeout("hang") if seen.path == "/v1/messages" and before == 1 else None

    stage = staged("honest_no_software", tmp_path, audit=QUICK, replace=hang)
    stage.whole(Decimal(1))
    assert stage.paths(method="POST").count("/v1/messages") == 4
    [entry] = [e for e in replay(stage.recorder.store).ledger.entries if e.state == "unconfirmed"]
    step = stage.history.exchanges[entry.exchange].step
    assert entry.amount == stage.history.quote.price_of(step).at_most
    with pytest.raises(ValueError, match="does not become"):
        stage.recorder.give_up(entry.exchange)


def test_a_refusal_of_ours_is_written_down_before_it_is_raised(tmp_path, monkeypatch):
    stage = prepared(tmp_path)
    stage.approve()

    async def refused(*_):
        raise RelayAuditError("not this address")

    send = stage.connections.sides.transport.send

    async def only_paid(endpoint, outgoing):
        paid = endpoint.side == "relay" and outgoing.method == "POST"
        return await (refused() if paid else send(endpoint, outgoing))

    monkeypatch.setattr(stage.connections.sides.transport, "send", only_paid)
    with pytest.raises(RelayAuditError, match="not this address"):
        stage.execute()
    [entry] = replay(stage.recorder.store).ledger.entries
    assert (entry.state, entry.amount) == ("released", Decimal(0))
