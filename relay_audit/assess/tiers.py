"""The tier table: what each ordered film was quoted, charged, given back, and is against the vendor's price of that tier.

Charges are the books' own; without books there is no figure. A low tier says nothing about a high one.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

from relay_audit.assess.billing_films import above_the_list, booked_twice
from relay_audit.assess.billing_tiers import judge_tiers
from relay_audit.assess.film_link import task_of
from relay_audit.books import LogRow
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.exchange import pointer, says_error
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Step
from relay_audit.reconcile import reconcile
from relay_audit.target import VideoTier
from relay_audit.tiers import REFUND_WITHIN, Movement, TierRecord, TierState, TierTable
from relay_audit.video import shows_refunds
from relay_audit.words import money

NOT_OFFERED = re.compile(r"resolution|\b\d{3,4}p\b|\b[248]k\b|分辨率|清晰度|画质", re.IGNORECASE)
"""Words of a refusal that speaks of the tier, not of the prompt, the load or the balance."""


def assess_tiers(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    table = tier_table(evidence, knowledge)
    known = [record for record in table.records if record.movements]
    found: list[Finding] = []
    if known:
        rows = [_told(record) for record in table.records]
        seen = tuple(x for record in known for x in record.exchanges)
        found.append(finding("billing.tiers_measured", {"n": len(known), "table": rows}, exchanges=seen,
                             basis="relay_word", observed={r.tier.resolution + f"_{r.tier.seconds}s": _figures(r)
                                                           for r in table.records}))  # fmt: skip
    return [*found, *booked_twice(evidence), *above_the_list(evidence), *_turned_down(table, evidence)]


def _turned_down(table: TierTable, evidence: Evidence) -> list[Finding]:
    """What was refused or failed. Whether a refund is missing is said only of one that would be seen, after its time; one
    within the job's time is prompt."""
    found: list[Finding] = []
    for record in table.records:
        for one in judge_tiers(TierTable(records=(record,))):
            if one.code == "billing.refund_missing":
                found.append(_refund(one, record, evidence))
            elif one.code != "billing.refund_late" or one.params["delay_s"] > REFUND_WITHIN.total_seconds():
                found.append(one)
    return [*found, *(one for record in table.records for one in _unlisted(record))]


def _refund(missing: Finding, record: TierRecord, evidence: Evidence) -> Finding:
    """Missing, or only not seen: too early, in a log that shows a key no refunds, or come back by the balance alone."""
    waited = _waited(record, evidence)
    rows = [row for row in evidence.own_rows() if row.exchange in record.exchanges]
    order = next((e for e in evidence.exchanges if e.id in record.exchanges[:1]), None)
    books = reconcile(evidence.balance, evidence.log, evidence.site.quota_per_unit)
    if order is None or not shows_refunds(order, record.task_id, rows):
        why = "refunds_not_shown"
    elif books is not None and books.gap <= -record.net:
        why = "balance_came_back"
    elif waited < REFUND_WITHIN.total_seconds():
        why = "refund_may_come"
    else:
        return missing.model_copy(update={"params": {**missing.params, "waited_s": waited}})
    params = {key: missing.params[key] for key in ("charged", "refunded", "difference")}
    params |= {"waited_s": waited, "reason": why}
    return finding("billing.refund_open", params, exchanges=missing.exchanges, basis="relay_word")


def _waited(record: TierRecord, evidence: Evidence) -> int:
    """Seconds from the end of a task to the last look into the books."""
    if record.ended_at is None:
        return 0
    last = max((reading.at for reading in evidence.log if reading.state == "read"), default=record.ended_at)
    return max(round((last - record.ended_at).total_seconds()), 0)


def tier_table(evidence: Evidence, knowledge: Knowledge) -> TierTable:
    """In the order of the plan: cheapest first."""
    steps = [step for step in evidence.plan.steps if step.order] if evidence.plan else []
    return TierTable(records=tuple(_record(evidence, knowledge, step) for step in steps))


