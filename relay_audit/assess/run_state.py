"""Findings about the run itself: what was not learnt, and why. They accuse nobody, except for a key that came back."""

from __future__ import annotations

from statistics import median
from urllib.parse import urlsplit

from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.gate import failed, is_gated
from relay_audit.ids import answer_date
from relay_audit.usage import has_bad_usage
from relay_audit.words import money

MONEY_STOPS = (
    "ceiling",
    "line_exceeded",
    "hold_above_balance",
    "balance_exhausted",
    "approval_expired",
    "month_ceiling",
)
SKEW_S = 120
LIMITS = {"too_large", "too_slow", "endless", "decompression", "redirect"}


def assess_run_state(evidence: Evidence, _: Knowledge) -> list[Finding]:
    relay = tuple(e for e in evidence.exchanges if e.side == "relay")
    return [
        *_unconfirmed(evidence),
        *_stops(evidence),
        *_hostile(relay, evidence),
        *_key_echo(evidence.exchanges),
        *_foreign(evidence.exchanges),
        *_skew(relay),
    ]


def _unconfirmed(evidence: Evidence) -> list[Finding]:
    open_ = [e for e in evidence.exchanges if e.delivery == "unconfirmed" and e.step in _planned(evidence)]
    if not open_:
        return []
    entries = [entry for e in open_ if (entry := evidence.ledger.entry(e.id))]
    settled = sum(entry.state == "settled" and entry.basis == "relay_log" for entry in entries)
    worst = sum(
        (entry.amount for entry in entries if entry.state == "unconfirmed"), start=evidence.ledger.total("reserved") * 0
    )
    params = {"n": len(open_), "settled": settled, "at_most": money(worst)}
    return [finding("run.unconfirmed_send", params, exchanges=tuple(e.id for e in open_))]


def _planned(evidence: Evidence) -> set[str]:
    return {step.id for step in evidence.plan.chargeable()} if evidence.plan else set()


def _stops(evidence: Evidence) -> list[Finding]:
    sent = evidence.generations()
    found = []
    if evidence.stopped in MONEY_STOPS:
        params = {"reason": evidence.stopped, "sent": len(sent), "planned": len(_planned(evidence))}
        found.append(finding("run.budget_limited", params, exchanges=tuple(e.id for e in sent[-1:])))
    if gated := [e for e in sent if is_gated(e)]:
        found.append(finding("run.gated_client", {"status": gated[0].status}, exchanges=tuple(e.id for e in gated)))
    elif evidence.stopped in ("three_failures", "two_unconfirmed") or (sent and all(map(failed, sent))):
        bad = [e for e in sent if failed(e)]
        found.append(finding("run.unstable", {"n": len(bad), "of": len(sent)}, exchanges=tuple(e.id for e in bad)))
    return found


def _hostile(relay: tuple[Exchange, ...], evidence: Evidence) -> list[Finding]:
    """Answers that hit a limit, or came back as something no client of this dialect can read."""
    kinds: dict[str, set[str]] = {}
    planned = _planned(evidence)
    for exchange in relay:
        seen: set[str] = {kind for kind in exchange.hostility if kind != "key_echoed"}
        if exchange.failure or (exchange.status or 0) >= 400:
            # a connection that broke is the network's fault, not an answer's; and a refusal may be anything: a proxy's
            # error page, or nothing at all, under the gateway's own content type
            seen &= LIMITS
        elif exchange.step in planned and exchange.status == 200 and not seen:
            if exchange.answer() is None:
                seen.add("stream_incomplete" if exchange.streamed() else "not_json")
            elif has_bad_usage(exchange, evidence.pack):
                seen.add("bad_usage")
        if exchange.step in planned and seen:
            kinds[exchange.id] = seen
    if not kinds:
        return []
    params = {"n": len(kinds), "kinds": sorted(set().union(*kinds.values()))}
    if all(_within_site(e, evidence) for e in relay if e.id in kinds):
        return [finding("run.hostile_response", {**params, "road": "within_site"}, exchanges=tuple(kinds),
                        outcome="inconclusive", severity="info")]  # fmt: skip
    return [finding("run.hostile_response", params, exchanges=tuple(kinds))]


def _within_site(exchange: Exchange, evidence: Evidence) -> bool:
    """A redirect to another path of the same site, to its name with or without `www`, or from http to https: a gateway's
    habit. It is not followed either, since a key goes nowhere that nobody named."""
    place = (exchange.response.header("location") if exchange.response else None) or ""
    path = place.startswith("/") and place[1:2] not in ("/", "\\")
    own = path or _site(place) == _site(evidence.target.relay_origin) != ""
    return set(exchange.hostility) == {"redirect"} and own


def _site(address: str) -> str:
    """The host of a web address without `www`; empty where it is none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return (parts.hostname or "").removeprefix("www.") if parts.scheme in ("http", "https") else ""


def _key_echo(exchanges: tuple[Exchange, ...]) -> list[Finding]:
    hits = tuple(e.id for e in exchanges if "key_echoed" in e.hostility and e.side == "relay")
    return [finding("run.key_echoed", {"n": len(hits)}, exchanges=hits, confidence="decisive")] if hits else []


def _foreign(exchanges: tuple[Exchange, ...]) -> list[Finding]:
    hits = [e for e in exchanges if e.foreign_secrets]
    if not hits:
        return []
    kinds = sorted({secret.split(":")[0] for e in hits for secret in e.foreign_secrets})
    return [finding("run.foreign_secret_seen", {"kinds": kinds}, exchanges=tuple(e.id for e in hits))]


def _skew(relay: tuple[Exchange, ...]) -> list[Finding]:
    dated = [e for e in relay if e.response and e.response.header("date")]
    offsets = [(answer_date(e) - e.sent_at).total_seconds() - e.elapsed_ms / 1000 for e in dated]
    if not offsets or abs(median(offsets)) <= SKEW_S:
        return []
    return [finding("run.clock_skew", {"seconds": round(median(offsets))}, exchanges=tuple(e.id for e in dated[:3]))]
