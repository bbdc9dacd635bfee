"""`retest`: only what is disputed is asked again, with its own quote; what does not appear again is withdrawn there."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from relay_audit.again import Earlier, to_repeat
from relay_audit.cli import arguments, options
from relay_audit.cli.console import language
from relay_audit.cli.course import run_targets
from relay_audit.cli.flow import Invocation
from relay_audit.cli.opening import opened
from relay_audit.errors import UsageError
from relay_audit.target import Target


def retest(
    run: options.RunId,
    findings: Annotated[str, typer.Option("--findings", metavar="F003,F005", help="The findings to test again.")],
    max_usd: options.MaxUsd = None,
    fail_on: options.FailOnOption = "medium",
    allow_inconclusive: options.AllowInconclusive = False,
    no_input: options.NoInput = False,
    allow_origin: options.AllowOrigin = None,
    allow_official_key_to: options.AllowOfficialKeyTo = "",
    allow_private: options.AllowPrivate = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Test only these findings again, with a quote of its own; one that falls is marked as withdrawn in RUN."""
    wanted = arguments.words_in(findings)
    if not wanted:
        raise UsageError("--findings names no finding", next_step="for example --findings F003,F005")
    with opened(run) as store:
        earlier, target = to_repeat(store, wanted)
    call = Invocation(
        lang=language(lang, os.environ), as_json=json, no_input=no_input, max_usd=arguments.amount(max_usd, "--max-usd"),
        fail_on=arguments.severity(fail_on), allow_inconclusive=allow_inconclusive, earlier=earlier,
    )  # fmt: skip
    call.permissions = arguments.permissions(
        allow_origin, allow_official_key_to, private=allow_private, key="", may_ask=call.may_ask
    )
    raise typer.Exit(run_targets([target], call))


def repeated(run: str) -> tuple[Earlier, Target]:
    """All of a run once more, with new wording: its target and what it is held against afterwards."""
    with opened(run) as store:
        return to_repeat(store, ())
