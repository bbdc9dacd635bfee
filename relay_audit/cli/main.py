"""The program: a command parses, calls and prints. Exit codes are in `relay_audit.exits`."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from relay_audit import __version__
from relay_audit.cli import (
    accept,
    agents,
    calibration,
    compare,
    detached,
    explained,
    film,
    keep,
    laboratory,
    look,
    onward,
    options,
    papers,
    permit,
    remove,
    retesting,
    shelf,
    steer,
    traffic,
    watch,
)
from relay_audit.cli.console import emit, interactive, language, prepare_streams, say
from relay_audit.cli.flow import Invocation, approval_needed, begun, report_error, run_targets
from relay_audit.cli.nightly import Night, accepted_from
from relay_audit.cli.options import amount, key_from, permissions, place_of, severity, targets_from
from relay_audit.errors import EXIT_CODES, Interrupted, RelayAuditError
from relay_audit.owner import check_owner

EPILOG = "Exit codes:\n\n" + "\n\n".join(f"{code}  {text}" for code, text in EXIT_CODES.items())
app = typer.Typer(
    name="relay-audit",
    help="What an LLM relay (中转站) really sells, found out before you pay. "
    "Nothing that may cost money is sent before a quote is approved.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(shelf.probes, name="probes")
app.add_typer(shelf.fingerprints, name="fingerprints")
app.add_typer(calibration.baseline, name="baseline")
app.add_typer(agents.group, name="skill")


def _version(value: bool) -> None:
    if value:
        say(__version__, sys.stdout)
        raise typer.Exit


@app.callback()
def program(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Runs before every command: whose code is this?"""
    check_owner()


