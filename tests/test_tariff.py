"""A relay's arithmetic: public rows come out exactly, expressions are read by a grammar and never run."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_audit.tariff import Tariff
from relay_audit.tariff_expression import Circumstances, decoded, dollars_of, same_expression
from relay_audit.usage import Usage

AT = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
PER_UNIT = 500_000
CLAUDE = Tariff(model=Decimal("1.5"), completion=Decimal(5), cache_read=Decimal("0.1"))


def worth(expression: str, usage: Usage, **around) -> Decimal | None:
    return dollars_of(expression, usage, Circumstances(around.pop("at", AT), **around))


def test_the_published_default_rounds_half_up():
    """10 in, 7 out, ratio 1.5, completion 5: 67.5 becomes 68, which is $0.000136."""
    assert CLAUDE.quota(Usage(input=10, output=7), PER_UNIT, AT) == 68
    assert CLAUDE.exact(Usage(input=10, output=7), PER_UNIT, AT) == Decimal("67.5")


def test_a_public_reconciliation_comes_out():
    """An issue's figures in CNY per million: the whole is 0.06850, and the gap to the charge is the cache write."""
    tariff = Tariff(model=Decimal("0.875"), completion=Decimal(5), cache_read=Decimal("0.1"))
    usage = Usage(input=24_951, output=854, cache_read=64_126, cache_write_5m=2_805)
    exact = tariff.exact(usage, PER_UNIT, AT)
    assert exact is not None
    assert round(exact / PER_UNIT, 4) == Decimal("0.0685")
    without = tariff.exact(usage.model_copy(update={"cache_write_5m": 0}), PER_UNIT, AT)
    assert without is not None
    assert round(without / PER_UNIT, 5) == Decimal("0.06236")


@pytest.mark.parametrize(
    ("tariff", "usage", "quota"),
    [
        (Tariff(fixed=Decimal("0.01"), group=Decimal("0.5")), Usage(input=9, output=9), 2500),
        (Tariff(fixed=Decimal("0.01")), Usage(input=0, output=0), 5000),
        (Tariff(fixed=Decimal("0.01"), factor=Decimal(4)), Usage(input=9, output=9), 20_000),
        (Tariff(model=Decimal(1), surcharge=Decimal("0.01")), Usage(input=10, output=0), 5010),
        (Tariff(model=Decimal("0.01")), Usage(input=10, output=0), 1),
        (Tariff(model=Decimal("0.01")), Usage(input=0, output=0), 0),
        (Tariff(model=Decimal(0)), Usage(input=10, output=10), 0),
        (Tariff(model=Decimal(1), group=Decimal(0)), Usage(input=10, output=10), 0),
        (Tariff(model=Decimal(1)), Usage(input=0, cache_write_1h=100, output=0), 200),
        (Tariff(model=Decimal(1)), Usage(input=0, cache_write_5m=100, output=0), 125),
        (Tariff(expression='tier("base", p * 3 + c * 15)', group=Decimal("0.5")), Usage(input=1000, output=100), 1125),
        (Tariff(expression="u(1)"), Usage(input=1000, output=100), None),
    ],
)
def test_every_kind_of_tariff(tariff, usage, quota):
    assert tariff.quota(usage, PER_UNIT, AT) == quota


def test_an_hour_costs_more_than_five_minutes():
    rates = Tariff(model=Decimal(1)).rates(PER_UNIT)
    assert (rates["input"], rates["cache_write_5m"], rates["cache_write_1h"]) == (2, Decimal("2.5"), 4)
    assert Tariff(fixed=Decimal(1)).rates(PER_UNIT) == {}


LONG = (
    'len <= 200000 ? tier("standard", p * 3 + c * 15 + cr * 0.3 + cc * 3.75 + cc1h * 6) '
    ': tier("long_context", p * 6 + c * 22.5 + cr * 0.6 + cc * 7.5 + cc1h * 12)'
)


@pytest.mark.parametrize(
    ("expression", "usage", "dollars"),
    [
        ('tier("base", p * 2.5 + c * 15 + cr * 0.25)', Usage(input=800, cache_read=200, output=10), "0.0022"),
        ('tier("base", p * 2.5 + c * 15)', Usage(input=800, cache_read=200, output=10), "0.00265"),
        (LONG, Usage(input=1000, output=10, cache_write_1h=100), "0.00375"),
        (LONG, Usage(input=1000, output=10, cache_read=200_000), "0.126225"),
        ('v1: tier("x", p*2)', Usage(input=1_000_000, output=0), "2"),
        ('len <= 32000 ? tier("short", fixed(0.01)) : tier("long", p * 2)', Usage(input=5, output=0), "0.01"),
        ('tier("a", max(p, 100) * 1 + min(c, 1) - -1 * 2)', Usage(input=5, output=7), "0.000103"),
        ('(tier("a", p * 1)) * (param("service_tier") == "fast" ? 6 : 1)', Usage(input=100, output=0), "0.0006"),
        (
            '(tier("a", p * 1)) * (hour("Asia/Shanghai") >= 11 && hour("UTC") < 4 ? 2 : 1)',
            Usage(input=100, output=0),
            "0.0002",
        ),
        (
            'has(header("Anthropic-Beta"), "fast") ? tier("f", p * 6) : tier("n", p * 1)',
            Usage(input=100, output=0),
            "0.0006",
        ),
        ('weekday("UTC") == 1 ? tier("mon", p) : tier("no", p * 9)', Usage(input=100, output=0), "0.0001"),
    ],
)
def test_expressions_as_the_documentation_writes_them(expression, usage, dollars):
    around = {"body": {"service_tier": "fast"}, "headers": {"anthropic-beta": "fast-mode"}}
    assert worth(expression, usage, **around) == Decimal(dollars)


@pytest.mark.parametrize(
    "expression",
    [
        "", "p *", "tier(", 'tier("a", p * 3)|||when(header("x") has "y") * 6', "__import__('os')", "p.__class__", "p ** 9",
        'u("seconds") * 0.4', 'hour("Europe/Berlin") > 3 ? p : c', "p; c", "p" * 5000, "(" * 200 + "p" + ")" * 200,
        "p / 0", 'tier("a", "b")', "p > 1", "-p - 1", "1e999999 * p", "p = 3", "[p]", "unknown_name * 2",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_none(expression):
    assert worth(expression, Usage(input=10, output=1)) is None


@given(st.text(alphabet='pcrl en()?:*+-/<>=&|!"0123456789.,tier', max_size=60))
def test_no_text_breaks_the_reader(text):
    value = worth(text, Usage(input=10, output=1))
    assert value is None or value >= 0


def test_an_expression_in_a_row_is_base64():
    assert decoded(base64.b64encode(b"p * 2").decode()) == "p * 2"
    assert decoded("not base64!") == decoded(None) == ""
    assert same_expression('v1:tier("a", p * 2)', 'tier( "a",p*2)')
