"""Sentences from codes and parameters. Nothing here judges; another language only says it again.

Titles, and all that is made of them (headline, cards, the answer that may be said aloud), hold no text of a stranger.
Claims may; where the reader is a program it is masked, so that a relay's words reach nobody's instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from relay_audit.codes import CODES
from relay_audit.finding import Coverage, Finding
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.terms import Terms
from relay_audit.report.untrusted import show
from relay_audit.verdict import CARD_CHECKS, Card, Verdict, all_checks, does_not_apply
from relay_audit.words import money

PARTS = ("title", "claim", "means", "not_proven", "other", "refuted")
AMOUNTS = frozenset({
    "per_1000_calls", "charged", "recomputed", "difference", "at_most", "published_rate", "charged_rate", "refunded", "held",
    "told", "log",
})  # fmt: skip
"""Parameters that are money in the quote's currency."""
VALUE_TABLES = ("coverage.reason", "stop", "word")
"""Where a parameter that is a word is looked up; a word of nobody's is shown as it is."""
LISTED_AT_MOST = 6
"""Items shown of a list inside a sentence."""
DERIVED = {"billing.tiers_measured": ("ratios",)}
"""Placeholders of a code's sentences that `derived` fills."""
_SPAN = re.compile(r"([\d.]+) (to|of) ([\d.]+)")
"""Assessors write spans and shares of counts this way."""
_SIZE = re.compile(r"(\d+) characters")
"""And so a shape that has no name yet."""


def _widest(findings: Iterable[Finding]) -> str:
    """The largest share that one of these clean results would not have shown; empty where none says."""
    shares = [str(f.params["share_bound"]) for f in findings if f.outcome == "match" and f.params.get("share_bound")]
    return max(shares, key=Decimal, default="")


@dataclass(frozen=True)
class Texts:
    """A finding in one language."""

    title: str
    claim: str
    means: str
    not_proven: str
    other: str
    refuted: str


