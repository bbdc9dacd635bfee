"""What a person reads before money is spent: the question in one breath, and what the audit gives away."""

from __future__ import annotations

from decimal import Decimal

from relay_audit.bounds import percent, unseen_share
from relay_audit.evidence import Evidence
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.report.untrusted import show
from relay_audit.report.views import host_of
from relay_audit.words import LANGS

ASK_AT_MOST = 200
"""Characters of the question; an agent reads it out."""
NAMES_AT_MOST = (40, 28, 16)
"""Characters a model's or host's name may take, tried in turn until the question fits."""
DISCLOSED = ("prompts", "identity", "channel", "terms", "storage")


def ask_user(evidence: Evidence) -> dict[str, str]:
    """The question for both languages. Raises ValueError without a quote."""
    return {lang: _fitted(evidence, Catalogue.load(lang)) for lang in LANGS}


def disclosure(catalogue: Catalogue, *, host: str, user_agent: str) -> tuple[str, ...]:
    """What the relay gets to see, and whose terms apply: shown before the first approval."""
    said = {"identity": {"user_agent": show(user_agent)}, "terms": {"host": show(host, 80)}}
    return tuple(catalogue.text(f"quote.disclosure.{key}", **said.get(key, {})) for key in DISCLOSED)


def next_bound(evidence: Evidence, catalogue: Catalogue) -> str:
    """What a clean run of this plan would leave unseen, and what it costs to see half of that; empty where nothing is
    ordered, and for films."""
    plan, quote = evidence.plan, evidence.quote
    own = [step for step in plan.chargeable() if not step.refusal] if plan and evidence.pack.video is None else []
    if quote is None or not own:
        return ""
    prices = [price for step in own if (price := quote.price_of(step.id)) is not None]
    cost = sum((price.expected for price in prices), Decimal(0))
    shares = {"share": percent(unseen_share(len(own))), "next": percent(unseen_share(2 * len(own)))}
    return catalogue.text(
        "quote.next_bound", n=str(len(own)), cost=Phrases(catalogue, quote.currency).amount(cost), **shares
    )


def _fitted(evidence: Evidence, catalogue: Catalogue) -> str:
    asked = [_question(evidence, catalogue, width) for width in NAMES_AT_MOST]
    return next((text for text in asked if len(text) <= ASK_AT_MOST), asked[-1][: ASK_AT_MOST - 1] + "…")


def _question(evidence: Evidence, catalogue: Catalogue, width: int) -> str:
    quote = evidence.quote
    if quote is None:
        raise ValueError("there is no quote to ask about")
    phrases = Phrases(catalogue, quote.currency)
    checks = evidence.plan.checks if evidence.plan else ()
    return catalogue.text(
        "quote.ask_user",
        model=_short(evidence.target.model, width),
        host=_short(host_of(evidence.target.relay_origin), width),
        n=str(sum(line.count for line in quote.lines if line.side == "relay")),
        expected=phrases.amount(quote.expected),
        at_most=phrases.amount(quote.at_most),
        hold=phrases.amount(quote.hold),
        checks=catalogue.text("joint.list").join(map(str, checks)),
    )


def _short(text: str, width: int) -> str:
    shown = show(text, 10 * width)
    return shown if len(shown) <= width else shown[: width - 1] + "…"
