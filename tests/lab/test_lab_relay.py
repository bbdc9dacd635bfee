"""The new-api relay of the lab: bill, reserve, limiter, headers, log generations, shells."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from lab_calls import MODEL, Clock, body, get, headers, log_rows, post

from relay_audit.lab import HttpRequest, World, ids
from relay_audit.lab.billing import Tokens, charge, hold
from relay_audit.lab.models import Ratios


def rich() -> World:
    """An honest relay at which the key has so much that nothing is reserved."""
    return next(world for seed in range(50) if (world := World("honest", seed, Clock())).seen.granted > 6_000_000)


def price(model: str, completion: str, cache: str = "1", write: str = "1.25") -> Ratios:
    return Ratios(Decimal(model), Decimal(completion), Decimal(cache), Decimal(write))


@pytest.mark.parametrize(
    ("prompt", "completion", "model_ratio", "completion_ratio", "quota"),
    [
        (10, 7, "1.5", "5", 68),
        (6, 16, "0.8", "5", 69),
        (30, 35, "0.8", "5", 164),
        (30, 36, "0.8", "5", 168),
        (53, 104, "0.8", "5", 458),
        (66, 16, "0.5", "1", 41),
        (39, 16, "0.8", "1", 44),
        (6, 16, "0.8", "1", 18),
        (30, 45, "0.8", "1", 60),
        (30, 49, "0.8", "1", 63),
    ],
)
def test_the_formula_gives_recorded_charges(
    prompt: int, completion: int, model_ratio: str, completion_ratio: str, quota: int
) -> None:
    assert charge(Tokens(prompt, completion), price(model_ratio, completion_ratio)) == quota


def test_the_formula_at_its_edges() -> None:
    assert charge(Tokens(1, 0), price("0.01", "5")) == 1, "at least one where something is billable"
    assert charge(Tokens(0, 0), price("1", "5")) == 0, "nothing where the upstream gave no usage"
    assert charge(Tokens(5, 0), price("0.5", "5")) == 3, "2.5 is rounded away from zero"
    assert charge(Tokens(100, 0), price("1", "5"), Decimal("0.3")) == 30
    cached = Tokens(100, 0, cache_read=1000, cache_write_5m=200, cache_write_1h=100)
    assert charge(cached, price("1", "5", "0.05", "1.25")) == 100 + 50 + 250 + 200
    inside = Tokens(1000, 10, cache_read=400)
    assert charge(inside, price("1", "5", "0.1"), semantics="openai") == 600 + 40 + 50


def test_the_reserve_ignores_the_completion_ratio() -> None:
    assert hold(20, 16, price("1", "5")) == 516
    assert hold(2_000, 16, price("1.5", "5"), Decimal("0.3")) == 907


def test_each_call_writes_a_row_that_joins_by_header_and_recomputes() -> None:
    world = World("honest", 4, Clock())
    answers = [post(world), post(world, sent=body("另外一段话", system="brief"))]
    rows = log_rows(world)
    assert [row["id"] for row in rows] == [1, 2], "newest first, numbered by place"
    for row, answer in zip(rows, reversed(answers), strict=True):
        used = answer.json()["usage"]
        other = json.loads(row["other"])
        assert row["request_id"] == answer.header("x-oneapi-request-id")
        assert (row["prompt_tokens"], row["completion_tokens"]) == (used["input_tokens"], used["output_tokens"])
        assert row["quota"] == used["input_tokens"] + 5 * used["output_tokens"]
        assert (other["model_ratio"], other["completion_ratio"], other["claude"]) == (1.0, 5.0, True)
    assert get(world, "/api/usage/token/").json()["data"]["total_used"] == sum(row["quota"] for row in rows)


def test_plain_answers_carry_the_vendors_headers_and_streams_do_not() -> None:
    world = World("honest", 4, Clock())
    plain, stream = post(world), post(world, sent=body(stream=True))
    assert plain.header("Request-Id").startswith("req_011C")
    assert plain.header("anthropic-organization-id")
    assert any(name == "Anthropic-Ratelimit-Tokens-Limit" for name, _ in plain.headers), "title case"
    names = [name.lower() for name, _ in plain.headers]
    assert len(names) == len(set(names))
    assert "content-length" not in names
    assert not [name for name, _ in stream.headers if name.lower().startswith(("anthropic", "request-id", "cf-ray"))]
    assert stream.header("content-type") == "text/event-stream"
    for answer in (plain, stream):
        assert answer.header("X-New-Api-Version") == world.seen.version
        assert ids.NEW_API_BUILD in answer.header("X-Oneapi-Request-Id")


def test_stripped_headers_are_gone_and_the_rest_stays() -> None:
    answer = post(World("honest_stripped_headers", 4, Clock()))
    names = [name.lower() for name, _ in answer.headers]
    assert not [name for name in names if name.startswith(("anthropic-", "request-id", "cf-ray"))]
    assert names.count("date") == 1


def test_the_critical_limiter_is_one_bucket_of_twenty() -> None:
    clock = Clock()
    world = World("honest", 2, clock)
    routes = ["/api/log/token", "/api/usage/token/", "/api/ratio_config"]
    statuses = [get(world, routes[turn % 3]).status for turn in range(20)]
    assert set(statuses) == {200, 403}
    refused = get(world, "/api/log/token")
    assert (refused.status, refused.body) == (429, b"")
    assert get(world, "/api/status").status == 200, "the limiter stands before three routes only"
    clock.at += 1199
    assert get(world, "/api/usage/token/").status == 429
    clock.at += 1
    assert get(world, "/api/usage/token/").status == 200


def test_retry_after_depends_on_the_build() -> None:
    seen = set()
    for seed in range(12):
        world = World("honest", seed, Clock())
        for _ in range(21):
            answer = get(world, "/api/log/token")
        seen.add(answer.header("retry-after"))
    assert seen == {"", "1201"}


def test_the_old_log_ignores_the_header() -> None:
    world = World("honest_log_query_only", 1, Clock())
    answer = post(world)
    assert not answer.header("X-New-Api-Version")
    assert ids.NEW_API_BUILD not in answer.header("X-Oneapi-Request-Id")
    got = get(world, "/api/log/token")
    assert (got.status, got.json()) == (200, {"success": True, "message": "", "data": []})
    rows = get(world, f"/api/log/token?key={world.relay_key}", key="").json()["data"]
    assert len(rows) == 1
    assert rows[0]["id"] < 1024
    assert "request_id" not in rows[0]


def test_the_new_log_ignores_the_query() -> None:
    world = World("honest", 1, Clock())
    post(world)
    refused = world.handle(
        "relay", HttpRequest("GET", f"/api/log/token?key={world.relay_key}", (("accept-language", "en"),))
    )
    assert (refused.status, refused.json()) == (401, {"success": False, "message": "Token not provided"})


def test_a_late_row_appears_after_six_seconds() -> None:
    clock = Clock()
    world = World("honest_log_late", 1, clock)
    post(world)
    clock.at += 5.9
    assert log_rows(world) == []
    clock.at += 0.1
    assert len(log_rows(world)) == 1


def test_a_closed_log_shows_nothing_and_still_counts() -> None:
    world = World("honest_log_off", 1, Clock())
    post(world)
    assert log_rows(world) == []
    assert get(world, "/api/usage/token").json()["data"]["total_used"] > 0


def test_the_log_shows_its_newest_thousand() -> None:
    world = World("honest", 1, Clock())
    assert world.log is not None
    for number in range(1005):
        world.log.write(f"r{number}", MODEL, Tokens(10, 1), stream=False, use_time=1)
    rows = log_rows(world)
    assert (len(rows), rows[0]["request_id"], rows[-1]["request_id"]) == (1000, "r1004", "r5")


def test_foreign_rows_stand_between_ours() -> None:
    world = World("honest_foreign_rows", 1, Clock())
    own = {post(world).header("x-oneapi-request-id") for _ in range(6)}
    logged = [row["request_id"] for row in log_rows(world)]
    assert own < set(logged)
    assert world.log is not None
    assert {row["request_id"] for row in world.log.own_rows()} == own


def test_group_ratio_is_published_charged_and_logged() -> None:
    world = World("honest_group_ratio", 1, Clock())
    used = post(world).json()["usage"]
    row = log_rows(world)[0]
    exact = Decimal(used["input_tokens"] + 5 * used["output_tokens"]) * Decimal("0.3")
    assert abs(row["quota"] - exact) <= Decimal("0.5")
    assert (row["group"], json.loads(row["other"])["group_ratio"]) == ("discount", 0.3)
    assert get(world, "/api/pricing").json()["group_ratio"] == {"default": 1, "discount": 0.3}
    assert world.claim == {"channel": "anthropic", "group": "discount", "ratio": "0.3"}


def test_prices_are_the_official_list_in_relay_units() -> None:
    listed = {row["model_name"]: row for row in get(World("honest", 1, Clock()), "/api/pricing").json()["data"]}
    row = listed[MODEL]
    assert (row["model_ratio"], row["completion_ratio"], row["cache_ratio"], row["create_cache_ratio"]) == (
        1,
        5,
        0.05,
        1.25,
    )
    assert get(World("honest_no_pricing", 1, Clock()), "/api/pricing").status == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/messages/count_tokens"), ("GET", "/api/nowhere"), ("GET", "/v1/messages"), ("POST", "/api/status")],
)
def test_unknown_routes_are_invalid_urls_without_a_key(method: str, path: str) -> None:
    answer = World("honest", 1, Clock()).handle("relay", HttpRequest(method, path))
    assert answer.status == 404
    assert answer.json()["error"]["message"] == f"Invalid URL ({method} {path})"


def test_everything_else_is_the_web_app() -> None:
    answer = World("honest", 1, Clock()).handle("relay", HttpRequest("GET", "/console"))
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")


def test_the_shape_of_the_model_list_follows_the_caller() -> None:
    world = World("honest", 1, Clock())
    key = world.relay_key
    assert world.handle("relay", HttpRequest("GET", "/v1/models", headers(key))).json()["has_more"] is False
    assert world.handle("relay", HttpRequest("GET", "/v1/models", headers(key, bearer=True))).json()["object"] == "list"
    assert get(world, "/v1/models", key="sk-wrong").status == 401


def test_refusals_before_routing_have_the_openai_shape() -> None:
    world = World("honest", 1, Clock())
    wrong = world.handle("relay", HttpRequest("POST", "/v1/messages", headers("sk-wrong"), b"{}"))
    assert wrong.status == 401
    assert wrong.json()["error"]["message"].startswith("Invalid token (request id: 2026")
    chinese = world.handle("relay", HttpRequest("POST", "/v1/messages", (("x-api-key", "sk-wrong"),), b"{}"))
    assert chinese.json()["error"]["message"].startswith("无效的令牌")
    unknown = post(world, sent=body() | {"model": "gpt-4o"})
    assert (unknown.status, unknown.json()["error"]["code"]) == (503, "model_not_found")
    assert "under group default (distributor)" in unknown.json()["error"]["message"]


def test_an_upstream_refusal_loses_its_type_and_gains_a_suffix() -> None:
    answer = post(World("honest", 3, Clock()), sent=body(temperature=9))
    error = answer.json()
    assert (answer.status, error["type"], error["error"]["type"]) == (400, "error", "<nil>")
    assert error["error"]["message"].startswith("temperature: range: 0..1 (request id: 2026")
    assert "request_id" not in error


def test_the_oversized_limit_passes_and_names_the_model() -> None:
    answer = post(rich(), sent=body(max_tokens=200_001))
    assert answer.status == 400
    assert "max_tokens: 200001 > 128000" in answer.json()["error"]["message"]
    assert MODEL in answer.json()["error"]["message"]


def test_unknown_fields_vanish_and_a_missing_limit_is_filled() -> None:
    world = rich()
    assert post(world, sent=body(seed=1, inference_geo="mars")).status == 200
    bare = {key: value for key, value in body().items() if key != "max_tokens"}
    assert post(world, sent=bare).status == 200
    assert post(world, sent=body(max_tokens="x")).status == 500


def test_a_small_balance_refuses_the_reserve() -> None:
    world = next(
        w
        for w in (World("honest", s, Clock()) for s in range(50))
        if w.seen.granted < 5_000_000 and not w.seen.unlimited
    )
    answer = post(world, sent=body(max_tokens=6_000_000))
    assert answer.status == 403
    assert "预扣费额度失败, 用户剩余额度: ＄" in answer.json()["error"]["message"]
    assert "需要预扣费额度: ＄12.001000" in answer.json()["error"]["message"]
    assert log_rows(world) == []


def test_the_balance_ends_after_four_requests() -> None:
    world = World("balance_empty", 1, Clock())
    assert [post(world).status for _ in range(6)] == [200] * 4 + [403] * 2


def test_bearer_only_refuses_the_other_style() -> None:
    world = World("honest_bearer_only", 1, Clock())
    assert post(world).status == 401
    assert post(world, bearer=True).status == 200


def test_a_plain_proxy_shows_no_software() -> None:
    world = World("honest_no_software", 1, Clock())
    answer = post(world)
    assert answer.header("request-id").startswith("req_011C")
    assert not answer.header("x-oneapi-request-id")
    assert get(world, "/api/status").status == 404
    assert (
        post(
            world, path="/v1/messages/count_tokens", sent={k: v for k, v in body().items() if k != "max_tokens"}
        ).status
        == 200
    )
    assert world.handle("relay", HttpRequest("GET", "/v1/models", headers("sk-wrong"))).status == 401


def test_litellm_names_the_model_it_asks_for() -> None:
    honest, swapped = (post(World(name, 1, Clock())) for name in ("honest_litellm", "litellm_swap"))
    assert honest.header("x-litellm-model-name") == f"anthropic/{MODEL}"
    assert swapped.header("x-litellm-model-name") == "anthropic/claude-3-haiku-20240307"
    assert swapped.json()["model"] == MODEL
    assert not swapped.header("request-id")
    stream = post(World("honest_litellm", 1, Clock()), sent=body(stream=True))
    assert stream.header("llm_provider-request-id").startswith("req_")
    refused = post(World("honest_litellm", 1, Clock()), sent=body(temperature=9))
    assert "AnthropicException" in refused.json()["error"]["message"]
    assert get(World("honest_litellm", 1, Clock()), "/api/log/token").json() == {"detail": "Not Found"}
