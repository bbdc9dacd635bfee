"""The start of check 6: what the relay's own log says these calls cost, joined row by row and computed again.

Only rows that carry their own ratios and nothing beyond plain token billing are recomputed here, from the usage that
the client saw. What the log does not say is no information, never a pass.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import NamedTuple

from relay_audit.books import LogReading, LogRow
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.usage import Usage, read_usage
from relay_audit.words import money

BEYOND_TOKENS = (
    "billing_mode",
    "expr_b64",
    "tool_surcharges",
    "violation_fee",
    "is_task",
    "image_ratio",
    "audio_ratio",
)
"""Keys of a row that mean other arithmetic than plain tokens; such a row is not judged here."""
LARGEST_RATIO = 10**6
"""A ratio beyond it is no ratio of any price; a stranger's number must not break the arithmetic."""
ROUNDING = 1
"""Quota units that rounding may take either way."""


class Recomputed(NamedTuple):
    row: LogRow
    quota: int
    charged: int
    """As the row has it."""


def assess_billing(evidence: Evidence, _: Knowledge) -> list[Finding]:
    asked = [reading for reading in evidence.log if reading.state != "not_asked"]
    answered = [e for e in evidence.generations() if e.status == 200 and read_usage(e, evidence.pack)]
    if not asked or not answered:
        return []
    last = next((reading for reading in reversed(asked) if any(row.exchange for row in reading.rows)), asked[-1])
    if last.state != "read" or not any(row.exchange for row in last.rows):
        return [_no_information(last, evidence), *_circumstances(last)]
    return [*_arithmetic(evidence, last), *_missing(evidence, last), *_circumstances(last)]


def _no_information(reading: LogReading, evidence: Evidence) -> Finding:
    if reading.state == "unsafe":
        return finding("billing.log_unsafe_to_read", {"software": evidence.site.software}, exchanges=(reading.exchange,),
                       basis="relay_word")  # fmt: skip
    reason = {"read": "no_row_of_ours", "empty": "empty", "limited": "limited"}.get(
        reading.state, reading.reason or "unavailable"
    )
    return finding("billing.log_unavailable", {"reason": reason}, exchanges=(reading.exchange,), basis="relay_word")


def recompute(row: LogRow, usage: Usage) -> int | None:
    """The row's quota from the usage the client saw and the row's own ratios; None where it is no plain token row.

    Anthropic semantics: nothing is subtracted from the prompt; OpenAI semantics: the prompt holds the cached part.
    Half away from zero, at least 1 where tokens were used and the ratios are not 0.
    """
    other = row.other
    if any(other.get(key) for key in BEYOND_TOKENS) or other.get("billing_source") == "subscription":
        return None
    model, group, completion = (_ratio(other.get(key)) for key in ("model_ratio", "group_ratio", "completion_ratio"))
    price = _ratio(other.get("model_price", -1))
    if (
        model is None
        or group is None
        or completion is None
        or price is None
        or price >= 0
        or min(model, group, completion) < 0
    ):
        return None
    read = _ratio(other.get("cache_ratio", 1)) or Decimal(0)
    write = _ratio(other.get("cache_creation_ratio", "1.25")) or Decimal(0)
    hour = _ratio(other.get("cache_creation_ratio_1h")) or write * Decimal("1.6")
    units = (
        usage.input
        + usage.cache_read * read
        + usage.cache_write_5m * write
        + usage.cache_write_1h * hour
        + usage.output * completion
    )
    quota = int((units * model * group).quantize(Decimal(1), rounding=ROUND_HALF_UP))
    return max(quota, 1) if units and model and group else quota


def _ratio(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < LARGEST_RATIO else None


def _arithmetic(evidence: Evidence, reading: LogReading) -> list[Finding]:
    done: list[Recomputed] = []
    for row in reading.rows:
        exchange = next((e for e in evidence.exchanges if e.id == row.exchange), None)
        usage = read_usage(exchange, evidence.pack) if exchange and row.kind == "consume" else None
        quota = recompute(row, usage) if usage else None
        if quota is not None and row.quota is not None:
            done.append(Recomputed(row, quota, row.quota))
    if not done:
        return []
    above = [item for item in done if item.charged - item.quota > ROUNDING]
    below = [item for item in done if item.quota - item.charged > ROUNDING]
    if not above and not below:
        charged = sum(item.charged for item in done)
        return [finding("billing.matches", {"n": len(done), "charged": _site_usd(charged, evidence)}, exchanges=_of(done),
                        confidence="supporting", basis="relay_word")]  # fmt: skip
    found = []
    if above:
        charged, again = sum(i.charged for i in above), sum(i.quota for i in above)
        params = {
            "n": len(above),
            "charged": _site_usd(charged, evidence),
            "recomputed": _site_usd(again, evidence),
            "difference": _site_usd(charged - again, evidence),
        }
        found.append(
            finding("billing.overcharged", params, exchanges=_of(above), confidence="strong", basis="relay_word",
                    expected={"quota": again}, observed={"quota": charged})
        )  # fmt: skip
    if below:
        gap = sum(item.quota - item.charged for item in below)
        found.append(finding("billing.undercharged", {"n": len(below), "difference": _site_usd(gap, evidence)},
                             exchanges=_of(below), basis="relay_word"))  # fmt: skip
    return found


def _of(items: list[Recomputed]) -> tuple[str, ...]:
    return tuple(item.row.exchange for item in items)


def _site_usd(quota: int, evidence: Evidence) -> str:
    return money(Decimal(quota) / evidence.site.quota_per_unit)


def _missing(evidence: Evidence, reading: LogReading) -> list[Finding]:
    billable = [e for e in evidence.generations() if e.status == 200]
    joined = {row.exchange for row in reading.rows}
    without = tuple(e.id for e in billable if e.id not in joined)
    found = []
    if without:
        last_sent = max(e.sent_at for e in billable)
        waited = max(0, round((reading.at - last_sent).total_seconds()))
        params = {"n": len(without), "of": len(billable), "waited_s": waited}
        found.append(finding("billing.settlement_pending", params, exchanges=without, basis="relay_word"))
    loose = [row for row in reading.rows if not row.exchange]
    if loose:
        found.append(
            finding("billing.unmatched_rows", {"n": len(loose)}, exchanges=(reading.exchange,), basis="relay_word")
        )
    return found


def _circumstances(reading: LogReading) -> list[Finding]:
    found = []
    if reading.foreign.count:
        found.append(finding("billing.foreign_rows", {"count": reading.foreign.count}, exchanges=(reading.exchange,),
                             basis="relay_word"))  # fmt: skip
    if reading.truncated:
        found.append(finding("billing.log_truncated", {"rows": len(reading.rows) + reading.foreign.count},
                             exchanges=(reading.exchange,), basis="relay_word"))  # fmt: skip
    return found
