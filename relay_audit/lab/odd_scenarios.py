"""Honest relays that look odd, and relays that are other than promised only where it is hard to see."""

from __future__ import annotations

from decimal import Decimal

from relay_audit.lab.knobs import Knobs
from relay_audit.lab.scenario import row

ODD = (
    row(
        "honest",
        "official_lacks_model",
        "the official key has no access to the model",
        "官方 key 没有这个型号的权限",
        Knobs(official="lacks_model"),
        notes="no official side, and no finding about the relay",
    ),
    row(
        "honest",
        "honest_log_used_up",
        "the site's limit of log reads is used up",
        "站点的日志读取次数已用完",
        Knobs(log="used_up"),
        notes="the buyer's own logins; 429 with an empty body is no fault",
    ),
    row(
        "honest",
        "honest_empty_text",
        "the model thinks and says nothing",
        "模型只思考不说话",
        Knobs(empty_text=True),
        notes="tokens without a text: models that reason do this",
    ),
    row(
        "honest",
        "honest_stored_answers",
        "the same prompt gets the stored answer, free of charge",
        "同样的提示词给存下来的回答，不收费",
        Knobs(stores="free"),
        notes="hubrelay keeps answers for five minutes",
    ),
    row(
        "honest",
        "honest_rewritten_400_to_502",
        "every refusal comes as 502 in a Chinese wrapper",
        "所有报错都包成中文 502",
        Knobs(software="plain", rewrites_errors=True),
    ),
    row(
        "ambiguous",
        "errors_as_200",
        "refusals come with status 200",
        "报错用 200 返回",
        Knobs(errors_as_200=True),
        "params.error_unusable",
        notes="a client that looks at the status alone takes them for answers",
    ),
)  # fmt: skip
"""Honest, and hard to tell from a fault."""
EVADERS = (
    row("fault", "previous_generation", "the newest model only falls back one generation", "只有最新型号退回上一代",
        Knobs(template_offset=0, serves="claude-opus-5"), "model.substituted", model="claude-opus-5-5",
        notes="a pool's old client is refused for the newest model; it takes what the newer one refuses"),
    row("fault", "hidden_but_for_known_prompts", "508 tokens, but not for well-known prompts", "常见测试语不加，其余多 508 token",
        Knobs(template_offset=0, hidden=508, strikes="unknown_prompts"), "tokens.constant_surplus"),
    row("fault", "swapped_but_for_known_prompts", "another model, but not for well-known prompts", "常见测试语用真型号，其余换掉",
        Knobs(template_offset=0, serves="claude-haiku-5-5", strikes="unknown_prompts"), "model.substituted"),
    row("fault", "hidden_one_in_20", "508 tokens in one request of twenty", "二十次里有一次多 508 token",
        Knobs(template_offset=0, hidden=508, strikes="one_in_20"), may="tokens.intermittent_surplus",
        notes="found or bounded"),
    row("fault", "swapped_one_in_4", "one answer in four from a cheaper sibling", "四次里有一次换成便宜型号",
        Knobs(template_offset=0, serves="claude-haiku-5-5", strikes="one_in_4"), may="model.substituted model.name_mismatch",
        notes="the same tokenizer: found, or a match that says what it would not have seen"),
    row("fault", "swapped_one_in_4_asked_often", "the same of a dearer model, asked for its name often",
        "贵一档的型号也这样换，多问几次型号",
        Knobs(template_offset=0, serves="claude-sonnet-5-5", strikes="one_in_4"), "model.substituted", profile="thorough",
        model="claude-opus-5-5", may="model.name_mismatch",
        notes="the thorough profile meets it in refusals that name the model"),
    row("fault", "multiplied_one_in_4", "one answer in four billed 1.3 times", "四次里有一次输入乘 1.3",
        Knobs(template_offset=0, usage_factor=Decimal("1.3"), strikes="one_in_4"), "tokens.proportional_surplus", no_key=None),
    row("fault", "older_tokenizer_one_in_4", "one answer in four from an older model", "四次里有一次是旧型号",
        Knobs(template_offset=0, generation="claude-4-5", strikes="one_in_4"), "tokens.tokenizer_differs", no_key=None),
    row("fault", "older_tokenizer_one_in_10", "one answer in ten from an older model", "十次里有一次是旧型号",
        Knobs(template_offset=0, generation="claude-4-5", strikes="one_in_10"), "", no_key="",
        may="tokens.tokenizer_differs tokens.intermittent_surplus tokens.variable_surplus", notes="found or bounded"),
    row("fault", "older_tokenizer_for_long_bodies", "an older model for what is long", "长请求换成旧型号",
        Knobs(template_offset=0, generation="claude-4-5", strikes="long_bodies"),
        "tokens.tokenizer_differs billing.cache_not_honoured", no_key="billing.cache_not_honoured", profile="thorough",
        notes="only the thorough profile sends long bodies; else the match says how long the longest was"),
    row("fault", "converted_from_openai", "Claude's name on an OpenAI model", "名字是 Claude，背后是 OpenAI 的型号",
        Knobs(template_offset=0, ids="converted", generation="gpt-o200k", strips_vendor_headers=True, signature="opaque"),
        "tokens.tokenizer_differs", no_key=""),
    row("fault", "refused_in_openais_words", "Claude's name, refusals in OpenAI's words", "名字是 Claude，报错却是 OpenAI 的用词",
        Knobs(template_offset=0, ids="converted", generation="gpt-o200k", strips_vendor_headers=True, signature="opaque",
              refuses_in="openai"), "tokens.tokenizer_differs channel.mismatch", no_key="channel.mismatch"),
    row("fault", "output_x2", "output tokens times two", "输出 token 乘 2",
        Knobs(output_factor=2), "tokens.output_inflated", no_key=""),
    row("fault", "stored_and_charged", "stored answers are charged like fresh ones", "给存下来的回答，照样收费",
        Knobs(stores="charged"), "integrity.response_replayed"),
)  # fmt: skip
"""What strikes seldom is found, or the match says which share would not have been seen."""
