"""Every format for every reader: well-formed, the same twice, with the figures, and without what that reader may not see."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
import xml.etree.ElementTree as ET
from decimal import Decimal
from pathlib import Path

import pytest
from jsonschema import Draft4Validator, Draft202012Validator

from relay_audit.errors import UsageError
from relay_audit.evidence import VendorAnswer, Withdrawal
from relay_audit.finding import Finding
from relay_audit.report.as_csv import defused
from relay_audit.report.as_text import AT_MOST
from relay_audit.report.edition import Edition
from relay_audit.report.render import AUDIENCES, FORMATS, Audience, Format, render
from relay_audit.report_shape import ReportShape
from relay_audit.target import Place
from relay_audit.words import LANGS, Lang
from tests.report import samples

ROOT = Path(__file__).resolve().parents[2]
PLACE = Place(path="audits/relay audit.toml", line=7)
WRITTEN: tuple[Format, ...] = tuple(form for form in FORMATS if form != "pdf")
MAKERS = [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
SHEET = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069]")


def made(
    form: Format, audience: Audience = "vendor", lang: Lang = "en", make=samples.surplus_findings, run=None, **more
) -> str:
    run = run or samples.evidence(text=samples.HOSTILE)
    findings: tuple[Finding, ...] = make(run)
    verdict = samples.judged(run, findings)
    raw = render(
        run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, audience, form, lang, anchor=PLACE, **more
    )
    return raw.decode("utf-8-sig")


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("form", WRITTEN)
def test_every_form_is_made_the_same_twice_and_shows_no_control_character(form, audience, lang) -> None:
    for make in MAKERS:
        text = made(form, audience, lang, make)
        assert text == made(form, audience, lang, make)
        assert SHEET.search(text.replace("\r\n", "\n")) is None


@pytest.mark.parametrize("form", WRITTEN)
def test_the_public_edition_is_anonymous_in_every_form(form) -> None:
    for lang in LANGS:
        for make in MAKERS:
            text = made(form, "public", lang, make)
            for word in (
                "inhouse-zq-line",
                "relay.example",
                "官转",
                "192.0.2.7",
                "202611290803",
                "msg_01Abc",
                "k3f7",
                "mei",
            ):
                assert word not in text, (form, word)
            assert "08:03" not in text or form in ("json", "junit")


def test_the_public_edition_repeats_a_known_models_name_and_no_other_text_of_the_relay() -> None:
    def leaked(run, name):
        params = {"requested": samples.MODEL, "untrusted_upstream": name, "n": 6, "header": "x-model"}
        found = samples.finding("model.relay_header_admits", params, exchanges=samples.sent_to_relay(run))
        return samples.number((found,))

    run = samples.evidence()
    known = made("md", "public", make=lambda r: leaked(r, samples.MODEL), run=run)
    assert samples.MODEL in known
    strange = made("md", "public", make=lambda r: leaked(r, "powered by best-relay"), run=run)
    assert "best-relay" not in strange
    assert "not named in the public edition" in strange.replace("\\", "")


PRICED = {
    "billing.tiers_measured": {"n": 1, "table": ["480p 5 s: 0.3113 / 0 / 0.3113 / ×0.909", "720p 5 s: – / –"]},
    "billing.price_differs_from_published": {
        **samples.SAMPLE_VALUES,
        "published_rate": "2.3114",
        "charged_rate": "2.7114",
    },
    "billing.gated_at_till": {"needed": "0.2", "per_mtok": "2.9114", "ratio": "0.3"},
}
"""Findings that say what a unit costs on the line."""


@pytest.mark.parametrize("lang", LANGS)
def test_the_public_edition_keeps_ratios_and_no_price_list(lang: Lang) -> None:
    def priced(_):
        return samples.number([
            samples.finding(code, params, outcome=outcome,
                            observed={"480p_5s": {"net": "0.3115", "charged": "0.3115", "quoted": "0.3115", "ratio": "0.909"}})
            for code, params in PRICED.items() for outcome in ("mismatch", "match")
        ])  # fmt: skip

    for form in ("html", "md", "json", "junit", "text"):
        public, vendor = made(form, "public", lang, priced), made(form, "vendor", lang, priced)
        assert not re.findall(r"\d\.[379]11[345]", public.replace("\\", ""))
        if form in ("html", "md", "json"):
            assert len(set(re.findall(r"\d\.[379]11[345]", vendor.replace("\\", "")))) >= 4
            assert "×0.909" in public
            assert samples.SAMPLE_VALUES["factor"] in public


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("lang", LANGS)
def test_a_chat_text_fits_and_says_what_it_is(lang: Lang, audience: Audience, make) -> None:
    text = made("text", audience, lang, make)
    assert len(text) <= AT_MOST[lang]
    assert "|" not in text
    assert "\x1b" not in text
    for must in ("2026-11-29", "9f9f9f9f9f9f9f9f", samples.MODEL):
        assert must in text
    assert text.count("\n✓") + text.count("\n✕") + text.count("\n?") + text.count("\n!") == 4
    assert "IGNORE" not in text


def test_the_chat_text_in_chinese_is_at_most_600_characters_at_its_longest() -> None:
    run = samples.evidence(stopped="three_failures")
    assert AT_MOST["zh-CN"] == 600
    assert len(made("text", "internal", "zh-CN", samples.of_every_code, run)) <= 600


def test_markdown_keeps_a_strangers_text_a_text() -> None:
    text = made("md", "vendor", make=samples.hostile_findings)
    assert "<img" not in text.replace("\\<img", "").replace("&lt;img", "")
    assert "\\<img src=x onerror=alert(1)\\>" in text
    assert re.search(r"(?<!\\)\]\(", text) is None
    assert "```\n" in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(re.split(r"(?<!\\)\|", line)[0] == "" for line in tables)
    assert len({len(re.split(r"(?<!\\)\|", line)) for line in tables if line.startswith("| X00")}) <= 2


def test_csv_lists_the_money_and_runs_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(made("csv", "internal"))))
    assert sum(Decimal(row["amount"]) for row in rows) == Decimal("0.006744")
    assert {row["basis"] for row in rows} == {"relay_log"}
    assert rows[0]["time_utc"] == "2026-11-29 08:03:20.549"
    assert rows[0]["relay_request_id"] == "202611290803050008Xy12ab34"
    assert set(next(iter(csv.DictReader(io.StringIO(made("csv", "public")))))).isdisjoint(
        {"relay_request_id", "response_id"}
    )
    for bad in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1", "%0A", "|calc", "\r=1"):
        assert defused(bad).startswith("'")
    assert defused("0.0042") == "0.0042"


def test_a_formula_in_a_request_id_is_defused() -> None:
    run = samples.evidence()
    log = run.log[0]
    rows = tuple(row.model_copy(update={"request_id": '=HYPERLINK("http://x","y")'}) for row in log.rows)
    bad = run.model_copy(update={"log": (log.model_copy(update={"rows": rows}),)})
    cells = [row["relay_request_id"] for row in csv.DictReader(io.StringIO(made("csv", "internal", run=bad)))]
    assert set(cells) == {'\'=HYPERLINK("http://x","y")'}


def test_junit_fails_on_accusations_only() -> None:
    root = ET.fromstring(made("junit", "internal"))  # noqa: S314  our own bytes
    assert [suite.get("name") for suite in root] == ["channel", "token counts", "model identity", "parameters",
                                                     "media provenance", "billing", "Run"]  # fmt: skip
    assert root.get("failures") == "1"
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["F001 tokens.constant_surplus"]
    skipped = [case.get("classname") for case in root.iter("testcase") if case.find("skipped") is not None]
    assert skipped == ["relay-audit.check3", "relay-audit.check4", "relay-audit.check5"]
    every = ET.fromstring(made("junit", "internal", make=samples.of_every_code))  # noqa: S314
    accusations = sum(f.accusation for f in samples.of_every_code(samples.evidence()))
    assert every.get("failures") == str(accusations)
    assert int(every.get("errors") or 0) == 2


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("audience", AUDIENCES)
def test_json_has_the_published_shape(audience, make) -> None:
    for lang in LANGS:
        whole = json.loads(made("json", audience, lang, make))
        read = ReportShape.model_validate(whole, strict=False)
        assert (read.verdict is None) == (audience != "internal")
        assert set(whole) <= {*ReportShape.model_fields, "rule", "archive_digest", "report_cmd", "conflict"}


def test_sarif_points_at_the_target_file_and_names_nothing_internal() -> None:
    whole = json.loads(made("sarif", "internal"))
    assert whole["version"] == "2.1.0"
    run = whole["runs"][0]
    result = run["results"][0]
    assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "tokens.constant_surplus"
    place = result["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "audits/relay%20audit.toml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 7},
    }
    assert "inhouse-zq-line" not in json.dumps(whole)
    assert result["partialFingerprints"]["finding/v1"] == json.loads(made("sarif", "vendor"))["runs"][0]["results"][0][
        "partialFingerprints"]["finding/v1"]  # fmt: skip
    assert all(r["locations"] for r in json.loads(made("sarif", make=samples.of_every_code))["runs"][0]["results"])


@pytest.mark.parametrize("make", MAKERS)
def test_sarif_and_json_are_what_their_published_schemas_say(make) -> None:
    """Every shape our own models let through, held against the schemas that readers of these files use."""
    ours = Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")))
    theirs = Draft4Validator(json.loads((ROOT / "tests/data/schemas/sarif-2.1.0.json").read_text(encoding="utf-8")))
    run = samples.evidence(text=samples.HOSTILE)
    for audience, lang in zip(AUDIENCES, ("en", "zh-CN", "en"), strict=True):
        assert not [
            error.message for error in ours.iter_errors(json.loads(made("json", audience, lang, make, run=run)))
        ]
        whole = json.loads(made("sarif", audience, lang, make, run=run))
        assert not [error.message for error in theirs.iter_errors(whole)]
        (one,) = whole["runs"]
        # what code scanning asks beyond the schema
        assert one["automationDetails"]["id"].endswith("/")
        assert len({rule["id"] for rule in one["tool"]["driver"]["rules"]}) == len(one["tool"]["driver"]["rules"])
        for result in one["results"]:
            assert result["message"]["text"]
            assert len(result["locations"]) == 1
            assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
    assert list(theirs.iter_errors({"version": "2.1.0", "runs": [{"results": []}]}))  # a run without its tool is none


@pytest.mark.parametrize("make", MAKERS)
def test_junit_counts_what_it_holds_and_each_case_has_one_result(make) -> None:
    root = ET.fromstring(made("junit", "internal", make=make))  # noqa: S314
    assert root.tag == "testsuites"
    for holder in (root, *root):
        cases = list(holder.iter("testcase"))
        counted = {"tests": len(cases)} | {
            kind if kind == "skipped" else f"{kind}s": sum(case.find(kind) is not None for case in cases)
            for kind in ("failure", "error", "skipped")
        }
        assert {name: int(holder.get(name) or 0) for name in counted} == counted
        assert float(holder.get("time") or 0) >= 0
    for case in root.iter("testcase"):
        assert case.get("name")
        assert case.get("classname")
        results = [child for child in case if child.tag in ("failure", "error", "skipped")]
        assert len(results) <= 1
        assert all(child.get("message") and child.get("type") for child in results)


def test_sarif_without_a_target_file_is_refused() -> None:
    run = samples.evidence()
    findings = samples.surplus_findings(run)
    verdict = samples.judged(run, findings)
    with pytest.raises(UsageError) as caught:
        render(run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, "internal", "sarif", "en")
    assert "junit" in caught.value.next_step


def test_page_one_says_what_it_replaces_and_what_was_withdrawn() -> None:
    day = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    reply = VendorAnswer(
        finding="F009", code="tokens.constant_surplus", stance="disputed", untrusted_text=samples.HOSTILE, at=day
    )
    fallen = Withdrawal(finding="F002", code="channel.matches", at=day)
    run = samples.evidence(replies=(reply,), withdrawn=(fallen,))
    edition = Edition(version=3, because="the log was read again", withdrawn="the key was in another group")
    for form in ("html", "md"):
        text = made(form, "vendor", run=run, edition=edition)
        for must in ("replaces version 2, because: the log was read again", "RA-20261129-k3f7 / 3",
                     "This report is withdrawn and no longer holds: the key was in another group", "Withdrawn findings",
                     "disputed"):  # fmt: skip
            assert must in text.replace("\\", ""), must
    page = made("html", "vendor", run=run, edition=edition)
    assert page.index("no longer holds") < page.index('class="cards"')
    assert "<script>alert(2)" not in page
