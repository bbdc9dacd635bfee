"""Names that come for free: what a relay itself says it asked for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relay_audit.assess.model_identity import assess_model_identity
from relay_audit.assess.model_names import maker, relation
from relay_audit.books import LogReading, LogRow
from relay_audit.evidence import Evidence
from relay_audit.quote import Prices, StepPrice, make_quote
from relay_audit.target import Claim
from tests.assess.evidence_builders import (
    KNOWLEDGE,
    MODEL,
    START,
    answered,
    at,
    codes,
    minted,
    only,
    run_of,
    step_named,
)


def run(
    *, model: str | list[str] = MODEL, header: str = "", log: tuple[dict, ...] = (), asked: str = MODEL
) -> Evidence:
    names = model if isinstance(model, list) else [model] * 3
    steps = [step_named(f"s{place}") for place in range(len(names))]
    headers = (("X-LiteLLM-Model-Name", header),) if header else ()
    exchanges = [
        answered(p + 1, f"s{p}", {"model": name, "usage": {}}, moment=at(p), headers=headers)
        for p, name in enumerate(names)
    ]
    rows = tuple(
        LogRow(
            exchange=f"X000{p + 1}",
            created_at=START,
            kind="consume",
            model=asked,
            quota=1,
            prompt_tokens=1,
            completion_tokens=1,
            other=other,
        )
        for p, other in enumerate(log)
    )
    readings = (LogReading(at=START, exchange="X0009", state="read", rows=rows),) if rows else ()
    return run_of(exchanges, steps, model=asked, log=readings)


@pytest.mark.parametrize(
    ("asked", "other", "says"),
    [
        (MODEL, MODEL, "same"),
        (MODEL, "claude-sonnet-5-5-20261001", "same"),
        (MODEL, "anthropic/claude-sonnet-5.5", "same"),
        (MODEL, "claude-opus-5-5", "another"),
        (MODEL, "claude-3-haiku-20240307", "another"),
        (MODEL, "glm-4.7", "another"),
        (MODEL, "openai/gpt-5", "another"),
        (MODEL, "vertex_ai/gemini-3-pro", "another"),
        (MODEL, "azure-prod-3", "unclear"),
        (MODEL, "channel 7", "unclear"),
        (MODEL, "claude-sonnet-5-5-thinking", "unclear"),
        ("claude-sonnet-9-thinking", "claude-sonnet-9", "unclear"),
        (MODEL, "o3-mini", "another"),
        (MODEL, "ocean", "unclear"),
        ("claude-sonnet-5-5-官转", MODEL, "unclear"),
        ("[aws]claude-sonnet-5-5", "claude-haiku-4-5-20251001", "another"),
        ("官转-claude-sonnet-5-5", "z-ai/glm4.7", "another"),
        ("claude-sonnet-5-5-thinking", "claude-sonnet-5", "another"),
        ("满血-55", "claude-haiku-4-5", "unclear"),
        ("claude-sonnet-5-9", "claude-sonnet-5", "another"),
        (MODEL, "Claude Sonnet 5.5", "same"),
        (MODEL, "claude_sonnet_5_5[1m]", "same"),
        (MODEL, "vertex_ai/claude-sonnet-5-5@default", "same"),
        (MODEL, "bedrock/converse/us.anthropic.claude-sonnet-5-5-20260928-v1:0", "same"),
        ("gpt-5.4", "gpt-54", "same"),
        (MODEL, "claude-max-pool-3", "unclear"),
        (MODEL, "claude-code", "unclear"),
        (MODEL, "claude-sonnet-latest", "unclear"),
        ("claude-sonnet-latest", "claude-sonnet-5-5-20260928", "unclear"),
        ("claude-sonnet-latest", "claude-haiku-4-5", "another"),
        (MODEL, "claude-haiku-latest", "another"),
        (MODEL, "claude-sonnet-9", "another"),
        (MODEL, "claude-haiku-4-5-pool", "another"),
        ("deepseek-chat", "deepseek-v4-flash", "unclear"),
        ("deepseek-reasoner", "deepseek-chat", "another"),
        ("deepseek-v4-pro", "deepseek-chat", "another"),
        ("gemini-3-flash", "gemini-3-flash-preview", "unclear"),
        ("gemini-3.5-flash", "gemini-flash-latest", "unclear"),
        (MODEL, "官转-claude-haiku-4-5", "another"),
        (MODEL, "官转-claude-sonnet-5-5", "unclear"),
    ],
)
def test_what_another_name_means(asked, other, says):
    assert relation(asked, other, KNOWLEDGE) == says


@pytest.mark.parametrize(
    ("name", "whose"),
    [("gpt-5", "gpt"), ("chatgpt-latest", "gpt"), ("o1-mini", "gpt"), ("o3", "gpt"), ("o4-mini", "gpt"), ("o9-x", "o9"),
     ("claude-opus-5", "claude"), ("gemma-3", "gemma"), ("ocean", ""), ("my-gpt", ""), ("", "")],
)  # fmt: skip
def test_whose_name_it_is(name, whose):
    assert maker(name) == whose


def test_a_header_that_names_another_model():
    found = only(assess_model_identity(run(header="anthropic/claude-3-haiku-20240307"), KNOWLEDGE))
    assert (found.code, found.outcome, found.severity, found.confidence, found.basis) == (
        "model.relay_header_admits",
        "mismatch",
        "critical",
        "decisive",
        "relay_word",
    )
    assert found.params == {
        "requested": MODEL,
        "untrusted_upstream": "anthropic/claude-3-haiku-20240307",
        "n": 3,
        "header": "x-litellm-model-name",
    }
    assert (found.exchanges, found.accusation) == (("X0001", "X0002", "X0003"), True)
    assert found.observed == {"untrusted_model": "anthropic/claude-3-haiku-20240307"}


def test_a_header_that_names_an_alias_is_a_fact():
    found = only(assess_model_identity(run(header="anthropic/claude-sonnet-5.5"), KNOWLEDGE))
    assert (found.code, found.outcome, found.severity, found.confidence) == (
        "model.relay_header_admits",
        "match",
        "info",
        "supporting",
    )


@pytest.mark.parametrize("header", ["", MODEL, "azure-prod-3"])
def test_a_header_that_says_nothing(header):
    assert assess_model_identity(run(header=header), KNOWLEDGE) == []


@pytest.mark.parametrize("key", ["upstream_model_name", "response_model"])
def test_a_log_that_names_another_model(key):
    found = only(assess_model_identity(run(log=({key: "glm-4.7"}, {}, {key: "glm-4.7"})), KNOWLEDGE))
    assert (found.code, found.severity, found.exchanges) == (
        "model.relay_log_admits_mapping",
        "critical",
        ("X0001", "X0003"),
    )
    assert found.params == {"requested": MODEL, "untrusted_upstream": "glm-4.7", "n": 2}


def test_a_log_that_names_an_alias_is_a_fact():
    found = only(assess_model_identity(run(log=({"upstream_model_name": "claude-sonnet-5-5-20261001"},)), KNOWLEDGE))
    assert (found.outcome, found.severity) == ("match", "info")


def test_another_model_outweighs_an_alias_in_the_same_log():
    log = ({"upstream_model_name": "claude-sonnet-5.5"}, {"upstream_model_name": "glm-4.7"})
    found = only(assess_model_identity(run(log=log), KNOWLEDGE))
    assert (found.severity, found.exchanges) == ("critical", ("X0002",))


@pytest.mark.parametrize("value", [None, "", 7, ["glm-4.7"]])
def test_a_log_field_that_is_no_name(value):
    assert assess_model_identity(run(log=({"upstream_model_name": value},)), KNOWLEDGE) == []


def test_rows_that_are_not_ours_admit_nothing():
    whole = run(log=({"upstream_model_name": "glm-4.7"},))
    loose = whole.log[0].model_copy(update={"rows": (whole.log[0].rows[0].model_copy(update={"exchange": ""}),)})
    assert assess_model_identity(whole.model_copy(update={"log": (loose,)}), KNOWLEDGE) == []


def test_a_returned_name_that_differs_is_low():
    names = ["claude-haiku-4-5", "claude-haiku-4-5", "glm-4.7", MODEL]
    found = only(assess_model_identity(run(model=names), KNOWLEDGE))
    assert (found.code, found.outcome, found.severity, found.accusation) == (
        "model.name_mismatch",
        "mismatch",
        "low",
        False,
    )
    assert found.params == {"requested": MODEL, "untrusted_returned": "claude-haiku-4-5", "n": 3, "of": 4}
    assert found.exchanges == ("X0001", "X0002", "X0003")


@pytest.mark.parametrize(
    "name", [MODEL, "claude-sonnet-5-5-20261001", "us.anthropic.claude-sonnet-5-5-v1:0", "", "my-model"]
)
def test_dates_prefixes_and_labels_are_no_difference(name):
    assert assess_model_identity(run(model=name), KNOWLEDGE) == []


@pytest.mark.parametrize("name", ["QZ-9", "qz-9-20261001", "vendor/qz-9", "qz9:latest", "nova-lite-2"])
def test_a_returned_name_that_nobody_knows_is_low(name):
    found = only(assess_model_identity(run(model=[MODEL, name, name]), KNOWLEDGE))
    assert (found.code, found.severity, found.accusation) == ("model.name_mismatch", "low", False)
    assert found.params == {"requested": MODEL, "untrusted_returned": name, "n": 2, "of": 3}
    assert found.exchanges == ("X0002", "X0003")


def test_a_known_other_name_outweighs_one_that_nobody_knows():
    found = only(assess_model_identity(run(model=["QZ-9", "glm-4.7"]), KNOWLEDGE))
    assert (found.params["untrusted_returned"], found.exchanges) == ("glm-4.7", ("X0002",))


@pytest.mark.parametrize(
    "name",
    [
        "Claude-Sonnet-5-5", "CLAUDE-SONNET-5.5", "anthropic/claude-sonnet-5-5-20260928", "eu.anthropic.claude-sonnet-5-5-v1:0",
        "sonnet-5.5", "my.sonnet55", "team-claude", "azure-prod-3", "prod", "eastus2-gpt", "官转1", "channel 7", "[特价]qz", "12",
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3d4e5f6", "ep-20261001123456-abcde",
        "projects/1/locations/l/endpoints/2", "9f8e7d6c5b4a", "Default", "unknown", "null", "x", "upstream-3",
    ],
)  # fmt: skip
def test_an_alias_a_deployment_or_a_label_is_no_difference(name):
    assert assess_model_identity(run(model=name), KNOWLEDGE) == []


@pytest.mark.parametrize("channel", ["azure", "aws", "vertex"])
def test_whoever_rents_from_a_cloud_names_it_as_he_likes(channel):
    """Declared, or shown by the cloud's own headers."""
    whole = run(model="qz-9")
    declared = whole.target.model_copy(update={"claim": Claim(channel=channel)})
    assert assess_model_identity(whole.model_copy(update={"target": declared}), KNOWLEDGE) == []
    marks = {
        "azure": ("", (("apim-request-id", "x"),)),
        "aws": ("", (("x-amzn-requestid", "0b7a"), ("x-amzn-bedrock-input-token-count", "3"))),
        "vertex": (f"msg_vrtx_01{minted(START)}", ()),
    }
    number, headers = marks[channel]
    seen = answered(1, "s0", {"id": number, "model": "qz-9"}, moment=START, headers=headers)
    assert assess_model_identity(whole.model_copy(update={"exchanges": (seen,)}), KNOWLEDGE) == []


