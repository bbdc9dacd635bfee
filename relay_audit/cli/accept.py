"""`baseline write`: what a run found, as a file that a team reviews and CI accepts until a day."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from relay_audit.accepted import TERM, text_of
from relay_audit.cli import options
from relay_audit.cli.console import emit, say
from relay_audit.cli.nightly import accepted_of
from relay_audit.cli.opening import opened
from relay_audit.clock import SystemClock
from relay_audit.disk import write_durably
from relay_audit.errors import UsageError


def write(
    run: options.RunId,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where it goes; 64 KB at most.")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why this is accepted, for every entry.", show_default=False)
    ] = "",
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=366, help="How long an entry holds.")] = TERM,
    json: options.Json = False,
) -> None:
    """Write what a run found as accepted, for review: no bodies, no addresses, no secrets."""
    with opened(run) as store:
        accepted = accepted_of(store, SystemClock(), reason, days)
    try:
        write_durably(output, text_of(accepted).encode())
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror}", next_step="correct the path after -o"
        ) from None
    codes = [entry.code for entry in accepted.accepted]
    following = f"relay-audit run TARGET --baseline {output}"
    if json:
        emit({"run_id": accepted.run, "file": str(output), "accepted": codes, "next": following})
    else:
        say(
            "\n".join(
                [f"{output}: {len(codes)} entries, for review", *(f"  {code}" for code in codes), f"  -> {following}"]
            ),
            sys.stdout,
        )
