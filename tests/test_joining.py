"""Rows and sendings: joined where that leaves no choice, whatever order, clock or nonsense a log comes in."""

from __future__ import annotations

import datetime as dt
import json
import random
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_audit.books import LogReading, SiteFacts
from relay_audit.exchange import Exchange
from relay_audit.relays import new_api
from relay_audit.relays.asked import Asked, Own
from relay_audit.relays.claude_relay_service import ClaudeRelayService
from relay_audit.relays.litellm import LiteLlm
from relay_audit.relays.sub2api import Sub2Api
from relay_audit.usage import Usage
from tests.assess.evidence_builders import MODEL, answered, at, lost

Sending = tuple[Exchange, Usage | None]


def sent(n: int, rid: str = "", *, seconds: float = 0, date: str = "", stream: bool = False, out: int = 4) -> Sending:
    headers = ((new_api.REQUEST_ID, rid),) if rid else ()
    headers += (("date", date),) if date else ()
    body = {"model": MODEL, "stream": True} if stream else {"model": MODEL}
    exchange = answered(n, f"s{n}", {"id": f"m{n}"}, moment=at(seconds), headers=headers, sent=body)
    return exchange, Usage(input=18, output=out)


def row(rid: str = "", seconds: float = 1, **changes: Any) -> dict[str, Any]:
    return {"created_at": int(at(seconds).timestamp()), "type": 2, "model_name": MODEL, "quota": 38, "prompt_tokens": 18,
            "completion_tokens": 4, "is_stream": False, "request_id": rid, "other": "{}", **changes}  # fmt: skip


def read(rows: object, *sendings: Sending, **more: Any) -> LogReading:
    asked = Asked(
        answered(90, "reading.log", "", moment=at(60)),
        rows if isinstance(rows, str) else json.dumps({"success": True, "data": rows}),
    )
    own = Own(sendings, MODEL, SiteFacts(), lambda name: f"[account:{name}]", tuple(e for e, _ in sendings), **more)
    return new_api.read_rows(asked, own, "new_api").reading


def joins(reading: LogReading) -> list[str]:
    return [r.exchange for r in reading.rows]


def test_the_order_of_a_log_does_not_matter():
    sendings = [sent(n, f"r-{n}", seconds=n) for n in range(1, 9)]
    rows = [row(f"r-{n}", seconds=n, quota=n) for n in range(1, 9)]
    for seed in range(20):
        random.Random(seed).shuffle(rows)
        assert {r.exchange: r.quota for r in read(rows, *sendings).rows} == {f"X{n:04}": n for n in range(1, 9)}


def test_two_rows_of_one_request_id_are_both_its():
    assert joins(read([row("r-1"), row("r-1"), row("r-1", type=6)], sent(1, "r-1"))) == ["X0001"] * 3


def test_an_id_that_stands_on_two_answers_names_neither():
    reading = read([row("same")], sent(1, "same"), sent(2, "same", seconds=1, out=5))
    assert joins(reading) == []
    assert reading.foreign.count == 1


def test_a_row_that_names_our_header_as_its_upstreams_is_ours():
    """An old build lets the upstream's header stand in the place of its own."""
    assert joins(read([row("own-id", upstream_request_id="r-up")], sent(1, "r-up"))) == ["X0001"]


def test_replaced_headers_are_seen_through_only_where_everything_fits():
    sendings = [sent(n, f"up-{n}", seconds=10 * n, out=n) for n in range(1, 5)]
    rows = [row(f"own-{n}", seconds=10 * n + 1, completion_tokens=n) for n in range(1, 5)]
    assert sorted(joins(read(rows, *sendings))) == ["X0001", "X0002", "X0003", "X0004"]
    assert joins(read(rows[:3], *sendings)) == [], "one that fits nothing: the others could fit by chance"
    assert joins(read(rows[:2], *sendings[:2])) == [], "two could fit by chance"
    mixed = [*rows, row("up-1")]
    assert joins(read(mixed, *sendings)) == ["X0001"], "where one id agrees, ids are what joins"


def test_a_stranger_with_our_token_counts_is_a_stranger():
    reading = read([row("theirs"), row("r-1", seconds=2)], sent(1, "r-1"), sent(2, "r-2", seconds=1))
    assert joins(reading) == ["X0001"]
    assert (reading.foreign.count, reading.foreign.quota) == (1, 38)


def test_without_ids_as_many_rows_as_calls_alike_are_joined_in_order_of_time():
    sendings = [sent(n, seconds=n) for n in (1, 2, 3)]
    rows = [row(seconds=n + 1) for n in (3, 2, 1)]
    assert joins(read(rows, *sendings)) == ["X0003", "X0002", "X0001"]
    assert joins(read(rows[:2], *sendings)) == ["", ""], "one is missing: which, nobody can say"
    rows[0]["quota"] = 76
    assert joins(read(rows, *sendings)) == ["", "", ""], "they are charged differently: which was whose, nobody can say"


def test_kind_of_delivery_tells_calls_apart():
    sendings = (sent(1), sent(2, seconds=1, stream=True))
    assert joins(read([row(is_stream=True), row()], *sendings)) == ["X0002", "X0001"]


@pytest.mark.parametrize("off", [8 * 3600, -8 * 3600, 600, 0])
def test_a_relays_clock_may_be_off(off):
    moment = at(0) + dt.timedelta(seconds=off)
    date = format_datetime(moment, usegmt=True)
    assert joins(read([row(seconds=off + 1)], sent(1, date=date))) == ["X0001"]
    assert joins(read([row(seconds=off + 4000)], sent(1, date=date))) == []


