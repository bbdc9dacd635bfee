"""Two runs of one line side by side: what is different, and whose change each difference is. For the buyer alone.

Values only: what was compared, and who is behind a change, is decided elsewhere (`difference`, `attribution`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from relay_audit.change import CAUSES, Cause, Change, moved_figures
from relay_audit.finding import Finding
from relay_audit.judgement import Judgement
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import money_of
from relay_audit.report.pages import page_lang
from relay_audit.report.phrases import Phrases, capital
from relay_audit.report.render import environment
from relay_audit.report.side_by_side import Marked
from relay_audit.report.untrusted import show
from relay_audit.report.views import WIDTH, host_of

Plain = tuple[str, str, str]
"""Name, before, after."""
SHORT = 40
"""Characters of a value that is marked."""
Tone = Literal["bad", "warn", "ok", "unknown"]


@dataclass(frozen=True)
class Pair:
    """One row of two columns; of the later one the differing part is marked."""

    label: str
    before: str
    after: Marked
    differs: bool


@dataclass(frozen=True)
class ChangeView:
    number: str
    title: str
    tone: Tone
    tags: str
    """What kind of change, of which weight, and whose."""
    why: str
    rows: list[Pair]
    claim: str
    """What the later run says; of a finding that is gone, what the earlier one said."""
    command: str
    """What looks at a change that is not the relay's and lets it stand; empty where there is none."""


@dataclass(frozen=True)
class Compared:
    """Both judgements, earlier one first, and what was made of them."""

    then: Judgement
    now: Judgement
    changes: list[Change]
    facts: list[Plain]
    files: list[str]
    relay_changed: bool
    commands: Mapping[Cause, str]


def difference_page(compared: Compared, form: Literal["html", "md"], catalogue: Catalogue) -> bytes:
    """The same inputs give the same bytes. What weighs stands first, whatever its cause; the rest as a list."""
    say = catalogue.text
    currency = compared.now.evidence.quote.currency if compared.now.evidence.quote else "USD"
    phrases = Phrases(catalogue, currency)
    heavy = [change for change in compared.changes if change.weighs or change.code == "quote.price"]
    light = [change for change in compared.changes if change not in heavy]
    times = Counter(change.cause for change in heavy)
    target = compared.now.evidence.target
    context: dict[str, Any] = {
        "t": say,
        "lang": catalogue.lang,
        "page_lang": page_lang(catalogue.lang),
        "name": show(target.name, WIDTH),
        "host": show(host_of(target.relay_origin), WIDTH),
        "model": show(target.model, WIDTH),
        "runs": [_run(compared.then), _run(compared.now)],
        "headline": say("diff.relay" if compared.relay_changed else "diff.not_relay"),
        "tone": "bad" if compared.relay_changed else "ok",
        "causes": [(say(f"diff.cause.{cause}"), times[cause]) for cause in CAUSES if times[cause]],
        "sides": list(_sides(compared, phrases, say)),
        "changes": [_view(n, change, phrases, catalogue, compared) for n, change in enumerate(heavy, start=1)],
        "rest": [
            _view(n, change, phrases, catalogue, compared) for n, change in enumerate(light, start=len(heavy) + 1)
        ],
        "facts": [_fact(fact, catalogue) for fact in compared.facts],
        "files": [show(path, WIDTH) for path in compared.files],
        "heads": [judged.evidence.evidence_head for judged in (compared.then, compared.now)],
    }
    return environment(form).get_template(f"difference.{form}.j2").render(context).encode()


def _run(judged: Judgement) -> tuple[str, str]:
    return judged.evidence.run_id, judged.evidence.started_at.strftime("%Y-%m-%d %H:%M")


