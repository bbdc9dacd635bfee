"""What a report on paper or as a picture needs of a machine, and what is said where it is not there. Nothing is drawn here."""

from __future__ import annotations

from pathlib import Path
from shutil import which

import pytest

from relay_audit.errors import UsageError
from relay_audit.report.printed import pdf, png

NOTHING = {"RELAY_AUDIT_CHROMIUM": "/nowhere/chromium"}
"""Names a browser that is not there: then none is looked for."""


@pytest.mark.skipif(which("fc-list") is None, reason="asks fontconfig")
@pytest.mark.parametrize("draw", [pdf, png])
@pytest.mark.parametrize(
    ("lang", "text", "refused"),
    [("zh-CN", "<p>ok", True), ("en", "<p>the group 官转", True), ("en", "<p>the group default", False)],
)
def test_a_missing_chinese_font_is_an_error_and_not_a_page_of_boxes(
    draw, lang, text: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "fonts.conf"
    bare.write_text(f"<fontconfig><dir>{tmp_path}</dir></fontconfig>", encoding="utf-8")
    monkeypatch.setenv("FONTCONFIG_FILE", str(bare))
    monkeypatch.setattr("relay_audit.report.printed._by_weasyprint", lambda _: None)
    with pytest.raises(UsageError) as caught:
        draw(text.encode(), lang, NOTHING)
    assert ("no font for Chinese" in caught.value.message) is refused
    assert ("fonts-noto-cjk" in caught.value.next_step) is refused
    assert "--format " in caught.value.next_step
    assert caught.value.exit_code == 2


def test_without_a_browser_a_picture_names_what_to_install_and_the_text_to_take_instead() -> None:
    with pytest.raises(UsageError) as caught:
        png(b"<p>ok", "en", NOTHING)
    assert "install Chromium" in caught.value.next_step
    assert "--format text" in caught.value.next_step
    assert caught.value.exit_code == 2