def test_rows_of_our_own_earlier_run_are_neither_ours_nor_foreign():
    reading = read([row("r-1"), row("old-1"), row("old-2")], sent(1, "r-1"), earlier=frozenset({"old-1", "old-2"}))
    assert (joins(reading), reading.own_earlier, reading.foreign.count) == (["X0001"], 2, 0)


def test_foreign_rows_within_the_run_are_counted_apart():
    reading = read([row("a", seconds=-900), row("b", seconds=30, quota=7)], sent(1, "r-1"), since=at(-5))
    assert (reading.foreign.count, reading.foreign.quota) == (2, 45)
    assert (reading.foreign.within, reading.foreign.within_quota) == (1, 7)


def test_rows_of_the_future_are_counted():
    assert read([row("r-1", seconds=86_400)], sent(1, "r-1")).ahead == 1
    assert read([row("r-1")], sent(1, "r-1")).ahead == 0


def test_one_row_of_nonsense_loses_itself_and_nothing_else():
    rows = [row("r-1"), row("r-1", quota=10**30), row("r-1", created_at=10**30), "text", None, 7, [], {}]
    text = json.dumps({"success": True, "data": rows})[:-2] + ', {"quota": NaN, "created_at": Infinity}]}'
    reading = read(text, sent(1, "r-1"))
    assert (joins(reading), reading.unreadable) == (["X0001"], 8)


def test_a_lost_answer_takes_no_row_by_itself():
    dead = (lost(1, "s1").model_copy(update={"sent_at": at(0)}), None)
    assert joins(read([row("never-seen")], dead)) == [""]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = ("created_at", "type", "model_name", "quota", "prompt_tokens", "completion_tokens", "is_stream", "request_id",
         "upstream_request_id", "other", "group", "channel", "content", "timestamp", "cost", "realCost", "model", "inputTokens",
         "spend", "endTime", "model_group", "usage", "total", "recentRecords", "requests", "actual_cost")  # fmt: skip
strange_row = st.dictionaries(st.sampled_from(NAMES), anything, max_size=10)
HEADERS = ((new_api.REQUEST_ID, "r-1"), ("x-litellm-response-cost", "1e-5"))


@settings(max_examples=150, deadline=None)
@given(st.lists(strange_row | anything, max_size=6), anything)
def test_no_log_can_break_a_reading(rows, loose):
    sending = (
        answered(1, "s1", {"id": "m1"}, moment=at(0), headers=HEADERS, sent={"model": MODEL}),
        Usage(input=18, output=4),
    )
    own = Own((sending,), MODEL, SiteFacts(), lambda name: name, (sending[0],), since=at(-5))
    bodies = [{"success": True, "data": rows}, {"usage": {"total": loose, "recentRecords": rows}}, rows, loose,
              {"usage": {"total": {"cost": loose, "actual_cost": 1}}, "info": loose, "model_stats": rows}]  # fmt: skip
    for body in bodies:
        asked = Asked(answered(90, "reading", "", moment=at(60)), json.dumps(body))
        for adapter in (new_api.NewApi(), ClaudeRelayService(), LiteLlm(), Sub2Api()):
            reading = adapter.read_log(asked, own).reading
            assert reading == LogReading.model_validate_json(reading.model_dump_json())
            balance = adapter.read_balance(asked, own.site, "before", MODEL)
            assert balance == type(balance).model_validate_json(balance.model_dump_json())


def test_a_copy_under_another_id_stays_with_nobody_and_is_counted():
    sendings = [sent(n, f"r-{n}", seconds=10 * n, out=n) for n in range(1, 4)]
    own = [row(f"r-{n}", seconds=10 * n + 1, completion_tokens=n) for n in range(1, 4)]
    copy = row("other", seconds=12, completion_tokens=1)
    late, unlike = row("late", seconds=40, completion_tokens=1), row("unlike", seconds=12, completion_tokens=9)
    reading = read([*own, copy, late, unlike], *sendings, since=at(0))
    assert joins(reading) == ["X0001", "X0002", "X0003"]
    foreign = reading.foreign
    assert (foreign.count, foreign.alike, foreign.alike_rows, foreign.alike_quota) == (3, ("X0001",), 1, 38)


def test_a_row_like_a_call_that_has_none_is_no_copy():
    reading = read([row("other")], sent(1, "r-1"), since=at(0))
    assert (reading.foreign.count, reading.foreign.alike_rows) == (1, 0)


def test_a_second_row_of_a_films_order_is_named_where_model_amount_and_moment_agree():
    order = sent(1, "r-1")[0], None
    own, copy = row("r-1", quota=150_000, prompt_tokens=0), row("r-2", quota=150_000, prompt_tokens=0)

    def alike(*rows: dict[str, Any], task: str = "task_1") -> tuple[str, ...]:
        return read(list(rows), order, tasks={task: "X0001"} if task else {}, since=at(0)).foreign.alike

    assert alike(own, copy) == ("X0001",)
    assert alike(own, {**copy, "quota": 150_001}) == ()
    assert alike(own, {**copy, "model_name": "another"}) == ()
    assert alike(own, {**copy, "created_at": copy["created_at"] + 60}) == ()
    assert alike(own, {**copy, "type": 6}) == ()
    assert alike(copy) == (), "an order without a row of its own"
    assert alike(own, copy, task="") == (), "no film"
    settled = {**copy, "other": json.dumps({"task_id": "task_1"})}
    assert alike(own, settled) == (), "it names our task: it is ours"