def test_a_seller_s_own_name_for_the_line_is_held_against_no_unknown_one():
    assert assess_model_identity(run(asked="cc-max-55", model="QZ-9"), KNOWLEDGE) == []


def test_a_returned_name_that_is_no_text_is_none():
    whole = run()
    odd = answered(1, "s0", {"model": 5}, moment=START)
    assert codes(assess_model_identity(whole.model_copy(update={"exchanges": (odd,)}), KNOWLEDGE)) == []
    refused = answered(1, "s0", {"model": "glm-4.7"}, moment=START, status=400)
    assert codes(assess_model_identity(whole.model_copy(update={"exchanges": (refused,)}), KNOWLEDGE)) == []


def test_a_label_of_the_seller_s_own_is_held_to_the_name_its_maker_gives() -> None:
    """`[official] model` says what the label stands for: the true name in log, header and answer is no other model."""
    rows = ({"is_model_mapped": True, "upstream_model_name": MODEL},) * 3
    sold = run(asked="cc-max-55", model=MODEL, header=MODEL, log=rows)
    named = sold.model_copy(update={"target": sold.target.model_copy(update={"official_model": MODEL})})
    assert not [f.code for f in assess_model_identity(named, KNOWLEDGE) if f.above_info]
    swapped = run(asked="cc-max-55", model="cc-max-55", log=({"upstream_model_name": "claude-haiku-4-5"},) * 3)
    named = swapped.model_copy(update={"target": swapped.target.model_copy(update={"official_model": MODEL})})
    assert "model.relay_log_admits_mapping" in codes(assess_model_identity(named, KNOWLEDGE))


