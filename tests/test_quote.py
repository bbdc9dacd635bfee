"""Money before it is spent: what a line says, what an approval binds, and that no honest charge exceeds its at-most."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_audit.errors import ApprovalRefused
from relay_audit.plan import Plan, Step
from relay_audit.probe import Bound
from relay_audit.quote import Approval, Prices, Quote, StepPrice, UnitPrice, charge_of, make_quote, price_step
from tests.assess.evidence_builders import plan_of, step_named

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
DAY = NOW.date()
ZERO = Decimal(0)


def unit(input_: str = "2", output: str = "10", **changes) -> UnitPrice:
    return UnitPrice(
        **{"input": Decimal(input_), "output": Decimal(output), "source": "list", "observed": DAY, **changes}
    )


def sent(name: str, *, probe: str = "a/p", stage: str = "probe", bound: Bound | None = None, **changes) -> Step:
    bound = bound or Bound(input_tokens=10_000, output_tokens=16, expected_output_tokens=8)
    return step_named(name, stage=stage).model_copy(update={"probe": probe, "bound": bound, "estimate": 30, **changes})


def quote_of(
    *steps: Step,
    price: UnitPrice | None = None,
    counts: dict[str, int] | None = None,
    now: dt.datetime = NOW,
    seed: int = 1,
    **prices,
) -> Quote:
    plan = plan_of(list(steps)).model_copy(update={"seed": seed})
    return make_quote(plan, Prices(relay=price or unit(), **prices), counts or {}, now)


def priced(step: Step, price: UnitPrice | None = None, counted: int | None = None, **prices) -> StepPrice:
    return price_step(step, price or unit(), counted, Prices(relay=price or unit(), **prices))


# One step


def test_expected_at_most_and_hold_of_one_step():
    row = priced(sent("s"), counted=40, hold_min_input=500)
    assert row.input_tokens == 40
    assert row.expected == Decimal("0.00016")  # 40 × 2 + 8 × 10
    assert row.at_most == Decimal("0.04032")  # 10,040 × 4 (written for an hour) + 16 × 10
    assert row.hold == Decimal("0.001032")  # (500 + 16) × 2: without the output's price


def test_our_own_estimate_serves_where_nothing_was_counted():
    assert priced(sent("s")).input_tokens == 30
    assert priced(sent("s"), counted=0).input_tokens == 0


def test_a_hold_takes_the_larger_prompt_and_only_where_one_is_known():
    assert priced(sent("s"), counted=700, hold_min_input=500).hold == Decimal("0.001432")
    assert priced(sent("s"), counted=700).hold == ZERO


@pytest.mark.parametrize(
    ("rates", "dearest"),
    [
        ({}, "4"),
        ({"cache_write_1h": Decimal(9)}, "9"),
        ({"cache_write_1h": Decimal(1), "cache_write_5m": Decimal(5)}, "5"),
        ({"cache_write_1h": Decimal(1), "cache_write_5m": Decimal(1), "cache_read": Decimal(3)}, "3"),
        ({"cache_write_1h": Decimal(1), "cache_write_5m": Decimal(1), "cache_read": Decimal(0)}, "2"),
        ({"cache_write_1h": ZERO, "cache_write_5m": ZERO}, "2"),
    ],
)
def test_at_most_takes_the_dearest_input_rate_there_is(rates, dearest):
    assert priced(sent("s"), unit(output="0", **rates), counted=0).at_most == Decimal(dearest) / 100


def test_the_bodys_own_limit_bounds_the_output():
    step = sent("s", bound=Bound(input_tokens=1, output_tokens=9000, expected_output_tokens=50))
    free_input = unit("0", "10")
    assert priced(step, free_input).at_most == Decimal("0.00016")
    assert priced(step, free_input).expected == Decimal("0.00016")
    for limit in (None, 0, -3, True, "16"):
        body = {k: v for k, v in step.body.items() if k != "max_tokens"} | (
            {} if limit is None else {"max_tokens": limit}
        )
        assert priced(step.model_copy(update={"body": body}), free_input).at_most == Decimal("0.09")


def test_a_fixed_price_per_call_is_the_whole_price():
    row = priced(sent("s"), unit("0", "0", per_call=Decimal("0.0000001")), hold_min_input=500)
    assert row.expected == row.at_most == row.hold == Decimal("0.000001")


def test_a_refusal_at_a_fixed_price_is_expected_to_cost_nothing_and_may_cost_all_of_it():
    row = priced(sent("s", refusal=True), unit(per_call="0.05"))
    assert (row.expected, row.at_most, row.hold) == (ZERO, Decimal("0.05"), Decimal("0.05"))


def test_the_vendors_own_side_gets_no_room_for_a_hidden_prompt():
    row = priced(sent("s", side="official"), counted=40)
    assert row.at_most == Decimal("0.00112")  # (40 + 200) × 4 + 16 × 10


def test_a_limit_of_nothing_in_a_body_is_none():
    body = {"max_tokens": 0, "max_output_tokens": 1}
    assert priced(sent("s", body=body), counted=40).at_most == Decimal("0.04017")  # 10,040 × 4 + 1 × 10


def test_a_step_without_a_bound_has_no_price():
    with pytest.raises(ValueError, match="no bound"):
        priced(sent("s").model_copy(update={"bound": None}))


def test_amounts_are_rounded_up():
    row = priced(
        sent("s", bound=Bound(input_tokens=1, output_tokens=1, expected_output_tokens=1)), unit("0.000001", "0"), 1
    )
    assert (row.expected, row.at_most) == (Decimal("0.000001"), Decimal("0.000001"))


# Charges


@pytest.mark.parametrize(
    ("usage", "rates", "charge"),
    [
        ({"input": 1000}, {}, "0.002"),
        ({"output": 1000}, {}, "0.01"),
        ({"cache_read": 1000}, {}, "0.002"),
        ({"cache_read": 1000}, {"cache_read": Decimal("0.2")}, "0.0002"),
        ({"cache_write_5m": 1000}, {}, "0.0025"),
        ({"cache_write_5m": 1000}, {"cache_write_5m": Decimal(0)}, "0"),
        ({"cache_write_1h": 1000}, {}, "0.004"),
        ({"cache_write_1h": 1000}, {"cache_write_1h": Decimal(3)}, "0.003"),
        ({"input": 1000, "output": 1000, "cache_read": 1000}, {}, "0.014"),
        ({}, {}, "0"),
        ({"input": 10**6, "output": 10**6}, {"per_call": Decimal("0.05")}, "0.05"),
    ],
)
def test_what_a_usage_costs(usage, rates, charge):
    assert charge_of(usage, unit(**rates)) == Decimal(charge)


RATES = st.decimals(min_value=0, max_value=80, places=4)
TARIFFS = st.builds(
    lambda input_, output, w5, w1, read: unit(
        str(input_), str(output), cache_write_5m=w5, cache_write_1h=w1, cache_read=read
    ),
    RATES,
    RATES,
    st.none() | RATES,
    st.none() | RATES,
    st.none() | RATES,
)


@settings(max_examples=150, deadline=None)
@given(TARIFFS, st.integers(0, 5000), st.data())
def test_with_an_honest_tariff_no_charge_exceeds_its_at_most(tariff, count, data):
    step = sent("s")
    room = count + step.bound.input_tokens
    total = data.draw(st.integers(0, room))
    cuts = sorted(data.draw(st.lists(st.integers(0, total), min_size=3, max_size=3)))
    kinds = ("input", "cache_read", "cache_write_5m", "cache_write_1h")
    usage = dict(zip(kinds, [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)], strict=True))
    usage["output"] = data.draw(st.integers(0, step.body["max_tokens"]))
    row = price_step(step, tariff, count, Prices(relay=tariff))
    assert charge_of(usage, tariff) <= row.at_most
    assert row.expected <= row.at_most


# Lines and the whole


def test_a_line_is_its_expected_cost_its_dearest_step_and_room_for_a_hidden_prompt():
    small, large = (
        Bound(input_tokens=100, output_tokens=16, expected_output_tokens=8, surplus_each=4400),
        Bound(input_tokens=10_000, output_tokens=16, expected_output_tokens=8, surplus_each=4400),
    )
    quote = quote_of(sent("one", bound=small), sent("two", bound=large), sent("three", bound=small), hold_min_input=500)
    line = quote.lines[0]
    assert (len(quote.lines), line.id, line.probe, line.side, line.count) == (1, "a/p@relay", "a/p", "relay", 3)
    dearest = max(row.at_most for row in quote.steps)
    assert line.expected == sum(row.expected for row in quote.steps) == Decimal("0.00042")
    assert line.at_most == line.expected + dearest + 2 * 4400 * Decimal(2) / 1_000_000
    assert line.hold == Decimal("0.001032") == quote.hold


def test_one_step_needs_no_room_for_the_others():
    bound = Bound(input_tokens=100, output_tokens=16, expected_output_tokens=8, surplus_each=4400)
    [line] = quote_of(sent("one", bound=bound)).lines
    assert line.at_most == line.expected + quote_of(sent("one", bound=bound)).steps[0].at_most


def test_every_line_and_the_whole_keep_their_order():
    steps = [sent(f"s{i}", probe=f"a/{i % 3}", stage=("probe", "batch")[i % 2]) for i in range(9)]
    quote = quote_of(*steps, hold_min_input=500)
    assert len(quote.lines) == 3
    assert sum(line.count for line in quote.lines) == 9
    for line in quote.lines:
        own = [quote.price_of(step.id) for step in steps if step.probe == line.probe]
        assert line.expected <= line.at_most
        assert line.at_most >= max(row.at_most for row in own)
        assert line.hold == max(row.hold for row in own)
    assert quote.expected == sum(line.expected for line in quote.lines)
    assert (
        quote.expected + max(row.at_most for row in quote.steps)
        <= quote.at_most
        <= sum(line.at_most for line in quote.lines)
    )


def test_the_two_sides_are_priced_apart():
    relay = sent("s")
    mirror = relay.model_copy(update={"id": "mirror.s", "side": "official"})
    free = relay.model_copy(update={"id": "count.s", "side": "official", "cost": "free", "probe": "a/count"})
    quote = make_quote(
        plan_of([relay, mirror, free]), Prices(relay=unit("3"), official=unit("5"), hold_min_input=500), {}, NOW
    )
    rows = {(line.probe, line.side): line for line in quote.lines}
    assert set(rows) == {("a/p", "relay"), ("a/p", "official"), ("a/count", "official")}
    assert rows["a/p", "relay"].unit_price.input == 3
    assert rows["a/p", "official"].unit_price.input == 5
    assert rows["a/p", "official"].hold == ZERO
    counted = rows["a/count", "official"]
    assert (counted.unit_price, counted.count, counted.expected, counted.at_most) == (None, 1, ZERO, ZERO)
    assert quote.line_of(relay) == rows["a/p", "relay"]
    assert quote.line_of(mirror) == rows["a/p", "official"]
    assert quote.line_of(relay.model_copy(update={"probe": "a/other"})) is None
    assert quote.price_of("no such step") is None


def test_without_a_price_nothing_can_be_approved():
    with pytest.raises(ApprovalRefused, match="no price is known") as refused:
        make_quote(plan_of([sent("s")]), Prices(relay=None), {}, NOW)
    assert refused.value.next_step == "give one in a price file: --prices FILE (see README, “Prices”); nothing was sent"
    official = sent("s").model_copy(update={"side": "official"})
    with pytest.raises(ApprovalRefused, match="official side"):
        make_quote(plan_of([official]), Prices(relay=unit()), {}, NOW)


def test_a_plan_that_sends_nothing_costs_nothing():
    quote = make_quote(plan_of([]), Prices(relay=None), {}, NOW)
    assert (quote.expected, quote.at_most, quote.hold, quote.lines) == (ZERO, ZERO, ZERO, ())
    assert not quote.needs_explicit_ceiling


def test_an_assumed_price_needs_a_ceiling_of_ones_own():
    assert quote_of(sent("s"), price=unit(assumed=True)).needs_explicit_ceiling
    assert not quote_of(sent("s")).needs_explicit_ceiling


def test_whether_tokens_were_counted_is_said():
    assert quote_of(sent("s"), counts={"s": 20}).counted
    assert not quote_of(sent("s")).counted


# Digests


def test_the_digest_follows_seed_price_and_expiry_and_nothing_else():
    quote = quote_of(sent("s"))
    assert quote.digest == quote_of(sent("s")).digest
    others = [
        quote_of(sent("s"), seed=2),
        quote_of(sent("s"), price=unit("2.01")),
        quote_of(sent("s"), price=unit(source="another list")),
        quote_of(sent("s"), now=NOW + dt.timedelta(seconds=1)),
        quote_of(sent("s"), counts={"s": 31}),
        quote_of(sent("s"), hold_min_input=1),
        quote_of(sent("s"), sent("t")),
    ]
    assert len({quote.digest, *[other.digest for other in others]}) == 8
    assert quote.plan_digest == others[0].plan_digest == others[1].plan_digest == others[3].plan_digest
    assert quote.plan_digest != others[-1].plan_digest


def test_the_digest_survives_its_file():
    quote = quote_of(sent("s"), hold_min_input=500)
    again = Quote.model_validate_json(quote.model_dump_json(by_alias=True))
    assert (again, again.digest) == (quote, quote.digest)


def digest_of(plan: Plan) -> str:
    return plan.digest


def test_the_plan_digest_ignores_what_was_said_and_in_which_order():
    one, two = sent("one"), sent("two")
    plan = plan_of([one, two])
    reworded = [
        s.model_copy(update={"body": {"messages": ["other"]}, "id": f"{s.id}x", "estimate": 99}) for s in (two, one)
    ]
    assert digest_of(plan_of(reworded).model_copy(update={"seed": 99})) == plan.digest
    assert digest_of(plan_of([one])) != plan.digest
    wider = one.model_copy(update={"bound": one.bound.model_copy(update={"output_tokens": 17})})
    assert digest_of(plan_of([wider, two])) != plan.digest
    assert digest_of(plan_of([one.model_copy(update={"path": "/v1/other"}), two])) != plan.digest
    assert digest_of(plan.model_copy(update={"model": "other"})) != plan.digest


# Approval


def approve(quote: Quote, **changes) -> Approval:
    fields = {
        "quote_digest": quote.digest,
        "ceiling": quote.at_most,
        "approver": "me",
        "channel": "flag",
        "at": NOW,
        **changes,
    }
    return quote.approve(fields.pop("quote_digest"), fields.pop("ceiling"), **fields)


def test_an_approval_binds_amount_digest_expiry_and_who_gave_it():
    quote = quote_of(sent("s"))
    approval = approve(quote, ceiling=Decimal("0.5"), at=NOW + dt.timedelta(hours=1))
    assert (approval.quote_digest, approval.ceiling, approval.approver, approval.channel) == (
        quote.digest,
        Decimal("0.5"),
        "me",
        "flag",
    )
    assert approval.expires_at == quote.expires_at == NOW + dt.timedelta(hours=24)
    assert approval.at == NOW + dt.timedelta(hours=1)


def test_only_a_quote_makes_an_approval():
    approval = approve(quote_of(sent("s")))
    fields = (approval.quote_digest, approval.ceiling, "me", "flag", NOW, NOW)
    for seal in (None, object(), "seal"):
        with pytest.raises(TypeError, match=r"Quote\.approve"):
            Approval(*fields, seal)
    with pytest.raises(TypeError):
        Approval(*fields)
    with pytest.raises(TypeError, match=r"Quote\.approve"):
        replace(approval, ceiling=Decimal(99), seal=None)
    with pytest.raises(AttributeError):
        approval.ceiling = Decimal(99)


def test_another_digest_is_refused_and_the_current_one_named():
    quote = quote_of(sent("s"))
    for wrong in ("0" * 64, "", quote.digest[:-1], quote.digest.upper()):
        with pytest.raises(ApprovalRefused) as refused:
            approve(quote, quote_digest=wrong)
        assert refused.value.details == {"current_digest": quote.digest}
        assert str(refused.value) == "this digest is not the current quote's"
        assert refused.value.next_step == f"the current quote is {quote.digest}; look at it again before approving"


def test_a_ceiling_below_the_at_most_is_refused():
    quote = quote_of(sent("s"))
    with pytest.raises(ApprovalRefused, match="below") as refused:
        approve(quote, ceiling=quote.at_most - Decimal("0.000001"))
    assert Decimal(refused.value.details["quoted_at_most"]) == quote.at_most
    assert refused.value.next_step == (
        "approve at least the at-most, or make the plan smaller (--checks, --profile quick)"
    )
    assert approve(quote, ceiling=quote.at_most).ceiling == quote.at_most


def test_an_expired_quote_is_refused():
    quote = quote_of(sent("s"))
    with pytest.raises(ApprovalRefused, match=r"^the quote has expired$") as refused:
        approve(quote, at=quote.expires_at)
    assert refused.value.next_step == "run again for a fresh quote; nothing was spent"
    assert approve(quote, at=quote.expires_at - dt.timedelta(microseconds=1))


def test_a_stage_of_legal_steps_goes_one_at_a_time_so_its_dearest_counts_once():
    quote = quote_of(*[sent(name, probe=name) for name in ("a/1", "a/2", "a/3")])
    assert quote.at_most == quote.expected + max(line.dearest for line in quote.lines)


def test_each_lane_of_refusals_may_stand_open_with_one_answer():
    """Two requests of one probe are two lanes: the dearest of each is in the at-most, the others of its lane are not."""
    own = {"probe": "a/p", "stage": "batch", "refusal": True}
    bounds = {"x": 100, "y": 10_000, "z": 3_000}
    steps = [
        sent(
            name,
            request=lane,
            bound=Bound(input_tokens=bounds[name], output_tokens=16, expected_output_tokens=8),
            **own,
        )
        for name, lane in (("x", "one"), ("y", "one"), ("z", "two"))
    ]
    quote = quote_of(*steps)
    [line] = quote.lines
    assert quote.expected == 0
    assert quote.at_most == line.at_most == line.dearest
    assert line.dearest == sum(quote.price_of(name).at_most for name in ("y", "z"))


# What an approval holds for

FREE_INPUT = unit("0", "10")
TIGHT = Bound(input_tokens=1, output_tokens=16, expected_output_tokens=8)


def test_a_quote_covers_itself_and_what_is_cheaper_line_by_line():
    one, two = sent("one"), sent("two", probe="b/p")
    whole = quote_of(one, two)
    assert whole.covers(whole)
    assert whole.covers(quote_of(one))
    assert whole.covers(quote_of(one, two, price=unit("1.99")))
    assert not quote_of(one).covers(whole), "a line that was never approved"
    assert not whole.covers(quote_of(one, two, price=unit("2.01")))
    assert not whole.covers(quote_of(one, two, seed=2)), "other texts"
    assert not whole.covers(whole.model_copy(update={"currency": "CNY"}))


def test_a_quote_covers_no_other_with_a_line_that_rose():
    """Cheaper as a whole is not enough: each line was approved for itself."""
    two, cheap = (sent("two", probe="b/p", stage="batch", bound=bound) for bound in (None, TIGHT))
    dear = sent("one", bound=Bound(input_tokens=10_001, output_tokens=16, expected_output_tokens=8))
    approved, other = quote_of(sent("one"), two), quote_of(dear, cheap)
    assert other.at_most < approved.at_most
    assert not approved.covers(other)


def test_a_quote_covers_no_other_that_is_dearer_as_a_whole():
    """The same lines in stages of their own: the dearest of each counts, no longer one for all."""
    one, two = sent("one"), sent("two", probe="b/p")
    apart = quote_of(one, sent("two", probe="b/p", stage="batch"))
    assert apart.at_most > quote_of(one, two).at_most
    assert not quote_of(one, two).covers(apart)
    assert apart.covers(quote_of(one, two))


# Bodies that ask for more than one answer, or bound none


@pytest.mark.parametrize(
    ("n", "answers"), [(None, 1), (1, 1), (2, 2), (3, 3), (0, 1), (-2, 1), (True, 1), ("3", 1), (2.5, 1)]
)
def test_each_of_several_answers_has_the_whole_limit(n, answers):
    body = sent("s").body | ({} if n is None else {"n": n})
    assert priced(sent("s", body=body, bound=TIGHT), FREE_INPUT).at_most == answers * Decimal("0.00016")


def test_a_body_without_a_limit_may_be_filled_to_the_largest_known():
    step = sent("s", bound=TIGHT.model_copy(update={"output_tokens": 4096}), unbounded=True)
    assert priced(step, FREE_INPUT, fill=8192).at_most == Decimal("0.08192")
    assert priced(step, FREE_INPUT, fill=128).at_most == Decimal("0.04096")
    assert priced(step, FREE_INPUT).at_most == Decimal("0.04096")


def test_marks_for_the_cache_are_expected_at_the_dearest_input_rate():
    marked = {"messages": [{"role": "user", "content": "x", "cache_control": {"type": "ephemeral"}}], "max_tokens": 16}
    assert priced(sent("s", body=marked, bound=TIGHT), unit(output="0"), counted=1000).expected == Decimal("0.004")
    assert priced(sent("s", bound=TIGHT), unit(output="0"), counted=1000).expected == Decimal("0.002")


def test_counts_belong_to_their_own_steps():
    quote = quote_of(sent("one"), sent("two"), counts={"one": 20})
    assert [row.input_tokens for row in quote.steps] == [20, 30]
    assert (quote.counted, quote.counted_in_part) == (False, True)
    whole = quote_of(sent("one"), sent("two"), counts={"one": 20, "two": 21})
    assert (whole.counted, whole.counted_in_part) == (True, False)
    none = quote_of(sent("one"), counts={})
    assert (none.counted, none.counted_in_part) == (False, False)


def test_what_is_refused_is_not_held_to_be_counted():
    refused = sent("two", refusal=True, stage="batch")
    assert quote_of(sent("one"), refused, counts={"one": 20}).counted


def test_legal_steps_beside_refusals_are_a_lane_of_their_own():
    legal, refused = sent("one", bound=TIGHT), sent("two", request="lane", refusal=True)
    [line] = quote_of(legal, refused).lines
    assert line.dearest == sum(quote_of(legal, refused).price_of(name).at_most for name in ("one", "two"))


def test_what_input_tokens_cost_at_the_quoted_price():
    assert quote_of(sent("s")).input_cost(508) == Decimal("0.001016")
    assert make_quote(plan_of([]), Prices(relay=None), {}, NOW).input_cost(508) is None
