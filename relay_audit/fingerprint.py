"""What a known-fingerprints file may say. Knowledge is data with a date, a source and a term; superseded, never overwritten."""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, TypeVar

from pydantic import Field

from relay_audit import marks
from relay_audit.conformance import Refusal, RelayDefault
from relay_audit.marks import BodyForm, BodyMark, ErrorShell, HeaderFamily, IdShape, NameLabel, SignedPlatform
from relay_audit.marks import Known as Known
from relay_audit.media_facts import Pin
from relay_audit.media_known import DeniedCertificate, MediaAuthority, MediaProfile, MediaSigner
from relay_audit.words import Bilingual, Frozen


class TokenBaseline(Known):
    """How many input tokens the vendor counts for one published text."""

    models: tuple[str, ...]
    """Model name patterns; a baseline belongs to a model version."""
    text: str
    tokens: int = Field(gt=0)


class TokenFrame(Known):
    """The most that a family's request is known to carry besides its text: template and default system text, with one
    user turn and no `system`."""

    models: tuple[str, ...]
    at_most: int = Field(gt=0)
    """Tokens."""


class VideoPrice(Known):
    """An official list price of generated video in US dollars."""

    models: tuple[str, ...]
    per_second: dict[str, Decimal] = Field(default_factory=dict)
    """Resolution → price of a second; `any` where the list makes no difference."""
    per_mtok: Decimal | None = None
    """Price of a million video tokens, where the vendor counts in them."""


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
    status_lacks: tuple[str, ...] = ()
    """Keys that its `GET /api/status` never has, though its kin's has."""
    pages: tuple[str, ...] = ()
    """Free pages of its own at the site's origin, asked only where nothing else has named the software; one that needs
    the key is written with a leading `key:`."""
    page_text: str = ""
    """Pattern of what one of them says that no other software's does."""
    log_adapter: Literal[
        "none", "new_api", "one_api", "veloera", "sub2api", "claude_relay_service", "litellm", "generic"
    ] = "none"
    """Which of `relays/` reads its books."""
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

    def says(self, body: str, status: int) -> bool:
        """Whether one of its own pages answered as only this software answers."""
        return bool(self.page_text) and status == 200 and re.search(self.page_text, body[:20_000]) is not None

    def shows_in(self, headers: marks.Headers) -> bool:
        """Whether an answer's headers carry this software's own mark."""
        wanted = self.header.lower()
        if not wanted or not marks.carries(headers, wanted):
            return False
        return any(fnmatch.fnmatchcase(n.lower(), wanted) and re.search(self.header_value, v) for n, v in headers)


class ModelFacts(Known):
    """One model of a vendor: its names, limits and price class."""

    name: str
    family: str
    """`claude-5` and so on: the class a baseline or rule speaks of."""
    dialects: tuple[str, ...] = ()
    """The vendor's own dialects in which it is sold; what shares one is its sibling."""
    aliases: tuple[str, ...] = ()
    max_output: int | None = None
    context: int | None = None
    refuses: dict[str, bool] = Field(default_factory=dict)
    """Trait of a request → whether this model refuses it (400); absent where not established."""
    inference_geo: str = ""
    """What `usage.inference_geo` says on API-key traffic without the parameter; empty where not established."""
    min_cacheable: int | None = None
    """Tokens of a prefix below which the vendor caches nothing; None where not established."""
    tool_prompt: tuple[int, int] | None = None
    """Input tokens the vendor adds where tools are offered: under tool_choice auto or none, under any or tool."""


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


class LimitText(Known):
    """How a vendor words a refusal that gives a model away: named groups `cap` (a refused output limit) and `model`, or one."""

    vendor: str
    pattern: str
    cases: tuple[str, ...] = ()
    """The cases it answers, sent for the name in it alone; empty means that of an oversized limit."""
    models: tuple[str, ...] = ()
    """Model name patterns of `cap`."""
    cap: int | None = Field(default=None, gt=0)
    """The limit that was named on the day; None for a wording without a figure of its own."""

    def read(self, text: str) -> tuple[int | None, str] | None:
        """The limit (or None) and the model's name (or an empty text) in a refusal, wherever they stand in it."""
        if (match := re.search(self.pattern, text)) is None:
            return None
        found = match.groupdict()
        cap, name = found.get("cap"), (found.get("model") or "").rstrip(".,;\"'`)")
        return int(cap.replace(",", "")) if cap else None, name


