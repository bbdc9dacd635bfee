"""Night after night: what is confirmed, what waits, when silence is an alarm, and the one issue of a line."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal

from relay_audit.codes import finding
from relay_audit.finding import Finding
from relay_audit.watch import KEPT, Morning, Seen, Watch, dearer, morning_after, new_accusations

START = dt.date(2026, 11, 1)


def accusation(code: str = "tokens.intermittent_surplus", confidence: str = "strong") -> Finding:
    params = {"n": 24, "of": 24, "surplus": 508, "share_low": "0.1", "share_high": "0.4"}
    made = finding("tokens.intermittent_surplus", params)
    return made.model_copy(update={"code": code, "confidence": confidence, "outcome": "mismatch"})


def night(
    day: int,
    *accusations: Finding,
    result: bool = True,
    checks: tuple[int, ...] = (1, 2, 3, 4, 6),
    causes: Mapping[str, str] | None = None,
    answers: Mapping[str, int] | None = None,
    again: tuple[str, ...] = (),
) -> Seen:
    """A night's run; with `answers` (probe → how many) every accusation rests on all of them."""
    date = START + dt.timedelta(days=day)
    grounds = {f.code: dict(answers) for f in accusations} if answers else {}
    return Seen(date, f"run-{day}", result, accusations, checks if result else (), causes or {}, answers=answers or {},
                grounds=grounds, again=frozenset(again))  # fmt: skip


def after(*nights: Seen) -> Morning:
    watch, last = Watch(), None
    for seen in nights:
        last = morning_after(watch, seen)
        watch = last.watch
    assert last is not None
    return last


def test_a_new_accusation_waits_and_the_next_night_confirms_it():
    first, second = after(night(0, accusation())), after(night(0, accusation()), night(1, accusation()))
    assert (first.state, first.unconfirmed, first.issue) == ("unconfirmed", ("tokens.intermittent_surplus",), "none")
    assert (second.state, second.confirmed, second.issue) == ("confirmed", ("tokens.intermittent_surplus",), "open")


def test_decisive_evidence_needs_no_second_night():
    only = after(night(0, accusation(confidence="decisive")))
    assert (only.state, only.issue) == ("confirmed", "open")


def test_two_different_accusations_do_not_confirm_each_other():
    last = after(night(0, accusation()), night(1, accusation("channel.mixed")))
    assert (last.state, last.unconfirmed) == ("unconfirmed", ("channel.mixed",))


def test_a_clean_night_between_begins_again():
    assert after(night(0, accusation()), night(1), night(2, accusation())).state == "unconfirmed"


def test_nights_without_a_result_neither_confirm_nor_forget():
    last = after(night(0, accusation()), night(1, result=False), night(2, accusation()))
    assert last.state == "confirmed"


def test_after_a_week_an_accusation_is_new():
    assert after(night(0, accusation()), night(8, accusation())).state == "unconfirmed"


def test_the_same_run_read_twice_confirms_nothing():
    seen = night(0, accusation())
    assert after(seen, seen).state == "unconfirmed"
    assert len(after(seen, seen).watch.nights) == 1


def test_the_third_silent_night_is_an_alarm():
    silent = [after(*[night(d, result=False) for d in range(n)]) for n in (1, 2, 3, 4)]
    assert [(m.silent, m.alarm) for m in silent] == [(1, False), (2, False), (3, True), (4, True)]
    broken = after(night(0, result=False), night(1, result=False), night(2), night(3, result=False))
    assert not broken.alarm


def test_one_issue_is_opened_updated_and_closed():
    nights = [night(0, accusation()), night(1, accusation()), night(2, accusation()), night(3), night(4)]
    actions = [after(*nights[: n + 1]).issue for n in range(5)]
    assert actions == ["none", "open", "update", "close", "none"]
    assert after(*nights[:4]).about == ("tokens.intermittent_surplus",)


def test_a_night_that_did_not_look_closes_nothing():
    open_ = [night(0, accusation()), night(1, accusation())]
    for unseen in (night(2, checks=(1,)), night(2, result=False)):
        last = after(*open_, unseen)
        assert last.issue == "none"
        assert last.watch.open == ("tokens.intermittent_surplus",)
    assert after(*open_, night(2, checks=(1,)), night(3)).issue == "close"


def test_an_unconfirmed_sighting_keeps_the_issue_open():
    open_ = [night(0, accusation()), night(1, accusation()), night(2), night(3, accusation("channel.mixed"))]
    assert after(*open_).state == "unconfirmed"
    nights = [night(0, accusation()), night(1, accusation()), night(12, accusation())]
    last = after(*nights)
    assert (last.state, last.issue, last.watch.open) == ("unconfirmed", "none", ("tokens.intermittent_surplus",))


def test_a_repeat_in_the_same_night_confirms():
    once = after(night(0, accusation(), accusation("channel.mixed"), again=("channel.mixed",)))
    assert (once.state, once.confirmed, once.issue) == ("confirmed", ("channel.mixed",), "open")
    assert once.unconfirmed == ("tokens.intermittent_surplus",)


