"""Data folders are found in a wheel's layout and in a checkout, and a missing one is said plainly."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_audit import resources
from relay_audit.errors import StoreError
from relay_audit.resources import ResourceNotFound, folder


@pytest.mark.parametrize("name", ["probes", "known_fingerprints", "probes/anthropic"])
def test_the_shipped_folders_are_there(name):
    assert any(entry.name.endswith(".toml") for entry in folder(name).iterdir())


def test_the_wheel_s_copy_comes_first(tmp_path, monkeypatch):
    inside = tmp_path / "_data" / "probes"
    inside.mkdir(parents=True)
    (inside / "wordlists.toml").write_text("from the wheel", encoding="utf-8")
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    assert folder("probes").joinpath("wordlists.toml").read_text(encoding="utf-8") == "from the wheel"
    # what the wheel does not hold is looked for beside the package
    assert Path(str(folder("known_fingerprints"))) == resources.checkout() / "known_fingerprints"


def test_a_missing_folder_is_our_fault_and_says_what_to_do():
    with pytest.raises(ResourceNotFound) as caught:
        folder("no/such/folder")
    assert isinstance(caught.value, StoreError)
    assert caught.value.exit_code == 70
    assert "no/such/folder" in caught.value.message
    assert "install" in caught.value.next_step
