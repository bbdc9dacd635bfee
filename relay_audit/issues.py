"""The issues of a run's report: which version stands, and why it replaced the one before.

Read from events after the run's end; none of them changes the evidence.
"""

from __future__ import annotations

from relay_audit.errors import UsageError
from relay_audit.recorder import Recorder
from relay_audit.report.edition import Edition
from relay_audit.store import Store

KIND = "report_issue"


def edition_of(store: Store) -> Edition:
    """The last issue that was recorded."""
    edition = Edition()
    for event in store.events_of("artifact.created"):
        if event.payload.get("kind") == KIND:
            told = event.payload
            edition = Edition(int(told["version"]), told.get("because", ""), told.get("withdrawn", ""))
    return edition


def issue(recorder: Recorder, supersedes: int, because: str, withdrawn: str) -> None:
    """Records the next version. Raises `UsageError` where `supersedes` is not the version that stands."""
    standing = edition_of(recorder.store).version
    if supersedes != standing:
        raise UsageError(
            f"version {supersedes} is not the one that stands; that is version {standing}",
            next_step=f"--supersedes {standing}",
        )
    payload = {"kind": KIND, "version": standing + 1, "because": because, "withdrawn": withdrawn}
    recorder.note("artifact.created", payload)