class Vendor(Known):
    """An official vendor's keys and hosts: such a key is not sent to anybody else's host."""

    name: str
    key_shapes: tuple[str, ...]
    hosts: tuple[str, ...]


class Retention(Known):
    """How long a vendor documents that it keeps a request and its answer."""

    dialects: tuple[str, ...]
    rule: Bilingual


class VerdictRule(Frozen):
    """One row of the rule table: the first row that fits decides. Hard gates, never an average."""

    id: str
    verdict: Literal["do_not_use", "fix_first", "backup", "usable", "inconclusive"]
    any_code: tuple[str, ...] = ()
    """Codes of accusations; a trailing * is a prefix."""
    min_severity: Literal["low", "medium", "high", "critical"] | None = None
    incomplete: bool | None = None
    """Whether checks 1 and 2 both ran."""
    unmet_need: bool = False
    """Fits where a field that this buyer depends on (`[needs]`) does not arrive, whatever the weight of that."""
    why: Bilingual


class Knowledge(Frozen):
    """All that is known on the day, as one value; its digest is an input of every assessment."""

    ids: tuple[IdShape, ...] = ()
    headers: tuple[HeaderFamily, ...] = ()
    errors: tuple[ErrorShell, ...] = ()
    signatures: tuple[SignedPlatform, ...] = ()
    bodies: tuple[BodyMark, ...] = ()
    forms: tuple[BodyForm, ...] = ()
    baselines: tuple[TokenBaseline, ...] = ()
    frames: tuple[TokenFrame, ...] = ()
    software: tuple[RelaySoftware, ...] = ()
    models: tuple[ModelFacts, ...] = ()
    labels: tuple[NameLabel, ...] = ()
    prices: tuple[ListPrice, ...] = ()
    video_prices: tuple[VideoPrice, ...] = ()
    settings: tuple[Setting, ...] = ()
    vendors: tuple[Vendor, ...] = ()
    limits: tuple[LimitText, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    relay_defaults: tuple[RelayDefault, ...] = ()
    retention: tuple[Retention, ...] = ()
    signers: tuple[MediaSigner, ...] = ()
    media_profiles: tuple[MediaProfile, ...] = ()
    test_certificates: tuple[DeniedCertificate, ...] = ()
    authorities: tuple[MediaAuthority, ...] = ()
    rules: tuple[VerdictRule, ...] = ()
    pins: tuple[Pin, ...] = ()
    """The buyer's own originals: they come from the buyer's configuration and travel with the run, never with a file
    of somebody else."""

    @property
    def naming_cases(self) -> tuple[str, ...]:
        """Cases that some models refuse by their own name."""
        return tuple(dict.fromkeys(case for row in self.limits for case in row.cases))

    def retention_of(self, dialect: str, day: dt.date) -> Retention | None:
        return next((row for row in self.retention if dialect in row.dialects and row.valid_on(day)), None)

    def price_of(self, model: str, day: dt.date) -> ListPrice | None:
        """The list price valid on that day for a model name; dated, prefixed and alias forms included."""
        return next(self._about(model, self.prices, day), None)

    def video_price_of(self, model: str, day: dt.date) -> VideoPrice | None:
        """The list price of a film by that model on that day."""
        return next(self._about(model, self.video_prices, day), None)

    def model(self, name: str) -> ModelFacts | None:
        """By its name or an alias, however its parts are joined (`gpt-35-turbo`)."""
        wanted = canonical_model(name)
        exact = (m for m in self.models if wanted in (m.name, *m.aliases))
        closed = ((m, n.replace("-", "")) for m in self.models for n in (m.name, *m.aliases))
        return next(exact, None) or next((m for m, n in closed if n == wanted.replace("-", "")), None)

    def named_in(self, label: str) -> str:
        """The longest known name or alias that stands whole in a seller's label; empty where none does."""
        text, names = canonical_model(label), (name for m in self.models for name in (m.name, *m.aliases))
        inside = [n for n in names if re.search(rf"(?<![a-z0-9]){re.escape(n)}(?![a-z0-9]|-\d)", text)]
        return max(inside, key=len, default="")

    def same_model(self, one: str, other: str) -> bool:
        """Equal after dates, provider prefixes and known aliases are taken off."""
        a, b = (self.model(name) for name in (one, other))
        return a.name == b.name if a and b else canonical_model(one) == canonical_model(other)

    def refusal_of(self, dialect: str, case: str, model: str, day: dt.date, *, refused: bool) -> Refusal | None:
        """The vendor's dated answer to a case, refused or taken as planned; None where none is on record, or where it was
        seen to be otherwise since."""
        rows = list(self._about(model, (r for r in self.refusals if (r.dialect, r.case) == (dialect, case)), day))
        seen = max((row.observed for row in rows), default=day)
        return next((row for row in rows if row.observed == seen and (row.status != 200) == refused), None)

    def baseline_for(self, model: str, day: dt.date) -> TokenBaseline | None:
        """The one that was observed last."""
        return max(self._about(model, self.baselines, day), key=lambda row: row.observed, default=None)

    def max_output_of(self, model: str, day: dt.date) -> int | None:
        """The model's output limit: as it was last named in a refusal, else as published."""
        rows = [row for row in self._about(model, self.limits, day) if row.cap and row.age(day) != "expired"]
        facts = self.model(model)
        last = max(rows, key=lambda row: row.observed, default=None)
        return last.cap if last else facts.max_output if facts else None

    def frame_for(self, model: str, day: dt.date) -> TokenFrame | None:
        """The largest honest frame known of a model's family on that day. A later count of a published sentence bounds it
        from above too: a word is a token at least."""
        frame = max(self._about(model, self.frames, day), key=lambda row: row.at_most, default=None)
        count = self.baseline_for(model, day)
        if frame is None or count is None or count.observed <= frame.observed:
            return frame
        room = count.tokens - len(count.text.split())
        fresh = {"at_most": room, "observed": count.observed, "source": count.source}
        return frame.model_copy(update=fresh) if room > frame.at_most else frame

    def _about(self, model: str, rows: Iterable[_Row], day: dt.date) -> Iterator[_Row]:
        """The rows that are valid on that day and speak of a model, under any of its names."""
        facts = self.model(model)
        names = {model, canonical_model(model), facts.name if facts else model}
        for row in rows:
            if row.valid_on(day) and any(fnmatch.fnmatchcase(n, pattern) for n in names for pattern in row.models):
                yield row


_Row = TypeVar("_Row", TokenBaseline, TokenFrame, VideoPrice, ListPrice, LimitText, Refusal)
_PREFIXES = re.compile(r"^(?:[a-z-]{2,7}\.)?(?:anthropic|openai|google|bedrock|vertex_ai|azure)[./](?:anthropic\.)?")


@lru_cache(maxsize=1024)
def canonical_model(name: str) -> str:
    """A model name without provider prefix, region, release date and version tail.

    `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `anthropic/claude-sonnet-4.5`, `claude-sonnet-4-5@20250929`,
    `claude-sonnet-4-5[1m]` and `Claude Sonnet 4.5` are all `claude-sonnet-4-5`.
    """
    text = name.strip().lower().split(":")[0]
    text = re.sub(r"^(?:\*+\.)+", "", text)
    while (shorter := _PREFIXES.sub("", text)) != text:
        text = shorter
    text = _PREFIXES.sub("", text.rsplit("/", 1)[-1])
    text = re.sub(r"\[\d+[km]\]$|-v\d+(?=$|@20\d{6}$)", "", text)
    text = re.sub(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|default)$", "", text)
    return re.sub(r"[\s_]+|(?<=\d)\.(?=\d)", "-", text)


def parse_rows(kind: str, rows: list[dict[str, Any]]) -> tuple[Known | VerdictRule | Pin, ...]:
    """The rows of one file as their type. Raises pydantic's ValidationError."""
    return tuple(ROWS[kind].model_validate(row) for row in rows)


ROWS: dict[str, type[Known] | type[VerdictRule] | type[Pin]] = {
    "ids": IdShape,
    "headers": HeaderFamily,
    "errors": ErrorShell,
    "signatures": SignedPlatform,
    "bodies": BodyMark,
    "forms": BodyForm,
    "baselines": TokenBaseline,
    "frames": TokenFrame,
    "software": RelaySoftware,
    "models": ModelFacts,
    "labels": NameLabel,
    "prices": ListPrice,
    "video_prices": VideoPrice,
    "settings": Setting,
    "vendors": Vendor,
    "limits": LimitText,
    "refusals": Refusal,
    "relay_defaults": RelayDefault,
    "retention": Retention,
    "signers": MediaSigner,
    "media_profiles": MediaProfile,
    "test_certificates": DeniedCertificate,
    "authorities": MediaAuthority,
    "rules": VerdictRule,
    "pins": Pin,
}
"""Table name in a TOML file → what a row of it is."""
