"""A film's charge against the price list and what is named beside it; and an order that stands in the log twice.

A list names the price of a film or of a second, and length and size multiply it: new-api names those multipliers in the
answer to an order, or in the row. Where they are named, the charge follows from them. Where they are not, a multiple
that no usual one explains is a question for the relay, no finding against it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

from relay_audit.assess.billing_calls import dollars
from relay_audit.assess.billing_tariff import further, ratio
from relay_audit.books import LogRow
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding
from relay_audit.plan import Step
from relay_audit.reconcile import reconcile
from relay_audit.video import told_ratios
from relay_audit.words import money

SAME = Decimal("1.005")
"""Charges are whole quota units, and multipliers are printed with few figures."""
NAMED = ("seconds", "size")
"""Multipliers of a film by their names in a row."""
BASES = (1, 4, 5, 6, 8, 10)
"""Lengths for which a list may name a film's price; new-api takes four where an order says nothing."""
SIZES = (Decimal(1), Decimal("1.666667"))
"""What a size multiplies by (1792 × 1024)."""
SEVERAL = 2
"""So many films with a copy each are no coincidence on a key without other traffic."""


class Charged(NamedTuple):
    """A film's charge beside what it comes to, in site dollars."""

    order: Exchange
    charged: Decimal
    again: Decimal


def booked_twice(evidence: Evidence) -> list[Finding]:
    """Rows like the one of our order, under an id that no answer of ours had. On a key where no other row was ever seen it
    is said; beside other traffic it is a question: whoever shares the key may have ordered such a film."""
    read = [reading for reading in evidence.log if reading.state == "read"]
    orders = {order.id: order for _, order in _orders(evidence)}
    foreign = read[-1].foreign if read else None
    twinned = [xid for xid in foreign.alike if xid in orders] if foreign is not None else []
    if not twinned or foreign is None:
        return []
    per_unit = evidence.site.quota_per_unit
    extra = Decimal(foreign.alike_quota) / per_unit + foreign.alike_amount
    alone = foreign.alike_rows == foreign.count and not read[-1].own_earlier
    books = reconcile(evidence.balance, evidence.log, per_unit)
    paid = books is not None and abs(books.gap) < Decimal(1) / per_unit
    first = sum((row.charged(per_unit) for xid in twinned if (row := _charge(evidence, xid))), Decimal(0))
    params = {
        "n": len(twinned), "rows": len(twinned) + foreign.alike_rows, "charged": dollars(first + extra),
        "difference": dollars(extra), "taken": paid, "road": "film",
    }  # fmt: skip
    if not alone:
        return [finding("billing.duplicate_charge", params, exchanges=tuple(twinned), outcome="inconclusive", severity="info",
                        basis="relay_word")]  # fmt: skip
    sure = paid and len(twinned) >= SEVERAL
    return [finding("billing.duplicate_charge", params, exchanges=tuple(twinned), severity="medium" if sure else "low",
                    confidence="strong" if sure else "supporting", basis="relay_word")]  # fmt: skip


def above_the_list(evidence: Evidence) -> list[Finding]:
    """Films charged above the published price of a film times everything that answer and row name."""
    published = evidence.site.published
    price = published.model_price if published is not None and published.quota_type == 1 else None
    changed = any(look.published is not None and look.published.model_price != price for look in evidence.prices)
    if not price or changed:
        return []
    named: list[Charged] = []
    unnamed: list[Charged] = []
    for step, order in _orders(evidence):
        row = _charge(evidence, order.id)
        group = _group(evidence, row) if row is not None else None
        if row is None or not group:
            continue
        charged, once = row.charged(evidence.site.quota_per_unit), price * group
        told = _named(order, row)
        again = once * max(told.values(), default=Decimal(1))
        if charged <= again * SAME + Decimal(1) / evidence.site.quota_per_unit:
            continue
        if told and ("seconds" in told or not _a_length(step, charged / again)):
            named.append(Charged(order, charged, again))
        elif not told and not _usual(evidence, step, charged / once):
            unnamed.append(Charged(order, charged, once))
    return [*_said(named, sure=True), *_said(unnamed, sure=False)]


def _said(films: list[Charged], *, sure: bool) -> list[Finding]:
    if not films:
        return []
    charged, again = sum((f.charged for f in films), Decimal(0)), sum((f.again for f in films), Decimal(0))
    factors = sorted({money((f.charged / f.again).quantize(Decimal("0.001")).normalize()) for f in films})
    params = {
        "n": len(films), "charged": dollars(charged), "recomputed": dollars(again), "difference": dollars(charged - again),
        "cause": "arithmetic", "factor": ", ".join(factors), "road": "film" if sure else "film_unnamed",
    }  # fmt: skip
    where = tuple(film.order.id for film in films)
    if sure:
        return [finding("billing.overcharged", params, exchanges=where, severity="medium", confidence="strong",
                        basis="relay_word")]  # fmt: skip
    return [finding("billing.overcharged", params, exchanges=where, outcome="inconclusive", severity="info",
                    basis="relay_word")]  # fmt: skip


def _orders(evidence: Evidence) -> list[tuple[Step, Exchange]]:
    steps = [step for step in evidence.plan.steps if step.order] if evidence.plan else []
    return [(step, order) for step in steps if (order := evidence.of_step(step.id)) is not None]


def _charge(evidence: Evidence, exchange: str) -> LogRow | None:
    """The row that was written with the order: later ones, which name the task, settle it."""
    rows = [r for r in evidence.own_rows() if r.exchange == exchange and r.kind == "consume" and not r.task]
    return min(rows, key=lambda row: row.created_at, default=None)


def _group(evidence: Evidence, row: LogRow) -> Decimal | None:
    """The ratio that the row names, which may be the buyer's own, or the list's."""
    listed = evidence.site.group_ratio.get(row.group or evidence.target.claim.group or "default")
    return max((one for one in (ratio(row.other.get("group_ratio")), listed) if one is not None), default=None)


def _named(order: Exchange, row: LogRow) -> dict[str, Decimal]:
    """What is named, and under each name the largest product that holds it: the answer's multipliers, the row's, and the
    row's further ones. Empty where neither names any."""
    said = {key: one for key in NAMED if (one := ratio(row.other.get(key))) is not None and one > 0}
    told, more = told_ratios(order), further(row)
    names = {*told, *said, *(("further",) if more != 1 else ())}
    most = max(math.prod(told.values(), start=Decimal(1)), math.prod(said.values(), start=Decimal(1))) * max(
        more, Decimal(1)
    )
    return dict.fromkeys(names, most)


def _lengths(step: Step) -> list[Decimal]:
    seconds = step.order.seconds if step.order is not None else 1
    return [Decimal(1), *(Decimal(seconds) / base for base in BASES)]


def _a_length(step: Step, multiple: Decimal) -> bool:
    """What is named does not name the length, and the length is what is left."""
    return any(one / SAME <= multiple <= one * SAME for one in _lengths(step))


def _usual(evidence: Evidence, step: Step, multiple: Decimal) -> bool:
    """A multiple of the list price that a length, a size or a dearer picture may explain. Only of the dialect's own
    resolution is it known that a picture multiplies nothing."""
    video = evidence.pack.video
    if step.order is None or video is None or step.order.resolution != video.default_resolution:
        return True
    return any(_a_length(step, multiple / size) for size in SIZES)
