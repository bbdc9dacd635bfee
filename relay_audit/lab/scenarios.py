"""The truth table's left-hand side: each scenario, its one knob, and exactly the findings an audit of it must give."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from relay_audit.lab.knobs import Knobs

Kind = Literal["honest", "ambiguous", "fault", "hostile"]


class Title(NamedTuple):
    en: str
    zh: str


@dataclass(frozen=True)
class Scenario:
    name: str
    title: Title
    kind: Kind
    knobs: Knobs
    expect: frozenset[str]
    """Finding codes above info, no more and no fewer: claimed channel `anthropic`, with an official key."""
    expect_no_key: frozenset[str] | None
    """The same without an official key; None where a run of three sends may or may not meet the fault."""
    notes: str = ""
    model: str = ""
    """What is bought; empty means the dialect's usual model."""


def _row(
    kind: Kind,
    name: str,
    en: str,
    zh: str,
    knobs: Knobs,
    expect: str = "",
    *,
    no_key: str | None = "=",
    notes: str = "",
) -> Scenario:
    codes = frozenset(expect.split())
    without = None if no_key is None else codes if no_key == "=" else frozenset(no_key.split())
    return Scenario(name, Title(en, zh), kind, knobs, codes, without, notes)


_HONEST = (
    _row("honest", "honest", "an honest relay", "老实的中转站", Knobs()),
    _row("honest", "honest_stripped_headers", "vendor headers are not passed on", "不透传官方响应头",
         Knobs(strips_vendor_headers=True), notes="sub2api's allow-list removes them by default; absence is neutral"),
    _row("honest", "honest_template_4", "four tokens of template", "模板多 4 个 token", Knobs(template_offset=4)),
    _row("honest", "honest_group_ratio", "a published and charged group ratio of 0.3", "公示并按 0.3 倍率计费的分组",
         Knobs(group="discount", group_ratio=Decimal("0.3"))),
    _row("honest", "honest_log_off", "consume logging is off", "关闭了消费日志", Knobs(log="off")),
    _row("honest", "honest_log_late", "log rows appear six seconds later", "日志晚 6 秒出现", Knobs(log="late")),
    _row("honest", "honest_log_query_only", "an old log that reads only a key in the URL", "旧版日志，只认网址里的密钥",
         Knobs(log="query_only"), notes="new-api before 2026-02-06: a Bearer call gets success and no rows"),
    _row("honest", "honest_flaky_25", "one request in four fails without charge", "四分之一的请求失败且不收费",
         Knobs(flaky_every=4)),
    _row("honest", "honest_slow", "slow answers", "响应慢", Knobs(slow=True)),
    _row("honest", "honest_usage_extras", "usage fields nobody has seen yet", "没见过的用量字段",
         Knobs(usage_extras=True)),
    _row("honest", "honest_foreign_rows", "other traffic on the same key", "同一密钥上有别人的流量",
         Knobs(foreign_rows=True)),
    _row("honest", "honest_bearer_only", "x-api-key is refused, Bearer works", "只认 Bearer，不认 x-api-key",
         Knobs(bearer_only=True)),
    _row("honest", "honest_rewritten_chinese_errors", "refusals re-worded in Chinese", "错误信息被改写成中文",
         Knobs(rewrites_errors=True, flaky_every=8),
         notes="hubrelay's wrapper; one request in eight fails so that it shows"),
    _row("honest", "honest_small_balance", "a balance below the reserve of check 3", "余额不够检查 3 的预扣",
         Knobs(balance=100_000)),
    _row("honest", "honest_no_pricing", "the price list is closed", "不公开价格", Knobs(publishes_prices=False)),
    _row("honest", "honest_no_software", "a plain proxy without any panel", "没有面板的普通反向代理",
         Knobs(software="plain")),
    _row("honest", "honest_litellm", "LiteLLM in front of the same model", "LiteLLM 转发同一模型",
         Knobs(software="litellm")),
    _row("honest", "official_incident", "the official count changes in mid-run", "官方计数接口中途变动",
         Knobs(official="incident"), notes="a control that does not agree with itself accuses nobody"),
    _row("honest", "official_down", "the official API is overloaded", "官方接口过载", Knobs(official="down")),
    _row("ambiguous", "honest_thinking_29", "a constant offset of 29 tokens", "固定多 29 个 token",
         Knobs(template_offset=29), "tokens.inconclusive_offset", notes="9 to 49 tokens is never an accusation"),
)  # fmt: skip

