"""The truth table for films: each scenario gives exactly its findings, and the walk ends in its own leaf of the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_audit.lab.video_scenarios import VIDEO_SCENARIOS
from tests.video_audits import Films, above_info, codes, video_run


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Films:
    return Films(Path(tmp_path_factory.mktemp("films")))


@pytest.mark.parametrize("name", VIDEO_SCENARIOS)
def test_each_scenario_gives_exactly_its_findings(name: str, films: Films, tmp_path: Path) -> None:
    row = VIDEO_SCENARIOS[name]
    judged = video_run(name, tmp_path, films).whole()
    assert above_info(judged) == row.expect
    assert not row.leaf or row.leaf in codes(judged)
    if row.kind == "honest":
        assert not any(f.accusation for f in judged.findings)