def _record(evidence: Evidence, knowledge: Knowledge, step: Step) -> TierRecord:
    if step.order is None:
        raise ValueError(f"{step.id} orders no film")
    task, order, last = task_of(evidence, step)
    tier = VideoTier(resolution=step.order.resolution, seconds=step.order.seconds)
    price = _quoted(evidence, step)
    listed = knowledge.video_price_of(evidence.target.official_model, evidence.started_at.date())
    second = listed.per_second.get(tier.resolution, listed.per_second.get("any")) if listed else None
    if order is None:
        return TierRecord(tier=tier, quoted=price, official=second * tier.seconds if second else None)
    media = next((one for one in evidence.media if one.step == step.id), None)
    state: TierState = "pending"
    ended = last.sent_at if last and task.state in ("done", "failed") else None
    if order.delivery == "unconfirmed":
        state = "unconfirmed"
    elif (order.status or 0) // 100 != 2 or says_error(order.answer()):
        said = order.response.readable()[:2000] if order.response and (order.status or 0) // 100 in (2, 4) else ""
        state, ended = "refused" if NOT_OFFERED.search(said) else "failed", order.sent_at
    elif not task.task_id:
        state = "unconfirmed"
    elif task.state == "failed":
        state = "refused" if NOT_OFFERED.search(task.reason) else "failed"
    elif media is not None:
        state = "delivered" if media.file and not media.file.no_film else "not_fetched"
    rows = [row for row in evidence.own_rows() if row.exchange == order.id]
    return TierRecord(
        tier=tier,
        state=state,
        quoted=price,
        official=second * tier.seconds if second else None,
        advertised=_advertised(evidence, step),
        movements=tuple(m for row in rows if (m := _movement(row, evidence.site.quota_per_unit)) is not None),
        exchanges=tuple(e.id for e in (order, last) if e),
        task_id=task.task_id,
        ended_at=ended,
    )


def _quoted(evidence: Evidence, step: Step) -> Decimal | None:
    quote = evidence.quote
    prices = (*quote.steps, *quote.later_steps) if quote else ()
    return next((price.expected for price in prices if price.step == step.id), None)


def _movement(row: LogRow, per_unit: int) -> Movement | None:
    worth = row.charged(per_unit)
    if not worth:
        return None
    return Movement(
        at=row.created_at, amount=abs(worth), kind="charge" if worth > 0 else "refund", exchange=row.exchange
    )


def _advertised(evidence: Evidence, step: Step) -> bool | None:
    """Whether the relay's own price list names this tier beside the model; None where there is no list to read."""
    pricing = evidence.of_step("discovery.pricing")
    rows = pointer(pricing.answer(), "/data") if pricing and pricing.status == 200 else None
    if not isinstance(rows, list) or step.order is None:
        return None
    own = [r for r in rows if isinstance(r, dict) and r.get("model_name") == evidence.target.model]
    text = json.dumps(own, ensure_ascii=False).lower()
    return step.order.resolution in text if own else None


def _told(record: TierRecord) -> str:
    """One line of the table, alike in every language: tier, state, charge, refund, net, multiple of the official price."""
    ratio = f"×{record.ratio.quantize(Decimal('0.001'))}" if record.ratio is not None else "–"
    sums = (
        " / ".join(money(value) for value in (record.charged, record.refunded, record.net)) if record.movements else "–"
    )
    return f"{record.tier.resolution} {record.tier.seconds} s: {sums} / {ratio}"


def _figures(record: TierRecord) -> dict[str, str | None]:
    known = bool(record.movements)
    return {
        "state": record.state,
        "quoted": money(record.quoted) if record.quoted is not None else None,
        "charged": money(record.charged) if known else None,
        "refunded": money(record.refunded) if known else None,
        "net": money(record.net) if known else None,
        "official": money(record.official) if record.official is not None else None,
        "ratio": money(record.ratio.quantize(Decimal("0.0001"))) if record.ratio is not None else None,
    }


def _unlisted(record: TierRecord) -> list[Finding]:
    """Charged and turned down, but nobody had offered it: low."""
    if record.state != "refused" or not record.charged or record.advertised:
        return []
    params = {
        "tier": f"{record.tier.resolution}, {record.tier.seconds} s", "charged": money(record.charged),
        "refunded": money(record.refunded), "difference": money(record.net),
    }  # fmt: skip
    return [finding("billing.tier_refused", params, exchanges=record.exchanges, severity="low", basis="relay_word")]
