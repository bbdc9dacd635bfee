"""A TOML definition becomes a value, or a refusal one can act on: file, line, what is wrong, what was meant."""

from __future__ import annotations

import difflib
import re
from decimal import Decimal
from typing import Any, TypeVar, get_args

import tomli
from pydantic import BaseModel, ValidationError

from relay_audit.errors import PackError

Model = TypeVar("Model", bound=BaseModel)
Where = tuple[int | str, ...]

NEXT_STEP = (
    "correct the file and check it again (relay-audit probes check, relay-audit fingerprints check); nothing was sent"
)
NO_BOUND = "is missing: what a relay may charge for needs a bound (input_tokens, output_tokens, expected_output_tokens)"


def refuse(path: str, what: str, line: int | None = None) -> PackError:
    """The error for one file, to be raised by the caller."""
    place = f"{path}, line {line}" if line else path
    return PackError(f"{place}: {what}", next_step=NEXT_STEP, details={"file": path, "line": line})


def parse(path: str, text: str, *, money: bool = True) -> dict[str, Any]:
    """TOML with exact decimals. Raises `PackError`; the parser's own message names the line."""
    try:
        return tomli.loads(text, parse_float=Decimal if money else float)
    except tomli.TOMLDecodeError as error:
        raise refuse(path, f"not valid TOML: {error}") from None


def read_as(model: type[Model], table: Any, path: str, text: str, at: Where = ()) -> Model:  # noqa: ANN401  any TOML value
    """The table as its type. `at` says where in the file it stands. Raises `PackError` with every complaint."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        items = error.errors(include_input=False, include_url=False, include_context=False)
    items.sort(key=lambda item: item["type"] != "extra_forbidden")  # a misspelt key is the cause of the missing one
    complaints = [_complaint(dict(item), model, at) for item in items]
    raise refuse(path, "; ".join(complaints), line_of(text, (*at, *items[0]["loc"])))


def line_of(text: str, where: Where) -> int | None:
    """The line a place in a file stands on, or of the nearest thing around it that can be found."""
    lines = text.splitlines()
    found: int | None = None
    for index, part in enumerate(where):
        if isinstance(part, int):
            continue
        following = where[index + 1] if index + 1 < len(where) else 0
        start = found if found is not None else 0
        hits = [n for n in range(start, len(lines)) if _writes(str(part), lines[n])]
        if not hits:
            break
        found = hits[min(following, len(hits) - 1)] if isinstance(following, int) else hits[0]
    return None if found is None else found + 1


def nearest(word: str, known: list[str]) -> str:
    """` (did you mean x?)`, or what there is to choose from."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else f" (known: {', '.join(sorted(known))})"


def _writes(key: str, line: str) -> bool:
    name = f'"?{re.escape(key)}"?'
    header = rf"^\s*\[+\s*(?:[\w-]+\.)*{name}\s*\]"
    return re.search(rf"{header}|(?:^|[{{,])\s*{name}\s*=", line) is not None


def _complaint(item: dict[str, Any], model: type[BaseModel], at: Where) -> str:
    where: Where = item["loc"]
    place = (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*at, *where)).lstrip(".")
        or "the file"
    )
    if item["type"] == "extra_forbidden":
        return f"unknown key {place}{nearest(str(where[-1]), _known_at(model, where))}"
    if item["type"] == "missing":
        return f"{place} {NO_BOUND if where[-1] == 'bound' else 'is missing'}"
    return f"{place}: {str(item['msg']).removeprefix('Value error, ')}"


def _known_at(model: type[BaseModel], where: Where) -> list[str]:
    for part in where[:-1]:
        if isinstance(part, int):
            continue
        field = next((f for name, f in model.model_fields.items() if part in (name, f.alias)), None)
        inner = _model_in(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401  any annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
