"""Check 6 in the truth table: each way of charging, and exactly the findings an audit of it must give."""

from __future__ import annotations

from decimal import Decimal

from relay_audit.lab.knobs import Knobs
from relay_audit.lab.money import Money
from relay_audit.lab.scenario import Scenario, row

THIRD = Decimal("0.3")
DISCOUNT = "discount"

FAULTS: tuple[Scenario, ...] = (
    row(
        "fault",
        "price_above_list",
        "rows at 1.5 times the published price",
        "按公布价的 1.5 倍扣费",
        Knobs(money=Money(hidden_markup=Decimal("1.5"))),
        "billing.price_differs_from_published",
        notes="the group's ratio is the claimed one: only the model's price differs from the list",
    ),
    row(
        "fault",
        "claimed_30_charged_36",
        "claimed and published 0.3, charged 0.36",
        "声称和公布 0.3，实扣 0.36",
        Knobs(group=DISCOUNT, group_ratio=THIRD, money=Money(charged_ratio=Decimal("0.36"))),
        "billing.ratio_differs_from_claim billing.price_differs_from_published",
    ),
    row(
        "fault",
        "another_group",
        "rows name another group than the one sold",
        "日志里是别的分组",
        Knobs(group="official", money=Money(charged_group="pool")),
        "billing.group_differs_from_claim",
    ),
    row(
        "fault",
        "double_rows",
        "every fifth call is booked twice",
        "每五次调用有一次记两笔",
        Knobs(money=Money(doubles_every=5)),
        "billing.duplicate_charge",
    ),
    row(
        "fault",
        "errors_charged",
        "refusals of the vendor are charged",
        "官方拒绝的请求也扣费",
        Knobs(money=Money(errors="charged")),
        "billing.error_charged",
    ),
    row(
        "fault",
        "errors_unlogged",
        "refusals lower the balance without a row",
        "被拒的请求扣了余额却没有记录",
        Knobs(money=Money(errors="unlogged")),
        "billing.overcharged",
    ),
    row(
        "fault",
        "empty_charged",
        "every sixth answer is empty and charged",
        "每六个回答有一个是空的，照样扣费",
        Knobs(money=Money(empties_every=6)),
        "billing.empty_reply_charged",
    ),
    row(
        "fault",
        "streams_cut_charged",
        "streams break off, charged and booked twice",
        "流式回答中断，照样扣费还记两笔",
        Knobs(money=Money(cuts_streams=True)),
        "billing.incomplete_charged billing.duplicate_charge run.hostile_response",
    ),
    row(
        "fault",
        "holds_kept",
        "every eighth reserve is kept",
        "每八笔预扣有一笔不退",
        Knobs(money=Money(holds_kept_every=8)),
        "billing.hold_not_released",
    ),
    row(
        "fault",
        "refund_late",
        "reserves of refusals come back after twelve seconds",
        "被拒请求的预扣过 12 秒才退",
        Knobs(money=Money(errors="refunded_late")),
        "billing.refund_late",
        notes="below a minute: severity low",
    ),
    row(
        "fault",
        "refund_missing",
        "reserves of refusals do not come back",
        "被拒请求的预扣不退",
        Knobs(money=Money(errors="refund_missing")),
        "billing.refund_missing",
    ),
    row(
        "fault",
        "charge_without_row",
        "every seventh call is taken twice, with one row",
        "每七次调用有一次多扣，却没有记录",
        Knobs(money=Money(unlogged_every=7)),
        "billing.overcharged",
    ),
    row(
        "fault",
        "usage_page_x69",
        "the usage page says 6.9 times as much",
        "用量页面显示 6.9 倍",
        Knobs(money=Money(usage_factor=Decimal("6.9"))),
        "billing.usage_endpoint_unreliable",
    ),
    row(
        "fault",
        "usage_page_x0",
        "the usage page says nothing was used",
        "用量页面显示没有用量",
        Knobs(money=Money(usage_factor=Decimal(0))),
        "billing.usage_endpoint_unreliable",
    ),
)

