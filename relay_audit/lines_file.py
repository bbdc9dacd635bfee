"""The buyer's own lines of supply, for the decision card: what they cost and how often they answered, out of a file.

Success over 30 days cannot be measured by an audit; it comes from the buyer's monitoring, with its window and source.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import tomli
from pydantic import Field, ValidationError

from relay_audit.errors import UsageError
from relay_audit.words import Frozen


class Line(Frozen):
    """A line the buyer already has."""

    name: str = Field(min_length=1)
    model: str = Field(min_length=1)
    usd_per_mtok_in: Decimal | None = Field(default=None, gt=0)
    """US dollars per million input tokens."""
    usd_per_mtok_out: Decimal | None = Field(default=None, gt=0)
    success_30d: Decimal | None = Field(default=None, ge=0, le=1)
    """Share of calls that succeeded, 0 to 1; absent where nobody measured it."""
    window: str = ""
    """Of what days the share is."""
    source: str = ""
    """Who measured it."""


class LinesFile(Frozen):
    line: tuple[Line, ...] = ()


def read_lines(file: Path) -> tuple[Line, ...] | None:
    """None where the file is not there. Raises `UsageError` where it is not such a file."""
    try:
        table = tomli.loads(file.read_text(encoding="utf-8-sig"), parse_float=Decimal)
        return LinesFile.model_validate(table).line
    except OSError:
        return None
    except (UnicodeDecodeError, tomli.TOMLDecodeError):
        raise UsageError("the file of your lines is not TOML", next_step="see README, section “Target file”") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"the file of your lines: {place}: {first['msg']}",
            next_step="each [[line]] has name, model, usd_per_mtok_in, usd_per_mtok_out, success_30d, window, source",
        ) from None
