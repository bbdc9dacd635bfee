"""What a log admits is decisive where it stands there; where it does not, nothing follows."""

from __future__ import annotations

import pytest

from relay_audit.assess.admissions import admitted
from relay_audit.assess.relay_trail import chained
from relay_audit.books import Admissions, LogReading, LogRow
from relay_audit.evidence import Evidence
from relay_audit.target import Claim
from tests.assess.evidence_builders import KNOWLEDGE, START, answered, codes, only, run_of, step_named

BODY = {"model": "m", "messages": [], "system": "ours", "temperature": 0.5, "service_tier": "auto"}


def run(kind: str = "consume", claim: str = "anthropic", **said: object) -> Evidence:
    row = LogRow(exchange="X0001", created_at=START, kind=kind, model="m", quota=1, admissions=Admissions(**said))
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


@pytest.mark.parametrize("formats", [(), (CLAUDE,), (CLAUDE, CLAUDE), (CLAUDE, "<b>x</b>"), ("Own Format",)], ids=str)
def test_one_format_none_or_an_unknown_one_says_nothing(formats):
    assert admitted(run(conversion=formats)) == []
