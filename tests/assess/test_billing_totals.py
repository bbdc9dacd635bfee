"""Books that are running totals: only the difference speaks, and only where it is this run's alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay_audit.assess.billing_calls import bill_of
from relay_audit.assess.billing_totals import dollar_rows, running_totals
from relay_audit.books import BalanceReading, ForeignRows, LogReading, LogRow, RateReading, SiteFacts, Totals
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.target import Claim
from tests.assess import test_billing_parts as parts
from tests.assess.evidence_builders import KNOWLEDGE, answered, at, lost, only, run_of, step_named

LISTED = Decimal("0.000228")
"""Three answers of 18 in at $2 and 4 out at $10 a million."""
BEFORE = Totals(requests=40, input_tokens=1_000, output_tokens=500, cache_creation_tokens=20, cache_read_tokens=30,
                list_cost=Decimal("0.9"), cost=Decimal("0.4"))  # fmt: skip


def moved(requests: int = 3, *, times: str = "0.3", input_: int = 54, listed: Decimal = LISTED, **more: int) -> Totals:
    """The totals after this many requests, charged at a multiple of the software's list."""
    return Totals(
        requests=BEFORE.requests + requests,
        input_tokens=BEFORE.input_tokens + input_,
        output_tokens=BEFORE.output_tokens + more.get("output", 12),
        cache_creation_tokens=BEFORE.cache_creation_tokens + more.get("written", 0),
        cache_read_tokens=BEFORE.cache_read_tokens + more.get("read", 0),
        list_cost=BEFORE.list_cost + listed,
        cost=BEFORE.cost + listed * Decimal(times),
    )


def rate(multiplier: str | None, *, number: int = 1, **more: Any) -> RateReading:
    value = None if multiplier is None else Decimal(multiplier)
    return RateReading(at=at(number), exchange=f"X009{number}", when="before", multiplier=value, **more)


def run(*totals: Totals | None, answers: int = 3, ratio: str | None = None, missing: int = 0, **more: Any) -> Evidence:
    steps = [step_named(f"s{n}") for n in range(1, answers + missing + 1)]
    body = {"usage": {"input_tokens": 18, "output_tokens": 4}}
    sent = [answered(n, f"s{n}", body, moment=at(n)) for n in range(1, answers + 1)]
    sent += [lost(n, f"s{n}") for n in range(answers + 1, answers + missing + 1)]
    readings = tuple(
        BalanceReading(at=at(60 * place), exchange=f"X008{place}" if place else "", totals=item)
        for place, item in enumerate(totals)
    )
    whole = run_of(sent, steps, balance=readings, **more)
    claim = Claim(channel="anthropic", ratio=None if ratio is None else Decimal(ratio))
    return whole.model_copy(update={"target": whole.target.model_copy(update={"claim": claim})})


def judged(*totals: Totals | None, **more: Any) -> list[Finding]:
    return running_totals(run(*totals, **more), KNOWLEDGE)


def test_totals_that_moved_by_exactly_our_requests_are_a_match():
    found = only(judged(BEFORE, moved(), ratio="0.3", rates=(rate("0.3"), rate("0.3", number=2))))
    assert (found.code, found.outcome, found.confidence, found.basis) == (
        "billing.matches",
        "match",
        "supporting",
        "relay_word",
    )
    assert found.params == {
        "n": 3, "charged": "0.0000684", "not_judged": 0, "facts": ["group_ratio"], "share_bound": "63.2",
        "claimed": "0.3", "published": "0.3", "charged_ratio": "0.3",
    }  # fmt: skip
    assert found.exchanges == ("X0081", "X0001", "X0002", "X0003")


@pytest.mark.parametrize(
    ("times", "facts"), [("1", "nothing_special"), ("1.02", "nothing_special"), ("1.03", "group_ratio"), ("0.98", "nothing_special"),
     ("0.97", "group_ratio")]
)  # fmt: skip
def test_a_multiple_of_its_own_list_is_a_fact(times, facts):
    found = only(judged(BEFORE, moved(times=times)))
    assert (found.code, found.params["facts"]) == ("billing.matches", [facts])


