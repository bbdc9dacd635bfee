"""All six checks, always: run, not run (why), not applicable, gated, no information. None of these is a pass."""

from __future__ import annotations

from relay_audit.error_text import turned_away
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Coverage, Finding
from relay_audit.gate import is_gated
from relay_audit.verdict import CORE

BESIDES = ("tokens.hidden_text_recited", "tokens.nothing_recited")
"""What adds to a check's finding and answers no question of its own."""


def cover(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Coverage, ...]:
    planned = {row.check: row for row in evidence.plan.coverage} if evidence.plan else {}
    sent = evidence.generations()
    answered = [e for e in sent if e.status == 200]
    rows = []
    for check in range(1, 7):
        if check in planned:
            rows.append(planned[check])
        elif check == 6:
            rows.append(_billing(evidence, findings, answered))
        elif not answered:
            rows.append(_nothing(check, sent, evidence))
        else:
            rows.append(_judged(check, findings, evidence))
    return tuple(rows)


def _nothing(check: int, sent: tuple[Exchange, ...], evidence: Evidence) -> Coverage:
    if any(is_gated(exchange) for exchange in sent):
        return Coverage(check=check, state="gated", reason="gated")
    reason = "no_usable_answer" if sent else (evidence.stopped or "not_sent")
    return Coverage(check=check, state="not_run", reason=reason)


def _judged(check: int, findings: tuple[Finding, ...], evidence: Evidence) -> Coverage:
    own = [f for f in findings if f.check == check and f.code not in BESIDES]
    if check == 4:
        return _parameters(own, evidence)
    if not own:
        return Coverage(check=check, state="not_run", reason="no_usable_answer")
    if check == 5 and not any(f.outcome in ("match", "mismatch") for f in own):
        return Coverage(check=5, state="no_information", reason="media_unclear")
    if all(f.code == "tokens.inconclusive" for f in own):
        return Coverage(check=check, state="no_information", reason=str(own[0].params.get("reason", "no_information")))
    if all(f.code == "channel.unknown" for f in own):
        return Coverage(check=check, state="no_information", reason="unknown_signals")
    closed = next((f for f in own if f.code == "model.not_verifiable"), None)
    if closed and all(f is closed or (f.code in ADMISSIONS and f.outcome == "match") for f in own):
        return Coverage(check=check, state="no_information", reason=str(closed.params["reason"]))
    if check in CORE and _cut_short(evidence):
        return Coverage(check=check, state="run", reason="cut_short")
    told = check != 2 or any(f.basis in ("live_official", "declared_official") for f in own)
    return Coverage(check=check, state="run", reason="" if told else evidence.target.no_counter_reason)


ADMISSIONS = ("model.relay_header_admits", "model.relay_log_admits_mapping")
"""That a relay writes the name that was bought another way answers no question about the model."""


def _cut_short(evidence: Evidence) -> bool:
    """A run that ended before half of its first texts were answered: three good answers are no clean line."""
    texts = [s.id for s in evidence.plan.chargeable() if s.stage == "probe"] if evidence.plan else []
    answered = sum(e is not None and e.status == 200 for e in map(evidence.of_step, texts))
    return bool(evidence.stopped) and 2 * answered < len(texts)


def _parameters(own: list[Finding], evidence: Evidence) -> Coverage:
    """Run in part where the relay's books could not be read after a refusal that it had accepted: then no more was refused.
    Run in part as well where half of what should have been refused met a shut door instead."""
    if not own:
        asked = any(s.case for s in evidence.plan.steps if s.side == "relay") if evidence.plan else True
        reason = "not_delivered" if evidence.pack.video else "no_official_basis" if asked else "not_sent"
        return Coverage(check=4, state="no_information", reason=reason)
    shut = "turned_away" if _half_turned_away(evidence) else ""
    return Coverage(check=4, state="run", reason=evidence.refusals_ended or shut)


def _half_turned_away(evidence: Evidence) -> bool:
    """A limiter or a firewall that shuts after some errors refuses everything: each case's first sending counts, and none
    that a relay answers for itself."""
    steps = evidence.plan.steps if evidence.plan else ()
    first = [s for s in steps if s.side == "relay" and s.refusal and not s.again and s.key == "own"]
    own = [s for s in first if s.body.get("model", evidence.target.model) == evidence.target.model]
    sent = [e for s in own if (e := evidence.of_step(s.id)) is not None and e.response is not None]
    return bool(sent) and 2 * sum(map(turned_away, sent)) >= len(sent)


DECIDED = frozenset({
    "billing.matches", "billing.overcharged", "billing.undercharged", "billing.price_differs_from_published",
    "billing.ratio_differs_from_claim", "billing.group_differs_from_claim", "billing.duplicate_charge", "billing.error_charged",
    "billing.empty_reply_charged",
    "billing.incomplete_charged", "billing.hold_not_released", "billing.refund_missing", "billing.cache_misbilled",
    "billing.tiers_measured", "billing.usage_endpoint_unreliable",
})  # fmt: skip
"""Findings that rest on rows which were computed or read: then check 6 had its say."""


def _billing(evidence: Evidence, findings: tuple[Finding, ...], answered: list[Exchange]) -> Coverage:
    if evidence.plan is not None and 6 not in evidence.plan.checks:
        return Coverage(check=6, state="not_run", reason="not_chosen")
    if any(f.code in DECIDED for f in findings):
        return Coverage(check=6, state="run")
    if not answered:
        return Coverage(check=6, state="not_run", reason="no_usable_answer" if evidence.generations() else "not_sent")
    codes = {f.code for f in findings if f.check == 6}
    reason = "log_unsafe" if "billing.log_unsafe_to_read" in codes else "log_unavailable"
    if "billing.settlement_pending" in codes:
        reason = "settlement_pending"
    return Coverage(check=6, state="no_information", reason=reason)
