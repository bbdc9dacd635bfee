"""Signals: what is said to a run from another process is heard before the next request, answered once, and recorded."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relay_audit import audit
from relay_audit.errors import ApprovalRefused, KeyRefused, SignalRefused
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.revision import begun_steps
from relay_audit.signals import AddContext, Cancel, Decline, Pause, Resume, Revise
from relay_audit.steering import Sender, give
from relay_audit.store import Store
from tests.staged import Staged, staged
from tests.steered import interrupted, paid, said_to, types

LIGHT = {"profile": "quick", "checks": [1, 2, 6]}
WHOLE = {"profile": "quick"}


@pytest.fixture
def quoted(tmp_path) -> Staged:
    stage = staged("honest", tmp_path, audit=LIGHT)
    stage.plan()
    return stage


def say(stage: Staged, signal, *, alone: bool = True):
    reply = said_to(stage.recorder.store.path, signal, alone=alone, clock=stage.clock)
    stage.recorder.catch_up()
    return reply


def probes_of(stage: Staged) -> list[str]:
    return list(dict.fromkeys(step.probe for step in stage.history.plan.chargeable()))


# Cancel


def test_a_cancel_while_a_request_is_out_records_it_and_sends_no_other(tmp_path):
    stage = interrupted(tmp_path, lambda s: said_to(s.recorder.store.path, Cancel()))
    stage.approve()
    stage.execute()
    assert paid(stage) == 2
    history = stage.history
    assert (history.status, history.stopped) == ("cancelled", "cancelled")
    assert [e.status for e in history.sent()] == [200, 200]
    assert types(stage).count("run.cancelled") == 1
    assert not {"run.completed", "run.failed"} & set(types(stage))
    assert replay(stage.recorder.store).evidence() == history.evidence()
    seen = len(stage.seen)
    with pytest.raises(Exception, match="cancelled"):
        stage.execute()
    assert len(stage.seen) == seen


def test_a_second_cancel_is_the_same_answer_and_writes_nothing(quoted):
    first = say(quoted, Cancel())
    events = len(types(quoted))
    assert say(quoted, Cancel()) == first
    assert (first.status, first.heard) == ("cancelled", True)
    assert len(types(quoted)) == events
    assert quoted.paths(method="POST") == [] or paid(quoted) == 0


def test_a_cancel_after_the_end_changes_nothing(quoted):
    quoted.approve()
    quoted.execute()
    before = types(quoted)
    assert say(quoted, Cancel()).status == "completed"
    assert types(quoted) == before


def test_a_cancel_that_a_dead_process_never_heard_is_finished_by_the_next(tmp_path):
    stage = interrupted(tmp_path, lambda s: None)
    stage.approve()
    stage.recorder.state("running")
    step = stage.history.plan.chargeable()[0]
    stage.recorder.intent(
        step, stage.history.quote.line_of(step), stage.history.quote.price_of(step.id), auth_trial=False
    )
    assert say(stage, Cancel(), alone=False).heard is False
    assert stage.history.status == "running"
    assert say(stage, Cancel()).status == "cancelled"
    assert types(stage)[-3:] == ["request.unconfirmed", "checkpoint.written", "run.cancelled"]
    assert [entry.state for entry in stage.history.ledger.entries] == ["unconfirmed"]


def test_a_cancel_while_it_plans_ends_it_before_a_quote(tmp_path):
    made: list[Staged] = []

    def at_the_model_list(seen, before):
        if seen.path == "/v1/models":
            said_to(made[0].recorder.store.path, Cancel())

    made.append(staged("honest", tmp_path, audit=LIGHT, replace=at_the_model_list))
    with pytest.raises(Exception, match="cancelled"):
        made[0].plan()
    assert made[0].history.status == "cancelled"
    assert "quote.issued" not in types(made[0])
    assert len(made[0].seen) <= 2


# Pause and resume


def test_a_pause_is_heard_before_the_next_request_and_goes_on_where_it_was(tmp_path):
    stage = interrupted(tmp_path, lambda s: said_to(s.recorder.store.path, Pause()))
    stage.approve()
    stage.execute()
    assert (paid(stage), stage.history.status, stage.history.stopped) == (2, "paused", "")
    assert "run.completed" not in types(stage)
    assert say(stage, Pause()).status == "paused"
    say(stage, Resume())
    stage.execute()
    assert stage.history.status == "completed"
    assert paid(stage) == 4
    assert len(stage.history.sent_steps()) == len(stage.history.intents) == 4


def test_a_pause_that_is_taken_back_before_it_was_heard_stops_nothing(tmp_path):
    def both(s: Staged) -> None:
        said_to(s.recorder.store.path, Pause())
        said_to(s.recorder.store.path, Resume())

    stage = interrupted(tmp_path, both)
    stage.approve()
    stage.execute()
    assert (stage.history.status, paid(stage)) == ("completed", 4)


@pytest.mark.parametrize("signal", [Pause(), Resume()])
def test_the_same_again_writes_nothing(quoted, signal):
    if isinstance(signal, Resume):
        say(quoted, Pause())
    first = say(quoted, signal)
    before = types(quoted)
    assert say(quoted, signal) == first
    assert types(quoted) == before


def test_a_pause_waits_for_nobody_where_nobody_works(quoted):
    assert say(quoted, Pause()).status == "paused"
    assert say(quoted, Resume()).status == "awaiting_approval"


@pytest.mark.parametrize("signal", [Pause(), Resume(), Decline(), Revise(), AddContext(line_names=("x",))])
def test_a_run_that_has_ended_takes_no_signal_and_says_so(quoted, signal):
    say(quoted, Cancel())
    with pytest.raises(SignalRefused, match="has ended"):
        say(quoted, signal)
    last = list(quoted.recorder.store.events())[-1]
    assert (last.type, last.payload["reason"]) == ("signal.refused", "signal_refused")
    assert quoted.recorder.store.terminal().type == "run.cancelled"


# Decline and revise


def test_a_declined_quote_is_neither_approved_nor_sent(quoted):
    digest = quoted.history.quote.digest
    assert say(quoted, Decline()).status == "blocked"
    before = types(quoted)
    assert say(quoted, Decline()).status == "blocked"
    assert types(quoted) == before
    with pytest.raises(ApprovalRefused, match="declined") as refused:
        quoted.approve()
    assert refused.value.details == {"current_digest": digest}
    with pytest.raises(ApprovalRefused):
        quoted.execute()
    assert paid(quoted) == 0
    quoted.clock.pass_(1)
    again = say(quoted, Revise())
    assert again.status == "awaiting_approval"
    assert again.quote_digest != digest
    quoted.approve()
    quoted.execute()
    assert quoted.history.status == "completed"


def test_a_line_that_was_refused_never_appears_as_sent(tmp_path):
    quoted = staged("honest", tmp_path, audit=WHOLE)
    quoted.plan()
    first, *rest = probes_of(quoted)
    assert rest, "more than one probe, else the test says nothing"
    say(quoted, Decline(lines=(f"{first}@relay",)))
    assert first not in probes_of(quoted)
    assert f"{first}@relay" not in {line.id for line in quoted.history.quote.lines}
    quoted.approve()
    quoted.execute()
    steps = {quoted.history.plan.step(step).probe for step in quoted.history.sent_steps()}
    assert first not in steps
    assert steps
    named = {e.step for e in quoted.history.exchanges.values() if not e.step.startswith(("count.quote", "discovery"))}
    assert not [step for step in named if first.replace("/", ".") in step]


def test_dropping_lines_while_it_runs_keeps_the_approval(tmp_path):
    gone: list[str] = []

    def drop(s: Staged) -> None:
        gone.append(s.history.plan.chargeable()[-1].probe)
        said_to(s.recorder.store.path, Revise(drop=(gone[0],)), clock=s.clock)

    stage = interrupted(tmp_path, drop, at=1, audit=WHOLE)
    stage.approve()
    planned = len(stage.history.plan.chargeable())
    stage.execute()
    history = stage.history
    assert history.status == "completed"
    assert len(history.plan.chargeable()) < planned
    assert gone[0] not in {history.plan.step(step).probe for step in history.sent_steps() if history.plan.step(step)}
    assert begun_steps(history) >= {step.id for step in history.plan.chargeable()} - set(history.ended_lanes)
    assert history.approval.quote_digest != history.quote.digest
    assert history.covered
    assert all(entry.exchange in history.intents for entry in history.ledger.entries)
    judged = stage.judged()
    dropped = [row for row in judged.coverage if row.reason == "declined"]
    assert all(row.state == "not_run" for row in dropped)


def test_another_probe_in_its_place_waits_for_a_new_approval(tmp_path):
    def swap(s: Staged) -> None:
        said_to(
            s.recorder.store.path,
            Revise(replace={"anthropic/token_parity_quick": "anthropic/token_parity"}),
            clock=s.clock,
        )

    stage = interrupted(tmp_path, swap, at=1)
    assert "anthropic/token_parity_quick" in probes_of(stage)
    first = stage.approve()
    stage.execute()
    history = stage.history
    assert (history.status, paid(stage)) == ("awaiting_approval", 1)
    assert not history.covered
    with pytest.raises(ApprovalRefused, match="current quote"):
        audit.approve(stage.recorder, "f" * 64, first.ceiling, "me", "flag")
    with pytest.raises(ApprovalRefused, match="given once"):
        audit.approve(stage.recorder, first.quote_digest, Decimal(9), "me", "flag")
    stage.approve(history.quote.at_most + history.ledger.committed)
    stage.execute()
    assert stage.history.status == "completed"
    sent = {stage.history.plan.step(step).probe for step in stage.history.sent_steps()}
    assert "anthropic/token_parity" in sent
    bodies = [seen.body for seen in stage.seen if seen.method == "POST" and seen.side == "relay"]
    assert len(bodies) == len({str(body) for body in bodies}), "nothing that was sent is sent again"


@pytest.mark.parametrize(
    "signal",
    [Revise(drop=("anthropic/no_such",)), Revise(replace={"anthropic/token_parity_quick": "openai/token_parity"}),
     Decline(lines=("nothing@relay",))],
)  # fmt: skip
def test_what_is_not_in_the_runs_scope_is_refused_and_named(quoted, signal):
    before = quoted.history.plan
    with pytest.raises(SignalRefused, match="is no "):
        say(quoted, signal)
    assert quoted.history.plan == before


# Added context


def test_a_vendors_key_that_is_named_later_gives_a_counter_and_a_new_quote(tmp_path):
    stage = staged("honest", tmp_path, official=False, audit=LIGHT)
    stage.plan()
    before = stage.history.quote.digest
    reply = say(stage, AddContext(official_key_env="LAB_OFFICIAL_KEY", official_base_url="http://127.0.0.1:7002"))
    assert reply.quote_digest != before
    assert (reply.status, reply.approved) == ("awaiting_approval", False)
    assert stage.history.target.official.key_env == "LAB_OFFICIAL_KEY"
    assert stage.history.facts.official_origin == "http://127.0.0.1:7002"
    assert any(step.counts for step in stage.history.plan.steps)
    assert stage.history.plan.counter
    again = replay(stage.recorder.store)
    assert (again.target, again.facts, again.plan) == (stage.history.target, stage.history.facts, stage.history.plan)


def test_a_price_file_changes_the_quote_and_names_of_lines_do_not(quoted):
    digest = quoted.history.quote.digest
    reply = say(quoted, AddContext(line_names=("backup-claude",)))
    assert (reply.quote_digest, quoted.history.quote.digest) == (digest, digest)
    assert quoted.history.target.internal.line_names == ("backup-claude",)
    prices = {"price": [{"side": "relay", "models": ["*"], "input": "7", "output": "9", "source": "contract",
                         "observed": "2026-11-20"}]}  # fmt: skip
    ref = quoted.recorder.blob(prices)
    reply = say(quoted, AddContext(prices_ref=ref))
    assert reply.quote_digest != digest
    line = next(line for line in quoted.history.quote.lines if line.side == "relay" and line.unit_price)
    assert (line.unit_price.input, line.unit_price.source) == (Decimal(7), "contract")


@pytest.mark.parametrize("name", ["sk-" + "a" * 24, "not a name", "K" * 70])
def test_a_key_instead_of_its_name_is_refused_before_it_is_written(quoted, name):
    with pytest.raises(KeyRefused):
        say(quoted, AddContext(official_key_env=name))
    kept = b"".join(path.read_bytes() for path in quoted.recorder.store.path.rglob("*") if path.is_file())
    assert name.encode() not in kept


# One answer


def test_an_id_makes_a_signal_its_own_for_good(quoted):
    first = say(quoted, Pause(id="p-1"))
    say(quoted, Resume())
    before = types(quoted)
    again = say(quoted, Pause(id="p-1"))
    assert again.signal == first.signal
    assert types(quoted) == before, "a signal that was sent twice is not done twice"
    assert quoted.history.pausing is False
    with pytest.raises(SignalRefused, match="belongs to another signal"):
        say(quoted, Cancel(id="p-1"))
    assert quoted.history.status != "cancelled"


def test_of_two_processes_that_speak_at_once_the_second_decides_anew(quoted, monkeypatch):
    """Between reading and writing somebody else wrote: the signal is decided again on what the run is then."""
    path = quoted.recorder.store.path
    with Store.open(path) as store:
        recorder = Recorder(store, quoted.clock)
        note_all, beaten = recorder.note_all, []

        def beaten_once(drafts, *, after=None):
            if not beaten and after is not None:
                beaten.append(said_to(path, Cancel(), alone=True, clock=quoted.clock))
            return note_all(drafts, after=after)

        monkeypatch.setattr(recorder, "note_all", beaten_once)
        with pytest.raises(SignalRefused, match="has ended"):
            give(recorder, Pause(), Sender("human", alone=True))
    assert types(quoted).count("run.cancelled") == 1
    assert "run.state_changed" not in types(quoted)[types(quoted).index("run.cancelled") :]


def test_an_approval_from_another_process_is_heard_by_the_one_that_waits(quoted):
    with Store.open(quoted.recorder.store.path) as store:
        other = Recorder(store, quoted.clock)
        given = audit.approve(other, quoted.history.quote.digest, Decimal("0.5"), "her", "terminal")
    quoted.execute()
    assert quoted.history.status == "completed"
    assert (quoted.history.approval.approver, quoted.history.approval.channel) == ("her", "terminal")
    assert quoted.history.approved() == given
