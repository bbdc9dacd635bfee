"""What a relay's own books say, as values: rows of its log, balances, running totals, its usage endpoint, its rate and its
public facts. All of it is the relay's word; how each software writes it is the business of `relays/`.

An amount stands in the unit in which it was written: quota units (`quota`) or the site's own dollars (`amount`). Other
people's rows leave a count, a sum and a time span.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from relay_audit.words import Frozen

LogState = Literal["read", "empty", "unavailable", "unsafe", "limited", "not_asked"]
RowKind = Literal["consume", "error", "refund", "hold", "topup", "other"]
RowSource = Literal["log", "header", "difference"]
"""Where a reading comes from: a list of rows, a header of each answer, or the difference of two running totals."""
When = Literal["before", "between", "after"]


class Admissions(Frozen):
    """What a row says of its own way. Decisive where present; a field that is absent says nothing at all."""

    model_mapped: bool = False
    """`is_model_mapped`."""
    upstream_model: str = ""
    """`upstream_model_name`: what was really asked upstream."""
    response_model: str = ""
    """`response_model`, written where the name that came back differs."""
    system_overwritten: bool = False
    """`is_system_prompt_overwritten`."""
    overrides: tuple[str, ...] = ()
    """`po`: what the relay set, deleted or put in front in the request body."""
    conversion: tuple[str, ...] = ()
    """`request_conversion`: the formats that the request went through."""
    channel_type: int | None = None
    """Of an error row: the number of the upstream's kind (14 Anthropic, 33 AWS, 41 Vertex, …)."""


class LogRow(Frozen):
    """One row of the relay's own books that is ours; names of people and tokens are hashed before the record exists."""

    exchange: str = ""
    """The exchange it was joined to, or empty where none could be told without a guess."""
    request_id: str = ""
    upstream_request_id: str = ""
    """The next relay's id: there is a second hop. Its doings are not this relay's."""
    created_at: dt.datetime
    """When the row was written (new-api: the end of the call)."""
    kind: RowKind
    model: str
    quota: int | None = None
    """As written, in quota units; a refund may stand as a positive number. None where the software writes dollars."""
    amount: Decimal | None = None
    """As written, in site dollars; None where the software writes quota units."""
    list_amount: Decimal | None = None
    """What the software's own price list gives before the buyer's ratio, in site dollars; None where it does not say."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read: int | None = None
    """None where the row says nothing of caches."""
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    is_stream: bool | None = None
    """None where the row does not say."""
    group: str = ""
    channel: str = ""
    """Hashed number of the upstream: distinct values count routes."""
    task: str = ""
    """The task of a video row."""
    plan_billed: bool = False
    """Paid out of a plan's allowance: the wallet lost nothing."""
    estimated: bool = False
    """The relay says that the upstream gave no usage: it counted itself, or could not charge."""
    admissions: Admissions = Admissions()
    other: dict[str, Any] = Field(default_factory=dict)
    """new-api's `other` column, reduced to the keys an assessor reads."""

    def charged(self, quota_per_unit: int) -> Decimal:
        """What left the buyer's balance by this row, in site dollars: a refund is negative however it is written;
        holds, top-ups and rows of other kinds move nothing here."""
        worth = self.amount if self.amount is not None else Decimal(self.quota or 0) / quota_per_unit
        match self.kind:
            case "consume" | "error":
                return worth
            case "refund":
                return -abs(worth)
            case _:
                return Decimal(0)


class ForeignRows(Frozen):
    """Rows of other traffic on the same key: nothing of them is kept but this."""

    count: int = 0
    quota: int = 0
    """What they charged, refunds taken off; 0 where the software writes dollars."""
    amount: Decimal = Decimal(0)
    """The same where it writes dollars."""
    first: dt.datetime | None = None
    last: dt.datetime | None = None
    within: int = 0
    """How many of them were written since the first balance of this run …"""
    within_quota: int = 0
    """… and what those charged, as `quota`."""
    within_amount: Decimal = Decimal(0)
    alike: tuple[str, ...] = ()
    """Exchanges of ours that have their row, and besides it one under another id with the same model, kind of delivery and
    tokens (of a film's order: model and amount) at the same moment. Such a row is assigned to nobody …"""
    alike_quota: int = 0
    """… and this is what they charged, as `quota`, …"""
    alike_amount: Decimal = Decimal(0)
    """… or as `amount`."""
    alike_rows: int = 0
    """How many rows that are, of those `within`."""