CACHES: tuple[Scenario, ...] = (
    row(
        "fault",
        "cache_read_as_input",
        "cached input is charged like new",
        "读缓存按普通输入扣费",
        Knobs(money=Money(cache_read_as_input=True)),
        "billing.cache_misbilled",
        profile="thorough",
    ),
    row(
        "fault",
        "hour_at_five_minutes",
        "one-hour writes at the five-minute rate",
        "一小时写入按五分钟的价扣",
        Knobs(money=Money(hour_at_five_minutes=True)),
        "billing.cache_misbilled",
        notes="to the buyer's advantage: low",
        profile="thorough",
    ),
    row(
        "fault",
        "implicit_cache",
        "never written, now and then read",
        "从不写缓存，却偶尔读到",
        Knobs(cache="implicit"),
        "billing.cache_not_honoured",
        profile="thorough",
    ),
    row(
        "fault",
        "cache_marks_ignored",
        "marks for the cache do nothing",
        "缓存标记不起作用",
        Knobs(cache="ignored"),
        "billing.cache_not_honoured",
        notes="severity low: a software in between may drop them",
        profile="thorough",
    ),
    row(
        "fault",
        "hour_becomes_five_minutes",
        "an hour of cache is asked for, five minutes given",
        "要一小时缓存，只给五分钟",
        Knobs(cache="as_5m"),
        "billing.cache_misbilled",
        notes="severity low: cheaper, and shorter",
        profile="thorough",
    ),
)
"""Seen only by the cache probe, which goes with the thorough profile."""

HONEST: tuple[Scenario, ...] = (
    row(
        "honest",
        "honest_markup",
        "a published markup of 40 %",
        "公布过的 40% 加价",
        Knobs(money=Money(markup=Decimal("1.4"))),
        notes="a tariff, not a difference",
    ),
    row(
        "honest",
        "honest_user_ratio",
        "a ratio of this account's own, lower than the list",
        "这个账号专有的更低倍率",
        Knobs(money=Money(special_ratio=True, charged_ratio=Decimal("0.8"))),
    ),
    row(
        "honest",
        "honest_per_call",
        "a published price per call",
        "公布的按次价格",
        Knobs(money=Money(per_call=Decimal("0.0005"))),
    ),
    row(
        "honest",
        "honest_expression",
        "a published price expression",
        "公布的阶梯计价公式",
        Knobs(money=Money(expression=("2", "10", "0.1", "2.5", "4"))),
    ),
    row(
        "honest",
        "honest_tool_surcharge",
        "a tool surcharge in the row",
        "行里有工具附加费",
        Knobs(money=Money(surcharge="web_search")),
    ),
    row(
        "honest",
        "honest_tiny_price",
        "a price at which one unit is the minimum",
        "低到按最低一个单位扣费",
        Knobs(group="free", group_ratio=Decimal("0.001")),
    ),
    row(
        "honest",
        "honest_odd_ratio",
        "a ratio that has to be rounded",
        "除不尽的倍率",
        Knobs(group="odd", group_ratio=Decimal("0.3333333")),
    ),
    row("honest", "honest_cny", "amounts shown in CNY", "站点以人民币显示", Knobs(money=Money(display="CNY"))),
    row(
        "honest",
        "honest_full_log",
        "a log that holds more rows than it shows",
        "日志超过显示上限",
        Knobs(money=Money(full_log=True)),
    ),
    row(
        "honest",
        "honest_uncharged",
        "every ninth call is not charged at all",
        "每九次调用有一次不扣费",
        Knobs(money=Money(uncharged_every=9)),
    ),
    row("honest", "honest_plan", "calls are paid out of a plan", "由套餐额度支付", Knobs(money=Money(plan=True))),
)

MONEY: tuple[Scenario, ...] = (*FAULTS, *CACHES, *HONEST)
