"""What the operator may look at, sorted by whom a difference touches, and what it costs the buyer."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from relay_audit.evidence import Evidence
from relay_audit.finding import Finding, Impact
from relay_audit.fingerprint import Knowledge, Setting
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import CALL_SIZES, surplus_of
from relay_audit.report.phrases import Phrases, capital
from relay_audit.report.side_by_side import label
from relay_audit.report.views import Fact

TIERS: tuple[Impact, ...] = ("users", "integration", "none")
"""Gravest first: whoever uses the line, whoever connects to it, nobody."""
SIDE = 40
"""Characters of a value in the list."""
MONEY_PARAMS = ("difference", "per_1000_calls", "charged")
"""Parameters that say an amount, the most telling first."""


@dataclass(frozen=True)
class Remedy:
    finding: str
    title: str
    settings: list[Fact]
    expected: str
    """What the official side did, or was to be expected, in short; empty where there is nothing to set beside."""
    relay: str
    linked: bool
    """Whether the finding stands on the page in full."""


@dataclass(frozen=True)
class Tier:
    name: str
    remedies: list[Remedy]


def to_mend(findings: Iterable[Finding]) -> list[Finding]:
    """Differences, and a relay's habits that touch somebody; what is open is not for mending yet."""
    return [f for f in findings if f.outcome == "mismatch" or (f.outcome == "match" and _touches(f))]


def _touches(finding: Finding) -> bool:
    return finding.impact != "none" and finding.code.startswith("params.")


def tiers(
    findings: Iterable[Finding], evidence: Evidence, knowledge: Knowledge, catalogue: Catalogue, phrases: Phrases
) -> list[Tier]:
    """The three tiers, those that hold something."""
    mending = to_mend(findings)
    made = []
    for impact in TIERS:
        rows = [_remedy(f, evidence, knowledge, catalogue, phrases) for f in mending if f.impact == impact]
        if rows:
            made.append(Tier(catalogue.text(f"tier.{impact}"), rows))
    return made


def _remedy(
    finding: Finding, evidence: Evidence, knowledge: Knowledge, catalogue: Catalogue, phrases: Phrases
) -> Remedy:
    keys = _plain(finding.expected).keys() & _plain(finding.observed).keys()
    expected, relay = (_side(side, keys, catalogue, phrases) for side in (finding.expected, finding.observed))
    return Remedy(
        finding.id,
        capital(phrases.title(finding)),
        [dated(row, catalogue) for row in settings_for(finding, evidence, knowledge)],
        expected,
        relay,
        finding.above_info,
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix("untrusted_"): value for key, value in values.items()}


def _side(values: Mapping[str, Any], shared: Collection[str], catalogue: Catalogue, phrases: Phrases) -> str:
    """What one side did, in two values at most, those that both sides have before others; the comparison beside the
    finding has the rest."""
    wanted = [key for key in values if not shared or key.removeprefix("untrusted_") in shared][:2]
    pairs = []
    for key in wanted:
        said = phrases.value(key, values[key])
        said = said if len(said) <= SIDE else said[: SIDE - 1] + "…"
        pairs.append(label(key, phrases) + catalogue.text("joint.colon") + said)
    return catalogue.text("joint.clause").join(pairs)


def settings_for(finding: Finding, evidence: Evidence, knowledge: Knowledge) -> list[Setting]:
    """Which switches of the recognised software cause such a thing."""
    software = evidence.site.software
    return [
        row
        for row in knowledge.settings
        if row.software == software and any(fnmatch.fnmatchcase(finding.code, pattern) for pattern in row.codes)
    ]


def dated(row: Setting, catalogue: Catalogue) -> Fact:
    """A setting with the date of that knowledge."""
    seen = catalogue.text("finding_part.observed", date=row.observed.isoformat())
    return Fact(row.software, catalogue.text("joint.aside", text=row.setting.in_(catalogue.lang), aside=seen))


def cost_to_buyer(finding: Finding, catalogue: Catalogue, phrases: Phrases) -> str:
    """In money where an amount was measured, as factors where tokens were; otherwise that no amount follows."""
    if finding.outcome != "mismatch":
        return ""
    surplus = surplus_of([finding])
    if surplus is not None:
        parts = [
            catalogue.text("cost.factor", size=f"{size:,}", factor=f"{surplus.factor(size):.3f}") for size in CALL_SIZES
        ]
        return catalogue.text("cost.surplus", factors=catalogue.text("joint.list").join(parts))
    for name in MONEY_PARAMS:
        if finding.params.get(name) not in (None, "") and finding.code.startswith("billing."):
            return catalogue.text(f"cost.{name}", amount=phrases.value(name, finding.params[name]))
    return catalogue.text(f"cost.{finding.impact}")