def till(text: str, *, status: int = 403, **site: object) -> Evidence:
    """One oversized limit of 128,001, refused before any upstream call."""
    step = step_named("s").model_copy(
        update={"case": "max_tokens_above_limit", "output_limit": 128_001, "estimate": 20}
    )
    told = answered(1, "s", {"error": {"message": text}}, moment=START, status=status)
    whole = run_of([told], [step], model=MODEL)
    return whole.model_copy(update={"site": whole.site.model_copy(update=site)})


@pytest.mark.parametrize(
    ("needed", "site", "ratio", "per_mtok"),
    [
        ("＄0.257002", {}, "1", "2"),
        ("$0.077101", {}, "0.3", "0.6"),
        ("¥1.876115", {"usd_exchange_rate": Decimal("7.3")}, "1", "14.6"),
        ("¥1.876115", {}, "unknown", "14.6"),
        ("128501", {}, "1", "1000000"),
        ("64250", {"display_type": "TOKENS"}, "0.5", "499996.109"),
        ("0.514004", {"display_type": "USD"}, "2", "4"),
        ("₿2.57002", {"custom_rate": Decimal(10)}, "1", "20"),
        ("₿2.57002", {}, "unknown", "20"),
        ("＄0.128501", {"quota_per_unit": 1_000_000}, "1", "1"),
    ],
)
def test_a_refused_reserve_says_which_ratio_it_works_with(needed, site, ratio, per_mtok):
    text = f"预扣费额度失败, 用户剩余额度: ＄0.100000, 需要预扣费额度: {needed}"
    found = next(f for f in assess_model_identity(till(text, **site), KNOWLEDGE) if f.code == "billing.gated_at_till")
    assert (found.params["ratio"], found.params["per_mtok"]) == (ratio, per_mtok)
    assert (found.outcome, found.severity, found.exchanges, found.basis) == (
        "inconclusive",
        "info",
        ("X0001",),
        "relay_word",
    )


