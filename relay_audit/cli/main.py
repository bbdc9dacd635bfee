"""The program: a command parses, calls and prints. Exit codes are in `relay_audit.exits`."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from relay_audit import __version__
from relay_audit.cli.commands import Program
from relay_audit.cli.console import prepare_streams, report_error, say, tell
from relay_audit.errors import EXIT_CODES, Interrupted, RelayAuditError
from relay_audit.owner import check_owner

EPILOG = "Exit codes:\n\n" + "\n\n".join(f"{code}  {text}" for code, text in EXIT_CODES.items())
app = typer.Typer(
    name="relay-audit",
    cls=Program,
    help="What an LLM relay (中转站) really sells, found out before you pay. "
    "Nothing that may cost money is sent before a quote is approved.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    tell("usage", _said(error), "relay-audit --help", {}, as_json=as_json)
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
    tell("internal", message, "the run can be read and resumed: relay-audit status", {}, as_json=as_json)
    return 70


if __name__ == "__main__":
    main()
