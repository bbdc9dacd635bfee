"""A few lines to paste into a chat: no table, no escape codes; in Chinese at most 600 characters.

Who it is for, the day and the archive's digest stand in it, so that a forwarded copy says what it is.
"""

from __future__ import annotations

from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.edition import Audience, Edition
from relay_audit.report.figures import requests_sent
from relay_audit.report.phrases import Phrases
from relay_audit.report.untrusted import show
from relay_audit.report.views import host_of
from relay_audit.verdict import Verdict

AT_MOST = {"zh-CN": 600, "en": 1400}
"""Characters; a chat cuts what is longer."""
CARD_WIDTHS = (400, 120, 80, 50, 30, 18)
"""Characters of a card's text, tried in turn."""
HEADLINE_WIDTHS = (400, 200, 120, 80)


def chat_text(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    coverage: tuple[Coverage, ...],
    verdict: Verdict,
    catalogue: Catalogue,
    phrases: Phrases,
    audience: Audience,
    edition: Edition,
) -> str:
    """Ends in a line break. Every figure in it is in the whole report, too."""
    say = catalogue.text
    model = show(evidence.target.model, 60)
    day = evidence.started_at.date().isoformat()
    head = [say(f"chat.{audience}"), model, *_whose(evidence, audience), day]
    found, missing = phrases.headline_parts(verdict, findings, coverage)
    cards = [
        (f"{say(f'card.symbol.{c.state}')} {say(f'card.name.{c.id}')}", phrases.card(c, findings, coverage))
        for c in verdict.cards
    ]
    tail = [say("chat.limits", n=f"{requests_sent(evidence):,}")]
    tail += [say("chat.withdrawn", because=show(edition.withdrawn, 60))] if edition.withdrawn else []
    if audience == "internal":
        tail.append(
            say("chat.verdict", verdict=say(f"verdict.{verdict.verdict}"), next=say(f"answer.next.{verdict.next_code}"))
        )
    seal = evidence.evidence_head[:16] or say("report.sealed_later")
    tail.append(say("chat.seal", seal=seal, version=evidence.tool_version))
    made = ""
    for width, long in ((w, h) for h in HEADLINE_WIDTHS for w in CARD_WIDTHS):
        lines = [say("joint.dot").join(head), "", _cut(found, long), *([_cut(missing, long)] if missing else []), ""]
        lines += [say("chat.card", name=name, text=_cut(text, width)) for name, text in cards]
        made = "\n".join([*lines, "", *tail]) + "\n"
        if len(made) <= AT_MOST[catalogue.lang]:
            break
    return made


def _whose(evidence: Evidence, audience: Audience) -> list[str]:
    if audience == "public":
        return []
    return [show(evidence.target.name if audience == "internal" else host_of(evidence.target.relay_origin), 40)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
