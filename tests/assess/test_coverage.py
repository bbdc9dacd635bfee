"""All six checks, always; and what an assessor that breaks leaves behind."""

from __future__ import annotations

import pytest

from relay_audit import assess as judging
from relay_audit.assess import ASSESSORS, assess
from relay_audit.assess.coverage import DECIDED, cover
from relay_audit.assess.model_identity import TRAITS
from relay_audit.catalog import load_packs
from relay_audit.codes import CODES, finding
from relay_audit.evidence import Evidence
from relay_audit.finding import Coverage, Finding
from relay_audit.verdict import is_missing
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    START,
    answered,
    at,
    parity_run,
    plan_of,
    run_of,
    step_named,
    twelve,
)

PLANNED = (
    Coverage(check=3, state="not_run", reason="not_in_this_version"),
    Coverage(check=4, state="not_run", reason="not_in_this_version"),
    Coverage(check=5, state="not_applicable", reason="text_line"),
)


def run(*, status: int = 200, n: int = 2, body=None, checks=(1, 2, 6), planned=PLANNED, stopped: str = "") -> Evidence:
    steps = [step_named(f"s{p}") for p in range(3)]
    said = {"usage": {"input_tokens": 1, "output_tokens": 1}} if body is None else body
    exchanges = [answered(p + 1, f"s{p}", said, moment=at(p), status=status) for p in range(n)]
    return run_of(exchanges, steps, plan=plan_of(steps, checks=checks, coverage=planned), stopped=stopped)


def made(code: str, **params):
    return finding(code, {name: params.get(name, "x") for name in CODES[code].params})


def states(evidence: Evidence, *found) -> dict[int, tuple[str, str]]:
    rows = cover(evidence, tuple(found))
    assert [row.check for row in rows] == [1, 2, 3, 4, 5, 6]
    return {row.check: (row.state, row.reason) for row in rows}


def test_what_the_plan_left_out_stays_as_the_plan_said():
    rows = states(run())
    assert {c: rows[c] for c in (3, 4, 5)} == {row.check: (row.state, row.reason) for row in PLANNED}


@pytest.mark.parametrize(
    ("check", "found", "state"),
    [
        (1, ("channel.matches",), ("run", "")),
        (1, ("channel.unknown",), ("no_information", "unknown_signals")),
        (1, ("channel.unknown", "channel.id_reminted"), ("run", "")),
        (1, (), ("not_run", "no_usable_answer")),
        (2, ("tokens.match",), ("run", "")),
        (2, ("tokens.inconclusive",), ("no_information", "x")),
        (2, ("tokens.inconclusive", "tokens.cache_breakpoint_injected"), ("run", "")),
        (2, ("channel.matches",), ("not_run", "no_usable_answer")),
        (6, ("billing.matches",), ("run", "")),
        (6, ("billing.overcharged",), ("run", "")),
        (6, ("billing.undercharged",), ("run", "")),
        (6, ("billing.log_unavailable",), ("no_information", "log_unavailable")),
        (6, ("billing.log_unsafe_to_read",), ("no_information", "log_unsafe")),
        (6, ("billing.settlement_pending",), ("no_information", "settlement_pending")),
        (6, (), ("no_information", "log_unavailable")),
    ],
)
def test_what_was_found_decides(check, found, state):
    assert states(run(), *[made(code) for code in found])[check] == state


def test_the_reason_of_an_inconclusive_check_is_its_own():
    assert states(run(), made("tokens.inconclusive", reason="control_varies"))[2] == (
        "no_information",
        "control_varies",
    )


def test_without_an_answer_nothing_ran():
    assert states(run(status=500))[1] == ("not_run", "no_usable_answer")
    assert states(run(status=500))[6] == ("not_run", "no_usable_answer")
    assert states(run(n=0))[2] == ("not_run", "not_sent")
    assert states(run(n=0))[6] == ("not_run", "not_sent")
    assert states(run(n=0, stopped="ceiling"))[1] == ("not_run", "ceiling")


def test_a_shut_gate_is_a_state_of_its_own():
    rows = states(run(status=403, body={"error": "client not allowed"}))
    assert (rows[1], rows[2]) == (("gated", "gated"), ("gated", "gated"))


