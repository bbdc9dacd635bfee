"""Compares the official price snapshots with the package genai-prices (a development dependency), and updates them.

    python scripts/refresh_prices.py --check    says what differs, exit 1 if anything does
    python scripts/refresh_prices.py            writes it

A price that changed gets a new row from today on, and the old row its last day: old runs keep the price of their day.
Rows that the package does not know stay as they are, and are named.
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import importlib.metadata
from decimal import Decimal
from pathlib import Path

import tomlkit
from genai_prices.data import providers
from tomlkit.items import AoT, Table

from relay_audit.fingerprint import canonical_model

SNAPSHOTS = Path(__file__).resolve().parent.parent / "known_fingerprints" / "prices"
VENDORS = {
    "anthropic": "anthropic", "openai": "openai", "deepseek": "deepseek", "google": "google", "moonshot": "moonshotai",
    "zhipu": "zai", "xai": "x-ai",
}  # fmt: skip
"""Name of a snapshot file → the package's name of the vendor. `video.toml` has another source and is kept by hand."""
FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "cache_read": "cache_read_mtok",
}
"""Our field → the package's."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything differs")
    parser.add_argument("--vendor", choices=sorted(VENDORS), action="append", help="only these; all without it")
    options = parser.parse_args()
    changed = [_refresh_file(SNAPSHOTS / f"{name}.toml", check=options.check) for name in options.vendor or VENDORS]
    return 1 if any(changed) and options.check else 0


def _refresh_file(file: Path, *, check: bool) -> bool:
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    changes, unknown = refresh(document, dt.datetime.now(dt.UTC).date(), VENDORS[file.stem])
    for line in changes:
        print(line)
    for name in unknown:
        print(f"{name}: not in genai-prices, kept")
    if changes and not check:
        file.write_text(tomlkit.dumps(document), encoding="utf-8", newline="\n")
    return bool(changes)


def refresh(document: tomlkit.TOMLDocument, today: dt.date, vendor: str = "anthropic") -> tuple[list[str], list[str]]:
    """Supersedes every open row whose numbers differ. Gives what changed, and the rows the package does not know."""
    rows = document["prices"]
    if not isinstance(rows, AoT):
        raise TypeError("prices is a list of tables")
    changes: list[str] = []
    unknown: list[str] = []
    for row in [row for row in rows if "valid_to" not in row]:
        listed = listed_prices(str(row["models"][0]), today, vendor)
        if listed is None:
            unknown.append(str(row["id"]))
            continue
        moved = {field: value for field, value in listed.items() if Decimal(str(row.get(field, "-1"))) != value}
        if moved:
            changes.append(f"{row['id']}: " + ", ".join(f"{f} {row.get(f)} -> {v}" for f, v in moved.items()))
            rows.append(_superseding(row, moved, today))
    return changes, unknown


def listed_prices(model: str, day: dt.date, vendor: str = "anthropic") -> dict[str, Decimal] | None:
    """What the package lists for a model on a day, the lowest tier of each price; None where it does not know it."""
    listed = next(provider for provider in providers if provider.id == vendor)
    found = next((row for row in listed.models if canonical_model(row.id) == model), None) or listed.find_model(model)
    if found is None:
        return None
    prices = found.get_prices(dt.datetime.combine(day, dt.time(12), dt.UTC))
    values = {ours: getattr(prices, theirs, None) for ours, theirs in FIELDS.items()}
    return {field: _lowest(value) for field, value in values.items() if value is not None}


def _lowest(price: object) -> Decimal:
    return Decimal(str(getattr(price, "base", price)))


def _superseding(row: Table, moved: dict[str, Decimal], today: dt.date) -> Table:
    fresh = copy.deepcopy(row)
    stem = str(row["id"]).split(".since_")[0]
    name = f"{stem}.since_{today:%Y_%m_%d}"
    fresh.update({field: f"{value:f}" for field, value in moved.items()})
    fresh.update({"id": name, "observed": today, "valid_from": today, "source": _source()})
    row.update({"valid_to": today - dt.timedelta(days=1), "superseded_by": name})
    return fresh


def _source() -> str:
    return f"genai-prices {importlib.metadata.version('genai-prices')}"


if __name__ == "__main__":
    raise SystemExit(main())
