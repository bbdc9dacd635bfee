"""Which row of a relay's log belongs to which of our sendings: by the request id that both carry, else by time, model,
tokens and kind of delivery, and only where that leaves no choice. Never a guess: what fits two stays loose."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from email.utils import parsedate_to_datetime

from relay_audit.books import ForeignRows, LogRow
from relay_audit.exchange import Exchange
from relay_audit.relays.asked import Own
from relay_audit.usage import Usage

EARLY, LATE = dt.timedelta(seconds=3), dt.timedelta(seconds=120)
"""A row is written at the end of a call, in whole seconds, maybe by a queue."""
TWIN = dt.timedelta(seconds=10)
"""A second row for one call is written soon after it."""
SKEW_FROM_S = 5
"""A clock that is further off than this by its own `Date` header is allowed for."""
AHEAD = dt.timedelta(seconds=300)
ENOUGH = 3
"""Fewer rows than this could fit by chance where every id disagrees."""
IN_TURN = 6
"""From so many calls on, one row for each of them in their order is no chance."""

Sendings = list[tuple[Exchange, Usage | None]]


@dataclass
class Joined:
    ours: list[LogRow] = field(default_factory=list)
    """Joined rows, and loose ones that may be ours (`exchange` empty)."""
    foreign: list[LogRow] = field(default_factory=list)
    earlier: list[LogRow] = field(default_factory=list)
    """Rows of our other runs on this key."""
    ahead: int = 0
    twins: dict[int, frozenset[str]] = field(default_factory=dict)
    """Place in `foreign` → exchanges of ours that have their row already and that this row would fit as well."""


def join(rows: list[LogRow], own: Own, header: tuple[str, ...], also: dict[str, str] | None = None) -> Joined:
    """Every row in the order of the log. `header`: names of the answer's header that carries a row's request id; `also`:
    further ids that name an exchange."""
    ids = {**(also or {}), **_ids(own, header), **own.known}
    skew = _skew(own)
    certain = {n: ids[row.request_id] for n, row in enumerate(rows) if row.request_id in ids}
    certain |= {
        n: ids[row.upstream_request_id]
        for n, row in enumerate(rows)
        if n not in certain and row.upstream_request_id in ids
    }
    certain |= {n: own.tasks[row.task] for n, row in enumerate(rows) if n not in certain and row.task in own.tasks}
    taken = set(certain.values()) | set(own.known.values())
    open_ = [(e, usage) for e, usage in own.sent if e.id not in taken]
    free = {n: row for n, row in enumerate(rows) if n not in certain and row.request_id not in own.earlier}
    fitted = certain | _by_fit(free, open_, own, header, skew, nothing_certain=not certain)
    done, films = Joined(), _film_charges(rows, fitted)
    latest = max((e.sent_at for e in own.answers), default=None)
    for n, row in enumerate(rows):
        done.ahead += latest is not None and row.created_at - skew > latest + AHEAD + LATE
        if n in fitted:
            done.ours.append(row.model_copy(update={"exchange": fitted[n]}))
        elif row.request_id and row.request_id in own.earlier:
            done.earlier.append(row)
        elif _may_be_ours(row, open_, own, header, skew):
            done.ours.append(row)
        else:
            if twins := _twins(row, own, frozenset(fitted.values()), skew) or _film_twins(row, own, films, skew):
                done.twins[len(done.foreign)] = twins
            done.foreign.append(row)
    return done


def _twins(row: LogRow, own: Own, joined: frozenset[str], skew: dt.timedelta) -> frozenset[str]:
    """Exchanges with a row of their own whose copy this row could be, under another id."""
    if row.kind != "consume":
        return frozenset()
    return frozenset(
        e.id
        for e, usage in own.sent
        if e.id in joined
        and usage is not None
        and _fits(row, e, usage, own, skew)
        and row.created_at - skew <= e.sent_at + dt.timedelta(milliseconds=e.elapsed_ms) + TWIN
    )


def _film_charges(rows: list[LogRow], fitted: dict[int, str]) -> dict[str, LogRow]:
    """Exchange → the first row that took something for it: a film is charged in full when it is ordered."""
    found: dict[str, LogRow] = {}
    for n, exchange in sorted(fitted.items(), key=lambda item: rows[item[0]].created_at):
        if rows[n].kind == "consume":
            found.setdefault(exchange, rows[n])
    return found


def _film_twins(row: LogRow, own: Own, films: dict[str, LogRow], skew: dt.timedelta) -> frozenset[str]:
    """Orders of films whose charge this row could be once more: an order has no tokens, but a model, an amount and a
    moment. What names a task of ours is not asked here: it is ours."""
    if row.kind != "consume" or not (row.quota or row.amount):
        return frozenset()
    orders = set(own.tasks.values())
    return frozenset(
        e.id
        for e, _ in own.sent
        if e.id in orders
        and (first := films.get(e.id)) is not None
        and (row.model, row.quota, row.amount) == (first.model, first.quota, first.amount)
        and e.sent_at - EARLY <= row.created_at - skew <= e.sent_at + dt.timedelta(milliseconds=e.elapsed_ms) + TWIN
    )


def summed(
    rows: list[LogRow], since: dt.datetime | None, twins: Mapping[int, frozenset[str]] | None = None
) -> ForeignRows:
    """All that is kept of other traffic. `twins` as in `Joined`. A row is dated in whole seconds, and so is `since` here."""
    since = since.replace(microsecond=0) if since is not None else None
    copies = {n: ids for n, ids in (twins or {}).items() if since is not None and rows[n].created_at >= since}
    span = [row.created_at for row in rows]
    within = [row for row in rows if since is not None and row.created_at >= since]
    return ForeignRows(
        count=len(rows),
        quota=sum(map(_quota, rows)),
        amount=sum(map(_amount, rows), Decimal(0)),
        first=min(span, default=None),
        last=max(span, default=None),
        within=len(within),
        within_quota=sum(map(_quota, within)),
        within_amount=sum(map(_amount, within), Decimal(0)),
        alike=tuple(sorted(frozenset().union(*copies.values()))),
        alike_quota=sum(_quota(rows[n]) for n in copies),
        alike_amount=sum((_amount(rows[n]) for n in copies), Decimal(0)),
        alike_rows=len(copies),
    )


def _quota(row: LogRow) -> int:
    quota = row.quota or 0
    return quota if row.kind in ("consume", "error") else -abs(quota) if row.kind == "refund" else 0


def _amount(row: LogRow) -> Decimal:
    return row.charged(1) if row.amount is not None else Decimal(0)


def _ids(own: Own, header: tuple[str, ...]) -> dict[str, str]:
    """Request id → exchange. An id that stands on two answers names neither."""
    seen: dict[str, set[str]] = {}
    for exchange, _ in own.sent:
        for name in header:
            if exchange.response and (value := exchange.response.header(name)):
                seen.setdefault(value, set()).add(exchange.id)
    return {value: next(iter(found)) for value, found in seen.items() if len(found) == 1}


def _skew(own: Own) -> dt.timedelta:
    """How far the relay's clock is ahead of ours, by the `Date` of its answers; nothing where that is seconds."""
    ahead = []
    for exchange, _ in own.sent:
        text = exchange.response.header("date") if exchange.response else None
        try:
            said = parsedate_to_datetime(text) if text else None
        except ValueError:
            said = None
        if said is not None and said.tzinfo is not None:
            early = (said - exchange.sent_at).total_seconds()
            late = early - exchange.elapsed_ms / 1000
            ahead.append(early if early < 0 else max(late, 0.0))
    middle = statistics.median(ahead) if ahead else 0.0
    return dt.timedelta(seconds=middle if abs(middle) > SKEW_FROM_S else 0)