def test_a_bill_that_was_not_asked_for():
    assert states(run(checks=(1, 2)))[6] == ("not_run", "not_chosen")


def test_without_a_plan_nothing_was_sent():
    rows = states(run().model_copy(update={"plan": None}))
    assert {state for state, _ in rows.values()} == {"not_run"}


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ([("model.matches", {})], ("run", "")),
        ([("model.not_verifiable", {"reason": "text_rewritten"})], ("no_information", "text_rewritten")),
        ([("model.not_verifiable", {}), ("model.name_mismatch", {})], ("run", "")),
        ([("model.not_verifiable", {}), ("model.relay_header_admits", {})], ("run", "")),
        ([("tokens.match", {})], ("not_run", "no_usable_answer")),
    ],
)
def test_a_model_that_nothing_tells_apart_was_not_verified(found, state):
    assert states(run(planned=()), *[made(code, **params) for code, params in found])[3] == state


def test_an_alias_in_a_header_verifies_no_model():
    """LiteLLM 1.108.7 before gpt-4o writes `openai/gpt-4o`: check 3 had been called run, and the whole without a result."""
    closed = made("model.not_verifiable", reason="no_name_in_text")
    alias = made("model.relay_header_admits").model_copy(update={"outcome": "match", "severity": "info"})
    assert states(run(planned=()), closed, alias)[3] == ("no_information", "no_name_in_text")
    assert states(run(planned=()), alias, closed)[3] == ("no_information", "no_name_in_text")


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        (["media.no_credentials"], ("no_information", "media_unclear")),
        (["media.not_checked"], ("no_information", "media_unclear")),
        (["media.unreadable", "media.signer_matches"], ("run", "")),
        (["media.signer_spoofed"], ("run", "")),
        ([], ("not_run", "no_usable_answer")),
    ],
)
def test_a_film_of_which_nothing_is_known_is_no_information(codes, state):
    assert states(run(planned=()), *map(made, codes))[5] == state


@pytest.mark.parametrize(
    ("pack", "refusals", "codes", "state"),
    [
        ("anthropic", "", ["params.matches"], ("run", "")),
        ("anthropic", "books_unreadable", ["params.matches"], ("run", "books_unreadable")),
        ("anthropic", "", [], ("no_information", "not_sent")),  # no case in the plan: a key would change nothing
        ("ark_video", "", [], ("no_information", "not_delivered")),
    ],
)
def test_parameters_were_run_as_far_as_they_were_refused(pack, refusals, codes, state):
    evidence = run(planned=()).model_copy(update={"pack": load_packs().pack(pack), "refusals_ended": refusals})
    assert states(evidence, *map(made, codes))[4] == state


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ((400, 400, 429, 429, 429), "turned_away"),
        ((400, 403, 403), "turned_away"),
        ((400, 503, 400, 429), "turned_away"),
        ((400, 503, 400, 400, 429), ""),
        ((400, 200, 200, 429), ""),
        ((), ""),
    ],
)
def test_parameters_that_met_a_limiter_instead_were_run_in_part(statuses, reason):
    """One of each case that the vendor refuses: repetitions and what a relay answers for itself do not count."""
    no = {"type": "error", "error": {"message": "no"}}
    steps = [step_named(f"s{p}").model_copy(update={"refusal": True, "case": f"c{p}"}) for p in range(len(statuses))]
    beside = [
        ("again", {"again": True}),
        ("made_up", {"key": "made_up"}),
        ("other", {"body": {"model": "no-such-model"}}),
    ]
    others = [
        step_named(name).model_copy(update={"refusal": True, "case": name, **changed}) for name, changed in beside
    ]
    told = [*zip(steps, statuses, strict=True), *((step, 429) for step in others)]
    seen = [answered(p + 1, step.id, no, moment=at(p), status=status) for p, (step, status) in enumerate(told)]
    seen.append(answered(99, "legal", {"id": "msg_1"}, moment=at(99)))
    evidence = run_of(seen, [], plan=plan_of([step_named("legal"), *steps, *others], checks=(4,)))
    assert states(evidence, made("params.matches"))[4] == ("run", reason)
    assert is_missing(Coverage(check=4, state="run", reason=reason)) is bool(reason)


