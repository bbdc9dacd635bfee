"""What a log admits is decisive where it stands there; where it does not, nothing follows."""

from __future__ import annotations

import pytest

from relay_audit.assess.admissions import admitted
from relay_audit.assess.relay_trail import chained
from relay_audit.books import Admissions, LogReading, LogRow
from relay_audit.evidence import Evidence
from relay_audit.target import Claim
from tests.assess.evidence_builders import KNOWLEDGE, START, answered, codes, only, run_of, said, step_named

BODY = {"model": "m", "messages": [], "system": "ours", "temperature": 0.5, "service_tier": "auto"}


def run(kind: str = "consume", claim: str = "anthropic", **told: object) -> Evidence:
    row = LogRow(exchange="X0001", created_at=START, kind=kind, model="m", quota=1, admissions=Admissions(**told))
    evidence = run_of([answered(1, "s0", {"id": "m"}, moment=START, sent=BODY)], [step_named("s0")])
    target = evidence.target.model_copy(update={"claim": Claim(channel=claim)})
    reading = LogReading(at=START, exchange="X0002", state="read", rows=(row,))
    return evidence.model_copy(update={"log": (reading,), "target": target})


def test_nothing_admitted_is_nothing_said():
    assert admitted(run()) == []
    assert chained(run(), KNOWLEDGE) == []
    assert admitted(run().model_copy(update={"log": ()})) == []


def test_an_overwritten_system_prompt_is_decisive():
    hit = only(admitted(run(system_overwritten=True)))
    assert (hit.outcome, hit.severity, hit.confidence, hit.basis) == ("mismatch", "medium", "decisive", "relay_word")
    assert (hit.params["cases"], hit.exchanges) == (["system_prompt_overwritten"], ("X0001",))


@pytest.mark.parametrize(
    ("lines", "hit"),
    [
        (("set temperature = 1",), True),
        (("prepend messages",), True),
        (("DELETE temperature",), True),
        (("delete top_p",), False),
        (("delete service_tier", "set model = x"), False),
        (('set metadata.user_id = "system"',), False),
        (("temperature",), False),
        (("<script>",), False),
    ],
    ids=str,
)
def test_an_override_counts_where_it_touches_what_we_sent(lines, hit):
    assert codes(admitted(run(overrides=lines))) == (["params.clamped"] if hit else [])


@pytest.mark.parametrize(("kind", "channel"), [(33, "aws"), (41, "vertex"), (3, "azure")])
def test_an_error_rows_cloud_is_a_sign_and_no_accusation(kind, channel):
    hit = only(admitted(run("error", channel_type=kind)))
    assert (hit.severity, hit.params["channel"], hit.accusation) == ("low", channel, False)
    assert admitted(run("error", claim=channel, channel_type=kind)) == []
    assert admitted(run("error", claim="unknown", channel_type=kind)) == []


@pytest.mark.parametrize("kind", [1, 8, 14, 58, 999])
def test_other_kinds_say_nothing(kind):
    assert admitted(run("error", channel_type=kind)) == []
    assert chained(run("error", channel_type=kind), KNOWLEDGE) == []


@pytest.mark.parametrize("kind", [20, 59, 60])
def test_a_resellers_kind_is_a_second_hop(kind):
    assert only(chained(run("error", channel_type=kind), KNOWLEDGE)).params["via"] == ["relay_log"]


CLAUDE, CHAT, RESPONSES = "Claude Messages", "OpenAI Compatible", "OpenAI Responses"


@pytest.mark.parametrize(
    ("formats", "outcome", "severity"),
    [
        ((CLAUDE, CHAT), "mismatch", "low"),
        ((CHAT, "Google Gemini"), "mismatch", "low"),
        ((CHAT, RESPONSES), "match", "info"),
        ((CHAT, CLAUDE), "match", "info"),  # Claude bought over OpenAI's format
    ],
)
def test_a_request_that_went_on_in_another_format_is_said(formats, outcome, severity):
    hit = only(admitted(run(conversion=formats)))
    assert (hit.code, hit.outcome, hit.severity) == ("channel.format_converted", outcome, severity)
    assert (hit.confidence, hit.params["formats"]) == ("decisive", [" → ".join(formats)])


