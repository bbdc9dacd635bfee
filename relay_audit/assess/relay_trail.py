"""What relays leave on an answer: their request ids (software, build, clock), the chain in a refusal, streams passed on
or written anew, and signs of several accounts behind one key. Facts about the way; none of them accuses anybody."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

from relay_audit.assess.admissions import RELAYS
from relay_audit.assess.channel_signals import signatures_of
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.ids import answer_date, read_id
from relay_audit.stream import Handling
from relay_audit.vendor_ids import read_response_hex

IN_TEXT = re.compile(r"\(request id: ([0-9A-Za-z_-]{1,64})\)")
"""new-api and its kin append their own request id to an upstream's error text: the outermost relay stands last."""
BUILD = re.compile(r"20\d{12}\d{8,9}([0-9a-f]{8})[0-9A-Za-z]{8}")
"""The eight characters that a build of new-api writes into each of its request ids."""
ENOUGH = 3
"""So many answers with the region word of subscription accounts are a pattern."""
ACCOUNT_HEADER = "anthropic-organization-id"


class Hop(NamedTuple):
    """One relay's request id, decoded."""

    shape: str
    """Of the list of known shapes, or `unknown`."""
    build: str
    clock_h: int | None
    """Hours by which its clock is ahead of the answer's Date: a server that writes local time shows its zone."""

    def told(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value not in ("", None)}


def way_of(evidence: Evidence, knowledge: Knowledge) -> dict[str, Any]:
    """For `observed`: how answers were handled, and what the front relay's request ids say of its software."""
    streams = [stream for e in evidence.generations() if e.status == 200 and (stream := e.streamed()) is not None]
    handled = Counter(stream.texture.handling for stream in streams if stream.texture is not None)
    hops = [hop for e in evidence.generations() if (hop := _front(e, evidence, knowledge)) is not None]
    told: dict[str, Any] = {"streams": dict(sorted(handled.items()))} if handled else {}
    printed = Counter(form for e in evidence.generations() if (form := _form(e, evidence, knowledge)))
    if printed:
        told["bodies"] = dict(sorted(printed.items()))
    if hops:
        told["relay_request_id"] = Counter(hops).most_common(1)[0][0].told()
    return told