def _by_fit(
    rows: dict[int, LogRow],
    sent: Sendings,
    own: Own,
    header: tuple[str, ...],
    skew: dt.timedelta,
    *,
    nothing_certain: bool,
) -> dict[int, str]:
    """Rows and sendings of which one side has no id. Where both have, and not one agrees, the upstream's header stood in
    the place of the relay's (new-api before 2026-05): then all of them have to fit, or none is joined."""
    named = {e.id for e, _ in sent if _named(e, header)}
    one_sided = _fitted({n: row for n, row in rows.items() if not row.request_id}, sent, own, skew)
    nameless = [(e, usage) for e, usage in sent if e.id not in named and e.id not in one_sided.values()]
    with_id = {n: row for n, row in rows.items() if row.request_id}
    one_sided |= _fitted(with_id, nameless, own, skew)
    open_rows = {n: row for n, row in rows.items() if not row.request_id or not any(_named(e, header) for e, _ in sent)}
    if nothing_certain and (in_turn := _in_turn(open_rows, sent, own, skew, fitted=len(one_sided))):
        return in_turn
    if one_sided or not nothing_certain:
        return one_sided
    replaced = _fitted(with_id, sent, own, skew)
    answered = {e.id for e, usage in sent if usage is not None}
    return replaced if len(answered) >= ENOUGH and answered <= set(replaced.values()) else {}


