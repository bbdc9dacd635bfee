"""What a relay's own books say: read few times, waited for a bounded time, never kept as text."""

from __future__ import annotations

from decimal import Decimal

import httpx
import pytest

from relay_audit.books import USAGE_PAGES
from relay_audit.relays import dashboard, new_api, sub2api
from tests.staged import Staged, json_answer, staged

QUICK = {"profile": "quick", "checks": [2, 6]}
LOG = new_api.LOG


def run(scenario: str, tmp_path, replace=None, **more) -> Staged:
    stage = staged(scenario, tmp_path, audit=QUICK, replace=replace, **more)
    stage.whole()
    return stage


class Books:
    """A log of our own making: rows by what the run has sent so far."""

    def __init__(self, *readings) -> None:
        self.readings = readings
        self.stage: Staged | None = None

    def __call__(self, seen, before):
        if seen.path != LOG or not self.readings:
            return None
        reading = self.readings[min(before, len(self.readings) - 1)]
        return reading(self.stage) if callable(reading) else reading

    def run(self, tmp_path, scenario: str = "honest") -> Staged:
        self.stage = staged(scenario, tmp_path, audit=QUICK, replace=self)
        self.stage.whole()
        return self.stage


def rows_of(stage: Staged, *, quota: int = 40, but: int = 0, more: tuple[dict, ...] = ()) -> httpx.Response:
    """A row per answered sending, except for the last `but`."""
    answered = [e for e in stage.history.sent() if e.status == 200]
    rows = [
        {
            "created_at": int(e.sent_at.timestamp()) + 1,
            "type": 2,
            "model_name": "claude-sonnet-5-5",
            "quota": quota,
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "request_id": e.response.header(new_api.REQUEST_ID),
            "other": "",
        }
        for e in answered[: len(answered) - but]
    ]
    return json_answer({"success": True, "data": [*rows, *more]})


EMPTY = json_answer({"success": True, "data": []})


def charges(stage: Staged) -> list[tuple[str, Decimal]]:
    return [(e.basis, e.amount) for e in stage.history.ledger.entries if e.side == "relay"]


def states(stage: Staged) -> list[str]:
    return [reading.state for reading in stage.history.log]


def test_the_log_settles_every_call(tmp_path):
    stage = Books(lambda _: EMPTY, rows_of).run(tmp_path)
    assert charges(stage) == [("relay_log", Decimal("0.00008"))] * 4
    assert states(stage)[:3] == ["empty", "read", "read"], "before, after the first call, at the end"
    assert (len(stage.history.log), len(stage.history.balance)) == (4, 3), "rows and balance differ here: a second look"
    last = stage.history.balance[-1]
    assert (last.at - max(e.sent_at for e in stage.history.sent())).total_seconds() >= 60, "reserves are back"


def test_a_row_that_is_late_is_waited_for(tmp_path):
    late = (lambda s: rows_of(s, but=1), lambda s: rows_of(s, but=1), rows_of)
    stage = Books(lambda _: EMPTY, rows_of, *late).run(tmp_path)
    assert charges(stage) == [("relay_log", Decimal("0.00008"))] * 4
    last = max(e.sent_at for e in stage.history.sent())
    reads = [reading.at for reading in stage.history.log]
    assert len(reads) == 6, "the last one because the balance lost more than these rows say"
    assert [
        (moment - last).total_seconds() >= wait for moment, wait in zip(reads[2:], (0, 10, 20, 70), strict=True)
    ] == [True] * 4


def but_the_last(stage: Staged) -> httpx.Response:
    """The relay's own rows, the last one missing: the balance has paid for that one too, and for no more."""
    return json_answer({"success": True, "data": stage.world.relay.log.own_rows()[:-1]})


def test_the_wait_is_bounded(tmp_path):
    stage = Books(lambda _: EMPTY, rows_of, but_the_last).run(tmp_path)
    assert stage.paths().count(LOG) == 5
    assert [basis for basis, _ in charges(stage)] == ["relay_log"] * 3 + ["usage_at_quoted_price"]
    last = max(e.sent_at for e in stage.history.sent())
    assert (stage.clock.now() - last).total_seconds() < 60
    assert any(f.code == "billing.settlement_pending" for f in stage.judged().findings)


def test_a_balance_that_lost_more_than_the_missing_row_is_waited_for_once_more(tmp_path):
    stage = Books(lambda _: EMPTY, rows_of, lambda s: rows_of(s, but=1)).run(tmp_path)
    last = max(e.sent_at for e in stage.history.sent())
    reads = [(reading.at - last).total_seconds() for reading in stage.history.log]
    assert len(reads) == 6
    assert 60 <= reads[-1] < 80
    assert (stage.history.usage[-1].at - last).total_seconds() >= 60, (
        "the page stands in: the balance's reads are used up"
    )


