"""In a real Chromium: the card is one A4 page, nothing overflows on a phone. Run with `pytest -m browser`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from relay_audit.report.render import render
from relay_audit.words import LANGS
from tests.report import samples

pytestmark = pytest.mark.browser
CHROMIUM = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
MAKERS = [samples.surplus_findings, samples.honest_findings, samples.hostile_findings, samples.of_every_code]
MEASURE = """<!doctype html><iframe id=f src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<script>onload=()=>{{const d=f.contentDocument.documentElement;document.body.append('wide='+d.scrollWidth)}}</script>"""


def saved(folder: Path, audience, lang, make) -> Path:
    run = samples.evidence(text=samples.HOSTILE)
    findings = make(run)
    verdict = samples.judged(run, findings)
    path = folder / f"{audience}.html"
    path.write_bytes(render(run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, audience, "html", lang))
    return path


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("lang", LANGS)
def test_the_card_is_one_a4_page(tmp_path: Path, lang, make) -> None:
    page, pdf = saved(tmp_path, "internal", lang, make), tmp_path / "card.pdf"
    subprocess.run(
        [*CHROMIUM, f"--print-to-pdf={pdf}", "--no-pdf-header-footer", page.as_uri()], check=True, timeout=60
    )
    info = subprocess.run(["pdfinfo", pdf], check=True, capture_output=True, text=True).stdout
    assert re.search(r"^Pages:\s+1$", info, re.MULTILINE)
    assert "A4" in info


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("audience", ["vendor", "internal"])
@pytest.mark.parametrize("lang", LANGS)
def test_nothing_overflows(tmp_path: Path, lang, audience, width: int) -> None:
    page = saved(tmp_path, audience, lang, samples.of_every_code)
    outer = tmp_path / "measure.html"
    outer.write_text(MEASURE.format(page=page.name, width=width), encoding="utf-8")
    asked = [*CHROMIUM, "--allow-file-access-from-files", "--window-size=1400,1000", "--dump-dom", outer.as_uri()]
    dom = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout
    assert re.findall(r"wide=(\d+)", dom) == [str(width)]
