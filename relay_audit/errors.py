"""Every error of this program, in one tree. Each says what to do next.

    RelayAuditError
    ├── UsageError               2   the command, the target file, a key or an address is not usable
    │   ├── TargetError              a target file that cannot be read as one
    │   ├── KeyRefused               a key that is missing, malformed, in the wrong place or not accepted
    │   ├── OriginUnconfirmed        nobody outside the target file says that this key may go to this address
    │   ├── AddressRefused           an address that this program does not connect to
    │   ├── PackError                a probe or fingerprint file that breaks its own rules
    │   ├── ApprovalRefused          an approval that does not fit the current quote
    │   ├── SignalRefused            a signal that this run cannot honour now
    │   ├── RunNotFound              no run of this id here
    │   └── ArchiveRefused           a file that is not an archive of ours, or not as it was written
    ├── ApprovalNeeded           3   a quote waits for a person; nothing was spent since
    ├── Unfinished               4   planned but not finished: unreachable, budget, unconfirmed
    │   └── RunPaused                somebody asked it to pause; it can be gone on with
    ├── RunCancelled             5   the run was cancelled
    ├── LeakRefused              6   a report held something that must not leave; no file was written
    ├── StoreError              70   a run on disk that is not what we wrote
    │   └── Overtaken                somebody else wrote first; what was decided has to be decided again
    └── Interrupted            130   somebody pressed Ctrl-C

A mismatch between relay and vendor is never an exception: it is a finding.
"""

from __future__ import annotations

from typing import Any, ClassVar


class RelayAuditError(Exception):
    """Root. `message` says what happened, `next_step` what to do about it; neither ever holds a secret."""

    exit_code: ClassVar[int] = 70
    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, next_step: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.details: dict[str, Any] = details or {}
        """Machine-readable extras for the JSON form (`needs`, `run_id`, …)."""


class UsageError(RelayAuditError):
    exit_code = 2
    code = "usage"


class TargetError(UsageError):
    code = "target"


class KeyRefused(UsageError):
    code = "key_refused"


class OriginUnconfirmed(UsageError):
    code = "origin_unconfirmed"


class AddressRefused(UsageError):
    code = "address_refused"


class PackError(UsageError):
    code = "pack"


class ApprovalRefused(UsageError):
    code = "approval_refused"


class SignalRefused(UsageError):
    code = "signal_refused"


class RunNotFound(UsageError):
    code = "run_not_found"


class ArchiveRefused(UsageError):
    code = "archive_refused"


class ApprovalNeeded(RelayAuditError):
    exit_code = 3
    code = "approval_needed"


class Unfinished(RelayAuditError):
    exit_code = 4
    code = "unfinished"


class RunPaused(Unfinished):
    code = "paused"


class RunCancelled(RelayAuditError):
    exit_code = 5
    code = "cancelled"


class LeakRefused(RelayAuditError):
    exit_code = 6
    code = "leak_refused"


class StoreError(RelayAuditError):
    exit_code = 70
    code = "store"


class Overtaken(StoreError):
    code = "overtaken"


class Interrupted(RelayAuditError):
    exit_code = 130
    code = "interrupted"


EXIT_CODES: dict[int, str] = {
    0: "nothing found at or above --fail-on",
    1: "a mismatch at or above --fail-on",
    2: "usage or configuration",
    3: "approval needed; nothing was spent since",
    4: "planned but not finished (unreachable, budget, unconfirmed), or an inconclusive verdict",
    5: "cancelled",
    6: "refused by the leak guard; no file was written",
    70: "internal error",
    130: "interrupted",
}
"""What `--help` and the documentation print. A crash is never 1."""
EXIT_PRECEDENCE = (130, 70, 6, 2, 5, 3, 1, 4, 0)
"""The first of these that applies is the exit code."""


def key_refused(variable: str, side: str) -> KeyRefused:
    """For a key that every header style of a side was refused with."""
    ask = {
        "zh-CN": f"{variable} 里的 key 被拒绝（401）。请确认 key 属于这个地址、没有过期，再设置一次。",
        "en": f"The key in {variable} was refused (401). Check that it belongs to this address and is valid, then set it again.",
    }
    return KeyRefused(
        f"the {side} refused the key in {variable} (401 to every header style); nothing was spent",
        next_step=f"set {variable} to a valid key of this {side} and run again",
        details={
            "needs": [{"field": f"{side}.key_env", "why": "key_refused", "ask": ask, "example": f"export {variable}=…"}]
        },
    )
