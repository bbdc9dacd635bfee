"""The contract's JSON: the short form stays short and keeps what matters; strangers are fenced or absent."""

from __future__ import annotations

import json

import pytest

from relay_audit.report.as_json import CALLERS_ROOM, SHORT_BYTES, summary_json
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.quote_text import ask_user, disclosure
from relay_audit.report.render import render
from relay_audit.words import LANGS, Lang
from tests.report import samples

KEYS = {
    "schema_version",
    "run_id",
    "status",
    "verdict",
    "incomplete",
    "evidence_head",
    "knowledge_digest",
    "headline",
    "answer",
    "cards",
    "findings",
    "coverage",
    "money",
    "needs",
    "ask_user",
    "exchanges",
}


def summary(run, findings, short: bool, lang: Lang = "en", coverage=samples.COVERAGE) -> dict:
    verdict = samples.judged(run, findings, coverage)
    return summary_json(run, findings, coverage, verdict, short, Catalogue.load(lang), knowledge_digest="cd" * 32)


def test_short_form_of_the_main_job() -> None:
    run = samples.evidence()
    made = summary(run, samples.surplus_findings(run), short=True)
    assert set(made) >= KEYS
    assert made["findings"] == [
        {
            "id": "F001",
            "code": "tokens.constant_surplus",
            "check": 2,
            "outcome": "mismatch",
            "severity": "high",
            "impact": "users",
            "confidence": "strong",
        }
    ]
    assert (made["findings_total"], made["findings_omitted"]) == (3, 2)
    assert made["verdict"] == "backup"
    assert made["money"] == {
        "currency": "USD",
        "quoted_expected": "0.00048",
        "quoted_at_most": "0.08464",
        "hold": "0.001032",
        "approved": "0.5",
        "charged_relay": "0.006744",
        "charged_official": "0",
        "unconfirmed": "0",
        "basis": "relay_log",
    }
    assert [(c["id"], c["state"]) for c in made["cards"]] == [
        ("backend", "ok"),
        ("model", "unknown"),
        ("interface", "unknown"),
        ("cost", "bad"),
    ]
    assert [row["check"] for row in made["coverage"]] == [1, 2, 3, 4, 5, 6]
    assert made["exchanges"] == 13
    assert made["answer"]["next"]["command"] == f"relay-audit report {run.run_id} --for vendor -o vendor.html"


AT_ONCE = 40
"""Findings that one run may have: a line of texts has none of a film's, and opposites exclude each other."""


@pytest.mark.parametrize("lang", LANGS)
def test_short_form_is_short_whatever_happens_and_keeps_every_finding_above_info(lang: Lang) -> None:
    run = samples.evidence(text=samples.HOSTILE)
    findings = samples.of_every_code(run)[:AT_ONCE]
    made = summary(run, findings, short=True, lang=lang)
    raw = json.dumps(made, ensure_ascii=False).encode()
    assert len(raw) <= SHORT_BYTES - CALLERS_ROOM
    listed = {f["id"] for f in made["findings"]}
    assert listed >= {f.id for f in findings if f.above_info}
    assert made["findings_omitted"] == len(findings) - len(listed)
    assert listed.isdisjoint(f.id for f in findings if not f.above_info and f.outcome == "match")
    assert b"IGNORE" not in raw
    assert b"untrusted" not in raw


@pytest.mark.parametrize("lang", LANGS)
def test_complete_form_fences_strangers(lang: Lang) -> None:
    run = samples.evidence(text=samples.HOSTILE)
    made = summary(run, samples.hostile_findings(run), short=False, lang=lang)
    admitted = next(f for f in made["findings"] if f["code"] == "model.relay_header_admits")
    shown = admitted["params"]["untrusted_upstream"]
    assert "IGNORE" in shown
    assert "\\x1b" in shown
    assert len(shown) <= 260
    admitted["params"] = admitted["observed"] = {}
    assert "IGNORE" not in json.dumps(made, ensure_ascii=False)
    assert set(admitted["texts"]) == {"en", "zh-CN"}
    assert all(len(admitted["texts"][one]) == 6 for one in admitted["texts"])
    assert admitted["other_explanations"] == [admitted["texts"][lang]["other"]]
    assert made["findings_omitted"] == 0


def test_complete_form_carries_the_figures() -> None:
    run = samples.evidence()
    made = summary(run, samples.surplus_findings(run), short=False)
    surplus = made["findings"][0]
    assert surplus["params"]["surplus"] == 508
    assert surplus["observed"] == {"offset": 508, "low": 508, "high": 508}
    assert len(surplus["exchanges"]) == 12
    assert (made["evidence_head"], made["knowledge_digest"], made["rule"]) == (
        samples.HEAD,
        "cd" * 32,
        "injected_prompt",
    )


def test_the_vendors_json_has_no_policy_and_no_budget() -> None:
    run = samples.evidence()
    findings = samples.surplus_findings(run)
    verdict = samples.judged(run, findings)
    raw = render(run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, "vendor", "json", "en")
    made = json.loads(raw)
    assert {"verdict", "rule", "answer", "ask_user"}.isdisjoint(made)
    assert set(made["money"]) == {"currency", "charged_relay", "charged_official", "basis"}
    assert b"inhouse-zq-line" not in raw
    assert made["findings"][0]["code"] == "tokens.constant_surplus"


def test_say_holds_the_findings_titles_date_count_and_what_is_missing() -> None:
    run = samples.evidence()
    said = summary(run, samples.surplus_findings(run), short=True)["answer"]["say"]
    assert said["en"] == (
        "On 2026-11-29, in 13 requests, this relay differed from the official API: 508 more input tokens billed "
        "per request than the official count. This was measured. "
        "Without a result: model identity, parameters (not in this version)."
    )
    assert said["zh-CN"] == (
        "2026-11-29 共 13 次请求，测得这家中转与官方 API 有差异："
        "每次请求比官方多计 508 个输入 Token。以上为实测。没有结果的：模型身份、参数（本版本没有这项）。"
    )


def test_the_question_before_spending_fits_200_characters() -> None:
    run = samples.evidence(status="awaiting_approval")
    facts = run.target.model_copy(update={"model": "m" * 200, "relay_origin": f"https://{'h' * 200}.example"})
    for case in (run, run.model_copy(update={"target": facts})):
        asked = ask_user(case)
        assert set(asked) == {"en", "zh-CN"}
        for text in asked.values():
            assert len(text) <= 200
            assert "$0.00048" in text
            assert "$0.08464" in text
            assert "$0.001032" in text
    assert summary(run, (), short=True)["ask_user"] == ask_user(run)


@pytest.mark.parametrize("lang", LANGS)
def test_the_disclosure_names_what_is_given_away(lang: Lang) -> None:
    told = disclosure(Catalogue.load(lang), host="relay.example", user_agent="agent/1\x1b")
    joined = "\n".join(told)
    assert len(told) == 5
    for must in ("IP", "User-Agent", "agent/1\\x1b", "relay.example"):
        assert must in joined
