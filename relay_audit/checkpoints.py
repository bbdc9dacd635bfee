"""Where a run stands, in few words: what was done, what it cost, what comes next. Codes and figures; the words are in the
catalogues.
"""

from __future__ import annotations

from typing import Any

from relay_audit.replay import History
from relay_audit.words import money


def standing(history: History, code: str, *, probe: str = "", reason: str = "") -> dict[str, Any]:
    """The payload of a checkpoint: what was done and spent so far, and which probe comes next."""
    plan, done = history.plan, history.sent_steps()
    paid = [*plan.chargeable(), *plan.chargeable("official")] if plan else []
    left = [step.probe for step in paid if step.id not in done]
    sent = [history.exchanges[xid] for xid in history.intents if xid in history.exchanges]
    return {
        "code": code,
        "probe": probe,
        "reason": reason,
        "next": left[0] if left else "",
        "sent": len(history.intents),
        "planned": len(paid),
        "answered": sum(exchange.delivery == "answered" for exchange in sent),
        "unconfirmed": sum(entry.state == "unconfirmed" for entry in history.ledger.entries),
        "spent": money(history.ledger.total("settled")),
    }
