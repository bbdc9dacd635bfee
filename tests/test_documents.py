"""What people read is in step with the program, names only phenomena, and sends nobody to another's package."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from relay_audit import __version__
from relay_audit.assess import ASSESSORS
from relay_audit.codes import CODES
from relay_audit.errors import EXIT_CODES
from relay_audit.probe import AssessorName
from relay_audit.report.catalogue import Catalogue
from relay_audit.schema import differing
from relay_audit.words import LANGS
from scripts.refresh_readme import CHINESE, FILES, current, help_text

ROOT = Path(__file__).resolve().parent.parent
OURS = ("relay_audit", "probes", "known_fingerprints", "reports", "docs", "scripts", "bench", "tests", ".ci", "skills")
TEXTS = {".md", ".py", ".toml", ".j2", ".css", ".json", ".txt", ".cfg", ".yml", ".yaml", ""}
DOCUMENTS = (
    "README.md",
    "README.zh-CN.md",
    "SKILL.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
)
ENGLISH_INTENT = ("fraud", "fake", "scam", "cheat", "counterfeit", "dishonest", "steal")
INTENT = re.compile(
    rf"欺诈|诈骗|造假|假冒|骗|黑心|掺水|\b(?:{'|'.join(ENGLISH_INTENT)})(?:s|ed|ing|er|ers|ulent)?\b", re.IGNORECASE
)
BARE = (
    re.compile(r"\b(?:uvx|uv tool (?:run|install)|pipx (?:run|install))(?: -\S+)* relay[-_]audit(?!-toolkit)\b"),
    re.compile(
        r"\b(?:pip3?|uv add|uv pip|pipx|poetry add)(?: install)?(?: -{1,2}[\w-]+)* [\"']?relay[-_]audit(?!-toolkit)\b"
    ),
)
PLACES = re.compile(
    "|".join(  # in halves, so that this file is not its own first finding
        "".join(halves)
        for halves in (
            ("pypi", r"\.org"),
            ("python", r"hosted\.org"),
            ("npm", "js"),
            ("mirr", r"ors\."),
            ("--(?:extra-)?index", "-url"),
            ("PIP", "_INDEX"),
            ("UV", "_INDEX"),
            ("--find", "-links"),
            ("regis", r"try\."),
        )
    ),
    re.IGNORECASE,
)
MACHINE = re.compile(r"(?<![\w.])/" + "work/|/tmp/" + "b(?:rief|ash)")


def repository() -> Iterator[tuple[str, str]]:
    """Every text of the repository, by its path in it."""
    files = [path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".git")]
    for folder in OURS:
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in files:
        if path.suffix in TEXTS:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace")


REPOSITORY = dict(repository())
ELSEWHERE = {name: text for name, text in REPOSITORY.items() if name != "tests/test_documents.py"}
"""Without this file, which holds what it looks for."""


def hits(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [f"{name}: {found[0]}" for name, text in texts.items() if (found := pattern.search(text))]


def test_the_search_itself_finds_what_it_looks_for():
    assert {"README.md", "Makefile", ".ci/run", "relay_audit/owner.py", "tests/test_documents.py"} <= set(REPOSITORY)
    for line in (
        "uvx relay-audit run",
        "uvx --quiet relay-audit",
        "pip install relay-audit",
        "pip install -U relay_audit",
    ):
        assert any(pattern.search(line) for pattern in BARE), line
    for line in (
        "uvx --from relay-audit-toolkit==0.1.0 relay-audit",
        "pip install relay-audit-toolkit",
        "pip uninstall x",
    ):
        assert not any(pattern.search(line) for pattern in BARE), line
    assert INTENT.search("a fake one")
    assert INTENT.search("掺水")
    assert not INTENT.search("stealth")


def test_no_text_installs_the_bare_name():
    assert not [hit for pattern in BARE for hit in hits(pattern, ELSEWHERE)]


def test_no_text_names_another_place_to_install_from():
    assert not hits(PLACES, ELSEWHERE)


def test_no_text_names_the_machine_it_was_written_on():
    assert not hits(MACHINE, ELSEWHERE)


def test_only_phenomena_are_named():
    """Rule 10: a word about intent stands in no document, no datum and no text of a report."""
    folders = ("docs/", "probes/", "known_fingerprints/", "reports/", "skills/")
    spoken = {name: text for name, text in REPOSITORY.items() if name in DOCUMENTS or name.startswith(folders)}
    spoken |= {
        name: REPOSITORY[name] for name in REPOSITORY if name.startswith(("relay_audit/cli/", "relay_audit/lab/sc"))
    }
    assert len(spoken) > 30
    assert not hits(INTENT, spoken)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name):
    links = re.findall(r"\]\(([^)#\s]+)\)", REPOSITORY[name])
    assert not [link for link in links if not link.startswith("https://") and not (ROOT / link).exists()]


def test_every_file_that_is_named_exists():
    """Paths in backticks, and tests by name."""
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        for path, test in re.findall(r"`((?:\w+/)+[\w.-]+\.\w+)(?:::(\w+))?`", REPOSITORY[name]):
            assert (ROOT / path).is_file(), f"{name}: {path}"
            assert not test or f"def {test}(" in REPOSITORY[path], f"{name}: {path}::{test}"


def test_generated_documents_are_what_the_definitions_say():
    assert not differing(ROOT)


@pytest.mark.parametrize("name", FILES)
def test_readme_holds_the_help_and_the_exit_codes_of_this_version(name):
    assert REPOSITORY[name] == current(name), "make docs"
    assert help_text() in REPOSITORY[name]
    assert all(f"\n| {code} | " in REPOSITORY[name] for code in EXIT_CODES)


def test_the_chinese_exit_codes_are_the_same_ones():
    assert list(CHINESE) == list(EXIT_CODES)


def test_one_version_everywhere():
    project = tomllib.loads(REPOSITORY["pyproject.toml"])["project"]
    assert project["version"] == __version__
    assert f"## [{__version__}]" in REPOSITORY["CHANGELOG.md"]
    assert "### Probes and fingerprints" in REPOSITORY["CHANGELOG.md"].split(f"## [{__version__}]")[1]
    pinned = re.findall(r"relay-audit-toolkit==([\w.]+)", "".join(REPOSITORY[name] for name in DOCUMENTS))
    assert set(pinned) == {__version__}


def test_every_dependency_is_defended():
    project = tomllib.loads(REPOSITORY["pyproject.toml"])
    lists = [
        project["project"]["dependencies"],
        *project["dependency-groups"].values(),
        *project["project"]["optional-dependencies"].values(),
    ]
    defended = REPOSITORY["ARCHITECTURE.md"].split("## What we lean on")[1].split("\n## ")[0]
    for line in (entry for entries in lists for entry in entries):
        package = re.match(r"[\w-]+", line)
        assert package
        assert re.search(rf"`{package[0]}[\[`]", defended), line


def test_the_stub_for_agents():
    _, front, body = REPOSITORY["SKILL.md"].split("---\n", 2)
    fields = dict(re.findall(r"^(\w+): *(.*)$", front, re.MULTILINE))
    assert fields["name"] == "relay-audit"
    assert len(fields["description"]) <= 1024
    assert all(word in fields["description"] for word in ("中转站", "验货", "relay"))
    assert re.search(r"^metadata:\n  internal: true$", front, re.MULTILINE)
    assert all(f"relay-audit {command}" in body for command in ("skill show", "skill install"))
    assert "an agent never does" in body


def test_a_probe_may_name_every_assessor():
    """`run_state` always runs and is named by nobody."""
    assert set(get_args(AssessorName)) == set(ASSESSORS) - {"run_state"}


@pytest.mark.parametrize("lang", LANGS)
def test_every_code_has_its_texts_in_both_languages(lang):
    words = Catalogue.load(lang)
    parts = ("title", "claim", "means", "not_proven", "other", "refuted")
    assert not [f"{code}.{part}" for code in CODES for part in parts if not words.knows(f"finding.{code}.{part}")]


def test_help_stays_light():
    """To say what the commands are, no command is loaded; and no command loads a media library or the price package."""
    heavy = ("c2pa", "pymediainfo", "weasyprint", "genai_prices")
    code = (
        "import sys\nfrom relay_audit.cli.main import main\nsys.argv = ['relay-audit', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loaded = [m for m in ('httpx', 'jinja2', 'relay_audit.audit', 'relay_audit.lab') if m in sys.modules]\n"
        "from relay_audit.cli.commands import COMMANDS, built\n"
        "assert all(built(name, row).params is not None for name, row in COMMANDS.items()) and 'httpx' in sys.modules\n"
        f"sys.exit(','.join(loaded + [m for m in {heavy!r} if m in sys.modules]) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: relay-audit" in done.stdout
