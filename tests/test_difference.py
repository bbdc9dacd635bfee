"""Whose change was it? Each cause alone in the lab gives that cause, and nothing of weight another one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from relay_audit import audit
from relay_audit.change import CAUSES, changes_between
from relay_audit.cli.main import app
from relay_audit.codes import finding
from relay_audit.difference import Difference, difference
from relay_audit.lab import HttpRequest
from relay_audit.library import library_from
from relay_audit.line_history import history_of
from relay_audit.report.catalogue import Catalogue
from relay_audit.words import LANGS
from tests.audits import LIBRARY
from tests.staged import Staged, staged

pytestmark = pytest.mark.deep

TOKENS = {"checks": [1, 2]}


def ended(scenario: str, home: Path, **ways) -> Staged:
    run = staged(scenario, home, audit=ways.pop("audit", TOKENS), **ways)
    judged = run.whole()
    audit.record_judgement(run.recorder, judged)
    return run


def between(one: Staged, two: Staged) -> Difference:
    return difference(one.recorder.store, two.recorder.store)


def heavy(found: Difference) -> set[str]:
    return {change.cause for change in found.changes if change.weighs or change.code == "quote.price"}


@pytest.fixture
def before(tmp_path) -> Staged:
    return ended("honest", tmp_path / "before")


def test_the_relay(before, tmp_path):
    found = between(before, ended("hidden_508", tmp_path / "after", seed=4))
    assert heavy(found) == {"relay"}
    assert found.relay_changed
    change = next(c for c in found.changes if c.code == "tokens.constant_surplus")
    assert (change.kind, change.cause) == ("appeared", "relay")


def test_the_relay_when_it_was_put_right(before, tmp_path):
    found = between(ended("hidden_508", tmp_path / "bad", seed=4), before)
    assert [(c.code, c.kind, c.cause) for c in found.changes if c.weighs] == [
        ("tokens.constant_surplus", "gone", "relay")
    ]


def test_the_relays_other_channel(before, tmp_path):
    assert heavy(between(before, ended("bedrock_ids", tmp_path / "after"))) == {"relay"}


def more_counted(tokens: int):
    """The vendor's counter alone says so many more than before."""
    holder: list[Staged] = []

    def replace(seen, _):
        if seen.side != "official" or not seen.path.endswith("count_tokens"):
            return None
        headers = tuple(seen.headers.items())
        answer = holder[0].world.handle(
            "official", HttpRequest("POST", seen.path, headers, json.dumps(seen.body).encode())
        )
        return httpx.Response(200, json={"input_tokens": json.loads(answer.body)["input_tokens"] + tokens})

    return holder, replace


def test_the_official_side(tmp_path):
    """The vendor counts 300 more for the same texts; the relay bills as before."""
    one = ended("hidden_508", tmp_path / "one")
    holder, replace = more_counted(300)
    two = staged("hidden_508", tmp_path / "two", seed=3, audit=TOKENS, replace=replace)
    holder.append(two)
    audit.record_judgement(two.recorder, two.whole())
    found = between(one, two)
    assert heavy(found) == {"official"}
    assert not found.relay_changed


@pytest.mark.parametrize("scenario", ["official_down", "official_incident"])
def test_an_official_side_that_failed(before, tmp_path, scenario):
    found = between(before, ended(scenario, tmp_path / "after"))
    assert not found.relay_changed
    assert {c.cause for c in found.changes if c.check == 2} <= {"official", "plan", "noise"}
    assert "official" in {c.cause for c in found.changes} or heavy(found) == set()


def without(kind: str, ident: str):
    """The shipped knowledge without one row."""
    files = dict(LIBRARY.files)
    for path, text in files.items():
        if path.startswith("known_fingerprints/") and f'id = "{ident}"' in text:
            blocks = text.split(f"[[{kind}]]")
            files[path] = f"[[{kind}]]".join(b for b in blocks if f'id = "{ident}"' not in b)
            return library_from(files)
    raise AssertionError(ident)


def test_our_knowledge(tmp_path, monkeypatch):
    """The rows by which Bedrock is known are new: the difference was there before, we only did not see it."""
    lean = dict(LIBRARY.files)
    for path, text in lean.items():
        if path.startswith("known_fingerprints/"):
            lean[path] = text.replace('channels = ["aws"]', 'channels = ["anthropic"]')
    monkeypatch.setattr("tests.staged.LIBRARY", library_from(lean))
    one = ended("bedrock_ids", tmp_path / "one")
    monkeypatch.undo()
    two = ended("bedrock_ids", tmp_path / "two", seed=5)
    found = between(one, two)
    assert heavy(found) == {"knowledge"}
    assert not found.relay_changed
    assert found.files


def test_a_price_table(tmp_path, monkeypatch):
    one = ended("honest_no_pricing", tmp_path / "one")
    dear = {
        path: re.sub(r'^input = "(\d)', r'input = "1\1', text, flags=re.MULTILINE)
        if path.startswith("known_fingerprints/prices/anthropic")
        else text
        for path, text in LIBRARY.files.items()
    }
    assert dear != LIBRARY.files
    monkeypatch.setattr("tests.staged.LIBRARY", library_from(dear))
    found = between(one, ended("honest_no_pricing", tmp_path / "two", seed=5))
    assert heavy(found) == {"prices"}
    assert not found.relay_changed


