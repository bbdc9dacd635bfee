"""The models that the lab sells in OpenAI's formats. `gpt-oss` carries a default system text of some seventy tokens."""

from __future__ import annotations

from decimal import Decimal

from relay_audit.lab.models import Model, Ratios


def _ratios(dollars_in: str, completion: str, cache: str) -> Ratios:
    return Ratios(Decimal(dollars_in) / 2, Decimal(completion), Decimal(cache), Decimal("1.25"))


_ROWS = (
    Model("gpt-6-sol", "gpt-6-sol-2026-09-15", "2026-09-15T00:00:00Z", "gpt-o200k", 128_000, 1_050_000, "",
          _ratios("2", "5", "0.1"), strict=True),
    Model("gpt-6-luna", "gpt-6-luna-2026-09-15", "2026-09-15T00:00:00Z", "gpt-o200k", 128_000, 1_050_000, "",
          _ratios("0.1", "5", "0.1"), strict=True),
    Model("gpt-4o", "gpt-4o-2024-08-06", "2024-08-06T00:00:00Z", "gpt-o200k", 16_384, 128_000, "",
          _ratios("2.5", "4", "0.5"), strict=False),
    Model("gpt-4.1-mini", "gpt-4.1-mini-2025-04-14", "2025-04-14T00:00:00Z", "gpt-o200k", 32_768, 1_047_576, "",
          _ratios("0.4", "4", "0.25"), strict=False),
    Model("gpt-oss-120b", "gpt-oss-120b", "2025-08-05T00:00:00Z", "gpt-oss", 131_072, 131_072, "",
          _ratios("0.5", "4", "1"), strict=False),
)  # fmt: skip
GPT_MODELS: dict[str, Model] = {row.name: row for row in _ROWS}
"""`display_name` is the dated name that answers carry; `strict` stands for a model that reasons."""
