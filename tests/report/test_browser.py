"""In a real Chromium: page 1, one A4 card, no overflow, no message on the console, no barrier that axe knows of.

Run with `pytest -m browser`. `AXE_CORE` names axe-core's `axe.min.js`; `REPORT_SHOTS` a folder for pictures.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from relay_audit.errors import LeakRefused
from relay_audit.lines_file import Line
from relay_audit.report.as_difference import difference_page
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.edition import Edition, Inside
from relay_audit.report.leakguard import check
from relay_audit.report.printed import pdf, png, readable
from relay_audit.report.render import AUDIENCES, render
from relay_audit.report.screens import SCREEN, WIDTH
from relay_audit.target import Paid
from relay_audit.words import LANGS
from tests.report import samples

pytestmark = pytest.mark.browser
CHROMIUM = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
MAKERS = [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
LONGEST = Inside(
    lines=tuple(
        Line(name=f"primary-claude-{n}", model=samples.MODEL, usd_per_mtok_in="3", success_30d="0.9971",
             window="2026-10-30 to 2026-11-29", source="gateway metrics")
        for n in range(3)
    ),
    paid=Paid(amount="50", currency="CNY", credited="50"), typical_input_tokens=25_000, policy_digest="ab" * 32,
)  # fmt: skip
AXE_FILE, SHOTS = os.environ.get("AXE_CORE", ""), os.environ.get("REPORT_SHOTS", "")
WITHDRAWN = Edition(version=2, because="the log was read again " * 8)
MEASURE = """<!doctype html><iframe id=f src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<script>onload=()=>{{const d=f.contentDocument.documentElement;
const c=[...d.querySelectorAll('.card,.headline')].map(e=>e.getBoundingClientRect().bottom);
document.body.append('wide='+d.scrollWidth+' low='+Math.ceil(Math.max(...c)))}}</script>"""
AXE = """<script>onload=()=>axe.run(document).then(r=>{const p=document.createElement('pre');p.id='axe-result';
p.textContent='AXE'+JSON.stringify(r.violations.map(v=>[v.id,v.nodes.length,v.nodes[0].html.slice(0,120)]))+'EXA';
document.body.append(p)})</script>"""


def page_of(audience, lang, make, inside: Inside | None = None, edition: Edition | None = None) -> bytes:
    run = samples.evidence(text=samples.HOSTILE)
    findings = make(run)
    verdict = samples.judged(run, findings)
    return render(
        run,
        findings,
        samples.COVERAGE,
        verdict,
        samples.KNOWLEDGE,
        audience,
        "html",
        lang,
        inside=inside,
        edition=edition,
    )


def saved(folder: Path, raw: bytes, name: str = "page.html") -> Path:
    path = folder / name
    path.write_bytes(raw)
    return path


def chromium(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CHROMIUM, *arguments], check=True, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("lang", LANGS)
def test_the_card_is_one_a4_page_at_its_longest(tmp_path: Path, lang, make) -> None:
    page, out = saved(tmp_path, page_of("internal", lang, make, LONGEST, WITHDRAWN)), tmp_path / "card.pdf"
    chromium(f"--print-to-pdf={out}", "--no-pdf-header-footer", page.as_uri())
    info = subprocess.run(["pdfinfo", out], check=True, capture_output=True, text=True).stdout
    assert re.search(r"^Pages:\s+1$", info, re.MULTILINE)
    assert "A4" in info


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("lang", LANGS)
def test_page_one_of_the_vendors_report_holds_the_sentence_and_the_cards(tmp_path: Path, lang, make) -> None:
    page, out = saved(tmp_path, page_of("vendor", lang, make)), tmp_path / "report.pdf"
    chromium(f"--print-to-pdf={out}", "--no-pdf-header-footer", page.as_uri())
    asked = ["pdftotext", "-l", "1", out, "-"]
    first = re.sub(r"[\s-]", "", subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    raw = page.read_text(encoding="utf-8")
    sentence = re.search(r'class="headline">(.*?)</p>', raw, re.DOTALL)
    assert sentence is not None
    assert re.sub(r"[\s-]|&#\d+;", "", sentence[1])[:40] in first
    for name in re.findall(r'<li class="card \w+">\s*<h2>(.*?)</h2>', raw):
        assert name in first


@pytest.mark.parametrize("lang", LANGS)
def test_what_is_folded_on_a_screen_is_whole_on_paper(tmp_path: Path, lang) -> None:
    """An engineer prints the page and looks for his last call on it; who prints has no way to unfold a row."""
    run = samples.evidence()
    every = (*samples.sent_to_relay(run), *(e.id for e in run.exchanges if e.side == "official"))
    findings = tuple(f.model_copy(update={"exchanges": every}) for f in samples.surplus_findings(run))
    raw = render(
        run, findings, samples.COVERAGE, samples.judged(run, findings), samples.KNOWLEDGE, "vendor", "html", lang
    )
    folded = re.findall(rb'<details class="rest">.*?</details>', raw, re.DOTALL)
    assert folded, "nothing to unfold: the test is about longer tables"
    out = tmp_path / "report.pdf"
    chromium(f"--print-to-pdf={out}", "--no-pdf-header-footer", saved(tmp_path, raw).as_uri())
    printed = readable(out.read_bytes())
    ids = re.findall(r">(X\d{4})<", b"".join(folded).decode())
    assert ids
    assert [one for one in ids if one not in printed] == []
    by_weasyprint = readable(pdf(raw, lang, os.environ))
    assert [one for one in ids if one not in by_weasyprint] == []


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("lang", LANGS)
def test_nothing_overflows_and_the_cards_stand_above_the_fold(tmp_path: Path, lang, audience, width: int) -> None:
    for make in (samples.surplus_findings, samples.of_every_code):
        page = saved(tmp_path, page_of(audience, lang, make, LONGEST))
        outer = saved(tmp_path, MEASURE.format(page=page.name, width=width).encode(), "measure.html")
        dom = chromium("--allow-file-access-from-files", "--window-size=1400,1000", "--dump-dom", outer.as_uri()).stdout
        (found,) = re.findall(r"wide=(\d+) low=(\d+)", dom)
        assert int(found[0]) == width
        if width == 1280 and make is samples.surplus_findings:
            assert int(found[1]) <= 800


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("lang", LANGS)
def test_two_runs_side_by_side_do_not_overflow_either(tmp_path: Path, lang, width: int) -> None:
    page = saved(tmp_path, difference_page(samples.compared(), "html", Catalogue.load(lang)))
    outer = saved(tmp_path, MEASURE.format(page=page.name, width=width).encode(), "measure.html")
    dom = chromium("--allow-file-access-from-files", "--window-size=1400,1000", "--dump-dom", outer.as_uri()).stdout
    assert re.findall(r"wide=(\d+)", dom) == [str(width)]


@pytest.mark.parametrize("audience", [*AUDIENCES, "diff"])
@pytest.mark.parametrize("lang", LANGS)
def test_the_console_stays_silent_and_axe_finds_nothing(tmp_path: Path, lang, audience) -> None:
    if audience == "diff":
        raw = difference_page(samples.compared(), "html", Catalogue.load(lang))
    else:
        raw = page_of(audience, lang, samples.of_every_code, LONGEST, WITHDRAWN)
    page = saved(tmp_path, raw)
    said = chromium("--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()).stderr
    assert "CONSOLE" not in said
    if SHOTS:
        for width, height, dark in ((1280, 3000, ""), (360, 3000, ""), (1280, 3000, "--force-dark-mode")):
            name = f"{audience}-{lang}-{width}{'-dark' if dark else ''}.png"
            chromium(
                *filter(None, [dark]),
                f"--window-size={width},{height}",
                f"--screenshot={Path(SHOTS) / name}",
                page.as_uri(),
            )
    if not AXE_FILE:
        pytest.skip("AXE_CORE does not name axe-core's axe.min.js (npm install axe-core)")
    open_ = re.sub(rb"<meta http-equiv=[^>]*>", b"", raw)  # the page forbids every script, ours for the test as well
    script = b"<script>" + Path(AXE_FILE).read_bytes() + b"</script>" + AXE.encode()
    tested = saved(tmp_path, open_.replace(b"</body>", script + b"</body>"), "axe.html")
    dom = chromium("--virtual-time-budget=20000", "--window-size=1280,2000", "--dump-dom", tested.as_uri()).stdout
    result = re.search(r"AXE(\[.*?\])EXA</pre>", dom, re.DOTALL)
    assert result is not None
    assert json.loads(result[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")) == []


@pytest.mark.parametrize("lang", LANGS)
def test_a_pdf_can_be_read_back_and_is_guarded(lang) -> None:
    for audience in ("vendor", "internal"):
        made = pdf(page_of(audience, lang, samples.surplus_findings), lang, os.environ)
        said = readable(made)
        assert "508" in said
        assert samples.MODEL in re.sub(r"\s", "", said)
    with pytest.raises(LeakRefused):
        check(made, "vendor", ["inhouse-zq-line"], None, "card.pdf")


def test_without_weasyprint_an_installed_chromium_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_audit.report.printed._by_weasyprint", lambda _: None)
    made = pdf(page_of("vendor", "zh-CN", samples.surplus_findings), "zh-CN", {})
    assert "证据报告" in readable(made)


SCREENS = """<!doctype html><iframe id=f src="{page}" style="width:1080px;height:900px;border:0"></iframe>
<script>onload=()=>{{const s=[...f.contentDocument.querySelectorAll('.screen')];
document.body.append('over='+JSON.stringify(s.map(e=>e.scrollHeight-e.clientHeight)))}}</script>"""


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("lang", LANGS)
def test_every_screen_of_a_picture_holds_all_that_is_on_it(tmp_path: Path, lang, audience) -> None:
    """A picture has no scroll bar: what runs over its edge, the note on its limits first, is gone."""
    for make in MAKERS:
        for text, stopped, edition in (("OK", "", None), (samples.HOSTILE, "three_failures", WITHDRAWN)):
            run = samples.evidence(text=text, stopped=stopped)
            findings = make(run)
            verdict = samples.judged(run, findings)
            raw = render(
                run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, audience, "png", lang, edition=edition
            )  # fmt: skip
            page = saved(tmp_path, raw)
            outer = saved(tmp_path, SCREENS.format(page=page.name).encode(), "measure.html")
            dom = chromium(
                "--allow-file-access-from-files", "--window-size=1400,1000", "--dump-dom", outer.as_uri()
            ).stdout
            (over,) = re.findall(r"over=(\[[^\]]*\])", dom)
            assert json.loads(over) == [0] * 5, make


@pytest.mark.parametrize("lang", LANGS)
def test_a_picture_has_five_screens_and_no_text_chunk(lang) -> None:
    run = samples.evidence()
    findings = samples.of_every_code(run)
    verdict = samples.judged(run, findings)
    environ: Mapping[str, str] = os.environ
    page = render(run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, "public", "png", lang)
    sizes = [int(size) for size in re.findall(rb"font-size: (\d+)px|font: 400 (\d+)px", page) for size in size if size]
    assert min(sizes) >= 32
    raw = png(page, lang, environ)
    assert struct.unpack(">II", raw[16:24]) == (WIDTH, 5 * SCREEN)
    assert readable(raw) == ""
