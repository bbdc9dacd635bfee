"""The truth table in OpenAI's two formats: the scenarios that make sense there, with what an audit of them must give.

Chat has no counter, so an official key changes nothing there: the fixed part of the billed input is all that is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from relay_audit.lab.knobs import Knobs
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


def _own(
    kind: Kind, name: str, en: str, zh: str, knobs: Knobs, expect: str = "", *, model: str = "", notes: str = ""
) -> Scenario:
    codes = frozenset(expect.split())
    return Scenario(name, Title(en, zh), kind, knobs, codes, codes, notes, model=model)


_OWN = (
    _own("fault", "azure_backend", "answers come from Azure", "实际来自 Azure", Knobs(channel="azure", claims="openai"),
         "channel.mismatch"),
    _own("honest", "honest_azure", "Azure sold as Azure", "明说是 Azure", Knobs(channel="azure", claims="azure")),
    _own("honest", "honest_template_70", "a default system text of seventy tokens", "型号自带 70 个 token 的默认提示词",
         Knobs(claims="unknown"), model="gpt-oss-120b", notes="known of the family: nothing hidden"),
    _own("honest", "honest_fields_dropped", "fields it does not know vanish, as its software has it", "不认识的字段按程序默认丢掉",
         Knobs(claims="openai", swallows=("zzz_unknown", "service_tier"))),
    _own("fault", "temperature_dropped", "the temperature is taken out", "温度被拿掉",
         Knobs(claims="openai", swallows=("temperature",)), "params.illegal_accepted"),
    _own("honest", "store_switched_off", "storing switched off for every call", "每次都关掉留存",
         Knobs(claims="openai", stores_nothing=True), notes="a pool hint at info where the format shows it"),
)  # fmt: skip


def scenarios_in(dialect: Dialect) -> dict[str, Scenario]:
    """The scenarios of one wire format, by name."""
    return SCENARIOS if dialect == "anthropic" else {row.name: row for row in _rows(dialect)}


def _rows(dialect: Dialect) -> Iterator[Scenario]:
    for name in SHARED:
        row = SCENARIOS[name]
        mapped = "gpt-6-luna" if row.knobs.mapped_to else ""
        knobs = replace(row.knobs, claims="openai", mapped_to=mapped)
        known = row.expect if name not in WITH_COUNTER else frozenset(WITH_COUNTER[name].split())
        alone = frozenset(WITHOUT[name].split()) if name in WITHOUT else row.expect
        yield replace(row, knobs=knobs, expect=alone if dialect == "openai_chat" else known, expect_no_key=alone)
    yield from _OWN
