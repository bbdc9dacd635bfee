"""`verify`: what was sealed is told from what was touched, down to one digit of a report."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay_audit import audit
from relay_audit.archive.contents import contents
from relay_audit.archive.zipped import write_archive
from relay_audit.cli.main import app
from relay_audit.filing import report_bytes
from relay_audit.replay import replay
from relay_audit.store import Store
from relay_audit.verification import verify_run
from tests.archive.runs import kept


def verified(run: Path, *reports: Path):
    with Store.open(run) as store:
        return verify_run(store, list(reports), {})


def codes(found) -> list[str]:
    return [problem.code for problem in found.problems]


def cli(*arguments: str, exit_code: int = 0) -> dict:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == exit_code, done.output + repr(done.exception)
    return json.loads(done.stdout.splitlines()[-1])


def test_a_fresh_run_is_what_it_was(tmp_path):
    found = verified(kept("surplus", tmp_path))
    assert (codes(found), [n.code for n in found.notes]) == ([], [])
    assert {r["state"] for r in found.reports} == {"recorded"}
    assert len(found.reports) == 2


@pytest.mark.parametrize("name", ["surplus", "waiting"])
def test_a_flipped_byte_in_any_blob_is_noticed(tmp_path, name):
    run = kept(name, tmp_path)
    blobs = sorted((run / "blobs").iterdir())
    for blob in blobs[:: max(1, len(blobs) // 20)]:
        raw = blob.read_bytes()
        blob.chmod(0o600)
        blob.write_bytes(raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 1]) + raw[len(raw) // 2 + 1 :])
        assert codes(verified(run)) == ["blob_changed"], blob.name
        blob.write_bytes(raw)
    assert codes(verified(run)) == []


def test_a_missing_blob_is_noticed_and_a_loose_one_is_harmless(tmp_path):
    run = kept("surplus", tmp_path)
    with Store.open(run) as store:
        store.put_blob(b"left behind by a power cut")
        named = next(e.payload_ref for e in store.events() if e.type == "exchange.recorded")
    assert [n.code for n in verified(run).notes] == ["loose_blobs"]
    (run / "blobs" / named).unlink()
    assert codes(verified(run)) == ["blob_missing"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET payload = replace(payload, '0.0', '0.1') WHERE type = 'request.sending'",
        "DELETE FROM events WHERE seq = 9",
        "UPDATE events SET ts = '2026-11-30T03:00:00.000001+00:00' WHERE seq = 4",
        "UPDATE events SET actor = 'human' WHERE seq = 12",
    ],
)
def test_a_changed_event_is_noticed(tmp_path, statement):
    run = kept("surplus", tmp_path)
    with sqlite3.connect(run / "run.sqlite3") as base:
        triggers = dict(base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall())
        for name in triggers:
            base.execute(f"DROP TRIGGER {name}")
        assert base.execute(statement).rowcount > 0
        for sql in triggers.values():
            base.execute(sql)
    assert codes(verified(run)) == ["chain"]


@pytest.mark.deep
def test_a_report_altered_by_one_digit_is_caught(tmp_path):
    """Figures of each report in turn: one digit changed, and `verify` says so."""
    run = kept("surplus", tmp_path)
    for report in sorted((run / "reports").iterdir()):
        page = report.read_text(encoding="utf-8")
        figures = list(re.finditer(r"(?<=>)[^<>]*?(\d)(?=[^<>]*<)", page))
        for figure in figures[:: max(1, len(figures) // 5)]:
            at = figure.start(1)
            other = str((int(page[at]) + 1) % 10)
            (tmp_path / report.name).write_text(page[:at] + other + page[at + 1 :], encoding="utf-8")
            found = verified(run, tmp_path / report.name)
            assert codes(found) == ["report_altered"], page[at - 20 : at + 20]
            assert [r["state"] for r in found.reports] == ["recorded", "recorded", "altered"]


def test_the_altered_figure_is_named(tmp_path):
    run = kept("surplus", tmp_path)
    page = (run / "reports" / "vendor.en.html").read_text(encoding="utf-8")
    (tmp_path / "v.html").write_text(page.replace("508", "509"), encoding="utf-8")
    problem = verified(run, tmp_path / "v.html").problems[0]
    assert "509" in problem.params["figures"]


def test_a_report_that_was_rendered_elsewhere_is_rendered_again(tmp_path):
    run = kept("surplus", tmp_path)
    with Store.open(run) as store:
        page = report_bytes(replay(store), audit.judge(store), "vendor", "json", "zh-CN", {})
    (tmp_path / "v.json").write_bytes(page)
    assert verified(run, tmp_path / "v.json").reports[-1]["state"] == "rendered_again"


def test_years_later_the_same_findings_and_the_same_report(tmp_path, monkeypatch):
    """By another version, which would judge otherwise: what was said then is said again, byte for byte."""
    run = kept("surplus", tmp_path)
    page = (run / "reports" / "vendor.en.html").read_bytes()
    with Store.open(run) as store:
        then = audit.judge(store)
        monkeypatch.setattr("relay_audit.judgement.__version__", "99.0.0")
        monkeypatch.setattr("relay_audit.judgement.assess", lambda *_: ((), ()))
        again = audit.judge(store)
        assert (again.findings, again.coverage, again.verdict) == (then.findings, then.coverage, then.verdict)
        assert again.knowledge_digest == then.knowledge_digest
        assert report_bytes(replay(store), again, "vendor", "html", "en", {}) == page


@pytest.mark.deep
def test_an_altered_report_inside_the_run_is_caught_too(tmp_path):
    run = kept("surplus", tmp_path)
    page = run / "reports" / "internal.en.html"
    page.write_text(page.read_text(encoding="utf-8").replace("508", "58"), encoding="utf-8")
    assert codes(verified(run)) == ["report_altered"]


@pytest.mark.deep
def test_the_commands_and_their_exit_codes(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = kept("surplus", tmp_path)
    assert cli("verify", run.name)["ok"]
    full = cli("export", run.name)
    vendor = cli("export", run.name, "--for", "vendor", "-o", str(tmp_path / "v.zip"))
    assert cli("verify", full["archive"])["digest"] == full["digest"]
    seen = cli("verify", vendor["archive"])
    assert (seen["digest"], seen["edition"], seen["ok"]) == (vendor["digest"], "vendor", True)
    assert cli("verify", run.name)["ok"], "an export is an event after the end and changes nothing"
    page = (run / "reports" / "vendor.en.html").read_text(encoding="utf-8")
    assert vendor["digest"] in page
    (tmp_path / "x.html").write_text(page.replace("508", "507"), encoding="utf-8")
    said = cli("verify", run.name, str(tmp_path / "x.html"), exit_code=1)
    assert [p["code"] for p in said["problems"]] == ["report_altered"]
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path / "elsewhere"))
    back = cli("import", full["archive"])
    assert (back["run_id"], back["imported"]) == (run.name, True)
    assert cli("verify", run.name)["ok"]
    assert cli("import", full["archive"])["imported"] is False


def test_both_languages_speak(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    run = kept("surplus", tmp_path)
    for lang, word in (("zh-CN", "封存"), ("en", "sealed")):
        assert word in CliRunner().invoke(app, ["verify", run.name, "--lang", lang]).stdout


def test_an_archive_that_is_damaged_says_so_with_1(tmp_path):
    run = kept("surplus", tmp_path)
    with Store.open(run) as store:
        write_archive(contents(store, "full"), tmp_path / "a.zip")
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    at = raw.find(b"msg_01")
    raw[at + 2] ^= 1
    (tmp_path / "a.zip").write_bytes(raw)
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "a.zip"), "--json"])
    assert done.exit_code == 1, done.output