def unlisted(times: str = "0.3") -> Totals:
    """The same charge, by totals that name no list price."""
    return moved(times=times).model_copy(update={"list_cost": BEFORE.list_cost})


@pytest.mark.parametrize("ratio", ["0.3", "0.2942"])
def test_totals_without_a_list_of_their_own_have_no_multiple(ratio):
    found = only(judged(BEFORE, unlisted(), ratio=ratio, rates=(rate("0.0001"), rate("0.0001", number=2))))
    assert (found.code, found.params["facts"], found.params["charged_ratio"]) == (
        "billing.matches",
        ["nothing_special"],
        None,
    )


@pytest.mark.parametrize("ratio", ["0.0001", "0.2941"])
def test_without_a_list_of_their_own_the_vendors_is_what_a_claim_may_mean(ratio):
    found = only(judged(BEFORE, unlisted(), ratio=ratio))
    assert (found.code, found.severity, found.confidence) == ("billing.ratio_differs_from_claim", "low", "supporting")
    assert (found.params["charged_ratio"], found.params["claimed"]) == ("0.3", ratio)


@pytest.mark.parametrize(
    ("times", "rates", "said"),
    [
        ("1.02", (), "billing.matches"),
        ("1.021", (), "billing.log_unavailable"),
        ("1.5", (rate("1.5"),), "billing.matches"),
    ],
)
def test_without_any_price_to_hold_them_against_totals_are_no_match(times, rates, said):
    found = only(judged(BEFORE, unlisted(times), rates=rates))
    assert (found.code, found.basis) == (said, "relay_word")
    assert found.params.get("reason", "no_price_to_compare") == "no_price_to_compare"
    assert {f"X{n:04}" for n in range(1, 4)} <= set(found.exchanges)


def other_rows(**more: Any) -> tuple[LogReading, ...]:
    foreign = ForeignRows(count=3, within=3, first=at(1), last=at(3))
    return (LogReading(**{"at": at(70), "exchange": "X0070", "state": "read", "foreign": foreign, **more}),)


def test_rows_that_fit_no_call_beside_totals_of_exactly_our_requests_are_ours():
    made = judged(BEFORE, moved(input_=108, output=24, times="2"), log=other_rows())
    assert [(f.code, f.params["cause"], f.confidence) for f in made] == [("billing.overcharged", "tokens", "strong")]
    one = ForeignRows(count=1, within=1, first=at(1), last=at(1))
    loose = LogRow(created_at=at(1), kind="consume", model="m", amount=Decimal(1))
    for log in (other_rows(foreign=one), other_rows(foreign=ForeignRows(), rows=(loose,))):
        assert only(judged(BEFORE, moved(input_=108, output=24, times="2"), log=log)).code == "billing.overcharged"
    assert judged(BEFORE, moved(4), log=other_rows()) == [], "other traffic too"
    ours = LogRow(exchange="X0001", created_at=at(1), kind="consume", model="m", amount=Decimal(1))
    assert judged(BEFORE, moved(), log=other_rows(rows=(ours,))) == [], "a row that fits speaks for itself"


# Where they do not speak


@pytest.mark.parametrize("totals", [(), (BEFORE,), (None, None), (None, moved())])
def test_fewer_than_two_readings_say_nothing(totals):
    assert judged(*totals) == []


def test_a_reading_without_totals_in_between_is_passed_over():
    assert only(judged(BEFORE, None, moved())).code == "billing.matches"


def test_the_last_reading_is_the_one_that_speaks():
    assert only(judged(BEFORE, moved(1), moved(2))).exchanges == ("X0082",)


