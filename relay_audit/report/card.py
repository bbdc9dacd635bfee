"""The decision card: verdict, money and what would turn it, on one sheet, for whoever decides."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from relay_audit.finding import Finding
from relay_audit.lines_file import Line
from relay_audit.reckoning import reckon
from relay_audit.report.edition import Inside
from relay_audit.report.figures import (
    CALL_SIZES,
    Surplus,
    list_price,
    money_of,
    real_costs,
    relay_price,
    requests_sent,
    surplus_of,
)
from relay_audit.report.money_facts import in_real_money
from relay_audit.report.pages import Page, headed
from relay_audit.report.pictures import tier_name
from relay_audit.report.seller import Used, message, used_of
from relay_audit.report.untrusted import show
from relay_audit.report.views import WIDTH, Fact
from relay_audit.turning import turning_point
from relay_audit.verdict import NO_RULE
from relay_audit.words import money, round_up

REASONS_AT_MOST = 3
"""The card is one page."""
LINES_AT_MOST = 3
SAME_AS_RETEST = "test_again_later"
"""The next step that the line on when to test again says already."""
NO_SURPLUS = Surplus("", Decimal(1), 0)


def card(page: Page, inside: Inside) -> dict[str, Any]:
    """The view of the internal card."""
    top = [f for f in page.findings if f.above_info][:REASONS_AT_MOST]
    surplus = surplus_of(page.findings) or (NO_SURPLUS if _counted(page) else None)
    used = used_of(page.evidence, inside.paid) if inside.paid else None
    compared = _compared(page, surplus, inside)
    return {
        **page.shared(),
        "name": show(page.evidence.target.name, WIDTH),
        "verdict": page.verdict.verdict,
        "rule": page.verdict.rule,
        "policy": inside.policy_digest[:12],
        "why": _why(page),
        "turn": _turn(page),
        "claim": _claim(page),
        "reasons": [
            (f.id, f.severity, page.text(f"severity.{f.severity}"), headed(page.phrases.finding(f))) for f in top
        ],
        "money": _money(page),
        "money_basis": page.phrases.word(basis) if (basis := money_of(page.evidence).basis) else "",
        "films": _films(page) if page.evidence.pack.video is not None else None,
        "real_costs": _real_costs(page, surplus, inside),
        "real_note": _real_note(page, surplus),
        "compared": compared,
        "dense": bool(compared or inside.paid or len(top) == REASONS_AT_MOST),
        "lines_note": _lines_note(page, inside),
        "bound": _bound(page),
        "approval": _approval(page),
        "next": "" if page.verdict.next_code == SAME_AS_RETEST else page.text(f"answer.next.{page.verdict.next_code}"),
        "conflict": bool(page.evidence.target.conflict),
        "requests": f"{requests_sent(page.evidence):,}",
        "paid": _paid(page, inside, used),
        "message": message(page, used) if used is not None and _has_questions(page) else "",
    }


def _has_questions(page: Page) -> bool:
    return any(f.outcome == "mismatch" and f.above_info for f in page.findings)


def _why(page: Page) -> str:
    if page.verdict.rule == NO_RULE:
        return page.text("verdict.no_rule.why")
    rule = next((r for r in page.knowledge.rules if r.id == page.verdict.rule), None)
    return rule.why.in_(page.lang) if rule else ""


def _turn(page: Page) -> str:
    """The nearest fact that would have changed the verdict."""
    point = turning_point(page.evidence, page.findings, page.coverage, page.knowledge.rules)
    by_id = {f.id: f for f in page.findings}
    named = [by_id[i] for i in point.findings if i in by_id]
    return page.text(
        f"turn.{point.change}",
        verdict=page.text(f"verdict.{point.verdict}"),
        findings=page.text("joint.list").join(f.id for f in named),
        title=page.phrases.title(named[0]) if named else "",
        checks=page.text("joint.list").join(page.text(f"check.{c}") for c in point.checks),
        rule=point.rule,
        why=next((r.why.in_(page.lang) for r in page.knowledge.rules if r.id == point.rule), ""),
    )


def _claim(page: Page) -> str:
    claim, none = page.evidence.target.claim, page.text("internal.not_claimed")
    return page.text(
        "internal.claim_value",
        channel=page.phrases.word(claim.channel) if claim.channel != "unknown" else none,
        group=show(claim.group, 40) or none,
        ratio=money(claim.ratio) if claim.ratio is not None else none,
    )


def _money(page: Page) -> list[Fact]:
    figures, amount, text = money_of(page.evidence), page.phrases.amount, page.text
    approved = amount(figures.approved) if figures.approved is not None else text("money.not_approved")
    rows = [
        Fact(text("money.quoted_expected"), amount(figures.quoted_expected)),
        Fact(text("money.quoted_at_most"), amount(figures.quoted_at_most)),
        Fact(text("money.approved"), approved),
        Fact(text("money.hold"), amount(figures.hold)),
        Fact(text(figures.charged_label), amount(figures.charged_relay)),
        Fact(text("money.charged_official"), amount(figures.charged_official)),
    ]
    if figures.unconfirmed:
        rows.append(Fact(text("money.unconfirmed"), amount(figures.unconfirmed)))
    found, films = reckon(page.evidence, page.findings), page.evidence.pack.video is not None
    if found.published is None:
        found = found.model_copy(update={"published": _published(page)})
    return [*rows, *in_real_money(found, page.phrases, films=films)]


def _published(page: Page) -> Decimal | None:
    """The relay's own price as a multiple of the official one, where no finding says it."""
    price, listed = relay_price(page.evidence), list_price(page.knowledge, page.evidence)
    if price is None or price.assumed or listed is None or not listed.input:
        return None
    return (price.input / listed.input).quantize(Decimal("0.0001"))


