"""Every error that a person can meet is said in both languages."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay_audit import addresses, errors
from relay_audit.cli.main import main
from relay_audit.cli.translated import in_

ROOT = Path(__file__).resolve().parent.parent
CLASSES = {
    name for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.RelayAuditError) and kind.exit_code != 70
}  # fmt: skip
ENGLISH_ONLY = {"catalog", "wording", "refusal", "baseline_file", "policy", "lines_file", "reply_file"}
"""Modules whose messages speak of one line of a file that an author writes: they name keys and rules of that file."""
MADE_OF_PARTS = {"addresses"}
"""Whose message is put together of words; a test of its own raises it."""
COMMAND = re.compile(r"(relay-audit|--?[a-z]|`relay-audit)")
ROWS = tomllib.loads((ROOT / "reports/templates/errors.toml").read_text("utf-8"))["say"]


def written(node: ast.expr) -> str | None:
    """A literal text with something plain in the place of every expression; None for what is made elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else _stand_in(v) for v in node.values]
        return "".join(str(part) for part in parts)
    return None


def _stand_in(value: ast.expr) -> str:
    inner = value.value if isinstance(value, ast.FormattedValue) else value
    if isinstance(inner, ast.IfExp) and isinstance(inner.body, ast.Constant):
        return str(inner.body.value)
    return " (did you mean that?)" if "nearest(" in ast.unparse(value) else "X1"


def raised() -> Iterator[tuple[str, str]]:
    """(module:line, English) of every message and next step."""
    for file in sorted((ROOT / "relay_audit").rglob("*.py")):
        if "lab" in file.relative_to(ROOT).parts or file.stem in ENGLISH_ONLY | MADE_OF_PARTS:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES and node.args:
                steps = [word.value for word in node.keywords if word.arg == "next_step"]
                for part in (node.args[0], *steps):
                    if (text := written(part)) is not None:
                        yield f"{file.stem}:{node.lineno}", text


def test_every_error_is_said_in_chinese_too():
    left = [(place, text) for place, text in raised() if in_(text, "zh-CN") == text and not COMMAND.match(text)]
    assert not left
    assert len(list(raised())) > 250


def test_the_rows_hold_the_same_places_and_differ():
    for row in ROWS:
        places = [set(re.findall(r"\{\w+\}", row[lang])) for lang in ("en", "zh-CN")]
        assert places[0] == places[1], row
        assert row["en"] != row["zh-CN"]
    assert len({row["en"] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    "address", ["10.1.2.3", "169.254.169.254", "198.18.0.7", "100.64.0.1", "224.0.0.1", "::", "240.0.0.1", "fe80::1"]
)
def test_a_refused_address_is_said_in_chinese(address):
    with pytest.raises(errors.AddressRefused) as refused:
        addresses.check(address, host=address, allow_private=False)
    told = in_(refused.value.message, "zh-CN")
    assert "没有发送任何请求" in told
    assert not re.search(r"[a-z]{3,}", told)
    assert re.search(r"[\u4e00-\u9fff]", in_(refused.value.next_step, "zh-CN"))


def test_what_no_row_fits_stays():
    assert in_("a text that nobody has translated", "zh-CN") == "a text that nobody has translated"
    assert in_("the environment variable RELAY_KEY is not set", "en") == "the environment variable RELAY_KEY is not set"


def test_what_is_inside_a_message_is_translated_as_well():
    english = "RELAY_KEY is not usable as a key: character 3 of 40 is a line break"
    assert in_(english, "zh-CN") == "RELAY_KEY 不能当 key 用：第 3 个字符（共 40 个）是换行"
    two = "unknown key relay.base_ur (did you mean base_url?); target.model: Field required"
    assert in_(two, "zh-CN") == "不认识的键 relay.base_ur（是想写 base_url 吗？）；target.model：必须填写"


@pytest.mark.parametrize(
    ("words", "lang", "told"),
    [
        (["status", "nothing-here", "--lang", "zh-CN"], "", "没有运行"),
        (["status", "nothing-here"], "zh_CN.UTF-8", "没有运行"),
        (["status", "nothing-here"], "", "there is no run"),
        (["run", "--nonsense"], "zh_CN.UTF-8", "没有这个选项：--nonsense"),
        (["run", "--lang=zh-CN"], "", "没有检测对象"),
    ],
)
def test_a_person_reads_an_error_in_their_language(words, lang, told, monkeypatch, capsys):
    monkeypatch.setenv("RELAY_AUDIT_LANG", lang or "en")
    monkeypatch.setattr(sys, "argv", ["relay-audit", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_a_program_reads_it_in_both(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["relay-audit", "status", "nothing-here", "--json"])
    with pytest.raises(SystemExit):
        main()
    said = json.loads(capsys.readouterr().out)
    assert said["message"] in said["text"]["en"]
    assert said["next_step"] in said["text"]["en"]
    assert "没有运行" in said["text"]["zh-CN"]
