"""A run that goes on without the terminal it was begun in: launched, then left; what became of it is a file of the run.

`run --detach` plans, quotes and asks for approval as always; then it starts this module as a process of its own and
returns with a launch record. When that process ends it leaves a done record, which `status` shows. Keys go to it through
its environment or its standard input, never over the disk or the command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay_audit.cli.console import emit, prepare_streams, report_error, say
from relay_audit.cli.course import resume
from relay_audit.cli.flow import Invocation
from relay_audit.connect import Permissions
from relay_audit.disk import write_durably
from relay_audit.errors import Interrupted, RelayAuditError, Unfinished
from relay_audit.recorder import Recorder
from relay_audit.store import Store, run_lock
from relay_audit.words import canonical
from relay_audit.workspace import Workspace

DONE = "done.json"
SAID = "detached.log"
"""What the process printed, for people."""
LAUNCH_S = 60.0
"""How long a launch may take until it has said that it works on the run."""


def hand_over(path: Path, call: Invocation) -> int:
    """Launches an approved run that this process has let go of, and says so."""
    with Store.open(path) as store:
        record = launch(Recorder(store, call.clock), call)
    if call.as_json:
        emit(record)
    else:
        say(f"{record['run_id']}  {record['status']}\n  -> {record['events_cmd']} --text", sys.stdout)
    return 0


def launch(recorder: Recorder, call: Invocation) -> dict[str, Any]:
    """Starts the process and returns its launch record once it has taken the run. Raises `Unfinished` where it has not."""
    path, before = recorder.store.path, recorder.history.seq
    (path / DONE).unlink(missing_ok=True)
    child = _start(path, _order(path, call))
    until = time.monotonic() + LAUNCH_S
    while time.monotonic() < until:
        taken = any(e.type in ("run.state_changed", "run.cancelled") for e in recorder.store.events(before))
        if taken or child.poll() is not None:
            break
        time.sleep(0.05)
    history = recorder.catch_up()
    if history.seq == before and (code := child.poll()) is not None and done_record(path) is None:
        raise Unfinished(
            f"the detached process ended at once (exit {code}); nothing was sent",
            next_step=f"see {path / SAID}, or go on here: relay-audit resume {path.name}",
            details={"run_id": path.name},
        )
    return {
        "record": "launch",
        "run_id": path.name,
        "status": history.status,
        "pid": child.pid,
        "events_cmd": f"relay-audit events {path.name} --after {history.seq} --follow",
        "status_cmd": f"relay-audit status {path.name} --json",
        "cancel_cmd": f"relay-audit cancel {path.name}",
        "done_file": str(path / DONE),
    }


def done_record(path: Path) -> dict[str, Any] | None:
    """What a detached process left when it ended; None while it works, or where there was none."""
    try:
        found = json.loads((path / DONE).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _order(path: Path, call: Invocation) -> dict[str, Any]:
    given = call.permissions
    return {
        "run": str(path),
        "lang": call.lang,
        "fail_on": call.fail_on,
        "allow_inconclusive": call.allow_inconclusive,
        "space": [str(place) for place in (call.space.audits, call.space.state, call.space.config)],
        "origins": sorted(given.origins),
        "official_key_to": given.official_key_to,
        "private": given.private,
        "relay_key": given.relay_key,
    }


def _start(path: Path, order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """The process, in a session of its own: it outlives the terminal. Its order comes over standard input."""
    log = os.open(path / SAID, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "relay_audit.cli.detached"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
        )
    finally:
        os.close(log)
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(order).encode())
            child.stdin.close()
    return child


def work(order: dict[str, Any]) -> int:
    """Goes on with the run as `resume` does and leaves the done record, whatever happens."""
    path = Path(order["run"])
    call = Invocation(
        lang=order["lang"], as_json=True, no_input=True, fail_on=order["fail_on"],
        allow_inconclusive=order["allow_inconclusive"], space=Workspace(*map(Path, order["space"])),
    )  # fmt: skip
    call.permissions = replace(
        Permissions(), origins=frozenset(order["origins"]), official_key_to=order["official_key_to"],
        private=order["private"], relay_key=order["relay_key"],
    )  # fmt: skip
    code, error = 70, "internal"
    try:
        with Store.open(path) as store, run_lock(path):
            code, error = resume(store, call), ""
    except RelayAuditError as refusal:
        report_error(refusal, as_json=True)
        code, error = refusal.exit_code, refusal.code
    except KeyboardInterrupt:
        code, error = Interrupted.exit_code, Interrupted.code
    finally:
        ended = {"record": "done", "run_id": path.name, "exit_code": code, "error": error,
                 "at": call.clock.now().isoformat(timespec="seconds")}  # fmt: skip
        write_durably(path / DONE, canonical(ended))
    return code


def main() -> None:
    prepare_streams()
    sys.exit(work(json.loads(sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
