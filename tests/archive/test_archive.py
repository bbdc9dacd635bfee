"""One archive file: the same run gives the same bytes, a stranger reads it without us, and the vendor's edition is his."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from relay_audit import audit
from relay_audit.archive.chain import check_archive
from relay_audit.archive.contents import contents
from relay_audit.archive.zipped import open_archive, write_archive
from relay_audit.errors import UsageError
from relay_audit.filing import guard_archive, report_bytes
from relay_audit.manifest import Manifest
from relay_audit.replay import replay
from relay_audit.report.catalogue import Catalogue
from relay_audit.store import Store
from tests.archive.runs import LINE, kept

READER = Path(__file__).resolve().parents[2] / "docs" / "read_archive.py"


def read(path: Path, *more: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-I", str(READER), str(path), *more], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_same_run_gives_the_same_bytes(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        for edition in ("full", "vendor"):
            files = [tmp_path / f"{edition}{n}.zip" for n in "ab"]
            shas = {write_archive(contents(store, edition), file) for file in files}
            assert len(shas) == 1
            assert files[0].read_bytes() == files[1].read_bytes()


def test_a_stranger_reads_it_with_a_hundred_lines_and_nothing_of_ours(tmp_path):
    source = READER.read_text()
    assert len(source.splitlines()) < 100
    assert "relay_audit" not in source
    with Store.open(kept("surplus", tmp_path)) as store:
        for edition in ("full", "vendor"):
            packed = contents(store, edition)
            write_archive(packed, tmp_path / "a.zip")
            seen = read(tmp_path / "a.zip")
            assert (seen["evidence_head"], seen["manifest_digest"]) == (store.head(), packed.manifest.digest)
            factors = {"times_at_1000": "1.508", "times_at_10000": "1.051", "times_at_100000": "1.005"}
            assert seen["difference"] == {"least": 508, "middle": 508, "most": 508, **factors}
            assert seen["wrong"] == []


def test_the_reader_sees_what_was_changed(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        write_archive(contents(store, "full"), tmp_path / "a.zip")
    source = zipfile.ZipFile(tmp_path / "a.zip")
    lines = source.read("events.ndjson").splitlines(keepends=True)
    for what in ("digit", "line", "blob"):
        with zipfile.ZipFile(tmp_path / "b.zip", "w") as out:
            for item in source.infolist():
                raw = source.read(item.filename)
                if what == "digit" and item.filename == "events.ndjson":
                    raw = raw.replace(b'"at_most":"0.0', b'"at_most":"0.1', 1)
                if what == "line" and item.filename == "events.ndjson":
                    raw = b"".join(lines[:5] + lines[6:])
                if what == "blob" and item.filename.startswith("blobs/") and b"input_tokens" in raw:
                    raw = raw.replace(b"input_tokens", b"input_tokenz", 1)
                out.writestr(item.filename, raw)
        done = subprocess.run(
            [sys.executable, "-I", str(READER), str(tmp_path / "b.zip")], capture_output=True, timeout=60
        )
        assert done.returncode == 1, what
        with open_archive(tmp_path / "b.zip") as archive:
            assert check_archive(archive)[1], what


def test_the_vendors_edition_names_nobody_and_keeps_the_chain_whole(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        packed = contents(store, "vendor")
        guard_archive(packed, replay(store), "vendor", "a.zip", {})
        write_archive(packed, tmp_path / "a.zip")
        whole = b"".join(
            zipfile.ZipFile(tmp_path / "a.zip").read(n) for n in zipfile.ZipFile(tmp_path / "a.zip").namelist()
        )
        for name in (LINE, "primary-line", "backup-line", "approver", '"needs"', '"conflict"'):
            assert name.encode() not in whole, name
        with open_archive(tmp_path / "a.zip") as archive:
            chain, problems = check_archive(archive)
            assert problems == []
            assert chain.left_out == archive.manifest.left_out > 0
            assert archive.manifest.evidence_head == store.head()


def test_the_vendors_report_prints_the_digest_of_his_archive(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        history, judgement = replay(store), audit.judge(store)
        for form in ("html", "json"):
            page = report_bytes(history, judgement, "vendor", form, "en", {}).decode()
            assert contents(store, "vendor").manifest.digest in page
            assert (
                contents(store, "vendor").manifest.digest
                not in report_bytes(history, judgement, "internal", form, "en", {}).decode()
            )


def figures_of(page: str) -> set[str]:
    """The figures a person sees, without our own fixed texts, addresses, the literal requests (checked by digest), and the
    scale of a picture, which is a round number above what it shows."""
    body = page.split("<body>")[1]
    body = re.sub(r'<text class="fill-soft"[^>]*text-anchor="end"[^>]*>[^<]*</text>', " ", body)
    body = re.sub(r"<pre.*?</pre>|<style.*?</style>", " ", body, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", body).replace("&#39;", "'")
    return set(re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])", text))


def test_a_stranger_reproduces_every_figure_of_the_vendors_report(tmp_path):
    """Each figure of the page stands among what the reader works out or reads, or in our own fixed texts."""
    with Store.open(kept("surplus", tmp_path)) as store:
        write_archive(contents(store, "vendor"), tmp_path / "a.zip")
        page = report_bytes(replay(store), audit.judge(store), "vendor", "html", "en", {}).decode()
    seen = json.dumps(read(tmp_path / "a.zip", "--figures"), ensure_ascii=False)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        facts = seen + archive.read("manifest.json").decode()
    own = "\n".join(Catalogue.load("en").messages())
    known = set(re.findall(r"\d+(?:\.\d+)?", facts)) | set(re.findall(r"\d+(?:\.\d+)?", own))
    strange = {f for f in figures_of(page) if f.replace(",", "") not in known and not _rounded(f, known)}
    assert "508" in figures_of(page)
    assert strange == set()


def _rounded(figure: str, known: set[str]) -> bool:
    """A figure printed with two decimals, or cut to milliseconds."""
    text = figure.replace(",", "")
    return any(float(text) == float(k) or (("." in text) and k.startswith(text)) for k in known)


def test_a_run_that_has_not_ended_has_no_vendors_edition(tmp_path):
    with Store.open(kept("waiting", tmp_path)) as store:
        with pytest.raises(UsageError, match="has ended"):
            contents(store, "vendor")
        assert contents(store, "full").manifest.evidence_head == ""


def test_fields_of_a_later_version_are_kept(tmp_path):
    with Store.open(kept("honest", tmp_path)) as store:
        table = json.loads(contents(store, "full").manifest.raw)
    later = Manifest.model_validate({**table, "weather": "rain", "parts": [{**table["parts"][0], "mood": 1}]})
    again = json.loads(later.raw)
    assert again["weather"] == "rain"
    assert again["parts"][0]["mood"] == 1
