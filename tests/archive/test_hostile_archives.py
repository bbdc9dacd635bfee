"""A stranger's archive: paths, links, sizes, bombs and lies are refused before a byte is written; nothing of it is ever sent."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import stat
import zipfile
from decimal import Decimal
from pathlib import Path

import pytest

from relay_audit import audit
from relay_audit.archive.contents import contents
from relay_audit.archive.unpack import unpack
from relay_audit.archive.zipped import open_archive, write_archive
from relay_audit.errors import ArchiveRefused, UsageError
from relay_audit.filing import report_bytes
from relay_audit.manifest import EVENTS, MANIFEST
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.store import Store
from relay_audit.workspace import Workspace
from tests.archive.runs import kept
from tests.audits import TestClock

NOW = dt.datetime(2028, 11, 30, tzinfo=dt.UTC)


@pytest.fixture
def archive(tmp_path) -> Path:
    with Store.open(kept("surplus", tmp_path)) as store:
        write_archive(contents(store, "full"), tmp_path / "good.zip")
    return tmp_path / "good.zip"


def space(tmp_path) -> Workspace:
    return Workspace(tmp_path / "here", tmp_path / "state", tmp_path / "config")


def take(path: Path, place: Workspace) -> Path:
    with open_archive(path) as opened:
        return unpack(opened, place, "0" * 64, NOW)[0]


def rebuilt(source: Path, target: Path, change=None, more=(), **ways) -> Path:
    """The archive again with members changed (`change(name, raw)` → bytes, or None to leave it out) or added."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", **ways) as new:
        for item in old.infolist():
            raw = old.read(item.filename)
            raw = change(item.filename, raw) if change else raw
            if raw is not None:
                new.writestr(item.filename, raw)
        for entry, raw in more:
            new.writestr(entry, raw)
    return target


def entry(name: str, mode: int = stat.S_IFREG | 0o600) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    return made


def test_what_was_exported_comes_back_and_judges_the_same(tmp_path, archive):
    place = space(tmp_path)
    folder = take(archive, place)
    original = tmp_path / folder.name
    with Store.open(folder) as back, Store.open(original) as first:
        assert back.head() == first.head()
        assert [e.hash for e in back.events()][: len(list(first.events()))] == [e.hash for e in first.events()]
        assert audit.judge(back).findings == audit.judge(first).findings
        for form in ("html", "json"):
            assert report_bytes(replay(back), audit.judge(back), "vendor", form, "en", {}) == report_bytes(
                replay(first), audit.judge(first), "vendor", form, "en", {}
            )
        assert (replay(back).imported, replay(first).imported) == (True, False)
    assert take(archive, place) == folder


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/x",
        "blobs/../../x",
        "C:\\x",
        "blobs/" + "a" * 63,
        "reports/a.html",
        "run.sqlite3",
        "blobs/",
        "derived/x.json",
    ],
)
def test_a_name_that_no_archive_has_is_refused(tmp_path, archive, name):
    bad = rebuilt(archive, tmp_path / "bad.zip", more=[(entry(name), b"x")])
    with pytest.raises(ArchiveRefused):
        take(bad, space(tmp_path))
    assert not (tmp_path / "here").exists()


def test_links_and_odd_files_are_refused(tmp_path, archive):
    for mode in (stat.S_IFLNK | 0o777, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR):
        bad = rebuilt(archive, tmp_path / "bad.zip", more=[(entry("blobs/" + "a" * 64, mode), b"/etc/passwd")])
        with pytest.raises(ArchiveRefused):
            take(bad, space(tmp_path))


def test_a_bomb_is_refused_before_it_is_read(tmp_path, archive):
    bad = rebuilt(
        archive, tmp_path / "bomb.zip", more=[(entry("blobs/" + "a" * 64), b"\0" * 50_000_000)],
        compression=zipfile.ZIP_DEFLATED,
    )  # fmt: skip
    with pytest.raises(ArchiveRefused, match="compressed"):
        take(bad, space(tmp_path))


def test_members_that_overlap_are_refused(tmp_path, archive):
    """Many entries over the same bytes: the sum of what they hold is more than the file."""
    raw = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as file:
        items = sorted(file.infolist(), key=lambda i: -i.file_size)
    big, others = items[0], items[1:40]
    with zipfile.ZipFile(tmp_path / "lap.zip", "w") as out, zipfile.ZipFile(archive) as file:
        out.writestr(big.filename, file.read(big.filename))
        for other in others:
            out.filelist.append(zipfile.ZipInfo(other.filename))
            out.filelist[-1].header_offset = 0
            out.filelist[-1].CRC = out.filelist[0].CRC
            out.filelist[-1].file_size = out.filelist[-1].compress_size = out.filelist[0].file_size
    assert raw
    with pytest.raises(ArchiveRefused):
        take(tmp_path / "lap.zip", space(tmp_path))


