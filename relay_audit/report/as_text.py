"""A few lines to paste into a chat: no table, no escape codes; in Chinese at most 600 characters.

Who it is for, the day and the archive's digest stand in it, so that a forwarded copy says what it is. A buyer who has paid
reads in his own edition what is used and left, and the message to the seller.
"""

from __future__ import annotations

from collections.abc import Iterator

from relay_audit.evidence import Evidence
from relay_audit.report.edition import Audience, Inside
from relay_audit.report.figures import requests_sent
from relay_audit.report.pages import Page
from relay_audit.report.seller import Used, questions, short_message, used_of
from relay_audit.report.untrusted import show
from relay_audit.report.views import host_of
from relay_audit.words import money

AT_MOST = {"zh-CN": 600, "en": 1400}
"""Characters; a chat cuts what is longer."""
CARD_WIDTHS = (400, 120, 80, 50, 30, 18)
"""Characters of a card's text, tried in turn."""
HEADLINE_WIDTHS = (400, 200, 120, 80)


def chat_text(page: Page, audience: Audience, inside: Inside) -> str:
    """Ends in a line break. Every figure in it is in the whole report, too."""
    paid = inside.paid if audience == "internal" else None
    used = used_of(page.evidence, paid) if paid else None
    made, tail = "", _tail(page, audience, inside, used)
    asked = len(questions(page)) if used else 0
    for most in range(asked, -1, -1):
        message = ["", page.text("chat.message"), *short_message(page, used, most)] if most else []
        for lines in _shorter_and_shorter(page, audience, bool(message)):
            made = "\n".join([*lines, "", *tail, *message]) + "\n"
            if len(made) <= AT_MOST[page.lang]:
                return made
    return made


def _shorter_and_shorter(page: Page, audience: Audience, crowded: bool) -> Iterator[list[str]]:
    """Head, sentence and cards; where a message has to fit beside them, in the end the cards' states alone: the questions are
    the sentence again."""
    say, cards = page.text, page.shared()["cards"]
    day = page.evidence.started_at.date().isoformat()
    whose = _whose(page.evidence, audience)
    head = say("joint.dot").join([say(f"chat.{audience}"), show(page.evidence.target.model, 60), *whose, day])
    found, missing = page.phrases.headline_parts(page.verdict, page.findings, page.coverage)
    for long in HEADLINE_WIDTHS:
        top = [head, "", _cut(found, long), *([_cut(missing, long)] if missing else []), ""]
        for width in CARD_WIDTHS:
            yield [*top, *(say("chat.card", name=f"{c.symbol} {c.name}", text=_cut(c.text, width)) for c in cards)]
    if crowded:
        states = say("joint.dot").join(f"{c.symbol} {c.name}" for c in cards)
        yield [head, "", _cut(found, HEADLINE_WIDTHS[-1]), states]
        yield [head, "", states]


def _tail(page: Page, audience: Audience, inside: Inside, used: Used | None) -> list[str]:
    say, evidence, verdict = page.text, page.evidence, page.verdict
    tail = [say("chat.limits", n=f"{requests_sent(evidence):,}")]
    tail += [_cut(notice, AT_MOST[page.lang] // 5) for notice in page.shared()["notices"][-1:] if page.withdrawn]
    if page.edition.withdrawn:
        tail.append(say("chat.withdrawn", because=show(page.edition.withdrawn, 60)))
    if audience == "internal":
        named = {"verdict": say(f"verdict.{verdict.verdict}"), "next": say(f"answer.next.{verdict.next_code}")}
        tail.append(say("chat.verdict", **named))
    if used is not None and inside.paid is not None:
        unknown, paid = say("joint.unknown"), inside.paid
        sums = {
            "used": money(used.used) if used.used is not None else unknown,
            "left": money(used.left) if used.left is not None else unknown,
        }
        tail.append(say("chat.paid", amount=f"{money(paid.amount)} {paid.currency}", **sums))
    seal = evidence.evidence_head[:16] or say("report.sealed_later")
    return [*tail, say("chat.seal", seal=seal, version=evidence.tool_version)]


def _whose(evidence: Evidence, audience: Audience) -> list[str]:
    if audience == "public":
        return []
    return [show(evidence.target.name if audience == "internal" else host_of(evidence.target.relay_origin), 40)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