class LogReading(Frozen):
    """What one look into the books said of our sendings. Each reading is whole: the last one counts."""

    at: dt.datetime
    exchange: str
    """The exchange that read it; empty for what was read out of the answers' own headers."""
    state: LogState
    reason: str = ""
    rows: tuple[LogRow, ...] = ()
    foreign: ForeignRows = ForeignRows()
    own_earlier: int = 0
    """Rows of our other runs on this key: neither this run's nor a stranger's."""
    truncated: bool = False
    unreadable: int = 0
    """Rows that were none: wrong types, numbers beyond any price, times beyond any calendar."""
    ahead: int = 0
    """Rows dated later than this reading."""
    adapter: str = "new_api"
    generation: str = ""
    """Of the software, by its own marks: `header` or `query` (new-api), a version, or empty."""
    source: RowSource = "log"

    def truncated_before(self, moment: dt.datetime) -> bool:
        """Whether rows written since then may have been cut off: a full log that shows nothing older."""
        times = [row.created_at for row in self.rows] + [at for at in (self.foreign.first,) if at is not None]
        return self.truncated and min(times, default=moment) >= moment


class Totals(Frozen):
    """Running totals of a key; of two of them the difference is what happened in between, other traffic included."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    list_cost: Decimal = Decimal(0)
    """By the software's price list, in site dollars."""
    cost: Decimal = Decimal(0)
    """Really charged, in site dollars."""

    def since(self, earlier: Totals) -> Totals | None:
        """The difference; None where a total went back, so that the two do not belong together."""
        gone = {name: getattr(self, name) - getattr(earlier, name) for name in Totals.model_fields}
        return None if any(value < 0 for value in gone.values()) else Totals(**gone)


class Allowance(Frozen):
    """A plan's or a key's own limit, beside the wallet; site dollars."""

    window: str = ""
    """`5h`, `1d`, `7d`, or empty for the whole."""
    limit: Decimal | None = None
    used: Decimal | None = None
    remaining: Decimal | None = None


USAGE_PAGES = "dashboard"
"""What a balance that is made of usage pages is called where the software has a page for balances and this build lacks it.
The two counters are never subtracted from each other, and this one alone accuses nobody."""


class BalanceReading(Frozen):
    at: dt.datetime
    exchange: str
    """The exchange that read it; empty where another run's reading of the same key was used."""
    when: When = "before"
    adapter: str = "new_api"
    used_quota: int | None = None
    """Spent so far, in quota units."""
    used: Decimal | None = None
    """Spent so far, in site dollars, where the software writes those."""
    step: Decimal = Decimal(0)
    """The smallest difference that the page shows, in site dollars, where it is as coarse as whole cents; else 0."""
    available: Decimal | None = None
    """In quote currency (site dollars); None where unlimited or unknown."""
    unlimited: bool = False
    totals: Totals | None = None
    allowances: tuple[Allowance, ...] = ()
    of_model: Totals | None = None
    """The totals of the audited model alone."""

    def spent(self, quota_per_unit: int) -> Decimal | None:
        """Everything this key ever spent, in site dollars; None where the reading does not say."""
        if self.used_quota is not None:
            return Decimal(self.used_quota) / quota_per_unit
        if self.totals is not None:
            return self.totals.cost
        return self.used


ROUND = (Decimal("0.01"), Decimal("0.001"))
"""Site dollars: steps in which a page that is rounded moves. Finer ones stand in any two readings by chance."""


def coarse(readings: Iterable[BalanceReading], per_unit: int) -> Decimal:
    """By how much a difference between these readings may be rounding alone, in site dollars: all of them are whole cents,
    or tenths of one."""
    told = [(reading.step, spent) for reading in readings if (spent := reading.spent(per_unit)) is not None]
    shown = next((step for step in ROUND if all(spent % step == 0 for _, spent in told)), Decimal(0))
    return max(shown, min((step for step, _ in told), default=Decimal(0))) if told else Decimal(0)


