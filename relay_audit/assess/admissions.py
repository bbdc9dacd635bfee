"""What the relay's own log admits of the way of our requests: a prompt put in place of ours, fields set or taken out, the
kind of an upstream. Decisive where it stands there; where it does not, nothing follows: forks hide these fields.

Numbers of channel kinds: new-api 823e2630 (`constant/channel.go`). An error row may come from another channel than the
answers, since a retry may take another one: it is a sign and no more.
"""

from __future__ import annotations

import re

from relay_audit.assess.model_names import maker
from relay_audit.books import LogRow
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import canonical_model

CLOUDS = {3: "azure", 33: "aws", 41: "vertex"}
RELAYS = frozenset({20, 59, 60})
"""OpenRouter, sub2api, new-api: the upstream is itself a reseller."""
FORMATS = {
    "Claude Messages": "anthropic", "OpenAI Compatible": "openai", "OpenAI Responses": "openai", "Google Gemini": "gemini",
}  # fmt: skip
"""The formats that `request_conversion` names, in the order in which a request went through them, and whose they are."""
OWN_FORMAT = {"claude": "anthropic", "gemini": "gemini"}
"""Whose format a maker's models are sold in at home, by how their names begin; any other's is OpenAI's, theirs or alike."""
FIRST_PARTY = ("anthropic", "openai")
DEFAULT_STRIPPED = frozenset({"service_tier", "inference_geo", "speed", "safety_identifier", "store"})
"""What honest channels of the family take out: an override of these alone is no difference."""
LINE = re.compile(
    r"\s*(?:set|delete|remove|prepend|append|add|replace|move|copy|rename)\b\W*([a-z_]{2,40})", re.IGNORECASE
)
"""A line of `po`: what was done, then the field; what follows is a value and may say anything."""


def admitted(evidence: Evidence) -> list[Finding]:
    rows = [row for row in evidence.own_rows() if row.exchange]
    return [*_changed(evidence, rows), *_converted(evidence, rows), *_kinds(evidence, rows)]


def _converted(evidence: Evidence, rows: list[LogRow]) -> list[Finding]:
    """The formats that answered requests went through on their way to the upstream: into another vendor's, or into
    another one of the same vendor. A format of an unknown name says nothing, and one that ends in the format of the model's
    own maker (Claude bought over OpenAI's) is how it has to be."""
    answered = {exchange.id for exchange in evidence.generations() if exchange.status == 200}
    told = [row for row in rows if row.exchange in answered and row.admissions.conversion]
    known = [row for row in told if all(name in FORMATS for name in row.admissions.conversion)]
    changed = [row for row in known if len(set(row.admissions.conversion)) > 1]
    home = OWN_FORMAT.get(maker(canonical_model(evidence.target.official_model)), "openai")
    other = [
        row
        for row in changed
        if len({FORMATS[name] for name in row.admissions.conversion}) > 1
        and FORMATS[row.admissions.conversion[-1]] != home
    ]
    hits = other or changed
    if not hits:
        return []
    ways = sorted({" → ".join(row.admissions.conversion) for row in hits})
    params = {"n": len({row.exchange for row in hits}), "of": len({row.exchange for row in told}), "formats": ways}
    return [finding("channel.format_converted", params, exchanges=tuple(dict.fromkeys(row.exchange for row in hits)),
                    outcome=None if other else "match", severity=None if other else "info", confidence="decisive",
                    basis="relay_word")]  # fmt: skip


def _changed(evidence: Evidence, rows: list[LogRow]) -> list[Finding]:
    """The system prompt, or a field that we sent, was changed before it left for the upstream."""
    bodies = {e.id: e.request.body or {} for e in evidence.generations()}
    prompt = [row.exchange for row in rows if row.admissions.system_overwritten]
    fields = [
        row.exchange
        for row in rows
        if _touched(row.admissions.overrides)
        & (set(bodies.get(row.exchange, {})) - DEFAULT_STRIPPED - {"model", "stream"})
    ]
    cases = [name for name, hit in (("system_prompt_overwritten", prompt), ("fields_overridden", fields)) if hit]
    if not cases:
        return []
    hits = tuple(dict.fromkeys((*prompt, *fields)))
    return [finding("params.clamped", {"cases": cases, "n": len(hits), "of": len({row.exchange for row in rows})},
                    exchanges=hits, confidence="decisive", basis="relay_word")]  # fmt: skip


def _touched(overrides: tuple[str, ...]) -> set[str]:
    """The fields that the lines name: `set temperature = 1`, `delete top_p`."""
    return {match[1].lower() for line in overrides if (match := LINE.match(line))}


def _kinds(evidence: Evidence, rows: list[LogRow]) -> list[Finding]:
    """The kind of upstream that an error row names."""
    named = [(row.exchange, row.admissions.channel_type) for row in rows if row.admissions.channel_type is not None]
    claimed = evidence.target.claim.channel
    clouds = [(x, CLOUDS[kind]) for x, kind in named if kind in CLOUDS]
    if not clouds or claimed not in FIRST_PARTY:
        return []
    params = {"claimed": claimed, "channel": clouds[0][1], "n": len(clouds), "of": len(named), "signals": ["relay_log"]}
    return [finding("channel.mismatch", params, exchanges=tuple(x for x, _ in clouds), severity="low",
                    basis="relay_word")]  # fmt: skip