def test_an_answer_without_a_usage_is_none_that_is_waited_for():
    evidence = run(BEFORE, moved(2, input_=36, output=8, listed=Decimal("0.000152")))
    first, second, third = evidence.exchanges
    assert third.response is not None
    empty = third.model_copy(update={"response": third.response.model_copy(update={"body": "{}"})})
    found = only(running_totals(evidence.model_copy(update={"exchanges": (first, second, empty)}), KNOWLEDGE))
    assert (found.code, found.params["n"]) == ("billing.matches", 2)


def test_a_claim_that_is_broken_by_either_list_is_told_by_the_sites_own():
    found = only(judged(BEFORE, moved(listed=2 * LISTED), ratio="0.2"))
    assert (found.code, found.confidence) == ("billing.ratio_differs_from_claim", "strong")
    assert (found.params["charged_ratio"], found.params["claimed"]) == ("0.3", "0.2")


def test_a_log_that_was_read_comes_first():
    log = (LogReading(at=at(70), exchange="X0070", state="read"),)
    assert judged(BEFORE, moved(), log=log) == []
    log = (LogReading(at=at(70), exchange="X0070", state="unavailable"),)
    assert only(judged(BEFORE, moved(), log=log)).code == "billing.matches"


def test_nothing_was_answered():
    assert judged(BEFORE, moved(), answers=0) == []


def test_a_total_that_went_back_belongs_to_something_else():
    found = only(judged(moved(), BEFORE))
    assert (found.code, found.params, found.basis) == (
        "billing.log_unavailable",
        {"reason": "totals_do_not_fit"},
        "relay_word",
    )
    assert found.exchanges == ("X0081",)


def test_a_sending_without_an_outcome_may_stand_in_the_totals_or_not():
    found = only(judged(BEFORE, moved(), missing=1))
    assert (found.code, found.params["reason"], found.exchanges) == (
        "billing.log_unavailable",
        "totals_do_not_fit",
        ("X0081",),
    )


def test_fewer_requests_than_answers_are_still_to_come():
    found = only(judged(BEFORE, moved(1)))
    assert (found.code, found.exchanges, found.basis) == ("billing.settlement_pending", ("X0081",), "relay_word")
    assert found.params == {"n": 2, "of": 3, "waited_s": 57}


def test_more_requests_than_answers_are_somebody_elses_too():
    """Then nothing of the difference can be held against the relay."""
    foreign, unread = judged(BEFORE, moved(5, times="9"), ratio="0.3")
    assert (foreign.code, foreign.params, foreign.exchanges) == ("billing.foreign_rows", {"count": 2}, ("X0081",))
    assert (unread.code, unread.params, unread.exchanges) == (
        "billing.log_unavailable", {"reason": "totals_do_not_fit"}, ("X0081",),
    )  # fmt: skip
    assert not foreign.accusation
    assert (foreign.basis, unread.basis) == ("relay_word", "relay_word")


# What is held against the relay


@pytest.mark.parametrize(
    "extra",
    [{"input_": 54 + 33}, {"output": 12 + 33}, {"written": 33}, {"read": 33}],
    ids=["in", "out", "written", "read"],
)
def test_more_tokens_in_the_totals_than_in_the_answers(extra):
    found = only(judged(BEFORE, moved(times="1", **extra)))
    assert (found.code, found.confidence, found.basis) == ("billing.overcharged", "strong", "relay_word")
    assert found.params == {
        "n": 3, "charged": "0.000228", "recomputed": "0.000152", "difference": "0.000076", "cause": "tokens",
    }  # fmt: skip
    assert (found.expected, found.observed) == ({"tokens": 66}, {"tokens": 99})
    assert found.exchanges == ("X0081", "X0001", "X0002", "X0003")