class Phrases:
    """One language, one currency."""

    def __init__(
        self,
        catalogue: Catalogue,
        currency: str = "USD",
        *,
        masked: bool = False,
        public: Terms | None = None,
    ) -> None:
        """`masked` takes out a stranger's text; `public` takes out whatever would show whose line this is."""
        self.text = self._text = catalogue.text
        self._catalogue = catalogue
        self._currency = currency
        self._masked = masked
        self._public = public

    def finding(self, finding: Finding) -> Texts:
        return Texts(**{part: self._part(finding, part) for part in PARTS})

    def title(self, finding: Finding) -> str:
        return self._part(finding, "title")

    def headline(self, verdict: Verdict, findings: Iterable[Finding], coverage: tuple[Coverage, ...]) -> str:
        """One sentence, then what is missing."""
        return self._text("joint.sentence").join(filter(None, self.headline_parts(verdict, findings, coverage)))

    def headline_parts(
        self, verdict: Verdict, findings: Iterable[Finding], coverage: tuple[Coverage, ...]
    ) -> tuple[str, str]:
        """What was found, and what is missing; a page sets them in two sizes."""
        return self._said("headline", verdict.headline_code, verdict.headline_params, tuple(findings), coverage)

    def say(self, verdict: Verdict, findings: Iterable[Finding], coverage: tuple[Coverage, ...], requests: int) -> str:
        """What may be repeated unchanged: the headline's findings with date, number of requests and level; no more."""
        level = verdict.answer_params["level"]
        extra = {
            "date": str(verdict.answer_params["date"]),
            "n": f"{requests:,}",
            "level": self._text(f"level_sentence.{level}") if level else "",
        }
        parts = self._said("answer", verdict.answer_code, verdict.answer_params, tuple(findings), coverage, extra)
        return self._text("joint.sentence").join(filter(None, parts))

    def card(self, card: Card, findings: Iterable[Finding], coverage: tuple[Coverage, ...]) -> str:
        by_id = {f.id: f for f in findings}
        named = [by_id[i] for i in card.params["findings"] if i in by_id]
        missing = self.missing(coverage, card.params["missing"])
        if does_not_apply(card):
            return capital(self._text("card.text.not_applicable", missing=self.missing(coverage, CARD_CHECKS[card.id])))
        alone = "_alone" if card.code == "unclear" and not named else ""
        text = self._text(f"card.text.{card.code}{alone}", findings=self.titles(named, most=2), missing=missing)
        if missing and card.code in ("differs", "small_difference", "unclear"):
            text = self._text("card.text.also_missing", text=text + self._text("joint.sentence"), missing=missing)
        if card.code in ("agrees", "agrees_in_part") and (share := _widest(named)):
            text = self._text("card.text.bounded", text=text, share=share)
        return capital(text)

    def titles(self, findings: Iterable[Finding], more: int = 0, most: int | None = None) -> str:
        """At most `most` different titles, how often each; then how many others there are."""
        times = Counter(map(self.title, findings))
        more += sum(times.values())
        shown = dict(list(times.items())[:most])
        more -= sum(shown.values())
        text = self._text("joint.clause").join(
            self._text("joint.times", text=title, n=str(n)) if n > 1 else title for title, n in shown.items()
        )
        return self._text("joint.more", text=text, n=str(more)) if more > 0 else text

    def missing(self, coverage: tuple[Coverage, ...], checks: Iterable[int]) -> str:
        """Checks without a result, grouped by reason: `model identity, parameters (not in this version)`."""
        wanted = set(checks)
        groups: dict[str, list[str]] = {}
        for row in all_checks(coverage):
            if row.check in wanted:
                groups.setdefault(self.reason(row), []).append(self._text(f"check.{row.check}"))
        comma, clause = self._text("joint.list"), self._text("joint.clause")
        return clause.join(
            self._text("joint.aside", text=comma.join(names), aside=why) for why, names in groups.items()
        )

    def tested(self, coverage: tuple[Coverage, ...]) -> str:
        ran = (self._text(f"check.{row.check}") for row in all_checks(coverage) if row.state == "run")
        return self._text("joint.list").join(ran)

    def reason(self, row: Coverage) -> str:
        return self.word(row.reason) if row.reason else self._text(f"coverage.state.{row.state}")

    def stop(self, reason: str) -> str:
        known = self._catalogue.knows(f"stop.{reason}") and reason != "other"
        return self._text(f"stop.{reason}") if known else self._text("stop.other", reason=show(reason, 80))

    def amount(self, value: Decimal | None) -> str:
        if value is None:
            return self._text("joint.unknown")
        if self._currency == "USD":
            return self._text("money.usd", amount=_cents(value))
        return self._text("money.other", amount=money(value), currency=show(self._currency, 8))

    def value(self, name: str, item: Any) -> str:  # noqa: ANN401  any JSON value
        """A parameter as text: numbers grouped, money with its sign, words by name, lists joined, strangers fenced."""
        if item is None:
            return self._text("joint.unknown")
        if name == "condition" and not item:
            return self._text("word.always")
        if name.startswith("untrusted_"):
            return self._stranger(_flat_text(item))
        if isinstance(item, str) and self._public is not None and self._public.holds(item):
            return self._text("untrusted.unnamed")
        if name in AMOUNTS and (number := _number(item)) is not None:
            return self.amount(number)
        if isinstance(item, Mapping):
            return self._pairs(item)
        if isinstance(item, list | tuple | set | frozenset):
            return self._listed(name, list(item))
        return self._single(item)

    def _stranger(self, text: str) -> str:
        if self._public is not None:
            return text if self._public.may_repeat(text) else self._text("untrusted.unnamed")
        return self._text("untrusted.masked") if self._masked else show(text)

    def word(self, item: str) -> str:
        for table in VALUE_TABLES:
            if self._catalogue.knows(f"{table}.{item}") and not self._catalogue.placeholders(f"{table}.{item}"):
                return self._text(f"{table}.{item}")
        return show(item, 80)

    def _single(self, item: Any) -> str:  # noqa: ANN401
        if isinstance(item, bool):
            return self._text("word.true" if item else "word.false")
        number = _number(item)
        if number is not None and not isinstance(item, str):
            return _grouped(number)
        text = str(item)
        if not text:
            return self._text("joint.unknown")
        if span := _SPAN.fullmatch(text):
            low, kind, high = span.groups()
            return (
                self._text("joint.range", low=low, high=high)
                if kind == "to"
                else self._text("joint.of", n=low, of=high)
            )
        if sized := _SIZE.fullmatch(text):
            return self._text("joint.characters", n=sized[1])
        return self.word(text)

    def _listed(self, name: str, items: list[Any]) -> str:
        shown = [self.value(name, item) for item in items[:LISTED_AT_MOST]]
        text = self._text("joint.list").join(shown)
        rest = len(items) - len(shown)
        return self._text("joint.more", text=text, n=str(rest)) if rest else text

    def _pairs(self, items: Mapping[str, Any]) -> str:
        if {"low", "high"} <= set(items):
            low, high = (self.value(name, items[name]) for name in ("low", "high"))
            if "n" not in items:
                return self._text("joint.range", low=low, high=high)
            share = self._text("joint.range", low=f"{low}%", high=f"{high}%")
            return self._text("joint.aside", text=self.value("n", items["n"]), aside=share)
        shown = [
            self._text("joint.pair", name=self.word(str(key)), value=self.value(str(key), value))
            for key, value in items.items()
        ]
        return self._text("joint.list").join(shown)

    def _part(self, finding: Finding, part: str) -> str:
        key, params = f"finding.{finding.code}.{part}", {**derived(finding), **finding.params}
        agreeing = f"agreeing.{finding.code}.{part}"  # a code that speaks of a difference, where there was none
        if finding.outcome == "match" and self._catalogue.knows(agreeing):
            key = agreeing
        by_basis = f"compared.{finding.basis}.{finding.code}.{part}"  # what was compared was something else
        if self._catalogue.knows(by_basis):
            key = by_basis
        by_road = f"road.{params.get('road')}.{finding.code}.{part}"  # another way to the same code
        if self._catalogue.knows(by_road):
            key = by_road
        if self._public is not None and self._catalogue.knows(f"in_public.{key}"):  # without what would show the line
            key = f"in_public.{key}"
        wanted = self._catalogue.placeholders(key) if self._catalogue.knows(key) else frozenset()
        return self._text(key, **{n: self.value(n, params[n]) for n in wanted if n in params})

    def _said(
        self,
        table: str,
        code: str,
        params: Mapping[str, Any],
        findings: tuple[Finding, ...],
        coverage: tuple[Coverage, ...],
        extra: Mapping[str, str] | None = None,
    ) -> tuple[str, str]:
        by_id = {f.id: f for f in findings}
        named = [by_id[i] for i in params["findings"] if i in by_id]
        alone = "_alone" if code == "unclear" and not named else ""
        filled = {"findings": self.titles(named, params["more"]), "tested": self.tested(coverage), **(extra or {})}
        rest = []
        if params["missing"]:
            rest.append(self._text("headline.missing", missing=self.missing(coverage, params["missing"])))
        if params["stopped"]:
            rest.append(self._text("headline.stopped", stopped=self.stop(params["stopped"])))
        return self._text(f"{table}.{code}{alone}", **filled).rstrip(), self._text("joint.sentence").join(rest)


