"""Golden reports: what three whole runs look like to each reader, word for word. `make golden` writes them anew."""

from __future__ import annotations

import pytest

from tests.report import golden

LIGHT = [("video", golden.FORMS), ("faulty", ("md", "text"))]
HEAVY = [("honest", golden.FORMS), ("faulty", ("html", "json"))]


@pytest.mark.parametrize(
    ("run", "forms"), [*LIGHT, *(pytest.param(*row, marks=pytest.mark.deep) for row in HEAVY)], ids=str
)
def test_every_report_is_what_was_reviewed_and_the_guard_refuses_none(run, forms, tmp_path) -> None:
    made = dict(golden.reports(run, tmp_path, forms))  # raises where the guard refuses one
    assert set(made) == {wanted for wanted in golden.WANTED if wanted.run == run and wanted.form in forms}
    differing = [wanted.file.name for wanted, text in made.items() if text != golden.expected(wanted)]
    assert not differing, "make golden, and review the diff"


def test_there_is_no_golden_report_that_nobody_makes() -> None:
    kept = {path for path in golden.DATA.rglob("*") if path.is_file() and path.suffix != ".xz"}
    assert kept == {wanted.file for wanted in golden.WANTED}


def test_ids_and_times_do_not_show_in_a_diff_and_everything_else_does() -> None:
    one = "20261130-0300-abcdef at 2026-11-30 03:00:20.549, then 2026-11-30 03:00:21.1: msg_01AbCdEfGh, 508 tokens"
    two = "20271201-0411-zzzzzz at 2027-12-01 04:11:20.549, then 2027-12-01 04:11:21.1: msg_01ZzZzZzZz, 508 tokens"
    assert golden.normalised(one.encode()) == golden.normalised(two.encode())
    assert golden.normalised(one.encode()) != golden.normalised(two.replace("508", "509").encode())
    same = one.replace("03:00:21.1", "03:00:20.549")
    assert golden.normalised(one.encode()) != golden.normalised(same.encode())  # which of them are equal stays visible
