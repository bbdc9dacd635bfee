"""The result fits a terminal of 80 columns and 24 lines, in both languages, whatever was found."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from relay_audit.audit import Judgement
from relay_audit.cli.console import STAND_IN, readable
from relay_audit.cli.terminal import COLUMNS, LINES, result, summary, wrapped
from relay_audit.words import LANGS, Lang
from tests.report import samples

PATHS = {"vendor": Path("audits/20261129-080304-k3f7/reports/vendor.zh-CN.html"), "internal": Path("audits/x/i.html")}


def judgement(make, **changes) -> Judgement:
    run = samples.evidence(text=samples.HOSTILE, **changes)
    findings = make(run)
    return Judgement(
        evidence=run, findings=findings, coverage=samples.COVERAGE, verdict=samples.judged(run, findings),
        knowledge_digest="cd" * 32, knowledge=samples.KNOWLEDGE,
    )  # fmt: skip


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(
    "make", [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
)
def test_it_fits_and_ends_with_what_to_type(lang: Lang, make) -> None:
    text = summary(judgement(make), lang, PATHS)
    lines = text.split("\n")
    assert len(lines) <= LINES
    assert max(map(cell_len, lines)) <= COLUMNS
    assert lines[-1].startswith("  -> relay-audit report 20261129-080304-k3f7 --for vendor")
    assert "\x1b" not in text
    assert "IGNORE" not in text
    assert len(re.findall(r"^  \[[+!x?]\] ", text, re.MULTILINE)) == 4


def test_colour_adds_nothing_but_colour() -> None:
    made = judgement(samples.surplus_findings)
    plain, painted = summary(made, "en", PATHS), summary(made, "en", PATHS, colour=True)
    assert painted != plain
    assert re.sub(r"\x1b\[\d+m", "", painted) == plain


@pytest.mark.parametrize(
    "make", [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
)
def test_a_terminal_without_unicode_gets_ascii_that_still_fits(make) -> None:
    """Laid out as it is shown: three dots are wider than one sign, and must not push a line over the edge."""
    made = judgement(make)
    text = summary(made, "en", PATHS, encoding="ascii")
    assert text.isascii()
    assert "?" not in re.sub(r"\[\?\]", "", text), "a character was lost"
    lines = text.split("\n")
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert text == text.encode("ascii", STAND_IN).decode()
    assert lines[-1].startswith("  -> relay-audit ")
    assert summary(made, "zh-CN", PATHS, encoding="gbk") == summary(made, "zh-CN", PATHS)


@pytest.mark.parametrize(
    ("encoding", "lang", "read"),
    [("utf-8", "zh-CN", "zh-CN"), ("gbk", "zh-CN", "zh-CN"), ("ascii", "zh-CN", "en"), ("cp1252", "zh-CN", "en"),
     ("latin-1", "en", "en"), ("no such thing", "zh-CN", "en")],
)  # fmt: skip
def test_a_console_without_chinese_is_spoken_to_in_english(encoding: str, lang: Lang, read: Lang) -> None:
    class Console(io.StringIO):
        pass

    Console.encoding = encoding  # type: ignore[misc]
    assert readable(lang, Console()) == read


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize(
    ("environ", "encoding", "painted", "first"),
    [
        ({"TERM": "xterm-256color"}, "utf-8", True, "这家中转"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "utf-8", False, "这家中转"),
        ({"TERM": "dumb"}, "utf-8", False, "这家中转"),
        ({}, "utf-8", False, "这家中转"),
        ({"TERM": "xterm"}, "ascii", True, "This relay"),
        ({"TERM": "dumb"}, "ascii", False, "This relay"),
    ],
)
def test_on_a_real_terminal_colour_and_script_follow_what_it_says_of_itself(
    environ, encoding: str, painted: bool, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = judgement(samples.surplus_findings)
    master, slave = os.openpty()
    try:
        with open(slave, "w", encoding=encoding, closefd=False) as terminal:
            monkeypatch.setattr("sys.stdout", terminal)
            text = result(made, "zh-CN", PATHS, environ)
            monkeypatch.undo()
    finally:
        os.close(slave)
        os.close(master)
    assert text.startswith(first)
    assert ("\x1b[" in text) is painted
    assert re.sub(r"\x1b\[\d+m", "", text).encode(encoding)
    with io.StringIO() as piped:
        monkeypatch.setattr("sys.stdout", piped)
        assert "\x1b" not in result(made, "zh-CN", PATHS, environ), "into a file goes no colour"
        monkeypatch.undo()


def test_what_does_not_fit_is_counted() -> None:
    made = judgement(samples.of_every_code)
    text = summary(made, "en", PATHS)
    shown = len(re.findall(r"^  F\d{3} ", text, re.MULTILINE))
    rest = re.search(r"^  and (\d+) more$", text, re.MULTILINE)
    assert rest is not None
    weighty = [f for f in made.findings if f.above_info or f.outcome in ("inconclusive", "error")]
    assert shown + int(rest[1]) == len(weighty)


def test_lines_break_between_words_and_between_characters() -> None:
    assert wrapped("a " * 60, 3) == [("a " * 40).rstrip(), ("a " * 20).rstrip()]
    assert wrapped("中" * 50, 3) == ["中" * 40, "中" * 10]
    assert wrapped("x" * 200, 2, "  ") == ["x" * 80, "  " + "x" * 77 + "…"]
    assert wrapped("中" * 40 + "。", 2) == ["中" * 39, "中。"], "a stop does not stand alone"
    assert wrapped("", 2) == []
