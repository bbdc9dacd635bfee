"""Runs that are made once per session and copied for each test: whole audits against the lab, in process."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from relay_audit import audit
from relay_audit.filing import file_reports
from tests.staged import Staged, staged

LINE = "zq-internal-line"
SCENARIOS = {"surplus": "hidden_508", "honest": "honest", "waiting": "honest"}


def made(name: str, home: Path, scenario: str = "", seed: int = 3, **tables) -> Staged:
    """A finished run with judgement and reports; `waiting` stops before its approval."""
    subject = {
        "target": {"name": LINE, **tables.pop("target", {})},
        "internal": {"line_names": ["primary-line", "backup-line"]},
    }
    run = staged(scenario or SCENARIOS[name], home, seed=seed, **{**subject, **tables})
    run.plan()
    if name == "waiting":
        return run
    run.approve()
    run.execute()
    judgement = audit.judge(run.recorder.store)
    audit.record_judgement(run.recorder, judgement)
    file_reports(run.recorder, judgement, "en", run.environ)
    return run


@cache
def _original(name: str) -> Path:
    home = Path(tempfile.mkdtemp(prefix="relay-audit-kept-"))
    run = made(name, home)
    run.recorder.store.close()
    return run.recorder.store.path


def kept(name: str, home: Path) -> Path:
    """A copy of the run of this name; its folder may be changed."""
    original = _original(name)
    return Path(shutil.copytree(original, home / original.name))
