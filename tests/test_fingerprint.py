"""What is known: names of models, prices by day, ids that decode, headers that match, ages that weaken."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pytest

from relay_audit.catalog import load_knowledge
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.fingerprint import ROWS, Known, canonical_model
from relay_audit.ids import base58_integer, read_id, relay_time, uuid7_time

KNOWLEDGE = load_knowledge()
TODAY = dt.date(2026, 11, 30)
DATED = [row for kind, model in ROWS.items() if issubclass(model, Known) for row in getattr(KNOWLEDGE, kind)]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-opus-5-latest", "claude-opus-5"),
        ("claude-opus-5-2026-07-24", "claude-opus-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("us-gov.anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        ("bedrock/us.anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8"),
        ("vertex_ai/claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("***.***.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        (" Claude-Sonnet-5.5 ", "claude-sonnet-5-5"),
        ("openrouter/anthropic/claude-haiku-5-5", "claude-haiku-5-5"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
    ],
)
def test_canonical_model(written, canonical):
    assert canonical_model(written) == canonical


def test_same_model_knows_aliases_and_tells_siblings_apart():
    assert KNOWLEDGE.same_model("claude-sonnet-4-5-20250929", "anthropic/claude-4.5-sonnet")
    assert KNOWLEDGE.same_model("claude-opus-4-20250514", "claude-opus-4-0")
    assert not KNOWLEDGE.same_model("claude-sonnet-5-5", "claude-sonnet-5")
    assert not KNOWLEDGE.same_model("claude-sonnet-5-5", "claude-haiku-5-5")
    assert not KNOWLEDGE.same_model("claude-sonnet-5-5", "glm-5.3")


def test_every_name_and_alias_is_canonical_and_stands_for_one_model():
    names = [name for model in KNOWLEDGE.models for name in (model.name, *model.aliases)]
    assert all(canonical_model(name) == name for name in names)
    assert len(set(names)) == len(names)
    assert all(KNOWLEDGE.price_of(name, TODAY) for name in names if name != "claude-3-sonnet")


def test_geo_is_known_where_it_separates_pools():
    assert KNOWLEDGE.model("claude-sonnet-5-5").inference_geo == "global"
    assert KNOWLEDGE.model("claude-sonnet-4-6").inference_geo == "global"
    assert KNOWLEDGE.model("claude-sonnet-4-5-20250929").inference_geo == "not_available"


@pytest.mark.parametrize(
    ("model", "day", "prices"),
    [
        ("claude-sonnet-5-5", dt.date(2026, 10, 6), ("2", "10", "2.5", "4", "0.20")),
        ("claude-sonnet-5-5", dt.date(2026, 10, 7), ("2", "10", "2.5", "4", "0.10")),
        ("claude-sonnet-5-5-20260928", dt.date(2031, 1, 1), ("2", "10", "2.5", "4", "0.10")),
        ("us.anthropic.claude-opus-5-5-v1:0", TODAY, ("4", "20", "5", "8", "0.20")),
        ("claude-opus-5", TODAY, ("5", "25", "6.25", "10", "0.50")),
        ("claude-haiku-5-5", TODAY, ("0.10", "0.50", "0.125", "0.20", "0.01")),
        ("claude-fable-5-2", TODAY, ("8", "40", "10", "16", "0.20")),
        ("claude-fable-5-1", TODAY, ("10", "50", "12.5", "20", "0.25")),
        ("claude-3-haiku-20240307", TODAY, ("0.25", "1.25", "0.30", "0.50", "0.03")),
    ],
)
def test_price_of_by_date(model, day, prices):
    row = KNOWLEDGE.price_of(model, day)
    assert (row.input, row.output, row.cache_write_5m, row.cache_write_1h, row.cache_read) == tuple(
        map(Decimal, prices)
    )


def test_a_model_or_a_day_without_a_price_has_none():
    assert KNOWLEDGE.price_of("qwen3-max", TODAY) is None
    assert KNOWLEDGE.price_of("claude-sonnet-5-5", dt.date(2026, 9, 27)) is None


def test_one_price_at_most_for_a_model_on_a_day():
    for row in KNOWLEDGE.prices:
        for name in row.models:
            assert sum(name in other.models and other.valid_on(TODAY) for other in KNOWLEDGE.prices) <= 1, name


@pytest.mark.parametrize(
    "model", ["claude-sonnet-5-5", "claude-opus-5-5-20260922", "anthropic/claude-sonnet-5.5", "claude-5.5-opus"]
)
def test_the_published_baseline(model):
    baseline = KNOWLEDGE.baseline_for(model, TODAY)
    assert (baseline.tokens, baseline.text) == (18, "Reply with the single word OK.")
    assert (baseline.observed, baseline.term_days, baseline.level) == (dt.date(2026, 10, 14), 180, "measured")


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-haiku-5-5", "claude-sonnet-4-5", "gpt-5"])
def test_a_baseline_belongs_to_a_model_version(model):
    assert KNOWLEDGE.baseline_for(model, TODAY) is None


def test_age_weakens_then_silences():
    row = KNOWLEDGE.baselines[0]
    days = [row.age(row.observed + dt.timedelta(days=n)) for n in (0, 180, 181, 360, 361)]
    assert days == ["fresh", "fresh", "stale", "stale", "expired"]


# id → UTC milliseconds inside it; computed from recorded ids, not by this program
DECODED = {
    "req_011CdeibixvGNTgsPHPgWbhY": 1785710039865,
    "req_011CeEEqMCEaC96zkTusCekt": 1787239805758,
    "req_011CeEEr4RDAQ98GzGvjCrSF": 1787239815400,
    "msg_011CdeibjRhM3puXwZqmS63d": 1785710039973,
    "msg_011CeCGmVNE5Ux5Z8opZjgvT": 1787150055751,
    "msg_011CeEEr4zwJ97DhCGXLpTZJ": 1787239815536,
    "msg_bdrk_011CfjukowJGNdRPkmrmvmEU": 1791240731685,
}
RANDOM = ("req_01A7u6aDNi2C6mvDawgML8jB", "req_019Tyb3EFZtrPg8Ht9LaeSHy", "msg_011KX7d4TtALbugymC3Kb4oE",
          "msg_01Nq4f37FavxWju2RsbzYoG5", "toolu_01NNKFSpy3EbeMEUzD6yHGCV")  # fmt: skip


@pytest.mark.parametrize(("text", "milliseconds"), DECODED.items())
def test_recorded_ids_decode_to_their_millisecond(text, milliseconds):
    assert uuid7_time(base58_integer(text[-22:])) == dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


@pytest.mark.parametrize("text", RANDOM)
def test_recorded_random_ids_fit_128_bits_and_hold_no_time(text):
    number = base58_integer(text[-22:])
    assert number < 2**128
    assert uuid7_time(number) is None


def test_what_is_not_base58_or_too_large_is_no_time():
    assert base58_integer("0OIl" + "1" * 18) is None
    assert uuid7_time(base58_integer("z" * 22)) is None
    assert relay_time("20260808063129123456789" + "8268d9d6Xy7Kp2Qz") == dt.datetime(
        2026, 8, 8, 6, 31, 29, tzinfo=dt.UTC
    )
    assert relay_time("20269908063129123456789") is None


def exchange_at(moment: dt.datetime, elapsed_ms: int = 900) -> Exchange:
    stamp = (moment + dt.timedelta(milliseconds=elapsed_ms)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    return Exchange(
        id="X0001", step="s", side="relay", sent_at=moment, elapsed_ms=elapsed_ms, delivery="answered",
        request=Request(method="POST", path="/v1/messages"), response=Response(status=200, headers=(("Date", stamp),)),
    )  # fmt: skip


ALNUM24 = "0a1B2c3D4e5F6g7H8i9J0k1L"
HEX24 = "a1b2c3d4e5f60718293a4b5c"
UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


@pytest.mark.parametrize(
    ("kind", "text", "row", "channels"),
    [
        ("message_id", "msg_011CeEEr4zwJ97DhCGXLpTZJ", "anthropic.message_id", ("anthropic", "azure")),
        ("message_id", "msg_bdrk_017MJgn1W8myVyhQVPBZrthw", "aws.message_id", ("aws",)),
        (
            "message_id",
            "msg_bdrk_er2hevp3kltzds335kiev73amxxstt3go2joi3x3egl7vkircylq",
            "aws.message_id.base32",
            ("aws",),
        ),
        ("message_id", "msg_bdrk_" + ALNUM24, "aws.message_id.lookalike", ("aws", "converter")),
        ("message_id", "msg_vrtx_016LVviTuDTey6wqvCXkQyRQ", "vertex.message_id", ("vertex",)),
        ("message_id", "msg_202601262315579779b8a966af4bfd", "zai.message_id", ("zai",)),
        ("message_id", "02177969507279077fce418cd3a659821a063326c55dce3b59e46", "ark.message_id", ("ark",)),
        ("message_id", "gen-1736892109-Bw6T8Zz8t3IlUpRWImy8", "openrouter.generation_id", ("openrouter",)),
        ("message_id", "msg_" + HEX24, "converter.hex24", ("converter",)),
        ("message_id", "msg_" + UUID, "converter.uuid", ("converter",)),
        ("message_id", "msg_1750000000000", "converter.digits", ("converter",)),
        ("message_id", "msg_1750000000000_bedrock", "converter.digits", ("converter",)),
        ("message_id", "msg_mock_warmup", "converter.mock", ("converter",)),
        ("message_id", "msg_a1B2c3D4e5F6", "converter.alnum12", ("converter",)),
        ("message_id", "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY", "converter.cli_proxy_constant", ("converter",)),
        ("message_id", UUID, "converter.bare_uuid", ("converter",)),
        ("message_id", "chatcmpl-" + UUID, "converter.chat_uuid", ("converter",)),
        ("message_id", "chatcmpl-msg_01Nq4f37FavxWju2RsbzYoG5", "converter.chat_prefix_on_claude_id", ("converter",)),
        ("message_id", "chatcmpl-20260808063129123456789a1b2c3d4", "converter.chat_request_id", ("converter",)),
        ("message_id", "chatcmpl-9lnJM4Cu2pXlrjd8dkJsqO5xwHtBS", "openai.chat_id", ("openai", "azure", "converter")),
        ("request_id", "req_011CeEEr4RDAQ98GzGvjCrSF", "anthropic.request_id", ("anthropic", "azure")),
        ("tool_id", "toolu_bdrk_018dfpvS9zVjdozFjuwZf5cx", "aws.tool_id", ("aws",)),
        ("tool_id", "toolu_vrtx_01FVcwNij5LVEeuHy8jV34S5", "vertex.tool_id", ("vertex",)),
        ("tool_id", "tooluse_p0X002uYQ9y_0fFkBsyYRg", "aws.tool_id.converse", ("aws",)),
        ("relay_request_id", "202608080631291234567898268d9d6Xy7Kp2Qz", "relay.new_api", ("converter",)),
        ("relay_request_id", "20260808063129123456789c955d568Xy7Kp2Qz", "relay.new_api.fork", ("converter",)),
        ("relay_request_id", "2025010108000012345678912345678", "relay.one_api", ("converter",)),
    ],
)
def test_each_recorded_form_is_read_as_itself(kind, text, row, channels):
    reading = read_id(kind, text, exchange_at(dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)), KNOWLEDGE, TODAY)
    assert reading.shape is not None
    assert (reading.shape.id, reading.shape.channels) == (row, channels)


@pytest.mark.parametrize(
    "text", ["", "msg_", "msg_01short", "message-1", "msg_02" + "z" * 23, "msg_bdrk_01" + "1" * 23]
)
def test_an_unknown_form_is_unknown(text):
    assert read_id("message_id", text, exchange_at(dt.datetime.now(dt.UTC)), KNOWLEDGE, TODAY).shape is None


@pytest.mark.parametrize(
    ("kind", "text", "date_minus_id_s", "fault"),
    [
        ("message_id", "msg_011CeEEr4zwJ97DhCGXLpTZJ", -4, ""),
        ("message_id", "msg_011CeEEr4zwJ97DhCGXLpTZJ", 29, ""),
        ("message_id", "msg_011CeEEr4zwJ97DhCGXLpTZJ", 33, "outside_window"),
        ("message_id", "msg_011CeEEr4zwJ97DhCGXLpTZJ", -7, "outside_window"),
        ("request_id", "req_011CeEEr4RDAQ98GzGvjCrSF", 178, ""),
        ("request_id", "req_011CeEEr4RDAQ98GzGvjCrSF", 184, "outside_window"),
        ("request_id", "req_011CeEEr4RDAQ98GzGvjCrSF", -7, "outside_window"),
        ("message_id", "msg_01Nq4f37FavxWju2RsbzYoG5", 0, "not_in_scheme"),
    ],
)
def test_windows_are_those_of_the_contract(kind, text, date_minus_id_s, fault):
    minted = dt.datetime.fromtimestamp(DECODED.get(text, 1787239815536) / 1000, dt.UTC)
    exchange = exchange_at(minted + dt.timedelta(seconds=date_minus_id_s), elapsed_ms=0)
    assert read_id(kind, text, exchange, KNOWLEDGE, dt.date(2026, 8, 20)).fault == fault


def test_before_july_2026_a_random_message_id_was_in_order():
    reading = read_id(
        "message_id", RANDOM[3], exchange_at(dt.datetime(2026, 3, 1, tzinfo=dt.UTC)), KNOWLEDGE, dt.date(2026, 3, 1)
    )
    assert (reading.shape.id, reading.fault) == ("anthropic.message_id.random", "")


@pytest.mark.parametrize(
    ("headers", "rows"),
    [
        ((("Anthropic-RateLimit-Tokens-Limit", "80000"), ("CF-RAY", "x")), {"anthropic.ratelimit"}),
        ((("x-amzn-RequestId", "u"), ("X-Amzn-Bedrock-Input-Token-Count", "17")), {"aws.bedrock"}),
        ((("x-amzn-requestid", "u"), ("request-id", "req_011C")), {"aws.claude_platform"}),
        ((("apim-request-id", "u"),), {"azure.foundry"}),
        ((("openai-version", "2020-10-01"),), {"openai.version"}),
        ((("openai-version", "2031-01-01"),), set()),
        ((("x-amzn-requestid", "u"),), set()),
        # the official API itself answers like this: no sign of another cloud
        ((("via", "1.1 google"), ("server", "cloudflare"), ("cf-ray", "x"), ("x-powered-by", "Next.js")), set()),
    ],
)
def test_header_families(headers, rows):
    assert {row.id for row in KNOWLEDGE.headers if row.matches(headers)} == rows


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ((("X-New-Api-Version", "v0.9.1"), ("X-Oneapi-Request-Id", "2026")), "new-api"),
        ((("X-Oneapi-Request-Id", "2026"),), "one-api"),
        ((("x-litellm-call-id", "u"),), "litellm"),
        ((("Server", "relayhub/0.2"),), "hubrelay"),
        ((("Server", "cloudflare"),), None),
        ((("X-Gateway-Provider", "anthropic"),), "ferrogw"),
        ((("x-portkey-trace-id", "u"),), "portkey"),
    ],
)
def test_software_shows_itself(headers, name):
    assert next((row.name for row in KNOWLEDGE.software if row.shows_in(headers)), None) == name


def test_a_router_shows_itself_in_its_refusals_alone():
    """claude-code-router 2.0.0 has no header of its own; its word for a wrong key is anybody's."""
    router = next(row for row in KNOWLEDGE.software if row.name == "claude-code-router")
    said = (
        '{"error":{"message":"Error from provider(up,gpt-4o: 400): {\\"error\\":{\\"message\\":\\"temperature\\"}}"}}'
    )
    assert router.refuses_like(said, 400)
    assert not router.refuses_like(said, 200), "a model may write anything"
    assert not router.refuses_like("Invalid API key", 401)
    assert [row.name for row in KNOWLEDGE.software if row.refuses_like(said, 400)] == ["claude-code-router"]


