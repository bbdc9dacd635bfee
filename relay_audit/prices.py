"""The buyer's own price file: it outranks the relay's list and ours.

[[price]]
side = "relay"                 # relay | official
models = ["claude-sonnet-5-5"] # names, * allowed
input = "2"                    # US (or site) dollars per million tokens
output = "10"
source = "contract of 2026-11"
observed = 2026-11-20
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from decimal import Decimal
from pathlib import Path

import tomli
from pydantic import Field, ValidationError

from relay_audit.errors import TargetError
from relay_audit.quote import UnitPrice
from relay_audit.words import Frozen, Side


class UserPrice(Frozen):
    side: Side
    models: tuple[str, ...] = Field(min_length=1)
    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    cache_read: Decimal | None = None
    per_call: Decimal | None = None
    source: str = Field(min_length=1)
    observed: dt.date


class PriceFile(Frozen):
    price: tuple[UserPrice, ...] = ()

    def of(self, side: Side, model: str) -> UnitPrice | None:
        for row in self.price:
            if row.side == side and any(fnmatch.fnmatchcase(model, pattern) for pattern in row.models):
                return UnitPrice(**row.model_dump(exclude={"side", "models"}))
        return None


def read_price_file(path: Path) -> PriceFile:
    """Raises `TargetError` naming the line's place, never its content."""
    try:
        return PriceFile.model_validate(tomli.loads(path.read_text(encoding="utf-8"), parse_float=Decimal))
    except OSError as error:
        raise TargetError(f"the price file cannot be read: {error.strerror}", next_step="correct its path") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError):
        raise TargetError("the price file is not TOML", next_step="see README, “Prices”") from None
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise TargetError(f"the price file: {faults}", next_step="correct the line; nothing was sent") from None
