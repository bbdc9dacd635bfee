"""What this machine can do, what we know that is out of date, and whether a key lies in a run folder."""

from __future__ import annotations

import datetime as dt
import importlib.util
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from relay_audit import __version__
from relay_audit.fingerprint import Knowledge, Known
from relay_audit.redaction import Redactor, Secret
from relay_audit.store import check_filesystem, folder_warnings
from relay_audit.target import Target
from relay_audit.workspace import Workspace

Row = dict[str, Any]
MEDIA_EXTRA = "media: pip install 'relay-audit-toolkit[media]'"
STAMP_EXTRA = "export --timestamp: pip install 'relay-audit-toolkit[timestamp]'"


def capabilities(space: Workspace, environ: Mapping[str, str]) -> list[Row]:
    return [
        _row("ready", "version", f"relay-audit-toolkit {__version__}, Python {sys.version.split()[0]}"),
        *_places(space, environ),
        *_platform(),
        _media(),
        _stamps(),
        _signatures(),
    ]


def _row(state: str, name: str, what: str) -> Row:
    return {"state": state, "name": name, "what": what}


def _places(space: Workspace, environ: Mapping[str, str]) -> Iterator[Row]:
    yield _row("ready", "sqlite", sqlite3.sqlite_version)
    try:
        check_filesystem(space.audits)
        yield _row("ready", "runs", str(space.audits))
    except Exception as error:  # noqa: BLE001  a check-up reports, it does not fail
        yield _row("absent", "runs", str(error))
    for warning in folder_warnings(space.audits):
        yield _row("degraded", "runs", warning)
    yield _row("ready", "state", str(space.state))
    for name in ("RELAY_KEY", "OFFICIAL_KEY"):
        yield _row(
            "ready" if environ.get(name) else "absent",
            name,
            "set" if environ.get(name) else "not set (named by the target file)",
        )


def _platform() -> Iterator[Row]:
    if sys.platform == "win32":
        yield _row(
            "degraded", "platform", "file modes 0600 mean nothing on Windows; the limited media child is not available"
        )
    else:
        yield _row("ready", "platform", sys.platform)
    browser = next((p for p in ("chromium", "chromium-browser", "google-chrome") if shutil.which(p)), None)
    yield _row(
        "ready" if browser else "absent",
        "browser",
        browser or "no Chromium: reports open in any browser; nothing here needs one",
    )


def _media() -> Row:
    missing = [name for name in ("c2pa", "pymediainfo") if importlib.util.find_spec(name) is None]
    return _row("absent" if missing else "ready", "media", MEDIA_EXTRA if missing else "installed")


def _stamps() -> Row:
    here = importlib.util.find_spec("rfc3161_client") is not None
    return _row("ready" if here else "absent", "time stamps", "installed" if here else STAMP_EXTRA)


def _signatures() -> Row:
    found = shutil.which("ssh-keygen")
    return _row("ready" if found else "absent", "ssh-keygen", found or "export --sign: install OpenSSH 8.2 or newer")


def stale(knowledge: Knowledge, today: dt.date) -> list[Row]:
    """Facts past their term, and those past twice their term, which accuse nobody any more."""
    rows = []
    for kind in ("ids", "headers", "errors", "baselines", "software", "models", "prices", "settings", "vendors"):
        facts: tuple[Known, ...] = getattr(knowledge, kind)
        for fact in facts:
            age = fact.age(today)
            if age != "fresh" and fact.valid_on(today):
                rows.append(
                    _row(
                        age,
                        fact.id,
                        f"{kind}, observed {fact.observed}; renew: observe it again and date it (CONTRIBUTING)",
                    )
                )
    return rows


def leaks(run: Path, target: Target, environ: Mapping[str, str]) -> list[Row]:
    """Files of a run in which a key of this environment stands, in any encoding the redactor knows."""
    keys = [environ[name] for name in target.key_names if environ.get(name)]
    if not keys:
        return [_row("absent", "keys", "no key of this run is set in the environment: nothing to look for")]
    redactor = Redactor([Secret(key, name="own", origin="none") for key in keys], b"")
    files = [path for path in sorted(run.rglob("*")) if path.is_file()]
    found = [path for path in files if redactor.clean(path.read_bytes()).own]
    if not found:
        return [_row("ready", "leaks", f"none in {len(files)} files")]
    return [_row("leak", str(path.relative_to(run)), "holds a key: revoke it and report this") for path in found]
