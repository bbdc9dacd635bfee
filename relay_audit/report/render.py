"""A report as bytes, in memory: nothing is written here, so that what must not leave can still be refused.

PDF and PNG are printed from pages made here (`printed.py`); every other format is finished here.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.report import markdown
from relay_audit.report.as_csv import ledger_csv
from relay_audit.report.as_json import summary_json, without_internal, without_names
from relay_audit.report.as_junit import junit
from relay_audit.report.as_sarif import sarif
from relay_audit.report.as_text import chat_text
from relay_audit.report.card import card
from relay_audit.report.catalogue import TEMPLATES, Catalogue
from relay_audit.report.compiled import kept_beside
from relay_audit.report.edition import Audience, Edition, Inside
from relay_audit.report.pages import Page, fallen, page_lang
from relay_audit.report.phrases import Phrases
from relay_audit.report.screens import screens
from relay_audit.report.terms import Terms, without_prices
from relay_audit.resources import folder
from relay_audit.target import Place
from relay_audit.verdict import Verdict, all_checks, decide
from relay_audit.words import Lang

__all__ = ["AUDIENCES", "FORMATS", "Audience", "Format", "as_bytes", "render", "terms_for"]

Format = Literal["html", "pdf", "png", "md", "text", "json", "junit", "sarif", "csv"]
FORMATS: tuple[Format, ...] = ("html", "pdf", "png", "md", "text", "json", "junit", "sarif", "csv")
AUDIENCES: tuple[Audience, ...] = ("vendor", "internal", "public")


def render(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    verdict: Verdict,
    knowledge: Knowledge,
    audience: Audience,
    format: Format,  # noqa: A002  the command line's word for it
    lang: Lang,
    *,
    knowledge_digest: str = "",
    edition: Edition | None = None,
    inside: Inside | None = None,
    anchor: Place | None = None,
    masked: bool = False,
) -> bytes:
    """`masked` takes a stranger's words out of the sentences of a page, where a program may read it. The same inputs
    give the same bytes: no clock, no randomness. For `pdf` and `png` the page that is printed."""
    catalogue, edition = Catalogue.load(lang), edition or Edition()
    findings, gone, verdict = _standing(evidence, findings, coverage, verdict, knowledge)
    public = terms_for(evidence, knowledge) if audience == "public" else None
    if public is not None:
        findings, gone = (tuple(map(without_prices, some)) for some in (findings, gone))
    currency = evidence.quote.currency if evidence.quote else "USD"
    spoken = Phrases(catalogue, currency, masked=True, public=public)
    rows = all_checks(coverage)
    if format == "json":
        full = summary_json(
            evidence, findings, coverage, verdict, short=False, catalogue=catalogue, knowledge_digest=knowledge_digest,
            public=public,
        )  # fmt: skip
        full |= {"withdrawn": [{"id": f.id, "code": f.code} for f in gone]} if gone else {}
        if audience != "internal":
            full = without_names(full) if audience == "public" else without_internal(full)
        return as_bytes(full)
    if format == "csv":
        return ledger_csv(evidence, audience)
    if format == "junit":
        return junit(evidence, findings, rows, verdict, catalogue, spoken, _properties(evidence, audience))
    if format == "sarif":
        return sarif(evidence, findings, anchor, spoken)
    inside = inside or Inside()
    page = Page(
        evidence, findings, coverage, verdict, knowledge, catalogue, knowledge_digest, edition=edition, public=public,
        masked=masked or format == "text", withdrawn=gone,
    )  # fmt: skip
    if format == "text":
        return chat_text(page, audience, inside).encode()
    context = _context(page, audience, inside)
    suffix = "md" if format == "md" else "html"
    name = "screens" if format == "png" else audience
    if format == "png":
        whose = {"public": "", "vendor": context["host"], "internal": context.get("name", "")}[audience]
        shown = screens(page, audience)
        context |= {"screens": shown, "audience": audience, "whose": whose, "version": evidence.tool_version}
    return environment(suffix).get_template(f"{name}.{suffix}.j2").render(context, page_lang=page_lang(lang)).encode()


def _standing(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    verdict: Verdict,
    knowledge: Knowledge,
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], Verdict]:
    """Findings that hold, those that fell in a later test, and the verdict on the former: what no longer holds decides
    nothing, and stands on no first page but as withdrawn."""
    gone = fallen(evidence, findings)
    if not gone:
        return findings, gone, verdict
    held = tuple(f for f in findings if f not in gone)
    return held, gone, decide(evidence, held, coverage, knowledge.rules)


def terms_for(evidence: Evidence, knowledge: Knowledge) -> Terms:
    """What the public edition never prints, and which model names it may."""
    models = tuple(name for row in knowledge.models for name in (row.name, *row.aliases))
    return Terms.of(evidence, (*models, evidence.target.model))


def as_bytes(value: dict[str, Any]) -> bytes:
    """One JSON document, readable, ending in a line break."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _context(page: Page, audience: Audience, inside: Inside) -> dict[str, Any]:
    if audience == "vendor":
        return page.vendor()
    return page.public() if audience == "public" else card(page, inside)


def _properties(evidence: Evidence, audience: Audience) -> dict[str, str]:
    """What a test report says about where it comes from."""
    about = {"model": evidence.target.model, "tool_version": evidence.tool_version}
    return about if audience == "public" else {"run_id": evidence.run_id, **about}


@cache
def environment(suffix: str) -> Environment:
    """The templates of one suffix. HTML is escaped by the engine; Markdown by `finalize`, which sees every value that a
    template prints."""
    plain = suffix == "md"
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=not plain,  # noqa: S701  Markdown has rules of its own
        finalize=_escaped if plain else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.bytecode_cache = kept_beside(folder(TEMPLATES), made)
    made.filters["fenced"] = lambda text: Markup(markdown.fenced(text))  # noqa: S704  a fence longer than any inside
    made.filters["coded"] = lambda text: Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped
    return made


_CODE = re.compile(r"`([^`]+)`")
"""Names in our own texts, as Markdown writes them."""


def _escaped(value: object) -> object:
    return value if isinstance(value, Markup) else markdown.escape(value)


def _source(name: str) -> str | None:
    place = folder(TEMPLATES).joinpath(name)
    return place.read_text(encoding="utf-8") if place.is_file() else None
