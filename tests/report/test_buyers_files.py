"""What the buyer brings for his own card: a rule table in place of ours, and his lines with their success over 30 days."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay_audit.cli.main import app
from relay_audit.errors import PackError, UsageError
from relay_audit.filing import Order, report_bytes
from relay_audit.lines_file import read_lines
from relay_audit.policy import read_policy
from relay_audit.target import Internal
from relay_audit.words import LANGS
from tests.report import golden

RULES = Path(__file__).resolve().parents[2] / "known_fingerprints" / "verdict_rules.toml"
LAST = """
[[rules]]
id = "ours_alone"
verdict = "backup"
why.en = "Our own table: nothing leaves the second rank in its first month."
why."zh-CN" = "自己的规则：头一个月一律只作备用。"
"""
LINES = """
[[line]]
name = "first-zq"
model = "claude-sonnet-5-5"
usd_per_mtok_in = 1.6
usd_per_mtok_out = 8
success_30d = 0.9971
window = "2026-10-31 to 2026-11-29"
source = "gateway metrics"

[[line]]
name = "second-zq"
model = "claude-sonnet-5-5"
usd_per_mtok_in = 2.5

[[line]]
name = "third-zq"
model = "gpt-5"
success_30d = 0.5
"""


def test_a_policy_of_the_buyers_own_decides_and_the_card_prints_its_digest(tmp_path: Path, monkeypatch) -> None:
    policy = tmp_path / "rules.toml"
    policy.write_text(LAST, encoding="utf-8")
    digest = hashlib.sha256(policy.read_bytes()).hexdigest()
    with golden.opened("honest", tmp_path) as (history, _):
        run = history.store.run_id
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path / "audits"))
    monkeypatch.setenv("RELAY_AUDIT_HOME", str(tmp_path / "home"))

    def said(*more: str) -> str:
        done = CliRunner().invoke(app, ["report", run, "--format", "md", *more])
        assert done.exit_code == 0
        return done.stdout.replace("\\", "")

    assert digest[:12] not in golden.expected(golden.Wanted("honest", "internal", "zh-CN", "md")), (
        "ours needs no digest"
    )
    own = said("--for", "internal", "--lang", "zh-CN", "--policy", str(policy))
    assert digest[:12] in own
    assert "ours_alone" in own
    assert "nothing_found" not in own
    assert "## 备用" in own
    assert "自己的规则" in own
    vendors = said("--for", "vendor", "--lang", "zh-CN", "--policy", str(policy))
    assert digest[:12] not in vendors, "the buyer's policy is no business of the vendor's"
    assert "ours_alone" not in vendors


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rules = 3", ""),
        ('[[rules]]\nid = "x"\nverdict = "splendid"\nwhy.en = "a"\nwhy."zh-CN" = "b"\n', "verdict"),
        (LAST + '[[prices]]\nid = "y"\n', "prices"),
        (LAST.replace('verdict = "backup"', 'verdict = "backup"\nmin_severity = "high"'), "last rule"),
        ("", "no rules"),
    ],
)
def test_a_policy_that_is_none_is_refused_before_anything_is_judged_by_it(
    tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PackError) as caught:
        read_policy(file)
    assert named in caught.value.message
    assert caught.value.next_step
    ours = read_policy(RULES)
    assert ours.digest == hashlib.sha256(RULES.read_bytes()).hexdigest()


def test_success_over_thirty_days_comes_from_a_file_with_window_and_source(tmp_path: Path) -> None:
    file = tmp_path / "lines.toml"
    file.write_text(LINES, encoding="utf-8")
    first, second, third = read_lines(file) or ()
    assert (first.success_30d, first.window, first.source) == (
        Decimal("0.9971"), "2026-10-31 to 2026-11-29", "gateway metrics",
    )  # fmt: skip
    assert (second.success_30d, second.window, third.usd_per_mtok_in) == (None, "", None)
    with golden.opened("faulty", tmp_path / "run") as (history, judged):

        def told(lang, form, name: str, audience="internal") -> str:
            own = Internal(lines_file=str(tmp_path / name))
            history.target = history.target.model_copy(update={"internal": own})
            made = report_bytes(history, judged, audience, form, lang, golden.KEYS, Order())
            return made.decode().replace("\\", "")

        words = {
            "en": ("99.71%", "not given", "success over 30 days is missing"),
            "zh-CN": ("99.71%", "没有给出", "30 天成功率缺失"),
        }
        for lang in LANGS:
            measured, missing, gone = words[lang]
            text = told(lang, "md" if lang == "en" else "html", "lines.toml")
            assert measured in text
            assert missing in text, "a line without a figure is not left out, and gets none of ours"
            assert "2026-10-31 to 2026-11-29" in text
            assert "gateway metrics" in text
            assert "third-zq" not in text, "another model's line is no comparison"
            assert gone in told(lang, "md", "moved.toml")
        assert "99.71%" not in told("en", "md", "lines.toml", "public")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[[line]", "not TOML"),
        ('[[line]]\nmodel = "m"\n', "line.0.name"),
        ('[[line]]\nname = "a"\nmodel = "m"\nsuccess_30d = 99.71\n', "success_30d"),
        ('[[line]]\nname = "a"\nmodel = "m"\nsuccess = 0.9\n', "success"),
    ],
)
def test_a_file_of_lines_that_is_none_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "lines.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_lines(file)
    assert named in caught.value.message
    assert caught.value.next_step
    assert read_lines(tmp_path / "nowhere.toml") is None
