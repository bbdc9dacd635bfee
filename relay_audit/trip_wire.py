"""A second fault behind the oversized limit: a hop that lowers the limit is refused all the same, and nothing is generated.

Only where the vendor's own order of these two faults was measured and is in date (`calibrate` and `baseline record` ask
for it): the limit is reported first, the other fault behind it. Where no order is on record the body stays as it was. The
body is that of the other case with the limit on top, just as it was measured.
"""

from __future__ import annotations

import datetime as dt

from relay_audit.assess.model_identity import OVERSIZE
from relay_audit.calibration import TOGETHER
from relay_audit.fingerprint import Knowledge
from relay_audit.pack import Pack
from relay_audit.plan import Plan, Step


def armed(plan: Plan, pack: Pack, knowledge: Knowledge, day: dt.date) -> Plan:
    """The plan with a fault behind the oversized limit, on both sides alike; the plan itself where none may stand there."""
    limit = pack.output_limit.removeprefix("/")
    oversize = next((step for step in plan.steps if step.case == OVERSIZE and step.side == "relay"), None)
    if oversize is None or limit not in oversize.body:
        return plan
    wire = next(
        (s for s in plan.steps if _may_stand(s, oversize, limit) and _behind(s, limit, plan, knowledge, day)), None
    )
    if wire is None:
        return plan
    body = {**wire.body, limit: oversize.body[limit]}

    def with_wire(step: Step) -> Step:
        if step.case != OVERSIZE:
            return step
        own = {**body, "model": step.body["model"]} if "model" in step.body else body
        return step.model_copy(update={"body": own, "estimate": wire.estimate, "trip_wire": wire.case})

    return plan.model_copy(update={"steps": tuple(with_wire(step) for step in plan.steps)})


def _may_stand(step: Step, oversize: Step, limit: str) -> bool:
    """A refused body of the relay's side in the same place: not a fault of its key, its headers or its model's name."""
    same_place = step.path == oversize.path and step.body.get("model") == oversize.body.get("model")
    plain = not step.headers and step.key == "own" and limit in step.body
    return step.side == "relay" and step.refusal and step.case != OVERSIZE and same_place and plain


def _behind(step: Step, limit: str, plan: Plan, knowledge: Knowledge, day: dt.date) -> bool:
    """Whether the vendor was measured to report the limit before this fault, and this fault where it stands alone."""
    both = knowledge.refusal_of(plan.dialect, f"{TOGETHER}{step.case}", plan.official_model, day, refused=True)
    alone = knowledge.refusal_of(plan.dialect, step.case, plan.official_model, day, refused=True)
    if both is None or alone is None or both.names != limit:
        return False
    return both.age(day) == "fresh" and both.level == "measured" and alone.age(day) == "fresh"
