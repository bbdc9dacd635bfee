"""The tier table out of a finished run: what each film was quoted and charged, and what was turned down or given back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_tiers import judge_tiers
from relay_audit.assess.tiers import assess_tiers, tier_table
from relay_audit.books import BalanceReading, LogReading, LogRow
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.media_facts import MediaFacts, MediaReading
from relay_audit.quote import Line, Quote, StepPrice
from relay_audit.target import VideoTier
from relay_audit.tiers import Movement, TierRecord, TierTable
from relay_audit.video import TaskSpec, VideoOrder
from tests.assess.evidence_builders import KNOWLEDGE, answered, at, codes, lost, only, run_of, step_named

FILM = "wan3.0-video"
LISTED = {"480p": Decimal("0.041256"), "1080p": Decimal("0.165025")}
ROUTE = TaskSpec(
    route="tasks", poll="/v1/video/{id}", task_id=("/id",), status=("/status",), waiting=("queued",), done=("succeeded",),
    failed=("failed",), reason=("/error/message",),
)  # fmt: skip
ORDERED = {"id": "task_1", "status": "queued"}
SEEN = (("x-new-api-other-ratios", '{"seconds": 5}'),)
TASK_ROW = {"is_task": True}


def row(units: int, *, kind: str = "consume", after: float = 2, other: dict[str, Any] | None = None) -> LogRow:
    return LogRow(exchange="X0001", created_at=at(after), kind=kind, model=FILM, quota=units, prompt_tokens=0,
                  completion_tokens=0, other=TASK_ROW if other is None else other)  # fmt: skip


def run(
    *rows: LogRow,
    order: Any = ORDERED,
    status: int = 200,
    ended: Any = None,
    ended_at: float = 60,
    read_at: float = 4_000,
    resolution: str = "480p",
    media: MediaReading | None = None,
    pricing: Any = None,
    headers: tuple[tuple[str, str], ...] = SEEN,
    fell: int | None = None,
    ordered: bool = True,
) -> Evidence:
    film = VideoOrder(resolution=resolution, seconds=5, task=ROUTE)
    step = step_named("film").model_copy(update={"order": film})
    sent = [answered(1, "film", order, moment=at(1), status=status, headers=headers)] if ordered else []
    sent += [answered(2, "task.film", ended, moment=at(ended_at))] if ended is not None else []
    sent += [answered(3, "discovery.pricing", pricing, moment=at(0))] if pricing is not None else []
    log = (LogReading(at=at(read_at), exchange="X0020", state="read", rows=rows),) if rows else ()
    balance = tuple(
        BalanceReading(at=at(when), exchange=f"X003{n}", used_quota=10_000_000 + spent)
        for n, (when, spent) in enumerate(((0, 0), (read_at, fell)))
    ) if fell is not None else ()  # fmt: skip
    return run_of(sent, [step], model=FILM, log=log, balance=balance, media=(media,) if media else ())


def delivered(**facts: Any) -> MediaReading:
    file = MediaFacts(name="film.mp4", sha256="0" * 64, size=1000, kind="mp4", **facts)
    return MediaReading(at=at(90), step="film", exchange="X0009", file=file)


def record(*rows: LogRow, **how: Any) -> TierRecord:
    return only(list(tier_table(run(*rows, **how), KNOWLEDGE).records))


def judged(*rows: LogRow, **how: Any) -> list[Finding]:
    return assess_tiers(run(*rows, **how), KNOWLEDGE)


DONE = {"id": "task_1", "status": "succeeded"}


def broke(why: str = "internal error") -> dict[str, Any]:
    return {"id": "task_1", "status": "failed", "error": {"message": why}}


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ({"ordered": False}, "not_ordered"),
        ({}, "pending"),
        ({"status": 202}, "pending"),
        ({"order": {"error": {"message": "4k is not offered"}}, "status": 422}, "refused"),
        ({"ended": DONE}, "pending"),
        ({"ended": DONE, "media": delivered()}, "delivered"),
        ({"ended": DONE, "media": MediaReading(at=at(90), step="film", failure="no_link")}, "not_fetched"),
        ({"ended": DONE, "media": MediaReading(at=at(90), step="another")}, "pending"),
        ({"ended": broke()}, "failed"),
        ({"ended": broke("1080P is not supported")}, "refused"),
        ({"ended": broke("不支持该分辨率")}, "refused"),
        ({"order": {"error": {"message": "overloaded"}}, "status": 503}, "failed"),
        ({"order": {"error": {"message": "4k is not offered"}}, "status": 503}, "failed"),
        ({"order": {"error": {"message": "4k is not offered"}}, "status": 400}, "refused"),
        ({"order": {"error": {"message": "4k is not offered"}}, "status": 200}, "refused"),
        ({"order": {"error": {"message": "prompt is not allowed"}}, "status": 400}, "failed"),
        ({"order": {"status": "queued"}}, "unconfirmed"),
    ],
)  # fmt: skip
def test_how_a_film_ended(how, state):
    assert record(**how).state == state


def test_an_order_without_an_outcome_is_never_a_refusal():
    whole = run()
    open_ = whole.model_copy(update={"exchanges": (lost(1, "film"),)})
    assert only(list(tier_table(open_, KNOWLEDGE).records)).state == "unconfirmed"


def test_what_belongs_to_a_record():
    made = record(row(100_000), ended=DONE, media=delivered())
    assert (made.tier.resolution, made.tier.seconds, made.task_id) == ("480p", 5, "task_1")
    assert made.official == LISTED["480p"] * 5
    assert (made.charged, made.refunded, made.exchanges) == (Decimal("0.2"), Decimal(0), ("X0001", "X0002"))
    assert made.ended_at == at(60)
    assert record(row(100_000)).ended_at is None
    assert record(resolution="240p").official is None, "no list price of this tier"
    assert record(ordered=False).official == LISTED["480p"] * 5


def test_rows_that_took_nothing_are_no_movement():
    assert record(row(0)).movements == ()
    assert [m.kind for m in record(row(100), row(-40, kind="refund")).movements] == ["charge", "refund"]
    assert record(row(100), row(-50, kind="refund")).refunded == Decimal("0.0001")


def test_the_table_is_told_with_its_ratio():
    found = only(judged(row(100_000), ended=DONE, media=delivered()))
    assert (found.code, found.outcome, found.basis) == ("billing.tiers_measured", "match", "relay_word")
    assert found.exchanges == ("X0001", "X0002")
    assert found.params == {"n": 1, "table": ["480p 5 s: 0.2 / 0 / 0.2 / ×0.970"]}
    assert found.observed == {
        "480p_5s": {
            "state": "delivered", "quoted": None, "charged": "0.2", "refunded": "0", "net": "0.2",
            "official": "0.20628", "ratio": "0.9696",
        }
    }  # fmt: skip


def test_without_books_there_is_no_figure():
    assert judged(ended=DONE, media=delivered()) == []
    assert judged(ordered=False) == []


# Turned down


LIST = {"data": [{"model_name": FILM, "resolutions": ["480P", "1080p"]}, {"model_name": "other", "note": "240p"}]}


@pytest.mark.parametrize(
    ("pricing", "resolution", "advertised"),
    [(LIST, "480p", True), (LIST, "240p", False), ({"data": [{"model_name": "other"}]}, "480p", None), ({"data": {}}, "480p", None),
     (None, "480p", None)],
)  # fmt: skip
def test_whether_the_list_names_the_tier(pricing, resolution, advertised):
    assert record(pricing=pricing, resolution=resolution).advertised is advertised


REFUSED = {"order": {"error": {"message": "480p is not offered"}}, "status": 400}


def test_a_tier_of_the_list_that_was_refused_is_held_against_the_relay():
    found = only(judged(pricing=LIST, **REFUSED))
    assert (found.code, found.severity, found.confidence, found.accusation) == (
        "billing.tier_refused", "medium", "strong", True,
    )  # fmt: skip
    assert found.params == {"tier": "480p, 5 s", "charged": "0", "refunded": "0", "difference": "0"}


def test_a_tier_that_nobody_offered_is_low_and_only_where_it_was_charged():
    assert judged(**REFUSED) == []
    made = judged(row(100_000), row(-100_000, kind="refund", after=5), **REFUSED)
    found = next(f for f in made if f.code == "billing.tier_refused")
    assert (found.severity, found.accusation, found.basis) == ("low", False, "relay_word")
    assert found.params == {"tier": "480p, 5 s", "charged": "0.2", "refunded": "0.2", "difference": "0"}


# Given back


def test_a_failed_film_that_was_not_given_back():
    found = next(f for f in judged(row(100_000), ended=broke()) if f.code.startswith("billing.refund"))
    assert (found.code, found.severity, found.confidence, found.accusation) == (
        "billing.refund_missing", "medium", "strong", True,
    )  # fmt: skip
    assert found.params == {"n": 1, "charged": "0.2", "refunded": "0", "difference": "0.2", "waited_s": 3940}


@pytest.mark.parametrize(
    ("how", "why", "waited"),
    [
        ({"read_at": 1859}, "refund_may_come", 1799),
        (
            {"headers": (), "ended": {**broke(), "id": "cgt-1"}, "order": {**ORDERED, "id": "cgt-1"}},
            "refunds_not_shown",
            3940,
        ),
        ({"fell": 0}, "balance_came_back", 3940),
    ],
)
def test_a_refund_that_may_have_come_unseen_accuses_nobody(how, why, waited):
    made = judged(row(100_000), **{"ended": broke(), **how})
    found = next(f for f in made if f.code.startswith("billing.refund"))
    assert (found.code, found.accusation, found.basis) == ("billing.refund_open", False, "relay_word")
    assert found.params == {"charged": "0.2", "refunded": "0", "difference": "0.2", "waited_s": waited, "reason": why}
    assert found.exchanges == ("X0001", "X0002")


def test_thirty_minutes_to_the_second_are_enough():
    made = judged(row(100_000), ended=broke(), read_at=1860)
    assert "billing.refund_missing" in codes(made)


def test_a_log_that_marks_no_task_shows_its_key_no_refund():
    made = judged(row(100_000, other={}), ended=broke())
    assert "billing.refund_open" in codes(made)


def test_a_balance_that_fell_by_the_charge_shows_that_nothing_came_back():
    assert "billing.refund_missing" in codes(judged(row(100_000), ended=broke(), fell=100_000))


@pytest.mark.parametrize(("after", "late"), [(70, False), (1860, False), (1861, True), (4000, True)])
def test_a_refund_within_the_time_of_its_job_is_prompt(after, late):
    back = row(-100_000, kind="refund", after=after)
    made = judged(row(100_000), back, ended=broke(), read_at=9_000)
    assert ("billing.refund_late" in codes(made)) is late
    assert not [f for f in made if f.code in ("billing.refund_missing", "billing.refund_open")]


def test_a_film_that_came_owes_nobody_a_refund():
    assert codes(judged(row(100_000), ended=DONE, media=delivered())) == ["billing.tiers_measured"]


# One tier by itself


def moved(kind: str, amount: str, after: float = 0) -> Movement:
    return Movement(at=at(after), amount=Decimal(amount), kind=kind)


@pytest.mark.parametrize(
    ("state", "moves", "told"),
    [
        ("failed", (moved("charge", "0.5"),), ("billing.refund_missing", "medium",
         {"n": 1, "charged": "0.5", "refunded": "0", "difference": "0.5", "waited_s": None})),
        ("failed", (moved("charge", "0.5"), moved("refund", "0.2", 9000)), ("billing.refund_missing", "medium",
         {"n": 1, "charged": "0.5", "refunded": "0.2", "difference": "0.3", "waited_s": None})),
        ("failed", (moved("charge", "0.5"), moved("refund", "0.5", 10)), None),
        ("failed", (moved("charge", "0.5"), moved("refund", "0.5", 11)), ("billing.refund_late", "low",
         {"n": 1, "refunded": "0.5", "delay_s": 11})),
        ("failed", (moved("charge", "0.5"), moved("refund", "0.5", 1800)), ("billing.refund_late", "low",
         {"n": 1, "refunded": "0.5", "delay_s": 1800})),
        ("failed", (moved("charge", "0.5"), moved("refund", "0.5", 1801)), ("billing.refund_late", "medium",
         {"n": 1, "refunded": "0.5", "delay_s": 1801})),
        ("failed", (), None),
        ("refused", (), ("billing.tier_refused", "medium", {"tier": "480p, 5 s", "charged": "0", "refunded": "0", "difference": "0"})),
        ("not_fetched", (moved("charge", "0.5"),), None),
        ("delivered", (moved("charge", "0.5"),), None),
    ],
)  # fmt: skip
def test_one_tier_is_judged_by_its_own_movements(state, moves, told):
    one = TierRecord(tier=VideoTier(resolution="480p", seconds=5), state=state, advertised=True, movements=moves,
                     exchanges=("X0001", "X0002"))  # fmt: skip
    made = judge_tiers(TierTable(records=(one,)))
    if told is None:
        assert made == []
        return
    found = only(made)
    assert (found.code, found.severity, found.params) == told
    assert (found.outcome, found.confidence, found.basis, found.exchanges) == (
        "mismatch", "strong", "relay_word", ("X0001", "X0002"),
    )  # fmt: skip


# The table's own figures


def quoted(*prices: tuple[str, str], later: tuple[tuple[str, str], ...] = ()) -> Quote:
    def step(name: str, price: str) -> StepPrice:
        worth = Decimal(price)
        return StepPrice(step=name, input_tokens=0, expected=worth, at_most=worth, hold=worth)

    line = Line(
        id="l",
        probe="p",
        side="relay",
        count=1,
        unit_price=None,
        expected=Decimal(1),
        at_most=Decimal(1),
        hold=Decimal(1),
    )
    return Quote(plan_digest="d", seed=1, lines=(line,), steps=tuple(step(*p) for p in prices), issued_at=at(0), expires_at=at(9),
                 counted=False, needs_explicit_ceiling=False, later_steps=tuple(step(*p) for p in later))  # fmt: skip


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("quote", "price"),
    [
        (quoted(("other", "9"), ("film", "0.3")), "0.3"),
        (quoted(("other", "9"), later=(("film", "0.4"),)), "0.4"),
        (quoted(("other", "9")), None),
        (None, None),
    ],
)
def test_a_tier_is_quoted_by_its_own_step_also_where_it_was_not_ordered(quote, price, ordered):
    made = tier_table(run(ordered=ordered).model_copy(update={"quote": quote}), KNOWLEDGE).records
    assert only(list(made)).quoted == (None if price is None else Decimal(price))


def test_the_quote_stands_in_the_tables_figures():
    whole = run(row(100_000), ended=DONE, media=delivered()).model_copy(update={"quote": quoted(("film", "0.3"))})
    assert only(assess_tiers(whole, KNOWLEDGE)).observed["480p_5s"]["quoted"] == "0.3"


def test_a_tier_without_books_has_dashes_and_no_figures_beside_one_that_has():
    whole = run(row(100_000), ended=DONE, media=delivered())
    other = whole.plan.steps[0].model_copy(
        update={"id": "next", "order": VideoOrder(resolution="240p", seconds=8, task=ROUTE)}
    )
    both = whole.model_copy(update={"plan": whole.plan.model_copy(update={"steps": (*whole.plan.steps, other)})})
    found = only(assess_tiers(both, KNOWLEDGE))
    assert found.params == {"n": 1, "table": ["480p 5 s: 0.2 / 0 / 0.2 / ×0.970", "240p 8 s: – / –"]}
    assert found.observed["240p_8s"] == {
        "state": "not_ordered", "quoted": None, "charged": None, "refunded": None, "net": None, "official": None, "ratio": None,
    }  # fmt: skip


def test_a_price_for_any_size_stands_in_for_a_tier_that_is_not_listed():
    listed = KNOWLEDGE.video_price_of(FILM, at(0).date())
    assert listed is not None
    flat = listed.model_copy(update={"per_second": {"any": Decimal("0.1")}})
    knowing = KNOWLEDGE.model_copy(
        update={"video_prices": tuple(flat if row == listed else row for row in KNOWLEDGE.video_prices)}
    )
    assert only(list(tier_table(run(), knowing).records)).official == Decimal("0.5")
    past = flat.model_copy(update={"valid_to": at(-86400).date()})
    knowing = KNOWLEDGE.model_copy(update={"video_prices": (past,)})
    assert only(list(tier_table(run(), knowing).records)).official is None, "a price of another day"
    strange = run()
    strange = strange.model_copy(update={"target": strange.target.model_copy(update={"official_model": "unheard-of"})})
    assert only(list(tier_table(strange, KNOWLEDGE).records)).official is None


def test_a_run_without_a_plan_has_no_tiers():
    assert tier_table(run().model_copy(update={"plan": None}), KNOWLEDGE).records == ()


def test_a_movement_names_the_order_it_belongs_to():
    assert [m.exchange for m in record(row(100)).movements] == ["X0001"]


def test_a_tier_is_named_in_a_list_in_any_script():
    named = {"data": [{"model_name": FILM, "note": "支持480P"}]}
    assert record(pricing=named).advertised is True


def test_a_task_that_is_still_waiting_has_not_ended():
    assert record(row(100), ended={"id": "task_1", "status": "queued"}).ended_at is None


def test_a_charge_that_nobody_offered_names_its_exchanges():
    made = judged(row(100_000), **REFUSED)
    assert next(f for f in made if f.code == "billing.tier_refused").exchanges == ("X0001",)


def test_a_refund_is_waited_for_from_the_end_of_the_task_to_the_last_look():
    whole = run(row(100_000), ended=broke(), ended_at=60, read_at=50)
    found = next(f for f in assess_tiers(whole, KNOWLEDGE) if f.code.startswith("billing.refund"))
    assert (found.code, found.params["waited_s"], found.params["reason"]) == (
        "billing.refund_open",
        0,
        "refund_may_come",
    )
    unread = whole.model_copy(
        update={"log": tuple(reading.model_copy(update={"state": "limited"}) for reading in whole.log)}
    )
    waited = [f.params["waited_s"] for f in assess_tiers(unread, KNOWLEDGE) if f.code.startswith("billing.refund")]
    assert waited in ([0], [])


@pytest.mark.parametrize(
    ("read_at", "code", "waited"),
    [
        (1800, "billing.refund_open", 1799),
        (1801, "billing.refund_missing", 1800),
        (9000, "billing.refund_missing", 8999),
    ],
)
def test_an_order_that_was_turned_down_at_once_and_kept_its_charge(read_at, code, waited):
    """It has no task whose end could be waited from: the refund is due from the order on."""
    made = judged(row(100_000), read_at=read_at, **REFUSED)
    found = next(f for f in made if f.code.startswith("billing.refund"))
    assert (found.code, found.params["waited_s"]) == (code, waited)
    hidden = judged(row(100_000, other={}), read_at=read_at, **REFUSED)
    assert next(f for f in hidden if f.code.startswith("billing.refund")).params["reason"] == "refunds_not_shown"


def test_whether_refunds_are_shown_is_read_from_the_order_and_not_from_another_answer():
    own = {"order": {**ORDERED, "id": "cgt-1"}, "ended": {**broke(), "id": "cgt-1"}}
    whole = run(row(100_000), pricing=LIST, **own)
    first = whole.model_copy(update={"exchanges": tuple(reversed(whole.exchanges))})
    assert "billing.refund_missing" in codes(assess_tiers(first, KNOWLEDGE))


def test_a_step_that_orders_nothing_is_no_tier():
    whole = run()
    assert whole.plan is not None
    bare = whole.plan.steps[0].model_copy(update={"id": "other", "order": None})
    plan = whole.plan.model_copy(update={"steps": (bare, *whole.plan.steps)})
    assert len(tier_table(whole.model_copy(update={"plan": plan}), KNOWLEDGE).records) == 1