@app.command()
def run(
    target: options.TargetFile = None,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    claim: options.ClaimOption = "unknown",
    key_env: options.KeyEnv = "RELAY_KEY",
    official_key_env: options.OfficialKeyEnv = None,
    official_base_url: options.OfficialBaseUrl = None,
    official_proxy: options.OfficialProxy = None,
    dialect: options.Dialect = "anthropic",
    max_usd: options.MaxUsd = None,
    profile: options.ProfileOption = None,
    checks: options.Checks = None,
    free_only: options.FreeOnly = False,
    packs: options.PacksDir = None,
    knowledge: options.KnowledgeDir = None,
    prices: options.PricesFile = None,
    baselines: options.BaselinesFile = None,
    fail_on: options.FailOnOption = "medium",
    allow_inconclusive: options.AllowInconclusive = False,
    baseline: options.Accepting = None,
    watch: options.WatchFile = None,
    expect_plan: options.ExpectPlan = "",
    since: options.SinceRun = "",
    detach: options.Detach = False,
    no_input: options.NoInput = False,
    allow_origin: options.AllowOrigin = None,
    allow_official_key_to: options.AllowOfficialKeyTo = "",
    allow_private: options.AllowPrivate = False,
    key_prompt: options.KeyPrompt = False,
    key_file: options.KeyFile = None,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Plan, quote, wait for approval, send, record, assess, report."""
    quick = dict(base_url=base_url, model=model, claim=claim, key_env=key_env, official_key_env=official_key_env,
                 official_base_url=official_base_url, official_proxy=official_proxy, dialect=dialect, profile=profile,
                 checks=checks)  # fmt: skip
    earlier, again = retesting.repeated(since) if since else (None, None)
    targets = [again] if again and target is None and base_url is None else targets_from(target, quick)
    key = key_from(prompt=key_prompt, file=key_file, as_json=json, no_input=no_input)
    call = Invocation(
        lang=language(lang, os.environ), as_json=json, no_input=no_input, packs=packs, knowledge=knowledge, prices=prices,
        baselines=baselines, max_usd=amount(max_usd, "--max-usd"), expect_plan=expect_plan, free_only=free_only, fail_on=severity(fail_on),
        allow_inconclusive=allow_inconclusive, hand_over=detached.hand_over if detach else None,
        place=place_of(target), earlier=earlier,
    )  # fmt: skip
    call.night = Night(accepted_from(baseline, call.space, call.clock) if baseline else None, watch)
    call.permissions = permissions(
        allow_origin, allow_official_key_to, private=allow_private, key=key, may_ask=call.may_ask
    )
    raise typer.Exit(run_targets(targets, call))


@app.command()
def quote(
    target: options.TargetFile = None,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    claim: options.ClaimOption = "unknown",
    key_env: options.KeyEnv = "RELAY_KEY",
    official_key_env: options.OfficialKeyEnv = None,
    official_base_url: options.OfficialBaseUrl = None,
    dialect: options.Dialect = "anthropic",
    profile: options.ProfileOption = None,
    checks: options.Checks = None,
    packs: options.PacksDir = None,
    knowledge: options.KnowledgeDir = None,
    prices: options.PricesFile = None,
    baselines: options.BaselinesFile = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask nobody: our own estimates and lists only.")] = False,
    show_requests: Annotated[bool, typer.Option("--show-requests", help="Print every body as it will leave.")] = False,
    allow_origin: options.AllowOrigin = None,
    allow_private: options.AllowPrivate = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Plan and quote only; free requests at most. Nothing is approved or charged."""
    quick = dict(base_url=base_url, model=model, claim=claim, key_env=key_env, official_key_env=official_key_env,
                 official_base_url=official_base_url, dialect=dialect, profile=profile, checks=checks)  # fmt: skip
    call = Invocation(lang=language(lang, os.environ), as_json=json, packs=packs, knowledge=knowledge, prices=prices,
                      baselines=baselines, offline=offline)  # fmt: skip
    call.permissions = permissions(allow_origin, "", private=allow_private, key="", may_ask=call.may_ask)
    for one in targets_from(target, quick):
        with begun(one, call) as (recorder, _, _, found):
            look.show_quote(recorder, call, approval_needed(recorder, found).details, show_requests=show_requests)


@app.command()
def approve(
    run: options.RunId,
    quote: Annotated[str, typer.Option("--quote", metavar="DIGEST", help="The quote that is approved.")],
    max_usd: Annotated[str, typer.Option("--max-usd", metavar="X", help="The ceiling.")],
    json: options.Json = False,
) -> None:
    """Permit exactly this quote up to this ceiling. Sends nothing."""
    asked = interactive(as_json=json, no_input=False, environ=os.environ)
    with look.opened(run) as store:
        result = permit.give_approval(store, quote, amount(max_usd, "--max-usd"), terminal=asked)
    emit(result) if json else say(
        f"approved: {result['max_usd']} for {result['quote_digest'][:12]}…\n  -> {result['then']}", sys.stdout
    )


app.command(name="resume")(onward.resume_run)
app.command()(steer.decline)
app.command()(steer.pause)
app.command()(steer.cancel)
app.command()(steer.revise)
app.command(name="add-context")(steer.add_context)
app.command()(watch.status)
app.command()(watch.events)
app.command()(compare.assess)
app.command()(papers.report)
app.command()(look.doctor)
app.command()(keep.verify)
app.command()(keep.export)
app.command(name="import")(keep.import_)
app.command(name="explain")(explained.explain_finding)
app.command()(compare.diff)
app.command()(compare.history)
app.command()(compare.answer)
app.command()(retesting.retest)
app.command(name="withhold")(remove.withhold_blob)
app.command()(remove.purge)
app.command(name="import-traffic")(traffic.import_traffic)
app.command()(film.media)
app.command()(film.pin)
calibration.baseline.command()(accept.write)
app.command()(calibration.calibrate)
app.command()(laboratory.demo)
app.command()(laboratory.lab)


def main() -> NoReturn:
    """Every way out has its code; a crash is 70, never 1, and its traceback is shown without a stranger's text."""
    prepare_streams()
    as_json = "--json" in sys.argv
    try:
        code = app(prog_name="relay-audit", standalone_mode=False)
    except RelayAuditError as error:
        report_error(error, as_json=as_json)
        code = error.exit_code
    except TyperException as error:
        code = _usage(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        code = Interrupted.exit_code
    except Exception as error:  # noqa: BLE001  the last line of defence: a crash has a code of its own
        code = _crash(error, as_json=as_json)
    if code == Interrupted.exit_code:  # raised above, or turned into its code by typer
        report_error(Interrupted("interrupted", next_step="go on with: relay-audit resume latest"), as_json=as_json)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: TyperException, *, as_json: bool) -> int:
    if as_json:
        emit({"error": "usage", "message": _said(error), "next_step": "relay-audit --help"})
    else:
        say(f"relay-audit: {_said(error)}\n  -> relay-audit --help")
    return 2


def _said(error: TyperException) -> str:
    return str(getattr(error, "format_message", lambda: str(error))())


def _crash(error: Exception, *, as_json: bool) -> int:
    """Where it broke, not what it held: an exception's text may carry a stranger's."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (f"{f.name} (line {f.lineno})" for f in reversed(frames) if "relay_audit" in f.filename), "unknown place"
    )
    message = f"internal error: {type(error).__name__} in {place}"
    if as_json:
        emit(
            {
                "error": "internal",
                "message": message,
                "next_step": "the run can be read and resumed: relay-audit status",
            }
        )
    else:
        say(f"relay-audit: {message}\n  -> the run can be read and resumed: relay-audit status")
    return 70


if __name__ == "__main__":
    main()