def test_a_price_that_the_relay_publishes_is_the_relays(before, tmp_path):
    found = between(before, ended("honest_group_ratio", tmp_path / "after"))
    assert {c.cause for c in found.changes if c.code == "quote.price"} == {"relay"}


def test_our_program(tmp_path, monkeypatch):
    """An older version judged the older run, and less severely."""
    monkeypatch.setattr("relay_audit.audit.__version__", "0.0.9")
    one = staged("hidden_508", tmp_path / "one", audit=TOKENS)
    judged = one.whole()
    monkeypatch.undo()
    mild = tuple(f.model_copy(update={"severity": "low"}) if f.accusation else f for f in judged.findings)
    audit.record_judgement(one.recorder, judged.model_copy(update={"findings": mild}))
    found = between(one, ended("hidden_508", tmp_path / "two", seed=5))
    assert heavy(found) == {"tool"}
    assert not found.relay_changed
    assert audit.judge(one.recorder.store).findings == mild, "what was said then is said again"


def test_the_plan(tmp_path):
    one = ended("temperature_dropped", tmp_path / "one")
    two = ended("temperature_dropped", tmp_path / "two", audit={"checks": [1, 2, 4]}, seed=5)
    found = between(one, two)
    assert heavy(found) == {"plan"}
    assert "plan_digest" in {fact.name for fact in found.facts}


@pytest.mark.parametrize("scenario", ["honest", "honest_flaky_25", "hidden_508", "honest_slow"])
def test_nothing_but_noise(tmp_path, scenario):
    one, two = (ended(scenario, tmp_path / str(seed), seed=seed) for seed in (11, 12))
    found = between(one, two)
    assert heavy(found) <= {"noise"}
    assert not found.relay_changed


def test_every_change_has_exactly_one_cause_and_its_words(before, tmp_path):
    for scenario in ("mixed_pool", "key_echo", "official_future"):
        run = staged(scenario, tmp_path / scenario, audit=TOKENS)
        run.whole()
        for change in between(before, run).changes:
            assert change.cause in CAUSES
            for lang in LANGS:
                assert Catalogue.load(lang).text(f"diff.why.{change.why}")


def test_a_moved_bound_is_no_change():
    params = {"n": 12, "surplus": 508, "low": 508, "high": 508, "official": 31, "billed": 539, "per_1000_calls": "1.52",
              "condition": ""}  # fmt: skip
    one = finding("tokens.constant_surplus", params)
    assert changes_between((one,), (finding("tokens.constant_surplus", {**params, "n": 9, "surplus": 509}),)) == []
    moved = changes_between((one,), (finding("tokens.constant_surplus", {**params, "surplus": 1016}),))
    assert [c.kind for c in moved] == ["changed"]


def test_a_lines_history_says_whose_change_each_night_was(tmp_path):
    for night, scenario in enumerate(("honest", "honest", "hidden_508")):
        run = ended(scenario, tmp_path / str(night), seed=20 + night)
        run.recorder.store.close()
        (tmp_path / "audits").mkdir(exist_ok=True)
        run.recorder.store.path.rename(tmp_path / "audits" / f"20261130-030{night}-aaaaaa")
    rows = history_of("line-under-test", tmp_path / "audits")
    assert [row.relay_changed for row in rows] == [False, False, True]
    assert rows[2].changes == {"relay": 1}
    assert history_of("another line", tmp_path / "audits") == []


def test_the_commands_speak_both_languages(before, tmp_path, monkeypatch):
    after = ended("hidden_508", tmp_path / "after")
    for run in (before, after):
        run.recorder.store.close()
    paths = [str(run.recorder.store.path) for run in (before, after)]
    for lang, word in (("zh-CN", "中转站变了"), ("en", "The relay changed")):
        assert word in CliRunner().invoke(app, ["diff", *paths, "--lang", lang]).stdout
    row = json.loads(CliRunner().invoke(app, ["diff", *paths, "--json"]).stdout)
    assert json.loads(CliRunner().invoke(app, ["diff", *paths, "--format", "json"]).stdout) == row
    page = Path(paths[0]).parent / "changed.html"
    assert CliRunner().invoke(app, ["diff", *paths, "--lang", "en", "--format", "html", "-o", str(page)]).exit_code == 0
    assert "508 more input tokens" in page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
    assert "no such form" in str(CliRunner().invoke(app, ["diff", *paths, "--format", "pdf"]).exception)
    assert row["relay_changed"]
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(Path(paths[0]).parent))
    told = json.loads(CliRunner().invoke(app, ["history", "line-under-test", "--json"]).stdout)
    assert [r["verdict"] for r in told["runs"]] == ["usable"]
    assert Path(paths[0]).name in CliRunner().invoke(app, ["history", "line-under-test"]).stdout