def test_a_name_twice_is_refused(tmp_path, archive):
    with pytest.warns(UserWarning, match="Duplicate"):
        bad = rebuilt(archive, tmp_path / "bad.zip", more=[(entry(EVENTS), b"{}\n")])
    with pytest.raises(ArchiveRefused, match="twice"):
        take(bad, space(tmp_path))


def manifest_with(**changes):
    def change(name, raw):
        if name != MANIFEST:
            return raw
        return json.dumps({**json.loads(raw), **changes}).encode()

    return change


@pytest.mark.parametrize(
    "changes",
    [{"run_id": "../../x"}, {"run_id": ""}, {"archive_version": 2}, {"schema_version": 99}, {"format": "zip"}, {"parts": 7},
     {"evidence_head": "0" * 64}, {"last_hash": "0" * 64}, {"events": 3}, {"edition": "other"}],
)  # fmt: skip
def test_a_manifest_that_does_not_fit_is_refused(tmp_path, archive, changes):
    bad = rebuilt(archive, tmp_path / "bad.zip", manifest_with(**changes))
    with pytest.raises(ArchiveRefused):
        take(bad, space(tmp_path))
    assert not list((tmp_path / "here").glob("*")) if (tmp_path / "here").exists() else True


@pytest.mark.parametrize("what", ["drop_blob", "change_blob", "drop_event", "swap_events", "not_json", "no_manifest"])
def test_what_was_changed_is_refused(tmp_path, archive, what):
    def change(name, raw):
        lines = raw.splitlines(keepends=True)
        if what == "drop_blob" and name.startswith("blobs/") and b'"X0007"' in raw:
            return None
        if what == "change_blob" and name.startswith("blobs/") and b'"X0007"' in raw:
            return raw.replace(b"X0007", b"X0008")
        if name == EVENTS and what == "drop_event":
            return b"".join(lines[:9] + lines[10:])
        if name == EVENTS and what == "swap_events":
            return b"".join([*lines[:9], lines[10], lines[9], *lines[11:]])
        if name == EVENTS and what == "not_json":
            return b"[" * 100_000
        return None if name == MANIFEST and what == "no_manifest" else raw

    bad = rebuilt(archive, tmp_path / "bad.zip", change)
    with pytest.raises(ArchiveRefused):
        take(bad, space(tmp_path))


@pytest.mark.parametrize(
    "raw",
    [b"", b"PK", b"PK\5\6" + b"\0" * 18, b"PK\5\6" + b"\xff" * 18, b"x" * 100_000, os.urandom(4096)],
    ids=["empty", "two_bytes", "end_of_nothing", "end_beyond_all", "one_letter", "noise"],
)
def test_what_is_no_archive_is_refused(tmp_path, raw):
    (tmp_path / "x.zip").write_bytes(raw)
    with pytest.raises(ArchiveRefused):
        take(tmp_path / "x.zip", space(tmp_path))


def test_every_cut_is_refused(tmp_path, archive):
    raw = archive.read_bytes()
    for share in range(0, 100, 4):
        (tmp_path / "cut.zip").write_bytes(raw[: len(raw) * share // 100])
        with pytest.raises(ArchiveRefused):
            take(tmp_path / "cut.zip", space(tmp_path))


def test_the_vendors_edition_is_no_run(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        write_archive(contents(store, "vendor"), tmp_path / "v.zip")
    with pytest.raises(ArchiveRefused, match="vendor's edition"):
        take(tmp_path / "v.zip", space(tmp_path))


def test_a_run_that_came_in_waiting_is_never_approved_or_sent(tmp_path):
    """An archive may bring a target and an approval of somebody's choosing; neither spends the reader's money."""
    with Store.open(kept("waiting", tmp_path)) as store:
        write_archive(contents(store, "full"), tmp_path / "w.zip")
    with Store.open(take(tmp_path / "w.zip", space(tmp_path))) as store:
        recorder = Recorder(store, TestClock())
        with pytest.raises(UsageError, match="archive"):
            audit.approve(recorder, recorder.history.quote.digest, Decimal(9), "x", "terminal")
        with pytest.raises(UsageError, match="archive"):
            asyncio.run(audit.execute(recorder, None, None, None))


def test_another_run_of_the_same_id_is_not_written_over(tmp_path, archive):
    place = space(tmp_path)
    folder = take(archive, place)
    with Store.open(kept("honest", tmp_path)) as other:
        packed = contents(other, "full")
        write_archive(packed, tmp_path / "other.zip")
    renamed = rebuilt(tmp_path / "other.zip", tmp_path / "renamed.zip", manifest_with(run_id=folder.name))
    with pytest.raises(UsageError, match="another one"):
        take(renamed, place)
