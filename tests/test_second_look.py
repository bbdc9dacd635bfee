"""What is read once more at the end, and what is not: a usage page that lags, a refusal whose charge only an earlier reading
of the log shows."""

from __future__ import annotations

import pytest

from relay_audit.lab import HttpRequest
from relay_audit.reading import Shelf
from relay_audit.relays import dashboard
from relay_audit.second_look import refund_open, usage_page_differs
from relay_audit.settlement import Settlement
from relay_audit.shared_books import SharedBooks
from relay_audit.site_budget import SiteBudget
from tests.audits import LIBRARY
from tests.staged import Staged, json_answer, staged

QUICK = {"profile": "quick", "checks": [2, 6]}
UNRELIABLE = "billing.usage_endpoint_unreliable"


class Page:
    """The lab's own usage page, behind by half of what this run has cost until it was asked often enough."""

    def __init__(self, right_from: int) -> None:
        self.right_from = right_from
        self.stage: Staged | None = None
        self.start: float | None = None

    def __call__(self, seen, before):
        if seen.path != dashboard.USAGE:
            return None
        world = self.stage.world
        headers = tuple(seen.headers.items())
        told = world.relay.handle(HttpRequest("GET", seen.path, headers, b"")).json()["total_usage"]
        if self.start is None:
            self.start = told
        asked = sum(reading.when != "before" for reading in self.stage.history.usage)
        behind = 0 if asked >= self.right_from else (told - self.start) / 2
        return json_answer({"object": "list", "total_usage": told - behind})

    def run(self, tmp_path, scenario: str) -> tuple[Staged, set[str]]:
        self.stage = staged(scenario, tmp_path, audit=QUICK, replace=self)
        return self.stage, {f.code for f in self.stage.whole().findings}


def settled(stage: Staged) -> Settlement:
    """What read the books of a run that has ended."""
    shelf = Shelf(SiteBudget(stage.space.state), SharedBooks(stage.space.state, stage.connections.key_name()))
    ways = stage.connections
    return Settlement(stage.recorder, ways.sides, LIBRARY.knowledge, ways.redactor, shelf)


@pytest.mark.parametrize(("right_from", "reads", "accused"), [(0, 1, False), (1, 2, False), (9, 2, True)])
def test_a_usage_page_that_lags_is_read_once_more_and_no_oftener(tmp_path, right_from, reads, accused):
    stage, codes = Page(right_from).run(tmp_path, "honest")
    after = [u for u in stage.history.usage if u.when != "before" and u.dollars is not None]
    assert len(after) == reads
    last = max(e.sent_at for e in stage.history.sent())
    assert reads == 1 or (after[-1].at - last).total_seconds() >= 10
    assert (UNRELIABLE in codes) is accused
    assert usage_page_differs(settled(stage)) is accused


def test_a_page_that_counts_other_traffic_too_is_not_waited_for(tmp_path):
    stage, _ = Page(9).run(tmp_path, "honest_foreign_rows")
    assert stage.history.log[-1].foreign.within
    assert not usage_page_differs(settled(stage))


def test_a_refusals_charge_counts_as_open_though_the_last_reading_has_dropped_its_row(tmp_path):
    stage = staged("errors_charged", tmp_path, audit={"checks": [4, 6]})
    stage.whole()
    books = settled(stage)
    assert refund_open(books)
    newest = stage.history.log[-1]
    refused = {e.id for e in stage.history.sent() if e.status != 200}
    stage.history.log.append(
        newest.model_copy(update={"rows": tuple(r for r in newest.rows if r.exchange not in refused)})
    )
    assert refund_open(books)
