"""What the two pages show, as values: the templates lay out and decide nothing.

The vendor's page holds this relay and the official side, nobody else; the internal card holds verdict and money.
"""

from __future__ import annotations

import fnmatch
from typing import Any

from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import Knowledge, Known
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import conduct_of, money_of, real_costs, relay_price, requests_sent, surplus_of
from relay_audit.report.phrases import Phrases, Texts, capital
from relay_audit.report.provenance import versions
from relay_audit.report.side_by_side import Replay, cited, compare, replay, trace
from relay_audit.report.untrusted import show
from relay_audit.report.views import WIDTH, CardView, CoverageView, Fact, FindingView
from relay_audit.report.views import host_of as host_of
from relay_audit.verdict import NO_RULE, Verdict, all_checks
from relay_audit.words import Lang, money

TRACES_AT_MOST = 24
"""Rows of one finding's table; the rest are in the archive."""
REASONS_AT_MOST = 3
"""On the card, which is one page."""


class Page:
    """Builds the views of one run in one language."""

    def __init__(
        self,
        evidence: Evidence,
        findings: tuple[Finding, ...],
        coverage: tuple[Coverage, ...],
        verdict: Verdict,
        knowledge: Knowledge,
        catalogue: Catalogue,
        knowledge_digest: str = "",
    ) -> None:
        self.evidence, self.findings, self.coverage = evidence, findings, all_checks(coverage)
        self.verdict, self.knowledge = verdict, knowledge
        self.text, self.lang, self.digest = catalogue.text, catalogue.lang, knowledge_digest
        self.phrases = Phrases(catalogue, evidence.quote.currency if evidence.quote else "USD")

    def shared(self) -> dict[str, Any]:
        facts = self.evidence.target
        headline, missing = self.phrases.headline_parts(self.verdict, self.findings, self.coverage)
        return {
            "t": self.text,
            "lang": self.lang,
            "headline": headline,
            "missing": missing,
            "cards": self._cards(),
            "coverage": [self._coverage(row) for row in self.coverage],
            "stopped": self.phrases.stop(self.evidence.stopped) if self.evidence.stopped else "",
            "host": show(host_of(facts.relay_origin), WIDTH),
            "model": show(facts.model, WIDTH),
            "date": self.evidence.started_at.strftime("%Y-%m-%d %H:%M"),
            "run_id": self.evidence.run_id,
            "head": self.evidence.evidence_head,
        }

    def vendor(self) -> dict[str, Any]:
        main = [f for f in self.findings if f.above_info]
        rest = [f for f in self.findings if not f.above_info]
        return {
            **self.shared(),
            "findings": [self._finding(f) for f in main],
            "open": [self._finding(f) for f in rest if f.outcome in ("inconclusive", "error")],
            "agreements": [self._finding(f) for f in rest if f.outcome not in ("inconclusive", "error")],
            "conduct": conduct_of(self.evidence),
            "user_agent": show(self.evidence.target.user_agent),
            "approval": self._approval_channel(),
            "replays": self._replays(main),
            "versions": versions(self.evidence, self.knowledge, self.phrases, self.text, self.digest),
        }

    def internal(self) -> dict[str, Any]:
        surplus = surplus_of(self.findings)
        price = relay_price(self.evidence)
        top = [f for f in self.findings if f.above_info][:REASONS_AT_MOST]
        return {
            **self.shared(),
            "name": show(self.evidence.target.name, WIDTH),
            "verdict": self.verdict.verdict,
            "rule": self.verdict.rule,
            "why": self._why(),
            "claim": self._claim(),
            "reasons": [
                (f.id, f.severity, self.text(f"severity.{f.severity}"), _headed(self.phrases.finding(f))) for f in top
            ],
            "money": self._money(),
            "money_basis": self.phrases.word(basis) if (basis := money_of(self.evidence).basis) else "",
            "surplus": surplus,
            "surplus_slope": money(surplus.slope) if surplus else "",
            "real_costs": [
                (
                    f"{row.tokens_per_call:,}",
                    self.phrases.amount(row.price) if row.price is not None else "",
                    f"× {row.factor}",
                )
                for row in (real_costs(self.evidence, surplus) if surplus else ())
            ],
            "listed": self.phrases.amount(price.input) if price else "",
            "approval": self._approval(),
            "next": self.text(f"answer.next.{self.verdict.next_code}"),
            "conflict": bool(self.evidence.target.conflict),
            "requests": f"{requests_sent(self.evidence):,}",
        }

    def _cards(self) -> list[CardView]:
        return [
            CardView(
                name=self.text(f"card.name.{card.id}"),
                question=self.text(f"card.question.{card.id}"),
                state=card.state,
                symbol=self.text(f"card.symbol.{card.state}"),
                word=self.text(f"card.state.{card.state}"),
                text=self.phrases.card(card, self.findings, self.coverage),
                level=self.text(f"level.{card.evidence_level}") if card.evidence_level else self.text("card.none"),
                date=card.date.isoformat(),
            )
            for card in self.verdict.cards
        ]

    def _coverage(self, row: Coverage) -> CoverageView:
        reason = self.phrases.reason(row) if row.reason else ""
        name, word = self.text(f"check.{row.check}"), self.text(f"coverage.state.{row.state}")
        return CoverageView(row.check, name, row.state, word, reason)

    def _finding(self, finding: Finding) -> FindingView:
        exchanges = cited(finding, self.evidence)
        traces = [trace(e, self.evidence, self.phrases) for e in exchanges]
        first = next((r for e in exchanges if e.side == "relay" and (r := replay(e, self.evidence))), None)
        return FindingView(
            id=finding.id,
            severity=finding.severity,
            severity_word=self.text(f"severity.{finding.severity}"),
            outcome_word=self.text(f"outcome.{finding.outcome}"),
            tags=self._tags(finding),
            text=_headed(self.phrases.finding(finding)),
            rows=compare(finding, self.evidence, self.phrases),
            traces=traces[:TRACES_AT_MOST],
            more_traces=max(0, len(traces) - TRACES_AT_MOST),
            replay=first,
            settings=self._settings(finding),
            known=self._known(finding),
            upstream_visible=any(f.code == "channel.chained_relay" for f in self.findings),
        )

    def _tags(self, finding: Finding) -> str:
        return self.text(
            "finding_part.tags",
            check=str(finding.check) if finding.check else "–",
            severity=self.text(f"severity.{finding.severity}"),
            confidence=self.text(f"confidence.{finding.confidence}"),
            level=self.text(f"level.{finding.evidence_level}"),
            basis=self.text(f"basis.{finding.basis}"),
        )

    def _settings(self, finding: Finding) -> list[Fact]:
        """Which switch of the recognised software to look at, with the date of that knowledge."""
        software = self.evidence.site.software
        return [
            Fact(
                software,
                self._dated(row.setting.in_(self.lang), row),
            )
            for row in self.knowledge.settings
            if row.software == software and any(fnmatch.fnmatchcase(finding.code, pattern) for pattern in row.codes)
        ]

    def _dated(self, text: str, row: Known) -> str:
        seen = self.text("finding_part.observed", date=row.observed.isoformat())
        return self.text("joint.aside", text=text, aside=seen)

    def _known(self, finding: Finding) -> list[Fact]:
        """The dated knowledge that a finding names in its parameters."""
        named = {
            item for value in finding.params.values() if isinstance(value, list | tuple) for item in map(str, value)
        }
        rows: tuple[Known, ...] = (*self.knowledge.ids, *self.knowledge.headers, *self.knowledge.errors)
        return [
            Fact(
                row.id,
                self._dated(row.meaning.in_(self.lang), row),
            )
            for row in rows
            if row.id in named
        ]

    def _replays(self, findings: list[Finding]) -> list[Replay]:
        wanted = {x for f in findings for x in f.exchanges}
        sent = (e for e in self.evidence.exchanges if e.id in wanted and e.side == "relay")
        return [made for exchange in sent if (made := replay(exchange, self.evidence))]

    def _approval_channel(self) -> str:
        approval = self.evidence.approval
        return self.text("method.approval", channel=self.phrases.word(approval.channel)) if approval else ""

    def _approval(self) -> str:
        approval = self.evidence.approval
        if approval is None:
            return self.text("internal.no_approval")
        return self.text(
            "internal.approval_value",
            amount=self.phrases.amount(approval.ceiling),
            approver=show(approval.approver, 40),
            channel=self.phrases.word(approval.channel),
            time=approval.at.strftime("%Y-%m-%d %H:%M") + " UTC",
            digest=approval.quote_digest[:12],
        )

    def _why(self) -> str:
        if self.verdict.rule == NO_RULE:
            return self.text("verdict.no_rule.why")
        rule = next((r for r in self.knowledge.rules if r.id == self.verdict.rule), None)
        return rule.why.in_(self.lang) if rule else ""

    def _claim(self) -> str:
        claim, none = self.evidence.target.claim, self.text("internal.not_claimed")
        return self.text(
            "internal.claim_value",
            channel=self.phrases.word(claim.channel) if claim.channel != "unknown" else none,
            group=show(claim.group, 40) or none,
            ratio=money(claim.ratio) if claim.ratio is not None else none,
        )

    def _money(self) -> list[Fact]:
        figures, amount, text = money_of(self.evidence), self.phrases.amount, self.text
        approved = amount(figures.approved) if figures.approved is not None else text("money.not_approved")
        return [
            Fact(text("money.quoted_expected"), amount(figures.quoted_expected)),
            Fact(text("money.quoted_at_most"), amount(figures.quoted_at_most)),
            Fact(text("money.approved"), approved),
            Fact(text("money.hold"), amount(figures.hold)),
            Fact(text("money.charged_relay"), amount(figures.charged_relay)),
            Fact(text("money.charged_official"), amount(figures.charged_official)),
            Fact(text("money.unconfirmed"), amount(figures.unconfirmed)),
        ]


def _headed(texts: Texts) -> Texts:
    return Texts(capital(texts.title), texts.claim, texts.means, texts.not_proven, texts.other, texts.refuted)


def page_lang(lang: Lang) -> str:
    """The value of the page's lang attribute: it picks the glyph forms."""
    return "zh-Hans" if lang == "zh-CN" else "en"
