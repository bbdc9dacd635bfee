"""The relay's own rows, computed again; what cannot be computed is not judged."""

from __future__ import annotations

import datetime as dt

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.assess.billing_tariff import recompute
from relay_audit.books import ForeignRows, LogReading, LogRow, SiteFacts
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.usage import Usage
from tests.assess.evidence_builders import KNOWLEDGE, START, answered, at, codes, lost, only, run_of, step_named

RATIOS = {"model_ratio": 1, "group_ratio": 1, "completion_ratio": 5, "model_price": -1}


def row(quota: int = 38, exchange: str = "X0001", **changes) -> LogRow:
    fields = {
        "exchange": exchange,
        "created_at": START,
        "kind": "consume",
        "model": "claude-sonnet-5-5",
        "quota": quota,
        "prompt_tokens": 18,
        "completion_tokens": 4,
        "other": RATIOS,
        **changes,
    }
    return LogRow(**fields)


def priced(usage: Usage, **other) -> int | None:
    return recompute(row(other={**RATIOS, **other}), usage)


@pytest.mark.parametrize(
    ("prompt", "completion", "model_ratio", "completion_ratio", "quota"),
    [
        (6, 16, 0.8, 5, 69),
        (30, 35, 0.8, 5, 164),
        (30, 36, 0.8, 5, 168),
        (53, 104, 0.8, 5, 458),
        (66, 16, 0.5, 1, 41),
        (39, 16, 0.8, 1, 44),
        (6, 16, 0.8, 1, 18),
        (30, 45, 0.8, 1, 60),
        (30, 49, 0.8, 1, 63),
    ],
)
def test_nine_published_rows_come_out_exactly(prompt, completion, model_ratio, completion_ratio, quota):
    usage = Usage(input=prompt, output=completion)
    assert priced(usage, model_ratio=model_ratio, completion_ratio=completion_ratio) == quota


@pytest.mark.parametrize(
    ("usage", "other", "quota"),
    [
        (Usage(input=10, output=7), {"model_ratio": 1.5}, 68),  # 67.5: half goes up
        (Usage(input=10, output=7), {"model_ratio": 1.5, "group_ratio": 0.5}, 34),  # 33.75
        (Usage(input=1, output=0), {"model_ratio": 0.1}, 1),  # at least 1 where tokens were used
        (Usage(input=0, output=0), {}, 0),
        (Usage(input=10, output=7), {"model_ratio": 0}, 0),
        (Usage(input=10, output=7), {"group_ratio": 0}, 0),
        (Usage(input=10, output=7), {"completion_ratio": 0}, 10),
        (Usage(input=10, output=7), {"model_ratio": "1.5"}, 68),
        (Usage(input=100, cache_read=1000), {"cache_ratio": 0.1}, 200),
        (Usage(input=100, cache_read=1000), {}, 1100),
        (Usage(input=100, cache_read=1000), {"cache_ratio": 0}, 100),
        (Usage(input=100, cache_write_5m=1000), {}, 1350),
        (Usage(input=100, cache_write_5m=1000), {"cache_creation_ratio": 2}, 2100),
        (Usage(input=100, cache_write_1h=1000), {}, 2100),
        (Usage(input=100, cache_write_1h=1000), {"cache_creation_ratio_1h": 3}, 3100),
        (Usage(input=100, cache_write_5m=1000, cache_write_1h=1000), {"cache_creation_ratio": 1}, 2700),
    ],
    ids=str,
)
def test_arithmetic(usage, other, quota):
    assert priced(usage, **other) == quota


@pytest.mark.parametrize(
    "other",
    [
        {"billing_mode": "tiered_expr"},
        {"expr_b64": "eA=="},
        {"is_task": True},
        {"tool_surcharges": [1]},
        {"violation_fee": 2},
        {"image_ratio": 2},
        {"audio_ratio": 3},
        {"model_ratio": None},
        {"group_ratio": "much"},
        {"completion_ratio": True},
        {"model_ratio": float("nan")},
        {"model_ratio": 1e300},
        {"model_ratio": "9e999999"},
        {"model_ratio": 10**6},
        {"group_ratio": -1},
        {"model_ratio": -0.5},
        {"completion_ratio": -5},
        {"model_price": "free"},
        {"model_ratio": [1]},
    ],
    ids=str,
)
def test_rows_of_other_arithmetic_are_not_judged(other):
    assert priced(Usage(input=10, output=7), **other) is None