_CHANNELS = (
    _row("honest", "honest_opaque_signature", "thinking signatures that show nothing", "思考签名什么也看不出",
         Knobs(signature="opaque"), notes="an unknown layout is no contradiction"),
    _row("honest", "honest_rebuilt_streams", "streams printed anew by the relay", "流式回答被中转重新打印",
         Knobs(streams="rebuilt"), notes="a fact about the way, never a fault"),
    _row("honest", "honest_bedrock_reseller", "Bedrock sold as Bedrock, headers gone", "明说是 Bedrock，响应头去掉",
         Knobs(channel="aws", claims="aws", strips_vendor_headers=True,
               returned_name="us.anthropic.claude-sonnet-5-5-20260928-v1:0")),
    _row("honest", "honest_azure", "Claude on Azure, sold as such", "明说是 Azure 上的 Claude",
         Knobs(channel="azure", claims="azure"), notes="the vendor's ids behind Azure's gateway"),
    _row("honest", "honest_vertex", "Vertex sold as Vertex", "明说是 Vertex", Knobs(channel="vertex", claims="vertex")),
    _row("honest", "honest_dated_name", "answers name the dated model", "回答里写的是带日期的型号名",
         Knobs(returned_name="claude-sonnet-5-5-20260928")),
    _row("honest", "honest_accounts", "requests go round among four accounts", "请求轮流用四个账号",
         Knobs(accounts=4), notes="a pool hint at info: usual where load is spread"),
    _row("honest", "honest_chain", "two relays in a row", "前后两家中转", Knobs(inner_relay=True, flaky_every=4),
         notes="both request ids stand in the text of a refusal"),
    _row("honest", "honest_constant_id", "one id in every answer", "每个回答都是同一个 id",
         Knobs(ids="constant", strips_vendor_headers=True, signature="opaque"), notes="CLIProxyAPI's constant: unknown, not a replay"),
    _row("honest", "official_future", "the vendor's next dialect on both sides", "两边都换成官方以后的新格式",
         Knobs(future=True), notes="ids, signatures, events, fields and wordings that nobody has seen yet"),
    _row("fault", "bedrock_signature", "the vendor's ids, a signature of Bedrock", "官方样子的 ID，签名却是 Bedrock 的",
         Knobs(channel="aws", ids="first_party", strips_vendor_headers=True), "channel.signals_contradict",
         notes="the signature against everything else of its answer: severity low"),
    _row("fault", "bedrock_without_headers", "Bedrock ids and signatures, no headers", "Bedrock 的 ID 和签名",
         Knobs(channel="aws", strips_vendor_headers=True), "channel.mismatch"),
    _row("fault", "signature_names_sibling", "the signature alone names another model", "只有签名写着别的型号",
         Knobs(signature_model="claude-haiku-5-5"), "model.name_mismatch"),
    _row("fault", "signature_and_log_name_sibling", "signature and log name another model", "签名和日志都写着别的型号",
         Knobs(signature_model="claude-haiku-5-5", mapped_to="claude-haiku-5-5"),
         "model.substituted model.relay_log_admits_mapping"),
)  # fmt: skip

