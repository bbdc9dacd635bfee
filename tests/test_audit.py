"""One audit from target to judgement, act by act: what an approval binds, and that judging again changes nothing."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from relay_audit import audit
from relay_audit.errors import ApprovalRefused, RunCancelled
from relay_audit.target import target_from
from tests.audits import LIBRARY
from tests.staged import Staged, json_answer, staged

QUICK = {"profile": "quick", "checks": [2, 6]}


@pytest.fixture
def quoted(tmp_path) -> Staged:
    stage = staged("hidden_508", tmp_path, audit=QUICK)
    stage.plan()
    return stage


def approve(stage: Staged, digest: str, ceiling: str, channel: str = "flag"):
    return audit.approve(stage.recorder, digest, Decimal(ceiling), "me", channel)


# Beginning


def test_a_run_begins_with_what_it_was_told_and_no_key(tmp_path):
    stage = staged("honest", tmp_path, audit=QUICK)
    facts = stage.history.facts
    assert (facts.relay_origin, facts.official_origin, facts.official_is_vendor) == (
        "http://127.0.0.1:7001",
        "http://127.0.0.1:7002",
        False,
    )
    assert (facts.model, facts.official_model, facts.conflict) == ("claude-sonnet-5-5", "claude-sonnet-5-5", "")
    assert stage.seen == []
    kept = b"".join(path.read_bytes() for path in stage.space.audits.rglob("*") if path.is_file())
    assert stage.world.relay_key.encode() not in kept
    assert stage.world.official_key.encode() not in kept
    assert stage.history.knowledge_digest == LIBRARY.digest


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, ""),
        ({"ANTHROPIC_BASE_URL": "https://relay.example:8443/v1"}, "agent_served_by_target"),
        ({"OPENAI_BASE_URL": "http://RELAY.example:8443"}, "agent_served_by_target"),
        ({"ANTHROPIC_BASE_URL": "https://relay.example/v1"}, ""),
        ({"ANTHROPIC_BASE_URL": "https://other.example:8443"}, ""),
        ({"ANTHROPIC_BASE_URL": "https://relay.example:port"}, ""),
        ({"ANTHROPIC_BASE_URL": ""}, ""),
        ({"SOME_BASE_URL": "https://relay.example:8443"}, ""),
    ],
)
def test_an_agent_that_is_served_by_the_accused(environ, says):
    target = target_from({"target": {"model": "m"}, "relay": {"base_url": "https://relay.example:8443"}})
    assert audit.conflict(target, environ) == says


def test_digests_follow_what_they_stand_for():
    renamed = {**LIBRARY.files, "probes/extra.txt": "x"}
    assert audit.Library(LIBRARY.knowledge, renamed).digest == LIBRARY.digest
    name = next(path for path in LIBRARY.files if path.startswith("known_fingerprints/"))
    changed = {**LIBRARY.files, name: LIBRARY.files[name] + "\n# more\n"}
    assert audit.Library(LIBRARY.knowledge, changed).digest != LIBRARY.digest


def test_vendors_keys_are_known_by_shape():
    shapes = LIBRARY.key_shapes
    assert shapes["anthropic"] == (("^sk-ant-",), ("api.anthropic.com",))
    assert {"openai", "google"} <= set(shapes)


# Approval


def test_an_approval_is_recorded_with_who_gave_it(quoted):
    given = approve(quoted, quoted.history.quote.digest, "0.5")
    facts = quoted.history.approval
    assert (facts.quote_digest, facts.ceiling, facts.approver, facts.channel) == (
        given.quote_digest,
        Decimal("0.5"),
        "me",
        "flag",
    )
    assert quoted.history.ledger.ceiling == Decimal("0.5")
    assert quoted.history.approved() == given


def test_the_same_again_is_the_same_answer_and_writes_nothing(quoted):
    digest = quoted.history.quote.digest
    first = approve(quoted, digest, "0.5")
    events = len(list(quoted.recorder.store.events()))
    assert approve(quoted, digest, "0.50") == first
    assert len(list(quoted.recorder.store.events())) == events


@pytest.mark.parametrize(("digest", "ceiling"), [(None, "0.6"), ("0" * 64, "0.5")])
def test_another_amount_or_digest_afterwards_is_refused(quoted, digest, ceiling):
    current = quoted.history.quote.digest
    approve(quoted, current, "0.5")
    with pytest.raises(ApprovalRefused, match="given once") as refused:
        approve(quoted, digest or current, ceiling)
    assert refused.value.details == {"current_digest": current}
    assert quoted.history.approval.ceiling == Decimal("0.5")


@pytest.mark.parametrize(("length", "taken"), [(12, True), (40, True), (64, True), (11, False), (6, False), (0, False)])
def test_a_digest_may_be_given_by_its_beginning(quoted, length, taken):
    digest = quoted.history.quote.digest
    given = digest[:length].upper() if length == 40 else digest[:length]
    if taken:
        assert approve(quoted, given, "0.5").quote_digest == digest
    else:
        with pytest.raises(ApprovalRefused):
            approve(quoted, given, "0.5")


def test_a_wrong_digest_a_small_ceiling_and_a_late_yes_are_refused(quoted):
    quote = quoted.history.quote
    with pytest.raises(ApprovalRefused):
        approve(quoted, "f" * 64, "0.5")
    with pytest.raises(ApprovalRefused, match="below"):
        approve(quoted, quote.digest, "0.000001")
    quoted.clock.pass_(24 * 3600)
    with pytest.raises(ApprovalRefused, match="expired"):
        approve(quoted, quote.digest, "0.5")
    assert quoted.history.approval is None


def test_without_a_quote_there_is_nothing_to_approve(tmp_path):
    stage = staged("honest", tmp_path, audit=QUICK)
    with pytest.raises(ApprovalRefused, match="no quote"):
        approve(stage, "0" * 64, "1")


@pytest.mark.parametrize("event", ["run.cancelled", "run.failed"])
def test_a_run_that_has_ended_takes_no_approval(quoted, event):
    quoted.recorder.note(event, {"stopped": "asked"})
    with pytest.raises(ApprovalRefused, match="no quote to approve"):
        approve(quoted, quoted.history.quote.digest, "0.5")


# Sending


def test_nothing_paid_leaves_without_an_approval(quoted):
    with pytest.raises(ApprovalRefused, match="no approval"):
        quoted.execute()
    assert quoted.paths(method="POST") == []


def test_a_cancelled_run_sends_nothing(quoted):
    quoted.approve()
    quoted.recorder.note("run.cancelled", {"stopped": "asked"})
    with pytest.raises(RunCancelled):
        quoted.execute()
    assert quoted.paths(method="POST") == []


def test_a_completed_run_is_not_sent_again(quoted):
    quoted.approve()
    quoted.execute()
    sent = len(quoted.seen)
    quoted.execute()
    assert len(quoted.seen) == sent
    assert quoted.history.status == "completed"


def test_an_approval_that_ran_out_sends_nothing_paid(quoted):
    quoted.approve()
    quoted.clock.pass_(24 * 3600)
    quoted.execute()
    assert quoted.paths(method="POST") == []
    assert quoted.history.stopped == "approval_expired"


def test_no_further_send_leaves_once_the_ceiling_would_be_passed(tmp_path):
    """A relay whose answers cost far more than an honest one's: the run ends with the step that showed it."""

    def dear(seen, before):
        usage = {"input_tokens": 900_000, "output_tokens": 4}
        body = {"id": f"msg_{before}", "model": "claude-sonnet-5-5", "content": [], "usage": usage}
        return json_answer(body) if seen.path == "/v1/messages" and seen.side == "relay" else None

    stage = staged("honest_no_software", tmp_path, audit=QUICK, replace=dear)
    stage.whole()
    assert stage.paths(method="POST").count("/v1/messages") == 1
    assert stage.history.stopped == "ceiling"
    [entry] = stage.history.ledger.entries
    assert entry.amount == Decimal("1.80004")