def test_what_new_api_does_is_known_for_the_quote():
    new_api = next(row for row in KNOWLEDGE.software if row.name == "new-api")
    assert (new_api.hold_min_input, new_api.fill_max_tokens, new_api.log_adapter, new_api.prices) == (
        500,
        8192,
        "new_api",
        True,
    )
    assert next(row for row in KNOWLEDGE.software if row.name == "litellm").model_header == "x-litellm-model-name"


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ('{"type":"error","error":{},"request_id":"req_011CeEEr4RDAQ98GzGvjCrSF"}', {"anthropic.shell"}),
        ('{"message":"ValidationException: x"}', {"aws.validation"}),
        ('{"error":{"message":"max_tokens: 9 > 8 for ***.***.claude-3-5-sonnet"}}', {"aws.masked_model"}),
        (
            '{"error":{"message":"Unknown parameter: \'seed\'.","param":"seed","code":"unknown_parameter"}}',
            {"openai.parameter"},
        ),
        (
            '{"error":{"message":"Unsupported value: \'temperature\' does not support 0.5 with this model."}}',
            {"openai.parameter"},
        ),
        (
            '{"error":{"message":"Unsupported parameter: \'temperature\' is not supported with this model."}}',
            {"openai.parameter"},
        ),
        (
            '{"error":{"message":"max_tokens is too large: 9. This model supports at most 8 completion tokens"}}',
            {"openai.parameter"},
        ),
        (
            '{"error":{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 393216]"}}',
            {"deepseek.limit"},
        ),
        ('{"error":{"message":"Range of max_tokens should be [1, 65536]"}}', {"qwen.limit"}),
        ('{"error":{"message":"max_tokens参数非法：限制数值范围[1,131072]"}}', {"zai.limit"}),
        (
            '{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"}}',
            {"moonshot.window"},
        ),
        ('{"error":{"message":"temperature: range: 0..1"}}', set()),
        ('{"error":{"message":"无效的令牌","type":"new_api_error"}}', {"relay.new_api"}),
        ('{"error":{"code":"E015","message":"Internal server error"},"status":500}', {"relay.claude_relay_service"}),
        ('{"error":{"message":"litellm.BadRequestError: AnthropicException"}}', {"relay.litellm"}),
        ('{"error":{"message":"laws, warp and windsurf"}}', set()),
    ],
)
def test_error_shells(body, rows):
    assert {row.id for row in KNOWLEDGE.errors if re.search(row.pattern, body)} == rows


@pytest.mark.parametrize("row", DATED, ids=lambda row: row.id)
def test_every_row_says_since_when_and_in_both_languages(row):
    assert row.observed <= TODAY
    assert row.source.strip()
    assert re.search("[一-鿿]", row.meaning.zh)
    assert not re.search("[一-鿿]", row.meaning.en)
    assert row.age(TODAY) != "expired" or row.superseded_by or row.valid_to or row.observed < dt.date(2026, 1, 1)


def test_no_single_signal_is_decisive():
    assert {row.strength for row in (*KNOWLEDGE.ids, *KNOWLEDGE.headers, *KNOWLEDGE.errors)} <= {
        "strong",
        "supporting",
        "weak",
    }
    assert all(row.strength in ("weak", "supporting") for row in KNOWLEDGE.ids if "converter" in row.channels)
