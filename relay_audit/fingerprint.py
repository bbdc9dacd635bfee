"""What a known-fingerprints file may say. Knowledge is data with a date, a source and a term; superseded, never overwritten."""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field, field_validator

from relay_audit.finding import Confidence, EvidenceLevel
from relay_audit.words import Bilingual, Frozen

IdKind = Literal["message_id", "request_id", "tool_id", "relay_request_id"]
Decoder = Literal["none", "base58_uuid7", "base58_128", "relay_time_utc"]


class Known(Frozen):
    """Anything observed: when, from where, for how long it holds."""

    id: str = Field(pattern=r"^[a-z0-9_.-]+$")
    meaning: Bilingual
    observed: dt.date
    source: str = Field(min_length=3)
    term_days: int = Field(gt=0)
    level: EvidenceLevel
    valid_from: dt.date | None = None
    valid_to: dt.date | None = None
    superseded_by: str = ""

    def age(self, on: dt.date) -> Literal["fresh", "stale", "expired"]:
        """`stale` past its term (weakens one step), `expired` past twice its term (accuses nobody)."""
        days = (on - self.observed).days
        if days <= self.term_days:
            return "fresh"
        return "stale" if days <= 2 * self.term_days else "expired"

    def valid_on(self, day: dt.date) -> bool:
        return (self.valid_from is None or day >= self.valid_from) and (self.valid_to is None or day <= self.valid_to)


class IdShape(Known):
    """A shape of id and the channels that mint it. A shape alone is never decisive."""

    kind: IdKind
    pattern: str
    channels: tuple[str, ...]
    """`anthropic`, `aws`, `vertex`, `azure`, `openai`, …; `converter` for ids made by relay software."""
    decode: Decoder = "none"
    fresh_before_s: int = 0
    """The decoded time may lie this long before the request left …"""
    fresh_after_s: int = 0
    """… or this long after the answer's Date."""
    strength: Confidence

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        re.compile(value)
        return value

    def matches(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None


class HeaderFamily(Known):
    """Response headers that one channel's own servers send. Their absence is neutral: many relays strip them."""

    channels: tuple[str, ...]
    all_of: tuple[str, ...]
    """Header name patterns (`anthropic-ratelimit-*`), each present at least once."""
    values: dict[str, str] = Field(default_factory=dict)
    """Header name → pattern its value matches."""
    strength: Confidence

    def matches(self, headers: tuple[tuple[str, str], ...]) -> bool:
        names = [name.lower() for name, _ in headers]
        return all(any(fnmatch.fnmatchcase(name, wanted) for name in names) for wanted in self.all_of) and all(
            any(name.lower() == wanted and re.search(pattern, value) for name, value in headers)
            for wanted, pattern in self.values.items()
        )


class ErrorShell(Known):
    """The outer form of a refusal."""

    channels: tuple[str, ...]
    pattern: str
    """Searched in the body text."""
    strength: Confidence

    def seen_in(self, body: str) -> bool:
        return re.search(self.pattern, body[:20_000]) is not None


class TokenBaseline(Known):
    """How many input tokens the vendor counts for one published text."""

    models: tuple[str, ...]
    """Model name patterns; a baseline belongs to a model version."""
    text: str
    tokens: int = Field(gt=0)


class RelaySoftware(Known):
    """How a relay program shows itself, and what an honest hop of it does."""

    name: str
    family: str = ""
    """Programs of one descent share marks: two names of one family are not two relays. Empty means the name itself."""
    header: str = ""
    """A header name pattern that only this family sends."""
    header_value: str = ""
    """Pattern of that header's value; empty means any."""
    status_keys: tuple[str, ...] = ()
    """Keys of `GET /api/status` data that only this family has together."""
    log_adapter: Literal["new_api", "none"] = "none"
    prices: bool = False
    """Whether `GET /api/pricing` answers with this family's ratios."""
    model_header: str = ""
    """A header in which it names the model it really asked for."""
    hold_min_input: int = 0
    """Input tokens reserved at least, before `max_tokens`; 0 where no hold is known."""
    fill_max_tokens: int = 0
    """What it fills in where a body has no `max_tokens`."""
    answers_again_s: int = 0
    """How long it gives a stored answer to the same prompt, with the id of that day; 0 where it is not known to."""

    refusal: str = ""
    """Pattern of a refusal that only this software words so."""

    def refuses_like(self, body: str, status: int) -> bool:
        return bool(self.refusal) and status >= 400 and re.search(self.refusal, body[:20_000]) is not None

    def shows_in(self, headers: tuple[tuple[str, str], ...]) -> bool:
        """Whether an answer's headers carry this software's own mark."""
        return bool(self.header) and any(
            fnmatch.fnmatchcase(name.lower(), self.header.lower()) and (not self.header_value or re.search(self.header_value, value))
            for name, value in headers
        )


class ModelFacts(Known):
    """One model of a vendor: its names, limits and price class."""

    name: str
    family: str
    """`claude-5` and so on: the class a baseline or rule speaks of."""
    aliases: tuple[str, ...] = ()
    max_output: int | None = None
    context: int | None = None
    inference_geo: str = ""
    """What `usage.inference_geo` says on API-key traffic without the parameter; empty where not established."""


class ListPrice(Known):
    """An official list price in US dollars per million tokens."""

    models: tuple[str, ...]
    input: Decimal
    output: Decimal
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    cache_read: Decimal | None = None


class Setting(Known):
    """Which switch of which relay software causes what; named in the fix list."""

    software: str
    codes: tuple[str, ...]
    setting: Bilingual


class Vendor(Known):
    """An official vendor's keys and hosts: such a key is not sent to anybody else's host."""

    name: str
    key_shapes: tuple[str, ...]
    hosts: tuple[str, ...]


class VerdictRule(Frozen):
    """One row of the rule table: the first row that fits decides. Hard gates, never an average."""

    id: str
    verdict: Literal["do_not_use", "fix_first", "backup", "usable", "inconclusive"]
    any_code: tuple[str, ...] = ()
    """Codes of accusations; a trailing * is a prefix."""
    min_severity: Literal["low", "medium", "high", "critical"] | None = None
    incomplete: bool | None = None
    """Whether checks 1 and 2 both ran."""
    why: Bilingual


class Knowledge(Frozen):
    """All that is known on the day, as one value; its digest is an input of every assessment."""

    ids: tuple[IdShape, ...] = ()
    headers: tuple[HeaderFamily, ...] = ()
    errors: tuple[ErrorShell, ...] = ()
    baselines: tuple[TokenBaseline, ...] = ()
    software: tuple[RelaySoftware, ...] = ()
    models: tuple[ModelFacts, ...] = ()
    prices: tuple[ListPrice, ...] = ()
    settings: tuple[Setting, ...] = ()
    vendors: tuple[Vendor, ...] = ()
    rules: tuple[VerdictRule, ...] = ()

    def price_of(self, model: str, day: dt.date) -> ListPrice | None:
        """The list price valid on that day for a model name; dated, prefixed and alias forms included."""
        return next((row for row in self.prices if row.valid_on(day) and self._is_of(model, row.models)), None)

    def model(self, name: str) -> ModelFacts | None:
        wanted = canonical_model(name)
        return next((m for m in self.models if wanted == m.name or wanted in m.aliases), None)

    def same_model(self, one: str, other: str) -> bool:
        """Equal after dates, provider prefixes and known aliases are taken off."""
        a, b = (self.model(name) for name in (one, other))
        if a is not None and b is not None:
            return a.name == b.name
        return canonical_model(one) == canonical_model(other)

    def baseline_for(self, model: str, day: dt.date) -> TokenBaseline | None:
        return next((row for row in self.baselines if row.valid_on(day) and self._is_of(model, row.models)), None)

    def _is_of(self, model: str, patterns: tuple[str, ...]) -> bool:
        facts = self.model(model)
        names = {model, canonical_model(model), facts.name if facts else model}
        return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)