@pytest.mark.parametrize(
    "later",
    [json_answer({"error": 1}, 429), json_answer("<html>"), httpx.ReadTimeout("gone")],
    ids=["429", "html", "lost"],
)
def test_what_was_read_outlives_a_later_refusal(tmp_path, later):
    stage = Books(lambda _: EMPTY, rows_of, lambda s: rows_of(s, but=1), lambda _: later).run(tmp_path)
    assert stage.paths().count(LOG) == 4
    assert [basis for basis, _ in charges(stage)] == ["relay_log"] * 3 + ["usage_at_quoted_price"]
    assert not any(f.code == "billing.log_unavailable" for f in stage.judged().findings)


def test_a_refund_is_taken_off_and_never_below_nothing(tmp_path):
    def with_refund(stage: Staged, amounts=(25, 100)) -> httpx.Response:
        answered = [e for e in stage.history.sent() if e.status == 200]
        back = tuple(
            {
                "created_at": int(e.sent_at.timestamp()),
                "type": 6,
                "quota": amount,
                "request_id": e.response.header(new_api.REQUEST_ID),
            }
            for e, amount in zip(answered, amounts, strict=False)
        )
        return rows_of(stage, more=back)

    stage = Books(lambda _: EMPTY, with_refund).run(tmp_path)
    assert [amount for _, amount in charges(stage)] == [
        Decimal("0.00003"),
        Decimal(0),
        Decimal("0.00008"),
        Decimal("0.00008"),
    ]


def lose_the_second(seen, before):
    return httpx.ReadTimeout("hang") if seen.path == "/v1/messages" and before == 1 else None


def loose_row(stage: Staged, quota: int) -> dict:
    [lost] = [e for e in stage.history.sent() if e.delivery == "unconfirmed"]
    return {
        "created_at": int(lost.sent_at.timestamp()) + 1,
        "type": 2,
        "model_name": "claude-sonnet-5-5",
        "quota": quota,
        "prompt_tokens": 30,
        "completion_tokens": 4,
        "request_id": "never-seen",
        "other": "",
    }


@pytest.mark.parametrize(("rows", "state"), [(1, "settled"), (2, "unconfirmed"), (0, "unconfirmed")])
def test_a_lost_answer_is_settled_by_the_only_row_that_can_be_its(tmp_path, rows, state):
    books = Books(lambda _: EMPTY, lambda s: rows_of(s, more=tuple(loose_row(s, 55) for _ in range(rows))))

    def replace(seen, before):
        return lose_the_second(seen, before) or books(seen, before)

    stage = staged("honest", tmp_path, audit=QUICK, replace=replace)
    books.stage = stage
    judged = stage.whole()
    entry = stage.history.ledger.entries[1]
    assert entry.state == state
    step = stage.history.exchanges[entry.exchange].step
    worst = stage.history.quote.price_of(step).at_most
    assert entry.amount == (Decimal("0.00011") if state == "settled" else worst)
    said = next(f for f in judged.findings if f.code == "run.unconfirmed_send")
    assert said.params["settled"] == (1 if state == "settled" else 0)


def test_other_traffic_is_told_before_anything_is_spent(tmp_path):
    stage = run("honest_foreign_rows", tmp_path)
    names = [name for name, _ in stage.notes]
    assert "foreign_rows" in names
    assert names.index("foreign_rows") < next(
        i for i, (name, p) in enumerate(stage.notes) if name == "step" and p["side"] == "relay"
    )


def test_the_logs_text_is_never_kept(tmp_path):
    row = {
        "created_at": 1_790_000_000,
        "type": 2,
        "model_name": "x",
        "quota": 5,
        "username": "neighbour",
        "content": "their words",
    }
    stage = Books(lambda _: json_answer({"success": True, "data": [row]})).run(tmp_path)
    read = [e for e in stage.history.exchanges.values() if e.step.startswith("reading.log")]
    assert read
    assert all(e.response.body == "" for e in read)
    kept = b"".join(path.read_bytes() for path in stage.recorder.store.path.rglob("*") if path.is_file())
    assert b"neighbour" not in kept
    assert b"their words" not in kept


def test_the_books_are_read_at_the_origin_with_a_bearer_header(tmp_path):
    stage = run("honest", tmp_path)
    reads = [s for s in stage.seen if s.path in (LOG, new_api.BALANCE)]
    assert len(reads) == 5
    assert all(
        s.headers["authorization"] == f"Bearer {stage.world.relay_key}" and "x-api-key" not in s.headers for s in reads
    )


