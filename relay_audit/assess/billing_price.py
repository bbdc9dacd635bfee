"""Is the price that was charged the one that was published, and the one that was claimed? Three ratios side by side.

A published markup is a tariff, not a difference. A price list is read without a login: it does not show a ratio that is
one user's own, nor a group that is not for everybody, and it may change between reading and sending.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from relay_audit.assess.billing_arithmetic import Judged
from relay_audit.assess.billing_calls import Bill, Call, dollars, hours, ids
from relay_audit.assess.billing_tariff import ratio, tariff_published
from relay_audit.books import Published
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding, Severity
from relay_audit.fingerprint import Knowledge
from relay_audit.quote import UnitPrice, charge_of
from relay_audit.tariff import Tariff
from relay_audit.words import money

TOLERANCE = Decimal("0.005")
"""Ratios within half a per cent are the same: lists print fewer digits than rows."""
FRESH = dt.timedelta(minutes=15)
"""Without a second look at the list, a first one counts for so long."""
RATE = Decimal("0.000001")


@dataclass(frozen=True)
class Ratios:
    """Multiples of the vendor's list price; None where one side is not known."""

    claimed: Decimal | None
    published: Decimal | None
    charged: Decimal | None

    def params(self) -> dict[str, str | None]:
        return {
            "claimed": _text(self.claimed), "published": _text(self.published), "charged_ratio": _text(self.charged),
        }  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """One call at the row's tariff and at the published one, in site dollars before rounding."""

    item: Judged
    charged: Decimal
    published: Decimal

    @property
    def higher(self) -> bool:
        return self.charged > self.published * (1 + TOLERANCE)

    @property
    def lower(self) -> bool:
        return self.charged < self.published * (1 - TOLERANCE)


def prices(evidence: Evidence, knowledge: Knowledge, bill: Bill, done: tuple[Judged, ...]) -> list[Finding]:
    compared = [c for item in done if (c := compare(item, evidence)) is not None]
    higher = [c for c in compared if c.higher]
    found = [_differs(higher, compared, evidence, knowledge, done)] if higher else []
    return [*found, *_against_claim(evidence, knowledge, bill, done), *_groups(evidence, bill)]


def compare(item: Judged, evidence: Evidence) -> Compared | None:
    """None where the list says nothing of this row: a closed list, another group, a ratio of this user's own, or a list of
    ratios for a row that was charged by an expression."""
    group = _published_group(item, evidence)
    published = published_in(evidence)
    if group is None or published is None or (item.tariff.expression and evidence.site.published is None):
        return None
    return _compare(item, published, group)


def published_in(evidence: Evidence) -> Published | None:
    """The model's row in the price list, or, where that is closed, in the list of ratios that was read afterwards."""
    later = (reading.published for reading in evidence.prices)
    return evidence.site.published or next((row for row in later if row is not None), None)


def _compare(item: Judged, published: Published, group: Decimal) -> Compared | None:
    tariff = tariff_published(published, group)
    per_unit, at = item.call.per_unit, item.row.created_at
    if tariff is None:
        return None
    tariff = tariff.model_copy(update={"surcharge": item.tariff.surcharge})
    mine = item.tariff.exact(item.usage, per_unit, at, item.call.body)
    theirs = tariff.exact(item.usage, per_unit, at, item.call.body)
    return None if mine is None or theirs is None else Compared(item, mine / per_unit, theirs / per_unit)


def _published_group(item: Judged, evidence: Evidence) -> Decimal | None:
    """The ratio of the row's own group in the list. A user's own ratio is not in a list that anybody may read: then the
    row's stands for it, and only the model's price is compared; so it is where a site shows no groups at all."""
    if special(item) or not evidence.site.group_ratio:
        return item.tariff.group
    return evidence.site.group_ratio.get(item.row.group)


def special(item: Judged) -> bool:
    own = ratio(item.row.other.get("user_group_ratio"))
    return own is not None and own >= 0


