"""Refusals that are answered wait for the relay's own books, lane by lane, within the few readings a site allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage
from relay_audit.lanes import ALL
from relay_audit.plan import Step
from relay_audit.relays import new_api
from relay_audit.replay import replay
from relay_audit.site_budget import PER_RUN
from relay_audit.store import Store
from tests.staged import Staged, json_answer, somebody_spends, staged

BOOKS = (new_api.LOG, new_api.BALANCE)


def run(scenario: str, home: Path, **more: object) -> tuple[Staged, Evidence]:
    stage = staged(scenario, home, audit={"checks": [3, 4, 6]}, **more)  # type: ignore[arg-type]
    return stage, stage.whole().evidence


def refusals(evidence: Evidence) -> list[Step]:
    return [step for step in evidence.plan.steps if step.refusal and step.side == "relay"] if evidence.plan else []


def unsent(evidence: Evidence) -> list[str]:
    """Cases of which not even the first sending went out."""
    return [step.case for step in refusals(evidence) if not step.again and evidence.of_step(step.id) is None]


def parameters(stage: Staged) -> Coverage:
    return next(row for row in stage.judged().coverage if row.check == 4)


def order(stage: Staged, evidence: Evidence) -> list[tuple[str, int]]:
    """Lane and status of each refusal, and each reading of the books, in the order of sending."""
    lanes = {step.id: step.lane for step in refusals(evidence)}
    told = [
        e
        for e in evidence.exchanges
        if e.side == "relay" and (e.step in lanes or e.step.startswith(("reading.log.", "reading.balance.")))
    ]
    return [(lanes.get(e.step, "books"), e.status or 0) for e in told]


def calls_of(stage: Staged) -> int:
    return sum(seen.path in BOOKS for seen in stage.seen)


@pytest.mark.parametrize("scenario", ["honest", "honest_log_late", "honest_log_off", "honest_litellm"])
def test_what_software_takes_by_itself_does_not_end_the_check(scenario: str, tmp_path: Path) -> None:
    stage, evidence = run(scenario, tmp_path)
    assert unsent(evidence) == []
    assert (parameters(stage).state, parameters(stage).reason) == ("run", "")
    assert sum(evidence.of_step(step.id).status == 200 for step in refusals(evidence)) >= 2  # type: ignore[union-attr]
    assert calls_of(stage) <= PER_RUN


def test_an_answered_refusal_is_the_last_of_its_lane_until_the_books_are_read(tmp_path: Path) -> None:
    stage, evidence = run("everything_taken", tmp_path)
    open_: set[str] = set()
    settled = 0
    for lane, status in order(stage, evidence):
        if lane == "books":
            settled += bool(open_)
            open_.clear()
            continue
        assert lane not in open_, "one more of a lane that has an unread answer"
        open_ |= {lane} if status == 200 else set()
    assert settled >= 3
    assert len(unsent(evidence)) <= 1
    assert calls_of(stage) <= PER_RUN


def test_nothing_else_is_refused_before_the_books_were_read_after_the_canaries(tmp_path: Path) -> None:
    stage, evidence = run("honest", tmp_path)
    lanes = [lane for lane, _ in order(stage, evidence)]
    assert lanes[:3] == ["books"] * 3  # balance and log before anything is sent, the log after the first call
    first = lanes.index("books", 3)
    canaries = {step.lane for step in refusals(evidence) if step.stage == "canary"}
    assert sorted(lanes[3:first]) == sorted(canaries)
    again = [step.lane for step in refusals(evidence) if step.again]
    assert sorted(lane for lane in lanes[first:] if lane in canaries) == again, "asked more often, after the books"


def test_without_books_each_lane_ends_with_its_first_answer_and_says_so(tmp_path: Path) -> None:
    """LiteLLM in front of a model that takes everything: no log, no balance; the canary is refused, so that lanes begin."""
    heard = {"answered": 0}

    def takes_all_but_the_canaries(seen, before):
        body = seen.body or {}
        canary = body.get("temperature") == 9 or body.get("max_tokens", 0) > 100_000
        if seen.path != "/v1/messages" or seen.side != "relay" or canary:
            return None
        heard["answered"] += 1
        usage = {"input_tokens": 20, "output_tokens": 4}
        return json_answer({"id": f"msg_{before}", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
                            "content": [{"type": "text", "text": "OK"}], "stop_reason": "end_turn", "usage": usage})  # fmt: skip

    stage, evidence = run("honest_litellm", tmp_path, replace=takes_all_but_the_canaries)
    answered = [lane for lane, status in order(stage, evidence) if status == 200]
    assert len(answered) == len(set(answered)) == 5, "one answer of each lane"
    assert unsent(evidence)
    assert (parameters(stage).state, parameters(stage).reason) == ("run", "books_unreadable")


def test_an_answered_canary_that_nobody_can_look_up_ends_all_refusals(tmp_path: Path) -> None:
    stage, evidence = run("temperature_dropped_unlogged", tmp_path)
    sent = [step.case for step in refusals(evidence) if evidence.of_step(step.id)]
    assert sent == ["max_tokens_above_limit", "temperature_range"]
    assert stage.history.ended_lanes == {ALL}


def test_a_door_that_shuts_is_knocked_at_three_times_more(tmp_path: Path) -> None:
    """A firewall that bars after two of a kind: first questions are asked all the same, and repetitions of no kind any more."""
    bad = {"seen": 0}

    def shuts(seen, before):
        if seen.path != "/v1/messages" or seen.side != "relay" or (seen.body or {}).get("max_tokens") != 128_001:
            return None
        bad["seen"] += 1
        return (
            json_answer({"error": {"message": "Too many errors", "type": "forbidden"}}, 403)
            if bad["seen"] > 2
            else None
        )

    _, evidence = run("honest", tmp_path, replace=shuts)
    limits = [step for step in refusals(evidence) if step.case == "max_tokens_above_limit"]
    statuses = [e.status for step in limits if (e := evidence.of_step(step.id)) is not None]
    assert statuses == [400, 400, 403, 403, 403]
    temperatures = [step for step in refusals(evidence) if step.case == "temperature_range" and step.again]
    assert [evidence.of_step(step.id) for step in temperatures] == [None] * 10
    assert not unsent(evidence)


def test_where_no_row_is_written_the_balance_tells_what_they_cost(tmp_path: Path) -> None:
    """Consume logging is off: the balance moved by what the answers say, so the lanes go on."""
    stage, evidence = run("everything_taken_log_off", tmp_path)
    between = [e for e in evidence.exchanges if e.step == "reading.balance.between"]
    assert between
    canary = next(step for step in refusals(evidence) if step.case == "temperature_range")
    assert evidence.of_step(canary.id).status == 200  # type: ignore[union-attr]
    assert len([step for step in refusals(evidence) if evidence.of_step(step.id)]) > 10
    assert calls_of(stage) <= PER_RUN


def test_a_balance_that_moves_further_than_the_answers_explain_settles_nothing(tmp_path: Path) -> None:
    stage, evidence = run("everything_taken_log_off", tmp_path, replace=somebody_spends())
    assert stage.history.ended_lanes == {ALL}
    assert len([step for step in refusals(evidence) if evidence.of_step(step.id)]) == 2


def test_a_refusal_charged_beyond_its_line_ends_the_run(tmp_path: Path) -> None:
    """The row of the answered canary says ten site dollars."""

    def dear(seen, before):
        if seen.path != new_api.LOG or before < 2:
            return None
        canary = next(e for e in stage.history.sent() if e.step.endswith("canary.temperature_range"))
        row = {"created_at": int(canary.sent_at.timestamp()), "type": 2, "model_name": "claude-sonnet-5-5", "other": "",
               "quota": 5_000_000, "request_id": canary.response.header(new_api.REQUEST_ID)}  # fmt: skip
        return json_answer({"success": True, "data": [row]})

    stage = staged("everything_taken", tmp_path, audit={"checks": [3, 4, 6]}, replace=dear)
    evidence = stage.whole().evidence
    assert evidence.stopped == "line_exceeded"
    assert [step.case for step in refusals(evidence) if evidence.of_step(step.id)][-1] == "temperature_range"


def test_a_resumed_run_stands_where_the_first_one_stood(tmp_path: Path) -> None:
    stage, _ = run("everything_taken", tmp_path)
    again = replay(Store.open(stage.recorder.store.path))
    assert (again.books_asked, again.ended_lanes) == (stage.history.books_asked, stage.history.ended_lanes)
    assert len(again.books_asked) >= 8
