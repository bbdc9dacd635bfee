"""What a team accepted is accepted, for as long and as much as it said; nothing more."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from relay_audit.accepted import LARGEST, UNREVIEWED, Accepted, accepting, read_accepted, text_of
from relay_audit.codes import finding
from relay_audit.errors import PackError, UsageError
from relay_audit.finding import Finding

TODAY = dt.date(2026, 11, 30)
NEVER = "0" * 64


def surplus(tokens: int = 508, severity: str = "high") -> Finding:
    params = {"n": 24, "surplus": tokens, "low": tokens, "high": tokens, "official": 18, "billed": 18 + tokens,
              "per_1000_calls": "1.016", "condition": "always"}  # fmt: skip
    return finding("tokens.constant_surplus", params).model_copy(update={"severity": severity, "confidence": "strong"})


def admitted(name: str) -> Finding:
    code = "model.relay_header_admits"
    return finding(code, {"untrusted_upstream": name, "requested": "m", "header": "x", "relation": "sibling", "n": 1})


def written(*findings: Finding, **more: Any) -> Accepted:
    return accepting(
        findings,
        run="20261130-0101-abcdef",
        today=TODAY,
        tool="0.1.0",
        plan_digest=NEVER,
        knowledge_digest=NEVER,
        **more,
    )


def test_what_was_written_reads_back_the_same():
    accepted = written(surplus(), admitted("a\n[[x]]\"'"), reason='known, in the contract "§ 3"')
    assert read_accepted("b.toml", text_of(accepted).encode()) == accepted


def test_an_entry_takes_its_own_finding_until_its_day():
    accepted = written(surplus())
    last = TODAY + dt.timedelta(days=90)
    assert accepted.takes(surplus(), TODAY)
    assert accepted.takes(surplus(), last)
    assert not accepted.takes(surplus(), last + dt.timedelta(days=1))
    assert accepted.ended(last) == ()
    assert [entry.code for entry in accepted.ended(last + dt.timedelta(days=1))] == ["tokens.constant_surplus"]


@pytest.mark.parametrize(("tokens", "taken"), [(508, True), (550, True), (458, True), (560, False), (4380, False)])
def test_a_figure_may_move_by_a_tenth(tokens, taken):
    assert written(surplus()).takes(surplus(tokens), TODAY) is taken


def test_what_is_graver_is_another_thing():
    assert not written(surplus(100, "medium")).takes(surplus(100, "high"), TODAY)
    assert written(surplus(100, "high")).takes(surplus(100, "medium"), TODAY)


def test_another_name_is_another_thing_and_no_name_is_kept():
    accepted = written(admitted("claude-haiku-4-5"))
    assert accepted.takes(admitted("claude-haiku-4-5"), TODAY)
    assert not accepted.takes(admitted("glm-5"), TODAY)
    assert "haiku" not in text_of(accepted)


def test_another_code_is_not_taken():
    assert not written(surplus()).takes(admitted("x"), TODAY)


def test_only_differences_above_info_are_written():
    match = finding("tokens.match", {"n": 24, "offset": 0, "share_bound": "0.1"})
    low = surplus(severity="info")
    assert written(match, low).accepted == ()


def test_an_entry_without_a_reason_says_that_it_was_not_reviewed():
    assert written(surplus()).accepted[0].reason == UNREVIEWED


def test_a_file_that_says_more_is_refused_with_its_line():
    text = text_of(written(surplus())) + 'body = "x"\n'
    with pytest.raises(PackError, match="body"):
        read_accepted("b.toml", text.encode())
    with pytest.raises(PackError, match="not valid TOML"):
        read_accepted("b.toml", b"= 1")
    with pytest.raises(UsageError, match="64 KB"):
        read_accepted("b.toml", b"#" * (LARGEST + 1))
    with pytest.raises(UsageError, match="UTF-8"):
        read_accepted("b.toml", b"\xff\xfe")


def test_more_than_a_reviewed_file_holds_is_refused():
    with pytest.raises(UsageError, match="64 KB"):
        text_of(written(*[surplus()] * 400))
