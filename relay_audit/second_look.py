"""Once everything is settled: do rows and balance agree, is a refund still on its way, and does the price list still say
what it said? Only where something is open the books are read once more, after a bounded wait.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

from relay_audit.books import PriceReading
from relay_audit.multiple import EVEN, unread
from relay_audit.reconcile import Reconciliation, reconcile, rows_of
from relay_audit.relays.panel import PRICING
from relay_audit.settlement import SETTLING, Settlement
from relay_audit.target import origin_of
from relay_audit.transport import Outgoing

HELD = dt.timedelta(seconds=70)
"""A balance that lost more than the rows say may still hold what was reserved for us, or for a long call of somebody else
whose row is not written yet, or be settled once a minute."""
LATE_ROWS = 2 * SETTLING
"""How long after the last sending rows are waited for that the balance has paid for."""
REFUNDS = 2 * SETTLING
"""How long after the last sending a refund is waited for."""


async def look_again(settlement: Settlement) -> None:
    """Raises nothing of its own; reads nothing where no books could be read."""
    history = settlement.recorder.history
    if not any(row.exchange for reading in history.log for row in reading.rows):
        return
    await _prices(settlement)
    if refund_open(settlement):
        await _after(settlement, REFUNDS)
    elif rows_and_balance_differ(settlement) or usage_page_differs(settlement):
        await _after(settlement, _patience(settlement))


def _patience(settlement: Settlement) -> dt.timedelta:
    """A log that has stopped to answer is not waited for."""
    if settlement.recorder.history.log[-1].state not in ("read", "empty"):
        return SETTLING
    whole = settlement.rows_are_whole()
    if balance_lost_more(settlement) and (whole or beyond_the_missing_rows(settlement)):
        return HELD
    return SETTLING if whole else LATE_ROWS


def refund_open(settlement: Settlement) -> bool:
    """A refused call is still charged."""
    history = settlement.recorder.history
    refused = {e.id for e in history.sent() if e.delivery == "answered" and e.status != 200}
    read = [reading for reading in history.log if reading.state == "read"]
    rows = [row for row in (rows_of(read) if read else ()) if row.exchange in refused]
    return sum((row.charged(history.site.quota_per_unit) for row in rows), Decimal(0)) > 0


def rows_and_balance_differ(settlement: Settlement) -> bool:
    found = _reconciled(settlement)
    return found is not None and found.gap != 0 and not found.foreign_rows


def balance_lost_more(settlement: Settlement) -> bool:
    found = _reconciled(settlement)
    return found is not None and found.gap > 0 and not found.foreign_rows


def beyond_the_missing_rows(settlement: Settlement) -> bool:
    """Whether it lost more than rows that are not there yet would say, by the forecast of their calls: then whoever
    judges has to know that nothing came any more."""
    found = _reconciled(settlement)
    return found is not None and found.gap > unread(settlement.recorder.history.ledger) * EVEN


def _reconciled(settlement: Settlement) -> Reconciliation | None:
    history = settlement.recorder.history
    return reconcile(tuple(history.balance), tuple(history.log), history.site.quota_per_unit)


def usage_page_differs(settlement: Settlement) -> bool:
    """The usage page moved by something else than our rows come to; it may only be late."""
    history = settlement.recorder.history
    told = [reading.dollars for reading in history.usage if reading.dollars is not None]
    read = [reading for reading in history.log if reading.state == "read"]
    if len(told) < 2 or not read or read[-1].foreign.within:
        return False
    rows = sum((row.charged(history.site.quota_per_unit) for row in rows_of(read)), Decimal(0))
    return abs(told[-1] - told[0] - rows) > rows / 100


async def _after(settlement: Settlement, patience: dt.timedelta) -> None:
    history, clock = settlement.recorder.history, settlement.sides.clock
    last = max(e.sent_at for e in history.sent())
    wait = (last + patience - clock.now()).total_seconds()
    if wait > 0 or history.balance[-1].at < last + SETTLING:
        await clock.sleep(max(wait, 0))
        await settlement.read_again()


async def _prices(settlement: Settlement) -> None:
    """The public list, without a key: a tariff may have changed since the quote. Its text is not kept a second time."""
    recorder, sides = settlement.recorder, settlement.sides
    history = recorder.history
    if history.site.published is None:
        await settlement.ratios()
        return
    endpoint = replace(sides.relay, base_url=origin_of(sides.relay.base_url), secret=None)
    answer = await sides.transport.send(endpoint, Outgoing("GET", PRICING, authenticated=False))
    short = answer.response.model_copy(update={"body": ""}) if answer.response else None
    exchange = recorder.free(replace(answer, response=short), "reading.prices.after", "relay")
    whole = exchange.model_copy(update={"response": answer.response})
    again = settlement.adapter.read_site(None, whole, history.site, history.target.subject.model)
    recorder.reading(
        PriceReading(
            at=exchange.sent_at, exchange=exchange.id, published=again.published, group_ratio=again.group_ratio
        )
    )
