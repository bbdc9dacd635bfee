"""Check 6 part by part: each code with its amount to the unit, and each trap in which an honest relay must not fall."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.assess.billing_calls import calls_of
from relay_audit.assess.billing_delivery import nothing_in
from relay_audit.assess.billing_tiers import judge_tiers
from relay_audit.books import (
    BalanceReading,
    ForeignRows,
    LogReading,
    LogRow,
    PriceReading,
    Published,
    RateReading,
    SiteFacts,
    UsageReading,
)
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.target import Claim, VideoTier
from relay_audit.tiers import Movement, TierRecord, climb
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, START, answered, at, codes, run_of, step_named

RATIOS = {"model_ratio": 1, "group_ratio": 1, "completion_ratio": 5, "cache_ratio": 0.05, "model_price": -1}
LISTED = Published(
    model_ratio=Decimal(1), completion_ratio=Decimal(5), cache_ratio=Decimal("0.05"), create_cache_ratio=Decimal("1.25"),
    groups=("default",),
)  # fmt: skip
SITE = SiteFacts(software="new-api", group_ratio={"default": Decimal(1), "pool": Decimal(1)}, published=LISTED)
PAID = 38
"""18 + 4 × 5 quota units."""


def said(text: str = "OK", **usage: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    tokens = {"input_tokens": 18, "output_tokens": 4, **usage}
    return {"id": "msg_x", "model": MODEL, "content": content, "stop_reason": "end_turn", "usage": tokens}


def sent(number: int, body: Any = None, *, status: int = 200, headers: tuple = (), **more: Any) -> Exchange:
    return answered(
        number,
        f"s{number}",
        said() if body is None else body,
        moment=at(number),
        status=status,
        headers=headers,
        **more,
    )


def row(number: int, quota: int = PAID, *, kind: str = "consume", after: float = 0.5, **more: Any) -> LogRow:
    fields = {
        "exchange": f"X{number:04}", "created_at": at(number + after), "kind": kind, "model": MODEL, "quota": quota,
        "prompt_tokens": 18, "completion_tokens": 4, "group": "default", "other": RATIOS, **more,
    }  # fmt: skip
    return LogRow(**fields)


def books(*rows: LogRow, **more: Any) -> LogReading:
    return LogReading(**{"at": at(60), "exchange": "X0090", "state": "read", "rows": rows, **more})


def balances(fell: int, *, until: float = 61, **more: Any) -> tuple[BalanceReading, ...]:
    return (
        BalanceReading(at=at(0), exchange="X0091", used_quota=1000, **more),
        BalanceReading(at=at(until), exchange="X0092", when="after", used_quota=1000 + fell, **more),
    )


def run(exchanges: list[Exchange], reading: LogReading, *, claim: Claim | None = None, **more: Any) -> Evidence:
    steps = [step_named(f"s{n}").model_copy(update={"output_limit": 16}) for n in range(1, len(exchanges) + 1)]
    made = run_of(exchanges, steps, log=(reading,), **{"site": SITE, **more})
    return made.model_copy(update={"target": made.target.model_copy(update={"claim": claim or made.target.claim})})


def judged(exchanges: list[Exchange], *rows: LogRow, **more: Any) -> list[Finding]:
    reading = more.pop("reading", None) or books(*rows)
    return assess_billing(run(exchanges, reading, **more), KNOWLEDGE)


def found(made: list[Finding], code: str) -> Finding:
    assert code in codes(made), codes(made)
    return next(f for f in made if f.code == f"{code}")


def accused(made: list[Finding]) -> list[str]:
    return [f.code for f in made if f.above_info]


# Price


def dearer(**other: Any) -> list[LogRow]:
    return [row(n, 57, other={**RATIOS, "model_ratio": 1.5, **other}) for n in (1, 2)]


def test_rows_above_the_list_with_the_hours_in_which_that_was_seen():
    hit = found(judged([sent(1), sent(2)], *dearer()), "billing.price_differs_from_published")
    assert (hit.severity, hit.confidence) == ("high", "strong")
    assert (hit.params["published_rate"], hit.params["charged_rate"], hit.params["factor"]) == ("2", "3", "1.5")
    assert hit.params["difference"] == "0.000076"
    assert hit.params["hours"] == "12:00-13:00 UTC (20:00-21:00 UTC+8)"


def test_a_list_that_changed_meanwhile_accuses_nobody():
    again = PriceReading(at=at(70), exchange="X0099", published=LISTED.model_copy(update={"model_ratio": Decimal("1.5")}),
                         group_ratio={"default": Decimal(1)})  # fmt: skip
    made = judged([sent(1), sent(2)], *dearer(), prices=(again,))
    assert accused(made) == []
    assert found(made, "billing.price_differs_from_published").outcome == "match"


def test_a_ratio_of_the_buyers_own_and_a_group_that_is_not_listed_are_not_held_against_the_list():
    own = [row(1, 46, other={**RATIOS, "group_ratio": 1.2, "user_group_ratio": 1.2})]
    assert accused(judged([sent(1)], *own)) == []
    assert accused(judged([sent(1)], row(1, 76, group="vip", other={**RATIOS, "group_ratio": 2}))) == []
    closed = SITE.model_copy(update={"published": None})
    assert accused(judged([sent(1)], *dearer()[:1], site=closed)) == []


def test_a_published_markup_is_a_named_fact():
    dear = SITE.model_copy(update={"published": LISTED.model_copy(update={"model_ratio": Decimal("1.5")})})
    made = judged([sent(1), sent(2)], *dearer(), site=dear, claim=Claim(channel="anthropic", ratio=Decimal(1)))
    assert accused(made) == []
    assert "published_markup" in found(made, "billing.matches").params["facts"]


@pytest.mark.parametrize(("charged", "fires"), [("0.36", True), ("0.3", False), ("0.25", False)])
def test_claimed_30_is_held_against_what_is_charged(charged, fires):
    site = SITE.model_copy(update={"group_ratio": {"default": Decimal("0.3")}})
    quota = round(PAID * float(charged))
    made = judged([sent(1)], row(1, quota, other={**RATIOS, "group_ratio": float(charged)}), site=site,
                  claim=Claim(channel="anthropic", ratio=Decimal("0.3")))  # fmt: skip
    both = ["billing.price_differs_from_published", "billing.ratio_differs_from_claim"]
    assert accused(made) == (both if fires else [])
    if fires:
        params = made[1].params
        assert (params["claimed"], params["published"], params["charged_ratio"]) == ("0.3", "0.3", "0.36")
    shown = SITE.model_copy(update={"group_ratio": {"default": Decimal(charged)}})
    listed = judged([sent(1)], row(1, quota, other={**RATIOS, "group_ratio": float(charged)}), site=shown,
                    claim=Claim(channel="anthropic", ratio=Decimal("0.3")))  # fmt: skip
    assert accused(listed) == [], "a ratio that the public list shows is a tariff"
    closed = SITE.model_copy(update={"published": None})
    alone = judged([sent(1)], row(1, quota, other={**RATIOS, "group_ratio": float(charged)}), site=closed,
                   claim=Claim(channel="anthropic", ratio=Decimal("0.3")))  # fmt: skip
    assert accused(alone) == (["billing.ratio_differs_from_claim"] if fires else [])


def test_another_group_than_the_sold_one_and_a_shop_name_that_is_no_group():
    claim = Claim(channel="anthropic", group="default")
    hit = found(judged([sent(1)], row(1, group="pool"), claim=claim), "billing.group_differs_from_claim")
    assert (hit.severity, hit.params["untrusted_groups"]) == ("medium", ["pool"])
    shop = judged([sent(1)], row(1), claim=Claim(channel="anthropic", group="官转"))
    assert found(shop, "billing.group_differs_from_claim").severity == "low"
    assert accused(judged([sent(1)], row(1), claim=Claim(channel="anthropic", group=" Default "))) == []
    assert accused(judged([sent(1)], row(1, group="pool"), claim=Claim(channel="anthropic", group="auto"))) == []


def test_a_further_multiplier_of_a_fork_is_the_rows_own_word_and_the_lists_business():
    made = judged([sent(1)], row(1, 76, other={**RATIOS, "surge_ratio": 2}))
    assert accused(made) == ["billing.price_differs_from_published"]
    assert accused(judged([sent(1)], row(1, other={**RATIOS, "surge_ratio": 2}))) == [], "information only"


# Tokens and arithmetic


def test_the_cause_says_whether_tokens_or_arithmetic_differ():
    more = judged([sent(1)], row(1, 58, prompt_tokens=38))
    assert found(more, "billing.overcharged").params["cause"] == "tokens"
    assert found(judged([sent(1)], row(1, 76)), "billing.overcharged").params["cause"] == "arithmetic"
    assert found(judged([sent(1)], row(1, 99, prompt_tokens=38)), "billing.overcharged").params["cause"] == "both"


def test_a_least_charge_per_call_is_called_one():
    """All that is above comes to one figure and nothing is charged less: a rule nobody stated, not a wrong sum."""

    def bill(*charged: int) -> list[Finding]:
        sizes = (18, 28, 38, 380)
        calls = [sent(n, said(input_tokens=size)) for n, size in enumerate(sizes, 1)]
        return judged(calls, *(row(n, q, prompt_tokens=sizes[n - 1]) for n, q in enumerate(charged, 1)))

    hit = found(bill(100, 100, 100, 400), "billing.overcharged")
    assert (hit.params["cause"], hit.params["n"], hit.params["difference"]) == ("minimum", 3, "0.000312")
    for other in ((100, 100, 58, 400), (100, 100, 101, 400), (500, 500, 500, 400)):
        assert found(bill(*other), "billing.overcharged").params["cause"] == "arithmetic", other


def test_marks_that_nobody_heeds_take_nothing_from_rows_that_come_out():
    """The rows were read and follow from the answers: the check has run, whatever the cache did."""
    evidence = run([sent(1), sent(2, {**said(), "id": "msg_y"})], books(row(1), row(2)))
    steps = [
        s.model_copy(update={"probe": "anthropic/cache_billing", "factors": {"ttl": "5m"}}) for s in evidence.plan.steps
    ]
    marked = evidence.model_copy(update={"plan": evidence.plan.model_copy(update={"steps": tuple(steps)})})
    assert {"billing.matches", "billing.cache_not_honoured"} <= set(codes(assess_billing(marked, KNOWLEDGE)))


def test_cached_tokens_that_were_confused_are_said_with_their_sign():
    read = said(cache_read_input_tokens=1000)
    hit = found(judged([sent(1, read)], row(1, 1038)), "billing.cache_misbilled")
    assert (hit.params["kind"], hit.params["difference"], hit.severity) == ("read_as_input", "0.0019", "medium")
    hour = said(cache_creation_input_tokens=1000, cache_creation={"ephemeral_1h_input_tokens": 1000})
    low = found(judged([sent(1, hour)], row(1, 1288)), "billing.cache_misbilled")
    assert (low.params["kind"], low.params["difference"], low.severity) == ("hour_as_five_minutes", "-0.0015", "low")


def test_one_hour_costs_two_and_five_minutes_one_and_a_quarter():
    both = said(cache_creation_input_tokens=2000, cache_creation={"ephemeral_1h_input_tokens": 1000})
    assert "billing.matches" in codes(judged([sent(1, both)], row(1, 38 + 1250 + 2000)))


# Delivery


REFUSED = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}


def test_a_refusal_that_was_charged_given_back_late_or_not_at_all():
    refused = [sent(1, REFUSED, status=400)]
    hit = found(judged(refused, row(1, 20, completion_tokens=0)), "billing.error_charged")
    assert (hit.params["charged"], hit.params["statuses"], hit.severity) == ("0.00004", [400], "high")
    held = {"prompt_tokens": 0, "completion_tokens": 0}
    missing = found(judged(refused, row(1, 516, **held)), "billing.refund_missing")
    assert (missing.params["difference"], missing.params["refunded"]) == ("0.001032", "0")
    back = row(1, 516, kind="refund", after=12.5, **held)
    late = found(judged(refused, row(1, 516, **held), back), "billing.refund_late")
    assert (late.params["delay_s"], late.params["refunded"], late.severity) == (12, "0.001032", "low")
    slow = found(
        judged(refused, row(1, 516, **held), row(1, 516, kind="refund", after=90, **held)), "billing.refund_late"
    )
    assert slow.severity == "medium"
    prompt = row(1, 516, kind="refund", after=2, **held)
    assert accused(judged(refused, row(1, 516, **held), prompt)) == []


def test_a_refusal_is_not_held_against_a_relay_before_a_refund_could_come_or_for_a_fee_of_the_vendor():
    refused = [sent(1, REFUSED, status=400)]
    early = books(row(1, 20), at=at(5))
    assert accused(judged(refused, reading=early)) == []
    assert accused(judged(refused, row(1, 20, other={**RATIOS, "violation_fee": 1}))) == []
    assert found(judged([sent(1, REFUSED)], row(1, 20)), "billing.error_charged").params["statuses"] == [200]


def test_empty_answers_that_were_charged_and_those_that_are_honest():
    nothing = said("", output_tokens=0)
    hit = found(
        judged([sent(1, nothing), sent(2)], row(1, 18, completion_tokens=0), row(2)), "billing.empty_reply_charged"
    )
    assert (hit.params["n"], hit.params["of"], hit.params["charged"], hit.severity) == (1, 2, "0.000036", "high")
    once = found(judged([sent(1, said(""))], row(1)), "billing.empty_reply_charged")
    assert once.severity == "low", "an upstream's own empty answer is passed on"
    for honest in (
        {**said(""), "stop_reason": "max_tokens"}, {**said(""), "stop_reason": "refusal"},
        said("", output_tokens_details={"thinking_tokens": 4}),
        {**said(""), "content": [{"type": "tool_use", "name": "f", "input": {}}]},
        {**said(""), "content": [{"type": "thinking", "thinking": "hm"}]},
    ):  # fmt: skip
        assert accused(judged([sent(1, honest)], row(1))) == [], honest
    assert accused(judged([sent(1, nothing)], row(1, 0))) == []


STREAM = (("content-type", "text/event-stream"),)
HALF = (
    'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":18,"output_tokens":1}}}\n\n'
)


def test_a_stream_that_broke_off_by_itself_but_not_one_that_we_cut():
    hit = found(judged([sent(1, HALF, headers=STREAM), sent(2)], row(1), row(2)), "billing.incomplete_charged")
    assert (hit.params["n"], hit.params["charged"]) == (1, "0.000076")
    assert accused(judged([sent(1, HALF, headers=STREAM, cut=True), sent(2)], row(1), row(2))) == []
    ours = sent(1, HALF, headers=STREAM, hostility=("too_slow",))
    assert accused(judged([ours, sent(2)], row(1), row(2))) == []
    broken = sent(1, HALF, headers=STREAM, failure="reset")
    assert accused(judged([broken, sent(2)], row(1), row(2))) == []


def test_two_rows_for_one_send_unless_the_balance_says_one():
    twice = (row(1), row(1, after=0.6), row(2))
    hit = found(judged([sent(1), sent(2)], *twice, balance=balances(3 * PAID)), "billing.duplicate_charge")
    assert (hit.params["difference"], hit.params["rows"], hit.severity) == ("0.000076", 2, "high")
    assert found(judged([sent(1), sent(2)], *twice), "billing.duplicate_charge").severity == "high"
    shown = judged([sent(1), sent(2)], *twice, balance=balances(2 * PAID))
    assert found(shown, "billing.duplicate_charge").severity == "low", "listed twice, taken once"
    assert accused(judged([sent(1)], row(1), row(1, kind="refund"), row(1))) == []


# Balance


def test_rows_and_balance_agree_to_the_unit():
    made = judged([sent(1), sent(2)], row(1), row(2), balance=balances(2 * PAID))
    assert "balance_agrees" in found(made, "billing.matches").params["facts"]


def test_a_charge_without_a_row_is_a_named_difference_and_no_match():
    made = judged([sent(1), sent(2)], row(1), row(2), balance=balances(2 * PAID + 7))
    assert codes(made) == ["billing.overcharged"]
    assert (made[0].params["difference"], made[0].params["cause"], made[0].severity) == ("0.000014", "no_row", "high")
    assert (made[0].params["since"], made[0].params["until"]) == ("12:00:00", "12:01:01")


def test_reserves_that_were_kept_make_up_the_gap_to_the_unit():
    hit = found(
        judged([sent(1), sent(2)], row(1), row(2), balance=balances(2 * PAID + 516)), "billing.hold_not_released"
    )
    assert (hit.params["n"], hit.params["held"], hit.severity) == (1, "0.001032", "medium")


@pytest.mark.parametrize(
    "foreign",
    [
        {"count": 1, "within": 1, "within_quota": 5, "first": at(3), "last": at(3)},
        {"count": 1, "last": at(-60), "first": at(-60)},
    ],
    ids=["within", "shortly_before"],
)
def test_other_traffic_explains_a_gap(foreign):
    reading = books(row(1), row(2), foreign=ForeignRows(**foreign))
    assert accused(judged([sent(1), sent(2)], reading=reading, balance=balances(2 * PAID + 516))) == []


def test_our_own_other_runs_a_missing_row_and_a_full_log_explain_a_gap():
    two = [sent(1), sent(2)]
    assert accused(judged(two, reading=books(row(1), row(2), own_earlier=3), balance=balances(999))) == []
    assert accused(judged(two, row(1), balance=balances(2 * PAID))) == []
    assert accused(judged(two, reading=books(row(1), row(2), truncated=True), balance=balances(999))) == []


def test_a_balance_that_lags_or_stands_still_says_nothing():
    two = [sent(1), sent(2)]
    assert accused(judged(two, row(1), row(2), balance=balances(PAID, until=5))) == []
    assert accused(judged(two, row(1), row(2), balance=balances(0))) == []
    assert accused(judged(two, row(1), row(2), balance=balances(PAID))) == ["billing.usage_endpoint_unreliable"]
    plan = [row(n, plan_billed=True) for n in (1, 2)]
    assert accused(judged(two, *plan, balance=balances(PAID))) == []


def test_less_than_ten_seconds_after_the_last_send_a_gap_has_no_weight():
    hit = judged([sent(1), sent(2)], row(1), row(2), balance=balances(2 * PAID + 7, until=5))
    assert (hit[0].code, hit[0].severity, hit[0].accusation) == ("billing.overcharged", "low", False)


# The usage page


def pages(first: str, last: str, seconds: float = 61) -> tuple[UsageReading, ...]:
    def page(when: str, told: str, moment: dt.datetime) -> UsageReading:
        return UsageReading(
            at=moment, exchange="X0093", when=when, state="read", printed=Decimal(told), dollars=Decimal(told)
        )

    return page("before", first, at(0)), page("after", last, at(seconds))


@pytest.mark.parametrize(("last", "factor"), [("1.0010488", "6.9"), ("1", "0"), ("1.000304", "2")])
def test_a_usage_page_that_disagrees_is_flagged_in_both_directions(last, factor):
    hit = found(judged([sent(1), sent(2)], row(1), row(2), usage=pages("1", last)), "billing.usage_endpoint_unreliable")
    assert (hit.params["factor"], hit.severity) == (factor, "low")


def test_a_usage_page_that_agrees_lags_or_counts_others_is_not():
    two = [sent(1), sent(2)]
    assert accused(judged(two, row(1), row(2), usage=pages("1", "1.000152"))) == []
    assert accused(judged(two, row(1), row(2), usage=pages("1", "1", 5))) == []
    reading = books(row(1), row(2), foreign=ForeignRows(count=1, within=1, within_quota=10, first=at(3), last=at(3)))
    assert accused(judged(two, reading=reading, usage=pages("1", "2"))) == []


# Video tiers


def test_a_tier_of_the_list_that_was_refused():
    tier = VideoTier(resolution="1080p", seconds=5)
    moves = (Movement(at=START, amount=Decimal("0.5"), kind="charge"),
             Movement(at=at(40), amount=Decimal("0.5"), kind="refund"))  # fmt: skip
    refused = TierRecord(tier=tier, state="refused", advertised=True, movements=moves, exchanges=("X0001",))
    hit = judge_tiers(climb((refused,)))
    assert [f.code for f in hit] == ["billing.tier_refused", "billing.refund_late"]
    assert (hit[0].params["difference"], hit[0].severity, hit[1].params["delay_s"]) == ("0", "medium", 40)
    unlisted = refused.model_copy(update={"advertised": False, "movements": ()})
    assert judge_tiers(climb((unlisted,))) == []
    open_ = refused.model_copy(update={"movements": moves[:1]})
    assert [f.code for f in judge_tiers(climb((open_,)))] == ["billing.tier_refused", "billing.refund_missing"]
    delivered = refused.model_copy(update={"state": "delivered", "movements": moves[:1]})
    assert judge_tiers(climb((delivered,))) == []


# Books in dollars


def cost(number: int, amount: str, listed: str | None = None) -> LogRow:
    more = {"amount": Decimal(amount), "list_amount": Decimal(listed) if listed else None}
    return row(number, other={}, group="").model_copy(update={"quota": None, **more})


def test_one_multiple_of_the_list_on_every_call_is_a_match_and_a_told_multiplier_is_held_against_it():
    """18 in at $2 and 4 out at $10 a million: $0.000076 by the vendor's list."""
    three = [sent(1), sent(2), sent(3)]
    even = judged(three, *(cost(n, "0.0000228") for n in (1, 2, 3)), site=SiteFacts(software="sub2api"))
    assert codes(even) == ["billing.matches"]
    assert even[0].params["charged_ratio"] == "0.3"
    rate = RateReading(at=at(70), exchange="X0095", when="after", multiplier=Decimal("0.15"))
    made = judged(three, *(cost(n, "0.0000228", "0.000076") for n in (1, 2, 3)), site=SiteFacts(software="sub2api"),
                  rates=(rate,))  # fmt: skip
    hit = found(made, "billing.price_differs_from_published")
    assert (hit.params["factor"], hit.params["published"], hit.params["difference"]) == ("2", "0.15", "0.0000342")
    claim = Claim(channel="anthropic", ratio=Decimal("0.25"))
    above = judged(three, *(cost(n, "0.0000228") for n in (1, 2, 3)), site=SiteFacts(software="sub2api"), claim=claim)
    assert accused(above) == ["billing.ratio_differs_from_claim"]
    uneven = judged(
        three, cost(1, "0.0000228"), cost(2, "0.00005"), cost(3, "0.0000228"), site=SiteFacts(software="sub2api")
    )
    assert accused(uneven) == []


