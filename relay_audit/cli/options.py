"""The options of the command line, named once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TargetFile = Annotated[
    Path | None, typer.Argument(metavar="[TARGET.toml]", help="Target file; or use the quick form.", show_default=False)
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, a unique beginning of it, a run's folder, or `latest`.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; diagnostics on stderr.")]
LangOption = Annotated[
    str | None, typer.Option("--lang", metavar="zh-CN|en", help="Language of texts and reports.", show_default=False)
]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Quick form: the relay's address, as pasted.", show_default=False)
]
Model = Annotated[
    str | None, typer.Option(metavar="NAME", help="Quick form: the model, as the relay calls it.", show_default=False)
]
ClaimOption = Annotated[
    str, typer.Option("--claim", metavar="CHANNEL", help="Quick form: the channel the vendor claims.")
]
KeyEnv = Annotated[str, typer.Option(metavar="NAME", help="Quick form: the NAME of the variable with the relay's key.")]
OfficialKeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Quick form: the NAME of the variable with the vendor's key.", show_default=False
    ),
]
OfficialBaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Quick form: the official address, if not the vendor's own.", show_default=False),
]
OfficialProxy = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Proxy to the official side (http, https, socks5).", show_default=False),
]
Dialect = Annotated[str, typer.Option(metavar="NAME", help="Quick form: the wire format.")]
MaxUsd = Annotated[
    str | None,
    typer.Option(
        "--max-usd", metavar="X", help="Approve in advance up to X. Without it the quote waits.", show_default=False
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="quick|standard|thorough", help="How much is sent.", show_default=False),
]
Checks = Annotated[str | None, typer.Option(metavar="1,2,6", help="Only these checks.", show_default=False)]
Also = Annotated[
    str | None,
    typer.Option("--also", metavar="recitation", help="What no profile sends by itself.", show_default=False),
]
FreeOnly = Annotated[bool, typer.Option("--free-only", help="Send nothing that may charge.")]
PacksDir = Annotated[
    Path | None,
    typer.Option("--packs", metavar="DIR", help="Your own probe packs, beside the shipped ones.", show_default=False),
]
KnowledgeDir = Annotated[
    Path | None, typer.Option("--knowledge", metavar="DIR", help="Your own knowledge files.", show_default=False)
]
BaselinesFile = Annotated[
    Path | None,
    typer.Option(
        "--baselines",
        metavar="FILE",
        help="Counts and refusals of a vendor, from whoever has its key.",
        show_default=False,
    ),
]
PricesFile = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="Your own prices; they outrank every list.", show_default=False),
]
Accepting = Annotated[
    str | None,
    typer.Option(
        "--baseline", metavar="FILE|RUN", help="What is known and accepted does not count.", show_default=False
    ),
]
WatchFile = Annotated[
    Path | None,
    typer.Option(
        "--watch", metavar="FILE", help="Kept between nights: confirm before alarm, notice silence.", show_default=False
    ),
]
FailOnOption = Annotated[
    str, typer.Option("--fail-on", metavar="none|low|medium|high|critical", help="Exit 1 from this severity on.")
]
AllowInconclusive = Annotated[bool, typer.Option("--allow-inconclusive", help="An inconclusive verdict exits 0.")]
ExpectPlan = Annotated[
    str,
    typer.Option(
        "--expect-plan", metavar="DIGEST", help="Go on only if the plan is exactly this one.", show_default=False
    ),
]
Detach = Annotated[
    bool,
    typer.Option("--detach", help="Return once the approved run works on its own; `events --follow` waits for it."),
]
SinceRun = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="RUN",
        help="Repeat that run with new wording, and say whose change is what.",
        show_default=False,
    ),
]
NoInput = Annotated[bool, typer.Option("--no-input", help="Never ask.")]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", metavar="ORIGIN", help="A key may go to this origin.", show_default=False),
]
AllowOfficialKeyTo = Annotated[
    str,
    typer.Option(
        "--allow-official-key-to", metavar="HOST", help="A vendor-shaped key may go to this host.", show_default=False
    ),
]
AllowPrivate = Annotated[bool, typer.Option("--allow-private", help="Private addresses may be connected to.")]
KeyPrompt = Annotated[bool, typer.Option("--key-prompt", help="Read the relay's key unseen from the terminal.")]
KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="Read the relay's key from a file (0600), or - for stdin.",
        show_default=False,
    ),
]
