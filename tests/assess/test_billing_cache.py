"""Two requests with one marked prefix: written, then read back, under the time that was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from relay_audit.assess.billing import assess_billing
from relay_audit.assess.billing_cache import caching
from relay_audit.assess.billing_calls import calls_of
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from tests.assess.evidence_builders import KNOWLEDGE, answered, at, codes, only, run_of, step_named

NOTHING: dict[str, Any] = {}


def wrote(five: int = 0, hour: int = 0) -> dict[str, Any]:
    return {"cache_creation_input_tokens": five + hour, "cache_creation": {"ephemeral_1h_input_tokens": hour}}


def read(tokens: int) -> dict[str, Any]:
    return {"cache_read_input_tokens": tokens}


def run(
    *pairs: tuple[str, dict[str, Any], dict[str, Any]], probe: str = "anthropic/cache_billing", ids: str = ""
) -> Evidence:
    steps, sent = [], []
    for ttl, *usages in pairs:
        for usage in usages:
            number = len(steps) + 1
            step = step_named(f"s{number}").model_copy(update={"probe": probe, "factors": {"ttl": ttl}})
            body = {"id": ids or f"msg_{number}", "usage": {"input_tokens": 18, "output_tokens": 4, **usage}}
            steps.append(step)
            sent.append(answered(number, step.id, body, moment=at(number)))
    return run_of(sent, steps)


def judged(*pairs: tuple[str, dict[str, Any], dict[str, Any]], **more: Any) -> list[Finding]:
    evidence = run(*pairs, **more)
    return caching(evidence, calls_of(evidence))


def test_what_was_written_and_read_back_is_no_finding():
    assert judged(("5m", wrote(1000), read(1000)), ("1h", wrote(hour=1000), read(1000))) == []


def test_a_read_without_a_write_is_somebody_elses_cache_or_none():
    found = only(judged(("5m", read(1000), read(1000))))
    assert (found.code, found.severity, found.confidence, found.accusation) == (
        "billing.cache_not_honoured", "medium", "strong", True,
    )  # fmt: skip
    assert found.params == {"n": 2, "written": 0, "read": 2000, "kind": "read_without_write"}
    assert found.exchanges == ("X0001", "X0002")


def test_marks_that_nobody_heeds_cost_more_and_are_low():
    found = only(judged(("5m", NOTHING, NOTHING), ("1h", NOTHING, NOTHING)))
    assert (found.severity, found.accusation) == ("low", False)
    assert found.params == {"n": 4, "written": 0, "read": 0, "kind": "marks_ignored"}
    assert found.exchanges == ("X0001", "X0002", "X0003", "X0004")


def test_a_pool_of_accounts_may_miss_its_cache_without_any_fault():
    found = only(judged(("5m", wrote(1000), wrote(1000)), ("1h", wrote(hour=900), wrote(hour=900))))
    assert (found.outcome, found.severity, found.confidence) == ("inconclusive", "info", "weak")
    assert found.params == {"n": 4, "written": 3800, "read": 0, "kind": "not_read_back"}


def test_one_pair_that_was_read_back_shows_that_the_cache_is_honoured():
    assert judged(("5m", wrote(1000), wrote(1000)), ("1h", wrote(hour=1000), read(1000))) == []


def test_a_read_in_the_first_answer_alone_is_none_of_what_was_written():
    found = only(judged(("5m", {**wrote(1000), **read(5)}, wrote(1000))))
    assert found.params == {"n": 2, "written": 2000, "read": 5, "kind": "not_read_back"}


@pytest.mark.parametrize(
    ("ttl", "usage", "kind", "severity"),
    [
        ("1h", wrote(1000), "hour_labelled_five_minutes", "low"),
        ("5m", wrote(hour=1000), "five_minutes_labelled_hour", "medium"),
        ("5m", wrote(500, 500), "five_minutes_labelled_hour", "medium"),
    ],
)
def test_another_time_than_the_one_asked_for(ttl, usage, kind, severity):
    found = only(judged((ttl, usage, read(1000))))
    assert (found.code, found.severity, found.confidence) == ("billing.cache_misbilled", severity, "strong")
    assert found.params == {
        "n": 1, "kind": kind, "charged": None, "recomputed": None, "difference": None, "road": "label",
    }  # fmt: skip
    assert found.exchanges == ("X0001",)


@pytest.mark.parametrize(
    ("ttl", "usage"), [("1h", wrote(500, 500)), ("1h", wrote(hour=1000)), ("5m", wrote(1000)), ("", wrote(1000))]
)
def test_the_time_asked_for_or_a_part_of_it_is_no_other(ttl, usage):
    assert judged((ttl, usage, read(1000))) == []


def test_both_labels_are_told_apart():
    found = judged(("1h", wrote(1000), read(1000)), ("5m", wrote(hour=1000), read(1000)))
    assert {f.params["kind"]: f.exchanges for f in found} == {
        "hour_labelled_five_minutes": ("X0001",), "five_minutes_labelled_hour": ("X0003",),
    }  # fmt: skip


def test_a_replayed_answer_says_nothing_about_the_cache():
    assert judged(("5m", read(1000), read(1000)), ids="msg_same") == []


def test_only_the_probes_own_pairs_are_judged():
    assert judged(("5m", read(1000), read(1000)), probe="anthropic/token_parity") == []
    assert judged(("5m", read(1000)), ("1h", read(1000))) == [], "half a pair is none"


def test_a_vendor_that_caches_by_itself_promises_nothing():
    whole = run(("5m", read(1000), read(1000)))
    usage = whole.pack.usage.model_copy(update={"automatic_cache": True})
    own = whole.model_copy(update={"pack": whole.pack.model_copy(update={"usage": usage})})
    assert caching(own, calls_of(own)) == []


def test_the_cache_is_judged_also_where_no_book_was_read():
    assert "billing.cache_not_honoured" in codes(assess_billing(run(("5m", read(1000), read(1000))), KNOWLEDGE))


def test_one_token_that_was_read_back_is_a_read():
    assert judged(("5m", wrote(1000), read(1))) == []


def test_a_pair_that_missed_its_cache_names_its_calls():
    assert only(judged(("5m", wrote(1000), wrote(1000)))).exchanges == ("X0001", "X0002")
