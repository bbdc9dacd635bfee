"""Two requests with one byte-identical marked prefix and another last line: was it written, then read, and priced so?

Only the probe's own pairs are judged. A second answer with the first one's id is a replay and says nothing about the
cache; a pool of accounts may miss a cache without any fault, since a cache belongs to one account.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay_audit.assess.billing_calls import Call, ids
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer
from relay_audit.finding import Finding
from relay_audit.usage import Usage

PROBE = "cache_billing"


@dataclass(frozen=True)
class Pair:
    ttl: str
    """`5m`, `1h`, or empty where the dialect has no marks."""
    first: Call
    second: Call

    @property
    def calls(self) -> tuple[Call, ...]:
        return (self.first, self.second)

    @property
    def usages(self) -> tuple[Usage, ...]:
        return tuple(call.usage for call in self.calls if call.usage is not None)


def caching(evidence: Evidence, calls: tuple[Call, ...]) -> list[Finding]:
    pairs = [pair for pair in _pairs(calls) if not _replayed(pair, evidence)]
    if not pairs or evidence.pack.usage.automatic_cache:
        return []  # a vendor that caches by itself promises neither a write nor a read
    return [*_honoured(pairs), *_label(pairs)]


def _pairs(calls: tuple[Call, ...]) -> list[Pair]:
    """Calls of the probe by the time they ask for, both answered with a usage."""
    by_ttl: dict[str, list[Call]] = {}
    for call in calls:
        if call.step is not None and call.step.probe.endswith(f"/{PROBE}") and call.usage is not None:
            by_ttl.setdefault(str(call.step.factors.get("ttl", "")), []).append(call)
    return [Pair(ttl, own[0], own[1]) for ttl, own in by_ttl.items() if len(own) >= 2]


def _replayed(pair: Pair, evidence: Evidence) -> bool:
    one, other = (pointer(call.exchange.answer(), evidence.pack.answer.id) for call in pair.calls)
    return one is not None and one == other


def _honoured(pairs: list[Pair]) -> list[Finding]:
    usages = [usage for pair in pairs for usage in pair.usages]
    written = sum(usage.cache_write_5m + usage.cache_write_1h for usage in usages)
    read = sum(usage.cache_read for usage in usages)
    read_back = sum(pair.second.usage is not None and pair.second.usage.cache_read > 0 for pair in pairs)
    calls = [call for pair in pairs for call in pair.calls]
    params = {"n": len(calls), "written": written, "read": read}
    if not written and read:
        return [finding("billing.cache_not_honoured", {**params, "kind": "read_without_write"}, exchanges=ids(calls),
                        confidence="strong")]  # fmt: skip
    if not written:
        return [finding("billing.cache_not_honoured", {**params, "kind": "marks_ignored"}, exchanges=ids(calls),
                        severity="low")]  # fmt: skip
    if not read_back:
        return [finding("billing.cache_not_honoured", {**params, "kind": "not_read_back"}, exchanges=ids(calls),
                        outcome="inconclusive", severity="info", confidence="weak")]  # fmt: skip
    return []


def _label(pairs: list[Pair]) -> list[Finding]:
    """The time that was asked for is the time that was written: an hour costs more than five minutes, and lasts longer."""
    swapped: dict[str, list[Call]] = {}
    for pair in pairs:
        for call in pair.calls:
            usage = call.usage
            if usage is None:
                continue
            if pair.ttl == "1h" and usage.cache_write_5m and not usage.cache_write_1h:
                swapped.setdefault("hour_labelled_five_minutes", []).append(call)
            elif pair.ttl == "5m" and usage.cache_write_1h:
                swapped.setdefault("five_minutes_labelled_hour", []).append(call)
    return [
        finding(
            "billing.cache_misbilled",
            {"n": len(calls), "kind": kind, "charged": None, "recomputed": None, "difference": None, "road": "label"},
            exchanges=ids(calls),
            severity="low" if kind == "hour_labelled_five_minutes" else None,
            confidence="strong",
        )
        for kind, calls in swapped.items()
    ]
