"""The buyer's own price file outranks every list."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from relay_audit.errors import TargetError
from relay_audit.prices import PriceFile, read_price_file

FILE = """
[[price]]
side = "relay"
models = ["claude-sonnet-5-5", "claude-opus-*"]
input = "0.6"
output = 3.1
cache_read = "0.06"
source = "contract of 2026-11"
observed = 2026-11-20

[[price]]
side = "official"
models = ["*"]
input = "2"
output = "10"
source = "list"
observed = 2026-11-21
"""


def read(tmp_path, text: str = FILE) -> PriceFile:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return read_price_file(path)


def test_a_price_is_found_by_side_and_model(tmp_path):
    prices = read(tmp_path)
    found = prices.of("relay", "claude-sonnet-5-5")
    assert (found.input, found.output, found.cache_read, found.cache_write_5m, found.per_call) == (
        Decimal("0.6"),
        Decimal("3.1"),
        Decimal("0.06"),
        None,
        None,
    )
    assert (found.source, found.observed, found.assumed) == ("contract of 2026-11", dt.date(2026, 11, 20), False)
    assert prices.of("relay", "claude-opus-9").input == Decimal("0.6")
    assert prices.of("relay", "claude-haiku-4-5") is None
    assert prices.of("official", "anything").input == Decimal(2)
    assert PriceFile().of("relay", "x") is None


def test_the_first_row_that_fits(tmp_path):
    twice = FILE.replace('"official"', '"relay"')
    assert read(tmp_path, twice).of("relay", "claude-sonnet-5-5").input == Decimal("0.6")
    assert read(tmp_path, twice).of("relay", "other").input == Decimal(2)


def test_a_price_per_call(tmp_path):
    text = FILE.replace('cache_read = "0.06"', 'per_call = "0.01"')
    assert read(tmp_path, text).of("relay", "claude-sonnet-5-5").per_call == Decimal("0.01")


def test_money_is_never_a_float(tmp_path):
    assert read(tmp_path, FILE.replace("3.1", "0.1")).of("relay", "claude-sonnet-5-5").output == Decimal("0.1")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"0.6"', '"-1"', "price.0.input"),
        ('"0.6"', '"sk-much"', "price.0.input"),
        ('side = "official"', 'side = "else"', "price.1.side"),
        ("observed = 2026-11-20", "", "price.0.observed"),
        ('source = "list"', 'source = ""', "price.1.source"),
        ('models = ["*"]', "models = []", "price.1.models"),
        ('output = "10"', 'output = "10"\nouput = 1', "price.1.ouput"),
    ],
)
def test_a_fault_is_named_by_place_and_not_quoted(tmp_path, old, new, says):
    with pytest.raises(TargetError) as refused:
        read(tmp_path, FILE.replace(old, new))
    assert says in refused.value.message
    assert "much" not in refused.value.message


def test_files_that_are_none(tmp_path):
    with pytest.raises(TargetError, match="cannot be read"):
        read_price_file(tmp_path / "missing.toml")
    with pytest.raises(TargetError, match="not TOML"):
        read(tmp_path, "[[price")
    (tmp_path / "latin.toml").write_bytes(b"source = '\xff'")
    with pytest.raises(TargetError, match="not TOML"):
        read_price_file(tmp_path / "latin.toml")
    assert read(tmp_path, "").price == ()
