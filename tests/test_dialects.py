"""What a pack may say of a vendor: usage that holds its cache, a model in the path, a counter of another shape, plain
User-Agents, another header for the key."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from relay_audit.base_address import below
from relay_audit.catalog import load_packs
from relay_audit.errors import PackError, TargetError
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.pack import Counter, Pack
from relay_audit.plan import count_body, make_plan, path_for
from relay_audit.probe import USER_AGENTS, RequestSpec
from relay_audit.prompt_text import estimated, has_system
from relay_audit.question import Question
from relay_audit.quote import Prices, UnitPrice, price_step
from relay_audit.target import at_vendor, read_target
from relay_audit.usage import read_usage
from relay_audit.wording import Wording

PACKS = load_packs()
BOUND = {"input_tokens": 10, "output_tokens": 16, "expected_output_tokens": 8}


def answer(body: object) -> Exchange:
    return Exchange(
        id="X0001", step="s", side="relay", sent_at=dt.datetime(2026, 11, 30, tzinfo=dt.UTC), elapsed_ms=1,
        delivery="answered", request=Request(method="POST", path="/x"),
        response=Response(status=200, body=json.dumps(body)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "body", "kinds", "billed"),
    [
        ("openai_chat", {"usage": {"prompt_tokens": 53, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}},
         {"input": 53, "output": 9}, 53),
        ("openai_chat", {"usage": {"prompt_tokens": 2000, "completion_tokens": 9,
                                   "prompt_tokens_details": {"cached_tokens": 1500, "cache_write_tokens": 200}}},
         {"input": 300, "cache_read": 1500, "cache_write_5m": 200, "output": 9}, 2000),
        ("openai_responses", {"usage": {"input_tokens": 14, "output_tokens": 5, "input_tokens_details":
                                        {"cache_write_tokens": 0, "cached_tokens": 4}}},
         {"input": 10, "cache_read": 4, "output": 5}, 14),
        ("deepseek", {"usage": {"prompt_tokens": 18, "completion_tokens": 1, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 10}},
         {"input": 10, "cache_read": 8, "output": 1}, 18),
        ("gemini", {"usageMetadata": {"promptTokenCount": 43, "candidatesTokenCount": 10, "thoughtsTokenCount": 1009}},
         {"input": 43, "output": 1019}, 43),
        ("gemini", {"usageMetadata": {"promptTokenCount": 43, "thoughtsTokenCount": 16}}, {"input": 43, "output": 16}, 43),
        ("gemini", {"usageMetadata": {"promptTokenCount": 43, "candidatesTokenCount": 3, "cachedContentTokenCount": 40}},
         {"input": 3, "cache_read": 40, "output": 3}, 43),
        ("zhipu", {"usage": {"prompt_tokens": 312, "completion_tokens": 252, "prompt_tokens_details": {"cached_tokens": 43}}},
         {"input": 269, "cache_read": 43, "output": 252}, 312),
    ],
)  # fmt: skip
def test_recorded_usage_is_read_and_adds_up(dialect, body, kinds, billed):
    usage = read_usage(answer(body), PACKS.pack(dialect))
    assert usage is not None
    assert {kind: n for kind, n in usage.by_kind().items() if n} == kinds
    assert usage.billed_input == billed


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("gemini", {"usageMetadata": {"promptTokenCount": 43}}),
        ("gemini", {"usageMetadata": {"promptTokenCount": 43, "candidatesTokenCount": 3, "thoughtsTokenCount": -1}}),
        ("openai_chat", {"usage": {"prompt_tokens": 4}}),
        (
            "openai_chat",
            {"usage": {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": "3"}}},
        ),
    ],
)
def test_usage_that_is_none(dialect, body):
    assert read_usage(answer(body), PACKS.pack(dialect)) is None


def test_more_cached_than_counted_is_no_negative_input():
    body = {"usage": {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}}
    usage = read_usage(answer(body), PACKS.pack("openai_chat"))
    assert (usage.input, usage.cache_read) == (0, 9)


def test_a_model_in_the_path_stays_one_segment():
    assert (
        path_for("/v1beta/models/$model:generateContent", "gemini-3.6-flash")
        == "/v1beta/models/gemini-3.6-flash:generateContent"
    )
    assert path_for("/v1beta/models/$model:x", "a/../b?c#d") == "/v1beta/models/a%2F..%2Fb%3Fc%23d:x"
    assert path_for("/v1/messages", "m") == "/v1/messages"


@pytest.mark.parametrize(
    "path", ["/v1/$other", "/v1/x$model", "/v1/$model$model", "//h/$model", "https://h/$model", "/$model/../x"]
)
def test_other_references_in_a_path_are_refused(path):
    with pytest.raises(ValueError, match="a path below the base address"):
        Counter(path=path, keep=("model",), read="/n", source="s", observed="2026-11-30")


def test_a_counter_may_want_the_whole_request_under_one_key():
    body = {"contents": [1], "systemInstruction": {"parts": []}, "generationConfig": {"maxOutputTokens": 16}}
    assert count_body(body, PACKS.pack("gemini"), "gem-9") == {
        "generateContentRequest": {"contents": [1], "systemInstruction": {"parts": []}, "model": "models/gem-9"}
    }
    sent = {
        "model": "relay-name",
        "input": "x",
        "instructions": "y",
        "max_output_tokens": 16,
        "store": False,
        "tools": [],
    }
    assert count_body(sent, PACKS.pack("openai_responses"), "gpt-6-sol") == {
        "model": "gpt-6-sol", "input": "x", "instructions": "y", "tools": [],
    }  # fmt: skip


@pytest.mark.parametrize("dialect", ["openai_chat", "deepseek", "qwen", "zhipu", "moonshot"])
def test_where_no_counter_is_known_none_is_asked(dialect):
    assert PACKS.pack(dialect).counter is None
    with pytest.raises(ValueError, match="no counting endpoint"):
        count_body({}, PACKS.pack(dialect), "m")


@pytest.mark.parametrize(
    ("dialect", "word"),
    [("anthropic", "allowed"), ("openai_chat", "allowed"), ("deepseek", "allowed"), ("qwen", "allowed"), ("zhipu", "allowed"),
     ("openai_responses", "blocked"), ("moonshot", "blocked"), ("gemini", "blocked")],
)  # fmt: skip
def test_an_oversized_limit_only_where_it_is_refused(dialect, word):
    assert PACKS.pack(dialect).oversize == word
    assert Pack.model_fields["oversize"].default == "blocked"


def spec(**changes) -> dict:
    return {"id": "r", "path": "/x", "bound": BOUND, "body": {"model": "$model", "max_tokens": 16}, **changes}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"design": [["ascii"]]}, "stand together"),
        ({"factors": ["script"]}, "stand together"),
        ({"factors": ["script"], "design": [["ascii"]], "matrix": {"units": [1]}}, "not beside a matrix"),
        ({"factors": ["script", "units"], "design": [["ascii"]]}, "every row of design has 2 levels"),
        ({"factors": ["agent"], "design": [["browser"]], "user_agent": "$agent"}, "user_agent 'browser' is not one of"),
        ({"user_agent": "claude-cli/2.0"}, "is not one of library, curl"),
        ({"user_agent": "$agent"}, "no factor of this request's design"),
        (
            {
                "factors": ["script"],
                "design": [["ascii"]],
                "repeat": 2,
                "cases": [{"id": "c", "legal": True, "tier": "none"}],
            },
            "cases stand alone",
        ),
        ({"cases": [{"id": "c", "legal": True, "tier": "none", "again": 3}]}, "paid for each time"),
        ({"cases": [{"id": "c", "legal": True, "tier": "none", "after": "d"}]}, "paid for each time"),
        ({"body": {"x": "$script"}}, r"\$script is neither a value nor a factor"),
    ],
)
def test_a_design_that_is_uneven_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        RequestSpec.model_validate(spec(**changes))


def test_a_design_is_sent_row_by_row():
    request = RequestSpec.model_validate(
        spec(factors=["script", "agent"], design=[["cjk", "curl"], ["ascii", "library"]], user_agent="$agent",
             body={"model": "$model", "max_tokens": 16, "messages": [{"content": "$script"}]})
    )  # fmt: skip
    probe = PACKS.probes[0].model_copy(update={"requests": (request,), "id": "lumen/one", "checks": (2,)})
    probe = probe.model_copy(
        update={
            "applies": probe.applies.model_copy(
                update={
                    "dialects": ("anthropic",),
                    "counter": "any",
                    "baseline": "any",
                    "families": (),
                    "profiles": ("standard",),
                }
            )
        }
    )
    asked = Question(
        model="m", official_model="m", dialect="anthropic", profile="standard", checks=(2,), software="", counter=False
    )
    steps = make_plan(asked, PACKS.pack("anthropic"), (probe,), Wording(PACKS.wordlists, 1), 1).steps
    assert [(s.factors["script"], s.user_agent, s.output_limit) for s in steps] == [
        ("cjk", "curl/8.14.1", 16),
        ("ascii", "", 16),
    ]


def test_user_agents_are_plain():
    assert USER_AGENTS == {"library": "", "curl": "curl/8.14.1"}


def test_the_bodys_own_limit_bounds_the_price_wherever_it_stands():
    asked = Question(
        model="gem", official_model="gem", dialect="gemini", profile="standard", checks=(2,), software="", counter=True
    )
    step = next(
        s
        for s in make_plan(asked, PACKS.pack("gemini"), PACKS.probes, Wording(PACKS.wordlists, 1), 1).steps
        if s.side == "relay"
    )
    unit = UnitPrice(input=1, output=1_000_000, source="s", observed=dt.date(2026, 11, 30))
    price = price_step(step, unit, 0, Prices(relay=unit))
    assert step.output_limit == 16
    assert 16 <= price.at_most < 17
    assert price.expected == 16


@pytest.mark.parametrize(
    ("body", "own"),
    [
        ({"system": "x"}, True),
        ({"instructions": "x"}, True),
        ({"systemInstruction": {"parts": []}}, True),
        ({"messages": [{"role": "system", "content": "x"}]}, True),
        ({"messages": [{"role": "developer", "content": "x"}]}, True),
        ({"messages": [{"role": "user", "content": "x"}]}, False),
        ({"messages": "x", "instructions": ""}, False),
        ({}, False),
    ],
)
def test_a_system_prompt_of_its_own(body, own):
    assert has_system(body) is own


def test_symbols_are_estimated_dearer_than_ideographs():
    pack = PACKS.pack("openai_chat")
    assert estimated("🍎🍎", pack) == 4
    assert estimated("苹果", pack) == 2
    assert estimated("abcd", pack) == 1
    assert estimated("", pack) == 0


@pytest.mark.parametrize("dialect", sorted(PACKS.dialects))
def test_the_vendors_own_address_is_the_dialects(dialect):
    pack = PACKS.pack(dialect)
    subject = f'[target]\nmodel = "m"\ndialect = "{dialect}"\n'
    text = subject + '[relay]\nbase_url = "https://relay.example/v1beta/models"\n[official]\nkey_env = "K"\n'
    target = read_target(text)[0]
    assert target.relay.base_url == "https://relay.example"
    assert (
        at_vendor(target, pack.official_roots).official.base_url
        == f"https://{pack.official_hosts[0]}{pack.official_path}"
    )
    with pytest.raises(TargetError, match="names no official host"):
        at_vendor(target, ())


def test_formats_that_vendors_keep_at_a_root_of_their_own():
    roots = {name: PACKS.pack(name).official_roots[0] for name in ("zhipu", "qwen", "deepseek")}
    assert {name: below(root, "/v1/chat/completions") for name, root in roots.items()} == {
        "zhipu": "https://open.bigmodel.cn/api/paas/v4/chat/completions",
        "qwen": "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions",
        "deepseek": "https://api.deepseek.com/v1/chat/completions",
    }


def test_a_limit_above_the_bound_is_refused_wherever_the_dialect_puts_it(tmp_path):
    from tests.test_invented_vendor import PACK, PARITY

    (tmp_path / "lumen").mkdir()
    (tmp_path / "lumen" / "pack.toml").write_text(PACK, encoding="utf-8")
    (tmp_path / "lumen" / "parity.toml").write_text(PARITY.replace("{ out = 20 }", "{ out = 21 }"), encoding="utf-8")
    with pytest.raises(PackError, match=r"limits/out 21 is more than bound\.output_tokens 20"):
        load_packs(tmp_path)