def test_a_check_2_without_the_vendors_counter_says_why():
    evidence = run()
    target = evidence.target.model_copy(update={"no_counter_reason": "no_official_key"})
    rows = states(evidence.model_copy(update={"target": target}), made("tokens.match"), made("channel.matches"))
    assert (rows[1], rows[2]) == (("run", ""), ("run", "no_official_key"))
    for basis in ("live_official", "declared_official"):
        beside = made("tokens.match").model_copy(update={"basis": basis})
        told = states(evidence.model_copy(update={"target": target}), beside)
        assert told[2] == ("run", ""), "the vendor was asked all the same"


def test_an_open_count_without_a_reason_is_no_information_all_the_same():
    assert states(run(), finding("tokens.inconclusive", {"n": 1, "reason": "x"}).model_copy(update={"params": {}}))[2] == (
        "no_information", "no_information",
    )  # fmt: skip


@pytest.mark.parametrize(("answered_", "reason"), [(0, "cut_short"), (1, "cut_short"), (2, "")])
def test_half_of_the_first_texts_is_enough(answered_, reason):
    """Of four: what was sent besides the first texts, or refused, does not count."""
    steps = [step_named(f"s{p}") for p in range(4)] + [step_named(f"r{p}", stage="batch") for p in range(9)]
    good = {"usage": {"input_tokens": 1, "output_tokens": 1}}
    sent = [answered(n, f"s{n}", good, moment=at(n), status=200 if n < answered_ else 500) for n in range(4)]
    sent += [answered(20, "r0", good, moment=at(20))]
    evidence = run_of(sent, steps, plan=plan_of(steps, coverage=PLANNED), stopped="ceiling")
    assert states(evidence, made("channel.matches"))[1] == ("run", reason)


@pytest.mark.parametrize("code", sorted(DECIDED))
def test_rows_that_were_computed_or_read_are_check_six(code):
    assert states(run(), made(code))[6] == states(run(n=0), made(code))[6] == ("run", "")


def test_what_is_pending_is_the_reason_even_where_the_log_was_unsafe():
    found = [made("billing.log_unsafe_to_read"), made("billing.settlement_pending")]
    assert states(run(), *found)[6] == ("no_information", "settlement_pending")
    assert states(run(), made("billing.settlement_pending").model_copy(update={"check": 5}))[6][1] == "log_unavailable"


def test_the_whole_judgement_is_numbered_and_repeats_itself():
    evidence = parity_run(twelve(508))
    found, rows = assess(evidence, KNOWLEDGE)
    assert [f.id for f in found] == [f"F{place:03}" for place in range(1, len(found) + 1)]
    assert found[0].code == "tokens.constant_surplus"
    assert len(rows) == 6
    assert assess(evidence, KNOWLEDGE) == (found, rows)


def test_only_chosen_checks_are_judged():
    evidence = parity_run(twelve(508))
    plan = evidence.plan.model_copy(update={"checks": (1,)})
    found, _ = assess(evidence.model_copy(update={"plan": plan}), KNOWLEDGE)
    assert not any(f.check in (2, 6) for f in found)


def test_without_a_plan_only_the_run_itself_is_judged():
    echo = answered(1, "discovery.models.bearer", {}, moment=START, hostility=("key_echoed",))
    evidence = run_of([echo], []).model_copy(update={"plan": None})
    found, _ = assess(evidence, KNOWLEDGE)
    assert [f.code for f in found] == ["run.key_echoed"]