def test_a_list_of_the_relays_own_above_the_vendors_is_a_fact_and_no_match():
    """The multiplier is kept, of a list that is two fifths dearer. Where none was told, nothing is said of it."""
    dearer, told = moved(times="1", listed=LISTED * Decimal("1.4")), (rate("1"), rate("1", number=2))
    found = only(judged(BEFORE, dearer, rates=told))
    assert (found.code, found.severity, found.accusation) == ("billing.price_differs_from_published", "info", False)
    assert {k: found.params[k] for k in ("road", "published", "charged_ratio", "factor", "difference")} == {
        "road": "own_list", "published": "1", "charged_ratio": "1.4", "factor": "1.4", "difference": "0.0000912",
    }  # fmt: skip
    for same in (
        judged(BEFORE, dearer),
        judged(BEFORE, moved(times="1"), rates=told),
        judged(BEFORE, moved(), rates=told),
    ):
        assert only(same).code == "billing.matches"


def test_a_list_of_its_own_is_said_in_figures_at_the_highest_multiplier_that_was_told():
    dearer = moved(times="0.5", listed=LISTED * 2)
    found = only(judged(BEFORE, dearer, ratio="1", rates=(rate("0.5"), rate("0.4", number=2))))
    assert (found.confidence, found.basis, found.exchanges) == (
        "supporting", "relay_word", ("X0081", "X0001", "X0002", "X0003"),
    )  # fmt: skip
    assert found.params.pop("hours")
    assert found.params == {
        "n": 3, "of": 3, "published_rate": "0.5", "charged_rate": "1", "factor": "2", "difference": "0.000114", "claimed": "1",
        "published": "0.5", "charged_ratio": "1", "untrusted_group": "", "changed": False, "road": "own_list",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "code"), [("1.02", "billing.matches"), ("1.0201", "billing.price_differs_from_published")]
)
def test_a_list_of_its_own_may_be_two_per_cent_above_by_its_digits(listed, code):
    dearer = moved(times="1", listed=LISTED * Decimal(listed))
    assert only(judged(BEFORE, dearer, rates=(rate("1"), rate("1", number=2)))).code == code


def test_fewer_tokens_than_in_the_answers_accuse_nobody():
    assert only(judged(BEFORE, moved(input_=1))).code == "billing.matches"


@pytest.mark.parametrize(("times", "fires"), [("0.3", False), ("0.306", False), ("0.3061", True), ("0.36", True)])
def test_the_told_multiplier_is_held_against_what_was_taken(times, fires):
    made = judged(BEFORE, moved(times=times), rates=(rate("0.3"), rate("0.3", number=2)))
    assert [f.code for f in made] == ["billing.price_differs_from_published" if fires else "billing.matches"]


def test_what_was_taken_above_the_told_multiplier_is_said_in_figures():
    found = only(judged(BEFORE, moved(times="0.36"), ratio="0.4", rates=(rate("0.3"), rate("0.2", number=2))))
    assert (found.confidence, found.basis, found.accusation) == ("strong", "relay_word", True)
    hours = found.params.pop("hours")
    assert hours
    assert found.params == {
        "n": 3, "of": 3, "published_rate": "0.3", "charged_rate": "0.36", "factor": "1.2", "difference": "0.00001368",
        "claimed": "0.4", "published": "0.3", "charged_ratio": "0.36", "untrusted_group": "", "changed": False,
    }  # fmt: skip


def test_a_multiplier_that_was_told_once_may_have_changed_since():
    assert only(judged(BEFORE, moved(times="0.9"), rates=(rate("0.3"), rate(None, number=2)))).code == "billing.matches"
    assert only(judged(BEFORE, moved(times="0.9"), rates=(rate("0.3"),))).code == "billing.matches"


def test_hours_of_another_price_are_the_sites_own_tariff():
    dear = [rate("0.3", number=n, base=Decimal("0.3"), peak=True, peak_multiplier=Decimal(2)) for n in (1, 2)]
    assert only(judged(BEFORE, moved(times="0.6"), rates=tuple(dear))).code == "billing.matches"
    above = only(judged(BEFORE, moved(times="0.63"), rates=tuple(dear)))
    assert (above.code, above.params["published_rate"]) == ("billing.price_differs_from_published", "0.6")
    calm = [item.model_copy(update={"peak": False}) for item in dear]
    assert only(judged(BEFORE, moved(times="0.6"), rates=tuple(calm))).code == "billing.price_differs_from_published"


