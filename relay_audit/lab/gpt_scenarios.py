"""The truth table in OpenAI's two formats: the scenarios that make sense there, with what an audit of them must give.

Chat has no counter, so an official key changes nothing there: the fixed part of the billed input is all that is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Literal

from relay_audit.lab.knobs import Knobs
from relay_audit.lab.money import Money
from relay_audit.lab.scenario import Kind, Scenario, Title
from relay_audit.lab.scenarios import SCENARIOS

Dialect = Literal["anthropic", "openai_chat", "openai_responses"]
DIALECTS: tuple[Dialect, ...] = ("anthropic", "openai_chat", "openai_responses")
SHARED = (
    "honest", "honest_stripped_headers", "honest_template_4", "honest_group_ratio", "honest_log_off", "honest_log_late",
    "honest_log_query_only", "honest_flaky_25", "honest_slow", "honest_usage_extras", "honest_foreign_rows",
    "honest_bearer_only", "honest_rewritten_chinese_errors", "honest_no_pricing", "honest_no_software",
    "official_incident", "official_down", "honest_thinking_29", "forged_anthropic_ids", "stale_ids", "replayed_ids",
    "hidden_508", "hidden_100", "hidden_4380", "hidden_cached", "hidden_without_system", "hidden_by_user_agent",
    "hidden_sometimes", "usage_x13", "usage_x2", "swapped_tokenizer", "log_admits_mapping", "overcharge_x2", "key_echo",
    "official_lacks_model", "honest_log_used_up", "honest_empty_text", "honest_stored_answers", "honest_small_balance",
    "errors_as_200", "hidden_but_for_known_prompts", "hidden_one_in_20", "stored_and_charged",
)  # fmt: skip
LIMITED = "swapped_wider_sibling"
"""Of Chat alone: the other format refuses no output limit."""
MONEY = (
    "price_above_list", "claimed_30_charged_36", "another_group", "double_rows", "copies_under_fresh_ids", "plan_loses_double",
    "above_ratio_list", "double_without_log", "errors_charged", "errors_unlogged", "empty_charged", "holds_kept",
    "refund_late", "refund_missing", "charge_without_row", "rows_kept_out", "usage_page_x69", "usage_page_x0", "cache_read_as_input",
    "honest_markup", "honest_user_ratio", "honest_per_call", "honest_expression", "honest_tool_surcharge",
    "honest_tiny_price", "honest_odd_ratio", "honest_ratio_list", "honest_cny", "honest_full_log", "honest_uncharged",
    "honest_plan", "honest_rows_lost",
)  # fmt: skip
"""What may be turned between usage, row and balance, and reads the same here; marks for a cache are not known here, and no
probe asks for a stream."""
WITH_COUNTER = {"hidden_cached": "tokens.constant_surplus"}
"""Where a row of the table reads otherwise: this vendor caches by itself, so cached tokens are no mark of anybody's."""
WITHOUT = {
    "hidden_cached": "tokens.constant_surplus",
    "hidden_without_system": "tokens.constant_surplus",
    "hidden_by_user_agent": "tokens.constant_surplus",
    "hidden_sometimes": "tokens.intermittent_surplus",
    "usage_x13": "",
    "usage_x2": "tokens.inconclusive_offset",
    "swapped_tokenizer": "",
}
"""The same by the intercept alone."""
BESIDE = {
    "hidden_cached": "tokens.constant_surplus",
    "hidden_without_system": "tokens.constant_surplus",
    "hidden_by_user_agent": "tokens.constant_surplus",
    "hidden_sometimes": "tokens.intermittent_surplus",
    "honest_thinking_29": "",
}
"""The same where Chat's vendor, which has no counter, is asked the repeated lines too: they bring no system prompt, and here
the vendor bills the same offset."""


DRAWN = (
    "sampler_dropped", "honest_sampler", "honest_sampler_wobbles", "honest_sampler_stored", "sampler_dropped_and_stored",
)  # fmt: skip
"""Whether a low temperature is in force, on a model that does not reason."""


def _own(
    kind: Kind, name: str, en: str, zh: str, knobs: Knobs, expect: str = "", *, model: str = "", notes: str = "",
    profile: str = "",
) -> Scenario:  # fmt: skip
    codes = frozenset(expect.split())
    return Scenario(name, Title(en, zh), kind, knobs, codes, codes, notes, model=model, profile=profile)