def changed_since(items: list[Compared], evidence: Evidence) -> bool:
    """A second look at the list shows what was charged: the tariff changed between the quote and the sendings."""
    for later in evidence.prices if evidence.site.published else ():
        if later.published is None or later.at < max(c.item.call.exchange.sent_at for c in items):
            continue
        again = [
            _compare(c.item, later.published, group)
            for c in items
            if (group := later.group_ratio.get(c.item.row.group)) is not None
        ]
        return len(again) == len(items) and all(c is not None and not c.higher for c in again)
    return False


def _lowered_since(items: list[Compared], compared: list[Compared], evidence: Evidence) -> bool:
    """A list that was read only after the calls shows the last of them as charged: the tariff fell in between."""
    last = max(c.item.row.created_at for c in items)
    later = [c for c in compared if c.item.row.created_at > last]
    return evidence.site.published is None and bool(later) and not any(c.higher for c in later)


def _by_base(items: list[Compared], evidence: Evidence) -> bool:
    """Whether the base ratio differs too. A list of ratios shows what is configured: for the models whose ratios of output
    and cache are built in, new-api charges by those and lists what was once entered (`GetCompletionRatio`)."""
    published = published_in(evidence)
    if evidence.site.published is not None or published is None:
        return True
    limit = (published.model_ratio or Decimal(0)) * (1 + TOLERANCE)
    return any(c.item.tariff.fixed is not None or c.item.tariff.model > limit for c in items)


def _differs(
    items: list[Compared],
    compared: list[Compared],
    evidence: Evidence,
    knowledge: Knowledge,
    done: tuple[Judged, ...],
) -> Finding:
    charged, published = sum((c.charged for c in items), Decimal(0)), sum((c.published for c in items), Decimal(0))
    calls = [c.item.call for c in items]
    changed = changed_since(items, evidence) or _lowered_since(items, compared, evidence)
    started = evidence.started_at
    looked_again = any(later.published is not None for later in evidence.prices)
    sure = looked_again or max(call.exchange.sent_at for call in calls) - started <= FRESH
    sure = sure and _by_base(items, evidence)
    params = {
        "n": len(items),
        "of": len(done),
        "published_rate": _rate(items[0].item, published_in(evidence), evidence),
        "charged_rate": _rate(items[0].item, None, evidence),
        "factor": _text(charged / published) if published else None,
        "difference": dollars(charged - published),
        "untrusted_group": items[0].item.row.group,
        "hours": hours(calls),
        "changed": changed,
        **_ratios(evidence, knowledge, done).params(),
    }
    severity: Severity | None = "info" if changed else None if sure else "low"
    return finding(
        "billing.price_differs_from_published",
        params,
        exchanges=ids(calls),
        outcome="match" if changed else None,
        severity=severity,
        confidence="strong" if sure else "supporting",
        basis="relay_word",
    )


def _rate(item: Judged, published: Published | None, evidence: Evidence) -> str:
    """Site dollars per million input tokens, or per call; of the row where no list row is given."""
    group = _published_group(item, evidence) or Decimal(0)
    tariff: Tariff | None = item.tariff if published is None else tariff_published(published, group)
    if tariff is None:
        return ""
    if tariff.fixed is not None:
        return dollars(tariff.fixed * tariff.group * tariff.factor)
    if tariff.by_tokens:
        return dollars(tariff.rates(item.call.per_unit)["input"])
    exact = tariff.exact(item.usage, item.call.per_unit, item.row.created_at, item.call.body)
    return dollars((exact or Decimal(0)) / item.call.per_unit)


def _ratios(evidence: Evidence, knowledge: Knowledge, done: Iterable[Judged]) -> Ratios:
    """Over all judged calls: cost by the row, by the list and by the claim, each against the vendor's list price."""
    listed = list_price(evidence, knowledge)
    mine, theirs, official = Decimal(0), Decimal(0), Decimal(0)
    complete = True
    for item in done:
        exact = item.tariff.exact(item.usage, item.call.per_unit, item.row.created_at, item.call.body)
        compared = compare(item, evidence)
        complete = complete and compared is not None
        mine += (exact or Decimal(0)) / item.call.per_unit
        theirs += compared.published if compared else Decimal(0)
        official += charge_of(item.usage.by_kind(), listed) if listed else Decimal(0)
    if not official:
        return Ratios(evidence.target.claim.ratio, None, None)
    return Ratios(evidence.target.claim.ratio, theirs / official if complete else None, mine / official)


