"""The commands by name, each with the module that holds it: loaded when it is called, and not before.

One start uses one command, and what a report needs has no business with sockets, lanes and laboratories. The listing of
`--help` comes out of this table; a test holds every line against what the command itself says.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Command(NamedTuple):
    """Where a command is, as a module of this package and a name in it; and what it is for."""

    module: str
    function: str
    what: str


COMMANDS: dict[str, Command] = {
    "run": Command("begin", "run", "Plan, quote, wait for approval, send, record, assess, report."),
    "quote": Command("begin", "quote", "Plan and quote only; free requests at most. Nothing is approved or charged."),
    "approve": Command("begin", "approve", "Permit exactly this quote up to this ceiling. Sends nothing."),
    "resume": Command("onward", "resume_run",
        "Go on within the approval, also after a crash or a pause. What was sent is never sent again."),
    "decline": Command("steer", "decline",
        "Say no to the quote, or to some of its lines: what they would have sent is never sent."),
    "pause": Command("steer", "pause", "Finish the request in flight, then send nothing until `resume`."),
    "cancel": Command("steer", "cancel",
        "End the run. What is in flight is recorded when it comes back; nothing else leaves."),
    "revise": Command("steer", "revise",
        "Change what is left to send; the plan gets a new quote. Without options: a fresh quote of the same plan."),
    "add-context": Command("steer", "add_context",
        "Add what you know: the NAME of the vendor's key variable, your prices, the lines you have."),
    "status": Command("watch", "status", "Where a run stands; without a run, the latest ones."),
    "events": Command("watch", "events",
        "What happened, one JSON object a line, in order. Reading never changes anything."),
    "assess": Command("compare", "assess",
        "Judge a stored run again; nothing is sent. With today's knowledge it says what changed and why."),
    "report": Command("papers", "report", "Render a report from a stored run, past the leak guard."),
    "doctor": Command("look", "doctor", "Each capability: ready, degraded or absent, and what to do."),
    "verify": Command("checking", "verify",
        "Is a run, an archive or a report what it was when it was sealed? Offline; 0 yes, 1 no."),
    "export": Command("keep", "export",
        "One archive file that anybody can read and check, for you or (--for vendor) for the vendor."),
    "import": Command("keep", "import_",
        "Takes in an archive, which is checked whole before a byte of it is written. It can be read, never resumed."),
    "explain": Command("explained", "explain_finding",
        "The chain of evidence under one finding, from the plan to the answer."),
    "diff": Command("compare", "diff",
        "What changed between two runs, and whose change each is: relay, official side, knowledge, prices, tool, plan, noise."),
    "history": Command("compare", "history",
        "Every run of one line here, oldest first, with what changed each time and whose change it was."),
    "answer": Command("compare", "answer", "Keep the vendor's reply beside each finding it is to; no finding changes."),
    "retest": Command("retesting", "retest",
        "Test only these findings again, with a quote of its own; one that falls is marked as withdrawn in RUN."),
    "withhold": Command("remove", "withhold_blob",
        "Take one blob's bytes away for good; a tombstone with digest and reason stays."),
    "purge": Command("remove", "purge",
        "Remove a run, or old ones, from this machine; says what may remain on servers."),
    "import-traffic": Command("traffic", "import_traffic",
        "Checks 1, 2 and 6 on recorded traffic, at no cost: what a gated relay allows."),
    "media": Command("film", "media",
        "Is this film or image the vendor's original? Offline: against known signers and originals that you pinned."),
    "pin": Command("film", "pin",
        "Remember an original of your own: signer, encoder, structure, label. Kept in your configuration."),
    "calibrate": Command("calibration", "calibrate",
        "The vendor's API on both sides: nothing may be found; what is seen is written as dated baselines."),
    "demo": Command("laboratory", "demo",
        "The whole audit, both reports, against the built-in lab. Exit 0 unless it breaks."),
    "lab": Command("laboratory", "lab",
        "Serve simulated vendors and relays on loopback; print their addresses and keys."),
    "probes": Command("shelf", "probes", "What is sent in your name."),
    "fingerprints": Command("shelf", "fingerprints", "What is known, from where, and how old it is."),
    "baseline": Command("calibration", "baseline", "Dated counts and refusals of a vendor."),
    "skill": Command("agents", "group", "Instructions for agents, of this version."),
}  # fmt: skip


class Loaded(MutableMapping[str, Any]):
    """Name → command, each built from its module when somebody asks for it by name."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  typer's own, which it does not export
        if name not in self._built:
            self._built[name] = built(name, COMMANDS[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:  # noqa: ANN401
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Program(TyperGroup):
    """The program's own group."""

    def __init__(self, **more: Any) -> None:  # noqa: ANN401
        super().__init__(**{**more, "commands": {}})
        self.commands = Loaded()

    def format_commands(self, _: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # noqa: ANN401
        """Out of the table: a listing loads nothing."""
        room = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, TyperCommand(name, help=row.what).get_short_help_str(room)) for name, row in COMMANDS.items()]
            )


def built(name: str, command: Command) -> Any:  # noqa: ANN401
    """The command, or the group of commands, out of its module."""
    found = getattr(importlib.import_module(f"relay_audit.cli.{command.module}"), command.function)
    if isinstance(found, typer.Typer):
        made = typer.main.get_command(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name=name)(found)
        made = typer.main.get_command(alone)
    made.name = name
    return made