def test_every_charge_of_a_hidden_prompt_stays_below_its_at_most(quoted):
    quoted.approve()
    quoted.execute()
    history = quoted.history
    for entry in history.ledger.entries:
        step = history.exchanges[entry.exchange].step
        assert Decimal(0) < entry.amount <= history.quote.price_of(step).at_most
    assert history.ledger.committed <= history.quote.at_most


# Judging


def test_judging_again_gives_the_same_and_asks_nobody(quoted):
    quoted.approve()
    quoted.execute()
    sent = len(quoted.seen)
    first, second = quoted.judged(), quoted.judged()
    assert first == second
    assert first.model_dump_json() == second.model_dump_json()
    assert audit.judge(quoted.recorder.store, current=True).findings == first.findings
    assert len(quoted.seen) == sent
    assert first.knowledge_digest == LIBRARY.digest
    found = next(f for f in first.findings if f.code == "tokens.constant_surplus")
    assert (found.params["surplus"], found.params["n"], found.basis) == (508, 4, "declared_official")


def test_a_judgement_is_recorded_as_an_event_that_changes_no_evidence(quoted):
    quoted.approve()
    quoted.execute()
    judgement = quoted.judged()
    before = quoted.history.evidence()
    audit.record_judgement(quoted.recorder, judgement)
    event = list(quoted.recorder.store.events())[-1]
    assert (event.type, event.payload["verdict"]) == ("assessment.recorded", judgement.verdict.verdict)
    assert quoted.history.evidence() == before
    assert quoted.judged() == judgement


def test_a_run_without_a_plan_can_be_judged(tmp_path):
    stage = staged("honest", tmp_path, audit=QUICK)
    judgement = stage.judged()
    assert judgement.findings == ()
    assert judgement.verdict.verdict == "inconclusive"
    assert [row.state for row in judgement.coverage] == ["not_run"] * 6


def test_planning_takes_the_buyers_price_file(tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[[price]]\nside = "relay"\nmodels = ["*"]\ninput = 7\noutput = 9\n'
        'source = "contract"\nobserved = 2026-11-01\n',
        encoding="utf-8",
    )
    stage = staged("honest", tmp_path, audit=QUICK)
    ways = {"offline": False, "free_only": False}
    quote = asyncio.run(audit.plan_and_quote(stage.recorder, stage.connections, LIBRARY, prices, **ways))
    price = next(line.unit_price for line in quote.lines if line.side == "relay")
    assert (price.input, price.output, price.source) == (7, 9, "contract")
