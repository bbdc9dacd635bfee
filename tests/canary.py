"""Where a key may hide: written by the tests for themselves, so that the redactor is not asked about its own work."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

WINDOW = 12
"""Characters of a key in a row that are too many to see anywhere."""
WIDE = 16
"""The same for its base64 and hex forms."""


def forms(key: str) -> dict[str, bytes]:
    """Bytes that must not be found, under the name of the form they are."""
    raw = key.encode()
    found = {f"plain+{at}": raw[at : at + WINDOW] for at in range(len(raw) - WINDOW + 1)}
    found |= {f"reversed+{at}": part[::-1] for at in range(len(raw) - WINDOW + 1) for part in [raw[at : at + WINDOW]]}
    for shift in range(3):
        # what stands before the key decides its first characters; the last ones depend on what follows
        for name, encode in (("base64", base64.b64encode), ("base64url", base64.urlsafe_b64encode)):
            text = encode(b"\0" * shift + raw).rstrip(b"=")[4:-4]
            found |= {f"{name}/{shift}+{at}": text[at : at + WIDE] for at in range(len(text) - WIDE + 1)}
    for name, text in (("hex", raw.hex()), ("HEX", raw.hex().upper())):
        found |= {f"{name}+{at}": text[at : at + 2 * WINDOW].encode() for at in range(0, len(text) - 2 * WINDOW + 1, 2)}
    part = key[-2 * WINDOW :]
    found["utf-16-le"], found["utf-16-be"] = part.encode("utf-16-le"), part.encode("utf-16-be")
    found["percent"] = "".join(f"%{byte:02X}" for byte in part.encode()).encode()
    found["json"] = "".join(f"\\u{ord(char):04x}" for char in part).encode()
    found["html"] = "".join(f"&#{ord(char)};" for char in part).encode()
    found["quoted"] = quote(json.dumps(html.escape(key))).encode()
    return found


def found_in(raw: bytes, keys: Iterable[str]) -> list[str]:
    """Names of the forms in which one of the keys stands in these bytes."""
    return [name for key in keys for name, form in forms(key).items() if form in raw]


def leaks_below(folder: Path, keys: Iterable[str], leave_out: Iterable[Path] = ()) -> list[str]:
    """Every file below a folder whose bytes, name or place in the tree hold a key, with the form it has there."""
    wanted, skipped = list(keys), set(leave_out)
    return [
        f"{path.relative_to(folder)}: {name}"
        for path in sorted(folder.rglob("*"))
        if path not in skipped
        for name in found_in(str(path).encode() + b"\n" + (path.read_bytes() if path.is_file() else b""), wanted)
    ]