def _sides(compared: Compared, phrases: Phrases, say: Any) -> Iterable[Pair]:  # noqa: ANN401  the catalogue's own
    """Verdict, sentence, cards and money of both."""

    def both(label: str, of: Any) -> Pair:  # noqa: ANN401
        return _pair(label, *(of(judged) for judged in (compared.then, compared.now)))

    yield both(say("internal.verdict"), lambda j: say(f"verdict.{j.verdict.verdict}"))
    yield both(say("diff.sentence"), lambda j: phrases.headline(j.verdict, j.findings, j.coverage))
    for place, card in enumerate(compared.now.verdict.cards):
        yield both(say(f"card.name.{card.id}"), lambda j, at=place: _card(j, at, phrases, say))
    yield both(say("money.charged_relay"), lambda j: phrases.amount(money_of(j.evidence).charged_relay))
    yield both(say("version.tool"), lambda j: j.evidence.tool_version)


def _card(judged: Judgement, at: int, phrases: Phrases, say: Any) -> str:  # noqa: ANN401
    card = judged.verdict.cards[at]
    return f"{say(f'card.symbol.{card.state}')} {phrases.card(card, judged.findings, judged.coverage)}"


def _pair(label: str, before: str, after: str) -> Pair:
    """A short value is marked whole, since half a word means nothing; a sentence that is another one needs no mark."""
    marked = Marked("", after, "") if before != after and len(after) <= SHORT else Marked(after, "", "")
    return Pair(label, before, marked, before != after)


def _view(n: int, change: Change, phrases: Phrases, catalogue: Catalogue, compared: Compared) -> ChangeView:
    say = catalogue.text
    last = change.after or change.before
    command = compared.commands.get(change.cause, "") if change.weighs else ""
    return ChangeView(
        number=f"D{n:02d}",
        title=capital(phrases.title(last)) if last else say("diff.price"),
        tone=_tone(change),
        tags=say(
            "diff.tags",
            kind=say(f"diff.{change.kind}"),
            weight=_weight(change, say),
            cause=say(f"diff.cause.{change.cause}"),
        ),
        why=capital(say(f"diff.why.{change.why}")),
        rows=list(_rows(change, phrases, say)),
        claim=phrases.finding(last).claim if last else "",
        command=command.format(older=compared.then.evidence.run_id),
    )


def _tone(change: Change) -> Tone:
    if change.kind == "gone":
        return "ok"
    severity = change.after.severity if change.after else "info"
    return "bad" if severity in ("critical", "high") else "warn" if severity in ("medium", "low") else "unknown"


def _weight(change: Change, say: Any) -> str:  # noqa: ANN401
    weights = dict.fromkeys(say(f"severity.{f.severity}") for f in (change.before, change.after) if f)
    return " → ".join(weights) or say("severity.info")


def _rows(change: Change, phrases: Phrases, say: Any) -> Iterable[Pair]:  # noqa: ANN401
    """Of a finding that stands in both: outcome, weight and basis where they are others, then the figures that moved."""
    if change.params:
        yield _pair(say("diff.price"), *(show(str(change.params.get(when, "")), WIDTH) for when in ("before", "after")))
    if change.before is None or change.after is None:
        return
    for name in ("outcome", "severity", "basis"):
        before, after = (say(f"{name}.{getattr(f, name)}") for f in (change.before, change.after))
        if before != after:
            yield _pair(say(f"diff.{name}"), before, after)
    for figure in moved_figures(change.before, change.after):
        before, after = (_value(figure, f, phrases) for f in (change.before, change.after))
        yield _pair(phrases.word(figure), before, after)


def _value(name: str, finding: Finding, phrases: Phrases) -> str:
    return phrases.value(name, finding.params[name]) if name in finding.params else ""


def _fact(fact: Plain, catalogue: Catalogue) -> Plain:
    """`relay leaf_sha256` and the like in words; what has none stands as it is."""
    words = [
        catalogue.text(key) if catalogue.knows(key := f"diff.fact_name.{part}") else show(part, WIDTH)
        for part in fact[0].split()
    ]
    return " · ".join(words), show(fact[1], WIDTH), show(fact[2], WIDTH)