def test_free_by_the_told_multiplier_and_charged_all_the_same():
    found = only(judged(BEFORE, moved(times="0.3"), rates=(rate("0"), rate("0", number=2))))
    assert (found.code, found.params["factor"], found.params["difference"]) == (
        "billing.price_differs_from_published", None, "0.0000684",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "fires"),
    [("0.25", True), ("0.29", True), ("0.295", False), ("0.3", False), ("0.5", False), (None, False)],
)
def test_the_claimed_ratio_is_held_against_what_was_taken(ratio, fires):
    made = judged(BEFORE, moved(times="0.3"), ratio=ratio)
    assert [f.code for f in made] == ["billing.ratio_differs_from_claim" if fires else "billing.matches"]


def test_what_was_taken_above_the_claim_is_said_in_figures():
    found = only(judged(BEFORE, moved(times="0.3"), ratio="0.25", rates=(rate("0.3"),)))
    assert found.params.pop("hours")
    assert found.params == {
        "n": 3,
        "claimed": "0.25",
        "published": "0.3",
        "charged_ratio": "0.3",
        "untrusted_group": "",
    }
    assert (found.confidence, found.basis, found.accusation) == ("strong", "relay_word", True)


def test_a_claim_may_mean_the_vendors_list_or_the_softwares():
    """Above the claim by one of the two lists only: nobody is accused."""
    dear_list = moved(times="0.25", listed=LISTED * 2)
    assert only(judged(BEFORE, dear_list, ratio="0.3")).code == "billing.matches", (
        "0.25 of its own list, 0.5 of the vendor's"
    )
    cheap_list = moved(times="0.5", listed=LISTED / 2)
    assert only(judged(BEFORE, cheap_list, ratio="0.3")).code == "billing.matches", (
        "0.5 of its own list, 0.25 of the vendor's"
    )


@pytest.mark.parametrize("times", ["0.255", "0.25"])
def test_two_per_cent_above_the_claim_are_the_totals_digits(times):
    assert only(judged(BEFORE, moved(times=times), ratio="0.25")).code == "billing.matches"


def test_an_accusation_names_both_looks_and_every_call():
    for how in ({"ratio": "0.25"}, {"rates": (rate("0.2"), rate("0.2", number=2))}):
        assert only(judged(BEFORE, moved(times="0.3"), **how)).exchanges == ("X0081", "X0001", "X0002", "X0003")


def test_the_first_and_the_last_of_several_looks_are_the_span():
    halfway = moved(1)
    found = only(judged(BEFORE, halfway, moved(), ratio="0.25"))
    assert (found.exchanges[0], found.params["charged_ratio"]) == ("X0082", "0.3")
    assert only(judged(BEFORE, moved(2), moved(1))).params == {"n": 2, "of": 3, "waited_s": 117}
    assert only(judged(BEFORE, moved(1), moved(2))).params["n"] == 1


def test_a_refusal_and_an_answer_without_a_usage_are_no_request_of_the_totals():
    whole = run(BEFORE, moved(1), answers=3)
    first, second, third = whole.exchanges
    refused = answered(2, "s2", {"error": {"message": "no"}, "usage": {"input_tokens": 1}}, moment=at(2), status=400)
    silent = answered(3, "s3", {"content": []}, moment=at(3))
    assert second.id == refused.id
    assert third.id == silent.id
    some = whole.model_copy(update={"exchanges": (first, refused, silent)})
    assert only(running_totals(some, KNOWLEDGE)).params["n"] == 1