_OWN = (
    _own("fault", "azure_backend", "answers come from Azure", "实际来自 Azure", Knobs(channel="azure", claims="openai"),
         "channel.mismatch"),
    _own("honest", "honest_azure", "Azure sold as Azure", "明说是 Azure", Knobs(channel="azure", claims="azure")),
    _own("honest", "honest_template_70", "a default system text of seventy tokens", "型号自带 70 个 token 的默认提示词",
         Knobs(claims="unknown"), model="gpt-oss-120b", notes="known of the family: nothing hidden"),
    _own("honest", "honest_fields_dropped", "fields it does not know vanish, as its software has it", "不认识的字段按程序默认丢掉",
         Knobs(claims="openai", swallows=("zzz_unknown", "service_tier"))),
    _own("fault", "swapped_sibling", "a cheaper sibling with the same tokenizer", "换成同一分词器的便宜型号",
         Knobs(claims="openai", template_offset=0, serves="gpt-6-luna"), "model.substituted",
         notes="only a refusal by the model's own name tells"),
    _own("fault", "swapped_wider_sibling", "a cheaper model whose output limit is larger", "换成上限更大的便宜型号",
         Knobs(claims="openai", template_offset=0, serves="gpt-4.1-mini"), "model.limit_mismatch params.illegal_accepted",
         model="gpt-4o", notes="takes the claimed model's limit plus one; its refusal above the next names a number alone"),
    _own("fault", "swapped_one_in_4", "one answer in four from a cheaper sibling", "四次里有一次换成便宜型号",
         Knobs(claims="openai", template_offset=0, serves="gpt-6-luna", strikes="one_in_4"), "model.substituted"),
    _own("fault", "swapped_sibling_in_chinese", "the same, refusals in a Chinese wrapper", "同上，报错包成中文",
         Knobs(claims="openai", template_offset=0, serves="gpt-6-luna", rewrites_errors=True), "model.substituted"),
    _own("fault", "temperature_dropped", "the temperature is taken out", "温度被拿掉",
         Knobs(claims="openai", swallows=("temperature",)), "params.illegal_accepted"),
    _own("honest", "honest_own_cache", "what the vendor keeps by itself is priced as read", "厂商自动缓存的内容按读缓存计价",
         Knobs(claims="openai"), profile="thorough", notes="the discount is named in the match"),
    _own("fault", "temperature_dropped_one_in_4", "one request in four loses its temperature", "四次里有一次把温度拿掉",
         Knobs(claims="openai", swallows=("temperature",), strikes="one_in_4"), "params.illegal_accepted"),
    _own("fault", "log_admits_conversion", "the log says that requests went on in another vendor's format",
         "日志承认请求转成了别家的格式", Knobs(claims="openai", money=Money(converted_to="Claude Messages")),
         "channel.format_converted"),
    _own("honest", "honest_converted_within", "requests go on in the vendor's newer format", "请求转成厂商自己较新的格式",
         Knobs(claims="openai", money=Money(converted_to="OpenAI Responses"))),
    _own("honest", "store_switched_off", "storing switched off for every call", "每次都关掉留存",
         Knobs(claims="openai", stores_nothing=True), notes="a pool hint at info where the format shows it"),
)  # fmt: skip


def scenarios_in(dialect: Dialect) -> dict[str, Scenario]:
    """The scenarios of one wire format, by name."""
    return SCENARIOS if dialect == "anthropic" else {row.name: row for row in _rows(dialect)}


@cache
def _rows(dialect: Dialect) -> tuple[Scenario, ...]:
    return tuple(_made(dialect))


def _made(dialect: Dialect) -> Iterator[Scenario]:
    for name in (*SHARED, *MONEY):
        row = SCENARIOS[name]
        mapped = "gpt-6-luna" if row.knobs.mapped_to else ""
        knobs = replace(row.knobs, claims="openai", mapped_to=mapped)
        told = BESIDE if dialect == "openai_chat" else WITH_COUNTER
        known = frozenset(told[name].split()) if name in told else row.expect
        alone = frozenset(WITHOUT[name].split()) if name in WITHOUT else row.expect
        yield replace(row, knobs=knobs, expect=known, expect_no_key=alone)
    yield from (row for row in _OWN if dialect == "openai_chat" or row.name != LIMITED)
    for name in DRAWN:
        yield replace(SCENARIOS[name], knobs=replace(SCENARIOS[name].knobs, claims="openai"), model="gpt-4o")
