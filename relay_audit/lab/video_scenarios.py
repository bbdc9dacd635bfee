"""The truth table for films: one knob per fault, and exactly the findings above info that an audit of it must give.

`expect` holds for a buyer who has pinned an original of the vendor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from relay_audit.lab.scenarios import Kind, Title

Route = Literal["native", "generations", "videos"]
Store = Literal["vendor", "relay", "content_route", "behind_key"]


@dataclass(frozen=True)
class VideoKnobs:
    """The defaults: new-api in front of Seedance, films passed on from the vendor's own store."""

    vendor: Literal["seedance", "wan"] = "seedance"
    route: Route = "generations"
    ids: Literal["task", "upstream"] = "upstream"
    """`task`: new-api since 2026-02 gives a number of its own. `upstream`: the vendor's number is passed on."""
    raw: bool = True
    """The route's answer holds the vendor's raw one, as new-api's does."""
    film: str = "official"
    """The kind of film that is delivered."""
    store: Store = "vendor"
    polls: int = 3
    """How often a task is asked after before it has ended."""
    takes: tuple[str, ...] = ("480p", "720p", "1080p")
    """Resolutions that the upstream makes; another one is charged at once, and fails."""
    advertises: tuple[str, ...] = ("480p", "720p", "1080p")
    delivers: str = ""
    """The resolution that is really made; empty means the ordered one."""
    delivers_seconds: int = 0
    """How long the film is that is really made; 0 means as ordered."""
    fails: bool = False
    refund_after_s: int = 5
    """-1: never."""
    old_books: bool = False
    """new-api before 2026-02: refunds stand in the account's log, which a key cannot read."""
    tokens_of: str = ""
    """The resolution that the reported usage belongs to; empty means the ordered one."""
    stale_task: bool = False
    """The vendor's number carries another day's time."""
    upstream_model: str = ""
    """What the relay's record says was asked upstream; empty means the model that was asked for."""
    charge_factor: int = 1
    per_second: bool = False
    """The list names the price of a second, and the length multiplies it."""
    names_ratios: bool = True
    """Answers and rows say what the list price is multiplied by."""
    copies: bool = False
    """Each order has a second row under another id, charged like the first."""
    others_films: bool = False
    """Somebody else orders such films on the same key, one of them at the same moment."""
    log: bool = True


@dataclass(frozen=True)
class VideoScenario:
    name: str
    title: Title
    kind: Kind
    knobs: VideoKnobs
    expect: frozenset[str] = frozenset()
    leaf: str = ""
    """The finding in which the walk down the tree ends, where it is one of the tree's."""
    tiers: tuple[str, ...] = field(default=("480p",))
    notes: str = ""
    model: str = ""


def _row(
    kind: Kind, name: str, en: str, zh: str, knobs: VideoKnobs, leaf: str, expect: str = "", *,
    tiers: tuple[str, ...] = ("480p",), notes: str = "", model: str = "",
) -> VideoScenario:  # fmt: skip
    return VideoScenario(name, Title(en, zh), kind, knobs, frozenset(expect.split()), leaf, tiers, notes, model)


