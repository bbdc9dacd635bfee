"""Was something charged for which nothing, or not all, was delivered? Refusals, empty and broken-off answers, double rows.

A charge that was given back is none; when that took long, it is said. What we cut ourselves, and what a broken
connection may have taken away, is not laid at the relay's door.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from relay_audit.assess.billing_calls import Bill, Call, dollars, ids
from relay_audit.books import LogRow
from relay_audit.codes import finding
from relay_audit.finding import Finding, Severity
from relay_audit.reconcile import Reconciliation

PROMPT_REFUND = dt.timedelta(seconds=10)
"""A reserve is given back by a queue, within seconds; later than this it is late …"""
SLOW_REFUND = dt.timedelta(seconds=60)
"""… and from here on it has weight."""
SAID = frozenset({
    "text", "content", "thinking", "reasoning", "reasoning_content", "arguments", "input", "refusal", "data", "b64_json",
    "encrypted_content", "signature", "transcript", "url", "name", "code", "output", "query",
})  # fmt: skip
"""Keys under which an answer holds something that was made for the asker."""
ENDS = frozenset({
    "max_tokens", "length", "refusal", "content_filter", "stop_sequence", "pause_turn", "safety", "max_output_tokens",
    "model_context_window_exceeded", "max_tokens_reached", "recitation", "blocklist", "prohibited_content",
})  # fmt: skip
"""Ends after which an honest answer may be empty and is billed at the vendor too."""
COPIES = 3
"""So many calls with a copy each are no coincidence of somebody else's traffic."""
THOUGHT = ("reasoning_tokens", "thinking_tokens", "thoughtsTokenCount")


def delivery(bill: Bill, balance: Reconciliation | None) -> list[Finding]:
    return [
        *_refusals(bill),
        *_empty(bill),
        *_broken_off(bill),
        *_doubled(bill, balance),
        *_under_another_id(bill, balance),
    ]


def _refusals(bill: Bill) -> list[Finding]:
    """Refusals that were charged, by what became of the charge."""
    refused = [call for call in bill.joined if call.refused and _charges(call)]
    kept = [call for call in refused if call.net > 0 and _settled(call, bill)]
    reserves = [call for call in kept if call.refunds or all(_is_reserve(row) for row in _charges(call))]
    plain = [call for call in kept if call not in reserves]
    found = []
    if plain:
        statuses = sorted({call.exchange.status for call in plain if call.exchange.status})
        params = {"n": len(plain), "charged": dollars(_net(plain)), "statuses": statuses}
        found.append(
            finding("billing.error_charged", params, exchanges=ids(plain), confidence="strong", basis="relay_word")
        )
    if reserves:
        back = -sum((row.charged(bill.per_unit) for call in reserves for row in call.refunds), Decimal(0))
        params = {
            "n": len(reserves), "charged": dollars(_net(reserves) + back), "refunded": dollars(back),
            "difference": dollars(_net(reserves)), "waited_s": _waited(reserves, bill),
        }  # fmt: skip
        found.append(
            finding("billing.refund_missing", params, exchanges=ids(reserves), confidence="strong", basis="relay_word")
        )
    return [*found, *_late([call for call in refused if call.net <= 0], bill)]


def _late(returned: list[Call], bill: Bill) -> list[Finding]:
    late = [(call, delay) for call in returned if (delay := _delay(call)) > PROMPT_REFUND]
    if not late:
        return []
    longest = max(delay for _, delay in late)
    back = -sum((row.charged(bill.per_unit) for call, _ in late for row in call.refunds), Decimal(0))
    params = {"n": len(late), "refunded": dollars(back), "delay_s": round(longest.total_seconds())}
    severity: Severity | None = None if longest > SLOW_REFUND else "low"
    return [finding("billing.refund_late", params, exchanges=ids(call for call, _ in late), severity=severity,
                    confidence="strong", basis="relay_word")]  # fmt: skip


def _delay(call: Call) -> dt.timedelta:
    taken, back = [row.created_at for row in _charges(call)], [row.created_at for row in call.refunds]
    return max(back) - min(taken) if taken and back else dt.timedelta(0)


def _settled(call: Call, bill: Bill) -> bool:
    """The books were looked at again after a refund could be expected."""
    return bill.reading.at - call.exchange.sent_at >= PROMPT_REFUND


def _is_reserve(row: LogRow) -> bool:
    """A row of a reserve rather than of use: no tokens at all, or a task's."""
    return bool(row.task or row.other.get("is_task")) or not (row.prompt_tokens or row.completion_tokens)


def _charges(call: Call) -> list[LogRow]:
    """Rows that took something, but for a fee that the vendor of the model itself asks for a forbidden request."""
    return [row for row in call.charges if not row.other.get("violation_fee")]


