"""What can tell a model from its siblings is read out of the knowledge, and agrees with what the assessor can say."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from typer.testing import CliRunner

from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.cli.main import app
from relay_audit.roads import Roads, all_roads, roads_markdown

PACKS, KNOWLEDGE = load_packs(), load_knowledge()
TODAY = max(row.observed for row in KNOWLEDGE.models)
ROWS = {(row.dialect, row.model): row for row in all_roads(PACKS.dialects, PACKS.probes, KNOWLEDGE, TODAY)}


def signs(row: Roads, name: str) -> set[str]:
    return {other for road in row.roads if road.name == name for other in road.tells_apart}


def test_every_model_that_a_vendor_sells_is_stated_once_per_dialect():
    sold = [(dialect, m.name) for m in KNOWLEDGE.models for dialect in m.dialects]
    assert len(sold) == len(set(sold))
    assert set(ROWS) == set(sold)
    assert {dialect for dialect, _ in sold} <= set(PACKS.dialects)


def test_a_claude_is_named_by_text_and_signature_and_told_from_others_by_signs():
    row = ROWS["anthropic", "claude-sonnet-5-5"]
    assert [road.name for road in row.roads if road.ends_in_a_name] == ["error_text", "signature"]
    assert row.verifiable
    assert signs(row, "error_text") == signs(row, "signature") == set(row.siblings)
    assert signs(row, "limit") == {"claude-3-haiku", "claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5"}
    assert {"claude-sonnet-5", "claude-opus-5", "claude-opus-4-8"} <= signs(row, "rules")
    assert {"claude-opus-5-5", "claude-haiku-5-5"} <= set(row.alike), (
        "the same rules, or rules that nobody has established"
    )
    assert {"claude-sonnet-4-6", "claude-3-opus"} <= signs(row, "tokenizer")
    assert not {"claude-opus-4-8", "claude-opus-5-5"} & signs(row, "tokenizer")


@pytest.mark.parametrize(
    ("dialect", "named", "not_named"),
    [
        ("openai_chat", ["gpt-6-sol", "gpt-6-astra", "gpt-5-6-sol", "gpt-5-4"], ["gpt-5", "gpt-4o", "o3"]),
        ("openai_responses", ["gpt-6-sol", "gpt-5-1", "gpt-5-mini", "o4-mini"], ["gpt-5-6-sol", "gpt-4o", "gpt-5-5"]),
    ],
)
def test_a_gpt_is_named_by_what_it_refuses_where_that_is_on_record(dialect, named, not_named):
    for model in named:
        assert [road.name for road in ROWS[dialect, model].roads if road.ends_in_a_name] == ["error_text"]
        assert signs(ROWS[dialect, model], "error_text") == set(ROWS[dialect, model].siblings)
    assert not [model for model in not_named if ROWS[dialect, model].verifiable]


@pytest.mark.parametrize("dialect", ["moonshot", "gemini", "zhipu", "deepseek"])
def test_where_no_vendors_text_names_a_model_none_can_be_verified(dialect):
    rows = [row for row in ROWS.values() if row.dialect == dialect]
    assert rows
    assert not any(row.verifiable for row in rows)


def test_signs_are_mutual_and_no_model_is_its_own_sibling():
    for row in ROWS.values():
        assert row.model not in row.siblings
        for name in ("limit", "rules", "tokenizer", "tool_prompt"):
            for other in signs(row, name):
                back = ROWS[row.dialect, other]
                open_there = name != "limit" or KNOWLEDGE.max_output_of(other, TODAY) is not None
                assert not open_there or row.model in signs(back, name)


def test_published_tool_prompts_tell_siblings_of_one_tokenizer_apart():
    """The table: four figures of the newer tokenizer in three classes; those of the older one lie a token apart."""
    newer = {"claude-opus-5", "claude-opus-4-8", "claude-opus-4-7", "claude-sonnet-5"}
    assert signs(ROWS["anthropic", "claude-opus-5"], "tool_prompt") == {"claude-opus-4-7", "claude-sonnet-5"}
    assert signs(ROWS["anthropic", "claude-opus-4-8"], "tool_prompt") == {"claude-opus-4-7", "claude-sonnet-5"}
    assert signs(ROWS["anthropic", "claude-opus-4-7"], "tool_prompt") == newer - {"claude-opus-4-7"}
    assert signs(ROWS["anthropic", "claude-sonnet-5"], "tool_prompt") == newer - {"claude-sonnet-5"}
    assert {row.model for row in ROWS.values() if signs(row, "tool_prompt")} == newer
    known = {m.name for m in KNOWLEDGE.models if m.tool_prompt}
    assert known - newer, "the older ones are published and alike"
    assert set(ROWS["anthropic", "claude-opus-5"].alike) == {"claude-haiku-5-5", "claude-opus-4-8"}
    past = TODAY + dt.timedelta(days=366)
    assert not [
        r
        for r in all_roads(PACKS.dialects, PACKS.probes, KNOWLEDGE, past, "claude-opus-5")[0].roads
        if r.name == "tool_prompt"
    ]
    unasked = tuple(p for p in PACKS.probes if p.id != "anthropic/model_rules")
    rows = all_roads(PACKS.dialects, unasked, KNOWLEDGE, TODAY, "claude-opus-5")[0].roads
    assert not [r for r in rows if r.name == "tool_prompt"], "nothing offers a tool"


def test_without_a_counter_no_tokenizer_and_past_its_term_no_signature():
    assert not [row for row in ROWS.values() if row.dialect == "openai_chat" and signs(row, "tokenizer")]
    later = TODAY + dt.timedelta(days=5 * 365)
    old = all_roads(PACKS.dialects, PACKS.probes, KNOWLEDGE, later, "claude-sonnet-5-5")
    assert [road.name for road in old[0].roads if road.ends_in_a_name] == []


def test_one_model_is_asked_for_by_any_of_its_names():
    found = all_roads(PACKS.dialects, PACKS.probes, KNOWLEDGE, TODAY, "us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    assert [row.model for row in found] == ["claude-sonnet-4-5"]
    assert all_roads(PACKS.dialects, PACKS.probes, KNOWLEDGE, TODAY, "nobodys-model") == ()


def test_a_table_lists_names_or_all_but_a_few():
    text = roads_markdown([ROWS["anthropic", "claude-opus-4-8"], ROWS["moonshot", "kimi-k3"]])
    assert "## `anthropic`" in text
    assert "| `kimi-k3` | nothing: `model.not_verifiable` | – | – | – | – | all |" in text
    assert f"| {', '.join(ROWS['anthropic', 'claude-opus-4-8'].alike)} |\n" in text
    assert "| all but claude-" in text


def test_the_command_prints_what_the_document_says():
    said = CliRunner().invoke(app, ["fingerprints", "roads", "gpt-4o", "--json"])
    rows = json.loads(said.stdout)["roads"]
    assert [(row["dialect"], row["verifiable"]) for row in rows] == [
        ("openai_chat", False),
        ("openai_responses", False),
    ]
    assert "model.not_verifiable" in CliRunner().invoke(app, ["fingerprints", "roads", "gpt-4o"]).stdout
