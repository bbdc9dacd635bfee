"""`calibrate` and `baseline record`: a vendor against itself, and what its own key can learn for everybody."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_audit import audit
from relay_audit.audit import Judgement, Library
from relay_audit.baseline_file import Rows, text_of
from relay_audit.baseline_run import record_baselines
from relay_audit.calibration import Failure, failures
from relay_audit.cli import accept, arguments, options, screens
from relay_audit.cli.console import emit, language, readable, report_error, say
from relay_audit.cli.course import go_on
from relay_audit.cli.flow import (
    Invocation,
    approval_needed,
    approved,
    begun,
    free_of_charge,
    library_for,
    send,
    started,
)  # fmt: skip
from relay_audit.cli.opening import opened
from relay_audit.errors import RelayAuditError, UsageError
from relay_audit.exits import exit_code, worst
from relay_audit.filing import file_rows, marks_beside
from relay_audit.observed import Groups, Observer
from relay_audit.observed_marks import marks_of
from relay_audit.pack import Pack
from relay_audit.planning import Knowing
from relay_audit.prices import PriceFile
from relay_audit.recorder import Recorder
from relay_audit.refusal import nearest
from relay_audit.replay import History
from relay_audit.store import Store, run_lock
from relay_audit.target import Target, against_itself, at_vendor, read_target, target_from

FILE = "baselines.toml"
"""What the file is called in a run's own folder, where none was named."""
Vendor = Annotated[str, typer.Option("--vendor", metavar="NAME", help="Whose API is held against itself.")]
OwnModel = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="M", help="The vendor's own name of it; the pack names a usual one.", show_default=False
    ),
]
OwnKeyEnv = Annotated[
    str, typer.Option("--key-env", metavar="NAME", help="The NAME of the variable with the vendor's key.")
]
OwnAddress = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="The vendor's address, if not its usual one.", show_default=False),
]
Runs = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="RUN", help="Go on with a run that was approved since.", show_default=False),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Where the rows go; else into the run's folder.", show_default=False
    ),
]
baseline = typer.Typer(
    help="Dated counts and refusals of a vendor.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@dataclass(frozen=True)
class Done:
    """One run against the vendor, finished."""

    history: History
    judgement: Judgement | None
    failing: tuple[Failure, ...]
    rows: Groups
    marks: Groups
    folder: Path
    spent: Decimal
    code: int


def calibrate(
    vendor: Vendor,
    model: OwnModel = None,
    key_env: OwnKeyEnv = "OFFICIAL_KEY",
    base_url: OwnAddress = None,
    max_usd: options.MaxUsd = None,
    run: Runs = None,
    output: Output = None,
    packs: options.PacksDir = None,
    knowledge: options.KnowledgeDir = None,
    prices: options.PricesFile = None,
    no_input: options.NoInput = False,
    allow_origin: options.AllowOrigin = None,
    allow_official_key_to: options.AllowOfficialKeyTo = "",
    allow_private: options.AllowPrivate = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """The vendor's API on both sides: nothing may be found; what is seen is written as dated baselines."""
    call = Invocation(
        lang=language(lang, os.environ), as_json=json, no_input=no_input, packs=packs, knowledge=knowledge,
        prices=prices, max_usd=arguments.amount(max_usd, "--max-usd"),
    )  # fmt: skip
    call.permissions = arguments.permissions(
        allow_origin, allow_official_key_to, private=allow_private, key="", may_ask=call.may_ask
    )
    library = library_for(call)
    targets = _targets(vendor, model, key_env, base_url, library)
    done, waiting = _resumed(run, call) if run else _all(targets, call)
    raise typer.Exit(_conclude(vendor, done, waiting, output, call))


@baseline.command(name="record")
def record(
    target: Annotated[Path, typer.Argument(metavar="TARGET.toml", help="A target file with an official side.")],
    output: Output = None,
    packs: options.PacksDir = None,
    knowledge: options.KnowledgeDir = None,
    allow_origin: options.AllowOrigin = None,
    allow_official_key_to: options.AllowOfficialKeyTo = "",
    allow_private: options.AllowPrivate = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Ask the vendor alone, for nothing: one key, forty relays. The relay is not contacted."""
    call = Invocation(lang=language(lang, os.environ), as_json=json, packs=packs, knowledge=knowledge)
    call.permissions = arguments.permissions(
        allow_origin, allow_official_key_to, private=allow_private, key="", may_ask=call.may_ask
    )
    library = library_for(call)
    done = [_recorded(one, library, call) for one in read_target(arguments.text_of(target))]
    raise typer.Exit(_conclude("", done, [], output, call))


baseline.command()(accept.write)


def _targets(vendor: str, model: str | None, key_env: str, base_url: str | None, library: Library) -> list[Target]:
    """One target per dialect of the vendor. Raises `UsageError`."""
    packs = [pack for pack in library.packs.dialects.values() if pack.vendor.lower() == vendor.strip().lower()]
    if not packs:
        names = sorted({pack.vendor for pack in library.packs.dialects.values()})
        raise UsageError(f"no pack of a vendor {vendor[:60]!r}{nearest(vendor, names)}", next_step="--vendor NAME")
    return [_target(pack, model or pack.usual_model, key_env, base_url, library) for pack in packs]


def _target(pack: Pack, model: str, key_env: str, base_url: str | None, library: Library) -> Target:
    if not model:
        raise UsageError(f"the pack {pack.dialect} names no usual model", next_step="name one: --model NAME")
    side = {"base_url": base_url or pack.official_roots[0], "key_env": key_env}
    subject = {"model": model, "dialect": pack.dialect, "claim": {"channel": channel_of(pack, library)}}
    return target_from({"target": subject, "relay": side, "official": side, "audit": {"profile": "thorough"}})


def channel_of(pack: Pack, library: Library) -> str:
    """The channel that the vendor's own servers are known as."""
    words = {word.lower() for word in (*pack.vendor.split(), pack.dialect)}
    return next((channel for channel in library.channels if channel in words), "unknown")


def _all(targets: list[Target], call: Invocation) -> tuple[list[Done], list[RelayAuditError]]:
    """Each dialect in its turn, within one ceiling for all."""
    done: list[Done] = []
    waiting: list[RelayAuditError] = []
    ceiling = call.max_usd
    for target in targets:
        call.max_usd = None if ceiling is None else ceiling - sum((one.spent for one in done), Decimal(0))
        with _kept(waiting), begun(target, call) as (recorder, connections, library, quote):
            if not free_of_charge(recorder, quote) and not approved(recorder, quote, call):
                raise approval_needed(recorder, quote)
            send(recorder, connections, library, call)
            done.append(_judged(recorder))
    return done, waiting


def _resumed(runs: list[str], call: Invocation) -> tuple[list[Done], list[RelayAuditError]]:
    done: list[Done] = []
    waiting: list[RelayAuditError] = []
    for run in runs:
        with _kept(waiting), opened(run) as store, run_lock(store.path):
            done.append(_judged(_vendors_own(store, call)))
    return done, waiting


def _vendors_own(store: Store, call: Invocation) -> Recorder:
    recorder = Recorder(store, call.clock)
    if not recorder.history.target.against_itself:
        raise UsageError(f"{store.run_id} is no run of a vendor against itself", next_step="name a run of calibrate")
    return go_on(store, call)


@contextmanager
def _kept(errors: list[RelayAuditError]) -> Iterator[None]:
    """What keeps one dialect from being calibrated leaves the others their turn."""
    try:
        yield
    except RelayAuditError as error:
        errors.append(error)


def _judged(recorder: Recorder) -> Done:
    judgement = audit.judge(recorder.store)
    if recorder.history.status == "completed":
        audit.record_judgement(recorder, judgement)
    evidence = judgement.evidence
    failing = failures(evidence, judgement.findings)
    codes = [1] if failing else []
    codes.append(
        exit_code(evidence, judgement.findings, judgement.coverage, judgement.verdict, "none", allow_inconclusive=True)
    )
    ledger = evidence.ledger
    return _done(
        recorder, "calibrate", judgement, failing, ledger.total("settled") + ledger.total("unconfirmed"), worst(codes)
    )


def _recorded(named: Target, library: Library, call: Invocation) -> Done:
    pack = library.packs.pack(named.subject.dialect)
    target = against_itself(at_vendor(named, pack.official_roots), channel_of(pack, library))
    with started(target, call) as (recorder, connections, _):
        knowing = Knowing(library.packs, library.knowledge, PriceFile())
        taken = asyncio.run(record_baselines(recorder, connections.sides, knowing))
        for case in taken:
            call.notice("taken", {"case": case})
        return _done(recorder, "baseline record", None, (), Decimal(0), 0)


def _done(
    recorder: Recorder,
    command: str,
    judgement: Judgement | None,
    failing: tuple[Failure, ...],
    spent: Decimal,
    code: int,
) -> Done:
    history = recorder.history
    seen = Observer(history.evidence(), audit.archived_library(history).knowledge, command)
    return Done(history, judgement, failing, seen.shareable(), marks_of(seen), recorder.store.reports, spent, code)


def _conclude(
    vendor: str, done: list[Done], waiting: list[RelayAuditError], output: Path | None, call: Invocation
) -> int:
    files = _written(done, output, call) if done else []
    for error in waiting:
        if "approve_cmd" in error.details:
            error.details["then"] = (
                f"relay-audit calibrate --vendor {shlex.quote(vendor)} --run {error.details['run_id']}"
            )
    code = worst([*(one.code for one in done), *(error.exit_code for error in waiting)])
    if call.as_json:
        emit(_object(vendor, done, waiting, files, code))
        return code
    for error in waiting:
        report_error(error, as_json=False)
        if "then" in error.details:
            say(f"     {error.details['then']}")
    if done:
        found = [(one.history.store.run_id, one.history.facts.model, one.failing) for one in done]
        say(screens.calibrated(found, _numbers(done), [str(file) for file in files], readable(call.lang)), sys.stdout)
    return code


def _written(done: list[Done], output: Path | None, call: Invocation) -> list[Path]:
    """The rows that may be given away, and beside them the marks, which are for review only."""
    path = output or done[-1].folder / FILE
    head = screens.rows_head(
        [source for one in done for source in {row.source for rows in one.rows.values() for row in rows}]
    )
    files = []
    for place, rows in ((path, [one.rows for one in done]), (marks_beside(path), [one.marks for one in done])):
        if any(rows):
            file_rows(place, text_of(_joined(rows), head), done[-1].history, call.environ)
            files.append(place)
    return files


def _joined(groups: list[Groups]) -> Rows:
    """All rows by table; what two dialects of one vendor share (header families) once."""
    kinds = dict.fromkeys(kind for group in groups for kind in group)
    return {kind: tuple({row.id: row for group in groups for row in group.get(kind, ())}.values()) for kind in kinds}


def _numbers(done: list[Done]) -> dict[str, int]:
    groups = [group for one in done for group in (one.rows, one.marks)]
    return {kind: len(rows) for kind, rows in _joined(groups).items()}


def _object(
    vendor: str, done: list[Done], waiting: list[RelayAuditError], files: list[Path], code: int
) -> dict[str, Any]:
    """One object, whatever became of each dialect. A single one that waits shows its quote at the top."""
    errors = [
        {"error": error.code, "message": error.message, "next_step": error.next_step, **error.details}
        for error in waiting
    ]
    runs = [
        {
            "run_id": one.history.store.run_id,
            "dialect": one.history.facts.dialect,
            "model": one.history.facts.model,
            "status": one.history.status,
            "stopped": one.history.stopped,
            "failing": [failure._asdict() for failure in one.failing],
        }
        for one in done
    ]
    own: dict[str, Any] = {"vendor": vendor} if vendor else {}
    own |= {"ok": code == 0, "runs": runs, "rows": _numbers(done), "files": [str(file) for file in files]}
    first = errors[0] if errors and not done else {}
    return {**own, **first, **({"waiting": errors} if errors else {})}
