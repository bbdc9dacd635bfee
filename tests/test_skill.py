"""The skill does what it says, with no knowledge beyond its text; and it can neither approve nor set an amount."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from relay_audit import __version__, skill
from relay_audit.cli.main import main
from relay_audit.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "skills" / "relay-audit"
PIN = f"uvx --from relay-audit-toolkit=={__version__} relay-audit "
FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INTENT = re.compile(r"欺诈|诈骗|造假|假冒|骗|黑心|掺水|fraud|scam|cheat|counterfeit|dishonest|steal", re.IGNORECASE)


def texts() -> dict[str, str]:
    """Everything an agent may read: both stubs and every topic in both languages."""
    found = {"SKILL.md": (ROOT / "SKILL.md").read_text("utf-8"), "stub": (FOLDER / "SKILL.md").read_text("utf-8")}
    for lang in ("en", "zh-CN"):
        found |= {f"{lang}/{name}": skill.topic(name, lang) for name in skill.topics()}
    return found


def commands(text: str) -> list[str]:
    return [line for block in FENCE.findall(text) for line in block.splitlines() if "relay-audit" in line]


def head(text: str) -> dict[str, Any]:
    """The front matter: its few lines are `key: value`, one level deep."""
    lines = text.split("---\n")[1].splitlines()
    table: dict[str, Any] = {}
    for line in lines:
        key, _, value = line.partition(": ") if ": " in line else (line.rstrip(":"), "", "")
        if line.startswith("  "):
            last = list(table)[-1]
            table[last] = (table[last] or {}) | {key.strip(): value.strip('"')}
        else:
            table[key] = value
    return table


@pytest.fixture(scope="module")
def path() -> Any:
    spec = importlib.util.spec_from_file_location("skill_path", ROOT / "bench" / "skill_path.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["skill_path"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.deep
@pytest.mark.parametrize(("lang", "encoding"), [("en", "gbk"), ("zh-CN", "gbk"), ("en", "utf-8")])
def test_the_happy_path_works_from_the_text_alone(path, lang, encoding):
    walked = path.walk("hidden_508", lang, encoding)
    assert walked.faults == []
    assert len(walked.commands) <= 6
    assert walked.output <= 20_000
    assert walked.longest <= 8_000
    assert "508" in walked.result["answer"]["say"][lang]
    assert walked.files == ["internal.html", "vendor.html"]


def test_every_command_is_pinned_and_permits_nothing():
    for name, text in texts().items():
        for line in commands(text):
            assert line.startswith(PIN), f"{name}: {line}"
            words = shlex.split(line.removeprefix(PIN).partition("   #")[0])
            assert words[0] != "approve", name
            assert not {"--max-usd", "--allow-origin", "--key-file", "--key-prompt"} & set(words), name
        assert f"relay-audit-toolkit=={__version__}" in text or name == "SKILL.md" or "relay-audit-toolkit" not in text
        assert not re.search(r"relay-audit-toolkit==(?!" + re.escape(__version__) + ")", text), name
        assert "[budget]" not in text, name
        assert "max_usd" not in text, name


@pytest.mark.parametrize("topic", ["errors", "reading", "money", "permissions", "ci"])
def test_other_topics_run_as_they_stand(topic, monkeypatch, tmp_path, path):
    """Their commands only read; they are tried on a run that a quote left behind, and where a finding is read on one that
    has made it."""
    from relay_audit.lab import serve

    monkeypatch.chdir(tmp_path)
    with serve("hidden_508" if topic == "reading" else "honest", pace=0) as served:
        monkeypatch.setenv("RELAY_KEY", served.relay_key)
        line = f"run --base-url {served.relay_url} --model claude-sonnet-5-5 --claim anthropic --json"
        line += " --checks 2 --max-usd 1" if topic == "reading" else ""
        run = json.loads(called(line, monkeypatch)[1])["run_id"]
        for command in commands(skill.topic(topic, "en")):
            words = command.removeprefix(PIN).partition("   #")[0].replace(" RUN", f" {run}").strip()
            code, out, err = called(words, monkeypatch)
            assert code == 0, (words, out, err)
            assert len(out.encode()) <= 8_000


def called(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """The command at a Chinese Windows console."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="gbk") for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["relay-audit", *shlex.split(line)])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            main()
        said = [stream.buffer.getvalue().decode("gbk") for stream in (out, err) if not stream.flush()]
    return int(ended.value.code or 0), said[0], said[1]


def test_both_languages_show_the_same_commands():
    for name in skill.topics():
        lines = [
            [line.replace("--lang zh-CN", "--lang en") for line in commands(skill.topic(name, lang))]
            for lang in ("zh-CN", "en")
        ]
        assert lines[0] == lines[1], name
        assert len(skill.topic(name, "zh-CN").encode()) <= 8_000


