"""What is taken away leaves a tombstone; the chain stays whole, the findings stay as they were judged."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay_audit import audit
from relay_audit.archive.contents import contents
from relay_audit.archive.removal import purge_bytes, withhold
from relay_audit.cli.main import app
from relay_audit.errors import UsageError
from relay_audit.filing import report_bytes
from relay_audit.recorder import Recorder
from relay_audit.replay import replay
from relay_audit.store import Store
from relay_audit.verification import verify_run
from tests.archive.runs import kept
from tests.audits import TestClock
from tests.staged import staged

START = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
"""When the lab's runs begin."""


def cli(*arguments: str, exit_code: int = 0) -> dict:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == exit_code, done.output + repr(done.exception)
    return json.loads(done.stdout.splitlines()[-1])


def blob_of(store: Store, type_: str, exchange: str = "") -> str:
    return next(
        e.payload_ref for e in store.events() if e.type == type_ and exchange in ("", e.payload.get("exchange", ""))
    )


def test_a_withheld_answer_leaves_its_digest_and_changes_no_finding(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        before, head = audit.judge(store), store.head()
        page = report_bytes(replay(store), before, "internal", "json", "en", {})
        shas = [blob_of(store, "exchange.recorded", x) for x in before.findings[0].exchanges[:5]]
        for sha in shas:
            removed = withhold(Recorder(store, TestClock()), sha, "somebody's address stood in it")
            assert removed.blobs == 1
            assert not (store.path / "blobs" / sha).exists()
            assert withhold(Recorder(store, TestClock()), sha[:16], "again").blobs == 0
        found = verify_run(store, [], {})
        assert (found.problems, [n.code for n in found.notes]) == ([], ["withheld"])
        assert audit.judge(store).findings == before.findings
        assert store.head() == head
        assert report_bytes(replay(store), audit.judge(store), "internal", "json", "en", {}) == page
        gone = {item.sha256: item for item in contents(store, "full").manifest.withheld}
        assert set(gone) == set(shas)
        assert b"somebody's address" in contents(store, "full").members[0][1]()


def test_what_carries_the_run_is_not_withheld(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        for type_ in ("run.created", "plan.created", "quote.issued", "discovery.recorded", "assessment.recorded"):
            with pytest.raises(UsageError, match="carries the run"):
                withhold(Recorder(store, TestClock()), blob_of(store, type_), "")
        with pytest.raises(UsageError, match="no blob"):
            withhold(Recorder(store, TestClock()), "0" * 64, "")


def test_a_run_that_may_still_need_its_bytes_keeps_them(tmp_path):
    with Store.open(kept("waiting", tmp_path)) as store, pytest.raises(UsageError, match="not ended"):
        purge_bytes(Recorder(store, TestClock()))


def test_a_report_goes_with_its_blob(tmp_path):
    with Store.open(kept("surplus", tmp_path)) as store:
        withhold(Recorder(store, TestClock()), blob_of(store, "artifact.created"), "sent by mistake")
        assert len(list(store.reports.iterdir())) == 1
        assert verify_run(store, [], {}).problems == []


def test_purge_keeps_findings_and_lists_what_servers_may_hold(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    run = kept("surplus", tmp_path)
    with Store.open(run) as store:
        before = audit.judge(store)
    rows = cli("purge", run.name, "--keep-findings")["purged"][0]
    assert rows["findings_kept"]
    copies = rows["server_copies"]
    sent = [e for e in before.evidence.exchanges if e.request.body is not None]
    assert len(copies) == len(sent) > 20
    assert {c["side"] for c in copies} == {"relay", "official"}
    assert all(
        c["untrusted_id"].startswith("msg_")
        for c in copies
        if c["side"] == "relay" and c["exchange"] in before.findings[0].exchanges
    )
    assert all("unknown" in c["retention"] for c in copies if c["side"] == "relay")
    assert all("30 days" in c["retention"] for c in copies if c["side"] == "official")
    whole = b"".join(p.read_bytes() for p in (run / "blobs").iterdir())
    assert b'input_tokens\\":' not in whole
    with Store.open(run) as store:
        assert audit.judge(store).findings == before.findings
        assert verify_run(store, [], {}).problems == []
    assert cli("verify", run.name)["withheld"] > 20
    assert cli("purge", run.name, "--keep-findings")["purged"][0]["blobs"] == 0


def test_purge_removes_the_whole_run(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    run = kept("honest", tmp_path)
    assert cli("purge", run.name)["purged"][0]["run_id"] == run.name
    assert list(tmp_path.iterdir()) == []
    done = CliRunner().invoke(app, ["purge", run.name])
    assert done.exit_code != 0


def test_old_runs_are_purged_and_younger_ones_left(tmp_path, monkeypatch):
    """Ninety days to the day: of an old run the findings stay and its prompts go; a run of today keeps all it has."""
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    run = kept("honest", tmp_path)
    monkeypatch.setattr("tests.staged.TestClock", lambda: TestClock(START + dt.timedelta(days=60)))
    later = staged("honest", tmp_path / "later", audit={"profile": "quick"})
    later.whole()
    later.recorder.store.close()
    young = Path(shutil.move(later.recorder.store.path, tmp_path / later.recorder.store.run_id))
    with Store.open(run) as store:
        before = audit.judge(store).findings
    asked = ("purge", "--older-than", "90d", "--keep-findings")
    monkeypatch.setattr(
        "relay_audit.cli.remove.SystemClock", lambda: TestClock(START + dt.timedelta(days=90, minutes=-1))
    )
    assert cli(*asked)["purged"] == []
    monkeypatch.setattr("relay_audit.cli.remove.SystemClock", lambda: TestClock(START + dt.timedelta(days=90, hours=1)))
    gone = cli(*asked)
    assert [(row["run_id"], row["findings_kept"]) for row in gone["purged"]] == [(run.name, True)]
    assert gone["skipped"] == []
    assert cli(*asked)["purged"] == [], "nothing more to take"
    with Store.open(run) as store:
        assert audit.judge(store).findings == before != ()
        assert all(e.failure == "withheld" for e in replay(store).exchanges.values())
    with Store.open(young) as store:
        assert not [e for e in replay(store).exchanges.values() if e.failure == "withheld"]


@pytest.mark.parametrize("arguments", [[], ["latest"], ["x", "--older-than", "9d"], ["--older-than", "soon"]])
def test_what_is_to_go_is_named(tmp_path, monkeypatch, arguments):
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    assert CliRunner().invoke(app, ["purge", *arguments]).exit_code != 0


def test_both_languages_say_what_may_remain(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    run = kept("surplus", tmp_path)
    said = CliRunner().invoke(app, ["purge", run.name, "--keep-findings", "--lang", "zh-CN"]).stdout
    assert "服务器" in said
    assert "msg_" in said
    assert Path(run).is_dir()