def chained(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """A second relay behind the first, by its headers, its id in a refusal, or a field of the first one's log."""
    via, hits = set[str](), set[str]()
    chain: list[Hop] = []
    for exchange in evidence.generations():
        headers = exchange.response.headers if exchange.response else ()
        seen = {row.family or row.name for row in knowledge.software if row.shows_in(headers)}
        hops = _hops_in_text(exchange, evidence, knowledge)
        if len(seen) > 1:
            via |= seen
        if len(hops) > 1:
            via.add("error_text")
            chain = max(chain, hops, key=len)
        if len(seen) > 1 or len(hops) > 1:
            hits.add(exchange.id)
    rows = [r for r in evidence.own_rows() if r.upstream_request_id or r.admissions.channel_type in RELAYS]
    via |= {"relay_log"} if rows else set()
    hits |= {row.exchange for row in rows if row.exchange}
    if not via:
        return []
    observed = {"outermost_first": [hop.told() for hop in chain]} if chain else {}
    return [finding("channel.chained_relay", {"via": sorted(via)}, exchanges=tuple(sorted(hits)), basis="relay_word",
                    observed=observed)]  # fmt: skip


def pooled(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """Signs of a pool of accounts. Several accounts at the vendor are a fact of many honest relays; the region word of
    subscription accounts weighs a little where API traffic was promised."""
    answers = [e for e in evidence.routed() if e.status == 200]
    geo = _region_hits(answers, evidence, knowledge)
    accounts = _accounts(answers, evidence)
    unstored = _stored_off(answers)
    signs = (["inference_geo"] if geo else []) + (["several_accounts"] if len(set(accounts.values())) > 1 else [])
    signs += ["store_switched_off"] if unstored else []
    if not signs:
        return []
    hits = geo or (tuple(accounts) if "several_accounts" in signs else unstored)
    contrary = bool(geo) and evidence.target.claim.channel == "anthropic"
    observed: dict[str, Any] = {"inference_geo": "not_available"} if geo else {}
    return [
        finding("channel.subscription_pool_hint", {"n": len(hits), "of": len(answers), "signs": signs}, exchanges=hits,
                severity="low" if contrary else "info", evidence_level="observed_pattern", basis="known_list",
                expected={"inference_geo": "global"} if geo else {},
                observed=observed | ({"accounts": len(set(accounts.values()))} if accounts else {}))
    ]  # fmt: skip


def _region_hits(answers: list[Exchange], evidence: Evidence, knowledge: Knowledge) -> tuple[str, ...]:
    facts = knowledge.model(evidence.target.official_model)
    if facts is None or facts.inference_geo != "global" or facts.age(evidence.started_at.date()) == "expired":
        return ()
    hits = tuple(e.id for e in answers if pointer(e.answer(), "/usage/inference_geo") == "not_available")
    return hits if len(hits) >= ENOUGH else ()


def _stored_off(answers: list[Exchange]) -> tuple[str, ...]:
    """Responses whose id says that they are not stored, though the request left storing on: some pools of accounts
    switch it off for every call."""
    read = [
        (e, read_response_hex(id_) if isinstance(id_ := pointer(e.answer(), "/id"), str) else None) for e in answers
    ]
    asked = [(e, parts) for e, parts in read if parts is not None and (e.request.body or {}).get("store") is True]
    hits = tuple(e.id for e, parts in asked if parts.unstored)
    return hits if len(hits) >= ENOUGH else ()


def _accounts(answers: list[Exchange], evidence: Evidence) -> dict[str, str]:
    """Exchange → the vendor's account behind it, hashed with the workspace's salt before it was recorded."""
    found: dict[str, str] = {}
    for exchange in answers:
        named = exchange.response.header(ACCOUNT_HEADER) if exchange.response else None
        signed = [header.account for header in signatures_of(exchange, evidence.pack) if header.account]
        if account := next((word for word in (named, *signed) if word and word.startswith("[account:")), ""):
            found[exchange.id] = account
    return found


def _form(exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> Handling | None:
    """Whether a whole answer is printed as some channel of its dialect prints it; None where no such form is known."""
    answer = exchange.answer() if exchange.status == 200 and exchange.streamed() is None else None
    day, dialect = evidence.started_at.date(), evidence.pack.dialect
    forms = [
        row for row in knowledge.forms if dialect in row.dialects and row.valid_on(day) and row.age(day) == "fresh"
    ]
    if not forms or not isinstance(answer, dict) or exchange.response is None:
        return None
    return "as_sent" if any(row.fits(list(answer), exchange.response.body) for row in forms) else "rebuilt"


def _front(exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> Hop | None:
    """The relay that answered us, by the request id in its own header."""
    for name, value in exchange.response.headers if exchange.response else ():
        if (
            name.lower().endswith("request-id")
            and (hop := _hop(value, exchange, evidence, knowledge)).shape != "unknown"
        ):
            return hop
    return None


def _hops_in_text(exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> list[Hop]:
    """Outermost first; an id that stands twice is one hop."""
    response = exchange.response
    if response is None or response.status < 400:
        return []
    ids = dict.fromkeys(reversed(IN_TEXT.findall(response.body[:20_000])))
    return [_hop(text, exchange, evidence, knowledge) for text in ids]


def _hop(text: str, exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> Hop:
    reading = read_id("relay_request_id", text, exchange, knowledge, evidence.started_at.date())
    if reading.shape is None:
        return Hop("unknown", "", None)
    build = BUILD.fullmatch(text)
    ahead = (reading.minted_at - answer_date(exchange)).total_seconds() / 3600 if reading.minted_at else None
    return Hop(reading.shape.id, build[1] if build else "", round(ahead) if ahead is not None else None)
