"""Small drawings where people would rather look than read: plain shapes with a title and a description in words.

Everything is computed from recorded facts. Colours come from the page (`currentColor` and classes), so that a picture
follows dark mode, prints, and says nothing by colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from relay_audit.bounds import fit
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.figures import counted_pairs
from relay_audit.report.phrases import Phrases
from relay_audit.words import Side

WIDTH, HEIGHT = 400, 200
"""About as wide as a phone shows it, so that the letters in it stay as large as the page's."""
LEFT, RIGHT, TOP, BOTTOM = 70, 10, 16, 42
POINTS_AT_MOST = 120
_SECONDS = re.compile(r"_(\d+)s$")
Tone = Literal["ink", "soft", "relay", "official"]


@dataclass(frozen=True)
class Shape:
    """One mark, in the picture's own units."""

    kind: Literal["line", "dot", "ring", "bar", "text"]
    x: float
    y: float
    tone: Tone = "ink"
    x2: float = 0
    y2: float = 0
    text: str = ""
    anchor: Literal["start", "middle", "end"] = "start"


@dataclass(frozen=True)
class Picture:
    id: str
    title: str
    description: str
    """What the eye would see, for whoever does not."""
    shapes: list[Shape]
    legend: list[tuple[Literal["dot", "ring"], Tone, str]]
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def pictures(evidence: Evidence, findings: Sequence[Finding], catalogue: Catalogue, phrases: Phrases) -> list[Picture]:
    """Those that have something to show."""
    made = (
        _surplus(evidence, catalogue),
        _shares(findings, catalogue, phrases),
        _charges(evidence, catalogue, phrases),
        _tiers(findings, catalogue),
        timeline(evidence, catalogue),
    )
    return [picture for picture in made if picture is not None]


def _surplus(evidence: Evidence, catalogue: Catalogue) -> Picture | None:
    """Tokens billed above the official count, by size of text, with the straight line through them."""
    pairs = counted_pairs(evidence)[:POINTS_AT_MOST]
    if len(pairs) < 3:
        return None
    surplus = [(count, billed - count) for count, billed in pairs]
    xs, ys = [x for x, _ in surplus], [y for _, y in surplus]
    across = Axis(0, _nice(max(xs)), LEFT, WIDTH - RIGHT)
    up = Axis(min(0, _nice(min(ys))), _nice(max([*ys, 8])), HEIGHT - BOTTOM, TOP)
    line = fit(surplus)
    offset, slope = (line.intercept, line.slope) if line else (ys[0], 0.0)
    right = across.high
    shapes = [
        *_frame(across, up, catalogue.text("picture.tokens_official"), f"{across.high:,.0f}", f"{up.high:+,.0f}"),
        Shape("line", across.start, up.at(0), "soft", across.end, up.at(0)),
        Shape("line", across.start, _within(up, offset), "relay", across.end, _within(up, offset + slope * right)),
        *(Shape("dot", across.at(x), up.at(y), "relay") for x, y in surplus),
    ]
    told = {"n": str(len(surplus)), "span": _span(f"{min(ys):,}", f"{max(ys):,}", catalogue)}
    percent = f"{100 * slope:.1f}"
    if percent in ("0.0", "-0.0"):
        said = catalogue.text("picture.surplus_level", **told)
    else:
        said = catalogue.text("picture.surplus_text", **told, offset=f"{offset:,.0f}", percent=percent)
    legend: list[tuple[Literal["dot", "ring"], Tone, str]] = [("dot", "relay", catalogue.text("picture.surplus_dot"))]
    return Picture("surplus", catalogue.text("picture.surplus"), said, shapes, legend)


