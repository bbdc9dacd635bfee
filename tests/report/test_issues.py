"""Versions of a report, from the command line: what one replaces, why, and that a withdrawn one says so from then on."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from relay_audit.cli.main import app
from relay_audit.errors import UsageError
from tests.report import golden


def test_a_version_names_the_one_that_it_replaces_and_the_last_one_stands(tmp_path, monkeypatch) -> None:
    with golden.opened("honest", tmp_path) as (history, _):
        run = history.store.run_id
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path / "audits"))
    monkeypatch.setenv("RELAY_AUDIT_HOME", str(tmp_path / "home"))

    def page(*more: str) -> str:
        done = CliRunner().invoke(app, ["report", run, "--for", "vendor", "--format", "md", "--lang", "en", *more])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0
        return done.stdout.replace("\\", "")

    first = page()
    number = f"RA-{run.split('-')[0]}-{run.split('-')[-1]}"
    assert f"{number} / 1" in first
    assert "replaces" not in first
    for wrong in (["--because", "x"], ["--withdraw", "x"], ["--supersedes", "2"],
                  ["--supersedes", "1", "--because", "x" * 301]):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            page(*wrong)
        assert caught.value.next_step
    assert page() == first, "nothing was recorded"
    second = page("--supersedes", "1", "--because", "the <b>log</b> was read again")
    assert f"{number} / 2" in second
    assert "replaces version 1, because: the <b>log</b> was read again" in second
    with pytest.raises(UsageError) as caught:
        page("--supersedes", "1")
    assert "that is version 2" in caught.value.message
    page("--supersedes", "2", "--withdraw", "the key was in another group")
    standing = page()
    assert f"{number} / 3" in standing
    told = "This report is withdrawn and no longer holds: the key was in another group"
    assert told in standing
    assert standing.index(told) < standing.index("**Backend**"), "before anything else"
    chat = CliRunner().invoke(app, ["report", run, "--for", "vendor", "--format", "text", "--lang", "zh-CN"])
    assert "the key was in another group" in chat.stdout
    assert "--for internal" not in chat.stderr, "who asked for an edition knows which one it is"
    unasked = CliRunner().invoke(app, ["report", run, "--format", "text", "--lang", "zh-CN"])
    assert unasked.stdout.startswith("大模型中转验货·公开版")
    assert "--for internal" in unasked.stderr
