"""What the pages show, as values: the templates lay out and decide nothing.

The vendor's page holds this relay and the official side, nobody else; the public one not even this relay's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.fingerprint import Knowledge, Known
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.edition import Edition
from relay_audit.report.figures import conduct_of
from relay_audit.report.phrases import Phrases, Texts, capital
from relay_audit.report.pictures import pictures
from relay_audit.report.provenance import versions
from relay_audit.report.remedies import cost_to_buyer, dated, settings_for, tiers
from relay_audit.report.side_by_side import Replay, cited, compare, replay, trace, vendors_own
from relay_audit.report.terms import Terms
from relay_audit.report.untrusted import show
from relay_audit.report.views import WIDTH, AnswerView, CardView, CoverageView, Fact, FindingView
from relay_audit.report.views import host_of as host_of
from relay_audit.verdict import Verdict, all_checks, does_not_apply
from relay_audit.words import Lang

TRACES_AT_MOST = 24
"""Rows of one finding's table; the rest are in the archive."""
REPLY = 600
"""Characters shown of an operator's reply."""


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
        *,
        edition: Edition | None = None,
        public: Terms | None = None,
        masked: bool = False,
        withdrawn: tuple[Finding, ...] = (),
    ) -> None:
        """`withdrawn` are findings that fell in a later test: they are not among `findings`."""
        self.evidence, self.findings, self.coverage = evidence, findings, all_checks(coverage)
        self.verdict, self.knowledge = verdict, knowledge
        self.catalogue, self.text, self.lang, self.digest = catalogue, catalogue.text, catalogue.lang, knowledge_digest
        self.edition, self.withdrawn = edition or Edition(), withdrawn
        currency = evidence.quote.currency if evidence.quote else "USD"
        self.phrases = Phrases(catalogue, currency, masked=masked, public=public)

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
            "recorded": facts.recorded,
            "notices": self._notices(),
            "number": self.edition.number(self.evidence),
        }

    def vendor(self) -> dict[str, Any]:
        main = [f for f in self.findings if f.above_info]
        rest = [f for f in self.findings if not f.above_info]
        return {
            **self.shared(),
            "findings": [self._finding(f) for f in main],
            "open": self._brief(f for f in rest if f.outcome in ("inconclusive", "error")),
            "agreements": self._brief(f for f in rest if f.outcome not in ("inconclusive", "error")),
            "conduct": conduct_of(self.evidence),
            "user_agent": show(self.evidence.target.user_agent),
            "approval": self._approval_channel(),
            "replays": self._replays(main),
            "tiers": tiers(self.findings, self.evidence, self.knowledge, self.catalogue, self.phrases),
            "withdrawn": self._brief(self.withdrawn),
            "pictures": pictures(self.evidence, self.findings, self.catalogue, self.phrases),
            "versions": versions(self.evidence, self.knowledge, self.phrases, self.text, self.digest),
        }

    def public(self) -> dict[str, Any]:
        """Phenomena, method, date and figures; nothing by which the line could be told."""
        main = [f for f in self.findings if f.above_info]
        rest = [f for f in self.findings if not f.above_info]
        return {
            **self.shared(),
            "host": "",
            "run_id": "",
            "date": self.evidence.started_at.date().isoformat(),
            "findings": [self._said(f) for f in main],
            "open": self._brief(f for f in rest if f.outcome in ("inconclusive", "error")),
            "agreements": self._brief(f for f in rest if f.outcome not in ("inconclusive", "error")),
            "conduct": conduct_of(self.evidence),
            "pictures": pictures(self.evidence, self.findings, self.catalogue, self.phrases),
        }

    def _cards(self) -> list[CardView]:
        return [
            CardView(
                name=self.text(f"card.name.{card.id}"),
                question=self.text(f"card.question.{card.id}"),
                state=card.state,
                symbol=self.text("card.symbol.not_applicable" if does_not_apply(card) else f"card.symbol.{card.state}"),
                word=self.text("coverage.state.not_applicable" if does_not_apply(card) else f"card.state.{card.state}"),
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
        exchanges = sorted(
            cited(finding, self.evidence), key=lambda e: e.side != "relay"
        )  # what an operator looks up first
        first = next((r for e in exchanges if e.side == "relay" and (r := replay(e, self.evidence))), None)
        return FindingView(
            id=finding.id,
            severity=finding.severity,
            severity_word=self.text(f"severity.{finding.severity}"),
            outcome_word=self.text(f"outcome.{finding.outcome}"),
            tags=self._tags(finding),
            text=headed(self.phrases.finding(finding)),
            rows=compare(finding, self.evidence, self.phrases),
            against=self.text("report.official" if vendors_own(finding) else "finding_part.expected"),
            traces=[trace(e, self.evidence, self.phrases) for e in exchanges[:TRACES_AT_MOST]],
            more_traces=max(0, len(exchanges) - TRACES_AT_MOST),
            replay=first,
            settings=[dated(row, self.catalogue) for row in settings_for(finding, self.evidence, self.knowledge)],
            known=self._known(finding),
            upstream_visible=any(f.code == "channel.chained_relay" for f in self.findings),
            cost=cost_to_buyer(finding, self.catalogue, self.phrases),
            answer=self._answer(finding),
        )

    def _said(self, finding: Finding) -> FindingView:
        """A finding in words alone: nothing to look it up by."""
        return FindingView(
            id=finding.id,
            severity=finding.severity,
            severity_word=self.text(f"severity.{finding.severity}"),
            outcome_word=self.text(f"outcome.{finding.outcome}"),
            tags=self._tags(finding),
            text=headed(self.phrases.finding(finding)),
            rows=[],
            against="",
            traces=[],
            more_traces=0,
            replay=None,
            settings=[],
            known=[],
            upstream_visible=False,
            cost=cost_to_buyer(finding, self.catalogue, self.phrases),
            answer=None,
        )

    def _brief(self, findings: Iterable[Finding]) -> list[FindingView]:
        """In words alone, and what reads the same once: three films that agree are one line with three numbers."""
        told: dict[Texts, FindingView] = {}
        for finding in findings:
            view = self._said(finding)
            same = told.get(view.text)
            numbers = self.text("joint.list").join([same.id, view.id]) if same else view.id
            told[view.text] = replace(view, id=numbers)
        return list(told.values())

    def _answer(self, finding: Finding) -> AnswerView | None:
        """The last reply to this code: an id alone could mean another finding after a new assessment."""
        found = [reply for reply in self.evidence.replies if reply.code == finding.code]
        if not found:
            return None
        last = found[-1]
        return AnswerView(
            self.text(f"reply.{last.stance}"), show(last.untrusted_text, REPLY), last.at.date().isoformat()
        )

    def _notices(self) -> list[str]:
        """What page 1 says before anything else."""
        edition, said = self.edition, []
        if edition.withdrawn:
            said.append(self.text("edition.withdrawn", because=show(edition.withdrawn)))
        if edition.version > 1:
            because = show(edition.because) if edition.because else self.text("edition.no_reason")
            said.append(self.text("edition.supersedes", version=str(edition.version - 1), because=because))
        if self.withdrawn:
            named = (f"{f.id} {self.phrases.title(f)}" for f in self.withdrawn)
            said.append(self.text("edition.fallen", findings=self.text("joint.clause").join(named)))
        return said

    def _tags(self, finding: Finding) -> str:
        return self.text(
            "finding_part.tags",
            check=str(finding.check) if finding.check else "–",
            severity=self.text(f"severity.{finding.severity}"),
            confidence=self.text(f"confidence.{finding.confidence}"),
            level=self.text(f"level.{finding.evidence_level}"),
            basis=self.text(f"basis.{finding.basis}"),
        )

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


def fallen(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings that a later test withdrew. After a new assessment an id may be another's: then the code alone tells."""
    known = {(f.id, f.code) for f in findings}
    pairs = {(w.finding, w.code) for w in evidence.withdrawn}
    codes = {code for id_, code in pairs if (id_, code) not in known}
    return tuple(f for f in findings if (f.id, f.code) in pairs or f.code in codes)


def headed(texts: Texts) -> Texts:
    return Texts(capital(texts.title), texts.claim, texts.means, texts.not_proven, texts.other, texts.refuted)


def page_lang(lang: Lang) -> str:
    """The value of the page's lang attribute: it picks the glyph forms."""
    return "zh-Hans" if lang == "zh-CN" else "en"