def _shares(findings: Sequence[Finding], catalogue: Catalogue, phrases: Phrases) -> Picture | None:
    """Shares of the channels with their intervals, from the finding that measured them."""
    mixed = next((f for f in findings if f.code == "channel.mixed" and isinstance(f.params.get("shares"), dict)), None)
    if mixed is None:
        return None
    rows = [
        (phrases.value("channel", name), float(share["low"]), float(share["high"]), int(share["n"]))
        for name, share in mixed.params["shares"].items()
        if isinstance(share, dict) and {"low", "high", "n"} <= set(share)
    ][:6]
    if not rows:
        return None
    total = max(sum(n for *_, n in rows), 1)
    across = Axis(0, 100, 168, WIDTH - RIGHT)
    height = 44 * len(rows) + TOP + BOTTOM
    shapes = [
        Shape("text", across.start, height - 12, "soft", text="0%"),
        Shape("text", across.end, height - 12, "soft", text="100%", anchor="end"),
    ]
    for place, (name, low, high, n) in enumerate(rows):
        y = TOP + 44 * place + 22
        shapes += [
            Shape("text", across.start - 10, y + 4, text=name[:21], anchor="end"),
            Shape("line", across.start, y, "soft", across.end, y),
            Shape("bar", across.at(low), y - 5, "relay", across.at(high), y + 5),
            Shape("dot", across.at(100 * n / total), y),
        ]
    said = catalogue.text("joint.clause").join(
        f"{name}{catalogue.text('joint.colon')}{low:g}–{high:g}%" for name, low, high, _ in rows
    )
    legend: list[tuple[Literal["dot", "ring"], Tone, str]] = [("dot", "ink", catalogue.text("picture.share_dot"))]
    return Picture("shares", catalogue.text("picture.shares"), said, shapes, legend, height=height)


def _charges(evidence: Evidence, catalogue: Catalogue, phrases: Phrases) -> Picture | None:
    """What each call was charged by the relay's log, beside what its usage comes to at the quoted price."""
    rows = [
        (exchange.charge, entry.amount)
        for entry in evidence.ledger.entries
        if entry.side == "relay" and entry.state == "settled" and entry.basis == "relay_log"
        for exchange in evidence.exchanges
        if exchange.id == entry.exchange and exchange.charge is not None
    ][:POINTS_AT_MOST]
    if len(rows) < 3:
        return None
    highest = max(max(expected, charged) for expected, charged in rows)
    if highest <= 0:
        return None
    across = Axis(0, len(rows) + 1, LEFT, WIDTH - RIGHT)
    up = Axis(0, float(highest) * 1.08, HEIGHT - BOTTOM, TOP)
    shapes = _frame(across, up, catalogue.text("picture.call"), str(len(rows)), phrases.amount(_short(highest)))
    for place, (expected, charged) in enumerate(rows, start=1):
        x = across.at(place)
        shapes += [
            Shape("line", x, up.at(float(expected)), "soft", x, up.at(float(charged))),
            Shape("ring", x, up.at(float(expected)), "official"),
            Shape("dot", x, up.at(float(charged)), "relay"),
        ]
    above = sum(charged > expected for expected, charged in rows)
    said = catalogue.text("picture.charges_text", n=str(len(rows)), above=str(above))
    return Picture("charges", catalogue.text("picture.charges"), said, shapes, [
        ("ring", "official", catalogue.text("picture.charge_expected")),
        ("dot", "relay", catalogue.text("picture.charge_charged")),
    ])  # fmt: skip


def _tiers(findings: Sequence[Finding], catalogue: Catalogue) -> Picture | None:
    """What each film tier cost in the relay's books, as a multiple of the vendor's price of that very tier. One that has
    no ratio stands there with its state instead: a low tier says nothing about a high one."""
    told = next((f for f in findings if f.code == "billing.tiers_measured"), None)
    rows = sorted(told.observed.items(), key=lambda row: Decimal(row[1].get("official") or 0)) if told else []
    ratios = {tier: Decimal(figures["ratio"]) for tier, figures in rows if figures.get("ratio")}
    if not ratios:
        return None
    across = Axis(0, max(1.25, 1.1 * float(max(ratios.values()))), 84, WIDTH - 70)
    ground = TOP + 40 * len(rows)
    one = across.at(1)
    shapes = [
        Shape("line", one, TOP, "official", one, ground),
        Shape("text", one, ground + 18, "official", text=catalogue.text("picture.tier_official"), anchor="middle"),
        Shape("text", across.start, ground + 18, "soft", text="×0"),
    ]
    for place, (tier, figures) in enumerate(rows):
        y = TOP + 40 * place + 20
        shapes += [
            Shape("text", across.start - 10, y + 4, text=tier_name(tier), anchor="end"),
            Shape("line", across.start, y, "soft", across.end, y),
        ]
        if tier in ratios:
            at = across.at(float(ratios[tier]))
            shapes += [
                Shape("bar", across.start, y - 5, "relay", at, y + 5),
                Shape("dot", at, y, "relay"),
                Shape("text", WIDTH - RIGHT, y + 4, text=f"×{ratios[tier]:.3f}", anchor="end"),
            ]
        else:
            word = catalogue.text(f"tier_state.{figures['state']}")
            shapes.append(Shape("text", WIDTH - RIGHT, y + 4, "soft", text=word, anchor="end"))
    said = catalogue.text(
        "picture.tiers_text",
        n=str(len(ratios)),
        span=_span(f"{min(ratios.values()):.3f}", f"{max(ratios.values()):.3f}", catalogue),
    )
    legend: list[tuple[Literal["dot", "ring"], Tone, str]] = [("dot", "relay", catalogue.text("picture.tier_dot"))]
    return Picture("tiers", catalogue.text("picture.tiers"), said, shapes, legend, height=ground + 28)


