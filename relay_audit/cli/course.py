"""The course of a command that audits: `run`, `retest`, `resume`. One run per target, its end, and the exit code."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from relay_audit import audit
from relay_audit.audit import Library
from relay_audit.cli import nightly, screens
from relay_audit.cli.beside import compared
from relay_audit.cli.console import emit, report_error, say
from relay_audit.cli.flow import (
    Invocation,
    approval_needed,
    approved,
    begun,
    connected,
    free_of_charge,
    send,
)
from relay_audit.cli.permit import month_refusal
from relay_audit.cli.terminal import result
from relay_audit.cli.tonight import tested_again
from relay_audit.connect import Connections
from relay_audit.errors import ApprovalNeeded, LeakRefused, RelayAuditError, Unfinished
from relay_audit.exits import exit_code, worst
from relay_audit.filing import file_reports
from relay_audit.recorder import Recorder
from relay_audit.signals import Resume
from relay_audit.steering import Sender, give
from relay_audit.store import Store
from relay_audit.target import Target


def run_targets(targets: list[Target], call: Invocation) -> int:
    """One run each; the exit code is the gravest."""
    return worst([_guarded(target, call) for target in targets])


def _guarded(target: Target, call: Invocation) -> int:
    """A target that cannot be audited says why in its own object and leaves the others their turn. On a watched line an
    unfinished night is counted, and excused up to the third in a row."""
    try:
        return run_one(target, call)
    except RelayAuditError as error:
        code = error.exit_code
        if code == Unfinished.exit_code and call.night.watch is not None:
            quiet = nightly.silent(target, str(error.details.get("run_id", "")), call.night, call.clock, call.lang)
            error.details.update(quiet.fields)
            code = 0 if call.allow_inconclusive and not quiet.alarm else code
        report_error(error, as_json=call.as_json)
        return code


def run_one(target: Target, call: Invocation) -> int:
    with begun(target, call) as (recorder, connections, library, quote):
        spent = call.night.watch is not None and not call.free_only and month_refusal(recorder, call.space)
        if spent:
            call.notice("month_spent", {})
        else:
            if not free_of_charge(recorder, quote) and not approved(recorder, quote, call):
                raise approval_needed(recorder, quote, nightly.last_quote(target, call.night, quote))
            if call.hand_over is None:
                return send_and_report(recorder, connections, library, call)
    if spent:  # a watched line whose month is spent is still looked at, free of charge
        return run_one(target, replace(call, free_only=True))
    return call.hand_over(recorder.store.path, call) if call.hand_over else 0


def resume(store: Store, call: Invocation) -> int:
    """Goes on within the approval, also after a crash; a finished run only says again how it ended."""
    return conclude(go_on(store, call), call)


def go_on(store: Store, call: Invocation) -> Recorder:
    """A stored run, at its end. Raises `ApprovalNeeded` where nobody has approved its quote."""
    recorder = Recorder(store, call.clock)
    history = recorder.history
    if history.status in ("completed", "failed", "cancelled"):
        return recorder
    if history.cancelling:
        recorder.end_cancelled()
        return recorder
    if history.pausing:
        give(recorder, Resume(), Sender("human" if call.may_ask else "agent", alone=True))
    if history.quote is None:
        raise ApprovalNeeded(
            "the planning was interrupted; nothing was spent", next_step="begin again: relay-audit run"
        )
    if history.quote.digest in history.declined and not history.covered:
        again = f"relay-audit revise {store.run_id}"
        raise ApprovalNeeded("the quote was declined; nothing was spent since", next_step=again,
                             details={"run_id": store.run_id, "status": history.status})  # fmt: skip
    if history.approved() is None and not free_of_charge(recorder, history.quote):
        raise approval_needed(recorder, history.quote)
    library = audit.archived_library(history)
    send(recorder, connected(history.target, library, call), library, call)
    return recorder


def send_and_report(recorder: Recorder, connections: Connections, library: Library, call: Invocation) -> int:
    send(recorder, connections, library, call)
    return conclude(recorder, call)


def conclude(recorder: Recorder, call: Invocation) -> int:
    """Judges, writes both reports, says the result; the exit code follows from it."""
    judgement = audit.judge(recorder.store)
    if recorder.history.status == "completed":
        audit.record_judgement(recorder, judgement)
    again = compared(recorder, judgement, call)
    causes = nightly.causes_since(recorder.store, call.space)
    night = nightly.settle(
        judgement, recorder.history.target, call.night, call.fail_on, call.clock, call.lang, causes,
        lambda waiting: tested_again(recorder, waiting, call),
    )  # fmt: skip
    codes = [
        exit_code(
            judgement.evidence, again.counted(night.counted), judgement.coverage, judgement.verdict, call.fail_on,
            allow_inconclusive=call.allow_inconclusive and not night.alarm,
        )
    ]  # fmt: skip
    paths: dict[str, Path] = {}
    try:
        paths = file_reports(recorder, judgement, call.lang, call.environ)
    except LeakRefused as refusal:
        report_error(refusal, as_json=False)
        codes.append(refusal.exit_code)
    if call.as_json:
        emit({**screens.short_object(judgement, call.lang, paths), **night.fields, **again.fields})
    else:
        said = result(judgement, call.lang, paths, call.environ)
        say("\n\n".join(part for part in (said, again.text, night.text) if part), sys.stdout)
    return worst(codes)