_FAULTS = (
    _row("fault", "bedrock_ids", "answers come from Bedrock", "实际来自 Bedrock",
         Knobs(channel="aws"), "channel.mismatch"),
    _row("fault", "vertex_ids", "answers come from Vertex, headers removed", "实际来自 Vertex，响应头已去除",
         Knobs(channel="vertex"), "channel.mismatch", notes="one signal alone: severity low"),
    _row("fault", "mixed_pool", "half Bedrock, half first-party", "Bedrock 与官方各半",
         Knobs(channel="mixed"), "channel.mixed"),
    _row("fault", "forged_prefix", "made-up Bedrock ids under first-party headers", "官方响应头配自造的 Bedrock ID",
         Knobs(ids="forged_bedrock"), "channel.signals_contradict",
         notes="sub2api forks mint this shape for requests they answer themselves"),
    _row("fault", "forged_anthropic_ids", "random characters behind msg_01", "msg_01 后面是随机字符",
         Knobs(ids="random", strips_request_id=True), "channel.id_reminted"),
    _row("fault", "stale_ids", "ids minted three hours ago", "三小时前生成的 ID",
         Knobs(ids="stale"), "channel.id_reminted"),
    _row("fault", "replayed_ids", "answers are sent twice", "同一回答重复下发",
         Knobs(replays=True), "channel.id_replayed"),
    _row("fault", "pool_geo_not_available", "no region on a model that has one", "本应有区域的模型没有区域",
         Knobs(geo="not_available"), "channel.subscription_pool_hint"),
    _row("fault", "hidden_508", "a hidden prompt of 508 tokens", "隐藏提示词 508 token",
         Knobs(template_offset=0, hidden=508), "tokens.constant_surplus"),
    _row("fault", "hidden_100", "a hidden prompt of 100 tokens", "隐藏提示词 100 token",
         Knobs(template_offset=0, hidden=100), "tokens.constant_surplus"),
    _row("fault", "hidden_4380", "a hidden prompt of 4,380 tokens", "隐藏提示词 4380 token",
         Knobs(template_offset=0, hidden=4380), "tokens.constant_surplus"),
    _row("fault", "hidden_cached", "a hidden prompt of 7,552 tokens in the cache", "缓存里的 7552 token 隐藏提示词",
         Knobs(template_offset=0, hidden_cached=7552), "tokens.constant_surplus tokens.cache_breakpoint_injected"),
    _row("fault", "hidden_without_system", "508 tokens where no system prompt is sent", "没带 system 时多 508 token",
         Knobs(template_offset=0, hidden=508, hidden_when="no_system"), "tokens.variable_surplus",
         no_key="tokens.constant_surplus", notes="the published sentence is sent without a system prompt"),
    _row("fault", "hidden_by_user_agent", "508 tokens for callers of an HTTP library", "看 User-Agent 决定加不加 508 token",
         Knobs(template_offset=0, hidden=508, hidden_when="library_agent"), "tokens.variable_surplus",
         no_key="tokens.constant_surplus", notes="without a key nothing is sent under another User-Agent"),
    _row("fault", "hidden_sometimes", "508 tokens in one request of four", "四次里有一次多 508 token",
         Knobs(template_offset=0, hidden=508, hidden_when="sometimes"), "tokens.intermittent_surplus", no_key=None),
    _row("fault", "usage_x13", "input tokens times 1.3", "输入 token 乘 1.3",
         Knobs(template_offset=0, usage_factor=Decimal("1.3")), "tokens.proportional_surplus", no_key="",
         notes="without a key 18 becomes 23: inside template noise"),
    _row("fault", "usage_x2", "input tokens times 2", "输入 token 乘 2",
         Knobs(template_offset=0, usage_factor=Decimal(2)),
         "tokens.proportional_surplus", no_key="tokens.inconclusive_offset",
         notes="without a key 18 becomes 36: an offset of 18 has many readings"),
    _row("fault", "swapped_tokenizer", "the older generation's tokenizer", "用的是上一代分词器",
         Knobs(template_offset=0, generation="claude-4-5"), "tokens.tokenizer_differs", no_key="",
         notes="without a key the sentence counts less than 18, which accuses nobody"),
    _row("fault", "log_admits_mapping", "the log names another model upstream", "日志承认换了模型",
         Knobs(mapped_to="claude-haiku-5-5"), "model.relay_log_admits_mapping",
         notes="a sibling with the same tokenizer, so that nothing else shows"),
    _row("fault", "swapped_sibling", "a cheaper sibling with the same tokenizer", "换成同一分词器的便宜型号",
         Knobs(template_offset=0, serves="claude-haiku-5-5"), "model.substituted",
         notes="only the refused output limit tells; the log shows no mapping"),
    _row("fault", "litellm_swap", "a header names another model upstream", "响应头承认换了模型",
         Knobs(software="litellm", litellm_model="anthropic/claude-3-haiku-20240307"), "model.relay_header_admits",
         notes="only the header is turned; a real swap would also show in the token counts"),
    _row("fault", "overcharge_x2", "rows charged twice their own ratios", "按自己公示倍率的两倍扣费",
         Knobs(charge_factor=2), "billing.overcharged"),
    _row("fault", "key_echo", "answers contain the caller's key", "回答里带着你的密钥",
         Knobs(echoes_key="answers"), "run.key_echoed"),
)  # fmt: skip

TAKEN = ("temperature", "top_p", "top_k", "stop_sequences", "metadata", "tool_choice", "service_tier", "inference_geo",
         "thinking", "seed")  # fmt: skip
