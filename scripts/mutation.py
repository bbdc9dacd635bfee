"""How many small faults in the judging code the unit tests notice: mutmut's score, module by module.

`python scripts/mutation.py [--sample N] [MODULE…]`, run by `make mutation` in an environment of its own. MODULE is a dotted
name without the package (`gate`, `assess.channel`). With `--sample` each module is judged by N mutants that the digests
of their names choose, the same at every run; the interval says what that leaves open. A fault that no unit test reaches
counts as one that survived. Exit 1 when the score of all modules together is below `FLOOR`, or more than `EXCLUDED` of
the lines are taken out by a pragma.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from relay_audit.bounds import share_interval

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = ROOT / "mutants" / "relay_audit"
MUTMUT = Path(sys.executable).parent / "mutmut"
FLOOR = 0.85
EXCLUDED = 0.02
UNREACHED = {5, 33}
"""mutmut's exit codes for a mutant that no test reaches."""


class Score(NamedTuple):
    module: str
    mutants: int
    killed: int
    survived: int
    unreached: int

    @property
    def tried(self) -> int:
        return self.killed + self.survived + self.unreached

    def row(self) -> str:
        low, high = share_interval(self.killed, self.tried)
        exact = self.tried == self.mutants
        share = f"{self.killed / self.tried:.1%}" + ("" if exact else f" ({low:.0%}–{high:.0%})")
        return (
            f"| `{self.module}` | {self.mutants} | {self.tried} | {self.killed} | {self.survived} "
            f"| {self.unreached} | {share} |"
        )


def verdicts(module: str) -> dict[str, int | None]:
    """Exit code per mutant of a module; None where it was not tried."""
    path = MUTANTS / (module.replace(".", "/") + ".py.meta")
    codes: dict[str, int | None] = json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return codes


def modules() -> list[str]:
    """Every module that has mutants, as a dotted name without the package."""
    found = sorted(MUTANTS.rglob("*.meta"))
    return [str(path.relative_to(MUTANTS)).removesuffix(".py.meta").replace("/", ".") for path in found]


def mutate(names: Iterable[str]) -> None:
    """Tries these mutants, or patterns of their names, one after the other. Ends the program with mutmut's own words where
    it could not, as when a unit test fails without any fault."""
    command = [str(MUTMUT), "run", "--max-children", "1", *names]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(done.stdout[-3000:])


def chosen(module: str, sample: int | None) -> list[str]:
    names = sorted(verdicts(module), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return names[:sample]


def score(module: str, names: list[str]) -> Score:
    codes = verdicts(module)
    seen = Counter(
        "unreached" if codes[name] in UNREACHED else "survived" if codes[name] == 0 else "killed"
        for name in names
        if codes[name] is not None
    )
    return Score(module, len(codes), seen["killed"], seen["survived"], seen["unreached"])


def taken_out(names: list[str]) -> float:
    """The share of lines that a pragma takes out of these modules."""
    lines = [
        line
        for name in names
        for line in (ROOT / "relay_audit" / (name.replace(".", "/") + ".py")).read_text("utf-8").splitlines()
    ]
    return sum("pragma: no mutate" in line for line in lines) / len(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--sample", type=int, help="mutants per module; all of them without it")
    parser.add_argument("--survivors", action="store_true", help="name every mutant that no test noticed")
    options = parser.parse_args()
    # The first run makes every module's mutants and learns which test reaches which function.
    mutate(["relay_audit.ledger.*mutmut_1"])
    wanted = options.modules or modules()
    picked = {module: chosen(module, options.sample) for module in wanted}
    # One pattern for a whole module: mutmut holds every name against every mutant.
    mutate(
        name
        for module, names in picked.items()
        for name in ([f"relay_audit.{module}.x*"] if len(names) == len(verdicts(module)) else names)
    )
    print(
        "| module | mutants | tried | killed | survived | unreached | score |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    scores = [score(module, names) for module, names in picked.items()]
    whole = Score("all", *(sum(column) for column in list(zip(*scores, strict=True))[1:]))
    for line in (*scores, whole):
        print(line.row())
    out = taken_out(wanted)
    print(f"\nlines taken out by a pragma: {out:.1%}")
    if options.survivors:
        for module, names in picked.items():
            print(*(name for name in names if verdicts(module)[name] in {0, *UNREACHED}), sep="\n")
    return 0 if whole.killed / whole.tried >= FLOOR and out <= EXCLUDED else 1


if __name__ == "__main__":
    sys.exit(main())
