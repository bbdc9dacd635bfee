"""new-api's own words: public facts, prices, balance, and the log joined row by row."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

from relay_audit.books import LogReading, SiteFacts
from relay_audit.exchange import Exchange
from relay_audit.relays import new_api, panel, tariff
from relay_audit.relays.asked import Asked, Own
from relay_audit.usage import Usage
from tests.assess.evidence_builders import KNOWLEDGE, MODEL, START, answered, at, lost

TODAY = START.date()
SITE = SiteFacts(software="new-api", group_ratio={"default": Decimal(1), "discount": Decimal("0.3")})


def page(body: object, *, status: int = 200, step: str = "discovery.pricing") -> Exchange:
    return answered(1, step, body, moment=START, status=status)


# Public facts


def test_public_facts_are_read():
    status = page({"data": {"version": "v0.9.6", "quota_per_unit": 100_000, "price": 7.3, "quota_display_type": "CNY"}})
    pricing = page({"group_ratio": {"default": 1, "官转": 0.3, "bad": "x", "worse": -1, "true": True}})
    site = panel.read_site(status, pricing, SiteFacts(software="new-api"))
    assert (site.version, site.quota_per_unit, site.price_cny, site.display_type) == (
        "v0.9.6",
        100_000,
        Decimal("7.3"),
        "CNY",
    )
    assert site.group_ratio == {"default": Decimal(1), "官转": Decimal("0.3")}
    assert site.software == "new-api"


@pytest.mark.parametrize(
    ("status", "pricing"),
    [
        (None, None),
        (page("<html>"), page("<html>")),
        (page({"data": []}), page([1])),
        (page({"data": {"quota_per_unit": 5}}, status=500), page({"group_ratio": {"default": 2}}, status=403)),
        (page({"data": {"quota_per_unit": 0, "version": 7, "price": "7"}}), page({"group_ratio": [2]})),
        (page({"data": {"quota_per_unit": -5, "price": 1e300}}), page({"group_ratio": None})),
        (page({"data": {"quota_per_unit": 1.5}}), page({})),
    ],
)
def test_what_a_site_does_not_say_stays_as_it_was(status, pricing):
    site = panel.read_site(status, pricing, SiteFacts())
    assert (site.version, site.quota_per_unit, site.price_cny, site.group_ratio) == ("", 500_000, None, {})


def test_a_strangers_text_is_cut():
    site = panel.read_site(page({"data": {"version": "v" * 5000}}), None, SiteFacts())
    assert len(site.version) == 200


# Prices


def listed(**changes) -> Exchange:
    row = {
        "model_name": MODEL,
        "quota_type": 0,
        "model_ratio": 1,
        "completion_ratio": 5,
        "enable_groups": ["default"],
        **changes,
    }
    return page({"data": [{"model_name": "other", "model_ratio": 9}, "junk", row]})


def test_a_price_per_million_tokens():
    price = panel.read_price(listed(cache_ratio=0.1, create_cache_ratio=1.25), MODEL, "", SITE, TODAY)
    assert (price.input, price.output, price.cache_read) == (2, 10, Decimal("0.2"))
    assert (price.cache_write_5m, price.cache_write_1h) == (Decimal("2.5"), 4)
    assert (price.per_call, price.assumed, price.observed) == (None, False, TODAY)
    assert price.source == "GET /api/pricing, group default"


def test_the_group_and_the_sites_unit_are_part_of_it():
    assert panel.read_price(listed(), MODEL, "discount", SITE, TODAY).input == Decimal("0.6")
    assert "group discount" in panel.read_price(listed(), MODEL, "discount", SITE, TODAY).source
    finer = SITE.model_copy(update={"quota_per_unit": 1_000_000})
    assert panel.read_price(listed(), MODEL, "", finer, TODAY).input == 1
    bare = panel.read_price(listed(), MODEL, "", SITE, TODAY)
    assert (bare.cache_read, bare.cache_write_5m, bare.cache_write_1h) == (None, None, None)


def test_a_price_per_call():
    price = panel.read_price(listed(quota_type=1, model_price=0.02), MODEL, "discount", SITE, TODAY)
    assert (price.per_call, price.input, price.output) == (Decimal("0.006"), 0, 0)


def test_without_a_default_group_the_dearest_that_is_open_counts():
    site = SiteFacts(group_ratio={"a": Decimal(2), "b": Decimal(3), "closed": Decimal(9)})
    assert panel.read_price(listed(enable_groups=["a", "b", "unheard", 5]), MODEL, "", site, TODAY).input == 6
    for odd in (None, 7, "ab", {}, []):
        assert panel.read_price(listed(enable_groups=odd), MODEL, "", site, TODAY) is None


@pytest.mark.parametrize(
    "pricing",
    [
        None,
        page("<html>"),
        page({"data": None}),
        page({"data": {}}),
        page({"data": []}),
        listed(model_name="else"),
        listed(billing_mode="tiered_expr"),
        listed(model_ratio=None),
        listed(completion_ratio="5"),
        listed(model_ratio=True),
        listed(model_ratio=-1),
        listed(quota_type=1),
        listed(quota_type=1, model_price=-1),
        listed(model_ratio=1e12),
    ],
    ids=lambda e: e.response.body[:40] if e else "none",
)
def test_a_price_that_cannot_be_computed_is_none(pricing):
    assert panel.read_price(pricing, MODEL, "", SITE, TODAY) is None


def test_an_unknown_group_has_no_price():
    assert panel.read_price(listed(), MODEL, "vip", SITE, TODAY) is None


@pytest.mark.parametrize(
    ("ratio", "factor"), [(None, 1), (Decimal("0.3"), 1), (Decimal(1), 1), (Decimal("1.5"), Decimal("1.5"))]
)
def test_what_is_assumed_of_a_relay_that_publishes_nothing(ratio, factor):
    official = tariff.list_price(KNOWLEDGE, MODEL, TODAY)
    price = tariff.known_price(KNOWLEDGE, MODEL, ratio, TODAY)
    assert official.input > 0
    assert not official.assumed
    assert price.assumed
    for name in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read"):
        assert getattr(price, name) == getattr(official, name) * factor
    assert f"× {factor}:" in price.source


def test_an_unknown_model_has_no_price_at_all():
    assert tariff.known_price(KNOWLEDGE, "no-such-model", None, TODAY) is None
    assert tariff.list_price(KNOWLEDGE, "no-such-model", TODAY) is None
    assert tariff.list_price(KNOWLEDGE, MODEL, dt.date(2020, 1, 1)) is None


# Balance


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ({"total_used": 250_000, "total_available": 1_000_000, "unlimited_quota": False}, (250_000, Decimal(2), False)),
        ({"total_used": 1, "total_available": -500_000}, (1, Decimal(-1), False)),
        ({"total_used": 1, "total_available": 9, "unlimited_quota": True}, (1, None, True)),
        ({"total_used": -1, "total_available": "9", "unlimited_quota": "yes"}, (None, None, False)),
        ({"total_available": True}, (None, None, False)),
        ({"total_available": 1.5}, (None, None, False)),
        ({}, (None, None, False)),
        ([], (None, None, False)),
    ],
)
def test_a_balance(data, read):
    assert new_api.read_balance(page({"data": data}), SITE) == read


def test_a_balance_that_was_refused():
    assert new_api.read_balance(page({"data": {"total_used": 1}}, status=401), SITE) == (None, None, False)
    assert new_api.read_balance(lost(1, "reading.balance"), SITE) == (None, None, False)


# The log


def row(request_id: str = "", **changes) -> dict:
    return {
        "id": 1,
        "created_at": int(START.timestamp()) + 1,
        "type": 2,
        "model_name": MODEL,
        "quota": 38,
        "prompt_tokens": 18,
        "completion_tokens": 4,
        "is_stream": False,
        "group": "default",
        "channel": 7,
        "request_id": request_id,
        "username": "somebody",
        "token_name": "theirs",
        "content": "private words",
        "ip": "203.0.113.9",
        "other": json.dumps(
            {"model_ratio": 1, "group_ratio": 1, "completion_ratio": 5, "admin_info": {"use_channel": ["7"]}}
        ),
        **changes,
    }


def ours(
    number: int = 1, rid: str = "", *, usage: Usage | None = None, seconds: float = 0
) -> tuple[Exchange, Usage | None]:
    headers = ((new_api.REQUEST_ID, rid),) if rid else ()
    exchange = answered(number, f"s{number}", {"id": "m"}, moment=at(seconds), headers=headers, sent={"model": MODEL})
    return exchange, usage if usage is not None else Usage(input=18, output=4)


def read(rows: object, *sent: tuple[Exchange, Usage | None], asked: Exchange | None = None, **envelope) -> LogReading:
    asked = asked or answered(90, "reading.log.after", "", moment=at(60))
    body = rows if isinstance(rows, str) else json.dumps({"success": True, "data": rows, **envelope})
    own = Own(sent, MODEL, SITE, lambda name: f"[account:{name}]", tuple(e for e, _ in sent))
    return new_api.read_rows(Asked(asked, body), own, "new_api").reading


def test_a_row_joins_by_its_request_id():
    reading = read([row("r-2", quota=50), row("r-1")], ours(1, "r-1"), ours(2, "r-2"))
    assert [(r.exchange, r.quota) for r in reading.rows] == [("X0002", 50), ("X0001", 38)]
    assert (reading.state, reading.foreign.count, reading.exchange, reading.at) == ("read", 0, "X0090", at(60))


def test_what_is_kept_of_a_row():
    [kept] = read([row("r-1", upstream_request_id="up", is_stream=True)], ours(1, "r-1")).rows
    assert (kept.kind, kept.model, kept.prompt_tokens, kept.completion_tokens) == ("consume", MODEL, 18, 4)
    assert (kept.group, kept.channel, kept.upstream_request_id, kept.is_stream) == (
        "default",
        "[account:7]",
        "up",
        True,
    )
    assert kept.created_at == at(1)
    assert kept.other == {"model_ratio": 1, "group_ratio": 1, "completion_ratio": 5}
    assert not any(
        word in kept.model_dump_json() for word in ("somebody", "theirs", "private", "203.0.113.9", "use_channel")
    )


@pytest.mark.parametrize(
    ("type_", "kind"),
    [(2, "consume"), (5, "error"), (6, "refund"), (1, "topup"), ("2", "other"), (None, "other"), (True, "other")],
)
def test_kinds(type_, kind):
    assert read([row("r-1", type=type_)], ours(1, "r-1")).rows[0].kind == kind


def test_other_traffic_leaves_a_count_a_sum_and_a_span():
    foreign = [
        row("f-1", quota=100, created_at=int(at(-500).timestamp())),
        row("f-2", quota=7, type=6),
        row("f-3", quota=5),
    ]
    reading = read([*foreign, row("r-1")], ours(1, "r-1"))
    assert [r.exchange for r in reading.rows] == ["X0001"]
    assert (reading.foreign.count, reading.foreign.quota) == (3, 98)
    assert (reading.foreign.first, reading.foreign.last) == (at(-500), at(1))


def test_an_older_generation_joins_by_time_model_and_tokens():
    sent = (ours(1), ours(2, seconds=30, usage=Usage(input=40, output=4)))
    reading = read([row(prompt_tokens=40, created_at=int(at(31).timestamp())), row()], *sent)
    assert [r.exchange for r in reading.rows] == ["X0002", "X0001"]


INPUTS = (20, 45, 31, 90, 18, 64)


def in_turn(counted: list[int], *more: dict) -> list[str]:
    """Rows of an older generation without ids, ten seconds apart, for calls whose answers told other inputs."""
    rows = [row(prompt_tokens=n, created_at=int(at(10 * i + 1).timestamp())) for i, n in enumerate(counted)]
    sent = [ours(i, f"r-{i}", seconds=10 * i, usage=Usage(input=n, output=4)) for i, n in enumerate(INPUTS)]
    return [r.exchange for r in read([*rows, *more], *sent).rows if r.exchange]


def test_rows_that_count_more_input_are_joined_where_each_call_has_one_in_its_turn():
    assert in_turn([n + 200 for n in INPUTS]) == [f"X{i:04d}" for i in range(len(INPUTS))]
    assert in_turn([round(1.3 * n) for n in INPUTS]) == [f"X{i:04d}" for i in range(len(INPUTS))]


def test_nothing_is_joined_in_turn_beside_other_traffic_or_for_a_few_calls():
    more = [n + 200 for n in INPUTS]
    assert in_turn(more, row(prompt_tokens=7)) == []
    assert in_turn(more[:-1]) == []
    assert in_turn([n + (i < 2) * 200 for i, n in enumerate(INPUTS)]) == ["X0002", "X0003", "X0004", "X0005"]
    sent = [ours(i, f"r-{i}", seconds=10 * i, usage=Usage(input=n, output=4)) for i, n in enumerate(INPUTS[:5])]
    late = [row(prompt_tokens=n, created_at=int(at(10 * i + 1).timestamp())) for i, n in enumerate(more[:5])]
    assert [r for r in read(late, *sent).rows if r.exchange] == []


def test_cached_tokens_may_be_part_of_a_rows_prompt():
    usage = Usage(input=18, cache_read=100, output=4)
    assert read([row(prompt_tokens=118)], ours(1, usage=usage)).rows[0].exchange == "X0001"
    assert read([row(prompt_tokens=18)], ours(1, usage=usage)).rows[0].exchange == "X0001"


@pytest.mark.parametrize(
    "changes",
    [{"prompt_tokens": 19}, {"completion_tokens": 5}],
    ids=str,
)
def test_a_row_that_fits_none_stays_loose_inside_the_window(changes):
    reading = read([row(**changes)], ours(1))
    assert [r.exchange for r in reading.rows] == [""]
    assert reading.foreign.count == 0


def test_a_row_that_fits_two_stays_loose():
    reading = read([row()], ours(1), ours(2, seconds=1))
    assert [r.exchange for r in reading.rows] == [""]


def test_two_rows_do_not_take_one_exchange():
    assert sorted(r.exchange for r in read([row(), row()], ours(1)).rows) == ["", "X0001"]


@pytest.mark.parametrize(("seconds", "mine"), [(-3, True), (-4, False), (120, True), (121, False)])
def test_the_window_of_a_row(seconds, mine):
    reading = read([row(created_at=int(at(seconds).timestamp()))], ours(1))
    assert bool(reading.rows) is mine
    assert reading.foreign.count == (0 if mine else 1)


def test_another_model_is_other_traffic():
    assert read([row(model_name="other")], ours(1)).foreign.count == 1


def test_a_row_with_an_unknown_id_could_be_that_of_a_lost_answer():
    dead = (lost(1, "s1").model_copy(update={"sent_at": START}), None)
    assert [r.exchange for r in read([row("r-unknown")], dead).rows] == [""]
    assert read([row("r-unknown")], ours(1, "r-1")).foreign.count == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"quota": "38"},
        {"quota": None},
        {"quota": True},
        {"quota": 1.5},
        {"quota": 2**53},
        {"created_at": None},
        {"created_at": -5},
        {"created_at": 2**52},
        {"created_at": "now"},
    ],
    ids=str,
)
def test_a_row_that_is_no_row_is_passed_over(changes):
    reading = read([row("r-1", **changes)], ours(1, "r-1"))
    assert (reading.state, reading.rows, reading.foreign.count) == ("read", (), 0)


@pytest.mark.parametrize(
    "other", ["", "{", "[1]", None, 5, '{"model_ratio": {"deep": 1}}', '{"claude": null}', "[" * 50_000]
)
def test_a_rows_free_part_is_cut_down(other):
    [kept] = read([row("r-1", other=other)], ours(1, "r-1")).rows
    assert kept.other in ({}, {"claude": None})


def test_long_texts_and_lists_are_cut():
    other = {"upstream_model_name": "x" * 900, "request_conversion": ["a"] * 20, "po": ["a"] * 21, "claude": True}
    [kept] = read([row("r-1", other=other)], ours(1, "r-1")).rows
    assert len(kept.other["upstream_model_name"]) == 200
    assert (kept.other["request_conversion"], "po" in kept.other, kept.other["claude"]) == (["a"] * 20, False, True)


def refused(status: int, **more) -> Exchange:
    return answered(90, "reading.log.after", "", moment=at(60), status=status, **more)


@pytest.mark.parametrize(
    ("asked", "body", "state", "reason"),
    [
        (lost(90, "reading.log"), "", "unavailable", "no_answer"),
        (refused(429), "slow down", "limited", "rate_limited"),
        (refused(200, cut=True), "{", "unavailable", "too_large"),
        (refused(200), "<html>", "unavailable", "not_json"),
        (refused(200), "[" * 100_000, "unavailable", "not_json"),
        (refused(401), "<html>", "unavailable", "refused"),
        (refused(401), '{"success": true, "data": []}', "unavailable", "refused"),
        (refused(200), '{"success": false, "message": "no"}', "unavailable", "refused"),
        (refused(200), '{"success": "true", "data": []}', "unavailable", "refused"),
        (refused(200), "[]", "unavailable", "refused"),
        (refused(200), '{"success": true, "data": []}', "empty", "empty"),
        (refused(200), '{"success": true, "data": null}', "empty", "empty"),
        (refused(200), '{"success": true, "data": {"items": []}}', "unavailable", "unknown_form"),
        (refused(200), '{"success": true, "data": [1]}', "unavailable", "unknown_form"),
    ],
)
def test_a_log_that_cannot_be_read(asked, body, state, reason):
    reading = read(body, ours(1), asked=asked)
    assert (reading.state, reading.reason, reading.rows, reading.truncated) == (state, reason, (), False)


def test_a_full_log_is_cut():
    rows = [row("r-1"), *[row(f"f-{n}") for n in range(new_api.MAX_ROWS - 1)]]
    assert read(rows, ours(1, "r-1")).truncated
    assert not read(rows[:-1], ours(1, "r-1")).truncated
    assert read(rows * 3, ours(1, "r-1")).foreign.count == 3 * (new_api.MAX_ROWS - 1)


def test_generations_tell_themselves_by_a_header():
    plain, marked = page({}), answered(2, "s", {}, moment=START, headers=(("X-New-Api-Version", "v1"),))
    assert new_api.old_generation((plain,))
    assert not new_api.old_generation((plain, marked))
    assert not new_api.old_generation(())
    assert not new_api.old_generation((lost(1, "s"),))


RATIO_LIST = {
    "model_ratio": {MODEL: 1.5},
    "completion_ratio": {MODEL: 5},
    "cache_ratio": {MODEL: 0.1},
    "model_price": {},
}


def ratios_of(body: object, status: int = 200):
    asked = Asked(page(body, status=status, step="reading.ratios.after"), json.dumps(body))
    return new_api.NewApi().read_ratios(asked, MODEL)


def test_the_list_of_ratios_is_read_where_it_is_exposed():
    said = ratios_of({"success": True, "data": RATIO_LIST})
    assert (said.quota_type, said.model_ratio, said.completion_ratio) == (0, Decimal("1.5"), Decimal(5))
    assert (said.cache_ratio, said.create_cache_ratio) == (Decimal("0.1"), None)
    fixed = ratios_of({"success": True, "data": {"model_price": {MODEL: 0.02}}})
    assert (fixed.quota_type, fixed.model_price) == (1, Decimal("0.02"))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"success": False, "message": "倍率配置接口未启用"}, 403),
        ({"success": False, "data": RATIO_LIST}, 200),
        ({"success": True, "data": {"model_ratio": {"other": 1}}}, 200),
        ({"success": True, "data": {"model_ratio": {MODEL: "x"}}}, 200),
        ({"success": True, "data": []}, 200),
        ([], 200),
    ],
)
def test_a_list_of_ratios_that_is_closed_or_does_not_name_the_model_is_none(body, status):
    assert ratios_of(body, status) is None
