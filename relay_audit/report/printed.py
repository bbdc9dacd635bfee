"""Pages on paper and as a picture: PDF by WeasyPrint or an installed Chromium, PNG by Chromium; and what a finished file says.

A missing Chinese font is an error before anything is drawn: boxes instead of characters would look like a report.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which

from relay_audit.errors import LeakRefused, UsageError
from relay_audit.report.chromium import Chromium
from relay_audit.report.screens import SCREEN, WIDTH
from relay_audit.words import Lang

PNG = b"\x89PNG\r\n\x1a\n"
KEPT_CHUNKS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"sRGB", b"gAMA", b"IDAT", b"IEND"})
"""What a picture needs to be drawn; everything else could carry a text."""
SCREENS = 5
PROGRAM = """
import json, runpy, sys
sys.path[:0] = json.loads(sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__")
"""
KEPT_VARIABLES = (
    "PATH", "LANG", "LC_ALL", "TMPDIR", "TEMP", "SYSTEMROOT", "SystemRoot", "LD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
    "WEASYPRINT_DLL_DIRECTORIES", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "XDG_DATA_HOME",
)  # fmt: skip
"""Of our environment; keys are not among it."""
CHILD_S = 180
CHINESE = re.compile("[\u3400-\u9fff]")
NO_FONT = "no font for Chinese is installed: the text would be drawn as boxes"
FONT_STEP = "install one (Debian, Ubuntu: apt-get install fonts-noto-cjk), or take --format html, which needs none here"
NO_PRINTER = "nothing here can print: neither WeasyPrint nor a Chromium was found"
PRINT_STEP = (
    "pip install 'relay-audit-toolkit[pdf]' (with Pango), or install Chromium and name it in RELAY_AUDIT_CHROMIUM; "
    "--format html prints to A4 from any browser"
)


def pdf(page: bytes, lang: Lang, environ: Mapping[str, str]) -> bytes:
    """The page on A4. Raises `UsageError` where there is no font or nothing to print with."""
    _need_font(page, lang)
    made = _by_weasyprint(page)
    if made is not None:
        return made
    browser = Chromium.find(environ)
    if browser is None:
        raise UsageError(NO_PRINTER, next_step=PRINT_STEP)
    return browser.printed(page)


def png(page: bytes, lang: Lang, environ: Mapping[str, str]) -> bytes:
    """The screens as one picture, without any text chunk. Raises `UsageError`."""
    _need_font(page, lang)
    browser = Chromium.find(environ)
    if browser is None:
        raise UsageError(
            "a picture is drawn by an installed Chromium, and none was found",
            next_step="install Chromium (or name it in RELAY_AUDIT_CHROMIUM), or take --format text",
        )
    return _bare_png(browser.drawn(page, WIDTH, SCREEN * SCREENS))


def readable(raw: bytes) -> str:
    """What a finished report says, for whoever has to look it over: text of a PDF with its metadata, of a picture none."""
    if raw.startswith(b"%PDF"):
        return _pdf_text(raw)
    if raw.startswith(PNG):
        return "\n".join(body.decode("latin-1") for kind, body in _chunks(raw) if kind not in KEPT_CHUNKS)
    return raw.decode("utf-8", errors="replace")


def _by_weasyprint(page: bytes) -> bytes | None:
    """None where the library or its Pango is not there: then a browser may do it."""
    done = _child("relay_audit.report.typesetter", page)
    return done.stdout if done.returncode == 0 and done.stdout.startswith(b"%PDF") else None


def _child(module: str, raw: bytes) -> subprocess.CompletedProcess[bytes]:
    """A Python without our environment: these libraries are large, slow to load, and wanted once."""
    places = [str(Path(place).absolute()) for place in sys.path if place]
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return subprocess.run(  # noqa: S603  ourselves
        [sys.executable, "-I", "-c", PROGRAM, json.dumps(places), module],
        input=raw, capture_output=True, env=kept, timeout=CHILD_S, check=False,
    )  # fmt: skip


def _need_font(page: bytes, lang: Lang) -> None:
    """Where fontconfig can be asked; other systems bring their own Chinese fonts. An English page may hold Chinese, too: the
    name of a group, an answer."""
    asked = which("fc-list")
    if asked is None or (lang != "zh-CN" and not CHINESE.search(page.decode("utf-8", "replace"))):
        return
    found = subprocess.run(  # noqa: S603  our own constant arguments
        [asked, ":lang=zh-cn", "family"], capture_output=True, text=True, timeout=60, check=False
    )
    if not found.stdout.strip():
        raise UsageError(NO_FONT, next_step=FONT_STEP)


def _pdf_text(raw: bytes) -> str:
    """What cannot be read back cannot be let out. Raises `LeakRefused`."""
    done = _child("relay_audit.report.pdf_reader", raw)
    if done.returncode != 0:
        raise LeakRefused(
            "the report was not written: the text of the finished PDF could not be read back",
            next_step="take --format html; nothing was left on disk",
            details={"rule": "unreadable", "place": "in the PDF"},
        )
    return done.stdout.decode("utf-8", "replace")


def _bare_png(raw: bytes) -> bytes:
    return PNG + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in _chunks(raw)
        if kind in KEPT_CHUNKS
    )


def _chunks(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(PNG)
    while at + 12 <= len(raw):
        (size,) = struct.unpack(">I", raw[at : at + 4])
        yield raw[at + 4 : at + 8], raw[at + 8 : at + 8 + size]
        at += 12 + size
