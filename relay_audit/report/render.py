"""A report as bytes, in memory: nothing is written here, so that what must not leave can still be refused."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined

from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.report.as_json import summary_json, without_internal
from relay_audit.report.catalogue import TEMPLATES, Catalogue
from relay_audit.report.pages import Page, page_lang
from relay_audit.resources import folder
from relay_audit.verdict import Verdict
from relay_audit.words import Lang

Audience = Literal["vendor", "internal"]
Format = Literal["html", "json"]


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
) -> bytes:
    """The same inputs give the same bytes: no clock, no randomness."""
    catalogue = Catalogue.load(lang)
    if format == "json":
        full = summary_json(
            evidence, findings, coverage, verdict, short=False, catalogue=catalogue, knowledge_digest=knowledge_digest
        )
        return as_bytes(without_internal(full) if audience == "vendor" else full)
    page = Page(evidence, findings, coverage, verdict, knowledge, catalogue, knowledge_digest)
    context = page.vendor() if audience == "vendor" else page.internal()
    template = _environment().get_template(f"{audience}.html.j2")
    return template.render(context, page_lang=page_lang(lang)).encode()


def as_bytes(value: dict[str, Any]) -> bytes:
    """One JSON document, readable, ending in a line break."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _source(name: str) -> str | None:
    place = folder(TEMPLATES).joinpath(name)
    return place.read_text(encoding="utf-8") if place.is_file() else None