class UsageReading(Frozen):
    """`/v1/dashboard/billing/*` as it was read: recorded, compared, never the charge. Its start and end dates are
    ignored by new-api, its unit follows the site's display type, its counter may be the whole user's."""

    at: dt.datetime
    exchange: str
    when: When
    state: Literal["read", "unavailable"]
    reason: str = ""
    printed: Decimal | None = None
    """`total_usage` / 100, in the site's display unit."""
    dollars: Decimal | None = None
    """Converted to site dollars by the site's display type; None where that cannot be told."""
    limit: Decimal | None = None
    """`hard_limit_usd` in the display unit."""
    limit_dollars: Decimal | None = None
    unlimited: bool = False
    """100,000,000: how the family writes a key without a limit."""
    display_type: str = ""


class RateReading(Frozen):
    """The multiplier that a site tells this key, at one moment."""

    at: dt.datetime
    exchange: str
    when: When
    multiplier: Decimal | None = None
    """`effective_rate_multiplier` or what comes nearest to it."""
    base: Decimal | None = None
    """The same outside of the hours that have another price."""
    group: Decimal | None = None
    peak: bool | None = None
    """Whether the site has hours of another price."""
    peak_multiplier: Decimal | None = None
    """What multiplies `base` in those hours."""
    peak_start: str = ""
    """As printed (`14:00`), in `timezone`."""
    peak_end: str = ""
    timezone: str = ""
    scope: str = ""


class Published(Frozen):
    """A model's row in the site's price list, as printed; ratios, not dollars."""

    quota_type: int = 0
    """0 by tokens, 1 per call."""
    model_ratio: Decimal | None = None
    completion_ratio: Decimal | None = None
    cache_ratio: Decimal | None = None
    create_cache_ratio: Decimal | None = None
    model_price: Decimal | None = None
    billing_mode: str = ""
    billing_expr: str = ""
    groups: tuple[str, ...] = ()
    """Groups in which it is sold."""
    input_usd: Decimal | None = None
    """Site dollars per million tokens, where the software publishes those instead of ratios."""
    output_usd: Decimal | None = None


class PriceReading(Frozen):
    """The public price list once more, after the sendings: a tariff may have changed in between."""

    at: dt.datetime
    exchange: str
    published: Published | None = None
    group_ratio: dict[str, Decimal] = Field(default_factory=dict)


class SiteFacts(Frozen):
    """What the relay says of itself in public: a claim."""

    software: str = "unknown"
    software_signals: tuple[str, ...] = ()
    version: str = ""
    quota_per_unit: int = 500_000
    price_cny: Decimal | None = None
    """CNY for one site dollar, by the site."""
    display_type: str = ""
    """`USD`, `CNY`, `TOKENS`, `CUSTOM`; empty where an old site says only `display_in_currency`."""
    display_in_currency: bool | None = None
    usd_exchange_rate: Decimal | None = None
    """The site's own CNY per dollar for display."""
    custom_rate: Decimal | None = None
    group_ratio: dict[str, Decimal] = Field(default_factory=dict)
    usable_groups: tuple[str, ...] = ()
    published: Published | None = None
    """The audited model's row; None where the list is closed or does not name it."""
    model_listed: bool | None = None
    """Whether `/v1/models` lists the model; None where it could not be read."""

    def in_dollars(self, printed: Decimal) -> Decimal | None:
        """An amount in the site's display unit as site dollars; None where the unit cannot be told. An old site says only
        whether it shows a currency at all: then dollars, else quota units. A site that says nothing is taken at the word
        of the page it imitates, which is in dollars."""
        rate = {"USD": Decimal(1), "CNY": self.usd_exchange_rate, "CUSTOM": self.custom_rate}
        if self.display_type in rate:
            factor = rate[self.display_type]
            return printed / factor if factor else None
        if self.display_type == "TOKENS" or self.display_in_currency is False:
            return printed / self.quota_per_unit
        nothing_said = not self.display_type and self.display_in_currency is None
        return printed if self.display_in_currency or nothing_said else None
