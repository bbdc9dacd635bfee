"""Walks the skill's happy path literally: the commands that `skill show` prints, in an empty folder, against the lab.

Nothing is known here but that text: commands are taken out of its code blocks, `RUN` is the `run_id` that a command
printed, and the one thing that a person does is to run `approve_cmd`. Prints how many commands and bytes it took; ends
with 1 when a command does not end as the text says.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from relay_audit import __version__
from relay_audit.lab import serve

PREFIX = f"uvx --from relay-audit-toolkit=={__version__} relay-audit "
OURS = [sys.executable, "-m", "relay_audit.cli.main"]
"""Stands in for the prefix: the version under test, not one from an index."""
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s*exit (\d+)\s*")
SHOWN_ADDRESS, SHOWN_MODEL = "https://relay.example", "claude-sonnet-5-5"


@dataclass
class Walk:
    """What one walk came to."""

    commands: list[str] = field(default_factory=list)
    """Run by the agent, the reading of the instructions among them; the person's one is not."""
    output: int = 0
    """Bytes of stdout that the agent had to read."""
    longest: int = 0
    result: dict = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def walk(scenario: str, lang: str = "en", encoding: str = "utf-8") -> Walk:
    """One audit of a scenario of the lab, as the text says, at a console of that encoding. Raises nothing that a command
    did wrong: `faults`."""
    done = Walk()
    with serve(scenario, pace=0) as served, tempfile.TemporaryDirectory(prefix="skill-path-") as name:
        home = Path(name)
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC_", "OPENAI_", "RELAY_AUDIT_"))}
        environ |= {
            "RELAY_KEY": served.relay_key, "OFFICIAL_KEY": served.official_key, "RELAY_AUDIT_REQUIRE_APPROVE": "1",
            "XDG_STATE_HOME": str(home / ".state"), "XDG_CONFIG_HOME": str(home / ".config"),
            "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": encoding,
        }  # fmt: skip
        text = _run(done, f"skill show --lang {lang}", 0, home, environ)
        run = ""
        for block in BLOCK.findall(text):
            for line in block.strip().splitlines():
                command, _, remark = line.removeprefix(PREFIX).partition("   #")
                code = EXIT.fullmatch(remark)
                command = command.replace(SHOWN_ADDRESS, served.relay_url).replace(" RUN", f" {run}").strip()
                if "--official-key-env" in command:
                    command += f" --official-base-url {served.official_url}"
                out = _run(done, command, int(code[1]) if code else 0, home, environ)
                if "--json" not in command:
                    continue
                done.result = json.loads(out.splitlines()[-1])
                run = done.result.get("run_id", run)
                if "approve_cmd" in done.result:
                    _approve(done, done.result["approve_cmd"], home, environ)
        done.files = sorted(path.name for path in home.glob("*.html"))
    return done


def _run(done: Walk, command: str, expected: int, home: Path, environ: dict[str, str]) -> str:
    ended = subprocess.run(
        [*OURS, *shlex.split(command)], cwd=home, env=environ, capture_output=True, timeout=300, check=False
    )
    done.commands.append(command)
    done.output += len(ended.stdout)
    done.longest = max(done.longest, len(ended.stdout))
    if ended.returncode != expected:
        done.faults.append(f"exit {ended.returncode}, the text says {expected}: {command}")
    return ended.stdout.decode(environ["PYTHONIOENCODING"])


def _approve(done: Walk, command: str, home: Path, environ: dict[str, str]) -> None:
    """The person's part."""
    words = [*OURS, *shlex.split(command)[1:]]
    ended = subprocess.run(words, cwd=home, env=environ, capture_output=True, timeout=60, check=False)
    if ended.returncode:
        done.faults.append(f"the approval was refused: {ended.stderr.decode(errors='replace')[:200]}")


if __name__ == "__main__":
    walked = walk(sys.argv[1] if len(sys.argv) > 1 else "hidden_508")
    for command in walked.commands:
        print(f"  relay-audit {command}")
    print(f"{len(walked.commands)} commands, {walked.output} bytes, the longest {walked.longest}; {walked.files}")
    print("\n".join(walked.faults) or walked.result.get("answer", {}).get("say", {}).get("en", ""))
    sys.exit(bool(walked.faults))
