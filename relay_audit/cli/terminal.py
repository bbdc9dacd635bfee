"""The result of a run on a terminal of 80 columns and 24 lines: sentence, verdict, four cards, what was found, what next.

Marks are plain ASCII; colour is added where the terminal shows it and nobody has said no, and carries nothing by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rich.cells import cell_len, chop_cells

from relay_audit.cli.console import plain, readable
from relay_audit.judgement import Judgement
from relay_audit.report.as_json import COMMANDS
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import money_of
from relay_audit.report.phrases import Phrases, capital
from relay_audit.verdict import does_not_apply
from relay_audit.words import Lang

COLUMNS, LINES = 80, 24
CARD_LINES = 2
HEADLINE_LINES = 4
MARKS = {"ok": "+", "warn": "!", "bad": "x", "unknown": "?"}
CLOSERS = "。，；：、？！）”"
"""What no line begins with."""
NOT_ASKED = "-"
COLOURS = {"ok": "\x1b[32m", "warn": "\x1b[33m", "bad": "\x1b[31m", "unknown": "\x1b[2m"}
PLAIN = "\x1b[0m"
DEFAULT_NEXT = "relay-audit report {run_id} --for vendor -o vendor.html"


def coloured(environ: Mapping[str, str]) -> bool:
    """Whether standard output is a terminal that shows colours, and `NO_COLOR` is not set."""
    return sys.stdout.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "") not in ("", "dumb")


def result(judgement: Judgement, lang: Lang, paths: dict[str, Path], environ: Mapping[str, str]) -> str:
    """The summary as this process's standard output can show it: its language, its colours, its characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return summary(judgement, readable(lang), paths, colour=coloured(environ), encoding=encoding)


def summary(
    judgement: Judgement, lang: Lang, paths: dict[str, Path], *, colour: bool = False, encoding: str = "utf-8"
) -> str:
    """At most `LINES` lines of at most `COLUMNS` cells once a console of that encoding shows them; only a path may be longer."""
    words, evidence, verdict = Catalogue.load(lang), judgement.evidence, judgement.verdict
    phrases = Phrases(words, evidence.quote.currency if evidence.quote else "USD")
    money = money_of(evidence)

    def fitted(text: str, most: int, indent: str = "") -> list[str]:
        return wrapped(plain(text, encoding), most, indent, plain("…", encoding))

    top = fitted(phrases.headline(verdict, judgement.findings, judgement.coverage), HEADLINE_LINES)
    name, decided, colon = (
        words.text(key) for key in ("internal.verdict", f"verdict.{verdict.verdict}", "joint.colon")
    )
    top += ["", *fitted(f"  {name}{colon}{decided}  ({verdict.rule})", 1)]
    for card in verdict.cards:
        text = phrases.card(card, judgement.findings, judgement.coverage)
        mark = f"[{NOT_ASKED if does_not_apply(card) else MARKS[card.state]}]"
        lines = fitted(f"  {mark} {words.text(f'card.name.{card.id}')}{colon}{text}", CARD_LINES, "      ")
        painted = lines[0].replace(mark, f"{COLOURS[card.state]}{mark}{PLAIN}", 1) if colour else lines[0]
        top += [painted, *lines[1:]]
    charged, most = words.text(money.charged_label), words.text("quote.column_at_most")
    command = (COMMANDS.get(verdict.next_code) or DEFAULT_NEXT).format(run_id=evidence.run_id)
    bottom = [
        "",
        *fitted(
            f"  {charged}{colon}{phrases.amount(money.charged_relay)}   {most}{colon}{phrases.amount(money.quoted_at_most)}",
            1,
        ),
        *(f"  {_near(path)}" for path in paths.values()),
        *fitted(f"  {words.text(f'answer.next.{verdict.next_code}')}", 2, "  "),
        f"  -> {command}",
    ]
    shown = [f for f in judgement.findings if f.above_info or f.outcome in ("inconclusive", "error")]
    room = LINES - len(top) - len(bottom) - 2
    found = [
        fitted(f"  {f.id} {words.text(f'severity.{f.severity}')}  {capital(phrases.title(f))}", 1)[0]
        for f in shown[:room]
    ]
    if len(shown) > len(found):
        found += fitted("  " + words.text("joint.others", n=str(len(shown) - len(found))), 1)
    return "\n".join([*top, *([""] if found else []), *found, *bottom])


def wrapped(text: str, most: int, indent: str = "", end: str = "…") -> list[str]:
    """Lines that fit; beyond `most` the last one ends in `end`. Chinese breaks anywhere, words where there is a space."""
    lines: list[str] = []
    rest = text.rstrip()
    while rest and len(lines) < most:
        lead = indent if lines else ""
        room = COLUMNS - cell_len(lead)
        if cell_len(rest) <= room:
            return [*lines, lead + rest]
        line = chop_cells(rest, room)[0]
        space = line.rstrip().rfind(" ")
        follows = rest[len(line) : len(line) + 1]
        if space > len(line) // 2 and line[-1].isascii() and follows.isascii() and " " not in (line[-1], follows):
            line = line[:space]
        elif follows and follows in CLOSERS:
            line = line[:-1]
        lines.append(lead + line.rstrip())
        rest = rest[len(line) :].lstrip()
    if rest:
        lines[-1] = chop_cells(lines[-1], COLUMNS - cell_len(end))[0] + end
    return lines


def _near(path: Path) -> Path:
    """A path as short as it can be typed from here."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
