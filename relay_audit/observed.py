"""What a vendor was seen to do, as dated rows of knowledge: counts, refusals and limits, out of a finished run.

The vendor stands on both sides of such a run, or alone in it. A row is made only where all its answers agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from relay_audit.assess.model_identity import OVERSIZE, readable
from relay_audit.baseline_file import is_plain
from relay_audit.calibration import TOGETHER
from relay_audit.conformance import Refusal
from relay_audit.error_text import GATES, PASSING, Said, read_refusal, same_complaint
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.fingerprint import Knowledge, Known, LimitText, TokenBaseline
from relay_audit.plan import Step
from relay_audit.report.catalogue import Catalogue
from relay_audit.words import LANGS, Bilingual

TERM_DAYS = {"baselines": 180, "refusals": 180, "limits": 180, "signatures": 180, "ids": 365, "headers": 365}
LONGEST_MESSAGE = 400
Groups = dict[str, tuple[Known, ...]]


class Observer:
    """One run against the vendor, and how its rows are dated."""

    def __init__(self, evidence: Evidence, knowledge: Knowledge, command: str) -> None:
        self.evidence = evidence
        self.knowledge = knowledge
        self.day = evidence.started_at.date()
        host = evidence.target.official_origin.split("://")[-1]
        self.source = f"{command} against {host}, relay-audit {evidence.tool_version}"
        self.steps = evidence.plan.steps if evidence.plan else ()

    def shareable(self) -> Groups:
        """Counts, refusals and limits: what a baselines file may hold."""
        rows = {"baselines": self._baselines(), "refusals": self._refusals(), "limits": self._limits()}
        return {kind: tuple(found) for kind, known in rows.items() if (found := list(known))}

    def dated(self, kind: str, name: str, **texts: str) -> dict[str, Any]:
        """What every row says of itself: id, meaning, day, source, term, level."""
        return {
            "id": slug(f"calibrated.{name}.{self.day:%Y%m%d}"),
            "meaning": self.meaning(kind, **texts),
            "observed": self.day,
            "source": self.source,
            "term_days": TERM_DAYS[kind],
            "level": "measured",
        }

    def meaning(self, kind: str, **texts: str) -> Bilingual:
        said = {lang: Catalogue.load(lang).text(f"calibration.row.{kind}", **texts) for lang in LANGS}
        return Bilingual.model_validate(said)

    def _told(self, step: Step) -> Exchange | None:
        exchange = self.evidence.of_step(step.id)
        return exchange if exchange and exchange.response and exchange.status not in PASSING else None

    def _baselines(self) -> Iterator[TokenBaseline]:
        counter = self.evidence.pack.counter
        counted: dict[tuple[str, str], list[int | None]] = {}
        for step in (step for step in self.steps if "published" in step.factors and counter):
            told = self._told(step)
            number = whole_number(pointer(told.answer(), counter.read)) if told and counter else None
            counted.setdefault((str(step.factors["model"]), str(step.factors["published"])), []).append(number)
        for index, ((model, text), numbers) in enumerate(counted.items()):
            if len(numbers) > 1 and len(set(numbers)) == 1 and (tokens := numbers[0]):
                dated = self.dated("baselines", f"baseline.{model}.{index + 1}", tokens=str(tokens))
                yield TokenBaseline(**dated, models=(model,), text=text, tokens=tokens)

    def _refusals(self) -> Iterator[Refusal]:
        for case, told in self._cases().items():
            kinds = {(exchange.status, _said(exchange).kind) for exchange in told}
            if len(kinds) == 1 and (row := self._refusal(case, told)) is not None:
                yield row

    def _cases(self) -> dict[str, list[Exchange]]:
        """The vendor's answers to each case. Where it stands on both sides its answers in the relay's place are as much
        its own, and all must agree; a key or a balance that is refused says nothing of the case."""
        named: dict[str, list[Exchange]] = {}
        for step in (step for step in self.steps if step.case):
            told = self._told(step)
            if told is not None and (told.status not in GATES or step.key == "made_up"):
                named.setdefault(step.case, []).append(told)
        return named

    def _refusal(self, case: str, told: list[Exchange]) -> Refusal | None:
        if case.startswith(TOGETHER):
            return self._order(case, told[0])
        said, status = _said(told[0]), told[0].status or 0
        known = next((row for row in self.knowledge.refusals if (row.dialect, row.case) == (self.dialect, case)), None)
        if status == 200:
            reads = known.reads if known else {}
            if any(pointer(exchange.answer(), path) != value for exchange in told for path, value in reads.items()):
                return None  # one answer in which it does not show proves nothing
            return self._row(case, 200, "", "", known.names if known else "", reads)
        if len(told) < 2:
            return None
        names = known.names if known and known.names in said.text else self._named_in(case, said.text)
        return self._row(case, status, said.kind, _shared([_said(exchange).text for exchange in told]), names)

    def _order(self, case: str, both: Exchange) -> Refusal | None:
        """Of the limit and another fault: which one is reported. Unclear where neither is, or either could be."""
        named = self._cases()
        alone = {name: named[name][0] for name in (OVERSIZE, case.removeprefix(TOGETHER)) if name in named}
        if len(alone) < 2 or any(exchange.status == 200 for exchange in (*alone.values(), both)):
            return None
        said = _said(both)
        first = [name for name, exchange in alone.items() if same_complaint(_said(exchange).text, said.text)]
        if len(first) != 1:
            return None
        return self._row(case, both.status or 0, said.kind, said.text, self._named_in(first[0], said.text))

    def _row(
        self, case: str, status: int, kind: str, message: str, names: str, reads: dict[str, Any] | None = None
    ) -> Refusal:
        model = self.evidence.target.official_model
        dated = self.dated("refusals", f"{self.dialect}.{case}.{model}", status=str(status), names=names or case)
        return Refusal(**dated, dialect=self.dialect, case=case, models=(model,), status=status, error_type=kind,
                       message=message[:LONGEST_MESSAGE], names=names, reads=reads or {})  # fmt: skip

    def _named_in(self, case: str, text: str) -> str:
        """The field of the body that the complaint names first; empty where it names none."""
        step = next(step for step in self.steps if step.case == case)
        places = {key: match.start() for key in step.body if (match := re.search(rf"\b{re.escape(key)}\b", text))}
        return min(places, key=lambda key: places[key], default="")

    def _limits(self) -> Iterator[LimitText]:
        model, pack = self.evidence.target.official_model, self.evidence.pack
        told = [exchange for exchange in self._cases().get(OVERSIZE, []) if exchange.status != 200]
        step = next((step for step in self.steps if step.case == OVERSIZE), None)
        sent = pointer(step.body, pack.output_limit) if step else None
        texts = [readable(exchange.response.body) for exchange in told if exchange.response]
        rows = [row for row in self.knowledge.limits if texts and row.read(texts[0])]
        pattern = rows[0].pattern if rows else generalised(_said(told[0]).text, sent, model) if told else ""
        if not pattern:
            return
        vendor = rows[0].vendor if rows else slug(pack.vendor)
        dated = self.dated("limits", f"limit.{self.dialect}.{model}", model=model)
        row = LimitText(**dated, vendor=vendor, pattern=pattern, models=(model,))
        caps = {read[0] for text in texts if (read := row.read(text))}
        if len(caps) == 1:
            cap = caps.pop()
            row = row.model_copy(
                update={"meaning": self.meaning("limits_named", model=model, cap=f"{cap:,}"), "cap": cap}
            )
        yield row

    @property
    def dialect(self) -> str:
        return self.evidence.pack.dialect


def generalised(text: str, sent: Any, model: str) -> str:  # noqa: ANN401  whatever stood in the body
    """A refused limit's text as a pattern: what was sent is any figure, the one other large figure is the limit, and
    the model's name is a name. Empty where that does not fit."""
    others = [figure for figure in re.findall(r"\d[\d,]*", text) if figure.replace(",", "") != str(sent)]
    large = {figure for figure in others if int(figure.replace(",", "")) >= 256 and figure not in model}
    if len(large) != 1:
        return ""
    cap = large.pop()
    pattern = re.escape(text[:LONGEST_MESSAGE]).replace(re.escape(str(sent)), r"\d+")
    pattern = pattern.replace(re.escape(cap), r"(?P<cap>[\d,]+)" if "," in cap else r"(?P<cap>\d+)", 1)
    pattern = pattern.replace(re.escape(model), r"(?P<model>[\w.:@/*-]+)", 1)
    return pattern if is_plain(pattern) else ""


def _said(exchange: Exchange) -> Said:
    if exchange.response is None or exchange.response.status == 200:
        return Said(200, 200, "", "")
    return read_refusal(exchange.response.status, exchange.response.body)


def _shared(texts: list[str]) -> str:
    """The words all of them hold, `*` for those that vary."""
    rows = [text.split(" ") for text in texts]
    if len({len(row) for row in rows}) > 1:
        return texts[0]
    return " ".join(words[0] if len(set(words)) == 1 else "*" for words in zip(*rows, strict=True))


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9_.-]+", "-", text.lower())
