"""Every shipped file loads; every rule that a file can break is refused with the file, the line and what to do."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from relay_audit import schema
from relay_audit.catalog import (
    knowledge_digest,
    knowledge_from,
    load_knowledge,
    load_packs,
    packs_from,
    read_files,
)
from relay_audit.codes import CODES
from relay_audit.errors import EXIT_CODES, EXIT_PRECEDENCE, PackError
from relay_audit.fingerprint import ROWS
from relay_audit.pack import POINTER
from relay_audit.plan import make_plan
from relay_audit.question import Question
from relay_audit.resources import checkout
from relay_audit.wording import Wording

PROBES = read_files("probes")
KNOWN = read_files("known_fingerprints")
PARITY = "anthropic/token_parity.toml"
CHINESE = re.compile("[一-鿿]")


def bilingual_texts(model):
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, tuple) else (value,):
            if hasattr(item, "zh"):
                yield item
            elif hasattr(type(item), "model_fields"):
                yield from bilingual_texts(item)


def test_every_shipped_probe_loads_under_its_path():
    packs = load_packs()
    assert {f"{probe.id}.toml" for probe in packs.probes} == {p for p in PROBES if p.count("/") and "pack" not in p}
    assert set(packs.dialects) == {
        "anthropic", "openai_chat", "openai_responses", "deepseek", "qwen", "zhipu", "moonshot", "gemini",
        "ark_video", "dashscope_video", "minimax_video", "kling_video",
    }  # fmt: skip


def test_every_text_is_in_both_languages():
    packs = load_packs()
    texts = [t for model in (*packs.probes, *packs.dialects.values(), load_knowledge()) for t in bilingual_texts(model)]
    assert len(texts) > 100
    for text in texts:
        assert CHINESE.search(text.zh), text.en
        assert not CHINESE.search(text.en), text.en


def test_the_dialect_reads_a_recorded_answer():
    pack = load_packs().pack("anthropic")
    pointers = [
        *pack.usage.input,
        pack.usage.output,
        pack.answer.id,
        pack.answer.model,
        pack.answer.content,
        pack.error_kind,
    ]
    assert all(POINTER.match(pointer) and pointer for pointer in pointers)
    assert pack.headers == {"anthropic-version": "2023-06-01"}
    assert pack.counter.keep == ("model", "system", "messages", "tools", "tool_choice", "thinking")
    assert pack.input_estimate_per_unit["ascii_char"] == Decimal("0.30"), "decimals are exact"
    assert re.match(pack.key_shapes[0], "sk-ant-api03-x")


def test_unknown_dialects_name_the_nearest():
    with pytest.raises(PackError, match="did you mean anthropic"):
        load_packs().pack("antropic")


def change(path: str, old: str, new: str, files=PROBES) -> dict[str, str]:
    assert old in files[path]
    return {**files, path: files[path].replace(old, new, 1)}


BOUND = "bound = { input_tokens = 5000, output_tokens = 16, expected_output_tokens = 8, surplus_each = 4400 }\n"
SCRIPT = 'generate = "text", script = "$script"'


@pytest.mark.parametrize(
    ("path", "old", "new", "says"),
    [
        (PARITY, BOUND, "", r"requests\[0\]\.bound is missing: what a relay may charge for needs a bound"),
        (PARITY, "paired = true", "paird = true", r"unknown key paird \(did you mean paired\?\)"),
        (PARITY, "counted = true", "count = true", r"unknown key requests\[0\]\.count \(did you mean counted\?\)"),
        (PARITY, "output_tokens = 16,", "output_tokens = 16, usd = 1,", r"unknown key requests\[0\]\.bound\.usd"),
        (PARITY, '"token_parity", "channel"', '"token_parity", "vibes"', r"assess\[1\].*'billing'"),
        (PARITY, SCRIPT, 'generate = "poem", script = "$script"', "generator 'poem' is not registered"),
        (PARITY, SCRIPT, 'generate = "text", scrip = "$script"', "generator 'text' has no scrip"),
        (PARITY, 'model = "$model"', 'model = "$modle"', r"\$modle is neither a value nor a factor"),
        (PARITY, 'units = "$units"', 'units = "$sise"', r"\$sise is neither a value nor a factor"),
        (PARITY, '["ascii", 8, "library", false]', '["runes", 8, "library", false]', "script 'runes'"),
        (PARITY, 'closing = "one_word"', 'closing = "farewell"', "closing 'farewell'"),
        (PARITY, "max_tokens = 16\n", "max_tokens = 4096\n", "max_tokens 4096 is more than bound.output_tokens 16"),
        (PARITY, 'path = "/v1/messages"', 'path = "https://other.example/v1"', "absolute addresses are refused"),
        (PARITY, 'path = "/v1/messages"', 'path = "//other.example/v1"', "absolute addresses are refused"),
        (PARITY, 'path = "/v1/messages"', 'path = "/v1/../admin"', "a path below the base address"),
        (PARITY, 'id = "anthropic/token_parity"', 'id = "anthropic/parity"', "the id is the path"),
        (PARITY, 'id = "with_system"', 'id = "bare"', "two requests of one probe share an id"),
        (PARITY, 'counter = "present"', 'counter = "any"', 'applies.counter = "present"'),
        (PARITY, "paired = true", "paired = false", "paired is true exactly when"),
        (PARITY, 'dialects = ["anthropic"]', 'dialects = ["antropic"]', "did you mean anthropic"),
        (PARITY, "checks = [2, 1]", "checks = [2, 9]", "checks are numbered 1 to 6"),
        (PARITY, "checks = [2, 1]", "checks = [2, 1", "not valid TOML"),
        ("anthropic/pack.toml", 'read = "/input_tokens"', 'read = "input_tokens"', "is not a JSON Pointer"),
        ("anthropic/pack.toml", 'output = "/usage/output_tokens"', 'output = "/usage/~2"', "is not a JSON Pointer"),
        ("anthropic/pack.toml", 'error_kind = "/error/type"', 'error_kind = "error.type"', "is not a JSON Pointer"),
        ("anthropic/pack.toml", 'path = "/v1/messages/count_tokens"', 'path = "http://x.example"', "absolute address"),
        ("anthropic/pack.toml", "frame = 12", "", "gives exactly ascii_char, cjk_char, frame"),
        ("anthropic/pack.toml", "auth_styles", "auth_stiles", "did you mean auth_styles"),
        ("wordlists.toml", "cjk_clauses = [", "cjk_words = [", "unknown key cjk_words"),
    ],
)  # fmt: skip
def test_a_pack_that_breaks_a_rule_is_refused(path, old, new, says):
    with pytest.raises(PackError, match=says) as caught:
        packs_from(change(path, old, new))
    assert caught.value.message.startswith(path)
    assert caught.value.exit_code == 2
    assert "probes check" in caught.value.next_step


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("paired = true", "paird = true"),
        ('path = "/v1/messages"', 'path = "https://other.example"'),
        ('id = "anthropic/token_parity"', 'id = "anthropic/x"'),
        ("counted = true", "count = true"),
    ],
)
def test_the_refusal_names_the_line(old, new):
    files = change(PARITY, old, new)
    written = next(number for number, line in enumerate(files[PARITY].splitlines(), 1) if line.startswith(new))
    with pytest.raises(PackError) as caught:
        packs_from(files)
    assert caught.value.message.startswith(f"{PARITY}, line {written}: ")
    assert caught.value.details == {"file": PARITY, "line": written}


def test_the_line_of_the_second_request_is_the_second_one():
    text = PROBES[PARITY]
    head, tail = text.rsplit("counted = true", 1)
    with pytest.raises(PackError) as caught:
        packs_from({**PROBES, PARITY: f"{head}coutned = true{tail}"})
    assert caught.value.details["line"] == head.count("\n") + 1


def test_a_case_that_waits_for_one_that_nobody_sends_is_refused():
    path = "anthropic/model_oversize_next.toml"
    text = PROBES[path].replace('after = "max_tokens_above_limit"', 'after = "max_tokens_above_limits"')
    assert text != PROBES[path]
    with pytest.raises(PackError, match=r"which nothing in anthropic sends \(did you mean max_tokens_above_limit\?\)"):
        packs_from({**PROBES, path: text})


def test_two_packs_of_one_dialect_are_refused():
    with pytest.raises(PackError, match="the dialect anthropic is defined twice"):
        packs_from({**PROBES, "other/pack.toml": PROBES["anthropic/pack.toml"]})


def test_word_lists_are_needed():
    with pytest.raises(PackError, match="is missing"):
        packs_from({path: text for path, text in PROBES.items() if path != "wordlists.toml"})


@pytest.mark.parametrize("name", ["probes", "known_fingerprints"])
def test_a_file_of_ones_own_never_takes_a_shipped_one_s_place(name, tmp_path):
    path = next(p for p in read_files(name) if "/" in p)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("id = 'mine'", encoding="utf-8")
    with pytest.raises(PackError, match="shadows a shipped definition"):
        read_files(name, tmp_path)


def test_a_folder_that_is_none_and_a_file_that_is_no_text(tmp_path):
    with pytest.raises(PackError, match="is not a folder"):
        load_packs(tmp_path / "nowhere")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "pack.toml").write_bytes(b"title = '\xff\xfe'")
    with pytest.raises(PackError, match="is not UTF-8"):
        load_packs(tmp_path)


# --- an invented vendor is data


def invented_vendor(folder: Path) -> None:
    (folder / "lumen").mkdir()
    pack = PROBES["anthropic/pack.toml"].replace('dialect = "anthropic"', 'dialect = "lumen"')
    pack = pack.replace("/v1/messages/count_tokens", "/lumen/v2/measure").replace("/input_tokens", "/units/in")
    (folder / "lumen" / "pack.toml").write_text(pack.replace("/usage/units/in", "/spent/in"), encoding="utf-8")
    probe = PROBES[PARITY].replace("anthropic/token_parity", "lumen/parity").replace('["anthropic"]', '["lumen"]')
    (folder / "lumen" / "parity.toml").write_text(probe.replace("/v1/messages", "/lumen/v2/talk"), encoding="utf-8")


def test_an_invented_vendor_loads_and_plans_without_code(tmp_path):
    invented_vendor(tmp_path)
    packs = load_packs(tmp_path)
    pack = packs.pack("lumen")
    assert pack.usage.input[0] == "/spent/in"
    asked = Question(model="lumen-9", official_model="lumen-9", dialect="lumen", profile="standard", checks=(),
                     software="unknown", counter=True)  # fmt: skip
    plan = make_plan(asked, pack, packs.probes, Wording(packs.wordlists, 1), 1)
    assert {step.path for step in plan.steps} == {"/lumen/v2/talk", "/lumen/v2/measure"}
    assert len(plan.chargeable()) == 24
    assert {step.probe for step in plan.steps} == {"lumen/parity"}, "nothing of another dialect is sent"


def test_an_archived_copy_loads_like_the_folder_of_the_day(tmp_path):
    invented_vendor(tmp_path)
    copy = json.loads(json.dumps(read_files("probes", tmp_path)))
    assert packs_from(copy) == load_packs(tmp_path)
    assert knowledge_from(json.loads(json.dumps(KNOWN))) == load_knowledge()


# --- knowledge


def test_every_table_of_the_knowledge_is_filled():
    knowledge = load_knowledge()
    assert all(getattr(knowledge, kind) for kind in ROWS if kind != "pins")


def test_the_digest_follows_every_file():
    digest = knowledge_digest(KNOWN)
    assert digest == knowledge_digest(dict(reversed(KNOWN.items())))
    for path in KNOWN:
        assert knowledge_digest({**KNOWN, path: KNOWN[path] + "\n"}) != digest
    assert knowledge_digest({**KNOWN, "mine.toml": ""}) != digest


IDS = "response_ids.toml"


@pytest.mark.parametrize(
    ("path", "old", "new", "says"),
    [
        (IDS, "[[ids]]", "[[idz]]", r"line \d+: unknown table idz \(did you mean ids\?\)"),
        (IDS, "pattern = ", "patern = ", r"unknown key ids\[0\]\.patern \(did you mean pattern\?\)"),
        (IDS, "term_days = 365", "term_days = 0", r"ids\[0\]\.term_days"),
        (IDS, "observed = 2026-10-03", "", r"ids\[0\]\.observed is missing"),
        (IDS, 'level = "measured"', 'level = "certain"', r"ids\[0\]\.level"),
        (IDS, 'id = "aws.message_id"', 'id = "anthropic.message_id"', "defined twice"),
        (IDS, 'superseded_by = "anthropic.message_id"', 'superseded_by = "nobody"', "by nobody, which is not there"),
        ("settings.toml", 'software = "litellm"', 'software = "litelm"', r"software litelm \(did you mean litellm\?\)"),
        ("settings.toml", '"channel.id_replayed"', '"channel.id_replay"', r"did you mean channel\.id_replayed"),
        ("verdict_rules.toml", '"billing.overcharged"', '"billing.overcharge"', r"did you mean billing\.overcharged"),
        ("verdict_rules.toml", 'verdict = "usable"', 'verdict = "fine"', r"rules\[8\]\.verdict"),
        ("token_baselines.toml", "tokens = 18", "tokens = -1", r"baselines\[0\]\.tokens"),
        ("models.toml", '"zh-CN"', '"zh-TW"', r"unknown key models\[0\]\.meaning\.zh-TW \(did you mean zh-CN\?\)"),
    ],
)  # fmt: skip
def test_knowledge_that_breaks_a_rule_is_refused(path, old, new, says):
    with pytest.raises(PackError, match=says) as caught:
        knowledge_from(change(path, old, new, KNOWN))
    assert caught.value.message.startswith(path)
    assert "fingerprints check" in caught.value.next_step


def test_knowledge_of_ones_own_is_added_not_replaced(tmp_path):
    text = KNOWN["token_baselines.toml"].replace("one_word.", "mine.").replace("tokens = 18", "tokens = 21")
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert len(load_knowledge(tmp_path).baselines) == len(load_knowledge().baselines) + 2
    (tmp_path / "mine.toml").write_text(KNOWN["token_baselines.toml"], encoding="utf-8")
    with pytest.raises(PackError, match="defined twice"):
        load_knowledge(tmp_path)


def test_a_trailing_star_is_a_prefix_of_codes():
    stars = change("verdict_rules.toml", '"billing.overcharged"', '"billing.*"', KNOWN)
    assert any("billing.*" in rule.any_code for rule in knowledge_from(stars).rules)
    with pytest.raises(PackError, match=r"no finding code weather\.\*"):
        knowledge_from(change("verdict_rules.toml", '"billing.overcharged"', '"weather.*"', KNOWN))


def test_the_rule_table_ends_in_a_rule_that_always_fits():
    rules = load_knowledge().rules
    assert (rules[-1].verdict, rules[-1].any_code, rules[-1].min_severity, rules[-1].incomplete) == (
        "usable",
        (),
        None,
        None,
    )
    assert [rule.verdict for rule in rules] == [
        "do_not_use", "do_not_use", "fix_first", "fix_first", "backup", "fix_first", "fix_first", "inconclusive", "usable",
    ]  # fmt: skip


def test_every_accusing_code_meets_a_rule_of_its_own_or_the_general_one():
    general = next(rule for rule in load_knowledge().rules if rule.id == "other_difference")
    assert (general.any_code, general.min_severity) == ((), "medium")
    named = {code for rule in load_knowledge().rules for code in rule.any_code}
    assert named <= set(CODES)


# --- documents out of the definitions

ONE_WORKER = pytest.mark.xdist_group("documents")
"""Each is worked out once, in the worker that asks."""


@ONE_WORKER
@pytest.mark.parametrize("path", schema.DOCUMENTS)
def test_a_generated_document_is_what_the_definitions_say(path):
    assert (checkout() / path).read_text(encoding="utf-8") == schema.document(path), (
        "run: python -m relay_audit.schema --write"
    )


@ONE_WORKER
def test_a_changed_document_is_noticed(tmp_path):
    for path in schema.DOCUMENTS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(schema.document(path), encoding="utf-8")
    assert schema.differing(tmp_path) == []
    (tmp_path / "docs/finding_codes.md").write_text("by hand", encoding="utf-8")
    (tmp_path / "docs/exit_codes.md").unlink()
    assert schema.differing(tmp_path) == ["docs/finding_codes.md", "docs/exit_codes.md"]


def test_the_documents_name_everything():
    codes = schema.codes_markdown()
    assert all(f"`{code}`" in codes for code in CODES)
    probes = schema.probes_markdown()
    assert all(f"`{probe.id}`" in probes and probe.caveat.zh in probes for probe in load_packs().probes)
    exits = schema.exit_codes_markdown()
    assert all(f"| {code} |" in exits for code in EXIT_CODES)
    assert sorted(EXIT_PRECEDENCE) == sorted(EXIT_CODES)
    prints = schema.fingerprints_markdown()
    assert all(f"`{row.id}`" in prints for row in load_knowledge().ids)


def test_the_schemas_know_every_table_and_refuse_unknown_keys():
    whole = schema.fingerprint_schema()
    assert set(whole["properties"]) == set(ROWS)
    assert whole["additionalProperties"] is False
    defs = schema.probe_schema()["$defs"]
    assert defs["Probe"]["additionalProperties"] is False
    assert "bound" in defs["RequestSpec"]["required"]
    assert "zh-CN" in defs["Bilingual"]["properties"]
