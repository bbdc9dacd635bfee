"""What a person reads at the terminal: the quote before anything is spent, the result after. Fits 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from relay_audit.calibration import Failure
from relay_audit.evidence import Evidence
from relay_audit.judgement import Judgement
from relay_audit.quote import Line, Quote
from relay_audit.report.as_json import summary_json
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.report.quote_text import ask_user, disclosure, next_bound
from relay_audit.report.untrusted import show
from relay_audit.report.views import host_of
from relay_audit.words import LANGS, Lang, round_up

__all__ = [
    "ask_user", "bounds", "calibrated", "checkpoint", "confirm", "notice", "quote_screen", "reveals", "rows_head", "short_object", "shown",
]  # fmt: skip

SHOWN = 160
"""Characters of a stranger's text on a terminal."""
SHOWN_EXCHANGES = 6


def quote_screen(evidence: Evidence, lang: Lang) -> str:
    """The quote and, before the first approval, what the audit reveals."""
    quote, words = evidence.quote, Catalogue.load(lang)
    if quote is None:
        return ""
    phrases = Phrases(words, quote.currency)
    host = host_of(evidence.target.relay_origin)
    lines = [f"{words.text('quote.title')}  {evidence.target.model} @ {host}", ""]
    for line in quote.lines:
        lines += _line(line, phrases, words)
    for line in quote.later:
        at_most = phrases.amount(line.at_most)
        lines += [*_line(line, phrases, words), f"    {words.text('quote.later', at_most=at_most)}"]
    total = {"expected": quote.expected, "at_most": quote.at_most, "hold": quote.hold}
    lines += [
        "",
        *(f"  {words.text(f'quote.column_{name}'):<14} {phrases.amount(value)}" for name, value in total.items()),
    ]
    basis = "counted" if quote.counted else "counted_in_part" if quote.counted_in_part else "estimated"
    lines += ["", words.text(f"quote.{basis}"), *filter(None, [next_bound(evidence, words)])]
    if quote.needs_explicit_ceiling:
        lines.append(words.text("quote.assumed"))
    limit = phrases.amount(round_up(quote.at_most + quote.hold, 2))
    lines += ["", words.text("quote.fresh_key", limit=limit)]
    lines += ["", *(f"- {text}" for text in disclosure(words, host=host, user_agent=evidence.target.user_agent))]
    lines += ["", words.text("quote.digest", digest=quote.digest)]
    return "\n".join(lines)


def _line(line: Line, phrases: Phrases, words: Catalogue) -> list[str]:
    side = words.text(f"quote.side_{line.side}")
    head = f"  {side}  {line.probe}  x {line.count}"
    if line.unit_price is None:
        return [f"{head}: {words.text('quote.free')}"]
    price = line.unit_price
    date = price.observed.isoformat()
    if price.per_call is not None:
        unit = words.text("quote.unit_call", per_call=phrases.amount(price.per_call), source=price.source, date=date)
    else:
        unit = words.text(
            "quote.unit",
            input=phrases.amount(price.input),
            output=phrases.amount(price.output),
            source=price.source,
            date=date,
        )
    return [head, f"    {unit}"]


def notice(code: str, lang: Lang, **params: str) -> str:
    """One line on what should be known before money is spent."""
    words = Catalogue.load(lang)
    if "reason" in params:
        params["reason"] = Phrases(words).word(params["reason"])
    return words.text(f"notice.{code}", **params)


def checkpoint(payload: Mapping[str, Any], lang: Lang) -> str:
    """The last word on where a run stands; empty where it has none."""
    words = Catalogue.load(lang)
    code = str(payload.get("code", ""))
    if code == "finished" and payload.get("reason"):
        code = "finished_early"
    if not words.knows(f"checkpoint.{code}"):
        return ""
    phrases = Phrases(words)
    figures = {name: str(payload.get(name, 0)) for name in ("sent", "planned", "answered", "unconfirmed")}
    names = {
        name: show(str(payload.get(name) or words.text("checkpoint.nothing")), SHOWN) for name in ("probe", "next")
    }
    reason = phrases.stop(str(payload.get("refusals_ended") or payload.get("reason", "")))
    spent = phrases.amount(Decimal(str(payload.get("spent", "0"))))
    return words.text(f"checkpoint.{code}", **figures, **names, reason=reason, spent=spent)


def reveals(evidence: Evidence) -> dict[str, list[str]]:
    """What the audit gives away, for whoever asks a person on our behalf."""
    host, agent = host_of(evidence.target.relay_origin), evidence.target.user_agent
    return {lang: list(disclosure(Catalogue.load(lang), host=host, user_agent=agent)) for lang in LANGS}


def bounds(evidence: Evidence) -> dict[str, str]:
    """What a clean run of this plan leaves unseen, and what the next bound costs; empty texts where nothing is counted."""
    return {lang: next_bound(evidence, Catalogue.load(lang)) for lang in LANGS}


def shown(text: str) -> str:
    """A stranger's text, made harmless."""
    return show(text, SHOWN)


def confirm(quote: Quote, lang: Lang) -> str:
    words = Catalogue.load(lang)
    return words.text("quote.confirm", at_most=Phrases(words, quote.currency).amount(quote.at_most))


def short_object(judgement: Judgement, lang: Lang, paths: dict[str, Path]) -> dict[str, Any]:
    """The last object of `run --json`."""
    result = summary_json(
        judgement.evidence, judgement.findings, judgement.coverage, judgement.verdict, True, Catalogue.load(lang),
        knowledge_digest=judgement.knowledge_digest,
    )  # fmt: skip
    if judgement.evidence.target.conflict:
        result["conflict"] = judgement.evidence.target.conflict
    return {**result, "reports": {audience: str(path) for audience, path in paths.items()}}


def calibrated(
    runs: list[tuple[str, str, tuple[Failure, ...]]], numbers: dict[str, int], files: list[str], lang: Lang
) -> str:
    """Per run whether anything was found, then what was written down and where."""
    words = Catalogue.load(lang)
    lines = []
    for run, model, failing in runs:
        text = words.text("calibration.differs", n=str(len(failing))) if failing else words.text("calibration.clean")
        lines.append(f"{model}: {text}  (run {run})")
        for one in failing:
            title = f"{words.text(f'severity.{one.severity}')}  {one.code}"
            lines.append(f"  {title}  <- {', '.join(one.probes) or '-'}  {', '.join(one.exchanges[:SHOWN_EXCHANGES])}")
    seen = ", ".join(f"{words.text(f'calibration.kind.{kind}')}: {number}" for kind, number in numbers.items())
    lines += ["", words.text("calibration.seen", rows=seen)] if seen else []
    return "\n".join([*lines, *(f"  {file}" for file in files)])


def rows_head(sources: list[str]) -> str:
    """What a file of rows says of itself at its top, in both languages."""
    said = "; ".join(dict.fromkeys(sources))
    return "\n".join(Catalogue.load(lang).text("calibration.head", source=said) for lang in LANGS)
