"""Findings about the run itself: they accuse nobody, except for a key that came back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from relay_audit.assess.run_state import assess_run_state
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.ledger import Ledger
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    START,
    answered,
    at,
    codes,
    http_date,
    lost,
    only,
    run_of,
    step_named,
)

GOOD = {"id": "m", "usage": {"input_tokens": 18, "output_tokens": 4}}


def run(*exchanges: Exchange, n: int = 3, **more) -> Evidence:
    return run_of(list(exchanges), [step_named(f"s{place}") for place in range(n)], **more)


def judged(*exchanges: Exchange, **more) -> list[Finding]:
    return assess_run_state(run(*exchanges, **more), KNOWLEDGE)


def good(number: int, **more) -> Exchange:
    return answered(number, f"s{number - 1}", more.pop("body", GOOD), moment=more.pop("moment", at(number)), **more)


def test_a_good_run_has_nothing_to_say():
    assert judged(good(1), good(2), good(3)) == []
    assert judged() == []


# Sends without an outcome


def book(*moves: tuple[str, str, str]) -> Ledger:
    ledger = Ledger(ceiling=Decimal(1))
    for xid, state, amount in moves:
        ledger = ledger.reserve(xid, "line", "relay", Decimal(amount))
        if state == "unconfirmed":
            ledger = ledger.leave_unconfirmed(xid)
        if state == "relay_log":
            ledger = ledger.leave_unconfirmed(xid).settle(xid, Decimal("0.001"), "relay_log")
    return ledger


def test_an_unconfirmed_send_is_said_with_its_worst_case():
    found = only(judged(good(1), lost(2, "s1"), ledger=book(("X0002", "unconfirmed", "0.02"))))
    assert (found.code, found.outcome, found.severity, found.exchanges) == (
        "run.unconfirmed_send",
        "inconclusive",
        "info",
        ("X0002",),
    )
    assert found.params == {"n": 1, "settled": 0, "at_most": "0.02"}


def test_it_stays_said_when_the_log_settles_it():
    moves = (("X0001", "relay_log", "0.02"), ("X0002", "unconfirmed", "0.03"))
    found = only(judged(lost(1, "s0"), lost(2, "s1"), good(3), ledger=book(*moves)))
    assert found.params == {"n": 2, "settled": 1, "at_most": "0.03"}


def test_a_free_request_without_an_answer_is_not_unconfirmed():
    assert judged(good(1), lost(2, "discovery.status")) == []
    assert judged(good(1), lost(2, "s1", delivery="not_sent", failure="connect")) == []


# Why it ended


@pytest.mark.parametrize(
    ("stopped", "code"),
    [
        ("ceiling", "run.budget_limited"),
        ("line_exceeded", "run.budget_limited"),
        ("hold_above_balance", "run.budget_limited"),
        ("balance_exhausted", "run.budget_limited"),
        ("approval_expired", "run.budget_limited"),
        ("three_failures", "run.unstable"),
        ("two_unconfirmed", "run.unstable"),
        ("key_refused", None),
        ("asked", None),
        ("", None),
    ],
)
def test_a_stop_is_said(stopped, code):
    found = judged(good(1), good(2), stopped=stopped)
    assert codes(found) == ([code] if code else [])
    if code == "run.budget_limited":
        assert found[0].params == {"reason": stopped, "sent": 2, "planned": 3}
        assert found[0].exchanges == ("X0002",)


def test_a_gate_is_said_and_is_not_instability():
    shut = answered(1, "s0", {"error": "client not allowed"}, moment=START, status=403)
    found = only(judged(shut, stopped="gated"))
    assert (found.code, found.params, found.exchanges) == ("run.gated_client", {"status": 403}, ("X0001",))


def test_nothing_but_failures_is_instability():
    bad = [answered(n, f"s{n - 1}", {"error": 1}, moment=at(n), status=500) for n in (1, 2)]
    found = only(judged(*bad))
    assert (found.code, found.params, found.exchanges) == ("run.unstable", {"n": 2, "of": 2}, ("X0001", "X0002"))
    assert judged(*bad, good(3)) == []


# Answers nobody can read


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<html>", "not_json"),
        ("", "not_json"),
        ('{"usage": {"input_tokens": NaN, "output_tokens": 1}}', "not_json"),
        ({"usage": {"input_tokens": -5, "output_tokens": 4}}, "bad_usage"),
        ({"usage": {"input_tokens": 5, "output_tokens": "4"}}, "bad_usage"),
        ({"usage": {"input_tokens": 5.5, "output_tokens": 4}}, "bad_usage"),
        ({"usage": {"input_tokens": 5, "output_tokens": 4, "cache_read_input_tokens": -1}}, "bad_usage"),
    ],
)
def test_an_answer_that_is_none(body, kind):
    found = [f for f in judged(good(1), good(2, body=body)) if f.code != "run.unstable"]
    assert only(found).code == "run.hostile_response"
    assert (found[0].params, found[0].severity, found[0].exchanges) == ({"n": 1, "kinds": [kind]}, "low", ("X0002",))
    assert not found[0].accusation


@pytest.mark.parametrize("usage", [{}, {"input_tokens": None}, {"input_tokens": 5}])
def test_a_missing_count_is_not_a_bad_one(usage):
    assert judged(good(1), good(2, body={"usage": usage})) == []


@pytest.mark.parametrize(
    ("place", "severity"),
    [("/v2/messages", "info"), ("{own}/v2", "info"), ("//other.example/", "low"), ("https://other.example/v1", "low"),
     ("/\\other.example", "low"), ("{own}.example/", "low"), ("", "low"), ("https://www.{host}/v1", "info"),
     ("http://{host}/", "info"), ("https://www.www.{host}/", "low"), ("https://www{host}/", "low"), ("https://[", "low"),
     ("https://{host}@other.example/", "low"), ("https://other.{host}/", "low"), ("ftp://{host}/", "low")],
)  # fmt: skip
def test_a_redirect_within_the_site_is_a_gateways_habit(place, severity):
    own = run_of([], []).target.relay_origin
    sent = good(
        2,
        status=308,
        headers=(("location", place.format(own=own, host=own.partition("://")[2])),),
        hostility=("redirect",),
    )
    found = next(f for f in judged(good(1), sent) if f.code == "run.hostile_response")
    assert (found.severity, found.params["kinds"]) == (severity, ["redirect"])
    assert found.outcome == ("inconclusive" if severity == "info" else "mismatch")


def test_limits_are_named_with_the_answers_that_hit_them():
    found = judged(
        good(1, hostility=("too_large",)),
        good(2, hostility=("too_slow", "too_large")),
        good(3, hostility=("key_echoed",)),
    )
    assert codes(found) == ["run.hostile_response", "run.key_echoed"]
    assert found[0].params == {"n": 2, "kinds": ["too_large", "too_slow"]}


def test_a_broken_connection_is_the_networks_fault_unless_a_limit_was_hit():
    assert judged(good(1), good(2, body="", failure="reset", hostility=("bad_json",))) == []
    found = only(judged(good(1), good(2, body="", failure="timeout_read", hostility=("too_slow", "bad_json"))))
    assert found.params["kinds"] == ["too_slow"]


def test_pages_beside_the_plan_and_refusals_may_be_anything():
    status = answered(9, "discovery.status", "<html>", moment=START, hostility=("bad_json",))
    assert judged(good(1), status) == []
    assert judged(good(1), good(2, body="<html>", status=502)) == []
    for status, body in ((502, "<html>"), (429, ""), (400, "no")):  # under the content type of JSON
        assert judged(good(1), good(2, body=body, status=status, hostility=("bad_json",))) == []
    found = only(judged(good(1), good(2, body="{", status=502, hostility=("too_large", "bad_json"))))
    assert found.params["kinds"] == ["too_large"]


def test_the_official_side_is_not_judged():
    official = answered(8, "count.before.s0", "x", moment=START, side="official", hostility=("key_echoed", "too_large"))
    assert judged(good(1), official) == []


# Secrets, clocks


def test_a_key_that_came_back_is_an_accusation():
    found = only(judged(good(1, hostility=("key_echoed",)), good(2)))
    assert (found.code, found.severity, found.confidence, found.params, found.accusation) == (
        "run.key_echoed",
        "medium",
        "decisive",
        {"n": 1},
        True,
    )
    page = answered(5, "discovery.models.bearer", {}, moment=START, hostility=("key_echoed",))
    assert codes(judged(good(1), page)) == ["run.key_echoed"]


def test_another_ones_secret_is_named_by_kind():
    found = only(
        judged(good(1, foreign_secrets=("sk_key:0011aabb", "aws_key:1")), good(2, foreign_secrets=("sk_key:2",)))
    )
    assert (found.code, found.params, found.exchanges) == (
        "run.foreign_secret_seen",
        {"kinds": ["aws_key", "sk_key"]},
        ("X0001", "X0002"),
    )


def dated(number: int, ahead_s: float, elapsed_ms: int = 0) -> Exchange:
    date = http_date(at(number + ahead_s))
    return good(number, headers=(("Date", date),), elapsed_ms=elapsed_ms)


@pytest.mark.parametrize(
    ("ahead", "said"), [(120, None), (121, 121), (-120, None), (-121, -121), (3600, 3600), (0, None)]
)
def test_clocks_that_differ_by_more_than_two_minutes(ahead, said):
    found = judged(dated(1, ahead), dated(2, ahead), dated(3, ahead))
    assert [f.params for f in found] == ([{"seconds": said}] if said else [])
    assert [f.exchanges for f in found] == ([("X0001", "X0002", "X0003")] if said else [])
    assert codes(found) == (["run.clock_skew"] if said else [])


def test_the_time_that_an_answer_took_is_no_skew_and_three_of_them_are_named():
    """To the millisecond: a date of whole seconds, less what the answer took."""
    assert only(judged(dated(1, 1121, elapsed_ms=1_000_000))).params == {"seconds": 121}
    assert judged(dated(1, 1120, elapsed_ms=1_000_000)) == []
    many = judged(*(dated(n, 300) for n in range(1, 6)), n=6)
    assert only(many).exchanges == ("X0001", "X0002", "X0003")


def test_one_odd_date_is_no_skew_and_waiting_is_no_skew_either():
    assert judged(dated(1, 0), dated(2, 9000), dated(3, 1)) == []
    assert judged(dated(1, 300, elapsed_ms=300_000)) == []
    assert judged(good(1), good(2)) == []


def test_knowledge_is_not_asked():
    late = run(good(1), start=dt.datetime(2031, 1, 1, tzinfo=dt.UTC))
    assert assess_run_state(late, KNOWLEDGE) == []


@pytest.mark.parametrize("kind", ["too_large", "too_slow", "endless", "decompression", "redirect"])
def test_every_limit_is_an_answers_own_doing(kind):
    found = judged(good(1), good(2, body="", failure="reset", hostility=(kind, "bad_json")))
    assert only(found).params["kinds"] == [kind]