@pytest.mark.parametrize(
    ("text", "status"),
    [("insufficient quota", 403), ("用户剩余额度: ＄0.1", 403), ("需要预扣费额度: ＄0.257002", 500), ("需要预扣费额度: ＄0.257002", 200)],
)  # fmt: skip
def test_no_other_refusal_leaks_a_ratio(text, status):
    assert "billing.gated_at_till" not in codes(assess_model_identity(till(text, status=status), KNOWLEDGE))


def test_the_reserve_counts_the_prompt_that_was_quoted():
    whole = till("need quota: ＄0.258002")
    price = StepPrice(step="s", input_tokens=1_000, expected=Decimal(0), at_most=Decimal(0), hold=Decimal(0))
    quote = make_quote(whole.plan.model_copy(update={"steps": ()}), Prices(relay=None), {}, START)
    whole = whole.model_copy(update={"quote": quote.model_copy(update={"steps": (price,)})})
    found = next(f for f in assess_model_identity(whole, KNOWLEDGE) if f.code == "billing.gated_at_till")
    assert found.params == {"needed": "0.258002", "per_mtok": "2", "ratio": "1"}


def test_what_an_earlier_reading_of_the_log_admitted_holds_though_its_row_is_gone():
    """A log of the newest few rows has dropped it by the end."""
    whole = run(log=({"upstream_model_name": "glm-4.7"}, {}, {}))
    first = whole.log[0]
    later = first.model_copy(update={"exchange": "X0010", "rows": first.rows[1:]})
    found = only(assess_model_identity(whole.model_copy(update={"log": (first, later)}), KNOWLEDGE))
    assert (found.code, found.exchanges) == ("model.relay_log_admits_mapping", ("X0001",))
    assert [row.exchange for row in whole.model_copy(update={"log": (first, later)}).own_rows()] == [
        "X0002",
        "X0003",
        "X0001",
    ]
    again = later.model_copy(update={"rows": (first.rows[0].model_copy(update={"other": {}}), *later.rows)})
    assert assess_model_identity(whole.model_copy(update={"log": (first, again)}), KNOWLEDGE) == [], (
        "a row's last word counts"
    )