def _counted(page: Page) -> bool:
    """Whether the tokens were compared with a result. What was not measured is not said to be the quoted price."""
    return any(f.check == 2 and f.outcome in ("match", "mismatch") for f in page.findings)


def _films(page: Page) -> list[tuple[str, str, str, str]]:
    """Tier, what it cost here, the vendor's price of it, and the ratio; of a tier without a ratio, its state."""
    told = next((f for f in page.findings if f.code == "billing.tiers_measured"), None)
    rows = []
    for tier, figures in told.observed.items() if told else ():
        net, official = (
            round_up(Decimal(figures[name]), 4) if figures.get(name) else None for name in ("net", "official")
        )
        ratio = (
            f"×{Decimal(figures['ratio']):.3f}" if figures.get("ratio") else page.text(f"tier_state.{figures['state']}")
        )
        rows.append((tier_name(tier), page.phrases.amount(net), page.phrases.amount(official), ratio))
    return rows


def _real_costs(page: Page, surplus: Surplus | None, inside: Inside) -> list[tuple[str, str, str, str]]:
    """Size of a call, real price, factor, and the price as a share of the official list; empty where nothing was measured."""
    listed = list_price(page.knowledge, page.evidence)
    sizes = sorted({*CALL_SIZES, *([inside.typical_input_tokens] if inside.typical_input_tokens else [])})
    if surplus is None:
        return [(f"{size:,}", "", "", "") for size in sizes]
    rows = []
    for row in real_costs(page.evidence, surplus, tuple(sizes)):
        share = f"{100 * row.price / listed.input:.0f}%" if row.price is not None and listed and listed.input else ""
        price = page.phrases.amount(row.price) if row.price is not None else ""
        rows.append((f"{row.tokens_per_call:,}", price, f"×{row.factor:.3f}", share))
    return rows


def _real_note(page: Page, surplus: Surplus | None) -> str:
    """Where the real price comes from, and what is not in it."""
    text, price = page.text, relay_price(page.evidence)
    if surplus is None:
        told = [text("real_cost.not_measured")]
    elif surplus.finding:
        params = {"finding": surplus.finding, "surplus": str(surplus.offset)}
        level = surplus.slope == 1
        told = [
            text("real_cost.from", **params)
            if level
            else text("real_cost.from_slope", **params, slope=money(surplus.slope))
        ]
    else:
        told = [text("real_cost.none")]
    if price:
        told.append(text("real_cost.listed", price=page.phrases.amount(price.input)))
    return text("joint.sentence").join([*told, *_books_more(page)])


