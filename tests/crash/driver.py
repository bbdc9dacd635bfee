"""A child program that runs the command line and kills itself, without notice, at the point it is told (or is
interrupted there, or waits there until a file appears).

It wraps every durable write and every send from outside: before, after, and where it can be seen also in between (an
event written but not committed, a file written but not renamed, a request that has left and is unanswered). A point has
an address, `phase|name|when#k`: the k-th time that this happens in this phase. The product has no hook for this.

Started once, it forks for each command line it reads from standard input (one JSON object per line) and answers with
the wait status, so that a hundred deaths cost one start of Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from relay_audit import disk, filing, store, transport
from relay_audit.audit import load_library
from relay_audit.cli.main import main
from relay_audit.report.catalogue import Catalogue
from relay_audit.settlement import Settlement
from relay_audit.store import Store

PHASE_AFTER = {
    "run.created": "discovery", "quote.issued": "quoted", "signal.received": "approved", "run.completed": "judgement",
    "assessment.recorded": "reports",
}  # fmt: skip
"""The phase that an event opens; the phases of the sending are opened by the runner's own methods."""


class Fate:
    """Counts points, writes down what was acknowledged, and meets its end at the one that was named."""

    def __init__(self, at: str, act: str, gate: Path, trace: Path) -> None:
        self.phase = "begin"
        self._at, self._act, self._gate = at, act, gate
        self._seen: Counter[str] = Counter()
        self._trace = os.open(trace, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def point(self, name: str, when: str) -> None:
        kind = f"{self.phase}|{name}|{when}"
        self._seen[kind] += 1
        address = f"{kind}#{self._seen[kind]}"
        self.note(point=address)
        if address == self._at:
            self._meet()

    def _meet(self) -> None:
        if self._act == "wait":
            while not self._gate.exists():
                time.sleep(0.01)
        else:
            os.kill(os.getpid(), signal.SIGKILL if self._act == "kill" else signal.SIGINT)

    def note(self, **facts: Any) -> None:
        os.write(self._trace, json.dumps(facts).encode() + b"\n")


def install(fate: Fate) -> None:
    """Puts the points in place."""
    _wrap_store(fate)
    _wrap_disk(fate)
    _wrap_transport(fate)
    _wrap_phases(fate)


def _wrap_store(fate: Fate) -> None:
    append_all, put_blob, transaction = Store.append_all, Store.put_blob, store._transaction

    def appending(self: Store, drafts: Any, *, ts: Any, after: int | None = None) -> Any:
        name = ":".join(filter(None, ("append", drafts[0].type, drafts[0].payload.get("side", ""))))
        fate.point(name, "before")
        events = append_all(self, drafts, ts=ts, after=after)
        for event in events:
            fate.note(event=event.seq, hash=event.hash, run=self.run_id)
        fate.point(name, "after")
        if drafts[0].type == "run.state_changed" and drafts[0].payload["status"] == "running":
            fate.phase = "readings_before"
        fate.phase = PHASE_AFTER.get(drafts[0].type, fate.phase)
        return events

    def putting(self: Store, raw: bytes) -> str:
        fate.point("blob", "before")
        sha = put_blob(self, raw)
        fate.note(blob=sha, run=self.run_id)
        fate.point("blob", "after")
        return sha

    @contextlib.contextmanager
    def committing(connection: Any) -> Iterator[None]:
        with transaction(connection):
            yield
            fate.point("commit", "before")

    Store.append_all, Store.put_blob, store._transaction = appending, putting, committing  # type: ignore[method-assign]


def _wrap_disk(fate: Fate) -> None:
    writing = _around(fate, "write", disk.write_durably)
    for module in [module for name, module in sys.modules.items() if name.startswith("relay_audit")]:
        if hasattr(module, "write_durably"):
            module.write_durably = writing  # type: ignore[attr-defined]
    filing.write_report = _around(fate, "report", filing.write_report)  # type: ignore[attr-defined]
    Path.replace = _around(fate, "rename", Path.replace)  # type: ignore[method-assign]
    Path.rename = _around(fate, "rename", Path.rename)  # type: ignore[method-assign]


def _wrap_transport(fate: Fate) -> None:
    send, read = transport.Transport.send, transport._Flight.read
    paying = ContextVar("paying", default=False)

    async def sending(self: Any, endpoint: Any, outgoing: Any) -> Any:
        paid = endpoint.side == "relay" and outgoing.method == "POST"
        paying.set(paid)
        name = f"send:{endpoint.side}:{'paid' if paid else 'free'}"
        fate.point(name, "before")
        answer = await send(self, endpoint, outgoing)
        fate.point(name, "after")
        return answer

    async def reading(self: Any, response: Any) -> None:
        paid = paying.get() and response.headers.get("x-oneapi-request-id") and fate.phase == "lanes"
        fate.point(f"answer:{'paid' if paid else 'free'}", "arriving")
        await read(self, response)

    transport.Transport.send, transport._Flight.read = sending, reading  # type: ignore[method-assign]


def _wrap_phases(fate: Fate) -> None:
    before, after = Settlement.before, Settlement.after

    async def reading_before(self: Settlement) -> None:
        await before(self)
        fate.phase = "lanes"

    async def reading_after(self: Settlement) -> None:
        fate.phase = "closing"
        await after(self)

    Settlement.before, Settlement.after = reading_before, reading_after  # type: ignore[method-assign]


def _around(fate: Fate, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **more: Any) -> Any:
        fate.point(name, "before")
        result = work(*args, **more)
        fate.point(name, "after")
        return result

    return wrapped


def perform(order: dict[str, Any]) -> None:
    """The life of one child; never returns."""
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(order[name], os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = ["relay-audit", *order["argv"]]
    signal.alarm(order["seconds"])  # a child that hangs ends, and is seen to
    signal.signal(signal.SIGINT, signal.default_int_handler)
    install(Fate(order["at"], order["act"], Path(order["gate"]), Path(order["trace"])))
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:  # noqa: BLE001  what the product let through is shown, and has a code of its own
        traceback.print_exc()
    os._exit(99)


def serve_orders() -> None:
    load_library()  # what is read once is read before the first fork
    for lang in ("en", "zh-CN"):
        Catalogue.load(lang)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            perform(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"code": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve_orders()