def test_a_wait_for_totals_is_never_negative():
    whole = run(BEFORE, moved(1))
    early = whole.model_copy(
        update={"balance": tuple(reading.model_copy(update={"at": at(0)}) for reading in whole.balance)}
    )
    assert only(running_totals(early, KNOWLEDGE)).params["waited_s"] == 0


# Rows in dollars, without a list of their own


def dollar(n: int, amount: str, **more: Any) -> LogRow:
    return parts.row(n, other={}, group="").model_copy(update={"quota": None, "amount": Decimal(amount), **more})


def even(*rows: LogRow, claim: str | None = None, rates: tuple[RateReading, ...] = (), official: str | None = None,
         exchanges: Any = None) -> list[Finding]:  # fmt: skip
    sent = exchanges or [parts.sent(n) for n in (1, 2, 3)]
    bought = Claim(channel="anthropic", ratio=Decimal(claim) if claim else None)
    made = parts.run(sent, parts.books(*rows), site=SiteFacts(software="sub2api"), rates=rates, claim=bought)
    if official:
        made = made.model_copy(update={"target": made.target.model_copy(update={"official_model": official})})
    bill = bill_of(made)
    assert bill is not None
    return dollar_rows(made, KNOWLEDGE, bill)


def test_rows_at_one_multiple_of_the_list_match_and_say_which():
    found = only(even(dollar(1, "0.000038"), dollar(2, "0.00003838"), dollar(3, "0.00003876"), claim="0.5"))
    assert (found.code, found.outcome, found.confidence, found.basis) == (
        "billing.matches", "match", "supporting", "relay_word",
    )  # fmt: skip
    assert found.params == {
        "n": 3, "charged": "0.00011514", "not_judged": 0, "facts": ["group_ratio"], "claimed": "0.5", "published": None,
        "charged_ratio": "0.505", "share_bound": "63.2",
    }  # fmt: skip
    assert found.exchanges == ("X0001", "X0002", "X0003")


CACHED = parts.said(cache_read_input_tokens=1000)


@pytest.mark.parametrize(
    ("rows", "how", "n"),
    [
        ((dollar(1, "0.000076"), dollar(2, "0.00007752")), {}, 2),  # two per cent apart
        ((dollar(1, "0.000076"), dollar(2, "0.00007753")), {}, 0),
        ((dollar(1, "0.00007752"),), {}, 1),  # two per cent above the list itself
        ((dollar(1, "0.00007753"),), {}, 0),
        ((dollar(1, "0.00015504"),), {"claim": "2"}, 1),
        ((dollar(1, "0.00015505"),), {"claim": "2"}, 0),
        ((dollar(1, "0.00015504"),), {"rates": (rate(None), rate("2"), rate("1"))}, 1),
        ((dollar(1, "0.00015505"),), {"rates": (rate("2"),)}, 0),
        ((dollar(1, "0.000076"),), {"claim": "0.5"}, 1),  # no more than the list itself
        ((dollar(1, "0.000076"),), {"rates": (rate("0.5"),)}, 1),
        ((dollar(1, "0.000076"), dollar(2, "0")), {}, 1),  # a call that cost nothing
        ((dollar(1, "0"),), {}, 0),
        ((dollar(1, "0.000076"),), {"official": "unheard-of"}, 0),
        ((dollar(1, "0.000076"), parts.row(2)), {}, 0),  # books in units
        ((dollar(1, "0.000076"), dollar(2, "0.5")), {"exchanges": [parts.sent(1), parts.sent(2, CACHED)]}, 1),
        ((dollar(1, "0.000076"), dollar(2, "0.5")), {"exchanges": [parts.sent(1), parts.sent(2, {"content": []})]}, 1),
    ],
)  # fmt: skip
def test_up_to_where_one_multiple_is_a_match(rows, how, n):
    made = even(*rows, **how)
    assert [f.params["n"] for f in made] == ([n] if n else [])
    assert [f.params["not_judged"] for f in made] == ([len(rows) - n] if n else [])