def _books_more(page: Page) -> list[str]:
    """By how much the log charges above its own rules, which no price list shows."""
    found = next(
        (f for f in page.findings if f.code == "billing.overcharged" and f.above_info and "road" not in f.params), None
    )
    if found is None:
        return []
    charged, due = (Decimal(str(found.params[name])) for name in ("charged", "recomputed"))
    times = f"{charged / due:.2f}" if due > 0 else page.text("joint.unknown")
    return [page.text("real_cost.books_more", finding=found.id, times=times)]


def _compared(page: Page, surplus: Surplus | None, inside: Inside) -> list[tuple[str, str, str, str]]:
    """The buyer's lines of the same model: name, input price, this line's real price as a share of it, 30-day success."""
    size = inside.typical_input_tokens or CALL_SIZES[1]
    here = real_costs(page.evidence, surplus, (size,))[0].price if surplus else None
    return [_line(page, line, here) for line in _same_model(page, inside)]


def _line(page: Page, line: Line, here: Decimal | None) -> tuple[str, str, str, str]:
    none = page.text("joint.unknown")
    ratio = f"{100 * here / line.usd_per_mtok_in:.0f}%" if here is not None and line.usd_per_mtok_in else none
    price = page.phrases.amount(round_up(line.usd_per_mtok_in, 4)) if line.usd_per_mtok_in is not None else none
    success = f"{100 * line.success_30d:.2f}%" if line.success_30d is not None else page.text("lines.no_success")
    return show(line.name, 20), price, ratio, success


def _lines_note(page: Page, inside: Inside) -> str:
    """Where the shares of success come from, or why there is nothing to compare with."""
    if inside.lines_missing:
        return page.text(f"lines.{inside.lines_missing}")
    same = _same_model(page, inside)
    if not same:
        return page.text("lines.other_models")
    told = [
        ", ".join(filter(None, [show(line.window, 40), show(line.source, 40)]))
        for line in same
        if line.success_30d is not None
    ]
    return page.text("joint.clause").join(dict.fromkeys(filter(None, told)))


def _same_model(page: Page, inside: Inside) -> list[Line]:
    wanted = (page.evidence.target.model, page.evidence.target.official_model)
    return [line for line in inside.lines if line.model in wanted][:LINES_AT_MOST]


def _bound(page: Page) -> str:
    """What a clean result leaves possible, from the findings that say so."""
    said = [
        page.text(
            "bound.share", check=page.text(f"check.{f.check}"), n=page.phrases.value("n", f.params["n"]), share=bound
        )
        for f in page.findings
        if f.outcome == "match" and (bound := _share(f)) and "n" in f.params
    ]
    return page.text("joint.clause").join(said) + page.text("bound.end") if said else page.text("bound.none")


def _share(finding: Finding) -> str:
    return str(finding.params.get("share_bound") or "")


def _approval(page: Page) -> str:
    approval = page.evidence.approval
    if approval is None:
        return page.text("internal.no_approval")
    return page.text(
        "internal.approval_value",
        amount=page.phrases.amount(approval.ceiling),
        approver=show(approval.approver, 40),
        channel=page.phrases.word(approval.channel),
        time=approval.at.strftime("%Y-%m-%d %H:%M") + " UTC",
        digest=approval.quote_digest[:12],
    )


def _paid(page: Page, inside: Inside, used: Used | None) -> list[Fact]:
    if inside.paid is None or used is None:
        return []
    text, paid = page.text, inside.paid
    unknown = text("joint.unknown")
    sums = {"amount": money(paid.amount), "credited": money(paid.credited)}
    paid_value = text("paid.amount_value", currency=paid.currency, **sums)
    return [
        Fact(text("paid.amount"), paid_value),
        Fact(text("paid.used"), money(used.used) if used.used is not None else unknown),
        Fact(text("paid.left"), money(used.left) if used.left is not None else unknown),
        Fact(text("paid.left_money"), f"{money(used.left_money)} {paid.currency}" if used.left_money is not None else unknown),
    ]  # fmt: skip