def test_software_without_a_readable_log_is_not_asked(tmp_path):
    stage = run("honest_no_software", tmp_path)
    assert not {LOG, new_api.BALANCE} & set(stage.paths())
    assert {basis for basis, _ in charges(stage)} == {"usage_at_quoted_price"}


def test_an_old_log_that_reads_a_key_in_the_url_is_left_alone(tmp_path):
    stage = run("honest_log_query_only", tmp_path)
    assert set(states(stage)) == {"unsafe"}
    assert not any("key=" in path for path in stage.paths())


def test_a_used_up_site_is_not_read(tmp_path):
    from relay_audit.site_budget import PER_SITE, SiteBudget
    from tests.audits import RELAY

    stage = staged("honest", tmp_path, audit=QUICK)
    for n in range(PER_SITE):
        assert SiteBudget(stage.space.state).take(RELAY, f"other{n}", stage.clock.now())
    stage.whole()
    assert LOG not in stage.paths()
    assert {basis for basis, _ in charges(stage)} == {"usage_at_quoted_price"}


@pytest.mark.parametrize(("wait", "read"), [("20", True), ("31", False)])
def test_a_short_pause_that_the_site_names_is_waited_for(tmp_path, wait, read):
    busy = json_answer("", 429, **{"retry-after": wait})
    stage = Books(lambda _: EMPTY, rows_of, lambda _: busy, rows_of).run(tmp_path)
    assert states(stage) == ["empty", "read", "limited", *["read", "read"] * read], "rows and balance differ here"
    assert [basis for basis, _ in charges(stage)][1:] == ["relay_log" if read else "usage_at_quoted_price"] * 3
    if read:
        first, second, _ = [reading.at for reading in stage.history.log][2:]
        assert (second - first).total_seconds() >= 20


@pytest.mark.parametrize(("late", "waits", "judged"), [(0, 1, "billing.matches"), (1, 2, "billing.matches"),
                                                       (9, 2, "billing.settlement_pending")])  # fmt: skip
def test_totals_that_are_the_only_books_are_waited_for_as_rows_are(tmp_path, late, waits, judged):
    """sub2api writes its totals after the answers: the last request is not in them at once."""
    stage: Staged

    def replace(seen, before):
        if seen.path != sub2api.USAGE:
            return None
        sent = sum(e.status == 200 for e in stage.history.sent())
        ended = [e for e in stage.history.balance if e.when == "after"]
        behind = sent - (len(ended) < late) if sent > 1 else sent
        cost = {"requests": behind, "cost": 0.00002 * behind, "actual_cost": 0.000003 * behind}
        return json_answer({"mode": "unrestricted", "isValid": True, "balance": 5, "usage": {"total": cost}})

    stage = staged("honest_sub2api", tmp_path, audit=QUICK, replace=replace)
    findings = {f.code: f for f in stage.whole().findings}
    last = max(e.sent_at for e in stage.history.sent())
    reads = [(b.at - last).total_seconds() for b in stage.history.balance if b.when == "after"]
    assert [moment >= wait for moment, wait in zip(reads, (10, 20), strict=False)] == [True] * waits
    assert judged in findings
    if late == 9:
        assert findings[judged].params["waited_s"] >= 20


@pytest.mark.parametrize(("times", "judged"), [(1, None), (2, "low")])
def test_a_build_without_a_balance_page_is_held_against_its_usage_page(tmp_path, times, judged):
    """new-api of 2025-04: no `/api/usage/token/`, and a log that no header opens."""
    stage: Staged

    def replace(seen, before):
        if seen.path == new_api.BALANCE:
            return json_answer({"error": {"message": "Invalid URL (GET /api/usage/token/)"}}, 404)
        if seen.path == dashboard.USAGE:
            spent = stage.history.ledger.total("settled", "relay")
            return json_answer({"object": "list", "total_usage": float(100 * times * spent)})
        return None

    stage = staged("honest_log_query_only", tmp_path, audit=QUICK, replace=replace)
    findings = {f.code: f for f in stage.whole().findings}
    told = [b for b in stage.history.balance if b.spent(500_000) is not None]
    last = max(e.sent_at for e in stage.history.sent())
    assert [b.adapter for b in told] == [USAGE_PAGES] * 3
    assert (told[-1].at - last).total_seconds() >= 10, "what is reserved is not yet spent"
    assert (findings["billing.overcharged"].severity if judged else None) == judged
    assert ("billing.overcharged" in findings) is (judged is not None)
