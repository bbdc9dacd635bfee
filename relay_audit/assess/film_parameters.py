"""Check 4 for films: is what was ordered in force? Picture, length and shape of the delivered file against the order.

Nothing is ordered for it: each film is there for check 5. Illegal values are not tried: a relay that takes one charges for
a whole film, and what the vendors' task routes refuse is on no record that could be compared with.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from relay_audit.assess.film_link import SHORTER_BY_S, SMALLER_THAN
from relay_audit.bounds import percent, unseen_share
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding, Severity
from relay_audit.fingerprint import Knowledge
from relay_audit.media_facts import MediaReading
from relay_audit.plan import Step

SHAPE = re.compile(r"16:9|\d{3,4}[x*]\d{3,4}")
"""How an order asks for a picture's shape: by its ratio, or by its size."""
SHAPE_WITHIN = 0.1
"""Of the ratio: vendors round sizes to what their encoder takes (864 × 496 is sold as 16:9)."""


class Compared(NamedTuple):
    """One thing that was ordered, and whether it came."""

    case: str
    tier: str
    same: bool
    severity: Severity
    exchanges: tuple[str, ...]
    came: str


def assess_film_parameters(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    """Nothing is said of a film that did not come, or of what its file does not show."""
    compared = [row for reading in evidence.media for row in _of_film(evidence, knowledge, reading)]
    differing = [row for row in compared if not row.same]
    if not compared:
        return []
    if not differing:
        seen = tuple(dict.fromkeys(x for row in compared for x in row.exchanges))
        unseen = percent(unseen_share(len({row.tier for row in compared})))
        params = {"n": len(compared), "of": len(compared), "share_bound": unseen}
        return [finding("params.matches", params, exchanges=seen)]
    found = []
    for severity in dict.fromkeys(row.severity for row in differing):
        group = [row for row in differing if row.severity == severity]
        params = {
            "cases": list(dict.fromkeys(row.case for row in group)), "n": len(group), "of": len(compared),
            "fields": sorted({row.case.removeprefix("film_") for row in group}),
        }  # fmt: skip
        seen = tuple(dict.fromkeys(x for row in group for x in row.exchanges))
        told = {f"{row.tier} {row.case}": row.came for row in group}
        found.append(
            finding("params.clamped", params, exchanges=seen, severity=severity, confidence="strong", observed=told)
        )
    return found


def _of_film(evidence: Evidence, knowledge: Knowledge, reading: MediaReading) -> list[Compared]:
    plan, pack = evidence.plan, evidence.pack
    step = next((one for one in plan.steps if one.id == reading.step), None) if plan else None
    if step is None or step.order is None or reading.file is None or pack.video is None:
        return []
    file, size, rows = reading.file, pack.video.sizes[step.order.resolution], list[Compared]()
    order = evidence.of_step(step.id)
    seen = tuple(x for x in (order.id if order else "", reading.exchange) if x)
    weight: Severity = "medium" if _known_tier(evidence, knowledge, step) else "low"
    if file.width and file.height:
        whole = min(file.width, file.height) >= SMALLER_THAN * min(size.width, size.height)
        came = f"{file.width} × {file.height}"
        rows.append(Compared("film_resolution", step.order.name, whole, weight, seen, came))
        if asks_for_a_shape(step.body):
            ratio = file.width * size.height / (file.height * size.width)
            rows.append(Compared("film_shape", step.order.name, abs(ratio - 1) <= SHAPE_WITHIN, "low", seen, came))
    if file.seconds:
        whole = file.seconds >= step.order.seconds - SHORTER_BY_S
        rows.append(Compared("film_length", step.order.name, whole, weight, seen, f"{file.seconds:g} s"))
    return rows


def _known_tier(evidence: Evidence, knowledge: Knowledge, step: Step) -> bool:
    """Whether the vendor sells this model at this very resolution: then a smaller film is not how the vendor does it."""
    listed = knowledge.video_price_of(evidence.target.official_model, evidence.started_at.date())
    return listed is not None and step.order is not None and step.order.resolution in listed.per_second


def asks_for_a_shape(body: Any) -> bool:  # noqa: ANN401  any JSON value
    """Whether the order says at all which shape the picture is to have."""
    if isinstance(body, dict):
        return any(asks_for_a_shape(value) for value in body.values())
    if isinstance(body, list):
        return any(map(asks_for_a_shape, body))
    return isinstance(body, str) and bool(SHAPE.fullmatch(body))