def list_price(evidence: Evidence, knowledge: Knowledge) -> UnitPrice | None:
    """The vendor's list price on the day of the run."""
    row = knowledge.price_of(evidence.target.official_model, evidence.started_at.date())
    if row is None:
        return None
    kinds = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
    return UnitPrice(**{kind: getattr(row, kind) for kind in kinds}, source=row.source, observed=row.observed)


def told(evidence: Evidence, knowledge: Knowledge, bill: Bill, done: tuple[Judged, ...]) -> Ratios:
    """The three ratios, also where the books are written in dollars and state no ratios of their own."""
    return _ratios(evidence, knowledge, done) if done else _by_amounts(evidence, knowledge, bill)


def _by_amounts(evidence: Evidence, knowledge: Knowledge, bill: Bill) -> Ratios:
    listed = list_price(evidence, knowledge)
    calls = [call for call in bill.joined if call.usage is not None and not bill.quota_units and call.net > 0]
    official = sum((charge_of(call.usage.by_kind(), listed) for call in calls if call.usage and listed), Decimal(0))
    told = next((rate.multiplier for rate in reversed(evidence.rates) if rate.multiplier is not None), None)
    charged = sum((call.net for call in calls), Decimal(0)) / official if official else None
    return Ratios(evidence.target.claim.ratio, told, charged)


def _against_claim(evidence: Evidence, knowledge: Knowledge, bill: Bill, done: tuple[Judged, ...]) -> list[Finding]:
    """Higher than claimed. What the public list shows at that hour is a tariff, and only noted. A claim may mean the
    group's ratio or the multiple of the list: it is broken only where both are above it, unless the list is closed; then
    the multiple alone is a sign of no weight."""
    ratios = told(evidence, knowledge, bill, done)
    claimed, charged = ratios.claimed, ratios.charged
    group = max((item.tariff.group * item.tariff.factor for item in done), default=charged)
    if claimed is None or (charged is None and group is None):
        return []
    limit = claimed * (1 + TOLERANCE)
    multiple = charged if charged is not None else group
    if multiple is None or group is None or multiple <= limit:
        return []
    if group <= limit and ratios.published is not None:
        return []  # a markup on the model that the list shows
    calls = [item.call for item in done] or list(bill.joined)
    params = {"n": len(calls), "untrusted_group": _group_of(calls), "hours": hours(calls), **ratios.params()}
    params["charged_ratio"] = _text(multiple)
    weak = group <= limit
    shown = ratios.published is not None and multiple <= ratios.published * (1 + TOLERANCE)
    severity: Severity | None = "info" if shown else "low" if weak else None
    return [finding("billing.ratio_differs_from_claim", params, exchanges=ids(calls), severity=severity,
                    confidence="supporting" if weak or shown else "strong", basis="relay_word")]  # fmt: skip


def _groups(evidence: Evidence, bill: Bill) -> list[Finding]:
    """The group in the rows beside the claimed one. A claim may be a label of a shop window rather than a group's name:
    one that the price list does not know is a sign of no weight."""
    claimed = evidence.target.claim.group.strip()
    named = [call for call in bill.joined if call.rows[0].group]
    other = [call for call in named if not _same(claimed, call.rows[0].group)]
    if not claimed or not other or claimed.casefold() == "auto":
        return []
    known = {*evidence.site.group_ratio, *evidence.site.usable_groups}
    sure = any(_same(claimed, name) for name in known)
    groups = sorted({call.rows[0].group for call in other})
    params = {"n": len(other), "of": len(named), "claimed": claimed, "untrusted_groups": groups}
    return [finding("billing.group_differs_from_claim", params, exchanges=ids(other), severity=None if sure else "low",
                    confidence="strong" if sure else "supporting", basis="relay_word")]  # fmt: skip


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def _group_of(calls: list[Call]) -> str:
    return next((row.group for call in calls for row in call.rows if row.group), "")


def _text(value: Decimal | None) -> str | None:
    return None if value is None else money(value.quantize(RATE).normalize())
