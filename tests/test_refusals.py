"""Refusal probes and money: the books are followed between them, and nothing is asked twice that somebody may charge for."""

from __future__ import annotations

import json
from decimal import Decimal

import httpx

from relay_audit.finding import Coverage
from relay_audit.verdict import decide
from tests.report import samples
from tests.staged import json_answer, staged

CANARY = "anthropic.parameters_canary"
CHECKS = {"audit": {"checks": [4, 6]}}


def is_hot(seen) -> bool:
    """The probe with a temperature that no vendor takes."""
    value = (seen.body or {}).get("temperature", 0)
    return seen.path == "/v1/messages" and isinstance(value, int | float) and value > 1


def billed(times: int):
    """The relay's log says that the first canary, refused or not, cost so many dollars."""
    refused: list[str] = []

    def replace(seen, before):
        if seen.side == "relay" and is_hot(seen) and not refused:
            refused.append("20261130030000000000000" + "8268d9d6" + "abcdefgh")
            return json_answer({"error": {"type": "invalid_request_error", "message": "temperature: range: 0..1"}}, 400,
                               **{"x-oneapi-request-id": refused[0], "x-new-api-version": "v0.9.6"})  # fmt: skip
        if seen.path == "/api/log/token" and refused:
            row = {"created_at": 1796007600, "type": 2, "model_name": "claude-sonnet-5-5", "quota": times * 500_000,
                   "prompt_tokens": 20, "completion_tokens": 1, "request_id": refused[0], "other": "{}"}  # fmt: skip
            return json_answer({"success": True, "message": "", "data": [row]})
        return None

    return replace


def test_a_refusal_that_was_charged_above_its_line_ends_the_run(tmp_path):
    act = staged("honest", tmp_path, replace=billed(5), **CHECKS)
    act.whole(Decimal(100))
    history = act.history
    canaries = [e for e in history.sent() if e.step.startswith(CANARY)]
    assert len(canaries) == 1
    assert history.stopped == "line_exceeded"
    assert history.sent()[-1].id == canaries[0].id, "nothing that may charge left after it"
    assert history.ledger.entry(canaries[0].id).amount == 5, "the ledger follows the books"
    assert history.ledger.entry(canaries[0].id).basis == "relay_log"


def test_the_ceiling_counts_what_the_books_say_between_two_refusals(tmp_path):
    """A cent for a refusal is inside its line; the ledger knows it before the next one leaves."""
    act = staged("honest", tmp_path, replace=billed(0), **CHECKS)
    act.whole()
    events = [e for e in act.recorder.store.events() if e.type in ("request.sending", "charge.observed")]
    first = next(i for i, e in enumerate(events) if e.type == "charge.observed")
    assert any(e.type == "request.sending" for e in events[first:]), "charges are written while the lane still works"
    amounts = [(e.payload["exchange"], e.payload["amount"]) for e in events if e.type == "charge.observed"]
    assert len(set(amounts)) == len(amounts), "a charge that did not change is not written again"


def test_a_vendor_that_answers_a_refusal_probe_is_not_asked_again(tmp_path):
    """Free on the official side is free as long as it is refused."""

    def accepts(seen, before):
        if seen.side == "official" and is_hot(seen):
            return json_answer({"id": "msg_01", "type": "message", "model": "claude-sonnet-5-5", "content": [],
                                "usage": {"input_tokens": 9, "output_tokens": 1}})  # fmt: skip
        return None

    act = staged("honest", tmp_path, replace=accepts, **CHECKS)
    judgement = act.whole()
    hot = [json.dumps(s.body, sort_keys=True) for s in act.seen if s.side == "official" and is_hot(s)]
    assert len(hot) == len(set(hot)) >= 1
    assert not any(f.accusation for f in judgement.findings)


def test_a_mirrored_refusal_that_may_have_arrived_is_not_sent_again(tmp_path):
    def lost(seen, before):
        return httpx.ReadError("reset") if seen.side == "official" and is_hot(seen) else None

    act = staged("honest", tmp_path, replace=lost, **CHECKS)
    act.whole()
    mirrors = [e.step for e in act.history.exchanges.values() if e.step.startswith("mirror.") and e.status is None]
    assert mirrors
    assert len(mirrors) == len(set(mirrors)), "each was sent once"


def test_a_check_that_was_cut_short_is_no_pass():
    rows = tuple(
        Coverage(check=4, state="run", reason="books_unreadable") if row.check == 4 else row for row in samples.COVERAGE
    )
    run = samples.evidence(0)
    follows = samples.finding("params.matches", {name: samples.SAMPLE_VALUES[name] for name in ("n", "of")})
    verdict = decide(run, (follows,), rows, samples.RULES)
    card = next(card for card in verdict.cards if card.id == "interface")
    assert (card.state, card.code) == ("unknown", "agrees_in_part")
    assert 4 in card.params["missing"]
    assert 4 in verdict.headline_params["missing"]
    whole = decide(
        run, (follows,), tuple(Coverage(check=4, state="run") if r.check == 4 else r for r in rows), samples.RULES
    )
    assert next(card for card in whole.cards if card.id == "interface").state == "ok"


def test_a_quote_says_how_far_its_counts_reach(tmp_path):
    only_tokens = staged("honest", tmp_path / "a", audit={"checks": [2], "profile": "quick"})
    everything = staged("honest", tmp_path / "b")
    assert (only_tokens.plan().counted, only_tokens.history.quote.counted_in_part) == (True, False)
    assert (everything.plan().counted, everything.history.quote.counted_in_part) == (True, False)
