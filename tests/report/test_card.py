"""The decision card: what would turn it, what is missing on it, and what a buyer who has paid can send to the seller."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from relay_audit.books import BalanceReading, Totals
from relay_audit.finding import Coverage
from relay_audit.lines_file import Line
from relay_audit.report.as_text import AT_MOST
from relay_audit.report.edition import Inside
from relay_audit.report.render import Format, render
from relay_audit.target import Paid
from relay_audit.turning import turning_point
from relay_audit.verdict import decide
from relay_audit.words import LANGS, Lang
from tests.report import samples

PAID = Paid(amount=Decimal(50), currency="CNY", credited=Decimal(100))
NOT_RUN = tuple(Coverage(check=c, state="not_run", reason="unreachable") for c in (1, 2, 3, 4, 5, 6))


def card(
    run, findings, lang: Lang = "en", form: Format = "md", coverage=samples.COVERAGE, inside: Inside | None = None
) -> str:
    verdict = samples.judged(run, findings, coverage)
    raw = render(run, findings, coverage, verdict, samples.KNOWLEDGE, "internal", form, lang, inside=inside)
    return raw.decode().replace("\\", "")


@pytest.mark.parametrize(
    ("make", "coverage", "change"),
    [
        (samples.surplus_findings, samples.COVERAGE, "finding_falls"),
        (samples.hostile_findings, samples.COVERAGE, "finding_falls"),
        (samples.of_every_code, samples.COVERAGE, "findings_fall"),
        (samples.honest_findings, samples.COVERAGE, "finding_appears"),
        (lambda run: (), NOT_RUN, "check_runs"),
    ],
)
def test_the_fact_that_would_change_the_verdict_changes_it_and_stands_on_the_card(make, coverage, change) -> None:
    run = samples.evidence()
    findings = make(run)
    now = samples.judged(run, findings, coverage)
    point = turning_point(run, findings, coverage, samples.RULES)
    assert point.change == change
    assert point.verdict != now.verdict
    if "fall" in change:
        left = tuple(f for f in findings if f.id not in point.findings)
        assert decide(run, left, coverage, samples.RULES).verdict == point.verdict
        if change == "findings_fall":
            for one in point.findings:
                assert (
                    decide(run, tuple(f for f in findings if f.id != one), coverage, samples.RULES).verdict
                    == now.verdict
                )
    for lang in LANGS:
        told = card(run, findings, lang, coverage=coverage)
        (line,) = re.findall(r"\*\*(?:What would change this verdict|什么会改变这个判定)\*\*(.*)", told)
        word = {"en": {"fix_first": "Fix first", "usable": "Usable", "do_not_use": "Do not use", "backup": "Backup"},
                "zh-CN": {"fix_first": "先修再接", "usable": "可用", "do_not_use": "不接", "backup": "备用"}}[lang]  # fmt: skip
        assert word[point.verdict] in line
        assert all(f in line for f in point.findings)
        assert now.rule in told, "the rule that decided"


def test_nothing_that_cannot_be_found_on_such_a_line_would_change_its_verdict() -> None:
    run = samples.evidence()
    films = tuple(
        Coverage(check=c, state="not_applicable" if c < 4 else "run", reason="video_line") for c in range(1, 7)
    )
    agreeing = tuple(f for f in samples.honest_findings(run) if f.check == 6)
    point = turning_point(run, agreeing, films, samples.RULES)
    assert (point.change, point.rule) == ("finding_appears", "any_accusation")
    assert turning_point(run, agreeing, samples.COVERAGE, samples.RULES).rule == "another_model"


def balance(**told: Any) -> BalanceReading:
    return BalanceReading(at=samples.START, exchange="X0002", **told)


@pytest.mark.parametrize(
    ("reading", "used", "left", "worth"),
    [
        (balance(used_quota=6_250_000, available=Decimal("87.5")), "12.5", "87.5", "43.75"),
        (balance(used=Decimal("12.5"), available=None), "12.5", "87.5", "43.75"),
        (balance(totals=Totals(requests=3, cost=Decimal("12.5")), unlimited=True), "12.5", "87.5", "43.75"),
        (balance(available=Decimal(20)), "80", "20", "10"),
        (balance(), "not known", "not known", "not known"),
    ],
)
def test_a_buyer_who_has_paid_reads_what_is_used_and_left(reading, used: str, left: str, worth: str) -> None:
    run = samples.evidence(balance=(reading,))
    told = card(run, samples.surplus_findings(run), inside=Inside(paid=PAID))
    figures = dict(re.findall(r"What you have paid · ([^:]+): (.+)", told))
    assert figures.pop("Paid") == "50 CNY for 100 site dollars"
    assert [text.removesuffix(" CNY") for text in figures.values()] == [used, left, worth]


@pytest.mark.parametrize("lang", LANGS)
def test_the_message_to_the_seller_has_one_question_a_finding_and_what_a_log_is_searched_by(lang: Lang) -> None:
    run = samples.evidence(balance=(balance(available=Decimal(20)),))
    findings = samples.hostile_findings(run)
    differing = [f for f in findings if f.outcome == "mismatch" and f.above_info]
    title = {"en": "Message to the seller", "zh-CN": "发给卖家"}[lang]
    for form in ("html", "md"):
        told = card(run, findings, lang, form, inside=Inside(paid=PAID))
        message = told[told.index(title) :]
        assert "2026-11-29" in message
        assert samples.MODEL in message
        assert len(re.findall(r"(?m)^\d+\. ", message)) == len(differing) > 1
        requests = re.findall({"en": r"2026-11-29 08:03:\d\d\.\d{3} · id (\S+) · charged \$0\.001124",
                               "zh-CN": r"2026-11-29 08:03:\d\d\.\d{3} · id (\S+) · 扣费 \$0\.001124"}[lang], message)  # fmt: skip
        assert len(requests) == 3 * len(differing)
        assert set(requests) <= {row.request_id for row in run.own_rows()}
        assert "20" in message
        assert "IGNORE" not in message
    honest = card(run, samples.honest_findings(run), lang, inside=Inside(paid=PAID))
    assert title not in honest, "nothing to ask"


INTENT = re.compile(
    "故意|欺|骗|诈|假|黑心|掺|偷|intent|fraud|fake|cheat|scam|steal|dishonest|on purpose|deliberate", re.IGNORECASE
)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(
    "make", [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
)
def test_in_a_chat_a_buyer_who_has_paid_reads_used_left_and_the_message(lang: Lang, make) -> None:
    run = samples.evidence(balance=(balance(available=Decimal(20)),))
    findings = make(run)
    told = card(run, findings, lang, "text", inside=Inside(paid=PAID))
    assert len(told) <= AT_MOST[lang]
    said = {
        "en": "Paid 50 CNY; used 80, left 20 (site dollars).",
        "zh-CN": "已付 50 CNY；已用 80，剩余 20（站内美元）。",
    }
    assert said[lang] in told
    assert samples.HEAD[:16] in told
    differing = [f for f in findings if f.outcome == "mismatch" and f.above_info]
    title = {"en": "Message to the seller", "zh-CN": "发给卖家的话"}[lang]
    assert (title in told) == bool(differing)
    if differing:
        message = told[told.index(title) :]
        asked = re.findall(r"(?m)^(\d)\. (.+)$", message)
        assert [n for n, _ in asked] == [str(n + 1) for n in range(len(asked))]
        assert all(line.endswith({"en": "?", "zh-CN": "？"}[lang]) for _, line in asked)
        more = re.search({"en": r"(\d+) more points follow", "zh-CN": r"还有 (\d+) 条，另发"}[lang], message)
        assert len(asked) + (int(more[1]) if more else 0) == min(len(differing), 5)
        assert "2026-11-29" in message
        assert samples.MODEL in message
        ids = {row.request_id for row in run.own_rows()}
        with_exchanges = [f for f in differing[: len(asked)] if f.exchanges]
        assert sum(any(one in line for one in ids) and "$0.001124" in line for _, line in asked) == len(with_exchanges)
        assert INTENT.search(message) is None
        assert "IGNORE" not in message
    for audience in ("vendor", "public"):
        verdict = samples.judged(run, findings)
        other = render(run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, audience, "text", lang,
                       inside=Inside(paid=PAID)).decode()  # fmt: skip
        assert "50 CNY" not in other, "what he paid is nobody else's business"
        assert title not in other


def test_lines_of_the_buyer_show_success_with_window_and_source_and_what_is_missing_as_missing() -> None:
    run = samples.evidence()
    findings = samples.surplus_findings(run)
    lines = (
        Line(
            name="first-zq",
            model=samples.MODEL,
            usd_per_mtok_in="4",
            success_30d="0",
            window="October",
            source="gateway",
        ),
        Line(name="second-zq", model=samples.MODEL),
        Line(name="third-zq", model="gpt-5"),
    )
    told = card(run, findings, inside=Inside(lines=lines))
    assert "| first-zq | $4.00 | 53% | 0.00% |" in told
    assert "| second-zq | not known | not known | not given |" in told
    assert "third-zq" not in told
    assert "October, gateway" in told
    assert "names no line of this model" in card(run, findings, inside=Inside(lines=lines[2:]))
    assert "success over 30 days is missing" in card(run, findings, inside=Inside(lines_missing="not_there"))
    assert "cannot be measured by an audit" in card(run, findings, inside=Inside(lines_missing="not_named"))
    assert "ab12" in card(run, findings, inside=Inside(policy_digest="ab12" * 16)), "whose rules decided"


def test_what_was_not_measured_is_no_real_price() -> None:
    run = samples.evidence()
    untested = tuple(f for f in samples.honest_findings(run) if f.check != 2)
    told = card(run, untested, coverage=NOT_RUN)
    assert "no real price follows" in told
    assert "No surplus was found" not in told
    assert told.count("| not known | not known | not known |") == 3
    assert "the quoted price is the real one" in card(run, samples.honest_findings(run), form="html")


def test_three_ratios_stand_side_by_side_and_one_that_was_not_measured_is_not_known() -> None:
    run = samples.evidence()
    row = "Multiple of the official list: claimed / published / charged: "
    assert f"{row}0.3 / not known / not known" in card(run, samples.surplus_findings(run))
    told = samples.finding("billing.matches", {"n": 6, "charged": "0.006744", "facts": [], "not_judged": 0,
                                               "claimed": "0.3", "published": "0.3", "charged_ratio": "0.36"})  # fmt: skip
    assert f"{row}0.3 / 0.3 / 0.36" in card(run, samples.number((told,)))
