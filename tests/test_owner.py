"""Another tool on the index has our import name: beside it, nothing of ours runs."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from relay_audit import owner
from relay_audit.cli.main import main
from relay_audit.errors import UsageError


def installed(folder: Path, name: str, *files: str) -> Path:
    """A distribution as an installer leaves it."""
    info = folder / f"{name.replace('-', '_')}-2.3.8.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 2.3.8\n", encoding="utf-8")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
    return folder


def test_alone_it_runs():
    owner.check_owner()


@pytest.mark.parametrize("name", owner.ALSO_CALLED_SO)
def test_beside_another_owner_of_the_name_it_does_not(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(installed(tmp_path, name, "relay_audit/__init__.py", "relay_audit/cli.py")))
    with pytest.raises(UsageError) as caught:
        owner.check_owner()
    assert caught.value.exit_code == 2
    assert name in caught.value.message
    assert owner.OURS in caught.value.next_step


def test_a_distribution_that_holds_no_such_package_is_no_matter(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(installed(tmp_path, "relay-audit", "relay_audit_helpers/__init__.py")))
    owner.check_owner()


def test_every_command_asks_first(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(installed(tmp_path, "relay-audit", "relay_audit/__init__.py")))
    monkeypatch.setattr(sys, "argv", ["relay-audit", "probes", "list"])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert "another tool (relay-audit)" in shown.err
    assert not shown.out


def test_our_own_distribution_has_the_other_name():
    assert metadata.distribution(owner.OURS).metadata["Name"] == owner.OURS
    assert owner.OURS not in owner.ALSO_CALLED_SO