def test_a_row_without_its_ratios_is_not_judged():
    for name in ("model_ratio", "group_ratio", "completion_ratio"):
        assert recompute(row(other={k: v for k, v in RATIOS.items() if k != name}), Usage(input=1)) is None
    assert (
        recompute(row(other={k: v for k, v in RATIOS.items() if k != "model_price"}), Usage(input=18, output=4)) == 38
    )
    assert priced(Usage(input=10, output=7), billing_source="wallet") == 45
    assert priced(Usage(input=10, output=7), billing_source="subscription") == 45
    assert priced(Usage(input=10, output=7), model_price=0.5) == 250_000
    assert priced(Usage(input=10, output=7), model_price=0) == 45


# Findings


def run(*readings: LogReading, n: int = 3, status: int = 200) -> Evidence:
    """Three answers of 18 and 4 tokens: 38 units each."""
    steps = [step_named(f"s{place}") for place in range(n)]
    body = {"usage": {"input_tokens": 18, "output_tokens": 4}}
    exchanges = [answered(p + 1, f"s{p}", body, moment=at(p), status=status) for p in range(n)]
    return run_of(exchanges, steps, log=readings, site=SiteFacts(software="new-api", quota_per_unit=500_000))


def read(*rows: LogRow, **changes) -> LogReading:
    return LogReading(**{"at": at(60), "exchange": "X0020", "state": "read", "rows": rows, **changes})


def three(*quotas: int) -> LogReading:
    return read(*[row(quota, f"X000{place + 1}") for place, quota in enumerate(quotas)])


def judged(*readings: LogReading, **more) -> list[Finding]:
    return assess_billing(run(*readings, **more), KNOWLEDGE)


@pytest.mark.parametrize("quotas", [(38, 38, 38), (39, 38, 37)])
def test_rows_that_come_out_match_and_one_unit_is_rounding(quotas):
    found = only(judged(three(*quotas)))
    assert (found.code, found.outcome, found.confidence, found.basis) == (
        "billing.matches",
        "match",
        "supporting",
        "relay_word",
    )
    named = "nothing_special" if quotas == (38, 38, 38) else "rounding"
    ratios = {"claimed": None, "published": None, "charged_ratio": "1"}
    assert found.params == {
        "n": 3,
        "charged": "0.000228",
        "facts": [named],
        "not_judged": 0,
        "share_bound": "63.2",
        **ratios,
    }
    assert found.exchanges == ("X0001", "X0002", "X0003")


def test_two_units_more_are_charged_too_much():
    found = only(judged(three(40, 38, 38)))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "billing.overcharged",
        "mismatch",
        "high",
        "strong",
    )
    assert found.params == {
        "n": 1,
        "charged": "0.00008",
        "recomputed": "0.000076",
        "difference": "0.000004",
        "cause": "arithmetic",
    }
    assert (found.expected, found.observed, found.exchanges) == ({"quota": 38}, {"quota": 40}, ("X0001",))


def test_less_is_a_fact_and_no_accusation():
    found = only(judged(three(36, 30, 38)))
    assert (found.code, found.outcome, found.severity) == ("billing.undercharged", "match", "info")
    assert (found.params, found.exchanges) == ({"n": 2, "difference": "0.00002"}, ("X0001", "X0002"))


def test_more_and_less_are_both_said():
    assert codes(judged(three(76, 19, 38))) == ["billing.overcharged", "billing.undercharged"]


