"""Whose is the record? Five questions, one test each; and archives of every released schema, which stay readable."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from relay_audit import audit
from relay_audit.archive.contents import contents
from relay_audit.archive.removal import purge_bytes, what_goes
from relay_audit.archive.unpack import unpack
from relay_audit.archive.zipped import open_archive, write_archive
from relay_audit.explanation import explain
from relay_audit.filing import report_bytes
from relay_audit.library import archived_library
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.store import Store
from relay_audit.verification import verify_run
from relay_audit.workspace import Workspace
from tests.archive.runs import kept
from tests.audits import TestClock

RELEASED = sorted((Path(__file__).resolve().parents[1] / "data" / "archives").glob("schema_*.zip"))


def test_inspect_every_request_and_answer_is_there_as_it_was(tmp_path):
    """Exact bytes of each request (its digest fits), each answer with its headers, and no key in either."""
    with Store.open(kept("surplus", tmp_path)) as store:
        exchanges = [e for e in replay(store).exchanges.values() if e.request.body is not None]
        assert len(exchanges) > 20
        for exchange in exchanges:  # byte for byte, but where an account stood in it
            hidden = "[account:" in json.dumps(exchange.request.body)
            assert hidden or _digest(exchange.request.body) == exchange.request.body_sha256
        for exchange in exchanges:
            assert exchange.response is not None
            assert exchange.response.headers


def _digest(body: object) -> str:
    return hashlib.sha256(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def test_export_the_file_needs_no_server_and_no_other_file(tmp_path):
    """Every blob has a readable neighbour; every id of a server stands beside the answer it names."""
    with Store.open(kept("surplus", tmp_path)) as store:
        packed = contents(store, "full")
        write_archive(packed, tmp_path / "a.zip")
    manifest = packed.manifest
    assert all(blob.about and blob.kind for blob in manifest.blobs)
    assert set(manifest.packs) | set(manifest.knowledge)
    stored = {name.removeprefix("blobs/") for name in zipfile.ZipFile(tmp_path / "a.zip").namelist()}
    assert {blob.sha256 for blob in manifest.blobs} <= stored
    about = " ".join(blob.about for blob in manifest.blobs)
    assert all(copy.exchange in about for copy in manifest.server_copies)
    assert all(item.neighbour for item in manifest.sealed)


def test_replay_both_reports_are_made_again_from_the_file_alone(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        write_archive(contents(store, "full"), tmp_path / "a.zip")
        pages = {path.name: path.read_bytes() for path in store.reports.iterdir()}
    with open_archive(tmp_path / "a.zip") as archive:
        place = unpack(archive, Workspace(tmp_path / "x", tmp_path / "s", tmp_path / "c"), "0" * 64, TestClock().now())[
            0
        ]
    with Store.open(place) as back:
        for name, page in pages.items():
            audience = name.split(".")[0]
            assert report_bytes(replay(back), audit.judge(back), audience, "html", "en", {}) == page, name


def test_audit_each_finding_leads_to_plan_price_approval_and_answer(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        judgement, library = audit.judge(store), archived_library(replay(store))
        found = next(f for f in judgement.findings if f.code == "tokens.constant_surplus")
        told = explain(store, judgement, library, found.id)
        assert told.approval is not None
        assert told.rule
        paid = [link for link in told.links if link.exchange.side == "relay"]
        assert paid
        assert all(link.probe and link.price and link.intent and link.outcome for link in paid)
        assert all((link.billed or 0) - (link.counted or 0) == 508 for link in paid)
        assert all(link.intent.seq < link.outcome.seq for link in paid)


def test_delete_what_is_here_goes_and_what_is_elsewhere_is_named(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        sent = [e.id for e in replay(store).exchanges.values() if e.request.body is not None]
        assert [copy.exchange for copy in what_goes(store).server_copies] == sorted(sent)
        before = audit.judge(store).findings
        removed = purge_bytes(Recorder(store, TestClock()))
        assert removed.blobs > len(sent)
        assert audit.judge(store).findings == before


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_an_archive_of_every_released_schema_loads_verifies_is_judged_and_rendered(path, tmp_path):
    with open_archive(path) as archive:
        space = Workspace(tmp_path / "x", tmp_path / "s", tmp_path / "c")
        place = unpack(archive, space, "0" * 64, dt.datetime(2028, 11, 30, tzinfo=dt.UTC))[0]
    with Store.open(place) as store:
        assert verify_run(store, [], {}).problems == []
        judgement = audit.judge(store)
        assert "tokens.constant_surplus" in {finding.code for finding in judgement.findings}
        for audience in ("vendor", "internal"):
            for lang in ("en", "zh-CN"):
                assert b"508" in report_bytes(replay(store), judgement, audience, "html", lang, {})
        assert audit.judge(store, current=True).findings


def test_there_is_one_for_each():
    assert [path.stem for path in RELEASED] == ["schema_1"]