_PREFIXES = re.compile(r"^(?:[a-z-]{2,7}\.)?(?:anthropic|openai|google|bedrock|vertex_ai|azure)[./](?:anthropic\.)?")


def canonical_model(name: str) -> str:
    """A model name without provider prefix, region, release date and version tail.

    `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `anthropic/claude-sonnet-4.5` and `claude-sonnet-4-5@20250929`
    are all `claude-sonnet-4-5`.
    """
    text = name.strip().lower().split(":")[0]
    text = re.sub(r"^(?:\*+\.)+", "", text)
    while (shorter := _PREFIXES.sub("", text)) != text:
        text = shorter
    text = text.rsplit("/", 1)[-1]
    text = re.sub(r"-v\d+$", "", text)
    text = re.sub(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest)$", "", text)
    return re.sub(r"(?<=\d)\.(?=\d)", "-", text)


def parse_rows(kind: str, rows: list[dict[str, Any]]) -> tuple[Known | VerdictRule, ...]:
    """The rows of one file as their type. Raises pydantic's ValidationError."""
    return tuple(ROWS[kind].model_validate(row) for row in rows)


ROWS: dict[str, type[Known] | type[VerdictRule]] = {
    "ids": IdShape,
    "headers": HeaderFamily,
    "errors": ErrorShell,
    "baselines": TokenBaseline,
    "software": RelaySoftware,
    "models": ModelFacts,
    "prices": ListPrice,
    "settings": Setting,
    "vendors": Vendor,
    "rules": VerdictRule,
}
"""Table name in a TOML file → what a row of it is."""
