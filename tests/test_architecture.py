"""The tables in ARCHITECTURE.md are the law: who may import whom, who alone touches which library, what size is."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from functools import cache
from pathlib import Path

import pytest

from relay_audit.cli.commands import COMMANDS, built

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "relay_audit"
FILES = {
    ".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f for f in PACKAGE.rglob("*.py")
}
TREES = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in FILES.items()}
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LONGEST_MODULE, LONGEST_FUNCTION, MEDIAN_MODULE, LONG_FUNCTIONS_FROM = 350, 60, 130, 30


def block(heading: str) -> list[list[str]]:
    """The words of each line of the fenced block under a heading of ARCHITECTURE.md."""
    fenced = re.search(rf"^## {heading}\n.*?```text\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL)
    assert fenced, heading
    return [line.split() for line in fenced[1].splitlines() if line.strip()]


@cache
def imports(name: str) -> set[str]:
    """Full names of what a module imports; of our own, the module and not what is taken out of it."""
    found: set[str] = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full if full in FILES else str(node.module) for full in whole}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Command":
            found.add(f"relay_audit.cli.{ast.literal_eval(node.args[0])}")  # loaded when it is called
    return found


@cache
def ours(name: str) -> set[str]:
    return {other for other in imports(name) if other in FILES and other not in ("relay_audit", name)}


def place(name: str) -> str:
    """The entry of the table a module stands under: itself, or its package."""
    return name.split(".")[1] if "." in name else ""


ROWS = block("Who may import whom")
ORDER = [word.rstrip("/") for row in ROWS for word in row[1:]]
LAYER = {word.rstrip("/"): row[0] for row in ROWS for word in row[1:]}
ALONE = {row[0]: set(row[1:]) for row in block("One importer each")}


def test_every_module_stands_in_the_table_once():
    assert len(ORDER) == len(set(ORDER))
    assert set(ORDER) == {place(name) for name in FILES} - {""}


def test_what_each_module_holds_is_said_once_and_under_its_own_layer():
    prose = TEXT[TEXT.index("## Where things are") : TEXT.index("Data are not Python")]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in prose.splitlines() if line.startswith("|")]
    said, layer = [], ""
    for label, modules, holds in rows[2:]:
        layer = label or layer
        assert holds
        said += [(module, layer) for module in re.findall(r"`(\w+)/?`", modules)]
    assert sorted(said) == sorted(LAYER.items())


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_module_imports_only_what_stands_before_it(name):
    here = place(name)
    before = set(ORDER[: ORDER.index(here)]) if here else set()
    wrong = {other for other in ours(name) if place(other) != here and place(other) not in before}
    assert not wrong, f"{name} may not import {wrong}"


def test_there_is_no_cycle_inside_a_package_either():
    left = {name: ours(name) for name in FILES}
    while free := {name for name, needs in left.items() if not needs & set(left)}:
        left = {name: needs for name, needs in left.items() if name not in free}
    assert not left, f"in a cycle: {sorted(left)}"


def test_what_is_imported_is_imported_at_the_top():
    inside = {
        f"{name}.{node.name}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ast.walk(node)
        if isinstance(part, ast.Import | ast.ImportFrom)
    }
    assert not inside


def test_only_commands_are_loaded_by_name_and_every_one_says_what_the_table_says():
    by_name = {name for name, tree in TREES.items() if {"import_module", "__import__"} & names_in(tree)}
    assert by_name == {"relay_audit.cli.commands", "relay_audit.media.worker"}  # the second: a child of its own
    for name, row in COMMANDS.items():
        said = built(name, row).help.split("\n\n")[0].replace("\n", " ")
        assert said == row.what
        assert len(said) > 10
    loaded = {other for other in imports("relay_audit.cli.commands") if other in FILES}
    assert loaded == {f"relay_audit.cli.{row.module}" for row in COMMANDS.values()}


def names_in(tree: ast.AST) -> set[str]:
    return {node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(tree)
            if isinstance(node, ast.Attribute | ast.Name)}  # fmt: skip


@pytest.mark.parametrize("library", sorted(ALONE))
def test_a_library_is_touched_only_where_the_table_says(library):
    used = {place(name) for name in FILES if library in {other.split(".")[0] for other in imports(name)}}
    assert used == {word.rstrip("/") for word in ALONE[library]} - {"nobody"}


def test_every_dependency_and_every_other_import_is_known():
    known = {*ALONE, "pydantic", "relay_audit", *sys.stdlib_module_names}
    foreign = {(n, other) for n in FILES for other in imports(n) if other.split(".")[0] not in known}
    assert not foreign


def test_the_thought_has_no_world():
    """Words, things and thought: no file, socket, clock, process or environment."""
    world = {
        "os",
        "pathlib",
        "socket",
        "ssl",
        "sqlite3",
        "asyncio",
        "subprocess",
        "time",
        "tempfile",
        "shutil",
        "sys",
        "threading",
    }
    pure = [n for n in FILES if LAYER.get(place(n)) in ("words", "things", "thought") and place(n) != "clock"]
    assert len(pure) > 15
    assert not {(n, other) for n in pure for other in imports(n) if other.split(".")[0] in world}


def test_the_lab_stands_alone():
    """What we are measured against: the standard library and itself; only the talking layer starts it."""
    lab = [name for name in FILES if place(name) == "lab"]
    known = {"relay_audit", *sys.stdlib_module_names}
    assert not {(n, o) for n in lab for o in imports(n) if o.split(".")[0] not in known}
    assert not {(n, o) for n in lab for o in ours(n) if place(o) != "lab"}
    assert {place(n) for n in FILES if any(place(o) == "lab" for o in ours(n))} == {"lab", "cli"}


def test_modules_and_functions_keep_their_size():
    lines = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in FILES.items()}
    sizes = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: n for name, n in lines.items() if n > LONGEST_MODULE}
    assert not {name: n for name, n in sizes.items() if n > LONGEST_FUNCTION}
    assert statistics.median(lines.values()) <= MEDIAN_MODULE
    assert statistics.quantiles(sizes.values(), n=10)[-1] <= LONG_FUNCTIONS_FROM


def test_every_module_says_what_it_is_for():
    assert not [name for name, tree in TREES.items() if not ast.get_docstring(tree)]


def test_the_files_of_data_hold_no_python():
    for folder in ("probes", "known_fingerprints", "reports/templates", "skills"):
        assert not list((ROOT / folder).rglob("*.py")), folder
