"""Questions that decide whether somebody can hand work to a run and come back to it later, one test each; and those that
decide whether the record is the owner's. A whole run in the lab answers them, from its folder alone.
"""

from __future__ import annotations

import getpass
import hashlib
from decimal import Decimal

import pytest

from relay_audit import audit
from relay_audit.errors import RunCancelled, SignalRefused
from relay_audit.events import EVENTS
from relay_audit.filing import file_reports
from relay_audit.replay import replay
from relay_audit.signals import Cancel, Decline, Revise
from relay_audit.store import Store
from tests.staged import Staged, staged
from tests.steered import interrupted, is_paid, paid, said_to, types

WHOLE = {"profile": "quick"}


@pytest.fixture
def finished(tmp_path) -> Staged:
    stage = staged("hidden_508", tmp_path, audit=WHOLE, budget={"max_usd": "3", "max_usd_per_30_days": "9"})
    stage.whole()
    judgement = stage.judged()
    audit.record_judgement(stage.recorder, judgement)
    file_reports(stage.recorder, judgement, "en", stage.environ)
    return stage


def test_did_it_start_with_the_right_owner_permission_and_scope(finished):
    """They are in the first event, keys as fingerprints only; and what lies outside the scope is refused later on."""
    first = next(iter(finished.recorder.store.events()))
    assert (first.seq, first.type, first.payload["owner"]) == (1, "run.created", getpass.getuser())
    scope = first.payload["scope"]
    assert (scope["relay"], scope["model"], scope["dialect"]) == (
        "http://127.0.0.1:7001",
        "claude-sonnet-5-5",
        "anthropic",
    )
    assert (scope["max_usd"], scope["max_usd_per_30_days"]) == ("3", "9")
    assert set(first.payload["keys"]) == {"LAB_RELAY_KEY", "LAB_OFFICIAL_KEY"}
    kept = b"".join(path.read_bytes() for path in finished.recorder.store.path.rglob("*") if path.is_file())
    for key in finished.environ.values():
        assert key.encode() not in kept
    approval = finished.history.approval
    assert (approval.approver, approval.channel, approval.ceiling) == ("test", "flag", finished.history.quote.at_most)


def test_a_probe_outside_the_scope_is_refused(tmp_path):
    stage = staged("honest", tmp_path, audit={"profile": "quick", "checks": [2, 6]})
    stage.plan()
    outside = Revise(replace={"anthropic/token_parity_quick": "anthropic/parameters"})
    with pytest.raises(SignalRefused, match="is no probe of this run's dialect and checks"):
        said_to(stage.recorder.store.path, outside, alone=True, clock=stage.clock)


def test_was_there_a_plan_before_action(finished):
    """Plan, quote and approval are older than the first request that may be charged, and each send names its step."""
    events = list(finished.recorder.store.events())
    order = [event.type for event in events]
    first_send = order.index("request.sending")
    approved = next(i for i, e in enumerate(events) if e.payload.get("signal") == "approve")
    assert order.index("plan.created") < order.index("quote.issued") < approved < first_send
    plan = finished.history.plan
    for event in events:
        if event.type == "request.sending":
            assert plan.step(event.payload["step"]) is not None
            assert finished.history.quote.price_of(event.payload["step"]).at_most == Decimal(event.payload["at_most"])


def test_does_every_artifact_come_from_a_recorded_event(finished):
    """Both ways: every report has its event with its digest, every blob belongs to an event, and no event points nowhere."""
    store = finished.recorder.store
    events = list(store.events())
    claimed = {event.payload["sha256"] for event in events if event.type == "artifact.created"}
    written = {hashlib.sha256(path.read_bytes()).hexdigest() for path in store.reports.iterdir()}
    assert claimed == written != set()
    named = {event.payload_ref for event in events if event.payload_ref} | {events[0].payload["files_ref"]}
    assert {path.name for path in (store.path / "blobs").iterdir()} == named


@pytest.mark.parametrize("at", [1, 2, 4])
def test_does_a_failure_leave_a_useful_checkpoint(tmp_path, at):
    """The process breaks in the middle of a request: the folder says in words how far it came, and gives a report."""

    class Struck(BaseException):
        pass

    def strike(stage: Staged) -> None:
        raise Struck

    stage = interrupted(tmp_path, strike, at=at)
    stage.approve()
    with pytest.raises(Struck):
        stage.execute()
    stage.recorder.store.close()
    with Store.open(stage.recorder.store.path) as store:
        history = replay(store)
        assert history.status == "running"
        assert history.checkpoint["code"] in ("quoted", "probe_done")
        assert history.checkpoint["planned"] == 4
        judgement = audit.judge(store)
        assert judgement.verdict.incomplete
        assert len(history.unanswered()) == 1
        assert store.terminal() is None


def test_did_the_users_signals_change_the_run_as_expected(tmp_path):
    """A line of the quote is refused: that probe never appears as sent, and the rest is."""
    stage = staged("honest", tmp_path, audit=WHOLE)
    stage.plan()
    line = next(line for line in stage.history.quote.lines if line.side == "relay")
    said_to(stage.recorder.store.path, Decline(lines=(line.id,)), alone=True, clock=stage.clock)
    stage.recorder.catch_up()
    stage.approve()
    stage.execute()
    sent = {stage.history.plan.step(step).probe for step in stage.history.sent_steps()}
    assert line.probe not in sent
    assert sent
    asked = [e.payload for e in stage.recorder.store.events() if e.type == "signal.received"]
    assert asked[0] == {"signal": "decline", "asked": {"lines": [line.id]}}


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_does_a_cancel_end_in_one_terminal_state(tmp_path, when):
    """Twice each time: before anything was sent, while a request is out, and when it is over."""

    def twice(stage: Staged) -> None:
        for _ in range(2):
            said_to(stage.recorder.store.path, Cancel(), alone=when != "during", clock=stage.clock)

    stage = interrupted(tmp_path, twice if when == "during" else lambda _: None)
    if when == "before":
        twice(stage)
        stage.recorder.catch_up()
        with pytest.raises(RunCancelled):
            stage.execute()
    else:
        stage.approve()
        stage.execute()
    if when == "after":
        twice(stage)
    ends = [name for name in types(stage) if EVENTS[name].terminal]
    assert ends == (["run.completed"] if when == "after" else ["run.cancelled"])
    assert paid(stage) == {"before": 0, "during": 2, "after": 4}[when]
    assert sum(is_paid(seen) for seen in stage.seen) == len(stage.history.intents)


def test_does_the_final_report_cite_evidence_from_the_log(finished):
    """Every finding names exchanges, and every one of them is an event of this run with its bytes behind it."""
    store = finished.recorder.store
    recorded = {e.payload["exchange"]: e for e in store.events() if e.type == "exchange.recorded"}
    findings = finished.judged().findings
    cited = [xid for finding in findings for xid in finding.exchanges]
    assert cited
    for finding in findings:
        assert finding.exchanges or finding.outcome != "mismatch", finding.code
    for xid in cited:
        assert store.blob(recorded[xid].payload_ref)