def test_only_consumption_is_computed_and_rows_of_other_arithmetic_are_left_out():
    tiered = row(9999, "X0001", other={**RATIOS, "billing_mode": "tiered_expr"})
    refund = row(9999, "X0002", kind="refund")
    error = row(9999, "X0002", kind="error")
    found = only(judged(read(tiered, refund, error, row(38, "X0003"))))
    assert (found.code, found.params["n"]) == ("billing.matches", 1)
    assert judged(read(tiered, *[row(1, f"X000{p}", kind="error") for p in (2, 3)])) == []


def test_a_row_of_an_exchange_that_is_not_there_is_not_computed():
    found = judged(read(row(9999, "X0077"), row(38, "X0001"), row(38, "X0002"), row(38, "X0003")))
    assert only(found).params["n"] == 3


def test_missing_rows_after_a_bounded_wait_are_a_fact():
    matches, pending = judged(three(38, 38))
    assert (matches.code, pending.code, pending.severity) == ("billing.matches", "billing.settlement_pending", "info")
    assert pending.params == {"n": 1, "of": 3, "waited_s": 58}
    assert pending.exchanges == ("X0003",)


def test_rows_that_fit_nothing_are_unmatched_and_never_blamed():
    found = judged(read(*three(38, 38, 38).rows, row(99999, "")))
    assert codes(found) == ["billing.matches", "billing.unmatched_rows"]
    assert found[1].params == {"n": 1}
    assert not any(f.accusation for f in found)


def test_other_traffic_and_a_full_log_are_facts():
    reading = three(38, 38, 38).model_copy(update={"foreign": ForeignRows(count=5, quota=9), "truncated": True})
    found = judged(reading)
    assert codes(found) == ["billing.matches", "billing.foreign_rows", "billing.log_truncated"]
    assert [f.params for f in found[1:]] == [{"count": 5}, {"rows": 8}]
    assert {f.severity for f in found} == {"info"}


@pytest.mark.parametrize(
    ("state", "reason", "code", "said"),
    [
        ("unavailable", "refused", "billing.log_unavailable", "refused"),
        ("unavailable", "", "billing.log_unavailable", "unavailable"),
        ("empty", "empty", "billing.log_unavailable", "empty"),
        ("limited", "rate_limited", "billing.log_unavailable", "limited"),
        ("read", "", "billing.log_unavailable", "no_row_of_ours"),
        ("unsafe", "key_in_url_only", "billing.log_unsafe_to_read", None),
    ],
)
def test_no_log_is_no_information(state, reason, code, said):
    found = only(judged(read(state=state, reason=reason)))
    assert (found.code, found.outcome, found.severity, found.exchanges) == (code, "inconclusive", "info", ("X0020",))
    assert found.params == ({"reason": said} if said else {"software": "new-api"})


def test_a_log_with_only_other_traffic_says_so():
    found = judged(read(row(5, ""), foreign=ForeignRows(count=2)))
    assert codes(found) == ["billing.log_unavailable", "billing.foreign_rows"]


def test_what_an_earlier_reading_said_outlives_a_later_refusal():
    limited = read(state="limited", exchange="X0021")
    assert codes(judged(three(76, 38, 38), limited)) == ["billing.overcharged"]
    assert codes(judged(three(76, 38, 38), three(38, 38, 38))) == ["billing.matches"]
    assert codes(judged(read(state="empty"), limited)) == ["billing.log_unavailable"]


def test_nothing_asked_or_nothing_answered_says_nothing():
    assert judged() == []
    assert judged(read(state="not_asked")) == []
    assert judged(read(state="empty"), status=500) == []
    assert codes(judged(read(state="not_asked"), three(38, 38, 38))) == ["billing.matches"]


def test_a_lost_answer_is_no_missing_row():
    whole = run(three(38, 38))
    gone = whole.model_copy(update={"exchanges": (*whole.exchanges[:2], lost(3, "s2"))})
    assert codes(assess_billing(gone, KNOWLEDGE)) == ["billing.matches"]


def test_a_wait_is_never_negative():
    early = three(38, 38).model_copy(update={"at": START - dt.timedelta(seconds=9)})
    assert judged(early)[1].params["waited_s"] == 0
