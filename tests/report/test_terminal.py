"""The result fits a terminal of 80 columns and 24 lines, in both languages, whatever was found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from relay_audit.audit import Judgement
from relay_audit.cli.terminal import COLUMNS, LINES, summary, wrapped
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
    assert wrapped("", 2) == []