def _fitted(rows: dict[int, LogRow], sent: Sendings, own: Own, skew: dt.timedelta) -> dict[int, str]:
    """As many rows as sendings that fit each other alike are joined in order of time, if they
    charge alike: then every way to join them says the same. Anything else stays loose."""
    fits = {
        n: frozenset(e.id for e, usage in sent if usage is not None and _fits(row, e, usage, own, skew))
        for n, row in rows.items()
        if row.kind == "consume"
    }
    found: dict[int, str] = {}
    for exchanges in {ids for ids in fits.values() if ids}:
        alike = sorted((n for n, ids in fits.items() if ids == exchanges), key=lambda n: (rows[n].created_at, -n))
        overlapping = any(ids & exchanges and ids != exchanges for ids in fits.values())
        charges = {(rows[n].quota, rows[n].amount) for n in alike}
        if overlapping or len(charges) > 1 or len(alike) < len(exchanges):
            continue
        found |= dict(zip(alike, sorted(exchanges), strict=False))
    return found


def _in_turn(rows: dict[int, LogRow], sent: Sendings, own: Own, skew: dt.timedelta, *, fitted: int) -> dict[int, str]:
    """Rows that differ from the calls in nothing but the input: one for each call, in the same order. Books that count
    more than the answers said fit no call by their tokens, and would pass for other people's traffic. Other traffic in
    between breaks the count; rows with the same input in sum are the calls' own, told apart by nothing."""
    calls = [(e, usage) for e, usage in sent if usage is not None]
    near = {n: row for n, row in rows.items() if any(_alike(row, e, usage, own, skew) for e, usage in calls)}
    if len(calls) < IN_TURN or 2 * fitted > len(calls) or len(near) != len(calls):
        return {}
    booked = sum(row.prompt_tokens for row in near.values())
    if booked in (sum(u.input for _, u in calls), sum(u.billed_input for _, u in calls)):
        return {}
    places = sorted(near, key=lambda n: (*_kind(near[n]), near[n].created_at, near[n].prompt_tokens))
    turns = sorted(calls, key=lambda c: (c[1].output, _streamed(c[0]), _ended(c[0]).replace(microsecond=0), c[1].input))
    pairs = list(zip(places, turns, strict=True))
    fit = all(_alike(near[n], e, usage, own, skew) for n, (e, usage) in pairs)
    return {n: e.id for n, (e, _) in pairs} if fit else {}


def _kind(row: LogRow) -> tuple[int, bool]:
    return row.completion_tokens, bool(row.is_stream)


def _streamed(exchange: Exchange) -> bool:
    return (exchange.request.body or {}).get("stream") is True


def _ended(exchange: Exchange) -> dt.datetime:
    return exchange.sent_at + dt.timedelta(milliseconds=exchange.elapsed_ms)


def _fits(row: LogRow, exchange: Exchange, usage: Usage, own: Own, skew: dt.timedelta) -> bool:
    return row.prompt_tokens in (usage.input, usage.billed_input) and _alike(row, exchange, usage, own, skew)


def _alike(row: LogRow, exchange: Exchange, usage: Usage, own: Own, skew: dt.timedelta) -> bool:
    """A row of just such a call, whatever input it counts."""
    body = exchange.request.body or {}
    return (
        row.kind == "consume"
        and _in_window(row, exchange, skew)
        and row.model in (body.get("model", own.model), _answered_as(exchange))
        and row.completion_tokens == usage.output
        and row.is_stream in (None, _streamed(exchange))
    )


def _answered_as(exchange: Exchange) -> str:
    """The model that the answer names: a software that books what really answered writes that one."""
    answer = exchange.answer()
    inner = answer.get("message", answer) if isinstance(answer, dict) else {}
    name = inner.get("model") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else ""


def _in_window(row: LogRow, exchange: Exchange, skew: dt.timedelta) -> bool:
    start = exchange.sent_at - EARLY
    end = exchange.sent_at + dt.timedelta(milliseconds=exchange.elapsed_ms) + LATE
    return start <= row.created_at - skew <= end


def _named(exchange: Exchange, header: tuple[str, ...]) -> bool:
    return any(exchange.response and exchange.response.header(name) for name in header)


def _may_be_ours(row: LogRow, sent: Sendings, own: Own, header: tuple[str, ...], skew: dt.timedelta) -> bool:
    """A row inside the window of a sending whose answer gave us no request id to join by."""
    return row.model == own.model and any(_in_window(row, e, skew) and not _named(e, header) for e, _ in sent)