def _empty(bill: Bill) -> list[Finding]:
    answered = [call for call in bill.joined if call.exchange.status == 200]
    empty = [call for call in answered if call.net > 0 and nothing_in(call)]
    if not empty:
        return []
    sure = len(empty) > 1 or all(call.usage is None or call.usage.output == 0 for call in empty)
    params = {"n": len(empty), "of": len(answered), "charged": dollars(_net(empty))}
    return [finding("billing.empty_reply_charged", params, exchanges=ids(empty), severity=None if sure else "low",
                    confidence="strong" if sure else "supporting", basis="relay_word")]  # fmt: skip


def nothing_in(call: Call) -> bool:
    """A whole answer with nothing in it: no text, no tool call, no thought, and no reason why an honest one is empty."""
    response = call.exchange.response
    if response is None or response.cut or call.exchange.failure or call.exchange.delivery != "answered":
        return False
    if response.body_bytes == 0 and not response.body:
        return True
    answer = call.exchange.answer()
    if not isinstance(answer, dict) or call.refused:
        return False
    if any(
        isinstance(end, str) and end.lower() in ENDS
        for end in _under(answer, ("stop_reason", "finish_reason", "finishReason", "reason"))
    ):
        return False
    if any(isinstance(n, int) and n > 0 for n in _under(answer, THOUGHT)):
        return False
    shaped = any(key in answer for key in ("content", "choices", "output", "candidates"))
    return shaped and not any(isinstance(text, str) and text.strip() for text in _under(answer, tuple(SAID)))


def _under(value: Any, keys: tuple[str, ...]) -> Iterator[Any]:  # noqa: ANN401  a stranger's JSON
    if isinstance(value, dict):
        for key, item in value.items():
            if key in keys:
                yield item
            yield from _under(item, keys)
    elif isinstance(value, list):
        for item in value:
            yield from _under(item, keys)


def _broken_off(bill: Bill) -> list[Finding]:
    """A stream that was opened and ended without its last event, cleanly and not by us."""
    broken = [call for call in bill.joined if call.net > 0 and _ended_early(call)]
    if not broken:
        return []
    of = sum(call.exchange.streamed() is not None for call in bill.joined)
    params = {"n": len(broken), "of": of, "charged": dollars(_net(broken))}
    return [
        finding("billing.incomplete_charged", params, exchanges=ids(broken), confidence="strong", basis="relay_word")
    ]


def _ended_early(call: Call) -> bool:
    exchange = call.exchange
    if exchange.status != 200 or exchange.delivery != "answered" or exchange.failure or exchange.hostility:
        return False
    stream = exchange.streamed()
    return stream is not None and not stream.complete and exchange.response is not None and not exchange.response.cut


def _doubled(bill: Bill, balance: Reconciliation | None) -> list[Finding]:
    """Two rows that took something for one sending. Where the balance says that only one was taken, the log lists it
    twice: then it has no weight."""
    doubled = [call for call in bill.joined if len(_of_use(call)) > 1 and call.net > _once(call)]
    if not doubled:
        return []
    extra = sum((call.net - _once(call) for call in doubled), Decimal(0))
    denied = balance is not None and abs(balance.gap + extra) < Decimal(1) / bill.per_unit
    params = {
        "n": len(doubled), "rows": sum(len(_of_use(call)) for call in doubled), "charged": dollars(_net(doubled)),
        "difference": dollars(extra), "taken": not denied,
    }  # fmt: skip
    return [finding("billing.duplicate_charge", params, exchanges=ids(doubled), severity="low" if denied else None,
                    confidence="supporting" if denied else "strong", basis="relay_word")]  # fmt: skip


def _under_another_id(bill: Bill, balance: Reconciliation | None) -> list[Finding]:
    """Rows like ours under ids that no answer of ours had: assigned to nobody, and named. They weigh where there is no other
    traffic on the key at all, and the balance fell by them too."""
    foreign = bill.reading.foreign
    if not foreign.alike_rows:
        return []
    extra = bill.dollars(foreign.alike_quota) + foreign.alike_amount
    alone = foreign.alike_rows == foreign.within and bill.reading.own_earlier == 0
    paid = balance is not None and abs(balance.gap) < Decimal(1) / bill.per_unit
    sure = alone and paid and len(foreign.alike) >= COPIES
    twinned = [call for call in bill.joined if call.id in foreign.alike]
    params = {
        "n": len(twinned), "rows": len(twinned) + foreign.alike_rows, "charged": dollars(_net(twinned) + extra),
        "difference": dollars(extra), "taken": paid, "road": "another_id",
    }  # fmt: skip
    return [finding("billing.duplicate_charge", params, exchanges=ids(twinned), severity=None if sure else "low",
                    confidence="strong" if sure else "supporting", basis="relay_word")]  # fmt: skip


def _of_use(call: Call) -> list[LogRow]:
    return [row for row in _charges(call) if not (row.task or row.other.get("is_task"))]


def _once(call: Call) -> Decimal:
    return max(row.charged(call.per_unit) for row in _of_use(call))


def _net(calls: list[Call]) -> Decimal:
    return sum((call.net for call in calls), Decimal(0))


def _waited(calls: list[Call], bill: Bill) -> int:
    return max(0, round((bill.reading.at - max(call.exchange.sent_at for call in calls)).total_seconds()))
