"""Check 5 inside a run: the tree for every film that was delivered, its fourth step from the run's own record."""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from dataclasses import replace

from relay_audit.assess.film_link import Link, judge_link, of_the_film, task_of
from relay_audit.assess.provenance import judge
from relay_audit.codes import finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge, canonical_model
from relay_audit.media_facts import MediaFacts
from relay_audit.media_known import MediaProfile
from relay_audit.plan import Step

LESSER = re.compile(r"(?<![a-z])(?:fast|mini|lite|turbo|flash|distill(?:ed)?)(?![a-z])")
"""Words by which vendors name a cheaper sibling."""


def assess_media(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    plan, found = evidence.plan, list[Finding]()
    day = evidence.started_at.date()
    profile = profile_of(evidence, knowledge)
    row = row_of(profile, knowledge, day)
    for step in plan.steps if plan else ():
        if step.order is None:
            continue
        found += _admitted(evidence, step, knowledge)
        reading = next((one for one in evidence.media if one.step == step.id), None)
        if reading is None:
            continue
        if reading.file is None:
            found.append(finding("media.unreadable", {"reason": "not_delivered"}, exchanges=(reading.exchange,)
                                 if reading.exchange else (), observed={"why": reading.failure}))  # fmt: skip
            continue
        link = judge_link(evidence, step, reading, row, evidence.pack)
        if (signed := _signed_model(reading.file, evidence, knowledge)) is not None:
            link = replace(link, state="fails", odd=(*link.odd, signed))
        if plan and 4 in plan.checks:
            link = replace(link, told_elsewhere=of_the_film(step, reading, evidence.pack))
        judged = judge(reading.file, knowledge, knowledge.pins, profile, day, link)
        found += [_placed(one, step, link) for one in judged.findings]
    return found


def profile_of(evidence: Evidence, knowledge: Knowledge) -> str:
    """What the films should be: as the target says, else by the model's name, else by the dialect."""
    video = evidence.pack.video
    if evidence.target.media_profile or video is None:
        return evidence.target.media_profile
    return named_by(evidence.target.official_model, knowledge) or video.profile


def named_by(model: str, knowledge: Knowledge) -> str:
    """The profile whose models a name belongs to; empty where none is known."""
    names = {model.lower(), canonical_model(model)}
    return next(
        (
            row.name
            for row in knowledge.media_profiles
            if any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in row.models)
        ),
        "",
    )


def row_of(profile: str, knowledge: Knowledge, day: dt.date) -> MediaProfile | None:
    row = next((r for r in knowledge.media_profiles if r.name == profile and r.valid_on(day)), None)
    return None if row is None or row.age(day) == "expired" else row


def is_another(asked: str, named: str, knowledge: Knowledge) -> bool:
    """Whether a name is of another vendor's model, or of a cheaper sibling; the same model may be written in many ways."""
    mine, theirs = named_by(asked, knowledge), named_by(named, knowledge)
    lesser = set(LESSER.findall(named.lower())) - set(LESSER.findall(asked.lower()))
    return bool(mine and theirs and mine != theirs) or bool(mine == theirs and lesser)


def _signed_model(file: MediaFacts, evidence: Evidence, knowledge: Knowledge) -> str | None:
    """`signed_model` where the claim names another model than was ordered. Before it counts, steps 1 and 2 have to hold."""
    signed, target = file.signer.model if file.signer else "", evidence.target
    wanted = target.official_model or target.model
    return "signed_model" if signed and is_another(wanted, signed, knowledge) else None


def _placed(one: Finding, step: Step, link: Link) -> Finding:
    tier = {"tier": step.order.name} if step.order else {}
    return one.model_copy(update={"exchanges": link.exchanges, "observed": {**one.observed, **tier}})


def _admitted(evidence: Evidence, step: Step, knowledge: Knowledge) -> list[Finding]:
    """The relay's own record of the task names the model it asked for: decisive where it is another vendor's, or a
    cheaper sibling; another way to write the same model is a fact."""
    task, order, last = task_of(evidence, step)
    asked, upstream = evidence.target.model, task.upstream_model
    if not upstream or canonical_model(upstream) == canonical_model(asked) or order is None:
        return []
    params = {"requested": asked, "untrusted_upstream": upstream, "n": 1}
    seen = tuple(e.id for e in (order, last) if e)
    if not is_another(asked, upstream, knowledge):
        return []
    return [
        finding(
            "model.relay_log_admits_mapping", params, exchanges=seen, check=5, confidence="decisive", basis="relay_word"
        )
    ]