def test_an_assessor_that_breaks_is_a_finding_and_the_others_still_speak(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(judging, "ASSESSORS", {**ASSESSORS, "channel": broken})
    found, _ = assess(parity_run(twelve(508)), KNOWLEDGE)
    error = next(f for f in found if f.code == "run.probe_error")
    assert (error.outcome, error.severity, error.params) == ("error", "info", {"assessor": "channel"})
    assert any(f.code == "tokens.constant_surplus" for f in found)


def test_a_pool_hint_takes_the_model_for_granted(monkeypatch):
    hint = made("channel.subscription_pool_hint").model_copy(update={"severity": "low"})
    swapped = made("tokens.tokenizer_differs")
    for others, severity in (((), "low"), ((swapped,), "info")):
        monkeypatch.setattr(judging, "ASSESSORS", {"run_state": lambda *_, own=others: [hint, *own]})
        found, _ = assess(run(), KNOWLEDGE)
        assert next(f for f in found if f.code == hint.code).severity == severity


def test_a_run_that_ended_before_half_of_its_texts_is_no_clean_line() -> None:
    """Three answers and an empty balance: what they say stands, and the line is not called usable by them."""
    early = run(n=1, stopped="balance_exhausted")
    rows = states(early, made("channel.matches"), made("tokens.match"))
    assert rows[1] == rows[2] == ("run", "cut_short")
    assert states(run(n=2, stopped="ceiling"), made("channel.matches"))[1] == ("run", "")
    assert states(run(n=1), made("channel.matches"))[1] == ("run", "")
    assert all(is_missing(Coverage(check=c, state="run", reason="cut_short")) for c in (1, 2))


def test_rows_in_another_group_were_read_all_the_same() -> None:
    """The only thing that check 6 had to say came out of the log: "no per-call log" would be untrue."""
    assert states(run(), made("billing.group_differs_from_claim"))[6] == ("run", "")


# What the findings of several assessors come to together


def spoken(monkeypatch, *found: Finding, evidence: Evidence | None = None) -> list[Finding]:
    """The judgement of a run in which just this was found."""
    monkeypatch.setattr(judging, "ASSESSORS", {"run_state": lambda *_: list(found)})
    return list(assess(evidence or run(), KNOWLEDGE)[0])


def weighed(code: str, params: dict[str, object] | None = None, **more: object) -> Finding:
    return made(code, **(params or {})).model_copy(update=more)


def witness(code: str, number: str, road: str | None = None, **more: object) -> Finding:
    """A finding of check 2 by a road; without one it is of the published sentence."""
    one = made(code, high=100).model_copy(update={"exchanges": (number,), "observed": {number: 1}, **more})
    params = {k: v for k, v in one.params.items() if k != "road"} | ({} if road is None else {"road": road})
    return one.model_copy(update={"params": params})


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        (witness("tokens.match", "X1"), witness("tokens.match", "X2", "intercept"), True),
        (witness("tokens.constant_surplus", "X1"), witness("tokens.constant_surplus", "X2", "intercept"), True),
        (witness("tokens.constant_surplus", "X1"), witness("tokens.inconclusive", "X2", "intercept"), True),
        (witness("tokens.constant_surplus", "X1"), witness("tokens.match", "X2", "intercept"), False),
        (witness("tokens.match", "X1"), witness("tokens.inconclusive", "X2", "intercept"), False),
        (witness("tokens.match", "X1", "sentence"), witness("tokens.match", "X2", "intercept"), False),
        (witness("tokens.match", "X1"), witness("tokens.match", "X2", "sentence"), False),
    ],
)
def test_two_witnesses_of_one_question_speak_once(monkeypatch, first, second, one):
    beside = witness("tokens.template_noise", "X3")
    found = {f.code + str(f.params.get("road")): f for f in spoken(monkeypatch, beside, second, first)}
    told = found[first.code + str(first.params.get("road"))]
    assert len(found) == (2 if one else 3)
    assert told.exchanges == (("X1", "X2") if one else ("X1",))
    assert told.observed == ({"X1": 1, "X2": 1} if one else {"X1": 1})
    assert found["tokens.template_noiseNone"].exchanges == ("X3",)


def test_every_second_witness_is_heard(monkeypatch):
    alone = witness("tokens.deficit", "X2", "intercept")
    pair = witness("tokens.match", "X1"), witness("tokens.match", "X3", "intercept")
    found = spoken(monkeypatch, alone, *pair)
    assert sorted((f.code, f.exchanges) for f in found) == [("tokens.deficit", ("X2",)), ("tokens.match", ("X1", "X3"))]


