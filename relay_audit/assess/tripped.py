"""Whether a refusal of the oversized limit speaks of the fault that stood behind it: then the limit was lowered before.

That follows only where the vendor itself was asked the same body in this run and named the limit. A cloud that resells a
model may look at its faults in another order: nothing is concluded there.
"""

from __future__ import annotations

from relay_audit.assess.model_names import from_a_cloud
from relay_audit.error_text import read_refusal, same_complaint
from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.fingerprint import Knowledge
from relay_audit.plan import Step


def tripped(step: Step, exchange: Exchange, evidence: Evidence, knowledge: Knowledge) -> bool:
    """Whether the relay's refusal complains of the trip-wire, by the vendor's record of that fault."""
    response, day = exchange.response, evidence.started_at.date()
    row = knowledge.refusal_of(
        evidence.target.dialect, step.trip_wire, evidence.target.official_model, day, refused=True
    )
    if not step.trip_wire or row is None or response is None or response.status == 200:
        return False
    said = read_refusal(response.status, response.body)
    return same_complaint(row.message.replace("*", " "), said.text, row.names)


def lowered(step: Step, exchange: Exchange, evidence: Evidence, knowledge: Knowledge, *, live: bool) -> bool:
    """Whether that shows a limit lowered on the way. `live`: the vendor named the limit for the same body in this run."""
    return live and not from_a_cloud(evidence, knowledge) and tripped(step, exchange, evidence, knowledge)