def test_only_what_is_new_tonight_is_worth_a_repeat():
    first = after(night(0, accusation())).watch
    both = night(1, accusation(), accusation("channel.mixed"), accusation("channel.mismatch", "decisive"))
    assert [f.code for f in new_accusations(first, both)] == ["channel.mixed"]


FULL, FEW = {"token_parity": 24}, {"token_parity": 11}


def test_a_night_with_too_few_answers_neither_clears_nor_interrupts():
    opened = [night(0, accusation(), answers=FULL), night(1, accusation(), answers=FULL)]
    weak = after(*opened, night(2, answers=FEW))
    assert (weak.state, weak.issue, weak.watch.open) == ("standing", "none", ("tokens.intermittent_surplus",))
    assert after(*opened, night(2, answers=FEW), night(3, answers=FULL)).issue == "close"
    between = [night(0, accusation(), answers=FULL), night(1, answers=FEW), night(2, accusation(), answers=FULL)]
    assert after(*between).state == "confirmed"


def test_free_nights_between_paid_ones_do_not_keep_a_line_from_being_confirmed():
    paid, free = (1, 2, 6), (1, 6)
    nights = [night(0, accusation(), checks=paid), night(1, checks=free), night(2, accusation(), checks=paid)]
    assert after(*nights).state == "confirmed"


def test_a_line_that_comes_and_goes_is_confirmed_and_not_cleared_by_one_good_night():
    bad = {0, 2, 4, 6}
    nights = [night(day, *([accusation()] if day in bad else [])) for day in range(13)]
    mornings = [after(*nights[: n + 1]) for n in range(13)]
    assert [m.state for m in mornings[:5]] == ["unconfirmed", "clean", "unconfirmed", "clean", "confirmed"]
    assert [m.issue for m in mornings if m.issue != "none"] == ["open", "update", "close"]
    assert mornings[10].issue == "close"  # seen on 4 of 7 nights: three good ones may be chance, four are not


def test_another_accusation_closes_nothing():
    opened = [night(0, accusation()), night(1, accusation())]
    last = after(*opened, night(2, accusation("channel.mixed")))
    assert (last.state, last.issue, last.watch.open) == ("unconfirmed", "none", ("tokens.intermittent_surplus",))
    unseen = after(*opened, night(2, accusation("channel.mismatch", "decisive"), checks=(1,)))
    assert unseen.about == ("channel.mismatch",)
    assert unseen.watch.open == ("channel.mismatch", "tokens.intermittent_surplus")


def test_what_is_the_relays_stays_so_when_our_knowledge_changes():
    opened = [night(0, accusation()), night(1, accusation())]
    last = after(*opened, night(2, accusation(), causes={"tokens.intermittent_surplus": "knowledge"}))
    assert (last.state, last.issue, last.others) == ("confirmed", "update", ())


def test_whose_a_change_was_outlives_a_night_that_did_not_look():
    ours = {"tokens.intermittent_surplus": "knowledge"}
    nights = [night(0), night(1, accusation(), causes=ours), night(2, checks=(1,)), night(3, accusation())]
    assert after(*nights).state == "clean"


def test_only_the_relays_change_fails_a_night():
    causes = {"tokens.intermittent_surplus": "knowledge"}
    nights = [night(0, accusation(), causes=causes), night(1, accusation(), causes=causes)]
    last = after(*nights)
    assert (last.state, last.others) == ("clean", (("tokens.intermittent_surplus", "knowledge"),))
    assert last.issue == "none"


def test_what_our_knowledge_brought_up_stays_ours_until_it_is_gone():
    ours = {"tokens.intermittent_surplus": "knowledge"}
    nights = [night(0), night(1, accusation(), causes=ours), *(night(day, accusation()) for day in range(2, 6))]
    assert [after(*nights[: n + 1]).state for n in range(1, 6)] == ["clean"] * 5
    again = [*nights, night(6), night(7, accusation()), night(8, accusation())]
    assert after(*again).state == "confirmed"
    worse = [*nights, night(6, accusation(), causes={"tokens.intermittent_surplus": "relay"})]
    assert after(*worse).state == "unconfirmed"


def test_the_file_stays_small():
    last = after(*[night(day, accusation()) for day in range(200)])
    assert len(last.watch.nights) == KEPT
    assert len(last.watch.model_dump_json()) < 65_536
    assert Watch.model_validate_json(last.watch.model_dump_json()) == last.watch


def test_a_changed_price_is_shown_by_itself():
    seen = Seen(START, "r", True, (), (2,), {}, {"relay input": Decimal(2), "relay output": Decimal(10)})
    watch = morning_after(Watch(), seen).watch
    assert dearer(watch, seen.prices) == {}
    assert dearer(watch, {"relay input": Decimal(4), "relay output": Decimal(10)}) == {
        "relay input": (Decimal(2), Decimal(4))
    }
    assert dearer(watch, {}) == {}
    assert dearer(Watch(), seen.prices) == {}
