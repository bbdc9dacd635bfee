"""The native parsers, C2PA's and MediaInfo's. Only the child process loads this module; either library may be missing.

Three locks keep a file from making this machine ask anybody anything: no manifest from elsewhere, no host at all, no
identity look-ups. The library ignores a misspelt setting in silence, so a test counts the requests.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

try:
    import c2pa
except Exception:  # noqa: BLE001  missing, or a library of another system: both mean that it is not there
    c2pa = None
try:
    import pymediainfo
except Exception:  # noqa: BLE001
    pymediainfo = None

USAGES = "\n".join(("1.3.6.1.5.5.7.3.4", "1.3.6.1.5.5.7.3.36", "1.3.6.1.4.1.311.76.59.1.9", "1.3.6.1.4.1.62558.2.1"))
"""Extended key usages of signing certificates: without this list, recent versions call a genuine one invalid."""
SETTINGS: dict[str, Any] = {
    "verify": {"verify_after_reading": True, "verify_trust": True, "remote_manifest_fetch": False, "ocsp_fetch": False},
    "core": {
        "allowed_network_hosts": [],
        "decode_identity_assertions": False,
        "max_decompressed_manifest_size_in_mb": 32,
    },
    "trust": {"trust_config": USAGES},
}
CODES_AT_MOST = 100
DETAIL_AT_MOST = 200


def libraries() -> dict[str, str]:
    """Versions of what is there."""
    found: dict[str, str] = {}
    if c2pa is not None:
        found["c2pa-python"] = version("c2pa-python")
        found["c2pa-rs"] = str(c2pa.sdk_version()).rsplit("/", 1)[-1]
    if pymediainfo is not None:
        try:
            found["pymediainfo"] = version("pymediainfo")
            found["mediainfo"] = str(pymediainfo.MediaInfo._get_library()[2])  # noqa: SLF001  nothing public says it
        except (PackageNotFoundError, OSError, AttributeError, TypeError, IndexError):
            found.setdefault("mediainfo", "unknown")
    return found


def integrity(path: Path) -> dict[str, Any]:
    """What the C2PA library says of the file, as codes; as `media_facts.Integrity`."""
    if c2pa is None:
        return {"state": "not_checked", "detail": "c2pa_missing"}
    try:
        with c2pa.Reader(str(path), context=c2pa.Context.from_dict(SETTINGS)) as reader:
            return _read(json.loads(reader.json()))
    except c2pa.C2paError.ManifestNotFound:
        return {"state": "absent"}
    except c2pa.C2paError.NotSupported as error:
        return {"state": "unsupported", "detail": _cut(error)}
    except c2pa.C2paError as error:
        text = str(error)
        return {"state": "remote" if text.startswith("Remote") else "unreadable", "detail": _cut(error)}


def _read(answer: dict[str, Any]) -> dict[str, Any]:
    active = answer["active_manifest"]
    results = answer["validation_results"]["activeManifest"]
    info = answer["manifests"][active].get("signature_info") or {}
    return {
        "state": "read",
        "success": _codes(results.get("success")),
        "failure": _codes(results.get("failure")),
        "label": str(active),
        "serial": str(info.get("cert_serial_number", "")),
        "signed_at": info.get("time"),
    }


def _codes(rows: Any) -> list[str]:  # noqa: ANN401  any JSON value
    return sorted({str(row.get("code", ""))[:80] for row in (rows or [])[:CODES_AT_MOST]})


def media_info(path: Path) -> list[dict[str, Any]] | None:
    """MediaInfo's tracks; None where it is not there or cannot read the file."""
    if pymediainfo is None:
        return None
    try:
        return [track.to_data() for track in pymediainfo.MediaInfo.parse(str(path)).tracks]
    except (OSError, RuntimeError, ValueError, FileNotFoundError):
        return None


def _cut(error: Exception) -> str:
    return str(error)[:DETAIL_AT_MOST]