# What each of them rests on, and what it says


HELD = {"prompt_tokens": 0, "completion_tokens": 0}


@pytest.mark.parametrize(
    ("code", "made", "params", "exchanges", "confidence"),
    [
        ("billing.error_charged",
         lambda: judged([sent(1, REFUSED, status=400), sent(2, REFUSED, status=422)], row(1, 20), row(2, 30)),
         {"n": 2, "charged": "0.0001", "statuses": [400, 422]}, ("X0001", "X0002"), "strong"),
        ("billing.refund_missing",
         lambda: judged([sent(1, REFUSED, status=400)], row(1, 516, **HELD), row(1, 16, kind="refund", **HELD)),
         {"n": 1, "charged": "0.001032", "refunded": "0.000032", "difference": "0.001", "waited_s": 59}, ("X0001",), "strong"),
        ("billing.refund_late",
         lambda: judged([sent(1, REFUSED, status=400)], row(1, 516, **HELD), row(1, 516, kind="refund", after=60.6, **HELD)),
         {"n": 1, "refunded": "0.001032", "delay_s": 60}, ("X0001",), "strong"),
        ("billing.empty_reply_charged",
         lambda: judged([sent(1, said("")), sent(2, said("")), sent(3)], row(1), row(2), row(3)),
         {"n": 2, "of": 3, "charged": "0.000152"}, ("X0001", "X0002"), "strong"),
        ("billing.empty_reply_charged",
         lambda: judged([sent(1, said("")), sent(2)], row(1), row(2)),
         {"n": 1, "of": 2, "charged": "0.000076"}, ("X0001",), "supporting"),
        ("billing.incomplete_charged",
         lambda: judged([sent(1, HALF, headers=STREAM), sent(2)], row(1), row(2)),
         {"n": 1, "of": 1, "charged": "0.000076"}, ("X0001",), "strong"),
        ("billing.duplicate_charge",
         lambda: judged([sent(1), sent(2)], row(1), row(1, after=0.6), row(2), balance=balances(3 * PAID)),
         {"n": 1, "rows": 2, "charged": "0.000152", "difference": "0.000076", "taken": True}, ("X0001",), "strong"),
        ("billing.duplicate_charge",
         lambda: judged([sent(1), sent(2)], row(1), row(1, after=0.6), row(2), balance=balances(2 * PAID)),
         {"n": 1, "rows": 2, "charged": "0.000152", "difference": "0.000076", "taken": False}, ("X0001",), "supporting"),
    ],
)  # fmt: skip
def test_a_finding_about_delivery_says_what_it_rests_on(code, made, params, exchanges, confidence):
    hit = found(made(), code)
    assert (hit.params, hit.exchanges) == (params, exchanges)
    assert (hit.confidence, hit.basis) == (confidence, "relay_word")


@pytest.mark.parametrize(
    ("answer", "empty"),
    [
        (lambda: sent(1, ""), True),
        (lambda: sent(1, "", failure="reset"), False),
        (lambda: sent(1, said(""), failure="timeout_read"), False),
        (lambda: sent(1, said(""), cut=True), False),
        (lambda: sent(1, "<html>"), False),
        (lambda: sent(1, {"id": "x"}), False),
        (lambda: sent(1, said("   ")), True),
        (lambda: sent(1, {**said(""), "stop_reason": "MAX_TOKENS"}), False),
        (lambda: sent(1, {**said(""), "stop_reason": "end_turn"}), True),
        (lambda: sent(1, said("", output_tokens_details={"thinking_tokens": 0})), True),
        (lambda: sent(1, {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}), True),
        (lambda: sent(1, {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}), False),
        (lambda: sent(1, {"error": {"message": "no"}, "content": []}), False),
    ],
)
def test_a_whole_answer_with_nothing_in_it(answer, empty):
    [call] = calls_of(run([answer()], books(row(1))))
    assert nothing_in(call) is empty