"""All the fields that a converter to a format without them loses."""
_PARAMETERS = (
    _row("fault", "everything_taken", "all fields but the text are taken out", "除了正文，什么字段都拿掉",
         Knobs(swallows=TAKEN), "params.illegal_accepted params.not_honoured",
         notes="many refusals are answered: each waits for the relay's books"),
    _row("fault", "everything_taken_log_off", "the same without a log", "同上，而且没有日志",
         Knobs(swallows=TAKEN, log="off"), "params.illegal_accepted params.not_honoured",
         notes="the balance settles them"),
    _row("fault", "temperature_dropped_unlogged", "the temperature is taken out, nothing can be looked up", "温度被拿掉，查不到账",
         Knobs(software="plain", swallows=("temperature",)), "params.illegal_accepted",
         notes="an answered canary whose cost nobody can read: no more is refused"),
    _row("fault", "temperature_dropped", "the sampling temperature is taken out", "采样温度被拿掉",
         Knobs(swallows=("temperature",)), "params.illegal_accepted"),
    _row("fault", "unknown_fields_dropped", "fields of other vendors vanish, software unknown", "别家的字段消失，程序未知",
         Knobs(software="plain", swallows=("seed",)), "params.illegal_accepted",
         notes="honest hops of some software do it: severity low"),
    _row("fault", "region_dropped", "the region is taken out, software unknown", "推理区域被拿掉，程序未知",
         Knobs(software="plain", swallows=("inference_geo",)), "params.legal_dropped params.illegal_accepted",
         notes="honest hops of some software do it: severity low"),
    _row("fault", "stop_ignored", "stop words do not stop", "停止词不起作用",
         Knobs(swallows=("stop_sequences",)), "params.not_honoured"),
    _row("fault", "limit_ignored", "the output limit does not bound", "输出上限不起作用",
         Knobs(limit_to=4096), "params.not_honoured params.clamped",
         notes="a limit above the model's own is then answered as well"),
    _row("fault", "limit_lowered", "the output limit is lowered to 12", "输出上限被压到 12",
         Knobs(limit_to=12), "params.clamped"),
    _row("fault", "errors_blanked", "every refusal reads the same", "所有报错都一个样",
         Knobs(software="plain", blanks_errors=True), "params.error_unusable",
         notes="claude-relay-service with console accounts writes them so"),
    _row("fault", "fallback_on_400", "what is refused is asked of another model", "被拒绝的请求转给别的型号",
         Knobs(reroutes=True), "params.rerouted_on_error"),
    _row("fault", "fallback_on_400_litellm", "LiteLLM with a fallback model", "LiteLLM 配了备用型号",
         Knobs(software="litellm", reroutes=True), "params.rerouted_on_error"),
)  # fmt: skip

_SPOILT = "run.hostile_response"
_HOSTILE = (
    _row("hostile", "html_200", "a web page with status 200", "200 状态的网页", Knobs(hostile="html_200"), _SPOILT),
    _row("hostile", "empty_body", "status 200 and no body", "200 状态、正文为空", Knobs(hostile="empty_body"), _SPOILT),
    _row("hostile", "huge_body", "a body of 300 MB", "300 MB 的正文", Knobs(hostile="huge_body"), _SPOILT),
    _row("hostile", "gzip_bomb", "a small body that unpacks to 200 MB", "解压后 200 MB 的压缩炸弹",
         Knobs(hostile="gzip_bomb"), _SPOILT),
    _row("hostile", "endless_stream", "a stream without an end", "没有结尾的流",
         Knobs(hostile="endless_stream"), _SPOILT),
    _row("hostile", "slow_drip", "one byte at a time", "一个字节一个字节地发", Knobs(hostile="slow_drip"), _SPOILT),
    _row("hostile", "redirect", "a redirect to another host", "跳转到别的主机", Knobs(hostile="redirect"), _SPOILT),
    _row("hostile", "invalid_json", "JSON that stops half-way", "写到一半的 JSON",
         Knobs(hostile="invalid_json"), _SPOILT),
    _row("hostile", "nan_usage", "NaN as a token count", "用量写成 NaN", Knobs(hostile="nan_usage"), _SPOILT),
    _row("hostile", "negative_usage", "a negative token count", "用量为负数", Knobs(hostile="negative_usage"), _SPOILT),
    _row("hostile", "key_echoed_in_error", "the refusal quotes the key", "报错信息里带着密钥",
         Knobs(echoes_key="errors"), "run.key_echoed"),
    _row("hostile", "hang", "no answer, ever", "永远不回答", Knobs(hostile="hang"),
         notes="the relay has charged: its log shows a row for what the caller never saw"),
    _row("hostile", "reset_after_headers", "the connection breaks after the headers", "发完响应头就断开",
         Knobs(hostile="reset_after_headers")),
    _row("hostile", "wrong_key", "the key is refused", "密钥被拒", Knobs(hostile="wrong_key")),
    _row("hostile", "gated_403", "only certain clients are admitted", "只放行指定客户端", Knobs(hostile="gated_403")),
    _row("hostile", "balance_empty", "the balance ends after four requests", "四次请求后余额用尽",
         Knobs(hostile="balance_empty")),
    _row("hostile", "unreachable", "nothing listens at the address", "地址上没有服务", Knobs(hostile="unreachable")),
)  # fmt: skip

SCENARIOS: dict[str, Scenario] = {row.name: row for row in (*_HONEST, *_CHANNELS, *_FAULTS, *_PARAMETERS, *_HOSTILE)}
