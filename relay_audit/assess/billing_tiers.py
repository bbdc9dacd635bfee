"""Video tiers: what was refused although the price list names it, and what was taken in advance and did not come back.

A tier is judged by its own movements only; one that was not ordered is never spoken of.
"""

from __future__ import annotations

import datetime as dt

from relay_audit.assess.billing_calls import dollars
from relay_audit.codes import finding
from relay_audit.finding import Finding
from relay_audit.tiers import TierRecord, TierTable

PROMPT = dt.timedelta(seconds=10)
SLOW = dt.timedelta(minutes=30)
"""A video's refund comes by a queue that asks upstream, minutes later; from here on it has weight."""


def judge_tiers(table: TierTable) -> list[Finding]:
    ended = [record for record in table.records if record.state in ("refused", "failed")]
    return [found for record in ended for found in (*_refused(record), *_refund(record))]


def _refused(record: TierRecord) -> list[Finding]:
    if record.state != "refused" or not record.advertised:
        return []
    params = {
        "tier": f"{record.tier.resolution}, {record.tier.seconds} s", "charged": dollars(record.charged),
        "refunded": dollars(record.refunded), "difference": dollars(record.net),
    }  # fmt: skip
    return [
        finding("billing.tier_refused", params, exchanges=record.exchanges, confidence="strong", basis="relay_word")
    ]


def _refund(record: TierRecord) -> list[Finding]:
    delay = record.refund_delay
    if record.net > 0:
        params = {
            "n": 1, "charged": dollars(record.charged), "refunded": dollars(record.refunded),
            "difference": dollars(record.net), "waited_s": None,
        }  # fmt: skip
        return [
            finding(
                "billing.refund_missing", params, exchanges=record.exchanges, confidence="strong", basis="relay_word"
            )
        ]
    if delay is None or delay <= PROMPT:
        return []
    params = {"n": 1, "refunded": dollars(record.refunded), "delay_s": round(delay.total_seconds())}
    return [finding("billing.refund_late", params, exchanges=record.exchanges, severity=None if delay > SLOW else "low",
                    confidence="strong", basis="relay_word")]  # fmt: skip