def tier_name(key: str) -> str:
    """`1080p_5s`, as figures are filed under it, for a reader: `1080p 5 s`."""
    return _SECONDS.sub(r" \1 s", key)


def timeline(evidence: Evidence, catalogue: Catalogue) -> Picture | None:
    """Every request of the run on two lines, so that one sees how far apart the two sides were asked."""
    sent = [exchange for exchange in evidence.exchanges if exchange.delivery != "not_sent"]
    if len(sent) < 2:
        return None
    first = min(exchange.sent_at for exchange in sent)
    seconds = [(exchange.side, (exchange.sent_at - first).total_seconds(), exchange.delivery) for exchange in sent]
    last = max(max(at for _, at, _ in seconds), 1)
    across = Axis(0, last, 70, WIDTH - RIGHT)
    asked: list[Side] = [side for side in ("official", "relay") if any(side == seen for seen, *_ in seconds)]
    lanes = {side: 24 + 36 * place for place, side in enumerate(asked)}
    ground = 24 + 36 * len(lanes)
    shapes = []
    for side, y in lanes.items():
        shapes += [
            Shape("text", across.start - 10, y + 4, "soft", text=catalogue.text(f"report.{side}"), anchor="end"),
            Shape("line", across.start, y, "soft", across.end, y),
        ]
    for side, at, delivery in seconds:
        kind: Literal["dot", "ring"] = "dot" if delivery == "answered" else "ring"
        shapes.append(Shape(kind, across.at(at), lanes[side], side))
    shapes += [
        Shape("text", across.start, ground, "soft", text="0 s"),
        Shape("text", across.end, ground, "soft", text=f"{last:.0f} s", anchor="end"),
    ]
    said = catalogue.text(
        "picture.timeline_text", relay=str(sum(s == "relay" for s, *_ in seconds)),
        official=str(sum(s == "official" for s, *_ in seconds)), seconds=f"{last:.0f}",
    )  # fmt: skip
    legend: list[tuple[Literal["dot", "ring"], Tone, str]] = []
    if any(delivery != "answered" for *_, delivery in seconds):
        legend = [("ring", "relay", catalogue.text("picture.unanswered"))]
    return Picture("timeline", catalogue.text("picture.timeline"), said, shapes, legend, height=ground + 12)


def _frame(across: Axis, up: Axis, below: str, most_across: str, most_up: str) -> list[Shape]:
    """Two axes with their ends written on, and what runs along the lower one."""
    ground = up.start
    return [
        Shape("line", across.start, up.end, "soft", across.start, ground),
        Shape("line", across.start, ground, "soft", across.end, ground),
        Shape("text", across.start - 8, up.end + 8, "soft", text=most_up, anchor="end"),
        Shape("text", across.start - 8, ground + 4, "soft", text=f"{up.low:,.0f}", anchor="end"),
        Shape("text", across.end, ground + 18, "soft", text=most_across, anchor="end"),
        Shape("text", across.start, ground + 18, "soft", text="0"),
        Shape("text", (across.start + across.end) / 2, ground + 34, "soft", text=below, anchor="middle"),
    ]


def _span(low: str, high: str, catalogue: Catalogue) -> str:
    """`508`, or `506 to 509`."""
    return low if low == high else catalogue.text("joint.range", low=low, high=high)


def _within(axis: Axis, value: float) -> float:
    return axis.at(min(max(value, axis.low), axis.high))


def _nice(value: float) -> float:
    """The next 1, 2 or 5 of its power of ten, away from zero."""
    if value == 0:
        return 0
    size, sign = abs(value), 1 if value > 0 else -1
    power = 10 ** (len(str(int(size))) - 1)
    return float(sign * next(step * power for step in (1, 2, 5, 10) if step * power >= size))


def _short(amount: Decimal) -> Decimal:
    return Decimal(f"{amount:.2g}")