def row(number: int, *formats: str) -> LogRow:
    told = Admissions(conversion=formats)
    return LogRow(
        exchange=f"X{number:04}" if number else "",
        created_at=START,
        kind="consume",
        model="m",
        quota=1,
        admissions=told,
    )


def read(*rows: LogRow, model: str = "claude-sonnet-5-5", n: int = 4) -> Evidence:
    """Answers to as many requests but the last, which was refused, and these rows."""
    sent = [answered(k, f"s{k}", {"id": "m"}, moment=START, status=400 if k == n else 200) for k in range(1, n + 1)]
    log = (LogReading(at=START, exchange="X0099", state="read", rows=rows),)
    return run_of(sent, [step_named(f"s{k}") for k in range(1, n + 1)], model=model, log=log)


def test_formats_are_read_from_the_rows_of_answers_and_counted_by_request():
    """A row of a refusal, of nobody's request, or without a format is none of them."""
    rows = (
        row(1, CLAUDE, CHAT),
        row(1, CLAUDE, CHAT),
        row(2, CLAUDE),
        row(3),
        row(4, CLAUDE, CHAT),
        row(0, CLAUDE, CHAT),
        row(3, "x", CHAT),
    )
    assert said(only(admitted(read(*rows)))) == {
        "code": "channel.format_converted", "check": 1, "outcome": "mismatch", "severity": "low", "confidence": "decisive",
        "basis": "relay_word", "exchanges": ("X0001",), "params": {"n": 1, "of": 3, "formats": [f"{CLAUDE} → {CHAT}"]},
    }  # fmt: skip
    mixed = admitted(read(row(1, CHAT, CLAUDE), row(2, CLAUDE, CHAT)))
    assert (only(mixed).exchanges, only(mixed).outcome) == (("X0002",), "mismatch"), "the other vendor's outweighs"


@pytest.mark.parametrize(
    ("model", "formats", "severity"),
    [
        ("claude-sonnet-5-5", (CHAT, CLAUDE), "info"), ("claude-sonnet-5-5", (CLAUDE, CHAT, CLAUDE), "info"),
        ("claude-sonnet-5-5", (CHAT, CLAUDE, CHAT), "low"), ("gemini-3-pro", (CHAT, "Google Gemini"), "info"),
        ("gpt-5", (CLAUDE, CHAT), "info"), ("gpt-5", (CLAUDE, RESPONSES), "info"), ("gpt-5", (CHAT, CLAUDE), "low"),
        ("glm-4.7", (CLAUDE, CHAT), "info"), ("glm-4.7", (CHAT, "Google Gemini"), "low"),
    ],
)  # fmt: skip
def test_the_format_of_the_model_s_own_maker_is_where_a_request_has_to_end(model, formats, severity):
    assert only(admitted(read(row(1, *formats), model=model))).severity == severity


@pytest.mark.parametrize("formats", [(), (CLAUDE,), (CLAUDE, CLAUDE), (CLAUDE, "<b>x</b>"), ("Own Format",)], ids=str)
def test_one_format_none_or_an_unknown_one_says_nothing(formats):
    assert admitted(run(conversion=formats)) == []


def test_what_was_changed_names_its_requests_and_what_an_error_row_names_its_cloud():
    both = run(system_overwritten=True, overrides=("set temperature = 1",))
    assert said(only(admitted(both))) == {
        "code": "params.clamped", "check": 4, "outcome": "mismatch", "severity": "medium", "confidence": "decisive", "basis": "relay_word",
        "exchanges": ("X0001",), "params": {"cases": ["system_prompt_overwritten", "fields_overridden"], "n": 1, "of": 1},
    }  # fmt: skip
    assert said(only(admitted(run("error", channel_type=33)))) == {
        "code": "channel.mismatch", "check": 1, "outcome": "mismatch", "severity": "low", "basis": "relay_word", "exchanges": ("X0001",),
        "params": {"claimed": "anthropic", "channel": "aws", "n": 1, "of": 1, "signals": ["relay_log"]},
    }  # fmt: skip
