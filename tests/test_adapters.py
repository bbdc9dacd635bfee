"""Every software's books in their own forms, as they were recorded or read in source; hostile forms of them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.books import BalanceReading, SiteFacts, Totals, UsageReading
from relay_audit.exchange import Exchange
from relay_audit.fingerprint import Knowledge
from relay_audit.relays import dashboard
from relay_audit.relays.asked import Asked, Own
from relay_audit.relays.claude_relay_service import ClaudeRelayService
from relay_audit.relays.detect import PAGE_STEP, detect, questions
from relay_audit.relays.generic import Generic
from relay_audit.relays.litellm import CALL_ID, COST, ORIGINAL, LiteLlm
from relay_audit.relays.registry import ADAPTERS, adapter_of
from relay_audit.relays.sub2api import Sub2Api
from relay_audit.usage import Usage
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, START, answered, at, lost

SITE = SiteFacts()


def asked(body: object, *, status: int = 200, cut: bool = False) -> Asked:
    text = body if isinstance(body, str) else json.dumps(body)
    return Asked(answered(90, "reading", "", moment=at(60), status=status, cut=cut), text)


def sent(n: int = 1, *, seconds: float = 0, usage: Usage | None = None, headers: tuple[tuple[str, str], ...] = (),
         answer: dict[str, Any] | None = None, stream: bool = False) -> tuple[Exchange, Usage | None]:  # fmt: skip
    body = {"model": MODEL, "stream": True} if stream else {"model": MODEL}
    exchange = answered(
        n, f"s{n}", answer or {"id": f"msg_{n}", "model": MODEL}, moment=at(seconds), headers=headers, sent=body
    )
    return exchange, usage if usage is not None else Usage(input=18, output=4)


def own(*sendings: tuple[Exchange, Usage | None], **more: Any) -> Own:
    return Own(sendings, MODEL, SITE, lambda name: f"[account:{name}]", tuple(e for e, _ in sendings), **more)


# Which adapter reads what


@pytest.mark.parametrize(
    ("software", "name"),
    [
        ("new-api", "new_api"),
        ("one-api", "one_api"),
        ("veloera", "veloera"),
        ("sub2api", "sub2api"),
        ("claude-relay-service", "claude_relay_service"),
        ("litellm", "litellm"),
        ("hubrelay", "none"),
        ("portkey", "none"),
        ("unknown", "generic"),
        ("generic", "generic"),
        ("none", "none"),
        ("never-heard-of", "generic"),
    ],
)
def test_a_software_has_its_adapter(software, name):
    assert adapter_of(software, KNOWLEDGE).name == name


def test_every_adapter_of_the_data_exists_and_no_page_of_theirs_holds_a_key():
    assert {row.log_adapter for row in KNOWLEDGE.software} <= set(ADAPTERS)
    for adapter in ADAPTERS.values():
        for page in (adapter.log, adapter.balance, adapter.rate, *adapter.usage):
            assert page is None or ("key=" not in page.path and page.path.startswith("/"))


# Found by what they say


def page(path: str, body: object, status: int = 200) -> Exchange:
    exchange = answered(1, PAGE_STEP, body, moment=START, status=status)
    return exchange.model_copy(update={"request": exchange.request.model_copy(update={"path": path})})


def status(**data: object) -> Exchange:
    return answered(1, "discovery.status", {"success": True, "data": data}, moment=START)


OLD = {"version": "v0.6.11", "quota_per_unit": 500_000, "display_in_currency": True}


@pytest.mark.parametrize(
    ("exchange", "name"),
    [
        (status(**OLD), "one-api"),
        (status(**OLD, price=7.3), "new-api"),
        (status(**OLD, price=7.3, check_in_enabled=True), "veloera"),
        (page("/health", {"status": "healthy", "service": "claude-relay-service", "version": "1.1.314"}),
         "claude-relay-service"),
        (page("/health", {"status": "healthy", "service": "something"}), "unknown"),
        (page("/health", {"service": "claude-relay-service"}, 503), "unknown"),
        (page("/v1/models", {"service": "claude-relay-service"}), "unknown"),
        (page("/v1/usage", {"mode": "unrestricted", "isValid": True, "planName": "钱包余额", "balance": 3.2}), "sub2api"),
        (page("/v1/usage", {"isValid": True, "mode": "quota_limited", "quota": {}}), "sub2api"),
        (page("/v1/usage", {"mode": "dark"}), "unknown"),
        (page("/v1/sub2api/billing", {"object": "sub2api.key_billing"}), "sub2api"),
        (page("/health/liveliness", "I'm alive!"), "litellm"),
        (page("/health/liveliness", "<html>I'm alive!</html>"), "unknown"),
        (answered(1, "s", {"code": "INVALID_API_KEY", "message": "Invalid API key"}, moment=START, status=401), "sub2api"),
        (answered(1, "s", {"code": "INSUFFICIENT_BALANCE"}, moment=START, status=403), "unknown"),
        (answered(1, "s", {"code": "INVALID_API_KEY"}, moment=START), "unknown"),
    ],
    ids=lambda v: v if isinstance(v, str) else v.response.body[:50],
)  # fmt: skip
def test_a_free_signal_names_the_software(exchange, name):
    assert detect((exchange,), KNOWLEDGE)[0] == name


def test_an_old_new_api_behind_its_ancestors_header_is_still_new_api():
    header = answered(2, "s", {}, moment=START, headers=(("X-Oneapi-Request-Id", "r"),))
    assert detect((header, status(**OLD, price=1)), KNOWLEDGE)[0] == "new-api"
    assert detect((header, status(**OLD)), KNOWLEDGE)[0] == "one-api"


def test_what_is_asked_to_find_a_software_is_few_and_free():
    assert questions(KNOWLEDGE) == [
        ("/v1/sub2api/billing", True), ("/v1/usage", True), ("/health", False), ("/health/liveliness", False),
        ("/", False),
    ]  # fmt: skip
    assert questions(Knowledge()) == []


# sub2api: totals and the multiplier

TOTAL = {"requests": 9, "input_tokens": 100, "output_tokens": 20, "cache_creation_tokens": 3, "cache_read_tokens": 4,
         "total_tokens": 127, "cost": 101.45, "actual_cost": 15.03}  # fmt: skip
WALLET = {"mode": "unrestricted", "isValid": True, "planName": "钱包余额", "remaining": 24.93, "unit": "USD",
          "balance": 24.93, "usage": {"today": {}, "total": TOTAL},
          "model_stats": [{"model": "other"}, {"model": MODEL, "requests": 2, "cost": 1, "actual_cost": 0.15,
                                               "account_cost": 0.01}]}  # fmt: skip


def balance(body: object, **how: Any) -> BalanceReading:
    return Sub2Api().read_balance(asked(body, **how), SITE, "before", MODEL)


def test_sub2api_totals():
    read = balance(WALLET)
    assert (read.available, read.unlimited, read.adapter) == (Decimal("24.93"), False, "sub2api")
    assert read.totals == Totals(requests=9, input_tokens=100, output_tokens=20, cache_creation_tokens=3,
                                 cache_read_tokens=4, list_cost=Decimal("101.45"), cost=Decimal("15.03"))  # fmt: skip
    assert read.of_model is not None
    assert (read.of_model.requests, read.of_model.cost) == (2, Decimal("0.15"))
    assert read.spent(500_000) == Decimal("15.03")


def test_the_difference_of_two_totals_is_what_was_charged():
    after = json.loads(json.dumps(WALLET))
    after["usage"]["total"] |= {
        "requests": 11,
        "input_tokens": 136,
        "output_tokens": 28,
        "cost": 101.55,
        "actual_cost": 15.06,
    }
    first, last = balance(WALLET), balance(after)
    assert first.totals is not None
    assert last.totals is not None
    gone = last.totals.since(first.totals)
    assert gone is not None
    assert (gone.requests, gone.input_tokens, gone.output_tokens) == (2, 36, 8)
    assert (gone.list_cost, gone.cost, gone.cost / gone.list_cost) == (Decimal("0.10"), Decimal("0.03"), Decimal("0.3"))
    assert Sub2Api().difference(first, last, SITE) == Decimal("0.03")
    assert first.totals.since(last.totals) is None
    assert Sub2Api().difference(last, first, SITE) is None


def test_sub2api_limits_of_a_key():
    read = balance({"mode": "quota_limited", "isValid": True, "quota": {"limit": 5, "used": 1.5, "remaining": 3.5, "unit": "USD"},
                    "rate_limits": [{"window": "5h", "limit": 2, "used": 0.5, "remaining": 1.5}, "junk"],
                    "usage": {"total": TOTAL}})  # fmt: skip
    assert read.available == Decimal("3.5")
    assert [(a.window, a.limit, a.used, a.remaining) for a in read.allowances] == [
        ("", Decimal(5), Decimal("1.5"), Decimal("3.5")), ("5h", Decimal(2), Decimal("0.5"), Decimal("1.5")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    ["<html>", "[]", "null", {}, {"usage": 5}, {"usage": {"total": []}}, {"usage": {"total": TOTAL | {"actual_cost": "15"}}},
     {"usage": {"total": TOTAL | {"requests": -1}}}, {"usage": {"total": TOTAL | {"input_tokens": 1e30}}},
     '{"usage": {"total": {"requests": 1, "cost": 1, "actual_cost": NaN}}}', {"usage": {"total": TOTAL | {"actual_cost": 1e30}}}],
    ids=lambda b: str(b)[:60],
)  # fmt: skip
def test_half_a_total_is_none(body):
    read = balance(body)
    assert read.totals is None
    assert read.spent(500_000) is None


@pytest.mark.parametrize("how", [{"status": 401}, {"status": 429}, {"cut": True}])
def test_sub2api_refused(how):
    assert balance(WALLET, **how).totals is None


def test_sub2api_says_the_multiplier_of_the_moment_and_its_hours():
    billing = {"object": "sub2api.key_billing", "schema_version": 1, "billing_scope": "token", "group_rate_multiplier": 0.2,
               "resolved_rate_multiplier": 0.155, "user_rate_multiplier": 0.155, "peak_rate_enabled": True,
               "peak_start": "14:00", "peak_end": "18:00", "peak_rate_multiplier": 2, "applied_peak_multiplier": 2,
               "effective_rate_multiplier": 0.31, "timezone": "Asia/Shanghai", "observed_at": "2026-11-30T07:00:00Z"}  # fmt: skip
    read = Sub2Api().read_rate(asked(billing), "before")
    assert read is not None
    assert (read.multiplier, read.base, read.group) == (Decimal("0.31"), Decimal("0.155"), Decimal("0.2"))
    assert (read.peak, read.peak_multiplier, read.peak_start, read.peak_end) == (True, Decimal(2), "14:00", "18:00")
    assert (read.timezone, read.scope) == ("Asia/Shanghai", "token")
    for other in ("404 page not found", {"object": "else"}, {"type": "error"}, []):
        assert Sub2Api().read_rate(asked(other), "before") is None
    assert Sub2Api().read_rate(asked(billing, status=404), "before") is None


# claude-relay-service: the newest twenty


def record(n: int = 1, *, seconds: float = 2, **changes: Any) -> dict[str, Any]:
    return {"timestamp": at(seconds).isoformat().replace("+00:00", "Z"), "model": MODEL, "accountId": "acc-1",
            "accountType": "claude-console", "requestId": f"req-{n}", "endpoint": "/api/v1/messages", "statusCode": 200,
            "stream": False, "durationMs": 900, "inputTokens": 18, "outputTokens": 4, "cacheCreateTokens": 0,
            "cacheReadTokens": 0, "ephemeral5mTokens": 0, "ephemeral1hTokens": 0, "totalTokens": 22, "cost": 0.000114,
            "realCost": 0.0000570, **changes}  # fmt: skip


def usage_page(*records: object, **total: Any) -> dict[str, Any]:
    return {"usage": {"total": {"requests": 3, "inputTokens": 54, "outputTokens": 12, "cost": 0.5, **total},
                      "recentRecords": list(records)}}  # fmt: skip


def test_records_join_by_time_model_and_tokens():
    found = ClaudeRelayService().read_log(
        asked(usage_page(record(2, seconds=31, inputTokens=40), record(1))),
        own(sent(1), sent(2, seconds=30, usage=Usage(input=40, output=4))),
    )
    rows = found.reading.rows
    assert [(row.exchange, row.request_id) for row in rows] == [("X0002", "req-2"), ("X0001", "req-1")]
    assert (rows[0].amount, rows[0].list_amount, rows[0].quota) == (Decimal("0.000114"), Decimal("0.000057"), None)
    assert (rows[0].channel, rows[0].admissions.upstream_model) == ("[account:acc-1]", "")
    assert found.reading.foreign.count == 0


def test_the_model_that_really_answered_stands_in_the_record():
    other = "claude-3-haiku-20240307"
    [row] = (
        ClaudeRelayService()
        .read_log(asked(usage_page(record(model=other))), own(sent(answer={"id": "m", "model": other})))
        .reading.rows
    )
    assert (row.exchange, row.admissions.upstream_model) == ("X0001", other)


def test_what_was_joined_once_stays_joined_and_takes_no_second_call():
    known = {"req-1": "X0001"}
    found = ClaudeRelayService().read_log(
        asked(usage_page(record(2, seconds=4), record(1))), own(sent(1), sent(2, seconds=3), known=known)
    )
    assert [(row.exchange, row.request_id) for row in found.reading.rows] == [("X0002", "req-2"), ("X0001", "req-1")]
    gone = ClaudeRelayService().read_log(
        asked(usage_page(record(2, seconds=4))), own(sent(1), sent(2, seconds=3), known=known)
    )
    assert [(row.exchange, row.request_id) for row in gone.reading.rows] == [("X0002", "req-2")]


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (usage_page(), "empty"),
        ({"usage": {"total": {}}}, "unavailable"),
        ({"usage": {"recentRecords": {}}}, "unavailable"),
        ({}, "unavailable"),
        ("<html>", "unavailable"),
    ],
)
def test_pages_without_records(body, state):
    assert ClaudeRelayService().read_log(asked(body), own(sent())).reading.state == state


@pytest.mark.parametrize(
    "changes",
    [{"cost": "0.1"}, {"cost": -1}, {"cost": 1e30}, {"cost": None}, {"timestamp": "yesterday"}, {"timestamp": None}, {"timestamp": 1e30}],
    ids=str,
)  # fmt: skip
def test_a_record_that_is_none_is_counted_and_passed_over(changes):
    reading = ClaudeRelayService().read_log(asked(usage_page(record(**changes), 5)), own(sent())).reading
    assert (reading.rows, reading.unreadable) == ((), 2)


def test_the_cost_so_far_of_a_key():
    read = ClaudeRelayService().read_balance(asked(usage_page()), SITE, "after", MODEL)
    assert read.spent(500_000) == Decimal("0.5")
    assert ClaudeRelayService().read_balance(asked(usage_page(cost="5")), SITE, "after", MODEL).totals is None


# LiteLLM: a cost in each header


def priced(cost: str, original: str = "", call: str = "c-1") -> tuple[tuple[str, str], ...]:
    return ((COST, cost), (CALL_ID, call), *(((ORIGINAL, original),) if original else ()))


def test_a_header_is_a_row():
    reading = LiteLlm().read_headers(own(sent(headers=priced("5.7e-05", "5.0e-05")), sent(2)), START)
    assert reading is not None
    [row] = reading.rows
    assert (row.exchange, row.request_id, row.amount, row.list_amount) == (
        "X0001",
        "c-1",
        Decimal("0.000057"),
        Decimal("0.00005"),
    )
    assert (row.prompt_tokens, row.completion_tokens, row.quota) == (18, 4, None)
    assert (reading.source, reading.state, reading.exchange) == ("header", "read", "")


@pytest.mark.parametrize("text", ["", "None", "nan", "-1", "inf", "1e30", "free", "0x10", "9" * 80, "１２三"])
def test_a_cost_that_is_no_amount_is_none(text):
    assert LiteLlm().read_headers(own(sent(headers=priced(text))), START) is None


def test_without_a_header_there_is_no_reading():
    assert LiteLlm().read_headers(own(sent(), (lost(2, "s2"), None)), START) is None


def spend_row(**changes: Any) -> dict[str, Any]:
    return {"request_id": "c-1", "call_type": "anthropic_messages", "api_key": "hash", "spend": 5.7e-05, "total_tokens": 22,
            "prompt_tokens": 18, "completion_tokens": 4, "startTime": at(0).isoformat(), "endTime": at(1).isoformat(),
            "model": "anthropic/claude-3-haiku-20240307", "model_group": MODEL, "model_id": "d1", "user": "u", **changes}  # fmt: skip


def test_spend_logs_join_by_the_call_or_the_answers_id():
    found = (
        LiteLlm()
        .read_log(
            asked(
                [spend_row(request_id="msg_2"), spend_row(), spend_row(request_id="theirs", spend=1, model_group="x")]
            ),
            own(sent(headers=((CALL_ID, "c-1"),)), sent(2)),
        )
        .reading
    )
    assert [row.exchange for row in found.rows] == ["X0002", "X0001"]
    assert found.rows[0].admissions.upstream_model == "anthropic/claude-3-haiku-20240307"
    assert (found.foreign.count, found.foreign.amount, found.foreign.quota) == (1, Decimal(1), 0)
    assert "hash" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("body", "how", "state"),
    [([], {}, "empty"), ({"error": "no db"}, {"status": 500}, "unavailable"), ({"data": []}, {}, "unavailable"), ("x", {}, "unavailable")],
)  # fmt: skip
def test_spend_logs_that_do_not_answer(body, how, state):
    assert LiteLlm().read_log(asked(body, **how), own(sent())).reading.state == state


@pytest.mark.parametrize(
    ("info", "used", "left", "unlimited"),
    [
        ({"spend": 0.4, "max_budget": 1}, Decimal("0.4"), Decimal("0.6"), False),
        ({"spend": 0.4, "max_budget": None}, Decimal("0.4"), None, True),
        ({"spend": "x"}, None, None, False),
    ],
)
def test_a_keys_own_spend(info, used, left, unlimited):
    read = LiteLlm().read_balance(asked({"key": "h", "info": info}), SITE, "before", MODEL)
    assert (read.used, read.available, read.unlimited) == (used, left, unlimited)


# The usage pages that many imitate


def usage_reading(total: object, site: SiteFacts = SITE, limit: object = 100_000_000, **how: Any) -> UsageReading:
    pages = (asked({"object": "list", "total_usage": total}, **how), asked({"hard_limit_usd": limit}))
    read = dashboard.read_usage(pages, site, "before")
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("site", "dollars"),
    [
        (SiteFacts(display_type="USD"), Decimal("2.00")),
        (SiteFacts(display_type="CNY", usd_exchange_rate=Decimal("6.9")), Decimal("2.00") / Decimal("6.9")),
        (SiteFacts(display_type="CNY"), None),
        (SiteFacts(display_type="CUSTOM", custom_rate=Decimal(4)), Decimal("0.5")),
        (SiteFacts(display_type="TOKENS", quota_per_unit=100), Decimal("0.02")),
        (SiteFacts(display_in_currency=False, quota_per_unit=100), Decimal("0.02")),
        (SiteFacts(display_in_currency=True), Decimal("2.00")),
        (SiteFacts(), Decimal("2.00")),
        (SiteFacts(display_type="PIXELS", display_in_currency=True), Decimal("2.00")),
    ],
    ids=str,
)
def test_the_usage_page_follows_the_sites_display(site, dollars):
    read = usage_reading(200, site)
    assert (read.state, read.printed, read.dollars, read.unlimited) == ("read", Decimal(2), dollars, True)


@pytest.mark.parametrize("total", [None, "200", -1, True, 1e30])
def test_a_usage_that_is_no_number(total):
    read = usage_reading(total)
    assert (read.state, read.dollars) == ("unavailable", None)


def test_an_error_comes_as_200():
    read = dashboard.read_usage((asked({"error": {"message": "x"}, "total_usage": 5}),), SITE, "before")
    assert read is not None
    assert read.state == "unavailable"


def test_a_generic_balance_comes_from_the_usage_page():
    limited = Generic().balance_of(usage_reading(200, limit=5))
    assert limited is not None
    assert (limited.used, limited.available, limited.unlimited) == (Decimal(2), Decimal(3), False)
    free = Generic().balance_of(usage_reading(200))
    assert free is not None
    assert (free.available, free.unlimited) == (None, True)
    assert Generic().balance_of(usage_reading("x")) is None
    assert Generic().balance_of(usage_reading(200, SiteFacts(display_type="CNY"))) is None


def test_moments_are_utc_whatever_they_are_written_as():
    records = [record(n, timestamp=text) for n, text in enumerate(
        [int(at(2).timestamp()), int(at(2).timestamp() * 1000), at(2).astimezone(dt.timezone(dt.timedelta(hours=8))).isoformat(),
         at(2).replace(tzinfo=None).isoformat()])]  # fmt: skip
    rows = ClaudeRelayService().read_log(asked(usage_page(*records)), own(sent())).reading.rows
    assert {row.created_at for row in rows} == {at(2)}
    assert len(rows) == 4