def test_no_word_about_intent_is_put_into_an_agents_mouth():
    for name, text in texts().items():
        assert not INTENT.search(text), name


def test_the_root_stub_is_internal_and_the_installable_one_is_described():
    root, stub = (head((place / "SKILL.md").read_text("utf-8")) for place in (ROOT, FOLDER))
    assert root["metadata"] == {"internal": "true"}
    assert "internal: true\n" in (ROOT / "SKILL.md").read_text("utf-8")  # the YAML boolean, not a text
    assert stub["name"] == FOLDER.name == root["name"]
    assert len(stub["description"]) <= 1024
    assert {"中转站", "API 中转", "验货", "relay", "reseller"} <= {
        word for word in ("中转站", "API 中转", "验货", "relay", "reseller") if word in stub["description"]
    }
    assert stub["metadata"]["version"] == __version__
    allowed = stub["allowed-tools"]
    assert "approve" not in allowed
    assert "run" not in re.findall(r"relay-audit (\w+)", allowed)
    assert not re.search(r"Bash\((\*|uvx \*|relay-audit ?\*)", allowed)


def test_claude_codes_snippet_asks_for_what_spends():
    settings = json.loads((FOLDER / "assets/claude-code.settings.json").read_text("utf-8"))
    assert settings["env"]["RELAY_AUDIT_REQUIRE_APPROVE"] == "1"
    rules = [re.compile(re.escape(rule[5:-1]).replace(r"\*", ".*")) for rule in settings["permissions"]["ask"]]
    asked = [
        "relay-audit approve latest --quote 12 --max-usd 1",
        f"{PIN}approve latest --quote 12 --max-usd 1",
        f"{PIN}run target.toml --max-usd 1 --json",
        "relay-audit run --max-usd=1 target.toml",
        f"{PIN}fleet run all.toml",
    ]
    free = [f"{PIN}quote target.toml --json", f"{PIN}status", "relay-audit run target.toml --json"]
    assert all(any(rule.fullmatch(line) for rule in rules) for line in asked)
    assert not any(rule.fullmatch(line) for rule in rules for line in free)


def test_codexs_snippet_prompts_for_what_spends():
    rules: list[dict[str, Any]] = []
    text = (FOLDER / "assets/codex.rules").read_text("utf-8")
    exec(compile(text, "codex.rules", "exec"), {"prefix_rule": lambda **rule: rules.append(rule)})  # noqa: S102  our own file, in the rules' own syntax
    for rule in rules:
        assert rule["decision"] == "prompt"
        for example in rule["match"]:
            assert shlex.split(example)[: len(rule["pattern"])] == rule["pattern"]
    patterns = [tuple(rule["pattern"]) for rule in rules]
    pinned = tuple(PIN.split())
    for words in (("approve",), ("run", "--max-usd"), ("fleet", "run")):
        assert ("relay-audit", *words) in patterns
        assert (*pinned, *words) in patterns
    config = tomllib.loads((FOLDER / "assets/codex.config.toml").read_text("utf-8"))
    assert config["shell_environment_policy"]["set"] == {"RELAY_AUDIT_REQUIRE_APPROVE": "1"}


def test_the_permissions_topic_holds_the_snippets_whole():
    shown = skill.topic("permissions", "en")
    for asset in skill.ASSETS.values():
        assert (FOLDER / "assets" / asset).read_text("utf-8").strip() in shown


def test_installing_puts_the_whole_folder_where_the_agent_looks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = called("skill install --claude --codex --cursor --dir elsewhere --json", monkeypatch)
    assert code == 0
    places = json.loads(out)["installed"]
    assert places == [f"{parent}/relay-audit" for parent in (*skill.PLACES.values(), "elsewhere")]
    original = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
    for place in places:
        copy = {p.relative_to(place).as_posix(): p.read_bytes() for p in Path(place).rglob("*") if p.is_file()}
        assert copy == original


def test_installing_replaces_an_older_copy_and_spares_a_strangers(tmp_path):
    place = skill.install(tmp_path)
    stub = place / "SKILL.md"
    stub.write_text(stub.read_text("utf-8").replace(__version__, "0.0.1"), "utf-8")
    skill.install(tmp_path)
    assert stub.read_bytes() == (FOLDER / "SKILL.md").read_bytes()
    stub.write_text("---\nname: relay-audit\ndescription: another tool\n---\n", "utf-8")
    with pytest.raises(UsageError, match="not this skill"):
        skill.install(tmp_path)
    assert "another tool" in stub.read_text("utf-8")


def test_a_link_is_not_written_through(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "relay-audit").symlink_to(tmp_path / "victim")
    with pytest.raises(UsageError):
        skill.install(tmp_path)
    assert list((tmp_path / "victim").iterdir()) == []


def test_an_unknown_topic_names_the_known_ones(monkeypatch):
    code, _, err = called("skill show mony", monkeypatch)
    assert code == 2
    assert "money" in err
