"""Check 5 against a bare read by the C2PA library: time and memory on a film of 200 MB, and a file of 80,000 empty boxes.

`python -m bench.media [--json] [--megabytes N]`. Needs the extra `media`; signs the film while it runs, keeps nothing.
Hash and read are at work at the same time, so `whole_over_bare_child` wants two cores that nobody else uses: with a load
above 1 per core it is the ratio of the work, not of the time. Beside other work on Linux, as root: `chrt -f 20` before it.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from relay_audit.media import signature, worker
from tests.media import material as m

REPEATS = 5
BARE = """
import sys, c2pa
sys.path[:] = sys.argv[2].split("|")
from relay_audit.media.native import SETTINGS
with c2pa.Reader(sys.argv[1], context=c2pa.Context.from_dict(SETTINGS)) as reader:
    reader.json()
"""
"""The same settings and nothing else, in a child as ours is: our own read has to be in one, so the other is too."""
WHOLE = """
import resource, sys
sys.path[:] = sys.argv[2].split("|")
from pathlib import Path
from relay_audit.media.examine import examine
assert examine(Path(sys.argv[1])).integrity.state == "read"
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
MAKE = """
import sys
sys.path[:] = sys.argv[2].split("|")
from pathlib import Path
from bench.media import big_film
print(big_film(Path(sys.argv[1]), int(sys.argv[3])))
"""
PLACES = "|".join(str(Path(place).absolute()) for place in (Path(__file__).parent.parent, *sys.path) if place)


def big_film(folder: Path, megabytes: int) -> Path:
    """A signed film whose pictures are followed by so much more of the same box."""
    raw = m.plain().read_bytes()
    start, end = next((start, end) for kind, start, end in m.top_boxes(raw) if kind == b"mdat")
    padded = folder / "padded.mp4"
    with padded.open("wb") as file:
        file.write(raw[:start] + struct.pack(">I4s", end - start + (megabytes << 20), b"mdat") + raw[start + 8 : end])
        for _ in range(megabytes):
            file.write(os.urandom(1 << 20))
        file.write(raw[end:])
    film = m.sign(padded, folder / "film.mp4", m.chain(m.authority("Bench CA")))
    padded.unlink()
    return film


def seconds(*works: Callable[[], object]) -> list[float]:
    """The best of a few rounds for each, in turn: what else the machine does then meets all of them. The first round is
    thrown away: what is read is then in the page cache for everybody."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS + 1):
        for place, work in enumerate(works):
            began = time.perf_counter()
            work()
            taken[place].append(time.perf_counter() - began)
    return [min(one[1:]) for one in taken]


def child(program: str, place: Path, *more: str) -> str:
    words = [sys.executable, "-c", program, str(place), PLACES, *more]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def peak_of_bare(film: Path) -> int:
    """Kilobytes."""
    program = BARE + "import resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    return int(child(program, film))


def measure(folder: Path, megabytes: int) -> dict[str, float]:
    film = Path(child(MAKE, folder, str(megabytes)).strip())  # signing takes twice the film in memory: not in here
    roots = signature.public_roots()
    signature.public_roots = lambda: roots  # loaded once, as in the child

    def signer() -> None:
        with film.open("rb") as file:
            worker.signer(worker.walk(file))

    def bare_here() -> None:
        with m.c2pa.Reader(str(film), context=m.c2pa.Context.from_dict(worker.part("native").SETTINGS)) as reader:
            reader.json()

    parent_kb, child_kb = map(int, child(WHOLE, film).split())
    bare_kb = peak_of_bare(film)
    examine = worker.part("examine").examine
    bare, whole = seconds(lambda: child(BARE, film), lambda: examine(film))
    bomb = folder / "bomb.mp4"
    bomb.write_bytes(m.plain().read_bytes() + struct.pack(">I4s", 8, b"free") * 80_000)
    honest, refused = seconds(lambda: examine(m.plain()), lambda: examine(bomb))
    signing, library = seconds(signer, bare_here)
    return {
        "megabytes": megabytes,
        "signer_over_bare_read": signing / library,
        "whole_over_bare_child": whole / bare,
        "parent_mb": parent_kb / 1024,
        "child_over_bare_memory": child_kb / bare_kb,
        "bomb_over_honest": refused / honest,
        "load_per_core": os.getloadavg()[0] / (os.cpu_count() or 1),
        "signer_s": signing, "bare_read_s": library, "whole_s": whole, "bare_child_s": bare,
    }  # fmt: skip


LIMITS = {
    "signer_over_bare_read": 0.2, "whole_over_bare_child": 1.3, "parent_mb": 60.0, "child_over_bare_memory": 1.2,
    "bomb_over_honest": 3.0,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    megabytes = int(arguments[arguments.index("--megabytes") + 1]) if "--megabytes" in arguments else 200
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), megabytes)
    if "--json" in arguments:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<24} {value:8.3f}" + (f"   limit {LIMITS[name]}" if name in LIMITS else ""))
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
