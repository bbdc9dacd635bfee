"""The public pages of one-api's family: `GET /api/status`, `GET /api/pricing` and `GET /api/ratio_config`. All of it is
the relay's word.

Source: new-api 823e2630; one-api 8df4a267 has no price list. The list of ratios holds five tables by model and no group;
it answers 403 unless the site exposes it.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from relay_audit.books import Published, SiteFacts
from relay_audit.exchange import Exchange, whole_number
from relay_audit.quote import UnitPrice
from relay_audit.relays.asked import Asked, opened
from relay_audit.relays.numbers import number, page, rows, short, table

STATUS, PRICING, RATIOS = "/api/status", "/api/pricing", "/api/ratio_config"
LONGEST_EXPRESSION = 4500
HOUR_FACTOR = Decimal("1.6")
"""A one-hour cache write against a five-minute one, where the list does not say (new-api's own constant)."""


def read_site(status: Exchange | None, pricing: Exchange | None, base: SiteFacts, model: str = "") -> SiteFacts:
    """Units, currency, version, group ratios, and the audited model's row."""
    data, listed = table(page(status).get("data")), page(pricing)
    groups = table(listed.get("group_ratio"))
    shown = data.get("display_in_currency")
    row = _row(listed, model)
    return base.model_copy(
        update={
            "version": short(data.get("version")),
            "quota_per_unit": whole_number(data.get("quota_per_unit")) or base.quota_per_unit,
            "price_cny": number(data.get("price")),
            "display_type": short(data.get("quota_display_type")),
            "display_in_currency": shown if isinstance(shown, bool) else None,
            "usd_exchange_rate": number(data.get("usd_exchange_rate")),
            "custom_rate": number(data.get("custom_currency_exchange_rate")),
            "group_ratio": {short(k): n for k, v in groups.items() if (n := number(v)) is not None},
            "usable_groups": tuple(short(name) for name in table(listed.get("usable_group"))),
            "published": _published(row) if row else None,
        }
    )


def read_price(pricing: Exchange | None, model: str, group: str, site: SiteFacts, today: dt.date) -> UnitPrice | None:
    """The published price of a model in a group, in site dollars per million tokens; None where it is not published so
    that it can be computed (tiered expressions, a missing group ratio)."""
    row = _row(page(pricing), model)
    if row is None or row.get("billing_mode"):
        return None
    ratio = _group_ratio(row, group, site)
    if ratio is None:
        return None
    source = f"GET {PRICING}, group {group or 'default'}"
    if row.get("quota_type") == 1:
        fixed, zero = number(row.get("model_price")), Decimal(0)
        if fixed is None:
            return None
        return UnitPrice(input=zero, output=zero, per_call=fixed * ratio, source=source, observed=today)
    model_ratio, completion = number(row.get("model_ratio")), number(row.get("completion_ratio"))
    if model_ratio is None or completion is None:
        return None
    unit = model_ratio * ratio * 1_000_000 / site.quota_per_unit
    write, read = number(row.get("create_cache_ratio")), number(row.get("cache_ratio"))
    return UnitPrice(
        input=unit,
        output=unit * completion,
        cache_write_5m=None if write is None else unit * write,
        cache_write_1h=None if write is None else unit * write * HOUR_FACTOR,
        cache_read=None if read is None else unit * read,
        source=source,
        observed=today,
    )


def read_ratios(asked: Asked, model: str) -> Published | None:
    """A model's ratios in the list of ratios; None where it is not exposed or does not name the model."""
    state, _, answer = opened(asked)
    data = table(table(answer).get("data")) if state == "read" and table(answer).get("success") is True else {}
    fixed, ratio = (number(table(data.get(name)).get(model)) for name in ("model_price", "model_ratio"))
    if fixed is None and ratio is None:
        return None
    more = {name: number(table(data.get(name)).get(model)) for name in
            ("completion_ratio", "cache_ratio", "create_cache_ratio")}  # fmt: skip
    return Published(quota_type=0 if fixed is None else 1, model_ratio=ratio, model_price=fixed, **more)


def _group_ratio(row: dict[str, Any], group: str, site: SiteFacts) -> Decimal | None:
    """Of the claimed group, else of `default`, else the dearest in which the model is sold."""
    if group:
        return site.group_ratio.get(group)
    enabled = [g for g in rows(row.get("enable_groups")) if isinstance(g, str) and g in site.group_ratio]
    dearest = max((site.group_ratio[g] for g in enabled), default=None)
    return site.group_ratio.get("default", dearest)


def _row(listed: dict[str, Any], model: str) -> dict[str, Any] | None:
    return next((r for r in rows(listed.get("data")) if isinstance(r, dict) and r.get("model_name") == model), None)


def _published(row: dict[str, Any]) -> Published:
    return Published(
        quota_type=1 if row.get("quota_type") == 1 else 0,
        model_ratio=number(row.get("model_ratio")),
        completion_ratio=number(row.get("completion_ratio")),
        cache_ratio=number(row.get("cache_ratio")),
        create_cache_ratio=number(row.get("create_cache_ratio")),
        model_price=number(row.get("model_price")),
        billing_mode=short(row.get("billing_mode")),
        billing_expr=str(row.get("billing_expr") or "")[:LONGEST_EXPRESSION],
        groups=tuple(short(name) for name in rows(row.get("enable_groups")) if isinstance(name, str)),
    )