def capital(text: str) -> str:
    """A sentence made of titles begins with a capital letter, where the script has any."""
    return text[:1].upper() + text[1:]


def derived(finding: Finding) -> dict[str, str]:
    """What a sentence says that stands among the observed figures: of ordered films, how they compare with the vendor's
    price (`DERIVED` names it). Where no tier has such a price, another sentence is taken."""
    if finding.code not in DERIVED:
        return {}
    told = [
        Decimal(str(row["ratio"])) for row in finding.observed.values() if isinstance(row, Mapping) and row.get("ratio")
    ]
    if not told:
        return {"road": "no_official_price"}
    low, high = f"{min(told):.3f}", f"{max(told):.3f}"
    return {"ratios": low if low == high else f"{low} to {high}"}


def complete(finding: Finding) -> bool:
    """Whether a finding carries every parameter of its code."""
    return all(name in finding.params for name in CODES[finding.code].params)


def _number(item: Any) -> Decimal | None:  # noqa: ANN401
    if isinstance(item, bool) or not isinstance(item, int | float | Decimal | str):
        return None
    try:
        number = Decimal(str(item))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _cents(amount: Decimal) -> str:
    """Money with two decimals at least."""
    text = money(amount)
    fraction = len(text.partition(".")[2])
    return text if fraction >= 2 else f"{amount:.2f}"


def _grouped(number: Decimal) -> str:
    text = money(number)
    whole, _, fraction = text.partition(".")
    return f"{int(whole):,}{'.' + fraction if fraction else ''}" if whole not in ("-0", "") else text


def _flat_text(item: Any) -> str:  # noqa: ANN401
    return ", ".join(map(str, item)) if isinstance(item, list | tuple) else str(item)
