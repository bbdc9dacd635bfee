"""What a release is verified by: sdist and wheel, their digests, a locked dependency set, a bill of materials.

`python scripts/release.py [DIST]`. The locked set is what pip resolves on this platform; run it once per platform.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def build(dist: Path) -> Path:
    """sdist and, from it, the wheel. The result is the wheel."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)], check=True, stdout=sys.stderr)
    return max(dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def resolved(wheel: Path) -> list[dict[str, Any]]:
    """Every distribution that pip would install with this wheel, as pip's own report has it."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        "-",
        str(wheel),
    ]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return sorted(report["install"], key=lambda item: str(item["metadata"]["name"]).lower())


def sums(dist: Path) -> str:
    """In the form of sha256sum."""
    files = sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")])
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def requirements(items: list[dict[str, Any]]) -> str:
    return "".join(f"{name(item)}=={version(item)} \\\n    --hash=sha256:{digest(item)}\n" for item in items)


def bill(items: list[dict[str, Any]]) -> dict[str, Any]:
    """CycloneDX 1.6."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [
            {
                "type": "library",
                "name": name(item),
                "version": version(item),
                "purl": f"pkg:pypi/{name(item).lower()}@{version(item)}",
                "hashes": [{"alg": "SHA-256", "content": digest(item)}],
                "licenses": [{"license": {"name": licence(item)}}],
            }
            for item in items
        ],
    }


def name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def version(item: dict[str, Any]) -> str:
    return str(item["metadata"]["version"])


def digest(item: dict[str, Any]) -> str:
    return str(item["download_info"]["archive_info"]["hashes"]["sha256"])


def licence(item: dict[str, Any]) -> str:
    """As the package says it; classifiers where it says nothing else."""
    metadata = item["metadata"]
    tags = [tag.rsplit(" :: ", 1)[-1] for tag in metadata.get("classifier", ()) if tag.startswith("License ::")]
    return str(metadata.get("license_expression") or (tags[0] if tags else metadata.get("license") or "unknown"))


def main(arguments: list[str]) -> int:
    dist = Path(arguments[0]) if arguments else ROOT / "dist"
    wheel = build(dist)
    items = resolved(wheel)
    (dist / "SHA256SUMS").write_text(sums(dist), encoding="utf-8")
    (dist / "requirements.txt").write_text(requirements(items), encoding="utf-8")
    (dist / "sbom.cdx.json").write_text(json.dumps(bill(items), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{dist}: {len(items)} distributions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
