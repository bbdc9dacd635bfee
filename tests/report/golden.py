"""Golden reports: three whole runs, sealed as archives, and what is printed of each for every reader in both languages.

`make golden` writes the expected texts anew, to be reviewed in the diff. `python -m tests.report.golden --record` makes the
runs themselves anew against the lab; `normalised` then keeps ids and times out of the diff.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import lzma
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from relay_audit.archive.contents import contents
from relay_audit.archive.unpack import unpack
from relay_audit.archive.zipped import open_archive, write_archive
from relay_audit.filing import report_bytes
from relay_audit.judgement import Judgement, judged_again
from relay_audit.lab import Knobs
from relay_audit.lab.scenario import Scenario, Title
from relay_audit.library import archived_library
from relay_audit.replay import History, replay
from relay_audit.report.render import AUDIENCES, Audience, Format
from relay_audit.store import Store
from relay_audit.words import LANGS, Lang
from relay_audit.workspace import Workspace

DATA = Path(__file__).resolve().parents[1] / "data" / "golden"
RUNS = ("honest", "faulty", "video")
FORMS: tuple[Format, ...] = ("html", "md", "text", "json")
FAULTY = Scenario(
    "golden_faulty", Title("much is wrong", "问题很多"), "fault",
    Knobs(channel="mixed", template_offset=0, hidden=508, charge_factor=2, swallows=("temperature",)), frozenset(), None,
)  # fmt: skip
KEYS = {"LAB_RELAY_KEY": "sk-golden-relay-0123456789abcdef", "LAB_OFFICIAL_KEY": "sk-ant-golden-0123456789abcdef"}
"""Keys at hand while a report is made, so that the guard looks for them."""


class Wanted(NamedTuple):
    run: str
    audience: Audience
    lang: Lang
    form: Format

    @property
    def file(self) -> Path:
        return DATA / self.run / f"{self.audience}.{self.lang}.{self.form}"


WANTED = [Wanted(run, a, lang, form) for run in RUNS for a in AUDIENCES for lang in LANGS for form in FORMS]
VARYING = {
    "digest": re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b"),
    "run": re.compile(r"\b\d{8}-\d{4}-[a-z0-9]{6}\b|\bRA-\d{8}-[a-z0-9]{4}\b"),
    "id": re.compile(
        r"\b(?:msg|req|chatcmpl|resp|toolu|srvtoolu|cgt|task)\\?_(?:bdrk\\?_|vrtx\\?_)?[\w-]{6,}|\bcgt-\d+-\w+"
        r"|\b20\d{12,}[A-Za-z0-9]{8,}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    ),
    "time": re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?"),
    "day": re.compile(r"\b2026-11-30\b"),
}
"""What is another one in another run of the same thing, by kind."""


def normalised(raw: bytes) -> str:
    """The report with each id, digest and time as its kind and number, in order of appearance; the style sheet, which lies
    beside the templates and is reviewed there, is left out. Two reports of one run that differ in nothing else are equal."""
    text = re.sub(r"(?s)<style>.*?</style>", "<style/>", raw.decode("utf-8-sig"))
    for kind, pattern in VARYING.items():
        seen: dict[str, str] = {}
        text = pattern.sub(lambda hit, seen=seen, kind=kind: seen.setdefault(hit[0], f"‹{kind} {len(seen) + 1}›"), text)
    return text


@contextmanager
def opened(run: str, home: Path) -> Iterator[tuple[History, Judgement]]:
    """The sealed run, taken in as anybody would, and judged by this version with the knowledge it carries."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / f"{run}.zip"
    file.write_bytes(lzma.decompress((DATA / f"{run}.zip.xz").read_bytes()))
    space = Workspace(home / "audits", home / "state", home / "config")
    with open_archive(file) as archive:
        sha = hashlib.sha256(file.read_bytes()).hexdigest()
        place = unpack(archive, space, sha, dt.datetime(2026, 12, 1, tzinfo=dt.UTC))[0]
    with Store.open(place) as store:
        history = replay(store)
        yield history, judged_again(history, archived_library(history))


def reports(run: str, home: Path, forms: tuple[Format, ...] = FORMS) -> Iterator[tuple[Wanted, str]]:
    """Every report of a run in these forms, past the leak guard. Raises `LeakRefused`."""
    with opened(run, home) as (history, judgement):
        for wanted in (one for one in WANTED if one.run == run and one.form in forms):
            raw = report_bytes(history, judgement, wanted.audience, wanted.form, wanted.lang, KEYS)
            yield wanted, normalised(raw)


@cache
def expected(wanted: Wanted) -> str:
    return wanted.file.read_text(encoding="utf-8")


def write(home: Path) -> None:
    for run in RUNS:
        for wanted, text in reports(run, home):
            wanted.file.parent.mkdir(parents=True, exist_ok=True)
            wanted.file.write_text(text, encoding="utf-8", newline="\n")


def record(home: Path) -> None:
    """The three runs anew: tests' own audits against the lab, in process."""
    from tests.audits import in_process
    from tests.video_audits import Films, video_run

    runs = {
        "honest": in_process("honest", 7, home).recorder,
        "faulty": in_process(FAULTY, 7, home).recorder,
    }
    film = video_run("film_three_tiers", home / "video", Films(home / "films"))
    film.whole()
    film.recorder.store.close()
    runs["video"] = film.recorder
    for name, recorder in runs.items():
        assert recorder is not None
        with Store.open(recorder.store.path) as store:
            file = home / f"{name}.zip"
            write_archive(contents(store, "full"), file)
        DATA.mkdir(parents=True, exist_ok=True)
        (DATA / f"{name}.zip.xz").write_bytes(lzma.compress(file.read_bytes(), preset=9))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        if "--record" in sys.argv[1:]:
            record(Path(place) / "recorded")
        write(Path(place) / "read")