WAN = "wan2.7-t2v"
_ROWS = (
    _row("honest", "film_original", "the vendor's film, passed on unchanged", "官方原片，原样透传", VideoKnobs(), "media.original"),
    _row("honest", "film_native_route", "the vendor's own route, passed on", "透传厂商自己的接口", VideoKnobs(route="native"),
         "media.original"),
    _row("honest", "film_videos_route", "the videos route in OpenAI's format", "OpenAI 格式的视频接口",
         VideoKnobs(route="videos", ids="task"), "media.restored_by_relay",
         notes="the relay's own task number: a fact about the way, not above info"),
    _row("honest", "film_wrapped", "new-api's own task number, the vendor's link", "new-api 自己的任务号，厂商的链接",
         VideoKnobs(ids="task", raw=False), "media.restored_by_relay", notes="default of the software since 2026-02"),
    _row("honest", "film_own_number_raw_answer", "new-api's own task number, the vendor's inside", "外面是中转的任务号，里面有厂商的",
         VideoKnobs(ids="task"), "media.original"),
    _row("honest", "film_content_route", "films only by the relay's own route", "只能从中转自己的接口取片",
         VideoKnobs(route="videos", ids="task", store="content_route"), "media.restored_by_relay",
         "media.restored_by_relay", notes="low, and no accusation"),
    _row("honest", "film_rotated_certificate", "the vendor renewed its certificate", "厂商换了新证书",
         VideoKnobs(film="rotated"), "media.signer_unknown", notes="probably rotated: pin a fresh original"),
    _row("honest", "film_of_wan", "Wan: originals carry no credentials", "Wan：原片本来就不带凭证",
         VideoKnobs(vendor="wan", film="wan"), "media.original", model=WAN),
    _row("honest", "film_of_wan_native", "Wan by the vendor's own route", "Wan，厂商自己的接口",
         VideoKnobs(vendor="wan", film="wan", route="native"), "media.original", model=WAN),
    _row("honest", "film_no_books", "no log that the key can read", "密钥读不到日志", VideoKnobs(log=False), "media.original"),
    _row("honest", "film_three_tiers", "three tiers, one after the other", "三个档位，逐档下单", VideoKnobs(), "media.original",
         tiers=("1080p", "480p", "720p")),
    _row("honest", "film_failed_and_refunded", "a film fails and is paid back", "片子失败，退了款", VideoKnobs(fails=True), ""),
    _row("honest", "film_refunded_out_of_sight", "paid back where a key cannot see it", "退了款，但 key 的日志里看不到",
         VideoKnobs(fails=True, old_books=True), "billing.refund_open", notes="software of before 2026-02"),
    _row("fault", "film_never_refunded", "a film fails and is not paid back", "片子失败，没有退款",
         VideoKnobs(fails=True, refund_after_s=-1), "billing.refund_missing", "billing.refund_missing"),
    _row("fault", "film_changed", "changed after it was signed", "签名后被改过", VideoKnobs(film="transplanted"),
         "media.modified_after_signing", "media.modified_after_signing"),
    _row("fault", "film_self_signed", "signed by anybody in the vendor's name", "别人用厂商的名字签名",
         VideoKnobs(film="self_signed"), "media.signer_spoofed", "media.signer_spoofed"),
    _row("fault", "film_signed_again", "signed again in the vendor's name", "重新签名", VideoKnobs(film="signed_again"),
         "media.signer_spoofed", "media.signer_spoofed"),
    _row("fault", "film_stripped", "the credentials were taken off", "凭证被去掉", VideoKnobs(film="stripped"),
         "media.repackaged", "media.repackaged", notes="low: storing and converting leave the same traces"),
    _row("fault", "film_encoded_again", "encoded again", "重新编码", VideoKnobs(film="encoded_again"),
         "media.repackaged", "media.repackaged"),
    _row("fault", "film_labelled", "a label that originals do not carry", "多了原片没有的标签", VideoKnobs(film="labelled"),
         "media.repackaged", "media.label_mismatch media.repackaged"),
    _row("fault", "film_of_wan_unlabelled", "Wan without its label", "Wan 的标签不见了",
         VideoKnobs(vendor="wan", film="plain"), "media.label_mismatch", "media.label_mismatch media.repackaged", model=WAN),
    _row("fault", "film_own_pipeline", "a ComfyUI workflow in the file", "文件里有 ComfyUI 工作流",
         VideoKnobs(film="workflow"), "media.self_hosted_pipeline", "media.self_hosted_pipeline media.repackaged"),
    _row("fault", "film_restored", "the original, from the relay's own store", "原片，但从中转自己的存储交付",
         VideoKnobs(store="relay"), "media.restored_by_relay", "media.restored_by_relay"),
    _row("fault", "film_smaller", "720p is ordered, 480p is delivered", "订 720p，交 480p",
         VideoKnobs(delivers="480p"), "params.clamped", "params.clamped", tiers=("720p",)),
    _row("fault", "film_shorter", "five seconds are ordered, three are delivered", "订 5 秒，交 3 秒",
         VideoKnobs(delivers_seconds=3), "params.clamped", "params.clamped"),
    _row("fault", "film_other_usage", "the usage of another film", "用量是别的片子的", VideoKnobs(tokens_of="1080p"),
         "media.task_inconsistent", "media.task_inconsistent"),
    _row("fault", "film_old_task", "a task of another day", "别的日子的任务号", VideoKnobs(stale_task=True),
         "media.task_inconsistent", "media.task_inconsistent"),
    _row("fault", "film_of_a_lesser_model", "the relay's record names a cheaper sibling", "中转的记录写着便宜的同门型号",
         VideoKnobs(upstream_model="doubao-seedance-2-0-mini-260615"), "media.original", "model.relay_log_admits_mapping"),
    _row("fault", "film_tier_refused", "2k is advertised, charged, refused and paid back", "宣传 2K，先扣费再拒绝再退款",
         VideoKnobs(advertises=("480p", "720p", "2k")), "media.original", "billing.tier_refused", tiers=("480p", "2k")),
    _row("fault", "film_charged_double", "the second tier is not ordered after a double charge", "第一档双倍扣费，第二档不再下单",
         VideoKnobs(charge_factor=2), "media.original", "billing.overcharged", tiers=("480p", "720p"),
         notes="against the list price times what the answer says multiplies it; the climb ends"),
    _row("fault", "film_charged_fivefold", "five times the list price of a second, times the seconds", "每秒价乘秒数之后再乘五",
         VideoKnobs(charge_factor=5, per_second=True), "media.original", "billing.overcharged"),
    _row("fault", "film_booked_twice", "each order has a second row under another id", "每个订单换个编号再记一笔",
         VideoKnobs(copies=True), "media.original", "billing.duplicate_charge", notes="one film, one copy: low"),
    _row("honest", "film_priced_by_the_second", "the list names the price of a second", "价目表上是每秒的价格",
         VideoKnobs(per_second=True), "media.original"),
    _row("honest", "film_seconds_unnamed", "the length multiplies the list price, and nothing says so", "价格按秒数乘，但哪里都没写",
         VideoKnobs(per_second=True, names_ratios=False), "media.original"),
    _row("honest", "film_of_somebody_else", "somebody else orders such a film at the same moment", "别人同时也订了这样一条片子",
         VideoKnobs(others_films=True), "media.original", notes="a key with other traffic: a question, no finding"),
)  # fmt: skip
VIDEO_SCENARIOS: dict[str, VideoScenario] = {row.name: row for row in _ROWS}
