"""Answers of LiteLLM 1.108.7 and hubrelay 0.9.0, recorded once before an imitated vendor, and judged again.

The imitation made its ids up, so they are not in the vendor's scheme and check 1 cannot agree with them; what counts is
that nobody is accused for it. The recordings lie beside the checkout; where they are absent there is nothing to replay.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from relay_audit.assess import assess
from relay_audit.assess.channel import assess_channel
from relay_audit.assess.model_identity import assess_model_identity
from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.endpoint import Answer
from relay_audit.evidence import Evidence, TargetFacts
from relay_audit.exchange import Connection, Exchange, Request, Response
from relay_audit.finding import Finding
from relay_audit.plan import Plan, Step
from relay_audit.recorder import as_exchange
from relay_audit.relays.detect import detect, recognised
from relay_audit.target import Claim

RECORDED = Path(__file__).resolve().parents[2] / "shared" / "data" / "relays"
pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="no recordings beside this checkout")

KNOWLEDGE, PACK = load_knowledge(), load_packs().dialects["anthropic"]
FILES = ("litellm", "litellm_drop_params_fallbacks", "hubrelay", "hubrelay_unique_prompts")
HONEST, SWAPPED, NOT_CLAUDE = "claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-fake-on-openai"
LEGAL = ("anthropic_normal", "anthropic_normal_bearer", "anthropic_stream", "anthropic_service_tier",
         "anthropic_metadata_system")  # fmt: skip
"""Requests that the vendor accepts: this version sends no others."""


def probes(name: str) -> dict[str, dict[str, Any]]:
    """The recorded calls of the Messages route, by the recorder's names."""
    recorded = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))["probes"]
    return {key: row for key, row in recorded.items() if row["request"]["path"] == "/v1/messages"}


def exchange(number: int, name: str, row: dict[str, Any]) -> Exchange:
    """A recorded call as the transport would have handed it over, its key left out."""
    sent, came = row["request"], row["response"]
    headers = tuple((key, value) for key, value in came["headers"])
    answered = parsedate_to_datetime(next(value for key, value in headers if key.lower() == "date"))
    body = came["body_raw"]
    answer = Answer(
        delivery="answered",
        request=Request(
            method="POST", path="/v1/messages", body=sent["body"] if isinstance(sent["body"], dict) else None
        ),
        response=Response(
            status=came["status"],
            headers=headers,
            body=body,
            body_bytes=len(body.encode()),
            body_sha256=hashlib.sha256(body.encode()).hexdigest(),
        ),
        failure="",
        hostility=(),
        foreign_secrets=(),
        connection=Connection(),
        sent_at=answered - dt.timedelta(seconds=came["wall_s"]),
        elapsed_ms=round(came["wall_s"] * 1000),
    )
    return as_exchange(f"X{number:04}", name, "relay", answer)


def evidence(name: str, model: str, only: tuple[str, ...] = ()) -> Evidence:
    """A run that consisted of the recorded calls for one model."""
    rows = {
        key: row
        for key, row in probes(name).items()
        if isinstance(row["request"]["body"], dict)
        and row["request"]["body"]["model"] == model
        and (not only or key in only)
    }
    exchanges = tuple(exchange(number, key, row) for number, (key, row) in enumerate(rows.items(), start=1))
    steps = tuple(
        Step(
            id=e.step,
            probe="anthropic/recorded",
            request=e.step,
            side="relay",
            stage="probe",
            cost="may_charge",
            path="/v1/messages",
            body=e.request.body or {},
        )
        for e in exchanges
    )
    return Evidence(
        run_id="recorded",
        tool_version="0",
        started_at=min(e.sent_at for e in exchanges),
        status="completed",
        target=TargetFacts(
            name="recorded",
            model=model,
            official_model=model,
            dialect="anthropic",
            claim=Claim(channel="anthropic"),
            relay_origin="http://127.0.0.1:18200",
            user_agent="recorder",
        ),
        pack=PACK,
        plan=Plan(
            dialect="anthropic",
            model=model,
            official_model=model,
            profile="standard",
            checks=(1, 2, 6),
            seed=0,
            counter=False,
            steps=steps,
        ),
        exchanges=exchanges,
    )


