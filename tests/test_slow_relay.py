"""A relay that takes 100 s for every answer: the run lasts most of an hour, and a control is good for minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from relay_audit.lab import HttpAnswer, HttpRequest, World
from relay_audit.lab.wire import Side
from tests.audits import in_process


@pytest.mark.parametrize("scenario", ["hidden_508", pytest.param("honest", marks=pytest.mark.deep)])
def test_each_sending_has_a_control_near_it(scenario: str, tmp_path: Path) -> None:
    handle = World.handle

    def slowly(world: World, side: Side, request: HttpRequest) -> HttpAnswer:
        answer = handle(world, side, request)
        return replace(answer, delay=100.0) if side == "relay" and request.method == "POST" else answer

    with patch.object(World, "handle", slowly):
        audited = in_process(scenario, 5, tmp_path, checks=[1, 2])
    assert audited.error is None
    assert audited.judgement is not None
    lasted = {e.sent_at for e in audited.judgement.evidence.generations()}
    assert (max(lasted) - min(lasted)).total_seconds() > 40 * 60
    codes = {f.code for f in audited.judgement.findings if f.check == 2}
    assert codes == ({"tokens.constant_surplus"} if scenario == "hidden_508" else codes)
    assert "tokens.inconclusive" not in codes
    (parity,) = (f for f in audited.judgement.findings if f.check == 2)
    assert parity.params["n"] == 24, "every text has its control"
