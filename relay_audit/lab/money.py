"""How a relay takes money: what may be turned between a call's usage, its row and the key's balance; honest by default."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from relay_audit.lab.models import Ratios

SITE_HOURS_AHEAD = 8
"""The site's clock against UTC."""


@dataclass(frozen=True)
class Money:
    """One field per fault or honest circumstance."""

    markup: Decimal = Decimal(1)
    """Multiple of the official model ratio that the price list shows and the rows charge."""
    hidden_markup: Decimal = Decimal(1)
    """A further multiple that the rows charge and the price list does not show."""
    charged_group: str = ""
    """The group that rows name and are charged in; empty means the sold one."""
    charged_ratio: Decimal | None = None
    """The group ratio of the rows; None means the published one."""
    special_ratio: bool = False
    """The ratio is this user's own (`user_group_ratio`), which the public list does not show."""
    peak: tuple[int, int, Decimal] | None = None
    """From one hour of the site's day to another all rows are charged this multiple; the price list shows the base."""
    peak_published: bool = False
    """The price list shows the multiple while it holds."""
    per_call: Decimal | None = None
    """A fixed price in site dollars, published and charged."""
    expression: tuple[str, ...] = ()
    """Dollars per million of input, output, cache read, write and one-hour write: a price expression, published and charged."""
    surcharge: str = ""
    """Name of a tool in the row, one call at $10 per thousand."""
    surge: Decimal | None = None
    """A multiplier under a name of the vendor's own in the row, and in the charge."""
    doubles_every: int = 0
    """Every so many calls have two rows, both charged."""
    copies_every: int = 0
    """Every so many calls have a second row under a fresh request id, charged like the first."""
    unlogged_every: int = 0
    """Every so many calls lower the balance a second time, without a row."""
    rowless_every: int = 0
    """Every so many calls have no row, and lower the balance …"""
    rowless_factor: int = 1
    """… by this multiple of what their row would have charged."""
    booked_factor: int = 1
    """What records in dollars multiply an answer's tokens by."""
    uncharged_every: int = 0
    """Every so many calls have neither row nor charge."""
    errors: Literal["free", "charged", "unlogged", "refunded_late", "refund_missing"] = "free"
    """What happens to a reserve for a call that the upstream refuses."""
    holds_kept_every: int = 0
    """Every so many calls keep what was reserved for them, beside the charge."""
    empties_every: int = 0
    """Every so many answers are empty, and charged."""
    cuts_streams: bool = False
    """Streams end before their last events, and are charged twice: at the end and with the next call."""
    cache_read_as_input: bool = False
    """Cached tokens are charged like new ones, though the row shows their ratio."""
    hour_at_five_minutes: bool = False
    """A one-hour cache write is charged at the five-minute rate."""
    display: Literal["USD", "CNY"] = "USD"
    usage_factor: Decimal = Decimal(1)
    """What the usage endpoint says, as a multiple of what was spent."""
    full_log: bool = False
    """The key's log holds more rows than it shows."""
    plan: bool = False
    """Calls are paid out of a plan: rows say so, the wallet loses nothing."""
    plan_factor: int = 1
    """What the plan loses by a call, as a multiple of its row's charge."""
    converted_to: str = ""
    """The format in which calls go on to the upstream, by the row; empty for their own."""


def listed(price: Ratios, money: Money) -> Ratios:
    """A model's ratios as the price list shows them."""
    return replace(price, model=price.model * money.markup)


def charged(price: Ratios, money: Money) -> Ratios:
    """The same as the rows charge them."""
    return replace(price, model=price.model * money.markup * money.hidden_markup)


def group_ratio(published: Decimal, money: Money, now: float) -> Decimal:
    """The ratio of a row at a moment."""
    ratio = published if money.charged_ratio is None else money.charged_ratio
    return ratio * peak_factor(money, now)


def published_ratio(published: Decimal, money: Money, now: float) -> Decimal:
    return published * (peak_factor(money, now) if money.peak_published else 1)


def peak_factor(money: Money, now: float) -> Decimal:
    if money.peak is None:
        return Decimal(1)
    start, end, factor = money.peak
    hour = int(now // 3600 + SITE_HOURS_AHEAD) % 24
    return factor if start <= hour < end else Decimal(1)


def expression(money: Money) -> str:
    """As the program stores it."""
    terms = zip(money.expression, ("p", "c", "cr", "cc", "cc1h"), strict=True)
    return f'tier("base", {" + ".join(f"{name} * {price}" for price, name in terms)})'


def marks(money: Money) -> Iterator[tuple[str, Any]]:
    """What a row's `other` says besides ratios."""
    if money.expression:
        yield "billing_mode", "tiered_expr"
        yield "expr_b64", base64.b64encode(expression(money).encode()).decode()
    if money.surcharge:
        yield "tool_surcharges", [{"name": money.surcharge, "count": 1, "price": 10}]
    if money.surge is not None:
        yield "surge_ratio", float(money.surge)
    if money.plan:
        yield "billing_source", "subscription"
        yield "wallet_quota_deducted", 0


class Every:
    """True for each n-th call, counted from the first; n = 0 never."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._count = 0

    def hit(self) -> bool:
        self._count += 1
        return bool(self._n) and self._count % self._n == 0
