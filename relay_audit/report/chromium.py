"""An installed Chromium, Chrome or Edge as a printer: a child process without network, without our environment, with a
profile that is thrown away."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from relay_audit.errors import UsageError

VARIABLE = "RELAY_AUDIT_CHROMIUM"
NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "microsoft-edge-stable", "msedge",
)  # fmt: skip
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
"""Where macOS and Windows keep them."""
ALONE = (
    "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-breakpad", "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--force-color-profile=srgb",
)  # fmt: skip
"""No name that resolves, nothing that phones home; scripts are forbidden by the page itself."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "SystemRoot", "FONTCONFIG_PATH", "FONTCONFIG_FILE")
"""Of our environment; keys are not among it."""
TIMEOUT_S = 120


@dataclass(frozen=True)
class Chromium:
    program: str

    @staticmethod
    def find(environ: Mapping[str, str]) -> Chromium | None:
        """The one that `RELAY_AUDIT_CHROMIUM` names, else the first that is installed."""
        named = environ.get(VARIABLE, "")
        if named:
            found = which(named)
            return Chromium(found) if found else None
        found = next((path for name in NAMES if (path := which(name))), None)
        found = found or next((place for place in PLACES if Path(place).is_file()), None)
        return Chromium(found) if found else None

    def printed(self, page: bytes) -> bytes:
        """The page as PDF."""
        return self._made(page, "page.pdf", lambda out: [f"--print-to-pdf={out}", "--no-pdf-header-footer"])

    def drawn(self, page: bytes, width: int, height: int) -> bytes:
        """The page as PNG, in pixels."""
        return self._made(
            page, "page.png", lambda out: [f"--screenshot={out}", f"--window-size={width},{height}", "--force-device-scale-factor=1"]
        )  # fmt: skip

    def _made(self, page: bytes, name: str, wanted: Callable[[Path], list[str]]) -> bytes:
        with tempfile.TemporaryDirectory(prefix="relay-audit-", ignore_cleanup_errors=True) as folder:
            place, out = Path(folder) / "page.html", Path(folder) / name
            place.write_bytes(page)
            command = [self.program, *ALONE, f"--user-data-dir={folder}/profile", *wanted(out), place.as_uri()]
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                command.insert(1, "--no-sandbox")  # Chromium has no sandbox for root; the page holds no script
            try:
                subprocess.run(  # noqa: S603  a program the user installed or named, and our own arguments
                    command, env=_environment(folder), capture_output=True, timeout=TIMEOUT_S, check=False
                )
            except (OSError, subprocess.TimeoutExpired):
                raise _failed() from None
            if not out.is_file():
                raise _failed()
            return out.read_bytes()


def _environment(folder: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    home = "USERPROFILE" if sys.platform == "win32" else "HOME"
    return {**kept, home: folder, "TMPDIR": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder}


def _failed() -> UsageError:
    return UsageError(
        "the installed Chromium did not draw the page",
        next_step=f"try another one ({VARIABLE}=/path/to/chromium), or take --format html",
    )