HINT = weighed("channel.subscription_pool_hint", severity="low")
TAKEN = weighed("params.illegal_accepted", {"cases": sorted(TRAITS)[:2]}, severity="medium")
IGNORED = weighed("params.not_honoured", {"cases": sorted(TRAITS)[:1]}, severity="low")
BOTH = weighed("params.illegal_accepted", {"cases": [min(TRAITS), "temperature_range"]}, severity="medium")
BILL = weighed("billing.overcharged", severity="high")


@pytest.mark.parametrize(
    "swapped",
    [weighed(code, outcome="mismatch") for code in
     ("tokens.tokenizer_differs", "model.relay_header_admits", "model.relay_log_admits_mapping", "model.substituted")],
    ids=lambda f: f.code,
)  # fmt: skip
@pytest.mark.parametrize("item", [HINT, TAKEN, IGNORED, BOTH, BILL], ids=lambda f: f.code)
def test_where_the_run_speaks_of_another_model_its_own_rules_weigh_nothing(monkeypatch, item, swapped):
    found = next(f for f in spoken(monkeypatch, item, swapped) if f.code == item.code)
    assert found.severity == ("info" if item in (HINT, TAKEN, IGNORED) else item.severity)
    alias = swapped.model_copy(update={"outcome": "match", "severity": "info"})
    assert next(f for f in spoken(monkeypatch, item, alias) if f.code == item.code).severity == item.severity
    assert next(f for f in spoken(monkeypatch, item, BILL) if f.code == item.code).severity == item.severity


def test_a_count_that_is_another_one_for_long_bodies_only_is_not_yet_another_model(monkeypatch):
    count = weighed("tokens.tokenizer_differs", outcome="mismatch")
    longer = count.model_copy(update={"params": {**count.params, "road": "long"}})
    assert next(f for f in spoken(monkeypatch, TAKEN, longer) if f.code == TAKEN.code).severity == "medium"


def test_recorded_traffic_is_as_good_as_whoever_recorded_it(monkeypatch):
    evidence = run()
    recorded = evidence.model_copy(update={"target": evidence.target.model_copy(update={"recorded": "har"})})
    one = weighed("tokens.match", basis="live_official")
    assert spoken(monkeypatch, one)[0].basis == "live_official"
    assert {f.basis for f in spoken(monkeypatch, one, BILL, evidence=recorded)} == {"recorded"}


def test_what_two_assessors_say_together_is_in_the_judgement(monkeypatch):
    """Neither sees the other: the judgement joins them, with what is known, and counts them as one."""
    limit = weighed(
        "model.limit_mismatch", {"requested": "a", "cap": 1, "fits": ["b"]}, outcome="mismatch", severity="low"
    )
    count = weighed("tokens.tokenizer_differs", outcome="mismatch")
    assert spoken(monkeypatch, limit, count)[0].code == "model.substituted"
    named = {"requested": "a", "untrusted_returned": "claude-haiku-4-5-20251001", "n": 1, "of": 1, "road": "signature"}
    signed = weighed("model.name_mismatch").model_copy(update={"params": named})
    own = limit.model_copy(update={"params": {**limit.params, "cap": 64_000}})
    assert spoken(monkeypatch, signed, own)[0].params["road"] == "signature_and_limit"


ALWAYS = {"model_identity", "run_state"}


@pytest.mark.parametrize(
    ("checks", "names"),
    [
        ((), set()),
        ((1,), {"channel", "repeated"}),
        ((2,), {"token_parity", "token_intercept", "output_echo", "recitation"}),
        ((3,), set()),
        ((4,), {"parameter_parity", "film_parameters"}),
        ((5,), {"media"}),
        ((6,), {"billing", "tiers"}),
        ((1, 2, 3, 4, 5, 6), set(ASSESSORS)),
    ],
)
def test_which_assessors_a_check_asks(monkeypatch, checks, names):
    asked: list[str] = []
    for pack, without in (("anthropic", set()), ("ark_video", {"billing"})):
        asked.clear()
        own = {name: lambda *_, name=name: asked.append(name) or [] for name in ASSESSORS}
        monkeypatch.setattr(judging, "ASSESSORS", own)
        evidence = run(checks=checks).model_copy(update={"pack": load_packs().pack(pack)})
        assess(evidence, KNOWLEDGE)
        assert set(asked) == (ALWAYS | names) - without
        assert len(asked) == len(set(asked))
