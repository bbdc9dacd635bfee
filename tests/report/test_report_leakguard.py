"""Nothing that must not leave does; a clean report is never refused; a refusal tells no secret and leaves no file."""

from __future__ import annotations

import html
import json
import stat
from pathlib import Path

import pytest

from relay_audit.errors import LeakRefused
from relay_audit.redaction import Redactor, Secret
from relay_audit.report import leakguard
from relay_audit.report.leakguard import check, local_names, write_report
from relay_audit.report.render import render
from relay_audit.words import LANGS
from tests.report import samples

KEY = "sk-Zq" + "7Hd2Lw9RtPbXnc4VmKsJ0aEyG6uF1oTi"
NAME = "inhouse-zq-line"


def report(lang="en", audience="vendor", form="html", make=samples.surplus_findings) -> bytes:
    run = samples.evidence()
    findings = make(run)
    verdict = samples.judged(run, findings)
    return render(
        run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, audience, form, lang, knowledge_digest="cd" * 32
    )


def planted(text: str) -> bytes:
    return report().replace(b"<main>", b"<main>\n<p>" + text.encode() + b"</p>", 1)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("form", ["html", "json"])
@pytest.mark.parametrize(
    "make", [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
)
def test_clean_reports_pass(lang, form, make) -> None:
    raw = report(lang, "vendor", form, make)
    assert check(raw, "vendor", [NAME, "primary-claude", "预备线路"], None, "vendor-en.html") == ()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("key_like", KEY),
        ("key_like", "AIza" + "B" * 35),
        ("key_like", "AKIA" + "Q7" * 8),
        ("key_like", "-----BEGIN RSA PRIVATE KEY-----"),
        ("bearer_token", "authorization: Bearer abcdefghijklmnop.qrst"),
        ("key_in_address", "https://relay.example/log?key=abcdefghijkl123"),
        ("local_path", "/home/mei/audits"),
        ("local_path", "/Users/mei/audits"),
        ("local_path", "C:\\Users\\mei\\audits"),
        ("internal_name", NAME),
        ("internal_name", NAME.upper()),
        ("internal_name", "inhouse-<mark>zq</mark>-line"),
        ("internal_name", "inhouse&#45;zq&#x2d;line"),
        ("internal_name", "inhouse-\\u007aq-line"),
        ("internal_name", "ｉｎｈｏｕｓｅ-zq-line"),
        ("internal_name", "这是预备线路二号"),
        ("internal_name", '"></p><p title="inhouse-zq-line">'),
    ],
)
def test_planted_text_is_refused_with_rule_and_place_only(rule: str, text: str) -> None:
    with pytest.raises(LeakRefused) as caught:
        check(planted(text), "vendor", [NAME, "预备线路"], None, "v.html")
    error = caught.value
    assert error.exit_code == 6
    assert error.details["rule"] == rule
    assert "line" in error.details["place"]
    said = f"{error.message} {error.next_step} {json.dumps(error.details)}".lower()
    for secret in (text.lower(), NAME, "预备线路", "mei", KEY.lower()):
        assert secret not in said


def test_the_file_name_counts() -> None:
    for name in ("inhouse-zq-line.html", f"{KEY}.html"):
        with pytest.raises(LeakRefused) as caught:
            check(report(), "vendor", [NAME], None, name)
        assert name not in str(caught.value.details)


def test_own_keys_in_any_form() -> None:
    secret = Secret("plain0key9without8prefix7of6any5sort", name="RELAY_KEY", origin="https://relay.example")
    guard = Redactor([secret], b"salt")
    value = secret.reveal_for("https://relay.example")
    for form in (
        value,
        value[::-1],
        value.encode().hex(),
        html.escape("".join(f"&#{ord(c)};" for c in value), quote=False),
    ):
        text = form.replace("&amp;", "&")
        with pytest.raises(LeakRefused) as caught:
            check(planted(text), "internal", [], guard, "card.html")
        assert caught.value.details["rule"] == "own_key"
    assert check(report(audience="internal"), "internal", [NAME], guard, "card.html") == ()


def test_names_that_are_words_of_ours_or_public_do_not_stop_a_clean_report() -> None:
    notes = check(
        report(), "vendor", ["relay", "backup", "x", "relay.example"], None, "v.html", public_terms=["relay.example"]
    )
    assert len(notes) == 4
    with pytest.raises(LeakRefused):
        check(report(), "vendor", ["relay.example"], None, "v.html")


def test_names_match_whole_words() -> None:
    assert check(planted("mainline-sonnet-7b"), "vendor", ["line-sonnet"], None, "v.html") == ()
    with pytest.raises(LeakRefused):
        check(planted("(line-sonnet)"), "vendor", ["line-sonnet"], None, "v.html")


def test_the_internal_card_may_name_the_line() -> None:
    raw = report(audience="internal")
    assert NAME.encode() in raw
    assert check(raw, "internal", [NAME], None, "card.html") == ()


def test_a_persons_account_name_is_looked_for_and_a_shared_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leakguard.getpass, "getuser", lambda: "mei.lin")
    assert local_names() == ("mei.lin",)
    monkeypatch.setattr(leakguard.getpass, "getuser", lambda: "root")
    assert local_names() == ()


def test_a_report_is_written_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "vendor.html"
    write_report(path, b"first")
    write_report(path, b"second")
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["vendor.html"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(leakguard.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(tmp_path / "vendor.html", b"raw")
    assert list(tmp_path.iterdir()) == []