def judged(run: Evidence) -> dict[str, Finding]:
    """Check 1 and the names that come for free, on everything that was recorded."""
    found = [*assess_channel(run, KNOWLEDGE), *assess_model_identity(run, KNOWLEDGE)]
    return {finding.code: finding for finding in found}


def accusations(codes: dict[str, Finding]) -> set[str]:
    return {code for code, finding in codes.items() if finding.accusation}


@pytest.mark.parametrize("name", FILES)
def test_the_recordings_are_there(name: str) -> None:
    assert len(probes(name)) >= 20
    assert len(evidence(name, HONEST).exchanges) >= 10


@pytest.mark.parametrize("name", ["litellm", "hubrelay_unique_prompts"])
def test_an_honest_channel_is_accused_of_nothing(name: str) -> None:
    codes = judged(evidence(name, HONEST))
    assert accusations(codes) == set()
    assert "channel.matches" not in codes  # made-up ids agree with nobody
    assert {code for code, finding in codes.items() if finding.above_info} <= {"channel.id_reminted"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("model", [HONEST, SWAPPED, NOT_CLAUDE])
def test_no_assessor_breaks_on_what_relays_really_answer(name: str, model: str) -> None:
    findings, coverage = assess(recognised(evidence(name, model), KNOWLEDGE), KNOWLEDGE)
    assert "run.probe_error" not in {finding.code for finding in findings}
    assert [row.check for row in coverage] == [1, 2, 3, 4, 5, 6]


def test_a_fallback_accuses_nobody_on_legal_requests() -> None:
    assert accusations(judged(evidence("litellm_drop_params_fallbacks", HONEST, LEGAL))) == set()


@pytest.mark.parametrize("name", ["litellm", "litellm_drop_params_fallbacks"])
@pytest.mark.parametrize(
    ("model", "upstream"), [(SWAPPED, "anthropic/claude-3-haiku-20240307"), (NOT_CLAUDE, "openai/gpt-4o-mini")]
)
def test_litellm_admits_the_model_it_asked(name: str, model: str, upstream: str) -> None:
    codes = judged(evidence(name, model))
    assert accusations(codes) == {"model.relay_header_admits"}
    found = codes["model.relay_header_admits"]
    assert (found.severity, found.confidence, found.basis) == ("critical", "decisive", "relay_word")
    assert found.params["untrusted_upstream"] == upstream
    assert found.params["n"] >= 2, "both the whole answer and the stream carry the header"


@pytest.mark.parametrize("model", [SWAPPED, NOT_CLAUDE])
def test_hubrelay_hides_its_mapping_and_is_not_accused_of_it(model: str) -> None:
    codes = judged(evidence("hubrelay_unique_prompts", model))
    assert accusations(codes) == set()
    assert not any(code.startswith("model.") for code in codes)


def test_hubrelays_stored_answers_are_seen_as_replayed_ids() -> None:
    codes = judged(evidence("hubrelay", HONEST))
    replayed = codes["channel.id_replayed"]
    assert replayed.outcome == "mismatch"
    run = evidence("hubrelay", HONEST)
    ids = [e.answer()["id"] for e in run.exchanges if e.status == 200 and isinstance(e.answer(), dict)]
    again = {
        e.id
        for e in run.exchanges
        if e.status == 200 and isinstance(e.answer(), dict) and ids.count(e.answer()["id"]) > 1
    }
    assert set(replayed.exchanges) == again
    assert len(again) >= 5
    assert accusations(codes) == {"channel.id_replayed"}


@pytest.mark.parametrize(("name", "software"), [(name, name.split("_")[0]) for name in FILES])
def test_the_software_is_recognised(name: str, software: str) -> None:
    every = tuple(exchange(number, key, row) for number, (key, row) in enumerate(probes(name).items(), start=1))
    assert detect(every, KNOWLEDGE)[0] == software
    for one in every:  # where one answer shows a mark at all, it is the right one
        assert detect((one,), KNOWLEDGE)[0] in (software, "unknown")
    assert recognised(evidence(name, HONEST), KNOWLEDGE).site.software == software
