"""When a sum may be called the relay's own: by its rows, by all of them, and never by refusals alone."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relay_audit.ledger import Entry
from relay_audit.multiple import BOOKS, FORECAST, from_books


def _entry(amount: str, basis: str) -> Entry:
    return Entry(exchange="ex-1", line="l", side="relay", state="settled", amount=Decimal(amount), basis=basis)


@pytest.mark.parametrize(
    ("settled", "told"),
    [
        ((), False),
        ((("0", FORECAST), ("0", FORECAST)), False),
        ((("0", FORECAST), ("0.01", BOOKS)), True),
        ((("0.02", FORECAST), ("0.01", BOOKS)), False),
        ((("0.02", BOOKS), ("0.01", BOOKS)), True),
    ],
)
def test_a_sum_is_from_the_books_where_every_row_that_cost_something_is(settled, told) -> None:
    assert from_books([_entry(*row) for row in settled]) is told
