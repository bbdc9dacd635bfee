"""Whether the next chargeable step may leave. Pure: it reads the ledger and what was answered, never an assessor."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from relay_audit.exchange import Exchange, says_error
from relay_audit.ledger import Ledger
from relay_audit.quote import Line, StepPrice
from relay_audit.words import Frozen

StopReason = Literal[
    "ceiling", "line_exceeded", "hold_above_balance", "balance_exhausted", "two_unconfirmed", "three_failures",
    "key_refused", "gated", "approval_expired", "asked", "books_unreadable", "month_ceiling",
    "tier_failed", "tier_refused", "charge_differs", "unconfirmed", "waiting_task",
]  # fmt: skip

EXHAUSTED = ("insufficient_user_quota", "insufficient_balance", "pre_consume_token_quota_failed", "quota_exhausted",
             "billing_error", "额度不足", "预扣费额度失败", "余额不足", "token quota is not enough", "insufficient balance",
             "credit balance is too low")  # fmt: skip
GATED = ("client not allowed", "client_validation_error", "only accepts requests from", "client is not authorized",
         "not in allowed list", "client_not_allowed")  # fmt: skip


class Decision(Frozen):
    go: bool
    reason: StopReason | None = None


GO = Decision(go=True)


def next_send(
    ledger: Ledger,
    price: StepPrice,
    line: Line,
    sent: tuple[Exchange, ...],
    balance: Decimal | None,
    *,
    multiple: Decimal = Decimal(1),
    unread: Decimal = Decimal(0),
) -> Decision:
    """`sent` are the chargeable exchanges so far, in order. `balance` in quote currency, None where unknown. `multiple`: by
    how much the relay's books have shown a call to cost more than its answer said; `unread`: what of the ledger stands by
    answers alone."""
    if (stop := breaker(sent)) is not None:
        return stop
    if ledger.committed + unread * (multiple - 1) + price.at_most * multiple > ledger.ceiling:
        return Decision(go=False, reason="ceiling")
    spent = ledger.total("settled", line=line.id) + ledger.total("unconfirmed", line=line.id)
    if spent > line.at_most:
        return Decision(go=False, reason="line_exceeded")
    if balance is not None and price.hold > balance:
        return Decision(go=False, reason="hold_above_balance")
    return GO


def after_refusal(accepted: bool, charged: Decimal | None, price: StepPrice) -> Decision:
    """Whether a stage of refusals goes on after one of them. `charged` is what the relay's own books say it cost, None
    where they cannot be read: then one that was accepted (200) ends its stage for good."""
    if charged is not None and charged > price.at_most:
        return Decision(go=False, reason="line_exceeded")
    if accepted and charged is None:
        return Decision(go=False, reason="books_unreadable")
    return GO


def breaker(sent: tuple[Exchange, ...]) -> Decision | None:
    """The circuit breaker: an exhausted balance, a shut gate, two unconfirmed sends, three failures in a row."""
    if any(is_exhausted(exchange) for exchange in sent):
        return Decision(go=False, reason="balance_exhausted")
    if any(is_gated(exchange) for exchange in sent):
        return Decision(go=False, reason="gated")
    if sent and sent[-1].status == 401 and not any(exchange.status == 200 for exchange in sent):
        return Decision(go=False, reason="key_refused")
    if sum(exchange.delivery == "unconfirmed" for exchange in sent) >= 2:
        return Decision(go=False, reason="two_unconfirmed")
    if len(sent) >= 3 and all(failed(exchange) for exchange in sent[-3:]):
        return Decision(go=False, reason="three_failures")
    return None


def was_answered(exchange: Exchange) -> bool:
    """Taken and answered: 200 with an error in its body is a refusal."""
    return exchange.status == 200 and not says_error(exchange.answer())


def failed(exchange: Exchange) -> bool:
    """No answer, a refusal, or something no client can read (a web page, a cut or empty body)."""
    if exchange.delivery != "answered" or exchange.status != 200:
        return True
    answer = exchange.answer()
    return exchange.response is None or exchange.response.cut or not isinstance(answer, dict) or says_error(answer)


def is_exhausted(exchange: Exchange) -> bool:
    return exchange.status in (400, 401, 402, 403, 429) and _mentions(exchange, EXHAUSTED)


def is_gated(exchange: Exchange) -> bool:
    return exchange.status in (400, 401, 403) and _mentions(exchange, GATED)


def _mentions(exchange: Exchange, words: tuple[str, ...]) -> bool:
    text = exchange.response.readable().lower() if exchange.response else ""
    return any(word in text for word in words)
