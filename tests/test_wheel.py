"""The wheel, built from the sdist and installed outside the checkout, holds every data folder and runs the main job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel
ROOT = Path(__file__).resolve().parent.parent
DATA = ("probes", "known_fingerprints", "reports/templates")


def call(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with sdist and wheel; the wheel is made out of the sdist, as an installer would make it."""
    dist = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--outdir", dist, ROOT, cwd=dist)
    return dist


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own, nowhere near the checkout."""
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home / "venv", with_pip=True)
    binaries = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
    call(binaries / "python", "-m", "pip", "install", "--quiet", wheel, cwd=home)
    return binaries


def shipped() -> set[str]:
    """Every file of the data folders in the checkout, as the wheel names it."""
    found = (path for folder in DATA for path in (ROOT / folder).rglob("*") if path.is_file())
    files = [path for path in found if path.parent.name != "__pycache__"]  # templates compiled on this machine
    return {f"relay_audit/_data/{path.relative_to(ROOT).as_posix()}" for path in files}


def test_every_data_file_is_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert any(name.count("/") >= 5 for name in shipped()), "a folder two levels deep is among them"
    assert {
        "relay_audit/_data/probes/anthropic/pack.toml",
        "relay_audit/_data/known_fingerprints/prices/anthropic.toml",
    } <= names
    assert shipped() <= names
    assert "relay_audit/py.typed" in names


def test_nothing_else_is_in_the_wheel(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"relay_audit"}


def test_the_sdist_holds_what_a_rebuild_needs_and_no_runs(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"README.md", "README.zh-CN.md", "LICENSE", "SECURITY.md", "tests/test_wheel.py"} <= names
    assert not [name for name in names if name.startswith((".venv", ".ci", "audits", ".git/"))]


def test_the_installed_command_knows_its_probes(installed, tmp_path):
    done = call(installed / "relay-audit", "probes", "list", "--json", cwd=tmp_path)
    ids = {row["id"] for row in json.loads(done.stdout)["probes"]}
    files = {path.relative_to(ROOT / "probes").with_suffix("").as_posix() for path in (ROOT / "probes").rglob("*.toml")}
    assert {name for name in files - ids if not name.endswith("/pack")} == {"wordlists"}
    call(installed / "relay-audit", "fingerprints", "check", cwd=tmp_path)


def test_the_installed_command_does_the_main_job(installed, tmp_path):
    done = call(installed / "relay-audit", "demo", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert [finding["code"] for finding in result["findings"] if finding["severity"] != "info"] == [
        "tokens.constant_surplus"
    ]
    assert all(Path(path).is_file() for path in result["reports"].values())
    assert len(result["reports"]) == 2


def test_the_installed_package_is_the_wheel_s(installed, tmp_path):
    done = call(installed / "python", "-c", "import relay_audit; print(relay_audit.__file__)", cwd=tmp_path)
    assert str(ROOT) not in done.stdout
