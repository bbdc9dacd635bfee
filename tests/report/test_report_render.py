"""The pages as bytes: what stands on them, what never does, and that a stranger's text stays text."""

from __future__ import annotations

import html
import json
import re
import sys
from html.parser import HTMLParser

import pytest
from jinja2 import DictLoader, Environment

from relay_audit.codes import CODES
from relay_audit.finding import Coverage, Finding
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.compiled import kept_beside
from relay_audit.report.render import Audience, render
from relay_audit.report.untrusted import show
from relay_audit.report.views import host_of
from relay_audit.words import LANGS, Lang
from tests.report import samples

VOID = {"meta", "br", "link", "img", "input", "hr"}
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def page(run, findings, audience: Audience = "vendor", lang: Lang = "en", coverage=samples.COVERAGE) -> str:
    verdict = samples.judged(run, findings, coverage)
    return render(
        run, findings, coverage, verdict, samples.KNOWLEDGE, audience, "html", lang, knowledge_digest="cd" * 32
    ).decode()


def plain(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", text.split("</style>")[1]))


class Outline(HTMLParser):
    """Tags, attributes and nesting, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("audience", ["vendor", "internal"])
@pytest.mark.parametrize(
    "make", [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
)
def test_pages_are_closed_inert_and_the_same_twice(make, audience: Audience, lang: Lang) -> None:
    run = samples.evidence(text=samples.HOSTILE)
    findings = make(run)
    text = page(run, findings, audience, lang)
    outline = Outline(text)
    assert outline.open == []
    assert not {"script", "iframe", "object", "embed", "form", "base", "img", "link"} & set(outline.tags)
    assert not [name for name, _ in outline.attributes if name.startswith("on") or name in ("src", "style", "action")]
    assert all(str(value).startswith("#") for name, value in outline.attributes if name == "href")
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in html.unescape(text)
    assert INVISIBLE.search(text) is None
    assert "url(" not in text
    assert text == page(run, findings, audience, lang)
    ids = [value for name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for name, value in outline.attributes if name == "href" and value} <= set(map(str, ids))


def test_a_strangers_text_is_shown_and_stays_text() -> None:
    run = samples.evidence(text=samples.HOSTILE)
    text = page(run, samples.hostile_findings(run))
    assert "&lt;img src=x onerror=alert(1)&gt;{{7*7}}{% raw %}\\x1b]0;owned\\x07\\u202egnp.exe\\u200b" in text
    assert "49" not in plain(text).split("owned")[0][-80:]
    headline = re.search(r'class="headline">(.*?)</p>', text, re.DOTALL)
    assert headline is not None
    assert "IGNORE" not in headline[1]


def test_vendor_page_has_sentence_four_cards_and_the_finding_side_by_side() -> None:
    run = samples.evidence()
    text = page(run, samples.surplus_findings(run))
    flat = plain(text)
    assert "This relay differs from the official API: 508 more input tokens billed per request" in flat
    assert "Without a result: model identity, parameters (not in this version)." in flat
    assert re.findall(r'class="card (\w+)"', text) == ["ok", "unknown", "unknown", "bad"]
    assert text.count("<mark>") == 6
    assert "<mark>539</mark>" in text
    assert "+508" in flat
    for must in (
        "2026-11-29 08:03:20.549",
        "202611290803050008Xy12ab34",
        "msg_01Abc0008QmWxYz23456789Jk",
        "$0.001124",
        "What it does not prove",
        "Other explanations",
        "What would refute it",
        "channel setting “system prompt”",
        "observed 2026-09-01",
        "Stability and capacity are not judged",
        "not that the answers came from this server",
        samples.HEAD,
        "cd" * 32,
        "at the terminal",
        "192.0.2.7:443",
        "$1.016",
    ):
        assert must in flat, must


@pytest.mark.parametrize("lang", LANGS)
def test_where_a_second_hop_shows_every_difference_says_that_its_cause_may_lie_upstream(lang: Lang) -> None:
    run = samples.evidence()
    hop = samples.finding(
        "channel.chained_relay", {n: samples.SAMPLE_VALUES[n] for n in CODES["channel.chained_relay"].params}
    )
    alone = samples.surplus_findings(run)
    told = Catalogue.load(lang).text("finding_part.upstream")
    assert told not in plain(page(run, alone, lang=lang))
    found = samples.number((*alone, hop))
    above = [f for f in found if f.above_info]
    assert plain(page(run, found, lang=lang)).count(told) == len(above) >= 1


def test_the_curl_holds_the_literal_body_and_no_key() -> None:
    run = samples.evidence()
    flat = plain(page(run, samples.surplus_findings(run)))
    sent = run.generations()[0].request
    literal = json.dumps(sent.body, ensure_ascii=False, separators=(",", ":")).replace("'", "'\"'\"'")
    assert f"--data-raw '{literal}'" in flat
    assert '-H "x-api-key: $RELAY_KEY"' in flat
    assert "[redacted" not in flat
    assert f"These are the bytes that were sent (SHA-256 {sent.body_sha256})" in flat


@pytest.mark.parametrize("lang", LANGS)
def test_all_six_checks_and_the_conduct_always_stand_there(lang: Lang) -> None:
    run = samples.evidence(0)
    text = page(run, samples.honest_findings(run), lang=lang, coverage=samples.without_log())
    table = text.split('class="table stack coverage"')[1].split("</table>")[0]
    assert table.count('scope="row"') == 6
    method = text.split('id="method-title"')[1].split("</table>")[0]
    assert re.findall(r'class="amount">(\d+)<', method) == ["6", "6", "1"]


def test_vendor_page_names_nothing_internal() -> None:
    run = samples.evidence()
    text = page(run, samples.surplus_findings(run))
    for secret in ("inhouse-zq-line", "mei", "injected_prompt", "Backup only", "0.08064"):
        assert re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text) is None, secret
    card = page(run, samples.surplus_findings(run), "internal")
    for must in ("inhouse-zq-line", "Backup only", "injected_prompt", "by mei"):
        assert must in card, must


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        (
            "en",
            (
                "Backup only",
                "$0.50",
                "$0.08464",
                "$3.016",
                "×1.508",
                "$2.0102",
                "Quoted price: $2.00",
                "Within 30 days",
            ),
        ),
        (
            "zh-CN",
            ("备用", "$0.50", "$0.08464", "$3.016", "×1.508", "$2.0102", "每次多计 508 个 Token", "30 天内复测"),
        ),
    ],
)
def test_the_card_holds_verdict_money_and_real_cost(lang: Lang, words: tuple[str, ...]) -> None:
    run = samples.evidence()
    flat = plain(page(run, samples.surplus_findings(run), "internal", lang))
    assert [word for word in words if word not in flat] == []


def test_the_card_of_an_honest_run_says_that_the_quoted_price_is_real_and_names_what_is_missing() -> None:
    run = samples.evidence(0)
    text = page(run, samples.honest_findings(run), "internal", "en", samples.without_log())
    flat = plain(text)
    assert "Usable" in flat
    assert "No surplus was found: the quoted price is the real one." in flat
    assert flat.count("×1.000") == 3
    assert "billing (the relay shows no per-call log)" in flat
    assert re.findall(r'class="card (\w+)"', text) == ["ok", "unknown", "unknown", "unknown"]


def test_a_run_that_stopped_and_a_run_of_nothing_can_be_shown() -> None:
    nothing = tuple(Coverage(check=c, state="not_run", reason="unreachable") for c in (1, 2))
    bare = samples.evidence(
        exchanges=(),
        plan=None,
        quote=None,
        approval=None,
        ledger=samples.Ledger(),
        log=(),
        evidence_head="",
        status="failed",
        stopped="unreachable",
    )
    findings: tuple[Finding, ...] = ()
    for lang in LANGS:
        for audience in ("vendor", "internal"):
            assert Outline(page(bare, findings, audience, lang, nothing)).open == []
    flat = plain(page(bare, findings, coverage=nothing))
    assert "Nothing could be measured." in flat
    assert "The run ended early: the relay did not answer." in flat
    assert "not sealed yet" in flat


def test_an_unconfirmed_send_is_listed_without_a_status() -> None:
    run = samples.evidence()
    lost = run.generations()[0]
    gone = lost.model_copy(update={"delivery": "unconfirmed", "response": None, "failure": "no_outcome"})
    other = run.model_copy(update={"exchanges": tuple(gone if e.id == lost.id else e for e in run.exchanges)})
    flat = plain(page(other, samples.surplus_findings(run)))
    assert "no_outcome" in flat
    assert "+508" in flat


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain 中文", "plain 中文"),
        ("a\x1b[2Jb\r\n", "a\\x1b[2Jb\\r\\n"),
        ("\u202eabc\u2066\u200b\ufeff", "\\u202eabc\\u2066\\u200b\\ufeff"),
        ("\U000e0041\x9b", "\\U000e0041\\x9b"),
        ("o\u0301", "o\u0301"),
        ("o" + "\u0301" * 4, "o\u0301\u0301\\u0301\\u0301"),
        ("x" * 12, "xxxxxxxxxx… [10 / 12]"),
    ],
)
def test_show(raw: str, shown: str) -> None:
    assert show(raw, 10 if raw.startswith("xx") else 200) == shown


def test_host_of() -> None:
    assert host_of("https://relay.example:8443/api") == "relay.example:8443"
    assert host_of("https://user:secret@relay.example") == "relay.example"


def test_a_compiled_template_is_kept_where_python_keeps_code_and_never_outlives_its_text(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "cache"))
    templates = tmp_path / "templates"
    templates.mkdir()

    def said(text: str, *, escaped: bool = True) -> str:
        engine = Environment(loader=DictLoader({"a.j2": text}), autoescape=escaped)  # noqa: S701  that is what is told apart
        engine.bytecode_cache = kept_beside(templates, engine)
        return engine.get_template("a.j2").render(x="<")

    assert said("one {{ x }}") == "one &lt;"
    (file,) = (tmp_path / "cache").rglob("*.pyc")
    assert not list(templates.iterdir())
    first = file.read_bytes()
    assert said("one {{ x }}") == "one &lt;"
    assert file.read_bytes() == first
    assert said("two {{ x }}") == "two &lt;"
    assert said("two {{ x }}", escaped=False) == "two <"
    assert len(list((tmp_path / "cache").rglob("*.pyc"))) == 2


def test_where_nothing_may_be_written_templates_are_translated_each_time(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "file"))
    assert kept_beside(tmp_path, Environment(autoescape=True)) is None
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "cache"))
    assert kept_beside(tmp_path, Environment(autoescape=True)) is None
    assert not (tmp_path / "cache").exists()
