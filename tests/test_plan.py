"""What is sent, in which order, how much of it, and what a plan's digest depends on."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from collections import Counter
from decimal import Decimal

import pytest

from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.plan import Plan, Step, count_body, make_plan
from relay_audit.prompt_text import has_system, texts_of
from relay_audit.question import Question
from relay_audit.quote import Prices, UnitPrice, make_quote
from relay_audit.wording import Wording

PACKS = load_packs()
PACK = PACKS.pack("anthropic")
KNOWLEDGE = load_knowledge()
TODAY = dt.date(2026, 11, 30)
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
SENTENCE = "Reply with the single word OK."
PROFILES = ("quick", "standard", "thorough")


def question(**changes) -> Question:
    fields = {
        "model": "claude-sonnet-5-5", "official_model": "claude-sonnet-5-5", "dialect": "anthropic",
        "profile": "standard", "checks": (1, 2, 6), "software": "new-api", "counter": True, "has_baseline": True, **changes,
    }  # fmt: skip
    return Question(**fields)


def plan_of(seed: int = 1, probes=PACKS.probes, **changes) -> Plan:
    asked = question(**changes)
    return make_plan(asked, PACK, probes, Wording(PACKS.wordlists, seed, SENTENCE), seed)


EVERY_CASE = [
    {"profile": profile, "counter": counter, "has_baseline": baseline}
    for profile in PROFILES
    for counter in (True, False)
    for baseline in (True, False)
]


def of_tokens(plan: Plan) -> list[Step]:
    """The relay steps of check 2."""
    return [step for step in plan.chargeable() if "/token_" in step.probe or "/published" in step.probe]


def test_standard_sends_twenty_four_and_counts_each_twice():
    plan = plan_of()
    relay = of_tokens(plan)
    assert [step.side for step in relay] == ["relay"] * 24
    counts = [step for step in plan.steps if step.counts]
    assert [step.cost for step in counts] == ["free"] * 48
    assert {step.counts for step in counts if step.when == "before"} == {step.id for step in relay}
    assert {step.counts for step in counts if step.when == "after"} == {step.id for step in relay}
    assert [step.when for step in plan.steps] == sorted(
        (s.when for s in plan.steps), key=["before", "with", "after"].index
    )
    assert len({step.id for step in plan.steps}) == len(plan.steps)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "gemini"])
def test_the_fraction_is_balanced(dialect):
    """Every level of every factor at least six times, and every pair of levels of two factors at least twice."""
    pack = PACKS.pack(dialect)
    plan = make_plan(question(dialect=dialect), pack, PACKS.probes, Wording(PACKS.wordlists, 1), 1)
    rows = [{**s.factors, "system": has_system(s.body), "agent": s.user_agent} for s in of_tokens(plan)]
    assert len(rows) == 24
    names = sorted(rows[0])
    for name in names:
        assert min(Counter(row[name] for row in rows).values()) >= 6, name
    for one, other in itertools.combinations([n for n in names if n != "user_agent"], 2):
        pairs = Counter((row[one], row[other]) for row in rows)
        assert len(pairs) == len({row[one] for row in rows}) * len({row[other] for row in rows}), (one, other)
        assert min(pairs.values()) >= 2, (one, other)
    assert {row["agent"] for row in rows} == {"", "curl/8.14.1"}, "two plain User-Agents"


def test_the_first_three_sends_are_three_sizes_of_one_script():
    first = plan_of().chargeable()[:3]
    assert first == tuple(of_tokens(plan_of())[:3]), "token counts come before everything else"
    assert {step.factors["script"] for step in first} == {"ascii"}
    assert [step.factors["units"] for step in first] == [8, 28, 64]


def test_four_scripts_with_and_without_system():
    kinds = {(step.factors["script"], "system" in step.body) for step in of_tokens(plan_of())}
    assert kinds == set(itertools.product(("ascii", "cjk", "emoji", "code"), (True, False)))


def test_quick_sends_four():
    relay = of_tokens(plan_of(profile="quick"))
    assert [(s.factors["script"], "system" in s.body) for s in relay] == [("ascii", False)] * 3 + [("cjk", True)]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "deepseek"])
def test_what_was_asked_once_comes_after_every_first_question(dialect):
    """A site that shuts after some refusals costs repetitions, and no question its only answer."""
    asked = question(
        dialect=dialect, checks=(3, 4), profile="thorough", max_output=64_000, next_output=128_000, family="gpt-6"
    )
    plan = make_plan(asked, PACKS.pack(dialect), PACKS.probes, Wording(PACKS.wordlists, 1), 1)
    kinds = [2 if step.after else int(step.again) for step in plan.chargeable()]
    assert kinds == sorted(kinds)
    ended_by_others = {step.lane for step in plan.chargeable() if step.again}
    assert not {s.case for s in plan.chargeable() if s.lane in ended_by_others} & {
        "service_tier_bogus",
        "unknown_field",
    }


def test_without_a_counter_the_published_sentence_goes_out_three_times():
    plan = plan_of(counter=False)
    sent = [step for step in plan.steps if step.request == "published"]
    assert [step.body["max_tokens"] for step in sent] == [16, 17, 18]
    assert {step.body["messages"][0]["content"] for step in sent} == {SENTENCE}
    assert plan.checks == (1, 2, 6)


@pytest.mark.parametrize("dialect", sorted(name for name, pack in PACKS.dialects.items() if pack.video is None))
def test_without_a_counter_one_line_goes_out_repeated(dialect):
    pack = PACKS.pack(dialect)
    asked = question(dialect=dialect, counter=False, has_baseline=False)
    plan = make_plan(asked, pack, PACKS.probes, Wording(PACKS.wordlists, 1), 1)
    sent = of_tokens(plan)
    assert [(s.factors["script"], s.factors["times"]) for s in sent] == list(
        itertools.product(("ascii", "cjk"), (1, 2, 4, 8))
    )
    for script in ("ascii", "cjk"):
        texts = [max(texts_of(s.body), key=len) for s in sent if s.factors["script"] == script]
        lines = [text.split("\n") for text in texts]
        assert [len(parts) - 1 for parts in lines] == [1, 2, 4, 8]
        assert len({line for parts in lines for line in parts[:-1]}) == 1, "one line, wherever it is repeated"
        assert len({parts[-1] for parts in lines}) == 1
    assert plan.checks == (1, 2, 6)
    assert all((s.output_limit or 0) >= 16 for s in sent)


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
def test_never_more_than_twenty_four_small_legal_requests(case):
    plan = plan_of(**case)
    relay = of_tokens(plan)
    assert 3 <= len(relay) <= (24 if case["counter"] else 18)
    for step in relay:
        assert step.estimate <= 200
        assert 16 <= step.body["max_tokens"] <= step.bound.output_tokens
        assert step.path == "/v1/messages"
        assert set(step.body) <= {"model", "max_tokens", "stream", "system", "messages"}
        assert "$" not in json.dumps(step.body), "every reference was replaced"
        assert not re.search(r"claude-cli|Claude Code|warmup|title|suggestion", json.dumps(step.body), re.IGNORECASE)


def test_sizes_are_well_apart():
    for script in ("ascii", "cjk", "emoji", "code"):
        sizes = [s.estimate for s in of_tokens(plan_of()) if s.factors["script"] == script and s.request == "bare"]
        assert sizes[0] + 15 < sizes[1] < sizes[2] - 15, script


def test_our_own_estimate_is_an_upper_one_and_not_far_above():
    estimates = {step.estimate for step in plan_of(counter=False).steps if step.request == "published"}
    assert len(estimates) == 1
    assert 18 <= estimates.pop() <= 18 * 1.25


def test_the_counted_body_is_the_sent_body_in_everything_that_is_counted():
    plan = plan_of(model="relay-name", official_model="claude-sonnet-5-5")
    for count in (step for step in plan.steps if step.counts):
        sent = plan.step(count.counts).body
        assert count.body == {
            **{k: v for k, v in sent.items() if k not in ("max_tokens", "stream")},
            "model": "claude-sonnet-5-5",
        }
        assert count.path == "/v1/messages/count_tokens"
        assert sent["model"] == "relay-name"
    extra = {
        "model": "m",
        "tools": [1],
        "thinking": {"type": "adaptive"},
        "tool_choice": {},
        "temperature": 1,
        "stream": True,
    }
    assert set(count_body(extra, PACK, "o")) == {"model", "tools", "thinking", "tool_choice"}


def test_texts_differ_between_sends_and_between_runs():
    one, two = of_tokens(plan_of(1)), of_tokens(plan_of(2))
    texts = [step.body["messages"][0]["content"] for step in (*one, *two)]
    assert len(set(texts)) == len(texts)
    assert [step.body for step in plan_of(1).steps] == [step.body for step in plan_of(1).steps]


def test_the_digest_ignores_seed_wording_and_prices():
    plan = plan_of(1)
    assert plan.digest == plan_of(99).digest
    reworded = PACKS.wordlists.model_copy(update={"ascii_words": tuple(reversed(PACKS.wordlists.ascii_words))})
    other = make_plan(question(), PACK, PACKS.probes, Wording(reworded, 1, SENTENCE), 1)
    assert other.steps != plan.steps
    assert other.digest == plan.digest
    cheap, dear = (make_quote(plan, Prices(relay=price(p)), {}, NOW) for p in ("2", "3"))
    assert cheap.plan_digest == dear.plan_digest == plan.digest
    assert cheap.digest != dear.digest


@pytest.mark.parametrize(
    "changes",
    [{"model": "claude-opus-5-5"}, {"official_model": "claude-opus-5-5"}, {"profile": "quick"}, {"profile": "thorough"},
     {"counter": False}, {"checks": (1,)}],
    ids=str,
)  # fmt: skip
def test_the_digest_follows_what_is_asked(changes):
    assert plan_of(**changes).digest != plan_of().digest


def test_the_digest_follows_bounds_and_counts():
    probe = next(p for p in PACKS.probes if p.id == "anthropic/token_parity")
    request = probe.requests[0]
    wider = request.model_copy(update={"bound": request.bound.model_copy(update={"input_tokens": 10001})})
    fewer = request.model_copy(update={"design": request.design[:6]})
    for changed in (wider, fewer):
        other = probe.model_copy(update={"requests": (changed, *probe.requests[1:])})
        assert plan_of(probes=(other,)).digest != plan_of(probes=(probe,)).digest


def test_what_will_not_run_is_said_before_anything_is_sent():
    reasons = {row.check: (row.state, row.reason) for row in plan_of().coverage}
    assert reasons == {3: ("not_run", "not_chosen"), 4: ("not_run", "not_chosen"), 5: ("not_applicable", "text_line")}
    free = plan_of(free_only=True)
    assert free.steps == ()
    assert {row.check for row in free.coverage if row.reason == "free_only"} == {1, 2}


def test_a_probe_for_other_software_or_another_family_stays_at_home():
    probe = next(p for p in PACKS.probes if p.id == "anthropic/token_parity")
    only = probe.model_copy(update={"applies": probe.applies.model_copy(update={"software": ("sub2api",)})})
    assert plan_of(probes=(only,)).steps == ()
    assert len(plan_of(probes=(only,), software="sub2api").chargeable()) == 24
    family = probe.model_copy(update={"applies": probe.applies.model_copy(update={"families": ("claude-4-5",)})})
    assert plan_of(probes=(family,), family="claude-5").steps == ()
    assert len(plan_of(probes=(family,), family="claude-4-5").chargeable()) == 24


def price(per_million: str) -> UnitPrice:
    return UnitPrice(input=Decimal(per_million), output=Decimal(10), source="list", observed=TODAY)


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
def test_an_honest_relay_costs_at_most_a_cent_at_the_list_price(case):
    row = KNOWLEDGE.price_of("claude-sonnet-5-5", TODAY)
    unit = UnitPrice(input=row.input, output=row.output, source=row.source, observed=row.observed)
    quote = make_quote(plan_of(**case), Prices(relay=unit, hold_min_input=500), {}, NOW)
    assert Decimal(0) < quote.expected <= Decimal("0.01")
    assert quote.expected < quote.at_most
